"""Many small matrices at once: each step of an elimination is one NumPy call for the whole batch.

A LAPACK routine takes one matrix, and for a small one the call from Python takes longer than the routine. Here the
batch
is the last dimension in memory, so that every step runs along it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from torchnp.thresholds import Threshold

ndarray = np.ndarray
SMALL: Threshold = 12  # longest side; for larger matrices LAPACK takes longer than the call
# Matrices per row; from here on, factorizations and triangular systems are faster for the whole batch at once.
FACTORED: Threshold = 32
TRIANGULAR: Threshold = 4


def are_many_small(batch: tuple[int, ...], side: int, many: int = FACTORED) -> bool:
    """Return whether square matrices, or systems of that size, are computed faster as one batch than one by one."""
    return 0 < side <= SMALL and math.prod(batch) >= many * side


def _batch_last(x: ndarray, batch: tuple[int, ...], inner: int) -> ndarray:
    """Copy a batch of vectors (``inner`` 1) or matrices (2), with the flat batch as the last dimension."""
    shape = x.shape[x.ndim - inner :]
    whole = np.broadcast_to(x, (*batch, *shape)).reshape(-1, *shape)
    return np.array(np.moveaxis(whole, 0, -1), order="C")


def _batch_first(x: ndarray, batch: tuple[int, ...]) -> ndarray:
    return np.moveaxis(x, -1, 0).reshape(*batch, *x.shape[:-1])


def _exchange(rows: ndarray, i: int, other: ndarray) -> None:
    """Swap row ``i`` with row ``other`` of each matrix."""
    index = np.broadcast_to(other, (1, *rows.shape[1:]))
    found = np.take_along_axis(rows, index, 0)[0]
    np.put_along_axis(rows, index, rows[i][None], 0)
    rows[i] = found


def factor(a: ndarray) -> tuple[ndarray, ndarray, ndarray]:
    """Return LU factors with partial pivoting: packed factors, 0-based pivots, and LAPACK's code for each matrix."""
    batch, (m, n) = a.shape[:-2], a.shape[-2:]
    lu = _batch_last(a, batch, 2)
    pivots, info = np.empty((min(m, n), lu.shape[-1]), np.int32), np.zeros(lu.shape[-1], np.int32)
    for k in range(min(m, n)):
        below = lu[k:, k]
        sizes = np.abs(below.real) + np.abs(below.imag) if a.dtype.kind == "c" else np.abs(below)
        pivots[k] = k + np.argmax(sizes, 0)
        _exchange(lu, k, pivots[k])
        pivot = lu[k, k]
        zero = pivot == 0
        info[zero & (info == 0)] = k + 1
        lu[k + 1 :, k] /= np.where(zero, a.dtype.type(1), pivot)
        lu[k + 1 :, k + 1 :] -= lu[k + 1 :, k, None] * lu[k, None, k + 1 :]
    return _batch_first(lu, batch), _batch_first(pivots, batch), info.reshape(batch)


def _substitute(a: ndarray, x: ndarray, upper: bool, unit: bool) -> None:
    """Solve triangular systems in place; both arrays have the batch last."""
    n = len(a)
    for i in range(n - 1, -1, -1) if upper else range(n):
        if not unit:
            pivot = a[i, i]  # as in BLAS, 1 over a complex zero is nan
            x[i] /= np.where(pivot == 0, a.dtype.type(np.nan), pivot) if a.dtype.kind == "c" else pivot
        left = slice(0, i) if upper else slice(i + 1, n)
        x[left] -= a[left, i, None] * x[i]


def solve_triangular(a: ndarray, b: ndarray, batch: tuple[int, ...], upper: bool, trans: int, unit: bool) -> ndarray:
    """Solve triangular systems, for the transposed matrices if ``trans`` is 1, for the adjoint ones if it is 2."""
    if trans:
        a, upper = (a.mT if trans == 1 else a.mT.conj()), not upper
    x = _batch_last(b, batch, 2)
    _substitute(_batch_last(a, batch, 2), x, upper, unit)
    return _batch_first(x, batch)


def solve_factored(lu: ndarray, pivots: ndarray, b: ndarray, batch: tuple[int, ...], adjoint: bool) -> ndarray:
    """Solve systems from packed factors and 0-based pivots."""
    factors, x, exchanges = _batch_last(lu, batch, 2), _batch_last(b, batch, 2), _batch_last(pivots, batch, 1)
    order: Any = range(len(exchanges))
    if adjoint:
        factors = factors.swapaxes(0, 1).conj()
        _substitute(factors, x, False, False)
        _substitute(factors, x, True, True)
        order = reversed(order)
    for i in order:
        _exchange(x, i, exchanges[i])
    if not adjoint:
        _substitute(factors, x, False, True)
        _substitute(factors, x, True, False)
    return _batch_first(x, batch)
