"""In-place calls that also read the memory that they write through another argument.

Their result depends on the order in which torch's vectors, threads or index loops process the elements.
"""

from __future__ import annotations

import math

import numpy as np

from ..case import DTYPES, Array, Case
from ..schema_facts import all_schemas, is_out

NARROWEST = 32  # bytes that torch's narrowest vectors read before they write
GRAIN = 32768  # number of elements from which torch may use several threads
INDEXED = ("index", "indices", "source")  # argument names that mark operators that write at indices


def has_no_order(case: Case, arrays: list[Array], writes: frozenset[int]) -> bool:
    """Return whether a written argument overlaps another argument, in a call where torch promises no order of elements.

    torch promises an order only if contiguous runs are shorter than any vector and the call is too small for threads.
    """
    schema = all_schemas()[case.op]
    if is_out(case.op) or not schema.mutates:
        return False
    indexed = any(a.name in INDEXED for a in schema.args)
    return any(
        (indexed or math.prod(arrays[i].shape) >= GRAIN or run_of(arrays[i]) >= NARROWEST) and is_read(case, arrays, i)
        for i in writes
    )


def is_read(case: Case, arrays: list[Array], i: int) -> bool:
    """Return whether another argument shares an element with argument ``i`` without being the same view."""
    mine = arrays[i]
    place = lambda a: (a.offset, a.shape, a.strides, a.dtype)
    others = (a for j, a in enumerate(arrays) if j != i and a.buffer == mine.buffer and place(a) != place(mine))
    return any(np.shares_memory(mine.on(case.buffers), a.on(case.buffers)) for a in others)


def run_of(a: Array) -> int:
    """Return the length in bytes of an array's longest contiguous run, with its dimensions in any order."""
    run = DTYPES[a.dtype].itemsize
    for step, n in sorted((s, n) for s, n in zip(a.strides, a.shape, strict=True) if n > 1):
        run *= n if step == run else 1
    return run
