"""NumPy's matrix products on one core, for as long as torch's own threads keep the others.

After each operator that torch spreads over its threads these look out for more work for some 15 ms, and a product that NumPy's
BLAS spreads over the same cores waits for them. Small products are done sooner on the core that is left.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from threadpoolctl import ThreadpoolController

from torchnp.compiler._private import flop_formulas

SMALL = 4e8  # floating-point operations of all products that torch counts in a graph, some 4 ms of one core


def is_small(module: torch.fx.GraphModule) -> bool:
    """Whether a graph's matrix products and convolutions are `SMALL` together; False where a size is not known."""
    total = 0
    for node in module.graph.nodes:
        formula = flop_formulas.get(getattr(node.target, "overloadpacket", None))
        if formula is None:
            continue
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda n: n.meta.get("val"))
        found: Any = formula(*args, **kwargs, out_val=node.meta.get("val"))
        if type(found) is not int:
            return False
        total += found
    return total <= SMALL


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
def one_core() -> Iterator[None]:
    """Have NumPy's products use one thread; torch's own are as they were."""
    if torch.get_num_threads() == 1:  # nobody is in the way
        yield
        return
    _limit.enter()
    try:
        yield
    finally:
        _limit.leave()
