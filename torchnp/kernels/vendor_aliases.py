"""Ops under the names of vendor libraries (cuDNN, MIOpen, oneDNN, MPS), as they occur in captured graphs.

torch has no CPU kernels for these names on dense tensors. Here they compute what the general ops compute. Options that
concern only a library (benchmarks, reserved memory) have no effect. Results are row-major where a library has its own
memory format.
Random states are zeros in the library's shapes, and attention with dropout is an error.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check
from torchnp.core.registry import kernel
from torchnp.kernels import attention
from torchnp.kernels._declare_rows import rows
from torchnp.kernels.activation import relu
from torchnp.kernels.arithmetic import add
from torchnp.kernels.backward import pool as pool_gradients
from torchnp.kernels.backward.attention import _scaled_dot_product_flash_attention_for_cpu_backward
from torchnp.kernels.backward.autograd_formulas import linear_backward
from torchnp.kernels.backward.conv import convolution_backward
from torchnp.kernels.backward.grid import grid_sampler_2d_backward
from torchnp.kernels.backward.normalization import native_batch_norm_backward
from torchnp.kernels.batchnorm import native_batch_norm
from torchnp.kernels.conv import convolution
from torchnp.kernels.copy import clone
from torchnp.kernels.ctc import _ctc_loss, _ctc_loss_backward
from torchnp.kernels.dropout import bernoulli_values
from torchnp.kernels.grid import affine_grid_generator, affine_grid_generator_backward, grid_sampler_2d
from torchnp.kernels.pool import max_pool_of
from torchnp.kernels.pool_adaptive import adaptive_avg_pool2d
from torchnp.kernels.rearrange import sum_to_size
from torchnp.kernels.tensor_products import linear, matmul
from torchnp.kernels.view import reshape, transpose

ndarray = np.ndarray
_DIFFERS = ("half-opmath",)

_PLAIN = {"by_name": True, "transposed": False, "output_padding": [0], "differs": _DIFFERS}
_TRANSPOSED = {"by_name": True, "transposed": True, "differs": _DIFFERS}
rows("cudnn_convolution", convolution, "`convolution` without a bias.", bias=None, **_PLAIN)
rows("miopen_convolution miopen_depthwise_convolution _mps_convolution", convolution, "`convolution`.", **_PLAIN)
_DOC = "Transposed `convolution` without a bias."
rows("cudnn_convolution_transpose _mps_convolution_transpose", convolution, _DOC, bias=None, **_TRANSPOSED)
rows("miopen_convolution_transpose", convolution, "Transposed `convolution`.", **_TRANSPOSED)


def _gradients(
    grad_output, input, weight, stride, padding, dilation, transposed, output_padding, groups, output_mask
):  # fmt: skip
    out = weight.shape[1] * groups if transposed else weight.shape[0]
    options = (stride, padding, dilation, transposed, output_padding, groups, [*output_mask, False][:3])
    return convolution_backward(grad_output, input, weight, [out], *options)


_DOC = "`convolution_backward` of a transposed convolution without a bias."
rows("mps_convolution_backward", _gradients, "`convolution_backward`.", **_PLAIN)
rows("mps_convolution_transpose_backward", _gradients, _DOC, part=slice(2), **_TRANSPOSED)


def _rectified(input, weight, bias, stride, padding, dilation, groups, z=None, alpha=None):
    out = convolution(input, weight, bias, stride, padding, dilation, False, [0], groups)
    return relu(out if z is None else add(out, z, alpha=1 if alpha is None else alpha))


_NAMES, _DOC = "cudnn_convolution_relu miopen_convolution_relu", "`convolution` followed by relu."
rows(_NAMES, _rectified, _DOC, by_name=True, differs=_DIFFERS)
_NAMES, _DOC = "cudnn_convolution_add_relu miopen_convolution_add_relu", "relu(`convolution` + alpha * z)."
rows(_NAMES, _rectified, _DOC, by_name=True, differs=_DIFFERS)
rows("miopen_batch_norm", native_batch_norm, "`native_batch_norm`.", differs=_DIFFERS)
_DOC = "`native_batch_norm`, and an empty reserve buffer."
rows("cudnn_batch_norm", lambda *args: (*native_batch_norm(*args), np.empty(0, np.uint8)), _DOC, differs=_DIFFERS)


def _of_training(x, grad, weight, mean, var, s_mean, s_var, eps, *_):
    return native_batch_norm_backward(grad, x, weight, mean, var, s_mean, s_var, True, eps, [True, True, True])


_OF_TRAINING = "`native_batch_norm_backward` in training mode."
rows("miopen_batch_norm_backward cudnn_batch_norm_backward", _of_training, _OF_TRAINING, differs=_DIFFERS)

_DOC = "`affine_grid_generator` with aligned corners."
rows("cudnn_affine_grid_generator", lambda theta, *size: affine_grid_generator(theta, size, True), _DOC)
_DOC = "`affine_grid_generator_backward` with aligned corners."
rows("cudnn_affine_grid_generator_backward", lambda grad, *size: affine_grid_generator_backward(grad, size, True), _DOC)
_CORNERS = {"by_name": True, "interpolation_mode": 0, "padding_mode": 0, "align_corners": True}
_FOUR = "in bilinear mode, with zero padding and aligned corners."
rows("cudnn_grid_sampler", grid_sampler_2d, f"`grid_sampler_2d` {_FOUR}", **_CORNERS)
_DOC = f"`grid_sampler_2d_backward` {_FOUR}"
rows("cudnn_grid_sampler_backward", grid_sampler_2d_backward, _DOC, output_mask=[True, True], **_CORNERS)


@kernel("_masked_scale")
def _masked_scale(self, mask, scale):
    """self * mask * scale: dropout's gradient."""
    inner = dt.opmath(self.dtype)
    return dt.cast(dt.cast(self, inner) * dt.cast(mask, inner) * inner.type(scale), self.dtype)


_ORDER = "A copy of the weight, not reordered."
rows("mkldnn_reorder_conv2d_weight mkldnn_reorder_conv3d_weight", lambda self, *options: clone(self), _ORDER)


# ---------------------------------------------------------------- linear


rows("mkldnn_linear", linear, "`linear`.", differs=_DIFFERS)
_DOC = "The requested gradients of a linear layer's input, weight and bias."
rows("mkldnn_linear_backward", linear_backward, _DOC, differs=_DIFFERS)
_DOC = "The gradient of a linear layer's input."
rows("mkldnn_linear_backward_input", lambda size, g, w: matmul(g, w).reshape(tuple(size)), _DOC, differs=_DIFFERS)
rows(
    "mkldnn_linear_backward_weights", lambda g, x, w, bias: linear_backward(x, g, w, (False, True, bias))[1:],
    "The gradients of a linear layer's weight and, if it has one, its bias.", differs=_DIFFERS,
)  # fmt: skip


# ---------------------------------------------------------------- pools


def _max_pool_backward(grad, output, x, kernel, stride, padding, dilation, ceil_mode, *, n):
    window = (kernel, stride, padding, dilation, ceil_mode)
    return pool_gradients.max_pool_backward(grad, x, *window, max_pool_of(x, *window, n=n)[1], n=n)


_NAMES, _DOC = "mkldnn_max_pool2d mkldnn_max_pool3d", "Maximum over windows."
rows(_NAMES, max_pool_of, _DOC, part=0, differs=["pool-windows"])
_DOC = "Zeros with each gradient added at its window's maximum, which is found again."
rows("mkldnn_max_pool2d_backward mkldnn_max_pool3d_backward", _max_pool_backward, _DOC)
rows("mkldnn_adaptive_avg_pool2d", adaptive_avg_pool2d, "`adaptive_avg_pool2d`.", differs=_DIFFERS)
_DOC = "`_adaptive_avg_pool2d_backward`."
rows("mkldnn_adaptive_avg_pool2d_backward", pool_gradients._adaptive_avg_pool2d_backward, _DOC, differs=_DIFFERS)


@kernel("_cudnn_ctc_loss", "_cudnn_ctc_loss.Tensor", "miopen_ctc_loss", "miopen_ctc_loss.Tensor")
def _cudnn_ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, deterministic, zero_infinity):
    """The loss of each sequence, and its gradient with respect to the log probabilities."""
    lengths = (input_lengths, target_lengths)
    loss, alpha = _ctc_loss(log_probs, targets, *lengths, blank, zero_infinity)
    ones = np.ones_like(loss)
    return loss, _ctc_loss_backward(ones, log_probs, targets, *lengths, loss, alpha, blank, zero_infinity)


rows(
    "_use_cudnn_ctc_loss _use_cudnn_ctc_loss.Tensor _use_miopen_ctc_loss _use_miopen_ctc_loss.Tensor",
    lambda *_: False, "Always False: no library computes the loss.",
)  # fmt: skip

# ---------------------------------------------------------------- ops that torch leaves to out-of-tree backends

_OUTSIDE = "that torch leaves to out-of-tree backends, computed by"
rows("convolution_overrideable", convolution, f"The convolution {_OUTSIDE} `convolution`.", differs=_DIFFERS)
_DOC = f"The gradients {_OUTSIDE} `convolution_backward`."
rows("convolution_backward_overrideable", _gradients, _DOC, differs=_DIFFERS)

# ---------------------------------------------------------------- to other layouts and back

rows("_mkldnn_reshape", lambda x, shape: clone(reshape(x, shape)), "A copy in another shape.")
rows("_mkldnn_transpose", lambda x, *dims: transpose(x, *dims).copy(), "A copy with two dimensions swapped.")
rows("to_mkldnn_backward", lambda grad, x: dt.cast(grad, x.dtype), "The gradient in the dtype of the input.")
_DOC = "A copy: the values are dense already (torch has code for it on other layouts only)."
rows("_to_dense", lambda x, dtype, _: clone(x if dtype is None else dt.cast(x, dt.as_dtype(dtype))), _DOC, like=np.copy)


@kernel("_fused_dropout", differs=["half-opmath"])
def _fused_dropout(self, p, generator=None):
    """Each value divided by ``p`` with probability ``p``, else 0; also the mask. The random numbers are the CPU's."""
    kept = bernoulli_values(self.size, dt.uint8, p, generator).reshape(self.shape)
    return _masked_scale(self, kept, 1 / p if p else 0.0), kept


# ---------------------------------------------------------------- attention

_MASKED = ("masked-row", "half-opmath")


def _attend(q: ndarray, k: ndarray, v: ndarray, bias: Any, dropout: float, causal: bool, scale: Any) -> Any:
    check(dropout == 0, "torchnp attends without dropout: a GPU's random stream is its own")
    mask = None if bias is None else np.broadcast_to(bias, (*q.shape[:-1], k.shape[-2]))
    return attention._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal, attn_mask=mask, scale=scale)


def _attention_gradients(grad_out, query, key, value, out, logsumexp, attn_bias, is_causal, scale):
    log_sum = logsumexp.reshape(logsumexp.shape[:3])  # cuDNN's has a last dimension of size 1
    saved = (out, log_sum[..., : query.shape[-2]].astype(dt.opmath(query.dtype)))
    backward = _scaled_dot_product_flash_attention_for_cpu_backward
    return backward(grad_out, query, key, value, *saved, 0.0, is_causal, attn_mask=attn_bias, scale=scale)


def _bias_gradient(grad, q, k, v, out, log_sum, bias, causal, scale):
    """Return the gradient of the scores, summed to the shape of the bias."""
    inner = attention.sum_dtype(q, k)
    g, q, k, v, o = (dt.cast(x, inner) for x in (grad, q, k, v, out))
    logs = dt.cast(log_sum[..., : q.shape[2]], inner)[..., None]
    weights = np.exp(attention.scores(q, k, bias, causal, scale) - logs)
    weights *= np.matmul(g, v.mT) - (g * o).sum(-1, keepdims=True)
    return dt.cast(sum_to_size(weights, bias.shape), bias.dtype)


def _attended(query, key, value, attn_bias, dropout_p, is_causal, scale, *, random, column=False):
    out, log_sum = _attend(query, key, value, attn_bias, dropout_p, is_causal, scale)
    sizes, drawn = (None, None, query.shape[2], key.shape[2]), (np.zeros(*state) for state in random)
    return out, log_sum[..., None] if column else log_sum, *sizes, *drawn, np.empty(0, query.dtype)


def _asked(grad_input_mask, grad_out, query, key, value, out, logsumexp, attn_bias, is_causal, scale):
    saved = (query, key, value, out, logsumexp, attn_bias, is_causal, scale)
    found = [x if w else None for x, w in zip(_attention_gradients(grad_out, *saved), grad_input_mask[:3], strict=True)]
    of_bias = grad_input_mask[3] and attn_bias is not None
    return *found, _bias_gradient(grad_out, *saved) if of_bias else None


_NUMBERS = ((), np.int64), ((), np.int64)
_OTHERS = {"by_name": True, "differs": _MASKED}
_ROWS = "Attention over (batch, heads, time, size), and each row's logsumexp."
_FLASH_STATE = ((2, np.uint64), ((), np.uint64))
rows("_scaled_dot_product_flash_attention", _attended, _ROWS, attn_bias=None, random=_FLASH_STATE, **_OTHERS)
rows("_scaled_dot_product_cudnn_attention", _attended, _ROWS, random=_NUMBERS, column=True, **_OTHERS)
_ROWS = "Attention that torch leaves to other backends, and each row's logsumexp."
rows("_scaled_dot_product_fused_attention_overrideable", _attended, _ROWS, random=_NUMBERS, **_OTHERS)
_ROWS = "Gradients of query, key and value, from the saved result and each row's logsumexp."
rows("_scaled_dot_product_flash_attention_backward", _attention_gradients, _ROWS, attn_bias=None, **_OTHERS)
rows("_scaled_dot_product_cudnn_attention_backward", _attention_gradients, _ROWS, **_OTHERS)
_ROWS = "The requested gradients of query, key, value and the attention bias."
rows("_scaled_dot_product_fused_attention_overrideable_backward", _asked, _ROWS, **_OTHERS)


@kernel("_scaled_dot_product_efficient_attention", differs=_MASKED)
def _scaled_dot_product_efficient_attention(
    query, key, value, attn_bias, compute_log_sumexp, dropout_p=0.0, is_causal=False, *, scale=None
):
    """Attention over (batch, heads, time, size), and on request each row's logsumexp, padded to a multiple of 32."""
    out, log_sum = _attend(query, key, value, attn_bias, dropout_p, is_causal, scale)
    rows = -(-query.shape[2] // 32) * 32 if compute_log_sumexp else 0
    padded = np.full((*log_sum.shape[:2], rows), np.inf, log_sum.dtype)
    padded[..., : log_sum.shape[2]] = log_sum[..., :rows]
    return out, padded, np.zeros((), np.int64), np.zeros((), np.int64)


rows(
    "_scaled_dot_product_efficient_attention_backward",
    lambda g, q, k, v, bias, out, log, seed, offset, p, mask, causal, *, scale: _asked(
        mask, g, q, k, v, out, log, bias, causal, scale
    ),
    "The requested gradients of query, key, value and the attention bias.", differs=_MASKED,
)  # fmt: skip
_MATH = attention._scaled_dot_product_attention_math
rows("_scaled_dot_product_attention_math_for_mps", _MATH, "`_scaled_dot_product_attention_math`.", **_OTHERS)
_ROWS = "The first result of `_scaled_dot_product_attention_math`."
rows("_triton_scaled_dot_attention", lambda q, k, v, p: _MATH(q, k, v, None, p)[0], _ROWS, differs=_MASKED)


@kernel("_triton_multi_head_attention", differs=_MASKED)
def _triton_multi_head_attention(
    query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask=None
):
    """The first result of `_native_multi_head_attention`."""
    packed = (embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, False)
    return attention._native_multi_head_attention(query, key, value, *packed)[0]
