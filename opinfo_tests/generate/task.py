"""Tasks, the units of work of a run, and the seeding of their generators."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass, field

import numpy as np
import torch

PLAIN = " without rules"  # suffix of the number of draws: no rule-made calls besides them


def number(count: str) -> int:
    """Return how many calls a task draws."""
    return int(count.removesuffix(PLAIN))


# Prefixes that make a source from an overload.
DRAWN = "drawn/"  # calls drawn from its schema
GIVEN = "given/"  # samples that another library provides
BROKEN = "broken/"  # accepted calls with arguments changed
LARGE = "large/"  # calls of another source, scaled up
THRESHOLDS = "thresholds/"  # calls of another source, scaled to sizes at which kernels take another path


@dataclass(frozen=True)
class Task:
    """A worker's unit of work: an OpInfo entry in one dtype, or an overload and (as ``dtype``) its number of draws.

    Tasks with the same ``beside`` are adjacent in a plan and best run in one process, because they share draws.
    """

    source: str
    dtype: str
    beside: str = field(default="", compare=False, repr=False)

    @property
    def is_drawn(self) -> bool:
        """Whether its calls are drawn from a schema, and so already cover all kinds of values and layouts."""
        return is_drawn(self.source)

    @property
    def is_kept(self) -> bool:
        """Whether its calls may be cached between runs: another library's may change any day."""
        return "::" not in self.source or self.source.partition("/")[2].startswith(("aten::", "prims::"))


def is_drawn(source: str) -> bool:
    """Return whether a source's calls are drawn from a schema."""
    return source.startswith((DRAWN, BROKEN))


def reseed(text: str) -> None:
    """Seed every generator that samples draw from, by name, so that a task alone gives the same as in a full run."""
    value = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "little")
    torch.manual_seed(value)
    np.random.seed(value)
    random.seed(value)
