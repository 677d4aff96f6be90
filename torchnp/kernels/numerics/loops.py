"""The loops over elements that torch's kernels run in, where their results show which it was."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from torchnp.dtypes import cast
from torchnp.layout import contiguous
from torchnp.scalars import number

Formula = Callable[[Any], np.ndarray]


@dataclass(frozen=True)
class Loop:
    """How a loop of torch is built: a vector of ``lanes`` bytes at a time (0: element after element), and what for."""

    lanes: int
    gradient: bool = False

    @property
    def vector(self) -> bool:
        """Whether it computes with vectors."""
        return self.lanes > 0

    @property
    def backward(self) -> Loop:
        """The loop that computes the gradient."""
        return replace(self, gradient=True)

    def elements(self, dtype: np.dtype) -> int:
        """How many elements of a dtype a step takes."""
        return self.lanes // dtype.itemsize or 1


SCALAR, VECTOR = Loop(0), Loop(32)


def left_over(strides: Sequence[int], dtype: np.dtype, *operands: np.ndarray) -> np.ndarray:
    """Which elements of a result torch computes one by one: those that do not fill two of its vectors.

    It goes along the innermost dimensions of a result of these ``strides``, as far as all operands, which have its shape
    or broadcast to it, are one run of memory, or one of them one element; where they are not, it takes no vectors.
    """
    shape = np.broadcast_shapes(*(x.shape for x in operands))
    order = sorted(range(len(shape)), key=lambda d: -strides[d])
    seen = [np.broadcast_to(x, shape).transpose(order) for x in operands]
    turned = [shape[d] for d in order]
    run, still = 1, [False] * len(seen)
    for d in reversed(range(len(shape))):
        if turned[d] == 1:
            continue
        steps = [x.strides[d] for x in seen]
        if run == 1:
            still = [step == 0 for step in steps]
        if sum(still) > 1 or any(step != (0 if s else run * x.itemsize) for step, s, x in zip(steps, still, seen)):
            break
        run *= turned[d]
    place = np.arange(math.prod(shape)).reshape(turned) % run
    return (place >= run - run % (2 * VECTOR.elements(dtype))).transpose(np.argsort(order))


def with_double(limit: float, vector: Formula, single: Formula, dtype: np.dtype, *operands: np.ndarray) -> np.ndarray:
    """A formula of a number, row-major: in torch's vectors one, of a number of ``dtype``; beside them another, of a double."""
    out = vector(number(float(limit), dtype))
    alone = left_over(contiguous(out.shape), operands[0].dtype, *operands)
    return np.where(alone, cast(single(np.float64(limit)), out.dtype), out) if alone.any() else out
