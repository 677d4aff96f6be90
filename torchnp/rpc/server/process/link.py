"""The link between a client and its worker. It survives reconnects, and each frame is applied exactly once.

The client's frames wait here until the worker takes them, and replies wait until the client acknowledges them. The
flow-control window limits both. So this side can always read, and a slow client or worker cannot fill the memory.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import Protocol

from torchnp.rpc import wire
from torchnp.rpc.exceptions import ProtocolError
from torchnp.rpc.wire.framing import ByteStream
from torchnp.rpc.wire.unacknowledged import UnacknowledgedFrames

TELL = wire.WINDOW // 4  # cost of taken frames after which the client gets a CREDIT frame


class ClientStream(Protocol):
    """The message stream of a connection to a client."""

    async def read(self, limit: int = wire.MAX_MESSAGE) -> wire.Bytes | None:
        """Read the next message, of at most ``limit`` bytes; return None at the end."""

    async def write(self, messages: list[bytes]) -> None:
        """Send messages; wait while the client does not read."""

    async def close(self, last: bytes = b"") -> None:
        """Send a last message, if there is one, and close the stream."""


class Link:
    """Queues between a client's connections, one after another, and its worker.

    Parameters
    ----------
    worker : ByteStream
        The stream of frames to and from the worker.

    Attributes
    ----------
    due : int
        Number of the next frame that the client should send.
    taken : int
        Number of the next frame that the worker will take.
    gone : Event
        Set when the client has left and will not return.
    """

    def __init__(self, worker: ByteStream) -> None:
        self.due = self.taken = 1
        self.gone = asyncio.Event()
        self._worker = worker
        self._inbox: deque[wire.Bytes] = deque()
        self._inbox_cost = self._unacked_bytes = 0
        self._unacknowledged = UnacknowledgedFrames("the client")
        self._to_send = 1  # number of the next frame to send on this connection
        self._over = False  # whether ``_unacknowledged`` has the last frame
        self._mail, self._room, self._news = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._talking: asyncio.Task | None = None

    # ------------------------------------------------------------ the worker's side

    async def feed(self) -> None:
        """Pass the client's frames on to the worker."""
        with contextlib.suppress(OSError):
            while True:
                while not self._inbox:
                    self._mail.clear()
                    await self._mail.wait()
                count, cost = len(self._inbox), self._inbox_cost
                await self._worker.write(self._inbox)
                for _ in range(count):
                    self._inbox.popleft()
                self._inbox_cost -= cost
                self.taken += count
                self._unacked_bytes += cost
                if self._unacked_bytes >= TELL:
                    self._news.set()

    async def fetch(self) -> None:
        """Queue the worker's frames for the client; return when the worker ends."""
        with contextlib.suppress(OSError):
            while (frame := await self._worker.read()) is not None:
                while self._unacknowledged.cost > wire.WINDOW:
                    self._room.clear()
                    await self._room.wait()
                self.keep(frame)

    async def finish(self) -> None:
        """Signal the end of input to the worker after it has taken all frames."""
        while self._inbox:
            await asyncio.sleep(0.01)
        self.hang_up()

    def hang_up(self) -> None:
        """Signal the end of input to the worker."""
        self._worker.end()

    def keep(self, frame: wire.Bytes) -> None:
        """Queue a frame for the client; it is kept until the client acknowledges it."""
        self._unacknowledged.add(frame)
        self._news.set()

    def end(self) -> None:
        """Mark the frames as complete. A connection ends when all frames have been sent."""
        self._over = True
        self._news.set()
        self._worker.transport.close()

    # ------------------------------------------------------------ the client's side

    @property
    def attached(self) -> bool:
        """Whether the client is connected."""
        return self._talking is not None

    async def talk(self, stream: ClientStream, due: int, first: list[bytes]) -> bool:
        """Carry frames over a connection, which replaces any other one.

        Return whether the session is over when the connection ends.

        Parameters
        ----------
        stream : ClientStream
        due : int
            The message stream of the connection, and the number of the next frame that the client expects.
        first : list of bytes
            Messages that are sent before all others.

        Raises
        ------
        ProtocolError
            The client violated the protocol.
        """
        if self._talking is not None:
            self._talking.cancel()
        self._has(due)
        self._to_send = due
        task = self._talking = asyncio.current_task()
        self._unacked_bytes = 0  # the client has just received this number in the ticket
        self._news.set()
        both = [asyncio.ensure_future(c) for c in (self._transmit(stream, first), self._receive(stream))]
        try:
            done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            with contextlib.suppress(OSError):
                return any(t.result() for t in done)
            return False
        finally:
            for t in both:
                t.cancel()
            if self._talking is task:
                self._talking = None

    async def _transmit(self, stream: ClientStream, first: list[bytes]) -> bool:
        await stream.write(first)
        while True:
            self._news.clear()
            messages = self._unacknowledged.since(self._to_send)
            self._to_send = self._unacknowledged.next
            if self._unacked_bytes >= TELL:
                self._unacked_bytes = 0
                messages.append(wire.numbered(0, wire.encode(wire.Credit(self.taken))))
            if messages:
                await stream.write(messages)
            elif self._over:
                return True
            else:
                await self._news.wait()

    async def _receive(self, stream: ClientStream) -> bool:
        while (message := await stream.read()) is not None:
            number, frame = wire.split(message)
            if not number:
                control = wire.decode_control(frame)
                if type(control) is wire.Bye:
                    self.gone.set()
                    return True
                if type(control) is not wire.Credit:
                    raise ProtocolError("a client says CREDIT or BYE between its frames, and nothing else")
                self._has(control.due)
            elif number > self.due:
                raise ProtocolError(f"frame {number} came where {self.due} was due")
            elif number == self.due:
                self._inbox_cost += len(frame) + wire.OVERHEAD
                if self._inbox_cost > wire.WINDOW + wire.MAX_MESSAGE:
                    raise ProtocolError(f"more came than the {wire.WINDOW} bytes that the server gives credit for")
                self.due += 1
                self._inbox.append(frame)
                self._mail.set()
            # A frame with a lower number was already applied, and is ignored.
        return False

    def _has(self, due: int) -> None:
        """Drop the frames that the client acknowledges."""
        self._unacknowledged.forget(due, self._to_send)
        self._room.set()
