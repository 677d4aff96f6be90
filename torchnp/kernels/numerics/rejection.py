"""Rejection sampling, as in torch's samplers: how many random values an element uses depends on the values.

A walk samples elements in order from a list of uniform values. It ends after the last element for which the list
suffices, and returns the number of values that these elements have used. The next walk continues there, with a longer
list. Everything that depends only on an element's parameters is computed beforehand, for many elements at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import numpy as np

from torchnp.random import Generator, ReadAhead, libm
from torchnp.threads import blocks
from torchnp.thresholds import Threshold

ndarray = np.ndarray
Walk = Callable[[ReadAhead, Iterable[Any], list[float]], int]
_BLOCK: Threshold = 1 << 11  # elements whose parameters and uniform values are converted to Python lists at a time


def sample(
    source: Generator, parameters: Callable[[slice], tuple[Walk, list[ndarray]]], out: ndarray, expected: float
) -> None:
    """Sample each element of a flat array.

    Parameters
    ----------
    source : Generator
    parameters : callable
       Returns the walk for a part of the elements, and arrays of their parameters.
    out : ndarray
       Receives the values.
    expected : float
       The number of uniform values that an element uses on average; a wrong number only costs time.
    """
    with source.read_ahead() as ahead:
        for part in blocks(out.size, _BLOCK):
            walk, columns = parameters(part)
            lists, n = [x.tolist() for x in columns], part.stop - part.start
            found: list[float] = []
            while True:
                # zip reuses one tuple; a list of rows would hold a tuple for each element
                rows = zip(*(islice(x, len(found), None) for x in lists), strict=True)
                ahead.drop(walk(ahead, rows, found))
                if len(found) == n:
                    break
                ahead.extend(int(expected * (n - len(found))) + 64)
            out[part] = np.array(found, np.float64)


# ---------------------------------------------------------------- gamma

_SQUEEZE = float(np.float32(0.0331))
_PLAIN, _BELOW_ONE, _ZERO = range(3)  # kinds of shape parameters


def _power(x: float, exponent: float) -> float:
    try:
        return math.pow(x, exponent)
    except OverflowError:
        return math.inf


def gamma(alpha: ndarray) -> tuple[Walk, list[ndarray]]:
    """Return Marsaglia and Tsang's sampler; for alpha below 1, it scales a sample that it draws for alpha + 1."""
    one, third = alpha.dtype.type(1), alpha.dtype.type(np.float32(1) / np.float32(3))
    kind = np.where(alpha < 1, np.where(alpha == 0, _ZERO, _BELOW_ONE), _PLAIN)
    d = (np.where(alpha < 1, alpha + one, alpha) - third).astype(np.float64)
    c = np.where(d > 0, 1.0 / np.sqrt(9.0 * d), math.nan)
    return _walk_gamma, [kind, d, c, (one / alpha).astype(np.float64)]


def _walk_gamma(ahead: ReadAhead, rows: Iterable[Any], found: list[float]) -> int:
    u, normal, p, start = ahead.values, ahead.normal, 0, 0
    turn, log, log1p, sqrt, sin, cos = 2.0 * math.pi, math.log, math.log1p, math.sqrt, math.sin, math.cos
    try:
        for kind, d, c, exponent in rows:
            scale = 1.0
            if kind:
                if kind == _ZERO:
                    found.append(0.0)
                    continue
                scale = _power(1.0 - u[p], exponent)
                p += 1
            while True:
                if normal is None:
                    radius, angle = sqrt(-2.0 * log1p(-u[p + 1])), turn * u[p]
                    p += 2
                    x, normal = radius * cos(angle), radius * sin(angle)
                else:
                    x, normal = normal, None
                y = 1.0 + c * x
                if y <= 0.0:  # with a nan shape, only the normal value decides about acceptance
                    continue
                v = y * y * y
                w = 1.0 - u[p]
                p += 1
                square = x * x
                if w < 1.0 - _SQUEEZE * square * square or log(w) < 0.5 * square + d * (1.0 - v + log(v)):
                    break
            found.append(scale * d * v)
            start, ahead.normal = p, normal
    except IndexError:
        pass
    return start


# ---------------------------------------------------------------- transformed rejection

_QUICK, _THIN = 0.07, 0.013  # Hoermann's limits for ``us``, the distance of u from the ends of its range


def poisson(rate: ndarray) -> tuple[Walk, list[ndarray]]:
    """Return the sampler: multiply uniform values for rates below 10, else use Hoermann's transformed rejection."""
    columns, where = np.zeros((5, rate.size)), rate >= 10
    large = rate[where]
    b = 0.931 + 2.53 * np.sqrt(large)
    log_scale = libm(math.log, 1.1239 + 1.1328 / (b - 3.4))
    columns[:, where] = libm(math.log, large), log_scale, -0.059 + 0.02483 * b, b, 0.9277 - 3.6224 / (b - 2)
    return _walk_poisson, [rate, *columns]


def _walk_poisson(ahead: ReadAhead, rows: Iterable[Any], found: list[float]) -> int:
    u, p, start = ahead.values, 0, 0
    log, lgamma, floor, exp = math.log, math.lgamma, math.floor, math.exp
    try:
        for rate, log_rate, log_scale, a, b, v_r in rows:
            if rate < 10:
                if rate == 0:
                    found.append(0)
                    continue
                limit, product = exp(-rate), u[p]
                p += 1
                while product > limit:
                    product *= u[p]
                    p += 1
                found.append(p - start - 1)
                start = p
                continue
            while True:
                w, v = u[p] - 0.5, u[p + 1]
                p += 2
                us = 0.5 - abs(w)
                if us == 0:  # the quotient is infinite, so its integer part is not a count
                    continue
                k = floor((2 * a / us + b) * w + (rate + 0.43))
                if k < 0:
                    continue
                if us >= _QUICK and v <= v_r:
                    break
                if us < _THIN and v > us:
                    continue
                bound = -rate + k * log_rate - lgamma(k + 1)
                if (log(v) if v else -math.inf) + log_scale - log(a / (us * us) + b) <= bound:
                    break
            found.append(k)
            start = p
    except IndexError:
        pass
    return start


_TAILS = (
    0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509, 0.0166446911898211,
    0.0138761288230707, 0.0118967099458917, 0.0104112652619720, 0.00925546218271273, 0.00833056343336287,
)  # fmt: skip


def _tails(k: ndarray) -> ndarray:
    square = (k + 1) * (k + 1)
    large = (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1)
    return np.where(k < len(_TAILS), np.take(_TAILS, k.clip(0, len(_TAILS) - 1).astype(np.intp)), large)


def _tail(k: float) -> float:
    """Return the difference between log(k!) and Stirling's formula."""
    if k < len(_TAILS):
        return _TAILS[int(k)]
    square = (k + 1) * (k + 1)
    return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1)


_FIXED, _INVERSION, _REJECTION = range(3)  # kinds of binomial distributions; a fixed one has one value


def binomial(count: ndarray, prob: ndarray) -> tuple[Walk, list[ndarray]]:
    """Return the sampler, for ``prob`` or its complement.

    It adds up the failures between successes if few successes are expected, else it uses transformed rejection.
    """
    nothing, unknown = (count <= 0) | (prob <= 0), np.isnan(prob) | np.isnan(count)
    fixed = nothing | unknown | (prob >= 1)
    value = np.where(nothing, 0, np.where(prob >= 1, count, np.nan))
    small = np.where(prob <= 0.5, prob, (1.0 - prob.astype(np.float64)).astype(prob.dtype))
    kind = np.where(fixed, _FIXED, np.where(count * small >= 10, _REJECTION, _INVERSION))
    log_failure = np.log1p(-small).astype(np.float64)
    n, where = np.where(fixed, value, count), kind == _REJECTION
    columns = np.zeros((10, n.size))
    columns[:, where] = _of_rejection(count[where], small[where])
    return _walk_binomial, [kind, n, log_failure, *columns]


def _of_rejection(count: ndarray, prob: ndarray) -> tuple[ndarray, ...]:
    """Return the parameters of `_walk_binomial` for rejection; torch computes some in the distribution's dtype."""
    one = count.dtype.type(1)
    failure = one - prob
    deviation = np.sqrt(count * prob * failure).astype(np.float64)
    n = count.astype(np.float64)
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * prob.astype(np.float64)
    r = (prob / failure).astype(np.float64)
    m = np.floor(((count + one) * prob).astype(np.float64))
    first = (m + 0.5) * libm(math.log, (m + 1) / (r * (n - m + 1)))
    center = (count * prob).astype(np.float64) + 0.5
    alpha = (2.83 + 5.1 / b) * deviation
    return a, b, center, 0.92 - 4.2 / b, alpha, r, m, first, _tails(m), _tails(n - m)


def _walk_binomial(ahead: ReadAhead, rows: Iterable[Any], found: list[float]) -> int:
    u, p, start = ahead.values, 0, 0
    log, ceil, floor = math.log, math.ceil, math.floor
    try:
        for kind, n, log_failure, a, b, center, v_r, alpha, r, m, first, tail, rest in rows:
            if kind == _FIXED:
                found.append(n)
                continue
            if kind == _REJECTION:
                while True:
                    w, v = u[p] - 0.5, u[p + 1]
                    p += 2
                    us = 0.5 - (w if w > 0 else -w)
                    if us == 0:
                        continue
                    k = floor((2 * a / us + b) * w + center)
                    if us >= _QUICK and v <= v_r and 0 <= k <= n:
                        break
                    if 0 <= k <= n and _accepts_binomial(k, n, v, a / (us * us) + b, alpha, r, m, first, tail, rest):
                        break
            else:
                k, total = -1, 0.0
                while total <= n:
                    w = u[p]
                    p += 1
                    k += 1
                    trials = log(w) / log_failure if w else math.inf
                    total = total + ceil(trials) if trials <= n else math.inf
            found.append(k)
            start = p
    except IndexError:
        pass
    return start


def _accepts_binomial(
    k: int, n: float, v: float, spread: float, alpha: float, r: float, m: float, first: float, tail: float, rest: float
) -> bool:
    """Return whether ``k`` passes the test of its probability; needed only if the quick test does not accept ``k``."""
    log = math.log
    bound = first + (n + 1) * log((n - m + 1) / (n - k + 1))
    bound = bound + (k + 0.5) * log(r * (n - k + 1) / (k + 1)) + tail + rest - _tail(k)
    return (log(v * alpha / spread) if v else -math.inf) <= bound - _tail(n - k)
