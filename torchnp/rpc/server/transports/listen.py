"""Accept connections.

The first byte tells whether a client uses TLS, so that both sides get a clear error on a mismatch.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torchnp.rpc.exceptions import AuthenticationError, ProtocolError
from torchnp.rpc.wire.framing import ByteStream

_HANDSHAKE = b"\x16"  # the first byte of TLS; no frame begins with it


@dataclass(frozen=True)
class ServerCertificates:
    """The certificate files of a TLS server.

    Parameters
    ----------
    cert, key : str or Path
        PEM files: the server's certificate with its intermediates, and its key.
    client_ca : str or Path, optional
        PEM file of CAs. Only clients with a certificate from one of them are admitted.

    Raises
    ------
    ValueError
        A file is not given, does not exist, or is invalid.
    """

    cert: str | Path | None
    key: str | Path | None
    client_ca: str | Path | None = None

    def __post_init__(self) -> None:
        self.context()

    def context(self) -> ssl.SSLContext:
        """Return the SSL context for connections over TCP."""
        cert, key, ca = self.cert, self.key, self.client_ca
        if cert is None or key is None:
            raise ValueError(
                "TLS needs the certificate of the server and its key: give --tls-cert FILE and --tls-key FILE"
            )
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        _loaded(lambda: context.load_cert_chain(cert, key), f"the certificate {cert} and the key {key}")
        if ca is not None:
            _loaded(lambda: context.load_verify_locations(ca), f"the authorities of clients {ca}")
            # A client without a certificate is refused with a frame, which says why.
            context.verify_mode = ssl.CERT_OPTIONAL
        return context

    def contents(self) -> tuple[bytes, bytes, bytes | None]:
        """Return the contents of the files: certificate, key, and the CAs of clients."""
        assert self.cert is not None and self.key is not None
        ca = None if self.client_ca is None else Path(self.client_ca).read_bytes()
        return Path(self.cert).read_bytes(), Path(self.key).read_bytes(), ca


def _loaded(load: Callable[[], None], what: str) -> None:
    try:
        load()
    except (OSError, ssl.SSLError) as error:
        why = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        raise ValueError(f"cannot use {what}: {why}") from None


class Listener:
    """A TCP port that listens for connections.

    Parameters
    ----------
    host, port : str, int
        The address to listen on; port 0 picks a free port.

    Raises
    ------
    OSError
        The port cannot be bound.
    """

    def __init__(self, host: str, port: int) -> None:
        every = host in ("", "::") and socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if every or ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family, backlog=128, dualstack_ipv6=every)
        self._socket.setblocking(False)
        self.port: int = self._socket.getsockname()[1]

    async def start(self, arrived: Callable[[socket.socket, tuple], None]) -> None:
        """Start to accept connections; call ``arrived`` with each connection and its remote address."""
        self._accepting = asyncio.ensure_future(self._accept(arrived))

    async def _accept(self, arrived: Callable[[socket.socket, tuple], None]) -> None:
        while True:
            try:
                arrived(*await asyncio.get_running_loop().sock_accept(self._socket))
            except OSError:  # the client has already disconnected, or this process is out of file descriptors
                await asyncio.sleep(0.02)

    def close(self) -> None:
        """Stop accepting connections."""
        self._accepting.cancel()
        self._socket.close()

    async def closed(self) -> None:
        """Do nothing, because `close` already closes the port. `GrpcPort` has the same method, which waits."""


async def opened(connection: socket.socket, tls: ssl.SSLContext | None, deadline: float, linger: float) -> ByteStream:
    """Return the message stream of a connection, after the TLS handshake if TLS is used.

    ``deadline`` is the time of the event loop by which all this is done.

    Raises
    ------
    ProtocolError
        Only one side uses TLS.
    AuthenticationError
        The TLS handshake failed, for example because of a wrong client certificate.
    OSError, TimeoutError
        The client has disconnected, or sends nothing.
    """
    loop = asyncio.get_running_loop()
    async with asyncio.timeout_at(deadline):
        first = await _peek(connection)
    if not first:
        raise ConnectionResetError("it left without a word")
    if (first == _HANDSHAKE) != (tls is not None):
        if tls is None:
            raise ProtocolError("this port does not speak TLS: connect to tcp://HOST:PORT")
        raise ProtocolError("this port speaks TLS: connect to tls://HOST:PORT")
    try:
        _, stream = await loop.connect_accepted_socket(
            lambda: ByteStream(linger),
            connection,
            ssl=tls,
            ssl_handshake_timeout=max(deadline - loop.time(), 0.01) if tls else None,
            ssl_shutdown_timeout=linger if tls else None,
        )
    except ssl.SSLError as error:
        raise AuthenticationError(f"TLS: {error.reason or error}") from None
    return stream


def names_of(stream: ByteStream) -> frozenset[str] | None:
    """Return the common and alternative names in the client's certificate; None if it presented none."""
    shown = stream.transport.get_extra_info("peercert")
    if not shown:
        return None
    common = [value for part in shown.get("subject", ()) for key, value in part if key == "commonName"]
    return frozenset([*common, *(value for _, value in shown.get("subjectAltName", ()))])


async def _peek(connection: socket.socket) -> bytes:
    """Wait for the first byte of a connection and return it without consuming it; b"" at the end of the stream."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    while True:
        with contextlib.suppress(BlockingIOError):
            return connection.recv(1, socket.MSG_PEEK)
        ready.clear()
        loop.add_reader(connection, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(connection)
