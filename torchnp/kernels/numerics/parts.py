"""Elementwise functions of large tensors, by parts on all threads."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from torchnp.kernels.numerics.blocks import blocks
from torchnp.threads import PIECE, share

ndarray = np.ndarray
Function = Callable[..., Any]


def by_parts(function: Function, *operands: Any, out: ndarray | None = None) -> Any:
    """``function(*operands)``, each element of which is computed from those in its place.

    Parameters
    ----------
    function : callable
        Of arrays and NumPy's numbers, which broadcast. A ufunc writes each part of the result where it belongs; what
        takes several passes finds a part in the cache.
    *operands : ndarray or number
        Arrays with the sizes of the result have one order in memory and no gaps; else the function is called once.
    out : ndarray, optional
        Where a ufunc writes; it may be one of the operands, and shares memory with no part of another.

    Returns
    -------
    ndarray or tuple of ndarray
        The very result of the function (of a nan, its sign may differ), in its operands' order.
    """
    once = function if out is None else partial(function, out=out)
    arrays = [x for x in operands if isinstance(x, ndarray)]
    try:
        shape = np.broadcast_shapes(*(x.shape for x in arrays))
    except ValueError:
        return once(*operands)  # in its own words
    whole = [x for x in (*arrays, out) if x is not None and x.shape == shape]
    strides = whole[0].strides if whole else ()
    if not whole or any(x.strides != strides for x in whole) or (out is not None and out.shape != shape):
        return once(*operands)
    order = sorted(range(len(shape)), key=lambda d: (-strides[d], d))
    turned = whole[0].transpose(order)
    if not turned.flags.c_contiguous:
        return once(*operands)
    if all(x.size == 1 for x in arrays if x.shape != shape):
        cut, n, step = [_flat(x, shape, order) for x in operands], turned.size, PIECE
    elif order == list(range(len(shape))):
        cut, n, step = [*operands], shape[0], max(PIECE * shape[0] // turned.size, 1)
    else:
        return once(*operands)
    ndim = 1 if n == turned.size else len(shape)
    is_cut = [isinstance(x, ndarray) and x.ndim == ndim and len(x) == n for x in cut]

    def of(part: slice) -> list[Any]:
        return [x[part] if c else x for x, c in zip(cut, is_cut)]

    if out is None:
        probe = function(*of(slice(1)))
        made = [np.empty(turned.shape, x.dtype) for x in (probe if isinstance(probe, tuple) else (probe,))]
    else:
        probe, made = out, [out.transpose(order)]
    targets = [x.reshape(-1) if ndim == 1 else x for x in made]

    def work(part: slice) -> None:
        if isinstance(function, np.ufunc):
            function(*of(part), out=targets[0][part])
        else:
            found = function(*of(part))
            for target, x in zip(targets, found if isinstance(found, tuple) else (found,)):
                target[part] = x

    share(work, blocks(n, step))
    if out is not None:
        return out
    results = made if order == list(range(len(shape))) else [x.transpose(np.argsort(order)) for x in made]
    return tuple(results) if isinstance(probe, tuple) else results[0]


def _flat(x: Any, shape: tuple[int, ...], order: list[int]) -> Any:
    """What has the result's sizes as one run of memory; one element without dimensions; a number as it is."""
    if not isinstance(x, ndarray):
        return x
    return x.transpose(order).reshape(-1) if x.shape == shape else x.reshape(())
