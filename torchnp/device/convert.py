"""Conversion between tensors of the device ``np`` and arrays on the same memory.

A tensor of the device is an ordinary `torch.Tensor`. Its storage points to the memory of an array, which the storage's
Python object keeps alive for as long as torch keeps the storage. So torch itself handles sizes, strides, views, version
counters and autograd.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import torch

import torchnp
from torchnp.device import extension
from torchnp.device._private import empty_on_device, storage_at, strided_on, swap_memory
from torchnp.interop import convert as cpu_convert
from torchnp.interop._private import is_zero
from torchnp.interop.convert import NUMPY_DTYPE, TORCH_DTYPE, address
from torchnp.kernels._memory import window
from torchnp.layout.stride_rules import has_strides

DEVICE = "np"
SPOKEN = "the device np"

_DEVICE: torch.device  # set at the first use, because torch must know the device's name
_storage = torch.Tensor.untyped_storage
_NOTHING = np.empty(0, np.uint8)


Device = int | str | torch.device | None


def check_index(device: Device) -> int:
    """Check a device and return its index, which is always 0.

    Parameters
    ----------
    device : int, str, torch.device or None
        An index, ``"np"`` or ``"np:0"``; None means the current device.

    Raises
    ------
    RuntimeError
        The index is not 0.
    ValueError
        The device is of another type.
    """
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if device.type != DEVICE:
            raise ValueError(f"Expected a {DEVICE} device, but got: {device}")
        device = device.index
    index = 0 if device is None else int(device)
    if index != 0:
        raise RuntimeError(f"{DEVICE} error: invalid device ordinal {index}: there is one device, {DEVICE}:0")
    return index


def share(tensor: torch.Tensor) -> np.ndarray:
    """Return a device tensor as an array on its memory.

    A 0-d CPU tensor is accepted too, because it counts as a number.
    """
    if tensor.is_conj() or tensor.is_neg():
        raise RuntimeError("not plain")
    return physical(tensor)


def physical(tensor: torch.Tensor) -> np.ndarray:
    """Return a tensor's memory as an array, ignoring its conjugate and negative bits."""
    try:
        owner = _storage(tensor).array  # type: ignore[attr-defined]  # which `hold` sets
    except AttributeError:
        return _without_owner(tensor)
    shape, offset = tensor.shape, tensor.storage_offset()
    dtype = NUMPY_DTYPE[tensor.dtype]
    itemsize = dtype.itemsize
    strides = [s * itemsize for s in tensor.stride()]
    try:
        return np.ndarray(shape, dtype, owner, offset * itemsize, strides)
    except ValueError:
        if tensor.numel():
            raise
        # An empty tensor may have an offset beyond the memory.
        return np.ndarray(shape, dtype, _NOTHING, strides=strides)


def _without_owner(tensor: torch.Tensor) -> np.ndarray:
    if tensor.device.type == DEVICE:
        if is_zero(tensor) or tensor.layout != torch.strided:
            raise RuntimeError("not plain")
        if tensor.numel():  # torch made another storage at the same address, for example when pickling
            storage: Any = _storage(tensor)
            storage.array = bytes_of(storage)
            return physical(tensor)
        dtype = NUMPY_DTYPE[tensor.dtype]
        # an uninitialized parameter refuses the attribute `shape`
        return np.ndarray(tensor.size(), dtype, _NOTHING, strides=[s * dtype.itemsize for s in tensor.stride()])
    if tensor.dim() and not tensor.is_meta:
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, {DEVICE}:0 and "
            f"{tensor.device}!"
        )
    return cpu_convert.to_numpy(tensor)


def bytes_of(storage: torch.UntypedStorage) -> np.ndarray:
    """Return a storage's memory as a byte array; the storage must outlive the array."""
    if not storage.nbytes():
        return _NOTHING
    return np.ctypeslib.as_array((ctypes.c_uint8 * storage.nbytes()).from_address(storage.data_ptr()))


def share_any(tensor: torch.Tensor) -> np.ndarray:
    """Return a device or CPU tensor as an array, for operators that accept both."""
    return cpu_convert.to_numpy(tensor) if tensor.device.type == "cpu" else to_numpy(tensor)


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """Return a device tensor's memory as an array.

    torch's ZeroTensors, and tensors whose conjugate or negative bit is set, are copied.
    """
    if tensor.device.type != DEVICE:
        return _without_owner(tensor)
    if is_zero(tensor):
        return share(torch.zeros(tensor.shape, dtype=tensor.dtype, device=tensor.device))
    return seen_through(tensor, physical(tensor))


def seen_through(tensor: torch.Tensor, array: np.ndarray) -> np.ndarray:
    """Apply a tensor's conjugate and negative bits to an array; return the array itself if neither bit is set."""
    for is_set, op in ((tensor.is_conj(), "aten::conj_physical"), (tensor.is_neg(), "aten::neg")):
        if is_set:
            array = torchnp.table[op](array)
    return array


def hold(storage: Any, owner: np.ndarray) -> None:
    """Make a storage point to the memory of a C-order array, and keep the array alive."""
    held = storage_at(address(owner) if owner.size else 0, _device(), owner.nbytes)
    if storage.nbytes():  # only an empty storage accepts memory of a different length
        swap_memory(storage, storage_at(0, _device(), 0))
    swap_memory(storage, held)
    storage.array = owner


def _device() -> torch.device:
    global _DEVICE
    try:
        return _DEVICE
    except NameError:
        _DEVICE = torch.device(DEVICE, 0)
        return _DEVICE


def wrap(array: np.ndarray) -> torch.Tensor:
    """Return a device tensor on a writable array's memory; the array's strides must not be negative."""
    dtype = TORCH_DTYPE[array.dtype]
    if dtype is torch.complex32:
        cpu_convert.warn_of_complex_halves()
    shape = array.shape
    if array.flags.c_contiguous and array.size and 1 not in shape:
        tensor = empty_on_device(shape, dtype)
        hold(_storage(tensor), array)
        return tensor
    itemsize = array.itemsize
    strides = [s // itemsize for s in array.strides]
    if not array.size:
        return strided_on(empty_on_device((0,), dtype), array.shape, strides if has_strides(array) else None)
    # The memory that the array spans, starting at its first element.
    length = 1 + sum((n - 1) * s for n, s in zip(array.shape, strides, strict=True))
    flat = window(array, (length,), (itemsize,))
    tensor = empty_on_device((length,), dtype)
    hold(_storage(tensor), flat)
    return strided_on(tensor, array.shape, strides)


def to_torch(array: np.ndarray) -> torch.Tensor:
    """Return a tensor of any array, as `wrap` does; memory that cannot be shared is copied."""
    if not array.flags.writeable or not array.flags.aligned or any(s < 0 or s % array.itemsize for s in array.strides):
        array = array.copy()
    return wrap(array)


# complex32 is left to Python, which warns.
_QUICK = {dt: t for dt, t in TORCH_DTYPE.items() if t is not torch.complex32}
share, wrap = extension.replace(_QUICK, share, wrap)
