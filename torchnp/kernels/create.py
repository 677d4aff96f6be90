"""New tensors: empty, filled, ranges, and tensors like another."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from torchnp.checks import broadcast_shapes, check, not_implemented, shape_text
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
    is_floating,
    is_integral,
    number_dtype,
    scalar_name,
    to_complex,
    to_real,
)
from torchnp.dtypes import get_default_dtype as default_dtype
from torchnp.kernels._memory import (
    LONG,
    check_options,
    check_size,
    empty_in_order,
    factory_dtype,
    format_name,
    format_order,
    like_order,
)
from torchnp.registry import kernel

ndarray = np.ndarray

# ---------------------------------------------------------------- numbers

_C_NAMES = {
    "bool": "bool", "uint8": "uint8_t", "int8": "int8_t", "int16": "int16_t", "int32": "int", "int64": "int64_t",
    "uint16": "uint16_t", "uint32": "uint32_t", "uint64": "uint64_t", "float16": "c10::Half",
    "bfloat16": "c10::BFloat16", "float32": "float", "float64": "double", "complex32": "c10::complex<c10::Half>",
    "complex64": "c10::complex<float>", "complex128": "c10::complex<double>",
}  # fmt: skip
_LIMIT = {
    "float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": float(np.finfo(np.float32).max),
    "float8_e4m3fn": 448.0, "float8_e4m3fnuz": 240.0, "float8_e5m2": 57344.0, "float8_e5m2fnuz": 57344.0,
    "float8_e8m0fnu": 2.0**127,
}  # fmt: skip


def fill_value(value: Any, dtype: np.dtype) -> ndarray:
    """A Python number as a 0-d array, checked as torch's Scalar conversion does.

    Raises
    ------
    RuntimeError
        The number does not fit the dtype (integers may wrap by a sign, floats are truncated).
    """
    if _overflows(value, dtype):
        raise RuntimeError(
            f"value cannot be converted to type {_C_NAMES.get(str(dtype), f'c10::{scalar_name(dtype)}')} without overflow"
        )
    if isinstance(value, complex) and not is_complex(dtype):
        value = value.real
    if is_integral(dtype):
        bits = 8 * dtype.itemsize
        value = int(value) & ((1 << bits) - 1)
        return np.array(value, f"u{dtype.itemsize}").view(dtype)
    return cast(np.array(value), dtype)


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
        return limit is not None and abs(value) > limit and not math.isinf(value)
    if value != value:
        return True
    info = np.iinfo(dtype)
    if isinstance(value, float):
        return value < float(info.min) or value > float(info.max)
    if dtype.kind == "u" and value < 0:
        return -value > int(info.max)
    return not info.min <= value <= info.max


# ---------------------------------------------------------------- empty


@kernel("empty.memory_format", like=np.empty)
def empty(size, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    """Memory of a shape, with whatever values."""
    if layout is not None or device is not None or pin_memory:
        check_options(layout, device, pin_memory)
    size = check_size(size)
    if memory_format is not None:
        check(format_name(memory_format) != "preserve_format", "unsupported memory format Preserve")
        return empty_in_order(size, factory_dtype(dtype), format_order(memory_format, len(size)))
    return np.empty(size, factory_dtype(dtype))


@kernel("empty_permuted", like=np.empty)
def empty_permuted(size, physical_layout, *, dtype=None, layout=None, device=None, pin_memory=None):
    """Memory of a shape, its dimensions in the order given from the widest stride to the narrowest."""
    check_options(layout, device, pin_memory)
    n = len(size)
    if n != len(physical_layout):
        raise RuntimeError(
            "Number of dimensions in size does not match the length of the physical_layout; i.e. "
            f"len(size) = {n} is not equal to len(physical_layout) = {len(physical_layout)}"
        )
    for i, d in enumerate(physical_layout):
        if not 0 <= d < n:
            raise RuntimeError(
                f"Dimension out of range (expected to be between 0 and {n - 1}, but got {d} at index {i}).  "
                "NB: negative dims not currently supported; file an issue if you want it."
            )
        check(d not in physical_layout[:i], "Duplicate dim not allowed")
    return empty_in_order(check_size(size), factory_dtype(dtype), tuple(physical_layout))


@kernel("empty_strided", like=np.ndarray)
def empty_strided(size, stride, *, dtype=None, layout=None, device=None, pin_memory=None):
    """Memory of a shape and strides in elements."""
    check_options(layout, device, pin_memory)
    size, dtype = check_size(size), factory_dtype(dtype)
    if len(size) != len(stride):
        raise RuntimeError(
            f"dimensionality of sizes ({len(size)}) must match dimensionality of strides ({len(stride)})"
        )
    if any(s < 0 for s in stride):
        raise RuntimeError(
            f"Storage size calculation overflowed with sizes={shape_text(size)} and strides={shape_text(stride)}"
        )
    extent = 0 if 0 in size else 1 + sum((n - 1) * s for n, s in zip(size, stride))
    return ndarray(size, dtype, np.empty(extent * dtype.itemsize, np.uint8), 0, [s * dtype.itemsize for s in stride])


@kernel("empty_like", like=np.empty_like, differs=["memory-format"])
def empty_like(self, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    """Memory of another tensor's shape, dtype and order of dimensions."""
    if layout is not None or device is not None or pin_memory:
        check_options(layout, device, pin_memory)
    dtype = self.dtype if dtype is None else as_dtype(dtype)
    if memory_format is None and self.flags.c_contiguous:
        return np.empty(self.shape, dtype)
    return empty_in_order(self.shape, dtype, like_order(self, memory_format))


@kernel("new_empty", like=np.empty)
def new_empty(self, size, *, dtype=None, layout=None, device=None, pin_memory=None):
    """`empty` in another tensor's dtype."""
    return empty(size, dtype=dtype or self.dtype, layout=layout, device=device, pin_memory=pin_memory)


@kernel("new_empty_strided", like=np.ndarray)
def new_empty_strided(self, size, stride, *, dtype=None, layout=None, device=None, pin_memory=None):
    """`empty_strided` in another tensor's dtype."""
    return empty_strided(size, stride, dtype=dtype or self.dtype, layout=layout, device=device, pin_memory=pin_memory)


@kernel("_new_zeros_with_same_feature_meta", like=np.zeros)
def _new_zeros_with_same_feature_meta(self, other, *, self_num_batch_dims=0):
    """Zeros in the shape of ``other``, after ``self``'s batch dimensions."""
    return np.zeros((*self.shape[:self_num_batch_dims], *other.shape), other.dtype)


# ---------------------------------------------------------------- filled


@kernel("zeros", like=np.zeros, differs=["default-dtype"])
def zeros(size, *, dtype=None, layout=None, device=None, pin_memory=None):
    """Zeros."""
    check_options(layout, device, pin_memory)
    return np.zeros(check_size(size), factory_dtype(dtype))


@kernel("_efficientzerotensor", like=np.zeros)
def _efficientzerotensor(size, *, dtype=None, layout=None, device=None, pin_memory=None):
    """Zeros (torch keeps no memory for them)."""
    return zeros(size, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


@kernel("ones", like=np.ones, differs=["default-dtype"])
def ones(size, *, dtype=None, layout=None, device=None, pin_memory=None):
    """Ones."""
    return full(size, 1, dtype=factory_dtype(dtype), layout=layout, device=device, pin_memory=pin_memory)


@kernel("full", like=np.full, differs=["default-dtype", "fill-overflow"])
def full(size, fill_value, *, dtype=None, layout=None, device=None, pin_memory=None):
    """One number everywhere, in the dtype it has on its own unless one is given."""
    out = empty(size, dtype=dtype or number_dtype(fill_value), layout=layout, device=device, pin_memory=pin_memory)
    return _fill(out, fill_value)


def _fill(out: ndarray, value: Any) -> ndarray:
    out[...] = fill_value(value, out.dtype)
    return out


@kernel("full_like", like=np.full_like, differs=["memory-format", "fill-overflow"])
def full_like(self, fill_value, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    """One number in another tensor's shape and dtype."""
    return _fill(
        empty_like(self, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory, memory_format=memory_format),
        fill_value,
    )


@kernel("zeros_like", like=np.zeros_like, differs=["memory-format"])
def zeros_like(self, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    """Zeros in another tensor's shape and dtype."""
    return full_like(
        self, 0, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory, memory_format=memory_format
    )


@kernel("ones_like", like=np.ones_like, differs=["memory-format"])
def ones_like(self, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    """Ones in another tensor's shape and dtype."""
    return full_like(
        self, 1, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory, memory_format=memory_format
    )


@kernel("new_full", like=np.full, differs=["fill-overflow"])
def new_full(self, size, fill_value, *, dtype=None, layout=None, device=None, pin_memory=None):
    """`full` in another tensor's dtype."""
    return full(size, fill_value, dtype=dtype or self.dtype, layout=layout, device=device, pin_memory=pin_memory)


@kernel("new_zeros", like=np.zeros)
def new_zeros(self, size, *, dtype=None, layout=None, device=None, pin_memory=None):
    """`zeros` in another tensor's dtype."""
    return zeros(size, dtype=dtype or self.dtype, layout=layout, device=device, pin_memory=pin_memory)


@kernel("new_ones", like=np.ones)
def new_ones(self, size, *, dtype=None, layout=None, device=None, pin_memory=None):
    """`ones` in another tensor's dtype."""
    return ones(size, dtype=dtype or self.dtype, layout=layout, device=device, pin_memory=pin_memory)


@kernel("scalar_tensor", like=np.array, differs=["default-dtype", "fill-overflow"])
def scalar_tensor(s, *, dtype=None, layout=None, device=None, pin_memory=None):
    """A number as a 0-d tensor of the default dtype, whatever kind of number it is."""
    check_options(layout, device, pin_memory)
    return fill_value(s, factory_dtype(dtype))


@kernel("fill.Scalar", like=np.full_like, differs=["fill-overflow"])
def fill(self, value):
    """One number in another tensor's shape and dtype."""
    return _fill(empty_like(self), value)


@kernel("fill.Tensor", like=np.full_like)
def fill_tensor(self, value):
    """The number in a 0-d tensor, in another tensor's shape and dtype."""
    if value.ndim:
        raise RuntimeError(f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions.")
    out = empty_like(self)
    out[...] = cast(value, out.dtype)
    return out


@kernel("zero", like=np.zeros_like)
def zero(self):
    """Zeros in another tensor's shape and dtype."""
    return zeros_like(self)


@kernel("_foreach_zero", like=np.zeros_like)
def _foreach_zero(self):
    """Zeros in the shape and dtype of each tensor."""
    check(len(self) > 0, "Tensor list must have at least one tensor.")
    return [zeros_like(x) for x in self]


@kernel("eye", like=np.eye, differs=["default-dtype"])
def eye(n, *, dtype=None, layout=None, device=None, pin_memory=None):
    """The unit matrix."""
    return eye_m(n, n, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


@kernel("eye.m", like=np.eye, differs=["default-dtype"])
def eye_m(n, m, *, dtype=None, layout=None, device=None, pin_memory=None):
    """Ones on the diagonal of an n by m matrix."""
    check_options(layout, device, pin_memory)
    check(n >= 0, f"n must be greater or equal to 0, got {n}")
    check(m >= 0, f"m must be greater or equal to 0, got {m}")
    dtype = factory_dtype(dtype)
    if dtype in BARE_UNSIGNED or dtype == complex32:
        raise not_implemented("eye", dtype)
    out = np.zeros((n, m), dtype)
    out.reshape(-1)[: min(n, m) * m : m + 1] = fill_value(1, dtype)
    return out


# ---------------------------------------------------------------- ranges

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
            spelled = _C_NAMES[str(inferred)]
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


# ---------------------------------------------------------------- complex

_PARTS = (float16, float32, float64)


def _check_parts(a: ndarray, b: ndarray) -> tuple[int, ...]:
    if a.dtype not in _PARTS or b.dtype not in _PARTS:
        raise RuntimeError(
            "Expected both inputs to be Half, Float or Double tensors but got "
            f"{scalar_name(a.dtype)} and {scalar_name(b.dtype)}"
        )
    if a.dtype != b.dtype:
        raise RuntimeError(
            f"Expected object of scalar type {scalar_name(a.dtype)} but got scalar type {scalar_name(b.dtype)} "
            "for second argument"
        )
    return broadcast_shapes(a.shape, b.shape)


@kernel("complex", differs=["no-counterpart"])
def complex_(real, imag):
    """The complex numbers of two parts."""
    pairs = np.empty((*_check_parts(real, imag), 2), real.dtype)
    pairs[..., 0], pairs[..., 1] = real, imag
    return pairs.view(to_complex(real.dtype))[..., 0]


@kernel("polar", differs=["no-counterpart"])
def polar(abs, angle):
    """The complex numbers of an absolute value and an angle."""
    _check_parts(abs, angle)
    if abs.dtype == float16:
        raise not_implemented("polar_cpu", abs.dtype)
    return complex_(abs * np.cos(angle), abs * np.sin(angle))


# ---------------------------------------------------------------- resize


@kernel("resize_", like=np.ndarray.resize, differs=["resize-owner-only"])
def resize_(self, size, *, memory_format=None):
    """Another shape in place, keeping the elements in memory; NumPy can do so for arrays that own their memory."""
    check(not any(n < 0 for n in size), "numel: integer multiplication overflow")
    order = None
    if memory_format is not None:
        check(format_name(memory_format) != "preserve_format", "Unsupported memory formatPreserve")
        order = format_order(memory_format, len(size))
    if tuple(size) == self.shape and order is None:
        return self
    check(order is None, "resize_ of an ndarray cannot set a memory format: its strides are fixed")
    try:
        self.resize(size, refcheck=False)
    except ValueError as error:
        raise RuntimeError(
            "Trying to resize storage that is not resizable: the array does not own its memory"
        ) from error
    return self


@kernel("resize_as_", like=np.ndarray.resize, differs=["resize-owner-only"])
def resize_as_(self, the_template, *, memory_format=None):
    """`resize_` to the shape of another tensor."""
    return resize_(self, the_template.shape, memory_format=memory_format)
