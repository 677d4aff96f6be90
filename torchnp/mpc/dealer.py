"""The trusted dealer, which makes correlated randomness for the parties and sees none of their messages."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchnp.mpc.correlations import KINDS, Correlation, Item
from torchnp.mpc.prg import RandomStream, new_key
from torchnp.mpc.shares import OneTimeMask, SharedSum, SharedXor


def correlation(kind: str, arguments: tuple[Any, ...]) -> Correlation:
    """Return the correlation for a request; raise KeyError if there is no such kind."""
    return KINDS[kind](*(tuple(a) if isinstance(a, list) else a for a in arguments))


def uniform_share(item: Item, stream: RandomStream) -> np.ndarray:
    """Return the next share of a stream."""
    words = stream.words(item.shape, item.dtype)
    width = item.width or 8 * item.dtype.itemsize
    return words if width == 8 * item.dtype.itemsize else words & item.dtype.type((1 << width) - 1)


def joined(item: Item, parts: list[np.ndarray]) -> np.ndarray:
    """Return the value of shares: their sum or XOR."""
    total = parts[0]
    for part in parts[1:]:
        total = total ^ part if item.xor else total + part
    return total


class Dealer:
    """Deals correlated randomness from one key per party.

    Parameters
    ----------
    keys : list of bytes
        One per party, known only to that party and the dealer.
    """

    def __init__(self, keys: list[bytes]) -> None:
        self._streams = [RandomStream(key) for key in keys]

    def shares(self, of: Correlation) -> list[list[np.ndarray]]:
        """Return the share of every party, for each item."""
        streams = self._streams
        uniform = [item for item in of.items if item.width]
        rest = of.items[len(uniform) :]
        shares = [[uniform_share(item, stream) for stream in streams] for item in uniform]
        values = of.derive(*map(joined, uniform, shares))
        for item, value in zip(rest, values, strict=True):
            parts = [uniform_share(item, stream) for stream in streams[:-1]]
            total = joined(item, parts)
            shares.append([*parts, (value ^ total) if item.xor else (value - total)])
        return shares


class LocalSource:
    """Correlated randomness from a dealer in this process, for all parties."""

    def __init__(self, parties: int) -> None:
        self._dealer = Dealer([new_key() for _ in range(parties)])
        self.bytes_dealt = self.requests = 0

    def take(self, kind: str, *arguments: Any) -> list[Any]:
        """Return the items of one request, with masks as `OneTimeMask`."""
        of = correlation(kind, arguments)
        shares = self._dealer.shares(of)
        self.requests += 1
        self.bytes_dealt += sum(parts[-1].nbytes for item, parts in zip(of.items, shares) if not item.width)
        return [as_shared(item, tuple(parts)) for item, parts in zip(of.items, shares)]

    def close(self) -> None:
        """Do nothing, because there are no connections within one process."""


def as_shared(item: Item, parts: tuple[np.ndarray, ...]) -> Any:
    """Return an item's shares in the type that the protocols take."""
    shares: SharedSum | SharedXor = (SharedXor if item.xor else SharedSum)(parts)
    return OneTimeMask(shares, item.width) if item.width else shares


class LocalSharing:
    """Splits values into shares, for parties in this process."""

    def __init__(self, parties: int) -> None:
        self._parties, self._stream = parties, RandomStream(new_key())

    def share(self, words: np.ndarray, shape: tuple[int, ...], owner: int) -> list[np.ndarray]:
        """Return the share of each party; all except the owner's are random."""
        parts = [self._stream.words(shape, words.dtype) for _ in range(self._parties - 1)]
        rest = words - joined(Item(shape), parts)
        return [*parts[:owner], rest, *parts[owner:]]
