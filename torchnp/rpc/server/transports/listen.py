"""Connections to a server's port: each is looked at before TLS begins, so that both sides hear what is wrong."""

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

_HANDSHAKE = b"\x16"  # what the first byte of TLS is, and of no frame


@dataclass(frozen=True)
class ServerCertificates:
    """What a server of TLS needs.

    Parameters
    ----------
    cert, key : str or Path
        PEM files of the server's certificate, with those between it and its authority, and of its key.
    client_ca : str or Path, optional
        A PEM file of the authorities of clients; without a certificate of theirs nobody is let in.

    Raises
    ------
    ValueError
        A file is not given, not there, or not what it should be.
    """

    cert: str | Path | None
    key: str | Path | None
    client_ca: str | Path | None = None

    def __post_init__(self) -> None:
        self.context()

    def context(self) -> ssl.SSLContext:
        """For connections over TCP."""
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
            context.verify_mode = ssl.CERT_OPTIONAL  # who has none is told so in a frame
        return context

    def contents(self) -> tuple[bytes, bytes, bytes | None]:
        """What is in the files."""
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
    """A port that connections are taken from.

    Parameters
    ----------
    host, port : str, int
        Where to listen; port 0 takes a free one.

    Raises
    ------
    OSError
        The port cannot be had.
    """

    def __init__(self, host: str, port: int) -> None:
        every = host in ("", "::") and socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if every or ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family, backlog=128, dualstack_ipv6=every)
        self._socket.setblocking(False)
        self.port: int = self._socket.getsockname()[1]

    async def start(self, arrived: Callable[[socket.socket, tuple], None]) -> None:
        """Have a function called with each connection, and the address that it comes from."""
        self._accepting = asyncio.ensure_future(self._accept(arrived))

    async def _accept(self, arrived: Callable[[socket.socket, tuple], None]) -> None:
        while True:
            try:
                arrived(*await asyncio.get_running_loop().sock_accept(self._socket))
            except OSError:  # it has left again, or this process has no more files to open
                await asyncio.sleep(0.02)

    def close(self) -> None:
        """Take no more."""
        self._accepting.cancel()
        self._socket.close()

    async def closed(self) -> None:
        """Wait until all is closed."""


async def opened(connection: socket.socket, tls: ssl.SSLContext | None, seconds: float, linger: float) -> ByteStream:
    """The messages of a connection, after the handshake of TLS where there is one.

    Raises
    ------
    ProtocolError
        One side speaks TLS and the other does not.
    AuthenticationError
        The client has no certificate, or a wrong one.
    OSError, TimeoutError
        The client has left, or says nothing.
    """
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(seconds):
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
            ssl_handshake_timeout=seconds if tls else None,
            ssl_shutdown_timeout=linger if tls else None,
        )
    except ssl.SSLError as error:
        raise AuthenticationError(f"TLS: {error.reason or error}") from None
    return stream


def names_of(stream: ByteStream) -> frozenset[str] | None:
    """The names of the certificate that the client has shown, common and alternative; None where it has shown none."""
    shown = stream.transport.get_extra_info("peercert")
    if not shown:
        return None
    common = [value for part in shown.get("subject", ()) for key, value in part if key == "commonName"]
    return frozenset([*common, *(value for _, value in shown.get("subjectAltName", ()))])


async def _peek(connection: socket.socket) -> bytes:
    """The first byte of a connection, which stays there; empty where there is none to come."""
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
