"""Sorting, order statistics and the largest elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, refuse, wrap_dim
from torchnp.core.errors import not_implemented, tensor_type
from torchnp.core.fast_path import exact, is_axis, is_float
from torchnp.core.inplace_out_spec import Bound, WriteSpec
from torchnp.core.registry import kernel
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._reduction import FEW, NOT_ORDERED, ordered
from torchnp.kernels.extrema import taken
from torchnp.kernels.numerics.blocks import row_major_blocks
from torchnp.layout.stride_rules import cloned, empty, layout_of, preserved
from torchnp.thresholds import Threshold

ndarray = np.ndarray


def sort_keys(x: ndarray) -> ndarray:
    """Return unsigned integers that sort in the same order as the elements; -0 equals 0, and NaN sorts last."""
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    if x.dtype.kind in "bu":
        return x.view(unsigned)
    top = unsigned.type(1 << (8 * x.dtype.itemsize - 1))
    if x.dtype.kind == "i":
        return x.view(unsigned) ^ top
    bits = np.asarray(x + np.zeros((), x.dtype)).view(unsigned)  # -0 becomes 0
    sign = bits.view(f"i{x.dtype.itemsize}") >> (8 * x.dtype.itemsize - 1)
    keys = np.asarray(sign).view(unsigned)  # all bits of an element equal its sign bit
    keys |= top
    keys ^= bits
    np.copyto(keys, ~unsigned.type(0), where=x != x)
    return keys


_FEW: Threshold = 64  # elements up to which an argsort is faster than packed keys
_BLOCK: Threshold = 1 << 16  # elements of the lines that are sorted at a time
_ACROSS: Threshold = 16  # lines sorted at a time if they are strided: neighbouring lines share cache lines


def _by_lines(find: Callable[[ndarray], ndarray], x: ndarray, axis: int, length: int) -> ndarray:
    """Apply ``find`` to the lines along an axis, some at a time as the rows of a matrix.

    ``find`` returns ``length`` indices for each row; they are returned along the axis.
    """
    n, out = x.shape[axis], np.empty((*x.shape[:axis], length, *x.shape[axis + 1 :]), np.int64)
    lines, found = (a if axis == x.ndim - 1 else np.moveaxis(a, axis, -1) for a in (x, out))
    together = max(_BLOCK // max(n, 1), 1 if lines.strides[-1] == x.itemsize else _ACROSS)
    for block in row_major_blocks(lines.shape[:-1], 1, together):
        part = np.ascontiguousarray(lines[block])
        lead = part.shape[:-1]
        found[block] = find(part.reshape(math.prod(lead), n)).reshape(*lead, length)
    return out


def stable_order(x: ndarray, axis: int, descending: bool, k: int | None = None) -> ndarray:
    """Return the indices that sort along an axis, or the first k of them; equal elements always keep their order."""
    n, find = x.shape[axis], _sorting
    if k is not None and 0 < k <= n // 4:
        find = partial(_first, k=k)
    keys = lambda lines: ~sort_keys(lines) if descending else sort_keys(lines)
    return _by_lines(lambda lines: find(keys(lines))[:, :k], x, axis, n if k is None else k)


def _sorting(keys: ndarray) -> ndarray:
    """Return the indices that sort each row; equal keys keep their order."""
    if keys.dtype.itemsize > 4 or keys.shape[1] > 1 << 32 or keys.size <= _FEW:
        return keys.argsort(-1, kind="stable")
    # One sort of key and position together is several times faster than a stable argsort.
    packed = keys.astype(np.uint64) << np.uint64(32)
    packed |= np.arange(keys.shape[1], dtype=np.uint64)
    packed.sort(-1)
    packed &= np.uint64(0xFFFFFFFF)
    return packed.view(np.int64)


def _places(where: ndarray) -> tuple[ndarray, ndarray]:
    """Return the flat indices where a matrix is true, and how many there are in each row."""
    places = np.flatnonzero(where)
    return places, np.bincount(places // where.shape[1], minlength=len(where))


def _first(keys: ndarray, k: int) -> ndarray:
    """Return the first k of the indices that sort each row, sorting only the keys up to the k-th smallest."""
    n = keys.shape[1]
    low = keys.copy()
    low.partition(k - 1, -1)
    places, counts = _places(keys <= low[:, k - 1, None])
    row = places // n
    order = np.lexsort((keys.reshape(-1)[places], row))
    chosen = order[(np.cumsum(counts) - counts)[:, None] + np.arange(k)]
    return places[chosen] % n


def _at_rank(keys: ndarray, rank: int) -> ndarray:
    """Return the index of each row's element at ``rank`` in sorted order; equal elements keep their order."""
    low = keys.copy()
    low.partition(rank, -1)
    value = low[:, rank, None]
    equal = _places(low[:, : rank + 1] == value)[1]  # number of elements equal to it up to this rank, including it
    places, counts = _places(keys == value)
    return (places[np.cumsum(counts) - counts + equal - 1] % keys.shape[1])[:, None]


# ---------------------------------------------------------------- sort


def _quick_sort(self, dim=-1, descending=False):
    """Sort few elements, and separately their positions; both sorts are stable, so their orders are the same."""
    if descending is not False or not is_float(self) or not 0 < self.size <= 4 * FEW:
        return None
    if not is_axis(dim, self.ndim) or not self.flags.c_contiguous:
        return None
    values = self.copy()
    values.sort(dim, "stable")
    return values, self.argsort(dim, "stable")


_ORDER = ["stable-descending", "zero-dim-axis", "no-complex-order"]
_quick_sort_stable = exact(lambda self, *, stable, dim=-1, descending=False: _quick_sort(self, dim, descending))


@kernel("sort.stable", like=np.sort, differs=[*_ORDER, "sort-with-indices"], quick=_quick_sort_stable)
def sort_stable(self, *, stable, dim=-1, descending=False):
    """Elements sorted along a dimension, and their indices; NaN counts as the largest."""
    axis = wrap_dim(dim, self.ndim)
    check(not dt.is_complex(self.dtype), " Sort does not support complex dtypes on CPU")
    if self.ndim and self.dtype in dt.FLOAT8S:
        raise not_implemented("sorting_kernel_method_name", self.dtype)
    if self.ndim == 0 or self.size == 0:
        index = empty(self.shape, dt.int64, preserved(*layout_of(self)))
        index[...] = 0
        return cloned(self), index
    if self.ndim == 1 and not descending:
        refuse_radix(self)
    index = stable_order(self, axis, descending)
    return np.take_along_axis(self, index, axis), index


_RADIX: Threshold = 1 << 15  # elements; from here on, torch sorts a vector of integers by another kernel


def refuse_radix(x: ndarray) -> None:
    """Refuse to sort many unsigned integers of 16 bits or more in ascending order, as torch does."""
    if x.size >= _RADIX:
        refuse("parallel_sort1d_kernel", x.dtype, dt.BARE_UNSIGNED)


def _sorted(self, *, stable=False, dim, descending):
    return sort_stable(self, stable=stable, dim=dim, descending=descending)


rows(
    "sort", _sorted, "Elements sorted along a dimension, and their indices; NaN counts as the largest.",
    like=np.sort, differs=[*_ORDER, "sort-with-indices"], quick=exact(_quick_sort),
)  # fmt: skip
rows(
    "argsort argsort.stable", _sorted, "Indices that sort along a dimension; equal elements keep their order if ``stable`` is set.", part=1,
    like=np.argsort, differs=[*_ORDER, "descending-by-negation"],
)  # fmt: skip
rows(
    "msort", lambda x: sort_stable(x, stable=False, dim=0)[0], "Elements sorted along the first dimension.",
    like=np.sort, differs=["no-complex-order", "zero-dim-axis"],
)  # fmt: skip


@kernel("topk", differs=["topk-ordered"])
def topk(self, k, dim=-1, largest=True, sorted=True):
    """The k largest or smallest elements along a dimension and their indices, in order; NaN counts as the largest."""
    axis = wrap_dim(dim, self.ndim)
    check(0 <= k <= (self.shape[axis] if self.ndim else 1), "selected index k out of range")
    check(not dt.is_complex(self.dtype), " topk does not support complex dtypes on CPU")
    check(self.dtype != dt.bool_, "topk does not support bool dtypes on CPU")
    if self.ndim == 0:
        return self.copy(), np.zeros((), np.int64)
    refuse("topk_cpu", self.dtype, NOT_ORDERED)
    index = stable_order(self, axis, largest, k)
    return np.take_along_axis(self, index, axis), index


# ---------------------------------------------------------------- order statistics


@kernel("kthvalue", like=np.partition, differs=["max-with-indices", "zero-dim-axis", "missing-kernel"])
def kthvalue(self, k, dim=-1, keepdim=False):
    """The k-th smallest element (k from 1) along a dimension, and its index; NaN counts as the largest."""
    axis = wrap_dim(dim, self.ndim)
    length = self.shape[axis] if self.ndim else 1
    check(length, f"kthvalue(): Expected reduction dim {axis} to have non-zero size.", IndexError)
    check(0 < k <= length, f"kthvalue(): selected number k out of range for dimension {axis}")
    if self.ndim:
        refuse("kthvalue_cpu", self.dtype, NOT_ORDERED | {dt.bool_})
    find = lambda lines: _at_rank(sort_keys(lines), k - 1)
    return taken("kthvalue", self, axis, keepdim, lambda x, axis: _by_lines(find, x, axis, 1))


def _median_dim(x: ndarray, dim: int, keepdim: bool, *, skip_nan: bool) -> tuple[ndarray, ndarray]:
    look = lambda x: refuse("median_out", x.dtype, NOT_ORDERED | {dt.bool_})
    middle = partial(_middle, skip_nan=skip_nan)
    return taken("median", x, dim, keepdim, lambda x, axis: _by_lines(middle, x, axis, 1), look)


def _middle(lines: ndarray, skip_nan: bool) -> ndarray:
    """Return the index of each row's lower middle element, or of its first NaN unless ``skip_nan``."""
    keys, middle = sort_keys(lines), (lines.shape[1] - 1) // 2
    if not dt.is_floating(lines.dtype):
        return _at_rank(keys, middle)
    is_nan = lines != lines
    if not skip_nan:
        return np.where(is_nan.any(-1, keepdims=True), is_nan.argmax(-1, keepdims=True), _at_rank(keys, middle))
    # Give as many NaNs the smallest key as are needed to make the middle of all keys the middle of the numbers.
    count = np.add.accumulate(is_nan, -1, np.int64)
    smallest = middle - (lines.shape[1] - count[:, -1:] - 1) // 2
    keys[is_nan & (count <= smallest)] = 0
    return _at_rank(keys, middle)


def _precheck_median(bound: Bound, _: list[ndarray]) -> None:
    words = "Expected tensor for argument #1 'indices' to have scalar type Long; but got "
    d = bound["indices"].dtype
    check(d == dt.int64, f"{words}{tensor_type(d)} instead (while checking arguments for median)")


_MEDIAN = WriteSpec(out=_precheck_median)


def _median(x: ndarray, *, skip_nan: bool) -> ndarray:
    if x.size == 0:  # torch returns NaN, converted as in C++
        if dt.is_inexact(x.dtype):
            return np.full((), np.nan, x.dtype)
        lowest = {dt.int32: -(1 << 31), dt.int64: -(1 << 63), dt.uint64: 1 << 63}
        return np.asarray(lowest.get(x.dtype, x.dtype == dt.bool_), x.dtype)
    refuse("median_cpu", x.dtype, NOT_ORDERED | {dt.bool_})
    flat = ordered(x).reshape(-1)
    if dt.is_floating(x.dtype):
        bad = flat != flat
        if bad.any():
            if not skip_nan or bad.all():
                return np.full((), np.nan, x.dtype)
            flat = flat[~bad]
    middle = (flat.size - 1) // 2
    return dt.cast(np.asarray(np.partition(flat, middle)[middle]), x.dtype)


_DOC, _LOWER = "The lower median", ["lower-median", "missing-kernel", "zero-dim-axis"]
_MIDDLE = f"{_DOC} along a dimension and its index"
_median_rows = partial(rows, differs=[*_LOWER[:2], "median-of-nothing"])
_median_dim_rows = partial(rows, differs=[*_LOWER, "max-with-indices"], writes=_MEDIAN)
_MEDIANS, _NANMEDIANS = {"skip_nan": False, "like": np.median}, {"skip_nan": True, "like": np.nanmedian}
_median_rows("median", _median, f"{_DOC}; NaN if any element is NaN.", **_MEDIANS)
_median_dim_rows("median.dim", _median_dim, f"{_MIDDLE}; the first NaN if there is one.", **_MEDIANS)
_median_rows("nanmedian", _median, f"{_DOC}, ignoring NaN.", **_NANMEDIANS)
_median_dim_rows("nanmedian.dim", _median_dim, f"{_MIDDLE}, ignoring NaN.", **_NANMEDIANS)


@kernel("mode", differs=["mode-index"])
def mode(self, dim=-1, keepdim=False):
    """The most frequent element along a dimension (of several, the smallest), and the index of one occurrence."""
    return taken("mode", self, dim, keepdim, _most_frequent)


def _most_frequent(x: ndarray, axis: int) -> ndarray:
    rows = np.ascontiguousarray(np.moveaxis(x, axis, -1))
    order = stable_order(rows, rows.ndim - 1, False)
    values = np.take_along_axis(rows, order, -1)
    last = np.ones(values.shape, bool)  # whether a run of equal elements ends here
    last[..., :-1] = values[..., 1:] != values[..., :-1]
    positions = np.arange(values.shape[-1])
    start = np.zeros(values.shape, np.int64)
    start[..., 1:] = np.maximum.accumulate(np.where(last[..., :-1], positions[1:], 0), -1)
    lengths = np.where(last, positions - start + 1, 0)
    found = np.take_along_axis(order, lengths.argmax(-1, keepdims=True), -1)
    if rows.shape[-1] <= _INSERTED:
        for row in zip(*np.nonzero(np.atleast_1d((rows != rows).any(-1)))):
            place = row if rows.ndim > 1 else ()
            found[place] = _after_insertion(rows[place].tolist())
    return np.moveaxis(found, -1, axis)


_INSERTED: Threshold = 16  # elements; up to here C++'s sort is an insertion sort, above, the order of nan is undefined


def _after_insertion(row: list[float]) -> int:
    """Sort a row by insertion (comparisons with nan are false); return the last index of the first longest run."""
    order = [0]
    for i in range(1, len(row)):
        j = 0 if row[i] < row[order[0]] else i
        while j and row[i] < row[order[j - 1]]:
            j -= 1
        order.insert(j, i)
    length, best, longest = 0, 0, 0
    for i, one in enumerate(order):
        length += 1
        if i + 1 == len(order) or row[one] != row[order[i + 1]]:
            best, longest, length = (one, length, 0) if length > longest else (best, longest, 0)
    return best
