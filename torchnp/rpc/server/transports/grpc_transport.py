"""The server's gRPC transport: one bidirectional streaming method and the health service, without generated code.

Each connection has a gRPC server of its own. A server of gRPC shuts down when its accepting loop raises, and a client can
make it raise, with a method name that is no UTF-8. So it loses its own connection, and nobody else's.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import grpc.aio

from torchnp.rpc import wire
from torchnp.rpc.exceptions import ProtocolError
from torchnp.rpc.server.process.link import ClientStream
from torchnp.rpc.server.transports.auth_throttle import Strangers, host_of
from torchnp.rpc.server.transports.certificate_names import names_in
from torchnp.rpc.server.transports.grpc_front_proxy import Inner, Relay, carry
from torchnp.rpc.server.transports.listen import Listener, ServerCertificates

MAX_STREAMS = 16  # number of concurrent calls on one connection
MAX_WATCHES, MAX_WATCHES_OF_HOST = 32, 8
WATCH_SECONDS = 600.0  # a health watch ends after this time; clients may call again
LINGER_SECONDS = 2.0  # seconds in which a client must receive the last message
GRACE_SECONDS = 0.5  # time that calls have to end when the port closes

_OPTIONS = [
    ("grpc.max_receive_message_length", wire.MAX_MESSAGE),
    ("grpc.max_metadata_size", wire.MAX_HELLO),
    ("grpc.max_concurrent_streams", MAX_STREAMS),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 30_000),
    # Some releases of gRPC unpack a message completely before they look at its length.
    ("grpc.per_message_decompression", 0),
    ("grpc.compression_enabled_algorithms_bitset", 1),
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
        self._idle = contextlib.AsyncExitStack()
        self._relays: set[asyncio.Task] = set()
        self._servers: set[grpc.aio.Server] = set()
        self._stops: set[asyncio.Future] = set()  # of servers; they go on if their relay is cancelled once more
        self._watches: Counter[str] = Counter()
        self._options = [*_OPTIONS, ("grpc.server_handshake_timeout_ms", int(seconds * 1e3))]
        self._credentials: Any = None
        if certificates is not None:
            cert, key, ca = certificates.contents()
            self._credentials = grpc.ssl_server_credentials([(key, cert)], ca, ca is not None)
        self._stopping = asyncio.Event()

    async def start(self, talk: Callable[[ClientStream, Relay, str, frozenset[str]], Awaitable[None]]) -> None:
        """Start serving.

        ``talk`` is called with each client's stream, relay, token in the metadata, and certificate names.

        Raises
        ------
        OSError
            gRPC cannot serve, for example because it cannot use the certificate.
        """
        self._talk = talk
        try:
            # One server is always there: without any, gRPC would end its thread, and the event loop would wait for that.
            os.unlink(await self._idle.enter_async_context(self._serving(Relay("", ""))))
            await self._listener.start(self._arrived)
        except OSError:
            self._inner.close()
            raise

    @contextlib.asynccontextmanager
    async def _serving(self, relay: Relay) -> AsyncIterator[str]:
        """Run a gRPC server for one connection while the block runs; yield the path of its socket."""
        path = self._inner.new_path()
        server = grpc.aio.server(options=self._options)
        server.add_generic_rpc_handlers(self._handlers(relay))
        try:
            if self._credentials is None:
                server.add_insecure_port(f"unix:{path}")
            else:
                server.add_secure_port(f"unix:{path}", self._credentials)
        except RuntimeError as error:
            raise OSError(f"cannot listen on unix:{path}: {error}") from None
        self._servers.add(server)
        try:
            await server.start()
            yield path
        finally:
            self._servers.discard(server)
            stop = asyncio.ensure_future(_stop(server))
            self._stops.add(stop)
            stop.add_done_callback(self._stops.discard)
            await asyncio.shield(stop)

    def _handlers(self, relay: Relay) -> tuple[grpc.GenericRpcHandler, ...]:
        """Return the methods that gRPC serves on one connection."""

        async def session(_: object, context: grpc.aio.ServicerContext) -> None:
            said = dict(context.invocation_metadata() or ()).get("authorization", "")
            shown = context.auth_context().get("x509_pem_cert")
            names = names_in(shown[0].decode()) if shown else frozenset[str]()
            await self._talk(_Stream(context, relay), relay, str(said).removeprefix("Bearer "), names)

        async def watch(request: bytes, context: grpc.aio.ServicerContext) -> AsyncIterator[bytes]:
            async for status in self._watch(request, context, relay):
                yield status

        methods = {"Session": grpc.stream_stream_rpc_method_handler(session)}
        health = {
            "Check": grpc.unary_unary_rpc_method_handler(self._check),
            "Watch": grpc.unary_stream_rpc_method_handler(watch),
        }
        return (
            grpc.method_handlers_generic_handler(wire.GRPC_SERVICE, methods),
            grpc.method_handlers_generic_handler("grpc.health.v1.Health", health),
        )

    def close(self) -> None:
        """Stop accepting connections, and report NOT_SERVING to health checks."""
        self._listener.close()
        self._stopping.set()

    async def closed(self) -> None:
        """Stop all gRPC servers, and close all connections."""
        await asyncio.gather(*(_stop(server, GRACE_SECONDS) for server in self._servers))
        for task in self._relays:
            task.cancel()
        await self._idle.aclose()
        if both := self._relays | self._stops:
            await asyncio.wait(both, timeout=LINGER_SECONDS)
        self._inner.close()

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
            async with self._serving(relay) as path, carry(connection, path, relay, LINGER_SECONDS):
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

    async def _watch(self, request: bytes, context: grpc.aio.ServicerContext, relay: Relay) -> AsyncIterator[bytes]:
        if self._watches.total() >= MAX_WATCHES or self._watches[relay.host] >= MAX_WATCHES_OF_HOST:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "there are as many watches as the server takes")
        self._watches[relay.host] += 1
        relay.hold_watch()
        try:
            yield self._status(request)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(WATCH_SECONDS):
                    await self._stopping.wait()
                yield self._status(request)
        finally:
            relay.let_go_watch()
            self._watches[relay.host] -= 1
            self._watches += Counter()  # removes hosts with a count of 0


async def _stop(server: grpc.aio.Server, grace: float | None = None) -> None:
    """Stop a server completely: one that is garbage before would let gRPC wait for it in the garbage collector."""
    with contextlib.suppress(UnicodeDecodeError):  # by which it has shut down already
        await server.stop(grace)


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
