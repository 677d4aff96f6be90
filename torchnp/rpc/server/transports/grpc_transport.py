"""The server's gRPC transport: one bidirectional streaming method and the health service, without generated code."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from urllib.parse import unquote

import grpc
import grpc.aio

from torchnp.rpc import wire
from torchnp.rpc.exceptions import ProtocolError
from torchnp.rpc.server.process.link import ClientStream
from torchnp.rpc.server.transports.auth_throttle import Strangers, host_of
from torchnp.rpc.server.transports.grpc_front_proxy import Inner, Relay
from torchnp.rpc.server.transports.listen import Listener, ServerCertificates

MAX_STREAMS = 16  # number of concurrent calls on one connection
MAX_WATCHES, MAX_WATCHES_OF_HOST = 32, 8
WATCH_SECONDS = 600.0  # a health watch ends after this time; clients may call again
LINGER_SECONDS = 2.0  # seconds in which a client must receive the last message

_OPTIONS = [
    ("grpc.max_receive_message_length", wire.MAX_MESSAGE),
    ("grpc.max_metadata_size", wire.MAX_HELLO),
    ("grpc.max_concurrent_streams", MAX_STREAMS),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 30_000),
]
# grpc.health.v1: field 1 is the service name in requests, and the status in replies.
_SERVING, _NOT_SERVING, _UNKNOWN = b"\x08\x01", b"\x08\x02", b"\x08\x03"


class GrpcPort:
    """A gRPC port that listens for connections.

    Parameters
    ----------
    host, port : str, int
        The address to listen on; port 0 picks a free port.
    certificates : ServerCertificates, optional
        Certificates for TLS. If None, connections are not encrypted.
    strangers : Strangers
        The unauthenticated connections of the server.
    seconds : float
        Time for which a connection may stay unauthenticated.

    Raises
    ------
    OSError
        The port cannot be bound.
    """

    def __init__(
        self, host: str, port: int, certificates: ServerCertificates | None, strangers: Strangers, seconds: float
    ) -> None:
        self._listener = Listener(host, port)
        self.port = self._listener.port
        self._strangers, self._seconds = strangers, seconds
        self._inner = Inner()
        self._relays: set[asyncio.Task] = set()
        self._watches: Counter[str] = Counter()
        self._server = grpc.aio.server(options=[*_OPTIONS, ("grpc.server_handshake_timeout_ms", int(seconds * 1e3))])
        where = f"unix:{self._inner.path}"
        try:
            if certificates is None:
                self._server.add_insecure_port(where)
            else:
                cert, key, ca = certificates.contents()
                credentials = grpc.ssl_server_credentials([(key, cert)], ca, ca is not None)
                self._server.add_secure_port(where, credentials)
        except RuntimeError as error:
            self._inner.close()
            raise OSError(f"cannot listen on {where}: {error}") from None
        self._stopping = asyncio.Event()

    async def start(self, talk: Callable[[ClientStream, Relay, str, set[str]], Awaitable[None]]) -> None:
        """Start serving.

        ``talk`` is called with each client's stream, relay, token in the metadata, and certificate names.
        """

        async def session(_: object, context: grpc.aio.ServicerContext) -> None:
            said = dict(context.invocation_metadata() or ()).get("authorization", "")
            shown = context.auth_context()
            keys = ("x509_common_name", "x509_subject_alternative_name")
            names = {name.decode(errors="replace") for key in keys for name in shown.get(key, ())}
            if (relay := self._relay_of(context)) is not None:
                await talk(_Stream(context, relay), relay, str(said).removeprefix("Bearer "), names)

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
        await self._listener.start(self._arrived)

    def close(self) -> None:
        """Stop accepting connections, and report NOT_SERVING to health checks."""
        self._listener.close()
        self._stopping.set()

    async def closed(self) -> None:
        """Stop the gRPC server, and close all connections."""
        await self._server.stop(0.5)
        for task in self._relays:
            task.cancel()
        if self._relays:
            await asyncio.wait(self._relays, timeout=LINGER_SECONDS)
        self._inner.close()

    def _relay_of(self, context: grpc.aio.ServicerContext) -> Relay | None:
        return self._inner.relay_of(unquote(context.peer()))

    def _arrived(self, connection: socket.socket, address: tuple) -> None:
        host = host_of(address[0])
        relay = Relay(host, f"{address[0]}:{address[1]}")
        task = asyncio.ensure_future(self._carry(connection, relay))
        relay.spoke = lambda: self._strangers.spoke(task)
        self._relays.add(task)
        task.add_done_callback(self._relays.discard)
        task.add_done_callback(lambda _: connection.close())  # closes it even if the task is cancelled before it begins
        self._strangers.add(task, host)

    async def _carry(self, connection: socket.socket, relay: Relay) -> None:
        """Carry a connection's bytes; end the connection if it is unauthenticated for too long."""
        task = asyncio.current_task()
        assert task is not None
        with contextlib.suppress(OSError, TimeoutError):
            async with self._inner.carry(connection, relay, LINGER_SECONDS):
                while True:
                    async with asyncio.timeout(self._seconds):
                        if not await relay.known():
                            return
                    self._strangers.forget(task)
                    if not await relay.unknown():
                        return
                    self._strangers.add(task, relay.host)

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
        relay = self._relay_of(context)
        if relay is None:
            return
        if self._watches.total() >= MAX_WATCHES or self._watches[relay.host] >= MAX_WATCHES_OF_HOST:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "there are as many watches as the server takes")
        self._watches[relay.host] += 1
        relay.hold()
        try:
            yield self._status(request)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(WATCH_SECONDS):
                    await self._stopping.wait()
                yield self._status(request)
        finally:
            relay.let_go()
            self._watches[relay.host] -= 1
            self._watches += Counter()  # removes hosts with a count of 0


class _Stream:
    """The `ClientStream` of a gRPC call."""

    def __init__(self, context: grpc.aio.ServicerContext, relay: Relay) -> None:
        self._context, self._relay = context, relay

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
                try:
                    async with asyncio.timeout(LINGER_SECONDS):
                        await self.write([last])
                except TimeoutError:  # the client does not read, so its connection is of no use
                    self._relay.end()
