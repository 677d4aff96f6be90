"""The server over TCP: asyncio, one worker thread per busy client, no torch."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import signal
import socket
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from torchnp.registry import FAILURES
from torchnp.rpc import wire
from torchnp.rpc.client.transport import keep_alive
from torchnp.rpc.exceptions import ProtocolError
from torchnp.rpc.server.books import Limits
from torchnp.rpc.server.options import MAX_CLIENTS, limit_memory, read_options
from torchnp.rpc.server.protocol import RAISED, Connection, Service

log = logging.getLogger("torchnp.rpc")

LOOPBACK = ("127.0.0.1", "localhost", "::1")
HELLO_SECONDS = 10.0
LINGER_SECONDS = 2.0


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

    Raises
    ------
    ValueError
        The host is not loopback and there is no token, or the port is not between 0 and 65535.
    """

    def __init__(
        self, service: Service, host: str = "127.0.0.1", port: int = 0, max_clients: int = MAX_CLIENTS
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
        self._workers = ThreadPoolExecutor(max_clients, thread_name_prefix="torchnp-rpc")
        self._clients: set[asyncio.Task] = set()
        self._thread: threading.Thread | None = None

    def invitation(self) -> str:
        """Where the server listens and how to connect, in one line."""
        host = socket.gethostname() if self.host in ("", "0.0.0.0", "::") else self.host
        address = f"tcp://{f'[{host}]' if ':' in host else host}:{self.port}"
        token = ", token=..." if self.service.token else ""
        return f'listening on {self.host}:{self.port}; connect with rpc.connect("{address}"{token})'

    # ------------------------------------------------------------ running

    async def run(self, ready: Any = None, stop: asyncio.Event | None = None) -> None:
        """Serve until ``stop`` is set; ``ready`` is called when the port is open."""
        stop = stop or asyncio.Event()
        listener = await asyncio.start_server(self._client, self.host, self.port, limit=1 << 18)
        self.port = listener.sockets[0].getsockname()[1]
        log.info("serving %d operators", len(self.service.agreement.names))
        try:
            if ready is not None:
                ready()
            await stop.wait()
        finally:
            listener.close()
            for task in self._clients:
                task.cancel()
            await asyncio.gather(*self._clients, return_exceptions=True)
            self._workers.shutdown(wait=False, cancel_futures=True)
            log.info("stopped")

    def __enter__(self) -> Server:
        """Serve from a thread of this process."""
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
        peer = "{}:{}".format(*(writer.get_extra_info("peername") or ("a client that left", 0))[:2])
        keep_alive(writer.get_extra_info("socket"))
        if len(self._clients) >= self.max_clients:
            log.warning("%s: refused, %d clients are connected", peer, self.max_clients)
            text = f"the server has {self.max_clients} clients, as many as it takes"
            await _say_last(reader, writer, [wire.encode(wire.Err("quota", "", text, fatal=True))])
            return
        self._clients.add(task)
        connection = Connection(self.service, peer)
        loop = asyncio.get_running_loop()
        last_words: Iterable[bytes] = ()
        try:
            while not connection.closed:
                frame = await self._frame(reader, connection)
                if frame is None:
                    break
                # Kernels run off the loop, one frame at a time: a slow client holds up nobody and is held up itself.
                replies = await loop.run_in_executor(self._workers, connection.handle, frame)
                if connection.closed:
                    last_words = replies
                    break
                for reply in replies:
                    writer.write(wire.lengthened(reply))
                    await writer.drain()
        except ProtocolError as error:
            last_words = connection.refuse(error)
        except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
            log.debug("%s: %s", peer, error)
        except asyncio.CancelledError:
            pass
        except RAISED:  # where there is no memory for a frame or a reply
            log.exception("%s: closed after an internal error", peer)
        finally:
            self._clients.discard(task)
            connection.close()
            await _say_last(reader, writer, last_words)

    async def _frame(self, reader: asyncio.StreamReader, connection: Connection) -> bytes | None:
        """The next frame, or None at the end of the stream; a length over the limit is refused before it is read."""
        try:
            if not connection.known:
                head = await asyncio.wait_for(reader.readexactly(4), HELLO_SECONDS)
            else:
                head = await reader.readexactly(4)
        except asyncio.IncompleteReadError:
            return None
        length = int.from_bytes(head, "big")
        limit = wire.MAX_FRAME if connection.known else wire.MAX_HELLO
        if length > limit:
            raise ProtocolError(f"a frame of {length} bytes is longer than the {limit} that may come here")
        if not connection.known:
            return await asyncio.wait_for(reader.readexactly(length), HELLO_SECONDS)
        return await reader.readexactly(length)


async def _say_last(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, frames: Iterable[bytes]) -> None:
    """Close a connection. Where there is something to say first, read until the client has closed its side, as a
    socket that is closed with unread data resets the connection and takes the last words with it.
    """
    with contextlib.suppress(OSError, TimeoutError, RuntimeError, asyncio.CancelledError):
        if frames:
            for frame in frames:
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
    table: Mapping[str, Any] | None = None,
    ledger: str | Path | None = None,
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
        What one session may hold.
    max_clients : int
        Sessions at a time.
    max_memory : int, optional
        Bytes of address space that this process may have; an operator that needs more fails, and the server goes on.
    table : mapping, optional
        Kernels by full overload name, in place of torchnp's table.
    ledger : str or Path, optional
        The ledger of the datasets' privacy budgets; without one only public values are published.

    Raises
    ------
    ValueError
        The host is not loopback and there is no token, the port is not between 0 and 65535, or ``max_memory`` is less
        than the server needs before anybody uses it.
    OSError
        The port cannot be had.
    """
    server = Server(Service(table, datasets, token, limits, ledger=ledger), host, port, max_clients)
    if max_memory is not None:
        limit_memory(max_memory)

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
