"""Running sums, products and extrema."""

from __future__ import annotations

import itertools
import math
from functools import partial
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, check_type, dim_of, refuse, require, wrap_dim
from torchnp.core.fast_path import exact, is_axis
from torchnp.core.inplace_out_spec import Bound, WriteSpec
from torchnp.core.registry import kernel
from torchnp.core.target import since
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._memory import axis_first, element_strides
from torchnp.kernels._reduction import NOT_NUMERIC, NOT_ORDERED, ordered, share_tiles
from torchnp.kernels.numerics.blocks import STRIP, row_major_blocks
from torchnp.kernels.numerics.fma import fma
from torchnp.kernels.power import complex_logaddexp
from torchnp.kernels.reduce import look_told
from torchnp.kernels.scatter import scatter_add
from torchnp.kernels.view import as_strided
from torchnp.threads import blocks, share
from torchnp.thresholds import Threshold

ndarray = np.ndarray

# ---------------------------------------------------------------- sums and products

# torch accumulates float32 in double; half types in float32.
_WIDE = {dt.float32: dt.float64, dt.complex64: dt.complex128, dt.float16: dt.float32, dt.bfloat16: dt.float32}

_COLUMNS: Threshold = 1 << 9  # sums side by side; from here on, one ufunc call per step is faster than `accumulate`
_SHORT: Threshold = 64  # steps up to which sums that are not side by side are copied next to each other


def _scan(x: ndarray, dim: int, *, dtype: Any, op: str, ufunc: np.ufunc) -> ndarray:
    out = dt.as_dtype(dtype) if dtype is not None else x.dtype if dt.is_inexact(x.dtype) else dt.int64
    axis = wrap_dim(dim, x.ndim)
    if x.ndim == 0:
        return dt.cast(x, out).copy()
    if not x.size:
        return np.empty(x.shape, out)
    refuse(f"{op}_out_cpu", out, NOT_NUMERIC | {dt.bool_})
    wide = _WIDE.get(out, out)
    if ufunc is np.multiply and dt.is_complex(out):
        value = dt.cast(dt.cast(x, out), wide)
        steps = itertools.accumulate(np.moveaxis(value, axis, 0), _fused_product, initial=np.ones((), value.dtype))
        return dt.cast(np.stack([*steps][1:], axis), out)
    return _accumulate(ufunc, x, axis, wide, out, ufunc is np.add and dt.is_inexact(out))


def _accumulate(ufunc: np.ufunc, x: ndarray, axis: int, wide: np.dtype, out: np.dtype, from_zero: bool) -> ndarray:
    """Apply ``ufunc.accumulate`` in the dtype ``wide``, tile by tile, and return the result in the dtype ``out``.

    ``from_zero`` turns results of -0 into 0.
    """

    def run(part: ndarray, before: ndarray | None = None) -> ndarray:
        value = dt.cast(dt.cast(part, out), wide)
        if before is not None:
            value = value.copy(order="K") if np.may_share_memory(value, x) else value
            ufunc(before, value[:1], value[:1])
        if math.prod(value.shape[1:]) < _COLUMNS:
            return ufunc.accumulate(value, 0)
        if abs(value.strides[0]) == value.itemsize:
            if len(value) > _SHORT:
                return ufunc.accumulate(value, 0)
            value = np.ascontiguousarray(value)
        sums = np.empty_like(value)
        sums[0] = value[0]
        for i in range(1, len(value)):
            ufunc(sums[i - 1], value[i], sums[i])
        return sums

    result = np.empty_like(x, out)
    order = axis_first(x, axis)
    source, to = x.transpose(order), result.transpose(order)
    n, rest = len(source), source.shape[1:]
    columns = max(STRIP // n, 1 if abs(source.strides[0]) == x.itemsize else 2 * _COLUMNS)
    rows = max(STRIP // min(columns, math.prod(rest)), 1)

    def scan(tile: tuple[slice, ...]) -> None:
        total = None
        for steps in blocks(n, rows):
            value = run(source[(steps, *tile)], total)
            total = value[-1:]
            to[(steps, *tile)] = dt.cast(value + wide.type(0) if from_zero else value, out)

    share(scan, list(row_major_blocks(rest, 1, columns)))
    return result


def _fused_product(a: ndarray, b: ndarray) -> ndarray:
    """Multiply complex numbers with an FMA in each part, as torch's compiled code does."""
    parts = fma(a.real, b.real, -(a.imag * b.imag)), fma(a.real, b.imag, a.imag * b.real)
    return np.stack(parts, -1).view(b.dtype)[..., 0]


def _quick_cumsum(self, dim, *, dtype=None):
    if type(self) is not ndarray or self.dtype is not dt.float32 or dtype is not None or not is_axis(dim, self.ndim):
        return None
    if not self.flags.c_contiguous:
        return None
    if self.size > _FEW:
        return _large_cumsum(self, wrap_dim(dim, self.ndim))
    value = self.astype(dt.float64)
    np.add(value, _ZERO, value)  # torch starts from +0
    return np.add.accumulate(value, dim, None, value).astype(dt.float32)


_ZERO = np.zeros(())
_FEW: Threshold = 1 << 12  # elements up to which one pass in float64 is faster than `_large_cumsum`
_RUN: Threshold = 32  # terms that are summed by one product with a triangular matrix of ones
_TRIANGLE = np.triu(np.ones((_RUN, _RUN)))


def _large_cumsum(x: ndarray, axis: int) -> ndarray | None:
    n, inner = x.shape[axis], math.prod(x.shape[axis + 1 :])
    out = np.empty(x.shape, x.dtype)
    if inner >= 128:  # a vector addition for each step
        for rows, to in zip(x.reshape(-1, n, inner), out.reshape(-1, n, inner), strict=True):
            total = np.zeros(inner)
            for row, sums in zip(rows, to, strict=True):
                np.add(total, row, total)
                sums[...] = total
        return out
    if inner > 1 or n < 2 * _RUN:
        return None
    whole = n // _RUN * _RUN
    rows, to = x.reshape(-1, n), out.reshape(-1, n)
    finite = []

    def scan(block: slice) -> None:
        value = rows[block].astype(np.float64)
        sums = np.matmul(value[:, :whole].reshape(len(value), -1, _RUN), _TRIANGLE)
        ends = np.add.accumulate(sums[:, :, -1], 1)
        finite.append(np.isfinite(ends[:, -1]).all())
        sums[:, 1:] += ends[:, :-1, None]
        to[block, :whole] = sums.reshape(len(value), whole)
        if whole < n:
            to[block, whole:] = np.add.accumulate(value[:, whole:], 1) + ends[:, -1:]

    share_tiles(scan, *rows.shape)
    if not all(finite):  # 0 * inf is NaN: the products are wrong before an infinity
        return None
    return out


def _look(bound: Bound, targets: list[ndarray]) -> None:
    """Check the dimension, then the target's dtype against the requested one, before torch dispatches by dtype."""
    if bound["self"] is not targets[0]:
        look_told(bound, targets)
    elif bound["dtype"] is not None:
        wrap_dim(bound["dim"], bound["self"].ndim)
        d, told = targets[0].dtype, dt.as_dtype(bound["dtype"])
        words = f"input tensor dtype {dt.c_name(d)} and output tensor dtype {dt.c_name(told)} should match"
        check(d == told, f"Bad in-place call: {words}")


_DIFFERS = ["sum-dtype", "cumsum-accumulator", "zero-dim-axis", "half-cumsum", "cumsum-needs-dim", "missing-kernel"]
_declare = partial(rows, differs=_DIFFERS, writes=WriteSpec(dtype_before_target=True, inplace=_look, out=_look))
_DOC = "Running {} along a dimension."
(cumsum,) = _declare("cumsum", _scan, _DOC.format("sums"), ufunc=np.add, like=np.cumsum, quick=exact(_quick_cumsum))
(cumprod,) = _declare(
    "cumprod",
    _scan,
    _DOC.format("products"),
    ufunc=np.multiply,
    like=np.cumprod,
    differs=[*_DIFFERS, "complex-zero-sign"],
)


@kernel("_logcumsumexp", "logcumsumexp", differs=["half-opmath"])
def logcumsumexp(self, dim):
    """Logarithms of running sums of exponentials."""
    axis = wrap_dim(dim, self.ndim)
    require("logcumsumexp_out_cpu", self.dtype, (*dt.FLOATS, dt.complex64, dt.complex128))
    if not (self.ndim and self.size):
        return self.copy()
    wide = _WIDE.get(self.dtype, self.dtype)
    if dt.is_complex(wide):
        return dt.cast(_complex_logcumsumexp(dt.cast(self, wide), axis), self.dtype)
    return _accumulate(np.logaddexp, self, axis, wide, self.dtype, True)


def _complex_logcumsumexp(x: ndarray, axis: int) -> ndarray:
    """Compute complex `logcumsumexp` step by step; NaN stays."""
    start = np.full(x.shape[:axis] + x.shape[axis + 1 :], -np.inf, x.dtype)
    step = lambda total, row: complex_logaddexp(row, total)
    steps = itertools.accumulate(np.moveaxis(x, axis, 0), step, initial=start)
    return np.stack([*steps][1:], axis) if x.shape[axis] else x.copy()


# ---------------------------------------------------------------- extrema


def _running(x: ndarray, dim: int, *, op: str, ufunc: np.ufunc) -> tuple[ndarray, ndarray]:
    """Return running extrema and their indices: the last of equal elements, and after a NaN the last NaN."""
    if x.ndim == 0 and dim not in (0, -1):
        raise IndexError(f"{op}(): Expected reduction dim -1 or 0 for scalar but got {dim}")
    if x.size == 0 and since("2.14"):
        wrap_dim(dim, x.ndim)
    if x.ndim == 0 or x.size == 0:
        return x.copy(), np.zeros(x.shape, np.int64)
    axis = wrap_dim(dim, x.ndim)
    refuse(f"{op}_cpu", x.dtype, NOT_ORDERED)
    if axis == x.ndim - 1 and x.flags.c_contiguous:
        return _running_in_rows(x, ufunc)
    value = ordered(x)
    best = ufunc.accumulate(value, axis)
    hit = (value == best) | (value != value)
    n = x.shape[axis]
    positions = np.arange(n).reshape([n if i == axis else 1 for i in range(x.ndim)])
    index = np.maximum.accumulate(np.where(hit, positions, 0), axis)
    return np.take_along_axis(x, index, axis), index


def _running_in_rows(x: ndarray, ufunc: np.ufunc) -> tuple[ndarray, ndarray]:
    """Return `_running` along the last dimension of a row-major tensor: each extremum is repeated up to the next."""
    values, indices, n = np.empty_like(x), np.empty(x.shape, np.int64), x.shape[-1]
    rows, best_rows, index_rows = x.reshape(-1, n), values.reshape(-1, n), indices.reshape(-1, n)

    def scan(block: slice) -> None:
        value = ordered(rows[block])
        hit = value == ufunc.accumulate(value, 1)
        if x.dtype.kind not in "iub":
            hit |= value != value
        at = np.flatnonzero(hit)
        lengths = np.diff(at, append=value.size)
        best_rows[block] = np.repeat(rows[block].reshape(-1)[at], lengths).reshape(-1, n)
        index_rows[block] = np.repeat(at % n, lengths).reshape(-1, n)

    share_tiles(scan, *rows.shape)
    return values, indices


def _written(self, values, indices, dim, *, op, running):
    refuse(f"{op}_cpu", self.dtype, NOT_ORDERED)
    check_type(self.dtype, values)
    check_type(dt.int64, indices)
    axis, *_ = (dim_of(x, dim) for x in (self, values, indices))
    for d in range(self.ndim):
        for x in (values, indices) if d != axis else ():
            wrap_dim(d, x.ndim)
    for target, value in zip((values, indices), running(self, dim), strict=True):
        # torch writes elements in the shape of ``self``, with each target's own strides.
        as_strided(target, self.shape, element_strides(target)[: self.ndim])[...] = value


_DIFFERS = ["cummax-indices", "zero-dim-axis", "missing-kernel"]
_DOC = "Running {} along a dimension and the last index of each; NaN propagates."
(_cummax,) = rows(
    "cummax", _running, _DOC.format("maxima"), ufunc=np.maximum, like=np.maximum.accumulate, differs=_DIFFERS
)
(_cummin,) = rows(
    "cummin", _running, _DOC.format("minima"), ufunc=np.minimum, like=np.minimum.accumulate, differs=_DIFFERS
)
rows("_cummax_helper", _written, "`cummax` written into ``values`` and ``indices``.", op="cummax", running=_cummax)
rows("_cummin_helper", _written, "`cummin` written into ``values`` and ``indices``.", op="cummin", running=_cummin)


@kernel("cummaxmin_backward")
def cummaxmin_backward(grad, input, indices, dim):
    """Gradient of `cummax` and `cummin`: each gradient, added to the element that was the extremum."""
    return scatter_add(np.zeros(input.shape, input.dtype), dim, indices, grad) if input.size else input
