"""Softmax, log-softmax, logsumexp."""

from __future__ import annotations

from typing import Any

from torchnp import dtypes as dt
from torchnp.portable.library import ArrayLibrary
from torchnp.portable.rows import Array, portable
from torchnp.portable.standard.reduce import Dims, axes_of
from torchnp.portable.standard.shape import wrap


def _peak(lib: ArrayLibrary, x: Array, axes: tuple[int, ...]) -> Array:
    return lib.xp.max(x, axis=axes, keepdims=True)


def _softmax(lib: ArrayLibrary, x: Array, dim: int) -> Array:
    if not x.ndim:
        return lib.xp.ones_like(x)
    axes = (wrap(dim, x.ndim),)
    e = lib.xp.exp(x - _peak(lib, x, axes))
    return e / lib.xp.sum(e, axis=axes, keepdims=True)


def _log_softmax(lib: ArrayLibrary, x: Array, dim: int) -> Array:
    if not x.ndim:
        return lib.xp.zeros_like(x)
    axes = (wrap(dim, x.ndim),)
    x = x - _peak(lib, x, axes)
    return x - lib.xp.log(lib.xp.sum(lib.xp.exp(x), axis=axes, keepdims=True))


def _rows(name: str, composites: tuple[str, str], function: Any) -> None:
    """Declare a softmax and the composites that convert its operand first."""

    @portable(name)
    def row(lib: ArrayLibrary, self: Array, dim: int, half_to_float: bool) -> Array:
        x = lib.astype(self, dt.float32) if half_to_float else self
        return x if 0 in x.shape else lib.in_opmath(lambda v: function(lib, v, dim), x)

    @portable(*composites)
    def converted(lib: ArrayLibrary, self: Array, dim: int, dtype: Any = None) -> Array:
        return lib.call(name, self if dtype is None else lib.astype(self, dtype), dim, False)


_rows("aten::_softmax", ("aten::softmax.int", "aten::special_softmax"), _softmax)
_rows("aten::_log_softmax", ("aten::log_softmax.int", "aten::special_log_softmax"), _log_softmax)


@portable("aten::_safe_softmax")
def safe_softmax(lib: ArrayLibrary, self: Array, dim: int, dtype: Any = None) -> Array:
    """Return the softmax; rows that contain only -inf give 0."""
    found = lib.call("aten::softmax.int", self, dim, dtype)
    empty = lib.xp.all(self == float("-inf"), axis=wrap(dim, self.ndim), keepdims=True)
    return lib.xp.where(empty, lib.number(0, lib.dtype_of(found)), found)


@portable("aten::logsumexp", "aten::special_logsumexp")
def logsumexp(lib: ArrayLibrary, self: Array, dim: Dims, keepdim: bool = False) -> Array:
    axes = axes_of(self, dim)

    def f(x: Array) -> Array:
        peak = _peak(lib, x, axes) if axes else x
        peak = lib.xp.where(lib.xp.isfinite(peak), peak, lib.xp.zeros_like(peak))
        total = lib.xp.log(lib.xp.sum(lib.xp.exp(x - peak), axis=axes, keepdims=True)) + peak
        return total if keepdim or not axes else lib.xp.squeeze(total, axis=axes)

    if dt.is_complex(lib.dtype_of(self)) or any(type(self.shape[d]) is int and not self.shape[d] for d in axes):
        return NotImplemented
    return lib.in_opmath(f, lib.to_float(self))
