"""Copies, conversions and checks. Arrays are immutable here, so a copy or a view is the array itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torchnp import dtypes as dt
from torchnp.portable.library import ArrayLibrary
from torchnp.portable.rows import Array, portable


@portable(
    "aten::clone",
    "aten::contiguous",
    "aten::alias",
    "aten::alias_copy",
    "aten::detach",
    "aten::detach_copy",
    "aten::lift_fresh_copy",
    "aten::lift_fresh",
    "aten::lift",
    "aten::positive",
    "aten::resolve_conj",
    "aten::resolve_neg",
    "prims::view_of",
    "prims::clone",
    "prims::device_put",
)
def same(lib: ArrayLibrary, self: Array, *args: Any, **kwargs: Any) -> Array:
    return self


@portable("aten::to.device")
def to_device(lib: ArrayLibrary, self: Array, device: Any, dtype: Any = None, *_: Any, **__: Any) -> Array:
    return to_copy(lib, self, dtype=dtype)


@portable("aten::copy")
def copy(lib: ArrayLibrary, self: Array, src: Any, non_blocking: bool = False) -> Array:
    d = lib.dtype_of(self)
    src = lib.astype(src, d) if lib.is_array(src) else lib.number(src, d)
    return src if tuple(src.shape) == tuple(self.shape) else lib.xp.broadcast_to(src, tuple(self.shape))


@portable("aten::_to_copy")
def to_copy(lib: ArrayLibrary, self: Array, *, dtype: Any = None, **_: Any) -> Array:
    return self if dtype is None else lib.astype(self, dtype)


@portable("aten::to.dtype")
def to_dtype(lib: ArrayLibrary, self: Array, dtype: Any, *_: Any, **__: Any) -> Array:
    return lib.astype(self, dtype)


@portable("aten::to.dtype_layout")
def to_dtype_layout(lib: ArrayLibrary, self: Array, *, dtype: Any = None, **_: Any) -> Array:
    return to_copy(lib, self, dtype=dtype)


@portable("aten::to.other")
def to_other(lib: ArrayLibrary, self: Array, other: Array, *_: Any, **__: Any) -> Array:
    return lib.astype(self, lib.dtype_of(other))


@portable("aten::type_as")
def type_as(lib: ArrayLibrary, self: Array, other: Array) -> Array:
    return lib.astype(self, lib.dtype_of(other))


@portable("aten::sym_constrain_range_for_size", "aten::sym_constrain_range")
def no_check(lib: ArrayLibrary, *args: Any, **kwargs: Any) -> None:
    """Check nothing, because sizes are checked when the program is called."""


@portable("aten::_assert_tensor_metadata")
def assert_tensor_metadata(
    lib: ArrayLibrary,
    a: Array,
    size: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
    dtype: Any = None,
    **_: Any,
) -> None:
    """Check sizes and dtype; arrays of the standard have no strides."""
    if size is not None and tuple(size) != tuple(a.shape):
        raise RuntimeError(f"Tensor sizes mismatch! Expected: {list(size)}, Got: {list(a.shape)}")
    if dtype is not None and dt.as_dtype(dtype) != lib.dtype_of(a):
        names = dt.scalar_name(dt.as_dtype(dtype)), dt.scalar_name(lib.dtype_of(a))
        raise RuntimeError("Tensor dtype mismatch! Expected: {}, Got: {}".format(*names))


@portable("aten::_assert_scalar")
def assert_scalar(lib: ArrayLibrary, self: Any, assert_msg: str) -> None:
    if lib.is_traced(self):
        return
    if not self:
        raise RuntimeError(assert_msg)


@portable("aten::_assert_async", "aten::_assert_async.msg")
def assert_async(lib: ArrayLibrary, self: Array, assert_msg: str = "Expected Tensor to be non-zero") -> None:
    """Check a value, except in a trace, where arrays have no values."""
    if not lib.is_traced(self) and not lib.item(self):
        raise RuntimeError(assert_msg)
