"""Gradients of attention."""

from __future__ import annotations

import math

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check_fits, check_type, require
from torchnp.core.registry import kernel
from torchnp.kernels.attention import (
    BUDGET,
    later,
    part_of,
    per_query_head,
    queries_at_once,
    rounded,
    scores,
    sum_dtype,
)
from torchnp.kernels.numerics.blocks import row_major_blocks
from torchnp.layout import stride_rules
from torchnp.threads import blocks

ndarray = np.ndarray


@kernel("_scaled_dot_product_flash_attention_for_cpu_backward", differs=["half-opmath"])
def _scaled_dot_product_flash_attention_for_cpu_backward(
    grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, *, attn_mask=None, scale=None
):
    """Gradients with respect to query, key and value, from the saved output and logsumexp of each row."""
    if grad_out is None:  # autograd also calls this without a gradient; torch then returns no gradients
        return None, None, None
    dtype, inner = query.dtype, sum_dtype(query, key)
    require("flash_attention_backward", dtype, dt.FLOATS)
    check_type(dtype, grad_out, key, value, out)
    check_type(dt.opmath(dtype), logsumexp)
    keys, values = per_query_head(query, key, value)
    given = grad_out, query, keys, values, out, dt.cast(logsumexp, inner)
    factor = np.asarray(1 / math.sqrt(query.shape[-1]) if scale is None else rounded(scale, dtype), inner)
    shared = query.shape[1] // max(key.shape[1], 1), query.shape[1] // max(value.shape[1], 1)
    found = _gradients(*given, attn_mask, is_causal, factor, *shared)
    grads = (dt.cast(x, dtype).swapaxes(1, 2) for x in found)
    return tuple(stride_rules.dense(x).swapaxes(1, 2) for x in grads)  # in memory, torch has time before heads


def _gradients(g, q, k, v, out, log_sum, mask, causal, factor, of_a_key, of_a_value):
    """Return the gradients of query, key and value, summed over blocks of queries as in torch.

    ``of_a_key`` and ``of_a_value`` are the numbers of query heads that share a key head and a value head.
    """
    dtype, inner, (batch, heads, length, _) = q.dtype, factor.dtype, q.shape
    half, step = dtype in dt.HALVES, queries_at_once(length)
    kept = dtype if half else inner  # torch rounds sums to half types after each block
    of_q, of_k, of_v = (np.zeros(x.shape, kept) for x in (q, k[:, ::of_a_key], v[:, ::of_a_value]))
    if factor == 0 and not half:  # BLAS does not read what it multiplies by 0
        q, k = np.zeros_like(q), np.zeros_like(k)
    if mask is not None:
        check_fits(mask, np.broadcast_to(log_sum[..., None], (*log_sum.shape, k.shape[2])))
    line = min(step, length) * k.shape[2] * inner.itemsize
    for items, some in row_major_blocks((batch, heads), line, BUDGET if of_a_key == of_a_value == 1 else line):
        keys, values = (dt.cast(x[items, some], inner) for x in (k, v))
        for rows in blocks(length, step):
            block = items, some, rows
            grads, queries, result = (dt.cast(x[block], inner) for x in (g, q, out))
            weights = scores(queries, keys, None if mask is None else part_of(mask, block), False, float(factor))
            weights -= log_sum[block][..., None]
            np.exp(weights, out=weights)
            if causal:  # torch masks the weights themselves, so that a nan logsumexp does not reach them
                np.copyto(weights, 0, where=later(*weights.shape[-2:], rows.start))
            slopes = np.matmul(grads, values.swapaxes(-1, -2))
            slopes -= (grads * result).sum(-1, keepdims=True)
            slopes *= weights
            if half:
                weights, slopes = (dt.cast(dt.cast(x, dtype), inner) for x in (weights, slopes))
            elif factor == 0:
                slopes[...] = 0
            of_q[block] = dt.cast(np.matmul(slopes, keys) * factor, kept)
            for total, each, found in (
                (of_k, of_a_key, np.matmul(slopes.swapaxes(-1, -2), queries) * factor),
                (of_v, of_a_value, np.matmul(weights.swapaxes(-1, -2), grads)),
            ):
                part = total[items, some.start // each : (some.stop - 1) // each + 1]
                part[...] = dt.cast(dt.cast(part, inner) + found, kept)
    return of_q, of_k, of_v
