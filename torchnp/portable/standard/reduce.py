"""Reductions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torchnp import dtypes as dt
from torchnp.core.checks import check, wrap_dims
from torchnp.core.errors import mean_of
from torchnp.portable.library import ArrayLibrary
from torchnp.portable.rows import Array, portable
from torchnp.portable.standard.shape import wrap

Dims = int | Sequence[int] | None


def axes_of(x: Array, dim: Dims) -> tuple[int, ...]:
    """Return the dimensions that torch reduces; an empty ``dim`` means all."""
    dims = [dim] if isinstance(dim, int) else dim
    if not dims:
        return tuple(range(x.ndim))
    axes = wrap_dims(dims, x.ndim)
    return axes if x.ndim else ()


def _summed(lib: ArrayLibrary, x: Array, dtype: Any) -> Array:
    """Convert the operand of a sum: to ``dtype`` if it is given, else integers to int64."""
    if dtype is not None:
        return lib.astype(x, dtype)
    return x if dt.is_inexact(lib.dtype_of(x)) else lib.astype(x, dt.int64)


def _total(lib: ArrayLibrary, x: Array, axes: tuple[int, ...], keepdim: bool) -> Array:
    """Sum in the array's own dtype; as in torch, the sum starts with 0, so that -0 becomes 0."""
    found = lib.xp.sum(x, axis=axes, keepdims=keepdim, dtype=x.dtype) if axes else x
    return found + lib.number(0, lib.dtype_of(x)) if dt.is_inexact(lib.dtype_of(x)) else found


@portable("aten::sum.dim_IntList")
def sum_dim(lib: ArrayLibrary, self: Array, dim: Dims, keepdim: bool = False, *, dtype: Any = None) -> Array:
    x, axes = _summed(lib, self, dtype), axes_of(self, dim)
    return lib.in_opmath(lambda v: _total(lib, v, axes, keepdim), x)


@portable("aten::sum")
def sum_(lib: ArrayLibrary, self: Array, *, dtype: Any = None) -> Array:
    return sum_dim(lib, self, None, dtype=dtype)


@portable("aten::mean.dim")
def mean_dim(lib: ArrayLibrary, self: Array, dim: Dims, keepdim: bool = False, *, dtype: Any = None) -> Array:
    x, axes = self if dtype is None else lib.astype(self, dtype), axes_of(self, dim)
    check(dt.is_inexact(lib.dtype_of(x)), mean_of(lib.dtype_of(x)))
    count = math.prod(self.shape[d] for d in axes)
    if type(count) is int and not count:
        return lib.xp.sum(x, axis=axes, keepdims=keepdim) * lib.number(math.nan, lib.dtype_of(x))
    return lib.in_opmath(lambda v: _total(lib, v, axes, keepdim) / count, x)


@portable("aten::mean")
def mean(lib: ArrayLibrary, self: Array, *, dtype: Any = None) -> Array:
    return mean_dim(lib, self, None, dtype=dtype)


@portable("aten::prod.dim_int")
def prod_dim(lib: ArrayLibrary, self: Array, dim: int, keepdim: bool = False, *, dtype: Any = None) -> Array:
    x = _summed(lib, self, dtype)
    if not self.ndim:
        return x
    return lib.in_opmath(lambda v: lib.xp.prod(v, axis=wrap(dim, v.ndim), keepdims=keepdim, dtype=v.dtype), x)


@portable("aten::prod")
def prod(lib: ArrayLibrary, self: Array, *, dtype: Any = None) -> Array:
    return lib.in_opmath(lambda v: lib.xp.prod(v, dtype=v.dtype), _summed(lib, self, dtype))


def _correction(correction: Any) -> float:
    return 1.0 if correction is None else float(correction)


def _long_sum(lib: ArrayLibrary, x: Array, axes: tuple[int, ...], keepdim: bool) -> Array:
    """Sum in double, as torch's variances: many libraries add float32 numbers along a first dimension one by one."""
    d = lib.dtype_of(x)
    return lib.astype(lib.xp.sum(x, axis=axes, keepdims=keepdim, dtype=lib.theirs(lib.accumulator(d))), d)


def _variance(lib: ArrayLibrary, x: Array, axes: tuple[int, ...], correction: float, keepdim: bool) -> Array:
    count = math.prod(x.shape[d] for d in axes)
    mean_ = _long_sum(lib, x, axes, True) / count
    d = x - mean_
    squares = lib.xp.real(d * lib.xp.conj(d)) if dt.is_complex(lib.dtype_of(x)) else d * d
    freedom = count - correction
    if type(count) is int:
        freedom = max(freedom, 0)
    total = _long_sum(lib, squares, axes, keepdim)
    if type(freedom) in (int, float) and freedom == 0:  # makes 0/0 NaN in every library
        return (
            total * lib.number(math.nan, lib.dtype_of(total))
            if count <= 1
            else total / lib.number(0, lib.dtype_of(total))
        )
    return total / freedom


@portable("aten::var.correction")
def var_correction(
    lib: ArrayLibrary, self: Array, dim: Dims = None, *, correction: Any = None, keepdim: bool = False
) -> Array:
    axes = axes_of(self, dim)
    if not all(type(self.shape[d]) is not int or self.shape[d] for d in axes):
        return NotImplemented
    return lib.in_opmath(lambda x: _variance(lib, x, axes, _correction(correction), keepdim), self)


@portable("aten::std.correction")
def std_correction(
    lib: ArrayLibrary, self: Array, dim: Dims = None, *, correction: Any = None, keepdim: bool = False
) -> Array:
    axes = axes_of(self, dim)
    if not all(type(self.shape[d]) is not int or self.shape[d] for d in axes):
        return NotImplemented
    return lib.in_opmath(lambda x: lib.xp.sqrt(_variance(lib, x, axes, _correction(correction), keepdim)), self)


@portable("aten::var.dim")
def var_dim(lib: ArrayLibrary, self: Array, dim: Dims, unbiased: bool = True, keepdim: bool = False) -> Array:
    return var_correction(lib, self, dim, correction=int(unbiased), keepdim=keepdim)


@portable("aten::var")
def var(lib: ArrayLibrary, self: Array, unbiased: bool = True) -> Array:
    return var_correction(lib, self, correction=int(unbiased))


@portable("aten::std.dim")
def std_dim(lib: ArrayLibrary, self: Array, dim: Dims, unbiased: bool = True, keepdim: bool = False) -> Array:
    return std_correction(lib, self, dim, correction=int(unbiased), keepdim=keepdim)


@portable("aten::std")
def std(lib: ArrayLibrary, self: Array, unbiased: bool = True) -> Array:
    return std_correction(lib, self, correction=int(unbiased))


@portable("aten::var_mean.dim")
def var_mean_dim(
    lib: ArrayLibrary, self: Array, dim: Dims, unbiased: bool = True, keepdim: bool = False
) -> tuple[Array, Array]:
    return var_mean_correction(lib, self, dim, correction=int(unbiased), keepdim=keepdim)


@portable("aten::std_mean.dim")
def std_mean_dim(
    lib: ArrayLibrary, self: Array, dim: Dims, unbiased: bool = True, keepdim: bool = False
) -> tuple[Array, Array]:
    return std_mean_correction(lib, self, dim, correction=int(unbiased), keepdim=keepdim)


@portable("aten::std_mean.correction")
def std_mean_correction(
    lib: ArrayLibrary, self: Array, dim: Dims = None, *, correction: Any = None, keepdim: bool = False
) -> tuple[Array, Array]:
    deviation = std_correction(lib, self, dim, correction=correction, keepdim=keepdim)
    return NotImplemented if deviation is NotImplemented else (deviation, mean_dim(lib, self, dim, keepdim))


@portable("aten::var_mean.correction")
def var_mean_correction(
    lib: ArrayLibrary, self: Array, dim: Dims = None, *, correction: Any = None, keepdim: bool = False
) -> tuple[Array, Array]:
    variance = var_correction(lib, self, dim, correction=correction, keepdim=keepdim)
    return NotImplemented if variance is NotImplemented else (variance, mean_dim(lib, self, dim, keepdim))


# ---------------------------------------------------------------- extremes


def _extreme(lib: ArrayLibrary, function: str, x: Array, axes: tuple[int, ...], keepdim: bool) -> Array:
    if not axes:
        return x
    if dt.is_bool(lib.dtype_of(x)):  # the standard defines order only for numbers
        return lib.astype(_extreme(lib, function, lib.astype(x, dt.uint8), axes, keepdim), dt.bool_)
    if 0 in x.shape and not any(x.shape[d] == 0 for d in axes):  # an empty result, which Dask refuses
        kept = [1 if d in axes else n for d, n in enumerate(x.shape) if keepdim or d not in axes]
        return lib.full(kept, 0, lib.dtype_of(x))
    return getattr(lib.xp, function)(x, axis=axes, keepdims=keepdim)


@portable("aten::amax")
def amax(lib: ArrayLibrary, self: Array, dim: Dims = (), keepdim: bool = False) -> Array:
    return _extreme(lib, "max", self, axes_of(self, dim), keepdim)


@portable("aten::amin")
def amin(lib: ArrayLibrary, self: Array, dim: Dims = (), keepdim: bool = False) -> Array:
    return _extreme(lib, "min", self, axes_of(self, dim), keepdim)


@portable("aten::aminmax")
def aminmax(lib: ArrayLibrary, self: Array, *, dim: int | None = None, keepdim: bool = False) -> tuple[Array, Array]:
    return amin(lib, self, dim, keepdim), amax(lib, self, dim, keepdim)


@portable("aten::max")
def max_(lib: ArrayLibrary, self: Array) -> Array:
    return amax(lib, self)


@portable("aten::min")
def min_(lib: ArrayLibrary, self: Array) -> Array:
    return amin(lib, self)


def _position(lib: ArrayLibrary, function: str, x: Array, dim: int | None, keepdim: bool) -> Array:
    """Return the index of the first extreme element, or of the first NaN if there is one."""
    if dt.is_bool(lib.dtype_of(x)):
        x = lib.astype(x, dt.uint8)
    if not x.ndim:
        return lib.full((), 0, dt.int64)
    if dt.is_inexact(lib.dtype_of(x)):
        top = lib.number(math.inf if function == "argmax" else -math.inf, lib.dtype_of(x))
        nan = lib.xp.isnan(x)
        axis = None if dim is None else wrap(dim, x.ndim)
        has = lib.xp.any(nan, axis=axis, keepdims=True)
        x = lib.xp.where(has, lib.xp.where(nan, top, -top), x)
    found = getattr(lib.xp, function)(x, axis=None if dim is None else wrap(dim, x.ndim), keepdims=keepdim)
    return lib.astype(found, dt.int64)


@portable("aten::argmax")
def argmax(lib: ArrayLibrary, self: Array, dim: int | None = None, keepdim: bool = False) -> Array:
    return _position(lib, "argmax", self, dim, keepdim)


@portable("aten::argmin")
def argmin(lib: ArrayLibrary, self: Array, dim: int | None = None, keepdim: bool = False) -> Array:
    return _position(lib, "argmin", self, dim, keepdim)


@portable("aten::max.dim")
def max_dim(lib: ArrayLibrary, self: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
    return _extreme(lib, "max", self, axes_of(self, dim), keepdim), argmax(lib, self, dim, keepdim)


@portable("aten::min.dim")
def min_dim(lib: ArrayLibrary, self: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
    return _extreme(lib, "min", self, axes_of(self, dim), keepdim), argmin(lib, self, dim, keepdim)


# ---------------------------------------------------------------- truths


def _truth(names: tuple[str, str, str], function: str) -> None:
    whole, one, several = names

    def reduced(lib: ArrayLibrary, x: Array, axes: tuple[int, ...], keepdim: bool) -> Array:
        found = lib.astype(x, dt.bool_)
        found = getattr(lib.xp, function)(found, axis=axes, keepdims=keepdim) if axes else found
        return lib.astype(found, dt.uint8) if lib.dtype_of(x) == dt.uint8 else found  # torch keeps uint8

    portable(whole)(lambda lib, self: reduced(lib, self, axes_of(self, None), False))
    portable(one)(lambda lib, self, dim, keepdim=False: reduced(lib, self, axes_of(self, dim), keepdim))
    portable(several)(
        lambda lib, self, dim=None, keepdim=False: reduced(
            lib, self, () if dim is not None and not dim else axes_of(self, dim), keepdim
        )
    )


_truth(("aten::any", "aten::any.dim", "aten::any.dims"), "any")
_truth(("aten::all", "aten::all.dim", "aten::all.dims"), "all")


@portable("aten::count_nonzero.dim_IntList", "aten::count_nonzero")
def count_nonzero(lib: ArrayLibrary, self: Array, dim: Dims = None) -> Array:
    return lib.xp.sum(lib.astype(lib.astype(self, dt.bool_), dt.int64), axis=axes_of(self, dim))


# ---------------------------------------------------------------- norms


@portable("aten::linalg_vector_norm")
def linalg_vector_norm(
    lib: ArrayLibrary, self: Array, ord: Any = 2, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None
) -> Array:
    x = self if dtype is None else lib.astype(self, dtype)
    axes = axes_of(x, dim)
    if dt.is_complex(lib.dtype_of(x)) or not all(type(x.shape[d]) is not int or x.shape[d] for d in axes):
        return NotImplemented
    if not axes:
        return lib.xp.abs(x) if ord else NotImplemented
    return lib.in_opmath(lambda v: _norm(lib, v, float(ord), axes, keepdim), x)


def _norm(lib: ArrayLibrary, x: Array, order: float, axes: tuple[int, ...], keepdim: bool) -> Array:
    size = lib.xp.abs(x)
    if math.isinf(order):
        return _extreme(lib, "max" if order > 0 else "min", size, axes, keepdim)
    if order == 0:
        return lib.xp.sum(lib.astype(x != 0, lib.dtype_of(x)), axis=axes, keepdims=keepdim)
    if order == 1:
        return lib.xp.sum(size, axis=axes, keepdims=keepdim)
    if order == 2:
        return lib.xp.sqrt(lib.xp.sum(x * x, axis=axes, keepdims=keepdim))
    return lib.xp.pow(lib.xp.sum(lib.xp.pow(size, order), axis=axes, keepdims=keepdim), 1 / order)


@portable("aten::norm.ScalarOpt_dim")
def norm_dim(lib: ArrayLibrary, self: Array, p: Any, dim: Dims, keepdim: bool = False) -> Array:
    return linalg_vector_norm(lib, self, 2 if p is None else p, dim, keepdim)


@portable("aten::norm.ScalarOpt_dim_dtype")
def norm_dim_dtype(lib: ArrayLibrary, self: Array, p: Any, dim: Dims, keepdim: bool, *, dtype: Any) -> Array:
    return linalg_vector_norm(lib, self, 2 if p is None else p, dim, keepdim, dtype=dtype)


@portable("aten::norm.Scalar")
def norm_scalar(lib: ArrayLibrary, self: Array, p: Any = 2) -> Array:
    return linalg_vector_norm(lib, self, p)
