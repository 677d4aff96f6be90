"""Activation functions."""

from __future__ import annotations

from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, require, wrap_dim
from torchnp.core.errors import complex_clamp
from torchnp.core.inplace_out_spec import Bound, WriteSpec, precheck_whole
from torchnp.core.python_scalars import real, scalar, whole
from torchnp.core.registry import kernel
from torchnp.core.target import since
from torchnp.kernels import _elementwise as el
from torchnp.kernels._declare_rows import rows
from torchnp.kernels.limits import clamp
from torchnp.kernels.numerics.blocks import STRIP, by_tiles, choose, in_strips, limited
from torchnp.kernels.numerics.erf import scipy_special, times_normal
from torchnp.kernels.numerics.fma import fast_fma
from torchnp.kernels.numerics.vector_tails import vector_or_tail

ndarray = np.ndarray

# ---------------------------------------------------------------- rectifiers

_ZERO = {dtype: np.zeros((), dtype) for dtype in el.INTS | el.UNSIGNED | el.WIDE}


def _relu(x: ndarray) -> ndarray:
    return np.maximum(_ZERO[x.dtype], x) if x.size <= STRIP else limited(x, _ZERO[x.dtype], None)


_NO_RELU = [
    ([dt.bool_], RuntimeError, "Boolean inputs not supported for relu"),
    (dt.COMPLEXES, NotImplementedError, str(complex_clamp())),
]
relu = el.unary(
    "relu", _relu, cpu="clamp_min_scalar_cpu", takes=el.INTS | el.FLOATS, refuses=_NO_RELU,
    many_halves=lambda x: clamp(x, 0),
)  # fmt: skip


@kernel("hardtanh")
def hardtanh(self: ndarray, min_val: Any = -1, max_val: Any = 1) -> ndarray:
    """Elements limited to [min_val, max_val], in the tensor's own dtype."""
    check(self.dtype != dt.bool_, "Bool inputs not supported for hardtanh")
    if self.dtype.kind in "iu":
        min_val, max_val = whole(min_val), whole(max_val)
        words = "cannot do hardtanh on an unsigned type with negative limits"
        check(self.dtype != dt.uint8 or (min_val >= 0 and max_val >= 0) or since("2.15"), words)
    return clamp(self, min_val, max_val)


rows("relu6", lambda x: hardtanh(x, 0, 6), "Limit to [0, 6].")


@kernel("leaky_relu")
def leaky_relu(self: ndarray, negative_slope: Any = 0.01) -> ndarray:
    """``self`` where positive, else ``negative_slope * self``."""
    (x,), out = el.in_opmath("leaky_relu_cpu", el.FLOATS, self)
    slope = scalar(negative_slope, x.dtype)
    scaled = x * slope
    # For slopes in (0, 1], the result is the larger of the two; np.where would take three times as long. A slope of 0
    # would turn an infinity into nan.
    return el.finish(np.maximum(x, scaled) if 0 < slope <= 1 else choose(x > 0, x, scaled), out)


@kernel("_prelu_kernel")
def prelu_kernel(self: ndarray, weight: ndarray) -> ndarray:
    """``self`` where positive, else ``weight * self``, broadcast."""
    el.check_broadcast(self, weight)
    el.check_same_dtype(self, weight)
    return el.formula(self, weight, cpu="prelu_cpu", of=lambda x, w: choose(x > 0, x, w * x))


@kernel("prelu")
def prelu(self: ndarray, weight: ndarray) -> ndarray:
    """``self`` where positive, else ``weight * self``; there is a single weight, or one per channel (dimension 1)."""
    words = f"prelu: Type promoting not supported. Got {dt.scalar_name(self.dtype)} and {dt.scalar_name(weight.dtype)}"
    check(self.dtype == weight.dtype, words)
    if weight.size != 1:
        check(self.ndim > 0, "Not allow zero-dim input tensor.")
        channels = self.shape[1] if self.ndim >= 2 else 1
        found = f"Found parameter numbers = {weight.size} and channel size = {channels}."
        check(channels == weight.size, f"Mismatch of parameter numbers and input channel size. {found}")
    check(weight.ndim <= 1, f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}")
    if self.ndim == 0:
        weight = weight.reshape(())
    elif self.ndim != 1:
        weight = weight.reshape([-1 if d == 1 else 1 for d in range(self.ndim)])
    return prelu_kernel(self, weight)


def _threshold(x: ndarray, other: ndarray, threshold: Any, value: Any) -> ndarray:
    common = dt.result_type(x, other)
    require("threshold_cpu", common, el.INTS | el.FLOATS)
    limit, fill = scalar(threshold, dt.opmath(common)), scalar(value, common)
    x, other = dt.cast(x, common), dt.cast(other, common)
    return np.asarray(choose(dt.cast(x, limit.dtype) <= limit, fill, other))


_DOC = "``self`` where it is above the threshold, else ``value``; NaN is kept."
rows("threshold", lambda x, limit, value: _threshold(x, x, limit, value), _DOC)

# ---------------------------------------------------------------- exponential units


def _expm1_of_negative(x: ndarray) -> ndarray:
    """Return exp(x) - 1 where x is negative. float32 uses tanh: 10 times as fast as expm1, at most 3 ulp off."""
    if x.dtype != dt.float32:
        return np.expm1(x)
    t = np.tanh(x * x.dtype.type(0.5))
    return (t + t) / (1 - t)


@kernel("elu")
def elu(self: ndarray, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> ndarray:
    """``scale * x`` where positive, else ``scale * alpha * (exp(input_scale * x) - 1)``."""
    (x,), out = el.in_opmath("elu_cpu", el.FLOATS, self)
    a, s, i = (scalar(v, x.dtype) for v in (alpha, scale, input_scale))
    return el.finish(choose(x < 0, _expm1_of_negative(x * i) * (a * s), x * s), out)


_SELU, _DOC = (1.6732632423543772, 1.0507009873554805), "`elu` with the constants of self-normalizing networks."
rows("selu", lambda x: elu(x, *_SELU), _DOC)


def _precheck_celu(bound: Bound, _: list[ndarray]) -> None:
    check(real(bound.get("alpha", 1.0)) != 0, "ZeroDivisionError: alpha cannot be 0 for CELU")


@kernel("celu", writes=WriteSpec(inplace=_precheck_celu))
def celu(self: ndarray, alpha: Any = 1.0) -> ndarray:
    """`elu` with ``exp(x / alpha)``, so that its slope is continuous for every alpha."""
    _precheck_celu({"alpha": alpha}, [])
    return elu(self, real(alpha), 1.0, 1.0 / real(alpha))


# ---------------------------------------------------------------- sigmoids

_ONE = {dtype: np.ones((), dtype) for dtype in el.WIDE | el.COMPLEX}


def _sigmoid(x: ndarray) -> ndarray:
    if x.size > STRIP:
        return in_strips(_sigmoid_into, x)
    return _sigmoid_into(x, None if x.ndim else np.empty_like(x))


def _sigmoid_into(x: ndarray, y: ndarray | None) -> ndarray:
    one, y = _ONE[x.dtype], np.negative(x, y)  # np.negative allocates a buffer faster than np.empty_like
    np.exp(y, y)
    np.add(y, one, y)
    return np.divide(one, y, y)


def _silu_into(x: ndarray, y: ndarray) -> ndarray:
    return np.divide(x, _ONE[x.dtype] + np.exp(-x), y)


def _six_times(x: ndarray) -> ndarray:
    """Return six times hardsigmoid: x + 3 clamped to [0, 6]."""
    return np.minimum(6, np.maximum(0, x + 3))


REDUCED_SIGMOID = [(dt.FLOAT8S, NotImplementedError, "\"sigmoid_cpu_reduced_float\" not implemented for '{}'")]
sigmoid = el.unary(
    "sigmoid special_expit", _sigmoid, el.int_to_float, cpu="sigmoid_cpu", refuses=REDUCED_SIGMOID,
    like=scipy_special("expit"), differs=["int-to-default-float", "scipy-in-double", "sigmoid-of-complex"],
)  # fmt: skip
silu = el.unary("silu", partial(in_strips, _silu_into), cpu="silu_cpu", takes=el.FLOATS | el.COMPLEX)
mish = el.unary("mish", lambda x: x * np.tanh(np.log1p(np.exp(x))), cpu="mish_cpu", takes=el.FLOATS)
hardsigmoid = el.unary("hardsigmoid", lambda x: _six_times(x) / 6, cpu="hardsigmoid_cpu", takes=el.FLOATS)
hardswish = el.unary("hardswish", lambda x: x * _six_times(x) / 6, cpu="hardswish_cpu", takes=el.FLOATS)


def _log_sigmoid(x: ndarray) -> tuple[ndarray, ...]:
    def parts(x: ndarray) -> tuple[ndarray, ndarray]:
        decay = np.exp(-np.abs(x))
        return np.minimum(0, x) - np.log1p(decay), decay

    return by_tiles(parts, x)


_DOC = "``log(sigmoid(self))`` without overflow, and the buffer ``exp(-|self|)`` that backward reads."
(log_sigmoid_forward,) = rows("log_sigmoid_forward", el.formula, _DOC, of=_log_sigmoid, cpu="log_sigmoid_cpu")
rows(
    "log_sigmoid", log_sigmoid_forward, "``log(sigmoid(self))`` without overflow.", part=0,
    writes=WriteSpec(dtype_before_target=True),
)  # fmt: skip


@kernel("glu")
def glu(self: ndarray, dim: int = -1) -> ndarray:
    """The first half along ``dim`` times the sigmoid of the second."""
    return el.formula(*halves(self, dim), cpu="glu_cpu", of=lambda a, b: a * _sigmoid(b))


def halves(x: ndarray, dim: int) -> tuple[ndarray, ndarray]:
    """Return the two halves of a tensor along a dimension."""
    check(x.ndim > 0, "glu does not support 0-dimensional tensors")
    dim = wrap_dim(dim, x.ndim)
    check(x.shape[dim] % 2 == 0, f"Halving dimension must be even, but dimension {dim} is size {x.shape[dim]}")
    first, second = np.split(x, 2, dim)
    return first, second


@kernel("softplus")
def softplus(self: ndarray, beta: Any = 1, threshold: Any = 20) -> ndarray:
    """``log(1 + exp(beta * x)) / beta``, linear where ``beta * x`` is above the threshold."""
    (x,), out = el.in_opmath("softplus_cpu", el.FLOATS, self)
    beta, limit = scalar(beta, x.dtype), scalar(threshold, x.dtype)
    scaled = x * beta
    return el.finish(choose(scaled > limit, x, np.log1p(np.exp(scaled)) / beta), out)


# ---------------------------------------------------------------- shrinkage


@kernel("softshrink", writes=WriteSpec(dtype_before_target=True))
def softshrink(self: ndarray, lambd: Any = 0.5) -> ndarray:
    """Each element moved toward 0 by ``lambd``, but not past 0."""
    lambd = real(lambd)
    (x,), out = el.in_opmath("softshrink_check", el.FLOATS, self)
    name, largest = dt.scalar_name(self.dtype), float(ml_dtypes.finfo(self.dtype).max)
    words = f"lambda must be in range [0, {largest:g}] for input dtype {name}, but found {lambd:g}"
    check(0 <= lambd <= largest, words)
    step = scalar(lambd, x.dtype)

    def shrunk(x: ndarray, inside: ndarray) -> ndarray:
        return el.finish(choose(x > step, x - step, choose(x < -step, x + step, inside)), out)

    # Within [-lambd, lambd], nan stays nan. In the scalar tail of torch's vectorized loop, negative numbers become -0.
    alone = lambda part: shrunk(wide := dt.cast(part, x.dtype), wide * 0)
    whole = el.finish(x - np.clip(x, -step, step), out) if step else shrunk(x, np.abs(x) * 0)
    return vector_or_tail(whole, alone, self)


_DOC = "0 within ``[-lambd, lambd]``, unchanged outside; for half types lambd is rounded first."
_outside = lambda x, limit: choose((x >= -limit) & (x <= limit), 0, x)
rows("hardshrink", el.formula, _DOC, of=_outside, stepwise=dt.HALVES)


def _gelu_tanh_into(x: ndarray, y: ndarray) -> None:
    np.multiply(0.5 * x, 1 + np.tanh(0.7978845608028654 * (x + 0.044715 * (x * x * x))), y)


@kernel("gelu")
def gelu(self: ndarray, *, approximate: str = "none") -> ndarray:
    """``x`` times the normal distribution function at ``x``, or its approximation by tanh."""
    check_approximate(approximate)
    (x,), out = el.in_opmath("GeluKernelImpl", el.FLOATS, self)
    if approximate == "tanh":
        return el.finish(in_strips(_gelu_tanh_into, x), out)
    return el.finish(times_normal(x), out)


def check_approximate(approximate: str) -> None:
    check(approximate in ("none", "tanh"), "approximate argument must be either none or tanh.")


_CLAMPED = frozenset((*el.WIDE, *(d for d in el.INTS if d.kind == "i")))


def _add_relu(self: ndarray, other: Any, alpha: Any) -> ndarray:
    """Return ``self + alpha * other`` clamped to [0, largest value of ``self``'s dtype]; alpha may be any number."""
    el.check_broadcast(self, other)
    common = el.common_dtype(self, other)
    words = "false INTERNAL ASSERT FAILED, please report a bug to PyTorch. Unsupported datatype for add_relu:"
    check(self.dtype in _CLAMPED, words + dt.c_name(self.dtype))
    require("add_clamp_cpu", common, (*_CLAMPED, dt.uint8))
    largest = float(np.finfo(self.dtype).max) if self.dtype.kind == "f" else int(np.iinfo(self.dtype).max)
    factor, top, zero = scalar(alpha, common), scalar(largest, common), common.type(0)
    b = el.operand(other, common)

    def added(x: ndarray, y: ndarray) -> ndarray:  # torch fuses the multiplication and the addition of floats
        x, y = dt.cast(x, common), dt.cast(y, common)
        if factor == 1:
            return x + y
        return fast_fma(y, factor, x) if common in el.WIDE else x + y * factor

    def alone(x: ndarray, y: ndarray) -> ndarray:  # in the scalar tail of torch's vectorized loop, nan and -0 become 0
        return np.minimum(np.fmax(added(x, y), zero) + zero, top)

    total = added(self, b)
    return vector_or_tail(limited(np.asarray(total), zero, top), alone, self, b)


_DOC = "``self + alpha * other`` clamped to [0, largest finite value of ``self``'s dtype]."
rows("_add_relu.Tensor _add_relu.Scalar", _add_relu, _DOC, writes=WriteSpec(inplace=precheck_whole))
