"""Frames that the peer has not yet acknowledged; client and server each keep theirs, to send them again if needed."""

from __future__ import annotations

from collections import deque
from itertools import islice

from torchnp.rpc import wire
from torchnp.rpc.exceptions import ProtocolError


class UnacknowledgedFrames:
    """Frames numbered from 1, each kept until the peer acknowledges it.

    Parameters
    ----------
    other : str
        The name of the peer in error messages.

    Attributes
    ----------
    next : int
        The number of the next frame.
    cost : int
        Total cost of the kept frames, for the flow-control window.
    """

    def __init__(self, other: str) -> None:
        self.next, self.cost = 1, 0
        self._other, self._first = other, 1
        self._messages: deque[bytes] = deque()

    def __len__(self) -> int:
        return len(self._messages)

    def add(self, frame: wire.Bytes) -> bytes:
        """Number and keep a frame; return the message to send."""
        message = wire.numbered(self.next, frame)
        self._messages.append(message)
        self.next += 1
        self.cost += _cost(message)
        return message

    def since(self, number: int) -> list[bytes]:
        """Return the messages from a frame number on; all of them must still be kept."""
        return list(islice(self._messages, number - self._first, None))

    def forget(self, due: int, sent: int) -> None:
        """Drop the frames before ``due``, the number of the frame that the peer expects next.

        Raises
        ------
        ProtocolError
            The peer has already acknowledged ``due``, or ``due`` is beyond ``sent``, the number of the next frame to
            send.
        """
        if not self._first <= due <= sent:
            raise ProtocolError(f"{self._other} waits for frame {due}, which is not between {self._first} and {sent}")
        for _ in range(self._first, due):
            self.cost -= _cost(self._messages.popleft())
        self._first = due


def _cost(message: bytes) -> int:
    return len(message) - 8 + wire.OVERHEAD  # the 8-byte number is not counted
