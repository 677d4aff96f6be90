"""What kernels refuse, in torch's exception classes and words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from torchnp.dtypes import scalar_name


def check(condition: Any, message: str, exc: type[Exception] = RuntimeError) -> None:
    """Raise ``exc(message)`` unless the condition holds (torch's TORCH_CHECK).

    Build costly messages only on failure: ``if not ok: raise RuntimeError(...)``.
    """
    if not condition:
        raise exc(message)


def not_implemented(kernel: str, dtype: np.dtype) -> NotImplementedError:
    """The error of a torch kernel that has no code for a dtype: ``"ceil" not implemented for 'Bool'``."""
    return NotImplementedError(f"\"{kernel}\" not implemented for '{scalar_name(dtype)}'")


def wrap_dim(dim: int, ndim: int) -> int:
    """A dimension counted from 0; a 0-d tensor has dimensions 0 and -1.

    Raises
    ------
    IndexError
        ``dim`` is out of range.
    """
    span = ndim or 1
    if not -span <= dim < span:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-span}, {span - 1}], but got {dim})")
    return dim + span if dim < 0 else dim


def wrap_dims(dims: int | Sequence[int], ndim: int) -> tuple[int, ...]:
    """Dimensions counted from 0, each at most once."""
    if isinstance(dims, (int, np.integer)):
        return (wrap_dim(dims, ndim),)
    wrapped = tuple(wrap_dim(d, ndim) for d in dims)
    if len(set(wrapped)) != len(wrapped):
        twice = next(d for i, d in enumerate(wrapped) if d in wrapped[:i])
        raise RuntimeError(f"dim {twice} appears multiple times in the list of dims")
    return wrapped


def ntuple(x: int | Sequence[int], n: int) -> tuple[int, ...]:
    """An ``int[n]`` argument as a tuple: one number stands for n equal ones."""
    if isinstance(x, (int, float, np.number)):
        return (x,) * n
    x = tuple(x)
    return x * n if len(x) == 1 else x


def shape_text(shape: Sequence[int]) -> str:
    """A shape as torch prints it: ``[2, 3]``."""
    return f"[{', '.join(map(str, shape))}]"


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The common shape, or torch's error where the sizes do not fit."""
    result: list[int] = []
    for shape in shapes:
        if len(shape) > len(result):
            result = [1] * (len(shape) - len(result)) + result
        offset = len(result) - len(shape)
        for i, size in enumerate(shape, offset):
            if size == result[i] or size == 1:
                continue
            if result[i] != 1:
                raise size_mismatch(result[i], size, i)
            result[i] = size
    return tuple(result)


def size_mismatch(a: int, b: int, dim: int) -> RuntimeError:
    return RuntimeError(
        f"The size of tensor a ({a}) must match the size of tensor b ({b}) at non-singleton dimension {dim}"
    )
