"""Python numbers as arrays of a dtype, checked as torch's Scalar conversion does."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from torchnp.dtypes import FLOAT8S, bool_, c_name, cast, float8_e5m2, is_complex, is_floating, is_integral, to_real

ndarray = np.ndarray

_LIMIT = {
    "float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": float(np.finfo(np.float32).max),
    "float8_e4m3fn": 448.0, "float8_e4m3fnuz": 240.0, "float8_e5m2": 57344.0, "float8_e5m2fnuz": 57344.0,
    "float8_e8m0fnu": 2.0**127,
}  # fmt: skip


_PLAIN = (np.dtype(np.float32), np.dtype(np.float64))


def fill_value(value: Any, dtype: np.dtype) -> ndarray:
    """A Python number as a 0-d array, checked as torch's Scalar conversion does.

    Raises
    ------
    RuntimeError
        The number does not fit the dtype (integers may wrap by a sign, floats are truncated).
    """
    # Most numbers fit without a question.
    kind = type(value)
    if (kind is float or kind is int) and -1e30 < value < 1e30 and dtype in _PLAIN:
        return np.array(value, dtype)
    if kind is int and 0 <= value < 128 and dtype.num < 256:
        return np.array(value, dtype)
    if _overflows(value, dtype):
        raise RuntimeError(f"value cannot be converted to type {c_name(dtype, 'int64_t')} without overflow")
    if isinstance(value, complex) and not is_complex(dtype) and dtype != bool_:
        value = value.real
    if is_integral(dtype):
        bits = 8 * dtype.itemsize
        value = int(value) & ((1 << bits) - 1)
        return np.array(value, f"u{dtype.itemsize}").view(dtype)
    return cast(np.array(value), dtype)


def has_infinity(dtype: np.dtype) -> bool:
    """Whether a floating dtype has infinities: most float8s have none."""
    return dtype not in FLOAT8S or dtype == float8_e5m2


def _overflows(value: Any, dtype: np.dtype) -> bool:
    if dtype == bool_:
        return False
    if is_complex(dtype):
        part = to_real(dtype)
        return _overflows(value.real, part) or _overflows(value.imag, part)
    if isinstance(value, complex):
        if value.imag:
            return True
        value = value.real
    if is_floating(dtype):
        limit = _LIMIT.get(str(dtype))
        return limit is not None and abs(value) > limit and not (math.isinf(value) and has_infinity(dtype))
    if value != value:
        return True
    info = np.iinfo(dtype)
    if isinstance(value, float):
        return value < float(info.min) or value > float(info.max)
    if dtype.kind == "u" and value < 0:
        return -value > int(info.max)
    return not info.min <= value <= info.max
