"""Convolutions, normalizations and pools under the names of vendors' libraries, as graphs that were captured there have them.

torch's CPU has no code for these names on plain tensors. What they compute is plain: the values are those of the ops
that they stand for, and what only concerns the library (benchmarks, reserved memory) has no effect.
"""

from __future__ import annotations

import numpy as np

from torchnp import dtypes as dt
from torchnp.kernels._rows import rows
from torchnp.kernels.activation import relu
from torchnp.kernels.arithmetic import add
from torchnp.kernels.backward.conv import convolution_backward
from torchnp.kernels.backward.grid import grid_sampler_2d_backward
from torchnp.kernels.backward.norm import native_batch_norm_backward
from torchnp.kernels.batchnorm import native_batch_norm
from torchnp.kernels.conv import convolution
from torchnp.kernels.copy import clone
from torchnp.kernels.grid import affine_grid_generator, affine_grid_generator_backward, grid_sampler_2d
from torchnp.registry import kernel

ndarray = np.ndarray
_DIFFERS = ("half-opmath",)

# ---------------------------------------------------------------- convolutions


@kernel("cudnn_convolution", differs=_DIFFERS)
def cudnn_convolution(self, weight, padding, stride, dilation, groups, benchmark, deterministic, allow_tf32):
    """`convolution` without a bias."""
    return convolution(self, weight, None, stride, padding, dilation, False, [0], groups)


@kernel("cudnn_convolution_transpose", differs=_DIFFERS)
def cudnn_convolution_transpose(
    self, weight, padding, output_padding, stride, dilation, groups, benchmark, deterministic, allow_tf32
):
    """Transposed `convolution` without a bias."""
    return convolution(self, weight, None, stride, padding, dilation, True, output_padding, groups)


@kernel("miopen_convolution", "miopen_depthwise_convolution", differs=_DIFFERS)
def miopen_convolution(self, weight, bias, padding, stride, dilation, groups, benchmark, deterministic):
    """`convolution`."""
    return convolution(self, weight, bias, stride, padding, dilation, False, [0], groups)


@kernel("miopen_convolution_transpose", differs=_DIFFERS)
def miopen_convolution_transpose(
    self, weight, bias, padding, output_padding, stride, dilation, groups, benchmark, deterministic
):
    """Transposed `convolution`."""
    return convolution(self, weight, bias, stride, padding, dilation, True, output_padding, groups)


@kernel("_mps_convolution", differs=_DIFFERS)
def _mps_convolution(self, weight, bias, padding, stride, dilation, groups):
    """`convolution`."""
    return convolution(self, weight, bias, stride, padding, dilation, False, [0], groups)


@kernel("_mps_convolution_transpose", differs=_DIFFERS)
def _mps_convolution_transpose(self, weight, padding, output_padding, stride, dilation, groups):
    """Transposed `convolution` without a bias."""
    return convolution(self, weight, None, stride, padding, dilation, True, output_padding, groups)


@kernel("mps_convolution_backward", differs=_DIFFERS)
def mps_convolution_backward(self, grad_output, weight, padding, stride, dilation, groups, output_mask):
    """`convolution_backward`."""
    options = (stride, padding, dilation, False, [0], groups, output_mask)
    return convolution_backward(grad_output, self, weight, [weight.shape[0]], *options)


@kernel("mps_convolution_transpose_backward", differs=_DIFFERS)
def mps_convolution_transpose_backward(
    self, grad_output, weight, padding, output_padding, stride, dilation, groups, output_mask
):
    """`convolution_backward` of a transposed convolution without a bias."""
    options = (stride, padding, dilation, True, output_padding, groups, [*output_mask, False])
    return convolution_backward(grad_output, self, weight, None, *options)[:2]


@kernel("cudnn_convolution_relu", "miopen_convolution_relu", differs=_DIFFERS)
def cudnn_convolution_relu(self, weight, bias, stride, padding, dilation, groups):
    """`convolution` followed by relu."""
    return relu(convolution(self, weight, bias, stride, padding, dilation, False, [0], groups))


@kernel("cudnn_convolution_add_relu", "miopen_convolution_add_relu", differs=_DIFFERS)
def cudnn_convolution_add_relu(self, weight, z, alpha, bias, stride, padding, dilation, groups):
    """relu(`convolution` + alpha * z)."""
    out = convolution(self, weight, bias, stride, padding, dilation, False, [0], groups)
    return relu(add(out, z, alpha=1 if alpha is None else alpha))


# ---------------------------------------------------------------- batch normalization


@kernel("miopen_batch_norm", differs=_DIFFERS)
def miopen_batch_norm(
    input, weight, bias, running_mean, running_var, training, exponential_average_factor, epsilon
):  # fmt: skip
    """`native_batch_norm`."""
    statistics = (running_mean, running_var)
    return native_batch_norm(input, weight, bias, *statistics, training, exponential_average_factor, epsilon)


@kernel("cudnn_batch_norm", differs=_DIFFERS)
def cudnn_batch_norm(input, weight, bias, running_mean, running_var, training, exponential_average_factor, epsilon):
    """`native_batch_norm`, and no reserved memory."""
    options = (training, exponential_average_factor, epsilon)
    out = miopen_batch_norm(input, weight, bias, running_mean, running_var, *options)
    return *out, np.empty(0, np.uint8)


@kernel("miopen_batch_norm_backward", differs=_DIFFERS)
def miopen_batch_norm_backward(
    input, grad_output, weight, running_mean, running_var, save_mean, save_var, epsilon
):  # fmt: skip
    """`native_batch_norm_backward` of training."""
    statistics = (running_mean, running_var, save_mean, save_var)
    return native_batch_norm_backward(grad_output, input, weight, *statistics, True, epsilon, [True, True, True])


@kernel("cudnn_batch_norm_backward", differs=_DIFFERS)
def cudnn_batch_norm_backward(
    input, grad_output, weight, running_mean, running_var, save_mean, save_var, epsilon, reserveSpace
):  # fmt: skip
    """`native_batch_norm_backward` of training."""
    saved = (save_mean, save_var, epsilon)
    return miopen_batch_norm_backward(input, grad_output, weight, running_mean, running_var, *saved)


# ---------------------------------------------------------------- sampling grids


@kernel("cudnn_affine_grid_generator")
def cudnn_affine_grid_generator(theta, N, C, H, W):
    """`affine_grid_generator` with aligned corners."""
    return affine_grid_generator(theta, [N, C, H, W], True)


@kernel("cudnn_affine_grid_generator_backward")
def cudnn_affine_grid_generator_backward(grad, N, C, H, W):
    """`affine_grid_generator_backward` with aligned corners."""
    return affine_grid_generator_backward(grad, [N, C, H, W], True)


@kernel("cudnn_grid_sampler")
def cudnn_grid_sampler(self, grid):
    """`grid_sampler_2d` between four neighbours, zero outside, with aligned corners."""
    return grid_sampler_2d(self, grid, 0, 0, True)


@kernel("cudnn_grid_sampler_backward")
def cudnn_grid_sampler_backward(self, grid, grad_output):
    """`grid_sampler_2d_backward` between four neighbours, zero outside, with aligned corners."""
    return grid_sampler_2d_backward(grad_output, self, grid, 0, 0, True, [True, True])


# ---------------------------------------------------------------- dropout's mask


@kernel("_masked_scale")
def _masked_scale(self, mask, scale):
    """self * mask * scale: dropout's gradient."""
    inner = dt.opmath(self.dtype)
    return dt.cast(dt.cast(self, inner) * dt.cast(mask, inner) * inner.type(scale), self.dtype)


_PLAIN = "The weight, in plain order."
rows("mkldnn_reorder_conv2d_weight mkldnn_reorder_conv3d_weight", lambda self, *options: clone(self), _PLAIN)
