"""Axis arguments as NumPy accepts them: an integer, a tuple, or None for all axes; with NumPy's errors."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from torch import Tensor


def normal_axis(axis: Any, ndim: int, argument: str = "") -> int:
    """Return an axis counted from the front, or raise NumPy's AxisError."""
    place = operator.index(axis)
    if not -ndim <= place < ndim:
        raise np.exceptions.AxisError(place, ndim, argument or None)
    return place % ndim if ndim else 0


def normal_axes(axis: Any, ndim: int, argument: str = "", repeats: bool = False) -> tuple[int, ...]:
    """Return axes counted from the front; None means all. Repeated axes are an error unless ``repeats``."""
    if axis is None:
        return tuple(range(ndim))
    axes = tuple(normal_axis(a, ndim, argument) for a in (axis if isinstance(axis, (tuple, list)) else (axis,)))
    if not repeats and len(set(axes)) != len(axes):
        raise ValueError(f"repeated axis in `{argument}` argument" if argument else "repeated axis")
    return axes


def reduced_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """Do what `normal_axes` does, but accept axis 0 and -1 of a 0-d array, as reductions of ufuncs do."""
    if axis is not None and not isinstance(axis, tuple):
        place = operator.index(axis)
        if ndim == 0 and place in (0, -1):
            return ()
        axis = (place,)
    axes = normal_axes(axis, ndim, repeats=True)
    if len(set(axes)) != len(axes):
        raise ValueError("duplicate value in 'axis'")
    return axes


def kept_shape(x: Tensor, axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a reduction's result with ``keepdims=True``."""
    return tuple(1 if i in axes else n for i, n in enumerate(x.shape))


def merged_last(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Return a tensor whose last dimension holds the elements along all of ``axes``, in row-major order."""
    rest = tuple(i for i in range(x.dim()) if i not in axes)
    moved = x.permute((*rest, *sorted(axes)))
    count = 1
    for a in axes:
        count *= x.shape[a]
    return moved.reshape((*(x.shape[i] for i in rest), count))


def restored(result: Tensor, x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """Insert the reduced dimensions with size 1 into a reduction's result if ``keepdims``."""
    return result.reshape(kept_shape(x, axes)) if keepdims else result
