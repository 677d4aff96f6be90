"""Exact samples of the discrete Gaussian, drawn by the thousand, from the entropy of the operating system alone.

The distribution on the integers has P(n) proportional to exp(-n**2 / (2 sigma**2)), sigma = p / q. The method is
Karney's (2016), with rationals in place of deviates of many digits. Every n >= 0 is ``n / sigma = k + x`` for one integer
k and one x = r / p in [0, 1), and ``exp(-(k + x)**2 / 2) = exp(-k**2 / 2) * exp(-x * (2 k + x) / 2)``. So:

1. k is drawn with weight exp(-k**2 / 2): a distribution that does not depend on sigma;
2. n is drawn evenly from the ceil(sigma) integers that follow k * sigma; those with x >= 1 are rejected;
3. n is kept with probability exp(-x * (2 k + x) / 2);
4. a sign is drawn, and minus zero rejected.

The samples are exact, though they are drawn with 64-bit integers. Steps 1 and 3 compare a uniform real U, of which the
first bits were drawn, with a real number c, of which integer arithmetic gives bounds. If all U with these bits lie
on one side of the bounds, so does U, and the comparison is decided. If not, which happens about once in 2**25, more bits
of U are drawn and c is computed to more digits, until it is decided (`_k_of`, `_below_exp`). No floating-point number takes part.
How many proposals a sample took says nothing about the sample, as proposals are independent.
"""

from __future__ import annotations

import decimal
import functools
import math
import os
import secrets

import numpy as np

MAX_TERM = 1 << 32  # of sigma's numerator and denominator: products of the two and of k fit in 64 bits
BLOCK = 1 << 15  # proposals at a time: they stay in the processor's cache

_K = 15  # the tables end there; a larger k is drawn once in 2**180
_X = 28  # bits after the point of x and of the exponent
_U = 31  # bits of the uniform of step 3, and after the point of its threshold


def discrete_gaussian(size: int, numerator: int, denominator: int = 1) -> np.ndarray:
    """Independent samples of the discrete Gaussian with sigma = numerator / denominator.

    Parameters
    ----------
    size : int
        How many.
    numerator, denominator : int
        From 1 to 2**32, after what they have in common is taken out.

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
    """The samples that come of so many proposals."""
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
    """``floor(2**63 * sum(exp(-i**2 / 2), i <= k))`` for each k of the table; the whole sum is below 2.

    The sums that are left out, and these, have their floors in common with the last one (a test computes it).
    """
    total, floors = 0, []
    for k in range(_K + 1):
        total += _exp_bounds(k * k, 2, 63 + 64)[0]
        floors.append(total >> 64)
    return np.array(floors, np.uint64)


def _draw_k(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The k of each uniform 64-bit word, and which words are no rejections."""
    bounds = _k_bounds()
    k = np.searchsorted(bounds, words, side="right")
    kept = k <= _K
    for i in np.flatnonzero(np.isin(words, bounds)):
        k[i] = _k_of(int(words[i]), 64)
        kept[i] = k[i] >= 0
    return np.where(kept, k, 0), kept


def _k_of(word: int, bits: int) -> int:
    """The k of a uniform real that begins with these bits, -1 for a rejection; draws more bits as it needs them."""
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
        # exp(-k**2 / 2) for k >= bits is below 2**-(bits**2 / 2), all of these together below one unit.
        if decided and word >= high + 1:
            return -1


# ---------------------------------------------------------------- step 3


@functools.cache
def _exp_tables() -> tuple[np.ndarray, np.ndarray]:
    """``floor(2**31 * exp(-i / 2**8))`` and ``floor(2**31 * exp(-i / 2**18))``: what the exponent's upper bits give."""
    coarse = [_exp_bounds(i, 1 << 8, _U + 64)[0] >> 64 for i in range((_K + 1) << 8)]
    fine = [_exp_bounds(i, 1 << 18, _U + 64)[0] >> 64 for i in range(1 << 10)]
    return np.array(coarse, np.int64), np.array(fine, np.int64)


def _threshold_bounds(k: np.ndarray, r: np.ndarray, p: int) -> tuple[np.ndarray, np.ndarray]:
    """Integers with ``low <= 2**31 * exp(-x * (2 k + x) / 2) <= high``, where x = r / p.

    In units of 2**-28, x is off by less than 1, and the exponent, whose slope is k + x, by less than k + 3, always towards
    0: in units of 2**-31 the threshold falls by less than 8 (k + 3). The tables are off by less than 1 each, their
    product's floor by 1, and the last factor, 1 - d for exp(-d) with d < 2**-18, by 2**-37 and a floor.
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
    """Whether a uniform real that begins with these bits is below exp(-a / b); draws more bits as it needs them."""
    while True:
        u, bits = (u << 64) | secrets.randbits(64), bits + 64
        low, high = _exp_bounds(a, b, bits)
        if u + 1 <= low:
            return True
        if u >= high:
            return False


@functools.lru_cache(1024)
def _exp_bounds(a: int, b: int, bits: int) -> tuple[int, int]:
    """Integers with ``low <= 2**bits * exp(-a / b) <= high``, for ``a / b`` up to 10**9.

    The decimal module's division and exp are rounded correctly, to at least 20 digits more than are asked for here.
    """
    if a == 0:
        return 1 << bits, 1 << bits
    with decimal.localcontext() as context:
        context.prec = bits * 302 // 1000 + 40
        context.Emin, context.Emax = decimal.MIN_EMIN, decimal.MAX_EMAX
        floor = int((-(decimal.Decimal(a) / decimal.Decimal(b))).exp() * (1 << bits))
    return max(floor - 1, 0), floor + 2
