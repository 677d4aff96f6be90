"""How frames get to a server and back: in process, or over TCP. A transport moves frames and knows nothing of them."""

from __future__ import annotations

import contextlib
import selectors
import socket
import ssl
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from torchnp.rpc import wire
from torchnp.rpc.exceptions import AuthenticationError, ConnectionLost, ProtocolError, RPCError

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


_ALERT = b"\x15\x03"  # how a server of TLS begins what it has to say to who does not speak it
_BLOCKED = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


def tls_context(ca: str | Path | None, cert: str | Path | None, key: str | Path | None) -> ssl.SSLContext:
    """What a client of TLS needs: whom it trusts, and who it is.

    Raises
    ------
    ValueError
        A file is not there, or not what it should be.
    """
    if (cert is None) != (key is None):
        raise ValueError("a certificate goes with its key: rpc.connect(..., cert=FILE, key=FILE)")
    try:
        context = ssl.create_default_context(cafile=ca)
        if cert is not None:
            context.load_cert_chain(cert, key)
    except (OSError, ssl.SSLError) as error:
        why = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        files = ", ".join(str(f) for f in (ca, cert, key) if f is not None)
        raise ValueError(f"cannot use {files}: {why}; certificates and keys are PEM files") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


class Tcp:
    """Frames over a TCP connection, each after its length.

    The socket never blocks on its own: while the server is not reading, replies are taken, so that two full
    directions cannot wait for each other.

    Parameters
    ----------
    host, port : str, int
    timeout : float
        Seconds for the connection and the handshake of TLS.
    tls : SSLContext, optional
        Without one nothing is encrypted.

    Raises
    ------
    ConnectionLost
        Nobody answers there.
    AuthenticationError
        The certificate is not trusted, or is another host's.
    """

    inherited = False
    window = MAX_UNACKNOWLEDGED

    def __init__(self, host: str, port: int, timeout: float = 10.0, tls: ssl.SSLContext | None = None) -> None:
        self.name = f"{'tls' if tls else 'tcp'}://{host}:{port}"
        self.bytes_sent = self.bytes_received = 0
        self._tls = tls is not None
        try:
            self._socket = socket.create_connection((host, port), timeout)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is not None:
                self._socket = _shaken(self._socket, tls, host, self.name)
        except OSError as error:
            raise ConnectionLost(f"no server answers at {self.name}: {error}") from None
        self._socket.setblocking(False)
        keep_alive(self._socket)
        self._selector = _Selector()
        self._selector.register(self._socket, selectors.EVENT_READ)
        self._buffer = bytearray()
        self._unsent: deque[memoryview] = deque()
        self._replies: deque[bytes] = deque()

    def send(self, frames: list[bytes]) -> None:
        # What an interrupt leaves unsent goes out first the next time: a frame is never cut in two.
        self._unsent.extend(memoryview(wire.lengthened(frame)) for frame in frames)
        while self._unsent:
            try:
                sent = self._socket.send(self._unsent[0][:_SLICE])
                self._unsent[0] = self._unsent[0][sent:]
                self.bytes_sent += sent
                if not self._unsent[0]:
                    self._unsent.popleft()
            except _BLOCKED:
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

    def _lost(self, why: object) -> RPCError:
        if self._tls and not self.bytes_received:
            return AuthenticationError(
                f"{self.name} closed the connection after the handshake of TLS ({why}): if it wants certificates of its "
                "clients, it does not trust this one (rpc.connect(..., cert=FILE, key=FILE))"
            )
        return ConnectionLost(f"the connection to {self.name} is lost ({why}); its handles have no values any more")

    def _read_last_words(self) -> None:
        """Replies that came before the connection broke: the reason may be among them."""
        with contextlib.suppress(RPCError):
            self._read()

    def _read(self, one: bool = False) -> None:
        """Take what has arrived, without waiting; ``one`` stops at a reply, so that a large tensor is not held twice."""
        while True:
            try:
                part = self._socket.recv(1 << 18)
            except _BLOCKED:
                break
            except OSError as error:
                if self._replies:
                    return
                raise self._lost(error) from None
            if not part:
                if self._replies:
                    return
                raise self._lost("the server closed it")
            if not self.bytes_received and part.startswith(_ALERT):
                raise ProtocolError(f"{self.name} speaks TLS: connect to tls://{self.name.removeprefix('tcp://')}")
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


def _shaken(connection: socket.socket, tls: ssl.SSLContext, host: str, name: str) -> ssl.SSLSocket:
    """The connection after the handshake of TLS."""
    try:
        return tls.wrap_socket(connection, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        connection.close()
        raise AuthenticationError(
            f"the certificate of {name} is not trusted: {error.verify_message}. "
            "Name the authority that signed it with rpc.connect(..., ca=FILE), and the host that it is for in the address"
        ) from None
    except (ssl.SSLError, ConnectionResetError) as error:
        connection.close()
        reason = getattr(error, "reason", None) or str(error)
        if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
            raise ProtocolError(f"{name} does not speak TLS: connect to tcp://{name.removeprefix('tls://')}") from None
        raise ConnectionLost(f"the handshake of TLS with {name} failed: {reason}") from None
