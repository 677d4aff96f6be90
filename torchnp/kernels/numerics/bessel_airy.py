"""Bessel and Airy functions by the approximations of the Cephes Math Library, in torch's order of operations.

Functions of float32 are computed in float32, as in torch. Where torch's compiler turns a product and a sum into an FMA,
these functions use `fast_fma`, or `fma` if terms cancel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from torchnp.dtypes import cast, opmath
from torchnp.kernels.numerics import bessel_airy_tables as c
from torchnp.kernels.numerics.fma import fast_fma, fma, horner

ndarray = np.ndarray
Function = Callable[[ndarray], ndarray]


def in_double(function: Function, x: ndarray) -> ndarray:
    """Compute a function in double, so that results round as in C's library; NumPy's float32 loops are less exact."""
    return function(x.astype(np.float64)).astype(x.dtype)


def ratio(t: ndarray, above: Sequence[float], below: Sequence[float]) -> ndarray:
    """Return a rational function at ``t``."""
    return horner(t, above) / horner(t, below)


def chebyshev(t: ndarray, coefficients: Sequence[float]) -> ndarray:
    """Evaluate a Chebyshev series at ``t / 2`` by Clenshaw's recurrence."""
    real = t.dtype.type
    older, old, new = np.zeros_like(t), np.zeros_like(t), np.full_like(t, real(coefficients[0]))
    for coefficient in coefficients[1:]:
        older, old = old, new
        new = fast_fma(t, old, -older) + real(coefficient)
    return real(0.5) * (new - older)


def piecewise(x: ndarray, inner: ndarray, of_inner: Function, of_outer: Function) -> ndarray:
    """Apply one function where ``inner`` is true, and another elsewhere, each to these elements only."""
    if inner.all():
        return of_inner(x)
    if not inner.any():
        return of_outer(x)
    out = np.empty_like(x)
    out[inner] = of_inner(x[inner])
    out[~inner] = of_outer(x[~inner])
    return out


# ---------------------------------------------------------------- Bessel functions of the first and second kind


def _wave(x: ndarray, order: int, second: bool) -> ndarray:
    """Compute J, or Y if ``second``, for x above 5, by sine and cosine of a shifted argument."""
    real = x.dtype.type
    if order == 0:
        w, (pp, pq, qp, qq) = real(25) / (x * x), (c.J0_PP, c.J0_PQ, c.J0_QP, c.J0_QQ)
    else:
        w, (pp, pq, qp, qq) = real(5) / x * (real(5) / x), (c.J1_PP, c.J1_PQ, c.J1_QP, c.J1_QQ)
    angle = x - real((0.7853981633974483, 2.356194490192345)[order])
    level, tilt = ratio(w, pp, pq), real(5) / x * ratio(w, qp, qq)
    sine, cosine = in_double(np.sin, angle), in_double(np.cos, angle)
    wave = fma(level, sine, tilt * cosine) if second else fma(level, cosine, -(tilt * sine))
    return wave * real(0.7978845608028654) / np.sqrt(x)


def j0(x: ndarray) -> ndarray:
    """Compute the Bessel function of the first kind, order 0."""
    real = x.dtype.type

    def near(x: ndarray) -> ndarray:
        z = x * x
        zeros = (z - real(5.783185962946785)) * (z - real(30.471262343662087))
        return np.where(x < real(0.00001), real(1) - z / real(4), zeros * horner(z, c.J0_RP) / horner(z, c.J0_RQ))

    x = np.abs(x)
    return piecewise(x, x <= 5, near, lambda x: _wave(x, 0, False))


def j1(x: ndarray) -> ndarray:
    """Compute the Bessel function of the first kind, order 1."""
    real = x.dtype.type

    def near(x: ndarray) -> ndarray:
        z = x * x
        value = horner(z, c.J1_RP) / horner(z, c.J1_RQ) * x
        return value * (z - real(14.681970642123893)) * (z - real(49.2184563216946))

    size = np.abs(x)
    value = piecewise(size, size <= 5, near, lambda x: _wave(x, 1, False))
    return np.where(x < 0, -value, np.where(x == 0, x, value))


def y0(x: ndarray) -> ndarray:
    """Compute the Bessel function of the second kind, order 0."""
    real = x.dtype.type

    def near(x: ndarray) -> ndarray:
        return fma(real(0.6366197723675814) * in_double(np.log, x), j0(x), ratio(x * x, c.Y0_YP, c.Y0_YQ))

    return _at_positive(x, 5, near, lambda x: _wave(x, 0, True), -np.inf)


def y1(x: ndarray) -> ndarray:
    """Compute the Bessel function of the second kind, order 1."""
    real = x.dtype.type

    def near(x: ndarray) -> ndarray:
        rest = fma(j1(x), in_double(np.log, x), -(real(1) / x))
        return fma(x, ratio(x * x, c.Y1_YP, c.Y1_YQ), real(0.6366197723675814) * rest)

    return _at_positive(x, 5, near, lambda x: _wave(x, 1, True), -np.inf)


def _at_positive(x: ndarray, limit: float, near: Function, far: Function, at_zero: float) -> ndarray:
    """Compute ``near`` up to the limit and ``far`` above it; return ``at_zero`` at zero, nan below zero."""
    real = x.dtype.type
    return np.where(x == 0, real(at_zero), np.where(x < 0, real(np.nan), piecewise(x, x <= limit, near, far)))


def spherical_j0(x: ndarray) -> ndarray:
    """Compute the spherical Bessel function of the first kind, order 0: by its series near zero, else sin(x) / x."""
    real = x.dtype.type

    def near(x: ndarray) -> ndarray:
        z = x * x
        value = np.full_like(x, real(1) / real(6227020800))
        for factorial in (-39916800, 362880, -5040, 120, -6, 1):
            value = fast_fma(z, value, real(1) / real(factorial))
        return value

    value = piecewise(x, np.abs(x) < 0.5, near, lambda x: in_double(np.sin, x) / x)
    return np.where(np.isinf(x), real(0), value)


# ---------------------------------------------------------------- modified Bessel functions


def _series(size: ndarray, near: Sequence[float], far: Sequence[float]) -> tuple[ndarray, ndarray]:
    """Return a Chebyshev series of |x| and the mask of |x| <= 8; values above 8 must be divided by sqrt(|x|)."""
    real = size.dtype.type
    inner, two = size <= 8, real(2)
    return piecewise(
        size, inner, lambda x: chebyshev(x / two - two, near), lambda x: chebyshev(real(32) / x - two, far)
    ), inner


def _first_kind(x: ndarray, series: tuple[Sequence[float], Sequence[float]], scaled: bool, odd: bool) -> ndarray:
    size = np.abs(x)
    value, inner = _series(size, *series)
    power = x.dtype.type(1) if scaled else in_double(np.exp, size)
    root = np.sqrt(cast(size, opmath(x.dtype)))  # C's library has no half-type square root
    value = np.where(inner, power * (size if odd else 1) * value, power * value / root)
    return np.where((x < 0) & odd, -value, value)


def _short(x: ndarray) -> tuple[Sequence[float], Sequence[float]]:
    """Return the coefficients of `i1`; torch's float32 i1 and i1e omit the small terms."""
    return (c.I1_A[-17:], c.I1_B[-7:]) if x.dtype == np.float32 else (c.I1_A, c.I1_B)


def i0e(x: ndarray) -> ndarray:
    """Compute the modified Bessel function of the first kind, order 0, times exp(-|x|)."""
    return _first_kind(x, (c.I0_A, c.I0_B), True, False)


def i0(x: ndarray) -> ndarray:
    """Compute the modified Bessel function of the first kind, order 0."""
    return _first_kind(x, (c.I0_A, c.I0_B), False, False)


def i1e(x: ndarray) -> ndarray:
    """Compute the modified Bessel function of the first kind, order 1, times exp(-|x|)."""
    return _first_kind(x, _short(x), True, True)


def i1(x: ndarray) -> ndarray:
    """Compute the modified Bessel function of the first kind, order 1."""
    return _first_kind(x, _short(x), False, True)


def modified_i1(x: ndarray) -> ndarray:
    """Compute `i1` with all terms, also in float32."""
    size = np.abs(x)
    value, inner = _series(size, c.I1_A, c.I1_B)
    power = in_double(np.exp, size)
    value = np.where(inner, value * size * power, power * value / np.sqrt(size))
    return np.where(x < 0, -value, value)


def _k_inner(x: ndarray, coefficients: Sequence[float]) -> ndarray:
    return chebyshev(fast_fma(x, x, x.dtype.type(-2)), coefficients)


def _k_outer(x: ndarray, coefficients: Sequence[float]) -> ndarray:
    return chebyshev(x.dtype.type(8) / x - x.dtype.type(2), coefficients)


def k0(x: ndarray) -> ndarray:
    """Compute the modified Bessel function of the second kind, order 0, with the logarithm in double."""

    def near(x: ndarray) -> ndarray:
        return (_k_inner(x, c.K0_A) - np.log(0.5 * x.astype(np.float64)) * i0(x)).astype(x.dtype)

    return _at_positive(x, 2, near, lambda x: in_double(np.exp, -x) * _k_outer(x, c.K0_B) / np.sqrt(x), np.inf)


def k0e(x: ndarray) -> ndarray:
    """Compute `k0` times exp(x)."""
    half = x.dtype.type(0.5)

    def near(x: ndarray) -> ndarray:
        return fma(-in_double(np.log, half * x), i0(x), _k_inner(x, c.K0_A)) * in_double(np.exp, x)

    return _at_positive(x, 2, near, lambda x: _k_outer(x, c.K0_B) / np.sqrt(x), np.inf)


def _k1_inner(x: ndarray) -> ndarray:
    return fma(in_double(np.log, x.dtype.type(0.5) * x), modified_i1(x), _k_inner(x, c.K1_A) / x)


def k1(x: ndarray) -> ndarray:
    """Compute the modified Bessel function of the second kind, order 1."""
    return _at_positive(x, 2, _k1_inner, lambda x: in_double(np.exp, -x) * _k_outer(x, c.K1_B) / np.sqrt(x), np.inf)


def k1e(x: ndarray) -> ndarray:
    """Compute `k1` times exp(x)."""
    return _at_positive(
        x, 2, lambda x: _k1_inner(x) * in_double(np.exp, x), lambda x: _k_outer(x, c.K1_B) / np.sqrt(x), np.inf
    )


def airy_ai(x: ndarray) -> ndarray:
    """Compute the Airy function Ai; 0 above 103.892, nan at the infinities."""
    real = x.dtype.type
    value = piecewise(x, x < real(-2.09), _airy_left, lambda x: piecewise(x, x >= real(2.09), _airy_right, _airy_power))
    return np.where(np.isinf(x), real(np.nan), np.where(x > real(103.892), real(0), value))


def _airy_left(x: ndarray) -> ndarray:
    real = x.dtype.type
    zeta = real(-2) * x * np.sqrt(-x) / real(3)
    z = real(1) / zeta
    w = z * z
    angle = zeta + real(0.25) * real(np.pi)
    sine = real(1) + w * horner(w, c.AIRY_AFN) / horner(w, c.AIRY_AFD)
    cosine = z * horner(w, c.AIRY_AGN) / horner(w, c.AIRY_AGD)
    wave = fma(in_double(np.sin, angle), sine, -(in_double(np.cos, angle) * cosine))
    return real(0.5641895835477563) / np.sqrt(np.sqrt(-x)) * wave


def _airy_right(x: ndarray) -> ndarray:
    real = x.dtype.type
    zeta = real(2) * x * np.sqrt(x) / real(3)
    value = real(0.5641895835477563) * ratio(real(1) / zeta, c.AIRY_AN, c.AIRY_AD)
    return value / (real(2) * np.sqrt(np.sqrt(x)) * in_double(np.exp, zeta))


def _airy_power(x: ndarray) -> ndarray:
    """Sum two power series at once; stop for each element where the first series stops changing."""
    real = x.dtype.type
    z = x * x * x
    f, g, m, n = np.ones_like(x), x.copy(), np.ones_like(x), x.copy()
    active, k = np.ones(x.shape, np.bool_), 1
    while active.any():
        m = m * z / real(k + 1) / real(k + 2)
        n = n * z / real(k + 2) / real(k + 3)
        f, g = np.where(active, f + m, f), np.where(active, g + n, g)
        k += 3
        active &= np.abs(m / f) > np.finfo(x.dtype).eps
    return fma(real(0.3550280538878172), f, -(real(0.2588194037928068) * g))
