"""Comparisons, predicates, selections and clamps."""

from __future__ import annotations

import math
from typing import Any

from torchnp import dtypes as dt
from torchnp.core.checks import check
from torchnp.portable.library import ArrayLibrary
from torchnp.portable.rows import Array, portable


def _comparison(names: tuple[str, str], function: str) -> None:
    @portable(*names)
    def row(lib: ArrayLibrary, self: Array, other: Any) -> Array:
        a, b = lib.promote(self, other)
        if dt.is_bool(lib.dtype_of(a)) and function not in ("equal", "not_equal"):
            a, b = lib.astype(a, dt.uint8), lib.astype(b, dt.uint8)  # the standard defines order only for numbers
        return getattr(lib.xp, function)(a, b)


_comparison(("aten::eq.Tensor", "aten::eq.Scalar"), "equal")
_comparison(("aten::ne.Tensor", "aten::ne.Scalar"), "not_equal")
_comparison(("aten::lt.Tensor", "aten::lt.Scalar"), "less")
_comparison(("aten::le.Tensor", "aten::le.Scalar"), "less_equal")
_comparison(("aten::gt.Tensor", "aten::gt.Scalar"), "greater")
_comparison(("aten::ge.Tensor", "aten::ge.Scalar"), "greater_equal")


def _logical(name: str, function: str) -> None:
    @portable(name)
    def row(lib: ArrayLibrary, self: Array, other: Array) -> Array:
        return getattr(lib.xp, function)(lib.astype(self, dt.bool_), lib.astype(other, dt.bool_))


_logical("aten::logical_and", "logical_and")
_logical("aten::logical_or", "logical_or")
_logical("aten::logical_xor", "logical_xor")


@portable("aten::logical_not")
def logical_not(lib: ArrayLibrary, self: Array) -> Array:
    return lib.xp.logical_not(lib.astype(self, dt.bool_))


def _predicate(name: str, function: str, of_integers: bool) -> None:
    @portable(name)
    def row(lib: ArrayLibrary, self: Array) -> Array:
        if dt.is_inexact(lib.dtype_of(self)):
            return getattr(lib.xp, function)(self)
        return lib.full(self.shape, of_integers, dt.bool_)


_predicate("aten::isnan", "isnan", False)
_predicate("aten::isinf", "isinf", False)
_predicate("aten::isfinite", "isfinite", True)


@portable("aten::isposinf")
def isposinf(lib: ArrayLibrary, self: Array) -> Array:
    return self == math.inf if dt.is_inexact(lib.dtype_of(self)) else lib.full(self.shape, False, dt.bool_)


@portable("aten::isneginf")
def isneginf(lib: ArrayLibrary, self: Array) -> Array:
    return self == -math.inf if dt.is_inexact(lib.dtype_of(self)) else lib.full(self.shape, False, dt.bool_)


@portable("aten::where.self", "aten::where.ScalarOther", "aten::where.ScalarSelf", "aten::where.Scalar")
def where(lib: ArrayLibrary, condition: Array, self: Any, other: Any) -> Array:
    d = lib.dtype_of(condition)
    words = "where expected condition to be a boolean tensor, but got a tensor with dtype"
    check(d in (dt.bool_, dt.uint8), f"{words} {dt.scalar_name(d)}")
    return lib.xp.where(lib.astype(condition, dt.bool_), *lib.promote(self, other))


@portable("aten::masked_fill.Scalar", "aten::masked_fill.Tensor")
def masked_fill(lib: ArrayLibrary, self: Array, mask: Array, value: Any) -> Array:
    d = lib.dtype_of(self)
    if lib.is_array(value):
        words = "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with"
        check(not value.ndim, f"{words} {value.ndim} dimension(s).")
    value = lib.astype(value, d) if lib.is_array(value) else lib.number(value, d)
    return lib.xp.where(lib.astype(mask, dt.bool_), value, self)


def _larger(lib: ArrayLibrary, a: Array, b: Array) -> Array:
    if dt.is_bool(lib.dtype_of(a)):
        return lib.xp.logical_or(a, b)
    return lib.xp.maximum(a, b)


def _smaller(lib: ArrayLibrary, a: Array, b: Array) -> Array:
    if dt.is_bool(lib.dtype_of(a)):
        return lib.xp.logical_and(a, b)
    return lib.xp.minimum(a, b)


@portable("aten::maximum", "aten::max.other")
def maximum(lib: ArrayLibrary, self: Array, other: Array) -> Array:
    return _larger(lib, *lib.promote(self, other))


@portable("aten::minimum", "aten::min.other")
def minimum(lib: ArrayLibrary, self: Array, other: Array) -> Array:
    return _smaller(lib, *lib.promote(self, other))


@portable("aten::fmax")
def fmax(lib: ArrayLibrary, self: Array, other: Array) -> Array:
    a, b = lib.promote(self, other)
    if not dt.is_inexact(lib.dtype_of(a)):
        return _larger(lib, a, b)
    return lib.xp.where(lib.xp.isnan(a), b, lib.xp.where(lib.xp.isnan(b), a, lib.xp.maximum(a, b)))


@portable("aten::fmin")
def fmin(lib: ArrayLibrary, self: Array, other: Array) -> Array:
    a, b = lib.promote(self, other)
    if not dt.is_inexact(lib.dtype_of(a)):
        return _smaller(lib, a, b)
    return lib.xp.where(lib.xp.isnan(a), b, lib.xp.where(lib.xp.isnan(b), a, lib.xp.minimum(a, b)))


@portable("aten::clamp", "aten::clamp.Tensor", "aten::clip", "aten::clip.Tensor")
def clamp(lib: ArrayLibrary, self: Array, min: Any = None, max: Any = None) -> Array:
    """Clamp; NaNs of ``self`` stay, and NaN bounds give NaN."""
    d = lib.result_type(*(x for x in (self, min, max) if x is not None))
    x = lib.astype(self, d)
    for bound, choose in ((min, _larger), (max, _smaller)):
        if lib.is_array(bound):
            x = choose(lib, x, lib.astype(bound, d))
        elif bound is not None and bound != bound:
            return lib.full(self.shape, math.nan, d)
        elif bound is not None:
            x = choose(lib, x, lib.number(bound, d))
    return x


@portable("aten::clamp_min", "aten::clamp_min.Tensor")
def clamp_min(lib: ArrayLibrary, self: Array, min: Any) -> Array:
    return clamp(lib, self, min)


@portable("aten::clamp_max", "aten::clamp_max.Tensor")
def clamp_max(lib: ArrayLibrary, self: Array, max: Any) -> Array:
    return clamp(lib, self, None, max)


@portable("aten::heaviside")
def heaviside(lib: ArrayLibrary, self: Array, values: Array) -> Array:
    if dt.is_bool(lib.dtype_of(self)):
        return lib.xp.logical_or(self, values)
    zero, one = lib.number(0, lib.dtype_of(self)), lib.number(1, lib.dtype_of(self))
    return lib.xp.where(self == zero, values, lib.xp.where(self > zero, one, zero))
