"""Sorting and searching in NumPy's order: nan last, complex numbers by real, then by imaginary parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from torchnp.np.axes import normal_axis
from torchnp.np.dtypes import (
    as_tensor,
    carried_ordered,
    cast,
    result_dtype,
    uncarried_ordered,
    values_are_here,
)
from torchnp.np.table import row

_KINDS = ("quicksort", "q", "heapsort", "h", "mergesort", "m", "stable", "s")


def sorted_with_places(x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Return the values in NumPy's order along an axis, and their indices; the sort is stable."""
    if x.is_complex():
        places = _complex_order(x, axis)
        return torch.gather(x, axis, places), places
    values, places = torch.sort(carried_ordered(x), dim=axis, stable=True)
    return uncarried_ordered(values, x.dtype), places


def _complex_order(x: Tensor, axis: int) -> Tensor:
    """Return the indices that sort complex numbers as NumPy does.

    First come those without nan, then those with nan only in the imaginary part, only in the real part, and in both.
    """
    real, imag = x.real, x.imag
    rank = 2 * torch.isnan(real).to(torch.int64) + torch.isnan(imag).to(torch.int64)
    places = torch.sort(imag, dim=axis, stable=True)[1]
    for key in (real, rank):
        step = torch.sort(torch.gather(key, axis, places), dim=axis, stable=True)[1]
        places = torch.gather(places, axis, step)
    return places


def _along(a: Any, axis: Any, order: Any) -> tuple[Tensor, int]:
    x = as_tensor(a)
    if order is not None:
        raise ValueError("Cannot specify order when the array has no fields.")
    if axis is None:
        return x.reshape(-1), 0
    return x, normal_axis(axis, x.dim())


def _checked_kind(kind: Any, stable: Any) -> None:
    if kind is not None and stable is not None:
        raise ValueError("`kind` and keyword parameters can't be provided at the same time.")
    if kind is not None and str(kind).lower() not in _KINDS:
        raise ValueError(f"sort kind must be one of 'quick', 'heap', or 'stable' (got {kind!r})")


@row("sort", "sort-with-indices zero-dim-axis no-complex-order")
def sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Tensor:
    """`numpy.sort` on tensors: a sorted copy, always stable."""
    x, place = _along(a, axis, order)
    _checked_kind(kind, stable)
    return sorted_with_places(x, place)[0]


@row("argsort", "stable-descending descending-by-negation no-complex-order")
def argsort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Tensor:
    """`numpy.argsort` on tensors, always stable; ``[0]`` for a 0-d tensor."""
    x = as_tensor(a)
    _checked_kind(kind, stable)
    if x.dim() == 0:
        normal_axis(0 if axis is None else axis, 1)
        return torch.zeros(1, dtype=torch.int64, device=x.device)
    x, place = _along(x, axis, order)
    return sorted_with_places(x, place)[1]


def _kth(kth: Any, n: int) -> None:
    for k in np.atleast_1d(np.asarray(kth if not isinstance(kth, Tensor) else kth.tolist())).tolist():
        if not isinstance(k, int):
            raise TypeError("Partition index must be integer")
        if not -n <= k < n and n:
            raise ValueError(f"kth(={k}) out of bounds ({n})")


@row("partition", "topk-ordered no-complex-order")
def partition(a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> Tensor:
    """`numpy.partition` on tensors: returns a sorted copy, which is a valid partition."""
    x, place = _along(a, axis, order)
    _kth(kth, x.shape[place])
    return sorted_with_places(x, place)[0]


@row("argpartition", "topk-ordered no-complex-order")
def argpartition(a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> Tensor:
    """`numpy.argpartition` on tensors: returns the indices that sort."""
    x, place = _along(a, axis, order)
    _kth(kth, x.shape[place])
    return sorted_with_places(x, place)[1]


@row("lexsort")
def lexsort(keys: Any, axis: int = -1) -> Tensor:
    """`numpy.lexsort` on tensors; the last key is the primary one."""
    parts = [as_tensor(k) for k in keys]
    if not parts:
        raise TypeError("need sequence of keys with len > 0 in lexsort")
    if parts[0].dim() == 0:
        return torch.zeros((), dtype=torch.int64)
    place = normal_axis(axis, parts[0].dim())
    if any(p.shape != parts[0].shape for p in parts):
        raise ValueError("all keys need to be the same shape")
    order = sorted_with_places(parts[0], place)[1]
    for part in parts[1:]:
        step = sorted_with_places(torch.gather(carried_ordered(part), place, order), place)[1]
        order = torch.gather(order, place, step)
    return order


@row("searchsorted", "searchsorted-nan sorter-in-range searchsorted-batches bucketize-side")
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Tensor:
    """`numpy.searchsorted` on tensors, for 1-d ``a``; nan is last, complex numbers are ordered by parts."""
    like = next((t for t in (a, v) if isinstance(t, Tensor)), None)
    x, values = as_tensor(a, like=like), as_tensor(v, like=like)
    if x.dim() != 1:
        raise ValueError(
            "object too deep for desired array" if x.dim() else "object of too small depth for desired array"
        )
    if side not in ("left", "right", "l", "r"):
        raise ValueError(f"search side must be one of 'left' or 'right' (got {side!r})")
    if sorter is not None:
        order = as_tensor(sorter)
        if order.is_floating_point() or order.is_complex():
            raise TypeError("sorter must only contain integers")
        if order.shape != x.shape:
            raise ValueError("sorter.size must equal len(a)")
        if values_are_here(order) and bool(((order < 0) | (order >= x.shape[0])).any()):
            raise ValueError("Sorter index out of range.")
        x = x[order.to(torch.int64)]
    common = result_dtype(x.dtype, values.dtype)
    return places_in(cast(x, common), cast(values, common), side[0] == "r")


def places_in(x: Tensor, values: Tensor, right: bool) -> Tensor:
    """Return the indices at which values belong in a sorted 1-d tensor of the same dtype."""
    if x.is_complex() or x.dtype == torch.bool:
        return _places_by_order(x, values, right)
    sorted_, wanted = carried_ordered(x), carried_ordered(values)
    side = "right" if right else "left"
    found = torch.searchsorted(sorted_.contiguous(), wanted.contiguous(), side=side)
    if not sorted_.is_floating_point():
        return found
    # nan is larger than all numbers: on the left it belongs before the first nan, on the right after the last element.
    numbers = (~torch.isnan(sorted_)).sum()
    found = torch.minimum(found, numbers)
    return torch.where(torch.isnan(wanted), torch.full_like(found, x.shape[0]) if right else numbers, found)


def _places_by_order(x: Tensor, values: Tensor, right: bool) -> Tensor:
    """Do what `places_in` does by sorting both tensors together and counting the elements before each value."""
    flat = values.reshape(-1)
    pair = torch.cat([flat, x] if not right else [x, flat])
    order = sorted_with_places(pair, 0)[1]
    is_x = (order >= flat.shape[0]) if not right else (order < x.shape[0])
    before = torch.cumsum(is_x.to(torch.int64), 0)
    place = torch.empty_like(order).index_put((order,), before)
    found = place[: flat.shape[0]] if not right else place[x.shape[0] :]
    return found.reshape(values.shape)
