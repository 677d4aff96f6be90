"""Losses of classification: negative log likelihood and cross entropy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, check_fits, check_shape, check_single, check_type, require
from torchnp.core.errors import expected_type, multi_target, no_dimensions, shape_text
from torchnp.core.fast_path import exact, is_float
from torchnp.core.registry import kernel
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._elementwise import FLOATS, finish
from torchnp.kernels._memory import new_like
from torchnp.kernels.arithmetic import add, div, mul
from torchnp.kernels.loss import MEAN, NONE, SUM, reduce, total_of
from torchnp.kernels.numerics.indexed_reductions import INDEX_DTYPES
from torchnp.kernels.pointwise import neg
from torchnp.kernels.softmax import log_softmax
from torchnp.layout import stride_rules
from torchnp.thresholds import Threshold

ndarray = np.ndarray
_LEVELS = 8  # torch sums half types in this many levels of partial sums
SMALL: Threshold = 1 << 16  # elements; up to here sums of half types round as in torch, larger ones are computed faster


def _check_target(target: ndarray) -> None:
    name = dt.scalar_name(target.dtype)
    check(target.dtype in (dt.int64, dt.uint8), f"expected target dtype to be Long or Byte, but got {name}")


def _factors(
    cpu: str, self: ndarray, target: ndarray, weight: ndarray | None, ignore_index: int
) -> tuple[ndarray, ndarray, ndarray]:
    """Return the target classes (0 if ignored), whether each target counts, and the class weights in opmath."""
    require(cpu, self.dtype, FLOATS)
    check_type(self.dtype, weight)
    target = target.astype(np.int64, copy=False)
    counted = target != ignore_index
    outside = counted & ((target < 0) | (target >= self.shape[1]))
    if outside.any():
        raise IndexError(f"Target {target[outside].flat[0]} is out of bounds.")
    index, inner = np.where(counted, target, 0), dt.opmath(self.dtype)
    factor = (
        np.ones(index.shape, inner) if weight is None or not weight.size else dt.cast(weight, inner).reshape(-1)[index]
    )
    return index[:, None], counted, np.where(counted, factor, inner.type(0))


def _carried(values: ndarray, counted: ndarray) -> ndarray:
    """Sum values of a half type where ``counted``, as torch does: in eight levels, rounded at each step.

    Level j is moved into level j + 1 at counted positions whose index has zeros in all bits that belong to level j.
    """
    dtype, at, power = values.dtype, np.flatnonzero(counted), max(4, max(counted.size - 1, 0).bit_length() // _LEVELS)
    level, total = values.reshape(-1)[at].astype(np.float32), np.zeros((), np.float32)
    for j in range(_LEVELS):
        full = (at & (((1 << power) - 1) << (j * power)) == 0) & (j < _LEVELS - 1)
        group = np.cumsum(full) - full
        length = np.bincount(group, minlength=1).max(initial=0)
        place = np.arange(len(at)) - np.searchsorted(group, group)
        terms = np.zeros((np.count_nonzero(full) + 1, length), np.float32)
        terms[group, place] = level
        sums = np.zeros(len(terms), np.float32)
        for i in range(length):
            sums = dt.cast(dt.cast(sums + terms[:, i], dtype), dt.float32)
        at, level, rest = at[full], sums[:-1], sums[-1]
        total = dt.cast(dt.cast(np.asarray(total + rest), dtype), dt.float32)
    return dt.cast(total, dtype)


def _forward(
    cpu: str, x: ndarray, target: ndarray, weight: ndarray | None, reduction: int, ignore_index: int
) -> tuple[ndarray, ndarray]:
    """Return the loss of scores of shape (N, C, ...) for targets of shape (N, ...), and the sum of the weights."""
    index, counted, factor = _factors(cpu, x, target, weight, ignore_index)
    inner = factor.dtype
    picked = (
        dt.cast(np.take_along_axis(x, index, axis=1)[:, 0], inner) if x.shape[1] else np.zeros(counted.shape, inner)
    )
    loss = np.where(counted, -picked * factor, inner.type(0))
    if reduction == NONE:
        return finish(loss, x.dtype), np.zeros((), x.dtype)
    if dt.is_half(x.dtype):
        terms = [dt.cast(loss, x.dtype), dt.cast(factor, x.dtype)] if counted.size <= SMALL else [loss, factor]
        total, total_weight = (_carried(v, counted) if v.dtype == x.dtype else finish(v.sum(), x.dtype) for v in terms)
        if weight is None:
            total_weight = finish(np.count_nonzero(counted), x.dtype)
    else:
        total, total_weight = (np.asarray(v.sum(dtype=np.float64)).astype(inner) for v in (loss, factor))
    mean = reduction == MEAN
    return finish(dt.cast(total, inner) / dt.cast(total_weight, inner), x.dtype) if mean else total, total_weight


def _backward(
    cpu: str, g: ndarray, self: ndarray, target: ndarray, weight: ndarray | None, reduction: int, ignore_index: int,
    total_weight: ndarray, each: bool,
) -> ndarray:  # fmt: skip
    """Return the gradient of scores (N, C, ...): ``-weight * g`` at each target class, 0 elsewhere.

    ``g`` is one number, or with ``each`` one number per target; for MEAN it is divided by the total weight.
    """
    check_type(self.dtype, weight)
    if not each:
        check_type(self.dtype, total_weight)
        g = g.reshape(())
    check_type(self.dtype, g)
    index, counted, factor = _factors(cpu, self, target, weight, ignore_index)
    inner = factor.dtype
    g = dt.cast(g, inner)
    if reduction == MEAN:
        g = g / dt.cast(total_weight.reshape(()), inner)
    value = np.where(counted, -factor * g, inner.type(0))
    grad = np.zeros(self.shape, self.dtype)
    if grad.size:
        np.put_along_axis(grad, index, finish(value, self.dtype)[:, None], axis=1)
    return grad


def _sizes(self: ndarray, target: ndarray) -> str:
    return f"(got input: {shape_text(self.shape)}, target: {shape_text(target.shape)}"


def _check_all_or_none(weight: ndarray | None, n_classes: int) -> None:
    check(weight is None or weight.size == n_classes, "weight tensor should be defined either for all or no classes")


def _check_total(total_weight: ndarray, gap: str = " ") -> None:
    found = f"{shape_text(total_weight.shape)} ({total_weight.size} elements)"
    check(total_weight.size == 1, f"expected total_weight to be a {gap}single element tensor, got: {found}")


def _usual_places(x: Any, target: Any, weight: Any, reduction: Any, ignore_index: Any) -> ndarray | None:
    """Return the flat index of each target's score in (N, C), or None if the fast path does not apply."""
    numbers = type(reduction) is type(ignore_index) is int and reduction in (MEAN, SUM)
    if weight is not None or not numbers or not is_float(x) or type(target) is not ndarray:
        return None
    if x.ndim != 2 or target.ndim != 1 or target.dtype is not dt.int64 or not x.flags.c_contiguous:
        return None
    n, classes = x.shape
    if len(target) != n or not n:
        return None
    low, high = target.min(), target.max()
    if low < 0 or high >= classes or low <= ignore_index <= high:
        return None
    return target + np.arange(0, n * classes, classes)


def _quick_forward(self: Any, target: Any, weight: Any, reduction: Any, ignore_index: Any) -> Any:
    if (places := _usual_places(self, target, weight, reduction, ignore_index)) is None:
        return None
    total = np.negative(self.reshape(-1)[places]).sum(dtype=np.float64).astype(self.dtype)
    weights = np.asarray(len(places), self.dtype)
    return np.asarray(total / weights if reduction == MEAN else total), weights


def _quick_backward(
    grad_output: Any, self: Any, target: Any, weight: Any, reduction: Any, ignore_index: Any, total_weight: Any
) -> ndarray | None:
    if not is_float(self) or not all(
        is_float(x) and not x.ndim and x.dtype is self.dtype for x in (grad_output, total_weight)
    ):
        return None
    if (places := _usual_places(self, target, weight, reduction, ignore_index)) is None:
        return None
    grad = np.zeros(self.shape, self.dtype)
    grad.reshape(-1)[places] = -(grad_output / total_weight if reduction == MEAN else grad_output)
    return grad


@kernel("nll_loss_forward", quick=exact(_quick_forward))
def nll_loss_forward(self, target, weight, reduction, ignore_index):
    """Negative log likelihood: minus the weighted score of the target class; also the sum of the weights."""
    check(0 < self.ndim <= 2, "input tensor should be 1D or 2D")
    check(target.ndim <= 1, multi_target())
    _check_target(target)
    if self.ndim == 1:
        words = f"For 1D input, 1D target must have size 1, but got target size: {target.size}"
        check(target.size == 1, words, ValueError)
    else:
        check(target.ndim, no_dimensions(0))
        check(self.shape[0] == target.shape[0], f"size mismatch {_sizes(self, target)})")
    _check_weight(weight, self.shape[-1], "")
    if self.ndim == 1:  # torch always reduces a single score vector: "none" gives its loss and the target's weight
        self, target, reduction = self[None], target.reshape(1), MEAN if reduction == MEAN else SUM
    return _forward("nll_loss_out_frame", self, target, weight, reduction, ignore_index)


@kernel("nll_loss_backward", quick=exact(_quick_backward))
def nll_loss_backward(grad_output, self, target, weight, reduction, ignore_index, total_weight):
    """Gradient of the loss: at the target class, minus the weight times the output's gradient; 0 elsewhere."""
    check(0 < self.ndim <= 2, "input tensor should be 1D or 2D")
    check(target.ndim <= 1, multi_target())
    single = self.ndim == 1 and target.ndim == 0
    check(single or target.ndim, no_dimensions(0))
    check(single or len(self) == len(target), f"size mismatch {_sizes(self, target)})")
    _check_total(total_weight)
    _check_all_or_none(weight, self.shape[-1])
    each = reduction == NONE and self.ndim == 2
    if each:
        check(grad_output.ndim, no_dimensions(0))
        check_shape(grad_output, self.shape[:1])
    else:
        check_single(grad_output)
    require("nll_loss_backward_out_frame", self.dtype, FLOATS)
    check(target.dtype in (dt.int64, dt.uint8), expected_type(dt.int64, target.dtype))
    x, index = (self, target) if self.ndim == 2 else (self[None], target.reshape(-1)[:1])
    rest = (weight, reduction, ignore_index, total_weight, each)
    return _backward("nll_loss_backward_out_frame", grad_output, x, index, *rest).reshape(self.shape)


def _check_images(self: ndarray, target: ndarray, weight: ndarray | None) -> None:
    words = f"only batches of spatial targets supported (3D tensors) but got targets of dimension: {target.ndim}"
    check(target.ndim == 3, words)
    words = f"only batches of spatial inputs supported (4D tensors), but got input of dimension: {self.ndim}"
    check(self.ndim == 4, words)
    _check_target(target)
    _check_all_or_none(weight, self.shape[1])
    words = f"size mismatch (got input: {shape_text(self.shape)} , target: {shape_text(target.shape)}"
    check((self.shape[0], *self.shape[2:]) == target.shape, words)


@kernel("nll_loss2d_forward")
def nll_loss2d_forward(self, target, weight, reduction, ignore_index):
    """`nll_loss_forward` of scores (N, C, H, W) for targets (N, H, W)."""
    _check_images(self, target, weight)
    require("nll_loss2d_forward_out_frame", self.dtype, FLOATS)
    check_type(self.dtype, weight)
    check(target.dtype == dt.int64 or (not target.size and reduction != NONE), expected_type(dt.int64, target.dtype))
    return _forward("nll_loss2d_forward_out_frame", self, target, weight, reduction, ignore_index)


@kernel("nll_loss2d_backward")
def nll_loss2d_backward(grad_output, self, target, weight, reduction, ignore_index, total_weight):
    """`nll_loss_backward` of scores (N, C, H, W)."""
    _check_images(self, target, weight)
    dense = new_like(self, self.dtype).flags.c_contiguous
    check(dense, "grad_input must be contiguous")
    _check_total(total_weight, "")
    require("nll_loss2d_backward_out_frame", self.dtype, FLOATS)
    check_type(self.dtype, weight)
    if reduction == NONE:
        words = "grad_output must have same dimension as target (3) but got dimension:"
        check(grad_output.ndim == 3, f"{words} {shape_text(grad_output.shape)}")
        words = f"size mismatch (got grad_output: {shape_text(grad_output.shape)} target: {shape_text(target.shape)}"
        check(grad_output.shape == target.shape, words)
    else:
        check_type(self.dtype, total_weight)
        check_single(grad_output)
    check_type(self.dtype, grad_output)
    check_type(dt.int64, target)
    rest = (weight, reduction, ignore_index, total_weight, reduction == NONE)
    return _backward("nll_loss2d_backward_out_frame", grad_output, self, target, *rest)


(nll_loss,) = rows("nll_loss", nll_loss_forward, "Only the loss of `nll_loss_forward`.", part=0)
(nll_loss2d,) = rows("nll_loss2d", nll_loss2d_forward, "Only the loss of `nll_loss2d_forward`.", part=0)


@kernel("nll_loss_nd")
def nll_loss_nd(self, target, weight=None, reduction=1, ignore_index=-100):
    """Negative log likelihood of scores (C), (N, C) or (N, C, ...)."""
    check(self.ndim >= 1, f"Expected 1 or more dimensions (got {self.ndim})", ValueError)
    n, size = self.shape[0], target.shape[0] if target.ndim else 0
    words = f"Expected input batch_size ({n}) to match target batch_size ({size})."
    check(self.ndim == 1 or n == size, words, ValueError)
    if self.ndim <= 2:
        return nll_loss(self, target, weight, reduction, ignore_index)
    if self.ndim == 4:
        return stride_rules.dense(nll_loss2d(self, target, weight, reduction, ignore_index))
    check(target.ndim > 0, "ArrayRef: invalid slice, N = 1; size = 0")
    expected = (self.shape[0], *self.shape[2:])
    check(target.shape == expected, f"Expected target size {shape_text(expected)}, got {shape_text(target.shape)}")
    c, points = self.shape[1], math.prod(self.shape[2:])
    flat = nll_loss2d(self.reshape(n, c, 1, points), target.reshape(n, 1, points), weight, reduction, ignore_index)
    return stride_rules.dense(flat.reshape(expected)) if reduction == NONE else flat


@kernel("cross_entropy_loss")
def cross_entropy_loss(self, target, weight=None, reduction=1, ignore_index=-100, label_smoothing=0.0):
    """Negative log likelihood of ``log_softmax(self)``; targets are class indices, or probabilities like ``self``."""
    smoothing = f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing:g}"
    axis = 0 if self.ndim == 1 else 1
    if self.shape == target.shape:
        words = f"Expected floating point type for target with class probabilities, got {dt.scalar_name(target.dtype)}"
        check(dt.is_floating(target.dtype), words)
        check(ignore_index < 0, "ignore_index is not supported for floating point target")
        check(self.ndim > 0, no_dimensions(1))
        _check_weight(weight, self.shape[axis], "cross_entropy: ")
        scores = log_softmax(self, axis)
        check(not label_smoothing > 1.0, smoothing)
        _check_reduction(reduction)
        return _of_probabilities(scores, target, weight, reduction, label_smoothing)
    check(not label_smoothing > 1.0, smoothing)
    scores = log_softmax(self, axis)
    if label_smoothing > 0.0:
        return _smoothed(scores, target, weight, reduction, ignore_index, label_smoothing)
    return nll_loss_nd(scores, target, weight, reduction, ignore_index)


def _check_weight(weight: ndarray | None, n_classes: int, name: str) -> None:
    if weight is not None:
        words = f"{name}weight tensor should be defined either for all {n_classes} classes or no classes but got weight"
        check(weight.shape == (n_classes,), f"{words} tensor of shape: {shape_text(weight.shape)}")


def _check_reduction(reduction: int) -> None:
    check(reduction in (NONE, MEAN, SUM), f"Invalid reduction type encountered in cross_entropy: {reduction}")


def _weighted(x: ndarray, weight: ndarray | None, axis: int) -> ndarray:
    """Multiply the scores by the weights of their classes."""
    return x if weight is None else mul(x, weight.reshape([-1 if d == axis else 1 for d in range(x.ndim)]))


def _smoothing_of_each(label_smoothing: float, n_classes: int) -> Any:
    return label_smoothing / n_classes if n_classes else math.inf


def _of_probabilities(
    scores: ndarray, target: ndarray, weight: ndarray | None, reduction: int, label_smoothing: float
) -> ndarray:
    axis = min(scores.ndim - 1, 1)
    n_classes = scores.shape[axis]
    if label_smoothing > 0.0:
        target = add(mul(target, 1 - label_smoothing), _smoothing_of_each(label_smoothing, n_classes))
    total = neg(total_of(_weighted(mul(scores, target), weight, axis), axis if reduction == NONE else None))
    return div(total, scores.size // n_classes if scores.size else 0) if reduction == MEAN else total


def _smoothed(
    scores: ndarray, target: ndarray, weight: ndarray | None, reduction: int, ignore_index: int, label_smoothing: float
) -> ndarray:
    axis = min(scores.ndim - 1, 1)
    nll = nll_loss_nd(scores, target, weight, reduction, ignore_index)
    _check_reduction(reduction)
    smooth = neg(total_of(_weighted(scores, weight, axis), axis))
    ignored = target == ignore_index
    check_fits(ignored, smooth)
    smooth = np.where(ignored, smooth.dtype.type(0), smooth)
    if reduction != MEAN:
        total = reduce(smooth, reduction)
    elif weight is None:
        total = div(total_of(smooth, None), int(np.count_nonzero(~ignored)))
    else:
        check(target.dtype in INDEX_DTYPES, "gather(): Expected dtype int32/int64 for index")
        places = np.where(ignored, 0, target)
        picked = np.where(ignored, weight.dtype.type(0), weight[places] if weight.size else 0)
        total = div(total_of(smooth, None), total_of(picked, None))
    return add(mul(nll, 1 - label_smoothing), mul(total, _smoothing_of_each(label_smoothing, scores.shape[axis])))
