"""Fake quantization: rounding to quantized values, its gradients, and the choice of scales from values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import broadcast_shapes, check, check_type, dim_of, require, wrap_dim
from torchnp.core.errors import expected_true
from torchnp.core.inplace_out_spec import WriteSpec, resize
from torchnp.core.python_scalars import scalar, whole
from torchnp.core.registry import kernel
from torchnp.kernels import pointwise
from torchnp.kernels._declare_rows import rows
from torchnp.kernels.arithmetic import mul
from torchnp.kernels.copy import clone
from torchnp.kernels.extrema import aminmax, max_all, min_all
from torchnp.kernels.limits import clamp
from torchnp.kernels.numerics.blocks import by_tiles
from torchnp.kernels.reduce import sum_all, sum_dim
from torchnp.kernels.shape import item
from torchnp.kernels.slicing import select
from torchnp.layout.stride_rules import cloned

ndarray = np.ndarray
one = np.float32

_ORDERED = "`quant_min` should be less than or         equal to `quant_max`."
_BETWEEN = "`zero_point` must be between `quant_min` and `quant_max`."


def _whole(x: Any) -> ndarray:
    """Convert to int64; out-of-range values become the smallest int64, as on x86 CPUs."""
    fits = np.abs(x) < 2.0**63
    return np.where(fits, x, 0).astype(np.int64) + np.where(fits, 0, np.int64(-(2**63)))


# ---------------------------------------------------------------- one scale


def _faked(x: ndarray, scale: Any, zero_point: int, low: int, high: int) -> tuple[ndarray, ...]:
    require("fake_quantize_tensor_cachemask_kernel_type_handling", x.dtype, dt.FLOATS)
    scale = one(scale)

    def faked(x: ndarray) -> tuple[ndarray, ndarray]:
        wide = dt.cast(x, dt.opmath(x.dtype))
        found = wide.dtype.type(zero_point) + np.rint(wide * (one(1) / scale))
        held = _whole(np.fmin(np.fmax(found.astype(np.float64), low), high))
        values = (held - zero_point).astype(np.float32) * scale
        kind = found.dtype.type
        return dt.cast(np.asarray(values), x.dtype), np.asarray((kind(low) <= found) & (found <= kind(high)))

    return by_tiles(faked, x)


@kernel("fake_quantize_per_tensor_affine_cachemask")
def fake_quantize_per_tensor_affine_cachemask(self, scale, zero_point, quant_min, quant_max):
    """Values rounded to multiples of ``scale`` and clamped to the range, and a mask of those not clamped."""
    check(quant_min <= quant_max, _ORDERED)
    check(quant_min <= zero_point <= quant_max, _BETWEEN)
    return _faked(self, scale, zero_point, quant_min, quant_max)


_DOC = "Values rounded to multiples of ``scale`` and clamped to the range."
rows("fake_quantize_per_tensor_affine", fake_quantize_per_tensor_affine_cachemask, _DOC, part=0)


@kernel("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams")
def _fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
    self, scale, zero_point, fake_quant_enabled, quant_min, quant_max
):
    """`fake_quantize_per_tensor_affine_cachemask` with parameters as tensors; if disabled, it copies the values."""
    check(quant_min <= quant_max, _ORDERED)
    zero, step, enabled = scalar(item(zero_point), dt.int32), item(scale), whole(item(fake_quant_enabled))
    if not enabled:
        require("fake_quantize_tensor_cachemask_kernel_type_handling", self.dtype, dt.FLOATS)
        return clone(self), np.ones(self.shape, np.bool_)
    return _faked(self, scalar(step, dt.float32), int(zero), quant_min, quant_max)


def _by_tensors(self: ndarray, scale: ndarray, zero_point: ndarray, low: int, high: int) -> tuple[ndarray, ...]:
    on, faked = np.ones(1, np.int64), _fake_quantize_per_tensor_affine_cachemask_tensor_qparams
    return faked(self, scale, zero_point, on, low, high)


_DOC = "`fake_quantize_per_tensor_affine` with scale and zero point as tensors."
rows("fake_quantize_per_tensor_affine.tensor_qparams", _by_tensors, _DOC, part=0)


@kernel("fake_quantize_per_tensor_affine_cachemask_backward", "fake_quantize_per_channel_affine_cachemask_backward")
def fake_quantize_cachemask_backward(grad, mask):
    """The gradient where values were within the range, else 0."""
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
    check(scale.size == x.shape[dim_of(x, axis)], words)


def _along(x: ndarray, axis: int, ndim: int) -> ndarray:
    return x.reshape([-1 if i == axis else 1 for i in range(ndim)])


@kernel("fake_quantize_per_channel_affine_cachemask")
def fake_quantize_per_channel_affine_cachemask(self, scale, zero_point, axis, quant_min, quant_max):
    """`fake_quantize_per_tensor_affine_cachemask` with a scale and a zero point (possibly a float) per channel."""
    found = dt.scalar_name(scale.dtype)
    check(scale.dtype in (dt.float32, dt.bfloat16), f"Scale must be Float or BFloat16, found {found}")
    known = zero_point.dtype in (dt.int32, dt.float32, dt.float16)
    check(known, f"Zero-point must be Int32, Float or Half, found {dt.scalar_name(zero_point.dtype)}")
    _check_channels(self, scale, zero_point, axis)
    check(quant_min <= quant_max, _ORDERED)
    if zero_point.dtype == dt.int32:
        check(quant_min <= min_all(zero_point) and max_all(zero_point) <= quant_max, _BETWEEN)
    check(0 <= axis <= self.ndim, "`axis` must be between 0 and number of dimensions of input")
    require("fake_quantize_channel_cachemask_cpu_type_handling", self.dtype, dt.FLOATS)
    # torch reads the scales as float32, and fails an assertion if they are bfloat16.
    check(scale.dtype == dt.float32, "!needs_dynamic_casting<func_t>::check(iter) INTERNAL ASSERT FAILED")

    def faked(x: ndarray, step: ndarray, zero: ndarray) -> tuple[ndarray, ndarray]:
        scaled = dt.cast(x, dt.opmath(x.dtype)) * (one(1) / step)
        if zero.dtype == dt.int32:
            held = _whole(zero.astype(scaled.dtype) + np.rint(scaled))
        else:
            zero = zero.astype(np.float32)
            held = _whole(np.rint((zero + scaled).astype(np.float32)))
        values = (np.clip(held, quant_min, quant_max).astype(np.float64) - zero) * step
        return dt.cast(np.asarray(values), x.dtype), np.asarray((quant_min <= held) & (held <= quant_max))

    return by_tiles(faked, self, *(_along(v, axis, self.ndim) for v in (scale, zero_point)))


_DOC = "`fake_quantize_per_tensor_affine` with a scale and a zero point for each channel."
rows("fake_quantize_per_channel_affine", fake_quantize_per_channel_affine_cachemask, _DOC, part=0)

# ---------------------------------------------------------------- learnt scales


def _single(x: ndarray) -> np.float32:
    """Return the only value of a tensor, as float32."""
    return one(scalar(item(x), dt.float32))


def _zero_point(zero_point: ndarray, low: int, high: int, forward: bool) -> int:
    zero = _single(select(zero_point, 0, 0))
    return int(_whole(np.clip(np.rint(zero) if forward else zero + one(0.5), one(low), one(high))))


@kernel("_fake_quantize_learnable_per_tensor_affine")
def _fake_quantize_learnable_per_tensor_affine(self, scale, zero_point, quant_min, quant_max, grad_factor=1.0):
    """`fake_quantize_per_tensor_affine` with the zero point rounded and clamped to the range."""
    step = _single(select(scale, 0, 0))
    zero = _zero_point(zero_point, quant_min, quant_max, forward=True)
    return fake_quantize_per_tensor_affine_cachemask(self, step, zero, quant_min, quant_max)[0]


@kernel("_fake_quantize_learnable_per_channel_affine")
def _fake_quantize_learnable_per_channel_affine(self, scale, zero_point, axis, quant_min, quant_max, grad_factor=1.0):
    """`fake_quantize_per_channel_affine` with the zero points rounded and clamped to the range."""
    zero = dt.cast(_nearest(zero_point, quant_min, quant_max), dt.int32)
    return fake_quantize_per_channel_affine_cachemask(self, scale, zero, axis, quant_min, quant_max)[0]


def _nearest(zero_point: ndarray, low: int, high: int) -> ndarray:
    return clamp(pointwise.round(zero_point), low, high)


def _learnt(
    grad: ndarray, x: ndarray, scale: Any, zero: Any, zero_float: Any, limits: tuple[int, int], factor: float
) -> tuple[ndarray, ...]:
    """Return the gradient of the values, and the gradients of scale and zero point from each element."""
    low, high = limits
    inverse = one(1) / scale
    wide = zero_float + x.astype(np.float64) * inverse  # fused multiply-add, rounded once
    held = _whole(np.rint(wide.astype(np.float32)))
    inside = (low <= held) & (held <= high)
    # This is a fused multiply-add, too
    lost = ((np.clip(held, low, high) - zero).astype(np.float64) * scale - x).astype(np.float32)
    edge = np.where(held < low, grad * (low - zero_float), grad * (high - zero_float)).astype(np.float32)
    step = np.where(inside, grad * lost * inverse, edge) * one(factor)
    shift = np.where(inside, one(0), -grad * scale * one(factor))
    return tuple(np.asarray(part) for part in (grad * inside, step, shift))


def _learnt_backward(
    grad: ndarray, self: ndarray, scale: ndarray, zero_point: ndarray, low: int, high: int, factor: float, *,
    axis: int | None = None,
) -> tuple[ndarray, ...]:  # fmt: skip
    given: tuple[ndarray, ...] = (grad, self, scale, zero_point)
    if self.dtype == dt.bfloat16:
        given = tuple(dt.cast(v, dt.float32) for v in given)
    g, x, s, z = given
    step: Any
    zero: Any
    if axis is None:
        step, zero = _single(select(s, 0, 0)), _zero_point(z, low, high, forward=False)
        words = f"{_ORDERED.removesuffix('.')}, and the quantization range should include 0."
    else:
        z = _nearest(z, low, high)
        words = "Expecting `quant_min` <= 0 and `quant_max` >= 0"
    for name, v in (("dY", g), ("X", x), ("scale", s), ("zero_point", z)):
        check(v.dtype == dt.float32, expected_true(f"{name}_.scalar_type() == ScalarType::Float"))
    check(x.size == g.size if axis is None else x.shape == g.shape, "`X` and `dY` are not the same size")
    check(low <= 0 <= high, words)
    if axis is None:
        check(low <= zero <= high, _BETWEEN)
    else:
        _check_channels(x, s, z, axis)
        check(low <= whole(item(min_all(z))) and whole(item(max_all(z))) <= high, _BETWEEN)
        check(0 <= axis < x.ndim, "`axis` must be between 0 and number of dimensions of input")
        step, zero = _along(s, axis, x.ndim), _along(z, axis, x.ndim)
    if not x.size:
        return self, scale, zero_point
    broadcast_shapes(x.shape, g.shape)
    values, *parts = _learnt(g, x, step, zero, zero if axis is not None else one(zero), (low, high), factor)
    if axis is None:
        return values, *(sum_all(part)[None] for part in parts)
    return values, *(sum_dim(part, [i for i in range(x.ndim) if i != axis]) for part in parts)


_DOC = "The gradients of the values, the scale and the zero point"
rows("_fake_quantize_learnable_per_tensor_affine_backward", _learnt_backward, f"{_DOC}.")
rows("_fake_quantize_learnable_per_channel_affine_backward", _learnt_backward, f"{_DOC}, for each channel.")

# ---------------------------------------------------------------- a scale and a zero point for a range


_LEAST = one(6.1e-5)  # a smaller scale would be subnormal in float16


def _choose(
    low: Any, high: Any, least: int, most: int, symmetric: bool = False, exact: bool = False
) -> tuple[float, int]:
    """Return the scale and zero point with which integers from ``least`` to ``most`` cover the range.

    The range is extended to include zero. The zero point is computed from the scale rounded to float32, or from the
    unrounded scale if ``exact``: FBGEMM and torch differ there.
    """
    low, high = one(low), one(high)
    if symmetric and low < 0 < high:
        bottom, top = -((most - least) // 2 + 1), (most - least) // 2
        widest = max(abs(float(low / one(bottom))), abs(float(high / one(top))))
        low, high = one(widest * bottom), one(widest * top)
    low, high = min(low, one(0)), max(high, one(0))
    span = float(high) - float(low)
    scale = span / (most - least) if most != least else span * math.inf
    if one(scale) == 0 or np.isinf(one(1) / one(scale)):
        scale = 0.1
    scale = scale if exact else float(one(scale))
    if scale < _LEAST:
        wide, factor = _LEAST * one(most - least), _LEAST / one(scale)
        low, high = (low, wide) if low == 0 else (-wide, high) if high == 0 else (low * factor, high * factor)
        scale = float(_LEAST)
    from_low, from_high = least - float(low) / scale, most - float(high) / scale
    # Compute the zero point from the end of the range with the smaller terms: its rounding error is smaller.
    nearer = abs(least) - abs(float(low) / scale) < abs(most) - abs(float(high) / scale)
    middle = symmetric and low < 0 < high  # false if there are no integers above zero, because ``high`` is then nan
    zero = (least + most) / 2 if middle else from_low if nearer else from_high
    if zero < least or zero > most:
        return scale, least if zero < least else most
    return scale, round(zero) if math.isfinite(zero) else -(2**31)


@kernel("_choose_qparams_per_tensor")
def _choose_qparams_per_tensor(self, reduce_range=False):
    """The scale and zero point with which 8 bits (7 if ``reduce_range``) can represent all values."""
    low, high = (scalar(item(x), dt.float32) for x in (min_all(self), max_all(self)))
    check(low <= high, "In ChooseQuantizationParams, min should be less than or equal to max")
    return _choose(low, high, 0, 127 if reduce_range else 255, exact=True)


@kernel("fbgemm_linear_quantize_weight")
def fbgemm_linear_quantize_weight(input):
    """A weight as int8, its row sums after the zero point is subtracted, its scale, and its zero point."""
    check_type(dt.float32, input)
    dim_of(input, min(input.ndim, 1))
    counted = input[input == input] if input.size and input.flat[0] == input.flat[0] else input
    low, high = (counted.min(), counted.max()) if input.size else (0.0, 0.0)  # NaN counts only if it comes first
    scale, zero = _choose(low, high, -128, 127)
    # This is a fused multiply-add
    rounded = np.rint((input.astype(np.float64) * (one(1) / one(scale)) + zero).astype(np.float32))
    weight = np.fmax(np.fmin(rounded, 127), -128).astype(np.int8, order="C")  # NaN becomes the largest
    rows, columns = input.shape[:2]
    sums = weight.reshape(-1)[: rows * columns].reshape(rows, columns).sum(1, dtype=np.int64) - zero * columns
    return weight, sums.astype(np.int32), float(one(scale)), zero


def _loss(x: ndarray, low: np.float32, high: np.float32, bits: int) -> np.float32:
    """Return the norm of the error that quantizing values between ``low`` and ``high`` to ``bits`` bits causes."""
    low = one(np.float16(low))
    span, most = one(high - low), (1 << (bits & 31)) - 1  # CPUs shift an int modulo 32
    scale = one(1) if span == 0 else one(np.float16(span / one(most)))
    inverse = one(1) if scale == 0 else one(1) / scale
    held = np.clip(np.rint((x - low) * inverse), 0, most) * scale + low
    squares = (x - held) * (x - held)
    return np.sqrt(np.add.accumulate(squares)[-1]) if x.size else one(0)


_ENDLESS = "choose_qparams_optimized: with these n_bins and ratio the ends of the range never meet, and torch's search never ends"


@kernel("choose_qparams_optimized")
def choose_qparams_optimized(input, numel, n_bins, ratio, bit_width):
    """Upper and lower end of the range in which ``bit_width`` bits represent the first ``numel`` values best."""
    check_type(dt.float32, input)
    check(input.size > 0, "input tensor is empty and has no data", ValueError)
    check(0 <= numel <= input.size, "numel is out of the bound of input tensor")
    x = input.reshape(-1)[:numel]
    low, high = (x.min(), x.max()) if numel else (input.reshape(-1)[0], input.reshape(-1)[0])
    best_low, best_high = low, high
    step = one(one(high - low) / one(n_bins))
    threshold = one(n_bins * (1.0 - float(one(ratio)))) * step
    loss = best = _loss(x, low, high, bit_width)
    # If the ends never meet, torch searches forever.
    check((step > 0 and threshold > -np.inf) or not low + threshold < high, _ENDLESS)
    while low + threshold < high:
        before = low, high
        from_left = _loss(x, low + step, high, bit_width)
        from_right = _loss(x, low, high - step, bit_width)
        if loss < from_left and loss < from_right and loss < best:
            best, best_low, best_high = loss, low, high
        if from_left < from_right:
            low, loss = low + step, from_left
        else:
            high, loss = high - step, from_right
        check((low, high) != before, _ENDLESS)
    return np.array([best_high], np.float32), np.array([best_low], np.float32)


# ---------------------------------------------------------------- ranges that follow the values


def _followed(running: ndarray, now: ndarray, rate: float) -> ndarray:
    """Return the moving average of one end of the range; an infinite end is uninitialized, and is replaced."""
    check_type(dt.float32, running)
    out, old = running.copy(), running.reshape(-1)[: now.size]
    now = now[: old.size]
    out.reshape(-1)[: now.size] = np.where(np.isinf(old), now, old + one(rate) * (now - old))
    return out


def _put_chosen(step: ndarray, zero: ndarray, chosen: tuple[float, int]) -> None:
    step[...] = chosen[0]
    zero[...] = chosen[1] if dt.is_inexact(zero.dtype) else scalar(chosen[1], zero.dtype)


@kernel("_fused_moving_avg_obs_fq_helper_functional", writes=WriteSpec(resizes=True))
def _fused_moving_avg_obs_fq_helper_functional(
    self, observer_on, fake_quant_on, running_min, running_max, scale, zero_point, averaging_const, quant_min,
    quant_max, ch_axis, per_row_fake_quant=False, symmetric_quant=False,
):  # fmt: skip
    """Fake-quantized values with their mask, the updated range, and its scale and zero point."""
    name = "fused_moving_avg_obs_fake_quant"
    check(ch_axis < self.ndim, f"Error in {name}_cpu: ch_axis must be < self.dim()")
    low, high, scale, zero_point = (cloned(x) for x in (running_min, running_max, scale, zero_point))
    observed, values = scalar(item(observer_on), dt.int32), self
    if per_row_fake_quant:
        count = self.shape[dim_of(self, ch_axis)]
        wrap_dim(1, self.ndim)
        if not low.size:  # uninitialized: torch allocates one element per row
            low, high = (np.full(count, scalar(end, x.dtype)) for x, end in ((low, np.inf), (high, -np.inf)))
            scale, zero_point = np.resize(scale, count), np.resize(zero_point, count)
        values = self.reshape(len(self), math.prod(self.shape[1:]))
    if observed:
        words = f"Per-channel FakeQuant in {name} is only supported on axis == 0"
        check(ch_axis == 0 or not per_row_fake_quant, words)
        now = aminmax(values, dim=1 if per_row_fake_quant else None)
        check_type(dt.float32, self)
        low, high = (_followed(x, end.reshape(-1), averaging_const) for x, end in zip((low, high), now, strict=True))
    if not scalar(item(fake_quant_on), dt.int32):
        return clone(self), np.ones_like(self, np.bool_), low, high, scale, zero_point
    if per_row_fake_quant:
        check_type(dt.float32, low, high)
        for i in range(low.size):
            step, zero = select(scale, 0, i), select(zero_point, 0, i)
            chosen = _choose(low.flat[i], high.flat[i], quant_min, quant_max, symmetric_quant)
            _put_chosen(step, zero, chosen)
        out = fake_quantize_per_channel_affine_cachemask(self, scale, zero_point, ch_axis, quant_min, quant_max)
    else:
        bottom, top = (scalar(item(x), dt.float32) for x in (low, high))
        step, zero = select(scale, 0, 0), select(zero_point, 0, 0)
        chosen = _choose(bottom, top, quant_min, quant_max, symmetric_quant)
        _put_chosen(step, zero, chosen)
        out = _by_tensors(self, scale, zero_point, quant_min, quant_max)
    return *out, low, high, scale, zero_point


def _observed(self, observer_on, fake_quant_on, running_min, running_max, scale, zero_point, *options):
    if not self.size:
        return clone(self)
    written = (running_min, running_max, scale, zero_point)
    out, _, *new = _fused_moving_avg_obs_fq_helper_functional(self, observer_on, fake_quant_on, *written, *options)
    for target, value in zip(written, new, strict=True):
        (target if target.shape == value.shape else resize(target, value.shape))[...] = value
    return out


_DOC = "Fake-quantized values; updates the running range, the scale and the zero point in place."
rows("fused_moving_avg_obs_fake_quant", _observed, _DOC)
_dequantized = lambda x: dt.cast(clone(x) if dt.is_complex(x.dtype) else x, dt.float32)
rows("dequantize.self", _dequantized, "Values cast to float32; a float32 tensor is not copied.")


@kernel("_saturate_weight_to_fp16", like=np.clip, differs=["saturates-matrices"])
def _saturate_weight_to_fp16(weight):
    """The weight itself, clamped to float16's range in place, though the schema does not declare the write.

    With more than two dimensions only the first ``shape[0] * shape[1]`` values change; if not contiguous, none do.
    """
    check_type(dt.float32, weight)
    dim_of(weight, min(weight.ndim, 1))
    if weight.flags.c_contiguous:
        values = weight.reshape(-1)[: weight.shape[0] * weight.shape[1]]
        np.clip(values, -65504, 65504, out=values)
    return weight
