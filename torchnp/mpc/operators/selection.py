"""Largest elements, and elements at secret indices; secret indices are used as vectors with a single 1."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import torchnp
from torchnp.engine import Call
from torchnp.mpc import functions
from torchnp.mpc.fixed_point import FixedPoint
from torchnp.mpc.operators.linear import linear
from torchnp.mpc.operators.registry import op, public, result_bits, secret, shared
from torchnp.mpc.shares import SharedSum

# ---------------------------------------------------------------- the largest


def _rows(p: FixedPoint, x: SharedSum, dim: Any) -> tuple[SharedSum, list[int]]:
    """Move the elements of the given dimensions to one last dimension; without given dimensions, take all."""
    n = len(x.shape)
    dims = [dim] if isinstance(dim, int) else list(range(n)) if dim is None or not list(dim) else list(dim)
    dims = sorted(d % max(n, 1) for d in dims) if n else []
    rest = [d for d in range(n) if d not in dims]
    order, kept = [*rest, *dims], tuple(x.shape[d] for d in rest)
    count = math.prod(x.shape[d] for d in dims)
    return p.each(lambda w: w.transpose(order).reshape(*kept, count), x), dims


def _kept(p: FixedPoint, x: SharedSum, dims: list[int], keepdim: bool) -> SharedSum:
    return p.each(lambda w: np.expand_dims(w, tuple(dims)), x) if keepdim and dims else x


def _extreme(p: FixedPoint, x: SharedSum, dim: Any, keepdim: bool, smallest: bool, place: bool) -> list[SharedSum]:
    rows, dims = _rows(p, x if not smallest else p.each(np.negative, x), dim)
    top, places = functions.largest(p, rows, place)
    found = [_kept(p, p.each(np.negative, top) if smallest else top, dims, keepdim)]
    if places is not None:
        numbers = np.arange(rows.shape[-1])
        index = _kept(p, p.each(lambda w: w @ numbers, places, bits=0), dims, keepdim)
        index.hint = places
        found.append(index)
    return found


@op("amax", "amin", "max", "min")
def amax(p: FixedPoint, call: Call, x: SharedSum, dim: Any = (), keepdim: bool = False) -> SharedSum:
    """Return the largest or smallest element."""
    return _extreme(p, x, dim, keepdim, call.op.endswith("min"), False)[0]


@op("max.dim", "min.dim")
def max_dim(p: FixedPoint, call: Call, x: SharedSum, dim: int, keepdim: bool = False) -> tuple[SharedSum, ...]:
    """Return the largest or smallest element, and the index of its first occurrence."""
    return tuple(_extreme(p, x, dim, keepdim, ".min" in call.op or "::min" in call.op, True))


@op("argmax", "argmin")
def argmax(p: FixedPoint, call: Call, x: SharedSum, dim: Any = None, keepdim: bool = False) -> SharedSum:
    """Return the index of the largest or smallest element."""
    return _extreme(p, x, dim, keepdim, call.op.endswith("min"), True)[1]


@op("any", "any.dim", "all", "all.dim")
def any_(p: FixedPoint, call: Call, x: SharedSum, dim: Any = None, keepdim: bool = False) -> SharedSum:
    """Return whether any element is true, or whether all are, computed from the number of true elements."""
    rows, dims = _rows(p, x, dim)
    ones = p.complement(p.zero(rows))
    count = p.each(lambda w: w.sum(-1), ones)
    if "any" in call.op:
        return _kept(p, p.complement(p.zero(count)), dims, keepdim)
    return _kept(p, p.zero(p.plus(count, np.int64(-rows.shape[-1]))), dims, keepdim)


# ---------------------------------------------------------------- secret indices

MOST_WORDS = 1 << 24  # limit for the vectors of one operator's indices: 128 MiB


def vector_length(count: int) -> int:
    """Return the length of the vectors for indices below ``count``: a power of two."""
    return 1 << max(count - 1, 1).bit_length()


def unit_vectors(p: FixedPoint, index: SharedSum, count: int) -> SharedSum:
    """Return vectors, of shape ``(*shape, count)``, with a 1 at each index; they are cached with the indices."""
    length = vector_length(count)
    known = index.hint if isinstance(index.hint, dict) else {}
    if length not in known:
        if (words := math.prod(index.shape) * length) > MOST_WORDS:
            raise ValueError(
                f"{math.prod(index.shape):,} secret indices below {count:,} take {words:,} words, and {MOST_WORDS:,} are "
                "allowed: split the index"
            )
        known[length] = p.unit_vectors(index, length)
        index.hint = known if index.hint is None or isinstance(index.hint, dict) else index.hint
    return p.each(lambda w: w[..., :count], known[length])


@op("one_hot")
def one_hot(p: FixedPoint, call: Call, x: SharedSum, num_classes: int = -1) -> SharedSum:
    """Return vectors with a single 1; ``num_classes`` must be given."""
    if num_classes < 1:
        raise ValueError("one_hot of a secret-shared tensor needs num_classes: how many there are is secret")
    return unit_vectors(p, x, num_classes)


@op("index_select")
def index_select(p: FixedPoint, call: Call, x: Any, dim: int, index: Any) -> SharedSum:
    """Return the slices at indices; for secret indices, as a product with their vectors."""
    if not secret(index):
        return linear(p, call, (x, dim, index), {}, (0,))
    bits = result_bits(p, call)
    value = shared(p, x, bits)
    if not value.shape:
        return value
    flat = p.each(lambda w: np.moveaxis(w, dim, 0).reshape(w.shape[dim], -1), value)
    vectors = unit_vectors(p, index, flat.shape[0])
    found = _times_vectors(p, vectors, x, flat)
    rest = [n for i, n in enumerate(value.shape) if i != dim % len(value.shape)]
    return p.each(lambda w: np.moveaxis(w.reshape(-1, *rest), 0, dim), found)


def _times_vectors(p: FixedPoint, vectors: SharedSum, x: Any, flat: SharedSum) -> SharedSum:
    """Return the matrix product of secret vectors and a table; no message is needed if the table is public."""
    if secret(x):
        return p.bilinear("matmul", vectors, flat)
    words = sum(flat.parts)
    return p.each(lambda v: v @ words, vectors, bits=flat.bits)


@op("embedding")
def embedding(p: FixedPoint, call: Call, weight: Any, indices: Any, *_: Any) -> SharedSum:
    """Return the rows of a table at indices."""
    if not secret(indices):
        rows = public(indices)
        return p.each(lambda w: w[rows], weight)
    bits = result_bits(p, call)
    value = shared(p, weight, bits)
    vectors = unit_vectors(p, indices, value.shape[0])
    flat = p.each(lambda w: w.reshape(-1, w.shape[-1]), vectors)
    found = _times_vectors(p, flat, weight, value)
    return p.each(lambda w: w.reshape(*indices.shape, -1), found)


@op("embedding_dense_backward")
def embedding_dense_backward(
    p: FixedPoint, call: Call, grad: Any, indices: Any, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> SharedSum:
    """Return the sums of the gradient rows that have the same index."""
    if scale_grad_by_freq:
        raise TypeError("embedding: gradients are not scaled by frequencies, as the counts are secret")
    bits = result_bits(p, call)
    value = shared(p, grad, bits)
    flat = p.each(lambda w: w.reshape(-1, w.shape[-1]), value)
    if secret(indices):
        vectors = unit_vectors(p, indices, num_weights)
        turned = p.each(lambda w: w.reshape(-1, num_weights).T, vectors)
        total = p.bilinear("matmul", turned, flat)
    else:
        turned = np.eye(num_weights, dtype=np.int64)[public(indices).reshape(-1)].T
        total = p.each(lambda w: turned @ w, flat)
    if padding_idx >= 0:
        kept = (np.arange(num_weights) != padding_idx).astype(np.int64)[:, None]
        total = p.each(lambda w: w * kept, total)
    return total


@op("gather")
def gather(p: FixedPoint, call: Call, x: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> SharedSum:
    """Return the element at each index of a dimension."""
    if not secret(index):
        return linear(p, call, (x, dim, index), {}, (0,))
    value = shared(p, x, result_bits(p, call))
    if not value.shape or not index.shape:  # one element
        shape = index.shape
        return p.each(lambda w: np.broadcast_to(w.reshape(-1)[:1], (math.prod(shape),)).reshape(shape), value)
    count, dim = value.shape[dim], dim % len(value.shape)
    vectors = unit_vectors(p, index, count)
    inside = tuple(slice(n) if d != dim else slice(None) for d, n in enumerate(index.shape))
    rows = p.each(lambda w: np.expand_dims(np.moveaxis(w[inside], dim, -1), dim), value)
    if not secret(x):
        words = sum(rows.parts)
        return p.each(lambda v: (v * words).sum(-1), vectors, bits=value.bits)
    products = p.multiply(vectors, rows)
    return p.each(lambda w: w.sum(-1), products)


# ---------------------------------------------------------------- writes at secret indices


def _spread(p: FixedPoint, src: SharedSum, dim: int, index: SharedSum, count: int) -> tuple[SharedSum, SharedSum]:
    """Return the sum and the number of the elements that are written at each of ``count`` indices of a dimension."""
    vectors = unit_vectors(p, index, count)
    inside = tuple(map(slice, index.shape))
    each = p.multiply(vectors, p.each(lambda w: w[inside][..., None], src))
    summed = lambda w: np.moveaxis(w.sum(dim), -1, dim)
    return p.each(summed, each), p.each(summed, vectors)


def _padded(w: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return np.pad(w, [(0, n - m) for n, m in zip(shape, w.shape)])


@op("scatter_add")
def scatter_add(p: FixedPoint, call: Call, x: Any, dim: int, index: Any, src: Any) -> SharedSum:
    """Return ``x`` with elements added at indices of a dimension."""
    if not secret(index):
        return linear(p, call, (x, dim, index, src), {}, (0, 3))
    bits = result_bits(p, call)
    value, source = shared(p, x, bits), shared(p, src, bits)
    if not value.shape:
        return p.add(value, source)
    dim %= len(value.shape)
    total, _ = _spread(p, source, dim, index, value.shape[dim])
    return p.each(lambda w, t: w + _padded(t, w.shape), value, total)


@op("scatter.src", "scatter.value")
def scatter(p: FixedPoint, call: Call, x: Any, dim: int, index: Any, src: Any) -> SharedSum:
    """Return ``x`` with elements written at indices of a dimension; no secret index may occur twice."""
    bits = result_bits(p, call)
    if isinstance(src, (bool, int, float)) and secret(index) and len((x if secret(x) else public(x)).shape):
        return _filled(p, shared(p, x, bits), dim, index, shared(p, src, bits))
    if isinstance(src, (bool, int, float)):
        src = shared(p, np.full(index.shape if secret(index) else public(index).shape, src), bits)
    if not secret(index):
        kernel, value, source = torchnp.table["aten::scatter.src"], shared(p, x, bits), shared(p, src, bits)
        return p.each(lambda w, s: kernel(w, dim, public(index), s), value, source)
    value, source = shared(p, x, bits), shared(p, src, bits)
    if not value.shape:
        return source
    dim %= len(value.shape)
    total, hits = (p.each(_padded_to(value.shape), t) for t in _spread(p, source, dim, index, value.shape[dim]))
    if not secret(x) and not np.any(public(x)):
        return total
    return p.add(p.multiply(value, p.complement(SharedSum(hits.parts, 0))), total)


def _filled(p: FixedPoint, value: SharedSum, dim: int, index: SharedSum, number: SharedSum) -> SharedSum:
    """Return ``value`` with a number written at secret indices, which may occur more than once."""
    dim %= len(value.shape)
    vectors = unit_vectors(p, index, value.shape[dim])
    hits = p.each(lambda w: _padded(np.moveaxis(w.sum(dim), -1, dim), value.shape), vectors, bits=0)
    number = p.each(lambda w: np.broadcast_to(w, value.shape), number)
    return p.select(p.complement(p.zero(hits)), number, value)


def _padded_to(shape: tuple[int, ...]) -> Any:
    return lambda w: _padded(w, shape)


@op("index_copy")
def index_copy(p: FixedPoint, call: Call, x: Any, dim: int, index: Any, source: Any) -> SharedSum:
    """Return ``x`` with slices written at indices; no secret index may occur twice."""
    if not secret(index):
        return linear(p, call, (x, dim, index, source), {}, (0, 3))
    bits = result_bits(p, call)
    value, given = shared(p, x, bits), shared(p, source, bits)
    if not value.shape:
        return p.each(lambda w: w.reshape(()), given)
    dim %= len(value.shape)
    count, rest = value.shape[dim], [n for i, n in enumerate(value.shape) if i != dim]
    vectors = p.each(lambda w: w.reshape(math.prod(w.shape[:-1]), count).T, unit_vectors(p, index, count))
    flat = p.each(lambda w: np.moveaxis(w, dim, 0).reshape(w.shape[dim], math.prod(rest)), given)
    total = p.each(lambda t: np.moveaxis(t.reshape(count, *rest), 0, dim), p.bilinear("matmul", vectors, flat))
    ahead = [count if i == dim else 1 for i in range(len(value.shape))]
    hits = p.each(lambda w: w.sum(1).reshape(ahead), vectors, bits=0)
    return p.add(p.multiply(value, p.complement(hits)), total)


@op("index_add")
def index_add(p: FixedPoint, call: Call, x: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> SharedSum:
    """Return ``x`` with slices added at indices."""
    bits = result_bits(p, call)
    value, added = shared(p, x, bits), shared(p, source, bits)
    if alpha != 1:
        added = p.scaled(added, alpha)
    if not secret(index):
        return linear(p, call, (value, dim, index, added), {}, (0, 3))
    if not value.shape:
        return p.add(value, p.each(lambda w: w.reshape(()), added))
    dim %= len(value.shape)
    count = value.shape[dim]
    vectors = p.each(lambda w: w.reshape(-1, count).T, unit_vectors(p, index, count))
    flat = p.each(lambda w: np.moveaxis(w, dim, 0).reshape(w.shape[dim], -1), added)
    total = p.bilinear("matmul", vectors, flat)
    rest = [n for i, n in enumerate(value.shape) if i != dim]
    return p.each(lambda w, t: w + np.moveaxis(t.reshape(count, *rest), 0, dim), value, total)
