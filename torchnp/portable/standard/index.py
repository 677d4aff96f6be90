"""Indexing by arrays: gathers, embeddings, and those writes that the standard can express."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torchnp import dtypes as dt
from torchnp.portable.library import ArrayLibrary
from torchnp.portable.rows import Array, portable
from torchnp.portable.standard.shape import wrap


def from_front(lib: ArrayLibrary, index: Array, length: int) -> Array:
    """Return indices as int64, with negative ones counted from the front."""
    index = lib.astype(index, dt.int64)
    return lib.xp.where(index < 0, index + length, index)


@portable("aten::index_select")
def index_select(lib: ArrayLibrary, self: Array, dim: int, index: Array) -> Array:
    if not self.ndim:
        return NotImplemented
    return lib.xp.take(self, lib.xp.reshape(index, (-1,)), axis=wrap(dim, self.ndim))


@portable("aten::embedding")
def embedding(
    lib: ArrayLibrary,
    weight: Array,
    indices: Array,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Array:
    rows = lib.xp.take(weight, lib.xp.reshape(indices, (-1,)), axis=0)
    return lib.xp.reshape(rows, (*indices.shape, *weight.shape[1:]))


@portable("aten::gather")
def gather(lib: ArrayLibrary, self: Array, dim: int, index: Array, *, sparse_grad: bool = False) -> Array:
    if not self.ndim or not index.ndim or 0 in index.shape:
        return NotImplemented
    d = wrap(dim, self.ndim)
    for axis, n in enumerate(index.shape):  # in torch, the index may be shorter
        if axis != d and self.shape[axis] != n:
            self = self[(slice(None),) * axis + (slice(0, n),) + (slice(None),) * (self.ndim - axis - 1)]
    return lib.xp.take_along_axis(self, lib.astype(index, dt.int64), axis=d)


@portable("aten::take_along_dim")
def take_along_dim(lib: ArrayLibrary, self: Array, indices: Array, dim: int | None = None) -> Array:
    if dim is None:
        return lib.xp.take(lib.xp.reshape(self, (-1,)), lib.xp.reshape(indices, (-1,)), axis=0)
    return lib.xp.take_along_axis(self, lib.astype(indices, dt.int64), axis=wrap(dim, self.ndim))


def _flat_places(lib: ArrayLibrary, lengths: Sequence[int], given: list[Array]) -> Array:
    """Combine index arrays of several dimensions into linear indices of these dimensions, merged into one."""
    flat = None
    for n, index in zip(lengths, given):
        at = from_front(lib, index, n)
        flat = at if flat is None else flat * n + at
    return flat


@portable("aten::index.Tensor", "aten::_unsafe_index.Tensor")
def index(lib: ArrayLibrary, self: Array, indices: list[Array | None]) -> Array:
    """Index by integer arrays: merge the indexed dimensions into one, and take linear indices along it."""
    given = [x for x in indices if x is not None]
    if any(lib.dtype_of(x) in (dt.bool_, dt.uint8) for x in given) or not given:
        return NotImplemented
    at = [d for d, x in enumerate(indices) if x is not None]
    n = len(at)
    order = [d for d in range(self.ndim) if d not in at]
    front = at[0] if at == list(range(at[0], at[0] + n)) else 0
    order[front:front] = at
    x = self if order == list(range(self.ndim)) else lib.xp.permute_dims(self, tuple(order))
    shape = tuple(x.shape)
    if 0 in [self.shape[d] for d in at] and not any(0 in index.shape for index in given):
        raise IndexError("index is out of bounds for dimension with size 0")
    places = _flat_places(lib, [self.shape[d] for d in at], list(lib.xp.broadcast_arrays(*given)))
    if 0 in shape:  # torch does not check the indices
        return lib.full((*shape[:front], *places.shape, *shape[front + n :]), 0, lib.dtype_of(self))
    x = lib.xp.reshape(x, (*shape[:front], math.prod(shape[front : front + n]), *shape[front + n :]))
    found = lib.xp.take(x, lib.xp.reshape(places, (-1,)), axis=front)
    return lib.xp.reshape(found, (*shape[:front], *places.shape, *shape[front + n :]))


@portable("aten::one_hot")
def one_hot(lib: ArrayLibrary, self: Array, num_classes: int = -1) -> Array:
    if num_classes <= 0:
        return NotImplemented
    classes = lib.xp.arange(num_classes, dtype=lib.theirs(dt.int64))
    return lib.astype(lib.xp.expand_dims(self, axis=-1) == classes, dt.int64)


@portable("aten::bucketize.Tensor")
def bucketize(
    lib: ArrayLibrary, self: Array, boundaries: Array, *, out_int32: bool = False, right: bool = False
) -> Array:
    a, b = lib.promote(boundaries, self)
    found = lib.xp.searchsorted(a, lib.call("aten::view", b, (-1,)), side="right" if right else "left")
    return lib.astype(lib.call("aten::view", found, tuple(self.shape)), dt.int32 if out_int32 else dt.int64)


@portable("aten::isin.Tensor_Tensor")
def isin(
    lib: ArrayLibrary, elements: Array, test_elements: Array, *, assume_unique: bool = False, invert: bool = False
) -> Array:
    elements, test_elements = lib.promote(elements, test_elements)
    tests = lib.xp.reshape(test_elements, (-1,))
    found = lib.xp.any(lib.xp.expand_dims(elements, axis=-1) == tests, axis=-1)
    return lib.xp.logical_not(found) if invert else found


@portable("aten::index_fill.int_Scalar", "aten::index_fill.int_Tensor")
def index_fill(lib: ArrayLibrary, self: Array, dim: int, index: Array, value: Any) -> Array:
    """Fill where an element's position along ``dim`` is among the indices."""
    if not self.ndim:
        return NotImplemented
    d = wrap(dim, self.ndim)
    n = self.shape[d]
    places = from_front(lib, lib.xp.reshape(index, (-1,)), n)
    at = lib.xp.arange(n, dtype=lib.theirs(dt.int64))
    hit = lib.xp.any(lib.xp.expand_dims(at, axis=1) == lib.xp.expand_dims(places, axis=0), axis=1)
    hit = lib.xp.reshape(hit, (-1, *[1] * (self.ndim - d - 1)))
    return lib.call("aten::masked_fill.Scalar", self, hit, value)


@portable("aten::_local_scalar_dense")
def local_scalar_dense(lib: ArrayLibrary, self: Array) -> Any:
    """Return the value of the first element."""
    return lib.item(self if math.prod(self.shape) == 1 else lib.xp.reshape(self, (-1,))[0])


@portable("aten::item")
def item(lib: ArrayLibrary, self: Array) -> Any:
    return lib.item(self)
