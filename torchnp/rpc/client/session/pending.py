"""What a session has sent: how far it is ahead of the server, what has failed there, and which programs are known."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from torchnp.rpc import wire
from torchnp.rpc.client.transports.failures import as_exception
from torchnp.rpc.client.transports.requests import ProgramCall, Where
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
    ahead : int
        How many are on their way, of a long program not all.
    """

    def __init__(self, server: str, window: int) -> None:
        self.seq = self.acked = self.ahead = 0
        self._server = server
        # A program that counted whole and is longer than the window would hold the session back each time.
        self._most = window // 4
        # Of each frame the number behind it, its operators' places in the client's code, and for how many of them it counts.
        self._frames: deque[tuple[int, Sequence[Where], int]] = deque()
        self._failures: dict[int, wire.Err] = {}
        self._places: dict[int, Where] = {}

    def add(self, places: Sequence[Where]) -> None:
        """Say that the operators of a frame go on their way, and where they were issued; of a long program not all count."""
        self.seq += len(places)
        counts = min(len(places), self._most)
        self._frames.append((self.seq, places, counts))
        self.ahead += counts

    def acknowledge(self, seq: int) -> None:
        """Take the server's word that all operators below a number have been done."""
        if not self.acked <= seq <= self.seq:
            raise ProtocolError(f"the server acknowledged {seq}, which is not between {self.acked} and {self.seq}")
        self.acked = seq
        while self._frames and self._frames[0][0] <= seq:
            self.ahead -= self._frames.popleft()[2]

    # ------------------------------------------------------------ failures

    def note(self, err: wire.Err) -> None:
        """Keep a failure and the place that issued the operator, until somebody asks for results."""
        if not err.request and len(self._failures) < MAX_FAILURES:
            self._failures.setdefault(err.seq, err)
        found = next((frame for frame in self._frames if err.seq < frame[0]), None)
        if found is not None and err.seq >= self.acked:
            end, places, _ = found
            self._places[err.seq] = places[err.seq - end]
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

    def frames(self, call: ProgramCall, seq: int) -> list[bytes]:
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
