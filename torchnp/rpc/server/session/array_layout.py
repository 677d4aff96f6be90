"""A server's arrays, laid out as the client believes that they are."""

from __future__ import annotations

import numpy as np

from torchnp.layout.overlap import is_dense
from torchnp.rpc import wire
from torchnp.rpc.exceptions import ProtocolError


def shaped(raw: np.ndarray, data: wire.Data) -> np.ndarray:
    """The tensor in a buffer, its dimensions in the order that they have in the client's memory."""
    dtype = wire.dtype_of(data.dtype)
    if dtype == np.bool_:
        np.not_equal(raw, 0, out=raw.view(np.bool_))
    array = raw.view(dtype).reshape([data.shape[d] for d in data.order])
    return array.transpose(np.argsort(data.order)) if data.order else array


def laid_out(array: np.ndarray, strides: list[int] | None) -> np.ndarray:
    """The array with the strides (in elements) that the client believes it has; None means C order.

    Its memory holds its elements and nothing else but zeros: ``as_strided`` reaches all of it, and counts from its start.
    """
    alone = array.base is None or _alone(array)
    if strides is None:
        return array if alone and array.flags.c_contiguous else array.copy(order="C")
    itemsize = array.itemsize
    want = tuple(s * itemsize for s in strides)
    if alone and array.strides == want:
        return array
    extent = 1 + sum((n - 1) * s for n, s in zip(array.shape, strides, strict=True)) if array.size else 0
    if array.strides != want and extent > 4 * max(array.size, 16):
        raise ProtocolError(f"strides {strides} waste memory for shape {list(array.shape)}")
    placed = np.ndarray(array.shape, array.dtype, np.zeros(extent, array.dtype), 0, want)
    placed[...] = array
    return placed


def _alone(array: np.ndarray) -> bool:
    """Whether the memory that an array lies in is its elements': a kernel's own may hold what was freed before."""
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    return root.nbytes == array.nbytes and is_dense(array)
