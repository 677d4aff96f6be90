"""Exact vectorized sampling of the discrete Gaussian, with randomness only from the operating system.

The distribution on the integers has P(n) proportional to exp(-n**2 / (2 sigma**2)), sigma = p / q. The method is
Karney's (2016), with rational numbers instead of multi-digit deviates. For every n >= 0 there are one integer k and one
x = r / p in [0, 1) with ``n / sigma = k + x``, and ``exp(-(k + x)**2 / 2) = exp(-k**2 / 2) * exp(-x * (2 k + x) / 2)``.
So:

1. k is drawn with weight exp(-k**2 / 2). This distribution does not depend on sigma.
2. n is drawn uniformly from the ceil(sigma) integers that follow k * sigma. Those with x >= 1 are rejected.
3. n is kept with probability exp(-x * (2 k + x) / 2).
4. A sign is drawn, and minus zero is rejected.

The samples are exact, although they are computed with 64-bit integers. Steps 1 and 3 compare a uniform real number U,
of which only the first bits have been drawn, with a real number c, for which integer arithmetic gives bounds. If all U
that begin with these bits are on one side of the bounds, the comparison is decided. Otherwise, about once in 2**25,
more bits of U are drawn and c is computed to more digits until it is decided (`_k_of`, `_below_exp`). No floating-point
arithmetic is used. The number of proposals that a sample took reveals nothing about the sample, because proposals are
independent.
"""

from __future__ import annotations

import decimal
import functools
import math
import os
import secrets

import numpy as np

MAX_TERM = 1 << 32  # limit of sigma's numerator and denominator, so that products of both with k fit in 64 bits
BLOCK = 1 << 15  # proposals per batch, which stay in the CPU cache

_K = 15  # largest k in the tables; a larger one is drawn with probability 2**-180
_X = 28  # fractional bits of x and of the exponent
_U = 31  # bits of the uniform number in step 3, and fractional bits of its threshold


def discrete_gaussian(size: int, numerator: int, denominator: int = 1) -> np.ndarray:
    """Draw independent samples of the discrete Gaussian with sigma = numerator / denominator.

    Parameters
    ----------
    size : int
        Number of samples.
    numerator, denominator : int
        Integers from 1 to 2**32, after reduction to lowest terms.

    Returns
    -------
    ndarray of int64, shape (size,)
    """
    common = math.gcd(numerator, denominator)
    p, q = numerator // common, denominator // common
    if not (1 <= p <= MAX_TERM and 1 <= q <= MAX_TERM):
        raise ValueError(f"sigma is a fraction of integers from 1 to 2**32, not {numerator}/{denominator}")
    out = np.empty(size, np.int64)
    done = 0
    while done < size:
        kept = _proposals(min(BLOCK, 2 * (size - done) + 64), p, q)[: size - done]
        out[done : done + len(kept)] = kept
        done += len(kept)
    return out


def _proposals(count: int, p: int, q: int) -> np.ndarray:
    """Make ``count`` proposals and return the accepted samples."""
    wide = np.frombuffer(os.urandom(16 * count), np.uint64).reshape(2, count)
    k, proposed = _draw_k(wide[0])
    spread = -(-p // q)
    cell = np.uint64((2**64 - 1) // spread)
    j = (wide[1] // cell).astype(np.int64)
    n = -(-(k * p) // q) + j
    r = n * q - k * p
    chosen = np.flatnonzero(proposed & (j < spread) & (r < p))
    k, n, r = k[chosen], n[chosen], r[chosen]
    bits = np.frombuffer(os.urandom(4 * len(k)), np.uint32).astype(np.int64)
    u, minus = bits >> 1, bits & 1
    low, high = _threshold_bounds(k, r, p)
    kept = u < low
    for i in np.flatnonzero((u >= low) & (u < high)):
        a = int(r[i]) * (2 * int(k[i]) * p + int(r[i]))
        kept[i] = _below_exp(int(u[i]), _U, a, 2 * p * p)
    kept &= (n != 0) | (minus == 0)
    return np.where(minus, -n, n)[kept]


# ---------------------------------------------------------------- step 1


@functools.cache
def _k_bounds() -> np.ndarray:
    """Return ``floor(2**63 * sum(exp(-i**2 / 2), i <= k))`` for each k of the table; the infinite sum is below 2.

    All longer partial sums have the same floor as the last one here; a test checks this.
    """
    total, floors = 0, []
    for k in range(_K + 1):
        total += _exp_bounds(k * k, 2, 63 + 64)[0]
        floors.append(total >> 64)
    return np.array(floors, np.uint64)


def _draw_k(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the k of each uniform 64-bit word, and whether each word is accepted."""
    bounds = _k_bounds()
    k = np.searchsorted(bounds, words, side="right")
    kept = k <= _K
    for i in np.flatnonzero(np.isin(words, bounds)):
        k[i] = _k_of(int(words[i]), 64)
        kept[i] = k[i] >= 0
    return np.where(kept, k, 0), kept


def _k_of(word: int, bits: int) -> int:
    """Return the k of a uniform real number that begins with these bits, or -1 if it is rejected.

    More bits are drawn as needed.
    """
    while True:
        word, bits = (word << 64) | secrets.randbits(64), bits + 64
        low = high = 0
        decided = True
        for k in range(bits):
            least, most = _exp_bounds(k * k, 2, bits - 1)
            low, high = low + least, high + most
            if word + 1 <= low:
                return k
            decided = word >= high
            if not decided:
                break
        # For k >= bits, exp(-k**2 / 2) is below 2**-(bits**2 / 2), and the sum of all these is below one unit.
        if decided and word >= high + 1:
            return -1


# ---------------------------------------------------------------- step 3


@functools.cache
def _exp_tables() -> tuple[np.ndarray, np.ndarray]:
    """Return ``floor(2**31 * exp(-i / 2**8))`` and ``floor(2**31 * exp(-i / 2**18))`` for the exponent's upper bits."""
    coarse = [_exp_bounds(i, 1 << 8, _U + 64)[0] >> 64 for i in range((_K + 1) << 8)]
    fine = [_exp_bounds(i, 1 << 18, _U + 64)[0] >> 64 for i in range(1 << 10)]
    return np.array(coarse, np.int64), np.array(fine, np.int64)


def _threshold_bounds(k: np.ndarray, r: np.ndarray, p: int) -> tuple[np.ndarray, np.ndarray]:
    """Return integers with ``low <= 2**31 * exp(-x * (2 k + x) / 2) <= high``, where x = r / p.

    In units of 2**-28, the error of x is below 1. The exponent has slope k + x, so its error is below k + 3; both
    errors are towards 0. So in units of 2**-31, the threshold falls by less than 8 (k + 3). Further errors are: less
    than 1 for each table, 1 for the floor of their product, and 2**-37 and a floor for the last factor, which is 1 - d
    instead of exp(-d) with d < 2**-18.
    """
    coarse, fine = _exp_tables()
    inside = k <= _K
    k = np.minimum(k, _K)
    x = (r << _X) // p
    exponent = x * ((k << (_X + 1)) + x) >> (_X + 1)
    value = coarse[exponent >> 20] * fine[(exponent >> 10) & 1023] >> _U
    value -= value * (exponent & 1023) >> _X
    return np.where(inside, value - 8 * (k + 4), 0), np.where(inside, value + 8, 2**_U)


def _below_exp(u: int, bits: int, a: int, b: int) -> bool:
    """Return whether a uniform real number that begins with these bits is below exp(-a / b).

    More bits are drawn as needed.
    """
    while True:
        u, bits = (u << 64) | secrets.randbits(64), bits + 64
        low, high = _exp_bounds(a, b, bits)
        if u + 1 <= low:
            return True
        if u >= high:
            return False


@functools.lru_cache(1024)
def _exp_bounds(a: int, b: int, bits: int) -> tuple[int, int]:
    """Return integers with ``low <= 2**bits * exp(-a / b) <= high``, for ``a / b`` up to 10**9.

    The decimal module rounds division and exp correctly, to at least 20 more digits than this result needs.
    """
    if a == 0:
        return 1 << bits, 1 << bits
    with decimal.localcontext() as context:
        context.prec = bits * 302 // 1000 + 40
        context.Emin, context.Emax = decimal.MIN_EMIN, decimal.MAX_EMAX
        floor = int((-(decimal.Decimal(a) / decimal.Decimal(b))).exp() * (1 << bits))
    return max(floor - 1, 0), floor + 2
