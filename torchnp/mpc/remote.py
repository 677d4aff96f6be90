"""Parties in separate processes: their network, their part of the dealer's randomness, and the sharing of inputs."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

import numpy as np

from torchnp.mpc import links
from torchnp.mpc.correlations import Item
from torchnp.mpc.dealer import as_shared, correlation, joined, uniform_share
from torchnp.mpc.network import Network
from torchnp.mpc.prg import KEY_BYTES, RandomStream, new_key


class TLSNetwork(Network):
    """This party's connections to all others.

    Each message contains a digest of all that the parties' programs must have in common: operators, shapes and public
    constants.
    """

    def __init__(self, parties: int, rank: int, peers: dict[int, links.PeerLink], timeout: float) -> None:
        super().__init__(parties, (rank,))
        self._peers = [peers[r] for r in sorted(peers)]
        self._rank, self._timeout = rank, timeout
        self._program = hashlib.blake2b(digest_size=16)

    def note(self, program: bytes) -> None:
        self._program.update(len(program).to_bytes(8, "big") + program)

    def _exchange(self, label: str, messages: list[bytes]) -> list[bytes]:
        (mine,) = messages
        self.note(f"{label} {len(mine)}".encode())
        found = links.exchange(self._peers, self._program.digest(), label, mine, self._timeout)
        return [*found[: self._rank], mine, *found[self._rank :]]

    def close(self) -> None:
        """Close the connections."""
        for link in self._peers:
            link.close()


class RemoteSource:
    """This party's shares of correlations, from its key; the last party also gets shares in the dealer's messages."""

    def __init__(self, link: links.PeerLink, rank: int, parties: int, timeout: float) -> None:
        self._link, self._timeout = link, timeout
        self._last = rank == parties - 1
        self._stream = RandomStream(links.receive(link, KEY_BYTES, timeout))
        self.bytes_dealt = self.requests = 0

    def take(self, kind: str, *arguments: Any) -> list[Any]:
        """Return the items of one request, with masks as `OneTimeMask`."""
        of = correlation(kind, arguments)
        self.requests += 1
        parts = [uniform_share(item, self._stream) for item in of.items if item.width or not self._last]
        sizes = [math.prod(item.shape) * item.dtype.itemsize for item in of.items if not item.width]
        self.bytes_dealt += sum(sizes)
        if self._last:
            links.send(self._link, json.dumps([kind, *arguments]).encode(), self._timeout)
            answer = links.receive(self._link, 1 + sum(sizes), self._timeout)
            if answer[:1] != b"+":
                raise links.PartyError(f"the dealer refuses: {answer[1:].decode(errors='replace')}")
            start = 1
            for item, size in zip((i for i in of.items if not i.width), sizes):
                parts.append(np.frombuffer(answer, item.dtype, math.prod(item.shape), start).reshape(item.shape))
                start += size
        return [as_shared(item, (part,)) for item, part in zip(of.items, parts)]

    def close(self) -> None:
        """Close the connection to the dealer."""
        self._link.close()


class PairwiseSharing:
    """Splits an owner's values into shares; the others' shares are random streams, of which the owner has the keys."""

    def __init__(self, rank: int, peers: dict[int, links.PeerLink], timeout: float) -> None:
        keys = {r: new_key() for r in peers}
        for r, link in peers.items():
            links.send(link, keys[r], timeout)
        self._rank = rank
        self._to = {r: RandomStream(key) for r, key in keys.items()}
        self._from = {r: RandomStream(links.receive(link, KEY_BYTES, timeout)) for r, link in peers.items()}

    def share(self, words: np.ndarray | None, shape: tuple[int, ...], owner: int) -> list[np.ndarray]:
        """Return this party's share of the values that ``owner`` knows and passes as ``words``."""
        item = Item(shape)
        if owner != self._rank:
            return [self._from[owner].words(shape, item.dtype)]
        assert words is not None
        return [words - joined(item, [stream.words(shape, item.dtype) for stream in self._to.values()])]
