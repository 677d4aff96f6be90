"""Process large dense tensors in blocks, so that one step's output is in cache when the next step reads it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from torchnp.core.python_scalars import number
from torchnp.dtypes import FLOATS
from torchnp.threads import LARGE, blocks, piece, share, within
from torchnp.thresholds import Threshold

ndarray = np.ndarray
STRIP: Threshold = 1 << 16  # elements


def pieces(n: int) -> Iterator[slice]:
    """Divide ``range(n)`` into parts for `share`; yield a single part if several threads do not pay off."""
    return blocks(n, piece(n) if n >= LARGE else max(n, 1))


def row_major_blocks(sizes: Sequence[int], item: int, budget: int) -> Iterator[tuple[slice, ...]]:
    """Yield slices of an array's first dimensions for blocks of about ``budget`` bytes.

    One index of the last of these dimensions takes ``item`` bytes. A block spans several indices of a dimension only if
    it contains all of the later dimensions.
    """
    some, steps = max(budget // max(item, 1), 1), []
    for size in reversed(sizes):
        steps.append(max(min(some, size), 1))
        some = max(some // max(size, 1), 1)
    return itertools.product(*(blocks(size, step) for size, step in zip(sizes, reversed(steps), strict=True)))


def in_strips(chain: Callable[[ndarray, ndarray], Any], x: ndarray, size: int = STRIP) -> ndarray:
    """Call ``chain(x, out)``, which writes ``out``, for each strip of a tensor.

    With several threads the strips are larger, because each thread waits for the GIL after every NumPy call.
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


def by_tiles(
    function: Callable[..., Sequence[ndarray]], *operands: ndarray, outs: Sequence[ndarray] | None = None
) -> tuple[ndarray, ...]:
    """Return the results of an elementwise function that returns several arrays, tile by tile if these are large.

    Operands broadcast. Results have the first operand's order of dimensions in memory, unless they are written to
    ``outs``.
    """
    shape = np.broadcast_shapes(*(x.shape for x in operands))
    if outs is None and prod(shape) <= 2 * STRIP:
        return tuple(function(*operands))
    strides = np.broadcast_to(operands[0], shape).strides
    order = sorted(range(len(shape)), key=lambda d: -strides[d])
    seen = [x if x.size == 1 else np.broadcast_to(x, shape).transpose(order) for x in operands]
    part = lambda tile: function(*(x if x.size == 1 else x[tile] for x in seen))
    first, *others = row_major_blocks([shape[d] for d in order], 1, STRIP)
    values = part(first)
    if outs is None:
        outs = [np.empty([shape[d] for d in order], v.dtype).transpose(np.argsort(order)) for v in values]
    targets = [out.transpose(order) for out in outs]

    def place(tile: tuple[slice, ...], values: Sequence[ndarray]) -> None:
        for target, value in zip(targets, values, strict=True):
            target[tile] = value

    place(first, values)
    share(lambda tile: place(tile, part(tile)), others)
    return tuple(outs)


FILLED: Threshold = 1 << 14  # elements; from here on, filling a strip with the limit is faster than NumPy's scalar loop


def limited(x: ndarray, low: ndarray | None, high: ndarray | None) -> ndarray:
    """Apply np.maximum with ``low``, then np.minimum with ``high``.

    NumPy has SIMD loops only for two arrays, so a large tensor is paired with a strip filled with the number. If both
    operands are zero, the ufunc returns the second one. This is the tensor's element, so its sign is kept.
    """
    limits = [(f, v) for f, v in ((np.maximum, low), (np.minimum, high)) if v is not None]
    if x.size < FILLED or x.dtype.kind not in "fiu" or not x.flags.c_contiguous or any(v.ndim for _, v in limits):
        for ufunc, limit in limits:
            x = ufunc(limit, x)
        return x
    strips = [(ufunc, np.full(min(x.size, 2 * STRIP), limit, x.dtype)) for ufunc, limit in limits]

    def chain(part: ndarray, out: ndarray) -> None:
        for ufunc, strip in strips:
            part = ufunc(strip[: part.size], part, out=out)

    return in_strips(chain, x.reshape(-1)).reshape(x.shape)


def limited_halves(x: ndarray, low: ndarray | None, high: ndarray | None) -> ndarray:
    """Apply `limited` to a half type in a tenth of the time: compare the bits as integers, in strips.

    As int16, all negative numbers are below the positive ones, which are in order. As uint16, the negative numbers are
    above them, ordered by magnitude. So each limit takes one maximum or minimum of integers.

    Parameters
    ----------
    x : ndarray of float16 or bfloat16
    low, high : 0-d ndarray, optional
        Limits of the same dtype, not NaN; ``low`` < ``high`` if both are given.
    """
    steps: list[tuple[np.ufunc, ndarray]] = []
    for limit, (of_positive, of_negative) in ((low, (np.maximum, np.minimum)), (high, (np.minimum, np.maximum))):
        if limit is not None:
            negative = np.signbit(limit)
            steps.append((of_negative if negative else of_positive, limit.view(np.uint16 if negative else np.int16)))
    infinity = int(np.array(np.inf, x.dtype).view(np.int16))
    zeros = [v.view(np.int16) ^ np.int16(-0x8000) for v in (low, high) if v is not None and v == 0]  # of the other sign

    def chain(part: ndarray, out: ndarray) -> None:
        value = part
        for ufunc, limit in steps:
            value = ufunc(value.view(limit.dtype), limit, out=out.view(limit.dtype))
        magnitude = part & np.int16(0x7FFF)
        if zeros or magnitude.max() > infinity:
            kept = magnitude > infinity  # NaN
            for zero in zeros:  # if both are zero, the result is the element
                kept |= part == zero
            np.copyto(out, part, where=kept)

    return in_strips(chain, x.view(np.int16)).view(x.dtype)


MANY: Threshold = 1 << 14  # elements; from here on, three passes over bits are faster than a branch for each element
_BITS = {n: (np.dtype(f"i{n}"), np.dtype(f"u{n}")) for n in (1, 2, 4, 8)}


def choose(condition: ndarray, a: Any, b: Any) -> ndarray:
    """Compute ``np.where(condition, a, b)``; for many elements with bit masks, because np.where branches for each.

    Parameters
    ----------
    condition : ndarray of bool
    a, b : ndarray or number
        Of the condition's shape, or a single element.
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


def has_zero_or_nan(x: ndarray) -> bool:
    """Return whether an element of an array is 0 or NaN; half types are slow to compare as numbers."""
    if x.dtype not in FLOATS:
        return not x.all()
    unsigned = _BITS[x.dtype.itemsize][1].type
    magnitude = x[None].view(unsigned) & ~unsigned(0) >> unsigned(1)  # [None]: NumPy scalars would warn
    infinity = np.asarray(np.inf, x.dtype).view(unsigned)
    return bool((magnitude - unsigned(1) >= infinity).any())  # 0 becomes the largest number


def _fits(x: Any, dtype: np.dtype) -> bool:
    """Return whether an operand has this dtype, or is a Python number and the dtype is float32 or float64."""
    return x.dtype == dtype if isinstance(x, (ndarray, np.generic)) else dtype in (np.float32, np.float64)


def _blend(condition: ndarray, dtype: np.dtype, a: ndarray, b: ndarray) -> ndarray:
    signed, unsigned = _BITS[dtype.itemsize]
    out = np.empty(condition.shape, dtype)
    bits, to, first, second = (
        x.reshape(-1).view(t) for x, t in zip((condition, out, a, b), (np.int8, *[unsigned] * 3))
    )

    nothing = [x.size == 1 and x[0] == 0 for x in (first, second)]  # if one is 0, a mask on the other is enough

    def strips(piece: slice) -> None:
        size = min(STRIP, piece.stop - piece.start)
        narrow, wide = np.empty(size, np.int8), np.empty(size, signed)
        for strip in within(piece, STRIP):
            part = to[strip]
            one, other = (x if x.size == 1 else x[strip] for x in (first, second))
            n = part.size
            # All mask bits are set where the condition is true; if ``a`` is zero, where it is false.
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
