"""Large dense tensors strip by strip, so that what one step writes is in the cache when the next one reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

ndarray = np.ndarray
STRIP = 1 << 15  # elements


def in_strips(chain: Callable[[ndarray, ndarray], Any], x: ndarray) -> ndarray:
    """``chain(x, out)`` for each strip of a tensor; the chain writes its second argument."""
    out = np.empty_like(x)
    if x.size <= STRIP or not x.flags.c_contiguous:
        chain(x, out)
        return out
    source, target = x.reshape(-1), out.reshape(-1)
    for start in range(0, x.size, STRIP):
        chain(source[start : start + STRIP], target[start : start + STRIP])
    return out


def limited(x: ndarray, low: ndarray | None, high: ndarray | None) -> ndarray:
    """np.maximum with ``low``, then np.minimum with ``high``.

    NumPy has wide instructions for two arrays only, so a large tensor meets a strip of the number. Of two zeros
    the second operand is taken: the tensor's own.
    """
    limits = [(f, v) for f, v in ((np.maximum, low), (np.minimum, high)) if v is not None]
    if x.size <= STRIP or x.dtype.kind != "f" or not x.flags.c_contiguous or any(v.ndim for _, v in limits):
        for ufunc, limit in limits:
            x = ufunc(limit, x)
        return x
    strips = [(ufunc, np.full(STRIP, limit, x.dtype)) for ufunc, limit in limits]

    def chain(part: ndarray, out: ndarray) -> None:
        for ufunc, strip in strips:
            part = ufunc(strip[: part.size], part, out=out)

    return in_strips(chain, x)
