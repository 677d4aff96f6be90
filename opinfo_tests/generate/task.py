"""What is drawn at a time, and the generators that it is drawn with."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass, field

import numpy as np
import torch

PLAIN = " without rules"  # behind the number of draws: no calls are made by rule beside them


def number(count: str) -> int:
    """Return how many calls a task draws."""
    return int(count.removesuffix(PLAIN))


DRAWN = "drawn/"  # before an overload: the source of calls that are drawn from its schema
GIVEN = "given/"  # before an overload: the source of the samples that another library gives of it
BROKEN = "broken/"  # before an overload: the source of drawn calls that torch takes, each with one argument changed


@dataclass(frozen=True)
class Task:
    """One OpInfo entry in one dtype, or an overload and how many calls are drawn of it: what a worker is given.

    Tasks of the same ``beside`` follow each other in a plan and are best run by one process: what one has drawn, the
    next has too.
    """

    source: str
    dtype: str
    beside: str = field(default="", compare=False, repr=False)

    @property
    def is_drawn(self) -> bool:
        """Whether its calls are drawn from a schema: any values and memory are among them already."""
        return is_drawn(self.source)

    @property
    def is_kept(self) -> bool:
        """Whether its calls may be kept from run to run: another library's may be others every day."""
        return "::" not in self.source or self.source.partition("/")[2].startswith(("aten::", "prims::"))


def is_drawn(source: str) -> bool:
    """Return whether a source's calls are drawn from a schema."""
    return source.startswith((DRAWN, BROKEN))


def reseed(text: str) -> None:
    """Seed every generator that the samples draw from, by name, so that a task alone gives what the whole run gives."""
    value = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "little")
    torch.manual_seed(value)
    np.random.seed(value)
    random.seed(value)
