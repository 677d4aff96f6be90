"""Copies and conversions: clone, copy, to, and the memory formats that they keep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from torchnp.checks import broadcast_shapes, check, warn
from torchnp.dtypes import (
    as_dtype,
    bool_,
    cast,
    complex32,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    is_complex,
    is_floating,
    uint8,
)
from torchnp.errors import empty_list, output_shape
from torchnp.kernels._memory import check_options, empty_in_order, format_name, is_contiguous, like_order, memory_order
from torchnp.registry import kernel
from torchnp.scalars import number

ndarray = np.ndarray

# ---------------------------------------------------------------- clone, copy


@kernel("clone", like=np.copy, differs=["memory-format"])
def clone(self, *, memory_format=None):
    """A copy, dense and with its dimensions in the same order in memory unless a format is named."""
    if memory_format is None and self.flags.c_contiguous:
        return self.copy()
    out = empty_in_order(self.shape, self.dtype, like_order(self, memory_format))
    out[...] = self
    return out


@kernel("_lazy_clone", like=np.copy)
def _lazy_clone(self):
    """A copy (torch copies at the first write)."""
    return clone(self)


@kernel("lift_fresh_copy", like=np.copy)
def lift_fresh_copy(self):
    """A copy."""
    return clone(self)


@kernel("_foreach_clone", like=np.copy)
def _foreach_clone(self, *, memory_format=None):
    """`clone` of each tensor."""
    check(len(self) > 0, empty_list())
    return [clone(x, memory_format=memory_format) for x in self]


def _warn_of_cast(src: Any, dtype: np.dtype) -> None:
    if isinstance(src, ndarray) and src.dtype.kind == "c" and not is_complex(dtype) and dtype != bool_:
        warn("Casting complex values to real discards the imaginary part")


@kernel("copy", like=np.copyto)
def copy(self, src, non_blocking=False):
    """``src`` in the shape and dtype of ``self``."""
    _warn_of_cast(src, self.dtype)
    value = cast(src, self.dtype) if isinstance(src, ndarray) else number(src, self.dtype)
    if value.shape != self.shape:
        shape = broadcast_shapes(self.shape, value.shape)
        if shape != self.shape:
            raise output_shape(self.shape, shape)
    out = empty_in_order(self.shape, self.dtype, memory_order(self))
    out[...] = value
    return out


@kernel("_copy_from", like=np.copyto)
def _copy_from(self, dst, non_blocking=False):
    """``self`` in the shape and dtype of ``dst``."""
    return copy(dst, self)


# ---------------------------------------------------------------- conversion


@kernel("_to_copy", like=np.ndarray.astype, differs=["cast-float8-saturates", "memory-format"])
def _to_copy(self, *, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, memory_format=None):
    """A copy in another dtype and memory format."""
    if layout is not None or device is not None or pin_memory:
        check_options(layout, device, pin_memory)
    if not isinstance(self, ndarray):
        return number(self, number_target(self, dtype)).copy()
    if dtype is not None:
        _warn_of_cast(self, as_dtype(dtype))
    value = self if dtype is None else cast(self, as_dtype(dtype))
    # The real part of a complex tensor is a view: only memory of its own is the result already.
    if value is self or value.base is not None or memory_format is not None or not self.flags.c_contiguous:
        out = empty_in_order(value.shape, value.dtype, like_order(self, memory_format))
        out[...] = value
        return out
    return value


def number_target(value: Any, dtype: Any) -> np.dtype:
    """The dtype of a number that is converted: its own, unless one is given."""
    from torchnp.dtypes import number_dtype

    return number_dtype(value) if dtype is None else as_dtype(dtype)


def convert(
    self: ndarray, dtype: np.dtype, copy: bool, memory_format: Any, layout: Any = None, device: Any = None
) -> ndarray:
    """`to`: the tensor itself where nothing changes and no copy is asked for."""
    if layout is not None or device is not None:
        check_options(layout, device, None)
    if self.dtype == dtype and not copy:
        name = "preserve_format" if memory_format is None else format_name(memory_format)
        if name == "preserve_format" or is_contiguous(self, name):
            return self
    return _to_copy(self, dtype=dtype, memory_format=memory_format)


@kernel("to.dtype", like=np.ndarray.astype, differs=["cast-float8-saturates"])
def to_dtype(self, dtype, non_blocking=False, copy=False, memory_format=None):
    """The tensor in another dtype; itself if it has that dtype."""
    return convert(self, as_dtype(dtype), copy, memory_format)


@kernel("to.device", like=np.ndarray.astype)
def to_device(self, device, dtype, non_blocking=False, copy=False, memory_format=None):
    """The tensor in another dtype; the only device is the CPU."""
    return convert(self, as_dtype(dtype), copy, memory_format, None, device)


@kernel("to.other", like=np.ndarray.astype)
def to_other(self, other, non_blocking=False, copy=False, memory_format=None):
    """The tensor in the dtype of another."""
    return convert(self, other.dtype, copy, memory_format)


@kernel("to.dtype_layout", like=np.ndarray.astype)
def to_dtype_layout(
    self,
    *,
    dtype=None,
    layout=None,
    device=None,
    pin_memory=None,
    non_blocking=False,
    copy=False,
    memory_format=None,
):
    """The tensor in another dtype; itself if it has that dtype."""
    check_options(None, None, pin_memory)
    return convert(self, self.dtype if dtype is None else as_dtype(dtype), copy, memory_format, layout, device)


@kernel("type_as", like=np.ndarray.astype)
def type_as(self, other):
    """The tensor in the dtype of another."""
    return convert(self, other.dtype, False, None)


@kernel("to_dense")
def to_dense(self, dtype=None, *, masked_grad=None):
    """The tensor itself, in another dtype if one is given."""
    return self if dtype is None else convert(self, as_dtype(dtype), False, None)


@kernel("chalf")
def chalf(self, *, memory_format=None):
    """The tensor in complex32."""
    return convert(self, complex32, False, memory_format)


def _cast_row(name: str, dtype: np.dtype) -> None:
    def body(self, non_blocking=False):
        return convert(self, dtype, False, None)

    body.__name__ = name
    body.__doc__ = f"The tensor in {dtype}."
    kernel(name, like=np.ndarray.astype)(body)


for _name, _dtype in (
    ("_cast_Byte", uint8), ("_cast_Char", int8), ("_cast_Short", int16), ("_cast_Int", int32), ("_cast_Long", int64),
    ("_cast_Half", float16), ("_cast_Float", float32), ("_cast_Double", float64),
):  # fmt: skip
    _cast_row(_name, _dtype)


@kernel("_autocast_to_reduced_precision")
def _autocast_to_reduced_precision(self, cuda_enabled, cpu_enabled, cuda_dtype, cpu_dtype):
    """float32 in the reduced dtype of the CPU, where autocast is on."""
    return convert(self, as_dtype(cpu_dtype), False, None) if cpu_enabled and self.dtype == float32 else self


@kernel("_autocast_to_full_precision")
def _autocast_to_full_precision(self, cuda_enabled, cpu_enabled):
    """Half types in float32, where autocast is on."""
    reduced = is_floating(self.dtype) and self.itemsize == 2
    return convert(self, float32, False, None) if cpu_enabled and reduced else self


@kernel("_to_cpu")
def _to_cpu(tensors: Sequence[ndarray]):
    """The tensors themselves: there is no other device."""
    return list(tensors)


# ---------------------------------------------------------------- memory format


@kernel("contiguous", like=np.ascontiguousarray, differs=["memory-format"])
def contiguous(self, *, memory_format=0):
    """The tensor itself if it is dense in the format, else a copy that is."""
    name = format_name(memory_format)
    if is_contiguous(self, name):
        return self
    check(name != "preserve_format", "preserve memory format is unsupported by the contiguous operator")
    return clone(self, memory_format=name)
