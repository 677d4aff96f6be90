"""Gradients of layer, group, batch, weight and root-mean-square normalisation."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, check_type, require
from torchnp.core.errors import expected_true, expected_type, found_dtype, negative_size
from torchnp.core.fast_path import exact
from torchnp.core.python_scalars import scalar
from torchnp.core.registry import kernel
from torchnp.core.target import since
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._reduction import add_reduce, row_dots, share_tiles
from torchnp.kernels.batchnorm import WIDE, channel_dot, channel_sum, is_channels, per_channel
from torchnp.kernels.normalization import channels_last, check_layer, inner, mixed
from torchnp.kernels.reduce import sum_dim
from torchnp.layout.apply import is_plain
from torchnp.thresholds import Threshold

ndarray = np.ndarray


def _like(value: ndarray, x: ndarray) -> ndarray:
    return dt.cast(value.reshape(x.shape), x.dtype)


def _normalised_gradient(
    grad: ndarray, x: ndarray, mean: ndarray, rstd: ndarray, start: float, weight: ndarray | None = None
) -> ndarray:
    """Return the gradient for the input ``x`` of a layer or group norm, given the gradient for its normalised values.

    The last two dimensions are one group. The weight is applied to the sums of rows, as in torch.
    """
    share = 1 / grad.dtype.type(grad.shape[-2] * grad.shape[-1])
    total, along = np.add.reduce(grad, -1, keepdims=True, initial=start), row_dots(grad, x)[..., None]
    scale = rstd
    if weight is not None:
        scale, total, along = rstd * weight, total * weight, along * weight
    if grad.shape[-2] > 1:
        total, along = (np.add.reduce(t, -2, keepdims=True, initial=start) for t in (total, along))
    slope = (total * mean - along) * rstd * rstd * rstd * share
    return scale * grad + slope * x + (-slope * mean - total * rstd * share)


_add: Any = np.add.reduce
_FEW: Threshold = 1 << 12  # up to this many elements, NumPy's call overhead outweighs the computation


def _quick_layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask):
    """Return the full kernel's result, bit for bit, for few dense float32 rows with weight and bias; else None."""
    given = (grad_out, input, mean, rstd, weight, bias)
    if not all(type(x) is ndarray and x.dtype is dt.float32 and is_plain(x) for x in given) or input.size > _FEW:
        return None
    if type(normalized_shape) not in (list, tuple) or type(output_mask) not in (list, tuple):
        return None
    shape, before = tuple(normalized_shape), input.ndim - len(normalized_shape)
    kept = (*input.shape[:before], *(1,) * len(shape))
    if not shape or before < 0 or not input.shape[before:] == shape == weight.shape == bias.shape:
        return None
    if grad_out.shape != input.shape or not mean.shape == rstd.shape == kept or [*output_mask] != [True] * 3:
        return None
    n = weight.size
    g, x, mean, rstd = grad_out.reshape(-1, n), input.reshape(-1, n), mean.reshape(-1, 1), rstd.reshape(-1, 1)
    share, y = scalar(1 / np.float32(n), dt.float32), np.multiply(g, weight.reshape(-1))
    total, along = _add(y, -1, None, None, True, -0.0), np.vecdot(y, x)[:, None]
    slope = (total * mean - along) * rstd * rstd * rstd * share
    np.multiply(rstd, y, y)
    np.add(y, np.multiply(slope, x), y)
    np.add(y, -slope * mean - total * rstd * share, y)
    z = np.subtract(x, mean)
    np.multiply(z, rstd, z)
    np.multiply(g, z, z)
    return y.reshape(input.shape), add_reduce(z, (0,)).reshape(shape), add_reduce(g, (0,)).reshape(shape)


@kernel("native_layer_norm_backward", differs=["half-opmath"], quick=exact(_quick_layer_norm_backward, placed=True))
def native_layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask):
    """Gradients of `native_layer_norm` with respect to input, weight and bias."""
    n = check_layer(input, normalized_shape, weight, bias)
    check(not output_mask[1] or weight is not None, "tensor does not have a device")
    check(not output_mask[2] or bias is not None, "tensor does not have a device")
    if input.size == 0:
        both = zip((input, weight, bias), output_mask, strict=True)
        return tuple(np.zeros(t.shape, t.dtype) if wanted else None for t, wanted in both)
    require("LayerNormBackwardKernelImpl", input.dtype, dt.FLOATS)
    check_type(input.dtype, grad_out)
    wide = dt.is_half(input.dtype) and weight is not None and weight.dtype == dt.float32
    check_type(dt.float32 if wide else input.dtype, mean, rstd, weight, bias if output_mask[2] else None)
    x, grad = inner(input).reshape(-1, n), inner(grad_out).reshape(-1, n)
    centre, inverse = inner(mean).reshape(-1, 1), inner(rstd).reshape(-1, 1)
    factors = None if weight is None else inner(weight).reshape(-1)
    found = np.empty_like(x) if output_mask[0] else None
    sums: dict[int, tuple[ndarray | None, ndarray | None]] = {}  # each block's sums; the key is its first row

    def back(block: slice) -> None:
        g, row, middle, scale = grad[block], x[block], centre[block], inverse[block]
        if found is not None:
            scaled = g if factors is None else g * factors
            found[block] = _normalised_gradient(scaled[:, None], row[:, None], middle[:, None], scale[:, None], -0.0)[
                :, 0
            ]
        of_weight = _sum_of_rows(g * ((row - middle) * scale), input.dtype) if output_mask[1] else None
        sums[block.start] = of_weight, _sum_of_rows(g, input.dtype) if output_mask[2] else None

    if input.dtype in dt.HALVES:  # their sums are rounded row by row
        back(slice(0, len(x)))
    else:
        share_tiles(back, *x.shape)
    weights, biases = zip(*(sums[start] for start in sorted(sums)))
    return (
        None if found is None else _like(found, input),
        _like(functools.reduce(np.add, weights), weight) if output_mask[1] else None,
        _like(functools.reduce(np.add, biases), bias) if output_mask[2] else None,
    )


def _sum_of_rows(rows: ndarray, dtype: np.dtype) -> ndarray:
    if dtype not in dt.HALVES:
        return add_reduce(rows, (0,))
    total = np.zeros(rows.shape[1], dtype)  # torch's running sums have the input's dtype
    for row in rows:
        total = dt.cast(dt.cast(total, rows.dtype) + row, dtype)
    return total


@kernel("native_group_norm_backward", differs=["half-opmath"])
def native_group_norm_backward(grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask):
    """Gradients of `native_group_norm` with respect to input, weight and bias."""
    check(grad_out.dtype == input.dtype, "Expected scalar types of X and dY are same.")
    mixed(input, mean, rstd)
    told = weight is not None or since("2.14")
    check(not (output_mask[1] or output_mask[2]) or told, "tensor does not have a device")
    if since("2.14"):
        check(C >= 0 or not (output_mask[1] or output_mask[2]), negative_size(C, (C,)))
        if not N:
            of_input = np.zeros(input.shape, input.dtype) if output_mask[0] else None
            return of_input, *(np.zeros(C, input.dtype) if asked else None for asked in output_mask[1:])
    if input.size:
        require("GroupNormBackwardKernelImpl", input.dtype, dt.FLOATS)
    for name, a in (("dY", grad_out), ("X", input)):
        check(a.size == N * C * HxW, expected_true(f"{name}.numel() == N * C * HxW"))
    for name, a in (("mean", mean), ("rstd", rstd)):
        check(a.size == N * group, expected_true(f"{name}.numel() == N * group"))
    check(weight is None or weight.size == C, expected_true("!gamma.defined() || gamma.numel() == C"))
    if input.size:
        check_type(mean.dtype, rstd, weight)
    x, grad = inner(input).reshape(N * group, C // max(group, 1) * HxW), inner(grad_out).reshape(N, C, HxW)
    centre, inverse = inner(mean).reshape(-1, 1), inner(rstd).reshape(-1, 1)
    xhat = (x - centre) * inverse
    like_weight = weight
    if since("2.14"):
        like_weight = np.empty(C, input.dtype if weight is None else weight.dtype)
    grad_input = grad_weight = grad_bias = None
    if output_mask[0]:
        found = grad
        if input.size:
            matrices, numbers = (N, group, -1, HxW), (N, group, 1, 1)
            gamma = None if weight is None else inner(weight).reshape(group, -1, 1)
            found = _normalised_gradient(
                grad.reshape(matrices),
                x.reshape(matrices),
                centre.reshape(numbers),
                inverse.reshape(numbers),
                0.0,
                gamma,
            )
        grad_input = _like(found, input)
    if output_mask[1]:
        grad_weight = _like(channel_dot(grad, xhat.reshape(N, C, HxW)), like_weight)
    if output_mask[2]:
        grad_bias = _like(channel_sum(grad), like_weight)
    return grad_input, grad_weight, grad_bias


def _quick_batch_norm_backward(
    grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask
):
    """Return the full kernel's result, bit for bit, for dense float32 with weight in training mode; else None."""
    if train is not True:
        return None
    if type(output_mask) not in (list, tuple) or [*output_mask] != [True] * 3 or type(grad_out) is not ndarray:
        return None
    running = [p for p in (running_mean, running_var) if p is not None]
    if not is_channels(input, weight, save_mean, save_invstd, *running) or grad_out.dtype is not dt.float32:
        return None
    if grad_out.shape != input.shape or not is_plain(grad_out):
        return None
    channels, n = (-1, *(1,) * (input.ndim - 2)), scalar(input.size // input.shape[1], dt.float32)
    d, wide = np.subtract(input, save_mean.reshape(channels)), grad_out.astype(np.float64)
    total = channel_sum(wide).astype(np.float32)
    along = np.multiply(channel_dot(d.astype(np.float64), wide), save_invstd).astype(np.float32)
    np.multiply(d, (along * save_invstd / n).reshape(channels), d)
    grad = np.subtract(grad_out, (total / n).reshape(channels))
    np.subtract(grad, d, grad)
    np.multiply(grad, save_invstd.reshape(channels), grad)
    np.multiply(grad, weight.reshape(channels), grad)
    return grad, along, total


@kernel("native_batch_norm_backward", differs=["half-opmath"], quick=exact(_quick_batch_norm_backward, placed=True))
def native_batch_norm_backward(
    grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask
):
    """Gradients of `native_batch_norm` with respect to input, weight and bias."""
    require("batch_norm_backward_cpu", input.dtype, dt.FLOATS)
    _check_dtypes(grad_out, input, weight, save_mean, save_invstd, running_mean, running_var)
    x, grad = inner(input), inner(grad_out)
    kind = x.dtype.type
    if train:
        mean, invstd = inner(save_mean), inner(save_invstd)
    else:
        mean, invstd = inner(running_mean), 1 / np.sqrt(inner(running_var) + kind(eps))
    parameter = next((p.dtype for p in (weight, save_mean, running_mean) if p is not None), input.dtype)
    dense = _dense(grad_out, input)
    # If the memory is not dense, torch rounds each step to the dtype of its operands.
    step = _same if dense else functools.partial(_kept, dtype=input.dtype)
    both = step if parameter == input.dtype else _same
    d = both(x - per_channel(mean, x))
    if grad.size > WIDE:
        total, products = channel_sum(grad), channel_dot(d, grad)
    else:  # torch adds in double precision
        total = channel_sum(grad.astype(np.float64)).astype(kind)
        products = (
            channel_sum(both(d * grad).astype(np.float64))
            if dt.is_half(parameter) and not dense
            else (channel_dot(d.astype(np.float64), grad.astype(np.float64)))
        )
    along = (products * invstd).astype(kind)
    total = total if input.dtype == dt.float16 else step(total)  # torch sums float16 in float32
    grad_input = None
    if output_mask[0]:
        if train:
            n = kind(input.size // input.shape[1])
            slope = along * invstd / n
            if not dense:
                slope = step(both(both(step(products.astype(kind)) * invstd) * invstd) / n)
            grad = step(step(grad - per_channel(step(total / n), x)) - step(d * per_channel(slope, x)))
        grad = both(grad * per_channel(invstd, x))
        if weight is not None:
            grad = grad * per_channel(inner(weight), x)
        grad_input = dt.cast(grad, input.dtype)
    grad_weight = dt.cast(along, parameter) if output_mask[1] else None
    grad_bias = dt.cast(total, parameter) if output_mask[2] else None
    return grad_input, grad_weight, grad_bias


def _dense(grad: ndarray, x: ndarray) -> bool:
    """Return whether torch takes its loops for dense memory: both tensors are dense in the same order."""
    if x.flags.c_contiguous and grad.flags.c_contiguous:
        return True
    return x.ndim in (4, 5) and channels_last(x) and channels_last(grad)


def _same(x: ndarray) -> ndarray:
    return x


def _kept(x: ndarray, dtype: np.dtype) -> ndarray:
    """Round to ``dtype``, in which torch stores this intermediate result, and return it in the dtype of ``x``."""
    return dt.cast(dt.cast(x, dtype), x.dtype)


def _check_dtypes(grad: ndarray, x: ndarray, weight: Any, *statistics: Any) -> None:
    """Raise torch's error for dtypes that it does not mix; if not dense, torch sums the gradients before the check."""
    held = dt.float32 if mixed(x, weight, *statistics[2:], *statistics[:2]) else x.dtype
    if _dense(grad, x):
        check_type(x.dtype, grad)
        check_type(held, *statistics)
        return
    check_type(held, *statistics)
    if grad.dtype != x.dtype:
        total, own = sum_dim(grad, (0, *range(2, grad.ndim))).dtype, x.dtype
        total, own = (dt.float32 if kind == dt.float16 else kind for kind in (total, own))  # float16 sums are float32
        raise expected_type(own, total) if total != own else found_dtype(grad.dtype, x.dtype)


_DOC = "`native_batch_norm_backward`; the reserve buffer, for other devices, is ignored."
rows("batch_norm_backward", lambda *args: native_batch_norm_backward(*args[:10]), _DOC, differs=["half-opmath"])


@kernel("_weight_norm_interface_backward", differs=["half-opmath"])
def _weight_norm_interface_backward(grad_w, saved_v, saved_g, saved_norms, dim):
    """Gradients of `_weight_norm_interface` with respect to v and g."""
    for name, x in (("saved_v", saved_v), ("saved_g", saved_g), ("saved_norm", saved_norms)):
        check(x.flags.c_contiguous, f"{name} must be contiguous")
    require("weight_norm_backward_kernel", saved_v.dtype, dt.FLOATS)
    check_type(saved_v.dtype, grad_w, saved_g)
    check_type(dt.opmath(saved_v.dtype), saved_norms)
    v, grad, g, norms = inner(saved_v), inner(grad_w), inner(saved_g), inner(saved_norms)
    axes = tuple(i for i in range(v.ndim) if i != dim % v.ndim)
    along = np.add.reduce(grad * v, axes, keepdims=True, initial=-0.0 if v.size else 0)
    scale = g / norms
    grad_v = scale * grad - scale * along / (norms * norms) * v
    return dt.cast(grad_v, saved_v.dtype), dt.cast(along / norms, saved_g.dtype)


@kernel("_fused_rms_norm_backward", differs=["half-opmath"])
def _fused_rms_norm_backward(grad_out, input, normalized_shape, rstd, weight, output_mask):
    """Gradients of `_fused_rms_norm` with respect to input and weight; torch has them on other devices only."""
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
