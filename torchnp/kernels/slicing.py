"""Views of parts of a tensor: one position, a range, pieces, a diagonal."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np

from torchnp.core.checks import check, dim_of, wrap_dim
from torchnp.core.errors import expected_true, shape_text
from torchnp.core.inplace_out_spec import WriteSpec
from torchnp.core.registry import kernel
from torchnp.dtypes import int64, is_integral, scalar_name
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._memory import element_strides, storage_offset, window
from torchnp.kernels.view import as_strided

ndarray = np.ndarray
ALL = slice(None)
_AHEAD = tuple((ALL,) * n for n in range(65))


def at(dim: int, index: Any) -> tuple:
    """Return the NumPy index that applies ``index`` to one dimension; the ellipsis makes the result an array."""
    return (*_AHEAD[dim], index, ...)


@kernel("select.int", like=np.ndarray.__getitem__, differs=["element-is-view"])
def select(self, dim, index):
    """The slice at one index of a dimension, without that dimension."""
    try:
        return self[(*_AHEAD[dim if dim >= 0 else dim + self.ndim], index, ...)]
    except IndexError:
        check(self.ndim > 0, "select() cannot be applied to a 0-dim tensor.", IndexError)
        dim = wrap_dim(dim, self.ndim)
        words = f"select(): index {index} out of range for tensor of size {shape_text(self.shape)} at dimension"
        raise IndexError(f"{words} {dim}") from None


_COUNTED = "{} expected an out= argument of size {{}}, got size {{}}"


@kernel(
    "unbind.int",
    like=np.ndarray.__iter__,
    differs=["element-is-view"],
    writes=WriteSpec(counted=_COUNTED.format("unbind_copy_int_out")),
)
def unbind(self, dim=0):
    """The slices at all indices of a dimension, without that dimension."""
    dim = dim_of(self, wrap_dim(dim, self.ndim))
    return [self[(*_AHEAD[dim], i, ...)] for i in range(self.shape[dim])]


# ---------------------------------------------------------------- a range


@kernel("slice.Tensor", like=np.ndarray.__getitem__, differs=["slice-step-positive"])
def slice_tensor(self, dim=0, start=None, end=None, step=1):
    """A range of indices of a dimension; ends out of range are clamped, as in Python."""
    if step <= 0 or not self.ndim:
        check(self.ndim > 0, "slice() cannot be applied to a 0-dim tensor.", IndexError)
        wrap_dim(dim, self.ndim)
        raise RuntimeError("slice step must be positive")
    dim = wrap_dim(dim, self.ndim)
    out = self[(*_AHEAD[dim], slice(start, end, step))]
    if out.size or step == 1:
        return out
    # NumPy ignores the step of an empty slice.
    return window(out, out.shape, (*out.strides[:dim], self.strides[dim] * step, *out.strides[dim + 1 :]))


@kernel("slice_inverse", differs=["as-strided-storage"])
def slice_inverse(self, src, dim=0, start=None, end=None, step=1):
    """The tensor of which ``self`` is a slice, with the sizes, strides and offset of ``src``."""
    return as_strided(self, src.shape, element_strides(src), storage_offset(src))


@kernel("narrow", like=np.ndarray.__getitem__, differs=["narrow-bounds"])
def narrow(self, dim, start, length):
    """The ``length`` indices of a dimension from ``start`` on; an index out of range is an error."""
    check(self.ndim > 0, "narrow() cannot be applied to a 0-dim tensor.")
    # torch also accepts tensors with one number.
    start, length = (int(n.item()) if isinstance(n, ndarray) else n for n in (start, length))
    check(length >= 0, "narrow(): length must be non-negative.")
    dim = wrap_dim(dim, self.ndim)
    extent = self.shape[dim]
    if not -extent <= start <= extent:
        raise IndexError(f"start out of range (expected to be in range of [{-extent}, {extent}], but got {start})")
    first = start + extent if start < 0 else start
    if first + length > extent:
        raise RuntimeError(f"start ({first}) + length ({length}) exceeds dimension size ({extent}).")
    return self[(*_AHEAD[dim], slice(first, first + length))]


@kernel("narrow.Tensor", like=np.ndarray.__getitem__)
def narrow_tensor(self, dim, start, length):
    """`narrow` with ``start`` as a 0-d tensor."""
    check(start.ndim == 0 and is_integral(start.dtype), "start must be an 0-dim integral Tensor.")
    return narrow(self, dim, start, length)


@kernel("narrow_copy", like=np.ndarray.__getitem__, differs=["narrow-bounds", "copy-forms"])
def narrow_copy(self, dim, start, length):
    """A contiguous copy of what `narrow` returns; some error messages differ."""
    start, length = (int(n.item()) if isinstance(n, ndarray) else n for n in (start, length))
    if dim >= self.ndim > 0:
        raise expected_true("dim < static_cast<int64_t>(self_sizes.size())")
    extent = self.shape[dim] if -self.ndim <= dim < self.ndim else 0
    if length < 0 and -self.ndim <= dim < self.ndim and -extent <= start <= extent:
        first = start + extent if start < 0 else start
        raise RuntimeError(f"start ({first}) + length ({length}) exceeds dimension size ({extent}).")
    return np.array(narrow(self, dim, start, max(length, 0)), order="C")


# ---------------------------------------------------------------- pieces


def _pieces(x: ndarray, dim: int, sizes: Iterable[int]) -> list[ndarray]:
    edges = itertools.accumulate(sizes, initial=0)
    return [x[(*_AHEAD[dim], slice(*ends))] for ends in itertools.pairwise(edges)]


@kernel(
    "split.Tensor", "unsafe_split.Tensor", like=np.split, differs=["split-by-size"],
    writes=WriteSpec(counted=_COUNTED.format("split_copy_Tensor_out()")),
)  # fmt: skip
def split(self, split_size, dim=0):
    """Pieces of ``split_size`` along a dimension; the last may be smaller."""
    check(self.ndim > 0, "split expects at least a 1-dimensional tensor")
    if split_size < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={split_size}")
    dim = wrap_dim(dim, self.ndim)
    extent = self.shape[dim]
    words = f"split_size can only be 0 if dimension size is 0, but got dimension size of {extent}"
    check(split_size or not extent, words)
    return _pieces(self, dim, [split_size] * (-(-extent // split_size) if extent else 1))


@kernel(
    "split_with_sizes", "unsafe_split_with_sizes", like=np.split, differs=["split-takes-sizes"],
    writes=WriteSpec(counted=_COUNTED.format("split_with_sizes_copy_out")),
)  # fmt: skip
def split_with_sizes(self, split_sizes, dim=0):
    """Pieces of the given sizes along a dimension."""
    check(self.ndim > 0, "split expects at least a 1-dimensional tensor")
    extent = self.shape[wrap_dim(dim, self.ndim)]
    if split_sizes and min(split_sizes) < 0:
        words = "split_with_sizes expects split_sizes have only non-negative entries, but got"
        raise RuntimeError(f"{words} split_sizes={shape_text(split_sizes)}")
    if sum(split_sizes) != extent:
        words = f"split_with_sizes expects split_sizes to sum exactly to {extent} (input tensor's size at"
        raise RuntimeError(f"{words} dimension {dim}), but got split_sizes={shape_text(split_sizes)}")
    return _pieces(self, wrap_dim(dim, self.ndim), split_sizes)


rows("split.sizes", split_with_sizes, "`split_with_sizes`.", like=np.split, differs=["split-takes-sizes"])


@kernel("chunk", "unsafe_chunk", like=np.array_split, differs=["chunk-count"])
def chunk(self, chunks, dim=0):
    """At most ``chunks`` pieces of one size; the last may be smaller."""
    check(self.ndim > 0, "chunk expects at least a 1-dimensional tensor")
    check(chunks > 0, f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    dim = wrap_dim(dim, self.ndim)
    extent = self.shape[dim]
    return split(self, -(-extent // chunks), dim) if extent else _pieces(self, dim, [0] * chunks)


def _tensor_split(self, given, dim):
    check(self.ndim > 0, "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    if isinstance(given, ndarray):
        words = "tensor_split expected tensor_indices_or_sections to"
        if given.dtype != int64:
            raise RuntimeError(f"{words} have dtype of long, but got {scalar_name(given.dtype)}")
        if given.ndim > 1:
            found = f"but got a tensor with {given.ndim} dims"
            raise RuntimeError(f"{words} be a zero-dimensional or one-dimensional tensor, {found}")
        given = given.tolist()
    dim = wrap_dim(dim, self.ndim)
    if isinstance(given, int):
        check(given > 0, f"number of sections must be larger than 0, got {given}")
        small, larger = divmod(self.shape[dim], given)
        return _pieces(self, dim, [small + (i < larger) for i in range(given)])
    edges = [0, *given, self.shape[dim]]
    return [self[(*_AHEAD[dim], slice(a, b))] for a, b in itertools.pairwise(edges)]


rows(
    "tensor_split.sections tensor_split.indices tensor_split.tensor_indices_or_sections", _tensor_split,
    "Pieces split at the indices, or a number of pieces, the first of which may be larger by one.",
    like=np.array_split, differs=["tensor-split-long"],
)  # fmt: skip


def _split_along(self, given, *, op, least, dim):
    words = f"torch.{op} requires a tensor with at least {least} dimension, but got a tensor with"
    check(self.ndim >= least, f"{words} {self.ndim} dimensions!")
    dim = min(dim, self.ndim - 1)
    if isinstance(given, int) and (given == 0 or self.shape[dim] % given):
        words = f"torch.{op} attempted to split along dimension {dim}, but the size of the dimension {self.shape[dim]}"
        raise RuntimeError(f"{words} is not divisible by the split_size {given}!")
    return _tensor_split(self, given, dim)


_PIECES = "Equal pieces, or pieces split at the indices, along dimension"
rows("hsplit.int hsplit.array", _split_along, f"{_PIECES} 1 (0 of a vector).", least=1, dim=1, like=np.hsplit)
rows("vsplit.int vsplit.array", _split_along, f"{_PIECES} 0.", least=2, dim=0, like=np.vsplit)
rows("dsplit.int dsplit.array", _split_along, f"{_PIECES} 2.", least=3, dim=2, like=np.dsplit)


@kernel("diagonal", like=np.diagonal, differs=["diagonal-writable"])
def diagonal(self, offset=0, dim1=0, dim2=1):
    """A writable view of the diagonal of two dimensions, which becomes the last dimension."""
    first, second = wrap_dim(dim1, self.ndim), wrap_dim(dim2, self.ndim)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    view = self.diagonal(offset, first, second)
    if self.flags.writeable:
        view.setflags(write=True)
    return view
