"""Losses of classification: negative log likelihood and cross entropy."""

from __future__ import annotations

import math

import numpy as np

from torchnp import dtypes as dt
from torchnp.checks import check, check_type, require
from torchnp.errors import expected_type, multi_target, no_dimensions, shape_text
from torchnp.kernels._elementwise import FLOATS, finish
from torchnp.kernels._rows import rows
from torchnp.kernels.arithmetic import add, div, mul
from torchnp.kernels.loss import MEAN, NONE, SUM, reduce
from torchnp.kernels.pointwise import neg
from torchnp.kernels.softmax import log_softmax
from torchnp.registry import kernel

ndarray = np.ndarray


def _check_target(target: ndarray) -> None:
    name = dt.scalar_name(target.dtype)
    check(target.dtype in (dt.int64, dt.uint8), f"expected target dtype to be Long or Byte, but got {name}")


def check_dtypes(cpu: str, self: ndarray, weight: ndarray | None) -> None:
    """Refuse what torch's kernel has no code for, and weights of another dtype."""
    require(cpu, self.dtype, FLOATS)
    check_type(self.dtype, *(() if weight is None else (weight,)))


def classes(target: ndarray, ignore_index: int, count: int) -> tuple[ndarray, ndarray]:
    """The targets with ignored ones replaced by class 0, and which ones count; others have to be classes."""
    target = target.astype(np.int64, copy=False)
    counted = target != ignore_index
    outside = counted & ((target < 0) | (target >= count))
    if outside.any():
        raise IndexError(f"Target {target[outside].flat[0]} is out of bounds.")
    return np.where(counted, target, 0), counted


def _forward(
    x: ndarray, target: ndarray, weight: ndarray | None, reduction: int, ignore_index: int
) -> tuple[ndarray, ndarray]:
    """The loss of scores of shape (N, C, ...) for targets of shape (N, ...), and the sum of the weights."""
    dtype, inner = x.dtype, dt.opmath(x.dtype)
    index, counted = classes(target, ignore_index, x.shape[1])
    picked = dt.cast(np.take_along_axis(x, index[:, None], axis=1)[:, 0], inner) if x.shape[1] else np.zeros(0, inner)
    factor = np.ones(index.shape, inner) if weight is None else dt.cast(weight, inner)[index]
    factor = np.where(counted, factor, inner.type(0))
    loss = np.where(counted, -picked * factor, inner.type(0))
    if reduction == NONE:
        return finish(loss, dtype), np.zeros((), dtype)
    total_weight = np.asarray(factor.sum(dtype=np.float64)).astype(inner)
    total = np.asarray(loss.sum(dtype=np.float64)).astype(inner)
    return finish(total / total_weight if reduction == MEAN else total, dtype), finish(total_weight, dtype)


@kernel("nll_loss_forward")
def nll_loss_forward(self, target, weight, reduction, ignore_index):
    """Minus the score of the target class, weighted; and the sum of the weights."""
    check(0 < self.ndim <= 2, "input tensor should be 1D or 2D")
    check(target.ndim <= 1, multi_target())
    _check_target(target)
    if self.ndim == 1 and target.size != 1:
        raise ValueError(f"For 1D input, 1D target must have size 1, but got target size: {target.size}")
    if self.ndim == 2:
        check(target.ndim, no_dimensions(0))
    words = f"size mismatch (got input: {shape_text(self.shape)}, target: {shape_text(target.shape)})"
    check(self.ndim == 1 or (target.ndim == 1 and self.shape[0] == target.shape[0]), words)
    _check_weight(weight, self.shape[-1], "")
    check_dtypes("nll_loss_out_frame", self, weight)
    if self.ndim == 2:
        return _forward(self, target, weight, reduction, ignore_index)
    # A single score vector is always reduced: "none" gives its loss and the weight of its target.
    return _forward(self[None], target.reshape(1), weight, MEAN if reduction == MEAN else SUM, ignore_index)


@kernel("nll_loss2d_forward")
def nll_loss2d_forward(self, target, weight, reduction, ignore_index):
    """`nll_loss_forward` of scores (N, C, H, W) for targets (N, H, W)."""
    check_nll2d(self, target, weight)
    _check_target(target)
    check(target.dtype == dt.int64 or (not target.size and reduction != NONE), expected_type(dt.int64, target.dtype))
    check_dtypes("nll_loss2d_forward_out_frame", self, weight)
    return _forward(self, target, weight, reduction, ignore_index)


def check_nll2d(self: ndarray, target: ndarray, weight: ndarray | None) -> None:
    words = f"only batches of spatial targets supported (3D tensors) but got targets of dimension: {target.ndim}"
    check(target.ndim == 3, words)
    words = f"only batches of spatial inputs supported (4D tensors), but got input of dimension: {self.ndim}"
    check(self.ndim == 4, words)
    words = "weight tensor should be defined either for all or no classes"
    check(weight is None or weight.size == self.shape[1], words)
    words = f"size mismatch (got input: {shape_text(self.shape)} , target: {shape_text(target.shape)}"
    check((self.shape[0], *self.shape[2:]) == target.shape, words)


(nll_loss,) = rows("nll_loss", nll_loss_forward, "`nll_loss_forward`, the loss alone.", part=0)
(nll_loss2d,) = rows("nll_loss2d", nll_loss2d_forward, "`nll_loss2d_forward`, the loss alone.", part=0)


@kernel("nll_loss_nd")
def nll_loss_nd(self, target, weight=None, reduction=1, ignore_index=-100):
    """Negative log likelihood of scores (C), (N, C) or (N, C, ...)."""
    check(self.ndim >= 1, f"Expected 1 or more dimensions (got {self.ndim})", ValueError)
    if self.ndim != 1 and (target.ndim == 0 or self.shape[0] != target.shape[0]):
        size = target.shape[0] if target.ndim else 0
        raise ValueError(f"Expected input batch_size ({self.shape[0]}) to match target batch_size ({size}).")
    if self.ndim <= 2:
        return nll_loss(self, target, weight, reduction, ignore_index)
    if self.ndim == 4:
        return nll_loss2d(self, target, weight, reduction, ignore_index)
    expected = (self.shape[0], *self.shape[2:])
    check(target.shape == expected, f"Expected target size {shape_text(expected)}, got {shape_text(target.shape)}")
    (n, c), points = self.shape[:2], math.prod(self.shape[2:])
    flat = nll_loss2d(self.reshape(n, c, 1, points), target.reshape(n, 1, points), weight, reduction, ignore_index)
    return flat.reshape(expected) if reduction == NONE else flat


@kernel("cross_entropy_loss")
def cross_entropy_loss(self, target, weight=None, reduction=1, ignore_index=-100, label_smoothing=0.0):
    """The negative log likelihood of ``log_softmax(self)``; targets are classes, or probabilities of ``self``'s shape."""
    smoothing = f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing:g}"
    if self.shape == target.shape:
        words = f"Expected floating point type for target with class probabilities, got {dt.scalar_name(target.dtype)}"
        check(dt.is_floating(target.dtype), words)
        check(ignore_index < 0, "ignore_index is not supported for floating point target")
        _check_weight(weight, self.shape[0 if self.ndim == 1 else 1], "cross_entropy: ")
        check(not label_smoothing > 1.0, smoothing)
        return _of_probabilities(self, target, weight, reduction, label_smoothing)
    check(not label_smoothing > 1.0, smoothing)
    scores = log_softmax(self, 0 if self.ndim == 1 else 1)
    if label_smoothing > 0.0:
        return _smoothed(scores, target, weight, reduction, ignore_index, label_smoothing)
    return nll_loss_nd(scores, target, weight, reduction, ignore_index)


def _check_weight(weight: ndarray | None, n_classes: int, name: str) -> None:
    if weight is not None:
        words = f"{name}weight tensor should be defined either for all {n_classes} classes or no classes but got weight"
        check(weight.shape == (n_classes,), f"{words} tensor of shape: {shape_text(weight.shape)}")


def _check_reduction(reduction: int) -> None:
    check(reduction in (NONE, MEAN, SUM), f"Invalid reduction type encountered in cross_entropy: {reduction}")


def _along(weight: ndarray, like: ndarray, axis: int) -> ndarray:
    """Class weights shaped to broadcast against scores."""
    return weight.reshape([-1 if d == axis else 1 for d in range(like.ndim)])


def _sum(x: ndarray, axis: int | None) -> ndarray:
    return finish(np.add.reduce(dt.cast(x, dt.opmath(x.dtype)), axis=axis), x.dtype)


def _of_probabilities(
    self: ndarray, target: ndarray, weight: ndarray | None, reduction: int, label_smoothing: float
) -> ndarray:
    axis = 0 if self.ndim == 1 else 1
    n_classes = self.shape[axis]
    _check_reduction(reduction)
    scores = log_softmax(self, axis)
    if label_smoothing > 0.0:
        target = add(mul(target, 1 - label_smoothing), label_smoothing / n_classes)
    product = mul(scores, target)
    if weight is not None:
        product = mul(product, _along(weight, product, axis))
    if reduction == NONE:
        return neg(_sum(product, axis))
    total = neg(_sum(product, None))
    return div(total, self.size // n_classes if self.size else 0) if reduction == MEAN else total


def _smoothed(
    scores: ndarray, target: ndarray, weight: ndarray | None, reduction: int, ignore_index: int, label_smoothing: float
) -> ndarray:
    axis = 0 if scores.ndim == 1 else 1
    n_classes = scores.shape[axis]
    _check_reduction(reduction)
    nll = nll_loss_nd(scores, target, weight, reduction, ignore_index)
    smooth = neg(_sum(scores if weight is None else mul(scores, _along(weight, scores, axis)), axis))
    ignored = target == ignore_index
    smooth = np.where(ignored, smooth.dtype.type(0), smooth)
    if reduction == MEAN:
        if weight is None:
            total = div(_sum(smooth, None), int(np.count_nonzero(~ignored)))
        else:
            picked = np.where(ignored, weight.dtype.type(0), weight[np.where(ignored, 0, target)])
            total = div(_sum(smooth, None), _sum(picked, None))
    else:
        total = reduce(smooth, reduction)
    return add(mul(nll, 1 - label_smoothing), mul(total, label_smoothing / n_classes))
