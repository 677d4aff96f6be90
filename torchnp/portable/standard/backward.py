"""Gradients of activations, losses without reduction, softmax and views."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from torchnp import dtypes as dt
from torchnp.core.checks import check
from torchnp.portable.library import ArrayLibrary
from torchnp.portable.rows import Array, portable
from torchnp.portable.standard.shape import part, wrap

_NEGATIVE_SLOPE = "In-place {} backward calculation is triggered with a negative slope which is not supported."

_NONE = 0  # torch's code of ``reduction="none"``

# ---------------------------------------------------------------- activations


def _each(lib: ArrayLibrary, function: Callable[..., Array], *operands: Any) -> Array:
    """Call a function on promoted operands; half types are computed in float32."""
    return lib.in_opmath(function, *lib.promote(*operands))


def _sigmoid(lib: ArrayLibrary, x: Array) -> Array:
    return 1 / (1 + lib.xp.exp(-x))


def _one_operand(name: str, gradient: Callable[[ArrayLibrary, Array, Array], Array]) -> None:
    """Declare the gradient of a function without parameters, which takes the function's operand or result."""

    @portable(name)
    def row(lib: ArrayLibrary, grad_output: Array, self: Array) -> Array:
        return _each(lib, lambda g, x: gradient(lib, g, x), grad_output, self)


def _silu(lib: ArrayLibrary, g: Array, x: Array) -> Array:
    s = _sigmoid(lib, x)
    return g * s * (1 + x * (1 - s))


def _mish(lib: ArrayLibrary, g: Array, x: Array) -> Array:
    t = lib.xp.tanh(lib.xp.maximum(x, x * 0) + lib.xp.log1p(lib.xp.exp(-lib.xp.abs(x))))
    return g * (t + x * _sigmoid(lib, x) * (1 - t * t))


_one_operand("aten::tanh_backward", lambda lib, g, y: g * (1 - y * y))
_one_operand("aten::sigmoid_backward", lambda lib, g, y: g * (1 - y) * y)
_SIXTH = 0.1666666716337204  # torch rounds it to float32, for float64 too
_one_operand("aten::silu_backward", _silu)
_one_operand("aten::mish_backward", _mish)
_one_operand(
    "aten::hardsigmoid_backward", lambda lib, g, x: lib.xp.where((x > -3) & (x < 3), g * _SIXTH, lib.xp.zeros_like(g))
)
_one_operand(
    "aten::hardswish_backward",
    lambda lib, g, x: lib.xp.where(x <= -3, lib.xp.zeros_like(g), lib.xp.where(x < 3, g * (x / 3 + 0.5), g)),
)


@portable("aten::gelu_backward")
def gelu_backward(lib: ArrayLibrary, grad_output: Array, self: Array, *, approximate: str = "none") -> Array:
    def exact(g: Array, x: Array) -> Array:
        density = lib.xp.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))
        return g * (0.5 * (1 + lib.call("aten::erf", x * math.sqrt(0.5))) + x * density)

    def by_tanh(g: Array, x: Array) -> Array:
        root = math.sqrt(2 / math.pi)
        t = lib.xp.tanh(root * (x + 0.044715 * x * x * x))
        return g * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root * (1 + 3 * 0.044715 * x * x))

    return _each(lib, exact if approximate == "none" else by_tanh, grad_output, self)


@portable("aten::threshold_backward")
def threshold_backward(lib: ArrayLibrary, grad_output: Array, self: Array, threshold: Any) -> Array:
    g, x = lib.promote(grad_output, self)
    return lib.xp.where(x <= lib.number(threshold, lib.dtype_of(x)), lib.xp.zeros_like(g), g)


@portable("aten::hardtanh_backward")
def hardtanh_backward(lib: ArrayLibrary, grad_output: Array, self: Array, min_val: Any, max_val: Any) -> Array:
    g, x = lib.promote(grad_output, self)
    d = lib.dtype_of(x)
    outside = (x <= lib.number(min_val, d)) | (x >= lib.number(max_val, d))
    return lib.xp.where(outside, lib.xp.zeros_like(g), g)


@portable("aten::leaky_relu_backward")
def leaky_relu_backward(
    lib: ArrayLibrary, grad_output: Array, self: Array, negative_slope: Any, self_is_result: bool
) -> Array:
    check(not self_is_result or negative_slope >= 0, _NEGATIVE_SLOPE.format("leakyReLu"))
    return _each(lib, lambda g, x: lib.xp.where(x > 0, g, g * float(negative_slope)), grad_output, self)


@portable("aten::elu_backward")
def elu_backward(
    lib: ArrayLibrary,
    grad_output: Array,
    alpha: Any,
    scale: Any,
    input_scale: Any,
    is_result: bool,
    self_or_result: Array,
) -> Array:
    check(not is_result or alpha >= 0, _NEGATIVE_SLOPE.format("elu"))
    a, s, i = float(alpha), float(scale), float(input_scale)

    def f(g: Array, x: Array) -> Array:
        low = lib.xp.minimum(x, lib.xp.zeros_like(x))  # exp stays finite where this branch is not chosen
        below = g * i * (x + a * s) if is_result else g * (i * a * s) * lib.xp.exp(low * i)
        return lib.xp.where(x <= 0, below, g * s)

    return _each(lib, f, grad_output, self_or_result)


@portable("aten::softplus_backward")
def softplus_backward(lib: ArrayLibrary, grad_output: Array, self: Array, beta: Any, threshold: Any) -> Array:
    b, limit = float(beta), float(threshold)
    f = lambda g, x: lib.xp.where(x * b > limit, g, g * _sigmoid(lib, x * b))
    return _each(lib, f, grad_output, self)


@portable("aten::log_sigmoid_backward")
def log_sigmoid_backward(lib: ArrayLibrary, grad_output: Array, self: Array, buffer: Array) -> Array:
    """Use the buffer of the forward operator, as torch's CPU kernel does."""

    def f(g: Array, x: Array, z: Array) -> Array:
        one, zero = lib.xp.ones_like(x), lib.xp.zeros_like(x)
        return g * (lib.xp.where(x < 0, one, zero) - lib.xp.where(x < 0, one, -one) * (z / (1 + z)))

    return NotImplemented if 0 in buffer.shape else _each(lib, f, grad_output, self, buffer)


# ---------------------------------------------------------------- losses


def _loss(lib: ArrayLibrary, reduction: int, f: Callable[..., Array], *operands: Any) -> Array:
    return _each(lib, f, *operands) if reduction == _NONE else NotImplemented


@portable("aten::mse_loss_backward")
def mse_loss_backward(lib: ArrayLibrary, grad_output: Array, self: Array, target: Array, reduction: int) -> Array:
    return _loss(lib, reduction, lambda g, x, y: 2 * (x - y) * g, grad_output, self, target)


def _sign(lib: ArrayLibrary, x: Array) -> Array:
    return lib.call("aten::sign", x)


@portable("aten::smooth_l1_loss_backward")
def smooth_l1_loss_backward(
    lib: ArrayLibrary, grad_output: Array, self: Array, target: Array, reduction: int, beta: float
) -> Array:
    def f(g: Array, x: Array, y: Array) -> Array:
        far, z = _sign(lib, x - y) * g, x - y
        return lib.xp.where(lib.xp.abs(z) < beta, z * g / beta, far) if beta else far

    if not dt.is_inexact(lib.dtype_of(self)):
        return NotImplemented
    return _loss(lib, reduction, f, grad_output, self, target)


@portable("aten::huber_loss_backward")
def huber_loss_backward(
    lib: ArrayLibrary, grad_output: Array, self: Array, target: Array, reduction: int, delta: float
) -> Array:
    f = lambda g, x, y: lib.xp.where(lib.xp.abs(x - y) > delta, _sign(lib, x - y) * g * delta, (x - y) * g)
    return _loss(lib, reduction, f, grad_output, self, target)


@portable("aten::binary_cross_entropy_backward")
def binary_cross_entropy_backward(
    lib: ArrayLibrary,
    grad_output: Array,
    self: Array,
    target: Array,
    weight: Array | None = None,
    reduction: int = 1,
) -> Array:
    def f(g: Array, x: Array, y: Array, *w: Array) -> Array:
        found = g * (x - y) / lib.xp.maximum((1 - x) * x, lib.number(1e-12, lib.dtype_of(x)))
        return found * w[0] if w else found

    return _loss(lib, reduction, f, grad_output, self, target, *(() if weight is None else (weight,)))


# ---------------------------------------------------------------- softmax and gates


def _softmax_gradient(name: str, gradient: Callable[..., Array]) -> None:
    @portable(name)
    def row(lib: ArrayLibrary, grad_output: Array, output: Array, dim: int, input_dtype: Any) -> Array:
        if not output.ndim or 0 in output.shape:
            return NotImplemented
        axis = wrap(dim, output.ndim)
        found = _each(lib, lambda g, y: gradient(lib, g, y, axis), grad_output, output)
        return lib.astype(found, input_dtype)


def _of_softmax(lib: ArrayLibrary, g: Array, y: Array, axis: int) -> Array:
    weighed = g * y
    return weighed - y * lib.xp.sum(weighed, axis=axis, keepdims=True)


_softmax_gradient("aten::_softmax_backward_data", _of_softmax)
_softmax_gradient(
    "aten::_log_softmax_backward_data",
    lambda lib, g, y, axis: g - lib.xp.exp(y) * lib.xp.sum(g, axis=axis, keepdims=True),
)


@portable("aten::glu_backward")
def glu_backward(lib: ArrayLibrary, grad_output: Array, self: Array, dim: int) -> Array:
    d = wrap(dim, self.ndim)
    half = self.shape[d] // 2

    def f(g: Array, x: Array) -> Array:
        value, gate = part(x, d, slice(0, half)), _sigmoid(lib, part(x, d, slice(half, 2 * half)))
        return lib.xp.concat([g * gate, g * value * gate * (1 - gate)], axis=d)

    return _each(lib, f, grad_output, self)


# ---------------------------------------------------------------- views: the gradient among zeros


def _among_zeros(name: str, scatter: str) -> None:
    @portable(name)
    def row(lib: ArrayLibrary, grad_output: Array, input_sizes: Sequence[int], *place: Any) -> Array:
        return lib.call(scatter, lib.full(input_sizes, 0, lib.dtype_of(grad_output)), grad_output, *place)


_among_zeros("aten::select_backward", "aten::select_scatter")
_among_zeros("aten::slice_backward", "aten::slice_scatter")
_among_zeros("aten::diagonal_backward", "aten::diagonal_scatter")
