"""Counts of values in bins, and quantiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, dim_of, refuse, require, wrap_dim
from torchnp.core.errors import not_implemented, shape_text
from torchnp.core.python_scalars import real
from torchnp.core.registry import kernel
from torchnp.core.target import since
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._reduction import ordered
from torchnp.kernels.arithmetic import div, lerp, sub
from torchnp.kernels.extrema import check_aminmax
from torchnp.kernels.numerics.blocks import STRIP
from torchnp.kernels.numerics.products import words
from torchnp.kernels.ranges import linspace
from torchnp.kernels.reduce import sum_all
from torchnp.kernels.sort import sort_stable
from torchnp.kernels.view import unsqueeze
from torchnp.threads import blocks

ndarray = np.ndarray


@kernel("bincount", like=np.bincount, differs=["bincount-weights", "missing-kernel"])
def bincount(self, weights=None, minlength=0):
    """The count of each integer from 0 on, or the sum of its weights."""
    if not dt.is_integral(self.dtype) or self.dtype in dt.BARE_UNSIGNED:
        raise not_implemented("bincount_cpu", self.dtype)
    check(minlength >= 0, "minlength should be >= 0")
    if self.ndim == 1 and self.size == 0:
        return np.zeros(minlength, np.int64)
    if self.ndim != 1 or self.min() < 0:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is None:
        return np.bincount(self, None, minlength)
    fits = weights.ndim == 1 and weights.size == self.size
    check(fits, "weights should be 1-d and have the same length as input")
    out = weights.dtype if weights.dtype == dt.float32 else dt.float64
    return np.bincount(self, dt.cast(weights, dt.float64), minlength).astype(out, copy=False)


def _spelled(v: float) -> str:
    """Format a number as C does: nan has a sign."""
    return "-nan" if v != v and math.copysign(1, v) < 0 else f"{v:g}"


def _check_bins(bins: int, axis: int) -> None:
    check(bins > 0, f"torch.histogram(): bins must be > 0, but got {bins} for dimension {axis}")


@kernel("histc", like=np.histogram, differs=["histc-range", "histc-dtype", "histogram-bins", "missing-kernel"])
def histc(self, bins=100, min=0, max=0):
    """Counts of elements in each of ``bins`` equal bins; NaN and out-of-range elements do not count."""
    _check_bins(bins, 0)
    low, high, single = real(min), real(max), self.dtype in (dt.float32, dt.float64)
    if low == high and self.size:
        check_aminmax(self.dtype)
        low, high = float(np.minimum.reduce(self, None)), float(np.maximum.reduce(self, None))
        short = self.dtype == dt.bfloat16
        if low != low and (self.size > 1 or short):  # a minimum of several numbers gives nan with the other sign
            low = high = math.copysign(math.nan, 1 if short else -1)
    if low == high:
        low, high = low - 1, high + 1
    # torch's search starts from the largest and smallest finite number, so one of them is left if all elements are
    # infinite.
    if math.isinf(low) and low == high and single:
        most = float(ml_dtypes.finfo(self.dtype).max)
        low, high = (-math.inf, -most) if low < 0 else (most, math.inf)
    low_text, high_text = map(_spelled, (low, high))
    check(math.isfinite(low) and math.isfinite(high), f"torch.histc: range of [{low_text}, {high_text}] is not finite")
    # For other dtypes torch checks the range in double precision.
    check(low < high or (low == high and single), "torch.histc: max must be larger than min")
    edges = linspace(low, high, bins + 1, dtype=self.dtype)
    refuse("histogram_cpu", self.dtype, _NO_HISTOGRAM)
    kind = self.dtype.type
    low, high = edges[0], edges[-1]  # nan if their distance overflows: then no element is in range
    x = self.reshape(-1)
    x = x[(x >= low) & (x <= high)]
    place = (
        ((x - low) * kind(bins) / (high - low)).astype(np.int64)
        if low < high
        else np.full(x.size, bins // 2 if single else 0)
    )
    counts = np.bincount(np.clip(place, 0, bins - 1), None, bins)  # an overflowing quotient becomes negative
    # torch counts in the dtype itself: half types stop when adding 1 changes nothing.
    limit = {dt.float16: 2048, dt.bfloat16: 256}.get(self.dtype)
    return dt.cast(counts if limit is None else np.minimum(counts, limit), self.dtype)


# ---------------------------------------------------------------- histogram

_NO_HISTOGRAM = frozenset(dt.ALL) - {*dt.HALVES, dt.float32, dt.float64}


def _check_matrix(x: ndarray) -> None:
    check(x.ndim >= 2, "torch.histogramdd: input tensor should have at least 2 dimensions")


def _check_histogramdd(x: ndarray, edges: Sequence[ndarray], weight: ndarray | None) -> None:
    name = "torch.histogramdd:"
    _check_matrix(x)
    n = x.shape[-1]
    wanted = f"{n} sequences of bin edges for a {n}-dimensional histogram"
    check(len(edges) == n, f"{name} expected {wanted} but got {len(edges)}")
    for i, e in enumerate(edges):
        told = f"{name} input tensor and bins tensors should have the same dtype, but got input with dtype"
        check(e.dtype == x.dtype, f"{told} {words(x.dtype)} and bins for dimension {i} with dtype {words(e.dtype)}")
        where = f"in the bins tensor for dimension {i}"
        check(e.ndim == 1, f"{name} bins tensor should have one dimension, but got {e.ndim} dimensions {where}")
        check(e.size > 0, f"{name} bins tensor should have at least 1 element, but got {e.size} elements {where}")
    if weight is not None:
        told = (
            f"{name} if weight tensor is provided, input tensor and weight tensor should have the same dtype, but got"
        )
        check(weight.dtype == x.dtype, f"{told} input({words(x.dtype)}), and weight({words(weight.dtype)})")
        told = f"{name} if weight tensor is provided it should have the same shape as the input tensor excluding its"
        shapes = f"input with shape {shape_text(x.shape)} and weight with shape {shape_text(weight.shape)}"
        check((weight.shape or (1,)) == x.shape[:-1], f"{told} innermost dimension, but got {shapes}")
    for i, e in enumerate(edges):
        _check_bins(e.size - 1, i)


def _ranges(x: ndarray, n: int, range_: Any) -> list[tuple[float, float]]:
    """Return the lowest and the highest edge of each dimension."""
    if range_ is not None:
        wanted = f"for a {n}-dimensional histogram range should have {2 * n} elements"
        check(len(range_) == 2 * n, f"torch.histogramdd: {wanted}, but got {len(range_)}")
        found = list(zip(range_[::2], range_[1::2], strict=True))
    elif x.size:
        require("histogramdd", x.dtype, (dt.float32, dt.float64))
        rows = x.reshape(-1, n)
        found = list(zip(rows.min(0).tolist(), rows.max(0).tolist(), strict=True))
    else:
        found = [(0.0, 1.0)] * n
    for i, (low, high) in enumerate(found):
        finite = math.isfinite(low) and math.isfinite(high)
        words = ", ".join(map(_spelled, (low, high)))
        check(finite, f"torch.histogramdd: dimension {i}'s range [{words}] is not finite")
        told = f"but got min {low:g} max {high:g} for dimension {i}"
        check(low <= high, f"torch.histogramdd: min should not exceed max, {told}")
    return [(low - 0.5, high + 0.5) if low == high else (low, high) for low, high in found]


def _equal_edges(x: ndarray, bins: Sequence[int], range_: Any) -> list[ndarray]:
    _check_matrix(x)
    n = x.shape[-1]
    limits = _ranges(x, n, range_)
    check(len(bins) == n, "histogramdd: The size of bins must be equal to the innermost dimension of the input.")
    return [linspace(low, high, b + 1, dtype=x.dtype) for (low, high), b in zip(limits, bins, strict=True)]


def _counted(x: ndarray, edges: Sequence[ndarray], weight: ndarray | None, density: bool) -> ndarray:
    """Return the sums of weights in the bins between edges; the last bin of a dimension includes its upper edge."""
    _check_histogramdd(x, edges, weight)
    refuse("histogram_cpu", x.dtype, _NO_HISTOGRAM)
    shape = tuple(e.size - 1 for e in edges)
    rows, wide = x.reshape(math.prod(x.shape[:-1]), len(edges)), [ordered(e) for e in edges]
    weights = None if weight is None else weight.reshape(-1)
    hist = np.zeros(math.prod(shape), x.dtype)
    # With no dimensions torch counts nothing.
    for part in blocks(len(rows) if edges else 0, max(STRIP // max(len(edges), 1), 1)):
        inside, places = np.ones(len(rows[part]), bool), np.zeros(len(rows[part]), np.int64)
        for column, e in zip(ordered(rows[part]).T, wide, strict=True):
            inside &= (column >= e[0]) & (column <= e[-1])
            places *= e.size - 1
            places += np.minimum(e.searchsorted(column, "right") - 1, e.size - 2)
        # Added in sequence in the dtype itself: half types stop when adding 1 changes nothing.
        np.add.at(hist, places[inside], x.dtype.type(1) if weights is None else weights[part][inside])
    hist = hist.reshape(shape)
    if density:
        hist = div(hist, sum_all(hist))
        for i, e in enumerate(edges):
            hist = div(hist, sub(e[1:], e[:-1]).reshape([-1 if j == i else 1 for j in range(len(edges))]))
    return hist


def _histogram(self, bins, *, range=None, weight, density):
    x = self.reshape(-1, 1)
    if isinstance(bins, ndarray):
        edges = bins.copy()
    else:
        _check_bins(bins, 0)
        (edges,) = _equal_edges(x, [bins], range)
    return _counted(x, [edges], None if weight is None else weight.reshape(-1), density), edges


def _histogramdd(self, bins, range, weight, density):
    if isinstance(bins, int):
        bins = [bins] * self.shape[dim_of(self, -1)]
    edges = _equal_edges(self, bins, range)
    return _counted(self, edges, weight, density), edges


_DIFFERS = ["histc-dtype", "histogram-edges-unsorted", "missing-kernel"]
_row = partial(rows, like=np.histogram, differs=[*_DIFFERS, "histogram-bins", "histogram-of-one-edge", "flip-copies"])
_COUNTS = "Counts or sums of weights in"
_row("histogram.bin_ct histogram.bins_tensor", _histogram, f"{_COUNTS} equal or given bins, and the bin edges.")
_edges = lambda x, bins, limits, *_: _equal_edges(x, bins, limits)
rows("_histogramdd_bin_edges", _edges, "The edges of equal bins in each dimension.")
_counts = lambda x, bins, limits, *how: _counted(x, _equal_edges(x, bins, limits), *how)
rows("_histogramdd_from_bin_cts", _counts, f"{_COUNTS} multidimensional bins of equal size.")
rows("_histogramdd_from_bin_tensors", _counted, f"{_COUNTS} multidimensional bins between given edges.")
_DOC = f"{_COUNTS} multidimensional bins of equal size, and the edges of each dimension."
_row(
    "histogramdd histogramdd.int_bins",
    _histogramdd,
    _DOC,
    like=np.histogramdd,
    differs=[*_DIFFERS, "histogramdd-batches"],
)
_given = lambda x, edges, _, *how: (_counted(x, edges, *how), list(edges))
_DOC = "`histogramdd` between given edges, which are returned unchanged."
_row("histogramdd.TensorList_bins", _given, _DOC, like=np.histogramdd, differs=[*_DIFFERS, "histogramdd-batches"])

# ---------------------------------------------------------------- quantiles


def _quantile(x: ndarray, q: Any, dim: int | None, keepdim: bool, interpolation: str, *, op: str) -> ndarray:
    skip_nan = op == "nanquantile"
    if not isinstance(q, ndarray):
        check(0 <= q <= 1, f"quantile() q must be in the range [0, 1] but got {q:g}")
        q = np.asarray(q, x.dtype if x.dtype in dt.FLOATS else dt.get_default_dtype())
    if interpolation not in ("linear", "lower", "higher", "midpoint", "nearest"):
        told = "quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, but got"
        raise RuntimeError(f"{told} {interpolation}")
    check(x.size > 0, "quantile() input tensor must be non-empty")
    check(q.ndim <= 1, "quantile() q must be a scalar or 1D tensor")
    check(x.dtype in (dt.float32, dt.float64), "quantile() input tensor must be either float or double dtype")
    check(x.dtype == q.dtype, "quantile() q tensor must be same dtype as the input tensor")
    axis = None if dim is None else wrap_dim(dim, x.ndim)
    check(bool(((q >= 0) & (q <= 1)).all()), "quantile() q values must be in the range [0, 1]")
    rows = x.reshape(-1) if axis is None or x.ndim == 0 else np.moveaxis(x, axis, -1)
    check(rows.shape[-1] <= 2**24, "quantile() input tensor is too large")
    ordered = sort_stable(rows, stable=False)[0]
    n = ordered.shape[-1]
    nans = ordered != ordered
    last = n - 1 - (nans.sum(-1, keepdims=True) if skip_nan else 0)  # rank of the largest non-NaN value
    # Before 2.14, the float32 product 0.1 * 10 was rounded to 1
    counted = np.dtype(np.float64) if since("2.14") else x.dtype
    fractions = q.reshape(-1).astype(counted)
    rank = (fractions * last).astype(counted) if skip_nan else fractions * counted.type(n - 1)
    rank = np.broadcast_to(rank, (*ordered.shape[:-1], q.size))
    if skip_nan:
        rank = np.maximum(rank, 0)
    else:  # a row with NaN gives NaN, which the sort put last
        rank = np.where(nans.any(-1, keepdims=True), counted.type(n - 1), rank)
    rank = {"lower": np.floor, "higher": np.ceil, "nearest": np.rint}.get(interpolation, np.positive)(rank)
    below = rank.astype(np.int64)
    value = np.take_along_axis(ordered, below, -1)
    if interpolation in ("linear", "midpoint"):
        weight = np.full_like(rank, 0.5) if interpolation == "midpoint" else rank - below
        weight = weight.astype(x.dtype)
        above = np.take_along_axis(ordered, np.ceil(rank).astype(np.int64), -1)
        value = lerp(value, above, weight)
    value = np.ascontiguousarray(value)
    if keepdim and x.ndim:
        for d in range(x.ndim) if axis is None else (axis,):
            value = unsqueeze(value, d)
    out = np.moveaxis(value, -1, 0)
    return out if q.ndim else np.asarray(out[0])


_DIFFERS = ["quantile-dtypes", "quantile-methods", "quantile-size", "quantile-of-negative-zero", "zero-dim-axis"]
_row = partial(rows, differs=_DIFFERS)
_DOC = "The quantiles at the fractions ``q``; NaN if any element is NaN."
_row("quantile quantile.scalar", _quantile, _DOC, like=np.quantile)
_DOC = "`quantile` of the elements that are not NaN."
_row(
    "nanquantile nanquantile.scalar",
    _quantile,
    _DOC,
    like=np.nanquantile,
    differs=[*_DIFFERS, "nanquantile-of-nothing"],
)
