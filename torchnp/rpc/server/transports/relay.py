"""Connections that this process takes and hands on, byte by byte, to a server of gRPC behind a socket of its own.

gRPC's core takes connections without a word to Python: how many, from where, and how long they say nothing cannot be told
to it. So they are taken here, by the same rules as those over TCP.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from torchnp.rpc.wire.keepalive import keep_alive

BUFFERED = 1 << 20  # bytes that wait for a side that does not take them
EARLY_BYTES = 1 << 16  # that come over a connection nobody is known on: handshakes, and first frames


class Relay:
    """A client's connection.

    Attributes
    ----------
    host : str
        What it is counted under.
    peer : str
        Its address and port.
    """

    def __init__(self, host: str, peer: str) -> None:
        self.host, self.peer = host, peer
        self.spoke: Callable[[], object] = lambda: None  # called at the first bytes on it while nobody is known
        self._held = 0  # sessions and watches on it
        self._early = 0
        self._known, self._over = asyncio.Event(), asyncio.Event()
        self._unknown = asyncio.Event()
        self._unknown.set()

    def hold(self) -> None:
        """Something on it may go on."""
        self._held += 1
        self._known.set()
        self._unknown.clear()

    def let_go(self) -> None:
        """It has ended."""
        self._held -= 1
        if not self._held:
            self._early = 0
            self._known.clear()
            self._unknown.set()

    def came(self, nbytes: int) -> None:
        """So many bytes have come from the client."""
        if not self._held:
            if not self._early:
                self.spoke()
            self._early += nbytes
            if self._early > EARLY_BYTES:
                self.end()

    def end(self) -> None:
        """One side has left."""
        self._over.set()

    async def known(self) -> bool:
        """Wait until something is held on it; False where it ends before."""
        return await self._either(self._known) and not self._over.is_set()

    async def unknown(self) -> bool:
        """Wait until nothing is held on it any more; False where it ends before."""
        return await self._either(self._unknown) and not self._over.is_set()

    async def _either(self, event: asyncio.Event) -> bool:
        both = [asyncio.ensure_future(e.wait()) for e in (event, self._over)]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in both:
                task.cancel()
        return event.is_set()


class _Pipe(asyncio.Protocol):
    """One side of a relay: what comes in goes out on the other, no faster than that takes it."""

    transport: asyncio.Transport

    def __init__(self, relay: Relay, is_client: bool) -> None:
        self.relay, self._is_client = relay, is_client
        self.other: _Pipe | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self.transport.set_write_buffer_limits(BUFFERED)
        self.transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        if self._is_client:
            self.relay.came(len(data))
        if self.other is not None:
            self.other.transport.write(data)

    def eof_received(self) -> None:
        self.relay.end()

    def connection_lost(self, exc: Exception | None) -> None:
        self.relay.end()

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None:
            self.other.transport.resume_reading()


class Inner:
    """The socket that the server of gRPC listens on, in a folder that nobody else may enter.

    Attributes
    ----------
    path : str
        Its name.
    """

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="torchnp-"))
        self.path = str(self._folder / "grpc")
        self._numbers = itertools.count()
        self._relays: dict[str, Relay] = {}

    def relay_of(self, peer: str) -> Relay | None:
        """The relay of a connection, by the name that its near end has here."""
        return self._relays.get(Path(peer).name)

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    @contextlib.asynccontextmanager
    async def carry(self, connection: socket.socket, relay: Relay, linger: float) -> AsyncIterator[None]:
        """Carry bytes between a client and the server of gRPC, for the time of a block.

        Raises
        ------
        OSError
            The server of gRPC takes no more connections.
        """
        loop = asyncio.get_running_loop()
        number = f"c{next(self._numbers)}"
        near = socket.socket(socket.AF_UNIX)
        pipes: list[_Pipe] = []
        self._relays[number] = relay
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            keep_alive(connection)
            near.setblocking(False)
            near.bind(str(self._folder / number))
            try:
                await loop.sock_connect(near, self.path)
            finally:
                os.unlink(self._folder / number)  # the name stays
            for end, is_client in ((connection, True), (near, False)):
                _, pipe = await loop.connect_accepted_socket(lambda c=is_client: _Pipe(relay, c), end)  # type: ignore[misc]
                pipes.append(pipe)
            pipes[0].other, pipes[1].other = pipes[1], pipes[0]
            for pipe in pipes:
                pipe.transport.resume_reading()
            yield
        finally:
            del self._relays[number]
            for pipe in pipes:
                pipe.transport.close()  # what was said last still goes out
                loop.call_later(linger, pipe.transport.abort)
            for end in (connection, near)[len(pipes) :]:
                end.close()
