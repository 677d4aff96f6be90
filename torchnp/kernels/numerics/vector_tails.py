"""The element loops of torch's kernels (vector or scalar), where the results depend on the loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from torchnp.core.python_scalars import number
from torchnp.dtypes import cast
from torchnp.layout.stride_rules import WRITTEN, contiguous, iterated, layout_of, vector_run

Formula = Callable[[Any], np.ndarray]


@dataclass(frozen=True)
class Loop:
    """One of torch's loops: ``lanes`` bytes per vector (0: element by element), and whether it computes a gradient."""

    lanes: int
    gradient: bool = False

    @property
    def vector(self) -> bool:
        """Whether the loop uses vectors."""
        return self.lanes > 0

    @property
    def backward(self) -> Loop:
        """The same loop, computing the gradient."""
        return replace(self, gradient=True)

    def elements(self, dtype: np.dtype) -> int:
        """Return the number of elements of a dtype per step."""
        return self.lanes // dtype.itemsize or 1


SCALAR, VECTOR = Loop(0), Loop(32)
AVX512 = Loop(64)  # for the few elementwise kernels that torch also compiles for AVX512, if the CPU has it


def left_over(strides: Sequence[int], dtype: np.dtype, *operands: np.ndarray, loop: Loop = VECTOR) -> np.ndarray:
    """Return the mask of the elements that torch computes one by one, because they do not fill two SIMD vectors.

    ``strides`` are those of the result. `vector_run` says how far torch vectorizes.
    """
    shape = np.broadcast_shapes(*(x.shape for x in operands))
    order = sorted(range(len(shape)), key=lambda d: -strides[d])
    turned = [shape[d] for d in order]
    run, inner = vector_run(operands, shape, order)
    alone = np.zeros(run, bool)
    alone[run - run % (2 * loop.elements(dtype)) :] = True
    return np.broadcast_to(alone.reshape(turned[inner:]), turned).transpose(np.argsort(order))


def alone_among(dtype: np.dtype, *operands: np.ndarray, loop: Loop = VECTOR) -> np.ndarray:
    """Return `left_over` for a result that is new or one of the operands."""
    return left_over(iterated([layout_of(x) for x in operands]), dtype, *operands, loop=loop)


def vector_or_tail(
    whole: np.ndarray, of: Callable[..., np.ndarray], *operands: np.ndarray, loop: Loop = VECTOR
) -> np.ndarray:
    """Replace the tail of ``whole``, where torch uses scalar code instead of vector code, by the result of ``of``."""
    whole, dtype, target = np.asarray(whole), operands[0].dtype, WRITTEN.target
    beside = isinstance(target, np.ndarray) and (target.shape, target.dtype) == (whole.shape, dtype)
    iterate = (target, *operands) if beside else operands
    if all(x.flags.c_contiguous and x.shape == whole.shape for x in (whole, *iterate)):
        if over := whole.size % (2 * loop.elements(dtype)):
            whole.reshape(-1)[-over:] = of(*(x.reshape(-1)[-over:] for x in operands))
        return whole
    alone = alone_among(dtype, *iterate, loop=loop)
    if alone.any():
        whole[alone] = of(*(np.broadcast_to(x, alone.shape)[alone] for x in operands))
    return whole


def with_double(limit: float, vector: Formula, single: Formula, dtype: np.dtype, *operands: np.ndarray) -> np.ndarray:
    """Call ``vector`` with the limit in ``dtype``; for the tail, call ``single`` with the limit in double precision.

    The result is row-major.
    """
    out = vector(number(float(limit), dtype))
    alone = left_over(contiguous(out.shape), operands[0].dtype, *operands)
    return np.where(alone, cast(single(np.float64(limit)), out.dtype), out) if alone.any() else out
