"""What the executor's quicker operators share (`conv_pool`, `linear_attention`, `recurrent`): which arrays they take, and aligned copies.

They need not give the table's bits and are within the operator's tolerance. Each takes the operator's own arguments and
leaves to the table's kernel what it does not do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

ndarray = np.ndarray
FLOAT = np.dtype(np.float32)


def plain(*arrays: Any) -> bool:
    """Whether all are arrays of float32."""
    return all(type(x) is ndarray and x.dtype == FLOAT for x in arrays)


_LINE = 64  # bytes of a line of cache, which are those of the widest vector too


def aligned(x: ndarray) -> ndarray:
    """A copy of float32 numbers in order, from the beginning of a line of cache: no vector of it is read from two."""
    room = np.empty(x.size + _LINE // 4, FLOAT)
    start = -room.ctypes.data % _LINE // 4
    out = room[start : start + x.size].reshape(x.shape)
    out[...] = x
    return out
