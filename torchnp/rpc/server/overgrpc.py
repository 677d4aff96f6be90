"""The server over gRPC: one method, a stream of messages each way, and the health service; no generated code."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from urllib.parse import unquote

import grpc
import grpc.aio

from torchnp.rpc import wire
from torchnp.rpc.exceptions import ProtocolError
from torchnp.rpc.server.link import Stream
from torchnp.rpc.server.listen import Certificates

_OPTIONS = [
    ("grpc.max_receive_message_length", wire.MAX_MESSAGE),
    ("grpc.max_metadata_size", wire.MAX_HELLO),
    ("grpc.so_reuseport", 0),  # two servers on one port would share its clients
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 30_000),
]
# grpc.health.v1: a request has a name in field 1, an answer a status.
_SERVING, _NOT_SERVING, _UNKNOWN = b"\x08\x01", b"\x08\x02", b"\x08\x03"


class GrpcPort:
    """A port that sessions come in by.

    Parameters
    ----------
    host, port : str, int
        Where to listen; port 0 takes a free one.
    certificates : Certificates, optional
        Without them nothing is encrypted.

    Raises
    ------
    OSError
        The port cannot be had.
    """

    def __init__(self, host: str, port: int, certificates: Certificates | None) -> None:
        self._server = grpc.aio.server(options=_OPTIONS)
        where = f"[{host or '::'}]:{port}" if ":" in (host or "::") else f"{host}:{port}"
        try:
            if certificates is None:
                self.port = self._server.add_insecure_port(where)
            else:
                cert, key, ca = certificates.contents()
                credentials = grpc.ssl_server_credentials([(key, cert)], ca, ca is not None)
                self.port = self._server.add_secure_port(where, credentials)
        except RuntimeError as error:
            raise OSError(f"cannot listen on {where}: {error}") from None
        self._stopping = asyncio.Event()

    async def start(self, talk: Callable[[Stream, str, str, str, set[str]], Awaitable[None]]) -> None:
        """Let clients in: ``talk`` is called with the stream, host and address of each, the token of its metadata, and
        the names of its certificate.
        """

        async def session(_: object, context: grpc.aio.ServicerContext) -> None:
            peer = unquote(context.peer()).partition(":")[2]
            said = dict(context.invocation_metadata() or ()).get("authorization", "")
            shown = context.auth_context()
            keys = ("x509_common_name", "x509_subject_alternative_name")
            names = {name.decode(errors="replace") for key in keys for name in shown.get(key, ())}
            await talk(_Stream(context), peer.rpartition(":")[0], peer, str(said).removeprefix("Bearer "), names)

        methods = {"Session": grpc.stream_stream_rpc_method_handler(session)}
        health = {
            "Check": grpc.unary_unary_rpc_method_handler(self._check),
            "Watch": grpc.unary_stream_rpc_method_handler(self._watch),
        }
        self._server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler(wire.GRPC_SERVICE, methods),
                grpc.method_handlers_generic_handler("grpc.health.v1.Health", health),
            )
        )
        await self._server.start()

    def close(self) -> None:
        """Say that no session is to be had any more."""
        self._stopping.set()

    async def closed(self) -> None:
        """Wait until all is closed."""
        await self._server.stop(0.5)

    def _status(self, request: bytes) -> bytes:
        if request[2:].decode(errors="replace") not in ("", wire.GRPC_SERVICE):
            return _UNKNOWN
        return _NOT_SERVING if self._stopping.is_set() else _SERVING

    async def _check(self, request: bytes, context: grpc.aio.ServicerContext) -> bytes:
        status = self._status(request)
        if status == _UNKNOWN:
            await context.abort(grpc.StatusCode.NOT_FOUND, "there is no such service")
        return status

    async def _watch(self, request: bytes, context: grpc.aio.ServicerContext) -> AsyncIterator[bytes]:
        yield self._status(request)
        await self._stopping.wait()
        yield self._status(request)


class _Stream:
    """Messages over a call."""

    def __init__(self, context: grpc.aio.ServicerContext) -> None:
        self._context = context

    async def read(self, limit: int = wire.MAX_MESSAGE) -> bytes | None:
        message = await self._context.read()
        if message is grpc.aio.EOF:
            return None
        if len(message) > limit:
            raise ProtocolError(f"a frame of {len(message)} bytes is longer than the {limit} that may come here")
        return message

    async def write(self, messages: list[bytes]) -> None:
        try:
            for message in messages:
                await self._context.write(message)
        except (grpc.RpcError, grpc.aio.UsageError, asyncio.InvalidStateError) as error:
            raise ConnectionResetError(str(error)) from None

    async def close(self, last: bytes = b"") -> None:
        if last:
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await self.write([last])
