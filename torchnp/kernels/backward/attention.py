"""Gradients of attention."""

from __future__ import annotations

import math

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check_type, require
from torchnp.core.registry import kernel
from torchnp.kernels.attention import later, per_query_head, queries_at_once, rounded, scores, sum_dtype
from torchnp.layout import stride_rules

ndarray = np.ndarray


@kernel("_scaled_dot_product_flash_attention_for_cpu_backward", differs=["half-opmath"])
def _scaled_dot_product_flash_attention_for_cpu_backward(
    grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, *, attn_mask=None, scale=None
):
    """Gradients with respect to query, key and value, from the saved output and logsumexp of each row."""
    if grad_out is None:  # autograd also calls without a gradient, and torch then returns none
        return None, None, None
    dtype, inner = query.dtype, sum_dtype(query, key)
    require("flash_attention_backward", dtype, dt.FLOATS)
    check_type(dtype, grad_out, key, value, out)
    check_type(dt.opmath(dtype), logsumexp)
    keys, values = per_query_head(query, key, value)
    g, q, k, v, o = (dt.cast(x, inner) for x in (grad_out, query, keys, values, out))
    factor = np.asarray(1 / math.sqrt(q.shape[-1]) if scale is None else rounded(scale, dtype), inner)
    ignored = factor == 0 and dtype not in dt.HALVES  # BLAS does not read what it multiplies by 0
    if ignored:
        q, k = np.zeros_like(q), np.zeros_like(k)
    weights = scores(q, k, attn_mask, False, float(factor))
    weights -= dt.cast(logsumexp, inner)[..., None]
    np.exp(weights, out=weights)
    if is_causal:  # torch masks the weights themselves, so that a nan logsumexp does not reach them
        np.copyto(weights, 0, where=later(*weights.shape[-2:]))
    sloped = weights * (np.matmul(g, v.swapaxes(-1, -2)) - (g * o).sum(-1, keepdims=True))
    if dtype in dt.HALVES:
        weights, sloped = (dt.cast(dt.cast(x, dtype), inner) for x in (weights, sloped))
    sloped = np.zeros_like(sloped) if ignored else sloped
    grad_query = np.matmul(sloped, k) * factor
    grad_key = _over_queries(sloped, q, factor, key)
    grad_value = _over_queries(weights, g, np.asarray(1, inner), value)
    grads = (dt.cast(x, dtype).swapaxes(1, 2) for x in (grad_query, grad_key, grad_value))
    return tuple(stride_rules.dense(x).swapaxes(1, 2) for x in grads)  # torch lays out time before heads


def _over_queries(slopes: ndarray, x: ndarray, factor: ndarray, like: ndarray) -> ndarray:
    """Slopes times x, summed over the queries and over the query heads that share a head of ``like``."""
    batch, heads, length, size = x.shape
    own = like.shape[1]
    slopes, x = slopes.reshape(batch, own, -1, length, slopes.shape[-1]), x.reshape(batch, own, -1, length, size)
    if like.dtype not in dt.HALVES:
        return (np.matmul(slopes.swapaxes(-1, -2), x) * factor).sum(2)
    # torch adds one block at a time and rounds the sum to the half type
    step = queries_at_once(length)
    total = np.zeros((batch, own, slopes.shape[-1], size), x.dtype)
    for head in range(heads // max(own, 1)):
        for start in range(0, length, step):
            part = slopes[:, :, head, start : start + step].swapaxes(-1, -2)
            total += np.matmul(part, x[:, :, head, start : start + step]) * factor
            total = dt.cast(dt.cast(total, like.dtype), x.dtype)
    return total
