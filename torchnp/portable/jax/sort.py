"""``topk``, with XLA's own operation if its order is torch's."""

from __future__ import annotations

import jax

from torchnp import dtypes as dt
from torchnp.portable.library import ArrayLibrary
from torchnp.portable.rows import Array, portable
from torchnp.portable.standard import sort as standard
from torchnp.portable.standard.shape import wrap


@portable("aten::topk", on="jax")
def topk(
    lib: ArrayLibrary, self: Array, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Array, Array]:
    last = self.ndim and wrap(dim, self.ndim) == self.ndim - 1
    if not largest or not last or dt.is_bool(lib.dtype_of(self)):
        return standard.topk(lib, self, k, dim, largest, sorted)
    values, places = jax.lax.top_k(self, k)
    return values, lib.astype(places, dt.int64)
