"""Run NumPy's matrix products on one core while torch's threads occupy the other cores.

After each parallel operator torch's threads spin for some 15 ms, waiting for more work. If NumPy's BLAS spreads a
product over the same cores, it waits for these threads. A small product is done sooner on the one free core.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from torchnp.blas import one_thread
from torchnp.compiler._private import flop_formulas

SMALL = 4e8  # maximum floating-point operations of a graph's products, as torch counts them; about 4 ms on one core


def is_small(module: torch.fx.GraphModule) -> bool:
    """Return whether a graph's products and convolutions take at most `SMALL` operations; False if a size is unknown."""
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


@contextmanager
def one_core() -> Iterator[None]:
    """Make NumPy's matrix products use one thread; torch's threads are unaffected."""
    if torch.get_num_threads() == 1:  # torch has no further threads
        yield
        return
    with one_thread():
        yield
