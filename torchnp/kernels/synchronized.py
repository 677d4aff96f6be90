"""Batch norm in parts, for several processes together, and RMS norm's gradient: torch runs these on other devices only."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.kernels._reduction import add_reduce
from torchnp.kernels.batchnorm import channel_axes, channel_dot, channel_sum, per_channel
from torchnp.kernels.norm import inner
from torchnp.registry import kernel

ndarray = np.ndarray


@kernel("batch_norm_stats", differs=["half-opmath"])
def batch_norm_stats(input, eps):
    """Mean and reciprocal deviation of each channel; as on CUDA."""
    x = inner(input)
    n = x.dtype.type(x.size // x.shape[1])
    mean = channel_sum(x) / n
    d = x - per_channel(mean, x)
    return mean, 1 / np.sqrt(add_reduce(d * d, channel_axes(x)) / n + x.dtype.type(eps))


@kernel("batch_norm_elemt", differs=["half-opmath"])
def batch_norm_elemt(input, weight, bias, mean, invstd, eps):
    """Each channel less its mean, times its reciprocal deviation and weight, plus its bias; as on CUDA."""
    x = inner(input)
    y = (x - per_channel(inner(mean), x)) * per_channel(inner(invstd), x)
    y = y if weight is None else y * per_channel(inner(weight), x)
    y = y if bias is None else y + per_channel(inner(bias), x)
    return dt.cast(y, input.dtype)


@kernel("batch_norm_gather_stats_with_counts", differs=["half-opmath"])
def batch_norm_gather_stats_with_counts(
    input, mean, invstd, running_mean, running_var, momentum, eps, counts
):  # fmt: skip
    """The statistics of all processes from those of each, by their counts; moves the running ones; as on CUDA."""
    means, invstds, weights = inner(mean), inner(invstd), dt.cast(counts, dt.opmath(mean.dtype))[:, None]
    total = weights.sum()
    average = (means * weights).sum(0) / total
    squares = ((1 / (invstds * invstds) - means.dtype.type(eps)) * weights).sum(0)
    squares = squares + (weights * (means - average) ** 2).sum(0)
    for running, moved in ((running_mean, average), (running_var, squares / (total - 1))):
        if running is not None:  # written, as batch norm's are
            running[...] = dt.cast((1 - momentum) * inner(running) + momentum * moved, running.dtype)
    return average, 1 / np.sqrt(squares / total + means.dtype.type(eps))


@kernel("batch_norm_gather_stats", differs=["half-opmath"])
def batch_norm_gather_stats(input, mean, invstd, running_mean, running_var, momentum, eps, count):
    """`batch_norm_gather_stats_with_counts` for processes of one count."""
    counts = np.full(len(mean), count, mean.dtype)
    return batch_norm_gather_stats_with_counts(input, mean, invstd, running_mean, running_var, momentum, eps, counts)


@kernel("batch_norm_backward_reduce", differs=["half-opmath"])
def batch_norm_backward_reduce(grad_out, input, mean, invstd, weight, input_g, weight_g, bias_g):
    """One process's sums for the gradient: of grad_out, of it times the distance from the mean; as on CUDA."""
    grad, x = inner(grad_out), inner(input)
    total, along = channel_sum(grad), channel_dot(x - per_channel(inner(mean), x), grad)
    dtype = input.dtype if weight is None else weight.dtype
    of_weight = dt.cast(along * inner(invstd), dtype) if weight_g else None
    of_bias = dt.cast(total, dtype) if bias_g else None
    sums: tuple[Any, Any] = (total, along) if input_g else (None, None)
    return *sums, of_weight, of_bias


@kernel("batch_norm_backward_elemt", differs=["half-opmath"])
def batch_norm_backward_elemt(grad_out, input, mean, invstd, weight, sum_dy, sum_dy_xmu, count):
    """The gradient of `batch_norm_elemt` in its input, from the sums of all processes; as on CUDA."""
    grad, x, scale = inner(grad_out), inner(input), inner(invstd)
    n = dt.cast(count, x.dtype).sum()
    along = inner(sum_dy_xmu) / n * scale * scale
    d = x - per_channel(inner(mean), x)
    grad = grad - per_channel(inner(sum_dy) / n, x) - d * per_channel(along, x)
    factor = scale if weight is None else scale * inner(weight)
    return dt.cast(grad * per_channel(factor, x), input.dtype)


@kernel("_fused_rms_norm_backward", differs=["half-opmath"])
def _fused_rms_norm_backward(grad_out, input, normalized_shape, rstd, weight, output_mask):
    """Gradients of `_fused_rms_norm` in its input and weight."""
    grad, x, scale = inner(grad_out), inner(input), inner(rstd)
    axes = tuple(range(x.ndim - len(normalized_shape), x.ndim))
    weighted = grad if weight is None else grad * inner(weight)
    of_input = of_weight = None
    if output_mask[0]:
        n = x.dtype.type(np.prod(normalized_shape))
        mean = add_reduce(weighted * x, axes, True) / n
        of_input = dt.cast(scale * (weighted - x * (scale * scale) * mean), input.dtype)
    if output_mask[1] and weight is not None:
        leading = tuple(range(x.ndim - len(normalized_shape)))
        of_weight = dt.cast(add_reduce(grad * x * scale, leading), weight.dtype)
    return of_input, of_weight
