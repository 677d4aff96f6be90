"""From an address to a session: which transport goes there, and with which certificates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from torchnp.core.optional_deps import explained
from torchnp.rpc.client.session.session import Session
from torchnp.rpc.client.transports.reconnect import SILENCE_SECONDS, ReconnectingTransport
from torchnp.rpc.client.transports.requests import check_seconds
from torchnp.rpc.client.transports.transport import Stream, Tcp, tls_context
from torchnp.rpc.wire import Agreement

DEADLINE_SECONDS = 3600.0  # for one answer


def connect(
    address: str,
    token: str | None = None,
    *,
    table: Any = None,
    timeout: float = 10.0,
    ca: str | Path | None = None,
    cert: str | Path | None = None,
    key: str | Path | None = None,
    reconnect: float = 30.0,
    silence: float = SILENCE_SECONDS,
    deadline: float | None = DEADLINE_SECONDS,
) -> Session:
    """A session with a server at ``tls://host:port`` or ``tcp://host:port``, or one of gRPC at ``grpcs://`` or ``grpc://``.

    Parameters
    ----------
    address : str
        As the server prints it; over ``tcp`` and ``grpc`` nothing is encrypted.
    token : str, optional
        What the server's owner gave out; every server beyond loopback wants one.
    table : mapping, optional
        The kernels that the server has by full overload name, where they are not torchnp's table.
    timeout : float, optional
        Seconds to wait for the server's first answer.
    ca : str or Path, optional
        A PEM file of the authorities whose certificates a server may have; by default the system's.
    cert, key : str or Path, optional
        PEM files of the client's own certificate and its key, for a server that wants them.
    reconnect : float, optional
        Seconds for which a lost connection is tried again before the session is given up; 0 for not at all.
    silence : float, optional
        Seconds without a word from the server, while a reply is waited for, after which the connection is taken for lost
        and made again, ten minutes by default. An operator may take longer than that, on a server that is there.
    deadline : float, optional
        Seconds that whoever asks waits for an answer, an hour by default; None for no end. See `Session.deadline`.

    Returns
    -------
    Session
        Open; a context manager that closes itself.

    Raises
    ------
    TypeError, ValueError
        The address or the token is none, or a certificate cannot be used.
    ConnectionLost
        Nothing answers there within ``timeout`` seconds.
    AuthenticationError, VersionMismatch
        The server refused, or its certificate is not trusted.
    """
    if token is not None and not isinstance(token, str):
        raise TypeError(f"a token is a string, not a value of type {type(token).__name__}")
    check_seconds(timeout=timeout, silence=silence, **({} if deadline is None else {"deadline": deadline}))
    scheme, host, port = _parts(address)
    dial = _dialer(address, scheme, host, port, (ca, cert, key), token)
    transport = ReconnectingTransport(dial, timeout, reconnect, silence)
    said = None if scheme.startswith("grpc") else token  # there it goes with the call
    agreed = None if table is None else Agreement(table)
    return Session(transport, said, agreed, timeout=timeout, deadline=deadline)


def _dialer(
    address: str, scheme: str, host: str, port: int, files: tuple, token: str | None
) -> Callable[[float], Stream]:
    """What makes connections to an address; ValueError for certificates where nothing is encrypted."""
    if not _SCHEMES[scheme] and any(file is not None for file in files):
        raise ValueError(
            f"certificates are for TLS, and {address} does without: write {_SAFE[scheme]}{address[len(scheme) :]}"
        )
    tls = tls_context(*files) if _SCHEMES[scheme] else None
    if scheme.startswith("grpc"):
        # A deadline of the call's would end the session: `timeout` bounds its first answer, `silence` and `deadline` others.
        return _caller(host, port, None if tls is None else files, token)
    return lambda seconds: Tcp(host, port, seconds, tls)


def _parts(address: Any) -> tuple[str, str, int]:
    """The scheme, host and port of an address."""
    if not isinstance(address, str):
        raise TypeError(f"an address is a string, tls://HOST:PORT, not a value of type {type(address).__name__}")
    scheme, _, rest = address.partition("://")
    host, _, port = rest.rpartition(":")
    if scheme not in _SCHEMES or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"{address!r} is no address: write tls://HOST:PORT or tcp://HOST:PORT, or grpcs or grpc")
    return scheme, host.strip("[]"), int(port)


# Whether each is encrypted, and what the others would be.
_SCHEMES = {"tcp": False, "tls": True, "grpc": False, "grpcs": True}
_SAFE = {"tcp": "tls", "grpc": "grpcs"}


def _caller(host: str, port: int, files: tuple | None, token: str | None) -> Callable[[float], Stream]:
    """What makes connections over gRPC."""
    if token is not None and not (token.isascii() and token.isprintable()):
        raise ValueError("gRPC takes a token of printable ASCII characters")
    try:
        from torchnp.rpc.client.transports.grpc_transport import Grpc, credentials
    except ModuleNotFoundError as error:
        raise explained(error, "gRPC", "torch,rpc,grpc", "grpc") from None
    trust = None if files is None else credentials(*files)
    return lambda seconds: Grpc(host, port, trust, token)
