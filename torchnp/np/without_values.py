"""Functions whose code in NumPy reads values, as an ``if`` does, and here chooses by `torch.where` if no values are here.

Handles, fake tensors and batched tensors have no values to read. On plain tensors, NumPy's own code runs.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torchnp._private_numpy import NO_VALUE
from torchnp.np import elementwise as el
from torchnp.np import reductions
from torchnp.np.arrays import TensorArray, unwrapped
from torchnp.np.dtypes import as_tensor, cast, values_are_here
from torchnp.np.rebind_numpy_functions import NAMESPACE, OVERRIDES, by_numpys_code, computed_by_numpy, rebound
from torchnp.np.table import add_row, row
from torchnp.np.ufunc import write

# ---------------------------------------------------------------- piecewise

_piecewise = by_numpys_code("piecewise")


@row("piecewise")
def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Tensor:
    """`numpy.piecewise` on tensors; without values, each function gets all elements."""
    given = as_tensor(x)
    if values_are_here(given):
        return _piecewise(x, condlist, funclist, *args, **kw)
    conditions = condlist if isinstance(condlist, (list, tuple)) else [condlist]
    conditions = [cast(as_tensor(c, like=given), torch.bool) for c in conditions]
    if len(funclist) == len(conditions) + 1:
        conditions.append(~torch.stack(conditions).any(0))
    if len(funclist) != len(conditions):
        n = len(conditions)
        raise ValueError(f"with {n} condition(s), either {n} or {n + 1} functions are expected")
    found = torch.zeros_like(given)
    for chosen, f in zip(conditions, funclist, strict=True):
        value = as_tensor(unwrapped(f(TensorArray(given), *args, **kw) if callable(f) else f), like=given)
        found = torch.where(chosen, cast(value, found.dtype), found)
    return found


# ---------------------------------------------------------------- means and variances without nans


def _numbers(x: Tensor, where: Any) -> tuple[Tensor, Tensor]:
    """Return ``x`` with zeros in place of nans, and where the elements to combine are."""
    chosen = ~torch.isnan(x)
    chosen = chosen if where is NO_VALUE else chosen & as_tensor(where, like=x)
    return torch.where(chosen, x, torch.zeros_like(x)), chosen


_nanmean = by_numpys_code("nanmean")


@row("nanmean", "no-integers lower-median")
def nanmean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = NO_VALUE, *, where: Any = NO_VALUE
) -> Tensor:
    """`numpy.nanmean` on tensors."""
    x = as_tensor(a)
    if values_are_here(x):
        return _nanmean(a, axis, dtype, out, keepdims, where=where)
    numbers, chosen = _numbers(x, where)
    return reductions.mean(numbers, axis, dtype, out, keepdims, where=chosen)


def _nan_variance(name: str, of_numbers: Callable) -> None:
    original = by_numpys_code(name)

    def function(
        a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = NO_VALUE, *,
        where: Any = NO_VALUE, **more: Any,
    ) -> Tensor:  # fmt: skip
        x = as_tensor(a)
        if values_are_here(x):
            return original(a, axis, dtype, out, ddof, keepdims, where=where, **more)
        numbers, chosen = _numbers(x, where)
        found = of_numbers(numbers, axis, dtype, None, ddof, keepdims, where=chosen, **more)
        count = el.add.reduce(chosen, axis, torch.int64, keepdims=keepdims is True)
        found = torch.where(count > more.get("correction", ddof), found, torch.full_like(found, torch.nan))
        return found if out is None else write(out, found)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`numpy.{name}` on tensors."
    add_row(name, function, "correction no-integers")


_nan_variance("nanvar", reductions.var)
_nan_variance("nanstd", reductions.std)

# ---------------------------------------------------------------- quantile and percentile

_along_axis: Any = inspect.unwrap(np.quantile).__globals__.get("_quantile")


def _quantile(arr: Any, quantiles: Any, axis: int = -1, method: str = "linear", out: Any = None, **more: Any) -> Any:
    """Do what NumPy's function of this name does: along an axis, without weights, for all methods."""
    original = rebound(_along_axis)
    known = original.__globals__["_QuantileMethods"]
    q = unwrapped(quantiles)
    if (
        values_are_here(arr.tensor, q)
        or not values_are_here(q)
        or more.get("weights") is not None
        or method not in known
    ):
        return original(arr, quantiles, axis=axis, method=method, out=out, **more)
    ordered = NAMESPACE.sort(NAMESPACE.moveaxis(arr, axis, 0), axis=0)
    at = NAMESPACE.asarray(known[method]["get_virtual_index"](arr.shape[axis], quantiles))
    if known[method]["fix_gamma"] is None or (method == "linear" and at.dtype.kind in "iu"):
        found = NAMESPACE.take(ordered, at, axis=0)
    else:
        below, above = original.__globals__["_get_indexes"](ordered, at, arr.shape[axis])
        weight = original.__globals__["_get_gamma"](at, below, known[method])
        weight = float(weight) if more.get("weak_q") else weight.reshape(at.shape + (1,) * (arr.ndim - 1))
        found = original.__globals__["_lerp"](ordered[below], ordered[above], weight)
    if arr.dtype.kind in "fc":
        last = ordered[-1]
        found = NAMESPACE.where(NAMESPACE.isnan(last), last.astype(found.dtype), found)
    return found if out is None else TensorArray(write(out.tensor, found.tensor))


OVERRIDES["_quantile"] = _quantile

# ---------------------------------------------------------------- the shape of a broadcast

_broadcast = computed_by_numpy("broadcast", np.broadcast)


def broadcast(*given: Any) -> Any:
    """`numpy.broadcast`; without values, an object with the shape alone."""
    if values_are_here(*unwrapped(given)):
        return _broadcast(*given)
    shape = tuple(torch.broadcast_shapes(*(NAMESPACE.asarray(x).shape for x in given)))
    return types.SimpleNamespace(shape=shape, ndim=len(shape))


OVERRIDES["broadcast"] = broadcast
