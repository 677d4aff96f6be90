"""New tensors: uninitialized, filled with a number, or with the shape and dtype of another tensor."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import broadcast_shapes, check, check_strides, refuse
from torchnp.core.errors import not_implemented
from torchnp.core.inplace_out_spec import Bound, WriteSpec, resize_owned
from torchnp.core.python_scalars import scalar, single
from torchnp.core.registry import kernel
from torchnp.core.target import since
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._memory import (
    check_options,
    check_size,
    element_strides,
    empty_in_order,
    factory_dtype,
    format_order,
    new_like,
    storage,
)
from torchnp.layout.stride_rules import cloned, contiguous, format_name, in_order, layout_of, suggested
from torchnp.layout.stride_rules import empty as strided

ndarray = np.ndarray

# ---------------------------------------------------------------- empty


def _precheck_empty(bound: Bound, _: list[ndarray]) -> None:
    check(bound["memory_format"] is None, "'memory_format' argument is incompatible with 'out' tensor argument")


@kernel(
    "empty.memory_format",
    like=np.empty,
    differs=["default-dtype", "memory-format-fits"],
    writes=WriteSpec(out=_precheck_empty),
)
def empty(size, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    """An uninitialized tensor of the given shape."""
    if layout is not None or device is not None or pin_memory:
        check_options(layout, device, pin_memory)
    size = check_size(size)
    if memory_format is not None:
        check(format_name(memory_format) != "preserve_format", "unsupported memory format Preserve")
    return empty_in_order(size, factory_dtype(dtype), format_order(memory_format, len(size)))


@kernel("empty_permuted", like=np.empty, differs=["default-dtype"])
def empty_permuted(size, physical_layout, *, dtype=None, layout=None, device=None, pin_memory=None):
    """An uninitialized tensor whose dimensions have the given order in memory, from largest to smallest stride."""
    n = len(size)
    if n != len(physical_layout):
        words = "Number of dimensions in size does not match the length of the physical_layout; i.e."
        raise RuntimeError(f"{words} len(size) = {n} is not equal to len(physical_layout) = {len(physical_layout)}")
    for i, d in enumerate(physical_layout):
        if not 0 <= d < n:
            words = f"Dimension out of range (expected to be between 0 and {n - 1}, but got {d} at index {i}). "
            raise RuntimeError(f"{words} NB: negative dims not currently supported; file an issue if you want it.")
        check(d not in physical_layout[:i], "Duplicate dim not allowed")
    check_options(layout, device, pin_memory)
    check_size([size[d] for d in physical_layout])
    return empty_in_order(check_size(size), factory_dtype(dtype), tuple(physical_layout))


@kernel("empty_strided", like=np.ndarray, differs=["default-dtype", "empty-with-gaps"])
def empty_strided(size, stride, *, dtype=None, layout=None, device=None, pin_memory=None):
    """An uninitialized tensor of the given shape and strides, in elements."""
    check_options(layout, device, pin_memory)
    size, dtype = check_size(size), factory_dtype(dtype)
    check_strides(size, stride)
    steps: list[int] = []
    for n, s in reversed(list(zip((*size[1:], 1), stride, strict=False))):  # a dimension of size 1 may have any stride
        steps.append(s if s >= 0 else steps[-1] * max(n, 1) if steps else 1)
    return strided(size, dtype, tuple(reversed(steps)))


@kernel("empty_like", like=np.empty_like, differs=["memory-format-fits"])
def empty_like(self, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    """An uninitialized tensor with another tensor's shape, dtype and memory order of dimensions."""
    if layout is not None or device is not None or pin_memory:
        check_options(layout, device, pin_memory)
    return new_like(self, self.dtype if dtype is None else dt.as_dtype(dtype), memory_format)


@kernel("_new_zeros_with_same_feature_meta", like=np.zeros)
def _new_zeros_with_same_feature_meta(self, other, *, self_num_batch_dims=0):
    """Zeros with ``self``'s batch dimensions followed by the shape and the strides of ``other``."""
    batch, (memory, _) = self.shape[:self_num_batch_dims], storage(other)
    steps = [s * (memory.nbytes // other.itemsize) for s in contiguous(batch)]
    out = strided((*batch, *other.shape), other.dtype, (*steps, *element_strides(other)))
    out[...] = 0
    return out


# ---------------------------------------------------------------- filled


def _made(*given, factory, dtype, layout, device, pin_memory):
    """Call a factory with the resolved dtype; refuse layouts and devices that only torch has."""
    check_options(layout, device, pin_memory)
    return factory(*given, dtype=factory_dtype(dtype))


def zeros_of(size, dtype):
    """Return zeros; refuse a negative size as torch does."""
    _check_sizes(size)
    return np.zeros(size, dtype)


def _check_sizes(size):
    check(all(n >= 0 for n in size), "zeros: Dimension size must be non-negative.")


def _zeros(size, **options):
    _check_sizes(size)  # before the options are checked
    return _made(size, factory=np.zeros, **options)


_DEFAULT = ["default-dtype"]
_FITS, _OF_FULL = ["memory-format-fits"], ["fill-overflow", "number-wraps"]
zeros, _ = rows("zeros _efficientzerotensor", _zeros, "Zeros.", like=np.zeros, differs=_DEFAULT)
_ones = lambda size, dtype: filled(np.empty(check_size(size), dtype), 1)
(ones,) = rows("ones", _made, "Ones.", factory=_ones, like=np.ones, differs=_DEFAULT)


@kernel("full", like=np.full, differs=["default-dtype", *_OF_FULL])
def full(size, fill_value, *, dtype=None, layout=None, device=None, pin_memory=None):
    """A tensor filled with one number, by default in the number's own dtype."""
    own = dt.number_dtype(fill_value)
    if type(fill_value) is int:  # int64 even for a number that would need uint64
        own = dt.int64
    elif own == dt.complex32:  # here a complex number is never complex32, whatever the default dtype
        own = dt.complex64
    out = empty(size, dtype=dtype or own, layout=layout, device=device, pin_memory=pin_memory)
    return filled(out, fill_value)


def filled(out: ndarray, value: Any) -> ndarray:
    """Fill new memory with one number, checked as in torch's ``fill_``."""
    if out.size == 1:
        out[...] = single(value, out.dtype)
    elif out.dtype == dt.bcomplex32:
        raise not_implemented("fill_cpu", out.dtype)
    elif out.dtype == dt.complex32:  # for several elements torch first converts the number to complex64
        out[...] = dt.cast(scalar(value, dt.complex64), dt.complex32)
    else:
        out[...] = scalar(value, out.dtype)
    return out


def _filled_like(self, value, **options):
    return filled(empty_like(self, **options), value)


_DOC = "{} in another tensor's shape and dtype."
rows("full_like", _filled_like, _DOC.format("One number"), like=np.full_like, differs=[*_OF_FULL, *_FITS])
rows("fill.Scalar", _filled_like, _DOC.format("One number"), like=np.full_like, differs=_OF_FULL)
_ones_like = partial(_filled_like, value=1)
rows("ones_like", _ones_like, _DOC.format("Ones"), like=np.ones_like, differs=_FITS)


@kernel("zeros_like", like=np.zeros_like, differs=["memory-format-fits"])
def zeros_like(self, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    """Zeros in another tensor's shape and dtype."""
    plain = memory_format is None and layout is None and device is None and not pin_memory
    if plain and self.size and self.flags.c_contiguous:
        return np.zeros(self.shape, self.dtype if dtype is None else dt.as_dtype(dtype))
    options = {"layout": layout, "device": device, "pin_memory": pin_memory, "memory_format": memory_format}
    return _filled_like(self, 0, dtype=dtype, **options)


def _new(self, *sizes, factory, dtype, **options):
    return factory(*sizes, dtype=dtype or self.dtype, **options)


for _name, _make, _like, *_differs in (
    ("new_empty", empty, np.empty), ("new_ones", ones, np.ones),
    ("new_empty_strided", empty_strided, np.ndarray, "empty-with-gaps"),
    ("new_zeros", partial(_made, factory=lambda size, dtype: np.zeros(check_size(size), dtype)), np.zeros),
):  # fmt: skip
    rows(
        _name,
        _new,
        f"`{_name.removeprefix('new_')}` in another tensor's dtype.",
        factory=_make,
        like=_like,
        differs=_differs,
    )
rows("new_full", _new, "`full` in another tensor's dtype.", factory=full, like=np.full, differs=_OF_FULL)


_DOC = "A number as a 0-d tensor, of the default dtype (even for an integer) unless ``dtype`` is given."
rows(
    "scalar_tensor",
    _made,
    _DOC,
    factory=single,
    like=np.array,
    differs=["default-dtype", "scalar-tensor-is-float", *_OF_FULL],
)


# torch reads the number before it writes, so the value may overlap the target.
@kernel("fill.Tensor", like=np.full_like, differs=["fill-0d"], writes=WriteSpec(free=("value",)))
def fill_tensor(self, value):
    """A tensor of another tensor's shape and dtype, filled with the number in a 0-d tensor."""
    if value.ndim:
        raise RuntimeError(f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions.")
    out = empty_like(self)
    out[...] = dt.cast(value, out.dtype)
    return out


rows("zero", lambda x: zeros_like(x), "Zeros in another tensor's shape and dtype.", like=np.zeros_like)


def _eye(n, m=None, *, dtype):
    m = n if m is None else m
    check(n >= 0, f"n must be greater or equal to 0, got {n}")
    check(m >= 0, f"m must be greater or equal to 0, got {m}")
    refuse("eye", dtype, (*dt.BARE_UNSIGNED, dt.complex32))
    out = np.zeros((n, m), dtype)
    out.reshape(-1)[: min(n, m) * m : m + 1] = scalar(1, dtype)
    return out


_DOC = "An n by m matrix with ones on the diagonal, square by default."
eye, _ = rows("eye eye.m", _made, _DOC, factory=_eye, like=np.eye, differs=[*_DEFAULT, "missing-kernel"])

# ---------------------------------------------------------------- complex

_PARTS = (dt.float16, dt.float32, dt.float64)


def _check_parts(a: ndarray, b: ndarray) -> tuple[int, ...]:
    if a.dtype not in _PARTS or b.dtype not in _PARTS:
        words = "Expected both inputs to be Half, Float or Double tensors but got"
        raise RuntimeError(f"{words} {dt.scalar_name(a.dtype)} and {dt.scalar_name(b.dtype)}")
    if a.dtype != b.dtype:
        words = f"Expected object of scalar type {dt.scalar_name(a.dtype)} but got scalar type"
        raise RuntimeError(f"{words} {dt.scalar_name(b.dtype)} for second argument")
    return broadcast_shapes(a.shape, b.shape)


@kernel("complex")
def complex_(real, imag):
    """Complex numbers with the given real and imaginary parts."""
    pairs = np.empty((*_check_parts(real, imag), 2), real.dtype)
    pairs[..., 0], pairs[..., 1] = real, imag
    return pairs.view(dt.to_complex(real.dtype))[..., 0]


@kernel("polar")
def polar(abs, angle):
    """Complex numbers with the given absolute values and angles."""
    _check_parts(abs, angle)
    if not since("2.14"):
        refuse("polar_cpu", abs.dtype, (dt.float16,))
    out = dt.to_complex(abs.dtype)
    abs, angle = (dt.cast(x, dt.opmath(x.dtype)) for x in (abs, angle))
    return dt.cast(complex_(abs * np.cos(angle), abs * np.sin(angle)), out)


def _resize_order(size: Sequence[int], memory_format: Any) -> tuple[int, ...] | None:
    asked = memory_format is not None and format_name(memory_format)
    negative = any(n < 0 for n in size)
    check(not negative or 0 in size, "numel: integer multiplication overflow")
    check(asked != "preserve_format", "Unsupported memory formatPreserve")
    order = format_order(memory_format, len(size))
    check(not negative, "numel: integer multiplication overflow")
    return order


@kernel("resize_", like=np.ndarray.resize, differs=["resize-references", *_FITS], writes=WriteSpec(resizes=True))
def resize_(self, size, *, memory_format=None):
    """Change the shape in place and keep the elements in memory; the array must own its memory."""
    order = _resize_order(size, memory_format)
    steps = contiguous(size) if order is None else in_order(size, order)
    if tuple(size) == self.shape and (memory_format is None or element_strides(self) == steps):
        return self
    check(steps == contiguous(size), "resize_ of an ndarray cannot set a memory format: its strides are fixed")
    try:
        resize_owned(self, size)
    except ValueError as error:
        words = "Trying to resize storage that is not resizable: the array does not own its memory"
        raise RuntimeError(words) from error
    return self


@kernel("resize", like=np.resize, differs=["resize-in-memory", *_FITS])
def resize(self, size, *, memory_format=None):
    """A copy in another shape with the same elements in memory, cut or padded with zeros."""
    order = _resize_order(size, memory_format)
    copy = cloned(self)
    if tuple(size) == self.shape and memory_format is None:
        return copy
    out = empty_in_order(size, self.dtype, order)
    held, memory = storage(copy)[0].reshape(-1).view(np.uint8), storage(out)[0].reshape(-1).view(np.uint8)
    memory[:] = 0
    memory[: held.size] = held[: memory.size]
    return out


def _template_format(template: ndarray, memory_format: Any) -> Any:
    asked = memory_format is not None and format_name(memory_format)
    return suggested(*layout_of(template)) if asked == "preserve_format" else memory_format


@kernel("resize_as_", like=np.ndarray.resize, differs=["resize-references", *_FITS], writes=WriteSpec(resizes=True))
def resize_as_(self, the_template, *, memory_format=None):
    """`resize_` to the shape of another tensor."""
    return resize_(self, the_template.shape, memory_format=_template_format(the_template, memory_format))


@kernel("resize_as", like=np.resize, differs=["resize-in-memory", *_FITS])
def resize_as(self, the_template, *, memory_format=None):
    """`resize` to the shape of another tensor."""
    return resize(self, the_template.shape, memory_format=_template_format(the_template, memory_format))
