"""Floats as integers, NaN and what does not fit too: as x86's instructions for one number have it, on every processor.

C promises nothing there, so NumPy's loops and torch's give what their processor and compiler give. torch on x86 has the
values below, element by element; its vectors differ where there is an instruction of theirs for unsigned integers: with
AVX2 for uint32, and with AVX-512 for uint32 and uint64. Of those pairs torch promises nothing.
"""

from __future__ import annotations

import functools

import numpy as np

ndarray = np.ndarray


def to_integer(x: ndarray, dtype: np.dtype) -> ndarray:
    """Floats of 4 or 8 bytes as integers: in C nothing is promised of what does not fit, so NumPy is asked once."""
    if dtype == np.uint32:  # x86 has no instruction for it: the lower half of an int64
        return to_integer(x, np.dtype(np.int64)).astype(np.uint32)
    return x.astype(dtype) if _converts_as_x86(x.dtype, dtype) else _as_x86(x, dtype)


def _as_x86(x: ndarray, dtype: np.dtype) -> ndarray:
    """The smallest number for what does not fit; of narrow integers and unsigned ones in the wider that they are taken from."""
    if dtype == np.uint64:
        high = x >= 2.0**63
        low = _as_x86(np.where(high, x - x.dtype.type(2.0**63), x), np.dtype(np.int64)).astype(np.uint64)
        return np.where(high, low ^ np.uint64(2**63), low)
    wide = np.int64 if dtype == np.int64 else np.int32
    info = np.iinfo(wide)
    # int64's bounds are floats; int32's neighbours are, of double precision.
    fits = (x >= info.min) & (x < 2.0**63) if wide == np.int64 else (x > info.min - 1.0) & (x < info.max + 1.0)
    if wide == np.int32 and x.dtype == np.float32:
        fits = (x >= info.min) & (x < 2.0**31)
    return np.where(fits, np.where(fits, x, 0).astype(wide), wide(info.min)).astype(dtype)


@functools.cache
def _converts_as_x86(source: np.dtype, dtype: np.dtype) -> bool:
    """Whether NumPy's loops for this pair give that, for one number, a step between them, and as many as fill vectors."""
    values = [np.nan, -np.nan, np.inf, -np.inf, 300.5, -1.5, -129.0, 7e4, 3e9, -3e9, 2.0**31, -(2.0**31), 2.0**32, 2.0**63,
              -(2.0**63), 1e19, -1e19, 2.0**64, 1e30, -1e30]  # fmt: skip
    with np.errstate(all="ignore"):
        x = np.repeat(np.array(values, source), 33)
        expect = _as_x86(x, dtype)
        ways = (x.astype(dtype), x[::2].astype(dtype), np.array([n.astype(dtype) for n in x[::33]]))
        found = all(np.array_equal(a, b) for a, b in zip(ways, (expect, expect[::2], expect[::33]), strict=True))
        # In the beginning and the rest of a longer array each has its turn.
        return found and all(np.array_equal(np.roll(x, i).astype(dtype), np.roll(expect, i)) for i in range(0, 660, 33))
