"""The transport interface, and the transports in process and over TCP; they move most frames without decoding them."""

from __future__ import annotations

import contextlib
import selectors
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from torchnp.rpc import wire
from torchnp.rpc.client.transports.error_frames import last_word
from torchnp.rpc.exceptions import AuthenticationError, ConnectionLost, ProtocolError, RPCError
from torchnp.rpc.wire.keepalive import keep_alive

MAX_UNACKNOWLEDGED = 1 << 13
LINGER_SECONDS = 1.0  # time that the server has to close its end of the connection
_SLICE = 1 << 18
# Unlike select, poll accepts any file descriptor number: a program may have thousands of files open.
_Selector = getattr(selectors, "PollSelector", selectors.SelectSelector)


class Transport(Protocol):
    """The interface of a transport.

    Attributes
    ----------
    name : str
        The server's name in messages.
    inherited : bool
        Whether a forked process gets its own session. Over a socket, it would write into its parent's session.
    window : int
        Number of operators that the program may be ahead of the server.
    bytes_sent, bytes_received : int
        Totals so far, length prefixes included.
    """

    name: str
    inherited: bool
    window: int

    @property
    def bytes_sent(self) -> int: ...

    @property
    def bytes_received(self) -> int: ...

    def greet(self, hello: wire.Hello, timeout: float | None) -> bytes | None:
        """Send HELLO; return the answer, or None if there is none within ``timeout`` seconds."""

    def send(self, frames: list[bytes]) -> None:
        """Send frames in order; block while the server is too far behind."""

    def receive(self, timeout: float | None = 0.0) -> wire.Bytes | None:
        """Return the next reply, or None if none arrives within ``timeout`` seconds; ``timeout=None`` sets no limit."""

    def interrupt(self) -> None:
        """Leave the server for good; a `send` or `receive` blocked in another thread ends with an error."""

    def close(self) -> None:
        """Release the transport's resources in this process."""


def greeted(transport: Transport, agreement: wire.Agreement, token: str | None, timeout: float | None) -> wire.Welcome:
    """Send HELLO and return the server's WELCOME; close the transport on any other outcome."""
    hello = wire.Hello(wire.VERSION, agreement.digest, len(agreement.names), wire.package(), token or "")
    with contextlib.ExitStack() as refused:
        refused.callback(transport.close)
        frame = transport.greet(hello, timeout)
        if frame is None:
            raise ConnectionLost(f"{transport.name} did not answer within {timeout:g} s: is it a server of torchnp's?")
        reply = wire.decode_reply(frame)
        if type(reply) is wire.Err and reply.fatal:
            raise last_word(reply, transport.name)
        if type(reply) is not wire.Welcome:
            raise ProtocolError(f"{transport.name} did not answer as a server of torchnp's does")
        refused.pop_all()
    return reply


class Stream(Protocol):
    """The interface of a connection, which moves messages (see `torchnp.rpc.wire`).

    A session may use several connections, one after the other.

    Attributes
    ----------
    name : str
        The server's name in messages.
    """

    name: str
    bytes_sent: int
    bytes_received: int

    def send(self, messages: list[bytes]) -> None:
        """Send messages in order; raise ConnectionLost if that fails."""

    def receive(self, timeout: float | None) -> bytes | None:
        """Return the next message, or None if none arrives within ``timeout`` seconds.

        Raise ConnectionLost when the connection has ended.
        """

    def leave(self, last: bytes) -> None:
        """Send a last message, from any thread and without waiting; a blocked `send` or `receive` then raises."""

    def close(self) -> None:
        """Release the connection's resources in this process."""


class InProcess:
    """A transport to a server in this process; frames are encoded and decoded as for a network.

    The server handles each frame during `send`, in the sender's thread.
    """

    inherited = True
    window = 256  # small, so that temporary objects do not accumulate

    def __init__(self, connection: object, name: str = "local") -> None:
        self.name = name
        self.bytes_sent = self.bytes_received = 0
        self._connection = connection
        self._coming: deque[Iterator[bytes]] = deque()  # lazy: a large tensor's chunks are made as they are received

    def greet(self, hello: wire.Hello, timeout: float | None) -> bytes | None:
        self.send([wire.encode(hello)])
        return self.receive()

    def send(self, frames: list[bytes]) -> None:
        for frame in frames:
            if self._connection.closed:  # type: ignore[attr-defined]
                if reply := self._reply():  # the reason is among the replies
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
        # Replies exist as soon as a frame is sent, so waiting for another one would never end.
        raise ConnectionLost(f"the server {self.name} has closed the session")

    def interrupt(self) -> None:
        pass  # the handling of a frame ends without an interrupt

    def close(self) -> None:
        self._connection.close()  # type: ignore[attr-defined]


_ALERT = b"\x15\x03"  # start of the TLS alert that a TLS server sends to a plain client
_BLOCKED = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


def tls_context(ca: str | Path | None, cert: str | Path | None, key: str | Path | None) -> ssl.SSLContext:
    """Return the client's TLS context, which has the trusted authorities and the client's own certificate.

    Raises
    ------
    ValueError
        A file is missing or invalid, or a certificate was given without its key.
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


class _Untrusted(AuthenticationError, ConnectionLost):
    """Raised when the connection ends right after the TLS handshake: it was lost, or the server rejects the client."""


class Tcp:
    """Length-prefixed messages over TCP or TLS.

    The socket is non-blocking: while the server does not read, the client takes replies, so that full buffers in both
    directions cannot cause a deadlock.

    Parameters
    ----------
    host, port : str, int
    timeout : float
        Seconds for the connection and the TLS handshake.
    tls : SSLContext, optional
        The TLS context; without it, nothing is encrypted.

    Raises
    ------
    ConnectionLost
        No server answers at the address.
    AuthenticationError
        The server's certificate is not trusted, or is for another host.
    """

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
        self._cut = False  # whether a message may be partly sent
        self._lock = threading.Lock()  # guards the socket, for single calls only
        self._left = False
        self._woken, self._wake = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._replies: deque[bytes] = deque()
        self._waiting = 0  # received bytes not yet returned by `receive`

    def send(self, messages: list[bytes]) -> None:
        # Bytes that an interrupt leaves unsent are sent first in the next call, so messages stay whole.
        self._unsent.extend(map(memoryview, wire.gathered(messages)))
        while self._unsent:
            try:
                self._send_part()
            except _BLOCKED:
                # A server that respects the window never has more replies outstanding than this.
                listens = selectors.EVENT_READ if self._waiting < 2 * wire.WINDOW else 0
                if self._wait(listens | selectors.EVENT_WRITE) & selectors.EVENT_READ:
                    self._read()
            except OSError as error:
                self._read_last_words()
                if not self._replies:
                    raise self._lost(error) from None
                self._unsent.clear()

    def _send_part(self) -> None:
        with self._lock:
            sent = self._socket.send(self._unsent[0][:_SLICE])
            self._unsent[0] = self._unsent[0][sent:]
            if not self._unsent[0]:
                self._unsent.popleft()
            self._cut = bool(self._unsent)
        self.bytes_sent += sent

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
        reply = self._replies.popleft()
        self._waiting -= len(reply) + 4
        return reply

    def _wait(self, events: int, timeout: float | None = None) -> int:
        """Wait for one of some events; return those that are ready."""
        key = self._selector.get_map()[self._socket]
        if key.events != events:
            self._selector.modify(self._socket, events)
        found = self._selector.select(timeout)
        if self._left:
            raise self._lost("the session is closed")
        return next((events for key, events in found if key.fileobj is self._socket), 0)

    def leave(self, last: bytes) -> None:
        with self._lock, contextlib.suppress(OSError):  # the socket may be gone
            self._left = True
            self._wake.send(b"x")
            if not self._cut:
                with contextlib.suppress(*_BLOCKED):
                    self._socket.send(wire.lengthened(last))
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        if self._left:  # closing with unread data would reset the connection and lose the last message
            end = time.monotonic() + LINGER_SECONDS
            with contextlib.suppress(OSError):
                self._socket.settimeout(LINGER_SECONDS)
                while self._socket.recv(1 << 18) and time.monotonic() < end:
                    pass
        self._selector.close()
        for s in (self._socket, self._woken, self._wake):
            s.close()

    def _lost(self, why: object) -> ConnectionLost:
        if self._tls and not self.bytes_received:
            return _Untrusted(
                f"{self.name} closed the connection after the handshake of TLS ({why}): if it wants certificates of its "
                "clients, it does not trust this one (rpc.connect(..., cert=FILE, key=FILE))"
            )
        return ConnectionLost(f"the connection to {self.name} is lost ({why}); its handles have no values any more")

    def _read_last_words(self) -> None:
        """Read the replies that arrived before the connection broke, because they may contain the reason."""
        with contextlib.suppress(RPCError):
            self._read()

    def _read(self, one: bool = False) -> None:
        """Read the messages that have arrived, without waiting.

        With ``one``, stop after one reply, so that a large tensor is not held twice. Read at most about a window at a
        time, so that a server that never stops sending cannot block the client.
        """
        end = self.bytes_received + wire.WINDOW
        while self.bytes_received < end:
            try:
                with self._lock:
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
            self._waiting += len(part)
            self._buffer += part
            self._split()
            if one and self._replies:
                return

    def _split(self) -> None:
        start, buffer = 0, self._buffer
        while len(buffer) - start >= 4:
            length = int.from_bytes(buffer[start : start + 4], "big")
            if length > wire.MAX_MESSAGE:
                raise ProtocolError(f"{self.name} announced a frame of {length} bytes")
            if len(buffer) - start - 4 < length:
                break
            self._replies.append(bytes(buffer[start + 4 : start + 4 + length]))
            start += 4 + length
        del buffer[:start]


def _shaken(connection: socket.socket, tls: ssl.SSLContext, host: str, name: str) -> ssl.SSLSocket:
    """Perform the TLS handshake and return the encrypted connection."""
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
