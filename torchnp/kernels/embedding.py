"""Lookup tables: embedding, and embedding_bag, which sums, averages or maximises over bags of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchnp.core.checks import check, check_type, refuse, require
from torchnp.core.errors import expected_true, index_out_of_range, shape_text, tensor_type
from torchnp.core.registry import kernel
from torchnp.core.target import since
from torchnp.dtypes import FLOAT8S, FLOATS, cast, float64, int64, opmath, promote_types, scalar_name
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._memory import RARE, bits, take_slices
from torchnp.kernels.index import index_select
from torchnp.kernels.numerics.blocks import STRIP
from torchnp.kernels.numerics.indexed_reductions import INDEX_DTYPES, add_rows
from torchnp.kernels.sort import sort_stable
from torchnp.kernels.vectornorm import norm_of
from torchnp.layout.overlap import check_target
from torchnp.threads import blocks

ndarray = np.ndarray
SUM, MEAN, MAX = 0, 1, 2


def check_indices(x: ndarray, where: str, position: int = 1, name: str = "indices", takes: Any = INDEX_DTYPES) -> None:
    if x.dtype not in takes:
        words = f"Expected tensor for argument #{position} '{name}' to have one of the following scalar types:"
        known = "Long, Int" if takes is INDEX_DTYPES else "Half, BFloat16, Float, Double"
        found = f"{tensor_type(x.dtype)} instead (while checking arguments for {where})"
        raise RuntimeError(f"{words} {known}; but got {found}")


@kernel("embedding", like=np.take, differs=["gather-negative", "embedding-matrix"])
def embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    """The rows of a matrix at the indices."""
    check(weight.ndim == 2, "'weight' must be 2-D")
    check_indices(indices, "embedding")
    return index_select(weight, 0, indices.reshape(-1)).reshape(*indices.shape, weight.shape[1])


@kernel("embedding_renorm_")
def embedding_renorm_(self, indices, max_norm, norm_type):
    """Scale the rows at the indices down to a maximum norm, in place."""
    rank = f"Expected 2-dimensional tensor, but got {self.ndim}-dimensional tensor for argument #1 'self'"
    check(self.ndim == 2, f"{rank} (while checking arguments for embedding_renorm_)")
    check_indices(indices, "embedding_renorm_", 2)
    n = len(self)
    places = np.unique(indices)
    if not places.size:
        return self
    wrong = places[(places < -n) | (places >= n)]
    # torch scales row by row, up to the first invalid index
    named = places[: np.searchsorted(places, wrong[0])] if wrong.size else places
    parts = [named[named < 0], named[named >= 0]]  # a row with a negative and a positive index is scaled twice
    if n > 1 and not self.strides[0]:
        parts = [named[i : i + 1] for i in range(len(named))]
    wide = opmath(self.dtype)
    for part in parts:
        if not len(part):
            continue
        rows = self[part]
        norms = cast(norm_of(rows, norm_type, [1]), float64)
        large = norms > max_norm
        if large.any():
            check_target(self[0])  # torch scales each row in place
            refuse("mul_cpu_reduced_float", self.dtype, FLOAT8S)
        scale = cast(max_norm / (norms[large] + 1e-7), self.dtype)
        self[part[large]] = cast(cast(rows[large], wide) * cast(scale, wide)[:, None], self.dtype)
    if wrong.size:
        words = f"index {wrong[0]} out of range for tensor of size {shape_text(self.shape)} at dimension 0"
        raise IndexError(f"select(): {words}")
    return self


# ---------------------------------------------------------------- bags

_SIZES = (("input", "1D or 2D", (1, 2)), ("weight", "2D", (2,)), ("offsets", "1D", (1,)))


def _check(weight: ndarray, indices: ndarray, offsets: ndarray, mode: int, scale: ndarray | None, last: bool) -> None:
    check_indices(indices, "embedding_bag")
    check_indices(offsets, "embedding_bag", 1, "offsets")
    check_indices(weight, "embedding_bag", 1, "weight", FLOATS)
    if offsets.size:
        first, final = int(offsets[0]), int(offsets[-1])
        words = "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0."
        check(first == 0, f"{words} However, got {first}")
        words = f"offsets[-1] can not be greater than input's length {indices.size} but got offsets[-1] of {final}"
        check(final <= indices.size, words)
    if scale is not None:
        check(mode == SUM, "embedding_bag: per_sample_weights only supported with mode='sum'")
        words = "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1"
        a, b = (tensor_type(x.dtype) for x in (weight, scale))
        found = f"type {a} does not equal {b} (while checking arguments for embedding_bag)"
        check(a == b, f"{words} 'per_sample_weights'; but {found}")
        check(scale.ndim == 1, expected_true("per_sample_weights.value().dim() == 1"))
        check(scale.size == indices.size, expected_true("per_sample_weights.value().numel() == indices.numel()"))
    check(not last or offsets.size >= 1, "include_last_offset: number of offset should be at least 1")


def bags_of(indices: ndarray, offsets: ndarray) -> ndarray:
    """Return the bag of each index."""
    starts = np.bincount(offsets, minlength=indices.size + 1)[: indices.size]
    return (np.cumsum(starts) - 1).astype(offsets.dtype, copy=False)


def _embed(
    weight: ndarray, indices: ndarray, offsets: ndarray, scale_grad_by_freq: bool, mode: int, sparse: bool,
    scale: ndarray | None, last: bool, padding_idx: int = -1, forward_only: bool = True,
) -> tuple[ndarray, ndarray, ndarray, ndarray]:  # fmt: skip
    for (name, wanted, ranks), x in zip(_SIZES, (indices, weight, offsets), strict=True):
        check(x.ndim in ranks, f"{name} has to be a {wanted} Tensor, but got Tensor of dimension {x.ndim}")
    indices = indices.reshape(-1)  # torch flattens 2-d indices
    common = promote_types(offsets.dtype, indices.dtype)
    indices, offsets = cast(indices, common), cast(offsets, common)
    _check(weight, indices, offsets, mode, scale, last)
    check(mode in (SUM, MEAN, MAX), "`mode` must be sum, mean, or max.")
    starts = offsets[:-1] if last else offsets
    n, width = len(starts), weight.shape[1]
    # torch's vectorized loop needs contiguous rows and no padding index; it does not compute the bag of each index.
    fast = mode != MAX and padding_idx < 0 and weight.dtype != float64
    fast = fast and weight.strides[1] == weight.itemsize
    fast = fast and (scale is None or scale.strides[0] == scale.itemsize)
    _check_range(indices, len(weight), fast)
    bag = bags_of(indices, starts)
    used = np.ones(indices.size, bool) if padding_idx < 0 else indices != padding_idx
    used &= bag >= 0
    lost = np.bincount(bag[~used & (bag >= 0)], minlength=n)
    sizes = np.diff(starts, append=indices.size) - lost if n else lost  # negative where offsets decrease
    sizes = sizes.astype(offsets.dtype)
    if last and fast:  # the vectorized loop stops at the last offset, though the sizes count to the end
        used[int(offsets[-1]) :] = False
    index, owner = indices[used], bag[used]
    wide = opmath(weight.dtype)
    if mode == MAX:
        out, chosen = _maxima(take_slices(bits(weight), index, 0).view(weight.dtype), owner, index, n, width)
    else:
        out = np.zeros((n, width), wide)
        scales = None if scale is None else cast(scale, wide)[used][:, None]
        for part in blocks(len(index), max(STRIP // max(width, 1), 1)):
            rows = cast(take_slices(bits(weight), index[part], 0).view(weight.dtype), wide)
            add_rows(out, owner[part], rows if scales is None else rows * scales[part])
        out = cast(out, weight.dtype)
        if mode == MEAN:  # torch rounds the sum, and the size of the bag too
            counts = cast(np.maximum(sizes, 1), weight.dtype)
            out = cast(cast(out, wide) / cast(counts, wide)[:, None], weight.dtype)
        if mode == SUM:
            sizes = np.zeros(len(offsets) if forward_only else n, offsets.dtype)
        chosen = sizes.copy()
    if mode == SUM and fast:
        bag = np.empty(0, offsets.dtype)
    return out, bag, sizes, chosen


def _check_range(indices: ndarray, n: int, fast: bool) -> None:
    for place in np.flatnonzero((indices < 0) | (indices >= n))[:1]:
        slow = f"embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be {indices[place]}"
        words = f"Index {place} of input takes value {indices[place]} which is not in the valid range [0, {n})"
        raise RuntimeError(words if fast else slow)


def _maxima(rows: ndarray, owner: ndarray, indices: ndarray, n: int, width: int) -> tuple[ndarray, ndarray]:
    """Return the maxima of each bag and their indices: the first of equal values; NaN only if it comes first."""
    out, chosen = np.zeros((n, width), rows.dtype), np.zeros((n, width), indices.dtype)
    if not len(rows):
        return out, chosen
    first = np.flatnonzero(np.diff(owner, prepend=-1))
    wide = cast(rows, opmath(rows.dtype)).copy()
    later = np.ones(len(rows), bool)
    later[first] = False
    wide[later[:, None] & (wide != wide)] = -np.inf
    best = np.maximum.reduceat(wide, first, 0)
    of_bag = np.repeat(best, np.diff(np.append(first, len(rows))), 0)
    hit = (wide == of_bag) | (of_bag != of_bag)
    place = np.minimum.reduceat(np.where(hit, np.arange(len(rows))[:, None], len(rows)), first, 0)
    bags = owner[first]
    out[bags], chosen[bags] = np.take_along_axis(rows, place, 0), indices[place]
    return out, chosen


def _embed_padded(weight: ndarray, *args: Any) -> tuple[ndarray, ndarray, ndarray, ndarray]:
    *rest, padding_idx = args
    if padding_idx is None:
        return _embed(weight, *rest)
    n = len(weight)
    words = f"padding_idx must be within the number of embeddings, -{n} through {n - 1}, but got {padding_idx}"
    check(-n <= padding_idx < n, words)
    return _embed(*(weight, *rest, padding_idx + n if padding_idx < 0 else padding_idx))


_DOC = "Rows reduced per bag, the bag of each index, the bag sizes, and for maxima the rows they come from."
rows("_embedding_bag", _embed, _DOC, forward_only=False)
rows("_embedding_bag_forward_only", _embed, "`_embedding_bag` where no gradient is wanted.")
_DOC = "`_embedding_bag`; ``padding_idx`` may be None or negative."
rows("embedding_bag.padding_idx", _embed_padded, _DOC)
rows("embedding_bag", _embed, "`_embedding_bag` without a padding index.")


def _check_dense(name: str, x: ndarray) -> None:
    words = f"Expected contiguous tensor, but got non-contiguous tensor for argument #1 '{name}'"
    check(x.flags.c_contiguous, f"{words} (while checking arguments for embedding_bag)")


def _dense_bags(indices: ndarray, offsets: ndarray, offset2bag: ndarray, *names: str) -> tuple[ndarray, ndarray]:
    """Return the indices, in the common dtype of indices and offsets, and the bag of each index.

    If ``offset2bag`` is empty, the bags are computed: torch's vectorized loop does not save them.
    """
    common = promote_types(offsets.dtype, indices.dtype)
    indices, offsets = (x if x.dtype == common else cast(x, common) for x in (indices, offsets))
    for name, x in zip(names, (indices, offsets), strict=False):
        check_indices(x, "embedding_bag", 1, name)
        _check_dense(name, x)
    if indices.size and not offset2bag.size:
        return indices, cast(bags_of(indices, offsets), common)
    check_indices(offset2bag, "embedding_bag", 1, "offset2bag")
    _check_dense("offset2bag", offset2bag)
    return indices, offset2bag


@kernel("_embedding_bag_dense_backward")
def _embedding_bag_dense_backward(
    grad, indices, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode, per_sample_weights,
    padding_idx=-1,
):  # fmt: skip
    """The gradient of the table: each bag's gradient is added to the rows from which the bag was made."""
    check_indices(grad, "embedding_bag", 1, "grad_", FLOATS)
    wide = opmath(grad.dtype)
    width = grad.shape[1]
    if mode == MAX:
        out = np.zeros((num_weights, width), wide)
        refuse("nonzero_count_cpu", bag_size.dtype, RARE)
        full = np.flatnonzero(bag_size)
        chosen = index_select(maximum_indices, 0, full)
        found = f"index_add_(): Expected dtype int32/int64 for index but got: {scalar_name(chosen.dtype)}"
        check(not width or chosen.dtype in INDEX_DTYPES, found)
        places = chosen.astype(int64) * width + np.arange(width)
        np.add.at(out.reshape(-1), places.reshape(-1), cast(grad, wide)[full].reshape(-1))
        return cast(out, grad.dtype)
    check(offset2bag.size == indices.size, index_out_of_range())
    # torch sorts bags and weights by index, which not all dtypes support.
    order = sort_stable(indices, stable=False)[1]
    for x in (offset2bag,) if per_sample_weights is None else (offset2bag, per_sample_weights):
        index_select(x, 0, order)
    check_type(grad.dtype, per_sample_weights)
    require("_embedding_bag_dense_backward_cpu_sum_mean", indices.dtype, INDEX_DTYPES)
    check_type(indices.dtype, offset2bag, bag_size)
    used = np.ones(indices.size, bool) if padding_idx < 0 else indices != padding_idx
    index, bag = indices[used], offset2bag[used]
    scale: Any = None
    if per_sample_weights is not None:
        check(mode == SUM, "embedding_bag_backward: per_sample_weights only supported for mode='sum'")
        scale = cast(per_sample_weights, float64)[used]
    if scale_grad_by_freq:
        counted = index
        if not since("2.14"):  # torch used the count of the n-th sorted index for the n-th distinct row
            counted = np.sort(indices)[np.unique(indices, return_inverse=True)[1][used]]
        scale = (1.0 if scale is None else scale) / np.bincount(indices)[counted]
    if mode == MEAN:
        scale = (1.0 if scale is None else scale) / bag_size[bag]
    out = np.zeros((num_weights, width), grad.dtype)  # torch rounds products and sums to half types
    grad = np.ascontiguousarray(grad)  # once: `take` copies an array that is not row-major each time
    for part in blocks(len(index), max(STRIP // max(width, 1), 1)):
        rows = grad.take(bag[part], 0)
        if scale is not None:
            factors = cast(cast(scale[part], grad.dtype), wide)
            rows = cast(cast(rows, wide) * factors[:, None], grad.dtype)
        add_rows(out, index[part], rows)
    return out


def _bag_backward(
    grad, indices, offsets, offset2bag, bag_size, maximum_indices, num_weights, by_freq, mode, sparse, *rest
):
    check(not sparse, "torchnp has strided tensors only, got a sparse gradient")
    indices, offset2bag = _dense_bags(indices, offsets, offset2bag, "indices", "offsets")
    given = (grad, indices, offset2bag, bag_size, maximum_indices, num_weights, by_freq, mode)
    return _embedding_bag_dense_backward(*given, *rest)


rows("_embedding_bag_backward", _bag_backward, "The gradient of the table; sparse gradients are refused.")


@kernel("_embedding_bag_per_sample_weights_backward")
def _embedding_bag_per_sample_weights_backward(grad, weight, indices, offsets, offset2bag, mode, padding_idx=-1):
    """The gradient of each per-sample weight: its row times the gradient of its bag."""
    require("_embedding_bag_per_sample_weights_backward_cpu", grad.dtype, FLOATS)
    check(mode == SUM, "embedding_bag_backward: per_sample_weights only supported for mode='sum'")
    indices, offset2bag = _dense_bags(indices, offsets, offset2bag, "indices")
    check_type(grad.dtype, weight)
    check_type(indices.dtype, offset2bag)
    wide = opmath(grad.dtype)
    rows, mine = cast(weight, wide).take(indices, 0), cast(grad, wide).take(offset2bag, 0)
    out = cast((rows * mine).sum(1, dtype=wide), grad.dtype)
    if padding_idx >= 0:
        out[indices == padding_idx] = 0
    return out
