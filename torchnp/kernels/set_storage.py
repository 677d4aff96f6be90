"""Ops that replace a tensor's storage in torch. An array keeps its memory: the result is a new array on the storage."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from torchnp.core.checks import check, check_strides
from torchnp.core.errors import shape_text
from torchnp.core.registry import kernel
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._memory import element_strides, storage
from torchnp.kernels.create import resize_
from torchnp.kernels.view import as_strided
from torchnp.layout.stride_rules import contiguous

ndarray = np.ndarray


def _window(self: ndarray, source: ndarray, offset: int, size: Sequence[int], stride: Sequence[int]) -> ndarray:
    """Return a view of ``source``'s memory in ``self``'s dtype, ``offset`` elements after ``source``'s start."""
    memory, start = storage(source)
    flat = memory.reshape(-1).view(np.uint8)
    whole = flat[: flat.size - flat.size % self.itemsize].view(self.dtype)
    steps, offset = stride or contiguous(size), start // source.itemsize + offset
    kept = self.shape == tuple(size) and (not stride or element_strides(self) == tuple(stride))
    if not kept and offset >= 0 and 0 not in size:
        # torch extends a storage that it owns, and raises this error for others.
        needed = offset + 1 + sum((n - 1) * s for n, s in zip(size, steps))
        check(needed <= whole.size, "Trying to resize storage that is not resizable")
    try:
        return as_strided(whole, size, steps, offset)
    except RuntimeError as error:  # torch's message has the strides that it was given, if any
        words = str(error).replace(f"strides {shape_text(steps)}", f"strides {shape_text(stride)}")
        raise RuntimeError(words) from None


@kernel("set.source_Tensor", "set_.source_Tensor")
def set_source_tensor(self, source):
    """``source``'s memory with its shape and strides, read in the dtype of ``self``."""
    return (
        source[...] if source.dtype == self.dtype else _window(self, source, 0, source.shape, element_strides(source))
    )


@kernel("set_.source_Tensor_storage_offset")
def set_source_tensor_storage_offset(self, source, storage_offset, size, stride=()):
    """``source``'s memory with an offset, a shape and strides in elements, read in the dtype of ``self``."""
    check(source.flags.c_contiguous, "passed in tensor to be used as storage must be contiguous")
    words = f"unequal size length ({len(size)}) and stride length ({len(stride)})"
    check(not stride or len(size) == len(stride), words)
    check(min(size, default=0) >= 0, "numel: integer multiplication overflow")
    if stride:
        check_strides(size, stride)
    return _window(self, source, storage_offset, size, stride)


rows("set set_", lambda x: np.empty(0, x.dtype), "An empty tensor of ``self``'s dtype, on new memory.")


@kernel("_resize_output_")
def _resize_output_(self, size, device):
    """`resize_` of another op's ``out=``; torch has a kernel for the meta device only."""
    kind = str(device).split(":")[0]
    check(kind == "cpu", f"out Tensor doesn't have the correct device set: expected {kind}, got cpu")
    return resize_(self, size)
