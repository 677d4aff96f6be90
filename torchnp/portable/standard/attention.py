"""Attention, computed as matrix products and a softmax."""

from __future__ import annotations

import math
from typing import Any

from torchnp import dtypes as dt
from torchnp.portable.library import ArrayLibrary
from torchnp.portable.rows import Array, portable


@portable("aten::scaled_dot_product_attention")
def scaled_dot_product_attention(
    lib: ArrayLibrary,
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Array:
    """Compute attention; the result of a query whose keys are all masked is 0."""
    if dropout_p or 0 in query.shape:  # torch accepts any batch of keys for a query without elements
        return NotImplemented
    if enable_gqa:
        times = query.shape[-3] // key.shape[-3]
        key, value = (lib.call("aten::repeat_interleave.self_int", x, times, -3) for x in (key, value))
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    mask = _causal(lib, query.shape[-2], key.shape[-2]) if is_causal else attn_mask

    def f(q: Array, k: Array, v: Array) -> Array:
        scores = lib.xp.matmul(q * factor, lib.call("aten::transpose.int", k, -1, -2))
        if mask is None:
            return lib.xp.matmul(lib.call("aten::_softmax", scores, -1, False), v)
        if dt.is_bool(lib.dtype_of(mask)):
            scores = lib.xp.where(mask, scores, lib.number(-math.inf, lib.dtype_of(scores)))
        else:
            scores = scores + lib.astype(mask, lib.dtype_of(scores))
        name = "aten::_softmax" if is_causal else "aten::_safe_softmax"
        weights = lib.call(name, scores, -1, *((False,) if is_causal else ()))
        return lib.xp.matmul(weights, v)

    return lib.in_opmath(f, query, key, value)


def _causal(lib: ArrayLibrary, rows: Any, columns: Any) -> Array:
    """Return a causal mask: a query may see the keys up to its own position."""
    at = lambda n: lib.xp.arange(n, dtype=lib.theirs(dt.int64))
    return lib.xp.expand_dims(at(columns), axis=0) <= lib.xp.expand_dims(at(rows), axis=1)
