"""Linear indices, and reductions that write at indices; duplicates are reduced in index order, as in torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from torchnp._private_numpy import add_rows_of
from torchnp.dtypes import (
    HALVES,
    cast,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int32,
    int64,
    is_half,
    opmath,
)
from torchnp.kernels.numerics.blocks import STRIP, row_major_blocks
from torchnp.kernels.numerics.fma import fma
from torchnp.threads import blocks
from torchnp.thresholds import Threshold

ndarray = np.ndarray
INDEX_DTYPES = (int64, int32)


_UNSIGNED: dict[int, np.dtype] = {4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}
_largest = np.maximum.reduce


def out_of_bounds(index: ndarray, size: int) -> int | None:
    """Return the first index outside [0, size), or None if there is none."""
    if not index.size:
        return None
    # Viewed as unsigned, negative indices are large: one pass instead of two.
    unsigned = index.view(_UNSIGNED[index.itemsize])
    if _largest(unsigned, None) < size:
        return None
    return int(index[(index < 0) | (index >= size)][0])


def check_bounds(index: ndarray, dim: int, size: int, exc: type[Exception] = RuntimeError, prefix: str = "") -> None:
    wrong = out_of_bounds(index, size)
    if wrong is not None:
        raise exc(f"{prefix}index {wrong} is out of bounds for dimension {dim} with size {size}")


def linear(index: ndarray, steps: Sequence[int], dim: int) -> ndarray:
    """Return the places in memory of the elements at ``index`` along ``dim``, in an array with strides ``steps``."""
    if len(steps) == 2 and index.dtype == int64:
        along = index if steps[dim] == 1 else index * steps[dim]
        return along + (np.arange(index.shape[1 - dim]) * steps[1 - dim]).reshape((-1, 1) if dim else (1, -1))
    places: Any = None
    for d in range(len(steps) - 1, -1, -1):
        if d == dim:
            along = index if index.dtype == int64 else index.astype(int64)
            if steps[d] != 1:
                along = along * steps[d]
        else:
            along = np.arange(index.shape[d], dtype=int64) * steps[d]
            along = along.reshape([-1 if i == d else 1 for i in range(len(steps))])
        if d == dim or index.shape[d] != 1:
            places = along if places is None else places + along
    return np.broadcast_to(places, index.shape)


def places_of(positions: ndarray, shape: tuple[int, ...], steps: Sequence[int]) -> ndarray:
    """Return the places in memory of the elements at positions of the flattened array, which has strides ``steps``."""
    places: Any = 0
    for n, step in zip(shape[::-1], steps[::-1]):
        positions, along = np.divmod(positions, n)
        places = places + along * step
    return places


_WIDE: Threshold = 8  # elements per row; from here on, SciPy's sparse product is faster than np.add.at


def linear_parts(index: ndarray, steps: Sequence[int], dim: int) -> Iterator[tuple[tuple[slice, ...], ndarray]]:
    """Yield the parts of an index in order, each with its result of `linear`.

    For the whole index at once, that result would take more memory than the operator's result.
    """
    for part in row_major_blocks(index.shape, 1, STRIP):
        start = sum(s.start * step for d, (s, step) in enumerate(zip(part, steps)) if d != dim)
        places = linear(index[part], steps, dim)
        yield part, places + start if start else places


def add_rows(out: ndarray, index: ndarray, rows: ndarray) -> None:
    """Do ``out[index[i]] += rows[i]`` for row-major matrices, in the order of i; cast rows to the dtype of ``out``."""
    width = out.shape[1]
    for part in blocks(len(index) if width else 0, max(STRIP // max(width, 1), 1)):
        _add_few_rows(out, index[part], cast(rows[part], out.dtype))


def _add_few_rows(out: ndarray, index: ndarray, rows: ndarray) -> None:
    width = out.shape[1]
    if width == 1:
        np.add.at(out.reshape(-1), index, rows.reshape(-1))
    elif width >= _WIDE and out.dtype in (float32, float64, complex64, complex128):
        add_rows_of()(out, index, rows)
    elif len(index) * 4 <= width:  # few long rows: one vector addition each
        for place, row in zip(index.tolist(), rows):
            np.add(out[place], row, out[place])
    elif out.dtype in HALVES:
        _add_in_turns(out, index, rows)
    else:
        _add_elements(out, index, rows)


def _add_elements(out: ndarray, index: ndarray, rows: ndarray) -> None:
    places = index.astype(int64)[:, None] * out.shape[1] + np.arange(out.shape[1])
    np.add.at(out.reshape(-1), places.reshape(-1), rows.reshape(-1))


_TURN: Threshold = 1 << 9  # elements per round; with fewer, adding row by row is faster


def _add_in_turns(out: ndarray, index: ndarray, rows: ndarray) -> None:
    """Add rows of half types and round each sum; each round adds one row at every index that has rows left."""
    order = np.argsort(index, kind="stable")
    numbers = np.arange(len(index))
    begins = np.diff(index[order], prepend=-1) != 0
    turn = numbers - np.maximum.accumulate(np.where(begins, numbers, 0))
    order = order[np.argsort(turn, kind="stable")]
    begin = 0
    for count in np.bincount(turn).tolist():
        if count * out.shape[1] < _TURN:
            break
        now = order[begin : begin + count]
        at = index[now]
        out[at] = cast(cast(out[at], float32) + cast(rows[now], float32), out.dtype)
        begin += count
    left = np.sort(order[begin:])
    _add_elements(out, index[left], rows[left])


_UFUNC = {"sum": np.add, "mean": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}


RARE: Threshold = 16  # elements per index; from here on, only the elements at indices are read and written


def reduce_at(
    flat: ndarray, places: ndarray, values: ndarray, reduce: str, include_self: bool = True, stepwise: bool = False,
    counts_stepwise: bool = False,
) -> ndarray:  # fmt: skip
    """Return ``flat`` with values reduced into it at the indices ``places``, in order; ``flat`` may be overwritten.

    Half types are reduced in float32 and rounded once; with ``stepwise``, sums and products are rounded at each step.
    With ``counts_stepwise``, a mean's count is rounded at each step, too, and stops where adding 1 changes nothing.
    """
    dtype = flat.dtype
    wide = dtype if stepwise and reduce in ("sum", "mean", "prod") else opmath(dtype)
    out = cast(flat, wide)
    out = out.copy() if out is flat else out
    values = cast(values, wide)
    if not include_self:
        out[places] = _identity(reduce, wide)
    if places.size and reduce == "prod" and wide.kind == "c":
        _multiply_at(out, places, values)
    elif places.size:
        _UFUNC[reduce].at(out, places, values)
    if reduce in ("amax", "amin") and wide.kind == "f":
        _keep_first_zeros(out, flat if include_self else None, places, values)
    if reduce == "mean":
        counts = np.full(out.shape, 1 if include_self else 0, int64)
        np.add.at(counts, places, 1)
        if counts_stepwise and is_half(dtype):
            counts = np.minimum(counts, 1 << (11 if dtype == float16 else 8))
        counts = counts.astype(dtype) if wide.kind in "iu" else counts  # torch counts in the tensor's dtype
        counts[counts == 0] = 1
        if wide.kind in "iu":
            out = out // counts
        else:  # the sum is rounded before the division
            out = cast(cast(out, dtype), wide) / cast(cast(counts, dtype), wide)
    return cast(out, dtype)


def _multiply_at(out: ndarray, places: ndarray, values: ndarray) -> None:
    """Multiply complex values into ``out`` at the indices ``places``, in order.

    NumPy's own product is fused or not, depending on the CPU. Each round multiplies one value at every index that has
    values left.
    """
    order = np.argsort(places, kind="stable")
    named, start, count = np.unique(places[order], return_index=True, return_counts=True)
    by_count = np.argsort(-count, kind="stable")
    named, start, count = named[by_count], start[by_count], count[by_count]
    for done, left in enumerate(np.searchsorted(-count, -np.arange(count[0]))):
        at = named[:left]
        out[at] = _product(out[at], values[order[start[:left] + done]])


def _product(a: ndarray, b: ndarray) -> ndarray:
    """Return the complex product in the steps of torch's scalar loops, which use FMA only in double precision."""
    out = np.empty_like(a)
    minus, cross = -(a.imag * b.imag), a.imag * b.real
    if a.real.dtype == float64:
        out.real, out.imag = fma(a.real, b.real, minus), fma(a.real, b.imag, cross)
    else:
        out.real, out.imag = a.real * b.real + minus, a.real * b.imag + cross
    return out


def _keep_first_zeros(out: ndarray, before: ndarray | None, places: ndarray, values: ndarray) -> None:
    """If an index receives zeros of both signs, keep the first, as std::min does; NumPy keeps the last."""
    zeros = np.flatnonzero((out[places] == 0) & (values == 0))[::-1]
    out[places[zeros]] = values[zeros]  # reversed, so that the first is written last
    if before is not None:
        kept = (out == 0) & (before == 0)
        out[kept] = before[kept]


def _identity(reduce: str, dtype: np.dtype) -> object:
    if reduce not in ("amax", "amin"):
        return int(reduce == "prod")
    if dtype.kind == "b":
        return reduce == "amin"
    if dtype.kind == "f":
        return -np.inf if reduce == "amax" else np.inf
    info = np.iinfo(dtype)
    return info.min if reduce == "amax" else info.max
