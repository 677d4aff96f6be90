"""Connecting to an address: choice of transport and certificates."""

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

DEADLINE_SECONDS = 3600.0  # default limit for one answer


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
    compress: bool = False,
    cache_bytes: int = 0,
) -> Session:
    """Open a session with a server at ``tls://host:port``, ``tcp://host:port``, or with gRPC ``grpcs://``, ``grpc://``.

    Parameters
    ----------
    address : str
        The address that the server prints; over ``tcp`` and ``grpc`` nothing is encrypted.
    token : str, optional
        The token that the server's owner gave out; required by servers that accept connections from other machines.
    table : mapping, optional
        The server's kernels by full overload name, if they are not torchnp's table.
    timeout : float, optional
        Seconds to wait for the server's first answer.
    ca : str or Path, optional
        A PEM file of trusted certificate authorities; by default the system's.
    cert, key : str or Path, optional
        PEM files of the client's own certificate and its key, for a server that requires them.
    reconnect : float, optional
        Seconds for which the client tries to reconnect before it gives up the session; 0 disables reconnecting.
    silence : float, optional
        Seconds without a message, while the client waits for a reply, after which the connection counts as lost.
    deadline : float, optional
        Seconds that a request waits for its answer, by default an hour; None sets no limit. See `Session.deadline`.
    compress, cache_bytes : optional
        Options that make uploads smaller: see `Session.compress` and `Session.cache_bytes`.

    Returns
    -------
    Session
        An open session; a context manager that closes itself.

    Raises
    ------
    TypeError, ValueError
        The address or the token is invalid, or a certificate cannot be used.
    ConnectionLost
        No server answers within ``timeout`` seconds.
    AuthenticationError, VersionMismatch
        The server refused the session, or its certificate is not trusted.
    """
    _check_token(token)
    check_seconds(timeout=timeout, silence=silence, **({} if deadline is None else {"deadline": deadline}))
    dial = _dialer(address, *_parts(address), (ca, cert, key), token)
    transport = ReconnectingTransport(dial, timeout, reconnect, silence)
    options = {"timeout": timeout, "deadline": deadline, "compress": compress, "cache_bytes": cache_bytes}
    return _opened(transport, None if address.startswith("grpc") else token, table, options)


def _opened(transport: ReconnectingTransport, token: str | None, table: Any, options: dict[str, Any]) -> Session:
    """Return a session over a transport. Over gRPC, the call's metadata has already carried the token."""
    return Session(transport, token, None if table is None else Agreement(table), **options)


def _check_token(token: Any) -> None:
    if token is not None and not isinstance(token, str):
        raise TypeError(f"a token is a string, not a value of type {type(token).__name__}")


def _dialer(
    address: str, scheme: str, host: str, port: int, files: tuple, token: str | None
) -> Callable[[float], Stream]:
    """Return a function that connects to an address; raise ValueError for certificates without encryption."""
    if not _SCHEMES[scheme] and any(file is not None for file in files):
        raise ValueError(
            f"certificates are for TLS, and {address} does without: write {_SAFE[scheme]}{address[len(scheme) :]}"
        )
    tls = tls_context(*files) if _SCHEMES[scheme] else None
    if scheme.startswith("grpc"):
        # A gRPC deadline would end the session. Instead, `timeout` limits the first answer, `silence` and `deadline`
        # the others.
        return _caller(host, port, None if tls is None else files, token)
    return lambda seconds: Tcp(host, port, seconds, tls)


def _parts(address: Any) -> tuple[str, str, int]:
    """Split an address into scheme, host and port."""
    if not isinstance(address, str):
        raise TypeError(f"an address is a string, tls://HOST:PORT, not a value of type {type(address).__name__}")
    scheme, _, rest = address.partition("://")
    host, _, port = rest.rpartition(":")
    if scheme not in _SCHEMES or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"{address!r} is no address: write tls://HOST:PORT or tcp://HOST:PORT, or grpcs or grpc")
    return scheme, host.strip("[]"), int(port)


# Whether each scheme is encrypted, and for those that are not, the encrypted scheme.
_SCHEMES = {"tcp": False, "tls": True, "grpc": False, "grpcs": True}
_SAFE = {"tcp": "tls", "grpc": "grpcs"}


def _caller(host: str, port: int, files: tuple | None, token: str | None) -> Callable[[float], Stream]:
    """Return a function that connects over gRPC."""
    if token is not None and not (token.isascii() and token.isprintable()):
        raise ValueError("gRPC takes a token of printable ASCII characters")
    try:
        from torchnp.rpc.client.transports.grpc_transport import Grpc, credentials
    except ModuleNotFoundError as error:
        raise explained(error, "gRPC", "torch,rpc,grpc", "grpc") from None
    trust = None if files is None else credentials(*files)
    return lambda seconds: Grpc(host, port, trust, token)
