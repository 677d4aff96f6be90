"""Dispatch to other array libraries, and the operand checks of prims."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from torchnp.core.registry import REGISTERED
from torchnp.dtypes import as_dtype, dtype_name

ndarray = np.ndarray
NUMBER = (bool, int, float, complex)
# torch's message for a failed check that has no message of its own.
NOT_TRUE = (
    "Expected cond to be True, but got False. (Could this error message be improved? If so, please report an "
    "enhancement request to PyTorch.)"
)
Array = Any  # an ndarray, or an array of any library that follows the array API standard


def namespace(x: Array) -> Any:
    """Return the array API functions for an array: NumPy itself, or the namespace that array-api-compat finds."""
    if type(x) is ndarray:
        return np
    from array_api_compat import array_namespace

    return array_namespace(x)


def aten(name: str) -> Callable[..., Any]:
    """Return the full kernel of an aten operator."""
    return REGISTERED[f"aten::{name}"].body


def either(*given: Any, native: Any, portable: Any, precheck: Any = None, **named: Any) -> Any:
    """Call ``native`` for an ndarray and ``portable`` for any other array.

    A string names an aten op (``native``) or an array API function (``portable``). ``precheck`` checks the arguments first.
    A portable function gets the namespace as its first argument.
    """
    if precheck is not None:
        precheck(*given, **named)
    if type(given[0]) is ndarray:
        return (aten(native) if isinstance(native, str) else native)(*given, **named)
    xp = namespace(given[0])
    return getattr(xp, portable)(*given, **named) if isinstance(portable, str) else portable(xp, *given, **named)


def dtype_in(xp: Any, dtype: Any) -> Any:
    """Return a namespace's dtype for a dtype of this package."""
    found = as_dtype(dtype)
    if xp is np:
        return found
    return getattr(xp, "bool" if dtype_name(found) == "bool" else dtype_name(found))


def through_numpy(f: Callable[..., Any], *operands: Array) -> Array:
    """Apply a NumPy function to arrays of another library and numbers; the standard has no such function."""
    xp = namespace(next(x for x in operands if not isinstance(x, NUMBER)))
    out = f(*(x if type(x) is ndarray or isinstance(x, NUMBER) else _to_numpy(x) for x in operands))
    if xp is np:
        return out
    return tuple(xp.asarray(o) for o in out) if isinstance(out, tuple) else xp.asarray(np.asarray(out))


def _to_numpy(x: Array) -> ndarray:
    try:
        return np.from_dlpack(x)
    except (TypeError, AttributeError, BufferError):
        return np.asarray(x)


def name_of(dtype: Any) -> str:
    """Return torch's name of a dtype, as prims print it."""
    return f"torch.{dtype_name(dtype)}" if isinstance(dtype, np.dtype) else str(dtype)


def check_alike(*arrays: Array, flags: tuple[Array, ...] = ()) -> None:
    """Raise torch's error for different dtypes or shapes (for ``flags``, only shapes); 0-d operands fit any shape."""
    expected = arrays[0].dtype
    for x in arrays:
        if x.dtype != expected:
            words = f"Tensor with dtype {name_of(x.dtype)} is not the expected dtype of"
            raise RuntimeError(f"{words} {name_of(expected)}!")
    shapes = [x.shape for x in (*flags, *arrays) if x.ndim]
    for shape in shapes:
        if shape != shapes[0]:
            raise RuntimeError(f"Shape {size_text(shape)} is not the expected shape {size_text(shapes[0])}!")


def size_text(shape: Iterable[int]) -> str:
    return f"torch.Size([{', '.join(map(str, shape))}])"


def check_index(rank: int, index: int) -> None:
    """Raise torch's error for a dimension that does not exist; prims accept no negative dimensions."""
    if not (0 <= index < rank or index == 0):
        raise AssertionError(f"idx {index} is out of bounds for rank {rank}")
