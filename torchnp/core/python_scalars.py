"""torch's conversions of Python numbers, each defined once.

A number in a call has one of five C++ types: bool, int64, uint64 (integers from 2**63 on), double or complex double. It
becomes an element of a dtype in one of two ways. If an op converts a Scalar to a type, the number is *checked*
(`scalar`, `real`): a value beyond the type's range is an error. A number that is passed for a tensor, or that C++
converts implicitly, is *cast* (`number`): integers wrap, and no value is an error. These rules come from running torch
2.13 on a grid of values in all dtypes; the tests repeat this.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from torchnp import dtypes as dt
from torchnp.core.errors import overflow

ndarray = np.ndarray
Conversion = Callable[[Any, np.dtype], ndarray]


def too_wide(x: Any) -> OverflowError | None:
    """Return Python's error for an integer that is too large for every C++ type; None for any other number."""
    if not isinstance(x, int) or -(2**63) <= x < 2**64:
        return None
    return OverflowError("can't convert negative int to unsigned" if x < 0 else "int too big to convert")


def _remembered(convert: Conversion) -> Conversion:
    """Cache a conversion's results, as read-only 0-d arrays."""

    def make(x: Any, dtype: np.dtype) -> ndarray:
        made = np.array(convert(x.item() if isinstance(x, np.generic) else x, dtype))
        made.flags.writeable = False
        return made

    plain = functools.lru_cache(maxsize=4096, typed=True)(make)

    @functools.lru_cache(maxsize=256, typed=True)
    def signed(text: str, x: Any, dtype: np.dtype) -> ndarray:
        return make(x, dtype)

    @functools.wraps(convert)
    def converted(x: Any, dtype: np.dtype) -> ndarray:
        # 0.0 == -0.0, also as parts of complex numbers, so the cache key includes their text to distinguish them.
        kind = type(x)
        return plain(x, dtype) if kind is int or (x and kind is not complex) else signed(str(x), x, dtype)

    return converted


def _cast(x: Any, dtype: np.dtype) -> ndarray:
    problem = too_wide(x)
    if problem is not None:
        raise problem
    with np.errstate(all="ignore"):  # torch silently turns a number too large for a float into an infinity
        return dt.cast(np.asarray(x), dtype).view(dtype)  # NumPy's uint64 may be C's long long, a separate dtype


@_remembered
def number(x: Any, dtype: np.dtype) -> ndarray:
    """Return a number cast to a dtype like C++'s ``static_cast``, as a read-only 0-d array; integers wrap around.

    Raises
    ------
    OverflowError
        The number is an integer beyond 64 bits.
    """
    return _cast(x, dtype)


@_remembered
def scalar(x: Any, dtype: np.dtype) -> ndarray:
    """Return a number as an element of a dtype (``Scalar::to<T>``), as a read-only 0-d array, if its value fits.

    Negative integers wrap around in an unsigned dtype; floats lose their fraction in an integer dtype.

    Raises
    ------
    RuntimeError
        The value is beyond the range of the dtype, or is complex and the dtype is not.
    OverflowError
        The number is an integer beyond 64 bits.
    """
    if not _fits(x, dtype) and not too_wide(x):
        raise overflow(dt.c_name(dtype, "int64_t"))
    return _cast(x, dtype)


def single(x: Any, dtype: np.dtype) -> ndarray:
    """Return a number as torch stores it in a one-element tensor.

    For floating dtypes narrower than float32 the number is cast, for other dtypes it is checked.
    """
    return number(real(x), dtype) if dt.is_floating(dtype) and dtype.itemsize < 4 else scalar(x, dtype)


def real(x: Any) -> float:
    """Return a number as a double (``Scalar::toDouble``); raise an error for a complex number."""
    return x if type(x) is float else float(scalar(x, dt.float64))


def whole(x: Any) -> int:
    """Return a number as an int64 (``Scalar::toLong``); floats lose their fraction."""
    return int(scalar(x, dt.int64))


def tensor(x: Any) -> ndarray:
    """Return a number that is passed for a tensor as a 0-d array of its own dtype (a wrapped number)."""
    return x if isinstance(x, ndarray) else number(x, dt.number_dtype(x))


def item(x: ndarray) -> Any:
    """Return the element of a one-element tensor as a Python number (``Tensor.item()``)."""
    if x.dtype.num > 255:  # an ml_dtypes dtype
        x = dt.cast(x, dt.complex64 if dt.is_complex(x.dtype) else dt.float32)
    return x.item()


def _fits(x: Any, dtype: np.dtype) -> bool:
    """Return whether a number passes torch's range check (``c10::overflows`` is false)."""
    if dtype == dt.bool_:
        return True
    part = dt.to_real(dtype)
    if isinstance(x, complex):
        # The imaginary part must fit as well; even 0 does not if the dtype's smallest value is above 0.
        return (dt.is_complex(dtype) or x.imag == 0) and _fits(x.real, part) and _fits(x.imag, part)
    low, high = _limits(part)
    if isinstance(x, int):
        return (low if low < 0 else -high) <= x <= high
    if not math.isfinite(x):
        return dt.is_inexact(dtype) and (math.isnan(x) or dt.has_infinity(part))
    # An integer limit is compared as a double, so that 2.0**63 passes for an int64.
    return float(low) <= x <= float(high)


@functools.cache
def _limits(dtype: np.dtype) -> tuple[Any, Any]:
    if dtype.kind in "iu":
        return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    info = ml_dtypes.finfo(dtype)
    return (2.0**-127 if dtype == dt.float8_e8m0fnu else float(info.min)), float(info.max)


def each(value: Any, n: int) -> tuple[int, ...]:
    """Return an ``int[n]`` argument as a tuple; torch repeats a single number n times."""
    return (int(value),) * n if isinstance(value, (int, np.integer)) else tuple(map(int, value))
