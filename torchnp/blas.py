"""Prevent BLAS's threads, which NumPy's matrix products use, from running at the same time as torchnp's own threads."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from torchnp.threads import get_num_threads, share

Part = TypeVar("Part")


class _Limit:
    """A process-wide limit on BLAS threads.

    The first caller that enters sets it, the last one that leaves restores it.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.inside = 0
        self.modules = 0  # number of imported modules at the last search for BLAS libraries
        self.libraries: list[Any] = []
        self.before: list[int] = []

    def enter(self) -> None:
        with self.lock:
            if not self.inside:
                if self.modules != len(sys.modules):  # a new module may have loaded another BLAS, as SciPy's modules do
                    self.modules = len(sys.modules)
                    self.libraries = ThreadpoolController().select(user_api="blas").lib_controllers
                self.before = [library.num_threads for library in self.libraries]
                for library in self.libraries:
                    library.set_num_threads(1)
            self.inside += 1

    def leave(self) -> None:
        with self.lock:
            self.inside = max(self.inside - 1, 0)  # already 0 in a child process that was forked inside the limit
            if not self.inside:
                for library, number in zip(self.libraries, self.before):
                    library.set_num_threads(number)

    def forget(self) -> None:
        """Reset after a fork, because the other threads inside the limit do not exist in the child."""
        self.lock = threading.Lock()
        if self.inside:
            self.inside = 1
            self.leave()


_limit = _Limit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_limit.forget)


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit matrix products to one thread in the whole process.

    Changes that others make meanwhile are overwritten on exit.
    """
    _limit.enter()
    try:
        yield
    finally:
        _limit.leave()


def limit_blas_if_threaded() -> AbstractContextManager[None]:
    """Return `one_thread` if torchnp uses several threads, else a context that does nothing."""
    return one_thread() if get_num_threads() > 1 else nullcontext()


def share_products(work: Callable[[Part], object], parts: Iterable[Part]) -> None:
    """Run `threads.share` for parts with matrix products; each product uses only its part's thread."""
    with limit_blas_if_threaded():  # also for a single part
        share(work, parts)
