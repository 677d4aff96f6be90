"""Large dense tensors block by block, so that what one step writes is in the cache when the next one reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from torchnp.threads import LARGE, PIECE, blocks, share, within

ndarray = np.ndarray
STRIP = 1 << 16  # elements


def pieces(n: int) -> Iterator[slice]:
    """``range(n)`` in parts for `share`: one, where other threads do not pay."""
    return blocks(n, PIECE if n >= LARGE else max(n, 1))


def in_strips(chain: Callable[[ndarray, ndarray], Any], x: ndarray, size: int = STRIP) -> ndarray:
    """``chain(x, out)`` for each strip of a tensor; the chain writes its second argument."""
    out = np.empty_like(x)
    if x.size <= size or not x.flags.c_contiguous:
        chain(x, out)
        return out
    source, target = x.reshape(-1), out.reshape(-1)

    def strips(piece: slice) -> None:
        for part in within(piece, size):
            chain(source[part], target[part])

    share(strips, pieces(x.size) if size >= STRIP else [slice(0, x.size)])
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
