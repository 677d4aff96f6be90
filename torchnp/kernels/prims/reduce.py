"""Prims that reduce dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.checks import check
from torchnp.kernels._spatial import Ints
from torchnp.kernels.prims._portable import Array, aten, check_index, dtype_in, namespace
from torchnp.registry import kernel

ndarray = np.ndarray


def _dims(x: Array, dims: Ints | None) -> list[int]:
    """The dimensions to reduce: all when none is named."""
    if dims is None:
        return list(range(x.ndim))
    for d in dims:
        check_index(x.ndim, d)
        check(list(dims).count(d) == 1, f"dim {d} appears multiple times in the list of dims")
    return list(dims)


def _cast(x: Array, dtype: Any) -> Array:
    if dtype is None:
        return x
    if type(x) is not ndarray:
        xp = namespace(x)
        return xp.astype(x, dtype_in(xp, dtype))
    return dt.cast(x, dt.as_dtype(dtype))


def _portable(name: str, inp: Array, dims: Ints | None, output_dtype: Any, **more: Any) -> Array:
    """Reduce an array of another library; no dimension named means all."""
    axes = tuple(d for d in _dims(inp, dims) if inp.ndim) or tuple(range(inp.ndim))
    xp = namespace(inp)
    if name in ("max", "min") and xp.isdtype(inp.dtype, "bool"):  # the standard orders numbers alone
        return _cast(xp.astype(getattr(xp, name)(xp.astype(inp, xp.uint8), axis=axes), inp.dtype), output_dtype)
    if name == "var" and xp.isdtype(inp.dtype, "complex floating"):  # of real numbers alone in the standard
        parts = [xp.var(part, axis=axes, **more) for part in (xp.real(inp), xp.imag(inp))]
        return _cast(parts[0] + parts[1], output_dtype)
    return _cast(getattr(xp, name)(inp, axis=axes, **more), output_dtype)


@kernel("prims::sum", like=np.sum, differs=["empty-dim"])
def sum(inp: Array, dims: Ints | None, *, output_dtype: Any = None) -> Array:
    """Sum over dimensions; integers give int64."""
    if type(inp) is not ndarray:
        return _portable("sum", inp, dims, output_dtype)
    return _cast(aten("sum.dim_IntList")(inp, _dims(inp, dims)), output_dtype)


@kernel("prims::prod", like=np.prod)
def prod(inp: Array, dims: Ints | None, *, output_dtype: Any = None) -> Array:
    """Product over dimensions; none named leaves the array as it is."""
    if dims is not None and not len(dims):
        return _cast(inp.copy("K") if type(inp) is ndarray else namespace(inp).asarray(inp, copy=True), output_dtype)
    if type(inp) is not ndarray:
        return _portable("prod", inp, dims, output_dtype)
    out = inp
    for d in sorted(range(inp.ndim) if dims is None else dims, reverse=True):
        check_index(inp.ndim, d)
        out = aten("prod.dim_int")(out, d)
    return _cast(out, output_dtype)


@kernel("prims::amax", like=np.amax, differs=["empty-dim"])
def amax(inp: Array, dims: Ints | None, *, output_dtype: Any = None) -> Array:
    """Maximum over dimensions."""
    if type(inp) is not ndarray:
        return _portable("max", inp, dims, output_dtype)
    return _cast(aten("amax")(inp, _dims(inp, dims)), output_dtype)


@kernel("prims::amin", like=np.amin, differs=["empty-dim"])
def amin(inp: Array, dims: Ints | None, *, output_dtype: Any = None) -> Array:
    """Minimum over dimensions."""
    if type(inp) is not ndarray:
        return _portable("min", inp, dims, output_dtype)
    return _cast(aten("amin")(inp, _dims(inp, dims)), output_dtype)


@kernel("prims::var", like=np.var, differs=["correction", "empty-dim"])
def var(inp: Array, dims: Ints | None, correction: float | None = 1, *, output_dtype: Any = None) -> Array:
    """Mean squared distance from the mean, over N - correction."""
    if type(inp) is not ndarray:
        return _portable("var", inp, dims, output_dtype, correction=1 if correction is None else correction)
    return _cast(aten("var.correction")(inp, _dims(inp, dims), correction=correction), output_dtype)
