"""Tasks, the units of work of a run, and the seeding of the random generators that they use."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass, field

import numpy as np
import torch

PLAIN = " without rules"  # suffix of the number of calls: only random calls, without those that follow rules


def number(count: str) -> int:
    """Return how many random calls a task generates."""
    return int(count.removesuffix(PLAIN))


# Prefixes that, with an overload, make the name of a source.
DRAWN = "drawn/"  # random calls from the overload's schema
GIVEN = "given/"  # samples provided by another library
BROKEN = "broken/"  # valid calls with some arguments changed
LARGE = "large/"  # calls of another source, with larger shapes
THRESHOLDS = "thresholds/"  # calls of another source, with the sizes at which kernels change to another path


@dataclass(frozen=True)
class Task:
    """A unit of work: an OpInfo entry and a dtype, or an overload and (as ``dtype``) its number of random calls.

    Tasks with the same ``beside`` are adjacent in a plan and should run in one process, because they use the same
    calls.
    """

    source: str
    dtype: str
    beside: str = field(default="", compare=False, repr=False)

    @property
    def is_drawn(self) -> bool:
        """Whether the calls are random calls from a schema, which already have all kinds of values and layouts."""
        return is_drawn(self.source)

    @property
    def is_kept(self) -> bool:
        """Whether the calls may be cached between runs; another library's samples may change at any time."""
        return "::" not in self.source or self.source.partition("/")[2].startswith(("aten::", "prims::"))


def is_drawn(source: str) -> bool:
    """Return whether a source's calls are random calls from a schema."""
    return source.startswith((DRAWN, BROKEN))


def reseed(text: str) -> None:
    """Seed every generator that samples use, by a name, so that a task generates the same calls in every run."""
    value = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "little")
    torch.manual_seed(value)
    np.random.seed(value)
    random.seed(value)
