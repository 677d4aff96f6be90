"""Fixed-point numbers in 64-bit words: encoding, products and scales."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from torchnp.mpc.network import Network
from torchnp.mpc.protocol import RANGE_BITS, Protocol
from torchnp.mpc.shares import SharedSum

DEFAULT_BITS = 18
FEWEST_BITS, MOST_BITS = 8, 22


class FixedPoint(Protocol):
    """Numbers ``words / 2**bits``. A product that is not below ``2 ** (62 - 2 * bits)`` is wrong.

    Parameters
    ----------
    network, source
        The same as for `Protocol`.
    bits : int
        Fractional bits of floating-point tensors.
    """

    def __init__(self, network: Network, source: Any, bits: int = DEFAULT_BITS) -> None:
        super().__init__(network, source)
        if not FEWEST_BITS <= bits <= MOST_BITS:
            raise ValueError(f"bits must be between {FEWEST_BITS} and {MOST_BITS}, not {bits}")
        self.bits = bits

    @property
    def largest(self) -> float:
        """The bound of products and of encoded numbers."""
        return 2.0 ** (RANGE_BITS - 2 * self.bits)

    def encode(self, values: Any, bits: int) -> np.ndarray:
        """Encode public numbers as words, rounded to nearest; infinities become the largest number.

        Raise OverflowError for nan and for numbers out of range.
        """
        array = np.asarray(values)
        if bits == 0 or array.dtype.kind != "f":
            return np.asarray(array.astype(np.int64)) << np.int64(bits)
        finite = np.where(np.isinf(array), np.copysign(self.largest, array), array).astype(np.float64)
        if not (np.abs(finite) <= 2.0 ** (RANGE_BITS - bits)).all():
            raise OverflowError(f"numbers of a secret-shared tensor are below 2**{RANGE_BITS - bits} and not nan")
        return np.asarray(np.rint(finite * 2.0**bits).astype(np.int64))

    @staticmethod
    def decode(words: np.ndarray, bits: int) -> np.ndarray:
        """Return words as float64 numbers, or as int64 if there are no fractional bits."""
        signed = words.view(np.int64)
        return signed / 2.0**bits if bits else signed

    def at(self, x: SharedSum, bits: int) -> SharedSum:
        """Return the same numbers with ``bits`` fractional bits.

        With more bits the result is exact; with fewer, this takes one round.
        """
        if x.bits > bits:
            return self.truncate(x, x.bits - bits)
        if x.bits == bits:
            return x
        return self.each(lambda w: w << np.int64(bits - x.bits), x, bits=bits)

    def add(self, x: SharedSum, y: SharedSum) -> SharedSum:
        """Return the sum of numbers with the same number of fractional bits."""
        return self.each(np.add, x, y)

    def subtract(self, x: SharedSum, y: SharedSum) -> SharedSum:
        """Return the difference of numbers with the same number of fractional bits."""
        return self.each(np.subtract, x, y)

    def complement(self, bit: SharedSum) -> SharedSum:
        """Return 1 minus a bit."""
        return self.plus(self.each(np.negative, bit), np.int64(1))

    def scaled(self, x: SharedSum, numbers: Any, bits: int | None = None) -> SharedSum:
        """Multiply by public numbers; this takes one round, or none if they are integers.

        The encoding keeps all leading bits of the largest of these numbers, so that small factors such as 1/3000 lose
        no precision.
        """
        array = np.asarray(numbers)
        bits = x.bits if bits is None else bits
        if array.dtype.kind in "iub" or (array == np.rint(array)).all():
            factor = self.encode(array, 0)
            return self.at(self.each(lambda w: w * factor, x), bits)
        largest = float(np.max(np.abs(array), where=np.isfinite(array), initial=0.0))
        more = self.bits - min(max(math.frexp(largest)[1], -RANGE_BITS // 2), 0)
        factor = self.encode(array, more)
        return self.at(self.each(lambda w: w * factor, x, bits=x.bits + more), bits)

    def times(self, x: SharedSum, y: SharedSum, bits: int) -> SharedSum:
        """Return the product of secret numbers; this takes two rounds, or one if either has no fractional bits."""
        return self.at(self.multiply(x, y), bits)

    def select(self, condition: SharedSum, x: SharedSum, y: SharedSum) -> SharedSum:
        """Return ``x`` where the bit is 1, else ``y``; both have the same number of fractional bits. This takes one round."""
        return self.add(self.multiply(condition, self.subtract(x, y)), y)

    def less(self, x: SharedSum, y: SharedSum) -> SharedSum:
        """Return 1 where ``x < y``, else 0; both have the same number of fractional bits."""
        return self.negative(self.subtract(x, y))
