"""Ops that put other memory under a tensor in torch. An array keeps its own: the result is an array on that memory."""

from __future__ import annotations

import numpy as np

from torchnp.checks import check
from torchnp.kernels._memory import element_strides, storage
from torchnp.kernels._rows import rows
from torchnp.kernels.create import resize_
from torchnp.kernels.view import as_strided
from torchnp.layout import contiguous
from torchnp.registry import kernel

ndarray = np.ndarray


def _memory_as(source: ndarray, dtype: np.dtype) -> ndarray:
    """The whole memory of ``source`` as elements of a dtype."""
    memory, _ = storage(source)
    flat = memory.reshape(-1).view(np.uint8)
    return flat[: flat.size - flat.size % dtype.itemsize].view(dtype)


@kernel("set.source_Tensor", "set_.source_Tensor")
def set_source_tensor(self, source):
    """``source``'s memory by its shape and strides, read in the dtype of ``self``."""
    if source.dtype == self.dtype:
        return source[...]
    offset = storage(source)[1] // source.itemsize
    return set_source_tensor_storage_offset(self, source, offset, source.shape, element_strides(source))


@kernel("set_.source_Tensor_storage_offset")
def set_source_tensor_storage_offset(self, source, storage_offset, size, stride=()):
    """``source``'s memory by an offset, a shape and strides in elements, read in the dtype of ``self``."""
    check(source.flags.c_contiguous, "passed in tensor to be used as storage must be contiguous")
    return as_strided(_memory_as(source, self.dtype), size, stride or contiguous(size), storage_offset)


rows("set set_", lambda x: np.empty(0, x.dtype), "Memory of no elements, of the dtype of ``self``.")


@kernel("_resize_output_")
def _resize_output_(self, size, device):
    """`resize_` of what another op is to write; torch has code for it on the meta device only."""
    kind = str(device).split(":")[0]
    check(kind == "cpu", f"out Tensor doesn't have the correct device set: expected {kind}, got cpu")
    return resize_(self, size)
