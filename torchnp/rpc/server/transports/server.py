"""The server, without torch: asyncio accepts clients over TCP, TLS or gRPC, and one process per session computes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import msgspec

from torchnp.core.optional_deps import lacking
from torchnp.core.registry import FAILURES
from torchnp.rpc import wire
from torchnp.rpc.exceptions import AuthenticationError, ProtocolError
from torchnp.rpc.server.config.limits import Limits
from torchnp.rpc.server.config.settings import BUCKET, MAX_CLIENTS
from torchnp.rpc.server.config.tokens import Rights, Token
from torchnp.rpc.server.monitoring.event_log import note, place_of
from torchnp.rpc.server.monitoring.metrics import serving
from torchnp.rpc.server.monitoring.rlimits import limit_memory
from torchnp.rpc.server.process.link import ClientStream
from torchnp.rpc.server.process.sessions import LINGER_SECONDS, LiveSession, Sessions
from torchnp.rpc.server.session.protocol import greet, last_word
from torchnp.rpc.server.session.server_state import ServerState
from torchnp.rpc.server.transports.auth_throttle import Refusals, Strangers, host_of
from torchnp.rpc.server.transports.listen import Listener, ServerCertificates, names_of, opened
from torchnp.rpc.wire.keepalive import keep_alive

LOOPBACK = ("127.0.0.1", "localhost", "::1")
HELLO_SECONDS = 10.0
STOP_SECONDS = 2.0  # time for telling clients that the server stops
_STOPPED = "the server has been stopped: the session's handles have no values any more"


class Server(Sessions):
    """Listens for clients, and opens or resumes a session for each connection.

    Parameters
    ----------
    state : ServerState
        What the sessions share: operators, datasets and rights.
    host, port : str, int
        The address to listen on; port 0 picks a free port.
    max_clients : int
        Number of sessions at a time; further clients are refused with a reason.
    max_memory : int, optional
        Number of bytes that all sessions together may hold.
    tls : ServerCertificates, optional
        The server's certificate, and the CAs that sign client certificates; if None, connections are not encrypted.
    grpc : bool
        Whether to speak gRPC instead of plain TCP or TLS.

    Raises
    ------
    TypeError, ValueError
        The host is not loopback and there is no token, the port is invalid, gRPC is not installed, or a client is
        identified by a certificate but no CA for client certificates is given.
    """

    def __init__(
        self,
        state: ServerState,
        host: str = "127.0.0.1",
        port: int = 0,
        max_clients: int = MAX_CLIENTS,
        max_memory: int | None = None,
        tls: ServerCertificates | None = None,
        grpc: bool = False,
    ) -> None:
        if type(port) is not int:
            raise TypeError(f"a port is an integer, not a value of type {type(port).__name__}")
        if not 0 <= port < 65536:
            raise ValueError(f"there is no port {port}: give one from 1 to 65535, or 0 for a free one")
        if host not in LOOPBACK and state.open:
            raise ValueError(
                f"refusing to listen on {host} without a token: anybody who can reach it could use this server. "
                "Give a token, or listen on 127.0.0.1"
            )
        _check_certificates(state.tokens.by_name.values(), tls)
        if grpc and (missing := lacking("rpc,grpc", "grpc", "cryptography")):
            raise ValueError(f"gRPC {missing}")
        super().__init__(state, max_clients, max_memory)
        self.host, self.port, self.certificates, self.grpc = host, port, tls, grpc
        self.tls = None if tls is None else tls.context()
        self._clients: set[asyncio.Task] = set()
        self._strangers, self._refusals = Strangers(), Refusals()
        self._thread: threading.Thread | None = None

    def invitation(self) -> str:
        """Return a line that says where the server listens and how to connect."""
        host = socket.gethostname() if self.host in ("", "0.0.0.0", "::") else self.host
        scheme = ("grpcs" if self.tls else "grpc") if self.grpc else ("tls" if self.tls else "tcp")
        address = f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"
        more = ", token=..." if any(t.hash for t in self.state.tokens.by_name.values()) else ""
        if self.tls is not None:
            more += ", ca=..." if self.tls.verify_mode == ssl.CERT_NONE else ", ca=..., cert=..., key=..."
        return f'listening on {self.host}:{self.port}; connect with rpc.connect("{address}"{more})'

    # ------------------------------------------------------------ running

    async def run(self, ready: Any = None, stop: asyncio.Event | None = None) -> None:
        """Serve until ``stop`` is set; call ``ready`` when the port is open."""
        stop = stop or asyncio.Event()
        self.state.tell_ledger()
        self.fork()
        nursery = self._nursery
        assert nursery is not None
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_noted)
        try:
            listener = await self._listen()
            self.port = listener.port
            loop.add_reader(nursery.control, self._reap, stop)
            note(logging.INFO, "serving", operators=len(self.state.agreement.names))
            try:
                if ready is not None:
                    ready()
                await stop.wait()
            finally:
                loop.remove_reader(nursery.control)
                self._stopping = True
                nursery.end()  # running operators are lost anyway, and would slow down telling the clients
                listener.close()
                lives = [held.life for held in self._living.values() if held.life is not None]
                for task in (*self._clients, *lives):
                    task.cancel()
                if tasks := [*self._clients, *lives]:
                    await asyncio.wait(tasks, timeout=STOP_SECONDS)  # limited, because some clients may not read
                await listener.closed()
                note(logging.INFO, "stopped")
        finally:
            self._nursery = None
            nursery.close()

    def __enter__(self) -> Server:
        """Serve from a thread of this process."""
        self.fork()
        ready: Future[None] = Future()

        def work() -> None:
            async def main() -> None:
                self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
                await self.run(lambda: ready.set_result(None), self._stop)

            try:
                asyncio.run(main())
            except (OSError, *FAILURES) as error:  # for example, the port is taken
                if ready.done():
                    raise
                ready.set_exception(error)

        self._thread = threading.Thread(target=work, name="torchnp-rpc-server", daemon=True)
        self._thread.start()
        ready.result(30)
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        if self._thread is not None:
            self._thread.join(10)

    def know(self, tokens: Sequence[Token]) -> None:
        """Replace the tokens, so that only their holders are admitted. The sessions of all other clients end.

        Raises
        ------
        TypeError, ValueError
            A token is invalid, or names a dataset or operator that does not exist. Nothing was changed.
        """
        _check_certificates(tokens, self.certificates)
        gone = self.state.know(tokens)
        assert self._nursery is not None
        self._nursery.tell(tokens)
        self._revocations.update(gone)
        for held in self._living.values():
            if held.rights.client in gone:
                self._revoke(held)
        note(logging.INFO, "tokens read", tokens=len(tokens), gone=len(gone))

    # ------------------------------------------------------------ one client

    async def _listen(self) -> Any:
        if not self.grpc:
            listener = Listener(self.host, self.port)
            await listener.start(self._arrived)
            return listener
        from torchnp.rpc.server.transports.grpc_transport import (
            GrpcPort,  # imported after the fork, because it loads gRPC, whose threads no worker may have
        )

        port = GrpcPort(self.host, self.port, self.certificates, self._strangers, HELLO_SECONDS)
        await port.start(self._caller)
        return port

    def _arrived(self, connection: socket.socket, address: tuple) -> None:
        self._meet(asyncio.ensure_future(self._client(connection)), host_of(address[0]))

    def _meet(self, task: asyncio.Task, host: str) -> None:
        """Register the task of an unauthenticated connection."""
        self._clients.add(task)
        task.add_done_callback(self._clients.discard)
        self._strangers.add(task, host)

    async def _caller(self, stream: ClientStream, relay: Any, token: str, names: Collection[str]) -> None:
        """Serve a client that calls over gRPC."""
        task = asyncio.current_task()
        assert task is not None
        self._meet(task, relay.host)
        with contextlib.ExitStack() as held:

            def known() -> None:
                relay.hold()
                held.callback(relay.let_go)

            deadline = asyncio.get_running_loop().time() + HELLO_SECONDS
            await self._talk(stream, relay.host, relay.peer, deadline, token, names, known)

    async def _client(self, connection: socket.socket) -> None:
        host, port = "a client that left", 0
        deadline = asyncio.get_running_loop().time() + HELLO_SECONDS
        with contextlib.ExitStack() as failed:
            failed.callback(connection.close)
            try:
                host, port = connection.getpeername()[:2]
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                keep_alive(connection)
                stream = await opened(connection, self.tls, deadline, LINGER_SECONDS)
                if self.tls is not None:
                    self._strangers.spoke(asyncio.current_task())  # type: ignore[arg-type]
            except ProtocolError as error:
                self.count("protocol")
                note(logging.WARNING, "protocol error", f"{host}:{port}", at=place_of(error))
                with contextlib.suppress(OSError):
                    connection.send(wire.lengthened(last_word("protocol", error)))
                return
            except AuthenticationError as error:
                self.count("certificate")
                note(logging.WARNING, "TLS failed", f"{host}:{port}", at=place_of(error))
                return
            except (OSError, TimeoutError, asyncio.CancelledError) as error:
                note(logging.DEBUG, "left", f"{host}:{port}", error=type(error).__name__)
                return
            failed.pop_all()
        names = names_of(stream)
        if self.tls is None or self.tls.verify_mode == ssl.CERT_NONE or names is not None:
            await self._talk(stream, host_of(host), f"{host}:{port}", deadline, names=names or ())
        else:
            self.count("certificate")
            note(logging.WARNING, "no certificate", f"{host}:{port}")
            words = "the server wants a certificate of its clients: rpc.connect(..., cert=FILE, key=FILE)"
            await stream.close(last_word("auth", words))

    async def _talk(
        self,
        stream: ClientStream,
        host: str,
        peer: str,
        deadline: float,
        token: str = "",
        names: Collection[str] = (),
        known: Callable[[], object] = lambda: None,
    ) -> None:
        """Authenticate a client, which has until ``deadline``, and carry its session's frames.

        Close the stream with a last message, if there is one.
        """
        last, held = b"", None
        try:
            async with asyncio.timeout_at(deadline):
                first = await stream.read(wire.MAX_HELLO)
            if first is None:
                return
            self._strangers.spoke(asyncio.current_task())  # type: ignore[arg-type]
            hello: Any = wire.decode_request(first)
            if token and type(hello) is wire.Hello:
                hello = msgspec.structs.replace(hello, token=token[: wire.MAX_TOKEN])
            rights, last = await self._greet(hello, host, peer, names)
            if rights is not None:
                self._strangers.forget(asyncio.current_task())  # type: ignore[arg-type]
                known()
                held, refusal = await self._session(hello, peer, rights)
                last = refusal if held is None else await self._carry(stream, held, hello.due, last)
        except ProtocolError as error:
            self.count("protocol")
            client = "" if held is None else held.rights.client
            note(logging.WARNING, "protocol error", peer, client=client, at=place_of(error))
            last = _message(last_word("protocol", error), held)
        except (OSError, TimeoutError) as error:
            note(logging.DEBUG, "left", peer, error=type(error).__name__)
            last = b""
        except asyncio.CancelledError:
            last = _message(last_word("lost", _STOPPED), held) if self._stopping else b""
        finally:
            await stream.close(last)

    async def _greet(self, hello: Any, host: str, peer: str, names: Collection[str]) -> tuple[Rights | None, bytes]:
        """Return the rights of a client, or None, and the reply.

        The reply to a wrong token waits for the host's backoff.
        """
        rights, reply = greet(self.state, hello, peer, self.count, names)
        if rights is None and self.state.admits(hello.token, names) is None:
            await self._refusals.wait(host)
        return rights, reply


def _noted(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an error that nothing waited for, without its text, which may come from a client."""
    error = context.get("exception")
    at = "" if error is None else place_of(error)
    note(logging.ERROR, "unexpected", error=None if error is None else type(error).__name__, at=at)


def _check_certificates(tokens: Iterable[Token], tls: ServerCertificates | None) -> None:
    if any(t.certificate for t in tokens) and (tls is None or tls.client_ca is None):
        raise ValueError("clients are known by certificates only with --tls-client-ca FILE, the authorities of those")


def _message(frame: bytes, held: LiveSession | None) -> bytes:
    """Return the last frame of a connection as a message. Before there is a session, frames have no number."""
    return frame if held is None else wire.numbered(0, frame)


def serve(
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    *,
    datasets: Mapping[str, Any] | None = None,
    limits: Limits = Limits(),
    max_clients: int = MAX_CLIENTS,
    max_memory: int | None = None,
    bucket: float = BUCKET,
    table: Mapping[str, Any] | None = None,
    ledger: str | Path | None = None,
    tokens: Sequence[Token] = (),
    allow: Sequence[str] | None = None,
    libraries: Sequence[str] | None = None,
    metrics: tuple[str, int] | None = None,
    tls_cert: str | Path | None = None,
    tls_key: str | Path | None = None,
    tls_client_ca: str | Path | None = None,
    grpc: bool = False,
    check: bool = False,
    reread: Callable[[], Sequence[Token]] | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM. When the port is open, print ``listening on HOST:PORT`` and how to connect.

    Parameters
    ----------
    host, port : str, int
        The address to listen on; port 0 picks a free port.
    token : str, optional
        The shared token of clients that have no token of their own. A host other than loopback requires a token.
    datasets, ledger : mapping of str to array, str or Path
        Arrays for clients to compute with; their ledger of budgets, without which only public values are published.
    limits, bucket : Limits, float
        Limits of one session. Replies about an owner's data are sent at multiples of ``bucket`` seconds.
    max_clients, max_memory : int, int or None
        Number of sessions at a time; bytes that they may hold together, which also limit each process's address space.
    table : mapping, optional
        Kernels by full overload name, instead of torchnp's table.
    tokens, allow, libraries : sequence of Token, sequence of str, sequence of str
        Clients with a token and rights of their own; operators, or patterns, that clients may use; see `Service`.
    metrics : (str, int), optional
        Host and port of Prometheus metrics at ``/metrics``; port 0 picks a free port.
    tls_cert, tls_key, tls_client_ca : str or Path, optional
        PEM files: the server's certificate and key for TLS, and the CAs that may sign clients' certificates.
    grpc, check, reread : bool, bool, callable or None
        ``grpc``: speak gRPC. ``check``: only print what would be served. ``reread``: called at each SIGHUP, returns all tokens.

    Raises
    ------
    TypeError, ValueError, OSError
        An argument is invalid, for example a host other than loopback without a token; or the port cannot be bound.
    """
    tls = None if tls_cert is tls_key is tls_client_ca is None else ServerCertificates(tls_cert, tls_key, tls_client_ca)
    state = ServerState(table, datasets, token, limits, bucket, ledger, tokens, allow, libraries)
    server = Server(state, host, port, max_clients, max_memory, tls, grpc)
    if check:
        print(state.summary())
    else:
        _run(server, max_memory, metrics, reread)


def _reread(server: Server, reread: Callable[[], Sequence[Token]]) -> None:
    try:
        server.know(reread())
    except (ValueError, TypeError, OSError) as error:
        # Logged with its text, because this is about the owner's configuration.
        note(logging.ERROR, "tokens stay as they were", error=error)


def _run(
    server: Server,
    max_memory: int | None,
    metrics: tuple[str, int] | None,
    reread: Callable[[], Sequence[Token]] | None,
) -> None:
    if max_memory is not None:
        limit_memory(max_memory + sum(a.nbytes for a in server.state.datasets.values()))
    server.fork()

    async def main() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        if reread is not None:
            loop.add_signal_handler(signal.SIGHUP, _reread, server, reread)
        await server.run(lambda: print(server.invitation(), flush=True), stop)

    with contextlib.nullcontext() if metrics is None else serving(server, *metrics):
        asyncio.run(main())
