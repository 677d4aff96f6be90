"""Prims that reduce dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchnp.core.checks import check
from torchnp.core.registry import kernel
from torchnp.core.target import since
from torchnp.dtypes import is_inexact
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._spatial import Ints
from torchnp.kernels.prims._portable import Array, aten, check_index, namespace
from torchnp.layout.stride_rules import cloned, dense

ndarray = np.ndarray


def _dims(x: Array, dims: Any, output_dtype: Any = None, name: str = "", filled: bool = False) -> list[int]:
    """Return the dimensions after torch's checks; None fails in the loop, as in torch (though its schemas allow it)."""
    for d in dims:
        check_index(x.ndim, d)
    _refuse_dtype(output_dtype, name)
    if filled:
        for d in dims:
            words = f"{name}(): Expected reduction dim {d} to have non-zero size."
            check(not x.ndim or x.shape[d] != 0, words, IndexError)
    for d in dims:
        check(list(dims).count(d) == 1, f"dim {d} appears multiple times in the list of dims")
    return list(dims)


def _refuse_dtype(output_dtype: Any, name: str) -> None:
    """Fail as torch does: its schemas have an ``output_dtype`` that none of its implementations accepts."""
    if output_dtype is not None:
        if name == "sum" and not since("2.13"):
            got = "(Tensor, list, output_dtype=torch.dtype), but expected one of:"
            raise TypeError(f"sum() received an invalid combination of arguments - got {got}")
        raise TypeError(f"{name}() got an unexpected keyword argument 'output_dtype'")


def _portable(name: str, inp: Array, dims: list[int], **more: Any) -> Array:
    """Reduce an array of another library; an empty list of dimensions means all."""
    axes = tuple(d for d in dims if inp.ndim) or tuple(range(inp.ndim))
    xp = namespace(inp)
    if name == "sum" and not inp.ndim and xp.isdtype(inp.dtype, "complex floating"):
        return inp + xp.zeros_like(inp)  # adding 0 turns -0 into 0, as in torch's sum
    if name in ("sum", "prod") and xp.isdtype(inp.dtype, "integral"):  # the standard keeps unsigned sums unsigned
        inp = xp.astype(inp, xp.int64)
    if xp.isdtype(inp.dtype, "bool"):  # the standard adds and orders numbers only
        found = getattr(xp, name)(xp.astype(inp, xp.int64), axis=axes)
        return xp.astype(found, inp.dtype) if name in ("max", "min") else found
    if name == "var" and xp.isdtype(inp.dtype, "complex floating"):  # the standard has `var` for real numbers only
        parts = [xp.var(part, axis=axes, **more) for part in (xp.real(inp), xp.imag(inp))]
        return parts[0] + parts[1]
    return getattr(xp, name)(inp, axis=axes, **more)


def _reduced(inp: Array, dims: Ints, output_dtype: Any, *, op: str, of: str, portable: str, filled: bool) -> Array:
    axes = _dims(inp, dims, output_dtype, op, filled)
    return aten(of)(inp, axes) if type(inp) is ndarray else _portable(portable, inp, axes)


for _name, _of, _like, _filled, _doc in (
    ("prims::sum", "sum.dim_IntList", np.sum, False, "Sum over dimensions; integers give int64."),
    ("prims::amax", "amax", np.max, True, "Maximum over dimensions."),
    ("prims::amin", "amin", np.min, True, "Minimum over dimensions."),
):
    _by: dict[str, Any] = {
        "of": _of,
        "portable": _like.__name__,
        "like": _like,
        "differs": ["empty-dim", "zero-dim-axis", "prims-count-from-front"],
        "filled": _filled,
    }
    rows(_name, _reduced, _doc, **_by)


@kernel(
    "prims::prod", like=np.prod, differs=["sum-dtype", "complex-zero-sign", "zero-dim-axis", "prims-count-from-front"]
)
def prod(inp: Array, dims: Any, *, output_dtype: Any = None) -> Array:
    """Product over dimensions; without any, a copy of the array."""
    for d in dims:
        check_index(inp.ndim, d)
    _refuse_dtype(output_dtype, "_prod_aten")
    if type(inp) is not ndarray:
        return _portable("prod", inp, list(dims)) if len(dims) else namespace(inp).asarray(inp, copy=True)
    out = inp
    for d in sorted(dims, reverse=True):
        out = aten("prod.dim_int")(out, d)
    return dense(out) if len(dims) else cloned(inp)


@kernel("prims::var", like=np.var, differs=["correction", "empty-dim", "variance-of-nothing", "prims-count-from-front"])
def var(inp: Array, dims: Ints | None, correction: float | None = 1, *, output_dtype: Any = None) -> Array:
    """Sum of squared distances from the mean, divided by N - correction."""
    _refuse_dtype(output_dtype, "_var_reduction_meta")
    if type(inp) is ndarray and dims is not None and not is_inexact(inp.dtype):
        dims = list(dict.fromkeys(dims))  # torch checks the dtype before repeated dimensions
    dims = _dims(inp, dims)
    if type(inp) is not ndarray:
        return _portable("var", inp, dims, correction=1 if correction is None else correction)
    return aten("var.correction")(inp, dims, correction=correction)
