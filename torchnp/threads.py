"""Threads for large arrays: parts of one operator's work, each on a core of its own.

NumPy's functions let go of Python's lock while they compute, so that parts of a large array pay from `LARGE` elements on.
Results do not depend on the number of threads: parts are cut the same way for any, and each element is computed alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from torchnp._private import enter_quiet

Part = TypeVar("Part")
LARGE = 1 << 20  # elements from which on handing over a part, some 100 us, is worth its while
PIECE = 1 << 18  # elements of a part; with fewer, threads wait for Python's lock more than they compute
FEW = 4  # processors, among which a thread that wakes up may not be given one that is free
_current = getattr(ctypes.CDLL(None), "sched_getcpu", None) if hasattr(os, "sched_setaffinity") else None


class _Threads:
    """The threads beside the caller's, started when they are first needed."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.inside = threading.local()  # its `at_work`: whether this thread works on a part
        self.pool: ThreadPoolExecutor | None = None
        self.number = cores()
        self.members: list[int] = []  # the system's numbers of the threads
        self.room = -1  # the processor that is left to the caller

    def start(self) -> ThreadPoolExecutor:
        with self.lock:
            if self.pool is None:
                self.members, self.room = [], -1
                self.pool = ThreadPoolExecutor(max(self.number - 1, 1), "torchnp", self.join)
            return self.pool

    def join(self) -> None:
        """What a thread does first."""
        enter_quiet()
        self.members.append(threading.get_native_id())
        self.room = -1  # it has to be told, too

    def make_room(self) -> None:
        """Keep the threads off the caller's processor: of few, Linux wakes them there, and one waits for the other."""
        if _current is None or not 1 < self.number <= FEW:
            return
        here = _current()
        if here != self.room and (elsewhere := os.sched_getaffinity(0) - {here}):
            self.room = here
            for thread in self.members:
                with contextlib.suppress(OSError):  # it has ended
                    os.sched_setaffinity(thread, elsewhere)


def cores() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def get_num_threads() -> int:
    """The number of threads that an operator on large arrays uses, the caller's among them.

    Returns
    -------
    int
        At first the number of processors that the process may use. NumPy's matrix products go by the settings of their
        BLAS library instead, such as the environment variable ``OPENBLAS_NUM_THREADS``; only the convolutions of programs
        use these threads, with BLAS on one meanwhile.
    """
    return _threads.number


def set_num_threads(n: int) -> None:
    """Set the number of threads that an operator on large arrays uses; its results do not depend on it.

    Parameters
    ----------
    n : int
        1 or more. With 1 everything is computed in the caller's thread.

    Raises
    ------
    RuntimeError
        ``n`` is no positive integer.
    """
    if type(n) is not int:
        raise RuntimeError(f"set_num_threads expects an int, but got {type(n).__name__}")
    if n < 1:
        raise RuntimeError("set_num_threads expects a positive integer")
    with _threads.lock:
        before, _threads.pool, _threads.number = _threads.pool, None, n
    if before is not None:
        before.shutdown(wait=False)


def piece(n: int) -> int:
    """The elements of a part of ``n``: four times `PIECE` of the largest, whose threads then seldom ask the system for pages
    of memory side by side.
    """
    return min(max(PIECE, n >> 4), 4 * PIECE)


def blocks(n: int, size: int) -> Iterator[slice]:
    """``range(n)`` cut into slices of ``size``; the last may be shorter."""
    return within(slice(0, n), size)


def within(piece: slice, size: int) -> Iterator[slice]:
    """A slice cut into slices of ``size``; the last may be shorter."""
    for start in range(piece.start, piece.stop, size):
        yield slice(start, min(start + size, piece.stop))


def share(work: Callable[[Part], object], parts: Iterable[Part]) -> None:
    """``work(part)`` for each part, on all threads: whoever is done takes the next.

    An error ends the work; it is raised when no thread works on a part any more.
    """
    given = list(parts)
    more = min(_threads.number, len(given)) - 1
    if more < 1 or getattr(_threads.inside, "at_work", False):
        for part in given:
            work(part)
        return
    left = iter(given)  # a step of a list's iterator is one step of Python's: no two threads get the same part

    def run() -> None:
        _threads.inside.at_work = True  # what a part shares in turn stays in its thread
        try:
            for part in left:
                work(part)
        finally:
            for _ in left:  # after an error nobody has more to do
                pass
            _threads.inside.at_work = False

    pool = _threads.start()
    _threads.make_room()
    others: list[Future[None]] = []
    try:
        with contextlib.suppress(RuntimeError):  # the pool was shut down meanwhile, or the interpreter ends
            for _ in range(more):
                others.append(pool.submit(run))
        run()
    finally:
        # What has not begun finds nothing left to do.
        errors = [f.exception() for f in others if not f.cancel()]
    for error in errors:
        if error is not None:
            raise error


def _forget() -> None:
    """After a fork the child has none of the threads."""
    number = _threads.number
    _threads.__init__()  # type: ignore[misc]
    _threads.number = number


_threads = _Threads()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
