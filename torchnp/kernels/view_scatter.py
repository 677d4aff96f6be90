"""A copy of a tensor with one of its views overwritten."""

from __future__ import annotations

import numpy as np

from torchnp.dtypes import cast
from torchnp.errors import shape_text
from torchnp.kernels._memory import empty_in_order, memory_order, storage
from torchnp.kernels.slicing import diagonal, select, slice_tensor
from torchnp.kernels.view import as_strided
from torchnp.overlap import overlaps_itself
from torchnp.registry import kernel

ndarray = np.ndarray


def _copied(x: ndarray) -> ndarray:
    """A dense copy in the order of ``x``'s memory."""
    out = empty_in_order(x.shape, x.dtype, memory_order(x))
    out[...] = x
    return out


def _storage_copied(x: ndarray) -> ndarray:
    """The same window on a copy of the whole memory that ``x`` lies in; dense if elements share a place."""
    if not x.size or overlaps_itself(x):
        return _copied(x)
    memory, start = storage(x)
    return ndarray(x.shape, x.dtype, np.array(memory).reshape(-1).view(np.uint8), start, x.strides)


def _write(part: ndarray, src: ndarray) -> None:
    if part.shape != src.shape:
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = {shape_text(src.shape)}, "
            f"slice size = {shape_text(part.shape)}"
        )
    part[...] = cast(src, part.dtype)


@kernel("select_scatter", like=np.ndarray.__setitem__)
def select_scatter(self, src, dim, index):
    """A copy with one position of a dimension overwritten."""
    out = _copied(self)
    _write(select(out, dim, index), src)
    return out


@kernel("slice_scatter", like=np.ndarray.__setitem__)
def slice_scatter(self, src, dim=0, start=None, end=None, step=1):
    """A copy with a range of a dimension overwritten."""
    out = _copied(self)
    part = slice_tensor(out, dim, start, end, step)
    _write(part, src)
    return out


@kernel("diagonal_scatter", like=np.fill_diagonal)
def diagonal_scatter(self, src, offset=0, dim1=0, dim2=1):
    """A copy with a diagonal overwritten."""
    out = _copied(self)
    _write(diagonal(out, offset, dim1, dim2), src)
    return out


@kernel("as_strided_scatter", like=np.lib.stride_tricks.as_strided, differs=["as-strided-storage"])
def as_strided_scatter(self, src, size, stride, storage_offset=None):
    """A copy with a window on its memory overwritten."""
    out = _storage_copied(self)
    _write(as_strided(out, size, stride, storage_offset), src)
    return out
