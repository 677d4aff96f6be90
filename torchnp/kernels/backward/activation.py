"""Gradients of activation functions."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, check_fits, require
from torchnp.core.errors import dense_dtype, found_dtype
from torchnp.core.fast_path import exact, is_float
from torchnp.core.inplace_out_spec import Bound, WriteSpec
from torchnp.core.python_scalars import real
from torchnp.core.registry import kernel
from torchnp.core.target import since
from torchnp.kernels import _elementwise as el
from torchnp.kernels._declare_rows import rows
from torchnp.kernels.activation import REDUCED_SIGMOID, _threshold, check_approximate, halves
from torchnp.kernels.arithmetic import add_scalar, addcmul, mul
from torchnp.kernels.numerics.blocks import by_tiles, choose, has_zero_or_nan
from torchnp.kernels.numerics.erf import erf
from torchnp.kernels.numerics.vector_tails import AVX512, VECTOR, Loop, vector_or_tail
from torchnp.kernels.pointwise import exp
from torchnp.kernels.special import erf_of_tensor
from torchnp.layout import stride_rules
from torchnp.layout.apply import is_plain

ndarray = np.ndarray


# ---------------------------------------------------------------- gradients of one formula


def logistic(x: ndarray) -> ndarray:
    """Compute the sigmoid in the input's dtype."""
    return 1 / (1 + np.exp(-x))


def _silu(g: ndarray, x: ndarray) -> ndarray:
    s = logistic(x)
    return g * s * (1 + x * (1 - s))


def _mish(g: ndarray, x: ndarray) -> ndarray:
    t = np.tanh(np.log1p(np.exp(x)))
    return g * (t + x * logistic(x) * (1 - t * t))


def _softplus(g: ndarray, x: ndarray, beta: ndarray, threshold: ndarray) -> ndarray:
    scaled = x * beta
    z = np.exp(scaled)
    return choose(scaled > threshold, g, g * z / (z + 1))


_SIXTH = np.float32(1 / 6).item()  # torch rounds it to float32 for float64 too
_AND_COMPLEX: Any = {"takes": el.FLOATS | el.COMPLEX}


def _sigmoid(g: ndarray, y: ndarray) -> ndarray:
    return g * np.conjugate((1 - y) * y) if g.dtype.kind == "c" else g * (1 - y) * y


(sigmoid_backward,) = rows(
    "sigmoid_backward", el.formula, "``g * (1 - y) * y``, with the conjugate of a complex output.",
    of=_sigmoid, stepwise=(dt.float16,), **_AND_COMPLEX,
)  # fmt: skip


def _tanh(g: ndarray, y: ndarray) -> ndarray:
    if g.dtype.kind != "c":
        return g * ((1 - y) * (1 + y))  # torch rounds 1 - y * y once; near 1, that of a rounded square differs
    d = np.asarray(y * y)  # becomes the conjugate of 1 - y * y, with torch's signs of zero
    d.real = 1 - d.real
    return g * d


(tanh_backward,) = rows("tanh_backward", el.formula, "``g * (1 - y * y)``.", of=_tanh, **_AND_COMPLEX)
for _name, _formula, _given, _doc in (
    (
        "hardsigmoid_backward", lambda g, x: choose((x > -3) & (x < 3), g * _SIXTH, 0),
        {"cpu": "hardsigmoid_backward"}, "``g / 6`` strictly inside (-3, 3), else 0.",
    ),
    ("silu_backward", _silu, _AND_COMPLEX, "``g * s * (1 + x * (1 - s))`` with ``s = sigmoid(x)``."),
    (
        "mish_backward", _mish, {"into": 1},
        "``g * (t + x * s * (1 - t * t))`` with ``s = sigmoid(x)`` and ``t = tanh(softplus(x))``.",
    ),
    ("softplus_backward", _softplus, {}, "``g * sigmoid(beta * x)``, or ``g`` above the threshold."),
):  # fmt: skip
    rows(_name, el.formula, _doc, of=_formula, **_given)

# ---------------------------------------------------------------- gradients that differ by loop: vector or scalar


def _in_vectors(
    grad_output: ndarray, self: ndarray, *limits: Any, whole: Any, rest: Any, loop: Loop = VECTOR, **given: Any
) -> ndarray:
    """Apply ``whole``, but ``rest`` to the tail (shorter than two SIMD vectors); they differ only at nan and 0."""
    y = el.formula(grad_output, self, *limits, of=whole, **given)
    if has_zero_or_nan(self) or any(np.isnan(x) for x in limits if x is not None):
        alone = lambda *parts: el.formula(*parts, *limits, of=rest, **given)
        return vector_or_tail(y, alone, dt.cast(grad_output, y.dtype), dt.cast(self, y.dtype), loop=loop)
    return y


def _logit(g: ndarray, x: ndarray, eps: ndarray | None, alone: bool) -> ndarray:
    low, outside = (0, np.nan) if eps is None or eps < 0 else (eps, 0)
    slope = g / (x * (1 - x))
    if alone:  # torch's scalar code treats -0.0 as 0, and nan as inside the limits
        slope = choose((x == 0) | (x == 1), g * np.asarray(np.inf, g.dtype), slope)
        return choose((x < low) | (x > 1 - low), outside, slope)
    return choose((x >= low) & (x <= 1 - low), slope, outside)


rows(
    "logit_backward", _in_vectors,
    "``g / (x * (1 - x))``; without eps NaN outside [0, 1], with eps 0 outside [eps, 1 - eps].",
    cpu="logit_backward_cpu", stepwise=dt.HALVES, loop=AVX512, whole=partial(_logit, alone=False), rest=partial(_logit, alone=True),
)  # fmt: skip
rows(
    "hardtanh_backward", _in_vectors, "``g`` strictly inside the limits, else 0.", cpu="hardshrink_backward_cpu",
    whole=lambda g, x, low, high: choose((x > low) & (x < high), g, 0),
    rest=lambda g, x, low, high: choose((x <= low) | (x >= high), 0, g),
)  # fmt: skip
rows(
    "softshrink_backward hardshrink_backward", _in_vectors, "``g`` outside ``[-lambd, lambd]``, else 0.",
    cpu="shrink_backward_cpu", rounded=dt.HALVES,
    whole=lambda g, x, limit: choose((x > limit) | (x < -limit), g, 0),
    rest=lambda g, x, limit: choose((x >= -limit) & (x <= limit), 0, g),
)  # fmt: skip
rows(
    "hardswish_backward", _in_vectors, "``g * (x / 3 + 1 / 2)`` inside (-3, 3), 0 below, ``g`` above.",
    cpu="hardswish_backward_cpu",
    whole=lambda g, x: choose(x <= -3, 0, choose(x >= 3, g, g * (x / 3 + 0.5))),
    rest=lambda g, x: choose(x <= -3, 0, choose(x < 3, g * (x / 3 + 0.5), g)),
)  # fmt: skip

# ---------------------------------------------------------------- gradients written out as functions

_IN_PLACE = (
    "In-place {} backward calculation is triggered with a negative slope which is not supported. This is caused by "
    "calling in-place forward function with a negative slope, please call out-of-place version instead."
)


def _quick_threshold_backward(grad_output: Any, self: Any, threshold: Any) -> ndarray | None:
    """Compute the gradient of relu; return None for other arguments."""
    if type(threshold) is not int or threshold or not is_float(self) or not is_float(grad_output):
        return None
    if self.dtype is not grad_output.dtype or self.shape != grad_output.shape or not self.ndim:
        return None
    return choose(self <= 0, 0, grad_output) if is_plain(self) and is_plain(grad_output) else None


@kernel("threshold_backward", quick=exact(_quick_threshold_backward, placed=True))
def threshold_backward(grad_output: ndarray, self: ndarray, threshold: Any) -> ndarray:
    """``g`` where the input is above the threshold, else 0."""
    el.check_broadcast(self, grad_output)
    return _threshold(self, grad_output, threshold, 0)


@kernel("leaky_relu_backward")
def leaky_relu_backward(grad_output: ndarray, self: ndarray, negative_slope: Any, self_is_result: bool) -> ndarray:
    """``g``, times the slope where the input (or the result) is not positive."""
    if self_is_result and not real(negative_slope) >= 0:
        ask = "File an issue at https://github.com/pytorch/pytorch if you do require supporting in-place leakRelu"
        raise RuntimeError(f"{_IN_PLACE.format('leakyReLu')} {ask} backward calculation with negative slope")
    of = lambda x, g, slope: choose(x > 0, g, g * slope)
    return el.formula(self, grad_output, negative_slope, cpu="leaky_relu_backward_cpu", of=of)


@kernel("rrelu_with_noise_backward")
def rrelu_with_noise_backward(grad_output, self, noise, lower, upper, training, self_is_result):
    """``g`` times the random slopes of the forward pass; in evaluation, the mean slope where x is not positive."""
    if training:
        out, read = mul(noise, grad_output), (noise, grad_output)
    else:
        slope = (real(lower) + real(upper)) / 2
        out, read = leaky_relu_backward(grad_output, self, slope, self_is_result), (self, grad_output)
    found = [stride_rules.layout_of(x) for x in read]  # torch converts operands of another dtype to dense copies
    found = [(n, s if x.dtype == out.dtype else stride_rules.preserved(n, s)) for x, (n, s) in zip(read, found)]
    return stride_rules.place(out, stride_rules.iterated(found))


@kernel("_prelu_kernel_backward")
def prelu_kernel_backward(grad_output: ndarray, self: ndarray, weight: ndarray) -> tuple[ndarray, ndarray]:
    """Gradients of the input and of the weight; the latter is not yet summed to the weight's shape."""
    el.check_broadcast(self, weight, grad_output)
    el.check_same_dtype(self, weight, grad_output)
    of = lambda g, x, w: (choose(x > 0, g, w * g), choose(x > 0, 0, x * g))
    return el.formula(*np.broadcast_arrays(grad_output, self, weight), cpu="prelu_backward_cpu", of=of)


@kernel("elu_backward")
def elu_backward(grad_output, alpha, scale, input_scale, is_result, self_or_result):
    """The gradient of `elu`, from its input, or from its result if the forward was in-place."""
    check(not is_result or real(alpha) >= 0, _IN_PLACE.format("elu"))

    def slope(g: ndarray, x: ndarray, alpha: ndarray, above: ndarray, inside: ndarray) -> ndarray:
        below = alpha * above
        return g * inside * (x + below) if is_result else g * inside * below * np.exp(x * inside)

    return _in_vectors(
        grad_output, self_or_result, alpha, scale, input_scale, cpu="elu_backward_cpu", loop=AVX512,
        whole=lambda g, x, alpha, above, inside: choose(x > 0, g * above, slope(g, x, alpha, above, inside)),
        rest=lambda g, x, alpha, above, inside: choose(x <= 0, slope(g, x, alpha, above, inside), g * above),
    )  # fmt: skip


@kernel("log_sigmoid_backward")
def log_sigmoid_backward(grad_output: ndarray, self: ndarray, buffer: ndarray) -> ndarray:
    """``g * sigmoid(-x)``, from the buffer ``exp(-|x|)``."""
    el.check_broadcast(self, buffer, grad_output)
    el.check_same_dtype(self, grad_output, buffer)

    def of(x: ndarray, z: ndarray, g: ndarray) -> ndarray:
        ratio = z / (1 + z)
        return choose(x < 0, 1 - ratio, 0 + ratio) * g

    return el.formula(self, buffer, grad_output, cpu="log_sigmoid_backward_cpu", of=of)


def _precheck_glu(bound: Bound, outs: list[ndarray]) -> None:
    x, d = bound["self"].dtype, outs[0].dtype
    check(x == d or not dt.is_inexact(d), found_dtype(x, d))


@kernel("glu_backward", writes=WriteSpec(out=_precheck_glu))
def glu_backward(grad_output: ndarray, self: ndarray, dim: int) -> ndarray:
    """Gradient of `glu`: the gradients of both halves of the input, joined along ``dim``."""
    a, b = halves(self, dim)
    el.refuse_row("sigmoid_cpu", el.int_to_float(self.dtype), el.FLOATS | el.COMPLEX, REDUCED_SIGMOID)
    el.check_result_dtype(el.int_to_float(self.dtype), self.dtype)
    el.check_broadcast(b, grad_output)
    el.check_same_dtype(self, grad_output)
    require("glu_backward_cpu", self.dtype, el.FLOATS)
    check_fits(grad_output, b)  # torch's last step is in place, so it has to fit

    def parts(a: ndarray, b: ndarray, g: ndarray) -> tuple[ndarray, ndarray]:
        s = el.finish(logistic(dt.cast(b, dt.opmath(b.dtype))), b.dtype)  # torch rounds each step
        return s * g, (1 - s) * s * a * g

    whole = np.empty(self.shape, self.dtype)
    if whole.size:
        by_tiles(parts, a, b, grad_output, outs=halves(whole, dim))
    return whole


_ROOT_HALF = 0.7071067811865476
_ROOT_TWO_OVER_PI = 0.7978845608028654


# The dtypes for which oneDNN has code, and the dtypes of gradients that it converts to these.
_DENSE = (dt.float32, dt.bfloat16)
_DENSE_GRADIENTS = (*_DENSE, dt.float16, dt.uint8, dt.int8, *dt.FLOAT8S)


def _precheck_gelu(bound: Bound, outs: list[ndarray]) -> None:
    d, approximate, grad, x = outs[0].dtype, bound["approximate"], bound["grad_output"], bound["self"]
    el.check_broadcast(grad, x)
    el.check_result_dtype(dt.result_type(grad, x), d)
    check_approximate(approximate)
    if _is_dense(grad, x, approximate):
        check(d != dt.float64 and not dt.is_complex(d), dense_dtype(d))


def _is_dense(grad: ndarray, x: ndarray, approximate: str) -> bool:
    """Return whether oneDNN computes the gradient; raise torch's error for gradients that it cannot read."""
    el.check_broadcast(grad, x)
    dt.result_type(grad, x)
    dense = approximate == "none" and x.dtype in _DENSE and x.size > 1 and x.flags.c_contiguous
    check(not dense or grad.dtype in _DENSE_GRADIENTS, dense_dtype(grad.dtype))
    return dense


@kernel("gelu_backward", writes=WriteSpec(out=_precheck_gelu))
def gelu_backward(grad_output: ndarray, self: ndarray, *, approximate: str = "none") -> ndarray:
    """``g`` times the derivative of `gelu` in the same mode."""
    el.check_broadcast(grad_output, self)
    dt.result_type(grad_output, self)
    check_approximate(approximate)
    _is_dense(grad_output, self, approximate)
    of = _gelu_tanh if approximate == "tanh" else _gelu
    return el.formula(grad_output, self, cpu="GeluBackwardKernelImpl", of=of)


def _gelu(g: ndarray, x: ndarray) -> ndarray:
    cdf = 0.5 * (1 + erf(x * _ROOT_HALF))
    return g * (cdf + x * (np.exp(x * x * -0.5) * (0.5 * _ROOT_TWO_OVER_PI)))


def _gelu_tanh(g: ndarray, x: ndarray) -> ndarray:
    kappa = np.asarray(0.044715, x.dtype)
    t = np.tanh(_ROOT_TWO_OVER_PI * (x + kappa * (x * x * x)))
    inner = _ROOT_TWO_OVER_PI * (1 + 3 * kappa * (x * x))
    return g * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner)


@kernel("infinitely_differentiable_gelu_backward")
def infinitely_differentiable_gelu_backward(grad: ndarray, self: ndarray) -> ndarray:
    """`gelu_backward` in its exact mode, composed of differentiable kernels."""
    before = not since("2.13")  # before 2.13, torch did each step in the dtype of self
    out = el.int_to_float(self.dtype) if before else dt.result_type(grad, self)
    x, grad = (self, grad) if before else (dt.cast(v, dt.opmath(el.int_to_float(out))) for v in (self, grad))
    cdf = mul(add_scalar(erf_of_tensor(mul(x, _ROOT_HALF)), 1), 0.5)
    pdf = exp(mul(mul(x, -0.5), x))
    cdf = addcmul(cdf, x, pdf, value=0.5 * _ROOT_TWO_OVER_PI)
    if before:
        check_fits(grad, cdf)
        return el.in_place(cdf, mul(cdf, grad))
    check_fits(grad, self)
    return dt.cast(mul(cdf, grad), out)


_KEPT = "``grad_output * mask * scale``."
rows("native_dropout_backward", lambda g, mask, scale: mul(mul(g, mask), scale), _KEPT)
