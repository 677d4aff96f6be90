"""The only module in which shares become values: values that a one-time mask hides, or that are published.

The length of every message depends only on shapes, never on values.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from torchnp.mpc.shares import OneTimeMask, SharedSum, SharedXor

log = logging.getLogger("torchnp.mpc")


@dataclass
class Traffic:
    """Counts since the start.

    Attributes
    ----------
    bytes_sent : int
        Bytes that each party sent to the other parties.
    rounds : int
        Exchanges, in which each party sends and then waits for all others.
    bytes_dealt : int
        Bytes that the dealer sent to the last party; the other parties expand their shares from a key.
    requests : int
        Correlations that the dealer made.
    published : int
        Elements that were published.
    """

    bytes_sent: int = 0
    rounds: int = 0
    bytes_dealt: int = 0
    requests: int = 0
    published: int = 0

    def copy(self) -> Traffic:
        return replace(self)

    def __sub__(self, other: Traffic) -> Traffic:
        return Traffic(*(getattr(self, n) - getattr(other, n) for n in self.__dataclass_fields__))


class Network(ABC):
    """The parties' exchange of messages. Subclasses define `_exchange`.

    Attributes
    ----------
    parties : int
    ranks : tuple of int
        The parties whose shares this process holds.
    traffic : Traffic
    notes : bool
        Whether `note` has an effect.
    """

    notes = True

    def __init__(self, parties: int, ranks: tuple[int, ...]) -> None:
        self.parties, self.ranks = parties, ranks
        self.traffic = Traffic()

    @abstractmethod
    def note(self, program: bytes) -> None:
        """Record a public part of the program, which must be the same for all parties."""

    @abstractmethod
    def close(self) -> None:
        """End the connections."""

    @abstractmethod
    def _exchange(self, label: str, messages: list[bytes]) -> list[bytes]:
        """Send the message of each rank in this process to all others; return the messages of all parties."""

    def open_masked(self, label: str, *pairs: tuple[Any, OneTimeMask]) -> list[np.ndarray]:
        """Open values that one-time masks hide: ``value + mask`` for sums, ``value ^ mask`` for bits; one round."""
        hidden = []
        for value, mask in pairs:
            mask.use_up()
            xor = isinstance(mask.shares, SharedXor)
            if isinstance(value, SharedXor) != xor or value.shape != mask.shares.shape:
                raise TypeError(f"{mask.shares!r} does not mask {value!r}")
            parts = [v ^ m if xor else v + m for v, m in zip(value.parts, mask.shares.parts)]
            width = mask.width
            if width < 8 * parts[0].dtype.itemsize:
                parts = [p & p.dtype.type((1 << width) - 1) for p in parts]
            unsigned = f"u{max(1, (1 << (width - 1).bit_length()) >> 3)}"
            hidden.append((xor, [p.astype(unsigned) for p in parts]))
        return [
            opened if width == 8 * opened.dtype.itemsize else opened & opened.dtype.type((1 << width) - 1)
            for opened, width in zip(self._join(label, hidden), (mask.width for _, mask in pairs))
        ]

    def publish(self, value: SharedSum, why: str) -> np.ndarray:
        """Open a value to every party. Only this function does so, and each call is counted and logged."""
        (opened,) = self._join("publish", [(False, list(value.parts))])
        self.traffic.published += opened.size
        log.info("published %s of shape %s", why, tuple(opened.shape))
        return opened

    def _join(self, label: str, shared: list[tuple[bool, list[np.ndarray]]]) -> list[np.ndarray]:
        messages = [b"".join(parts[i].tobytes() for _, parts in shared) for i in range(len(self.ranks))]
        received = self._exchange(label, messages)
        self.traffic.rounds += 1
        self.traffic.bytes_sent += len(messages[0]) * (self.parties - 1)
        opened, start = [], 0
        for xor, parts in shared:
            shape, dtype, size = parts[0].shape, parts[0].dtype, parts[0].nbytes
            each = [np.frombuffer(m, dtype, parts[0].size, start).reshape(shape) for m in received]
            total = each[0]
            for part in each[1:]:
                total = total ^ part if xor else total + part
            opened.append(total)
            start += size
        return opened


class LocalNetwork(Network):
    """All parties in one process.

    Parameters
    ----------
    parties : int
    transcript : list, optional
        A list to which each round appends a pair: its label and the parties' messages.
    """

    notes = False

    def __init__(self, parties: int, transcript: list[tuple[str, list[bytes]]] | None = None) -> None:
        super().__init__(parties, tuple(range(parties)))
        self.transcript = transcript

    def note(self, program: bytes) -> None:
        """Do nothing, because all parties run the same program."""

    def close(self) -> None:
        """Do nothing, because there are no connections within one process."""

    def _exchange(self, label: str, messages: list[bytes]) -> list[bytes]:
        if self.transcript is not None:
            self.transcript.append((label, messages))
        return messages
