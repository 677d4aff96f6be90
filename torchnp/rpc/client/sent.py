"""What a session has sent: how far it is ahead of the server, what has failed there, and which programs are known."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from torchnp.rpc import wire
from torchnp.rpc.client.failures import as_exception
from torchnp.rpc.client.tasks import Playing, Where
from torchnp.rpc.exceptions import ProtocolError

MAX_FAILURES = 1 << 12  # that are remembered, and whose places in the client's code are


class Sent:
    """The operators of one session, by their sequence numbers; the channel's thread alone changes it.

    Parameters
    ----------
    server : str
        As messages name it.
    window : int
        Of the transport.

    Attributes
    ----------
    seq : int
        The number of the next operator.
    acked : int
        All operators below it have been done.
    """

    def __init__(self, server: str, window: int) -> None:
        self.seq = self.acked = 0
        self._server = server
        # A program that counted whole and is longer than the window would hold the session back each time.
        self._most = window // 4
        self._spared = 0  # operators on their way that do not count
        self._calls: deque[tuple[int, int]] = deque()  # the number behind each call of a program, and what it spares
        self._where: deque[Where] = deque()  # one per sequence number from acked on
        self._failures: dict[int, wire.Err] = {}
        self._places: dict[int, Where] = {}

    def add(self, places: Sequence[Where]) -> None:
        """Say that operators go on their way, and where they were issued."""
        self.seq += len(places)
        self._where += places

    def add_call(self, places: Sequence[Where]) -> None:
        """Say that a program goes on its way."""
        self.add(places)
        spared = len(places) - min(len(places), self._most)
        self._calls.append((self.seq, spared))
        self._spared += spared

    @property
    def ahead(self) -> int:
        """How many operators are on their way, of a long program not all."""
        return self.seq - self.acked - self._spared

    def acknowledge(self, seq: int) -> None:
        """Take the server's word that all operators below a number have been done."""
        if not self.acked <= seq <= self.seq:
            raise ProtocolError(f"the server acknowledged {seq}, which is not between {self.acked} and {self.seq}")
        for _ in range(seq - self.acked):
            self._where.popleft()
        self.acked = seq
        while self._calls and self._calls[0][0] <= seq:
            self._spared -= self._calls.popleft()[1]

    # ------------------------------------------------------------ failures

    def note(self, err: wire.Err) -> None:
        """Keep a failure and the place that issued the operator, until somebody asks for results."""
        if not err.request and len(self._failures) < MAX_FAILURES:
            self._failures.setdefault(err.seq, err)
        if 0 <= err.seq - self.acked < len(self._where):
            self._places[err.seq] = self._where[err.seq - self.acked]
            if len(self._places) > MAX_FAILURES:
                del self._places[next(iter(self._places))]

    @property
    def failed(self) -> bool:
        """Whether there are failures that nobody has been told of."""
        return bool(self._failures)

    def told(self, err: wire.Err) -> Exception:
        """The exception of a failure, which is told with it."""
        self._failures.pop(err.seq, None)
        return as_exception(err, self._places.get(err.seq), self._server)

    def earliest(self) -> Exception:
        """The exception of the earliest failure; all are told with it."""
        failures, self._failures = self._failures, {}
        err = failures[min(failures)]
        return as_exception(err, self._places.get(err.seq), self._server, len(failures) - 1)


class Defined:
    """The programs that the server has of one session."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def frames(self, call: Playing, seq: int) -> list[bytes]:
        """The frames of a call whose first operator has that number: with the program itself, the first time."""
        program, frames = call.program, []
        if program.name not in self._names:
            self._names.add(program.name)
            for offset, part in wire.chunks(memoryview(program.raw)):
                frames.append(wire.encode(wire.Define(seq, program.name, len(program.raw), offset, part)))
        frames.append(wire.encode(wire.Call(seq, program.name, call.first, call.inputs, call.keys)))
        return frames

    def forgotten(self, name: str, seq: int) -> list[bytes]:
        """The frame that has a program forgotten, if the server has it."""
        if name not in self._names:
            return []
        self._names.remove(name)
        return [wire.encode(wire.Undefine(seq, name))]
