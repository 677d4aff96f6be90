"""Shares of secret values, which are arrays that add up to a value, and one-time masks.

Nothing here turns shares into values; only `torchnp.mpc.network` does.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np


class Shares:
    """Shares of an array of 64-bit words, one for each party.

    Attributes
    ----------
    parts : tuple of ndarray
        The shares that this process holds: those of all parties if they run in one process, else its own.
    bits : int
        Number of fractional bits. The value is the sum of all shares divided by ``2 ** bits``.
    """

    __slots__ = ("bits", "parts")

    def __init__(self, parts: tuple[np.ndarray, ...], bits: int = 0) -> None:
        self.parts, self.bits = tuple(map(np.asarray, parts)), bits  # NumPy makes numbers of arrays without dimensions

    @property
    def shape(self) -> tuple[int, ...]:
        return self.parts[0].shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape}, bits={self.bits})"

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(f"{self!r} is secret: publish() is the only way to its values")

    __array__ = __bool__ = __float__ = __int__ = __index__ = __complex__ = __iter__ = __len__ = __eq__ = __lt__ = (
        _refuse
    )
    __gt__ = __le__ = __ge__ = __ne__ = __reduce_ex__ = _refuse
    __hash__ = None  # type: ignore[assignment]


class SharedSum(Shares):
    """Shares whose sum modulo 2**64 is the value."""

    __slots__ = ("hint",)

    def __init__(self, parts: tuple[np.ndarray, ...], bits: int = 0) -> None:
        super().__init__(parts, bits)
        self.hint: Any = None  # further shares from the same computation, which its backward operator uses


class SharedXor(Shares):
    """Shares whose XOR is the value, taken as a word of bits."""

    __slots__ = ()


class OneTimeMask:
    """A uniformly random secret from the dealer, which hides one opened value and is then used up.

    Attributes
    ----------
    shares : SharedSum or SharedXor
    width : int
        Number of low bits that the mask covers; the hidden value is opened modulo ``2 ** width``.
    """

    __slots__ = ("_used", "shares", "width")

    def __init__(self, shares: SharedSum | SharedXor, width: int) -> None:
        self.shares, self.width, self._used = shares, width, False

    def use_up(self) -> None:
        """Mark the mask as used; raise RuntimeError if it has been used before."""
        if self._used:
            raise RuntimeError("a one-time mask is used twice")
        self._used = True
