"""Orthogonal polynomials of degree n at x, by torch's formulas: closed forms inside [-1, 1], recurrences elsewhere.

A recurrence advances only the elements that have not reached their degree; for that, elements of different degrees are
sorted by degree. If x is a single number, each distinct degree is computed once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from torchnp.kernels._elementwise import WIDE, binary, int_to_float
from torchnp.kernels.numerics.bessel_airy import in_double
from torchnp.kernels.numerics.fma import fma

ndarray = np.ndarray
Polynomial = Callable[[ndarray, ndarray], ndarray]  # (x, degrees) -> values, with one degree per x or one for all
Step = Callable[[int, ndarray, ndarray, ndarray], ndarray]  # (k, x, polynomial k - 1, polynomial k) -> polynomial k + 1
_OFTEN = 32  # after so many steps, a recurrence tests whether all elements are nan, and then stops


def _recurrence(n: ndarray, x: ndarray, first: ndarray, step: Step) -> ndarray:
    """Return the polynomials of degrees n at x; ``first`` has the values of degree 1.

    The recurrence stops early if all values are nan.
    """
    top = int(n.max(initial=0))
    low = np.where(n < 1, (n == 0).astype(first.dtype), first)
    if top < 2:
        return low
    order: Any = slice(None)
    if n.size > 1:
        order = np.argsort(n.astype(np.int16), kind="stable") if top < 1 << 15 else np.argsort(n)
        n, low = n[order], low[order]
    begin = int(n.searchsorted(1, "right"))  # the elements before it already have their values
    x, q = x[order][begin:], first[order][begin:]
    p = np.ones_like(q)
    for k in range(1, top):
        ended = int(n.searchsorted(k, "right")) - begin
        if ended:
            low[begin : begin + ended] = q[:ended]
            begin, x, p, q = begin + ended, x[ended:], p[ended:], q[ended:]
        p, q = q, step(k, x, p, q)
        if k % _OFTEN == 0 and np.isnan(q).all():
            break
    low[begin:] = q
    value = np.empty_like(low)
    value[order] = low
    return value


def _alternate(n: ndarray, value: ndarray) -> ndarray:
    """Return ``value`` for even degrees and ``-value`` for odd ones."""
    return np.where(n % 2 == 0, value, -value)


def _waves(kind: str, y: ndarray, n: ndarray, at_end: ndarray) -> ndarray:
    """Compute a kind of polynomial in (-1, 1) by trigonometric functions, or use ``at_end`` where these give 0 / 0."""
    one, half, degree = y.dtype.type(1), y.dtype.type(0.5), n.astype(y.dtype)
    angle = in_double(np.arccos, y)
    if kind == "t":
        return in_double(np.cos, degree * angle)
    if kind == "u":
        return in_double(np.sin, (degree + one) * angle) / in_double(np.sin, angle)
    wave, other = (np.cos, np.sin) if kind == "v" else (np.sin, np.cos)
    ratio = in_double(wave, (degree + half) * angle) / in_double(wave, angle * half)
    return np.where(in_double(other, angle * half) != 1, ratio, at_end)


def _chebyshev(kind: str, x: ndarray, n: ndarray, limit: int, shifted: bool = False) -> ndarray:
    """Compute one of the four kinds of Chebyshev polynomials at x, or (``shifted``) at 2 x - 1.

    Degrees above ``limit`` use trigonometric functions inside (-1, 1).
    """
    y, one = x + x - 1 if shifted else x, x.dtype.type(1)
    degree = n.astype(y.dtype)
    ones, after, twice = np.ones_like(degree), degree + one, degree + degree + one
    at_one, edge = {"t": (ones, ones), "u": (after, after), "v": (ones, twice), "w": (twice, ones)}[kind]
    at_minus_one = _alternate(n, edge)
    at_end = at_one if kind == "w" and not shifted else at_minus_one  # torch's value for the shifted w is not the limit

    def stepped(y: ndarray, n: ndarray) -> ndarray:
        double = y + y
        first = {"t": y, "u": double, "v": double - one, "w": double + one}[kind]
        return _recurrence(n, double, first, lambda k, x, p, q: fma(x, q, -p))

    if n.max(initial=0) <= limit:
        value = stepped(y, n)
    else:  # outside [-1, 1] the recurrence of a high degree soon overflows to nan
        waves = (n > limit) & (np.abs(y) <= 1)
        some = lambda v, where: v[where] if v.size > 1 else v
        value = np.empty_like(y)
        value[waves] = _waves(kind, y[waves], some(n, waves), some(at_end, waves))
        value[~waves] = stepped(y[~waves], some(n, ~waves))
    value = np.where(y == 1, at_one, np.where(y == -1, at_minus_one, value))
    return np.where(n < 0, y.dtype.type(0), value)


def _row(name: str, function: Polynomial) -> None:
    def run(x: ndarray, n: ndarray) -> ndarray:
        """Compute on flat arrays with integer degrees; the result has the layout of ``x + n``."""
        out = np.asarray(np.add(x, n))
        x, n = np.asarray(x), np.asarray(n).astype(np.int64)
        if x.size == 1 < n.size:
            degrees, places = np.unique(np.maximum(n, -1), return_inverse=True)
            values = function(np.full(degrees.shape, x), degrees)[places]
        else:
            degrees = n.reshape(1) if n.size == 1 else np.broadcast_to(n, out.shape).reshape(-1)
            values = function(np.broadcast_to(x, out.shape).reshape(-1), degrees)
        out[...] = values.reshape(out.shape)
        return out

    binary(
        f"{name} {name}.x_scalar {name}.n_scalar", run, int_to_float, cpu=f"{name.removeprefix('special_')}_cpu",
        takes=WIDE,
        doc=f"{name.removeprefix('special_').replace('_', ' ').capitalize()} of degree n (truncated to an integer; 0 below 0).",
    )  # fmt: skip


_row("special_chebyshev_polynomial_t", partial(_chebyshev, "t", limit=6))
_row("special_chebyshev_polynomial_u", partial(_chebyshev, "u", limit=8))
_row("special_chebyshev_polynomial_v", partial(_chebyshev, "v", limit=8))
_row("special_chebyshev_polynomial_w", partial(_chebyshev, "w", limit=8))
_row("special_shifted_chebyshev_polynomial_t", partial(_chebyshev, "t", limit=6, shifted=True))
_row("special_shifted_chebyshev_polynomial_u", partial(_chebyshev, "u", limit=6, shifted=True))
_row("special_shifted_chebyshev_polynomial_v", partial(_chebyshev, "v", limit=6, shifted=True))
_row("special_shifted_chebyshev_polynomial_w", partial(_chebyshev, "w", limit=4, shifted=True))


def _hermite(scale: int) -> Polynomial:
    """Return the physicists' (scale 2) or probabilists' (1) Hermite polynomials; nan above torch's highest degree."""

    def function(x: ndarray, n: ndarray) -> ndarray:
        real, y = x.dtype.type, x * x.dtype.type(scale)
        value = _recurrence(np.minimum(n, 513), y, y, lambda k, y, p, q: fma(y, q, -(real(scale * k) * p)))
        return np.where(n > (128 if x.dtype == np.float32 else 512), real(np.nan), value)

    return function


def _laguerre_l(x: ndarray, n: ndarray) -> ndarray:
    real = x.dtype.type

    def step(k: int, rest: ndarray, p: ndarray, q: ndarray) -> ndarray:
        return fma(real(2 * k) + rest, q, -(real(k) * p)) / real(k + 1)

    rest = 1 - x
    value = _recurrence(_first_only(n, x == 0), rest, rest, step)
    return np.where((x == 0) & (n >= 0), real(1), value)


def _legendre_p(x: ndarray, n: ndarray) -> ndarray:
    real = x.dtype.type

    def step(k: int, x: ndarray, p: ndarray, q: ndarray) -> ndarray:
        return fma(real(2 * k + 1) * x, q, -(real(k) * p)) / real(k + 1)

    edge = np.abs(x) == 1
    value = _recurrence(_first_only(n, edge), x, x, step)
    return np.where(edge & (n >= 0), np.where(x > 0, real(1), _alternate(n, np.ones_like(x))), value)


def _first_only(n: ndarray, known: ndarray) -> ndarray:
    """Return the degrees, limited to 1 for ``known`` elements, because a high degree would take many steps."""
    return n if n.size == 1 and n.max() < _OFTEN else np.where(known, np.minimum(n, 1), n)


_row("special_hermite_polynomial_h", _hermite(2))
_row("special_hermite_polynomial_he", _hermite(1))
_row("special_laguerre_polynomial_l", _laguerre_l)
_row("special_legendre_polynomial_p", _legendre_p)
