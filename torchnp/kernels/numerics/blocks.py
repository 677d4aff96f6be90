"""Large dense tensors block by block, so that what one step writes is in the cache when the next one reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from torchnp.core.python_scalars import number
from torchnp.threads import LARGE, blocks, piece, share, within

ndarray = np.ndarray
STRIP = 1 << 16  # elements


def pieces(n: int) -> Iterator[slice]:
    """``range(n)`` in parts for `share`: one, where other threads do not pay."""
    return blocks(n, piece(n) if n >= LARGE else max(n, 1))


def in_strips(chain: Callable[[ndarray, ndarray], Any], x: ndarray, size: int = STRIP) -> ndarray:
    """``chain(x, out)`` for each strip of a tensor; the chain writes its second argument.

    Strips for several threads are larger: each waits for Python's lock after every pass.
    """
    out = np.empty_like(x)
    if size == STRIP and x.size >= LARGE:
        size = 2 * STRIP
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
    strips = [(ufunc, np.full(min(x.size, 2 * STRIP), limit, x.dtype)) for ufunc, limit in limits]

    def chain(part: ndarray, out: ndarray) -> None:
        for ufunc, strip in strips:
            part = ufunc(strip[: part.size], part, out=out)

    return in_strips(chain, x)


MANY = 1 << 14  # elements from which on three passes over bits are quicker than a branch at each that nobody can guess
_BITS = {n: (np.dtype(f"i{n}"), np.dtype(f"u{n}")) for n in (1, 2, 4, 8)}


def choose(condition: ndarray, a: Any, b: Any) -> ndarray:
    """``np.where(condition, a, b)``; of many elements in one dtype by bits, as np.where branches at each.

    Parameters
    ----------
    condition : ndarray of bool
    a, b : ndarray or number
        Of the condition's shape, or one element.
    """
    if condition.size < MANY or condition.dtype != np.bool_ or not condition.flags.c_contiguous:
        return np.where(condition, a, b)
    whole = [x for x in (a, b) if isinstance(x, ndarray) and x.ndim]
    dtype = whole[0].dtype if whole else condition.dtype
    for x in whole:
        if x.shape != condition.shape or x.dtype is not dtype or not x.flags.c_contiguous:
            return np.where(condition, a, b)
    if dtype.itemsize not in _BITS or not all(_fits(x, dtype) for x in (a, b)):
        return np.where(condition, a, b)
    return _blend(condition, dtype, *(x if isinstance(x, ndarray) else number(x, dtype) for x in (a, b)))


def _fits(x: Any, dtype: np.dtype) -> bool:
    """Whether a number takes a dtype beside an array of it."""
    return x.dtype == dtype if isinstance(x, (ndarray, np.generic)) else dtype in (np.float32, np.float64)


def _blend(condition: ndarray, dtype: np.dtype, a: ndarray, b: ndarray) -> ndarray:
    signed, unsigned = _BITS[dtype.itemsize]
    out = np.empty(condition.shape, dtype)
    bits, to, first, second = (
        x.reshape(-1).view(t) for x, t in zip((condition, out, a, b), (np.int8, *[unsigned] * 3))
    )

    nothing = [x.size == 1 and x[0] == 0 for x in (first, second)]  # no bit is set: the other's are kept, or cleared

    def strips(piece: slice) -> None:
        size = min(STRIP, piece.stop - piece.start)
        narrow, wide = np.empty(size, np.int8), np.empty(size, signed)
        for strip in within(piece, STRIP):
            part = to[strip]
            one, other = (x if x.size == 1 else x[strip] for x in (first, second))
            n = part.size
            # All bits are set where the condition holds; of nothing there, where it does not.
            wide[:n] = np.subtract(bits[strip], 1, narrow[:n]) if nothing[0] else np.negative(bits[strip], narrow[:n])
            mask = wide[:n].view(unsigned)
            if nothing[0]:
                np.bitwise_and(other, mask, part)
            elif nothing[1]:
                np.bitwise_and(one, mask, part)
            else:
                np.bitwise_xor(one, other, part)
                np.bitwise_and(part, mask, part)
                np.bitwise_xor(part, other, part)

    share(strips, pieces(out.size))
    return out
