"""The dealer's correlated randomness: random values with a known relation, described only by shapes.

A `Correlation` lists its items. The shares of uniform items are random streams that their holders expand from keys; the
value is the sum of the shares. The other items are computed from these values, and the dealer sends the last party its
share of each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from torchnp.mpc import bilinear

# For the pairs (0, 5), (1, 4) and (2, 3) of binary digits of a bit's position: the mask of the positions where the
# first digit is 1 and the second 0, and the distance to the positions with these two digits exchanged.
_SWAPS = [
    (np.uint64(sum(1 << i for i in range(64) if i >> a & 1 and not i >> b & 1)), np.uint64((1 << b) - (1 << a)))
    for a, b in ((0, 5), (1, 4), (2, 3))
]
I64, U64, U8 = np.dtype(np.int64), np.dtype(np.uint64), np.dtype(np.uint8)


@dataclass(frozen=True)
class Item:
    """One shared array of a correlation.

    Attributes
    ----------
    shape, dtype
        Shape and dtype of each share.
    xor : bool
        Whether the value is the XOR of the shares; otherwise it is their sum.
    width : int
        If the item is a mask, its number of random low bits; 0 if the item is computed from masks.
    """

    shape: tuple[int, ...]
    dtype: np.dtype = I64
    xor: bool = False
    width: int = 0


@dataclass(frozen=True)
class Correlation:
    """The items that the dealer gives for one request, uniform ones first, and the function to compute the others."""

    items: tuple[Item, ...]
    derive: Callable[..., tuple[np.ndarray, ...]]


def interleave(words: np.ndarray) -> np.ndarray:
    """Move each bit of 64-bit words to the position whose six binary digits are those of its own position, reversed.

    Neighbouring bits, and then neighbouring pairs, groups of four and so on, come to the same position in the two
    halves of a word. The function is its own inverse.
    """
    for mask, shift in _SWAPS:
        apart = ((words >> shift) ^ words) & mask
        words = words ^ apart ^ (apart << shift)
    return words


def product(op: str, left: tuple, right: tuple, options: dict[str, Any] | None = None) -> Correlation:
    """Return the Beaver triple of a bilinear operator: ``a``, ``b`` and their product."""
    compute = bilinear.function(op, options or {})
    shape = bilinear.shape(op, left, right, options or {})
    items = (Item(left, width=64), Item(right, width=64), Item(shape))
    return Correlation(items, lambda a, b: (compute(a, b),))


def conjunction(left: tuple, right: tuple, dtype: str) -> Correlation:
    """Return the Beaver triple of the bitwise AND."""
    of = np.dtype(dtype)
    width = 8 * of.itemsize
    shape = np.broadcast_shapes(left, right)
    items = (Item(left, of, True, width), Item(right, of, True, width), Item(shape, of, True))
    return Correlation(items, lambda a, b: (a & b,))


def truncation(shape: tuple, bits: int) -> Correlation:
    """Return the correlation of ``r``, its low 63 bits without the last ``bits``, and its highest bit."""

    def derive(r: np.ndarray) -> tuple[np.ndarray, ...]:
        words = r.view(np.uint64)
        low = (words & np.uint64(2**63 - 1)) >> np.uint64(bits)
        return low.view(np.int64), (words >> np.uint64(63)).view(np.int64)

    return Correlation((Item(shape, width=64), Item(shape), Item(shape)), derive)


def masked_bits(shape: tuple) -> Correlation:
    """Return the correlation of ``r``, shared as a sum, and of its bits in the order of `interleave`, shared by XOR."""
    items = (Item(shape, width=64), Item(shape, U64, xor=True))
    return Correlation(items, lambda r: (interleave(r.view(np.uint64)),))


def conversion(shape: tuple, places: int) -> Correlation:
    """Return the correlation of words of ``places`` random bits, shared by XOR, and of each of the bits, shared as a sum.

    The bits that are shared as sums have the shape ``(places, *shape)``.
    """
    of = U8 if places <= 8 else U64

    def derive(word: np.ndarray) -> tuple[np.ndarray, ...]:
        return (np.stack([(word >> of.type(i)) & of.type(1) for i in range(places)]).astype(np.int64),)

    return Correlation((Item(shape, of, True, places), Item((places, *shape))), derive)


def unit_vector(shape: tuple, length: int) -> Correlation:
    """Return the correlation of ``r`` modulo ``length``, a power of two, and a vector with a single 1 at ``r``."""

    def derive(r: np.ndarray) -> tuple[np.ndarray, ...]:
        return (((r & (length - 1))[..., None] == np.arange(length)).astype(np.int64),)

    return Correlation((Item(shape, width=length.bit_length() - 1), Item((*shape, length))), derive)


KINDS: dict[str, Callable[..., Correlation]] = {
    f.__name__: f for f in (product, conjunction, truncation, masked_bits, conversion, unit_vector)
}
