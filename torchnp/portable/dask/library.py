"""Dask as an array library: lazy arrays, and weights that are NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import array_api_compat.dask.array as lazy
import array_api_compat.numpy as eager
import array_api_extra
import dask.array
import numpy as np

from torchnp import dtypes as dt
from torchnp.portable.library import ArrayLibrary, LacksFunction, Meta
from torchnp.portable.rows import Array


def is_lazy(x: Any) -> bool:
    """Return whether a value is a Dask array."""
    return isinstance(x, dask.array.Array)


class _Functions:
    """A namespace that calls Dask's function if an argument is a Dask array, else NumPy's."""

    def __init__(self, on_dask: Any, on_numpy: Any, name: str) -> None:
        self._on_dask, self._on_numpy, self.__name__ = on_dask, on_numpy, name

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._on_numpy, name)
        other: Any = getattr(self._on_dask, name, None)
        if name in ("fft", "linalg"):
            return _Functions(other, found, f"{self.__name__}.{name}")
        if not callable(found) or isinstance(found, (type, np.dtype)):
            return found

        def function(*args: Any, **kwargs: Any) -> Any:
            given = [x for a in args for x in (a if isinstance(a, (list, tuple)) else (a,))]
            lazy = any(map(is_lazy, given))
            if lazy and other is None:
                raise LacksFunction(f"{self.__name__} has no {name}")  # NumPy's would compute the arrays
            return (other if lazy else found)(*args, **kwargs)

        return function


class DaskLibrary(ArrayLibrary):
    """``dask.array``. Weights and constants are NumPy arrays, which are not cut into chunks."""

    kind = "dask"

    def __init__(self) -> None:
        super().__init__(_Functions(lazy, eager, "dask.array"))
        more = {d: d for d in dt.ALL if d not in self._theirs}  # bfloat16 and others, as NumPy has them
        self._theirs |= more
        self._ours |= more

    def is_array(self, x: Any) -> bool:
        return is_lazy(x) or isinstance(x, np.ndarray)

    def is_traced(self, *values: Any) -> bool:
        return any(map(is_lazy, values))

    def from_numpy(self, a: np.ndarray) -> Array:
        return np.array(a, order="C")

    def data(self, a: np.ndarray) -> Array:
        """Return a Dask array with two chunks along the first dimension."""
        half = {0: max(1, -(-a.shape[0] // 2))} if a.ndim else {}
        return dask.array.from_array(np.array(a, order="C"), chunks=tuple(half.get(d, -1) for d in range(a.ndim)))

    def to_numpy(self, x: Array) -> np.ndarray:
        """Return the values of an array. A Dask array would be computed; rows never pass one."""
        return np.asarray(x.compute()) if is_lazy(x) else np.asarray(x)

    def full(self, shape: Sequence[int], value: Any, dtype: Any) -> Array:
        return super().full(shape, value, dtype) if not is_lazy(value) else lazy.broadcast_to(value, tuple(shape))  # type: ignore[attr-defined]

    def on_host(self, kernel: Callable[..., Any], args: Any, kwargs: Any, metas: Sequence[Meta] | None) -> list[Any]:
        """Call the kernel in one task, which gets whole arguments instead of chunks."""
        arrays: list[Array] = []

        def numbered(x: Any) -> Any:
            if is_lazy(x):
                arrays.append(x)
                return _Place(len(arrays) - 1)
            return [numbered(v) for v in x] if isinstance(x, (list, tuple)) else x

        given, named = [numbered(x) for x in args], {k: numbered(v) for k, v in kwargs.items()}
        if not arrays or metas is None:
            return super().on_host(kernel, args, kwargs, metas)
        shapes, dtypes = [shape for shape, _ in metas], [d for _, d in metas]
        call = _HostCall(kernel, given, named, len(metas))
        if len(metas) == 1:
            return [array_api_extra.lazy_apply(call, *arrays, shape=shapes[0], dtype=dtypes[0], as_numpy=True, xp=lazy)]
        return list(array_api_extra.lazy_apply(call, *arrays, shape=shapes, dtype=dtypes, as_numpy=True, xp=lazy))


class _Place(int):
    """The position of a Dask array among the Dask arrays of a call."""


class _HostCall:
    """A kernel with all its arguments except the Dask arrays, which are passed later."""

    def __init__(self, kernel: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], results: int) -> None:
        self.kernel, self.args, self.kwargs, self.results = kernel, args, kwargs, results

    def __call__(self, *arrays: np.ndarray) -> Any:
        def filled(x: Any) -> Any:
            if isinstance(x, _Place):
                return np.array(arrays[x])
            return [filled(v) for v in x] if isinstance(x, list) else x

        found = self.kernel(*map(filled, self.args), **{k: filled(v) for k, v in self.kwargs.items()})
        found = list(found) if isinstance(found, (list, tuple)) else [found]
        return tuple(map(np.array, found)) if self.results > 1 else np.array(found[0])
