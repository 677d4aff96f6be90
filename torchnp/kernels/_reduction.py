"""Shared code of reductions: axes, accumulator dtypes, and sums that stay accurate along every axis."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import wrap_dim, wrap_dims
from torchnp.threads import LARGE, blocks, share
from torchnp.thresholds import Threshold

ndarray = np.ndarray
Axes = tuple[int, ...] | None
_add: Callable[..., Any] = np.add.reduce  # called with positional arguments, which is cheaper

# Dtypes that torch's reduction kernels have no code for.
NOT_NUMERIC = frozenset({*dt.BARE_UNSIGNED, *dt.FLOAT8S, dt.complex32})
NOT_ORDERED = frozenset({*dt.BARE_UNSIGNED, *dt.FLOAT8S, *dt.COMPLEXES})


def axes_of(dim: int | Sequence[int] | None, ndim: int, ranges_first: bool = True) -> Axes:
    """Return ``dim`` as NumPy's axis argument; None or an empty list means all dimensions.

    Most of torch's reductions check the range of all dimensions before they check for duplicates.
    """
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return None
    wrapped = ranged_dims(dim, ndim) if ranges_first else wrap_dims(dim, ndim)
    return wrapped if ndim else None


def ranged_dims(dim: int | Sequence[int], ndim: int) -> tuple[int, ...]:
    """Wrap dimensions like `wrap_dims`, but check that all of them are in range before checking for duplicates."""
    return wrap_dims(dim if isinstance(dim, int) else [wrap_dim(d, ndim) for d in dim], ndim)


def listed_axes(axes: Axes, ndim: int) -> tuple[int, ...]:
    return tuple(range(ndim)) if axes is None else axes


def length_of(shape: Sequence[int], axes: Axes) -> int:
    """Return the number of elements reduced into each result."""
    return prod(shape) if axes is None else prod(shape[a] for a in axes)


def ordered(x: ndarray) -> ndarray:
    """Convert half types to float32, where comparisons are fast; the conversion is exact."""
    return x.astype(np.float32) if dt.is_half(x.dtype) else x


# ---------------------------------------------------------------- sums

# The largest number of terms that are added one after the other. More terms are added in blocks, which gives an error
# like that of torch's cascade sum.
BLOCK: Threshold = 16
FEW: Threshold = 256  # elements; up to this many, NumPy's own order is as accurate
LANES: Threshold = 256  # terms of a product with a vector of ones; BLAS adds them in many SIMD lanes
SMALL: Threshold = 1 << 14  # elements; below, NumPy's own loop is as fast as BLAS


def add_reduce(x: ndarray, axes: Axes = None, keepdims: bool = False) -> Any:
    """Sum in the dtype of ``x``, starting from +0 as torch does.

    NumPy sums pairwise only along the axis that is innermost in memory. Along other axes it adds elements one after the
    other. It does the same with the partial sums of several reduced axes.
    """
    if x.size <= FEW or x.dtype.kind not in "fc":
        return _add(x, axes, None, None, keepdims, 0)
    axes = tuple(range(x.ndim)) if axes is None else tuple(a % x.ndim for a in axes)
    if x.size > SMALL:
        # If all dimensions are summed, their order is free: put them in memory order, to sum a dense array as one run
        if len(axes) == x.ndim:
            x = x.transpose(sorted(axes, key=lambda a: -abs(x.strides[a])))
            axes = tuple(range(x.ndim))
        return _large(x, axes, keepdims)
    inner = min(((abs(s), i) for i, s in enumerate(x.strides) if s and x.shape[i] > 1), default=(0, 0))[1]
    outer = prod(x.shape[a] for a in axes if a != inner)
    if outer <= BLOCK or (x.flags.c_contiguous and axes == tuple(range(x.ndim - len(axes), x.ndim))):
        return _add(x, axes, None, None, keepdims, 0)
    return _large(x, axes, keepdims)


def _large(x: ndarray, axes: tuple[int, ...], keepdims: bool) -> ndarray:
    shape = [1 if i in axes else n for i, n in enumerate(x.shape)]
    trailing = 0
    while x.ndim - trailing - 1 in axes:
        trailing += 1
    if trailing and x.flags.c_contiguous and x.dtype.itemsize <= 8 and x.dtype.kind == "f":
        n = prod(x.shape[x.ndim - trailing :])
        x = row_sums(x.reshape(-1, n)).reshape(*x.shape[: x.ndim - trailing], *(1,) * trailing)
    for axis in sorted(axes, key=lambda a: abs(x.strides[a])):
        if x.shape[axis] != 1:
            x = _add_along(x, axis)
    if x.size == prod(shape):
        x = x + x.dtype.type(0)  # BLAS may leave -0
    return x.reshape(shape) if keepdims else x.reshape([n for i, n in enumerate(x.shape) if i not in axes])


@functools.cache
def ones(shape: int | tuple[int, ...], dtype: np.dtype) -> ndarray:
    return np.ones(shape, dtype)


def row_sums(rows: ndarray) -> ndarray:
    """Return the sums of the rows of a dense matrix of floats, as a column.

    Rows are multiplied by a vector of ones, `LANES` terms at a time, unless the matrix has several long rows whose
    length is not divisible by `LANES`.
    """
    m, n = rows.shape
    if n <= LANES:
        return np.matmul(rows, ones(n, rows.dtype))[:, None]
    if m > 1 and n % LANES:
        return _add(rows, 1, None, None, True)
    whole = n // LANES * LANES
    parts = np.matmul(rows[:, :whole].reshape(-1, LANES), ones(LANES, rows.dtype)).reshape(m, -1)
    if whole < n:
        parts = np.concatenate([parts, _add(rows[:, whole:], 1, None, None, True)], 1)
    return _add(parts, 1, None, None, True)


PART: Threshold = 1 << 10  # Terms per product. BLAS adds them in few SIMD lanes, so longer products are less accurate.


def row_dots(x: ndarray, y: ndarray) -> Any:
    """Return the sums of products of floats along the last axis; the sums of parts of long rows are added pairwise."""
    n = x.shape[-1]
    if n <= 4 * PART:
        return np.vecdot(x, y)
    whole = n // PART * PART
    parts = [a[..., :whole].reshape(*a.shape[:-1], -1, PART) for a in (x, y)]
    total = _add(np.vecdot(*parts), -1)
    return total + np.vecdot(x[..., whole:], y[..., whole:]) if whole < n else total


def _add_along(x: ndarray, axis: int) -> ndarray:
    """Sum along one axis, and keep it with size 1."""
    n = x.shape[axis]
    while n > BLOCK and x.strides[axis] != x.itemsize:
        whole = n // BLOCK * BLOCK
        head, tail = np.split(x, [whole], axis)
        parts = head.reshape(*x.shape[:axis], n // BLOCK, BLOCK, *x.shape[axis + 1 :])
        x = _add(parts, axis + 1)
        if whole < n:
            x = np.concatenate([x, _add(tail, axis, keepdims=True)], axis)
        n = x.shape[axis]
    return _add(x, axis, None, None, True, 0)


TILE: Threshold = 1 << 17  # elements in a block of rows, so that it stays in cache over several passes


def tiles(rows: int, length: int) -> Iterator[slice]:
    """Yield slices of rows of about `TILE` elements."""
    return blocks(rows, max(1, TILE // max(length, 1)))


def share_tiles(work: Callable[[slice], object], rows: int, length: int) -> None:
    """Call ``work(block)``, which makes several passes over its rows, for blocks of rows.

    Small inputs are processed tile by tile in this thread. Large ones are divided among the threads, in larger blocks,
    because a thread waits for the GIL after each NumPy call, and larger blocks need fewer calls.
    """
    if 2 * rows * length >= LARGE:
        share(work, blocks(rows, max(1, min(rows // 2, 4 * TILE // length))))
    else:
        for block in tiles(rows, length):
            work(block)
