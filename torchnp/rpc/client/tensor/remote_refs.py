"""Client-side references to server objects."""

from __future__ import annotations

import signal
import sys
import threading
from typing import Any

import msgspec

from torchnp.engine.tensor.interfaces import SessionProtocol
from torchnp.rpc import wire


class RemoteObject(msgspec.Struct, gc=False, eq=False):
    """A reference to a server object, which the server forgets when the last handle on the client dies.

    A struct is created in one step, so an interrupt cannot leave a partly initialized object to the destructor.
    """

    id: int
    session: SessionProtocol
    wire: wire.Handle

    def __del__(self) -> None:
        self.session.channel.forget(self.id)


LATER_SECONDS = 0.02  # delay after which the hook below has returned

_hooks: list[Any] = []


def keep_interrupts() -> None:
    """Raise a KeyboardInterrupt that occurs in an object's destructor again, after the destructor.

    Python only prints exceptions in a destructor. Without this, one Ctrl-C in ten would have no effect in a loop over
    handles.
    """
    if sys.unraisablehook not in _hooks:
        _hooks.append(_taking_over(sys.unraisablehook))
        sys.unraisablehook = _hooks[-1]


def _interrupt() -> None:
    """Send Ctrl-C to the main thread, which also interrupts a wait in it."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)  # type: ignore[arg-type]
    else:
        signal.raise_signal(signal.SIGINT)


def _taking_over(before: Any) -> Any:
    def hook(raised: Any) -> None:
        if raised.exc_type is not KeyboardInterrupt or raised.object is not RemoteObject.__del__:
            before(raised)
            return
        frame = raised.exc_traceback.tb_frame  # the destructor's frame; its message may or may not have been queued
        frame.f_locals["self"].__del__()
        again = threading.Timer(LATER_SECONDS, _interrupt)
        again.daemon = True
        again.start()

    return hook


def ranges_of(ids: list[int]) -> list[tuple[int, int]]:
    """Encode object ids as ranges: the number of ids skipped since the last range, and the length minus one."""
    ids = sorted(set(ids))  # an interrupted destructor may have queued an id twice
    ranges: list[tuple[int, int]] = []
    end, low, following = 0, ids[0], ids[0]
    for id_ in ids:
        if id_ != following:
            ranges.append((low - end, following - 1 - low))
            end, low = following, id_
        following = id_ + 1
    ranges.append((low - end, following - 1 - low))
    return ranges
