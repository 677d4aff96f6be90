"""Fake quantization: values rounded to what a quantized tensor holds, and its gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.checks import check, wrap_dim
from torchnp.errors import expected_true, not_implemented
from torchnp.kernels._memory import empty_in_order, like_order
from torchnp.kernels._rows import rows
from torchnp.kernels.arithmetic import mul
from torchnp.kernels.copy import clone
from torchnp.kernels.reduce import sum_all, sum_dim
from torchnp.kernels.shape import item
from torchnp.kernels.slicing import select
from torchnp.registry import kernel

ndarray = np.ndarray
one = np.float32

_ORDERED = "`quant_min` should be less than or         equal to `quant_max`."
_BETWEEN = "`zero_point` must be between `quant_min` and `quant_max`."


def _like(x: ndarray, value: Any, dtype: np.dtype) -> ndarray:
    """A value in the memory that ``empty_like(x)`` has."""
    out = empty_in_order(x.shape, dtype, like_order(x, None))
    out[...] = value
    return out


def _whole(x: ndarray) -> ndarray:
    """As int64; where it does not fit, the smallest, which is what processors give."""
    fits = np.abs(x) < 2.0**63
    return np.where(fits, x, 0).astype(np.int64) + np.where(fits, 0, np.int64(-(2**63)))


# ---------------------------------------------------------------- one scale


def _faked(x: ndarray, scale: Any, zero_point: int, low: int, high: int) -> tuple[ndarray, ndarray]:
    if x.dtype not in dt.FLOATS:
        raise not_implemented("fake_quantize_tensor_cachemask_kernel_type_handling", x.dtype)
    scale = one(scale)
    wide = dt.cast(x, dt.opmath(x.dtype))
    found = wide.dtype.type(zero_point) + np.rint(wide * (one(1) / scale))
    held = _whole(np.fmin(np.fmax(found.astype(np.float64), low), high))
    values = (held - zero_point).astype(np.float32) * scale
    kind = found.dtype.type
    mask = (kind(low) <= found) & (found <= kind(high))
    return _like(x, dt.cast(values, x.dtype), x.dtype), _like(x, mask, dt.bool_)


@kernel("fake_quantize_per_tensor_affine_cachemask")
def fake_quantize_per_tensor_affine_cachemask(self, scale, zero_point, quant_min, quant_max):
    """Values rounded to multiples of ``scale`` within the range, and where they were within it."""
    check(quant_min <= quant_max, _ORDERED)
    check(quant_min <= zero_point <= quant_max, _BETWEEN)
    return _faked(self, scale, zero_point, quant_min, quant_max)


_DOC = "Values rounded to multiples of ``scale`` within the range."
rows("fake_quantize_per_tensor_affine", fake_quantize_per_tensor_affine_cachemask, _DOC, part=0)


@kernel("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams")
def _fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
    self, scale, zero_point, fake_quant_enabled, quant_min, quant_max
):
    """`fake_quantize_per_tensor_affine_cachemask` with numbers that come as tensors, or the values themselves."""
    check(quant_min <= quant_max, _ORDERED)
    zero, step, enabled = item(zero_point), item(scale), item(fake_quant_enabled)
    if not int(enabled):
        return clone(self), _like(self, True, dt.bool_)
    return _faked(self, step, int(zero), quant_min, quant_max)


@kernel("fake_quantize_per_tensor_affine.tensor_qparams")
def fake_quantize_per_tensor_affine_tensor_qparams(self, scale, zero_point, quant_min, quant_max):
    """`fake_quantize_per_tensor_affine` with numbers that come as tensors."""
    on, values = np.ones(1, np.int64), _fake_quantize_per_tensor_affine_cachemask_tensor_qparams
    return values(self, scale, zero_point, on, quant_min, quant_max)[0]


@kernel("fake_quantize_per_tensor_affine_cachemask_backward", "fake_quantize_per_channel_affine_cachemask_backward")
def fake_quantize_cachemask_backward(grad, mask):
    """The gradient where values were within the range."""
    check(mask.dtype == dt.bool_, expected_true("mask.scalar_type() == ScalarType::Bool"))
    sizes = f"`mask` is size {mask.size} and `dY` is size {grad.size}"
    check(mask.size == grad.size, f"`mask` and `dY` are not the same size: {sizes}")
    return mul(grad, mask) if grad.size else grad


# ---------------------------------------------------------------- a scale for each channel


def _check_channels(x: ndarray, scale: ndarray, zero_point: ndarray, axis: int) -> None:
    check(scale.ndim == 1, "scale should be a 1-D tensor")
    check(zero_point.ndim == 1, "zero point should be a 1-D tensor")
    check(scale.size == zero_point.size, "scale and zero-point need to have the same dimensions")
    words = "dimensions of scale and zero-point are not consistent with input tensor"
    check(scale.size == (x.shape[wrap_dim(axis, x.ndim)] if x.ndim else 1), words)


def _along(x: ndarray, axis: int, ndim: int) -> ndarray:
    return x.reshape([-1 if i == axis else 1 for i in range(ndim)])


@kernel("fake_quantize_per_channel_affine_cachemask")
def fake_quantize_per_channel_affine_cachemask(self, scale, zero_point, axis, quant_min, quant_max):
    """`fake_quantize_per_tensor_affine_cachemask` with a scale and a zero point, which may be a float, for each channel."""
    found = dt.scalar_name(scale.dtype)
    check(scale.dtype in (dt.float32, dt.bfloat16), f"Scale must be Float or BFloat16, found {found}")
    known = zero_point.dtype in (dt.int32, dt.float32, dt.float16)
    check(known, f"Zero-point must be Int32, Float or Half, found {dt.scalar_name(zero_point.dtype)}")
    _check_channels(self, scale, zero_point, axis)
    check(quant_min <= quant_max, _ORDERED)
    if zero_point.dtype == dt.int32:
        words = "min(): Expected reduction dim to be specified for input.numel() == 0."
        check(zero_point.size, f"{words} Specify the reduction dim with the 'dim' argument.")
        check(quant_min <= zero_point.min() and zero_point.max() <= quant_max, _BETWEEN)
    check(0 <= axis <= self.ndim, "`axis` must be between 0 and number of dimensions of input")
    if self.dtype not in dt.FLOATS:
        raise not_implemented("fake_quantize_channel_cachemask_cpu_type_handling", self.dtype)
    # torch reads the scales as float32 whatever they are, and stops where they are bfloat16.
    check(scale.dtype == dt.float32, "!needs_dynamic_casting<func_t>::check(iter) INTERNAL ASSERT FAILED")
    step, zero = _along(scale, axis, self.ndim), _along(zero_point, axis, self.ndim)
    scaled = dt.cast(self, dt.opmath(self.dtype)) * (one(1) / step)
    if zero.dtype == dt.int32:
        held = _whole(zero.astype(scaled.dtype) + np.rint(scaled))
    else:
        zero = zero.astype(np.float32)
        held = _whole(np.rint((zero + scaled).astype(np.float32)))
    values = (np.clip(held, quant_min, quant_max).astype(np.float64) - zero) * step
    mask = (quant_min <= held) & (held <= quant_max)
    return _like(self, dt.cast(values, self.dtype), self.dtype), _like(self, mask, dt.bool_)


_DOC = "`fake_quantize_per_tensor_affine` with a scale and a zero point for each channel."
rows("fake_quantize_per_channel_affine", fake_quantize_per_channel_affine_cachemask, _DOC, part=0)

# ---------------------------------------------------------------- learnt scales


def _zero_point(zero_point: ndarray, low: int, high: int, forward: bool) -> int:
    zero = one(item(select(zero_point, 0, 0)))
    return int(np.clip(np.rint(zero) if forward else zero + one(0.5), one(low), one(high)))


@kernel("_fake_quantize_learnable_per_tensor_affine")
def _fake_quantize_learnable_per_tensor_affine(self, scale, zero_point, quant_min, quant_max, grad_factor=1.0):
    """`fake_quantize_per_tensor_affine` with the nearest zero point within the range."""
    step = one(item(select(scale, 0, 0)))
    zero = _zero_point(zero_point, quant_min, quant_max, forward=True)
    return fake_quantize_per_tensor_affine_cachemask(self, step, zero, quant_min, quant_max)[0]


@kernel("_fake_quantize_learnable_per_channel_affine")
def _fake_quantize_learnable_per_channel_affine(self, scale, zero_point, axis, quant_min, quant_max, grad_factor=1.0):
    """`fake_quantize_per_channel_affine` with the nearest zero points within the range."""
    zero = dt.cast(_nearest(zero_point, quant_min, quant_max), dt.int32)
    return fake_quantize_per_channel_affine_cachemask(self, scale, zero, axis, quant_min, quant_max)[0]


def _nearest(zero_point: ndarray, low: int, high: int) -> ndarray:
    wide = dt.cast(zero_point, dt.opmath(zero_point.dtype))
    return dt.cast(np.clip(np.rint(wide), low, high), zero_point.dtype)


def _learnt(
    grad: ndarray, x: ndarray, scale: Any, zero: Any, zero_float: Any, limits: tuple[int, int], factor: float
) -> tuple[ndarray, ...]:
    """The gradients of values, and element by element of their scale and zero point."""
    low, high = limits
    inverse = one(1) / scale
    wide = zero_float + x.astype(np.float64) * inverse  # fused, in one rounding
    held = _whole(np.rint(wide.astype(np.float32)))
    inside = (low <= held) & (held <= high)
    lost = ((np.clip(held, low, high) - zero).astype(np.float64) * scale - x).astype(np.float32)  # fused too
    edge = np.where(held < low, grad * (low - zero_float), grad * (high - zero_float)).astype(np.float32)
    step = np.where(inside, grad * lost * inverse, edge) * one(factor)
    shift = np.where(inside, one(0), -grad * scale * one(factor))
    return tuple(_like(x, part, dt.float32) for part in (grad * inside, step, shift))


def _check_floats(**arrays: ndarray) -> None:
    for name, x in arrays.items():
        check(x.dtype == dt.float32, expected_true(f"{name}.scalar_type() == ScalarType::Float"))


def _widened(*arrays: ndarray) -> tuple[ndarray, ...]:
    """All in float32 where the values are bfloat16."""
    half = arrays[1].dtype == dt.bfloat16
    return tuple(dt.cast(x, dt.float32) if half else x for x in arrays)


@kernel("_fake_quantize_learnable_per_tensor_affine_backward")
def _fake_quantize_learnable_per_tensor_affine_backward(
    grad, self, scale, zero_point, quant_min, quant_max, grad_factor=1.0
):
    """The gradients of the values, of their scale and of their zero point."""
    g, x, s, z = _widened(grad, self, scale, zero_point)
    step = one(item(select(s, 0, 0)))
    zero = _zero_point(z, quant_min, quant_max, forward=False)
    _check_floats(dY_=g, X_=x, scale_=s, zero_point_=z)
    check(x.size == g.size, "`X` and `dY` are not the same size")
    zeroed = quant_min <= 0 <= quant_max
    check(zeroed, f"{_ORDERED.removesuffix('.')}, and the quantization range should include 0.")
    check(quant_min <= zero <= quant_max, _BETWEEN)
    if not x.size:
        return self, scale, zero_point
    found = _learnt(g, x, step, zero, one(zero), (quant_min, quant_max), grad_factor)
    return found[0], sum_all(found[1])[None], sum_all(found[2])[None]


@kernel("_fake_quantize_learnable_per_channel_affine_backward")
def _fake_quantize_learnable_per_channel_affine_backward(
    grad, self, scale, zero_point, axis, quant_min, quant_max, grad_factor=1.0
):
    """The gradients of the values, and for each channel of its scale and zero point."""
    g, x, s, z = _widened(grad, self, scale, zero_point)
    z = _nearest(z, quant_min, quant_max)
    _check_floats(dY_=g, X_=x, scale_=s, zero_point_=z)
    check(x.shape == g.shape, "`X` and `dY` are not the same size")
    check(quant_min <= 0 <= quant_max, "Expecting `quant_min` <= 0 and `quant_max` >= 0")
    _check_channels(x, s, z, axis)
    check(0 <= axis < x.ndim, "`axis` must be between 0 and number of dimensions of input")
    if not x.size:
        return self, scale, zero_point
    step, zero = _along(s, axis, x.ndim), _along(z, axis, x.ndim)
    found = _learnt(g, x, step, zero, zero, (quant_min, quant_max), grad_factor)
    others = [i for i in range(x.ndim) if i != axis]
    return found[0], sum_dim(found[1], others), sum_dim(found[2], others)
