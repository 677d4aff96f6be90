"""Batch and instance normalisation, with running statistics."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.checks import check, not_implemented, shape_text, wrap_dim
from torchnp.kernels._reduction import add_reduce
from torchnp.kernels.norm import check_kernel, inner, mixed, with_layout
from torchnp.registry import kernel

ndarray = np.ndarray

WIDE = 1 << 16  # up to this many elements the statistics are summed in float64; beyond, speed counts

# ---------------------------------------------------------------- per-channel sums


def channel_axes(x: ndarray) -> tuple[int, ...]:
    return (0, *range(2, x.ndim))


def per_channel(v: ndarray, x: ndarray) -> ndarray:
    """A vector over channels, shaped to broadcast against ``x``."""
    return v.reshape(-1, *(1,) * (x.ndim - 2))


def channel_sum(x: ndarray) -> ndarray:
    return add_reduce(x, channel_axes(x))


def channel_dot(x: ndarray, y: ndarray) -> ndarray:
    """Sum of products over everything but the channels."""
    if x.ndim == 2:
        return add_reduce(x * y, (0,))
    pixels = math.prod(x.shape[2:])
    return add_reduce(np.vecdot(x.reshape(*x.shape[:2], pixels), y.reshape(*y.shape[:2], pixels)), (0,))


# ---------------------------------------------------------------- forward


def _check(x: ndarray, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool) -> np.dtype:
    """Check the arguments; the dtype of the statistics."""
    wrap_dim(1, x.ndim)
    if (running_mean is None) != (running_var is None):
        raise ValueError("running_mean and running_var must either both be None or neither be None")
    if x.dtype not in dt.FLOATS:
        raise not_implemented("batch_norm", x.dtype)
    stats = dt.float32 if mixed(x, weight, bias, running_mean, running_var) else x.dtype
    check_kernel("batch_norm", x, weight, bias, running_mean, running_var)
    for name, p in (("running_mean", running_mean), ("running_var", running_var), ("weight", weight), ("bias", bias)):
        if p is not None and p.size != x.shape[1]:
            raise RuntimeError(f"{name} should contain {x.shape[1]} elements not {p.size}")
    if not training:
        check(running_mean is not None, "running_mean and running_var must be defined in evaluation mode")
    elif x.size == 0:
        raise RuntimeError(f"input tensor must have at least one element, but got input_sizes = {shape_text(x.shape)}")
    return stats


def batch_norm_values(
    x: ndarray,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[ndarray, ndarray, ndarray, Any, Any]:
    """Output, saved mean and 1 / deviation, and what the running statistics become."""
    stats = _check(x, weight, bias, running_mean, running_var, training)
    value = inner(x)
    kind = value.dtype.type
    if training:
        n = x.size // x.shape[1]
        # torch sums in double, and keeps the mean and the sum of squares in the dtype of the statistics.
        wide = value.astype(np.float64) if value.size <= WIDE else value
        mean = channel_sum(wide) / wide.dtype.type(n)
        d = wide - per_channel(mean, x)
        squares = inner(dt.cast(channel_dot(d, d), stats)).astype(np.float64)
        saved_mean = dt.cast(mean, stats)
        invstd = dt.cast(1 / np.sqrt(squares / n + eps), stats)
        saved = (saved_mean, invstd)
        mean, invstd = inner(saved_mean).astype(kind), inner(invstd).astype(kind)
        d = value - per_channel(mean, x)
        if running_mean is not None:
            # The running variance is the unbiased one, and NaN for a single value.
            running_mean = _moved(running_mean, mean, momentum)
            running_var = _moved(running_var, squares / np.float64(n - 1), momentum)
    else:
        mean, invstd = inner(running_mean), 1 / np.sqrt(inner(running_var) + kind(eps))
        saved = (np.empty(0, stats), np.empty(0, stats))
        d = value.astype(np.float64 if value.size <= WIDE else kind)  # torch multiplies and adds with one rounding
    scale = invstd if weight is None else invstd * inner(weight)
    shift = inner(bias) if bias is not None else None
    if not training:
        scale, mean = scale.astype(d.dtype), mean.astype(d.dtype)
        shift = ((0 if shift is None else shift) - mean * scale).astype(kind)
    np.multiply(d, per_channel(scale, x), d)
    if shift is not None:
        np.add(d, per_channel(shift, x), d)
    return with_layout(dt.cast(d, x.dtype), x), *saved, running_mean, running_var


def _moved(running: ndarray, new: ndarray, momentum: float) -> ndarray:
    old = inner(running).astype(np.float64)
    return dt.cast((1 - momentum) * old + momentum * new, running.dtype)


@kernel("native_batch_norm", differs=["half-opmath"])
def native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps):
    """Channels less their mean over their standard deviation; writes the running statistics in training."""
    *out, new_mean, new_var = batch_norm_values(input, weight, bias, running_mean, running_var, training, momentum, eps)
    # The schema does not say so, but torch updates the running statistics in place.
    if training and running_mean is not None:
        running_mean[...], running_var[...] = new_mean, new_var
    return tuple(out)


@kernel("_native_batch_norm_legit_functional", differs=["half-opmath"])
def _native_batch_norm_legit_functional(input, weight, bias, running_mean, running_var, training, momentum, eps):
    """`native_batch_norm` that returns the new running statistics."""
    found = batch_norm_values(input, weight, bias, running_mean, running_var, training, momentum, eps)
    return found if training else (*found[:3], running_mean.copy(), running_var.copy())


@kernel("_native_batch_norm_legit.no_stats", differs=["half-opmath"])
def _native_batch_norm_legit_no_stats(input, weight, bias, training, momentum, eps):
    """`native_batch_norm` without running statistics."""
    return batch_norm_values(input, weight, bias, None, None, training, momentum, eps)[:3]


@kernel("_native_batch_norm_legit_no_training", differs=["half-opmath"])
def _native_batch_norm_legit_no_training(input, weight, bias, running_mean, running_var, momentum, eps):
    """`native_batch_norm` with the running statistics as they are."""
    return batch_norm_values(input, weight, bias, running_mean, running_var, False, momentum, eps)[:3]


_RESERVE = np.empty(0, np.uint8)


@kernel("_batch_norm_with_update_functional", differs=["half-opmath"])
def _batch_norm_with_update_functional(input, weight, bias, running_mean, running_var, momentum, eps):
    """Training-mode batch norm that returns the new running statistics; the reserve is for other devices."""
    out, mean, invstd, *running = batch_norm_values(input, weight, bias, running_mean, running_var, True, momentum, eps)
    return out, mean, invstd, _RESERVE.copy(), *running


@kernel("_batch_norm_no_update", differs=["half-opmath"])
def _batch_norm_no_update(input, weight, bias, running_mean, running_var, momentum, eps):
    """Evaluation-mode batch norm; the reserve is for other devices."""
    found = batch_norm_values(input, weight, bias, running_mean, running_var, False, momentum, eps)
    return *found[:3], _RESERVE.copy()


@kernel("batch_norm_update_stats", differs=["half-opmath"])
def batch_norm_update_stats(input, running_mean, running_var, momentum):
    """Means and biased variances of the channels; writes the running statistics."""
    both = running_mean is not None and running_var is not None  # torch leaves one alone as it is
    stats = _check(input, None, None, *((running_mean, running_var) if both else (None, None)), True)
    stats = dt.float32 if mixed(input, running_mean, running_var) else stats
    value = inner(input)
    wide = value.astype(np.float64) if value.size <= WIDE else value
    n = input.size // input.shape[1]
    mean = channel_sum(wide) / wide.dtype.type(n)
    d = wide - per_channel(mean, input)
    squares = channel_dot(d, d)
    if both:
        running_mean[...] = _moved(running_mean, dt.cast(mean, value.dtype), momentum)
        running_var[...] = _moved(running_var, squares / wide.dtype.type(n - 1), momentum)
    return dt.cast(mean, stats), dt.cast(squares / wide.dtype.type(n), stats)


# ---------------------------------------------------------------- composites


def _accumulator(dtype: np.dtype) -> np.dtype:
    """torch's accumulate type on CPU: float32 for half types, double and int64 for the others."""
    if dt.is_complex(dtype):
        return dt.complex128
    if dt.is_floating(dtype):
        return dt.float64 if dtype == dt.float32 else dt.opmath(dtype)
    return dt.int64 if dt.is_integral(dtype) else dtype


@kernel("_batch_norm_impl_index", differs=["half-opmath"])
def _batch_norm_impl_index(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled):
    """`native_batch_norm` with shapes checked; the reserve and the number say which device code ran."""
    wrap_dim(1, input.ndim)
    channels = input.shape[1]
    if input.size == 0:
        out = input.copy()
        for p in (weight, bias):
            if p is not None and p.size:
                out = out * p[0] if p is weight else out + p[0]
        wide = np.zeros(channels, _accumulator(input.dtype))
        return out, wide, wide.copy(), _RESERVE.copy(), 0
    named = (("running_mean", running_mean), ("running_var", running_var), ("weight", weight), ("bias", bias))
    for name, p in named[:2]:
        check(training or p is not None, f"{name} must be defined in evaluation mode")
    for name, p in named:
        if p is not None and p.size != channels:
            raise RuntimeError(f"{name} should contain {channels} elements not {p.size}")
    out = native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)
    return *out, _RESERVE.copy(), 0


@kernel("batch_norm", differs=["half-opmath"])
def batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled):
    """Batch normalisation; writes the running statistics in training."""
    return _batch_norm_impl_index(
        input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled
    )[0]


@kernel("instance_norm", differs=["half-opmath"])
def instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled):
    """Batch normalisation of each sample on its own; the running statistics take the mean over samples."""
    check(
        use_input_stats or (running_mean is not None and running_var is not None),
        "Expected running_mean and running_var to be defined when use_input_stats is false",
    )
    wrap_dim(1, input.ndim)
    n, channels = input.shape[:2]

    def repeated(p: ndarray | None) -> ndarray | None:
        return None if p is None else np.tile(p, n)

    means, variances = repeated(running_mean), repeated(running_var)
    out = batch_norm(
        np.ascontiguousarray(input).reshape(1, n * channels, *input.shape[2:]),
        repeated(weight), repeated(bias), means, variances, use_input_stats, momentum, eps, cudnn_enabled,
    )  # fmt: skip
    # As in native_batch_norm, torch writes the running statistics though the schema does not say so.
    for running, new in ((running_mean, means), (running_var, variances)):
        if running is not None:
            running[...] = dt.cast(inner(new).reshape(n, channels).mean(0), running.dtype)
    return out.reshape(input.shape)
