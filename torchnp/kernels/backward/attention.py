"""Gradients of attention."""

from __future__ import annotations

import math

import numpy as np

from torchnp import dtypes as dt
from torchnp.checks import check_type
from torchnp.errors import not_implemented
from torchnp.kernels.attention import scores, sum_dtype
from torchnp.registry import kernel

ndarray = np.ndarray


@kernel("_scaled_dot_product_flash_attention_for_cpu_backward", differs=["half-opmath"])
def _scaled_dot_product_flash_attention_for_cpu_backward(
    grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, *, attn_mask=None, scale=None
):
    """Gradients in query, key and value, from the saved result and the logarithm of each row's sum."""
    dtype, inner = query.dtype, sum_dtype(query, key)
    if dtype not in dt.FLOATS:
        raise not_implemented("flash_attention_backward", dtype)
    for x in (grad_out, key, value, out, logsumexp):
        kind = dt.opmath(dtype) if x is logsumexp else dtype
        check_type(kind, x)
    g, q, k, v, o = (dt.cast(x, inner) for x in (grad_out, query, key, value, out))
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    weights = scores(q, k, attn_mask, is_causal, scale)
    weights -= dt.cast(logsumexp, inner)[..., None]
    np.exp(weights, out=weights)
    grad_value = np.matmul(weights.swapaxes(-1, -2), g)
    weights *= np.matmul(g, v.swapaxes(-1, -2)) - (g * o).sum(-1, keepdims=True)
    weights *= np.asarray(factor, inner)
    grad_query = np.matmul(weights, k)
    grad_key = np.matmul(weights.swapaxes(-1, -2), q)
    return tuple(_time_first(dt.cast(x, dtype)) for x in (grad_query, grad_key, grad_value))


def _time_first(x: ndarray) -> ndarray:
    """torch lays these gradients out as (batch, time, heads, size)."""
    return np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2)
