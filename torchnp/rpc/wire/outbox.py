"""Frames on their way to the other side, which keeps count of them: either side has one of these for the other."""

from __future__ import annotations

from collections import deque
from itertools import islice

from torchnp.rpc import wire
from torchnp.rpc.exceptions import ProtocolError


class Outbox:
    """Frames that the other side may not have: each is numbered, from 1, and kept until it says that it has it.

    Parameters
    ----------
    other : str
        The other side as errors name it.

    Attributes
    ----------
    next : int
        The number of the next frame.
    cost : int
        Of all that are kept, as the window counts it.
    """

    def __init__(self, other: str) -> None:
        self.next, self.cost = 1, 0
        self._other, self._first = other, 1
        self._messages: deque[bytes] = deque()

    def __len__(self) -> int:
        return len(self._messages)

    def add(self, frame: wire.Bytes) -> bytes:
        """Keep a frame; the message that it goes out as."""
        message = wire.numbered(self.next, frame)
        self._messages.append(message)
        self.next += 1
        self.cost += _cost(message)
        return message

    def since(self, number: int) -> list[bytes]:
        """The messages from a number on, all of which are kept."""
        return list(islice(self._messages, number - self._first, None))

    def forget(self, due: int, sent: int) -> None:
        """Forget what came before the frame that the other side waits for.

        Raises
        ------
        ProtocolError
            It had said that it has that frame, or has been sent no more than what comes before ``sent``.
        """
        if not self._first <= due <= sent:
            raise ProtocolError(f"{self._other} waits for frame {due}, which is not between {self._first} and {sent}")
        for _ in range(self._first, due):
            self.cost -= _cost(self._messages.popleft())
        self._first = due


def _cost(message: bytes) -> int:
    return len(message) - 8 + wire.OVERHEAD  # of the frame, without its number
