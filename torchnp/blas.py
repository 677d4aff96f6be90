"""The threads of NumPy's matrix products, which are those of its BLAS library, and torchnp's own: never both at once."""

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
    """The number of threads of BLAS, which is the process's: the first who asks sets it, the last who leaves restores it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.inside = 0
        self.modules = 0  # that were imported when the libraries were looked for
        self.libraries: list[Any] = []
        self.before: list[int] = []

    def enter(self) -> None:
        with self.lock:
            if not self.inside:
                if self.modules != len(sys.modules):  # one of which may have brought a BLAS of its own, as SciPy's do
                    self.modules = len(sys.modules)
                    self.libraries = ThreadpoolController().select(user_api="blas").lib_controllers
                self.before = [library.num_threads for library in self.libraries]
                for library in self.libraries:
                    library.set_num_threads(1)
            self.inside += 1

    def leave(self) -> None:
        with self.lock:
            self.inside = max(self.inside - 1, 0)  # of a fork inside the child has none
            if not self.inside:
                for library, number in zip(self.libraries, self.before):
                    library.set_num_threads(number)

    def forget(self) -> None:
        """After a fork the child has none of those inside."""
        self.lock = threading.Lock()
        if self.inside:
            self.inside = 1
            self.leave()


_limit = _Limit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_limit.forget)


@contextmanager
def one_thread() -> Iterator[None]:
    """Have matrix products use one thread each, in the whole process; who changes their number meanwhile has it undone."""
    _limit.enter()
    try:
        yield
    finally:
        _limit.leave()


def limit_blas_if_threaded() -> AbstractContextManager[None]:
    """`one_thread`, where torchnp has several: BLAS's look out for more work for some 30 ms, and keep these waiting."""
    return one_thread() if get_num_threads() > 1 else nullcontext()


def share_products(work: Callable[[Part], object], parts: Iterable[Part]) -> None:
    """`threads.share` of parts that have matrix products in them, each of which stays in its part's thread."""
    with limit_blas_if_threaded():  # for a single part, too
        share(work, parts)
