"""Distinct elements, and places among sorted ones."""

from __future__ import annotations

import numpy as np

from torchnp import dtypes as dt
from torchnp.checks import check, dim_of, refuse, warn
from torchnp.errors import shape_text
from torchnp.kernels._memory import empty_in_order
from torchnp.kernels._reduction import NOT_ORDERED
from torchnp.kernels._rows import rows
from torchnp.kernels.sort import sort_keys, stable_order
from torchnp.registry import kernel
from torchnp.scalars import number

ndarray = np.ndarray

# ---------------------------------------------------------------- unique

_NO_UNIQUE = frozenset({*dt.COMPLEXES, *dt.FLOAT8S})


def _none() -> ndarray:
    return np.empty(0, np.int64)


def _consecutive(x: ndarray, changes: ndarray) -> tuple[ndarray, ndarray, ndarray]:
    """The first of each run, the run that each belongs to, and how long the runs are, from where a new one starts."""
    starts = np.flatnonzero(np.concatenate([[True], changes]))
    inverse = np.concatenate([[0], np.cumsum(changes)]).astype(np.int64)
    return x[starts], inverse, np.diff(starts, append=len(x))


@kernel("_unique2", like=np.unique, differs=["unique-nan"])
def _unique2(self, sorted=True, return_inverse=False, return_counts=False):
    """Distinct elements in order, where each element went, and how often each occurs; no NaN equals another."""
    refuse("unique", self.dtype, _NO_UNIQUE)
    if self.size == 0:
        inverse = np.empty(self.shape, np.int64) if return_inverse else _none()
        return np.empty(0, self.dtype), inverse, _none()
    flat = self.reshape(-1)
    order = stable_order(flat, 0, False)
    values = flat[order]
    changes = values[1:] != values[:-1]
    distinct, places, counts = _consecutive(values, changes)
    inverse = np.empty(self.shape, np.int64) if return_inverse else _none()
    if return_inverse:
        inverse.reshape(-1)[order] = places
    return distinct, inverse, counts if return_counts else _none()


rows(
    "_unique", _unique2, "Distinct elements in order, and where each element went.", part=slice(2), by_name=True,
    like=np.unique, differs=["unique-nan"],
)  # fmt: skip


@kernel("unique_consecutive")
def unique_consecutive(self, return_inverse=False, return_counts=False, dim=None):
    """The first element of each run of equal ones, where each element went, and the lengths of the runs."""
    if dim is not None and (dim != 0 or self.ndim != 1):
        return unique_dim_consecutive(self, dim, return_inverse, return_counts)
    refuse("unique", self.dtype, _NO_UNIQUE)
    if self.size == 0:
        inverse = np.empty(self.shape, np.int64) if return_inverse else _none()
        return np.empty(0, self.dtype), inverse, _none()
    flat = self.reshape(-1)
    values, inverse, counts = _consecutive(flat, flat[1:] != flat[:-1])
    return values, inverse.reshape(self.shape) if return_inverse else _none(), counts if return_counts else _none()


def _slices(x: ndarray, dim: int) -> tuple[int, ndarray | None]:
    """The axis and the slices along it as rows, or None if there are none."""
    refuse("unique_dim", x.dtype, _NO_UNIQUE)
    axis = dim_of(x, dim)
    empty = x.shape.count(0)
    if x.shape[axis] == 0:
        check(empty == 1, "Number of zero sized dimensions is more than one, so unique cannot be applied ")
        return axis, None
    check(empty == 0, "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied")
    return axis, np.moveaxis(x, axis, 0).reshape(x.shape[axis], -1)


def _unrolled(rows: ndarray, x: ndarray, axis: int) -> ndarray:
    shape = [n for i, n in enumerate(x.shape) if i != axis]
    return np.moveaxis(rows.reshape(-1, *shape), 0, axis)


_INSERTED = 16  # up to so many torch's sort inserts one after the other, and what nan does to that is fixed


def _inserted(rows: ndarray) -> ndarray:
    """The order of an insertion sort that stops at the first slice that is not greater: nan is neither."""

    def less(a: int, b: int) -> bool:
        for x, y in zip(rows[a], rows[b], strict=True):
            if x < y or x > y:
                return bool(x < y)
        return False

    order = [0]
    for i in range(1, len(rows)):
        at = 0
        if not less(i, order[0]):
            at = i
            while less(i, order[at - 1]):
                at -= 1
        order.insert(at, i)
    return np.array(order)


@kernel("unique_dim", like=np.unique, differs=["unique-nan"])
def unique_dim(self, dim, sorted=True, return_inverse=False, return_counts=False):
    """Distinct slices along a dimension in lexicographic order, where each went, and how often each occurs."""
    axis, rows = _slices(self, dim)
    if rows is None:
        return empty_in_order(self.shape, self.dtype, None), _none(), _none()
    order = np.lexsort(sort_keys(rows).T[::-1])
    if len(rows) <= _INSERTED and (rows != rows).any():
        order = _inserted(rows)
    values, inverse_sorted, counts = _consecutive(rows[order], (rows[order][1:] != rows[order][:-1]).any(1))
    inverse = np.empty(len(order), np.int64)
    inverse[order] = inverse_sorted
    return _unrolled(values, self, axis), inverse, counts


@kernel("unique_dim_consecutive")
def unique_dim_consecutive(self, dim, return_inverse=False, return_counts=False):
    """The first slice of each run of equal ones along a dimension, where each went, and the lengths of the runs."""
    axis, rows = _slices(self, dim)
    if rows is None:
        return empty_in_order(self.shape, self.dtype, None), _none(), _none()
    values, inverse, counts = _consecutive(rows, (rows[1:] != rows[:-1]).any(1))
    return _unrolled(values, self, axis), inverse, counts


# ---------------------------------------------------------------- searchsorted


_COPIED = (
    "torch.searchsorted(): {0} tensor is non-contiguous, this will lower the performance due to extra data copy when "
    "converting non-contiguous tensor to contiguous, please use contiguous {0} tensor if possible. This message will "
    "only appear once per program."
)


def _searchsorted(sorted_sequence, self, out_int32=False, right=False, side=None, sorter=None):
    if not isinstance(self, ndarray):
        self = number(self, dt.result_type(sorted_sequence, self))
    _check_search(sorted_sequence, self, right, side, sorter)
    for x, what in ((self, "input value"), (sorted_sequence, "boundary"), (sorter, "sorter")):
        if x is not None and not x.flags.c_contiguous:
            warn(_COPIED.format(what))
    out = dt.int32 if out_int32 else dt.int64
    after = right or side == "right"
    if self.size == 0:
        return np.zeros(self.shape, out)
    common = dt.result_type(sorted_sequence, self)
    refuse("searchsorted_out_cpu", common, NOT_ORDERED | {dt.bool_})
    if sorted_sequence.size == 0:
        return np.zeros(self.shape, out)
    edges, values = dt.cast(sorted_sequence, dt.opmath(common)), dt.cast(self, dt.opmath(common))
    if edges.ndim == 1 and sorter is None and not (edges != edges).any():
        return np.asarray(edges.searchsorted(values, "right" if after else "left")).astype(out, copy=False)
    n = edges.shape[-1]
    rows, order = edges.reshape(-1, n), None if sorter is None else sorter.reshape(-1, n)
    found = _bisect(rows, values.reshape(rows.shape[0], -1), order, after)
    return found.reshape(self.shape).astype(out, copy=False)


def _bisect(rows: ndarray, values: ndarray, order: ndarray | None, after: bool) -> ndarray:
    """Binary search of all values at once, comparing as torch does: NaN is neither above nor at anything."""
    low, high = np.zeros(values.shape, np.int64), np.full(values.shape, rows.shape[1], np.int64)
    while (low < high).any():
        middle = (low + high) >> 1
        at = np.minimum(middle, rows.shape[1] - 1)
        if order is not None:
            at = np.take_along_axis(order, at, 1)
        edge = np.take_along_axis(rows, at, 1)
        reached = edge > values if after else edge >= values
        open_ = low < high
        low, high = np.where(open_ & ~reached, middle + 1, low), np.where(open_ & reached, middle, high)
    return low


def _check_search(edges: ndarray, values: ndarray, right: bool, side: str | None, sorter: ndarray | None) -> None:
    name = "torch.searchsorted():"
    check(side in (None, "left", "right"), f"{name} side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise RuntimeError(f"{name} side and right can't be set to opposites, got side of left while right was True")
    check(edges.ndim > 0, f"{name} boundaries tensor should have positive dimension, but got 0 dimension")
    if values.ndim == 0 and edges.ndim != 1:
        words = f"{name} input value can be a scalar only when boundaries tensor dimension is 1, but we got boundaries"
        raise RuntimeError(f"{words} tensor dim({edges.ndim}) and input value's dim(0) numel(1)")
    if edges.ndim != 1 and (edges.ndim != values.ndim or edges.shape[:-1] != values.shape[:-1]):
        raise RuntimeError(
            f"{name} boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and "
            f"input value tensor must match, but we got boundaries tensor {shape_text(edges.shape)} and input value "
            f"tensor {shape_text(values.shape)}"
        )
    if sorter is None:
        return
    if sorter.shape != edges.shape:
        words = f"{name} boundary and sorter must have the same size, but got boundary tensor {shape_text(edges.shape)}"
        raise RuntimeError(f"{words}and got sorter tensor {shape_text(sorter.shape)}")
    if sorter.dtype != dt.int64:
        got = dt.scalar_name(sorter.dtype)
        raise RuntimeError(f"{name} sorter must be a tensor of long dtype but got dtype {got}")
    if sorter.size:
        check(sorter.min() >= 0 and sorter.max() < edges.shape[-1], f"{name} sorter index out of range")


_ABOUT = "Where each value would go among sorted ones; before equal ones, or after them if ``right``."
rows(
    "searchsorted.Tensor searchsorted.Scalar", _searchsorted, _ABOUT, like=np.searchsorted,
    differs=["searchsorted-batches", "searchsorted-nan"],
)  # fmt: skip


def _bucketize(self, boundaries, out_int32, right):
    check(boundaries.ndim == 1, f"boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
    return _searchsorted(boundaries, self, out_int32=out_int32, right=right)


rows(
    "bucketize.Tensor bucketize.Scalar", _bucketize,
    "Index of the bucket of each value; a boundary belongs to the bucket below it, or above if ``right``.",
    like=np.digitize, differs=["bucketize-side", "searchsorted-nan"],
)  # fmt: skip
