"""Give the server's arrays the memory layout that the client expects."""

from __future__ import annotations

import numpy as np

from torchnp.layout.overlap import are_apart, is_dense
from torchnp.rpc import wire
from torchnp.rpc.exceptions import ProtocolError


def shaped(raw: np.ndarray, data: wire.Data) -> np.ndarray:
    """Return an uploaded buffer as a tensor, with the client's memory order; bools become bytes of 0 or 1."""
    dtype = wire.dtype_of(data.dtype)
    if dtype == np.bool_:
        np.not_equal(raw, 0, out=raw.view(np.bool_))
    array = raw.view(dtype).reshape([data.shape[d] for d in data.order])
    return array.transpose(np.argsort(data.order)) if data.order else array


def laid_out(array: np.ndarray, strides: list[int] | None) -> np.ndarray:
    """Return an array with the strides (in elements) that the client expects; None means C order.

    Strides that put several elements in one place are refused. The result's memory holds only its elements and zeros,
    because ``as_strided`` can access all of that memory and counts offsets from its start.
    """
    alone = array.base is None or _alone(array)
    if strides is None:
        return array if alone and array.flags.c_contiguous else array.copy(order="C")
    itemsize = array.itemsize
    want = tuple(s * itemsize for s in strides)
    if alone and array.strides == want:
        return array
    if not are_apart(array.shape, strides):
        # Values of several rows would share memory, and a row label would be wrong.
        raise ProtocolError(f"strides {strides} put several elements of shape {list(array.shape)} in one place")
    extent = 1 + sum((n - 1) * s for n, s in zip(array.shape, strides, strict=True)) if array.size else 0
    if array.strides != want and extent > 4 * max(array.size, 16):
        raise ProtocolError(f"strides {strides} waste memory for shape {list(array.shape)}")
    placed = np.ndarray(array.shape, array.dtype, np.zeros(extent, array.dtype), 0, want)
    placed[...] = array
    return placed


def _alone(array: np.ndarray) -> bool:
    """Return whether an array's memory holds only its elements.

    A kernel's buffer may contain freed data next to them.
    """
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    return root.nbytes == array.nbytes and is_dense(array)
