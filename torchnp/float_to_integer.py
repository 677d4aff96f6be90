"""Conversion of floats to integers that gives the results of x86's scalar instructions on any processor.

C does not define the conversion of NaN and of values out of range, so the results of NumPy's and torch's loops depend
on processor and compiler. This module returns the values of torch's scalar code on x86. Its vector code differs where
it has instructions for unsigned integers: AVX2 for uint32, AVX-512 for uint32 and uint64. torch promises nothing for
those pairs.
"""

from __future__ import annotations

import functools

import numpy as np

ndarray = np.ndarray


def to_integer(x: ndarray, dtype: np.dtype) -> ndarray:
    """Convert floats of 4 or 8 bytes to integers.

    NumPy's loop is used if a check has shown that it converts as x86 does.
    """
    if dtype == np.uint32:  # x86 has no instruction for uint32: it takes the lower half of an int64
        return to_integer(x, np.dtype(np.int64)).astype(np.uint32)
    return x.astype(dtype) if _converts_as_x86(x.dtype, dtype) else _as_x86(x, dtype)


def _as_x86(x: ndarray, dtype: np.dtype) -> ndarray:
    """Convert as x86's scalar instructions do.

    Out-of-range values give the smallest int64 or int32; results of narrower or unsigned types are cut from a wider
    result.
    """
    if dtype == np.uint64:
        high = x >= 2.0**63
        low = _as_x86(np.where(high, x - x.dtype.type(2.0**63), x), np.dtype(np.int64)).astype(np.uint64)
        return np.where(high, low ^ np.uint64(2**63), low)
    wide = np.int64 if dtype == np.int64 else np.int32
    info = np.iinfo(wide)
    # int64's bounds are exact in floats. The integers next to int32's bounds are exact only in double precision.
    fits = (x >= info.min) & (x < 2.0**63) if wide == np.int64 else (x > info.min - 1.0) & (x < info.max + 1.0)
    if wide == np.int32 and x.dtype == np.float32:
        fits = (x >= info.min) & (x < 2.0**31)
    return np.where(fits, np.where(fits, x, 0).astype(wide), wide(info.min)).astype(dtype)


@functools.cache
def _converts_as_x86(source: np.dtype, dtype: np.dtype) -> bool:
    """Return whether NumPy's loops convert this pair as x86 does.

    Single numbers, strided arrays and full vectors are tried.
    """
    values = [np.nan, -np.nan, np.inf, -np.inf, 300.5, -1.5, -129.0, 7e4, 3e9, -3e9, 2.0**31, -(2.0**31), 2.0**32, 2.0**63,
              -(2.0**63), 1e19, -1e19, 2.0**64, 1e30, -1e30]  # fmt: skip
    with np.errstate(all="ignore"):
        x = np.repeat(np.array(values, source), 33)
        expect = _as_x86(x, dtype)
        ways = (x.astype(dtype), x[::2].astype(dtype), np.array([n.astype(dtype) for n in x[::33]]))
        found = all(np.array_equal(a, b) for a, b in zip(ways, (expect, expect[::2], expect[::33]), strict=True))
        # Roll the array, so that each value occurs in the vectorized part and in the remainder.
        return found and all(np.array_equal(np.roll(x, i).astype(dtype), np.roll(expect, i)) for i in range(0, 660, 33))
