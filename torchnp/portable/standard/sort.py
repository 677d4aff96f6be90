"""Sorting, ``topk`` and medians."""

from __future__ import annotations

from typing import Any

from torchnp import dtypes as dt
from torchnp.portable.library import ArrayLibrary
from torchnp.portable.rows import Array, portable
from torchnp.portable.standard.shape import part, wrap


def sorted_with_places(lib: ArrayLibrary, x: Array, dim: int, descending: bool) -> tuple[Array, Array]:
    """Return the values and indices in stable order; NaNs count as largest."""
    keys = lib.astype(x, dt.uint8) if dt.is_bool(lib.dtype_of(x)) else x
    n = x.shape[dim]
    if descending:  # flip before and after the stable sort, so that equal elements stay in order
        at = lib.xp.argsort(lib.xp.flip(keys, axis=dim), axis=dim, stable=True)
        places = lib.xp.flip((n - 1) - lib.astype(at, dt.int64), axis=dim)
    else:
        places = lib.astype(lib.xp.argsort(keys, axis=dim, stable=True), dt.int64)
    return lib.xp.take_along_axis(x, places, axis=dim), places


@portable("aten::sort")
def sort(lib: ArrayLibrary, self: Array, dim: int = -1, descending: bool = False) -> tuple[Array, Array]:
    if not self.ndim or 0 in self.shape:
        return NotImplemented
    return sorted_with_places(lib, self, wrap(dim, self.ndim), descending)


@portable("aten::sort.stable")
def sort_stable(
    lib: ArrayLibrary, self: Array, *, stable: bool | None, dim: int = -1, descending: bool = False
) -> tuple[Array, Array]:
    return sort(lib, self, dim, descending)


@portable("aten::argsort", "aten::argsort.stable")
def argsort(
    lib: ArrayLibrary, self: Array, dim: int = -1, descending: bool = False, *, stable: bool | None = None
) -> Array:
    found = sort(lib, self, dim, descending)
    return NotImplemented if found is NotImplemented else found[1]


@portable("aten::topk")
def topk(
    lib: ArrayLibrary, self: Array, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Array, Array]:
    found: Any = sort(lib, self, dim, largest)
    if found is NotImplemented:
        return NotImplemented
    values, places = (part(x, wrap(dim, self.ndim), slice(0, k)) for x in found)
    return values, places


@portable("aten::median.dim")
def median_dim(lib: ArrayLibrary, self: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
    """Return the lower of the middle two elements and its index; if there is a NaN, the first one."""
    if not self.ndim or 0 in self.shape or dt.is_bool(lib.dtype_of(self)):
        return NotImplemented
    d = wrap(dim, self.ndim)
    values, places = sorted_with_places(lib, self, d, False)
    middle = (self.shape[d] - 1) // 2
    value, place = (part(x, d, slice(middle, middle + 1)) for x in (values, places))
    if dt.is_inexact(lib.dtype_of(self)):
        nan = lib.xp.isnan(self)
        has = lib.xp.any(nan, axis=d, keepdims=True)
        first = lib.astype(lib.xp.argmax(lib.astype(nan, dt.uint8), axis=d, keepdims=True), dt.int64)
        place = lib.xp.where(has, first, place)
        value = lib.xp.take_along_axis(self, place, axis=d)
    return (value, place) if keepdim else (lib.xp.squeeze(value, axis=d), lib.xp.squeeze(place, axis=d))
