"""Counters in memory that all processes of a server share.

Each process writes only its own row, so no locks are needed.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable

# Reasons for refusals. The first line has those before a session begins, the second those that end a session, and the
# third those within a session that continues.
REASONS = (
    "certificate", "token", "version", "clients", "ended",
    "protocol", "time", "cpu", "idle", "died",
    "operator", "quota", "private", "budget", "ledger",
)  # fmt: skip
NAMES = ("sessions", "operators", "failures", "received", "sent", "exact", "noised", "late", *REASONS)

Count = Callable[..., None]


class Counters:
    """Named counters, with a row for each process that counts."""

    def __init__(self, rows: int) -> None:
        self._shared = memoryview(mmap.mmap(-1, 8 * rows * len(NAMES))).cast("Q")

    def row(self, number: int) -> Count:
        """Return a function that adds to a counter in a row: ``count("operators", 3)``."""
        shared = self._shared
        places = {name: i for i, name in enumerate(NAMES, number * len(NAMES))}

        def count(name: str, n: int = 1) -> None:
            shared[places[name]] += n

        return count

    def totals(self) -> dict[str, int]:
        """Return the sum of each counter over all rows."""
        return {name: sum(self._shared[i :: len(NAMES)]) for i, name in enumerate(NAMES)}
