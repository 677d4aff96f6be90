"""``topk``, with XLA's own operation on keys in torch's order."""

from __future__ import annotations

import jax
import jax.numpy as jnp

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
    places = jax.lax.top_k(_keys(lib, self), k)[1]
    return jnp.take_along_axis(self, places, axis=-1), lib.astype(places, dt.int64)


def _keys(lib: ArrayLibrary, x: Array) -> Array:
    """Return integers in torch's order of numbers: NaN is the largest, -0 equals 0. XLA misplaces several NaNs."""
    d = lib.dtype_of(x)
    if not dt.is_inexact(d):
        return x
    wide = lib.astype(x, dt.opmath(d)) + 0  # -0 becomes 0
    bits = jax.lax.bitcast_convert_type(wide, jnp.int64 if lib.dtype_of(wide) == dt.float64 else jnp.int32)
    limits = jnp.iinfo(bits.dtype)
    ordered = jnp.where(bits < 0, limits.min - bits, bits)
    return jnp.where(jnp.isnan(wide), limits.max, ordered)
