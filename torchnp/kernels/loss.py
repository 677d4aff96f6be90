"""Losses of two tensors of one shape, elementwise and then reduced; classification losses are in `nll`."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.checks import check, require
from torchnp.errors import mean_of, multi_target, output_shape, shape_text
from torchnp.kernels import _elementwise as el
from torchnp.kernels._rows import rows
from torchnp.kernels.activation import log_sigmoid_forward
from torchnp.kernels.arithmetic import add, add_scalar, div, mul, rsub_scalar, sub, sub_scalar
from torchnp.kernels.compare import eq, le, ne, where
from torchnp.kernels.limits import clamp_min
from torchnp.kernels.pointwise import abs, exp, log, log1p, neg, sqrt
from torchnp.kernels.special import xlogy
from torchnp.registry import kernel
from torchnp.scalars import number

ndarray = np.ndarray
NONE, MEAN, SUM = 0, 1, 2


def reduce(loss: ndarray, reduction: int) -> ndarray:
    """The mean or sum of all elements, in the dtype of the loss; real sums are taken in double."""
    if reduction not in (MEAN, SUM):
        return loss
    check(reduction == SUM or dt.is_inexact(loss.dtype), mean_of(loss.dtype))
    wide = dt.complex128 if dt.is_complex(loss.dtype) else dt.float64 if dt.is_floating(loss.dtype) else dt.int64
    total = np.add.reduce(dt.cast(loss, dt.opmath(loss.dtype)), axis=None, dtype=wide)
    out = loss.dtype if wide != dt.int64 else wide
    if reduction == MEAN:
        # The sum is rounded before the division, so that it overflows where torch's does.
        total = dt.cast(np.asarray(total), dt.opmath(out)) / number(loss.size, dt.opmath(out))
    return el.finish(total, out)


def _elementwise(cpu: str, self: ndarray, target: ndarray) -> tuple[ndarray, ndarray, np.dtype]:
    el.check_broadcast(self, target)
    (x, t), out = el.in_opmath(cpu, el.FLOATS, self, target)
    return x, t, out


def reshaped(x: ndarray, shape: tuple[int, ...]) -> ndarray:
    """A result without dimensions of size 1 in the shape of the input, if it was not broadcast."""
    if x.size != math.prod(shape):
        raise output_shape(shape, x.shape)
    return x.reshape(shape)


# ---------------------------------------------------------------- distances


@kernel("mse_loss")
def mse_loss(self: ndarray, target: ndarray, reduction: int = 1) -> ndarray:
    """The squared difference; half types round the difference too."""
    x, t, out = _elementwise("mse_cpu", self, target)
    difference = dt.cast(el.finish(x - t, out), x.dtype)
    return reduce(el.finish(np.square(difference), out), reduction)


(l1_loss,) = rows(
    "l1_loss", lambda x, target, reduction: reduce(abs(sub(x, target)), reduction), "The absolute difference."
)


@kernel("smooth_l1_loss")
def smooth_l1_loss(self: ndarray, target: ndarray, reduction: int = 1, beta: float = 1.0) -> ndarray:
    """Quadratic where the difference is below ``beta``, linear beyond."""
    check(beta >= 0, "smooth_l1_loss does not support negative values for beta.")
    x, t, out = _elementwise("smooth_l1_cpu", self, target)
    if beta == 0:
        return l1_loss(self, target, reduction)
    if out == dt.float16:  # rounded at each step
        x, t = dt.cast(x, out), dt.cast(t, out)
    z, b, half = np.abs(x - t), number(float(beta), x.dtype), number(0.5, x.dtype)
    return reduce(el.finish(np.where(z < b, half * z * z / b, z - half * b), out), reduction)


@kernel("huber_loss")
def huber_loss(self: ndarray, target: ndarray, reduction: int = 1, delta: float = 1.0) -> ndarray:
    """Quadratic where the difference is at most ``delta``, linear beyond; in the dtype of the input."""
    check(delta > 0, "huber_loss does not support non-positive values for delta.")
    el.check_broadcast(self, target)
    el.check_result_dtype(dt.result_type(self, target), self.dtype)
    x, t, out = _elementwise("huber_cpu", self, target)
    if out == dt.bfloat16:  # rounded at each step
        x, t = dt.cast(x, out), dt.cast(t, out)
    z, d, half = np.abs(x - t), number(float(delta), x.dtype), number(0.5, x.dtype)
    return reduce(el.finish(np.where(z <= d, half * z * z, d * (z - half * d)), self.dtype), reduction)


# ---------------------------------------------------------------- probabilities


@kernel("binary_cross_entropy")
def binary_cross_entropy(self: ndarray, target: ndarray, weight: ndarray | None = None, reduction: int = 1) -> ndarray:
    """``-(t * log(x) + (1 - t) * log(1 - x))``, each logarithm at least -100."""
    # torch squeezes both before it broadcasts, and the result has the input's shape.
    x, t = self.squeeze(), target.squeeze()
    el.check_broadcast(x, t)
    el.check_same_dtype(self, target)
    require("binary_cross_entropy", self.dtype, el.FLOATS)  # half types are rounded at each step
    check(np.all((x >= 0) & (x <= 1)), "all elements of input should be between 0 and 1")
    check(np.all((t >= 0) & (t <= 1)), "all elements of target should be between 0 and 1")
    floor, one = number(-100.0, x.dtype), number(1, x.dtype)
    loss = (t - one) * np.maximum(np.log1p(-x), floor) - t * np.maximum(np.log(x), floor)
    loss = reshaped(np.asarray(loss), self.shape)
    return reduce(loss if weight is None else el.in_place(loss, mul(loss, weight)), reduction)


@kernel("binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(self, target, weight=None, pos_weight=None, reduction=1):
    """`binary_cross_entropy` of ``sigmoid(self)``, without overflow."""
    log_sigmoid = log_sigmoid_forward(self)[0]
    if pos_weight is not None:
        log_weight = add_scalar(mul(sub_scalar(pos_weight, 1), target), 1)
        log_sigmoid = el.in_place(log_sigmoid, mul(log_sigmoid, log_weight))
    loss = rsub_scalar(target, 1)
    loss = el.in_place(loss, mul(loss, self))
    loss = el.in_place(loss, sub(loss, log_sigmoid))
    if weight is not None:
        loss = el.in_place(loss, mul(loss, weight))
    return reduce(loss, reduction)


@kernel("soft_margin_loss")
def soft_margin_loss(self: ndarray, target: ndarray, reduction: int = 1) -> ndarray:
    """``log(1 + exp(-target * self))``."""
    value = log1p(exp(mul(neg(target), self)))
    el.check_result_dtype(value.dtype, self.dtype)
    if value.shape != self.shape:
        raise output_shape(self.shape, value.shape)
    return reduce(dt.cast(value, self.dtype), reduction)


@kernel("kl_div")
def kl_div(self: ndarray, target: ndarray, reduction: int = 1, *, log_target: bool = False) -> ndarray:
    """``target * (log(target) - self)``."""
    dtypes = (self.dtype, target.dtype)
    check(not any(map(dt.is_complex, dtypes)), "kl_div: Complex inputs not supported.")
    check(all(map(dt.is_floating, dtypes)), "kl_div: Integral inputs not supported.")
    if log_target:
        difference = sub(target, self)
        return reduce(mul(exp(target), difference), reduction)
    return reduce(sub(xlogy(target, target), mul(target, self)), reduction)


@kernel("poisson_nll_loss")
def poisson_nll_loss(input, target, log_input, full, eps, reduction):
    """``exp(input) - target * input``, or with ``log_input`` False ``input - target * log(input + eps)``."""
    if log_input:
        product = mul(target, input)
        loss = sub(exp(input), product)
    else:
        loss = sub(input, mul(target, log(add_scalar(input, eps))))
    if full:
        stirling = add(sub(mul(target, log(target)), target), mul(log(mul(target, 2 * np.pi)), 0.5))
        loss = add(loss, where(le(target, 1), np.zeros_like(stirling), stirling))
    return reduce(loss, reduction)


# ---------------------------------------------------------------- margins


@kernel("hinge_embedding_loss")
def hinge_embedding_loss(self: ndarray, target: ndarray, margin: float = 1.0, reduction: int = 1) -> ndarray:
    """``self`` where the target is 1, ``max(0, margin - self)`` where it is -1."""
    zeros = np.zeros_like(self)
    margins = np.full_like(self, dt.cast(np.asarray(float(margin)), self.dtype))  # a margin of integers is truncated
    far = clamp_min(sub(margins, self), 0)
    return reduce(add(where(ne(target, 1), far, zeros), where(ne(target, -1), self, zeros)), reduction)


@kernel("margin_ranking_loss")
def margin_ranking_loss(input1, input2, target, margin=0.0, reduction=1):
    """``max(0, -target * (input1 - input2) + margin)``."""
    difference = sub(input1, input2)
    loss = add_scalar(mul(neg(target), difference), margin)
    return reduce(clamp_min(loss, 0), reduction)


def _sum_last(x: ndarray) -> ndarray:
    """The sum over dimension 1, rounded to the tensor's dtype."""
    return el.finish(np.add.reduce(dt.cast(x, dt.opmath(x.dtype)), axis=-1), x.dtype)


@kernel("cosine_embedding_loss")
def cosine_embedding_loss(input1, input2, target, margin=0.0, reduction=1):
    """``1 - cos`` where the target is 1, ``max(0, cos - margin)`` where it is -1."""
    check(target.ndim <= 1, multi_target())
    expected = target.ndim + 1
    check(
        input1.ndim == expected and input2.ndim == expected,
        f"{target.ndim}D target tensor expects {expected}D input tensors, but found inputs with sizes "
        f"{shape_text(input1.shape)} and {shape_text(input2.shape)}.",
    )
    epsilon = 1e-12
    product = _sum_last(mul(input1, input2))
    square1 = add_scalar(_sum_last(mul(input1, input1)), epsilon)
    square2 = add_scalar(_sum_last(mul(input2, input2)), epsilon)
    cosine = div(product, sqrt(mul(square1, square2)))
    zeros = np.zeros_like(cosine)
    near = where(eq(target, 1), rsub_scalar(cosine, 1), zeros)
    far = where(eq(target, -1), clamp_min(sub_scalar(cosine, margin), 0), zeros)
    return reduce(add(near, far), reduction)


@kernel("pairwise_distance")
def pairwise_distance(x1: ndarray, x2: ndarray, p: float = 2.0, eps: float = 1e-06, keepdim: bool = False) -> ndarray:
    """The p-norm of ``x1 - x2 + eps`` over the last dimension."""
    difference = add_scalar(sub(x1, x2), eps)
    out = difference.dtype
    size = np.abs(dt.cast(difference, dt.opmath(out)))
    axis = -1 if size.ndim else None
    total: Any = partial(np.add.reduce, axis=axis, keepdims=keepdim)
    if p == 0:
        value = total(size != 0, dtype=size.dtype)
    elif p == np.inf:
        value = np.max(size, axis, keepdims=keepdim)
    elif p == -np.inf:
        value = np.min(size, axis, keepdims=keepdim)
    elif p == 1:
        value = total(size)
    elif p == 2:
        value = np.sqrt(total(np.square(size)))
    else:
        value = np.power(total(np.power(size, size.dtype.type(p))), size.dtype.type(1 / p))
    return el.finish(value, dt.to_real(out))


@kernel("triplet_margin_loss")
def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2.0, eps=1e-06, swap=False, reduction=1):
    """``max(0, margin + |anchor - positive| - |anchor - negative|)``; with swap the nearer of the two negatives' ends."""
    dims = (anchor.ndim, positive.ndim, negative.ndim)
    check(
        len(set(dims)) == 1,
        f"The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
        f"anchor {dims[0]}D, positive {dims[1]}D, and negative {dims[2]}D inputs",
    )
    near = pairwise_distance(anchor, positive, p, eps)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = np.minimum(far, pairwise_distance(positive, negative, p, eps))
    return reduce(clamp_min(add_scalar(sub(near, far), margin), 0), reduction)
