"""A program between a client and a server that sees what passes, and cuts connections where a test wants it."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable


class Proxy:
    """Passes connections on to a port of loopback.

    Parameters
    ----------
    port : int
        The server's.
    cut : callable, optional
        Called with "up" or "down" and a part of what passes; how many bytes of it still pass before the connection is
        cut, or None for all of them.
    """

    def __init__(self, port: int, cut: Callable[[str, bytes], int | None] = lambda way, part: None) -> None:
        self._target, self._cut = port, cut
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.connections = 0
        self.up = bytearray()  # all that came from clients
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()

    def __enter__(self) -> Proxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop()

    def drop(self) -> None:
        """Cut all connections."""
        with self._lock:
            for s in self._open:
                _reset(s)
            self._open.clear()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                try:
                    server = socket.create_connection(("127.0.0.1", self._target))
                except OSError:
                    _reset(client)
                    continue
                self.connections += 1
                with self._lock:
                    self._open |= {client, server}
                for way, source, target in (("up", client, server), ("down", server, client)):
                    threading.Thread(target=self._carry, args=(way, source, target), daemon=True).start()

    def _carry(self, way: str, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while part := source.recv(1 << 16):
                if way == "up":
                    self.up += part
                passes = self._cut(way, part)
                target.sendall(part[:passes])
                if passes is not None:
                    _reset(source)
                    _reset(target)
                    return
            target.shutdown(socket.SHUT_WR)


def _reset(s: socket.socket) -> None:
    with contextlib.suppress(OSError):
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.shutdown(socket.SHUT_RDWR)
    s.close()
