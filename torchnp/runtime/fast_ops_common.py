"""Checks and aligned copies for the executor's fast operators (`fast_conv_pooling`, `fast_linear_sdpa`, `recurrent`).

Fast operators need not match the table's bits; they stay within the operator's tolerance. Each takes the operator's own
arguments and passes unsupported cases to the table's kernel.
"""

from __future__ import annotations

from typing import Any

import numpy as np

ndarray = np.ndarray
FLOAT = np.dtype(np.float32)


def plain(*arrays: Any) -> bool:
    """Return whether all arguments are float32 arrays."""
    return all(type(x) is ndarray and x.dtype == FLOAT for x in arrays)


_LINE = 64  # bytes of a cache line, and of the widest SIMD vector


def aligned(x: ndarray) -> ndarray:
    """Return a row-major float32 copy aligned to a cache line, so that no vector spans two lines."""
    room = np.empty(x.size + _LINE // 4, FLOAT)
    start = -room.ctypes.data % _LINE // 4
    out = room[start : start + x.size].reshape(x.shape)
    out[...] = x
    return out
