"""A proxy between client and server that records what passes, and cuts or changes it where a test asks for that."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable

HELD_SECONDS = 0.05  # a held message passes after this time if no other message comes


class Proxy:
    """Passes connections on to a port of loopback.

    Parameters
    ----------
    port : int
        The server's.
    cut : callable, optional
        Called with "up" or "down" and a part of what passes; how many bytes of it still pass before the connection is
        cut, or None for all of them.
    change : callable, optional
        Called with "up" or "down" and a part of what passes, empty where nothing came for a while; what passes instead.
    """

    def __init__(
        self,
        port: int,
        cut: Callable[[str, bytes], int | None] = lambda way, part: None,
        change: Callable[[str, bytes], bytes] | None = None,
    ) -> None:
        self._target, self._cut, self._change = port, cut, change
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.connections = 0
        self.up = bytearray()  # all bytes from clients
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
        with contextlib.suppress(OSError, ValueError):  # the socket may have been closed meanwhile
            while part := self._part(way, source):
                if way == "up":
                    self.up += part
                passes = self._cut(way, part)
                target.sendall(part[:passes])
                if passes is not None:
                    _reset(source)
                    _reset(target)
                    return
            target.shutdown(socket.SHUT_WR)

    def _part(self, way: str, source: socket.socket) -> bytes:
        """Return the bytes that pass next; empty at the end."""
        if self._change is None:
            return source.recv(1 << 16)
        while True:
            came = select.select([source], [], [], HELD_SECONDS)[0]
            part = source.recv(1 << 16) if came else b""
            if (changed := self._change(way, part)) or (came and not part):
                return changed


def _reset(s: socket.socket) -> None:
    with contextlib.suppress(OSError):
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.shutdown(socket.SHUT_RDWR)
    s.close()


# ---------------------------------------------------------------- where messages end


def ends(stream: bytes) -> list[int]:
    """Return where the messages of a TCP connection end: each message has its length in front."""
    found, at = [], 0
    while len(stream) >= at + 4 and len(stream) >= (at := at + 4 + int.from_bytes(stream[at : at + 4], "big")):
        found.append(at)
    return found


def ends_in_grpc(stream: bytes) -> list[int]:
    """Return where the messages of a gRPC connection end; they are in the frames of type 0 of HTTP/2 (RFC 9113,
    4.1)."""
    at = 24 if stream.startswith(b"PRI") else 0
    body, places = bytearray(), list[int]()  # the contents of those frames, and the position of each byte
    while len(stream) >= at + 9:
        length, kind = int.from_bytes(stream[at : at + 3], "big"), stream[at + 3]
        if kind == 0:
            part = stream[at + 9 : at + 9 + length]
            body += part
            places += range(at + 9, at + 9 + len(part))
        at += 9 + length
    found, at = [], 0
    while len(body) >= at + 5 and len(body) >= (at := at + 5 + int.from_bytes(body[at + 1 : at + 5], "big")):
        found.append(places[at - 1] + 1)
    return found


class Boundary:
    """Cuts a connection once, between the n-th message in one direction and the next, when the next arrives."""

    def __init__(self, way: str, n: int, ends: Callable[[bytes], list[int]] = ends) -> None:
        self.way, self.n, self.done = way, n, False
        self._ends, self._stream = ends, bytearray()

    def __call__(self, way: str, part: bytes) -> int | None:
        if self.done or way != self.way:
            return None
        before = len(self._stream)
        self._stream += part
        found = self._ends(self._stream)
        self.done = len(found) > self.n
        return max(found[self.n - 1] - before, 0) if self.done else None


class Disorder:
    """Has messages of TCP come twice, or after one that was sent later.

    Parameters
    ----------
    what : callable
        Called with "up" or "down" and the number of a message, from 0: "twice", "again" (once more after the next one),
        "late" (after the next one only), or "" for neither.
    """

    def __init__(self, what: Callable[[str, int], str]) -> None:
        self._what = what
        self.seen: Counter[str] = Counter()
        self._unread, self._held = {"up": b"", "down": b""}, {"up": b"", "down": b""}

    def __call__(self, way: str, part: bytes) -> bytes:
        stream = self._unread[way] + part
        out, at = b"", 0
        for end in ends(stream):
            message, at = stream[at:end], end
            what = self._what(way, self.seen[way])
            self.seen[way] += 1
            now = {"twice": 2 * message, "late": b""}.get(what, message)
            out += now + self._held[way]
            self._held[way] = message if what in ("again", "late") else b""
        self._unread[way] = stream[at:]
        if not part:
            out, self._held[way] = out + self._held[way], b""
        return out
