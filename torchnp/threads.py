"""Threads for large arrays: one operator's work is split into parts, which run on several cores.

NumPy's functions release the GIL while they compute, so threads are faster from `LARGE` elements on. Results do not
depend on the number of threads: the parts are the same for any number, and each element is computed independently.
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

from torchnp._private_numpy import enter_quiet
from torchnp.thresholds import Threshold

Part = TypeVar("Part")
LARGE: Threshold = 1 << 20  # elements from which it is worth handing a part to a thread, which takes about 100 us
PIECE: Threshold = 1 << 18  # elements of a part; with fewer, threads wait for the GIL longer than they compute
FEW = 4  # with at most this many processors, Linux may wake a thread on one that is not free
_current = getattr(ctypes.CDLL(None), "sched_getcpu", None) if hasattr(os, "sched_setaffinity") else None


class _Threads:
    """The worker threads besides the caller's thread; they are started at the first use."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.inside = threading.local()  # `inside.at_work` says whether this thread is working on a part
        self.pool: ThreadPoolExecutor | None = None
        self.number = cores()
        self.members: list[int] = []  # native ids of the worker threads
        self.room = -1  # the processor that is kept free for the caller

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
        self.room = -1  # makes the next `make_room` include this thread

    def make_room(self) -> None:
        """Keep workers off the caller's processor.

        If there are few processors, Linux may wake a worker there, and one of the two waits.
        """
        if _current is None or not 1 < self.number <= FEW:
            return
        here = _current()
        if here != self.room and (elsewhere := os.sched_getaffinity(0) - {here}):
            self.room = here
            for thread in self.members:
                with contextlib.suppress(OSError):  # the thread has ended
                    os.sched_setaffinity(thread, elsewhere)


def cores() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def get_num_threads() -> int:
    """Return the number of threads that an operator on large arrays uses, including the caller's.

    Returns
    -------
    int
        By default, the number of processors that the process may use. NumPy's matrix products follow the settings of
        their BLAS library instead, such as the environment variable ``OPENBLAS_NUM_THREADS``. An exception are the
        convolutions of programs, which run on torchnp's threads while BLAS is limited to one thread.
    """
    return _threads.number


def set_num_threads(n: int) -> None:
    """Set the number of threads that an operator on large arrays uses; results do not depend on it.

    Parameters
    ----------
    n : int
        1 or more. With 1, everything is computed in the caller's thread.

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
    """Return the part size for ``n`` elements, which is up to four times `PIECE`.

    With the larger parts of large arrays, threads rarely request memory pages from the system at the same time.
    """
    return min(max(PIECE, n >> 4), 4 * PIECE)


def blocks(n: int, size: int) -> Iterator[slice]:
    """Yield slices of ``range(n)`` of length ``size``; the last may be shorter."""
    return within(slice(0, n), size)


def within(piece: slice, size: int) -> Iterator[slice]:
    """Yield slices of a slice, of length ``size``; the last may be shorter."""
    for start in range(piece.start, piece.stop, size):
        yield slice(start, min(start + size, piece.stop))


def share(work: Callable[[Part], object], parts: Iterable[Part]) -> None:
    """Run ``work(part)`` for each part on all threads; a thread that finishes a part takes the next.

    An error stops the work. It is raised after all threads have stopped.
    """
    given = list(parts)
    more = min(_threads.number, len(given)) - 1
    if more < 1 or getattr(_threads.inside, "at_work", False):
        for part in given:
            work(part)
        return
    left = iter(given)  # a list iterator's step is atomic in Python, so no two threads get the same part

    def run() -> None:
        _threads.inside.at_work = True  # makes nested calls of `share` stay on this thread
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
                # The caller's context holds the target version of a `table_for` table.
                others.append(pool.submit(contextvars.copy_context().run, run))
        run()
    finally:
        # A worker that has not started yet can be cancelled, because no work is left.
        errors = [f.exception() for f in others if not f.cancel()]
    for error in errors:
        if error is not None:
            raise error


def _forget() -> None:
    """Reset after a fork, because the child has no worker threads."""
    number = _threads.number
    _threads.__init__()  # type: ignore[misc]
    _threads.number = number


_threads = _Threads()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
