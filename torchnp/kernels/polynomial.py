"""Orthogonal polynomials of degree n at x, by torch's formulas: closed forms inside [-1, 1], recurrences elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

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


def _alternate(n: ndarray, value: ndarray) -> ndarray:
    """``value`` for even degrees, ``-value`` for odd ones."""
    return np.where(n % 2 == 0, value, -value)


def _chebyshev(kind: str, y: ndarray, n: ndarray, limit: int) -> ndarray:
    """One of the four kinds at y; degrees above ``limit`` inside (-1, 1) use trigonometric functions."""
    one, half = y.dtype.type(1), y.dtype.type(0.5)
    degree, ones = n.astype(y.dtype), np.ones_like(y)
    angle = in_double(np.arccos, y)
    after, twice = degree + one, degree + degree + one
    first = {"t": y, "u": y + y, "v": y + y - one, "w": y + y + one}[kind]
    at_one, edge = {"t": (ones, ones), "u": (after, after), "v": (ones, twice), "w": (twice, ones)}[kind]
    at_minus_one = _alternate(n, edge)
    if kind == "t":
        closed = in_double(np.cos, degree * angle)
    elif kind == "u":
        sine = in_double(np.sin, angle)
        flat = after * in_double(np.cos, after * angle) / y
        closed = np.where(sine != 0, in_double(np.sin, after * angle) / sine, flat)
    else:
        wave, other, ending = (np.cos, np.sin, at_minus_one) if kind == "v" else (np.sin, np.cos, at_one)
        ratio = in_double(wave, (degree + half) * angle) / in_double(wave, angle * half)
        closed = np.where(in_double(other, angle * half) != 1, ratio, ending)
    inside = (n > limit) & (np.abs(y) < 1)
    # Elements with a closed form need no steps; outside [-1, 1] a recurrence of any degree soon ends in nan.
    stepped = _recurrence(np.where(inside | (np.abs(y) == 1), 0, n), first, lambda k, p, q: fma(y + y, q, -p))
    value = np.where(inside, closed, stepped)
    value = np.where(y == 1, at_one, np.where(y == -1, at_minus_one, value))
    return np.where(n < 0, y.dtype.type(0), value)


def _row(name: str, function: Callable[[ndarray, ndarray], ndarray]) -> None:
    def run(x: ndarray, n: ndarray) -> ndarray:
        """Broadcast both to the layout of the result, the degree as an integer."""
        result = np.asarray(np.add(x, n))
        wide, degree = np.empty_like(result), np.empty_like(result, np.int64)
        wide[...], degree[...] = x, n
        return function(wide, degree)

    binary(
        f"{name} {name}.x_scalar {name}.n_scalar", run, int_to_float, cpu=f"{name.removeprefix('special_')}_cpu",
        takes=WIDE,
        doc=f"{name.removeprefix('special_').replace('_', ' ').capitalize()} of degree n (truncated to an integer; 0 below 0).",
    )  # fmt: skip


def _shifted(kind: str, limit: int) -> Callable[[ndarray, ndarray], ndarray]:
    return lambda x, n: _chebyshev(kind, x + x - 1, n, limit)


_row("special_chebyshev_polynomial_t", partial(_chebyshev, "t", limit=6))
_row("special_chebyshev_polynomial_u", partial(_chebyshev, "u", limit=8))
_row("special_chebyshev_polynomial_v", partial(_chebyshev, "v", limit=8))
_row("special_chebyshev_polynomial_w", partial(_chebyshev, "w", limit=8))
_row("special_shifted_chebyshev_polynomial_t", _shifted("t", 6))
_row("special_shifted_chebyshev_polynomial_u", _shifted("u", 6))
_row("special_shifted_chebyshev_polynomial_v", _shifted("v", 6))
_row("special_shifted_chebyshev_polynomial_w", _shifted("w", 4))


def _hermite(scale: int) -> Callable[[ndarray, ndarray], ndarray]:
    """The physicists' (2) or the probabilists' (1) polynomials; torch gives nan above a degree."""

    def function(x: ndarray, n: ndarray) -> ndarray:
        real, y = x.dtype.type, x * x.dtype.type(scale)
        value = _recurrence(np.minimum(n, 513), y, lambda k, p, q: fma(y, q, -(real(scale * k) * p)))
        return np.where(n > (128 if x.dtype == np.float32 else 512), real(np.nan), value)

    return function


def _laguerre_l(x: ndarray, n: ndarray) -> ndarray:
    real = x.dtype.type

    def step(k: int, p: ndarray, q: ndarray) -> ndarray:
        return fma(real(2 * k) + (1 - x), q, -(real(k) * p)) / real(k + 1)

    value = _recurrence(np.where(x == 0, np.minimum(n, 1), n), 1 - x, step)
    return np.where((x == 0) & (n >= 0), real(1), value)


def _legendre_p(x: ndarray, n: ndarray) -> ndarray:
    real = x.dtype.type

    def step(k: int, p: ndarray, q: ndarray) -> ndarray:
        return fma(real(2 * k + 1) * x, q, -(real(k) * p)) / real(k + 1)

    edge = np.abs(x) == 1
    value = _recurrence(np.where(edge, np.minimum(n, 1), n), x, step)
    return np.where(edge & (n >= 0), np.where(x > 0, real(1), _alternate(n, np.ones_like(x))), value)


_row("special_hermite_polynomial_h", _hermite(2))
_row("special_hermite_polynomial_he", _hermite(1))
_row("special_laguerre_polynomial_l", _laguerre_l)
_row("special_legendre_polynomial_p", _legendre_p)
