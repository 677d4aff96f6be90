"""Sums, means, extremes and other reductions, with NumPy's dtypes, axes and ``where=``."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from torchnp._private_numpy import NO_VALUE
from torchnp.np import elementwise as el
from torchnp.np.axes import merged_last, normal_axis, reduced_axes, restored
from torchnp.np.dtypes import as_tensor, carried_ordered, cast, kind, torch_dtype
from torchnp.np.reducing import accumulate_ufunc
from torchnp.np.sorting import sorted_with_places
from torchnp.np.table import add_row, row
from torchnp.np.ufunc import TensorUfunc, write

AXES = "empty-dim zero-dim-axis"


def _given(value: Any, default: Any = None) -> Any:
    return default if value is NO_VALUE else value


def _reduction(names: str, ufunc: TensorUfunc, undoes: str, typed: bool = True) -> None:
    """Add a reduction by a ufunc, with ``dtype=`` if it is ``typed``."""

    def sized(
        a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = NO_VALUE,
        initial: Any = NO_VALUE, where: Any = NO_VALUE,
    ) -> Tensor:  # fmt: skip
        return ufunc.reduce(a, axis, dtype, out, bool(_given(keepdims, False)), _given(initial), _given(where, True))

    def plain(
        a: Any, axis: Any = None, out: Any = None, keepdims: Any = NO_VALUE, initial: Any = NO_VALUE,
        where: Any = NO_VALUE,
    ) -> Tensor:  # fmt: skip
        return sized(a, axis, None, out, keepdims, initial, where)

    def truth(a: Any, axis: Any = None, out: Any = None, keepdims: Any = NO_VALUE, *, where: Any = NO_VALUE) -> Tensor:
        # NumPy's own code calls any(None).
        return sized(False if a is None else a, axis, None, out, keepdims, NO_VALUE, where)

    function = sized if typed else truth if ufunc.__name__.startswith("logical") else plain
    function.__name__ = function.__qualname__ = names.split()[0]
    function.__doc__ = f"`numpy.{names.split()[0]}` on tensors: ``{ufunc.__name__}.reduce``, by default along all axes."
    add_row(names, function, undoes)


_reduction("sum", el.add, f"{AXES} sum-dtype no-complex")
_reduction("prod", el.multiply, f"{AXES} sum-dtype half-prod")
_reduction("max amax", el.maximum, f"{AXES} max-with-indices no-complex-order", typed=False)
_reduction("min amin", el.minimum, f"{AXES} max-with-indices no-complex-order", typed=False)
_reduction("any", el.UFUNCS["logical_or"], f"{AXES} uint8-truth", typed=False)
_reduction("all", el.UFUNCS["logical_and"], f"{AXES} uint8-truth", typed=False)


def _count(x: Tensor, axes: tuple[int, ...], where: Any, keepdims: bool) -> Any:
    """Return how many elements a reduction combines: a number, or a tensor if there is a ``where``."""
    if where is not True:
        return el.add.reduce(as_tensor(where, like=x).broadcast_to(x.shape), axes, torch.int64, keepdims=keepdims)
    count = 1
    for a in axes:
        count *= x.shape[a]
    return count


def _strict_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    from torchnp.np.axes import normal_axes

    return normal_axes(axis if axis is None or isinstance(axis, tuple) else (axis,), ndim)


def _few(count: Any, words: str) -> None:
    if type(count) is int and count <= 0:
        warnings.warn(words, RuntimeWarning, stacklevel=4)


def _divided(total: Tensor, count: Any) -> Tensor:
    """Divide a sum by a count, in the sum's dtype; half types are divided in float32."""
    divisor = count.to(torch.float64) if isinstance(count, Tensor) else float(count)
    return cast(el.divide(total, divisor), total.dtype)


@row("mean", f"{AXES} no-integers")
def mean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = NO_VALUE, *, where: Any = NO_VALUE
) -> Tensor:
    """`numpy.mean` on tensors: integers are averaged in float64, float16 in float32."""
    x, keep, mask = as_tensor(a), bool(_given(keepdims, False)), _given(where, True)
    axes = _strict_axes(axis, x.dim()) if mask is True else reduced_axes(axis, x.dim())
    count = _count(x, axes, mask, keep)
    _few(count, "Mean of empty slice.")
    inner = None if dtype is None else torch_dtype(dtype)
    if inner is None and kind(x.dtype) in "biu":
        inner = torch.float64
    half = inner is None and x.dtype == torch.float16
    total = el.add.reduce(x, axes, torch.float32 if half else inner, None, keep, None, mask)
    found = _divided(total, count)
    found = cast(found, torch.float16) if half and out is None else found
    return found if out is None else write(out, found)


@row("var", f"{AXES} no-integers correction half-opmath variance-of-nothing")
def var(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = NO_VALUE, *,
    where: Any = NO_VALUE, mean: Any = NO_VALUE, correction: Any = NO_VALUE,
) -> Tensor:  # fmt: skip
    """`numpy.var` on tensors: the sum of squared distances from the mean, divided by N - ddof (by default N)."""
    found = _variance(as_tensor(a), axis, dtype, ddof, keepdims, where, mean, correction)
    return found if out is None else write(out, found)


def _variance(
    x: Tensor, axis: Any, dtype: Any, ddof: Any, keepdims: Any, where: Any, mean: Any, correction: Any
) -> Tensor:
    if correction is not NO_VALUE:
        if ddof != 0:
            raise ValueError("ddof and correction can't be provided simultaneously.")
        ddof = correction
    keep, mask = bool(_given(keepdims, False)), _given(where, True)
    axes = _strict_axes(axis, x.dim()) if mask is True else reduced_axes(axis, x.dim())
    count = _count(x, axes, mask, keep)
    fewer = el.subtract(count, ddof) if isinstance(count, Tensor) else count - ddof
    _few(fewer, "Degrees of freedom <= 0 for slice")
    inner = None if dtype is None else torch_dtype(dtype)
    if inner is None and kind(x.dtype) in "biu":
        inner = torch.float64
    if mean is NO_VALUE:
        total = el.add.reduce(x, axes, inner, None, True, None, mask)
        center = _divided(total, _count(x, axes, mask, True))
    else:
        center = as_tensor(mean)
    distance = el.subtract(x, center)
    if distance.is_complex():
        square = el.add(el.multiply(distance.real, distance.real), el.multiply(distance.imag, distance.imag))
    else:
        square = el.multiply(distance, distance)
    total = el.add.reduce(square, axes, inner, None, keep, None, mask)
    if isinstance(fewer, Tensor):
        return _divided(total, el.maximum(fewer, 0))
    return _divided(total, max(fewer, 0))


@row("std", f"{AXES} no-integers correction half-opmath variance-of-nothing")
def std(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = NO_VALUE, *,
    where: Any = NO_VALUE, mean: Any = NO_VALUE, correction: Any = NO_VALUE,
) -> Tensor:  # fmt: skip
    """`numpy.std` on tensors: the root of `var`."""
    found = el.sqrt(_variance(as_tensor(a), axis, dtype, ddof, keepdims, where, mean, correction))
    return found if out is None else write(out, found)


@row("ptp", "no-complex-order")
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = NO_VALUE) -> Tensor:
    """`numpy.ptp` on tensors: maximum minus minimum."""
    keep = bool(_given(keepdims, False))
    return el.subtract(el.maximum.reduce(a, axis, keepdims=keep), el.minimum.reduce(a, axis, keepdims=keep), out=out)


@row("median", f"{AXES} lower-median no-integers median-of-nothing")
def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False) -> Tensor:
    """`numpy.median` on tensors: the mean of the middle two; nan if an element is nan or there is none."""
    x = as_tensor(a)
    axes = _strict_axes(axis if not isinstance(axis, list) else tuple(axis), x.dim())
    rows = merged_last(x, axes) if axes else x[..., None]
    n = rows.shape[-1]
    if n == 0:
        found = mean(rows, -1)
    else:
        ordered, _ = sorted_with_places(rows, -1)
        found = mean(ordered[..., (n - 1) // 2 : n // 2 + 1], -1)
        if kind(x.dtype) in "fc":
            last = ordered[..., -1]
            found = torch.where(el.UFUNCS["isnan"](last), last, found)
    found = restored(found, x, axes, keepdims)
    return found if out is None else write(out, found)


@row("count_nonzero", "empty-dim uint8-truth")
def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """`numpy.count_nonzero` on tensors, as a tensor of int64."""
    x = as_tensor(a)
    return el.add.reduce(cast(x, torch.bool), axis, torch.int64, None, keepdims)


def _place_of_extreme(name: str, largest: bool) -> None:
    def function(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = NO_VALUE) -> Tensor:
        x, keep = as_tensor(a), bool(_given(keepdims, False))
        place = None if axis is None else normal_axis(axis, max(x.dim(), 1))
        rows = x.reshape(-1) if place is None or x.dim() == 0 else x
        along = 0 if place is None else place
        if rows.shape[along] == 0:
            raise ValueError(f"attempt to get {name} of an empty sequence")
        found = _first_extreme(rows, along, largest)
        if keep:
            found = found.reshape([1] * x.dim()) if place is None or x.dim() == 0 else found.unsqueeze(along)
        return found if out is None else write(out, found)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`numpy.{name}` on tensors: the index of the first extreme element."
    add_row(name, function, "no-bool zero-dim-axis no-complex-order")


def _first_extreme(x: Tensor, axis: int, largest: bool) -> Tensor:
    """Return the index of the first extreme element, or of the first nan if there is one."""
    if x.is_complex():
        extreme = (el.maximum if largest else el.minimum).reduce(x, axis, keepdims=True)
        is_it = el._nan_of(x) if bool(el._nan_of(x).any()) else torch.zeros_like(x, dtype=torch.bool)
        hit = torch.where(el._nan_of(extreme), is_it, x == extreme)
        return torch.argmax(hit.to(torch.int8), axis)
    values = carried_ordered(x.to(torch.int8) if x.dtype == torch.bool else x)
    extreme = (torch.amax if largest else torch.amin)(values, axis, True)
    hit = values == extreme
    if values.is_floating_point():
        hit = hit | (torch.isnan(values) & torch.isnan(extreme))
    n = x.shape[axis]
    shape = [n if i == axis else 1 for i in range(x.dim())]
    places = torch.arange(n, device=x.device).reshape(shape)
    return torch.amin(torch.where(hit, places, n), axis)


_place_of_extreme("argmax", True)
_place_of_extreme("argmin", False)

# ---------------------------------------------------------------- running totals


def _running(name: str, ufunc: TensorUfunc, undoes: str) -> None:
    def function(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Tensor:
        x = as_tensor(a)
        if axis is None or x.dim() == 0:
            if axis is not None:
                normal_axis(axis, 1)
            x, axis = x.reshape(-1), 0
        return accumulate_ufunc(ufunc, x, axis, dtype, out)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`numpy.{name}` on tensors; with ``axis=None``, over the flattened tensor."
    add_row(name, function, undoes)


_running("cumsum", el.add, "cumsum-needs-dim zero-dim-axis sum-dtype")
_running("cumprod", el.multiply, "cumsum-needs-dim zero-dim-axis sum-dtype")


def _cumulative(name: str, ufunc: TensorUfunc) -> None:
    def function(
        x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: bool = False
    ) -> Tensor:
        values = torch.atleast_1d(as_tensor(x))
        if axis is None and values.dim() > 1:
            raise ValueError("For arrays which have more than one dimension ``axis`` argument is required.")
        place = normal_axis(0 if axis is None else axis, values.dim())
        found = accumulate_ufunc(ufunc, values, place, dtype, None)
        if include_initial:
            shape = [1 if i == place else n for i, n in enumerate(values.shape)]
            first = as_tensor(ufunc.identity, found.dtype, found).expand(shape)
            found = torch.cat([first, found], place)
        return found if out is None else write(out, found)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`numpy.{name}` on tensors."
    add_row(name, function, "cumsum-needs-dim sum-dtype")


_cumulative("cumulative_sum", el.add)
_cumulative("cumulative_prod", el.multiply)


def axes_of(x: Tensor, axis: Any) -> tuple[int, ...]:
    """Return the axes over which a reduction runs."""
    return reduced_axes(axis, x.dim())
