"""The threads of NumPy's matrix products, which are those of its BLAS library, and torchnp's own: never both at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from torchnp.threads import get_num_threads, share

Part = TypeVar("Part")


class _Limit:
    """The number of threads of BLAS, which is the process's: the first who asks sets it, the last who leaves restores it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.inside = 0
        self.libraries: list[Any] | None = None
        self.before: list[int] = []

    def enter(self) -> None:
        with self.lock:
            if not self.inside:
                if self.libraries is None:
                    self.libraries = ThreadpoolController().select(user_api="blas").lib_controllers
                self.before = [library.num_threads for library in self.libraries]
                for library in self.libraries:
                    library.set_num_threads(1)
            self.inside += 1

    def leave(self) -> None:
        with self.lock:
            self.inside -= 1
            if not self.inside:
                for library, number in zip(self.libraries or (), self.before):
                    library.set_num_threads(number)


_limit = _Limit()


@contextmanager
def one_thread() -> Iterator[None]:
    """Have matrix products use one thread each, in the whole process."""
    _limit.enter()
    try:
        yield
    finally:
        _limit.leave()


def share_products(work: Callable[[Part], object], parts: Iterable[Part]) -> None:
    """`threads.share` of parts that have matrix products in them, each of which stays in its part's thread."""
    with (
        one_thread() if get_num_threads() > 1 else nullcontext()
    ):  # a single part, too: BLAS would keep the others busy
        share(work, parts)
