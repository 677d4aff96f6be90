"""Gradients of margin losses."""

from __future__ import annotations

import numpy as np

from torchnp.checks import check
from torchnp.errors import shape_text
from torchnp.kernels.loss import MEAN, NONE
from torchnp.kernels.margin import check_multilabel, multi_margin, multilabel_reach
from torchnp.registry import kernel

ndarray = np.ndarray


def _share(shape: tuple[int, ...], dtype: np.dtype, reduction: int) -> np.number:
    """The gradient of each term in the sum over classes."""
    n, c = shape
    return dtype.type(1 / (n * c) if reduction == MEAN and n else 1 / c)


def _column(grad_output: ndarray, reduction: int) -> ndarray:
    return grad_output.reshape(-1, 1) if reduction == NONE else grad_output.reshape(1, 1)


@kernel("multi_margin_loss_backward")
def multi_margin_loss_backward(grad_output, self, target, p, margin, weight=None, reduction=1):
    """The classes inside the margin push, the target takes the sum."""
    index, reach, factor = multi_margin("multi_margin_loss_backward_cpu_kernel", self, target, p, margin, weight)
    push = _share(reach.shape, reach.dtype, reduction) * (np.ones_like(reach) if p == 1 else 2 * reach)
    grad = np.where(reach > 0, push * factor[:, None], reach.dtype.type(0))
    np.put_along_axis(grad, index[:, None], 0 - grad.sum(axis=1, keepdims=True), axis=1)
    return (grad * _column(grad_output, reduction)).reshape(self.shape)


@kernel("multilabel_margin_loss_backward")
def multilabel_margin_loss_backward(grad_output, self, target, reduction, is_target):
    """Each class inside a target's margin is pushed down, the target up."""
    x, rows = check_multilabel("multilabel_margin_loss_backward_out_frame", self, target, 3)
    sizes = f"{shape_text(is_target.shape)} for target of size: {shape_text(target.shape)}"
    check(is_target.shape == target.shape, f"inconsistent is_target size: {sizes}")
    index, _, reach = multilabel_reach(x, rows, is_target.reshape(x.shape) != 0)
    inside = (reach > 0).astype(x.dtype)
    grad = inside.sum(axis=1)
    np.add.at(grad, (np.arange(len(x))[:, None], index), -inside.sum(axis=2))
    return (grad * _share(x.shape, x.dtype, reduction) * _column(grad_output, reduction)).reshape(self.shape)
