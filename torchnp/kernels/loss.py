"""Elementwise losses and margin losses, with their gradients; other classification losses are in `nll`."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, check_fits, check_shape, check_type, refuse, refuse_elements, require
from torchnp.core.elementwise_strips import stripwise
from torchnp.core.errors import found_dtype, mean_of, multi_target, shape_text
from torchnp.core.inplace_out_spec import Bound, WriteSpec, store
from torchnp.core.python_scalars import number, scalar
from torchnp.core.registry import kernel
from torchnp.kernels import _elementwise as el
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._reduction import add_reduce
from torchnp.kernels.activation import log_sigmoid_forward
from torchnp.kernels.arithmetic import add, add_scalar, div, mul, rsub_scalar, sub, sub_scalar
from torchnp.kernels.compare import eq, le, ne
from torchnp.kernels.distance import pairwise_distance
from torchnp.kernels.limits import clamp_min
from torchnp.kernels.masked_nonzero import where
from torchnp.kernels.numerics.blocks import choose
from torchnp.kernels.numerics.vector_tails import with_double
from torchnp.kernels.pointwise import abs, exp, log, log1p, neg, sqrt
from torchnp.kernels.special import xlogy
from torchnp.layout.stride_rules import WRITTEN, contiguous, dense, empty

ndarray = np.ndarray
NONE, MEAN, SUM = 0, 1, 2
_NUMBERS = el.INTS | el.FLOATS


def into(x: ndarray) -> np.dtype:
    """Return the dtype in which torch computes step by step: that of ``out=`` if there is one, else that of ``x``."""
    return x.dtype if WRITTEN.target is None else WRITTEN.target.dtype


def reduce(loss: ndarray, reduction: int) -> ndarray:
    """Return the mean or sum of all elements, in the loss's dtype; real sums are accumulated in double."""
    if reduction not in (MEAN, SUM):
        return loss
    check(reduction == SUM or dt.is_inexact(loss.dtype), mean_of(loss.dtype))
    refuse("sum_cpu", loss.dtype, (dt.complex32, *dt.FLOAT8S))
    wide = dt.complex128 if dt.is_complex(loss.dtype) else dt.float64 if dt.is_floating(loss.dtype) else dt.int64
    total = np.add.reduce(dt.cast(loss, dt.opmath(loss.dtype)), axis=None, dtype=wide)
    out = loss.dtype if wide != dt.int64 else wide
    if reduction == MEAN:
        # The sum is rounded before the division, so it overflows where torch's does.
        total = dt.cast(np.asarray(total), dt.opmath(out)) / number(loss.size, dt.opmath(out))
    return el.finish(total, out)


def _operands(cpu: str, takes: Any, stepwise: Collection[np.dtype], *tensors: ndarray) -> tuple[Any, np.dtype]:
    """Return the tensors in the compute dtype (half types in ``stepwise`` stay as they are), and the result dtype."""
    el.check_broadcast(*tensors)
    wide, out = el.in_opmath(cpu, takes, *tensors)
    return [dt.cast(x, out) for x in wide] if out in stepwise else wide, out


def _scale(reduction: int, x: ndarray) -> float:
    """Return 1 / N for a mean, else 1. For the mean of no elements this is infinity, which integers cannot hold."""
    return 1.0 if reduction != MEAN else 1.0 / x.size if x.size else math.inf


def _slope(
    cpu: str, takes: Any, stepwise: Collection[np.dtype], grad_output: ndarray, self: ndarray, target: ndarray, scale: float
) -> tuple[Any, Any, ndarray, np.dtype]:  # fmt: skip
    """Return the gradient, the difference, the scale as an array, and the result dtype.

    The result dtype is the input's; if there is an ``out=``, it is the common dtype.
    """
    el.check_broadcast(self, target, grad_output)
    out = dt.result_type(self, target, grad_output)
    if WRITTEN.target is None:
        el.check_result_dtype(out, self.dtype)
        out = self.dtype
    (x, t, g), _ = _operands(cpu, takes, stepwise, self, target, grad_output)
    return g, x - t, scalar(scale, x.dtype), out


def _reduced_loss(name: str, elements: Callable[..., ndarray], doc: str, rounds: bool = False) -> None:
    """Declare a loss, given the function that computes its elements.

    torch reduces the elements in the dtype of ``out=``, but averages half types in float32, unless ``rounds``.
    """

    def body(self: ndarray, target: ndarray, reduction: int, *option: float) -> ndarray:
        return reduce(elements(self, target, *option), reduction)

    def look(bound: Bound, outs: list[ndarray]) -> tuple[int, ...]:
        bound["self"] = dt.cast(bound["self"], dt.result_type(bound["self"], bound["target"]))
        d, reduction = outs[0].dtype, bound["reduction"]
        if reduction not in (MEAN, SUM) or not dt.can_cast(bound["self"].dtype, d):
            return ()
        losses = elements(**{k: v for k, v in bound.items() if k not in ("reduction", "out")})
        wide = dt.float32 if d in dt.HALVES and reduction == MEAN and not rounds else d
        return store(outs[0], dt.cast(reduce(dt.cast(losses, wide), reduction), d))

    rows(name, body, doc, writes=WriteSpec(out=look))


def _squared(self: ndarray, target: ndarray) -> ndarray:
    (x, t), out = _operands("mse_cpu", el.FLOATS, dt.HALVES, self, target)
    return el.finish(np.square(x - t), out)


_reduced_loss("mse_loss", _squared, "The squared difference.")


@kernel("mse_loss_backward")
def mse_loss_backward(grad_output: ndarray, self: ndarray, target: ndarray, reduction: int) -> ndarray:
    """``2 * (x - t) * g``, divided by N for the mean."""
    scale = _scale(reduction, self)

    def part(grad: ndarray, source: ndarray, target: ndarray) -> ndarray:
        g, x, norm, out = _slope("mse_backward_cpu_out", _NUMBERS, dt.HALVES, grad, source, target, 2.0 * scale)
        return el.finish(norm * x * g, out)

    return _in_strips(part, grad_output, self, target)


_difference = lambda x, target: abs(sub(x, target))
_absolute = lambda x, target, reduction: reduce(_difference(x, target), reduction)
(l1_loss,) = rows("l1_loss", _absolute, "The absolute difference.")


def _smooth(self: ndarray, target: ndarray, beta: float) -> ndarray:
    check(beta >= 0, "smooth_l1_loss does not support negative values for beta.")
    (x, t), out = _operands("smooth_l1_cpu", el.FLOATS, (dt.float16,), self, target)
    if beta == 0:
        return _difference(dt.cast(self, out), dt.cast(target, out))
    z, b, half = np.abs(x - t), number(float(beta), x.dtype), number(0.5, x.dtype)
    return el.finish(choose(z < b, half * z * z / b, z - half * b), out)


_reduced_loss("smooth_l1_loss", _smooth, "Quadratic where the difference is below ``beta``, linear beyond.")


@kernel("smooth_l1_loss_backward")
def smooth_l1_loss_backward(grad_output, self, target, reduction, beta):
    """``g`` times the difference divided by ``beta``, limited to [-1, 1]."""
    scale = _scale(reduction, self)

    def part(grad: ndarray, source: ndarray, target: ndarray) -> ndarray:
        g, x, norm, out = _slope("smooth_l1_backward_cpu_out", _NUMBERS, (), grad, source, target, scale)
        one, minus, whole = number(1, x.dtype), number(-1, x.dtype), not dt.is_inexact(x.dtype)
        apart = dt.cast(x, dt.float64) if whole else x  # C++ widens small integers, and beta is a float
        apart = np.subtract(source, target, dtype=dt.float64) if whole and x.dtype.itemsize < 4 else apart
        inside = lambda b: np.trunc(x / np.maximum(b, one)).astype(x.dtype) if whole else x / b
        vector = lambda b: norm * choose(np.abs(x) >= b, choose(x > 0, one, minus), inside(b)) * g
        single = lambda b: choose(apart <= -b, -norm * g, choose(apart >= b, norm * g, norm * apart * g / b))
        return el.finish(with_double(beta, vector, single, x.dtype, grad, source, target), out)

    return _in_strips(part, grad_output, self, target)


def _huber(self: ndarray, target: ndarray, delta: float) -> ndarray:
    check(delta > 0, "huber_loss does not support non-positive values for delta.")
    el.check_broadcast(self, target)
    common = dt.result_type(self, target)
    el.check_result_dtype(common, self.dtype)
    (x, t), _ = _operands("huber_cpu", el.FLOATS, (dt.bfloat16,), self, target)
    z, d, half = np.abs(x - t), number(float(delta), x.dtype), number(0.5, x.dtype)
    return dt.cast(el.finish(choose(z < d, half * z * z, d * (z - half * d)), common), self.dtype)


_reduced_loss("huber_loss", _huber, "Quadratic up to ``delta``, linear beyond; in the dtype of the input.", rounds=True)


@kernel("huber_loss_backward")
def huber_loss_backward(grad_output: ndarray, self: ndarray, target: ndarray, reduction: int, delta: float) -> ndarray:
    """``g`` times the difference, limited to [-delta, delta]."""
    el.check_broadcast(self, target, grad_output)
    el.check_same_dtype(self, target, grad_output)
    scale = _scale(reduction, self)

    def part(grad: ndarray, source: ndarray, target: ndarray) -> ndarray:
        g, x, norm, _ = _slope("huber_backward_cpu_out", el.FLOATS, dt.HALVES, grad, source, target, scale)
        vector = lambda d: norm * choose(np.abs(x) >= d, choose(x > 0, d, -d), x) * g
        single = lambda d: choose(x <= -d, -norm * g * d, choose(x >= d, norm * g * d, norm * x * g))
        return el.finish(with_double(delta, vector, single, x.dtype, grad, source, target), source.dtype)

    return _in_strips(part, grad_output, self, target)


def _in_strips(part: Callable[..., ndarray], *given: ndarray) -> ndarray:
    """Call an elementwise function, strip by strip if the arrays are row-major and large."""
    return (stripwise(part) if all(x.flags.c_contiguous for x in given) else part)(*given)


# ---------------------------------------------------------------- probabilities


def _squeezed(cpu: str, *tensors: ndarray) -> list[ndarray]:
    """Return the tensors squeezed, which is how torch broadcasts them; half types are rounded at each step."""
    squeezed = [x.squeeze() for x in tensors]
    el.check_broadcast(*squeezed)
    el.check_same_dtype(*tensors)
    require(cpu, tensors[0].dtype, el.FLOATS)
    return squeezed


def _scaled(x: ndarray, factor: ndarray) -> ndarray:
    """Return the result of ``x.mul_(factor)``; sizes are checked before dtypes."""
    check_fits(factor, x)
    return el.in_place(x, mul(x, factor))


def _weighted(values: Any, shape: tuple[int, ...], weight: ndarray | None) -> ndarray:
    """Return a squeezed result in the input's shape (the first elements if it was broadcast), times the weight."""
    values = np.asarray(values)
    values = np.resize(values.ravel("K"), shape) if values.size != math.prod(shape) else values.reshape(shape)
    return values if weight is None else _scaled(values, weight)


@kernel("binary_cross_entropy")
def binary_cross_entropy(self: ndarray, target: ndarray, weight: ndarray | None = None, reduction: int = 1) -> ndarray:
    """``-(t * log(x) + (1 - t) * log(1 - x))``, each logarithm at least -100."""
    x, t = _squeezed("binary_cross_entropy", self, target)
    for name, v in (("input", x), ("target", t)):
        check(np.all((v >= 0) & (v <= 1)), f"all elements of {name} should be between 0 and 1")
    floor, one = number(-100.0, x.dtype), number(1, x.dtype)

    def part(x: ndarray, t: ndarray) -> ndarray:
        return (t - one) * np.maximum(np.log1p(-x), floor) - t * np.maximum(np.log(x), floor)

    loss = _in_strips(part, x, t)
    return reduce(_weighted(loss, self.shape, weight), reduction)


@kernel("binary_cross_entropy_backward")
def binary_cross_entropy_backward(grad_output, self, target, weight=None, reduction=1):
    """``g * (x - t) / (x * (1 - x))``, the divisor at least 1e-12."""
    g, x, t = _squeezed("binary_cross_entropy_backward", grad_output, self, target)
    # 1e-12 rounded to float32, for all dtypes
    one, small = number(1, x.dtype), number(float(np.float32(1e-12)), x.dtype)
    grad = _in_strips(lambda g, x, t: g * (x - t) / np.maximum((one - x) * x, small), g, x, t)
    grad = _weighted(grad, self.shape, weight)
    return div(grad, self.size) if reduction == MEAN else grad


@kernel("binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(self, target, weight=None, pos_weight=None, reduction=1):
    """`binary_cross_entropy` of ``sigmoid(self)``, without overflow."""
    log_sigmoid = log_sigmoid_forward(self)[0]
    if pos_weight is not None:
        log_weight = add_scalar(mul(sub_scalar(pos_weight, 1), target), 1)
        log_sigmoid = _scaled(log_sigmoid, log_weight)
    loss = _scaled(sub(np.ones((), target.dtype), target), self)
    loss = el.in_place(loss, sub(loss, log_sigmoid))
    return reduce(loss if weight is None else _scaled(loss, weight), reduction)


@kernel("soft_margin_loss")
def soft_margin_loss(self: ndarray, target: ndarray, reduction: int = 1) -> ndarray:
    """``log(1 + exp(-target * self))``."""
    value = neg(self)
    check(into(self) == self.dtype, found_dtype(into(self), self.dtype))
    value = _scaled(value, target)
    for step in (exp, log1p):
        value = el.in_place(value, step(value))
    return reduce(value if reduction in (NONE, MEAN, SUM) else value.reshape(-1)[0], reduction)


@kernel("soft_margin_loss_backward", writes=WriteSpec(dtype_before_target=True))
def soft_margin_loss_backward(grad_output: ndarray, self: ndarray, target: ndarray, reduction: int) -> ndarray:
    """``-t * z / (1 + z) * g`` with ``z = exp(-t * x)``."""
    z = exp(mul(neg(target), self))
    product, target_dtype = mul(target, z), into(self)
    el.check_result_dtype(product.dtype, target_dtype)
    grad = dt.cast(product, target_dtype)
    norm = -1.0 / self.size if reduction == MEAN and self.size else -1.0
    for step, x in ((mul, norm), (div, add_scalar(z, 1)), (mul, grad_output)):
        grad = el.in_place(grad, step(grad, x))
    return grad


@kernel("kl_div")
def kl_div(self: ndarray, target: ndarray, reduction: int = 1, *, log_target: bool = False) -> ndarray:
    """``target * (log(target) - self)``."""
    check(not any(dt.is_complex(x.dtype) for x in (self, target)), "kl_div: Complex inputs not supported.")
    check(all(dt.is_floating(x.dtype) for x in (self, target)), "kl_div: Integral inputs not supported.")
    second = sub(target, self) if log_target else mul(target, self)  # torch computes this first, and may refuse it
    return reduce(mul(exp(target), second) if log_target else sub(xlogy(target, target), second), reduction)


@kernel("poisson_nll_loss")
def poisson_nll_loss(input, target, log_input, full, eps, reduction):
    """``exp(input) - target * input``, or with ``log_input`` False ``input - target * log(input + eps)``."""
    if log_input:
        product = mul(target, input)  # torch computes this first, and may refuse it
        loss = sub(exp(input), product)
    else:
        loss = sub(input, mul(target, log(add_scalar(input, eps))))
    if full:
        stirling = add(sub(mul(target, log(target)), target), mul(log(mul(target, 2 * np.pi)), 0.5))
        loss = el.in_place(loss, add(loss, where(le(target, 1), np.zeros_like(stirling), stirling)))
    return reduce(loss, reduction)


# ---------------------------------------------------------------- margins


@kernel("hinge_embedding_loss")
def hinge_embedding_loss(self: ndarray, target: ndarray, margin: float = 1.0, reduction: int = 1) -> ndarray:
    """``self`` where the target is 1, ``max(0, margin - self)`` where it is -1."""
    zeros = np.zeros_like(self)
    margins = np.full_like(self, scalar(float(margin), self.dtype))  # for integers the margin is truncated
    far = clamp_min(sub(margins, self), 0)
    return reduce(add(where(ne(target, 1), far, zeros), where(ne(target, -1), self, zeros)), reduction)


@kernel("margin_ranking_loss")
def margin_ranking_loss(input1, input2, target, margin=0.0, reduction=1):
    """``max(0, -target * (input1 - input2) + margin)``."""
    difference = sub(input1, input2)
    return reduce(clamp_min(add_scalar(mul(neg(target), difference), margin), 0), reduction)


def total_of(x: ndarray, axis: int | None) -> ndarray:
    """Return the sum over a dimension, or over all, rounded to the tensor's dtype; integers give int64."""
    refuse_elements("sum_cpu", x, (*dt.FLOAT8S, dt.complex32))
    out = x.dtype if dt.is_inexact(x.dtype) else dt.int64
    return el.finish(add_reduce(dt.cast(x, dt.opmath(out)), None if axis is None else (axis,)), out)


@kernel("cosine_embedding_loss")
def cosine_embedding_loss(input1, input2, target, margin=0.0, reduction=1):
    """``1 - cos`` where the target is 1, ``max(0, cos - margin)`` where it is -1."""
    check(target.ndim <= 1, multi_target())
    expected = target.ndim + 1
    found = f"{shape_text(input1.shape)} and {shape_text(input2.shape)}."
    words = f"{target.ndim}D target tensor expects {expected}D input tensors, but found inputs with sizes {found}"
    check(input1.ndim == expected and input2.ndim == expected, words)
    product = total_of(mul(input1, input2), -1)
    square1, square2 = (add_scalar(total_of(mul(x, x), -1), 1e-12) for x in (input1, input2))
    cosine = div(product, sqrt(mul(square1, square2)))
    zeros = np.zeros_like(cosine)
    near = where(eq(target, 1), rsub_scalar(cosine, 1), zeros)
    far = where(eq(target, -1), clamp_min(sub_scalar(cosine, margin), 0), zeros)
    return reduce(add(near, far), reduction)


@kernel("triplet_margin_loss")
def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2.0, eps=1e-06, swap=False, reduction=1):
    """``max(0, margin + |a - p| - |a - n|)``; with ``swap``, ``min(|a - n|, |p - n|)`` replaces the last term."""
    words = "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got:"
    found = f"anchor {anchor.ndim}D, positive {positive.ndim}D, and negative {negative.ndim}D inputs"
    check(anchor.ndim == positive.ndim == negative.ndim, f"{words} {found}")
    near = pairwise_distance(anchor, positive, p, eps)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = np.minimum(far, pairwise_distance(positive, negative, p, eps))
    out = reduce(clamp_min(sub(add_scalar(near, margin), far), 0), reduction)
    return out if out.size else empty(out.shape, out.dtype, contiguous(out.shape))


def _samples(self: ndarray) -> ndarray:
    """Return the input as a (samples, classes) matrix."""
    words = "Expected non-empty vector or matrix with optional 0-dim batch size, but got: " + shape_text(self.shape)
    check((self.ndim <= 1 and self.size) or (self.ndim == 2 and self.shape[1] != 0), words)
    return self if self.ndim == 2 else self.reshape(1, -1)


def _multi_margin(
    cpu: str, self: ndarray, target: ndarray, p: int, margin: Any, weight: ndarray | None
) -> tuple[ndarray, ndarray, ndarray]:
    """Return each sample's target class, how far each class reaches into the margin, and the target's class weight."""
    check(p in (1, 2), "only p == 1 and p == 2 supported")
    x = _samples(self)
    n, c = x.shape
    words = "multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples (batch size)"
    found = f"but got {shape_text(target.shape)}. Input has shape {shape_text(self.shape)}."
    check(target.ndim <= 1 and target.size == n, f"{words}. Expected target size [{n}], {found}")
    weight = np.ones(c, x.dtype) if weight is None else weight
    words = f"inconsistent weight size, expected {c} but got {shape_text(weight.shape)}"
    check(weight.ndim <= 1 and weight.size == c, words)
    if x.size:
        require(cpu, self.dtype, el.WIDE)
        check_type(dt.int64, target)
        check_type(self.dtype, weight)
    index = target.reshape(-1)
    edge = scalar(margin, x.dtype)
    check(np.all((index >= 0) & (index < c)), "target out of range")
    reach = edge - np.take_along_axis(x, index[:, None], axis=1) + x
    reach = np.where(reach > 0, reach, x.dtype.type(0))  # torch skips NaN too
    np.put_along_axis(reach, index[:, None], x.dtype.type(0), axis=1)
    return index[:, None], reach, weight.reshape(-1)[index[:, None]]


@kernel("multi_margin_loss")
def multi_margin_loss(self, target, p=1, margin=1, weight=None, reduction=1):
    """``max(0, margin - x[target] + x[other]) ** p``, summed over the other classes, divided by the class count."""
    p = int(scalar(p, dt.int32))
    _, reach, factor = _multi_margin("multi_margin_loss_cpu_kernel", self, target, p, margin, weight)
    terms = np.where(reach > 0, (reach if p == 1 else reach * reach) * factor, reach.dtype.type(0))
    return _reduced(terms.sum(axis=1) / reach.dtype.type(reach.shape[1]), reduction, target.ndim > 0)


@kernel("multi_margin_loss_backward")
def multi_margin_loss_backward(grad_output, self, target, p, margin, weight=None, reduction=1):
    """Classes inside the margin get a positive gradient; the target gets minus their sum."""
    p = int(scalar(p, dt.int32))
    index, reach, factor = _multi_margin("multi_margin_loss_backward_cpu_kernel", self, target, p, margin, weight)
    push = _share(reach, reduction) * (np.ones_like(reach) if p == 1 else 2 * reach)
    grad = np.where(reach > 0, push * factor, reach.dtype.type(0))
    np.put_along_axis(grad, index, 0 - grad.sum(axis=1, keepdims=True), axis=1)
    return (grad * _column(grad_output, grad, reduction)).reshape(self.shape)


def _reduced(loss: ndarray, reduction: int, batched: bool) -> ndarray:
    if reduction == NONE:
        return dense(loss) if batched else loss.reshape(())
    return np.asarray(loss.sum() / loss.dtype.type(len(loss) if reduction == MEAN else 1))


def _share(x: ndarray, reduction: int) -> np.number:
    """Return the derivative of the loss by a term: 1 / (number of terms) for a mean, else 1 / (number of classes)."""
    return x.dtype.type(1 / (x.size if reduction == MEAN and len(x) else x.shape[1]))


def _column(grad_output: ndarray, x: ndarray, reduction: int) -> ndarray:
    """Return the samples' gradients as a column, or a single gradient for all samples."""
    if x.size:
        check_type(x.dtype, grad_output)
    if reduction == NONE and grad_output.ndim:
        check(grad_output.ndim == 1, f"expected 1 dims but tensor has {grad_output.ndim} dims")
        return grad_output[: len(x), None]
    return grad_output.reshape(-1, 1)[:1]


def _check_range(x: ndarray, low: int, high: int, name: str) -> None:
    if x.size:
        require("min_all", x.dtype, el.BOOL | _NUMBERS)
        check(np.all((x >= low) & (x <= high)), f"argument {name} is out of range")


def _multilabel(
    cpu: str, self: ndarray, target: ndarray, position: int, is_target: ndarray | None = None
) -> tuple[ndarray, ndarray, ndarray]:
    """Return target indices up to the first -1, a mask of target classes, and each class's reach into the margins.

    The last array has the dimensions sample, target and class, and holds how far a class reaches into a target's
    margin.
    """
    x = _samples(self)
    words = f"inconsistent target size: {shape_text(target.shape)} for input of size: {shape_text(self.shape)}"
    check(target.shape == self.shape or (target.ndim <= 1 >= self.ndim and target.size == self.size), words)
    if is_target is not None and is_target.shape != target.shape:
        same = "Expected tensor for argument #3 'target' to have same size as tensor for argument #5 'is_target'; but"
        sizes = f"{shape_text(target.shape)} does not equal {shape_text(is_target.shape)}"
        where = "(while checking arguments for multilabel_margin_loss_backward_cpu_template)"
        raise RuntimeError(f"{same} {sizes} {where}")
    rows = target.reshape(x.shape)
    _check_range(target, -1, x.shape[1] - 1, f"#{position} 'target'")
    if x.size:
        require(cpu, self.dtype, el.WIDE)
        if is_target is not None:
            _check_range(is_target, 0, 1, "#5 'is_target'")
        check_type(dt.int64, target)
        check_type(self.dtype, is_target)
    listed = np.logical_and.accumulate(rows >= 0, axis=1)
    if is_target is None:
        is_target = np.zeros(x.shape, np.bool_)
        sample, _ = np.nonzero(listed)
        is_target[sample, rows[listed]] = True
    else:
        is_target = is_target.reshape(x.shape) != 0
    index = np.where(listed, rows, 0)
    reach = 1 - np.take_along_axis(x, index, axis=1)[:, :, None] + x[:, None, :]
    counts = (reach > 0) & listed[:, :, None] & ~is_target[:, None, :]
    return index, is_target, np.where(counts, reach, x.dtype.type(0))


@kernel("multilabel_margin_loss_forward")
def multilabel_margin_loss_forward(self: ndarray, target: ndarray, reduction: int) -> tuple[ndarray, ndarray]:
    """``max(0, 1 - x[target] + x[other])`` summed over targets and other classes; also a mask of the targets."""
    _, is_target, reach = _multilabel("multilabel_margin_loss_forward_out_frame", self, target, 2)
    loss = reach.sum(axis=(1, 2)) / self.dtype.type(reach.shape[2])
    return _reduced(loss, reduction, self.ndim == 2), is_target.astype(self.dtype).reshape(target.shape)


_DOC = "Only the loss of `multilabel_margin_loss_forward`."
rows("multilabel_margin_loss", multilabel_margin_loss_forward, _DOC, part=0)


@kernel("multilabel_margin_loss_backward")
def multilabel_margin_loss_backward(grad_output, self, target, reduction, is_target):
    """Classes inside a target's margin get a positive gradient, and the target a negative one."""
    index, _, reach = _multilabel("multilabel_margin_loss_backward_out_frame", self, target, 3, is_target)
    inside = (reach > 0).astype(self.dtype)
    grad = inside.sum(axis=1)
    if grad.size and reduction == NONE and grad_output.ndim:  # `multi_margin_loss_backward` has no such check
        check_shape(grad_output, grad.shape[:1])
    np.add.at(grad, (np.arange(len(grad))[:, None], index), -inside.sum(axis=2))
    return (grad * _share(grad, reduction) * _column(grad_output, grad, reduction)).reshape(self.shape)
