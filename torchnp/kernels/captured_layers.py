"""Linear layers, pools and losses under the names of oneDNN, cuDNN and MIOpen, whose own layouts are plain order here.

torch's CPU has no code for these names on plain tensors: the values are those of the ops that they stand for.
"""

from __future__ import annotations

import numpy as np

from torchnp import dtypes as dt
from torchnp.kernels._rows import rows
from torchnp.kernels.backward.conv import convolution_backward
from torchnp.kernels.backward.pool import (
    _adaptive_avg_pool2d_backward,
    max_pool2d_with_indices_backward,
    max_pool3d_with_indices_backward,
)
from torchnp.kernels.captured import _masked_scale
from torchnp.kernels.contraction import linear
from torchnp.kernels.conv import convolution
from torchnp.kernels.copy import clone
from torchnp.kernels.ctc import _ctc_loss, _ctc_loss_backward
from torchnp.kernels.dropout import bernoulli_values
from torchnp.kernels.numerics.products import product
from torchnp.kernels.pool import max_pool2d_with_indices, max_pool3d_with_indices
from torchnp.kernels.pool_adaptive import adaptive_avg_pool2d
from torchnp.kernels.reduce import sum_dim
from torchnp.kernels.view import reshape, transpose
from torchnp.registry import kernel

ndarray = np.ndarray
_DIFFERS = ("half-opmath",)

# ---------------------------------------------------------------- linear


rows("mkldnn_linear", linear, "`linear`.", differs=_DIFFERS)


@kernel("mkldnn_linear_backward_input", differs=_DIFFERS)
def mkldnn_linear_backward_input(input_size, grad_output, weight):
    """The gradient in a linear layer's input."""
    rows = grad_output.reshape(-1, weight.shape[0])
    return product(rows, weight).reshape(tuple(input_size))


@kernel("mkldnn_linear_backward_weights", differs=_DIFFERS)
def mkldnn_linear_backward_weights(grad_output, input, weight, bias_defined):
    """The gradients in a linear layer's weight and, if it has one, its bias."""
    rows = grad_output.reshape(-1, weight.shape[0])
    grad_weight = product(rows.T, input.reshape(-1, weight.shape[1]))
    return grad_weight, sum_dim(rows, [0]) if bias_defined else None


@kernel("mkldnn_linear_backward", differs=_DIFFERS)
def mkldnn_linear_backward(self, grad_output, weight, output_mask):
    """The gradients in a linear layer's input, weight and bias, those that are asked for."""
    grad = mkldnn_linear_backward_input(self.shape, grad_output, weight) if output_mask[0] else None
    if not (output_mask[1] or output_mask[2]):
        return grad, None, None
    return grad, *mkldnn_linear_backward_weights(grad_output, self, weight, output_mask[2])


# ---------------------------------------------------------------- pools


for _names, _pool, _back in (
    ("mkldnn_max_pool2d mkldnn_max_pool2d_backward", max_pool2d_with_indices, max_pool2d_with_indices_backward),
    ("mkldnn_max_pool3d mkldnn_max_pool3d_backward", max_pool3d_with_indices, max_pool3d_with_indices_backward),
):
    _forward, _backward = _names.split()
    rows(_forward, _pool, "The maxima of windows.", part=0, differs=["pool-windows"])
    rows(
        _backward, lambda grad, _, x, *options, pool, back: back(grad, x, *options, pool(x, *options)[1]),
        "Gradients put where the maxima stood, which are looked for again.", pool=_pool, back=_back,
    )  # fmt: skip

rows("mkldnn_adaptive_avg_pool2d", adaptive_avg_pool2d, "`adaptive_avg_pool2d`.", differs=_DIFFERS)
rows(
    "mkldnn_adaptive_avg_pool2d_backward", _adaptive_avg_pool2d_backward, "`_adaptive_avg_pool2d_backward`.",
    differs=_DIFFERS,
)  # fmt: skip


# ---------------------------------------------------------------- connectionist temporal classification


@kernel("_cudnn_ctc_loss", "_cudnn_ctc_loss.Tensor", "miopen_ctc_loss", "miopen_ctc_loss.Tensor")
def _cudnn_ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, deterministic, zero_infinity):
    """The loss of each sequence, and its gradient in the probabilities."""
    lengths = (input_lengths, target_lengths)
    loss, alpha = _ctc_loss(log_probs, targets, *lengths, blank, zero_infinity)
    ones = np.ones_like(loss)
    return loss, _ctc_loss_backward(ones, log_probs, targets, *lengths, loss, alpha, blank, zero_infinity)


rows(
    "_use_cudnn_ctc_loss _use_cudnn_ctc_loss.Tensor _use_miopen_ctc_loss _use_miopen_ctc_loss.Tensor",
    lambda *_: False, "Whether a library computes the loss; none does.",
)  # fmt: skip

# ---------------------------------------------------------------- the places that torch leaves to other backends

_OUTSIDE = "that torch leaves to backends outside it, as its own would have"
rows("convolution_overrideable", convolution, f"The convolution {_OUTSIDE} it.", differs=_DIFFERS)


@kernel("convolution_backward_overrideable", differs=_DIFFERS)
def convolution_backward_overrideable(
    grad_output, input, weight, stride, padding, dilation, transposed, output_padding, groups, output_mask
):
    """The gradients that torch leaves to backends outside it, as its own would have them."""
    out = weight.shape[1] * groups if transposed else weight.shape[0]
    options = (stride, padding, dilation, transposed, output_padding, groups, output_mask)
    return convolution_backward(grad_output, input, weight, [out], *options)


# ---------------------------------------------------------------- to other layouts and back

rows("_mkldnn_reshape", lambda x, shape: clone(reshape(x, shape)), "The values in another shape, copied.")
rows("_mkldnn_transpose", lambda x, *dims: transpose(x, *dims).copy(), "Two dimensions exchanged, copied.")
rows("to_mkldnn_backward", lambda grad, x: dt.cast(grad, x.dtype), "The gradient in the dtype of the input.")
rows(
    "_to_dense", lambda x, dtype, _: clone(x if dtype is None else dt.cast(x, dt.as_dtype(dtype))),
    "A copy: the values are dense already (torch has code for it on other layouts only).", like=np.copy,
)  # fmt: skip


@kernel("_fused_dropout", differs=["half-opmath"])
def _fused_dropout(self, p, generator=None):
    """Each value over ``p`` with probability ``p``, else zero, and which were kept; the draws are those of the CPU."""
    kept = bernoulli_values(self.size, dt.uint8, p, generator).reshape(self.shape)
    return _masked_scale(self, kept, 1 / p if p else 0.0), kept
