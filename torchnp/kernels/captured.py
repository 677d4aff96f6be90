"""Convolutions, normalizations and pools under the names of vendors' libraries, as graphs that were captured there have them.

torch's CPU has no code for these names on plain tensors. What they compute is plain: the values are those of the ops
that they stand for, and what only concerns the library (benchmarks, reserved memory) has no effect.
"""

from __future__ import annotations

from typing import Any

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

_PLAIN = {"by_name": True, "transposed": False, "output_padding": [0], "differs": _DIFFERS}
_TRANSPOSED = {"by_name": True, "transposed": True, "differs": _DIFFERS}
rows("cudnn_convolution", convolution, "`convolution` without a bias.", bias=None, **_PLAIN)
rows("miopen_convolution miopen_depthwise_convolution _mps_convolution", convolution, "`convolution`.", **_PLAIN)
rows(
    "cudnn_convolution_transpose _mps_convolution_transpose", convolution, "Transposed `convolution` without a bias.",
    bias=None, **_TRANSPOSED,
)  # fmt: skip
rows("miopen_convolution_transpose", convolution, "Transposed `convolution`.", **_TRANSPOSED)


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

rows("miopen_batch_norm", native_batch_norm, "`native_batch_norm`.", differs=_DIFFERS)


@kernel("cudnn_batch_norm", differs=_DIFFERS)
def cudnn_batch_norm(input, weight, bias, running_mean, running_var, training, exponential_average_factor, epsilon):
    """`native_batch_norm`, and no reserved memory."""
    options = (training, exponential_average_factor, epsilon)
    return *native_batch_norm(input, weight, bias, running_mean, running_var, *options), np.empty(0, np.uint8)


def _backward(
    x: ndarray, grad: ndarray, weight: Any, mean: Any, var: Any, s_mean: Any, s_var: Any, eps: float, *_: Any
):
    return native_batch_norm_backward(grad, x, weight, mean, var, s_mean, s_var, True, eps, [True, True, True])


_OF_TRAINING = "`native_batch_norm_backward` of training."
rows("miopen_batch_norm_backward cudnn_batch_norm_backward", _backward, _OF_TRAINING, differs=_DIFFERS)

# ---------------------------------------------------------------- sampling grids

rows(
    "cudnn_affine_grid_generator", lambda theta, *size: affine_grid_generator(theta, size, True),
    "`affine_grid_generator` with aligned corners.",
)  # fmt: skip
rows(
    "cudnn_affine_grid_generator_backward", lambda grad, *size: affine_grid_generator_backward(grad, size, True),
    "`affine_grid_generator_backward` with aligned corners.",
)  # fmt: skip
_CORNERS = {"by_name": True, "interpolation_mode": 0, "padding_mode": 0, "align_corners": True}
_FOUR = "between four neighbours, zero outside, with aligned corners."
rows("cudnn_grid_sampler", grid_sampler_2d, f"`grid_sampler_2d` {_FOUR}", **_CORNERS)
rows(
    "cudnn_grid_sampler_backward", grid_sampler_2d_backward, f"`grid_sampler_2d_backward` {_FOUR}",
    output_mask=[True, True], **_CORNERS,
)  # fmt: skip


# ---------------------------------------------------------------- dropout's mask


@kernel("_masked_scale")
def _masked_scale(self, mask, scale):
    """self * mask * scale: dropout's gradient."""
    inner = dt.opmath(self.dtype)
    return dt.cast(dt.cast(self, inner) * dt.cast(mask, inner) * inner.type(scale), self.dtype)


_ORDER = "The weight, in plain order."
rows("mkldnn_reorder_conv2d_weight mkldnn_reorder_conv3d_weight", lambda self, *options: clone(self), _ORDER)
