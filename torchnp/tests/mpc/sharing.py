"""Shares for tests, and their values."""

import numpy as np

from torchnp.mpc.dealer import LocalSharing, LocalSource
from torchnp.mpc.fixed_point import FixedPoint
from torchnp.mpc.network import LocalNetwork
from torchnp.mpc.shares import SharedSum


class Parties:
    """The protocols of all parties in one process, with functions that share words and open them."""

    def __init__(self, parties=2, bits=16, transcript=None):
        self.network = LocalNetwork(parties, transcript)
        self.protocol = FixedPoint(self.network, LocalSource(parties), bits)
        self._sharing = LocalSharing(parties)

    def share(self, words, bits=0):
        words = np.asarray(words, np.int64)
        with np.errstate(over="ignore"):
            return SharedSum(tuple(self._sharing.share(words, words.shape, 0)), bits)

    def numbers(self, values):
        return self.share(self.protocol.encode(np.asarray(values, np.float64), self.protocol.bits), self.protocol.bits)

    def words(self, shares):
        return self.network.publish(shares, "a test's result").view(np.int64)

    def values(self, shares):
        return self.protocol.decode(self.words(shares), shares.bits)
