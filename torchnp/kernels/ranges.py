"""Ranges: arange, range, linspace, logspace, and the indices of triangles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from torchnp.checks import check, not_implemented
from torchnp.dtypes import (
    BARE_UNSIGNED,
    FLOAT8S,
    as_dtype,
    bool_,
    cast,
    complex32,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int32,
    int64,
    is_complex,
    is_integral,
    scalar_name,
    to_complex,
    to_real,
)
from torchnp.dtypes import get_default_dtype as default_dtype
from torchnp.kernels._memory import LONG, check_options, factory_dtype
from torchnp.kernels._number import C_NAMES, fill_value
from torchnp.registry import kernel

ndarray = np.ndarray

# ---------------------------------------------------------------- by step

_ARANGE_INTS = (np.dtype(t) for t in (np.uint8, np.int8, np.int16, np.int32, np.int64))
_ARANGE = {*_ARANGE_INTS, *map(as_dtype, ("float16", "bfloat16", "float32", "float64"))}


@kernel("arange.start_step", like=np.arange, differs=["arange-truncates", "default-dtype"])
def arange_start_step(start, end, step=1, *, dtype=None, layout=None, device=None, pin_memory=None):
    """Numbers from start up to but without end, ``step`` apart."""
    check_options(layout, device, pin_memory)
    if dtype is None:
        numbers = (start, end, step)
        whole = all(isinstance(n, (int, np.integer)) for n in numbers)
        dtype = int64 if whole else default_dtype()
    else:
        dtype = factory_dtype(dtype)
    start, end, step = (_real(n) for n in (start, end, step))
    if dtype not in _ARANGE:
        raise not_implemented("arange_cpu", dtype)
    if is_integral(dtype):
        start, end, step = (_to_int(n) for n in (start, end, step))
    count = _count(start, end, step, math.ceil)
    return _ramp(start, step, count, dtype)


def _real(number: Any) -> Any:
    return number.real if isinstance(number, complex) else number


def _to_int(number: Any) -> int:
    if isinstance(number, float) and not math.isfinite(number):
        raise RuntimeError("value cannot be converted to type int64_t without overflow")
    return int(number)


def _count(start: Any, end: Any, step: Any, rounded: Any) -> int:
    check(step != 0, "step must be nonzero")
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(f"unsupported range: {start:g} -> {end:g}")
    check(
        (step > 0 and end >= start) or (step < 0 and end <= start),
        "upper bound and lower bound inconsistent with step sign",
    )
    if isinstance(step, int) and isinstance(start, int) and isinstance(end, int):
        return rounded_div(end - start, step, rounded)
    return int(rounded((float(end) - float(start)) / float(step)))


def rounded_div(a: int, b: int, rounded: Any) -> int:
    return -(-a // b) if rounded is math.ceil else a // b


def _ramp(start: Any, step: Any, count: int, dtype: np.dtype) -> ndarray:
    """start + i * step, computed as torch's vector loop does in the dtype's wide partner."""
    if is_integral(dtype):
        steps = np.arange(count, dtype=int64)
        return cast(steps * np.int64(step) + np.int64(start), dtype) if count else np.empty(0, dtype)
    # torch accumulates in double for float32 and float64, in float32 for the half types.
    wide = float64 if dtype in (float32, float64) else float32
    steps = np.arange(count, dtype=wide)
    return cast(wide.type(start) + steps * wide.type(step), dtype)


@kernel("arange.start", like=np.arange, differs=["arange-truncates", "default-dtype"])
def arange_start(start, end, *, dtype=None, layout=None, device=None, pin_memory=None):
    """Numbers from start up to but without end."""
    return arange_start_step(start, end, 1, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


@kernel("arange", like=np.arange, differs=["arange-truncates", "default-dtype"])
def arange(end, *, dtype=None, layout=None, device=None, pin_memory=None):
    """Numbers from 0 up to but without end."""
    return arange_start_step(0, end, 1, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


@kernel("range.step", like=np.arange)
def range_step(start, end, step=1, *, dtype=None, layout=None, device=None, pin_memory=None):
    """Numbers from start to end, both included, ``step`` apart."""
    check_options(layout, device, pin_memory)
    dtype = factory_dtype(dtype)
    start, end, step = (_real(n) for n in (start, end, step))
    if dtype not in _ARANGE:
        raise not_implemented("range_cpu", dtype)
    if is_integral(dtype):
        start, end, step = (_to_int(n) for n in (start, end, step))
    return _ramp(start, step, _count(start, end, step, math.floor) + 1, dtype)


@kernel("range", like=np.arange)
def range_(start, end, *, dtype=None, layout=None, device=None, pin_memory=None):
    """Numbers from start to end, both included."""
    return range_step(start, end, 1, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


@kernel("_dim_arange", like=np.arange)
def _dim_arange(like, dim):
    """The positions of a dimension."""
    return np.arange(like.shape[dim], dtype=int64)


@kernel("linspace", like=np.linspace, differs=["linspace-two-ended", "default-dtype"])
def linspace(start, end, steps, *, dtype=None, layout=None, device=None, pin_memory=None):
    """``steps`` numbers from start to end, both included, counted from the nearer end."""
    dtype = _space_dtype("linspace", start, end, dtype, layout, device, pin_memory)
    check(steps >= 0, "number of steps must be non-negative")
    if not steps:
        return np.empty(0, dtype)
    if (dtype in (bool_, complex32) or dtype in BARE_UNSIGNED or dtype in FLOAT8S) and steps > 1:
        raise not_implemented("linspace_cpu", dtype)
    return _two_ended(start, end, steps, dtype)


def _space_dtype(name: str, start: Any, end: Any, dtype: Any, layout: Any, device: Any, pin_memory: Any) -> np.dtype:
    check_options(layout, device, pin_memory)
    if isinstance(start, complex) or isinstance(end, complex):
        inferred = to_complex(default_dtype())
        if dtype is None:
            return inferred
        dtype = as_dtype(dtype)
        if not is_complex(dtype):
            spelled = C_NAMES[str(inferred)]
            raise RuntimeError(
                f"torch.{name}(): inferred dtype {spelled} can't be safely cast to passed dtype {scalar_name(dtype)}"
            )
        return dtype
    return factory_dtype(dtype)


def _two_ended(start: Any, end: Any, steps: int, dtype: np.dtype) -> ndarray:
    first, last = fill_value(start, dtype), fill_value(end, dtype)
    if steps == 1:
        return first.reshape(1)
    # Integers step in float32, half types in float32, others in their own dtype.
    wide = dtype if dtype in (float64, float32, complex64, complex128) else float32
    a, b = first.astype(wide), last.astype(wide)
    step = (b - a) / wide.type(steps - 1)
    index = np.arange(steps, dtype=to_real(wide))
    half = steps // 2
    out = np.empty(steps, wide)
    out[:half] = a + step * index[:half]
    out[half:] = b - step * index[::-1][half:]
    return cast(np.trunc(out) if is_integral(dtype) else out, dtype)


@kernel("logspace", like=np.logspace, differs=["default-dtype"])
def logspace(start, end, steps, base=10.0, *, dtype=None, layout=None, device=None, pin_memory=None):
    """``base`` to the powers of a `linspace`."""
    dtype = _space_dtype("logspace", start, end, dtype, layout, device, pin_memory)
    check(steps >= 0, "number of steps must be non-negative")
    if not steps:
        return np.empty(0, dtype)
    if (dtype in (bool_, complex32) or dtype in BARE_UNSIGNED or dtype in FLOAT8S) and steps > 1:
        raise not_implemented("logspace_cpu", dtype)
    if is_integral(dtype):
        first, last = float(fill_value(start, dtype)), float(fill_value(end, dtype))
        powers = _two_ended(np.float32(first).item(), last, steps, float32) if steps > 1 else np.float32([first])
        return cast(np.trunc(np.power(np.float32(base), powers)), dtype)
    powers = _two_ended(start, end, steps, dtype)
    wide = {float16: float32, as_dtype("bfloat16"): float32}.get(dtype, dtype)
    return cast(np.power(wide.type(base), powers.astype(wide)), dtype)


def _space_number(name: str, **ends: Any) -> list[Any]:
    """0-d tensors among the ends of a range as numbers."""
    wrong = [(k, v) for k, v in ends.items() if isinstance(v, ndarray) and v.ndim]
    tensors = [k for k, v in ends.items() if isinstance(v, ndarray)]
    if wrong:
        told = " and ".join(f"{k} with {ends[k].ndim} dimension(s)" for k in tensors)
        raise RuntimeError(f"{name} only supports 0-dimensional start and end tensors, but got {told}.")
    return [v.item() if isinstance(v, ndarray) and v.dtype.num < 256 else _wide_item(v) for v in ends.values()]


def _wide_item(x: Any) -> Any:
    if not isinstance(x, ndarray):
        return x
    return cast(x, complex128 if is_complex(x.dtype) else float64).item()


@kernel("linspace.Tensor_Tensor", "linspace.Tensor_Scalar", "linspace.Scalar_Tensor", like=np.linspace)
def linspace_tensor(start, end, steps, *, dtype=None, layout=None, device=None, pin_memory=None):
    """`linspace` with its ends in 0-d tensors."""
    start, end = _space_number("linspace", start=start, end=end)
    return linspace(start, end, steps, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


@kernel("logspace.Tensor_Tensor", "logspace.Tensor_Scalar", "logspace.Scalar_Tensor", like=np.logspace)
def logspace_tensor(start, end, steps, base=10.0, *, dtype=None, layout=None, device=None, pin_memory=None):
    """`logspace` with its ends in 0-d tensors."""
    start, end = _space_number("logspace", start=start, end=end)
    return logspace(start, end, steps, base, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


# ---------------------------------------------------------------- triangle indices


def _tri_size(row: int, col: int, dtype: Any, name: str, *options: Any) -> np.dtype:
    check_options(*options)
    check(row >= 0, f"row must be non-negative, got{row}")
    check(col >= 0, f"col must be non-negative, got{col}")
    dtype = factory_dtype(dtype, int64)
    if dtype not in (int32, int64):
        raise not_implemented(name, dtype)
    return dtype


@kernel("tril_indices", like=np.tril_indices)
def tril_indices(row, col, offset=0, *, dtype=LONG, layout=None, device=None, pin_memory=None):
    """Rows and columns of the entries on and below a diagonal."""
    dtype = _tri_size(row, col, dtype, "tril_indices", layout, device, pin_memory)
    return np.stack(np.nonzero(np.tri(row, col, offset, dtype=bool))).astype(dtype, copy=False)


@kernel("triu_indices", like=np.triu_indices)
def triu_indices(row, col, offset=0, *, dtype=LONG, layout=None, device=None, pin_memory=None):
    """Rows and columns of the entries on and above a diagonal."""
    dtype = _tri_size(row, col, dtype, "triu_indices", layout, device, pin_memory)
    return np.stack(np.nonzero(~np.tri(row, col, offset - 1, dtype=bool))).astype(dtype, copy=False)
