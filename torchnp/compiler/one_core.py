"""NumPy's matrix products on one core, for as long as torch's own threads keep the others.

After each operator that torch spreads over its threads these look out for more work for some 15 ms, and a product that NumPy's
BLAS spreads over the same cores waits for them. Small products are done sooner on the core that is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from torchnp.blas import one_thread
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


@contextmanager
def one_core() -> Iterator[None]:
    """Have NumPy's products use one thread; torch's own are as they were."""
    if torch.get_num_threads() == 1:  # nobody is in the way
        yield
        return
    with one_thread():
        yield
