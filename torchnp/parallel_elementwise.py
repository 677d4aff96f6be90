"""Elementwise functions of large arrays, which are split into parts that all threads compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from torchnp.threads import PIECE, blocks, piece, share, within

ndarray = np.ndarray
Function = Callable[..., Any]


def by_parts(function: Function, *operands: Any, out: ndarray | None = None) -> Any:
    """Compute an elementwise ``function(*operands)`` part by part.

    Parameters
    ----------
    function : callable
        Takes arrays and numbers, which broadcast. A ufunc writes each part directly into the result. For a function
        with intermediate arrays, parts are faster only if these arrays are few, or slow to compute.
    *operands : ndarray or number
        Operands with the result's shape must be dense and have equal strides; otherwise ``function`` is called once on
        the whole arrays.
    out : ndarray, optional
        The array to which a ufunc writes. It may be one of the operands, but must not overlap an operand otherwise.

    Returns
    -------
    ndarray
        Exactly the function's result (only the sign of a nan may differ), laid out like the operands.
    """
    arrays = [x for x in operands if isinstance(x, ndarray)]
    try:
        shape = np.broadcast_shapes(*(x.shape for x in arrays))
    except ValueError:
        shape = None  # the function raises the error
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
    """Compute by parts of the outermost dimension of ``whole`` in memory order, or of all dimensions flattened."""
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
            for strip in within(part, max(PIECE * n // whole.size // 2, 1)):  # keeps intermediate arrays in cache
                target[strip] = function(*of(strip))

        share(steps, blocks(n, step))
    return result


def _flat(x: Any, shape: Any, order: list[int]) -> Any:
    """Flatten an array of the result's shape in memory order.

    Return a one-element array as 0-d, and a number unchanged.
    """
    if not isinstance(x, ndarray):
        return x
    return x.transpose(order).reshape(-1) if x.shape == shape else x.reshape(())
