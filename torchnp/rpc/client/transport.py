"""How frames get to a server and back: in process, or over TCP. A transport moves frames and knows nothing of them."""

from __future__ import annotations

import contextlib
import selectors
import socket
import time
from collections import deque
from collections.abc import Iterator
from typing import Protocol

from torchnp.rpc import wire
from torchnp.rpc.exceptions import ConnectionLost, ProtocolError

MAX_UNACKNOWLEDGED = 1 << 13
_SLICE = 1 << 18
# Unlike select, poll takes sockets whatever their number: a program may have thousands of files open.
_Selector = getattr(selectors, "PollSelector", selectors.SelectSelector)
# A peer that vanished without a word is given up after two minutes of silence to such questions.
_KEEPALIVE = (("SO_KEEPALIVE", 1), ("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))


def keep_alive(connection: socket.socket) -> None:
    """Have the system notice a peer whose machine or network is gone, which would be waited for without end."""
    for name, value in _KEEPALIVE:
        level = socket.SOL_SOCKET if name.startswith("SO_") else socket.IPPROTO_TCP
        with contextlib.suppress(OSError, AttributeError):  # not on every system, and not after the peer has left
            connection.setsockopt(level, getattr(socket, name), value)


class Transport(Protocol):
    """What the client needs of a transport.

    Attributes
    ----------
    name : str
        The server as messages name it.
    inherited : bool
        Whether a forked process has a session of its own; over a socket it would talk into its parent's.
    window : int
        Operators that the program may be ahead of the server.
    """

    name: str
    inherited: bool
    window: int
    bytes_sent: int
    bytes_received: int

    def send(self, frames: list[bytes]) -> None:
        """Send frames in order; blocks while the server is behind."""

    def receive(self, timeout: float | None = 0.0) -> bytes | None:
        """The next reply, or None if none comes within ``timeout`` seconds (None waits without end)."""

    def interrupt(self) -> None:
        """Leave the server; a `send` or `receive` that waits in another thread ends with an error."""

    def close(self) -> None:
        """Give back what the transport holds in this process; the first of all to do so leaves the server."""


class InProcess:
    """A server in this process, with everything that a wire does but the wire: frames are encoded and decoded.

    Frames are acted on when they are sent, in the sender's thread.
    """

    inherited = True
    window = 256  # so that temporaries do not pile up

    def __init__(self, connection: object, name: str = "local") -> None:
        self.name = name
        self.bytes_sent = self.bytes_received = 0
        self._connection = connection
        self._coming: deque[Iterator[bytes]] = deque()  # what a large tensor is cut into is made as it is received

    def send(self, frames: list[bytes]) -> None:
        for frame in frames:
            if self._connection.closed:  # type: ignore[attr-defined]
                if reply := self._reply():  # the reason is among them
                    self._coming.appendleft(iter([reply]))
                    return
                raise ConnectionLost(f"the server {self.name} has closed the session")
            self.bytes_sent += len(frame) + 4
            self._coming.append(iter(self._connection.handle(frame)))  # type: ignore[attr-defined]

    def _reply(self) -> bytes | None:
        while self._coming:
            if (reply := next(self._coming[0], None)) is not None:
                return reply
            self._coming.popleft()
        return None

    def receive(self, timeout: float | None = 0.0) -> bytes | None:
        reply = self._reply()
        if reply is not None:
            self.bytes_received += len(reply) + 4
            return reply
        if timeout == 0.0:
            return None
        # Replies are there as soon as a frame is sent: waiting would never end.
        raise ConnectionLost(f"the server {self.name} has closed the session")

    def interrupt(self) -> None:
        pass  # what it does ends on its own

    def close(self) -> None:
        self._connection.close()  # type: ignore[attr-defined]


class Tcp:
    """Frames over a TCP connection, each after its length.

    The socket never blocks on its own: while the server is not reading, replies are taken, so that two full
    directions cannot wait for each other.
    """

    inherited = False
    window = MAX_UNACKNOWLEDGED

    def __init__(self, host: str, port: int, timeout: float = 10.0) -> None:
        self.name = f"tcp://{host}:{port}"
        self.bytes_sent = self.bytes_received = 0
        try:
            self._socket = socket.create_connection((host, port), timeout)
        except OSError as error:
            raise ConnectionLost(f"no server answers at {self.name}: {error}") from None
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setblocking(False)
        keep_alive(self._socket)
        self._selector = _Selector()
        self._selector.register(self._socket, selectors.EVENT_READ)
        self._buffer = bytearray()
        self._unsent = bytearray()
        self._replies: deque[bytes] = deque()

    def send(self, frames: list[bytes]) -> None:
        # What an interrupt leaves unsent goes out first the next time: a frame is never cut in two.
        self._unsent += b"".join(map(wire.lengthened, frames))
        while self._unsent:
            try:
                sent = self._socket.send(self._unsent[:_SLICE])
                del self._unsent[:sent]
                self.bytes_sent += sent
            except BlockingIOError:
                if self._wait(selectors.EVENT_READ | selectors.EVENT_WRITE) & selectors.EVENT_READ:
                    self._read()
            except OSError as error:
                self._read_last_words()
                if not self._replies:
                    raise self._lost(error) from None
                return

    def receive(self, timeout: float | None = 0.0) -> bytes | None:
        end = None if timeout is None else time.monotonic() + timeout
        if not self._replies:
            self._read(one=True)
        while not self._replies:
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                return None
            if self._wait(selectors.EVENT_READ, left):
                self._read(one=True)
        return self._replies.popleft()

    def _wait(self, events: int, timeout: float | None = None) -> int:
        """Wait until one of some events is there; those that are."""
        key = self._selector.get_map()[self._socket]
        if key.events != events:
            self._selector.modify(self._socket, events)
        return next((found for _, found in self._selector.select(timeout)), 0)

    def interrupt(self) -> None:
        with contextlib.suppress(OSError):  # it may be gone
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._selector.close()
        self._socket.close()

    def _lost(self, why: object) -> ConnectionLost:
        return ConnectionLost(f"the connection to {self.name} is lost ({why}); its handles have no values any more")

    def _read_last_words(self) -> None:
        """Replies that came before the connection broke: the reason may be among them."""
        with contextlib.suppress(ConnectionLost):
            self._read()

    def _read(self, one: bool = False) -> None:
        """Take what has arrived, without waiting; ``one`` stops at a reply, so that a large tensor is not held twice."""
        while True:
            try:
                part = self._socket.recv(1 << 18)
            except BlockingIOError:
                break
            except OSError as error:
                if self._replies:
                    return
                raise self._lost(error) from None
            if not part:
                if self._replies:
                    return
                raise self._lost("the server closed it")
            self.bytes_received += len(part)
            self._buffer += part
            self._split()
            if one and self._replies:
                return

    def _split(self) -> None:
        start, buffer = 0, self._buffer
        while len(buffer) - start >= 4:
            length = int.from_bytes(buffer[start : start + 4], "big")
            if length > wire.MAX_FRAME:
                raise ProtocolError(f"{self.name} announced a frame of {length} bytes")
            if len(buffer) - start - 4 < length:
                break
            self._replies.append(bytes(buffer[start + 4 : start + 4 + length]))
            start += 4 + length
        del buffer[:start]
