"""Sorting, order statistics and the largest elements."""

from __future__ import annotations

import numpy as np

from torchnp import dtypes as dt
from torchnp.checks import check, refuse, wrap_dim
from torchnp.errors import not_implemented
from torchnp.kernels._reduction import FEW, NOT_ORDERED, ordered
from torchnp.kernels._rows import rows
from torchnp.kernels.extrema import reduced_shape
from torchnp.quick import exact, is_axis
from torchnp.registry import kernel
from torchnp.writes import Bound, Writes

ndarray = np.ndarray

# ---------------------------------------------------------------- keys


def sort_keys(x: ndarray) -> ndarray:
    """Unsigned integers in the order of the elements; -0 and 0 are one, NaN is the largest."""
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    if x.dtype.kind in "bu":
        return x.view(unsigned)
    top = unsigned.type(1 << (8 * x.dtype.itemsize - 1))
    if x.dtype.kind == "i":
        return x.view(unsigned) ^ top
    zero = np.zeros((), x.dtype)
    bits = np.where(x == zero, zero, x).view(unsigned)
    keys = np.where(bits & top, ~bits, bits | top)
    return np.where(x != x, ~unsigned.type(0), keys)


def stable_order(x: ndarray, axis: int, descending: bool) -> ndarray:
    """Indices that sort along an axis; equal elements keep their order, also when descending."""
    keys = sort_keys(x)
    if descending:
        keys = ~keys
    n = x.shape[axis]
    if keys.dtype.itemsize <= 4 and n <= 1 << 32 and x.size > 64:
        # One sort of key and position together is several times faster than a stable argsort.
        shape = [n if i == axis else 1 for i in range(x.ndim)]
        packed = keys.astype(np.uint64) << np.uint64(32)
        packed |= np.arange(n, dtype=np.uint64).reshape(shape)
        packed.sort(axis)
        packed &= np.uint64(0xFFFFFFFF)
        return packed.view(np.int64)
    return keys.argsort(axis, kind="stable")


# ---------------------------------------------------------------- sort


def _quick_sort(self, dim=-1, descending=False):
    """Few elements: a stable sort of the elements and one of their positions end in the same order."""
    if descending is not False or type(self) is not ndarray or not 0 < self.size <= 4 * FEW:
        return None
    if not is_axis(dim, self.ndim):
        return None
    if not (self.dtype is dt.float32 or self.dtype is dt.float64) or not self.flags.c_contiguous:
        return None
    values = self.copy()
    values.sort(dim, "stable")
    return values, self.argsort(dim, "stable")


_ORDER = ["stable-descending", "zero-dim-axis", "no-complex-order"]
_quick_sort_stable = exact(lambda self, *, stable, dim=-1, descending=False: _quick_sort(self, dim, descending))


@kernel("sort.stable", like=np.sort, differs=[*_ORDER, "sort-with-indices"], quick=_quick_sort_stable)
def sort_stable(self, *, stable, dim=-1, descending=False):
    """Elements in order along a dimension, and their indices; NaN is the largest."""
    axis = wrap_dim(dim, self.ndim)
    check(not dt.is_complex(self.dtype), " Sort does not support complex dtypes on CPU")
    if self.ndim and self.dtype in dt.FLOAT8S:
        raise not_implemented("sorting_kernel_method_name", self.dtype)
    if self.ndim == 0 or self.size == 0:
        return self.copy(), np.zeros(self.shape, np.int64)
    index = stable_order(self, axis, descending)
    return np.take_along_axis(self, index, axis), index


def _sorted(self, *, stable=False, dim, descending):
    return sort_stable(self, stable=stable, dim=dim, descending=descending)


rows(
    "sort", _sorted, "Elements in order along a dimension, and their indices; NaN is the largest.",
    like=np.sort, differs=[*_ORDER, "sort-with-indices"], quick=exact(_quick_sort),
)  # fmt: skip
rows(
    "argsort argsort.stable", _sorted, "Indices that sort along a dimension; equal elements keep their order.", part=1,
    like=np.argsort, differs=[*_ORDER, "descending-by-negation"],
)  # fmt: skip
rows(
    "msort", lambda x: sort_stable(x, stable=False, dim=0)[0], "Elements in order along the first dimension.",
    like=np.sort, differs=["no-complex-order"],
)  # fmt: skip

# ---------------------------------------------------------------- topk


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
    first = (slice(None),) * axis + (slice(k),)
    index = np.ascontiguousarray(stable_order(self, axis, largest)[first])
    return np.take_along_axis(self, index, axis), index


# ---------------------------------------------------------------- order statistics


def _selected(x: ndarray, index: ndarray, axis: int, keepdim: bool) -> tuple[ndarray, ndarray]:
    values = np.take_along_axis(x, index, axis)
    return (values, index) if keepdim else (values.squeeze(axis), index.squeeze(axis))


def _nothing(name: str, x: ndarray, axis: int, keepdim: bool) -> tuple[ndarray, ndarray]:
    """The result for an empty tensor, if the dimension itself is not empty."""
    check(x.shape[axis], f"{name}(): Expected reduction dim {axis} to have non-zero size.", IndexError)
    shape = reduced_shape(x.shape, (axis,), keepdim)
    return np.empty(shape, x.dtype), np.empty(shape, np.int64)


@kernel("kthvalue", like=np.partition, differs=["zero-dim-axis"])
def kthvalue(self, k, dim=-1, keepdim=False):
    """The k-th smallest element along a dimension, counted from 1, and its index; NaN is the largest."""
    axis = wrap_dim(dim, self.ndim)
    length = self.shape[axis] if self.ndim else 1
    check(length, f"kthvalue(): Expected reduction dim {axis} to have non-zero size.", IndexError)
    check(0 < k <= length, f"kthvalue(): selected number k out of range for dimension {axis}")
    if self.ndim == 0:
        return self.copy(), np.zeros((), np.int64)
    refuse("kthvalue_cpu", self.dtype, NOT_ORDERED | {dt.bool_})
    if self.size == 0:
        return _nothing("kthvalue", self, axis, keepdim)
    at = (slice(None),) * axis + (slice(k - 1, k),)
    return _selected(self, stable_order(self, axis, False)[at], axis, keepdim)


def _median_dim(x: ndarray, dim: int, keepdim: bool, *, skip_nan: bool) -> tuple[ndarray, ndarray]:
    axis = wrap_dim(dim, x.ndim)
    if x.size == 0 and x.ndim:
        check(x.shape[axis], f"median(): Expected reduction dim {axis} to have non-zero size.", IndexError)
    refuse("median_out", x.dtype, NOT_ORDERED | {dt.bool_})
    if x.ndim == 0:
        return x.copy(), np.zeros((), np.int64)
    if x.size == 0:
        return _nothing("median", x, axis, keepdim)
    order = stable_order(x, axis, False)
    n = x.shape[axis]
    middle = np.asarray((n - 1) // 2).reshape((1,) * x.ndim)
    if dt.is_floating(x.dtype):
        nans = x != x
        count = np.add.reduce(nans, axis, np.int64, keepdims=True)
        if skip_nan:  # of the numbers alone, if there are any
            middle = np.where(count == n, middle, (n - count - 1) // 2)
        else:  # the first NaN, which the sort puts after the numbers
            middle = np.where(count > 0, n - count, middle)
    middle = np.broadcast_to(middle, reduced_shape(x.shape, (axis,), True))
    return _selected(x, np.take_along_axis(order, middle, axis), axis, keepdim)


def _look_median(bound: Bound, _: list[ndarray]) -> None:
    if bound["indices"].dtype != dt.int64:
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have scalar type Long; but got "
            f"torch.{dt.scalar_name(bound['indices'].dtype)}Tensor instead (while checking arguments for median)"
        )


_MEDIAN = Writes(out=_look_median)


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


_DOC, _LOWER = "The lower of the middle elements", ["lower-median", "zero-dim-axis"]
_MIDDLE = f"{_DOC} along a dimension and its index"
for _skips, _like, _word in ((False, np.median, "; {} NaN if there is one."), (True, np.nanmedian, ", NaN left out.")):
    _of, _doc = {"skip_nan": _skips, "like": _like}, _MIDDLE + _word.format("the first")
    rows(f"{_like.__name__}.dim", _median_dim, _doc, differs=_LOWER, writes=_MEDIAN, **_of)
    rows(_like.__name__, _median, _DOC + _word.replace("{} ", ""), differs=_LOWER[:1], **_of)


@kernel("mode", differs=["mode-index"])
def mode(self, dim=-1, keepdim=False):
    """The most frequent element along a dimension, of several the smallest, and the index of its last occurrence."""
    axis = wrap_dim(dim, self.ndim)
    if self.size == 0 and self.ndim:
        return _nothing("mode", self, axis, keepdim)
    if self.ndim == 0:
        return self.copy(), np.zeros((), np.int64)
    refuse("mode_cpu", self.dtype, NOT_ORDERED)
    rows = np.moveaxis(self, axis, -1)
    order = stable_order(np.ascontiguousarray(rows), rows.ndim - 1, False)
    values = np.take_along_axis(rows, order, -1)
    n = values.shape[-1]
    last = np.ones(values.shape, bool)  # whether a run of equal elements ends here
    last[..., :-1] = values[..., 1:] != values[..., :-1]
    positions = np.arange(n)
    start = np.zeros(values.shape, np.int64)
    start[..., 1:] = np.maximum.accumulate(np.where(last[..., :-1], positions[1:], 0), -1)
    lengths = np.where(last, positions - start + 1, 0)
    best = lengths.argmax(-1, keepdims=True)
    index = np.take_along_axis(order, best, -1)
    value = np.take_along_axis(rows, index, -1)
    if not keepdim:
        return value[..., 0], index[..., 0]
    return np.moveaxis(value, -1, axis), np.moveaxis(index, -1, axis)
