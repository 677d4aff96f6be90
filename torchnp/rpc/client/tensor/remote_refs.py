"""Client-side references to server objects."""

from __future__ import annotations

import signal
import sys
import threading
from typing import Any

import msgspec

from torchnp.rpc import wire
from torchnp.rpc.client.tensor.protocols import SessionProtocol


class RemoteObject(msgspec.Struct, gc=False, eq=False):
    """An object of a server's: it is forgotten there when the last handle to it dies here.

    A struct is made in one step: no interrupt leaves half an object to the destructor.
    """

    id: int
    session: SessionProtocol
    wire: wire.Handle

    def __del__(self) -> None:
        self.session.channel.forget(self.id)


LATER_SECONDS = 0.02  # by which the hook below has been left

_hooks: list[Any] = []


def keep_interrupts() -> None:
    """Have a KeyboardInterrupt that comes in the destructor of an object be raised once more, behind it.

    Python prints what a destructor raises and goes on: of a loop over handles one Ctrl-C in ten would do nothing.
    """
    if sys.unraisablehook not in _hooks:
        _hooks.append(_taking_over(sys.unraisablehook))
        sys.unraisablehook = _hooks[-1]


def _interrupt() -> None:
    """Ctrl-C, which ends what the main thread waits for as well."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)  # type: ignore[arg-type]
    else:
        signal.raise_signal(signal.SIGINT)


def _taking_over(before: Any) -> Any:
    def hook(raised: Any) -> None:
        if raised.exc_type is not KeyboardInterrupt or raised.object is not RemoteObject.__del__:
            before(raised)
            return
        frame = raised.exc_traceback.tb_frame  # the destructor's: it may have said nothing, or all
        frame.f_locals["self"].__del__()
        again = threading.Timer(LATER_SECONDS, _interrupt)
        again.daemon = True
        again.start()

    return hook


def ranges_of(ids: list[int]) -> list[tuple[int, int]]:
    """Ids of objects as ranges: the ids between the last one and it, and how many it has beside its first."""
    ids = sorted(set(ids))  # an interrupted destructor may have said one twice
    ranges: list[tuple[int, int]] = []
    end, low, following = 0, ids[0], ids[0]
    for id_ in ids:
        if id_ != following:
            ranges.append((low - end, following - 1 - low))
            end, low = following, id_
        following = id_ + 1
    ranges.append((low - end, following - 1 - low))
    return ranges
