"""How soon a host's token is looked at: later after wrong ones."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

FIRST_DELAY, LAST_DELAY = 0.1, 3.0  # seconds before a token is looked at, after wrong ones from the same host
FORGIVEN_SECONDS = 60.0


class Door:
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
