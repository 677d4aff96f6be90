"""Sorting, order statistics and the largest elements."""

from __future__ import annotations

from functools import partial

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, refuse, wrap_dim
from torchnp.core.errors import not_implemented, tensor_type
from torchnp.core.fast_path import exact, is_axis, is_float
from torchnp.core.registry import kernel
from torchnp.core.write_spec import Bound, WriteSpec
from torchnp.kernels._reduction import FEW, NOT_ORDERED, ordered
from torchnp.kernels._table_rows import rows
from torchnp.kernels.extrema import reduced_shape, taken
from torchnp.layout.stride_rules import cloned, empty, layout_of, preserved
from torchnp.thresholds import Threshold

ndarray = np.ndarray


def sort_keys(x: ndarray) -> ndarray:
    """Unsigned integers in the order of the elements; -0 and 0 are one, NaN is the largest."""
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    if x.dtype.kind in "bu":
        return x.view(unsigned)
    top = unsigned.type(1 << (8 * x.dtype.itemsize - 1))
    if x.dtype.kind == "i":
        return x.view(unsigned) ^ top
    bits = np.asarray(x + np.zeros((), x.dtype)).view(unsigned)  # -0 becomes 0
    sign = bits.view(f"i{x.dtype.itemsize}") >> (8 * x.dtype.itemsize - 1)
    keys = np.asarray(sign).view(unsigned)  # all bits of each are its sign
    keys |= top
    keys ^= bits
    np.copyto(keys, ~unsigned.type(0), where=x != x)
    return keys


_FEW: Threshold = 64  # elements up to which an argsort takes less than packing keys


def stable_order(x: ndarray, axis: int, descending: bool, k: int | None = None) -> ndarray:
    """Indices that sort along an axis, or the first k of them; equal elements keep their order, also when descending."""
    keys = sort_keys(x)
    if descending:
        keys = ~keys
    n = x.shape[axis]
    first = (slice(None),) * axis + (slice(k),)
    if keys.dtype.itemsize <= 4 and n <= 1 << 32 and x.size > _FEW:
        # One sort of key and position together is several times faster than a stable argsort.
        shape = [n if i == axis else 1 for i in range(x.ndim)]
        packed = keys.astype(np.uint64) << np.uint64(32)
        packed |= np.arange(n, dtype=np.uint64).reshape(shape)
        if k is not None and 0 < k <= n // 4:
            packed.partition(k - 1, axis)
            packed = np.ascontiguousarray(packed[first])
        packed.sort(axis)
        packed &= np.uint64(0xFFFFFFFF)
        return packed.view(np.int64)[first]
    return keys.argsort(axis, kind="stable")[first]


# ---------------------------------------------------------------- sort


def _quick_sort(self, dim=-1, descending=False):
    """Few elements: a stable sort of the elements and one of their positions end in the same order."""
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
    """Elements sorted along a dimension, and their indices; NaN is the largest."""
    axis = wrap_dim(dim, self.ndim)
    check(not dt.is_complex(self.dtype), " Sort does not support complex dtypes on CPU")
    if self.ndim and self.dtype in dt.FLOAT8S:
        raise not_implemented("sorting_kernel_method_name", self.dtype)
    if self.ndim == 0 or self.size == 0:
        index = empty(self.shape, dt.int64, preserved(*layout_of(self)))
        index[...] = 0
        return cloned(self), index
    index = stable_order(self, axis, descending)
    return np.take_along_axis(self, index, axis), index


def _sorted(self, *, stable=False, dim, descending):
    return sort_stable(self, stable=stable, dim=dim, descending=descending)


rows(
    "sort", _sorted, "Elements sorted along a dimension, and their indices; NaN is the largest.",
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
    """The k largest or smallest elements along a dimension and their indices, in order; NaN is the largest."""
    axis = wrap_dim(dim, self.ndim)
    check(0 <= k <= (self.shape[axis] if self.ndim else 1), "selected index k out of range")
    check(not dt.is_complex(self.dtype), " topk does not support complex dtypes on CPU")
    check(self.dtype != dt.bool_, "topk does not support bool dtypes on CPU")
    if self.ndim == 0:
        return self.copy(), np.zeros((), np.int64)
    refuse("topk_cpu", self.dtype, NOT_ORDERED)
    index = np.ascontiguousarray(stable_order(self, axis, largest, k))
    return np.take_along_axis(self, index, axis), index


# ---------------------------------------------------------------- order statistics


@kernel("kthvalue", like=np.partition, differs=["max-with-indices", "zero-dim-axis", "missing-kernel"])
def kthvalue(self, k, dim=-1, keepdim=False):
    """The k-th smallest element along a dimension, counted from 1, and its index; NaN is the largest."""
    axis = wrap_dim(dim, self.ndim)
    length = self.shape[axis] if self.ndim else 1
    check(length, f"kthvalue(): Expected reduction dim {axis} to have non-zero size.", IndexError)
    check(0 < k <= length, f"kthvalue(): selected number k out of range for dimension {axis}")
    if self.ndim:
        refuse("kthvalue_cpu", self.dtype, NOT_ORDERED | {dt.bool_})
    at = (slice(None),) * axis + (slice(k - 1, k),)
    return taken("kthvalue", self, axis, keepdim, lambda x, axis: stable_order(x, axis, False, k)[at])


def _median_dim(x: ndarray, dim: int, keepdim: bool, *, skip_nan: bool) -> tuple[ndarray, ndarray]:
    look = lambda x: refuse("median_out", x.dtype, NOT_ORDERED | {dt.bool_})
    return taken("median", x, dim, keepdim, partial(_middle, skip_nan=skip_nan), look)


def _middle(x: ndarray, axis: int, skip_nan: bool) -> ndarray:
    """The index of the lower middle element, or of the first NaN, which the sort puts after the numbers."""
    n = x.shape[axis]
    middle = np.asarray((n - 1) // 2).reshape((1,) * x.ndim)
    if dt.is_floating(x.dtype):
        count = np.add.reduce(x != x, axis, np.int64, keepdims=True)
        if skip_nan:  # the middle of the numbers, if there are any
            middle = np.where(count == n, middle, (n - count - 1) // 2)
        else:
            middle = np.where(count > 0, n - count, middle)
    middle = np.broadcast_to(middle, reduced_shape(x.shape, (axis,), True))
    return np.take_along_axis(stable_order(x, axis, False), middle, axis)


def _precheck_median(bound: Bound, _: list[ndarray]) -> None:
    words = "Expected tensor for argument #1 'indices' to have scalar type Long; but got "
    d = bound["indices"].dtype
    check(d == dt.int64, f"{words}{tensor_type(d)} instead (while checking arguments for median)")


_MEDIAN = WriteSpec(out=_precheck_median)


def _median(x: ndarray, *, skip_nan: bool) -> ndarray:
    if x.size == 0:  # NaN as C++ converts it
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
    """The most frequent element along a dimension, the smallest of several, and the index of one of its occurrences."""
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


_INSERTED: Threshold = 16  # up to this many elements C++'s sort inserts one by one; beyond, nan leaves no defined order


def _after_insertion(row: list[float]) -> int:
    """Return the last of the first longest run of equals after an insertion sort, in which nan is below nothing."""
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
