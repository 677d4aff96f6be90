"""What a program may wait for until the thread of its session has done it."""

from __future__ import annotations

import secrets
import threading
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from torchnp.rpc import wire
from torchnp.rpc.exceptions import DeadlineExceeded, ProtocolError

ANSWERS: dict[type, type] = {wire.Sync: wire.Status, wire.Publish: wire.Result, wire.Quote: wire.Quoted}
Where = tuple[CodeType, int] | None  # see torchnp.rpc.client.place


def check_seconds(**given: Any) -> None:
    """TypeError or ValueError for what is no number of seconds, by its name."""
    for name, seconds in given.items():
        if type(seconds) not in (int, float):
            raise TypeError(f"{name} is a number of seconds, not a value of type {type(seconds).__name__}")
        if not 0 < seconds < 1e8:
            raise ValueError(f"{name} cannot be {seconds}: it is a number of seconds above 0")


class Task:
    """Something that the program may wait for until the channel's thread has done it."""

    __slots__ = ("_done", "error")

    def __init__(self) -> None:
        self._done = threading.Event()
        self.error: BaseException | None = None

    def finish(self, error: BaseException | None = None) -> None:
        self.error = error
        self._done.set()

    def wait(self) -> None:
        """Wait until it is done; raises what went wrong with the session."""
        self._done.wait()
        if self.error is not None:
            raise self.error.with_traceback(None)


class Upload(Task):
    __slots__ = ("dtype", "id", "order", "raw", "shape", "where")

    def __init__(self, dtype: str, shape: list[int], order: list[int], raw: Any, where: Where) -> None:
        super().__init__()
        self.dtype, self.shape, self.order, self.raw, self.where = dtype, shape, order, raw, where
        self.id = -1


class Opening(Task):
    __slots__ = ("id", "name", "where")

    def __init__(self, name: str, where: Where) -> None:
        super().__init__()
        self.id, self.name, self.where = -1, name, where


class Playable(NamedTuple):
    """A program as its calls are sent.

    Attributes
    ----------
    name : str
        Its hash.
    raw : bytes
    places : list
        Where each of its operators was issued.
    made : int
        How many results it has.
    kept : list of int
        The places among them of those that the client has handles of.
    """

    name: str
    raw: bytes
    places: list[Where]
    made: int
    kept: list[int]


class Playing(Task):
    """A call of a program."""

    __slots__ = ("first", "inputs", "keys", "program")

    def __init__(self, program: Playable, first: int, inputs: list[int], keys: list[int]) -> None:
        super().__init__()
        self.program, self.first, self.inputs, self.keys = program, first, inputs, keys


class Forgetting(Task):
    """A program, by its hash, that is not called any more."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name


class Unanswered:
    """Keys of releases that nobody has seen the answers of: whoever asks again for one gets what was paid for."""

    def __init__(self) -> None:
        self._keys: dict[tuple, str] = {}

    def key_of(self, asked: tuple) -> str:
        """The key of a release; a new one, unless the same was asked for before and given up."""
        if asked not in self._keys:
            self._keys = {asked: secrets.token_hex(16)}  # one of an earlier state of the program is not asked for again
        return self._keys[asked]

    def answered(self, asked: tuple) -> None:
        self._keys.pop(asked, None)


class Request(Task):
    """SYNC, PUBLISH or QUOTE, and what the frame says beside its numbers.

    ``reply`` is the last frame of the answer and ``raw`` the bytes of a tensor.
    """

    __slots__ = ("_done_bytes", "kind", "raw", "reply", "values")

    def __init__(self, kind: type, *values: Any) -> None:
        super().__init__()
        self.kind, self.values = kind, values
        self.raw: Any = None
        self.reply: Any = None
        self._done_bytes = 0

    def wait_for(self, name: str, seconds: float | None) -> None:
        """`wait` for the server of that name; DeadlineExceeded after so many seconds."""
        if not self._done.wait(seconds):
            raise DeadlineExceeded(
                f"{name} has not answered within the deadline of {seconds:g} s: it is at work still, and the session goes "
                "on. Ask again later, or set session.deadline to more seconds"
            )
        self.wait()

    @property
    def whole(self) -> bool:
        """Whether the reply has come to its end."""
        if type(self.reply) is wire.Result:
            return bool(self._done_bytes == self.raw.size)
        return self.reply is not None

    def take(self, reply: Any) -> None:
        """Take a part of the answer; that to PUBLISH comes in several."""
        self.reply = reply
        if type(reply) is not wire.Result:
            return
        if self.raw is None:
            self.raw = np.empty(wire.nbytes_of(wire.dtype_of(reply.dtype), reply.shape), np.uint8)
        raw, done = self.raw, self._done_bytes
        if reply.offset != done or done + len(reply.raw) > raw.size or (raw.size > done and not reply.raw):
            raise ProtocolError("the chunks of a published tensor do not fit together")
        raw[done : done + len(reply.raw)] = np.frombuffer(reply.raw, np.uint8)
        self._done_bytes += len(reply.raw)
