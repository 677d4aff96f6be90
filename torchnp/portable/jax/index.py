"""Gathers, scatters and indexed writes with XLA's scatter."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from torchnp import dtypes as dt
from torchnp.portable.library import ArrayLibrary
from torchnp.portable.rows import Array, portable
from torchnp.portable.standard.shape import wrap


def _of_bools(lib: ArrayLibrary, indices: list[Array | None]) -> bool:
    return any(x is not None and lib.dtype_of(x) in (dt.bool_, dt.uint8) for x in indices)


def _places(indices: list[Array | None]) -> tuple:
    return tuple(slice(None) if x is None else x for x in indices)


@portable("aten::index.Tensor", "aten::_unsafe_index.Tensor", on="jax")
def index(lib: ArrayLibrary, self: Array, indices: list[Array | None]) -> Array:
    return NotImplemented if _of_bools(lib, indices) else self[_places(indices)]


@portable("aten::index_put", "aten::_unsafe_index_put", on="jax")
def index_put(
    lib: ArrayLibrary, self: Array, indices: list[Array | None], values: Array, accumulate: bool = False
) -> Array:
    """Write at indices; for a boolean mask and a single value, choose between two arrays instead."""
    if _of_bools(lib, indices):
        mask = indices[0]
        if accumulate or len(indices) > 1 or mask is None or values.ndim or lib.dtype_of(mask) != dt.bool_:
            return NotImplemented
        return jnp.where(jnp.reshape(mask, (*mask.shape, *[1] * (self.ndim - mask.ndim))), values, self)
    at = self.at[_places(indices)]
    return at.add(values) if accumulate else at.set(values)


def _along(self: Array, dim: int, index: Array) -> tuple:
    """Return index arrays for all dimensions: ``index`` for ``dim``, and each element's own position for the others."""
    d = wrap(dim, self.ndim)
    return tuple(
        index if k == d else jnp.reshape(jnp.arange(n), (-1, *[1] * (index.ndim - k - 1)))
        for k, n in enumerate(index.shape)
    )


def _fitting(src: Array, index: Array) -> Array:
    """Return the part of a source that an index writes."""
    return src[tuple(slice(0, n) for n in index.shape)]


@portable("aten::gather", on="jax")
def gather(lib: ArrayLibrary, self: Array, dim: int, index: Array, *, sparse_grad: bool = False) -> Array:
    return self[_along(self, dim, index)] if self.ndim and index.ndim else NotImplemented


@portable("aten::scatter.src", "aten::scatter.value", on="jax")
def scatter(lib: ArrayLibrary, self: Array, dim: int, index: Array, src: Any) -> Array:
    if not self.ndim or not index.ndim:
        return NotImplemented
    value = _fitting(src, index) if lib.is_array(src) else lib.number(src, lib.dtype_of(self))
    return self.at[_along(self, dim, index)].set(value)


@portable("aten::scatter_add", on="jax")
def scatter_add(lib: ArrayLibrary, self: Array, dim: int, index: Array, src: Array) -> Array:
    if not self.ndim or not index.ndim or dt.is_bool(lib.dtype_of(self)):
        return NotImplemented
    return self.at[_along(self, dim, index)].add(_fitting(src, index))


def _reduce_into(lib: ArrayLibrary, self: Array, places: tuple, src: Array, reduce: str, include_self: bool) -> Array:
    name = {"sum": "add", "prod": "multiply", "amax": "max", "amin": "min", "mean": "add"}[reduce]
    start = self
    d = lib.dtype_of(self)
    if not include_self:
        touched = jnp.zeros(self.shape, bool).at[places].set(True)
        start = jnp.where(touched, lib.number(_neutral(reduce, d), d), self)
    found = getattr(start.at[places], name)(src)
    if reduce == "mean":
        counts = jnp.full(self.shape, int(include_self), d).at[places].add(jnp.ones(src.shape, d))
        counts = jnp.where(counts == 0, 1, counts)  # in the tensor's own dtype, in which torch counts, too
        found = found / counts if dt.is_inexact(d) else jnp.floor_divide(found, counts)
    return found


def _neutral(reduce: str, d: Any) -> Any:
    if reduce in ("sum", "mean"):
        return 0
    if reduce == "prod":
        return 1
    if dt.is_inexact(d):
        return -float("inf") if reduce == "amax" else float("inf")
    limits = jnp.iinfo(d)
    return int(limits.min if reduce == "amax" else limits.max)


@portable("aten::scatter_reduce.two", on="jax")
def scatter_reduce(
    lib: ArrayLibrary, self: Array, dim: int, index: Array, src: Array, reduce: str, *, include_self: bool = True
) -> Array:
    if not self.ndim or not index.ndim or dt.is_bool(lib.dtype_of(self)):
        return NotImplemented
    return _reduce_into(lib, self, _along(self, dim, index), _fitting(src, index), reduce, include_self)


def _rows(self: Array, dim: int, index: Array) -> tuple:
    return (*[slice(None)] * wrap(dim, self.ndim), jnp.reshape(index, (-1,)))


@portable("aten::index_add", on="jax")
def index_add(lib: ArrayLibrary, self: Array, dim: int, index: Array, source: Array, *, alpha: Any = 1) -> Array:
    if not self.ndim or dt.is_bool(lib.dtype_of(self)):
        return NotImplemented
    source = source if alpha == 1 else source * lib.number(alpha, lib.dtype_of(source))
    return self.at[_rows(self, dim, index)].add(source)


@portable("aten::index_copy", on="jax")
def index_copy(lib: ArrayLibrary, self: Array, dim: int, index: Array, source: Array) -> Array:
    if not self.ndim:
        return NotImplemented
    return self.at[_rows(self, dim, index)].set(source)


@portable("aten::slice_scatter", on="jax")
def slice_scatter(
    lib: ArrayLibrary,
    self: Array,
    src: Array,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Array:
    return self.at[(*[slice(None)] * wrap(dim, self.ndim), slice(start, end, step))].set(lib.astype(src, self.dtype))


@portable("aten::select_scatter", on="jax")
def select_scatter(lib: ArrayLibrary, self: Array, src: Array, dim: int, index: int) -> Array:
    return self.at[(*[slice(None)] * wrap(dim, self.ndim), index)].set(lib.astype(src, self.dtype))


@portable("aten::embedding_dense_backward", on="jax")
def embedding_dense_backward(
    lib: ArrayLibrary, grad_output: Array, indices: Array, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Array:
    if scale_grad_by_freq:
        return NotImplemented
    flat = jnp.reshape(indices, (-1,))
    rows = jnp.reshape(grad_output, (flat.shape[0], -1))
    rows = jnp.where((flat == padding_idx)[:, None], 0, rows)
    return jnp.zeros((num_weights, rows.shape[1]), rows.dtype).at[flat].add(rows)
