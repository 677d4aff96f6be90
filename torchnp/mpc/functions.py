"""Functions of secret fixed-point numbers (exp, log, reciprocal, roots), computed with tables and polynomials.

An argument is split into an exponent and a mantissa, both secret. A polynomial of the mantissa is computed with 24
fractional bits. The exponent is a vector with a single 1, which selects a power of two from a public table.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import chebyshev

from torchnp.mpc.fixed_point import FixedPoint
from torchnp.mpc.shares import SharedSum, SharedXor

INNER = 24  # fractional bits of mantissas, so that their products stay below 2**62
PLACES = 42  # words of arguments are below 2**42
DEGREE = 8  # polynomials on [-1, 1] are off by less than 2**-22 from 1/x, log, sqrt on [1/2, 1], and from 2**x
EXPONENTS = 64  # length of the unit vector of an exponent


@functools.cache
def _coefficients(function: Callable[[np.ndarray], np.ndarray], degree: int = DEGREE) -> tuple[float, ...]:
    """Return the coefficients, lowest power first, of the interpolation at the Chebyshev points of [-1, 1]."""
    points = chebyshev.chebpts1(degree + 1)
    return tuple(chebyshev.cheb2poly(chebyshev.chebfit(points, function(points), degree)))


def _stack(*values: SharedSum) -> SharedSum:
    return SharedSum(tuple(np.stack(parts) for parts in zip(*(v.parts for v in values))), values[0].bits)


def _at(p: FixedPoint, i: int, x: SharedSum) -> SharedSum:
    return p.each(lambda w: w[i], x)


def polynomial(p: FixedPoint, u: SharedSum, function: Callable[[np.ndarray], np.ndarray]) -> SharedSum:
    """Compute a function on [-1, 1] with its polynomial, in 24 fractional bits; seven rounds."""
    powers = [u]
    while len(powers) < DEGREE:
        n = len(powers)
        top = powers[-1]
        ahead = _stack(*powers[: min(n, DEGREE - n)])
        products = p.times(p.each(lambda w, a: np.broadcast_to(w, a.shape), top, ahead), ahead, INNER)
        powers += [_at(p, i, products) for i in range(ahead.shape[0])]
    first, *rest = (p.encode(c, INNER) for c in _coefficients(function))
    total = p.each(lambda *ws: sum(c * w for c, w in zip(rest, ws)), *powers, bits=2 * INNER)
    return p.plus(p.truncate(total, INNER), first)


# ---------------------------------------------------------------- exponent and mantissa


@dataclass(frozen=True)
class Mantissa:
    """Numbers as ``(1 - 2 * sign) * mantissa * 2 ** (k + 1 - bits)``, where ``k`` is the index of the 1 in ``place``.

    Attributes
    ----------
    sign : SharedSum
        1 for negative numbers.
    centred : SharedSum
        ``4 * mantissa - 3``, with 24 fractional bits.
    place : SharedSum
        The vector with a single 1, along the first dimension; for the number 0, all its elements are 0.
    """

    sign: SharedSum
    centred: SharedSum
    place: SharedSum

    def weight(self, p: FixedPoint, table: Callable[[int], float]) -> SharedSum:
        """Return the word ``table(k)``, rounded; it is computed as a sum over the vector."""
        words = np.array([round(table(k)) for k in range(PLACES)], np.int64)
        return p.each(lambda w: np.tensordot(words, w, 1), self.place)


def split(p: FixedPoint, x: SharedSum) -> Mantissa:
    """Split numbers whose words are below ``2**42`` into sign, mantissa and exponent; 17 rounds."""
    bits = p.bits_of(x)
    sign = SharedXor(tuple(w >> np.uint64(63) for w in bits.parts))
    size = SharedXor(tuple(w ^ (np.uint64(0) - s) for w, s in zip(bits.parts, sign.parts)))  # |x|, or |x| - 1 for x < 0
    highest = p.highest_bit(size)
    below = np.uint64((1 << PLACES) - 1)
    marked = SharedXor(tuple((w & below) ^ (s << np.uint64(PLACES)) for w, s in zip(highest.parts, sign.parts)))
    ones = p.to_sums(marked, PLACES + 1)
    place, negative = p.each(lambda w: w[:-1], ones), _at(p, PLACES, ones)
    positive = p.multiply(x, p.plus(p.each(lambda w: -2 * w, negative), np.int64(1)))
    found = Mantissa(negative, positive, place)
    scale = found.weight(p, lambda k: 1 << (PLACES - 1 - k))
    mantissa = p.multiply(p.each(lambda w: w, positive, bits=PLACES), scale)
    centred = p.plus(p.each(lambda w: 4 * w, p.truncate(mantissa, PLACES - INNER)), np.int64(-3 << INNER))
    return Mantissa(negative, centred, place)


def _signed(p: FixedPoint, negative: SharedSum, x: SharedSum) -> SharedSum:
    return p.multiply(x, p.plus(p.each(lambda w: -2 * w, negative), np.int64(1)))


def _inverse(u: np.ndarray) -> np.ndarray:
    return 4 / (3 + u)


def _root(u: np.ndarray) -> np.ndarray:
    return np.sqrt((3 + u) / 4)


def _inverse_root(u: np.ndarray) -> np.ndarray:
    return 1 / np.sqrt((3 + u) / 4)


def _logarithm(u: np.ndarray) -> np.ndarray:
    return np.log((3 + u) / 4)


def reciprocal(p: FixedPoint, x: SharedSum) -> SharedSum:
    """Return ``1 / x`` if ``|x| >= 2 ** (5 - bits)``.

    For smaller numbers the result is too small in magnitude, and for 0 it is 0.
    """
    found = split(p, x)
    weight = found.weight(p, lambda k: 2.0 ** min(PLACES - 1 - k, 60 - INNER))
    product = p.multiply(polynomial(p, found.centred, _inverse), weight)
    return _signed(p, found.sign, _cut(p, product, INNER + PLACES - 2 * p.bits))


def _cut(p: FixedPoint, product: SharedSum, count: int) -> SharedSum:
    """Truncate words to the number of fractional bits of results."""
    return p.truncate(SharedSum(product.parts, p.bits + count), count)


def divide(p: FixedPoint, x: SharedSum, y: SharedSum) -> SharedSum:
    """Return ``x / y``; only the quotient is rounded, and not a small reciprocal."""
    found = split(p, y)
    weight = found.weight(p, lambda k: 2.0 ** (PLACES - 1 - k))
    ratio = p.times(p.at(x, p.bits), polynomial(p, found.centred, _inverse), p.bits)
    return _signed(p, found.sign, _cut(p, p.multiply(ratio, weight), PLACES - p.bits))


def _rooted(p: FixedPoint, x: SharedSum, function: Callable[[np.ndarray], np.ndarray], sign: int) -> SharedSum:
    found = split(p, x)
    weight = found.weight(p, lambda k: 2.0 ** (sign * (k + 1 - p.bits) / 2 + INNER))
    return _cut(p, p.multiply(polynomial(p, found.centred, function), weight), 2 * INNER - p.bits)


def sqrt(p: FixedPoint, x: SharedSum) -> SharedSum:
    """Return the square root of non-negative numbers."""
    return _rooted(p, x, _root, 1)


def rsqrt(p: FixedPoint, x: SharedSum) -> SharedSum:
    """Return the reciprocal square root of positive numbers, and 0 for 0."""
    return _rooted(p, x, _inverse_root, -1)


def log(p: FixedPoint, x: SharedSum) -> SharedSum:
    """Return the natural logarithm of positive numbers."""
    found = split(p, x)
    exponent = found.weight(p, lambda k: (k + 1 - p.bits) * math.log(2) * 2.0**INNER)
    return p.at(p.add(polynomial(p, found.centred, _logarithm), exponent), p.bits)


# ---------------------------------------------------------------- exponentials


def exp(p: FixedPoint, x: SharedSum) -> SharedSum:
    """Return ``e ** x``, or 0 if that is below the last place; a result above ``2 ** (35 - bits)`` is wrong."""
    down = p.bits + 1  # smaller powers of two are 0
    small = p.negative(p.plus(x, p.encode(down * math.log(2), x.bits)))
    factor = p.encode(math.log2(math.e), INNER)
    y = p.at(p.each(lambda w: w * factor, x, bits=x.bits + INNER), INNER)
    whole = p.truncate(y, INNER)  # rounded down or up, so the rest is between -1 and 1
    rest = p.subtract(y, p.at(whole, INNER))
    vectors = p.unit_vectors(whole, EXPONENTS)
    highest = 60 - INNER - down
    exponents = np.arange(EXPONENTS)
    exponents = np.where(exponents < EXPONENTS // 2, exponents, exponents - EXPONENTS)
    words = np.where(exponents < -down, 0, np.exp2(np.clip(exponents, -down, highest) + down)).astype(np.int64)
    power = p.each(lambda w: w @ words, vectors)
    power = p.multiply(power, p.complement(small))
    return _cut(p, p.multiply(polynomial(p, rest, np.exp2), power), INNER + down - p.bits)


def sigmoid(p: FixedPoint, x: SharedSum) -> SharedSum:
    """Return ``1 / (1 + e ** -x)``, computed from the result for ``|x|``."""
    negative = p.negative(x)
    falling = exp(p, p.each(np.negative, _signed(p, negative, x)))
    centred = p.plus(p.each(lambda w: 2 * w, p.at(falling, INNER)), np.int64(-1 << INNER))
    right = p.at(polynomial(p, centred, _half_inverse), p.bits)
    flipped = p.plus(p.each(lambda w: -2 * w, right), np.int64(1 << p.bits))
    return p.add(right, p.multiply(negative, flipped))


def _half_inverse(u: np.ndarray) -> np.ndarray:
    return 2 / (3 + u)


def tanh(p: FixedPoint, x: SharedSum) -> SharedSum:
    """Return the hyperbolic tangent as ``2 * sigmoid(2 * x) - 1``."""
    twice = sigmoid(p, p.each(lambda w: 2 * w, x))
    return p.plus(p.each(lambda w: 2 * w, twice), np.int64(-1 << p.bits))


# M. Abramowitz and I. A. Stegun, Handbook of Mathematical Functions, 7.1.26: the error is at most 1.5e-7.
_ERF_SLOPE = 0.3275911
_ERF = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)


def erf(p: FixedPoint, x: SharedSum) -> SharedSum:
    """Return the error function, computed from the result for ``|x|``.

    That is 1 minus a polynomial in ``1 / (1 + c |x|)`` times ``e ** -x**2``.
    """
    negative = p.negative(x)
    size = _signed(p, negative, x)
    falling = exp(p, p.each(np.negative, p.times(x, x, p.bits)))
    t = p.at(reciprocal(p, p.plus(p.scaled(size, _ERF_SLOPE), np.int64(1 << p.bits))), INNER)
    square = p.times(t, t, INNER)
    further = p.times(_stack(t, square), p.each(lambda w: np.broadcast_to(w, (2, *w.shape)), square), INNER)
    fifth = p.times(_at(p, 1, further), t, INNER)
    powers = (t, square, _at(p, 0, further), _at(p, 1, further), fifth)
    words = [p.encode(c, INNER) for c in _ERF]
    total = p.each(lambda *ws: sum(c * w for c, w in zip(words, ws)), *powers, bits=2 * INNER)
    rest = p.times(p.truncate(total, INNER), falling, p.bits)
    return _signed(p, negative, p.plus(p.each(np.negative, rest), np.int64(1 << p.bits)))


# ---------------------------------------------------------------- the largest


def largest(p: FixedPoint, x: SharedSum, with_place: bool = False) -> tuple[SharedSum, SharedSum | None]:
    """Return the largest number along the last dimension, and a vector with a 1 at the index of its first occurrence.

    Neighbours are compared, then the larger ones of each pair, and so on; each of these steps takes nine rounds.
    """
    places, count = None, x.shape[-1]
    if not count or not math.prod(x.shape):
        nothing = p.each(lambda w: np.zeros(w.shape[:-1], np.int64), x)
        return nothing, p.each(lambda w: np.zeros(w.shape, np.int64), x, bits=0) if with_place else None
    if with_place:
        ones = np.ones((*x.shape, 1), np.int64)
        places = p.constant(ones)
    while x.shape[-1] > 1:
        n = x.shape[-1]
        left, right = p.each(lambda w: w[..., 0 : n - 1 : 2], x), p.each(lambda w: w[..., 1::2], x)
        right_wins = p.less(left, right)
        odd = n % 2
        if places is None:
            joined = p.add(left, p.multiply(right_wins, p.subtract(right, left)))
        else:
            joined, won = _with_places(p, left, right, right_wins, places, n)
            if odd:
                width = won.shape[-1]
                last = p.each(lambda w: w[..., -1:, :], places)
                last = p.each(lambda w: np.pad(w, [(0, 0)] * (w.ndim - 1) + [(0, width - w.shape[-1])]), last)
                won = p.each(lambda a, b: np.concatenate([a, b], -2), won, last)
            places = won
        if odd:
            joined = p.each(lambda a, w: np.concatenate([a, w[..., -1:]], -1), joined, x)
        x = SharedSum(joined.parts, x.bits)
    top = p.each(lambda w: w[..., 0], x)
    return top, None if places is None else p.each(lambda w: w[..., 0, :count], places)


def _with_places(
    p: FixedPoint, left: SharedSum, right: SharedSum, right_wins: SharedSum, places: SharedSum, n: int
) -> tuple[SharedSum, SharedSum]:
    """Return the larger of each two neighbours, and their two vectors joined, the smaller one's set to 0; one round."""
    mine, others = p.each(lambda w: w[..., 0 : n - 1 : 2, :], places), p.each(lambda w: w[..., 1::2, :], places)
    factors = p.each(lambda a, b, u, v: np.concatenate([(b - a)[..., None], u, v], -1), left, right, mine, others)
    products = p.multiply(p.each(lambda w: w[..., None], right_wins, bits=0), factors)
    width = mine.shape[-1]
    joined = p.each(lambda a, w: a + w[..., 0], left, products)
    won = p.each(
        lambda u, w: np.concatenate([u - w[..., 1 : 1 + width], w[..., 1 + width :]], -1), mine, products, bits=0
    )
    return joined, won
