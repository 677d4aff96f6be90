"""The state of sent frames: operators that are not yet acknowledged, failures, and defined programs."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from torchnp.rpc import wire
from torchnp.rpc.client.transports.error_frames import as_exception
from torchnp.rpc.client.transports.requests import ProgramCall, Where
from torchnp.rpc.exceptions import ProtocolError

MAX_FAILURES = 1 << 12  # maximum number of remembered failures, and of their places in the client's code


class Sent:
    """The operators of one session, by sequence number; threads other than the channel's only read and report failures.

    Parameters
    ----------
    server : str
        The server's name in messages.
    window : int
        The transport's window.

    Attributes
    ----------
    seq : int
        Sequence number of the next operator.
    acked : int
        All operators below it have been done.
    ahead : int
        Number of operators on their way; a long program counts for at most a quarter of the window.
    """

    def __init__(self, server: str, window: int) -> None:
        self.seq = self.acked = self.ahead = 0
        self._server = server
        # A program longer than the window would stall the session each time if all of its operators counted.
        self._most = window // 4
        # For each frame: the sequence number after it, its operators' places in the client's code, its count in
        # `ahead`.
        self._frames: deque[tuple[int, Sequence[Where], int]] = deque()
        self._failures: dict[int, wire.Err] = {}
        self._places: dict[int, Where] = {}

    def add(self, places: Sequence[Where]) -> None:
        """Record the operators of a frame that is sent, by the places that issued them."""
        self.seq += len(places)
        counts = min(len(places), self._most)
        self._frames.append((self.seq, places, counts))
        self.ahead += counts

    def acknowledge(self, seq: int) -> None:
        """Record that the server has done all operators below ``seq``."""
        if not self.acked <= seq <= self.seq:
            raise ProtocolError(f"the server acknowledged {seq}, which is not between {self.acked} and {self.seq}")
        self.acked = seq
        while self._frames and self._frames[0][0] <= seq:
            self.ahead -= self._frames.popleft()[2]

    # ------------------------------------------------------------ failures

    def note(self, err: wire.Err) -> None:
        """Keep a failure, and the place that issued the operator, until it is raised."""
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
        """Whether there are failures that have not been raised."""
        return bool(self._failures)

    def told(self, err: wire.Err) -> Exception:
        """Return the exception for a failure, which then counts as raised."""
        self._failures.pop(err.seq, None)
        return as_exception(err, self._places.get(err.seq), self._server)

    def earliest(self) -> Exception:
        """Return the exception for the earliest failure; all failures then count as raised."""
        failures, self._failures = self._failures, {}
        err = failures[min(failures)]
        return as_exception(err, self._places.get(err.seq), self._server, len(failures) - 1)


class Defined:
    """The programs that the server has from one session."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def frames(self, call: ProgramCall, seq: int) -> list[bytes]:
        """Return the frames of a program call; ``seq`` is the number of its first operator.

        The frames of the first call include the program.
        """
        program, frames = call.program, []
        if program.name not in self._names:
            self._names.add(program.name)
            for offset, part in wire.chunks(memoryview(program.raw)):
                frames.append(wire.encode(wire.Define(seq, program.name, len(program.raw), offset, part)))
        frames.append(wire.encode(wire.CallProgram(seq, program.name, call.first, call.inputs, call.keys)))
        return frames

    def forgotten(self, name: str, seq: int) -> list[bytes]:
        """Return the frame that deletes a program, in a list; the list is empty if the server lacks the program."""
        if name not in self._names:
            return []
        self._names.remove(name)
        return [wire.encode(wire.Undefine(seq, name))]
