"""Protocols on shares: products, truncation, comparison, bits and unit vectors.

All protocols are secure against semi-honest parties (which follow the protocol), even if all but one of them collude,
provided that the dealer is honest and colludes with none of them. Every opened value is hidden by a uniformly random
mask (perfect masking), and nothing here branches on a value.

- Products: D. Beaver, "Efficient multiparty protocols using circuit randomization", CRYPTO 1991.
- Truncation: the protocol for rings and values of at most 62 bits of D. Escudero, S. Ghosh, M. Keller, R. Rachuri and
  P. Scholl, "Improved primitives for MPC over mixed arithmetic-binary circuits", CRYPTO 2020 (section 5); the dealer
  replaces their preprocessing.
- Comparison by a masked opening: I. Damgard, M. Fitzi, E. Kiltz, J. B. Nielsen and T. Toft, "Unconditionally secure
  constant-rounds multi-party computation for equality, comparison, bits and exponentiation", TCC 2006, modulo 2**64 as
  in the paper above: ``c = x + r`` is opened, and a tree of depth six compares ``c`` with the shared bits of ``r``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from torchnp.mpc import bilinear
from torchnp.mpc.correlations import interleave
from torchnp.mpc.network import Network
from torchnp.mpc.shares import SharedSum, SharedXor

ONE, TOP, BELOW = np.uint64(1), np.uint64(63), np.uint64(2**63 - 1)
_WIDTHS = (32, 16, 8, 4, 2, 1)  # widths, in bits, of the halves of a word, the halves of these, and so on
RANGE_BITS = 62  # truncated values are below 2**62; one bit is for the sign, and one so that the mask's carry is known


class Protocol:
    """Operations on shares over a network and a source of correlated randomness.

    Parameters
    ----------
    network : Network
    source : LocalSource or RemoteSource
    """

    def __init__(self, network: Network, source: Any) -> None:
        self.network, self.source = network, source
        self._first = 0 in network.ranks  # whether this process holds the share to which public values are added

    # ------------------------------------------------------------ without messages

    def each(self, function: Callable[..., np.ndarray], *values: SharedSum, bits: int | None = None) -> SharedSum:
        """Apply a linear function of words to each party's shares."""
        parts = tuple(function(*parts) for parts in zip(*(v.parts for v in values)))
        return SharedSum(parts, values[0].bits if bits is None else bits)

    def plus(self, value: Any, public: Any) -> Any:
        """Add public words to a shared value, or XOR them with shared bits; only the first party's share changes."""
        first, *rest = value.parts
        if self._first:
            first = first ^ public if isinstance(value, SharedXor) else first + public
        elif np.shape(public) and first.shape != (shape := np.broadcast_shapes(first.shape, np.shape(public))):
            first = np.broadcast_to(first, shape)
        rest = [np.broadcast_to(part, first.shape) for part in rest]
        return type(value)((first, *rest), value.bits)

    def constant(self, words: np.ndarray, bits: int = 0) -> SharedSum:
        """Return shares of public words; the first party's share is the words, and all other shares are zeros."""
        zeros = np.zeros_like(words)
        return SharedSum(tuple(words if rank == 0 else zeros for rank in self.network.ranks), bits)

    def _bitwise(self, function: Callable[[np.ndarray], np.ndarray], bits: SharedXor) -> SharedXor:
        return SharedXor(tuple(map(function, bits.parts)))

    # ------------------------------------------------------------ products

    def bilinear(self, op: str, x: SharedSum, y: SharedSum, bits: int | None = None, **options: Any) -> SharedSum:
        """Compute an operator of `torchnp.mpc.bilinear`; one round. The result has the sum of both fractional bits.

        With ``d = x + a`` and ``e = y + b`` opened, ``x y = d e - d b - a e + a b``.
        """
        a, b, c = self.source.take("product", op, x.shape, y.shape, options)
        d, e = (w.view(np.int64) for w in self.network.open_masked(op, (x, a), (y, b)))
        f = bilinear.function(op, options)
        right = b.shares.parts
        if self._first:
            right = (right[0] - e, *right[1:])
        parts = tuple(ci - f(d, bi) - f(ai, e) for ai, bi, ci in zip(a.shares.parts, right, c.parts))
        return SharedSum(parts, x.bits + y.bits)

    def multiply(self, x: SharedSum, y: SharedSum) -> SharedSum:
        """Return the elementwise product, with the sum of both fractional bits."""
        return self.bilinear("multiply", x, y)

    def conjunction(self, x: SharedXor, y: SharedXor) -> SharedXor:
        """Return the bitwise AND; one round."""
        a, b, c = self.source.take("conjunction", x.shape, y.shape, x.parts[0].dtype.str)
        d, e = self.network.open_masked("and", (x, a), (y, b))
        right = b.shares.parts
        if self._first:
            right = (right[0] ^ e, *right[1:])
        parts = zip(a.shares.parts, right, c.parts)
        return SharedXor(tuple(ci ^ (d & bi) ^ (ai & e) for ai, bi, ci in parts))

    # ------------------------------------------------------------ truncation

    def truncate(self, x: SharedSum, bits: int) -> SharedSum:
        """Divide by ``2 ** bits``, and drop as many fractional bits; one round.

        The result is randomly rounded down or up; the probability of rounding up is the fraction that is cut off. So it
        is right on average, and its error is less than one unit in the last place. This holds for words with
        ``|x| < 2**62``; beyond that, the result is wrong.
        """
        if bits == 0:
            return x
        mask, low, high = self.source.take("truncation", x.shape, bits)
        (c,) = self.network.open_masked("truncate", (self.plus(x, np.int64(1 << RANGE_BITS)), mask))
        top = (c >> np.uint64(63)).view(np.int64)
        carry = self.each(lambda h: h * (1 - 2 * top), high)  # whether the low 63 bits of c wrapped around
        carry = self.plus(carry, top)
        step = np.int64(1 << (63 - bits))
        rest = self.each(lambda w, m: w * step - m, carry, low, bits=x.bits - bits)
        known = ((c & np.uint64(2**63 - 1)) >> np.uint64(bits)).view(np.int64)
        return self.plus(rest, known - np.int64(1 << (RANGE_BITS - bits)))

    # ------------------------------------------------------------ bits

    def negative(self, x: SharedSum) -> SharedSum:
        """Return 1 where ``x < 0`` as a signed word, else 0; eight rounds.

        The sign bit of ``x = c - r`` is the XOR of the sign bits of ``c`` and ``r`` and of the borrow from the bits
        below, which is 1 if ``c < r`` in these bits.
        """
        mask, r = self.source.take("masked_bits", x.shape)
        (c,) = self.network.open_masked("compare", (x, mask))
        c = interleave(c)  # the tree pairs neighbouring bits, which are then at the same position in both halves
        sign = self.plus(self._bitwise(lambda w: w >> TOP, r), c >> TOP)
        less = self._bitwise(lambda w: w & ~c & BELOW, r)  # at the sign bit: not less, and equal
        equal = self.plus(self._bitwise(lambda w: w & BELOW, r), ~c | ~BELOW)
        borrow = self._first_difference(less, equal)
        sign = self._bitwise(lambda w: w.astype(np.uint8), sign)
        sign = SharedXor(tuple(a ^ b for a, b in zip(sign.parts, borrow.parts)))
        return self.each(lambda w: w[0], self.to_sums(sign, 1))

    def zero(self, x: SharedSum) -> SharedSum:
        """Return 1 where ``x`` is 0, else 0; eight rounds."""
        mask, r = self.source.take("masked_bits", x.shape)
        (c,) = self.network.open_masked("compare", (x, mask))
        equal = self.plus(r, ~interleave(c))
        for width in _WIDTHS:
            equal = self.conjunction(*self._halves(equal, width))
        return self.each(lambda w: w[0], self.to_sums(equal, 1))

    def _halves(self, word: SharedXor, width: int) -> tuple[SharedXor, SharedXor]:
        """Return the bits of words from ``width`` on, and those below ``width``."""
        dtype = np.dtype(f"u{max(width // 8, 1)}")
        upper = self._bitwise(lambda w: (w >> w.dtype.type(width)).astype(dtype), word)
        return upper, self._bitwise(lambda w: w.astype(dtype), word)

    def _first_difference(self, less: SharedXor, equal: SharedXor) -> SharedXor:
        """Return whether a number is less than another, given whether each bit is less or equal; six rounds."""
        for width in _WIDTHS:
            (less, low), (high_equal, low_equal) = self._halves(less, width), self._halves(equal, width)
            both = SharedXor(tuple(np.stack(parts) for parts in zip(low.parts, low_equal.parts)))
            joined = self.conjunction(high_equal, both)
            less = SharedXor(tuple(h ^ w[0] for h, w in zip(less.parts, joined.parts)))
            equal = self._bitwise(lambda w: w[1], joined)
        return less

    def to_sums(self, bits: SharedXor, places: int) -> SharedSum:
        """Return each of the low bits of words as a sum, 0 or 1, in shape ``(places, *shape)``; one round."""
        mask, ones = self.source.take("conversion", bits.shape, places)
        (e,) = self.network.open_masked("bits", (bits, mask))
        known = np.stack([(e >> e.dtype.type(i)) & e.dtype.type(1) for i in range(places)]).astype(np.int64)
        return self.plus(self.each(lambda w: w * (1 - 2 * known), ones), known)

    def bits_of(self, x: SharedSum) -> SharedXor:
        """Return the 64 bits of ``x``; seven rounds.

        ``x = c + ~r + 1`` is added with a prefix tree (P. M. Kogge and H. S. Stone, IEEE Transactions on Computers,
        1973).
        """
        mask, r = self.source.take("masked_bits", x.shape)
        (c,) = self.network.open_masked("compare", (x, mask))
        other = self.plus(self._bitwise(interleave, r), ~np.uint64(0))
        total = self.plus(other, c)
        carries, passes = self._bitwise(lambda w: w & c, other), total
        # The carry into the lowest bit is 1, so this bit generates a carry if either of its two bits is 1.
        lowest = lambda t, g: g ^ (t & ONE)
        carries = SharedXor(tuple(map(lowest, total.parts, carries.parts)))
        for shift in map(np.uint64, (1, 2, 4, 8, 16, 32)):
            both = SharedXor(tuple(np.stack([g << shift, p << shift]) for g, p in zip(carries.parts, passes.parts)))
            joined = self.conjunction(passes, both)
            carries = SharedXor(tuple(g ^ w[0] for g, w in zip(carries.parts, joined.parts)))
            passes = self._bitwise(lambda w: w[1], joined)
        into = self.plus(self._bitwise(lambda w: w << ONE, carries), ONE)
        return SharedXor(tuple(t ^ g for t, g in zip(total.parts, into.parts)))

    def highest_bit(self, bits: SharedXor) -> SharedXor:
        """Return words in which only the highest set bit of each word is set; six rounds."""
        found = bits
        for shift in map(np.uint64, (1, 2, 4, 8, 16, 32)):
            moved = self._bitwise(lambda w: w >> shift, found)
            both = self.conjunction(found, moved)
            found = SharedXor(tuple(a ^ b ^ c for a, b, c in zip(found.parts, moved.parts, both.parts)))
        return self._bitwise(lambda w: w ^ (w >> ONE), found)

    # ------------------------------------------------------------ secret indices

    def unit_vectors(self, index: SharedSum, length: int) -> SharedSum:
        """Return vectors with a 1 at each index modulo ``length``, in shape ``(*shape, length)``; one round.

        ``length`` is a power of two. The dealer's vector, with a 1 at a random index ``r``, is rotated by ``index +
        r``, which is opened modulo the length.
        """
        mask, vector = self.source.take("unit_vector", index.shape, length)
        (c,) = self.network.open_masked("index", (index, mask))
        places = (c[..., None].astype(np.int64) - np.arange(length)) & (length - 1)
        return self.each(lambda v: np.take_along_axis(v, places, -1), vector)
