"""Orthogonal polynomials of degree n at x, by torch's formulas: closed forms inside [-1, 1], recurrences elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from torchnp.kernels._elementwise import WIDE, binary, int_to_float
from torchnp.kernels.numerics.cephes import in_double
from torchnp.kernels.numerics.fma import fma

ndarray = np.ndarray
Step = Callable[[int, ndarray, ndarray], ndarray]


def _recurrence(n: ndarray, first: ndarray, step: Step) -> ndarray:
    """``q`` after n - 1 steps from the polynomials of degree 0 (one) and 1; a nan ends its own recurrence."""
    p, q = np.ones_like(first), first
    for k in range(1, int(n.max(initial=0))):
        active = (n > k) & ~np.isnan(q)
        if not active.any():
            break
        p, q = np.where(active, q, p), np.where(active, step(k, p, q), q)
    return np.where(n < 0, q.dtype.type(0), np.where(n == 0, q.dtype.type(1), q))


def _operands(x: ndarray, n: ndarray) -> tuple[ndarray, ndarray]:
    """Both broadcast to the layout of the result, the degree as an integer."""
    result = np.asarray(np.add(x, n))
    wide, degree = np.empty_like(result), np.empty_like(result, np.int64)
    wide[...], degree[...] = x, n
    return wide, degree


def _alternate(n: ndarray, value: ndarray) -> ndarray:
    """``value`` for even degrees, ``-value`` for odd ones."""
    return np.where(n % 2 == 0, value, -value)


def _chebyshev(kind: str, y: ndarray, n: ndarray, limit: int) -> ndarray:
    """One of the four kinds at y; above degree ``limit`` inside (-1, 1) by trigonometry."""
    one = y.dtype.type(1)
    degree = n.astype(y.dtype)
    angle = in_double(np.arccos, y)
    twice = degree + degree + one
    if kind == "t":
        first, at_one, at_minus_one = y, np.ones_like(y), _alternate(n, np.ones_like(y))
        closed = in_double(np.cos, degree * angle)
    elif kind == "u":
        first, at_one, at_minus_one = y + y, degree + one, _alternate(n, degree + one)
        sine = in_double(np.sin, angle)
        edge = (degree + one) * in_double(np.cos, (degree + one) * angle) / y
        closed = np.where(sine != 0, in_double(np.sin, (degree + one) * angle) / sine, edge)
    elif kind == "v":
        first, at_one, at_minus_one = y + y - one, np.ones_like(y), _alternate(n, twice)
        half = y.dtype.type(0.5)
        ratio = in_double(np.cos, (degree + half) * angle) / in_double(np.cos, angle * half)
        closed = np.where(in_double(np.sin, angle * half) != 1, ratio, at_minus_one)
    else:
        first, at_one, at_minus_one = y + y + one, twice, _alternate(n, np.ones_like(y))
        half = y.dtype.type(0.5)
        ratio = in_double(np.sin, (degree + half) * angle) / in_double(np.sin, angle * half)
        closed = np.where(in_double(np.cos, angle * half) != 1, ratio, at_one)
    inside = (n > limit) & (np.abs(y) < 1)
    # What has a closed form needs no steps; outside [-1, 1] a recurrence soon ends in nan, however high the degree.
    stepped = _recurrence(np.where(inside | (np.abs(y) == 1), 0, n), first, lambda k, p, q: fma(y + y, q, -p))
    value = np.where(inside, closed, stepped)
    value = np.where(y == 1, at_one, np.where(y == -1, at_minus_one, value))
    return np.where(n < 0, y.dtype.type(0), value)


def _chebyshev_row(kind: str, limit: int, shifted: bool) -> None:
    def function(x: ndarray, n: ndarray) -> ndarray:
        x, n = _operands(x, n)
        return _chebyshev(kind, x + x - 1 if shifted else x, n, limit)

    _row(f"{'shifted_' if shifted else ''}chebyshev_polynomial_{kind}", function)


def _row(name: str, function: Callable[[ndarray, ndarray], ndarray]) -> None:
    binary(
        f"special_{name} special_{name}.x_scalar special_{name}.n_scalar", function, int_to_float, cpu=f"{name}_cpu",
        takes=WIDE, args=("x", "n"),
        doc=f"{name.replace('_', ' ').capitalize()} of degree n (truncated to an integer; 0 below 0).",
    )  # fmt: skip


for _kind, _limit, _shifted_limit in (("t", 6, 6), ("u", 8, 6), ("v", 8, 6), ("w", 8, 4)):
    _chebyshev_row(_kind, _limit, False)
    _chebyshev_row(_kind, _shifted_limit, True)


def _hermite(scale: int) -> Callable[[ndarray, ndarray], ndarray]:
    """The physicists' (2) or the probabilists' (1) polynomials; torch gives nan above a degree."""

    def function(x: ndarray, n: ndarray) -> ndarray:
        x, n = _operands(x, n)
        real, y = x.dtype.type, x * x.dtype.type(scale)
        value = _recurrence(np.minimum(n, 513), y, lambda k, p, q: fma(y, q, -(real(scale * k) * p)))
        return np.where(n > (128 if x.dtype == np.float32 else 512), real(np.nan), value)

    return function


def _laguerre_l(x: ndarray, n: ndarray) -> ndarray:
    x, n = _operands(x, n)
    real = x.dtype.type

    def step(k: int, p: ndarray, q: ndarray) -> ndarray:
        return fma(real(2 * k) + (1 - x), q, -(real(k) * p)) / real(k + 1)

    value = _recurrence(np.where(x == 0, np.minimum(n, 1), n), 1 - x, step)
    return np.where((x == 0) & (n >= 0), real(1), value)


def _legendre_p(x: ndarray, n: ndarray) -> ndarray:
    x, n = _operands(x, n)
    real = x.dtype.type

    def step(k: int, p: ndarray, q: ndarray) -> ndarray:
        return fma(real(2 * k + 1) * x, q, -(real(k) * p)) / real(k + 1)

    edge = np.abs(x) == 1
    value = _recurrence(np.where(edge, np.minimum(n, 1), n), x, step)
    return np.where(edge & (n >= 0), np.where(x > 0, real(1), _alternate(n, np.ones_like(x))), value)


_row("hermite_polynomial_h", _hermite(2))
_row("hermite_polynomial_he", _hermite(1))
_row("laguerre_polynomial_l", _laguerre_l)
_row("legendre_polynomial_p", _legendre_p)
