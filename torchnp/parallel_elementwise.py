"""Elementwise functions of large tensors, by parts on all threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from torchnp.threads import PIECE, blocks, piece, share, within

ndarray = np.ndarray
Function = Callable[..., Any]


def by_parts(function: Function, *operands: Any, out: ndarray | None = None) -> Any:
    """``function(*operands)``, each element of which is computed from those in its place.

    Parameters
    ----------
    function : callable
        Of arrays and numbers, which broadcast. A ufunc writes each part of the result where it belongs; what makes arrays
        in between pays where these are few, or take long.
    *operands : ndarray or number
        Arrays with the sizes of the result have one order in memory and no gaps; else the function is called once.
    out : ndarray, optional
        Where a ufunc writes; it may be one of the operands, and shares memory with no part of another.

    Returns
    -------
    ndarray
        The very result of the function (of a nan, its sign may differ), in its operands' order.
    """
    arrays = [x for x in operands if isinstance(x, ndarray)]
    try:
        shape = np.broadcast_shapes(*(x.shape for x in arrays))
    except ValueError:
        shape = None  # which the function refuses in its own words
    whole = [x for x in (*arrays, out) if x is not None and x.shape == shape]
    strides = whole[0].strides if whole else ()
    order = sorted(range(len(strides)), key=lambda d: (-strides[d], d))
    straight = order == list(range(len(strides)))
    single = all(x.size == 1 for x in arrays if x.shape != shape)
    plain = whole and whole[0].size and all(x.strides == strides for x in whole) and (out is None or out.shape == shape)
    if not plain or not whole[0].transpose(order).flags.c_contiguous or not (single or straight):
        return function(*operands) if out is None else function(*operands, out=out)
    size, rows = whole[0].size, len(whole[0]) if shape else 1
    if single:
        return _in_order(function, [_flat(x, shape, order) for x in operands], size, piece(size), whole[0], order, out)
    return _in_order(function, [*operands], rows, max(piece(size) * rows // size, 1), whole[0], order, out)


def _in_order(
    function: Function, operands: list[Any], n: int, step: int, whole: ndarray, order: list[int], out: ndarray | None
) -> ndarray:
    """By parts of the first of the dimensions, which are those of ``whole`` as they lie in memory, or one for all."""
    turned = whole.transpose(order)
    target_shape = turned.shape if n < turned.size else (n,)
    cut = [isinstance(x, ndarray) and x.ndim == len(target_shape) and len(x) == n for x in operands]

    def of(part: slice) -> list[Any]:
        return [x[part] if c else x for x, c in zip(operands, cut)]

    straight = order == list(range(len(order)))
    if out is None:
        made = np.empty(turned.shape, function(*of(slice(1))).dtype)
        result = made if straight else made.transpose(np.argsort(order))
    else:
        made, result = out.transpose(order), out
    target = made.reshape(target_shape)
    if isinstance(function, np.ufunc):
        share(lambda part: function(*of(part), out=target[part]), blocks(n, step))
    else:

        def steps(part: slice) -> None:
            for strip in within(part, max(PIECE * n // whole.size // 2, 1)):  # what lies between is kept in cache
                target[strip] = function(*of(strip))

        share(steps, blocks(n, step))
    return result


def _flat(x: Any, shape: Any, order: list[int]) -> Any:
    """What has the result's sizes as one run of memory; one element without dimensions; a number as it is."""
    if not isinstance(x, ndarray):
        return x
    return x.transpose(order).reshape(-1) if x.shape == shape else x.reshape(())
