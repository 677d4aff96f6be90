"""Batching of a session's operators and deletes."""

from __future__ import annotations

from torchnp.rpc import wire
from torchnp.rpc.client.session.pending import Sent
from torchnp.rpc.client.tensor.remote_refs import ranges_of
from torchnp.rpc.client.transports.requests import Where

BATCH_OPS = 64
BATCH_BYTES = 1 << 18
USUAL_BYTES = 48  # usual size of an operator

Sending = tuple[wire.Op, Where, int]
"""An operator, where it was issued, and its size in bytes beyond `USUAL_BYTES`."""


class Batch:
    """Operators and deletes that wait to be sent; deletes follow the operators, which may use the deleted objects.

    Attributes
    ----------
    deletes : list of int
        Ids of the objects to delete.
    """

    def __init__(self) -> None:
        self.deletes: list[int] = []
        self._ops: list[Sending] = []
        self._nbytes = 0

    def __bool__(self) -> bool:
        return bool(self._ops or self.deletes)

    @property
    def ops(self) -> int:
        """Number of waiting operators."""
        return len(self._ops)

    def add(self, sending: Sending) -> bool:
        """Add an operator; return whether the batch is full."""
        self._ops.append(sending)
        self._nbytes += USUAL_BYTES + sending[2]
        return len(self._ops) >= BATCH_OPS or self._nbytes >= BATCH_BYTES

    def taken(self, sent: Sent) -> list[bytes]:
        """Encode all waiting operators and deletes as frames, clear the batch, and count the operators as sent."""
        ops, deletes = self._ops, self.deletes
        self._ops, self.deletes, self._nbytes = [], [], 0
        frames = []
        if ops:
            frames.append(wire.encode(wire.Ops(sent.seq, [op for op, _, _ in ops])))
            sent.add([where for _, where, _ in ops])
        for start in range(0, len(deletes), wire.MAX_ITEMS):
            frames.append(wire.encode(wire.Del(sent.seq, ranges_of(deletes[start : start + wire.MAX_ITEMS]))))
        return frames
