"""Distinct elements (unique), insertion indices in sorted sequences (searchsorted), and membership (isin)."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, dim_of, refuse, warn
from torchnp.core.errors import not_implemented, shape_text
from torchnp.core.inplace_out_spec import WriteSpec
from torchnp.core.python_scalars import number, tensor
from torchnp.core.registry import kernel
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._elementwise import operand
from torchnp.kernels._memory import empty_in_order
from torchnp.kernels._reduction import NOT_ORDERED
from torchnp.kernels.compare import eq, ne
from torchnp.kernels.copy import convert
from torchnp.kernels.sort import refuse_radix, sort_keys, stable_order
from torchnp.kernels.view import view
from torchnp.thresholds import Threshold

ndarray = np.ndarray

# ---------------------------------------------------------------- unique

_NO_UNIQUE = frozenset({*dt.COMPLEXES, *dt.FLOAT8S})


def _none() -> ndarray:
    return np.empty(0, np.int64)


def _distinct(x: ndarray, order: Any) -> tuple[ndarray, ndarray, ndarray]:
    """Return the first of each run of equal elements or rows in ``order``, each element's run number, and lengths."""
    x = x[order]
    changes = x[1:] != x[:-1]
    changes = changes if x.ndim == 1 else changes.any(1)
    starts = np.flatnonzero(np.concatenate([[True], changes])[: len(x)])
    inverse = np.empty(len(x), np.int64)
    inverse[order] = np.concatenate([[0], np.cumsum(changes)])[: len(x)]
    return x[starts], inverse, np.diff(starts, append=len(x))


def _of_elements(x: ndarray, order: Any, return_inverse: bool, return_counts: bool) -> tuple[ndarray, ndarray, ndarray]:
    refuse("unique", x.dtype, _NO_UNIQUE)
    flat = x.reshape(-1)
    values, inverse, counts = _distinct(flat, order(flat))
    return values, inverse.reshape(x.shape) if return_inverse else _none(), counts if return_counts else _none()


@kernel("_unique2", like=np.unique, differs=["unique-nan", "unique-results", "missing-kernel"])
def _unique2(self, sorted=True, return_inverse=False, return_counts=False):
    """Sorted distinct elements, each element's index among them, and their counts; every NaN is distinct."""
    refuse_radix(self)
    return _of_elements(self, lambda flat: stable_order(flat, 0, False), return_inverse, return_counts)


rows(
    "_unique", _unique2, "Sorted distinct elements, and each element's index among them.", part=slice(2), by_name=True,
    like=np.unique, differs=["unique-nan", "unique-results", "missing-kernel"],
)  # fmt: skip


_as_it_is = lambda x: slice(None)


@kernel("unique_consecutive")
def unique_consecutive(self, return_inverse=False, return_counts=False, dim=None):
    """The first element of each run of equal values, the number of each element's run, and the lengths of the runs."""
    if dim is not None and (dim != 0 or self.ndim != 1):
        return unique_dim_consecutive(self, dim)
    return _of_elements(self, _as_it_is, return_inverse, return_counts)


def _of_slices(x: ndarray, dim: int, order: Any) -> tuple[ndarray, ndarray, ndarray]:
    """Apply `_distinct` to the slices along a dimension."""
    refuse("unique_dim", x.dtype, _NO_UNIQUE)
    axis = dim_of(x, dim)
    empty = x.shape.count(0)
    if x.shape[axis] == 0:
        check(empty == 1, "Number of zero sized dimensions is more than one, so unique cannot be applied ")
        return empty_in_order(x.shape, x.dtype, None), _none(), _none()
    check(empty == 0, "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied")
    slices = np.moveaxis(x, axis, 0)
    rows = slices.reshape(len(slices), -1)
    values, inverse, counts = _distinct(rows, order(rows))
    return np.moveaxis(values.reshape(-1, *slices.shape[1:]), 0, axis), inverse, counts


_INSERTED: Threshold = 16  # rows; up to this many, torch's sort is an insertion sort, so the effect of nan is defined


_BYTEWISE: Threshold = 64  # elements per row; from here on, rows are compared as bytes, not sorted column by column


def _in_order(rows: ndarray) -> ndarray:
    """Return the lexicographic order of rows."""
    if len(rows) > _INSERTED or not (rows != rows).any():
        keys = sort_keys(rows)
        if keys.shape[1] < _BYTEWISE:
            return np.lexsort(keys.T[::-1])
        text = np.ascontiguousarray(keys.astype(keys.dtype.newbyteorder(">"))).view(f"V{keys[0].nbytes}")
        return np.argsort(text[:, 0], kind="stable")  # compares the bytes of two rows from left to right

    def less(a: int, b: int) -> bool:
        for x, y in zip(rows[a], rows[b], strict=True):
            if x < y or x > y:
                return bool(x < y)
        return False

    order = [0]  # insertion stops at a row that is not greater; comparisons with nan are false
    for i in range(1, len(rows)):
        at = 0
        if not less(i, order[0]):
            at = i
            while less(i, order[at - 1]):
                at -= 1
        order.insert(at, i)
    return np.array(order)


rows(
    "unique_dim", lambda x, dim, *_: _of_slices(x, dim, _in_order),
    "Distinct slices along a dimension in lexicographic order, the index of each input slice, and the counts.",
    like=np.unique, differs=["unique-nan", "unique-results"],
)  # fmt: skip
(unique_dim_consecutive,) = rows(
    "unique_dim_consecutive", lambda x, dim, *_: _of_slices(x, dim, _as_it_is),
    "The first slice of each run of equal slices along a dimension, the run of each slice, and the run lengths.",
)  # fmt: skip


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
    edges, values = sorted_sequence, dt.cast(self, dt.opmath(common))
    if edges.ndim == 1 and sorter is None and (edges.size < _MANY or values.size * _FEW > edges.size):
        edges = dt.cast(edges, values.dtype)
        if not (edges != edges).any():
            return np.asarray(edges.searchsorted(values, "right" if after else "left")).astype(out, copy=False)
    n = edges.shape[-1]
    rows, order = edges.reshape(-1, n), None if sorter is None else sorter.reshape(-1, n)
    found = _bisect(rows, values.reshape(rows.shape[0], -1), order, after)
    return found.reshape(self.shape).astype(out, copy=False)


_MANY: Threshold = 1 << 14  # boundaries; from here on, checking all for NaN takes longer than bisection
_SINGLY: Threshold = 32  # values; for up to this many, Python numbers are faster than arrays
_FEW: Threshold = 64  # boundaries per value; with more, not all boundaries are checked for NaN


def _bisect(rows: ndarray, values: ndarray, order: ndarray | None, after: bool) -> ndarray:
    """Search all values at once by bisection, comparing as torch does: all comparisons with NaN are false."""
    n = rows.shape[1]
    if values.size <= _SINGLY and order is None and dt.opmath(rows.dtype) == values.dtype:
        found = [_bisect_one(row, v, after) for row, some in zip(rows, values, strict=True) for v in some.tolist()]
        return np.array(found).reshape(values.shape)
    flat, start = rows.reshape(-1), np.arange(len(rows))[:, None] * n
    low, high = np.zeros(values.shape, np.int64), np.full(values.shape, n, np.int64)
    for _ in range(n.bit_length()):
        middle = (low + high) >> 1
        at = middle + start  # where a search has ended, this may be after the row's end
        if order is not None:
            at = order.take(at, mode="clip") + start
        edge = dt.cast(flat.take(at, mode="clip"), values.dtype)
        reached = edge > values if after else edge >= values
        low, high = np.where(reached | (low == high), low, middle + 1), np.where(reached, middle, high)
    return low


def _bisect_one(row: ndarray, value: Any, after: bool) -> int:
    low, high = 0, row.size
    while low < high:
        middle = (low + high) >> 1
        edge = row.item(middle)
        if edge > value if after else edge >= value:
            high = middle
        else:
            low = middle + 1
    return low


def _check_search(edges: ndarray, values: ndarray, right: bool, side: str | None, sorter: ndarray | None) -> None:
    name = "torch.searchsorted():"
    check(side in (None, "left", "right"), f"{name} side can only be 'left' or 'right' but got {side}")
    words = f"{name} side and right can't be set to opposites, got side of left while right was True"
    check(side != "left" or not right, words)
    if sorter is not None:
        words = f"{name} boundary and sorter must have the same size, but got boundary tensor {shape_text(edges.shape)}"
        check(sorter.shape == edges.shape, f"{words}and got sorter tensor {shape_text(sorter.shape)}")
        got = dt.scalar_name(sorter.dtype)
        check(sorter.dtype == dt.int64, f"{name} sorter must be a tensor of long dtype but got dtype {got}")
        check(edges.ndim > 0, "ArrayRef: attempted to access back() of empty list")
        known = not sorter.size or (sorter.min() >= 0 and sorter.max() < edges.shape[-1])
        check(known, f"{name} sorter index out of range")
    words = f"{name} input value can be a scalar only when boundaries tensor dimension is 1, but we got boundaries"
    found = f"tensor dim({edges.ndim}) and input value's dim(0) numel(1)"
    check(values.ndim or edges.ndim == 1, f"{words} {found}")
    check(edges.ndim > 0, f"{name} boundaries tensor should have positive dimension, but got 0 dimension")
    if edges.ndim != 1 and (edges.ndim != values.ndim or edges.shape[:-1] != values.shape[:-1]):
        words = (
            "boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and input value"
        )
        found = f"boundaries tensor {shape_text(edges.shape)} and input value tensor {shape_text(values.shape)}"
        raise RuntimeError(f"{name} {words} tensor must match, but we got {found}")


_ABOUT = "Insertion index of each value in a sorted sequence: before equal values, or after them if ``right``."
rows(
    "searchsorted.Tensor searchsorted.Scalar", _searchsorted, _ABOUT, like=np.searchsorted,
    differs=["searchsorted-batches", "searchsorted-nan", "sorter-in-range", "int-float-promotion", "missing-kernel"],
)  # fmt: skip


def _bucketize(self, boundaries, out_int32, right):
    check(boundaries.ndim == 1, f"boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
    return _searchsorted(boundaries, self, out_int32=out_int32, right=right)


rows(
    "bucketize.Tensor bucketize.Scalar", _bucketize,
    "Index of the bucket of each value; a boundary belongs to the bucket below it, or above if ``right``.",
    like=np.digitize, differs=["bucketize-side", "bucketize-unsorted", "searchsorted-nan", "int-float-promotion", "missing-kernel"],
)  # fmt: skip


# ---------------------------------------------------------------- membership


_NOT_IN = frozenset((dt.bool_, dt.complex64, dt.complex128))


def _check_isin(*operands: Any) -> None:
    for x in operands:
        dtype = dt.complex128 if isinstance(x, complex) else tensor(x).dtype
        check(dtype not in _NOT_IN, f"Unsupported input type encountered for isin(): {dt.scalar_name(dtype)}")


def _isin(elements: Any, tests: Any, unique: bool, invert: bool) -> ndarray:
    _check_isin(elements, tests)
    if not tensor(elements).size:
        return np.empty(elements.shape, bool)
    a, b = map(tensor, (elements, tests))
    by_sorting = b.size >= int(10 * a.size**0.145)
    for x in (a, b) if by_sorting and not unique else ():
        refuse("unique", x.dtype, (*dt.FLOAT8S, dt.complex32))
    # If torch sorts, it first concatenates both as 1-d tensors, so a 0-d tensor takes part in promotion like any other.
    common = dt.promote_types(a.dtype, b.dtype) if by_sorting else dt.result_type(elements, tests)
    if not by_sorting:
        view(convert(b, common), [-1])
    inner = dt.opmath(common)
    a, b = (operand(x, common) for x in (elements, tests))
    if by_sorting:
        check(not dt.is_complex(common), " Sort does not support complex dtypes on CPU")
        refuse("sorting_kernel_method_name", common, dt.FLOAT8S)
    elif common in dt.FLOAT8S or common in dt.BARE_UNSIGNED or dt.is_complex(common):
        raise not_implemented("isin_default_cpu", common)
    a, b = dt.cast(a, inner), dt.cast(b, inner)
    if unique and by_sorting:
        return _isin_unique(a, b, invert)
    return np.asarray(np.isin(a, b, invert=invert))


def _isin_unique(a: ndarray, b: ndarray, invert: bool) -> ndarray:
    """Compute isin with assume_unique as torch does: an element is found if it equals the next one in sorted order."""
    both = np.concatenate([a.reshape(-1), b.reshape(-1)])
    order = both.argsort(kind="stable")
    found = np.zeros(both.size, bool)
    found[order[:-1]] = both[order[1:]] == both[order[:-1]]
    return (found ^ invert)[: a.size].reshape(a.shape)


def _isin_number(elements: ndarray, number: Any, unique: bool, invert: bool) -> ndarray:
    _check_isin(elements, number)
    return (ne if invert else eq)(elements, number)


_OF_ISIN = {
    "like": np.isin,
    "differs": ["three-tier-promotion", "missing-kernel", "view-never-copies"],
    "writes": WriteSpec(dtype_before_target=True),
}
_DOC = "Whether each element is among the test elements, in the promoted dtype."
rows("isin.Tensor_Tensor isin.Scalar_Tensor", _isin, _DOC, **_OF_ISIN)
rows("isin.Tensor_Scalar", _isin_number, "Whether each element equals the number.", **_OF_ISIN)
