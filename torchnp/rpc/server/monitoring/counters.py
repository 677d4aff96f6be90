"""What a server counts, in memory that all its processes share: each process writes numbers of its own, and nobody locks."""

from __future__ import annotations

import mmap
from collections.abc import Callable

# Why something was refused: before a session began, with the end of one, and in one that goes on.
REASONS = (
    "certificate", "token", "version", "clients",
    "protocol", "time", "cpu", "idle", "died",
    "operator", "quota", "private", "budget", "ledger",
)  # fmt: skip
NAMES = ("sessions", "operators", "failures", "received", "sent", "exact", "noised", "late", *REASONS)

Count = Callable[..., None]


class Counters:
    """Numbers by name, a row of them for each process that counts."""

    def __init__(self, rows: int) -> None:
        self._shared = memoryview(mmap.mmap(-1, 8 * rows * len(NAMES))).cast("Q")

    def row(self, number: int) -> Count:
        """A function that adds to a number of a row: ``count("operators", 3)``."""
        shared = self._shared
        places = {name: i for i, name in enumerate(NAMES, number * len(NAMES))}

        def count(name: str, n: int = 1) -> None:
            shared[places[name]] += n

        return count

    def totals(self) -> dict[str, int]:
        """The numbers of all rows together."""
        return {name: sum(self._shared[i :: len(NAMES)]) for i, name in enumerate(NAMES)}
