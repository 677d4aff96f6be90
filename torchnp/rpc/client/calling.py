"""Functions of handles whose operators are sent once: `torchnp.rpc.Session.program`."""

from __future__ import annotations

import dataclasses
import functools
import threading
import warnings
import weakref
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import numpy as np
import torch

from torchnp.interop._private import is_recorded
from torchnp.rpc import wire
from torchnp.rpc.client.handles import BaseHandleTensor
from torchnp.rpc.client.keys import draw_key
from torchnp.rpc.client.recording import Recording, detached, record
from torchnp.rpc.exceptions import HandleError
from torchnp.rpc.wire.bodies import MAX_MADE

TRIES = 4  # calls within which two in a row are alike
KINDS = 16  # of arguments whose recordings are kept
LOOK_AGAIN = 100  # calls, after which the function itself runs once more
_VALUES = (int, bool, str, bytes, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)


class Program:
    """A function that runs on the server as it was recorded: a call is one short frame, whatever it does.

    `torchnp.rpc.Session.program` makes it, and says what it needs.

    Attributes
    ----------
    calls : int
        How many calls have been such a frame.
    why_not : str
        Why the last arguments' calls run the function itself, or "".
    """

    def __init__(self, session: Any, function: Callable[..., Any], key: Callable[[], Hashable] | None = None) -> None:
        functools.update_wrapper(self, function)
        self.calls, self.why_not = 0, ""
        self._session, self._function, self._key = session, function, key
        self._name = getattr(function, "__qualname__", type(function).__qualname__)
        self._lock = threading.Lock()
        self._kinds: dict[Hashable, _Kind] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = _Arguments((args, kwargs), self._key() if self._key is not None else None)
        call = functools.partial(self._function, *args, **kwargs)
        if self._session.channel.tape is not None or is_recorded() or not self._lock.acquire(blocking=False):
            return detached(call())  # a part of another recording, or of another thread's time
        try:
            kind = self._kind(given.kind, given.held)
            if given.plain:
                self._give_up(kind, "a plain tensor or an array is among its arguments: session.send() it before")
            result = self._run(kind, call, given.handles)
        finally:
            self._lock.release()
        if kind.why_not and not kind.told:
            kind.told = True
            words = f"{self._name} runs operator by operator, and not as a program: {kind.why_not}"
            warnings.warn(words, stacklevel=2)
        return result

    def forget(self) -> None:
        """Forget what was recorded: to be called when something has changed that the function uses beside its arguments."""
        with self._lock:
            self._kinds.clear()

    def __repr__(self) -> str:
        known = [k.recording for k in self._kinds.values() if k.known]
        if not known:
            return f"<program {self._name}: {self.why_not or 'not recorded yet'}>"
        sizes = ", ".join(f"{r.playable.name[:8]} of {len(r.playable.places):,} operators" for r in known if r)
        return f"<program {self._name}: {sizes}, {self.calls:,} calls>"

    # ------------------------------------------------------------ one kind of arguments

    def _kind(self, key: Hashable, held: list[Any]) -> _Kind:
        kind = self._kinds.get(key)
        if kind is None:
            while len(self._kinds) >= KINDS:
                del self._kinds[next(iter(self._kinds))]
            kind = self._kinds[key] = _Kind(held)
        return kind

    def _run(self, kind: _Kind, call: Callable[[], Any], arguments: list[Any]) -> Any:
        self.why_not = kind.why_not
        if kind.why_not:
            return detached(call())
        recording = kind.recording
        if kind.known and recording is not None and not recording.stands():
            kind.start_again()
        if kind.known and recording is not None and kind.calls % LOOK_AGAIN:
            keys = [draw_key(None) for _ in recording.keys]
            result = recording.play(arguments, keys)
            kind.calls += 1
            self.calls += 1
            return result
        result, now = record(self._session, call, arguments, recording)
        if kind.known:
            self._look_again(kind, now)
        else:
            self._compare(kind, now)
        return result

    def _compare(self, kind: _Kind, now: Recording) -> None:
        """See whether the last two calls were alike: then the next ones are calls of a program."""
        before, kind.recording = kind.recording, now
        kind.tries += 1
        if now.problem or before is None or before.problem:
            problem = now.problem
        else:
            problem = before.difference(now)
            if not problem:
                self._define(kind, now)
                return
        if kind.tries >= TRIES:
            self._give_up(kind, problem)

    def _define(self, kind: _Kind, recording: Recording) -> None:
        programs = self._session.programs
        size = sum({r.playable.name: len(r.playable.raw) for r in (*programs, recording)}.values())
        if size > wire.MAX_PROGRAMS or recording.playable.made > MAX_MADE:
            self._give_up(kind, f"with it the session's programs would have {size:,} bytes, of {wire.MAX_PROGRAMS:,}")
            return
        programs.add(recording)
        end = weakref.finalize(recording, self._session.channel.undefine, recording.playable.name)
        end.atexit = False
        kind.known, kind.calls = True, 1

    def _look_again(self, kind: _Kind, now: Recording) -> None:
        assert kind.recording is not None
        kind.calls += 1
        if problem := now.problem or kind.recording.difference(now):
            kind.start_again()
            raise HandleError(
                f"the program {self._name} is not what was recorded any more: {problem}. This call did what the function says, "
                f"and up to {LOOK_AGAIN - 1} before it what was recorded. What it goes by belongs in its arguments or in "
                "session.program(function, key=); or call forget() when it has changed"
            )

    def _give_up(self, kind: _Kind, problem: str) -> None:
        if not kind.why_not:
            kind.why_not, kind.recording = problem, None


class _Kind:
    """What is known of calls with one kind of arguments; ``held`` keeps what they are told by."""

    def __init__(self, held: list[Any]) -> None:
        self.held, self.why_not, self.told = held, "", False
        self.start_again()

    def start_again(self) -> None:
        self.recording: Recording | None = None
        self.known = False
        self.tries = self.calls = 0


def _mode() -> tuple:
    """What torch does by beside the arguments."""
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.get_default_dtype(),
        torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu"),
    )


class _Arguments:
    """Arguments of a call, taken apart.

    Attributes
    ----------
    handles : list
        In their order.
    kind : tuple
        What a recording of them goes by.
    held : list
        What is told by its address in that: it must live as long.
    plain : bool
        Whether plain tensors or arrays are among them.
    """

    def __init__(self, given: Any, key: Hashable) -> None:
        self.handles: list[Any] = []
        self.held: list[Any] = []
        self.plain = False
        self._parts: list[Any] = [_mode(), key]
        self._take(given)
        ids = [t._object.id for t in self.handles]
        self.kind = (*self._parts, tuple(ids.index(i) for i in ids))

    def _take(self, x: Any) -> None:
        kind, parts = type(x), self._parts
        parts.append(kind)
        if isinstance(x, BaseHandleTensor):
            self.handles.append(x)
            parts += (x._spec, x.requires_grad)
            if x.requires_grad:  # whose gradient is a place of its own
                self._hold(x)
        elif isinstance(x, (torch.Tensor, np.ndarray)):
            self.plain = True
        elif isinstance(x, dict):
            parts += (len(x), *x)
            self._take_all(x.values())
        elif isinstance(x, (list, tuple)):
            parts.append(len(x))
            self._take_all(x)
        elif dataclasses.is_dataclass(x) and not isinstance(x, type):
            self._take_all(getattr(x, field.name) for field in dataclasses.fields(x))
        elif kind in (float, complex):
            parts.append(repr(x))  # 0.0 is not -0.0, and nan is nan
        elif kind in _VALUES:
            parts.append(x)
        else:
            self._hold(x)

    def _take_all(self, values: Iterable[Any]) -> None:
        for value in values:
            self._take(value)

    def _hold(self, x: Any) -> None:
        self._parts.append(id(x))
        self.held.append(x)
