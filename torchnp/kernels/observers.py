"""Scales and zero points chosen from the range of values, and ranges that follow the values."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from torchnp import dtypes as dt
from torchnp.checks import check, check_type, dim_of
from torchnp.kernels._rows import rows
from torchnp.kernels.copy import clone
from torchnp.kernels.fake_quantize import (
    _fake_quantize_per_tensor_affine_cachemask_tensor_qparams,
    fake_quantize_per_channel_affine_cachemask,
)
from torchnp.kernels.shape import item
from torchnp.kernels.slicing import select
from torchnp.registry import kernel
from torchnp.writes import Writes, resize

ndarray = np.ndarray
one = np.float32

# ---------------------------------------------------------------- a scale and a zero point for a range


class Chosen(NamedTuple):
    scale: float
    zero_point: int


_LEAST = one(6.1e-5)  # a smaller scale would be subnormal in float16


def choose(low: Any, high: Any, least: int, most: int, symmetric: bool = False, exact: bool = False) -> Chosen:
    """The scale and zero point by which integers from ``least`` to ``most`` cover a range that includes zero.

    The zero point is that of the scale in float32, unless ``exact``: FBGEMM and torch differ there.
    """
    low, high = one(low), one(high)
    symmetric = symmetric and low < 0 < high
    if symmetric:
        bottom, top = -((most - least) // 2 + 1), (most - least) // 2
        widest = max(abs(float(low / one(bottom))), abs(float(high / one(top))))
        low, high = one(widest * bottom), one(widest * top)
    low, high = min(low, one(0)), max(high, one(0))
    span = float(high) - float(low)
    scale = span / (most - least) if most != least else math.inf if span else math.nan
    if one(scale) == 0 or np.isinf(one(1) / one(scale)):
        scale = 0.1
    scale = scale if exact else float(one(scale))
    if scale < _LEAST:
        low, high = _widened(low, high, one(scale), most - least)
        scale = float(_LEAST)
    from_low, from_high = least - float(low) / scale, most - float(high) / scale
    # The end with the smaller terms gives the smaller error.
    nearer = abs(least) - abs(float(low) / scale) < abs(most) - abs(float(high) / scale)
    zero = (least + most) / 2 if symmetric else from_low if nearer else from_high
    if zero < least or zero > most:
        return Chosen(scale, least if zero < least else most)
    return Chosen(scale, round(zero) if math.isfinite(zero) else -(2**31))


def _widened(low: np.float32, high: np.float32, scale: np.float32, steps: int) -> tuple[np.float32, np.float32]:
    if low == 0:
        return low, _LEAST * one(steps)
    if high == 0:
        return -_LEAST * one(steps), high
    return low * (_LEAST / scale), high * (_LEAST / scale)


@kernel("_choose_qparams_per_tensor")
def _choose_qparams_per_tensor(self, reduce_range=False):
    """The scale and zero point by which 8 bits, or 7, hold all values."""
    words = "min(): Expected reduction dim to be specified for input.numel() == 0."
    check(self.size, f"{words} Specify the reduction dim with the 'dim' argument.")
    x = dt.cast(self, dt.float32)
    low, high = x.min(), x.max()
    check(low <= high, "In ChooseQuantizationParams, min should be less than or equal to max")
    return tuple(choose(low, high, 0, 127 if reduce_range else 255, exact=True))


@kernel("fbgemm_linear_quantize_weight")
def fbgemm_linear_quantize_weight(input):
    """A weight as int8, the sums of its rows without their zero points, and its scale and zero point."""
    check_float(input)
    _check_matrix(input)
    low, high = (input.min(), input.max()) if input.size else (0.0, 0.0)
    scale, zero = choose(low, high, -128, 127)
    rounded = np.rint((input.astype(np.float64) * (one(1) / one(scale)) + zero).astype(np.float32))  # fused
    weight = np.clip(rounded, -128, 127).astype(np.int8, order="C")
    rows, columns = input.shape[:2]
    sums = weight.reshape(-1)[: rows * columns].reshape(rows, columns).sum(1, dtype=np.int32) - zero * columns
    return weight, sums.astype(np.int32), float(one(scale)), zero


def _check_matrix(x: ndarray) -> None:
    dim_of(x, min(x.ndim, 1))


def check_float(x: ndarray) -> None:
    check_type(dt.float32, x)


# ---------------------------------------------------------------- a range that loses least


def _loss(x: ndarray, low: np.float32, high: np.float32, bits: int) -> np.float32:
    """The norm of what is lost when values between two ends are held in a few bits."""
    low = one(np.float16(low))
    span = one(high - low)
    scale = one(1) if span == 0 else one(np.float16(span / one((1 << bits) - 1)))
    inverse = one(1) if scale == 0 else one(1) / scale
    held = np.clip(np.rint((x - low) * inverse), 0, (1 << bits) - 1) * scale + low
    squares = (x - held) * (x - held)
    return np.sqrt(np.add.accumulate(squares)[-1]) if x.size else one(0)


@kernel("choose_qparams_optimized")
def choose_qparams_optimized(input, numel, n_bins, ratio, bit_width):
    """The upper and lower end of the range in which a few bits hold the first values best, by a greedy search."""
    check(0 <= numel <= input.size, "numel is out of the bound of input tensor")
    check_float(input)
    x = input.reshape(-1)[:numel]
    low, high = (x.min(), x.max()) if numel else (input.reshape(-1)[0], input.reshape(-1)[0])
    best_low, best_high = low, high
    step = one(one(high - low) / one(n_bins))
    threshold = one(n_bins * (1.0 - float(one(ratio)))) * step
    loss = best = _loss(x, low, high, bit_width)
    while low + threshold < high:
        from_left = _loss(x, low + step, high, bit_width)
        from_right = _loss(x, low, high - step, bit_width)
        if loss < from_left and loss < from_right and loss < best:
            best, best_low, best_high = loss, low, high
        if from_left < from_right:
            low, loss = low + step, from_left
        else:
            high, loss = high - step, from_right
    return np.array([best_high], np.float32), np.array([best_low], np.float32)


# ---------------------------------------------------------------- ranges that follow the values


def _followed(running: ndarray, now: ndarray, rate: float) -> ndarray:
    """The moving average of an end of the range; an infinite one has not begun."""
    check_float(running)
    out, old = running.copy(), running.reshape(-1)[: now.size]
    out.reshape(-1)[: now.size] = np.where(np.isinf(old), now, old + one(rate) * (now - old))
    return out


@kernel("_fused_moving_avg_obs_fq_helper_functional", writes=Writes(resizes=True))
def _fused_moving_avg_obs_fq_helper_functional(
    self, observer_on, fake_quant_on, running_min, running_max, scale, zero_point, averaging_const, quant_min,
    quant_max, ch_axis, per_row_fake_quant=False, symmetric_quant=False,
):  # fmt: skip
    """Fake-quantized values with their mask; the range, followed; and its scale and zero point."""
    low, high, scale, zero_point = (x.copy("K") for x in (running_min, running_max, scale, zero_point))
    if per_row_fake_quant and not low.size:  # not begun: torch makes room for each row
        low, high = (np.full(len(self), end, np.float32) for end in (np.inf, -np.inf))
        scale, zero_point = np.resize(scale, len(self)), np.resize(zero_point, len(self))
    if int(item(observer_on)):
        if per_row_fake_quant:
            words = "Per-channel FakeQuant in fused_moving_avg_obs_fake_quant is only supported on axis == 0"
            check(ch_axis == 0, words)
        words = "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
        check(self.size, words)
        check_float(self)
        axis = 1 if per_row_fake_quant else None
        low = _followed(low, self.min(axis).reshape(-1), averaging_const)
        high = _followed(high, self.max(axis).reshape(-1), averaging_const)
    if not int(item(fake_quant_on)):
        return clone(self), np.ones_like(clone(self), np.bool_), low, high, scale, zero_point
    if per_row_fake_quant:
        check_float(low)
        check_float(high)
        for i in range(low.size):
            chosen = choose(low.flat[i], high.flat[i], quant_min, quant_max, symmetric_quant)
            scale[i], zero_point[i] = chosen.scale, chosen.zero_point
        out = fake_quantize_per_channel_affine_cachemask(self, scale, zero_point, ch_axis, quant_min, quant_max)
    else:
        chosen = choose(item(low), item(high), quant_min, quant_max, symmetric_quant)
        select(scale, 0, 0)[...] = chosen.scale
        select(zero_point, 0, 0)[...] = chosen.zero_point
        on, fake = np.ones(1, np.int64), _fake_quantize_per_tensor_affine_cachemask_tensor_qparams
        out = fake(self, scale, zero_point, on, quant_min, quant_max)
    return *out, low, high, scale, zero_point


@kernel("fused_moving_avg_obs_fake_quant")
def fused_moving_avg_obs_fake_quant(
    self, observer_on, fake_quant_on, running_min, running_max, scale, zero_point, averaging_const, quant_min,
    quant_max, ch_axis, per_row_fake_quant=False, symmetric_quant=False,
):  # fmt: skip
    """Fake-quantized values; the range, its scale and its zero point are written where they came from."""
    options = (averaging_const, quant_min, quant_max, ch_axis, per_row_fake_quant, symmetric_quant)
    written = (running_min, running_max, scale, zero_point)
    out, _, *new = _fused_moving_avg_obs_fq_helper_functional(self, observer_on, fake_quant_on, *written, *options)
    for target, value in zip(written, new, strict=True):
        (target if target.shape == value.shape else resize(target, value.shape))[...] = value
    return out


# ---------------------------------------------------------------- values that have no scale


rows("dequantize.self", lambda x: dt.cast(x, dt.float32), "Values in float32; those that are need no copy.")


@kernel("_saturate_weight_to_fp16", like=np.clip)
def _saturate_weight_to_fp16(weight):
    """The weight itself, brought within the range of float16: torch writes into it, though the schema does not say so.

    Of more than two dimensions only the first values change, as many as the first two hold; not contiguous, none do.
    """
    check_float(weight)
    _check_matrix(weight)
    if weight.flags.c_contiguous:
        values = weight.reshape(-1)[: weight.shape[0] * weight.shape[1]]
        np.clip(values, -65504, 65504, out=values)
    return weight
