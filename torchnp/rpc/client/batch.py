"""Operators and deletes of a session that wait to be sent together."""

from __future__ import annotations

from torchnp.rpc import wire
from torchnp.rpc.client.objects import ranges_of
from torchnp.rpc.client.sent import Sent
from torchnp.rpc.client.tasks import Where
from torchnp.rpc.wire.again import Shortener

BATCH_OPS = 64
BATCH_BYTES = 1 << 18


class Batch:
    """What the next frames are made of; deletes go behind the operators, which may use what is deleted.

    Attributes
    ----------
    deletes : list of int
        Ids of objects.
    """

    def __init__(self) -> None:
        self.deletes: list[int] = []
        self._ops: list[wire.Op] = []
        self._places: list[Where] = []
        self._weight = 0
        self._shortener = Shortener()

    def __bool__(self) -> bool:
        return bool(self._ops or self.deletes)

    @property
    def ops(self) -> int:
        """How many operators wait."""
        return len(self._ops)

    def add(self, op: wire.Op, where: Where, weight: int) -> bool:
        """Take an operator; whether the batch is full."""
        self._ops.append(op)
        self._places.append(where)
        self._weight += 48 + weight
        return len(self._ops) >= BATCH_OPS or self._weight >= BATCH_BYTES

    def taken(self, sent: Sent) -> list[bytes]:
        """The frames of all that waits, which is sent then."""
        ops, places, deletes = self._ops, self._places, self.deletes
        self._ops, self._places, self.deletes, self._weight = [], [], [], 0
        frames = []
        if ops:
            frame = wire.encode(wire.Ops(sent.seq, self._shortener.shortened(ops)))
            self._shortener.sent(len(frame))
            frames.append(frame)
            sent.add(places)
        for start in range(0, len(deletes), wire.MAX_ITEMS):
            frames.append(wire.encode(wire.Del(sent.seq, ranges_of(deletes[start : start + wire.MAX_ITEMS]))))
        return frames
