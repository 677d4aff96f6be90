"""Ranges: arange, range, linspace, logspace, and the indices of triangles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from torchnp.checks import check
from torchnp.dtypes import (
    BARE_UNSIGNED,
    FLOAT8S,
    as_dtype,
    bool_,
    c_name,
    cast,
    complex32,
    float32,
    float64,
    int32,
    int64,
    is_complex,
    is_half,
    is_integral,
    scalar_name,
    to_complex,
)
from torchnp.dtypes import get_default_dtype as default_dtype
from torchnp.errors import not_implemented
from torchnp.kernels._memory import LONG, check_options, factory_dtype
from torchnp.kernels.numerics.fma import fma
from torchnp.kernels.numerics.loops import SCALAR, VECTOR, Loop
from torchnp.registry import kernel
from torchnp.scalars import item, real, scalar, whole
from torchnp.writes import Writes

ndarray = np.ndarray

# ---------------------------------------------------------------- by step

_ARANGE_INTS = (np.dtype(t) for t in (np.uint8, np.int8, np.int16, np.int32, np.int64))
_ARANGE = {*_ARANGE_INTS, *map(as_dtype, ("float16", "bfloat16", "float32", "float64"))}


_ARANGE_WRITES = Writes(
    resizing="The number of elements in the out tensor of shape {} is {} which does not match the computed number of "
    "elements {}. Note that this may occur as a result of rounding error. The out tensor will be resized to a tensor "
    "of shape ({},)."
)


@kernel("arange.start_step", like=np.arange, differs=["arange-truncates", "default-dtype"], writes=_ARANGE_WRITES)
def arange_start_step(start, end, step=1, *, dtype=None, layout=None, device=None, pin_memory=None):
    """Numbers from start up to but without end, ``step`` apart."""
    check_options(layout, device, pin_memory)
    if dtype is None:
        numbers = (start, end, step)
        dtype = int64 if all(isinstance(n, (int, np.integer)) for n in numbers) else default_dtype()
    else:
        dtype = factory_dtype(dtype)
    if dtype not in _ARANGE:
        raise not_implemented("arange_cpu", dtype)
    start, end, step = (_real(n) for n in (start, end, step))
    _check_bounds(start, end, step)
    for n in (start, end, step):
        scalar(n, float32 if is_half(dtype) else float64)  # has to fit in what torch counts in
    if dtype == int64:  # truncated first; the other integer dtypes are counted as floats
        start, end, step = (whole(n) for n in (start, end, step))
        check(step != 0, "step must be nonzero", ValueError)
        check(abs(end - start + step) <= 2**63, "invalid size, possible overflow?")
        return _ramp(start, step, max(-(-(end - start) // step), 0), dtype, VECTOR)
    count = math.ceil((float(end) - float(start)) / float(step))
    check(count < 2**63, "invalid size, possible overflow?")
    if is_integral(dtype):
        start, step = whole(start), whole(step)
    return _ramp(start, step, count, dtype, VECTOR)


def _real(number: Any) -> Any:
    real(number)
    return number.real if isinstance(number, complex) else number


def _check_bounds(start: Any, end: Any, step: Any) -> None:
    check(step > 0 or step < 0, "step must be nonzero")
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(f"unsupported range: {start:g} -> {end:g}")
    check(
        (step > 0 and end >= start) or (step < 0 and end <= start),
        "upper bound and lower bound inconsistent with step sign",
    )


def _ramp(start: Any, step: Any, count: int, dtype: np.dtype, loop: Loop) -> ndarray:
    """start + i * step, rounded where torch's loop rounds."""
    if is_integral(dtype):
        steps = np.arange(count, dtype=int64)
        return cast(steps * np.int64(step) + np.int64(start), dtype) if count else np.empty(0, dtype)
    wide = float64 if dtype in (float32, float64) else float32
    start, step = float(wide.type(start)), float(wide.type(step))
    if not loop.vector:
        return cast(np.arange(count, dtype=wide) * wide.type(step) + wide.type(start), dtype)
    # A vector starts from start + i * step, rounded to the dtype, and counts on from there; two make a round.
    lanes = loop.elements(dtype)
    whole = count - count % (2 * lanes)
    bases = cast(fma(np.arange(0, whole, lanes, dtype=wide), step, start), dtype).astype(wide)
    out = np.empty(count, wide)
    body = out[:whole].reshape(-1, lanes)
    for i in range(lanes):
        body[:, i] = fma(np.full(len(bases), wide.type(i)), step, bases)
    out[whole:] = fma(np.arange(whole, count, dtype=wide), step, start)
    return cast(out, dtype)


@kernel("arange.start", like=np.arange, differs=["arange-truncates", "default-dtype"], writes=_ARANGE_WRITES)
def arange_start(start, end, *, dtype=None, layout=None, device=None, pin_memory=None):
    """Numbers from start up to but without end."""
    return arange_start_step(start, end, 1, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


@kernel("arange", like=np.arange, differs=["arange-truncates", "default-dtype"], writes=_ARANGE_WRITES)
def arange(end, *, dtype=None, layout=None, device=None, pin_memory=None):
    """Numbers from 0 up to but without end."""
    return arange_start_step(0, end, 1, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


@kernel("range.step", like=np.arange, differs=["range-inclusive"])
def range_step(start, end, step=1, *, dtype=None, layout=None, device=None, pin_memory=None):
    """Numbers from start to end, both included, ``step`` apart."""
    check_options(layout, device, pin_memory)
    dtype = factory_dtype(dtype)
    if dtype not in _ARANGE:
        raise not_implemented("range_cpu", dtype)
    start, end, step = (_real(n) for n in (start, end, step))
    _check_bounds(start, end, step)
    if is_integral(dtype):
        start, end, step = (whole(n) for n in (start, end, step))
    _check_bounds(start, end, step)
    return _ramp(start, step, math.floor((end - start) / step) + 1, dtype, SCALAR)


@kernel("range", like=np.arange, differs=["range-inclusive"])
def range_(start, end, *, dtype=None, layout=None, device=None, pin_memory=None):
    """Numbers from start to end, both included."""
    return range_step(start, end, 1, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


@kernel("_dim_arange", like=np.arange)
def _dim_arange(like, dim):
    """The positions of a dimension."""
    return np.arange(like.shape[dim], dtype=int64)


@kernel("linspace", like=np.linspace, differs=["linspace-two-ended", "linspace-truncates", "default-dtype"])
def linspace(start, end, steps, *, dtype=None, layout=None, device=None, pin_memory=None):
    """``steps`` numbers from start to end, both included, counted from the nearer end."""
    dtype = _space_dtype("linspace", start, end, dtype, layout, device, pin_memory)
    check(steps >= 0, "number of steps must be non-negative")
    if not steps:
        return np.empty(0, dtype)
    if (dtype in (bool_, complex32) or dtype in BARE_UNSIGNED or dtype in FLOAT8S) and steps > 1:
        raise not_implemented("linspace_cpu", dtype)
    return _two_ended(start, end, steps, dtype, VECTOR)


def _space_dtype(name: str, start: Any, end: Any, dtype: Any, layout: Any, device: Any, pin_memory: Any) -> np.dtype:
    check_options(layout, device, pin_memory)
    if isinstance(start, complex) or isinstance(end, complex):
        inferred = to_complex(default_dtype())
        if dtype is None:
            return inferred
        dtype = as_dtype(dtype)
        if not is_complex(dtype):
            spelled = c_name(inferred, "int64_t")
            raise RuntimeError(
                f"torch.{name}(): inferred dtype {spelled} can't be safely cast to passed dtype {scalar_name(dtype)}"
            )
        return dtype
    return factory_dtype(dtype)


def _two_ended(start: Any, end: Any, steps: int, dtype: np.dtype, fused: bool) -> ndarray:
    """``steps`` points, counted from the nearer end; torch's linspace rounds product and sum once (``fused``)."""
    first, last = scalar(start, dtype), scalar(end, dtype)
    if steps == 1:
        return first.reshape(1).copy()
    if is_complex(dtype):
        out = np.empty(steps, dtype)
        out.real = _points(first.real, last.real, steps, fused)
        out.imag = _points(first.imag, last.imag, steps, fused)
        return out
    if is_integral(dtype):  # torch steps in double, and truncates
        return cast(np.trunc(_points(first.astype(float64), last.astype(float64), steps, fused)), dtype)
    return _points(first, last, steps, fused)


def _points(a: ndarray, b: ndarray, steps: int, fused: bool) -> ndarray:
    dtype = a.dtype
    if dtype.itemsize == 2:  # the half types round after each operation
        rounded = lambda x: cast(x.astype(float32), dtype).astype(float32)
        a, b, fused = a.astype(float32), b.astype(float32), False
    else:
        rounded = lambda x: x
    step = rounded(rounded(b - a) / rounded(np.asarray(steps - 1, a.dtype)))
    index = rounded(np.arange(steps, dtype=a.dtype))
    half, out = steps // 2, np.empty(steps, a.dtype)
    if fused:
        out[:half] = fma(index[:half], float(step), float(a))
        out[half:] = fma(index[::-1][half:], -float(step), float(b))
    else:
        out[:half] = rounded(a + rounded(step * index[:half]))
        out[half:] = rounded(b - rounded(step * index[::-1][half:]))
    return cast(out, dtype)


@kernel("logspace", like=np.logspace, differs=["default-dtype"])
def logspace(start, end, steps, base=10.0, *, dtype=None, layout=None, device=None, pin_memory=None):
    """``base`` to the powers of a `linspace`."""
    dtype = _space_dtype("logspace", start, end, dtype, layout, device, pin_memory)
    check(steps >= 0, "number of steps must be non-negative")
    if not steps:
        return np.empty(0, dtype)
    if (dtype in (bool_, complex32) or dtype in BARE_UNSIGNED or dtype in FLOAT8S) and steps > 1:
        raise not_implemented("logspace_cpu", dtype)
    if is_integral(dtype) and steps > 1:
        powers = _two_ended(float(scalar(start, dtype)), float(scalar(end, dtype)), steps, float32, False)
        return cast(np.trunc(np.power(np.float32(base), powers)), dtype)
    if is_complex(dtype):
        return np.power(dtype.type(base), _two_ended(start, end, steps, dtype, False))
    if steps == 1:
        return cast(np.power(float64.type(base), np.array([start], float64)), dtype)
    # The ends and, in the half types, their distance are rounded to the dtype; all else is done in double.
    start, end = (cast(scalar(x, dtype), float64) for x in (start, end))
    step = (end - start) / (steps - 1)
    if dtype.itemsize == 2:
        step = cast(cast(np.asarray(end - start), dtype), float32) / np.float32(steps - 1)
    index = np.arange(steps, dtype=float64)
    powers = np.where(index < steps // 2, start + step * index, end - step * (steps - 1 - index))
    return cast(np.power(float64.type(base), powers), dtype)


def _space_number(name: str, **ends: Any) -> list[Any]:
    """0-d tensors among the ends of a range as numbers."""
    wrong = [(k, v) for k, v in ends.items() if isinstance(v, ndarray) and v.ndim]
    tensors = [k for k, v in ends.items() if isinstance(v, ndarray)]
    if wrong:
        told = " and ".join(f"{k} with {ends[k].ndim} dimension(s)" for k in tensors)
        raise RuntimeError(f"{name} only supports 0-dimensional start and end tensors, but got {told}.")
    return [item(v) if isinstance(v, ndarray) else v for v in ends.values()]


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


@kernel("tril_indices", like=np.tril_indices, differs=["triangle-indices"])
def tril_indices(row, col, offset=0, *, dtype=LONG, layout=None, device=None, pin_memory=None):
    """Rows and columns of the entries on and below a diagonal."""
    dtype = _tri_size(row, col, dtype, "tril_indices", layout, device, pin_memory)
    return np.stack(np.nonzero(np.tri(row, col, offset, dtype=bool))).astype(dtype, copy=False)


@kernel("triu_indices", like=np.triu_indices, differs=["triangle-indices"])
def triu_indices(row, col, offset=0, *, dtype=LONG, layout=None, device=None, pin_memory=None):
    """Rows and columns of the entries on and above a diagonal."""
    dtype = _tri_size(row, col, dtype, "triu_indices", layout, device, pin_memory)
    return np.stack(np.nonzero(~np.tri(row, col, offset - 1, dtype=bool))).astype(dtype, copy=False)
