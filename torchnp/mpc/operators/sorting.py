"""Sorting: the rank of each element, from comparisons with all others; the number of rounds is always the same."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from torchnp.engine import Call
from torchnp.mpc.fixed_point import FixedPoint
from torchnp.mpc.operators.registry import op
from torchnp.mpc.operators.selection import vector_length
from torchnp.mpc.shares import SharedSum

MOST_PAIRS = 1 << 22  # limit on comparisons in one step; each takes a few hundred bytes


def _ranks(p: FixedPoint, rows: SharedSum) -> SharedSum:
    """Return, for each element of the last dimension, how many elements come before it in the sorted order.

    These are the smaller elements, and the equal elements with a lower index.
    """
    n = rows.shape[-1]
    if (pairs := math.prod(rows.shape) * (n - 1) // 2) > MOST_PAIRS:
        raise ValueError(
            f"sorting compares each pair of elements: {pairs:,} are more than the {MOST_PAIRS:,} that are allowed"
        )
    first, second = np.triu_indices(n, 1)
    swapped = p.less(p.each(lambda w: w[..., second], rows), p.each(lambda w: w[..., first], rows))

    def ranks(w: np.ndarray) -> np.ndarray:
        table = np.zeros((*w.shape[:-1], n, n), np.int64)
        table[..., first, second] = w
        return table.sum(-1) - table.sum(-2)

    return p.plus(p.each(ranks, swapped, bits=0), np.arange(n))


def _sorted(p: FixedPoint, x: SharedSum, dim: int, descending: bool) -> tuple[SharedSum, SharedSum]:
    """Return the elements sorted along the last dimension, and for each of them the vector with a 1 at its index."""
    rows = p.each(lambda w: np.moveaxis(w, dim, -1) if w.ndim else w[None], x)
    n = rows.shape[-1]
    if n < 2 or 0 in rows.shape:
        return rows, p.constant(np.broadcast_to(np.eye(n, dtype=np.int64), (*rows.shape, n)))
    ranks = _ranks(p, p.each(np.negative, rows) if descending else rows)
    vectors = p.each(lambda w: w[..., :n].swapaxes(-1, -2), p.unit_vectors(ranks, vector_length(n)))
    ordered = p.bilinear("matmul", vectors, p.each(lambda w: w[..., None], rows))
    return p.each(lambda w: w[..., 0], ordered, bits=x.bits), vectors


def _taken(p: FixedPoint, x: SharedSum, dim: int, descending: bool, places: Any) -> tuple[SharedSum, SharedSum]:
    """Return the elements at the given positions of the sorted order, and their indices.

    If ``places`` is an int, the results lack the dimension.
    """
    ordered, vectors = _sorted(p, x, dim, descending)
    one = isinstance(places, int)
    back = lambda w: w if one and len(x.shape) else w.reshape(()) if not x.shape else np.moveaxis(w, -1, dim)
    value = p.each(lambda w: back(w[..., places]), ordered)
    chosen = p.each(lambda w: w[..., places, :], vectors, bits=0)
    index = p.each(lambda w: back(w @ np.arange(w.shape[-1])), chosen)
    if not one and x.shape:
        length = vector_length(vectors.shape[-1])
        padded = lambda w: np.pad(w, [(0, 0)] * (w.ndim - 1) + [(0, length - w.shape[-1])])
        index.hint = {length: p.each(lambda w: np.moveaxis(padded(w), -2, dim % len(x.shape)), chosen)}
    return value, index


@op("sort", "sort.stable")
def sort(p: FixedPoint, call: Call, x: SharedSum, dim: int = -1, descending: bool = False, **_: Any) -> tuple[Any, ...]:
    """Return the sorted elements and their indices; equal elements keep their order."""
    return _taken(p, x, dim, descending, slice(None))


@op("topk")
def topk(
    p: FixedPoint, call: Call, x: SharedSum, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Any, ...]:
    """Return the ``k`` largest or smallest elements, sorted, and their indices."""
    return _taken(p, x, dim, largest, slice(k))


@op("kthvalue")
def kthvalue(
    p: FixedPoint, call: Call, x: SharedSum, k: int, dim: int = -1, keepdim: bool = False
) -> tuple[SharedSum, ...]:
    """Return the ``k``-th smallest element and its index."""
    found = _taken(p, x, dim, False, k - 1)
    return tuple(p.each(lambda w: np.expand_dims(w, dim), f) for f in found) if keepdim and x.shape else found


@op("median", "median.dim")
def median(p: FixedPoint, call: Call, x: SharedSum, dim: int = -1, keepdim: bool = False) -> Any:
    """Return the middle element, or the smaller of two middle elements; with a dimension, also its index."""
    if call.op == "aten::median":
        x = p.each(np.ravel, x)
    count = x.shape[dim] if x.shape else 1
    found = kthvalue(p, call, x, (count + 1) // 2, dim, keepdim)
    return found[0] if call.op == "aten::median" else found
