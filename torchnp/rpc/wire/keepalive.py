"""TCP keepalive, for the client's sockets and the server's."""

from __future__ import annotations

import contextlib
import socket

# A peer that vanished without a word is given up after two minutes of silence to such questions.
_KEEPALIVE = (("SO_KEEPALIVE", 1), ("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))


def keep_alive(connection: socket.socket) -> None:
    """Have the system notice a peer whose machine or network is gone, which would be waited for without end."""
    for name, value in _KEEPALIVE:
        level = socket.SOL_SOCKET if name.startswith("SO_") else socket.IPPROTO_TCP
        with contextlib.suppress(OSError, AttributeError):  # not on every system, and not after the peer has left
            connection.setsockopt(level, getattr(socket, name), value)
