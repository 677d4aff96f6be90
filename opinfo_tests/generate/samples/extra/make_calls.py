"""Makes the calls of this package's rows; a row describes a call with torch's arguments.

A row is a line of text: letters for dtypes (`KINDS`), the overload, and the arguments as a Python expression.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import torch

from ....backends.torch_backend import TORCH_DTYPES
from ....case import Case
from ...task import reseed
from ..recording import Recorder
from .table import ROWS

SOURCE = "own"

# The dtypes of a row: floats, wide floats, integers, bool, complex, single precision. "-" is for rows that name their
# dtypes in the call, or have none: they run once, with the rows of float32.
KINDS = {"f": ("float32", "float64", "bfloat16", "float16"), "w": ("float32", "float64"), "i": ("int64", "uint8"), "b": ("bool",),
         "c": ("complex64",), "s": ("float32",), "-": ("float32",)}  # fmt: skip


class Make:
    """The functions with which rows make arguments of one dtype."""

    def __init__(self, dtype: str) -> None:
        self.dtype = TORCH_DTYPES[dtype]

    def x(self, *shape: int, low: float = -3.0, high: float = 3.0) -> torch.Tensor:
        if self.dtype.is_complex:
            return torch.complex(*(torch.empty(shape, dtype=torch.float64).uniform_(low, high) for _ in range(2))).to(
                self.dtype
            )
        if self.dtype.is_floating_point:
            return torch.empty(shape, dtype=torch.float64).uniform_(low, high).to(self.dtype)
        least = max(int(low), 0) if self.dtype in (torch.uint8, torch.bool) else int(low)
        return torch.randint(least, int(high) + 1, shape).to(self.dtype)

    def p(self, *shape: int) -> torch.Tensor:
        return self.x(*shape, low=1.0)

    def ends(self, *more: float) -> torch.Tensor:
        inf, nan = float("inf"), float("nan")
        return torch.tensor([0.0, -0.0, inf, -inf, nan, -nan, *more], dtype=torch.float64).to(self.dtype)

    def of(self, values: Any) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.complex128 if self.dtype.is_complex else torch.float64).to(self.dtype)

    @staticmethod
    def names() -> dict[str, Any]:
        return {
            "torch": torch,
            "call": lambda *args, **kwargs: (args, kwargs),
            "ints": lambda *shape: torch.randint(0, 4, shape),
            "m": lambda *shape: torch.rand(shape) < 0.5,
            "g": lambda: torch.Generator().manual_seed(7),
        }


@cache
def rows() -> list[tuple[frozenset[str], str, str]]:
    """Return the dtypes, the overload (``aten::`` by default) and the arguments of each row.

    An indented line continues the row before it.
    """
    found = []
    for line in re.sub(r"\n +", " ", ROWS.strip()).splitlines():
        kinds, op, call = line.split(None, 2)
        found.append((frozenset(d for k in kinds for d in KINDS[k]), op if "::" in op else f"aten::{op}", call))
    return found


@cache
def own_reach() -> dict[str, frozenset[str]]:
    """Return the overloads that the rows call, in the form of `opinfo_reach.reach`, under the source name ``own``."""
    return {SOURCE: frozenset(op for _, op, _ in rows())}


def own_dtypes() -> set[str]:
    return set().union(*(dtypes for dtypes, _, _ in rows()))


def run_own(dtype: str, recorder: Recorder) -> Iterator[None]:
    """Build the calls of all rows in one dtype and pass them to the recorder; yield after each.

    A call that the recorder does not want is only counted.
    """
    recorder.source, recorder.sample_dtype = SOURCE, dtype
    for dtypes, op, call in rows():
        if dtype in dtypes:
            if recorder.looks_at(op):
                see(op, call, dtype, recorder)
            else:
                recorder.calls[op] += 1
            yield


def see(op: str, call: str, dtype: str, recorder: Recorder) -> None:
    """Build the call of a row in one dtype and pass it to the recorder."""
    make = Make(dtype)
    reseed(op + call)
    args, kwargs = eval(f"call{call}", {**make.names(), "x": make.x, "p": make.p, "ends": make.ends, "of": make.of})
    recorder.see(op, args, kwargs)


def own_cases(op: str, most: int) -> list[Case]:
    """Return up to ``most`` of one overload's handwritten calls: each row in its first dtype, then each in its second, and so on."""
    found: list[Case] = []
    mine = [(sorted(dtypes), call) for dtypes, name, call in rows() if name == op]
    recorder = Recorder(op.__eq__, found.append, relay=False)
    recorder.source = SOURCE
    for turn in range(max((len(dtypes) for dtypes, _ in mine), default=0)):
        for dtypes, call in mine:
            if turn < len(dtypes) and len(found) < most:
                see(op, call, dtypes[turn], recorder)
    return found
