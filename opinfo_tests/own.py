"""Samples of our own, for overloads that no OpInfo entry reaches: each row is a call in torch's spelling."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from .record import Recorder
from .samples import reseed
from .schemas import siblings
from .torch_backend import TORCH_DTYPES

FLOATS = ("float32", "float64", "bfloat16", "float16")
SOURCE = "own"


class Make:
    """What the rows are written with: arrays of the row's dtype, reproducible by the row's place in the file."""

    def __init__(self, dtype: str) -> None:
        self.dtype = TORCH_DTYPES[dtype]

    def __call__(self, *shape: int, low: float = -3, high: float = 3) -> torch.Tensor:
        if self.dtype.is_floating_point or self.dtype.is_complex:
            return torch.empty(shape, dtype=torch.float64).uniform_(low, high).to(self.dtype)
        return torch.randint(0 if self.dtype in (torch.uint8, torch.bool) else int(low), int(high), shape).to(
            self.dtype
        )

    @staticmethod
    def ints(*shape: int, high: int = 4) -> torch.Tensor:
        return torch.randint(0, high, shape)


# overload: (dtypes, calls as text, where x makes an array and ints makes indices)
ROWS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "aten::_adaptive_avg_pool2d_backward": (FLOATS, ("(x(2,3,2,2), x(2,3,7,5))", "(x(3,2,3), x(3,6,6))")),
    "aten::avg_pool2d_backward": (
        FLOATS,
        (
            "(x(2,3,3,3), x(2,3,6,6), [2,2], [2,2], [0,0], False, True, None)",
            "(x(2,3,4,4), x(2,3,7,7), [3,3], [2,2], [1,1], True, False, None)",
        ),
    ),
    "aten::pow.Scalar": ((*FLOATS, "int64", "complex64"), ("(2, abs(x(3,4)))", "(1.5, x(5))")),
    "aten::fmod.Scalar": ((*FLOATS, "int64"), ("(x(3,4), 2)", "(x(7), -1.5)")),
    "aten::div.Scalar_mode": (
        (*FLOATS, "int64"),
        ("(x(3,4), 2, rounding_mode='floor')", "(x(3,4), 1.5, rounding_mode='trunc')", "(x(3), 2, rounding_mode=None)"),
    ),
    "aten::var.dim": (FLOATS, ("(x(3,4), [0])", "(x(3,4), [0,1], False, True)")),
    "aten::randperm": (("int64",), ("(7,)", "(0,)")),
    "aten::copy": ((*FLOATS, "int64", "bool"), ("(x(3,4), x(4))",)),
}  # fmt: skip


def own_reach() -> dict[str, frozenset[str]]:
    """Return what the own rows reach, as one more entry."""
    return {SOURCE: frozenset(ROWS).union(*(siblings()[op] for op in ROWS))}


def own_dtypes() -> set[str]:
    return {d for dtypes, _ in ROWS.values() for d in dtypes}


def run_own(dtype: str, recorder: Recorder) -> Iterator[None]:
    """Offer all rows of one dtype."""
    recorder.source, recorder.sample_dtype = SOURCE, dtype
    for op, (dtypes, calls) in ROWS.items():
        if dtype not in dtypes:
            continue
        for call in calls:
            reseed(op + call)
            make = Make(dtype)
            args, kwargs = eval(f"call{call}", {"call": _call, "x": make, "ints": make.ints, "torch": torch})
            recorder.see(op, args, kwargs)
            yield


def _call(*args: Any, **kwargs: Any) -> tuple[tuple, dict[str, Any]]:
    return args, kwargs
