"""Margin losses between a target class, or several, and all others."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.checks import check, check_type, require
from torchnp.errors import shape_text
from torchnp.kernels._elementwise import WIDE
from torchnp.kernels._rows import rows
from torchnp.kernels.loss import MEAN, NONE
from torchnp.kernels.nll import check_weight_dtype
from torchnp.registry import kernel
from torchnp.scalars import scalar

ndarray = np.ndarray


def _rows(self: ndarray) -> ndarray:
    """The input as samples by classes."""
    words = "Expected non-empty vector or matrix with optional 0-dim batch size, but got: " + shape_text(self.shape)
    check((self.ndim <= 1 and self.size) or (self.ndim == 2 and self.shape[1] != 0), words)
    return self if self.ndim == 2 else self.reshape(1, -1)


# ---------------------------------------------------------------- one target class


def multi_margin(
    cpu: str, self: ndarray, target: ndarray, p: Any, margin: Any, weight: ndarray | None
) -> tuple[ndarray, ndarray, ndarray]:
    """For each sample its target class, for each class how far it reaches into the margin, and the class weight."""
    check(p in (1, 2), "only p == 1 and p == 2 supported")
    x = _rows(self)
    n, c = x.shape
    check(
        target.ndim <= 1 and target.size == n,
        f"multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples (batch size). "
        f"Expected target size [{n}], but got {shape_text(target.shape)}. Input has shape {shape_text(self.shape)}.",
    )
    words = f"inconsistent weight size, expected {c} but got {shape_text(weight.shape) if weight is not None else ''}"
    check(weight is None or (weight.ndim <= 1 and weight.size == c), words)
    if x.size:
        require(cpu, self.dtype, WIDE)
        check_type(dt.int64, target)
        check_weight_dtype(self, weight)
    index = target.reshape(-1)
    check(np.all((index >= 0) & (index < c)), "target out of range")
    reach = scalar(margin, x.dtype) - np.take_along_axis(x, index[:, None], axis=1) + x
    reach = np.where(reach > 0, reach, x.dtype.type(0))  # torch leaves out NaN, too
    np.put_along_axis(reach, index[:, None], x.dtype.type(0), axis=1)
    factor = np.ones(n, x.dtype) if weight is None else weight.reshape(-1)[index]
    return index, reach, factor


@kernel("multi_margin_loss")
def multi_margin_loss(self, target, p=1, margin=1, weight=None, reduction=1):
    """``max(0, margin - x[target] + x[other]) ** p``, summed over the other classes, over the number of classes."""
    _, reach, factor = multi_margin("multi_margin_loss_cpu_kernel", self, target, p, margin, weight)
    terms = np.where(reach > 0, (reach if p == 1 else reach * reach) * factor[:, None], reach.dtype.type(0))
    loss = terms.sum(axis=1) / reach.dtype.type(reach.shape[1])
    return _reduced(loss, reduction, target.ndim > 0)


def _reduced(loss: ndarray, reduction: int, batched: bool) -> ndarray:
    if reduction == NONE:
        return loss if batched else loss.reshape(())
    return np.asarray(loss.sum() / (loss.dtype.type(len(loss)) if reduction == MEAN else loss.dtype.type(1)))


# ---------------------------------------------------------------- several target classes


def multilabel_reach(x: ndarray, target: ndarray, is_target: ndarray | None = None) -> tuple[ndarray, ndarray, ndarray]:
    """Targets up to the first -1, which classes they are, and the reach of each class into each target's margin."""
    listed = np.logical_and.accumulate(target >= 0, axis=1)
    index = np.where(listed, target, 0)
    if is_target is None:
        is_target = np.zeros(x.shape, np.bool_)
        rows, columns = np.nonzero(listed)
        is_target[rows, target[rows, columns]] = True
    picked = np.take_along_axis(x, index, axis=1)
    reach = 1 - picked[:, :, None] + x[:, None, :]
    counts = (reach > 0) & listed[:, :, None] & ~is_target[:, None, :]
    return index, is_target, np.where(counts, reach, x.dtype.type(0))


def check_multilabel(cpu: str, self: ndarray, target: ndarray, position: int) -> tuple[ndarray, ndarray]:
    """Input and target as samples by classes."""
    x = _rows(self)
    words = f"inconsistent target size: {shape_text(target.shape)} for input of size: {shape_text(self.shape)}"
    check((target.size == 1 and self.ndim == 0) or target.shape == self.shape, words)
    rows = target.reshape(x.shape)
    check(np.all((rows >= -1) & (rows < x.shape[1])), f"argument #{position} 'target' is out of range")
    if x.size:
        require(cpu, self.dtype, WIDE)
        check_type(dt.int64, target)
    return x, rows


@kernel("multilabel_margin_loss_forward")
def multilabel_margin_loss_forward(self: ndarray, target: ndarray, reduction: int) -> tuple[ndarray, ndarray]:
    """``max(0, 1 - x[target] + x[other])`` over targets and other classes, and which classes are targets."""
    x, rows = check_multilabel("multilabel_margin_loss_forward_out_frame", self, target, 2)
    _, is_target, reach = multilabel_reach(x, rows)
    loss = reach.sum(axis=(1, 2)) / x.dtype.type(x.shape[1])
    return _reduced(loss, reduction, self.ndim == 2), is_target.astype(x.dtype).reshape(target.shape)


rows(
    "multilabel_margin_loss", multilabel_margin_loss_forward, "`multilabel_margin_loss_forward`, the loss alone.",
    part=0,
)  # fmt: skip
