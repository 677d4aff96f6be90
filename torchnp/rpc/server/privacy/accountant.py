"""Privacy cost of releases: zero-concentrated differential privacy (zCDP), and its conversion to (epsilon, delta).

A mechanism is rho-zCDP if, for neighbouring datasets, the Rényi divergence of its outputs is at most a * rho for every
order a > 1. Gaussian noise (continuous or discrete) of standard deviation sigma, added to a sum of L2 sensitivity D,
has rho = D**2 / (2 sigma**2). The rhos of several releases add up, even if each release is chosen after seeing the
earlier ones (Bun and Steinke 2016; Canonne, Kamath and Steinke 2020). Rhos are exact fractions. If a number has to be
rounded, it is rounded so that the client pays more.
"""

from __future__ import annotations

import math
from fractions import Fraction

UNIT = Fraction(1, 1 << 40)  # rho of one ledger unit

# Bounds the floating point error of the conversions below: each term of their sums is accurate to a few times 2**-53.
_ROUNDING = 2.0**-44


def gaussian_rho(sensitivity: Fraction | float, sigma: Fraction | float) -> Fraction:
    """Return the exact zCDP parameter of Gaussian noise.

    Parameters
    ----------
    sensitivity : Fraction or float
        Largest difference, in L2 norm, of the value before noise between neighbouring datasets.
    sigma : Fraction or float
        Standard deviation of the noise, above 0.
    """
    if not sigma > 0:
        raise ValueError(f"sigma is above 0, not {sigma}")
    return Fraction(sensitivity) ** 2 / (2 * Fraction(sigma) ** 2)


def epsilon_of(rho: Fraction | float, delta: float) -> float:
    """Return the epsilon that rho-zCDP guarantees at a delta. It may be larger than the best bound, but never smaller.

    The bound of Canonne, Kamath and Steinke (2020, Proposition 12) holds for every order a > 1: ``a * rho + log(1 / (a
    * delta)) / (a - 1) + log(1 - 1 / a)``. A search finds a good order. The bound is valid even if the search misses
    the best order. The possible floating point error is added.
    """
    _check_delta(delta)
    if not 0 <= rho < math.inf:
        raise ValueError(f"rho is a finite number of at least 0, not {rho}")
    if rho == 0:
        return 0.0
    cost, log_delta = _up(Fraction(rho)), math.log(delta)

    def bound(u: float) -> float:
        """Return the bound at the order 1 + exp(u), rounded up."""
        above = math.exp(u)
        order = 1 + above
        terms = (
            order * cost,
            (-log_delta - math.log1p(above)) / above,
            u - math.log1p(above),  # equals log(1 - 1/a) = log(a - 1) - log(a)
        )
        size = abs(terms[0]) + (abs(log_delta) + math.log1p(above)) / above + abs(u) + math.log1p(above)
        return sum(terms) + _ROUNDING * size

    low = math.log(-log_delta / cost) / 2 - 6  # near the point where the first two terms are equal
    high = low + 12
    for _ in range(60):
        third = (high - low) / 3
        if bound(low + third) <= bound(high - third):
            high -= third
        else:
            low += third
    return max(0.0, min(bound(low), bound(high)))


def rho_of(epsilon: float, delta: float) -> Fraction:
    """Return the largest rho whose `epsilon_of` is at most epsilon, rounded down."""
    _check_delta(delta)
    if not 0 < epsilon < math.inf:
        raise ValueError(f"epsilon is a finite number above 0, not {epsilon}")
    low, high = 0.0, 1.0
    while epsilon_of(high, delta) <= epsilon:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high and high - low > 1e-12 * high:
        if epsilon_of(middle, delta) <= epsilon:
            low = middle
        else:
            high = middle
    return Fraction(low)


def sigma_of(rho: Fraction | float, sensitivity: Fraction | float) -> float:
    """Return the least sigma for which noise on a sum of this sensitivity costs at most rho, rounded up."""
    if not rho > 0:
        raise ValueError(f"rho is above 0, not {rho}")
    square = Fraction(sensitivity) ** 2 / (2 * Fraction(rho))
    sigma = math.sqrt(_up(square))
    while Fraction(sigma) ** 2 < square:
        sigma = math.nextafter(sigma, math.inf)
    return sigma


def units_up(rho: Fraction) -> int:
    """Return a cost in the ledger's units, rounded up."""
    return math.ceil(rho / UNIT)


def units_down(rho: Fraction) -> int:
    """Return a budget in the ledger's units, rounded down."""
    return math.floor(rho / UNIT)


def _check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise ValueError(f"delta is between 0 and 1, not {delta}")


def _up(exact: Fraction) -> float:
    """Round a fraction up to a float."""
    near = exact.numerator / exact.denominator  # Python's division of ints rounds correctly
    return near if Fraction(near) >= exact else math.nextafter(near, math.inf)
