"""Functions on handles that run as programs on the server: `torchnp.rpc.Session.program`."""

from __future__ import annotations

import functools
import sys
import threading
import types
import warnings
import weakref
from collections.abc import Callable, Hashable
from typing import Any, NoReturn

from torchnp.engine.tensor.random_keys import draw_key
from torchnp.interop._private import is_observed
from torchnp.rpc import wire
from torchnp.rpc.client.program.outputs import detached
from torchnp.rpc.client.program.recording import Recording, record
from torchnp.rpc.client.program.signature import Arguments
from torchnp.rpc.exceptions import HandleError
from torchnp.rpc.wire.programs import MAX_MADE

TRIES = 4  # recorded calls within which two in a row must be alike
KINDS = 16  # maximum number of argument kinds whose recordings are kept
LOOK_AGAIN = 100  # one call in this many runs the function itself, as a check


class RemoteProgram:
    """A function whose recorded operators run on the server; a call is one short frame, however many operators it has.

    `torchnp.rpc.Session.program` makes it, and documents the requirements.

    Parameters
    ----------
    session : Session
        The session of the handles.
    function : callable
    key : callable, optional
        Returns a hashable value for the things that the function depends on besides its arguments.

    Attributes
    ----------
    calls : int
        Number of calls that were sent as one frame.
    why_not : str
        Why calls with the last kind of arguments run the function itself; "" if they do not.
    """

    def __init__(self, session: Any, function: Callable[..., Any], key: Callable[[], Hashable] | None = None) -> None:
        functools.update_wrapper(self, function)
        self.calls, self.why_not = 0, ""
        self._session, self._function, self._key = session, function, key
        self._name = getattr(function, "__qualname__", type(function).__qualname__)
        self._lock = threading.Lock()
        self._kinds: dict[Hashable, _Kind] = {}
        self._new = 0  # new kinds since the last call that was sent as one frame

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        call = functools.partial(self._function, *args, **kwargs)
        if self._session.channel.tape is not None or is_observed():
            return detached(call())  # part of another recording or of a torch transform
        given = Arguments((args, kwargs), self._key() if self._key is not None else None)
        if not self._lock.acquire(blocking=False):
            return detached(call())  # another thread is in a call
        try:
            kind = self._kind(given)
            if given.problem:
                self._give_up(kind, given.problem)
            result = self._run(kind, call, given)
            words = self._words(kind)
        finally:
            self._lock.release()
        if words:
            warnings.warn(f"{self._name} runs operator by operator, and not as a program: {words}", stacklevel=2)
        return result

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Bind the program as a method: the instance becomes its first argument."""
        return self if instance is None else types.MethodType(self, instance)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            f"the program {self._name} cannot be copied or pickled: it is of one session and of what its function uses. "
            "Copy the function, and make a program of that"
        )

    def forget(self) -> None:
        """Forget all recordings. Call this when something that the function uses besides its arguments has changed."""
        with self._lock:
            self._kinds.clear()

    def __repr__(self) -> str:
        known = [k.recording for k in self._kinds.values() if k.known]
        if not known:
            return f"<program {self._name}: {self.why_not or 'not recorded yet'}>"
        sizes = ", ".join(f"{r.playable.name[:8]} of {len(r.playable.places):,} operators" for r in known if r)
        return f"<program {self._name}: {sizes}, {self.calls:,} calls>"

    # ------------------------------------------------------------ one argument kind

    def _kind(self, given: Arguments) -> _Kind:
        kind = self._kinds.get(given.kind)
        if kind is None or not kind.there():
            self._kinds.pop(given.kind, None)
            while len(self._kinds) >= KINDS:
                del self._kinds[next((key for key, k in self._kinds.items() if not k.known), next(iter(self._kinds)))]
            kind = self._kinds[given.kind] = _Kind(given)
            self._new += 1
        return kind

    def _words(self, kind: _Kind) -> str:
        """Return the text of a warning about the last call; "" if there is none or it was given before."""
        if kind.why_not and not kind.told:
            kind.told = True
            return kind.why_not
        if self._new > 2 * KINDS:
            self._new = -sys.maxsize
            return (
                f"{2 * KINDS} kinds of arguments, and none that was met often enough: numbers, shapes, and handles that require "
                "a gradient or are attributes of an argument tell them apart"
            )
        return ""

    def _run(self, kind: _Kind, call: Callable[[], Any], given: Arguments) -> Any:
        self.why_not = kind.why_not
        recording = kind.recording
        if kind.why_not or (recording is not None and not recording.memories.isdisjoint(given.memories)):
            return detached(call())
        if kind.known and recording is not None:
            beside = recording.live_captures()
            if beside is None:
                kind.start_again()
            elif not recording.takes(given.handles):
                kind.known, kind.tries = False, 0  # the next call is compared with this recording
            elif kind.calls % LOOK_AGAIN:
                keys = [draw_key(None) for _ in recording.keys]
                result = recording.play(given.handles, beside, keys)
                kind.calls += 1
                self.calls += 1
                self._new = min(self._new, 0)
                return result
        result, now = record(self._session, call, given, recording)
        if now is None:
            return result
        if kind.known:
            self._look_again(kind, now)
        else:
            self._compare(kind, now)
        return result

    def _compare(self, kind: _Kind, now: Recording) -> None:
        """Compare the last two recordings; if they are alike, the next calls run as a program."""
        before, kind.recording = kind.recording, now
        kind.tries += 1
        if now.problem or before is None or before.problem:
            problem = now.problem
        else:
            problem = before.difference(now)
            if not problem:
                now.pin(before)
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
    """State of the calls with one kind of arguments, valid while the objects that identify the kind are alive."""

    def __init__(self, given: Arguments) -> None:
        self.why_not, self.told, self._held = "", False, given.held
        self.start_again()

    def there(self) -> bool:
        return all(held() is not None for held in self._held)

    def start_again(self) -> None:
        self.recording: Recording | None = None
        self.known = False
        self.tries = self.calls = 0
