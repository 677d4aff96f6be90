"""The server over TCP: asyncio, one worker thread per busy client, no torch."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from torchnp.rpc import wire
from torchnp.rpc.errors import ProtocolError
from torchnp.rpc.service import Connection, Service
from torchnp.rpc.store import Limits

log = logging.getLogger("torchnp.rpc")

LOOPBACK = ("127.0.0.1", "localhost", "::1")
HELLO_SECONDS = 10.0
MAX_CLIENTS = 64


class Server:
    """Listens, and gives each connection a session of its own.

    Parameters
    ----------
    service : Service
        What is offered.
    host, port : str, int
        Where to listen; port 0 takes a free one.

    Raises
    ------
    ValueError
        The host is not loopback and there is no token, or the port is not between 0 and 65535.
    """

    def __init__(self, service: Service, host: str = "127.0.0.1", port: int = 0) -> None:
        if type(port) is not int:
            raise TypeError(f"a port is an integer, not a value of type {type(port).__name__}")
        if not 0 <= port < 65536:
            raise ValueError(f"there is no port {port}: give one from 1 to 65535, or 0 for a free one")
        if host not in LOOPBACK and not service.token:
            raise ValueError(
                f"refusing to listen on {host} without a token: anybody who can reach it could use this server. "
                "Give a token, or listen on 127.0.0.1"
            )
        self.service, self.host, self.port = service, host, port
        self._workers = ThreadPoolExecutor(MAX_CLIENTS, thread_name_prefix="torchnp-rpc")
        self._clients: set[asyncio.Task] = set()
        self._thread: threading.Thread | None = None

    # ------------------------------------------------------------ running

    async def run(self, ready: Any = None, stop: asyncio.Event | None = None) -> None:
        """Serve until ``stop`` is set; ``ready`` is called when the port is open."""
        stop = stop or asyncio.Event()
        listener = await asyncio.start_server(self._client, self.host, self.port, limit=1 << 18)
        self.port = listener.sockets[0].getsockname()[1]
        log.info("listening on %s:%d, %d operators", self.host, self.port, len(self.service.agreement.names))
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
        ready = threading.Event()

        def work() -> None:
            async def main() -> None:
                self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
                await self.run(ready.set, self._stop)

            asyncio.run(main())

        self._thread = threading.Thread(target=work, name="torchnp-rpc-server", daemon=True)
        self._thread.start()
        if not ready.wait(30):
            raise RuntimeError("the server did not start")
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        if self._thread is not None:
            self._thread.join(10)

    # ------------------------------------------------------------ one client

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        peer = "{}:{}".format(*writer.get_extra_info("peername")[:2])
        if len(self._clients) >= MAX_CLIENTS:
            log.warning("%s: refused, %d clients are connected", peer, MAX_CLIENTS)
            full = wire.Err("quota", "", f"the server has {MAX_CLIENTS} clients, as many as it takes", fatal=True)
            writer.write(wire.lengthened(wire.encode(full)))
            writer.close()
            return
        self._clients.add(task)
        connection = Connection(self.service, peer)
        loop = asyncio.get_running_loop()
        try:
            while not connection.closed:
                frame = await self._frame(reader, connection)
                if frame is None:
                    break
                # Kernels run off the loop, one frame at a time: a slow client holds up nobody and is held up itself.
                replies = await loop.run_in_executor(self._workers, connection.handle, frame)
                for reply in replies:
                    writer.write(wire.lengthened(reply))
                    await writer.drain()
        except ProtocolError as error:
            for reply in connection.refuse(error):
                writer.write(wire.lengthened(reply))
        except (ConnectionError, asyncio.IncompleteReadError, TimeoutError) as error:
            log.debug("%s: %s", peer, error)
        except asyncio.CancelledError:
            pass
        finally:
            self._clients.discard(task)
            connection.close()
            writer.close()
            log.info("%s: session closed", peer)

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


def serve(
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    *,
    datasets: Mapping[str, Any] | None = None,
    limits: Limits = Limits(),
    table: Mapping[str, Any] | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM; prints ``listening on HOST:PORT`` when clients can connect.

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
    table : mapping, optional
        Kernels by full overload name, in place of torchnp's table.

    Raises
    ------
    ValueError
        The host is not loopback and there is no token, or the port is not between 0 and 65535.
    OSError
        The port cannot be had.
    """
    server = Server(Service(table, datasets, token, limits), host, port)

    async def main() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        await server.run(lambda: print(f"listening on {server.host}:{server.port}", flush=True), stop)

    asyncio.run(main())


def main(argv: Sequence[str] | None = None) -> int:
    """``python -m torchnp.rpc.server``."""
    import numpy as np

    parser = argparse.ArgumentParser(prog="torchnp.rpc.server", description="Run the operators of remote tensors.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free port")
    parser.add_argument("--token", default=os.environ.get("TORCHNP_TOKEN"), help="default: $TORCHNP_TOKEN")
    parser.add_argument("--dataset", action="append", default=[], metavar="NAME=FILE.npy", help="may be repeated")
    parser.add_argument("--max-bytes", type=int, default=Limits().max_bytes, help="per session")
    parser.add_argument("--max-objects", type=int, default=Limits().max_objects, help="per session")
    parser.add_argument("--log-level", default="warning", choices=["debug", "info", "warning", "error"])
    options = parser.parse_args(argv)
    logging.basicConfig(level=options.log_level.upper(), format="%(asctime)s %(levelname)s %(message)s")
    datasets = {}
    for text in options.dataset:
        name, _, path = text.partition("=")
        if not path:
            parser.error(f"--dataset {text}: write NAME=FILE.npy")
        datasets[name] = np.load(path, allow_pickle=False)
    try:
        serve(
            options.host,
            options.port,
            options.token,
            datasets=datasets,
            limits=Limits(options.max_bytes, options.max_objects),
        )
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
