"""Activations. The branches of ``where`` that are not chosen stay finite, so that gradients are finite."""

from __future__ import annotations

import math
from typing import Any

from torchnp.portable.library import ArrayLibrary
from torchnp.portable.rows import Array, portable


@portable("aten::relu")
def relu(lib: ArrayLibrary, self: Array) -> Array:
    return lib.xp.maximum(self, lib.number(0, lib.dtype_of(self)))


@portable("aten::relu6")
def relu6(lib: ArrayLibrary, self: Array) -> Array:
    return hardtanh(lib, self, 0, 6)


@portable("aten::hardtanh")
def hardtanh(lib: ArrayLibrary, self: Array, min_val: Any = -1, max_val: Any = 1) -> Array:
    d = lib.dtype_of(self)
    return lib.xp.minimum(lib.xp.maximum(self, lib.number(min_val, d)), lib.number(max_val, d))


@portable("aten::leaky_relu")
def leaky_relu(lib: ArrayLibrary, self: Array, negative_slope: Any = 0.01) -> Array:
    return lib.in_opmath(lambda x: lib.xp.where(x > 0, x, x * float(negative_slope)), self)


@portable("aten::_prelu_kernel")
def prelu_kernel(lib: ArrayLibrary, self: Array, weight: Array) -> Array:
    return lib.in_opmath(lambda x, w: lib.xp.where(x > 0, x, x * w), self, weight)


@portable("aten::prelu")
def prelu(lib: ArrayLibrary, self: Array, weight: Array) -> Array:
    if weight.ndim == 1 and self.ndim > 2:
        weight = lib.xp.reshape(weight, (-1,) + (1,) * (self.ndim - 2))
    return prelu_kernel(lib, self, weight)


@portable("aten::silu")
def silu(lib: ArrayLibrary, self: Array) -> Array:
    return lib.in_opmath(lambda x: x / (1 + lib.xp.exp(-x)), self)


@portable("aten::mish")
def mish(lib: ArrayLibrary, self: Array) -> Array:
    return lib.in_opmath(lambda x: x * lib.xp.tanh(_log1p_exp(lib, x)), self)


def _log1p_exp(lib: ArrayLibrary, x: Array) -> Array:
    return lib.xp.maximum(x, lib.xp.zeros_like(x)) + lib.xp.log1p(lib.xp.exp(-lib.xp.abs(x)))


@portable("aten::elu")
def elu(lib: ArrayLibrary, self: Array, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Array:
    low, positive, inner = float(alpha) * float(scale), float(scale), float(input_scale)

    def f(x: Array) -> Array:
        below = lib.xp.minimum(x, lib.xp.zeros_like(x))
        return lib.xp.where(x < 0, lib.xp.expm1(below * inner) * low, x * positive)

    return lib.in_opmath(f, self)


@portable("aten::celu")
def celu(lib: ArrayLibrary, self: Array, alpha: Any = 1.0) -> Array:
    return elu(lib, self, alpha, 1, 1 / float(alpha))


@portable("aten::selu")
def selu(lib: ArrayLibrary, self: Array) -> Array:
    return elu(lib, self, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946)


@portable("aten::softplus")
def softplus(lib: ArrayLibrary, self: Array, beta: Any = 1, threshold: Any = 20) -> Array:
    b, limit = float(beta), float(threshold)

    def f(x: Array) -> Array:
        straight = x * b > limit
        small = lib.xp.where(straight, lib.xp.zeros_like(x), x * b)
        return lib.xp.where(straight, x, lib.xp.log1p(lib.xp.exp(small)) / b)

    return lib.in_opmath(f, self)


@portable("aten::log_sigmoid")
def log_sigmoid(lib: ArrayLibrary, self: Array) -> Array:
    return log_sigmoid_forward(lib, self)[0]


@portable("aten::log_sigmoid_forward")
def log_sigmoid_forward(lib: ArrayLibrary, self: Array) -> tuple[Array, Array]:
    """Return log-sigmoid, and ``exp(-abs(x))`` as the buffer, as torch's CPU kernel does."""
    f = lambda x: lib.xp.minimum(x, lib.xp.zeros_like(x)) - lib.xp.log1p(lib.xp.exp(-lib.xp.abs(x)))
    return lib.in_opmath(f, self), lib.in_opmath(lambda x: lib.xp.exp(-lib.xp.abs(x)), self)


@portable("aten::hardsigmoid")
def hardsigmoid(lib: ArrayLibrary, self: Array) -> Array:
    return lib.in_opmath(lambda x: hardtanh(lib, x + 3, 0, 6) / 6, self)


@portable("aten::hardswish")
def hardswish(lib: ArrayLibrary, self: Array) -> Array:
    return lib.in_opmath(lambda x: x * hardtanh(lib, x + 3, 0, 6) / 6, self)


@portable("aten::hardshrink")
def hardshrink(lib: ArrayLibrary, self: Array, lambd: Any = 0.5) -> Array:
    inside = (self >= -float(lambd)) & (self <= float(lambd))
    return lib.xp.where(inside, lib.number(0, lib.dtype_of(self)), self)


@portable("aten::softshrink")
def softshrink(lib: ArrayLibrary, self: Array, lambd: Any = 0.5) -> Array:
    by = float(lambd)
    f = lambda x: lib.xp.where(x > by, x - by, lib.xp.where(x < -by, x + by, lib.xp.abs(x) * 0))
    return lib.in_opmath(f, self)


@portable("aten::threshold")
def threshold(lib: ArrayLibrary, self: Array, threshold: Any, value: Any) -> Array:
    d = lib.dtype_of(self)
    return lib.xp.where(self <= lib.number(threshold, d), lib.number(value, d), self)


@portable("aten::gelu")
def gelu(lib: ArrayLibrary, self: Array, *, approximate: str = "none") -> Array:
    if approximate == "tanh":
        inner = lambda x: math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
        return lib.in_opmath(lambda x: 0.5 * x * (1 + lib.xp.tanh(inner(x))), self)
    return lib.in_opmath(lambda x: x * 0.5 * (1 + lib.call("aten::erf", x * math.sqrt(0.5))), self)


@portable("aten::glu")
def glu(lib: ArrayLibrary, self: Array, dim: int = -1) -> Array:
    a, b = lib.call("aten::chunk", self, 2, dim)
    return lib.in_opmath(lambda x, y: x / (1 + lib.xp.exp(-y)), a, b)


@portable("aten::dropout", "aten::feature_dropout", "aten::alpha_dropout")
def dropout(lib: ArrayLibrary, input: Array, p: float, train: bool) -> Array:
    """Return the input in evaluation; in training, `torchnp.portable.draws` draws the mask."""
    return NotImplemented if train and p else input


@portable("aten::rrelu")
def rrelu(
    lib: ArrayLibrary,
    self: Array,
    lower: Any = 0.125,
    upper: Any = 1 / 3,
    training: bool = False,
    generator: Any = None,
) -> Array:
    return NotImplemented if training else leaky_relu(lib, self, (float(lower) + float(upper)) / 2)
