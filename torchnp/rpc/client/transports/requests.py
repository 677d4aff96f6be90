"""Tasks of the session's thread that a program may wait for."""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple

import numpy as np

from torchnp.core.code_location import Where
from torchnp.rpc import wire
from torchnp.rpc.exceptions import DeadlineExceeded, ProtocolError

ANSWERS: dict[type, type] = {wire.Sync: wire.Status, wire.Publish: wire.Result, wire.QuoteRequest: wire.Quoted,
                           wire.Wait: wire.Status}  # fmt: skip


def check_seconds(**given: Any) -> None:
    """Raise TypeError or ValueError for a named argument that is not a valid number of seconds."""
    for name, seconds in given.items():
        if type(seconds) not in (int, float):
            raise TypeError(f"{name} is a number of seconds, not a value of type {type(seconds).__name__}")
        if not 0 < seconds < 1e8:
            raise ValueError(f"{name} cannot be {seconds}: it is a number of seconds above 0")


class ThreadTask:
    """A task of the channel's thread that the program can wait for."""

    __slots__ = ("_done", "error")

    def __init__(self) -> None:
        self._done = threading.Event()
        self.error: BaseException | None = None

    def finish(self, error: BaseException | None = None) -> None:
        self.error = error
        self._done.set()

    def wait(self) -> None:
        """Wait until the task is done; raise the error that ended the session, if any."""
        self._done.wait()
        if self.error is not None:
            raise self.error.with_traceback(None)


class PublishFuture(Future):
    """The result of `RPCTensor.publish_async`: a `concurrent.futures.Future` that can also be awaited.

    ``result(timeout)`` waits without an event loop. A request that has been sent cannot be cancelled.
    """

    def __init__(self) -> None:
        super().__init__()
        self.set_running_or_notify_cancel()

    def __await__(self) -> Any:
        return asyncio.wrap_future(self).__await__()


class Upload(ThreadTask):
    __slots__ = ("dtype", "id", "order", "raw", "shape", "where")

    def __init__(self, dtype: str, shape: list[int], order: list[int], raw: Any, where: Where) -> None:
        super().__init__()
        self.dtype, self.shape, self.order, self.raw, self.where = dtype, shape, order, raw, where
        self.id = -1


class Opening(ThreadTask):
    __slots__ = ("id", "name", "where")

    def __init__(self, name: str, where: Where) -> None:
        super().__init__()
        self.id, self.name, self.where = -1, name, where


class CompiledProgram(NamedTuple):
    """A program in the form in which the client calls it.

    Attributes
    ----------
    name : str
        The program's hash.
    raw : bytes
    places : list
        The place in the client's code that issued each operator.
    made : int
        Number of results.
    kept : list of int
        Indices of the results on which the client keeps handles.
    """

    name: str
    raw: bytes
    places: list[Where]
    made: int
    kept: list[int]


class ProgramCall(ThreadTask):
    """A call of a program."""

    __slots__ = ("first", "inputs", "keys", "program")

    def __init__(self, program: CompiledProgram, first: int, inputs: list[int], keys: list[int]) -> None:
        super().__init__()
        self.program, self.first, self.inputs, self.keys = program, first, inputs, keys


class Forgetting(ThreadTask):
    """A task to delete a program, identified by its hash, that will not be called again."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name


class Unanswered:
    """Keys of releases whose answers were never received; asking again with the same key returns the paid release."""

    def __init__(self) -> None:
        self._keys: dict[tuple, str] = {}

    def key_of(self, asked: tuple) -> str:
        """Return the key for a release: the last one's if that was the same and never answered, else a new key."""
        if asked not in self._keys:
            self._keys = {asked: secrets.token_hex(16)}  # an earlier state of the program does not recur
        return self._keys[asked]

    def answered(self, asked: tuple) -> None:
        self._keys.pop(asked, None)


class Announced(NamedTuple):
    """The dtype and shape that the client expects of a published tensor.

    Attributes
    ----------
    name : str
        The server's name in messages.
    dtypes : tuple of str
        Allowed dtypes.
    shape : tuple of int
        The handle's shape.
    fewer : bool
        Whether the tensor lacks one of the handle's dimensions, as a release does.
    """

    name: str
    dtypes: tuple[str, ...]
    shape: tuple[int, ...]
    fewer: bool = False

    def wrong(self, dtype: str, shape: list[int]) -> str:
        """Describe how a tensor differs from what is expected; return "" if it does not."""
        shapes = [self.shape]
        if self.fewer:
            shapes = [self.shape[:i] + self.shape[i + 1 :] for i in range(len(self.shape))]
        if dtype in self.dtypes and tuple(shape) in shapes:
            return ""
        if self.fewer:
            return (
                f"{self.name} released a {dtype} of shape {tuple(shape)} of a handle of shape {self.shape}: that is not "
                f"one of its dimensions less, or not {' or '.join(self.dtypes)}"
            )
        return (
            f"{self.name} holds a {dtype} of shape {tuple(shape)} where the client expects torch.{self.dtypes[0]} of shape "
            f"{self.shape}: a kernel and torch's shape rules differ"
        )

    @property
    def nbytes(self) -> int:
        """Size, in bytes, of the largest tensor that is expected."""
        return max(wire.nbytes_of(wire.dtype_of(d), self.shape) for d in self.dtypes)


class Request(ThreadTask):
    """A SYNC, PUBLISH or QUOTE request, with its frame's fields except the numbers.

    ``reply`` is the last frame of the answer, ``raw`` a tensor's bytes, and ``problem`` why the bytes were not kept.
    """

    __slots__ = (
        "_announced",
        "_done_bytes",
        "_first",
        "_size",
        "finished",
        "kind",
        "problem",
        "raw",
        "reply",
        "values",
    )

    def __init__(self, kind: type, *values: Any, announced: Announced | None = None) -> None:
        super().__init__()
        self.finished: Callable[[], None] | None = (
            None  # a callback in the thread; with it, later requests need not wait
        )
        self.kind, self.values = kind, values
        self.raw: Any = None
        self.reply: Any = None
        self.problem = ""
        self._announced = announced
        self._first: tuple[str, list[int]] | None = None
        self._done_bytes = self._size = 0

    def finish(self, error: BaseException | None = None) -> None:
        super().finish(error)
        if self.finished is not None:
            self.finished()

    def wait_for(self, name: str, seconds: float | None) -> None:
        """Do the same as `wait`, but raise DeadlineExceeded after ``seconds``, with the server's ``name``."""
        if not self._done.wait(seconds):
            raise DeadlineExceeded(
                f"{name} has not answered within the deadline of {seconds:g} s: it is at work still, and the session goes "
                "on. Ask again later, or set session.deadline to more seconds"
            )
        self.wait()

    @property
    def whole(self) -> bool:
        """Whether the whole reply has arrived."""
        if type(self.reply) is wire.Result:
            return bool(self._done_bytes == self._size)
        return self.reply is not None

    def take(self, reply: Any) -> None:
        """Take a part of the answer; an answer to PUBLISH may have several.

        Raises
        ------
        ProtocolError
            The part does not fit the earlier parts, or the tensor is far larger than expected. None of it is kept then.
        """
        self.reply = reply
        if type(reply) is not wire.Result:
            return
        if self._first is None:
            self._begin(reply)
        assert self._first is not None
        done = self._done_bytes
        end = done + len(reply.raw)
        fits = (reply.dtype, reply.shape, reply.offset) == (*self._first, done)
        if not fits or end > self._size or (self._size > done and not reply.raw):
            raise ProtocolError("the chunks of a published tensor do not fit together")
        if self.raw is not None:
            self.raw[done:end] = np.frombuffer(reply.raw, np.uint8)
        self._done_bytes = end

    def _begin(self, reply: wire.Result) -> None:
        """Check the announced tensor before any of its bytes are kept.

        An unexpected tensor is read to its end and dropped, so that the session can go on, unless it is far larger than
        the expected one.
        """
        self._first, self._size = (reply.dtype, reply.shape), wire.nbytes_of(wire.dtype_of(reply.dtype), reply.shape)
        if self._announced is not None:
            self.problem = self._announced.wrong(reply.dtype, reply.shape)
            if self.problem and self._size > self._announced.nbytes + wire.CHUNK:
                raise ProtocolError(self.problem)
        if not self.problem:
            self.raw = np.empty(self._size, np.uint8)
