"""The programs that a session has defined, named by their hash. Sessions do not share programs."""

from __future__ import annotations

from torchnp.rpc import wire
from torchnp.rpc.exceptions import ProtocolError
from torchnp.rpc.wire.programs import StoredProgram, hash_of


class Programs:
    """The programs of a session, which together have at most `wire.MAX_PROGRAMS` bytes."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[StoredProgram, int]] = {}
        self._nbytes = 0
        self._first: wire.Define | None = None
        self._raw = bytearray()

    @property
    def open(self) -> bool:
        """Whether more chunks of a program must follow."""
        return self._first is not None

    def clear(self) -> None:
        """Delete all programs."""
        self._known.clear()
        self._nbytes, self._first, self._raw = 0, None, bytearray()

    def take(self, chunk: wire.Define) -> None:
        """Take a chunk; the last one defines the program. Raise ProtocolError for an invalid chunk or program."""
        if self._first is None:
            if chunk.offset:
                raise ProtocolError("a chunk came without its beginning")
            if self._nbytes + chunk.size > wire.MAX_PROGRAMS:
                raise ProtocolError(f"the programs of a session have more than {wire.MAX_PROGRAMS:,} bytes")
            self._first = chunk
        first, raw = self._first, self._raw
        fits = (chunk.program, chunk.size, chunk.offset) == (first.program, first.size, len(raw))
        if not fits or not chunk.raw or len(raw) + len(chunk.raw) > first.size:
            raise ProtocolError("the chunks of a program do not fit together")
        raw += chunk.raw
        if len(raw) < first.size:
            return
        self._first, self._raw = None, bytearray()
        if hash_of(raw) != first.program:
            raise ProtocolError("a program has another hash than its name")
        if first.program not in self._known:
            self._known[first.program] = StoredProgram(raw), first.size
            self._nbytes += first.size

    def get(self, name: str) -> StoredProgram:
        """Return a program by its hash; raise ProtocolError if there is none."""
        try:
            return self._known[name][0]
        except KeyError:
            raise ProtocolError(f"there is no program {name[:8]} in this session") from None

    def forget(self, name: str) -> None:
        """Delete a program; raise ProtocolError if there is none."""
        self.get(name)
        self._nbytes -= self._known.pop(name)[1]
