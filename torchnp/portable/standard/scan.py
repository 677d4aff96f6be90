"""Cumulative sums and products, differences."""

from __future__ import annotations

from typing import Any

from torchnp import dtypes as dt
from torchnp.core.checks import check
from torchnp.portable.library import ArrayLibrary
from torchnp.portable.rows import Array, portable
from torchnp.portable.standard.shape import part, wrap


def _scan(name: str, function: str) -> None:
    @portable(name)
    def row(lib: ArrayLibrary, self: Array, dim: int, *, dtype: Any = None) -> Array:
        axis = wrap(dim, self.ndim)
        x = self if dtype is None else lib.astype(self, dtype)
        if dtype is None and not dt.is_inexact(lib.dtype_of(x)):
            x = lib.astype(x, dt.int64)
        if not x.ndim:
            return x
        d = lib.dtype_of(x)
        wide = lib.astype(x, lib.accumulator(d))
        found = getattr(lib.xp, function)(wide, axis=axis, dtype=wide.dtype)
        if function == "cumulative_sum" and dt.is_inexact(d):
            found = found + lib.number(0, lib.dtype_of(wide))  # torch starts with 0, so that -0 becomes 0
        return lib.astype(found, d)


_scan("aten::cumsum", "cumulative_sum")
_scan("aten::cumprod", "cumulative_prod")


@portable("aten::diff")
def diff(
    lib: ArrayLibrary, self: Array, n: int = 1, dim: int = -1, prepend: Array | None = None, append: Array | None = None
) -> Array:
    d = wrap(dim, self.ndim)
    check(n >= 0, f"order must be non-negative but got {n}")
    if not n:
        return self
    x = lib.call("aten::cat", [x for x in (prepend, self, append) if x is not None], d)
    for _ in range(min(n, x.shape[d])):
        a, b = part(x, d, slice(1, None)), part(x, d, slice(None, -1))
        x = lib.xp.logical_xor(a, b) if dt.is_bool(lib.dtype_of(x)) else a - b
    return x
