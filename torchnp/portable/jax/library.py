"""JAX as an array library: traces, scans, and calls of host functions from compiled programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import array_api_extra
import jax
import numpy as np

from torchnp.portable.library import ArrayLibrary, Meta
from torchnp.portable.rows import Array

_X64 = 'jax.config.update("jax_enable_x64", True)'


class JaxLibrary(ArrayLibrary):
    """``jax.numpy``. Programs need 64-bit integers, which JAX without x64 would make 32 bits wide."""

    kind = "jax"
    scans_in_double = False  # accelerators compute slowly in float64, or not at all

    def __init__(self) -> None:
        config: Any = jax.config  # JAX's types lack its options
        if not config.jax_enable_x64:
            raise RuntimeError(f"torch's integers have 64 bits, and JAX is set to 32: write {_X64} first")
        super().__init__(jax.numpy)

    @property
    def name(self) -> str:
        return "jax"

    def is_traced(self, *values: Any) -> bool:
        return any(isinstance(x, jax.core.Tracer) for x in values)

    def to_numpy(self, x: Array) -> np.ndarray:
        return np.asarray(x)

    def astype(self, x: Array, dtype: Any) -> Array:
        return super().astype(jax.numpy.asarray(x), dtype)

    def scan(
        self, step: Callable[..., tuple[Any, Array]], carry: Any, xs: Array, reverse: bool = False
    ) -> tuple[Any, Array]:
        return jax.lax.scan(step, carry, xs, reverse=reverse)

    def on_host(self, kernel: Callable[..., Any], args: Any, kwargs: Any, metas: Sequence[Meta] | None) -> list[Any]:
        arrays: list[Array] = []
        given, named = self._numbered(list(args), arrays), self._numbered(kwargs, arrays)
        if metas is None or not self.is_traced(*arrays):
            return super().on_host(kernel, args, kwargs, metas)

        def call(*values: Any) -> Any:
            # A kernel must not write to JAX's memory.
            copies = [np.array(v) for v in values]
            found = kernel(*_filled(given, copies), **_filled(named, copies))
            found = list(found) if isinstance(found, (list, tuple)) else [found]
            return tuple(np.array(x) for x in found) if len(metas) > 1 else np.array(found[0])

        shapes, dtypes = [shape for shape, _ in metas], [self.theirs(d) for _, d in metas]
        many = len(metas) > 1
        out: Any = array_api_extra.lazy_apply(
            call,
            *arrays,
            as_numpy=True,
            xp=self.xp,
            shape=shapes if many else shapes[0],
            dtype=dtypes if many else dtypes[0],
        )
        return list(out) if many else [out]

    def _numbered(self, x: Any, arrays: list[Array]) -> Any:
        """Append an argument's arrays to a list, and return the argument with a `Place` for each."""
        if self.is_array(x):
            arrays.append(x)
            return Place(len(arrays) - 1)
        if isinstance(x, dict):
            return {k: self._numbered(v, arrays) for k, v in x.items()}
        return [self._numbered(v, arrays) for v in x] if isinstance(x, (list, tuple)) else x


class Place(int):
    """The position of an array among the arrays of a call."""


def _filled(x: Any, arrays: Sequence[np.ndarray]) -> Any:
    if isinstance(x, Place):
        return arrays[x]
    if isinstance(x, dict):
        return {k: _filled(v, arrays) for k, v in x.items()}
    return [_filled(v, arrays) for v in x] if isinstance(x, list) else x
