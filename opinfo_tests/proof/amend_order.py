"""Amendments for sorting and selection, which in torch also return indices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .explain_disagreements import amends
from .natural_call import NaturalCall


def same(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return a mask of equal elements; nan equals nan."""
    return (x == y) | ((x != x) & (y != y))


@amends("max-with-indices", stage=5)
def return_values_and_indices(call: NaturalCall) -> Any:
    """Return the values, and for each the index of its first occurrence."""
    dim, keep, x = call.full().get("dim"), call.full().get("keepdim", False), call.first
    if not isinstance(dim, int):
        return False

    def made(values: Any) -> Any:
        wide = values if keep else np.expand_dims(values, dim)
        places = np.argmax(same(x if x.ndim else x[None], wide), axis=dim)
        return values, np.expand_dims(places, dim) if keep else places

    call.after.insert(0, made)
    return True


@amends("cummax-indices", stage=3)
def return_running_indices(call: NaturalCall) -> Any:
    f = call.f

    def running(x: Any, axis: int) -> Any:
        best = f(x, axis=axis)
        places = np.arange(x.shape[axis]).reshape([-1 if i == axis % x.ndim else 1 for i in range(x.ndim)])
        return best, np.maximum.accumulate(np.where(same(x, best), places, 0), axis=axis)

    call.f = running
    return True


def order_of(x: np.ndarray, axis: int, descending: bool, keeps: bool) -> np.ndarray:
    """Return the indices of a stable sort.

    A descending sort keeps the order of equal elements if ``keeps`` is true, else it is the reversed ascending sort.
    """
    if descending and keeps:
        return x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis=axis, stable=True), axis)
    order = np.argsort(x, axis=axis, stable=True)
    return np.flip(order, axis) if descending else order


@amends("sort-with-indices", stage=3)
def return_elements_and_indices(call: NaturalCall) -> Any:
    full = call.full()

    def ordered(x: Any, **_: Any) -> Any:
        order = order_of(x, full["dim"], full["descending"], keeps=False)
        return np.take_along_axis(x, order, full["dim"]), order

    call.f = ordered
    call.template = replace(call.template, then=None)
    return True


@amends("stable-descending", stage=4)
def keep_order_of_equals(call: NaturalCall) -> Any:
    full, pair = call.full(), call.f is not np.argsort
    if not full["descending"]:
        return False

    def ordered(x: Any, **_: Any) -> Any:
        order = order_of(x, full["dim"], True, keeps=True)
        return (np.take_along_axis(x, order, full["dim"]), order) if pair else order

    call.f = ordered
    call.template = replace(call.template, then=None)
    return True


@amends("norm-flattens", stage=1)
def flatten_before_norm(call: NaturalCall) -> Any:
    call.f = lambda x, ord=2, axis=None, keepdims=False: np.linalg.vector_norm(x, ord=ord, axis=axis, keepdims=keepdims)
    return True


@amends("descending-by-negation", stage=4)
def avoid_negation(call: NaturalCall) -> Any:
    x = call.first
    if x.dtype.kind != "i" or not (x == np.iinfo(x.dtype).min).any():
        return False
    call.given["self"] = x.astype(np.float64)
    return True
