"""Gradients of activation functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.checks import check
from torchnp.errors import dense_dtype, found_dtype
from torchnp.kernels import _elementwise as el
from torchnp.kernels._rows import rows
from torchnp.kernels.activation import REDUCED_SIGMOID, _threshold, check_approximate, halves
from torchnp.kernels.arithmetic import add_scalar, addcmul, mul
from torchnp.kernels.numerics.erf import erf
from torchnp.kernels.pointwise import exp
from torchnp.kernels.special import erf_of_tensor
from torchnp.registry import kernel
from torchnp.scalars import number, scalar
from torchnp.writes import Bound, Writes

ndarray = np.ndarray


def _inputs(
    cpu: str, *tensors: ndarray, takes: Any = el.FLOATS, into: np.dtype | None = None
) -> tuple[tuple[ndarray, ...], np.dtype, Callable[[Any], ndarray]]:
    """Promoted operands, the result dtype (or ``into``), and what makes numbers arrays for the computation."""
    el.check_broadcast(*tensors)
    if into is not None:
        el.check_result_dtype(dt.result_type(*tensors), into)
    arrays, out = el.in_opmath(cpu, takes, *tensors)
    inner = arrays[0].dtype
    return arrays, into or out, lambda value: scalar(value, inner)


# ---------------------------------------------------------------- rows of one formula


def _of_formula(g, x, *numbers, op, formula, cpu="", takes=el.FLOATS, stepwise=(), into=False):
    """A formula of the gradient, of what forward saved, of what makes numbers arrays, and of the op's own numbers.

    The half types in ``stepwise`` are rounded at each step; with ``into`` the result has the dtype of ``x``.
    """
    (g, x), out, num = _inputs(cpu or f"{op}_cpu", g, x, takes=takes, into=x.dtype if into else None)
    if out in stepwise:
        g, x, num = dt.cast(g, out), dt.cast(x, out), lambda value: scalar(value, out)
    return el.finish(formula(g, x, num, *numbers), out)


def _logistic(x: ndarray) -> ndarray:
    one = number(1, x.dtype)
    return one / (one + np.exp(-x))


def _hardswish(g, x, num):
    inside = g * (x / num(3) + num(0.5))
    return np.where(x <= num(-3), num(0), np.where(x >= num(3), g, inside))


def _silu(g, x, num):
    s = _logistic(x)
    return g * s * (num(1) + x * (num(1) - s))


def _mish(g, x, num):
    t = np.tanh(np.log1p(np.exp(x)))
    return g * (t + x * _logistic(x) * (num(1) - t * t))


def _softplus(g, x, num, beta, threshold):
    scaled = x * num(beta)
    z = np.exp(scaled)
    return np.where(scaled > num(threshold), g, g * z / (z + num(1)))


def _logit(g, x, num, eps):
    low = num(0.0 if eps is None or eps < 0 else eps)
    outside = num(float("nan") if eps is None or eps < 0 else 0.0)
    return np.where((x < low) | (x > num(1) - low), outside, g / (x * (num(1) - x)))


def _hardsigmoid(g, x, num):
    sixth = num(float(np.float32(1 / 6)))  # torch rounds it to float32 for float64 too
    return np.where((x > num(-3)) & (x < num(3)), g * sixth, num(0))


_AND_COMPLEX: Any = {"takes": el.FLOATS | el.COMPLEX}
for _name, _formula, _given, _doc in (
    (
        "sigmoid_backward", lambda g, y, num: g * (num(1) - np.conjugate(y)) * np.conjugate(y),
        _AND_COMPLEX | {"stepwise": (dt.float16,)}, "``g * (1 - y) * y``, with the conjugate of a complex output.",
    ),
    ("tanh_backward", lambda g, y, num: g * np.conjugate(num(1) - y * y), _AND_COMPLEX, "``g * (1 - y * y)``."),
    (
        "hardtanh_backward", lambda g, x, num, low, high: np.where((x > num(low)) & (x < num(high)), g, num(0)),
        {"cpu": "hardshrink_backward_cpu"}, "``g`` strictly inside the limits.",
    ),
    (
        "hardsigmoid_backward", _hardsigmoid, {"cpu": "hardsigmoid_backward"}, "``g / 6`` strictly inside (-3, 3).",
    ),
    ("hardswish_backward", _hardswish, {}, "``g * (x / 3 + 1 / 2)`` inside (-3, 3), 0 below, ``g`` above."),
    ("silu_backward", _silu, _AND_COMPLEX, "``g * s * (1 + x * (1 - s))`` with ``s = sigmoid(x)``."),
    (
        "mish_backward", _mish, {"into": True},
        "``g * (t + x * s * (1 - t * t))`` with ``s = sigmoid(x)`` and ``t = tanh(softplus(x))``.",
    ),
    ("softplus_backward", _softplus, {}, "``g * sigmoid(beta * x)``, or ``g`` above the threshold."),
    (
        "logit_backward", _logit, {"stepwise": dt.HALVES},
        "``g / (x * (1 - x))``; without eps nan outside [0, 1], with it 0 outside [eps, 1 - eps].",
    ),
):  # fmt: skip
    rows(_name, _of_formula, _doc, formula=_formula, **_given)

# ---------------------------------------------------------------- rows of their own

_IN_PLACE = (
    "In-place {} backward calculation is triggered with a negative slope which is not supported. This is caused by "
    "calling in-place forward function with a negative slope, please call out-of-place version instead."
)


@kernel("threshold_backward")
def threshold_backward(grad_output: ndarray, self: ndarray, threshold: Any) -> ndarray:
    """``g`` where the input is above the threshold."""
    el.check_broadcast(grad_output, self)
    return _threshold(self, grad_output, threshold, 0)


@kernel("leaky_relu_backward")
def leaky_relu_backward(grad_output: ndarray, self: ndarray, negative_slope: Any, self_is_result: bool) -> ndarray:
    """``g``, times the slope where the input (or the result) is not positive."""
    if self_is_result and negative_slope < 0:
        ask = "File an issue at https://github.com/pytorch/pytorch if you do require supporting in-place leakRelu"
        raise RuntimeError(f"{_IN_PLACE.format('leakyReLu')} {ask} backward calculation with negative slope")
    (g, x), out, num = _inputs("leaky_relu_backward_cpu", grad_output, self)
    return el.finish(np.where(x > 0, g, g * num(negative_slope)), out)


@kernel("rrelu_with_noise_backward")
def rrelu_with_noise_backward(grad_output, self, noise, lower, upper, training, self_is_result):
    """``g`` times the slopes that forward drew, or the mean slope in evaluation."""
    if training:
        return mul(grad_output, noise)
    return leaky_relu_backward(grad_output, self, (lower + upper) / 2, self_is_result)


@kernel("_prelu_kernel_backward")
def prelu_kernel_backward(grad_output: ndarray, self: ndarray, weight: ndarray) -> tuple[ndarray, ndarray]:
    """Gradients of the input and, not yet summed, of the weight."""
    el.check_same_dtype(self, weight, grad_output)
    (g, x, w), out, num = _inputs("prelu_backward_cpu", grad_output, self, weight)
    positive = x > 0
    return el.finish(np.where(positive, g, w * g), out), el.finish(np.where(positive, num(0), x * g), out)


@kernel("elu_backward")
def elu_backward(grad_output, alpha, scale, input_scale, is_result, self_or_result):
    """From the input, or from the result where the forward was in-place."""
    check(not (is_result and alpha < 0), _IN_PLACE.format("elu"))
    (g, x), out, num = _inputs("elu_backward_cpu", grad_output, self_or_result)
    below, above, inside = num(alpha) * num(scale), num(scale), num(input_scale)
    slope = g * inside * (x + below) if is_result else g * inside * below * np.exp(x * inside)
    return el.finish(np.where(x <= 0, slope, g * above), out)


@kernel("log_sigmoid_backward")
def log_sigmoid_backward(grad_output: ndarray, self: ndarray, buffer: ndarray) -> ndarray:
    """``g * sigmoid(-x)``, from the buffer ``exp(-|x|)``."""
    el.check_same_dtype(self, buffer, grad_output)
    (x, z, g), out, num = _inputs("log_sigmoid_backward_cpu", self, buffer, grad_output)
    ratio = z / (num(1) + z)
    return el.finish(np.where(x < 0, num(1) - ratio, ratio) * g, out)


def _look_glu(bound: Bound, outs: list[ndarray]) -> None:
    x, d = bound["self"].dtype, outs[0].dtype
    check(x == d or not dt.is_inexact(d), found_dtype(x, d))


@kernel("glu_backward", writes=Writes(out=_look_glu))
def glu_backward(grad_output: ndarray, self: ndarray, dim: int) -> ndarray:
    """The gradients of both halves, joined along ``dim``."""
    a, b = halves(self, dim)
    el.refuse_row("sigmoid_cpu", el.int_to_float(self.dtype), el.FLOATS | el.COMPLEX, REDUCED_SIGMOID)
    el.check_result_dtype(el.int_to_float(self.dtype), self.dtype)
    el.check_broadcast(b, grad_output)
    el.check_same_dtype(self, grad_output)
    (_, _, wide), out, num = _inputs("glu_backward_cpu", grad_output, a, b)
    s = el.finish(_logistic(wide), out)  # torch rounds each step
    return np.concatenate([s * grad_output, (dt.cast(num(1), out) - s) * s * a * grad_output], axis=dim)


def _shrink_backward(grad_output: ndarray, self: ndarray, lambd: Any) -> ndarray:
    (g, x), out, _ = _inputs("shrink_backward_cpu", grad_output, self)
    limit = dt.cast(scalar(lambd, out), x.dtype)
    return el.finish(np.where((x > limit) | (x < -limit), g, number(0, g.dtype)), out)


_OUTSIDE = "``g`` outside ``[-lambd, lambd]``."
rows("softshrink_backward hardshrink_backward", _shrink_backward, _OUTSIDE)


_ROOT_HALF = 0.7071067811865476
_ROOT_TWO_OVER_PI = 0.7978845608028654


def _look_gelu(bound: Bound, outs: list[ndarray]) -> None:
    """oneDNN computes it for these dtypes, and has no code for some others that it is to write."""
    x, d = bound["self"], outs[0].dtype
    if bound["approximate"] != "none" or x.ndim == 0 or x.size == 0 or x.dtype != bound["grad_output"].dtype:
        return
    check(x.dtype not in (dt.float32, dt.bfloat16) or not (d == dt.float64 or dt.is_complex(d)), dense_dtype(d))


@kernel("gelu_backward", writes=Writes(out=_look_gelu))
def gelu_backward(grad_output: ndarray, self: ndarray, *, approximate: str = "none") -> ndarray:
    """``g`` times the derivative of `gelu` in the same mode."""
    check_approximate(approximate)
    (g, x), out, num = _inputs("GeluBackwardKernelImpl", grad_output, self)
    if approximate == "tanh":
        beta, kappa = num(_ROOT_TWO_OVER_PI), num(0.044715)
        t = np.tanh(beta * (x + kappa * (x * x * x)))
        left, right = num(0.5) * x, num(1) + t
        inner = beta * (num(1) + num(3) * kappa * (x * x))
        return el.finish(g * (num(0.5) * right + left * (num(1) - t * t) * inner), out)
    cdf = num(0.5) * (num(1) + erf(x * num(_ROOT_HALF)))
    pdf = np.exp(x * x * num(-0.5)) * num(0.5 * _ROOT_TWO_OVER_PI)
    return el.finish(g * (cdf + x * pdf), out)


@kernel("infinitely_differentiable_gelu_backward")
def infinitely_differentiable_gelu_backward(grad: ndarray, self: ndarray) -> ndarray:
    """The exact mode of `gelu_backward`, by kernels that have gradients of their own."""
    cdf = mul(add_scalar(erf_of_tensor(mul(self, _ROOT_HALF)), 1), 0.5)
    pdf = exp(mul(mul(self, -0.5), self))
    return el.in_place(cdf, mul(addcmul(cdf, self, pdf, value=0.5 * _ROOT_TWO_OVER_PI), grad))


_KEPT = "The gradient of what was kept, scaled as it was."
rows("native_dropout_backward", lambda g, mask, scale: mul(mul(g, mask), scale), _KEPT)
