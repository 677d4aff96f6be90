"""Linear layers, pools and losses under the names of oneDNN, cuDNN and MIOpen, whose own layouts are plain order here.

torch's CPU has no code for these names on plain tensors: the values are those of the ops that they stand for.
"""

from __future__ import annotations

import numpy as np

from torchnp import dtypes as dt
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


@kernel("mkldnn_linear", differs=_DIFFERS)
def mkldnn_linear(self, weight, bias=None):
    """`linear`."""
    return linear(self, weight, bias)


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


@kernel("mkldnn_max_pool2d", differs=["pool-windows"])
def mkldnn_max_pool2d(self, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
    """The maxima of windows."""
    return max_pool2d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode)[0]


@kernel("mkldnn_max_pool3d", differs=["pool-windows"])
def mkldnn_max_pool3d(self, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
    """The maxima of windows."""
    return max_pool3d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode)[0]


@kernel("mkldnn_max_pool2d_backward")
def mkldnn_max_pool2d_backward(
    grad_output, output, input, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False
):  # fmt: skip
    """Gradients put where the maxima stood, which are looked for again."""
    options = (kernel_size, stride, padding, dilation, ceil_mode)
    return max_pool2d_with_indices_backward(grad_output, input, *options, max_pool2d_with_indices(input, *options)[1])


@kernel("mkldnn_max_pool3d_backward")
def mkldnn_max_pool3d_backward(
    grad_output, output, input, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False
):  # fmt: skip
    """Gradients put where the maxima stood, which are looked for again."""
    options = (kernel_size, stride, padding, dilation, ceil_mode)
    return max_pool3d_with_indices_backward(grad_output, input, *options, max_pool3d_with_indices(input, *options)[1])


@kernel("mkldnn_adaptive_avg_pool2d", differs=_DIFFERS)
def mkldnn_adaptive_avg_pool2d(self, output_size):
    """`adaptive_avg_pool2d`."""
    return adaptive_avg_pool2d(self, output_size)


@kernel("mkldnn_adaptive_avg_pool2d_backward", differs=_DIFFERS)
def mkldnn_adaptive_avg_pool2d_backward(grad_output, self):
    """`_adaptive_avg_pool2d_backward`."""
    return _adaptive_avg_pool2d_backward(grad_output, self)


# ---------------------------------------------------------------- connectionist temporal classification


@kernel("_cudnn_ctc_loss", "_cudnn_ctc_loss.Tensor", "miopen_ctc_loss", "miopen_ctc_loss.Tensor")
def _cudnn_ctc_loss(
    log_probs, targets, input_lengths, target_lengths, blank, deterministic, zero_infinity
):  # fmt: skip
    """The loss of each sequence, and its gradient in the probabilities."""
    lengths = (input_lengths, target_lengths)
    loss, alpha = _ctc_loss(log_probs, targets, *lengths, blank, zero_infinity)
    ones = np.ones_like(loss)
    return loss, _ctc_loss_backward(ones, log_probs, targets, *lengths, loss, alpha, blank, zero_infinity)


@kernel("_use_cudnn_ctc_loss", "_use_cudnn_ctc_loss.Tensor", "_use_miopen_ctc_loss", "_use_miopen_ctc_loss.Tensor")
def _use_cudnn_ctc_loss(log_probs, targets, input_lengths, target_lengths, blank):
    """Whether a library computes the loss; none does."""
    return False


# ---------------------------------------------------------------- the places that torch leaves to other backends


@kernel("convolution_overrideable", differs=_DIFFERS)
def convolution_overrideable(
    input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
):  # fmt: skip
    """The convolution that torch leaves to backends outside it, as its own would have it."""
    return convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


@kernel("convolution_backward_overrideable", differs=_DIFFERS)
def convolution_backward_overrideable(
    grad_output, input, weight, stride, padding, dilation, transposed, output_padding, groups, output_mask
):
    """The gradients that torch leaves to backends outside it, as its own would have them."""
    out = weight.shape[1] * groups if transposed else weight.shape[0]
    options = (stride, padding, dilation, transposed, output_padding, groups, output_mask)
    return convolution_backward(grad_output, input, weight, [out], *options)


# ---------------------------------------------------------------- to other layouts and back


@kernel("_mkldnn_reshape")
def _mkldnn_reshape(self, shape):
    """The values in another shape, copied."""
    return clone(reshape(self, shape))


@kernel("_mkldnn_transpose")
def _mkldnn_transpose(self, dim0, dim1):
    """Two dimensions exchanged, copied."""
    return transpose(self, dim0, dim1).copy()


@kernel("to_mkldnn_backward")
def to_mkldnn_backward(grad, input):
    """The gradient in the dtype of the input."""
    return dt.cast(grad, input.dtype)


@kernel("_to_dense", like=np.copy)
def _to_dense(self, dtype=None, masked_grad=None):
    """A copy: the values are dense already (torch has code for it on other layouts only)."""
    return clone(self if dtype is None else dt.cast(self, dt.as_dtype(dtype)))


@kernel("_fused_dropout", differs=["half-opmath"])
def _fused_dropout(self, p, generator=None):
    """Each value over ``p`` with probability ``p``, else zero, and which were kept; the draws are those of the CPU."""
    kept = bernoulli_values(self.size, dt.uint8, p, generator).reshape(self.shape)
    return _masked_scale(self, kept, 1 / p if p else 0.0), kept
