"""The server over TCP: asyncio lets clients in, and a process for each computes; no torch."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import select
import signal
import socket
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from torchnp.registry import FAILURES
from torchnp.rpc import wire
from torchnp.rpc.client.transport import keep_alive
from torchnp.rpc.exceptions import ProtocolError
from torchnp.rpc.server.address_space import limit_memory
from torchnp.rpc.server.books import Limits
from torchnp.rpc.server.counters import Counters
from torchnp.rpc.server.doors import Door
from torchnp.rpc.server.events import note, place_of
from torchnp.rpc.server.metrics import serving
from torchnp.rpc.server.nursery import Budget, Nursery
from torchnp.rpc.server.protocol import greet, last_word
from torchnp.rpc.server.service import Service
from torchnp.rpc.server.settings import BUCKET, MAX_CLIENTS
from torchnp.rpc.server.tokens import Rights, Token

LOOPBACK = ("127.0.0.1", "localhost", "::1")
HELLO_SECONDS = 10.0
LINGER_SECONDS = 2.0
MAX_STRANGERS = 128  # connections that have not said who they are; of more, the oldest goes
BUFFERED = 1 << 16  # bytes of a connection that wait here
PART = 1 << 18


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
    ) -> None:
        if type(port) is not int:
            raise TypeError(f"a port is an integer, not a value of type {type(port).__name__}")
        if not 0 <= port < 65536:
            raise ValueError(f"there is no port {port}: give one from 1 to 65535, or 0 for a free one")
        if host not in LOOPBACK and not service.tokens:
            raise ValueError(
                f"refusing to listen on {host} without a token: anybody who can reach it could use this server. "
                "Give a token, or listen on 127.0.0.1"
            )
        if type(max_clients) is not int or max_clients < 1:
            raise ValueError(f"max_clients is at least 1, not {max_clients!r}")
        self.service, self.host, self.port, self.max_clients = service, host, port, max_clients
        self.budget = Budget(max_memory, max_clients)
        self.counters = Counters(max_clients + 1)  # one for each worker, and this process's own
        self.count = self.counters.row(max_clients)
        self.sessions: dict[int, asyncio.Future[int]] = {}  # by slot, the exit code of its worker
        self._names: dict[int, str] = {}  # whose they are
        self._nursery: Nursery | None = None
        self._clients: set[asyncio.Task] = set()
        self._strangers: dict[asyncio.Task, None] = {}
        self._doors: dict[str, Door] = {}
        self._epoll: Any = None  # where the system has it
        self._hangups: dict[int, asyncio.Event] = {}
        self._thread: threading.Thread | None = None

    def invitation(self) -> str:
        """Where the server listens and how to connect, in one line."""
        host = socket.gethostname() if self.host in ("", "0.0.0.0", "::") else self.host
        address = f"tcp://{f'[{host}]' if ':' in host else host}:{self.port}"
        token = ", token=..." if self.service.tokens else ""
        return f'listening on {self.host}:{self.port}; connect with rpc.connect("{address}"{token})'

    # ------------------------------------------------------------ running

    def fork(self) -> None:
        """Make the process that workers come from, which is best done while there are no threads."""
        if self._nursery is None:
            self._nursery = Nursery(self.service, self.budget, self.counters)

    async def run(self, ready: Any = None, stop: asyncio.Event | None = None) -> None:
        """Serve until ``stop`` is set; ``ready`` is called when the port is open."""
        stop = stop or asyncio.Event()
        self.fork()
        nursery = self._nursery
        assert nursery is not None
        loop = asyncio.get_running_loop()
        try:
            listener = await asyncio.start_server(self._client, self.host, self.port, limit=BUFFERED)
            self.port = listener.sockets[0].getsockname()[1]
            loop.add_reader(nursery.control, self._bury, stop)
            note(logging.INFO, "serving", operators=len(self.service.agreement.names))
            try:
                with self._watching_hangups(loop):
                    if ready is not None:
                        ready()
                    await stop.wait()
            finally:
                loop.remove_reader(nursery.control)
                listener.close()
                for task in self._clients:
                    task.cancel()
                await asyncio.gather(*self._clients, return_exceptions=True)
                note(logging.INFO, "stopped")
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
            note(logging.CRITICAL, "no more sessions", error=type(error).__name__)
            stop.set()

    @contextlib.contextmanager
    def _watching_hangups(self, loop: asyncio.AbstractEventLoop) -> Any:
        """Hear of clients that leave while nothing is read of theirs, where the system tells."""
        if not hasattr(select, "epoll"):
            yield
            return
        with select.epoll() as self._epoll:

            def heard() -> None:
                for fd, _ in self._epoll.poll(0):
                    self._epoll.modify(fd, 0)
                    if fd in self._hangups:
                        self._hangups[fd].set()

            loop.add_reader(self._epoll, heard)
            try:
                yield
            finally:
                loop.remove_reader(self._epoll)

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

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        host, port = (writer.get_extra_info("peername") or ("a client that left", 0))[:2]
        peer = f"{host}:{port}"
        keep_alive(writer.get_extra_info("socket"))
        self._clients.add(task)
        last = b""
        try:
            last = await self._greet(reader, writer, task, host, peer)
        except ProtocolError as error:
            self.count("protocol")
            note(logging.WARNING, "protocol error", peer, at=place_of(error))
            last = last_word("protocol", error)
        except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
            note(logging.DEBUG, "left", peer, error=type(error).__name__)
        except asyncio.CancelledError:
            pass
        finally:
            self._clients.discard(task)
            self._strangers.pop(task, None)
            await _say_last(reader, writer, last)

    async def _greet(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, task: asyncio.Task, host: str, peer: str
    ) -> bytes:
        """Let a client in that says what it should, and serve it; the last frame that it gets."""
        self._strangers[task] = None
        if len(self._strangers) > MAX_STRANGERS:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            oldest.cancel()
        async with asyncio.timeout(HELLO_SECONDS):
            hello = wire.decode_request(await _frame(reader, wire.MAX_HELLO))
        if not self.service.tokens:
            known, reply = greet(self.service, hello, peer, self.count)
        else:
            door = self._doors.setdefault(host, Door())
            async with door.turn():
                known, reply = greet(self.service, hello, peer, self.count)
                door.saw(known is not None)
            for name in [n for n, d in self._doors.items() if d.forgotten]:
                del self._doors[name]
        if known is None:
            return reply
        self._strangers.pop(task, None)
        slot = next((i for i in range(self.max_clients) if i not in self.sessions), None)
        own = list(self._names.values()).count(known.client)
        if slot is None or own == known.max_clients:
            self.count("clients")
            note(logging.WARNING, "too many sessions", peer, client=known.client)
            has = f"{self.max_clients} clients" if slot is None else f"{own} sessions of the client {known.client!r}"
            return last_word("quota", f"the server has {has}, as many as it takes")
        self.count("sessions")
        note(logging.INFO, "session opened", peer, client=known.client)
        ended = self.sessions[slot] = asyncio.get_running_loop().create_future()
        self._names[slot] = known.client
        try:
            writer.write(wire.lengthened(reply))
            return await self._serve(slot, ended, reader, writer, peer, known)
        finally:
            asyncio.ensure_future(self._free(slot, ended))  # noqa: RUF006  (the slot's future keeps it)

    async def _free(self, slot: int, ended: asyncio.Future[int]) -> None:
        """End a worker, and give its slot to the next."""
        if not ended.done() and self._nursery is not None:
            self._nursery.kill(slot)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended, 5)
        self.budget.free(slot)
        del self.sessions[slot], self._names[slot]

    async def _serve(
        self,
        slot: int,
        ended: asyncio.Future[int],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        peer: str,
        rights: Rights,
    ) -> bytes:
        """Carry frames between a client and its worker until one of them ends; the last frame, if it is ours to say."""
        assert self._nursery is not None
        ours, theirs = socket.socketpair()
        with theirs:
            self._nursery.open(slot, theirs, peer, rights.client)
        up, down = await asyncio.open_connection(sock=ours, limit=PART)
        left = asyncio.ensure_future(self._hung_up(writer))
        there = asyncio.ensure_future(_carry(reader, down))
        back = asyncio.ensure_future(_carry(up, writer))
        try:
            await asyncio.wait([left, there, back], return_when=asyncio.FIRST_COMPLETED)
            if not back.done():  # the client has left: what it sent last may still be worked on
                with contextlib.suppress(OSError):
                    down.write_eof()
                await asyncio.wait([back], timeout=LINGER_SECONDS)
                if not back.done():
                    note(logging.INFO, "session closed", peer, client=rights.client, reason="left")
                return b""
            there.cancel()
            with contextlib.suppress(OSError):  # the worker reads what is left, and goes
                down.write_eof()
            with contextlib.suppress(TimeoutError):
                return self._why(await asyncio.wait_for(asyncio.shield(ended), LINGER_SECONDS), slot, peer, rights)
            return b""
        finally:
            for task in (left, there, back):
                task.cancel()
            down.close()

    async def _hung_up(self, writer: asyncio.StreamWriter) -> None:
        """Wait until a client has closed its side, read or not."""
        fd = writer.get_extra_info("socket").fileno()
        event = self._hangups[fd] = asyncio.Event()
        try:
            if self._epoll is not None:
                self._epoll.register(fd, select.EPOLLRDHUP | select.EPOLLONESHOT)
            await event.wait()
        finally:
            del self._hangups[fd]
            if self._epoll is not None and not self._epoll.closed:
                with contextlib.suppress(OSError, ValueError):
                    self._epoll.unregister(fd)

    def _why(self, status: int, slot: int, peer: str, rights: Rights) -> bytes:
        """What a client is told of a worker that did not end by itself."""
        if not status:
            return b""
        number = self.budget.where(slot)
        name = self.service.agreement.names[number - 1] if number else "a request"
        reason = "time" if status == -signal.SIGALRM else "died"
        if reason == "time":
            text = f"{name} took longer than the {rights.limits.op_seconds:g} s that the server gives an operator"
        else:
            text = f"{name} ended the session's process ({status}), which is most often a lack of memory"
        self.count(reason)
        note(logging.WARNING, "session closed", peer, client=rights.client, reason=reason, op=name)
        return last_word("quota", f"{text}: the session has ended with all its handles")


async def _frame(reader: asyncio.StreamReader, limit: int) -> bytes:
    """The next frame; a length over the limit is refused before it is read."""
    length = int.from_bytes(await reader.readexactly(4), "big")
    if length > limit:
        raise ProtocolError(f"a frame of {length} bytes is longer than the {limit} that may come here")
    return await reader.readexactly(length)


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass bytes on until there are no more; no more are read than the other side takes."""
    with contextlib.suppress(OSError):
        while part := await reader.read(PART):
            writer.write(part)
            await writer.drain()


async def _say_last(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, frame: bytes) -> None:
    """Close a connection. Say what there is to say, and read until the client has closed its side, as a socket that is
    closed with unread data resets the connection and takes the last words with it.
    """
    with contextlib.suppress(OSError, TimeoutError, RuntimeError, asyncio.CancelledError):
        if frame:
            writer.write(wire.lengthened(frame))
        writer.write_eof()
        async with asyncio.timeout(LINGER_SECONDS):
            while await reader.read(1 << 16):
                pass
    writer.close()


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
    metrics: tuple[str, int] | None = None,
    check: bool = False,
) -> None:
    """Serve until SIGINT or SIGTERM; prints ``listening on HOST:PORT`` and how to connect when clients can.

    Parameters
    ----------
    host, port : str, int
        Where to listen; port 0 takes a free one.
    token : str, optional
        What clients have to present who have none of their own; every host but loopback needs some token.
    datasets : mapping of str to array, optional
        Arrays that clients can compute with; neither they nor anything computed from them is published.
    limits : Limits
        What one session may hold, and how long it may take.
    max_clients, max_memory : int, int or None
        Sessions at a time; bytes that all of them may hold together, and of address space that each process may have.
    bucket : float
        Seconds, of which the time of each reply to what met an owner's data is a multiple.
    table : mapping, optional
        Kernels by full overload name, in place of torchnp's table.
    ledger : str or Path, optional
        The ledger of the datasets' privacy budgets; without one only public values are published.
    tokens : sequence of Token
        Clients with a token and rights of their own.
    allow : sequence of str, optional
        Operators, or patterns of operators as ``aten::add*``, that clients may use; all by default.
    metrics : (str, int), optional
        Host and port where Prometheus finds counts, at ``/metrics``; port 0 takes a free one.
    check : bool
        Whether to look if all this can be, print what would be served, and return.

    Raises
    ------
    ValueError
        The host is not loopback and there is no token, the port is not between 0 and 65535, or ``max_memory`` is less
        than the server needs before anybody uses it.
    OSError
        The port cannot be had.
    """
    service = Service(table, datasets, token, limits, bucket, ledger, tokens, allow)
    server = Server(service, host, port, max_clients, max_memory)
    if check:
        print(service.summary())
    else:
        _run(server, max_memory, metrics)


def _run(server: Server, max_memory: int | None, metrics: tuple[str, int] | None) -> None:
    if max_memory is not None:
        limit_memory(max_memory + sum(a.nbytes for a in server.service.datasets.values()))
    server.fork()

    async def main() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        await server.run(lambda: print(server.invitation(), flush=True), stop)

    with contextlib.nullcontext() if metrics is None else serving(server, *metrics):
        asyncio.run(main())
