"""Attention under the names of GPU libraries, as graphs that were captured there have it; torch's CPU has no code for them.

What belongs to the libraries' own random streams is given in the shapes that they give and is zero; dropout is refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.checks import check
from torchnp.kernels._rows import rows
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
    grad_out: ndarray, query: ndarray, key: ndarray, value: ndarray, out: ndarray, logsumexp: ndarray, attn_bias: Any,
    is_causal: bool, scale: Any,
) -> Any:  # fmt: skip
    log_sum = logsumexp.reshape(logsumexp.shape[:3])  # cuDNN's is a column
    saved = (out, log_sum[..., : query.shape[-2]].astype(dt.opmath(query.dtype)))
    backward = _scaled_dot_product_flash_attention_for_cpu_backward
    return backward(grad_out, query, key, value, *saved, 0.0, is_causal, attn_mask=attn_bias, scale=scale)


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


def _attended(
    query: ndarray, key: ndarray, value: ndarray, attn_bias: Any, dropout_p: float, is_causal: bool, scale: Any, *,
    random: Any, column: bool = False,
) -> tuple[Any, ...]:  # fmt: skip
    out, log_sum = _attend(query, key, value, attn_bias, dropout_p, is_causal, scale)
    sizes, drawn = (None, None, query.shape[2], key.shape[2]), (np.zeros(*state) for state in random)
    return out, log_sum[..., None] if column else log_sum, *sizes, *drawn, np.empty(0, query.dtype)


def _asked(
    grad_input_mask: Any, grad_out: ndarray, query: ndarray, key: ndarray, value: ndarray, out: ndarray,
    logsumexp: ndarray, attn_bias: Any, is_causal: bool, scale: Any,
) -> tuple[ndarray | None, ...]:  # fmt: skip
    saved = (query, key, value, out, logsumexp, attn_bias, is_causal, scale)
    found = [x if w else None for x, w in zip(_gradients(grad_out, *saved), grad_input_mask[:3], strict=True)]
    of_bias = grad_input_mask[3] and attn_bias is not None
    return *found, _bias_gradient(grad_out, *saved) if of_bias else None


_NUMBERS = ((), np.int64), ((), np.int64)
_OTHERS = {"by_name": True, "differs": _DIFFERS}
_ROWS = "Attention over (batch, heads, time, size), and the logarithm of each row's sum of exponentials."
_FLASH_STATE = ((2, np.uint64), ((), np.uint64))
rows("_scaled_dot_product_flash_attention", _attended, _ROWS, attn_bias=None, random=_FLASH_STATE, **_OTHERS)
rows("_scaled_dot_product_cudnn_attention", _attended, _ROWS, random=_NUMBERS, column=True, **_OTHERS)
_ROWS = "The attention that torch leaves to backends outside it, as its own would have it."
rows("_scaled_dot_product_fused_attention_overrideable", _attended, _ROWS, random=_NUMBERS, **_OTHERS)
_ROWS = "Gradients in query, key and value, from the saved result and the logarithm of each row's sum."
rows("_scaled_dot_product_flash_attention_backward", _gradients, _ROWS, attn_bias=None, **_OTHERS)
rows("_scaled_dot_product_cudnn_attention_backward", _gradients, _ROWS, **_OTHERS)
_ROWS = "Gradients in query, key, value and what was added to the scores, those that are asked for."
rows("_scaled_dot_product_fused_attention_overrideable_backward", _asked, _ROWS, **_OTHERS)


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

_MATH = _scaled_dot_product_attention_math
rows("_scaled_dot_product_attention_math_for_mps", _MATH, "`_scaled_dot_product_attention_math`.", **_OTHERS)
_ROWS = "`_scaled_dot_product_attention_math`, its first result."
rows("_triton_scaled_dot_attention", lambda q, k, v, p: _MATH(q, k, v, None, p)[0], _ROWS, differs=_DIFFERS)


@kernel("_triton_multi_head_attention", differs=_DIFFERS)
def _triton_multi_head_attention(
    query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask=None
):
    """`_native_multi_head_attention`, its first result."""
    packed = (embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, False)
    return _native_multi_head_attention(query, key, value, *packed)[0]
