"""Copies and conversions: clone, copy, to, and the memory formats that they keep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, check_fits, warn
from torchnp.core.errors import empty_list
from torchnp.core.fast_path import exact
from torchnp.core.inplace_out_spec import WriteSpec, copy_into
from torchnp.core.python_scalars import number
from torchnp.core.registry import kernel
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._memory import check_options, is_contiguous, new_like, storage
from torchnp.layout.apply import is_plain
from torchnp.layout.stride_rules import format_name, layout_of, suggested

ndarray = np.ndarray

# ---------------------------------------------------------------- clone, copy


def _quick_clone(self):
    return self.copy() if type(self) is ndarray and is_plain(self) else None


@kernel("clone", like=np.copy, differs=["memory-format", "memory-format-fits"], quick=exact(_quick_clone, placed=True))
def clone(self, *, memory_format=None):
    """A copy, dense and with the same order of dimensions in memory unless a format is given."""
    out = new_like(self, self.dtype, memory_format)
    out[...] = self
    return out


def storage_copied(x: ndarray) -> ndarray:
    """Copy ``x``'s whole storage, and return the same view of the copy."""
    memory, start = storage(x)
    return ndarray(x.shape, x.dtype, np.array(memory).reshape(-1).view(np.uint8), start, x.strides)


_DOC = "An immediate copy of the whole storage (torch copies a lazy clone at the first write)."
rows("_lazy_clone", storage_copied, _DOC, like=np.copy)
rows("lift_fresh_copy", lambda x: x.copy(), "A copy.", like=np.copy)


def _warn_of_cast(src: Any, dtype: np.dtype) -> None:
    if isinstance(src, ndarray) and src.dtype.kind == "c" and not dt.is_complex(dtype) and dtype != dt.bool_:
        warn("Casting complex values to real discards the imaginary part")


def _precheck_lists(first: Sequence[ndarray], others: Sequence[Sequence[ndarray]]) -> None:
    check(len(first) and len(others[0]), empty_list())


@kernel("copy", like=np.copyto, differs=["overlap-order", "overlap-operand"], writes=WriteSpec(lists=_precheck_lists))
def copy(self, src, non_blocking=False):
    """``src`` in the shape and dtype of ``self``."""
    _warn_of_cast(src, self.dtype)
    value = dt.cast(src, self.dtype) if isinstance(src, ndarray) else number(src, self.dtype)
    check_fits(value, self)
    out = new_like(self, self.dtype)
    out[...] = value
    return out


rows("_copy_from", lambda x, dst, _: copy(dst, x), "``self`` in the shape and dtype of ``dst``.", like=np.copyto)

# ---------------------------------------------------------------- conversion


@kernel("_to_copy", like=np.ndarray.astype, differs=["cast-float8-saturates", "memory-format-fits"])
def _to_copy(self, *, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, memory_format=None):
    """A copy in another dtype and memory format."""
    if layout is not None or device is not None:  # torch ignores pin_memory for a copy on the CPU
        check_options(layout, device, False)
    if not isinstance(self, ndarray):
        return number(self, dt.number_dtype(self) if dtype is None else dt.as_dtype(dtype)).copy()
    if dtype is not None:
        _warn_of_cast(self, dt.as_dtype(dtype))
    value = self if dtype is None else dt.cast(self, dt.as_dtype(dtype))
    # The real part of a complex tensor is a view. Only a value that owns its memory can be returned without a copy.
    if value is self or value.base is not None or memory_format is not None or not is_plain(self):
        out = new_like(self, value.dtype, memory_format)
        out[...] = value
        return out
    return value


def convert(self: ndarray, dtype: np.dtype, copy: bool = False, memory_format: Any = None) -> ndarray:
    """Convert as torch's `to` does: return the tensor itself if nothing changes and no copy is requested."""
    if self.dtype == dtype and not copy:
        name = "preserve_format" if memory_format is None else format_name(memory_format)
        if name in ("preserve_format", suggested(*layout_of(self))):
            return self
    return _to_copy(self, dtype=dtype, memory_format=memory_format)


_ANOTHER = "The tensor cast to a dtype; itself if nothing changes and no copy is asked for."
rows(
    "to.dtype", lambda x, dtype, _, copy, memory_format: convert(x, dt.as_dtype(dtype), copy, memory_format), _ANOTHER,
    like=np.ndarray.astype, differs=["cast-float8-saturates", "memory-format-fits"],
)  # fmt: skip


def _to(
    self, *, other=None, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, copy=False,
    memory_format=None,
):  # fmt: skip
    check_options(layout, device, False)  # torch ignores pin_memory for a copy on the CPU
    self = np.asarray(self)  # a number becomes a tensor of its own dtype
    like = self if other is None else np.asarray(other)
    target = like.dtype if dtype is None else dt.as_dtype(dtype)
    return convert(self, target, copy, memory_format)


_OTHER = "The tensor cast to a dtype; the only device is the CPU."
rows("to.device", _to, _OTHER, like=np.ndarray.astype, differs=["memory-format-fits"])
_DOC = "The tensor cast to the dtype of ``other``."
rows("to.other", _to, _DOC, like=np.ndarray.astype, differs=["memory-format-fits"])
rows("type_as", _to, _DOC, like=np.ndarray.astype, differs=["cast-is-itself"])
rows("to.dtype_layout", _to, _ANOTHER, like=np.ndarray.astype, differs=["memory-format-fits"])
rows("chalf", lambda x, to: convert(x, dt.complex32, False, to), "The tensor cast to complex32.")


def _as(self, dtype):
    return self if dtype is None else convert(self, dt.as_dtype(dtype))


rows("to_dense", lambda x, dtype, _: _as(x, dtype), "The tensor itself, cast if a dtype is given.")
for _name, _dtype in (
    ("_cast_Byte", dt.uint8), ("_cast_Char", dt.int8), ("_cast_Short", dt.int16), ("_cast_Int", dt.int32),
    ("_cast_Long", dt.int64), ("_cast_Half", dt.float16), ("_cast_Float", dt.float32), ("_cast_Double", dt.float64),
):  # fmt: skip
    rows(
        _name,
        lambda x, _, *, to: _as(x, to),
        f"The tensor in {_dtype}.",
        like=np.ndarray.astype,
        to=_dtype,
        differs=["cast-is-itself"],
    )


_reduced = lambda x, _, on, __, to: _as(x, to if on and x.dtype == dt.float32 else None)
rows("_autocast_to_reduced_precision", _reduced, "A float32 tensor cast to ``cpu_dtype`` if ``cpu_enabled``.")
_full = lambda x, _, on: _as(x, dt.float32 if on and dt.is_half(x.dtype) else None)
rows("_autocast_to_full_precision", _full, "A half-type tensor cast to float32 if ``cpu_enabled``.")
rows("_to_cpu", list, "The tensors themselves: there is no other device.")


@kernel("contiguous", like=np.ascontiguousarray, differs=["contiguous-0d", "memory-format-fits"])
def contiguous(self, *, memory_format=0):
    """The tensor itself if it is dense in the format, else a dense copy."""
    name = format_name(memory_format)
    if is_contiguous(self, name):
        return self
    check(name != "preserve_format", "preserve memory format is unsupported by the contiguous operator")
    return clone(self, memory_format=name)


rows(
    "_copy_from_and_resize",
    lambda x, dst: copy_into(dst, x),
    "Copy ``self`` into ``dst``, resizing it; torch has it on other devices only.",
)
