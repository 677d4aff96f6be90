"""A relay that accepts connections and forwards the bytes of each to a gRPC server on an internal socket.

gRPC's core accepts connections without notifying Python. It cannot limit their number, their origin, or the time for
which they may be silent. So this module accepts them, with the same rules as for TCP connections.
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

BUFFERED = 1 << 20  # bytes that are buffered for a side that does not read
EARLY_BYTES = 1 << 16  # bytes that an unauthenticated connection may send: handshakes and first frames


class Relay:
    """The state of a relayed client connection.

    Attributes
    ----------
    host : str
        The key under which the connection is counted.
    peer : str
        The client's address and port.
    """

    def __init__(self, host: str, peer: str) -> None:
        self.host, self.peer = host, peer
        # Called when the first bytes arrive on an unauthenticated connection.
        self.spoke: Callable[[], object] = lambda: None
        self._held = self._watches = 0  # numbers of sessions and health watches on the connection
        self._early = 0
        self._known, self._over = asyncio.Event(), asyncio.Event()
        self._unknown = asyncio.Event()
        self._unknown.set()

    def hold(self) -> None:
        """Count a new session, which keeps the connection alive."""
        self._held += 1
        self._known.set()
        self._unknown.clear()

    def hold_watch(self) -> None:
        """Count a new health watch. It keeps the connection alive, whose client is still unauthenticated."""
        self._watches += 1
        self._known.set()
        self._unknown.clear()

    def let_go(self) -> None:
        """Remove a session that has ended from the count."""
        self._held -= 1
        self._early = 0
        self._forget()

    def let_go_watch(self) -> None:
        """Remove a health watch that has ended from the count."""
        self._watches -= 1
        self._forget()

    def _forget(self) -> None:
        if not self._held and not self._watches:
            self._early = 0
            self._known.clear()
            self._unknown.set()

    def came(self, nbytes: int) -> None:
        """Count bytes from the client. An unauthenticated connection ends after `EARLY_BYTES`."""
        if not self._held:
            if not self._early:
                self.spoke()
            self._early += nbytes
            if self._early > EARLY_BYTES:
                self.end()

    def end(self) -> None:
        """Mark the connection as over."""
        self._over.set()

    async def known(self) -> bool:
        """Wait until a session or watch uses the connection; return False if the connection ends first."""
        return await self._either(self._known) and not self._over.is_set()

    async def unknown(self) -> bool:
        """Wait until no session or watch uses the connection; return False if the connection ends first."""
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
    """One side of a relay, which forwards its input to the other side, with backpressure."""

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
    """A private folder for the Unix sockets of the gRPC servers, one for each connection."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="torchnp-"))
        self._numbers = itertools.count()

    def new_path(self) -> str:
        """Return a path for a socket that no other connection has."""
        return str(self._folder / f"c{next(self._numbers)}")

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


@contextlib.asynccontextmanager
async def carry(connection: socket.socket, path: str, relay: Relay, linger: float) -> AsyncIterator[None]:
    """Relay bytes between a client and its gRPC server, which listens on a path, while the block runs.

    Raises
    ------
    OSError
        The gRPC server accepts no connection.
    """
    loop = asyncio.get_running_loop()
    near = socket.socket(socket.AF_UNIX)
    pipes: list[_Pipe] = []
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        keep_alive(connection)
        near.setblocking(False)
        try:
            await loop.sock_connect(near, path)
        finally:
            os.unlink(path)  # nobody else connects there
        for end, is_client in ((connection, True), (near, False)):
            _, pipe = await loop.connect_accepted_socket(lambda c=is_client: _Pipe(relay, c), end)  # type: ignore[misc]
            pipes.append(pipe)
        pipes[0].other, pipes[1].other = pipes[1], pipes[0]
        for pipe in pipes:
            pipe.transport.resume_reading()
        yield
    finally:
        for pipe in pipes:
            pipe.transport.close()  # bytes that are buffered are still sent
            loop.call_later(linger, pipe.transport.abort)
        for end in (connection, near)[len(pipes) :]:
            end.close()
