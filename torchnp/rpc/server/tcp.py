"""The server over TCP: asyncio lets clients in, and a process for each computes; no torch."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import logging
import secrets
import signal
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from torchnp.extras import lacking
from torchnp.registry import FAILURES
from torchnp.rpc import wire
from torchnp.rpc.client.transport import keep_alive
from torchnp.rpc.exceptions import AuthenticationError, ProtocolError
from torchnp.rpc.server.books import Limits
from torchnp.rpc.server.link import Link, Stream, TcpStream
from torchnp.rpc.server.listen import Certificates, Listener, certified, opened
from torchnp.rpc.server.nursery import Budget, Nursery
from torchnp.rpc.server.options import BUCKET, MAX_CLIENTS, limit_memory, read_options
from torchnp.rpc.server.protocol import greet, last_word
from torchnp.rpc.server.service import Service

log = logging.getLogger("torchnp.rpc")

LOOPBACK = ("127.0.0.1", "localhost", "::1")
HELLO_SECONDS = 10.0
LINGER_SECONDS = 2.0
MAX_STRANGERS = 128  # connections that have not said who they are; of more, the oldest goes
PART = 1 << 18  # bytes of a worker's that wait here
FIRST_DELAY, LAST_DELAY = 0.1, 3.0  # seconds before a token is looked at, after wrong ones from the same host
FORGIVEN_SECONDS = 60.0
_STOPPED = "the server has been stopped: the session's handles have no values any more"


class Server:
    """Listens, and gives each connection a session of its own.

    Parameters
    ----------
    service : Service
        What is offered.
    host, port : str, int
        Where to listen; port 0 takes a free one.
    max_clients : int
        Sessions at a time; one more is refused with a reason.
    max_memory : int, optional
        Bytes that all sessions may hold together.
    tls : Certificates, optional
        The server's, and whose it takes from clients; without them nothing is encrypted.
    grpc : bool
        Whether to listen for calls of gRPC in place of plain TCP.

    Raises
    ------
    ValueError
        The host is not loopback and there is no token, or the port is not between 0 and 65535.
    """

    def __init__(
        self,
        service: Service,
        host: str = "127.0.0.1",
        port: int = 0,
        max_clients: int = MAX_CLIENTS,
        max_memory: int | None = None,
        tls: Certificates | None = None,
        grpc: bool = False,
    ) -> None:
        if type(port) is not int:
            raise TypeError(f"a port is an integer, not a value of type {type(port).__name__}")
        if not 0 <= port < 65536:
            raise ValueError(f"there is no port {port}: give one from 1 to 65535, or 0 for a free one")
        if host not in LOOPBACK and not service.token:
            raise ValueError(
                f"refusing to listen on {host} without a token: anybody who can reach it could use this server. "
                "Give a token, or listen on 127.0.0.1"
            )
        if type(max_clients) is not int or max_clients < 1:
            raise ValueError(f"max_clients is at least 1, not {max_clients!r}")
        self.service, self.host, self.port, self.max_clients = service, host, port, max_clients
        self.certificates, self.grpc = tls, grpc
        self.tls = None if tls is None else tls.context()
        self.budget = Budget(max_memory, max_clients)
        self.sessions: dict[int, asyncio.Future[int]] = {}  # by slot, the exit code of its worker
        self._nursery: Nursery | None = None
        self._clients: set[asyncio.Task] = set()
        self._strangers: dict[asyncio.Task, None] = {}
        self._stopping = False
        self._doors: dict[str, _Door] = {}
        self._instance = secrets.token_hex(4)  # tells a session of a server that was started again from one that ended
        self._held: dict[bytes, _Held] = {}  # by a digest of what each is resumed with, the oldest first
        self._thread: threading.Thread | None = None

    def invitation(self) -> str:
        """Where the server listens and how to connect, in one line."""
        host = socket.gethostname() if self.host in ("", "0.0.0.0", "::") else self.host
        scheme = ("grpcs" if self.tls else "grpc") if self.grpc else ("tls" if self.tls else "tcp")
        address = f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"
        more = ", token=..." if self.service.token else ""
        if self.tls is not None:
            more += ", ca=..." if self.tls.verify_mode == ssl.CERT_NONE else ", ca=..., cert=..., key=..."
        return f'listening on {self.host}:{self.port}; connect with rpc.connect("{address}"{more})'

    # ------------------------------------------------------------ running

    def fork(self) -> None:
        """Make the process that workers come from, which is best done while there are no threads."""
        if self._nursery is None:
            self._nursery = Nursery(self.service, self.budget)

    async def run(self, ready: Any = None, stop: asyncio.Event | None = None) -> None:
        """Serve until ``stop`` is set; ``ready`` is called when the port is open."""
        stop = stop or asyncio.Event()
        self.fork()
        nursery = self._nursery
        assert nursery is not None
        loop = asyncio.get_running_loop()
        try:
            listener = await self._listen()
            self.port = listener.port
            loop.add_reader(nursery.control, self._bury, stop)
            log.info("serving %d operators", len(self.service.agreement.names))
            try:
                if ready is not None:
                    ready()
                await stop.wait()
            finally:
                loop.remove_reader(nursery.control)
                self._stopping = True
                listener.close()
                lives = [held.life for held in self._held.values() if held.life is not None]
                for task in (*self._clients, *lives):
                    task.cancel()
                await asyncio.gather(*self._clients, *lives, return_exceptions=True)
                await listener.closed()
                log.info("stopped")
        finally:
            self._nursery = None
            nursery.close()

    def _bury(self, stop: asyncio.Event) -> None:
        """Free the slots of workers that have ended."""
        assert self._nursery is not None
        try:
            for slot, status in self._nursery.ended():
                if slot in self.sessions and not self.sessions[slot].done():
                    self.sessions[slot].set_result(status)
        except (EOFError, OSError) as error:
            log.critical("the server ends: %s", error)
            stop.set()

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
            except (OSError, *FAILURES) as error:  # of a port that is taken, or no port
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

    # ------------------------------------------------------------ one client

    async def _listen(self) -> Any:
        if not self.grpc:
            listener = Listener(self.host, self.port)
            await listener.start(lambda connection: self._meet(asyncio.ensure_future(self._client(connection))))
            return listener
        from torchnp.rpc.server.overgrpc import GrpcPort  # loads gRPC, whose threads no worker may have

        port = GrpcPort(self.host, self.port, self.certificates)
        await port.start(self._caller)
        return port

    def _meet(self, task: asyncio.Task) -> None:
        """Keep count of a connection that has not said who it is."""
        self._clients.add(task)
        task.add_done_callback(self._clients.discard)
        self._strangers[task] = None
        task.add_done_callback(lambda task: self._strangers.pop(task, None))
        if len(self._strangers) > MAX_STRANGERS:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            oldest.cancel()

    async def _caller(self, stream: Stream, host: str, peer: str, token: str) -> None:
        """Talk to a client that calls over gRPC."""
        task = asyncio.current_task()
        assert task is not None
        self._meet(task)
        await self._talk(stream, host, peer, token)

    async def _client(self, connection: socket.socket) -> None:
        host, port = "a client that left", 0
        with contextlib.ExitStack() as failed:
            failed.callback(connection.close)
            try:
                host, port = connection.getpeername()[:2]
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                keep_alive(connection)
                reader, writer = await opened(connection, self.tls, HELLO_SECONDS)
            except ProtocolError as error:
                log.warning("%s:%d: closed: %s", host, port, error)
                with contextlib.suppress(OSError):
                    connection.send(wire.lengthened(last_word("protocol", error)))
                return
            except AuthenticationError as error:
                log.warning("%s:%d: closed: %s", host, port, error)
                return
            except (OSError, TimeoutError, asyncio.CancelledError) as error:
                log.debug("%s:%d: %s", host, port, error)
                return
            failed.pop_all()
        stream = TcpStream(reader, writer, LINGER_SECONDS)
        if certified(writer, self.tls):
            await self._talk(stream, host, f"{host}:{port}")
        else:
            log.warning("%s:%d: no certificate", host, port)
            words = "the server wants a certificate of its clients: rpc.connect(..., cert=FILE, key=FILE)"
            await stream.close(last_word("auth", words))

    async def _talk(self, stream: Stream, host: str, peer: str, token: str = "") -> None:
        """Let a client in that says what it should, and carry its frames; what is said last, if it is ours to say."""
        last, held = b"", None
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                first = await stream.read(wire.MAX_HELLO)
            if first is None:
                return
            hello: Any = wire.decode_request(first)
            if token and type(hello) is wire.Hello:
                hello = msgspec.structs.replace(hello, token=token[: wire.MAX_TOKEN])
            known, last = await self._greet(hello, host, peer)
            if known:
                self._strangers.pop(asyncio.current_task(), None)  # type: ignore[arg-type]
                held, refusal = await self._session(hello, peer)
                last = refusal if held is None else await self._carry(stream, held, hello.due, last)
        except ProtocolError as error:
            log.warning("%s: closed: %s", peer, error)
            last = _message(last_word("protocol", error), held)
        except (OSError, TimeoutError) as error:
            log.debug("%s: %s", peer, error)
            last = b""
        except asyncio.CancelledError:
            last = _message(last_word("lost", _STOPPED), held) if self._stopping else b""
        finally:
            await stream.close(last)

    async def _greet(self, hello: Any, host: str, peer: str) -> tuple[bool, bytes]:
        """Whether a client may have a session, and the answer to it; whoever tries tokens waits for his turn."""
        if self.service.token is None:
            return greet(self.service, hello, peer)
        door = self._doors.setdefault(host, _Door())
        async with door.turn():
            known, reply = greet(self.service, hello, peer)
            door.saw(known)
        for name in [n for n, d in self._doors.items() if d.forgotten]:
            del self._doors[name]
        return known, reply

    # ------------------------------------------------------------ sessions

    async def _session(self, hello: wire.Hello, peer: str) -> tuple[_Held | None, bytes]:
        """A new session, or the one that a client comes back to; where there is none, the frame that says why."""
        if hello.resume:
            held = self._held.get(_digest(hello.resume))
            if held is None:
                log.info("%s: a session was to be resumed that is not here", peer)
                return None, last_word("lost", self._why_lost(hello.resume))
            log.info("%s: session of %s resumed", peer, held.peer)
            return held, b""
        slot = await self._slot()
        if slot is None:
            log.warning("%s: refused, %d clients are connected", peer, self.max_clients)
            return None, last_word("quota", f"the server has {self.max_clients} clients, as many as it takes")
        log.info("%s: session opened", peer)
        return await self._open(slot, peer), b""

    async def _carry(self, stream: Stream, held: _Held, due: int, welcome: bytes) -> bytes:
        """Carry a session's frames over a connection; the last message of the connection."""
        if held.timer is not None:
            held.timer.cancel()
            held.timer = None
        link, lease = held.link, float(self.service.limits.lease_seconds)
        ticket = wire.Ticket(held.resume if lease else "", link.taken)
        over = False
        try:
            over = await link.talk(stream, due, [welcome, wire.numbered(0, wire.encode(ticket))])
        except ProtocolError:
            link.gone.set()
            raise
        finally:
            if not lease and not over:
                link.gone.set()
            elif not over and not link.attached and not link.gone.is_set() and not self._stopping:
                log.info("%s: connection lost; its session can be resumed for %g s", held.peer, lease)
                held.timer = asyncio.get_running_loop().call_later(lease, link.gone.set)
        return wire.numbered(0, wire.encode(wire.Bye()))

    def _why_lost(self, resume: str) -> str:
        if not resume.startswith(self._instance):
            return "the server has been started again, and knows nothing of the session: its handles have no values any more"
        return (
            "the session has ended: its connection was lost for longer than the "
            f"{self.service.limits.lease_seconds:g} s that the server keeps it, or it needed the place; its handles have "
            "no values any more"
        )

    async def _slot(self) -> int | None:
        """A free slot; where there is none, that of the session that has been without a connection for longest."""
        if len(self.sessions) == self.max_clients:
            lost = [h for h in self._held.values() if h.timer is not None and h.slot in self.sessions]
            if not lost:
                return None
            log.info("%s: session closed: its place was needed", lost[0].peer)
            self._forget(lost[0])
            assert self._nursery is not None
            self._nursery.kill(lost[0].slot)
            lost[0].link.gone.set()
            if lost[0].life is not None:
                await asyncio.wait([lost[0].life], timeout=LINGER_SECONDS)
        return next((i for i in range(self.max_clients) if i not in self.sessions), None)

    async def _open(self, slot: int, peer: str) -> _Held:
        """Start a session's worker."""
        assert self._nursery is not None
        self.sessions[slot] = asyncio.get_running_loop().create_future()
        try:
            ours, theirs = socket.socketpair()
            with theirs:
                link = Link(*await asyncio.open_connection(sock=ours, limit=PART))
                self._nursery.open(slot, theirs, peer)
        except OSError as error:  # of a process that has no more files to open
            del self.sessions[slot]
            log.error("%s: no session: %s", peer, error)
            raise
        held = _Held(link, slot, peer, f"{self._instance}.{secrets.token_urlsafe(24)}")
        self._held[_digest(held.resume)] = held
        held.life = asyncio.ensure_future(self._live(held))
        return held

    def _forget(self, held: _Held) -> None:
        self._held.pop(_digest(held.resume), None)

    async def _live(self, held: _Held) -> None:
        """A session from its beginning to the end of its worker."""
        link, ended = held.link, self.sessions[held.slot]
        fetching, feeding, gone = (asyncio.ensure_future(c) for c in (link.fetch(), link.feed(), link.gone.wait()))
        try:
            await asyncio.wait([fetching, gone], return_when=asyncio.FIRST_COMPLETED)
            if gone.done():  # what it sent last may still be worked on
                self._forget(held)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LINGER_SECONDS):
                        await link.finish()
                        await fetching
                if not fetching.done() or fetching.cancelled():
                    log.info("%s: session closed: its client has left in the middle of an operator", held.peer)
            else:
                feeding.cancel()
                link.hang_up()  # the worker reads what is left, and goes
                with contextlib.suppress(TimeoutError):
                    status = await asyncio.wait_for(asyncio.shield(ended), LINGER_SECONDS)
                    if last := self._why(status, held.slot, held.peer):
                        link.keep(last)
                # A client that has no connection now hears of it when it comes back.
                asyncio.get_running_loop().call_later(self.service.limits.lease_seconds, self._forget, held)
        finally:
            for task in (fetching, feeding, gone):
                task.cancel()
            link.end()
            await self._free(held.slot, ended)

    async def _free(self, slot: int, ended: asyncio.Future[int]) -> None:
        """End a worker, and give its slot to the next."""
        if not ended.done() and self._nursery is not None and not self._stopping:
            self._nursery.kill(slot)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended, 5)
        self.budget.free(slot)
        del self.sessions[slot]

    def _why(self, status: int, slot: int, peer: str) -> bytes:
        """What a client is told of a worker that did not end by itself."""
        if not status:
            return b""
        number = self.budget.where(slot)
        name = self.service.agreement.names[number - 1] if number else "a request"
        if status == -signal.SIGALRM:
            text = f"{name} took longer than the {self.service.limits.op_seconds:g} s that the server gives an operator"
        else:
            text = f"{name} ended the session's process ({status}), which is most often a lack of memory"
        log.warning("%s: session closed: %s", peer, text)
        return last_word("quota", f"{text}: the session has ended with all its handles")


class _Door:
    """What a host has tried: after a wrong token the next is looked at later, and one at a time."""

    def __init__(self) -> None:
        self.wrong, self.last = 0, 0.0
        self.lock = asyncio.Lock()

    @property
    def forgotten(self) -> bool:
        return not self.lock.locked() and (not self.wrong or time.monotonic() - self.last > FORGIVEN_SECONDS)

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for one's turn."""
        async with self.lock:
            if self.wrong and time.monotonic() - self.last <= FORGIVEN_SECONDS:
                await asyncio.sleep(min(FIRST_DELAY * 2 ** min(self.wrong - 1, 10), LAST_DELAY))
            yield

    def saw(self, known: bool) -> None:
        """Take note of a token that was looked at."""
        self.wrong = 0 if known else self.wrong + 1
        self.last = time.monotonic()


@dataclass
class _Held:
    """A session that is here, with a connection or without."""

    link: Link
    slot: int
    peer: str
    resume: str
    life: asyncio.Task | None = None
    timer: asyncio.TimerHandle | None = None


def _message(frame: bytes, held: _Held | None) -> bytes:
    """The message of a frame that ends a connection; the first of all is bare."""
    return frame if held is None else wire.numbered(0, frame)


def _digest(resume: str) -> bytes:
    """What a session is found by: how long that takes tells nothing of the secret."""
    return hashlib.sha256(resume.encode(errors="replace")).digest()


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
    tls_cert: str | Path | None = None,
    tls_key: str | Path | None = None,
    tls_client_ca: str | Path | None = None,
    grpc: bool = False,
) -> None:
    """Serve until SIGINT or SIGTERM; prints ``listening on HOST:PORT`` and how to connect when clients can.

    Parameters
    ----------
    host, port : str, int
        Where to listen; port 0 takes a free one.
    token : str, optional
        What clients have to present; needed for every host but loopback.
    datasets : mapping of str to array, optional
        Arrays that clients can compute with; neither they nor anything computed from them is published.
    limits : Limits
        What one session may hold, and how long it may take.
    max_clients : int
        Sessions at a time.
    max_memory : int, optional
        Bytes that all sessions may hold together, and of address space that each process may have; an operator that
        needs more fails, and the server goes on.
    bucket : float
        Seconds, of which the time of each reply to what met an owner's data is a multiple.
    table : mapping, optional
        Kernels by full overload name, in place of torchnp's table.
    ledger : str or Path, optional
        The ledger of the datasets' privacy budgets; without one only public values are published.
    tls_cert, tls_key : str or Path, optional
        PEM files of the server's certificate and of its key: everything is encrypted.
    tls_client_ca : str or Path, optional
        A PEM file of authorities: only clients with a certificate of theirs are let in.
    grpc : bool
        Whether to speak gRPC, which needs the package grpcio.

    Raises
    ------
    ValueError
        The host is not loopback and there is no token, the port is not between 0 and 65535, ``max_memory`` is less
        than the server needs before anybody uses it, or a certificate or key cannot be used.
    OSError
        The port cannot be had.
    """
    if grpc and (missing := lacking("rpc,grpc", "grpc")):
        raise ValueError(f"gRPC {missing}")
    tls = None if tls_cert is tls_key is tls_client_ca is None else Certificates(tls_cert, tls_key, tls_client_ca)
    service = Service(table, datasets, token, limits, bucket, ledger)
    server = Server(service, host, port, max_clients, max_memory, tls, grpc)
    if max_memory is not None:
        limit_memory(max_memory)
    server.fork()

    async def main() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        await server.run(lambda: print(server.invitation(), flush=True), stop)

    asyncio.run(main())


def serve_with(options: argparse.Namespace) -> None:
    """Serve as the options of the command line say, until SIGINT or SIGTERM.

    Raises
    ------
    ValueError
        An option says what cannot be; the message is for its user.
    OSError
        The port cannot be had.
    """
    logging.basicConfig(level=options.log_level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    serve(**read_options(options))
