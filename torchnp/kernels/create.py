"""New tensors: empty, filled, ranges, and tensors like another."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchnp.checks import broadcast_shapes, check
from torchnp.dtypes import (
    BARE_UNSIGNED,
    as_dtype,
    cast,
    complex32,
    complex64,
    float16,
    float32,
    float64,
    number_dtype,
    scalar_name,
    to_complex,
)
from torchnp.errors import empty_list, not_implemented, shape_text
from torchnp.kernels._memory import (
    FORMAT_OF_ORDER,
    check_options,
    check_size,
    empty_in_order,
    factory_dtype,
    format_name,
    format_order,
    like_order,
    memory_order,
)
from torchnp.registry import kernel
from torchnp.scalars import scalar, single
from torchnp.writes import Bound, Writes

ndarray = np.ndarray

# ---------------------------------------------------------------- empty


def _look_empty(bound: Bound, _: list[ndarray]) -> None:
    check(bound["memory_format"] is None, "'memory_format' argument is incompatible with 'out' tensor argument")


@kernel("empty.memory_format", like=np.empty, writes=Writes(out=_look_empty))
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
    check(all(n >= 0 for n in size), "zeros: Dimension size must be non-negative.")
    return np.zeros(size, factory_dtype(dtype))


@kernel("_efficientzerotensor", like=np.zeros)
def _efficientzerotensor(size, *, dtype=None, layout=None, device=None, pin_memory=None):
    """Zeros (torch keeps no memory for them)."""
    return zeros(size, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


@kernel("ones", like=np.ones, differs=["default-dtype"])
def ones(size, *, dtype=None, layout=None, device=None, pin_memory=None):
    """Ones."""
    if layout is not None or device is not None or pin_memory:
        check_options(layout, device, pin_memory)
    return filled(np.empty(check_size(size), factory_dtype(dtype)), 1)


@kernel("full", like=np.full, differs=["default-dtype", "fill-overflow"])
def full(size, fill_value, *, dtype=None, layout=None, device=None, pin_memory=None):
    """One number everywhere, in the dtype it has on its own unless one is given."""
    out = empty(size, dtype=dtype or number_dtype(fill_value), layout=layout, device=device, pin_memory=pin_memory)
    return filled(out, fill_value)


def filled(out: ndarray, value: Any) -> ndarray:
    """New memory with one number everywhere, checked as torch's ``fill_`` does."""
    if out.size == 1:
        out[...] = single(value, out.dtype)
    elif out.dtype == complex32:  # of several elements torch takes the number as complex64 first
        out[...] = cast(scalar(value, complex64), complex32)
    else:
        out[...] = scalar(value, out.dtype)
    return out


@kernel("full_like", like=np.full_like, differs=["memory-format", "fill-overflow"])
def full_like(self, fill_value, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    """One number in another tensor's shape and dtype."""
    return filled(
        empty_like(self, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory, memory_format=memory_format),
        fill_value,
    )


@kernel("zeros_like", like=np.zeros_like, differs=["memory-format"])
def zeros_like(self, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    """Zeros in another tensor's shape and dtype."""
    if memory_format is None and layout is None and device is None and self.flags.c_contiguous:
        return np.zeros(self.shape, self.dtype if dtype is None else as_dtype(dtype))
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
    return single(s, factory_dtype(dtype))


@kernel("fill.Scalar", like=np.full_like, differs=["fill-overflow"])
def fill(self, value):
    """One number in another tensor's shape and dtype."""
    return filled(empty_like(self), value)


# torch reads the number before it writes.
@kernel("fill.Tensor", like=np.full_like, writes=Writes(free=("value",)))
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
    check(len(self) > 0, empty_list())
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
    out.reshape(-1)[: min(n, m) * m : m + 1] = scalar(1, dtype)
    return out


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


@kernel("complex")
def complex_(real, imag):
    """The complex numbers of two parts."""
    pairs = np.empty((*_check_parts(real, imag), 2), real.dtype)
    pairs[..., 0], pairs[..., 1] = real, imag
    return pairs.view(to_complex(real.dtype))[..., 0]


@kernel("polar")
def polar(abs, angle):
    """The complex numbers of an absolute value and an angle."""
    _check_parts(abs, angle)
    if abs.dtype == float16:
        raise not_implemented("polar_cpu", abs.dtype)
    return complex_(abs * np.cos(angle), abs * np.sin(angle))


# ---------------------------------------------------------------- resize


@kernel("resize_", like=np.ndarray.resize, differs=["resize-references"])
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


@kernel("resize_as_", like=np.ndarray.resize, differs=["resize-references"])
def resize_as_(self, the_template, *, memory_format=None):
    """`resize_` to the shape of another tensor."""
    if memory_format is not None and format_name(memory_format) == "preserve_format":
        memory_format = FORMAT_OF_ORDER.get(memory_order(the_template))
    return resize_(self, the_template.shape, memory_format=memory_format)
