"""Threads for large arrays: split one operator's work into parts, each on its own core.

NumPy's functions release Python's lock while they compute, so threads pay from `LARGE` elements on. Results do not
depend on the number of threads: parts are cut the same way for any number, and each element is computed alone.
"""

from __future__ import annotations

import contextlib
import contextvars
import ctypes
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from torchnp._private import enter_quiet
from torchnp.thresholds import Threshold

Part = TypeVar("Part")
LARGE: Threshold = 1 << 20  # elements from which on handing over a part, which costs some 100 us, pays
PIECE: Threshold = 1 << 18  # elements of a part; with fewer, threads wait for Python's lock more than they compute
FEW = 4  # up to so many processors, Linux may wake a thread on one that is not free
_current = getattr(ctypes.CDLL(None), "sched_getcpu", None) if hasattr(os, "sched_setaffinity") else None


class _Threads:
    """The worker threads beside the caller's, started on first use."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.inside = threading.local()  # its `at_work`: whether this thread is working on a part
        self.pool: ThreadPoolExecutor | None = None
        self.number = cores()
        self.members: list[int] = []  # native ids of the worker threads
        self.room = -1  # the processor that is reserved for the caller

    def start(self) -> ThreadPoolExecutor:
        with self.lock:
            if self.pool is None:
                self.members, self.room = [], -1
                self.pool = ThreadPoolExecutor(max(self.number - 1, 1), "torchnp", self.join)
            return self.pool

    def join(self) -> None:
        """Initialize a worker thread."""
        enter_quiet()
        self.members.append(threading.get_native_id())
        self.room = -1  # so that the next `make_room` includes this thread

    def make_room(self) -> None:
        """Keep workers off the caller's processor: with few processors, Linux wakes them there, and one waits."""
        if _current is None or not 1 < self.number <= FEW:
            return
        here = _current()
        if here != self.room and (elsewhere := os.sched_getaffinity(0) - {here}):
            self.room = here
            for thread in self.members:
                with contextlib.suppress(OSError):  # the thread has ended
                    os.sched_setaffinity(thread, elsewhere)


def cores() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def get_num_threads() -> int:
    """The number of threads that an operator on large arrays uses, including the caller's.

    Returns
    -------
    int
        By default, the number of processors that the process may use. NumPy's matrix products follow the settings of
        their BLAS library instead, such as the environment variable ``OPENBLAS_NUM_THREADS``; only the convolutions of
        programs use these threads, with BLAS limited to one meanwhile.
    """
    return _threads.number


def set_num_threads(n: int) -> None:
    """Set the number of threads that an operator on large arrays uses; results do not depend on it.

    Parameters
    ----------
    n : int
        1 or more. With 1 everything is computed in the caller's thread.

    Raises
    ------
    RuntimeError
        ``n`` is not a positive integer.
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
    """The part size for ``n`` elements: up to four times `PIECE` for the largest arrays, whose threads then rarely ask
    the system for memory pages at the same time.
    """
    return min(max(PIECE, n >> 4), 4 * PIECE)


def blocks(n: int, size: int) -> Iterator[slice]:
    """Cut ``range(n)`` into slices of ``size``; the last may be shorter."""
    return within(slice(0, n), size)


def within(piece: slice, size: int) -> Iterator[slice]:
    """Cut a slice into slices of ``size``; the last may be shorter."""
    for start in range(piece.start, piece.stop, size):
        yield slice(start, min(start + size, piece.stop))


def share(work: Callable[[Part], object], parts: Iterable[Part]) -> None:
    """Run ``work(part)`` for each part on all threads; a thread that finishes a part takes the next.

    An error stops the work; it is raised once all threads have stopped.
    """
    given = list(parts)
    more = min(_threads.number, len(given)) - 1
    if more < 1 or getattr(_threads.inside, "at_work", False):
        for part in given:
            work(part)
        return
    left = iter(given)  # a list iterator's step is atomic in Python: no two threads get the same part

    def run() -> None:
        _threads.inside.at_work = True  # nested calls of `share` stay on this thread
        try:
            for part in left:
                work(part)
        finally:
            for _ in left:  # after an error, drop the remaining parts
                pass
            _threads.inside.at_work = False

    pool = _threads.start()
    _threads.make_room()
    others: list[Future[None]] = []
    try:
        with contextlib.suppress(RuntimeError):  # the pool or the interpreter is shutting down
            for _ in range(more):
                # The version of torch that a `table_for` follows is in the caller's context.
                others.append(pool.submit(contextvars.copy_context().run, run))
        run()
    finally:
        # Workers that have not started have nothing left to do.
        errors = [f.exception() for f in others if not f.cancel()]
    for error in errors:
        if error is not None:
            raise error


def _forget() -> None:
    """Reset after a fork: the child has no worker threads."""
    number = _threads.number
    _threads.__init__()  # type: ignore[misc]
    _threads.number = number


_threads = _Threads()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
