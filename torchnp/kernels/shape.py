"""Queries of a tensor's metadata (sizes, strides, dtype), and one value as a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from torchnp import dtypes
from torchnp.core import python_scalars
from torchnp.core.checks import check, dim_of
from torchnp.core.errors import shape_text
from torchnp.core.registry import kernel
from torchnp.dtypes import bool_, c_name, int64
from torchnp.kernels import _memory
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._memory import storage

ndarray = np.ndarray

# ---------------------------------------------------------------- sizes and strides

rows("sym_size.int size.int", lambda x, dim: x.shape[dim_of(x, dim)], "The size of a dimension.", like=np.shape)
rows(
    "sym_stride.int stride.int", lambda x, dim: x.strides[dim_of(x, dim)] // x.itemsize,
    "The stride of a dimension, in elements.", like=np.ndarray.strides,
)  # fmt: skip
rows("sym_numel numel", lambda x: x.size, "The number of elements.", like=np.size)
rows(
    "sym_storage_offset storage_offset", _memory.storage_offset,
    "The storage offset in elements, counted from the start of the outermost base's memory.",
    differs=["as-strided-storage"],
)  # fmt: skip
rows("dim", lambda x: x.ndim, "The number of dimensions.", like=np.ndim)
_DENSE, _FORMAT = "Whether the tensor is dense in", ["memory-format"]
rows("is_contiguous", lambda x: x.flags.c_contiguous, f"{_DENSE} row-major order.", differs=_FORMAT)
_TOLD = "sym_is_contiguous is_contiguous.memory_format"
rows(_TOLD, _memory.is_contiguous, f"{_DENSE} a memory format.", differs=_FORMAT)
rows("is_same_size", lambda x, other: x.shape == other.shape, "Whether two tensors have the same shape.", like=np.shape)
rows("_shape_as_tensor", lambda x: np.array(x.shape, int64), "The shape as a tensor.", like=np.shape)


@kernel("is_set_to", like=np.shares_memory, differs=["set-to-the-whole"])
def is_set_to(self, tensor):
    """Whether two tensors have the same storage, offset, shape and strides."""
    mine, other = storage(self), storage(tensor)
    same = _memory.address(mine[0]) == _memory.address(other[0]) and mine[1] == other[1]
    return same and self.shape == tensor.shape and self.strides == tensor.strides


_elements = lambda x: storage(x)[0].nbytes // x.itemsize
_DOC = "Whether the storages of two tensors hold the same number of elements."
rows("_has_same_storage_numel", lambda x, other: _elements(x) == _elements(other), _DOC)


@kernel("_debug_has_internal_overlap")
def _debug_has_internal_overlap(self):
    """0 if no two elements share memory, 1 if some do, 2 if the strides alone do not tell."""
    if self.transpose(_memory.memory_order(self) or range(self.ndim)).flags.c_contiguous:
        return 0
    return 1 if any(n > 1 and not s for n, s in zip(self.shape, self.strides)) else 2


# ---------------------------------------------------------------- dtype


rows("is_complex", lambda x: dtypes.is_complex(x.dtype), "Whether the dtype is complex.", like=np.iscomplexobj)
rows("is_floating_point", lambda x: dtypes.is_floating(x.dtype), "Whether the dtype is a real floating point one.")
rows("is_signed", lambda x: dtypes.is_signed(x.dtype), "Whether the dtype has negative numbers.")

# torch's schemas return a dtype as an int (ScalarType); these ops return an np.dtype.

_PROMOTION = ["promotion-category", "unsigned-promotion"]
rows(
    "promote_types", dtypes.promote_types, "The dtype that two dtypes promote to.", like=np.promote_types,
    differs=_PROMOTION,
)  # fmt: skip
rows(
    "result_type.Tensor result_type.Scalar result_type.Scalar_Tensor result_type.Scalar_Scalar", dtypes.result_type,
    "The dtype that two operands promote to.", like=np.result_type, differs=_PROMOTION,
)  # fmt: skip
rows(
    "can_cast", dtypes.can_cast, "Whether a result of one dtype may be written into a tensor of another.",
    like=np.can_cast, differs=["can-cast-by-category"],
)  # fmt: skip

# ---------------------------------------------------------------- constants: properties that arrays do not have

_FALSE = "is_conj is_neg is_distributed is_inference _is_zerotensor retains_grad is_pinned is_vulkan_available"
rows(_FALSE, lambda *_: False, "Always False for an array.")
rows("is_leaf _has_compatible_shallow_copy_type", lambda *_: True, "Always True for an array.")
rows("sparse_dim output_nr", lambda x: 0, "Always 0 for an array.")
rows("get_device", lambda x: -1, "Always -1, for the CPU.")
rows("dense_dim", lambda x: x.ndim, "The number of dimensions: all are dense.", like=np.ndim)


@kernel("_assert_tensor_metadata")
def _assert_tensor_metadata(a, size=None, stride=None, dtype=None, *, device=None, layout=None):
    """Raise unless the tensor has the sizes, strides and dtype given."""
    _memory.check_options(layout, device, None)
    for name, expected, got in (("sizes", size, a.shape), ("strides", stride, _memory.element_strides(a))):
        if expected is not None and tuple(expected) != got:
            raise RuntimeError(f"Tensor {name} mismatch! Expected: {shape_text(expected)}, Got: {shape_text(got)}")
    if dtype is not None and dtypes.as_dtype(dtype) != a.dtype:
        expected = dtypes.scalar_name(dtypes.as_dtype(dtype))
        raise RuntimeError(f"Tensor dtype mismatch! Expected: {expected}, Got: {c_name(a.dtype)}")


# ---------------------------------------------------------------- one value


@kernel("_local_scalar_dense", like=np.ndarray.item)
def _local_scalar_dense(self):
    """The first value as a Python number."""
    check(self.size > 0, "_local_scalar_dense: Empty tensor not supported")
    return python_scalars.item(self if self.size == 1 else self[(slice(0, 1),) * self.ndim])


@kernel("item", like=np.ndarray.item)
def item(self):
    """The only value as a Python number."""
    check(self.size == 1, f"a Tensor with {self.size} elements cannot be converted to Scalar")
    return _local_scalar_dense(self)


@kernel("is_nonzero", like=bool)
def is_nonzero(self):
    """Whether the only value is not zero."""
    check(self.size != 0, "Boolean value of Tensor with no values is ambiguous")
    check(self.size == 1, "Boolean value of Tensor with more than one value is ambiguous")
    value = _local_scalar_dense(self)
    return bool(python_scalars.whole(value) if isinstance(value, int) else value)  # torch compares an integer as int64


@kernel("one_hot")
def one_hot(self, num_classes=-1):
    """One-hot encoding: a new last dimension that is 1 at the class index and 0 elsewhere."""
    check(self.dtype == int64, "one_hot is only applicable to index tensor of type LongTensor.")
    check(self.size or num_classes > 0, "Can not infer total number of classes from empty tensor.")
    check(self.min(initial=0) >= 0, "Class values must be non-negative.")
    top = int(self.max(initial=-1))
    n = top + 1 if num_classes == -1 else num_classes
    check(n > top, "Class values must be smaller than num_classes.")
    out = np.zeros((*self.shape, n), int64)
    np.put_along_axis(out, self[..., None], 1, -1)
    return out


def _whole(x: ndarray, *, truth: Callable[[ndarray], Any]) -> ndarray:
    check(x.dtype == bool_, f"Expected a bool tensor, got {dtypes.scalar_name(x.dtype)}")
    return np.asarray(truth(x))


rows("_is_all_true", _whole, "Whether all values of a bool tensor are true (0-d result).", like=np.all, truth=np.all)
rows("_is_any_true", _whole, "Whether any value of a bool tensor is true (0-d result).", like=np.any, truth=np.any)
