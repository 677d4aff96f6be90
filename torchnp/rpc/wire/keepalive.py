"""TCP keepalive for client and server sockets."""

from __future__ import annotations

import contextlib
import socket

# A peer that vanished silently is detected after two minutes: 60 s idle, then four unanswered probes 15 s apart.
_KEEPALIVE = (("SO_KEEPALIVE", 1), ("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))


def keep_alive(connection: socket.socket) -> None:
    """Enable keepalive, so that waiting ends if the peer's machine or network is gone."""
    for name, value in _KEEPALIVE:
        level = socket.SOL_SOCKET if name.startswith("SO_") else socket.IPPROTO_TCP
        # Some systems lack an option; setting fails after the peer has left.
        with contextlib.suppress(OSError, AttributeError):
            connection.setsockopt(level, getattr(socket, name), value)
