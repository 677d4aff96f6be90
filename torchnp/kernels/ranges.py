"""Ranges: arange, range, linspace, logspace."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, dim_of, refuse, require
from torchnp.core.inplace_out_spec import WriteSpec
from torchnp.core.python_scalars import item, real, scalar, single, whole
from torchnp.core.target import since
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._memory import check_options, factory_dtype
from torchnp.kernels.numerics.fma import fma
from torchnp.kernels.numerics.vector_tails import SCALAR, VECTOR, Loop
from torchnp.layout.stride_rules import WRITTEN

ndarray = np.ndarray

# ---------------------------------------------------------------- by step

_ARANGE = frozenset({*dt.INTS, *dt.FLOATS})
NO_SPACE = frozenset({dt.bool_, dt.complex32, *dt.BARE_UNSIGNED, *dt.FLOAT8S})
_ARANGE_WRITES = WriteSpec(
    resizing="The number of elements in the out tensor of shape {} is {} which does not match the computed number of "
    "elements {}. Note that this may occur as a result of rounding error. The out tensor will be resized to a tensor "
    "of shape ({},)."
)


_TOO_MANY = f"IntArrayRef contains an int that cannot be represented as a SymInt: {-(2**63)}"


def _arange(*, start=0, end, step=1, dtype, layout, device, pin_memory):
    check_options(layout, device, pin_memory)
    if dtype is None:
        numbers = (start, end, step)
        dtype = dt.int64 if all(isinstance(n, (int, np.integer)) for n in numbers) else dt.get_default_dtype()
    else:
        dtype = factory_dtype(dtype)
    require("arange_cpu", dtype, _ARANGE)
    start, end, step = _bounds(start, end, step)
    for n in (start, end, step):
        scalar(n, dt.float64)
    # An int64 range with integer arguments is counted in integers, every other range in floating point. Before 2.14,
    # torch truncated float arguments of int64 ranges first.
    if dtype == dt.int64 and (not since("2.14") or all(isinstance(n, (int, np.integer)) for n in (start, end, step))):
        start, end, step = (whole(n) for n in (start, end, step))
        check(step != 0, "step must be nonzero", ValueError)
        check(abs(end - start + step) <= 2**63, "invalid size, possible overflow?")
        return _ramp(start, step, max(-(-(end - start) // step), 0), dtype, VECTOR)
    count = math.ceil((float(end) - float(start)) / float(step))
    check(count <= 2**63, "invalid size, possible overflow?")
    for n in (start, end, step) if dt.is_half(dtype) else ():
        scalar(n, dt.float32)  # each number has to fit float32, in which torch counts
    check(count < 2**63, _TOO_MANY)
    if dt.is_integral(dtype):
        start, step = whole(start), whole(step)
    return _ramp(start, step, count, dtype, VECTOR)


def _bounds(*numbers: Any) -> tuple[Any, ...]:
    for n in numbers:
        real(n)
    start, end, step = numbers = tuple(n.real if isinstance(n, complex) else n for n in numbers)
    check(math.isfinite(step) or not since("2.15"), f"step must be finite but got {step:g}")
    check(step > 0 or step < 0, "step must be nonzero")
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(f"unsupported range: {start:g} -> {end:g}")
    words = "upper bound and lower bound inconsistent with step sign"
    check((step > 0 and end >= start) or (step < 0 and end <= start), words)
    return numbers


def _ramp(start: Any, step: Any, count: int, dtype: np.dtype, loop: Loop) -> ndarray:
    """Return start + i * step, rounded where torch's loop rounds."""
    if dt.is_integral(dtype):
        steps = np.arange(count, dtype=dt.int64)
        return dt.cast(steps * np.int64(step) + np.int64(start), dtype) if count else np.empty(0, dtype)
    wide = dt.float64 if dtype in (dt.float32, dt.float64) else dt.float32
    start, step = float(wide.type(start)), float(wide.type(step))
    if not loop.vector:
        return dt.cast(np.arange(count, dtype=wide) * wide.type(step) + wide.type(start), dtype)
    # Each SIMD vector counts on from its first element, start + i * step rounded to the dtype. torch takes two at a
    # time.
    lanes = loop.elements(dtype)
    whole = count - count % (2 * lanes)
    bases = dt.cast(fma(np.arange(0, whole, lanes, dtype=wide), step, start), dtype).astype(wide)
    out = np.empty(count, wide)
    body = out[:whole].reshape(-1, lanes)
    for i in range(lanes):
        body[:, i] = fma(np.full(len(bases), wide.type(i)), step, bases)
    out[whole:] = fma(np.arange(whole, count, dtype=wide), step, start)
    return dt.cast(out, dtype)


arange_step, arange_start, arange = rows(
    "arange.start_step arange.start arange", _arange, "Numbers in [start, end), ``step`` apart; start defaults to 0.",
    like=np.arange, differs=["arange-truncates", "default-dtype", "arange-bounds", "missing-kernel"], writes=_ARANGE_WRITES,
)  # fmt: skip


def _range(start, end, step=1, *, dtype, layout, device, pin_memory):
    check_options(layout, device, pin_memory)
    dtype = factory_dtype(dtype)
    require("range_cpu", dtype, _ARANGE)
    counted = dt.float32 if dt.is_half(dtype) else dt.float64
    numbers = [whole(n) if dt.is_integral(dtype) else scalar(n, counted).item() for n in (start, end, step)]
    given, (start, end, step) = (start, end, step), _bounds(*numbers)
    if dt.is_integral(dtype):
        _bounds(*given)  # torch checks the numbers before it truncates them
        count = (end - start) // step + 1
    else:  # torch rounds the difference, the quotient and the sum to ``counted``
        real = counted.type
        size = (real(end) - real(start)) / real(step) + real(1)
        check(math.isfinite(size), _TOO_MANY)
        count = math.floor(size)
    check(count < 2**63, _TOO_MANY)
    return _ramp(start, step, count, dtype, SCALAR)


_DOC = "Numbers from start to end, both included, ``step`` apart."
rows(
    "range.step range", _range, _DOC,
    like=np.arange, differs=["arange-truncates", "range-inclusive", "arange-bounds", "missing-kernel"],
)  # fmt: skip
rows("_dim_arange", lambda x, dim: arange(x.shape[dim_of(x, dim)]), "The indices along a dimension.", like=np.arange)


def _linspace(start, end, steps, *options):
    dtype = _space_dtype("linspace", start, end, steps, *options)
    return _two_ended(start, end, steps, dtype, True) if steps else np.empty(0, dtype)


def _space_dtype(
    name: str, start: Any, end: Any, steps: int, dtype: Any, layout: Any, device: Any, pin_memory: Any
) -> np.dtype:
    check_options(layout, device, False)
    check(steps >= 0, "number of steps must be non-negative")
    is_out = WRITTEN.target is not None  # with out=, torch only checks that its dtype can hold the ends
    if (isinstance(start, complex) or isinstance(end, complex)) and not is_out:
        inferred = dt.to_complex(dt.get_default_dtype())
        dtype = inferred if dtype is None else dt.as_dtype(dtype)
        if not dt.is_complex(dtype):
            spelled = dt.c_name(inferred, "int64_t")
            words = f"torch.{name}(): inferred dtype {spelled} can't be safely cast to passed dtype"
            raise RuntimeError(f"{words} {dt.scalar_name(dtype)}")
    else:
        dtype = factory_dtype(dtype)
    check_options(None, None, pin_memory)
    if steps > 1:
        refuse(f"{name}_cpu", dtype, NO_SPACE)
    if is_out and steps and (steps > 1 or name == "linspace"):
        for number in (start, end)[:steps]:
            scalar(number, dtype)
    return dtype


def _two_ended(start: Any, end: Any, steps: int, dtype: np.dtype, fused: bool) -> ndarray:
    """Return ``steps`` points, each computed from the nearer end; torch's linspace uses an FMA (``fused``)."""
    first = scalar(start, dtype)
    if steps == 1:  # torch ignores the end
        return first.reshape(1).copy()
    last = scalar(end, dtype)
    if dt.is_complex(dtype):
        out = np.empty(steps, dtype)
        out.real = _points(first.real, last.real, steps, fused)
        out.imag = _points(first.imag, last.imag, steps, fused)
        return out
    if dt.is_integral(dtype):  # torch steps in double, and truncates
        return dt.cast(np.trunc(_points(first.astype(dt.float64), last.astype(dt.float64), steps, fused)), dtype)
    return _points(first, last, steps, fused)


def _points(a: ndarray, b: ndarray, steps: int, fused: bool) -> ndarray:
    dtype = a.dtype
    if dtype.itemsize == 2:  # the half types round after each operation
        rounded = lambda x: dt.cast(x.astype(dt.float32), dtype).astype(dt.float32)
        a, b, fused = a.astype(dt.float32), b.astype(dt.float32), False
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
    return dt.cast(out, dtype)


def _logspace(start, end, steps, base, *options):
    dtype = _space_dtype("logspace", start, end, steps, *options)
    if not steps:
        return np.empty(0, dtype)
    if dt.is_complex(dtype):
        inner = dtype if steps > 1 else dt.complex128  # torch computes a single power in complex128
        powers, base = _two_ended(start, end, steps, inner, False), inner.type(base)
        found = np.exp(powers * np.log(base))
        return dt.cast(found, dtype) if steps > 1 else single(found[0], dtype).reshape(1).copy()
    if steps == 1:
        return single(float(np.power(dt.float64.type(base), scalar(start, dt.float64))), dtype).reshape(1).copy()
    # The ends are rounded to the dtype, and so is their distance for half types. Everything else is computed in
    # float64.
    start, end = (dt.cast(scalar(x, dtype), dt.float64) for x in (start, end))
    step = (end - start) / (steps - 1)
    if dt.is_half(dtype):
        step = dt.cast(dt.cast(np.asarray(end - start), dtype), dt.float32) / np.float32(steps - 1)
    index = np.arange(steps, dtype=dt.float64)
    powers = np.where(index < steps // 2, start + step * index, end - step * (steps - 1 - index))
    return dt.cast(np.power(dt.float64.type(base), powers), dtype)


def _between_tensors(start, end, *rest, op, space):
    tensors = {k: v for k, v in (("start", start), ("end", end)) if isinstance(v, ndarray)}
    if any(x.ndim for x in tensors.values()):
        told = " and ".join(f"{k} with {x.ndim} dimension(s)" for k, x in tensors.items())
        raise RuntimeError(f"{op} only supports 0-dimensional start and end tensors, but got {told}.")
    return space(*(item(x) if isinstance(x, ndarray) else x for x in (start, end)), *rest)


_DIFFERS = {
    "linspace": ["linspace-two-ended", "linspace-truncates", "default-dtype", "missing-kernel"],
    "logspace": ["logspace-truncates", "default-dtype", "missing-kernel"],
}
(linspace,) = rows(
    "linspace", _linspace, "``steps`` numbers from start to end, both included, computed from the nearer end.",
    like=np.linspace, differs=_DIFFERS["linspace"],
)  # fmt: skip
rows("logspace", _logspace, "``base`` to the powers of a `linspace`.", like=np.logspace, differs=_DIFFERS["logspace"])
_like: Any
for _name, _space, _like in (("linspace", _linspace, np.linspace), ("logspace", _logspace, np.logspace)):
    _names = f"{_name}.Tensor_Tensor {_name}.Tensor_Scalar {_name}.Scalar_Tensor"
    _differs = ["linspace-ends", *_DIFFERS[_name]]
    rows(_names, _between_tensors, f"`{_name}` with 0-d tensors as ends.", space=_space, like=_like, differs=_differs)
