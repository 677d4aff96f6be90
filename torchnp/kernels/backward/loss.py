"""Gradients of losses with respect to their input."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.checks import check, check_type, require
from torchnp.errors import expected_type, multi_target, shape_text
from torchnp.kernels import _elementwise as el
from torchnp.kernels._memory import empty_in_order, memory_order
from torchnp.kernels.arithmetic import add_scalar, div, mul
from torchnp.kernels.loss import MEAN, NONE, check_multilabel, multi_margin, multilabel_reach, reshaped
from torchnp.kernels.nll import check_nll2d, classes
from torchnp.kernels.pointwise import exp, neg
from torchnp.registry import kernel
from torchnp.scalars import number

ndarray = np.ndarray


def _inputs(
    cpu: str, takes: Any, reduction: int, grad_output: ndarray, self: ndarray, target: ndarray, scale: float = 1.0,
    stepwise: tuple[np.dtype, ...] = dt.HALVES,
) -> tuple[ndarray, ndarray, ndarray]:  # fmt: skip
    """Gradient, difference and the factor of a mean; the result is written in the input's dtype.

    The half types in ``stepwise`` are rounded at each step.
    """
    el.check_broadcast(grad_output, self, target)
    el.check_result_dtype(dt.result_type(self, target, grad_output), self.dtype)
    (g, x, t), out = el.in_opmath(cpu, takes, grad_output, self, target)
    if out in stepwise:
        g, x, t = (dt.cast(v, out) for v in (g, x, t))
    norm = number(scale / self.size if reduction == MEAN and self.size else scale, x.dtype)
    return g, x - t, norm


@kernel("mse_loss_backward")
def mse_loss_backward(grad_output: ndarray, self: ndarray, target: ndarray, reduction: int) -> ndarray:
    """``2 * (x - t) * g``, divided by N for the mean."""
    g, x, norm = _inputs("mse_backward_cpu_out", el.INTS | el.FLOATS, reduction, grad_output, self, target, 2.0)
    return el.finish(norm * x * g, self.dtype)


@kernel("smooth_l1_loss_backward")
def smooth_l1_loss_backward(grad_output, self, target, reduction, beta):
    """``g`` times the difference over ``beta``, limited to [-1, 1]."""
    g, x, norm = _inputs(
        "smooth_l1_backward_cpu_out", el.INTS | el.FLOATS, reduction, grad_output, self, target, stepwise=()
    )
    b = number(float(beta), x.dtype)
    return el.finish(np.where(x <= -b, -norm * g, np.where(x >= b, norm * g, norm * x * g / b)), self.dtype)


@kernel("huber_loss_backward")
def huber_loss_backward(grad_output: ndarray, self: ndarray, target: ndarray, reduction: int, delta: float) -> ndarray:
    """``g`` times the difference, limited to [-delta, delta]."""
    el.check_broadcast(grad_output, self, target)
    el.check_same_dtype(self, target, grad_output)
    g, x, norm = _inputs("huber_backward_cpu_out", el.FLOATS, reduction, grad_output, self, target)
    d = number(float(delta), x.dtype)
    return el.finish(np.where(x <= -d, -norm * g * d, np.where(x >= d, norm * g * d, norm * x * g)), self.dtype)


@kernel("binary_cross_entropy_backward")
def binary_cross_entropy_backward(grad_output, self, target, weight=None, reduction=1):
    """``g * (x - t) / (x * (1 - x))``, the divisor at least 1e-12."""
    g, x, t = grad_output.squeeze(), self.squeeze(), target.squeeze()
    el.check_broadcast(g, x, t)
    el.check_same_dtype(grad_output, self, target)
    (g, x, t), out = el.in_opmath("binary_cross_entropy_backward", el.FLOATS, g, x, t)
    if dt.is_half(out):  # rounded at each step
        g, x, t = (dt.cast(v, out) for v in (g, x, t))
    one, small = number(1, x.dtype), number(1e-12, x.dtype)
    grad = reshaped(el.finish(g * (x - t) / np.maximum((one - x) * x, small), out), self.shape)
    if weight is not None:
        grad = el.in_place(grad, mul(grad, weight))
    return div(grad, self.size) if reduction == MEAN else grad


@kernel("soft_margin_loss_backward")
def soft_margin_loss_backward(grad_output: ndarray, self: ndarray, target: ndarray, reduction: int) -> ndarray:
    """``-t * z / (1 + z) * g`` with ``z = exp(-t * x)``."""
    z = exp(mul(neg(target), self))
    norm = 1.0 / self.size if reduction == MEAN and self.size else 1.0
    value = mul(mul(div(mul(neg(target), z), add_scalar(z, 1)), norm), grad_output)
    el.check_result_dtype(value.dtype, self.dtype)
    return dt.cast(value, self.dtype)


def _scatter(cpu, g, self, target, weight, reduction, ignore_index, total_weight, each):
    """``-weight * g`` at each target class of scores (N, C, ...), 0 elsewhere; a g for ``each`` target or one for all."""
    if not each:
        words = f"Expected a single element grad_output tensor, but got: {shape_text(g.shape)}"
        check(g.ndim <= 1 and g.size == 1, words)
        g = g.reshape(())
    require(cpu, self.dtype, el.FLOATS)
    check(target.dtype in (dt.int64, dt.uint8), expected_type(dt.int64, target.dtype))
    check_type(self.dtype, *(() if weight is None else (weight,)))
    dtype, inner = self.dtype, dt.opmath(self.dtype)
    index, counted = classes(target, ignore_index, self.shape[1])
    g = dt.cast(g, inner)
    if reduction == MEAN:
        g = g / dt.cast(total_weight.reshape(()), inner)
    factor = np.ones(index.shape, inner) if weight is None else dt.cast(weight, inner)[index]
    value = np.where(counted, -factor * g, inner.type(0))
    grad = np.zeros(self.shape, dtype)
    np.put_along_axis(grad, index[:, None], el.finish(value, dtype)[:, None], axis=1)
    return grad


@kernel("nll_loss_backward")
def nll_loss_backward(grad_output, self, target, weight, reduction, ignore_index, total_weight):
    """Minus the weighted gradient at the target class, 0 elsewhere."""
    check(0 < self.ndim <= 2, "input tensor should be 1D or 2D")
    check(target.ndim <= 1, multi_target())
    sizes = f"(got input: {shape_text(self.shape)}, target: {shape_text(target.shape)})"
    check(self.ndim == 1 or self.shape[0] == target.shape[0], f"size mismatch {sizes}")
    _check_total(total_weight)
    words = "weight tensor should be defined either for all or no classes"
    check(weight is None or weight.size == self.shape[-1], words)
    each = reduction == NONE and self.ndim == 2
    if each:
        n, size = self.shape[0], grad_output.shape[0] if grad_output.ndim else 1
        words = f"but got: dimension {grad_output.ndim} and tensor.size[0] = {size}"
        check(grad_output.shape == (n,), f"Expected a tensor of dimension 1 and tensor.size[0] == {n} {words}")
    x, index = (self, target) if self.ndim == 2 else (self[None], target.reshape(1))
    rest = (weight, reduction, ignore_index, total_weight, each)
    return _scatter("nll_loss_backward_out_frame", grad_output, x, index, *rest).reshape(self.shape)


def _check_total(total_weight: ndarray) -> None:
    found = f"{shape_text(total_weight.shape)} ({total_weight.size} elements)"
    check(total_weight.size == 1, f"expected total_weight to be a  single element tensor, got: {found}")


@kernel("nll_loss2d_backward")
def nll_loss2d_backward(grad_output, self, target, weight, reduction, ignore_index, total_weight):
    """`nll_loss_backward` of scores (N, C, H, W)."""
    check_nll2d(self, target, weight)
    dense = empty_in_order(self.shape, self.dtype, memory_order(self)).flags.c_contiguous
    check(dense, "grad_input must be contiguous")
    _check_total(total_weight)
    if reduction == NONE:
        shape = shape_text(grad_output.shape)
        words = f"grad_output must have same dimension as target (3) but got dimension: {shape}"
        check(grad_output.ndim == 3, words)
        sizes = f"(got grad_output: {shape}, target: {shape_text(target.shape)}"
        check(grad_output.shape == target.shape, f"size mismatch {sizes}")
    rest = (weight, reduction, ignore_index, total_weight, reduction == NONE)
    return _scatter("nll_loss2d_backward_out_frame", grad_output, self, target, *rest)


# ---------------------------------------------------------------- margins


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
