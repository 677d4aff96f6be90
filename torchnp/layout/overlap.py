"""Memory overlap as torch defines it: which arrays overlap themselves or each other, and torch's error messages.

torch considers only strides (ATen/MemoryOverlap.cpp): a target overlaps itself if a dimension is expanded, and two
tensors are compared only if both are dense.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from torchnp.layout.stride_rules import WRITTEN

ndarray = np.ndarray
SELF_OVERLAP = (
    "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
    "Please clone() the tensor before performing the operation."
)
OVERLAP = (
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory "
    "location. Please clone() the tensor before performing the operation."
)


def offer_target(target: ndarray, arguments: Iterable[Any]) -> None:
    """Let the source row write into the target of an in-place call, if the target has no overlap that forbids it.

    The target must not share memory with other arguments, nor its elements with each other.
    """
    others = (x for value in arguments for x in tensors_of(value))
    if (
        torch_has_strides(target)
        and not overlaps_itself(target)
        and not any(x is not target and np.may_share_memory(x, target) for x in others)
    ):
        WRITTEN.onto = target


def torch_has_strides(x: ndarray) -> bool:
    """Return whether the strides are non-negative whole numbers of elements, like those of torch's tensors."""
    return x.flags.c_contiguous or not any(s < 0 or s % x.itemsize for s in x.strides)


def tensors_of(value: Any) -> list[ndarray]:
    """Return the arrays in an argument: the argument itself, or the items of a list."""
    if isinstance(value, ndarray):
        return [value]
    return [x for x in value if isinstance(x, ndarray)] if isinstance(value, (list, tuple)) else []


# ---------------------------------------------------------------- which memory is shared


def address(x: ndarray) -> int:
    """Return the address of an array's first element."""
    return x.__array_interface__["data"][0]


def overlaps_itself(x: ndarray) -> bool:
    """Return whether a dimension is expanded, so that several elements share a location."""
    return 0 in x.strides and any(s == 0 and n > 1 for n, s in zip(x.shape, x.strides, strict=True)) and x.size > 0


def are_apart(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether each stride is larger than the extent of the dimensions with smaller strides.

    If so, no two elements share memory. Strides are in elements, or in bytes and multiples of the element's size.
    """
    reach = 0
    for stride, n in sorted((abs(s), n) for s, n in zip(strides, shape, strict=True) if n > 1):
        if stride <= reach:
            return 0 in shape
        reach += (n - 1) * stride
    return True


def is_dense(x: ndarray) -> bool:
    """Return whether the elements fill one block of memory without gaps or overlap, in any order of dimensions."""
    if x.flags.forc:
        return True
    expected = x.itemsize
    for stride, n in sorted((s, n) for s, n in zip(x.strides, x.shape, strict=True) if n != 1):
        if stride != expected:
            return False
        expected *= n
    return True


def overlap(a: ndarray, b: ndarray) -> str:
    """Return how two arrays share memory: ``"full"``, ``"partial"``, ``"no"``, or ``""`` if torch does not check."""
    if a is b:
        return "full"
    if a.size == 0 or b.size == 0:
        return "no"
    if not (is_dense(a) and is_dense(b)):
        return ""
    start, other = a.__array_interface__["data"][0], b.__array_interface__["data"][0]
    if start == other and a.nbytes == b.nbytes:
        return "full" if a.strides == b.strides else "partial"
    return "partial" if start < other + b.nbytes and other < start + a.nbytes else "no"


def is_same(a: ndarray, b: Any) -> bool:
    """Return whether two arrays are the same view of the same memory."""
    place = lambda x: (x.__array_interface__["data"][0], x.dtype, x.shape, x.strides)
    return isinstance(b, ndarray) and place(a) == place(b)


def share_memory(arrays: list[ndarray]) -> bool:
    """Return whether any two of the arrays may overlap; an array that is listed twice overlaps itself."""
    if all(x.base is None for x in arrays):
        return len({id(x) for x in arrays}) < len(arrays)
    bounds = sorted(byte_bounds(x) for x in arrays if x.size)
    return any(start < end for (start, _), (_, end) in zip(bounds[1:], bounds))


# ---------------------------------------------------------------- which overlaps are refused


def check_target(target: ndarray) -> None:
    """Refuse a target in which several elements share one memory location."""
    if overlaps_itself(target):
        raise RuntimeError(SELF_OVERLAP)


def check_apart(target: ndarray, x: ndarray) -> bool:
    """Refuse an operand that partly overlaps the target.

    Returns
    -------
    bool
        Whether the two may share memory without torch's check finding it, because one of them is not dense.
    """
    # Arrays that own their memory do not share it. This first test makes the check cheap.
    if x is target or (x.base is None and target.base is None):
        return False
    found = overlap(target, x)
    if found == "partial":
        raise RuntimeError(OVERLAP)
    return not found and has_common_element(target, x) and not is_same(target, x)


_MOST_WORK = 1000  # limit on the work of NumPy's search for a common element


def has_common_element(a: ndarray, b: ndarray) -> bool:
    """Return whether two arrays have a byte in common; return True if the search takes too long."""
    try:
        return np.may_share_memory(a, b) and np.shares_memory(a, b, _MOST_WORK)  # type: ignore[arg-type]  # any number
    except np.exceptions.TooHardError:
        return True


def check_written_at(target: ndarray, operands: Iterable[Any]) -> None:
    """Refuse a target that shares memory with one of the operands, for an op that writes at indices."""
    for x in operands:
        for t in tensors_of(x):
            if overlap(target, t) in ("full", "partial"):
                raise RuntimeError(OVERLAP)


def check_resized(out: ndarray, size: int, inputs: list[ndarray]) -> None:
    """Refuse an ``out=`` that would overlap an input of the same storage once it is resized to ``size`` elements."""
    start, owner = out.__array_interface__["data"][0], _owner(out)
    for x in inputs:
        first = x.__array_interface__["data"][0]
        # Without a common owner, the memory after ``out`` belongs to an input only by chance.
        nbytes = size * out.itemsize if _owner(x) is owner else out.nbytes
        if x.size and start < first + x.nbytes and first < start + nbytes:
            raise RuntimeError(OVERLAP)


def _owner(x: Any) -> Any:
    """Return the object that owns an array's memory."""
    while isinstance(x, ndarray) and x.base is not None:
        x = x.base
    return x
