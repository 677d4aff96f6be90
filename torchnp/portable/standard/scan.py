"""Cumulative sums and products, differences."""

from __future__ import annotations

from typing import Any

from torchnp import dtypes as dt
from torchnp.portable.library import ArrayLibrary
from torchnp.portable.rows import Array, portable
from torchnp.portable.standard.shape import part, wrap


def _scan(name: str, function: str) -> None:
    @portable(name)
    def row(lib: ArrayLibrary, self: Array, dim: int, *, dtype: Any = None) -> Array:
        x = self if dtype is None else lib.astype(self, dtype)
        if dtype is None and not dt.is_inexact(lib.dtype_of(x)):
            x = lib.astype(x, dt.int64)
        if not x.ndim:
            return x
        return lib.in_opmath(lambda v: getattr(lib.xp, function)(v, axis=wrap(dim, v.ndim), dtype=v.dtype), x)


_scan("aten::cumsum", "cumulative_sum")
_scan("aten::cumprod", "cumulative_prod")


@portable("aten::diff")
def diff(
    lib: ArrayLibrary, self: Array, n: int = 1, dim: int = -1, prepend: Array | None = None, append: Array | None = None
) -> Array:
    d = wrap(dim, self.ndim)
    x = lib.call("aten::cat", [x for x in (prepend, self, append) if x is not None], d)
    for _ in range(min(n, x.shape[d])):
        a, b = part(x, d, slice(1, None)), part(x, d, slice(None, -1))
        x = lib.xp.logical_xor(a, b) if dt.is_bool(lib.dtype_of(x)) else a - b
    return x
