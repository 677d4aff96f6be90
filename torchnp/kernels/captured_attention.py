"""Attention under the names of GPU libraries, as graphs that were captured there have it; torch's CPU has no code for them.

What belongs to the libraries' own random streams is given in the shapes that they give and is zero; dropout is refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.checks import check
from torchnp.kernels.attention import (
    _native_multi_head_attention,
    _scaled_dot_product_attention_math,
    _scaled_dot_product_flash_attention_for_cpu,
    scores,
    sum_dtype,
)
from torchnp.kernels.backward.attention import _scaled_dot_product_flash_attention_for_cpu_backward
from torchnp.registry import kernel

ndarray = np.ndarray
_DIFFERS = ("masked-row", "half-opmath")


def _attend(q: ndarray, k: ndarray, v: ndarray, bias: Any, dropout: float, causal: bool, scale: Any) -> Any:
    check(dropout == 0, "torchnp attends without dropout: a GPU's random stream is its own")
    mask = None if bias is None else np.broadcast_to(bias, (*q.shape[:-1], k.shape[-2]))
    return _scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal, attn_mask=mask, scale=scale)


def _gradients(
    grad: ndarray, q: ndarray, k: ndarray, v: ndarray, out: ndarray, log_sum: ndarray, bias: Any, causal: bool, scale: Any
) -> Any:  # fmt: skip
    saved = (out, log_sum[..., : q.shape[-2]].astype(dt.opmath(q.dtype)))
    backward = _scaled_dot_product_flash_attention_for_cpu_backward
    return backward(grad, q, k, v, *saved, 0.0, causal, attn_mask=bias, scale=scale)


def _bias_gradient(
    grad: ndarray, q: ndarray, k: ndarray, v: ndarray, out: ndarray, log_sum: ndarray, bias: ndarray, causal: bool,
    scale: Any,
) -> ndarray:  # fmt: skip
    """The gradient of the scores, summed to the shape of what was added to them."""
    inner = sum_dtype(q, k)
    g, q, k, v, o = (dt.cast(x, inner) for x in (grad, q, k, v, out))
    weights = np.exp(scores(q, k, bias, causal, scale) - dt.cast(log_sum[..., : q.shape[-2]], inner)[..., None])
    weights *= np.matmul(g, v.swapaxes(-1, -2)) - (g * o).sum(-1, keepdims=True)
    extra = weights.ndim - bias.ndim
    axes = tuple(i for i, n in enumerate(weights.shape) if i < extra or bias.shape[i - extra] != n)
    return dt.cast(weights.sum(axes, keepdims=True).reshape(bias.shape), bias.dtype)


# ---------------------------------------------------------------- flash, cuDNN, and a place for other backends


@kernel("_scaled_dot_product_flash_attention", differs=_DIFFERS)
def _scaled_dot_product_flash_attention(
    query, key, value, dropout_p=0.0, is_causal=False, return_debug_mask=False, *, scale=None
):
    """Attention over (batch, heads, time, size), and the logarithm of each row's sum of exponentials."""
    out, log_sum = _attend(query, key, value, None, dropout_p, is_causal, scale)
    random = (np.zeros(2, np.uint64), np.zeros((), np.uint64))
    return out, log_sum, None, None, query.shape[2], key.shape[2], *random, np.empty(0, query.dtype)


@kernel("_scaled_dot_product_flash_attention_backward", differs=_DIFFERS)
def _scaled_dot_product_flash_attention_backward(
    grad_out, query, key, value, out, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p, is_causal, philox_seed,
    philox_offset, *, scale=None,
):  # fmt: skip
    """Gradients in query, key and value, from the saved result and the logarithm of each row's sum."""
    return _gradients(grad_out, query, key, value, out, logsumexp, None, is_causal, scale)


@kernel("_scaled_dot_product_cudnn_attention", differs=_DIFFERS)
def _scaled_dot_product_cudnn_attention(
    query, key, value, attn_bias, compute_log_sumexp, dropout_p=0.0, is_causal=False, return_debug_mask=False, *,
    scale=None,
):  # fmt: skip
    """Attention over (batch, heads, time, size), and the logarithm of each row's sum of exponentials."""
    out, log_sum = _attend(query, key, value, attn_bias, dropout_p, is_causal, scale)
    random = (np.zeros((), np.int64), np.zeros((), np.int64))
    return out, log_sum[..., None], None, None, query.shape[2], key.shape[2], *random, np.empty(0, query.dtype)


@kernel("_scaled_dot_product_cudnn_attention_backward", differs=_DIFFERS)
def _scaled_dot_product_cudnn_attention_backward(
    grad_out, query, key, value, out, logsumexp, philox_seed, philox_offset, attn_bias, cum_seq_q, cum_seq_k, max_q,
    max_k, dropout_p, is_causal, *, scale=None,
):  # fmt: skip
    """Gradients in query, key and value, from the saved result and the logarithm of each row's sum."""
    return _gradients(grad_out, query, key, value, out, logsumexp[..., 0], attn_bias, is_causal, scale)


@kernel("_scaled_dot_product_fused_attention_overrideable", differs=_DIFFERS)
def _scaled_dot_product_fused_attention_overrideable(
    query, key, value, attn_bias=None, dropout_p=0.0, is_causal=False, return_debug_mask=False, *, scale=None
):
    """The attention that torch leaves to backends outside it, as its own would have it."""
    out, log_sum = _attend(query, key, value, attn_bias, dropout_p, is_causal, scale)
    random = (np.zeros((), np.int64), np.zeros((), np.int64))
    return out, log_sum, None, None, query.shape[2], key.shape[2], *random, np.empty(0, query.dtype)


@kernel("_scaled_dot_product_fused_attention_overrideable_backward", differs=_DIFFERS)
def _scaled_dot_product_fused_attention_overrideable_backward(
    grad_out, query, key, value, attn_bias, grad_input_mask, out, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k,
    dropout_p, is_causal, philox_seed, philox_offset, *, scale=None,
):  # fmt: skip
    """Gradients in query, key, value and what was added to the scores, those that are asked for."""
    saved = (out, logsumexp, attn_bias, is_causal, scale)
    return _asked(grad_input_mask, grad_out, query, key, value, *saved)


def _asked(wanted: Any, grad: ndarray, q: ndarray, k: ndarray, v: ndarray, *saved: Any) -> tuple[ndarray | None, ...]:
    found = [x if w else None for x, w in zip(_gradients(grad, q, k, v, *saved), wanted[:3], strict=True)]
    return *found, _bias_gradient(grad, q, k, v, *saved) if wanted[3] and saved[2] is not None else None


# ---------------------------------------------------------------- memory-efficient


@kernel("_scaled_dot_product_efficient_attention", differs=_DIFFERS)
def _scaled_dot_product_efficient_attention(
    query, key, value, attn_bias, compute_log_sumexp, dropout_p=0.0, is_causal=False, *, scale=None
):
    """Attention over (batch, heads, time, size), and if asked the logarithm of each row's sum, 32 rows a block."""
    out, log_sum = _attend(query, key, value, attn_bias, dropout_p, is_causal, scale)
    rows = -(-query.shape[2] // 32) * 32 if compute_log_sumexp else 0
    padded = np.full((*log_sum.shape[:2], rows), np.inf, log_sum.dtype)
    padded[..., : log_sum.shape[2]] = log_sum[..., :rows]
    return out, padded, np.zeros((), np.int64), np.zeros((), np.int64)


@kernel("_scaled_dot_product_efficient_attention_backward", differs=_DIFFERS)
def _scaled_dot_product_efficient_attention_backward(
    grad_out_, query, key, value, attn_bias, out, logsumexp, philox_seed, philox_offset, dropout_p, grad_input_mask,
    is_causal=False, *, scale=None,
):  # fmt: skip
    """Gradients in query, key, value and what was added to the scores, those that are asked for."""
    return _asked(grad_input_mask, grad_out_, query, key, value, out, logsumexp, attn_bias, is_causal, scale)


# ---------------------------------------------------------------- Metal, Triton


@kernel("_scaled_dot_product_attention_math_for_mps", differs=_DIFFERS)
def _scaled_dot_product_attention_math_for_mps(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, dropout_mask=None, *, scale=None,
    enable_gqa=False,
):  # fmt: skip
    """`_scaled_dot_product_attention_math`."""
    options = (attn_mask, dropout_p, is_causal, dropout_mask)
    return _scaled_dot_product_attention_math(query, key, value, *options, scale=scale, enable_gqa=enable_gqa)


@kernel("_triton_scaled_dot_attention", differs=_DIFFERS)
def _triton_scaled_dot_attention(q, k, v, dropout_p=0.0):
    """`_scaled_dot_product_attention_math`, its first result."""
    return _scaled_dot_product_attention_math(q, k, v, None, dropout_p)[0]


@kernel("_triton_multi_head_attention", differs=_DIFFERS)
def _triton_multi_head_attention(
    query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask=None
):
    """`_native_multi_head_attention`, its first result."""
    packed = (embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, False)
    return _native_multi_head_attention(query, key, value, *packed)[0]
