"""Messages over a byte stream (TCP, TLS or a socket pair).

The rest of a long message is read directly into its own buffer.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable

from torchnp.rpc import wire
from torchnp.rpc.exceptions import ProtocolError

BUFFERED = 1 << 16  # size of a connection's read buffer


class ByteStream(asyncio.BufferedProtocol):
    """An asyncio protocol for messages with a length prefix.

    It holds at most `BUFFERED` unread bytes, in addition to the message that is being read.

    Parameters
    ----------
    linger : float
        Seconds that the peer has to close the connection after this side has closed it.
    """

    transport: asyncio.Transport

    def __init__(self, linger: float = 0.0) -> None:
        self._linger = linger
        self._buffer = memoryview(bytearray(BUFFERED))
        self._start = self._end = 0  # bounds of the unread bytes in the buffer
        # The part of the current message's buffer that is still empty; arriving bytes go there first.
        self._rest = self._buffer[:0]
        self._over = False  # whether the stream has ended
        self._closed = False
        self._error: Exception | None = None
        self._news, self._room = asyncio.Event(), asyncio.Event()
        self._room.set()

    # ------------------------------------------------------------ asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._rest or self._buffer[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        if self._rest:
            self._rest = self._rest[nbytes:]
            if self._rest:
                return
        else:
            self._end += nbytes
            if self._end == BUFFERED:
                self.transport.pause_reading()
        self._news.set()

    def eof_received(self) -> bool:
        self._over = True
        self._news.set()
        return self.transport.get_extra_info("ssl_object") is None  # TLS has no half-open state

    def connection_lost(self, exc: Exception | None) -> None:
        self._over = self._closed = True
        self._error = exc
        self._news.set()
        self._room.set()

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    # ------------------------------------------------------------ messages

    async def read(self, limit: int = wire.MAX_MESSAGE) -> wire.Bytes | None:
        """Read the next message, of at most ``limit`` bytes; return None at the end of the stream.

        Raises
        ------
        ProtocolError
            The message is longer than ``limit``; none of it is kept.
        OSError
            The connection broke.
        """
        while self._end - self._start < 4:
            if not await self._more():
                return None
        start = self._start + 4
        length = int.from_bytes(self._buffer[self._start : start], "big")
        if length > limit:
            raise ProtocolError(f"a frame of {length} bytes is longer than the {limit} that may come here")
        here = self._buffer[start : min(start + length, self._end)]
        self._start = start + len(here)
        if len(here) == length:
            return bytes(here)
        message = bytearray(length)
        message[: len(here)] = here
        self._rest = memoryview(message)[len(here) :]
        while self._rest:
            if not await self._more():
                return None
        return message

    async def _more(self) -> bool:
        """Wait until more bytes have arrived; return False if the stream has ended."""
        if self._error is not None:
            raise self._error
        if self._over:
            return False
        left = self._end - self._start
        self._buffer[:left] = bytes(self._buffer[self._start : self._end])
        self._start, self._end = 0, left
        self._news.clear()
        self.transport.resume_reading()
        await self._news.wait()
        return True

    async def write(self, messages: Iterable[wire.Bytes]) -> None:
        """Send messages, and wait until the peer has read enough of the sent bytes.

        Parts are written one by one, because the first releases of Python 3.12 and 3.13 buffer ``writelines`` without
        bound (https://github.com/python/cpython/issues/127655).
        """
        for part in wire.gathered(messages):
            self.transport.write(part)
        if self.transport.is_closing():
            await asyncio.sleep(0)  # gives asyncio the chance to report the error
        await self._room.wait()
        if self._closed:
            raise self._error or ConnectionResetError("the connection is closed")

    def end(self) -> None:
        """Close the sending side."""
        with contextlib.suppress(OSError, RuntimeError):
            if self.transport.can_write_eof():
                self.transport.write_eof()

    async def close(self, last: bytes = b"") -> None:
        """Send ``last``, then read until the peer has closed the connection too.

        Closing a socket with unread data would reset the connection and lose the last message.
        """
        with contextlib.suppress(OSError, TimeoutError, RuntimeError, asyncio.CancelledError):
            if last:
                self.transport.write(wire.lengthened(last))
            self.end()
            async with asyncio.timeout(self._linger):
                self._drop()
                while await self._more():
                    self._drop()
        self.transport.close()
        with contextlib.suppress(TimeoutError, asyncio.CancelledError):
            # Wait until the connection is really closed, because until then the server counts it.
            async with asyncio.timeout(self._linger):
                while not self._closed:
                    self._news.clear()
                    await self._news.wait()
        self.transport.abort()

    def _drop(self) -> None:
        """Discard the bytes that have arrived."""
        self._rest, self._start = self._buffer[:0], self._end
