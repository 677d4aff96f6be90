"""How torch sees memory: views of an array's storage, memory formats, and the arguments of factory functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from torchnp.core.checks import check
from torchnp.core.errors import negative_size
from torchnp.core.target import since
from torchnp.dtypes import BARE_UNSIGNED, FLOAT8S, as_dtype, bcomplex32, complex32, get_default_dtype, int64
from torchnp.layout import stride_rules
from torchnp.layout.named_rules import preserved
from torchnp.layout.overlap import address, torch_has_strides
from torchnp.layout.stride_rules import WRITTEN, contiguous, format_name, layout_of
from torchnp.thresholds import Threshold

ndarray = np.ndarray
LONG = 4  # torch's enum value for int64, the default dtype of the index factories

_BITS: dict[int, np.dtype] = {1: np.dtype(np.uint8), 2: np.dtype(np.uint16), 4: np.dtype(np.uint32)}


def bits(x: ndarray) -> ndarray:
    """View the same memory in a native NumPy dtype: ml_dtypes' types become unsigned integers of their size."""
    return x.view(_BITS[x.itemsize]) if x.dtype.num > 255 else x


RARE = frozenset((*BARE_UNSIGNED, *FLOAT8S, bcomplex32))
RARE_OR_CHALF = RARE | {complex32}


def rarer(version: str, lacking: frozenset[np.dtype]) -> frozenset[np.dtype]:
    """Return the dtypes that a kernel lacks: ``lacking``, but without uint16, 32 and 64 from torch ``version`` on."""
    return lacking - {*BARE_UNSIGNED} if since(version) else lacking


def copy_to_write(x: ndarray) -> ndarray:
    """Return a dense copy for a kernel to write into; in an in-place call, return the target itself if that is safe.

    A kernel calls this after all its checks. Its row must declare that with ``WriteSpec(onto=True)``.
    """
    if WRITTEN.onto is x:
        WRITTEN.onto = None
        return x
    return np.array(x, order="K", copy=True)


# ---------------------------------------------------------------- windows


def window(x: ndarray, shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> ndarray:
    """Return a writable array on ``x``'s memory; strides and offset (from x's first element) are in bytes.

    NumPy's own as_strided and broadcast_to cost ten times as much, and the latter gives a read-only array.
    """
    if not x.flags.c_contiguous or offset:
        memory, start = storage(x)
        return ndarray(shape, x.dtype, memory, start + offset, strides)
    return ndarray(shape, x.dtype, bits(x), 0, strides)


def storage(x: ndarray) -> tuple[ndarray, int]:
    """Return the memory of an array's outermost base, and the byte offset of the array's first element in it."""
    base = x
    while isinstance(base.base, ndarray):
        base = base.base
    start = 0 if base is x else address(x) - address(base)
    if not base.flags.c_contiguous:
        dense = base.transpose(memory_order(base) or range(base.ndim))
        base = dense if dense.flags.c_contiguous else _span(base)
    return bits(base), start


class _Interface:
    def __init__(self, interface: dict[str, Any], owner: ndarray) -> None:
        self.__array_interface__, self.owner = interface, owner


def _span(x: ndarray) -> ndarray:
    """Return the memory that an array spans, as bytes; NumPy does not own it. A strided array is never empty."""
    size = sum((n - 1) * s for n, s in zip(x.shape, x.strides)) + x.itemsize
    data = (address(x), not x.flags.writeable)
    return np.asarray(_Interface({"data": data, "shape": (size,), "typestr": "|u1", "version": 3}, x))


def storage_offset(x: ndarray) -> int:
    """Return torch's storage_offset: the number of elements from the start of the storage to the first element."""
    return storage(x)[1] // x.itemsize if x.base is not None else 0


def element_strides(x: ndarray) -> tuple[int, ...]:
    """Return the strides in elements, as torch counts them."""
    size = x.itemsize
    return tuple(s // size for s in x.strides)


class MemorySpan(NamedTuple):
    """The memory that an array spans, as a vector from its first element on, and its strides in elements."""

    flat: ndarray
    strides: tuple[int, ...]


def memory_of(x: ndarray) -> MemorySpan:
    """Return an array's `MemorySpan`; writing to it also writes to the array, if torch could have the array's strides.

    An array with other strides (negative ones, or ones that are no multiples of the item size) is copied.
    """
    if not torch_has_strides(x):
        x = np.ascontiguousarray(x)
    if x.flags.c_contiguous:
        return MemorySpan(x.reshape(-1), contiguous(x.shape))
    size = sum((n - 1) * s for n, s in zip(x.shape, x.strides)) // x.itemsize + 1
    return MemorySpan(window(x, (size,), (x.itemsize,)), element_strides(x))


_FEW: Threshold = 4  # slices of an array per slice that is read; above this, NumPy's copy of the array takes longer


def take_slices(x: ndarray, index: ndarray, axis: int) -> ndarray:
    """Compute ``x.take(index, axis)``. NumPy first copies ``x`` if it is not row-major; for few slices, avoid that."""
    axis %= x.ndim
    if not x.flags.c_contiguous:
        order, back = orders(x)
        dense = x.transpose(order)
        if dense.flags.c_contiguous and index.ndim == 1:
            return dense.take(index, order.index(axis)).transpose(back)
    if x.flags.c_contiguous or index.size * _FEW >= x.shape[axis]:
        return x.take(index, axis)
    where: Any = (*[slice(None)] * axis, index)
    out = np.empty((*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]), x.dtype)
    out[...] = x[where]
    return out


# ---------------------------------------------------------------- memory formats

_CHANNELS_LAST = {"channels_last": stride_rules.CHANNELS_LAST[4], "channels_last_3d": stride_rules.CHANNELS_LAST[5]}


def memory_order(x: ndarray) -> tuple[int, ...] | None:
    """Return the axes from the largest stride to the smallest, as TensorIterator orders them; None if row-major."""
    if x.flags.c_contiguous:
        return None
    return tuple(stride_rules.order_of(x.shape, [x.strides]))


def orders(x: ndarray) -> tuple[list[int], list[int]]:
    """Return the axes from the largest stride to the smallest, and the inverse of this permutation.

    If ``x`` is dense, ``x.transpose(order)`` is row-major. Transposing that by ``back`` gives ``x`` again.
    """
    order = list(memory_order(x) or range(x.ndim))
    return order, sorted(range(x.ndim), key=order.__getitem__)


def axis_first(x: ndarray, axis: int) -> tuple[int, ...]:
    """Return the axes with ``axis`` first, and the others from the largest stride to the smallest."""
    return axis, *sorted((d for d in range(x.ndim) if d != axis), key=lambda d: -abs(x.strides[d]))


def format_order(memory_format: Any, ndim: int) -> tuple[int, ...] | None:
    """Return the order of axes in memory for a named format; None for row-major order."""
    if memory_format is None:
        return None
    name = format_name(memory_format)
    order = _CHANNELS_LAST.get(name)
    if order and len(order) != ndim:
        raise RuntimeError(f"required rank {len(order)} tensor to use {name} format")
    return order


def empty_in_order(shape: Sequence[int], dtype: np.dtype, order: tuple[int, ...] | None) -> ndarray:
    """Return a dense uninitialized array with its axes in the given memory order."""
    if order is None and 0 not in shape:
        return np.empty(shape, dtype)
    return stride_rules.empty(shape, dtype, stride_rules.in_order(shape, range(len(shape)) if order is None else order))


def new_like(x: ndarray, dtype: np.dtype, memory_format: Any = None) -> ndarray:
    """Return an uninitialized array with the layout of ``empty_like(x)``, which by default keeps dense strides."""
    if memory_format is None or format_name(memory_format) == "preserve_format":
        return stride_rules.empty(x.shape, dtype, preserved(*layout_of(x)))
    format_order(memory_format, x.ndim)  # refuses a format for another number of dimensions
    return stride_rules.empty(x.shape, dtype, stride_rules.in_format(x.shape, format_name(memory_format)))


def is_contiguous(x: ndarray, memory_format: Any) -> bool:
    """Return whether an array is dense in a named memory format."""
    order = _CHANNELS_LAST.get(format_name(memory_format))
    if order is None:
        return x.flags.c_contiguous
    return len(order) == x.ndim and x.transpose(order).flags.c_contiguous


# ---------------------------------------------------------------- factory arguments


def check_options(layout: Any, device: Any, pin_memory: Any) -> None:
    """Refuse options that only torch supports: other layouts, other devices and pinned memory."""
    if layout is not None:
        words = f"torchnp has strided tensors only, got layout {layout}"
        check(str(layout).removeprefix("torch.") in ("strided", "0"), words)
    check(not isinstance(device, np.dtype), "which the schema says in torch's words", TypeError)
    if device is not None:
        kind = str(device).split(":")[0]
        check(kind != "meta", "torchnp computes values, and a tensor on the meta device has none", NotImplementedError)
        check(kind == "cpu", f"Torch not compiled with {kind.upper()} enabled", AssertionError)
    words = "pin_memory=True requires a CUDA or other accelerator backend;"
    check(not pin_memory, f"{words} no pinned memory allocator is available on this system.")


def check_size(size: Sequence[int]) -> tuple[int, ...]:
    """Return a shape as a tuple; refuse negative sizes."""
    size = tuple(size)
    if size and min(size) < 0:
        first = next(n for n in size if n < 0)
        raise negative_size(first, size)
    return size


def factory_dtype(dtype: Any, default: np.dtype | None = None) -> np.dtype:
    """Return a factory's ``dtype=`` as a dtype; None means ``default``, or else torch's default dtype."""
    if dtype is None:
        return default or get_default_dtype()
    return int64 if type(dtype) is int and dtype == LONG else as_dtype(dtype)
