"""Functions that templates may use around the call of a NumPy function, besides those of NumPy itself."""

from __future__ import annotations

from typing import Any

import numpy as np


def wrote(_: Any, x: np.ndarray) -> np.ndarray:
    """Return a copy of the array that a call has written, since torch's functional forms do not change their input."""
    return x.copy()


def untold(_: Any, *what: Any) -> Any:
    """Return the result; ``what`` are arguments that NumPy's function lacks, and are ignored."""
    return _


def itself(_: Any, x: np.ndarray) -> np.ndarray:
    """Return the array that a call has written."""
    return x


def stored(values: Any, x: np.ndarray) -> np.ndarray:
    """Write values to an array and return it."""
    x[...] = values
    return x


def memory_of(window: Any) -> np.ndarray:
    """Return the array that owns the memory of a view."""
    while getattr(window, "base", None) is not None:
        window = window.base
    return window


def inside(window: np.ndarray) -> np.ndarray:
    """Return a view, or raise ValueError if it reaches outside its array's memory, so that it must not be written."""
    (low, high), (start, end) = map(np.lib.array_utils.byte_bounds, (window, memory_of(window)))
    if window.size and (low < start or high > end):
        raise ValueError("a window outside of the array's memory")
    return window


def beneath(window: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the memory of the array that ``window`` is a view of, or a copy of ``x`` if ``x`` uses the same memory."""
    memory = memory_of(window)
    return x.copy() if np.shares_memory(memory, x) else memory


def shaped_as(parts: list[np.ndarray], like: list[np.ndarray]) -> list[np.ndarray]:
    return [part.reshape(x.shape) for part, x in zip(parts, like, strict=True)]


def limit_of(x: np.ndarray) -> int:
    """Return the largest integer that `random_` generates: for floats, the limit up to which all integers are exact."""
    return (
        1
        if x.dtype.kind == "b"
        else 2 ** (np.finfo(x.dtype).nmant + 1)
        if x.dtype.kind == "f"
        else int(np.iinfo(x.dtype).max)
    )


def divided(quotient: Any, x: Any, y: Any, mode: str) -> Any:
    """Return a quotient rounded as ``rounding_mode`` requires: x // y for floor, truncated for trunc."""
    if mode not in ("floor", "trunc"):
        raise ValueError(mode)
    return np.floor_divide(x, y) if mode == "floor" else np.trunc(quotient)


def given_or(dtype: Any, x: np.ndarray) -> Any:
    return x.dtype if dtype is None else dtype


def added_axes(x: np.ndarray, size: tuple[int, ...]) -> tuple[int, ...]:
    """Return the axes that must be added or expanded to broadcast ``size`` to the shape of ``x``."""
    front = x.ndim - len(size)
    return (*range(front), *(front + i for i, n in enumerate(size) if n == 1 and x.shape[front + i] != 1))


def several(x: Any) -> Any:
    """Return a tuple from a tuple or a single number, because torch accepts both."""
    return (x,) if isinstance(x, int) else x


def side_of(right: bool) -> str:
    return "right" if right else "left"


def reversed_along(x: np.ndarray, dim: int, descending: bool) -> np.ndarray:
    return np.flip(x, dim) if descending else x


def kth(x: np.ndarray, k: int, dim: int, keepdim: bool) -> np.ndarray:
    found = np.take(x, k - 1, dim)
    return np.expand_dims(found, dim) if keepdim else found


def pairs_of(x: tuple) -> list[tuple[Any, Any]]:
    """Return a flat sequence of numbers as a list of pairs, the form in which NumPy takes pads and ranges."""
    return list(zip(x[::2], x[1::2]))


def contracted(path: tuple) -> Any:
    """Return a flat path of operands as einsum's ``optimize`` argument, or False if it is empty."""
    return ["einsum_path", *pairs_of(path)] if len(path) > 1 else False


def slot(dim: int, index: Any) -> tuple[Any, ...]:
    """Return an index along one dimension, which is counted from the front or from the end."""
    return (*(slice(None),) * dim, index) if dim >= 0 else (..., index, *(slice(None),) * (-1 - dim))


def along(x: np.ndarray, index: np.ndarray, dim: int) -> tuple[Any, ...]:
    grid = list(np.ogrid[tuple(slice(n) for n in index.shape)])
    grid[dim] = index
    return tuple(grid)


def slot_index(x: np.ndarray, dim: int, index: np.ndarray) -> np.ndarray:
    """Return a vector of indices reshaped to broadcast with an array along ``dim``."""
    return index.reshape([-1 if i == dim % x.ndim else 1 for i in range(x.ndim)])


def index_of(indices: list[Any]) -> tuple[Any, ...]:
    return tuple(slice(None) if i is None else i for i in indices)


def added(x: np.ndarray, index: Any, values: np.ndarray, accumulate: bool) -> np.ndarray:
    return x[index] + values if accumulate else values


def complex_of(x: np.ndarray) -> np.dtype:
    return np.result_type(x.dtype, np.complex64)


def real_of(x: np.ndarray) -> np.dtype:
    return x.real.dtype


def norm_of(normalization: int) -> str:
    """Return NumPy's name of a normalization: 0 means a scale of 1, 1 means 1 / sqrt(n), 2 means 1 / n."""
    return {0: "backward", 1: "ortho", 2: "forward"}[normalization]


def pair_of(x: Any) -> tuple[int, int]:
    """Return a pair from one or two numbers."""
    return (x, x) if isinstance(x, int) else tuple(x) * (2 // len(x))


def with_zeros(x: np.ndarray, padding: Any) -> np.ndarray:
    """Return images padded with zeros on all sides."""
    return np.pad(x, [(0, 0)] * (x.ndim - 2) + [(n, n) for n in pair_of(padding)])


def spans(kernel_size: Any, dilation: Any) -> tuple[int, ...]:
    """Return the extents of dilated windows."""
    return tuple((n - 1) * d + 1 for n, d in zip(pair_of(kernel_size), pair_of(dilation)))


def spaced(windows: np.ndarray, stride: Any, dilation: Any) -> np.ndarray:
    """Return every ``stride``-th window, and in it every ``dilation``-th element."""
    (a, b), (c, d) = pair_of(stride), pair_of(dilation)
    return windows[..., ::a, ::b, ::c, ::d]


def reduction(reduce: str) -> np.ufunc:
    return {"prod": np.multiply, "max": np.maximum, "min": np.minimum}[reduce]


def periodic_of(window: np.ndarray, periodic: bool) -> np.ndarray:
    return window[:-1] if periodic else window


HELPERS: dict[str, Any] = {
    f.__name__: f
    for f in (wrote, untold, itself, inside, beneath, shaped_as, stored, limit_of, divided, added_axes, several,
          side_of, reversed_along, kth, pairs_of, contracted, slot, along, slot_index,
              index_of, added, complex_of, real_of, norm_of, with_zeros, spans, spaced, reduction, periodic_of)
} | {"np": np, "given": given_or}  # fmt: skip
WORDS = frozenset({*HELPERS, "f", "_", "int", "len", "tuple", "list", "slice"})
