"""Kernels that keep a row label: losses without reduction, and the derivatives of losses and activations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from torchnp.rpc.server.privacy.row_array import smooth, to, where
from torchnp.rpc.server.privacy.row_kernels import Results, Value, erf, exp, log, rows, sigmoid, softplus, unreduced

# ---------------------------------------------------------------- losses

_LOSS = "a loss with reduction='none': elementwise"


@rows("mse_loss", rule=_LOSS)
def mse_loss(r: Results, self: Value, target: Value, reduction: int = 1) -> Value:
    unreduced(reduction)
    a, b = r.computed(self, target)
    return (a - b) * (a - b)


@rows("mse_loss_backward", rule=_LOSS)
def mse_loss_backward(r: Results, grad_output: Value, self: Value, target: Value, reduction: int) -> Value:
    unreduced(reduction)
    g, a, b = r.computed(grad_output, self, target)
    return 2.0 * (a - b) * g


@rows("smooth_l1_loss", rule=_LOSS)
def smooth_l1_loss(r: Results, self: Value, target: Value, reduction: int = 1, beta: float = 1.0) -> Value:
    unreduced(reduction)
    a, b = r.computed(self, target)
    z = np.absolute(a - b)
    return where(z < beta, 0.5 * z * z / beta, z - 0.5 * beta) if beta else z


@rows("smooth_l1_loss_backward", rule=_LOSS)
def smooth_l1_loss_backward(
    r: Results, grad_output: Value, self: Value, target: Value, reduction: int, beta: float
) -> Value:
    unreduced(reduction)
    g, a, b = r.computed(grad_output, self, target)
    x = a - b
    return where(np.absolute(x) < beta, x * g / beta, np.sign(x) * g) if beta else np.sign(x) * g


@rows("huber_loss", rule=_LOSS)
def huber_loss(r: Results, self: Value, target: Value, reduction: int = 1, delta: float = 1.0) -> Value:
    unreduced(reduction)
    a, b = r.computed(self, target)
    z = np.absolute(a - b)
    return where(z <= delta, 0.5 * z * z, delta * (z - 0.5 * delta))


@rows("huber_loss_backward", rule=_LOSS)
def huber_loss_backward(
    r: Results, grad_output: Value, self: Value, target: Value, reduction: int, delta: float
) -> Value:
    unreduced(reduction)
    g, a, b = r.computed(grad_output, self, target)
    x = a - b
    return where(np.absolute(x) <= delta, x * g, np.sign(x) * g * delta)


@rows("binary_cross_entropy", rule=_LOSS)
def binary_cross_entropy(r: Results, self: Value, target: Value, weight: Value = None, reduction: int = 1) -> Value:
    unreduced(reduction)
    x, t, *w = r.computed(self, target, *([] if weight is None else [weight]))
    loss = (t - 1.0) * np.maximum(smooth("log1p", -x), -100.0) - t * np.maximum(log(x), -100.0)
    return loss * w[0] if w else loss


@rows("binary_cross_entropy_backward", rule=_LOSS)
def binary_cross_entropy_backward(
    r: Results, grad_output: Value, self: Value, target: Value, weight: Value = None, reduction: int = 1
) -> Value:
    unreduced(reduction)
    g, x, t, *w = r.computed(grad_output, self, target, *([] if weight is None else [weight]))
    out = g * (x - t) / np.maximum((1.0 - x) * x, 1e-12)
    return out * w[0] if w else out


@rows("binary_cross_entropy_with_logits", rule=_LOSS)
def binary_cross_entropy_with_logits(
    r: Results, self: Value, target: Value, weight: Value = None, pos_weight: Value = None, reduction: int = 1
) -> Value:
    unreduced(reduction)
    x, t = r.computed(self, target)
    loss = (1.0 - t) * x + softplus(-x) * (1.0 if pos_weight is None else (to(pos_weight, x.dtype) - 1.0) * t + 1.0)
    return loss if weight is None else loss * to(weight, x.dtype)


@rows("soft_margin_loss", rule=_LOSS)
def soft_margin_loss(r: Results, self: Value, target: Value, reduction: int = 1) -> Value:
    unreduced(reduction)
    x, t = r.computed(self, target)
    return softplus(-t * x)


# ---------------------------------------------------------------- derivatives of activations


@rows("threshold_backward")
def threshold_backward(r: Results, grad_output: Value, self: Value, threshold: Any) -> Value:
    g, x = r.computed(grad_output, self)
    return where(x <= to(threshold, x.dtype), to(0, g.dtype), g)


@rows("tanh_backward")
def tanh_backward(r: Results, grad_output: Value, output: Value) -> Value:
    g, y = r.computed(grad_output, output)
    return g * (1.0 - y * y)


@rows("sigmoid_backward")
def sigmoid_backward(r: Results, grad_output: Value, output: Value) -> Value:
    g, y = r.computed(grad_output, output)
    return g * (1.0 - y) * y


@rows("gelu_backward")
def gelu_backward(r: Results, grad_output: Value, self: Value, approximate: str = "none") -> Value:
    g, x = r.computed(grad_output, self)
    if approximate == "none":
        density = exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))
        return g * (0.5 * (1.0 + erf(x * math.sqrt(0.5))) + x * density)
    root = math.sqrt(2 / math.pi)
    t = smooth("tanh", root * (x + 0.044715 * x * x * x))
    return g * (0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * root * (1.0 + 3 * 0.044715 * x * x))


@rows("silu_backward")
def silu_backward(r: Results, grad_output: Value, self: Value) -> Value:
    g, x = r.computed(grad_output, self)
    s = sigmoid(x)
    return g * s * (1.0 + x * (1.0 - s))


@rows("mish_backward")
def mish_backward(r: Results, grad_output: Value, self: Value) -> Value:
    g, x = r.computed(grad_output, self)
    t = smooth("tanh", softplus(x))
    return g * (t + x * sigmoid(x) * (1.0 - t * t))


@rows("leaky_relu_backward")
def leaky_relu_backward(
    r: Results, grad_output: Value, self: Value, negative_slope: Any, self_is_result: bool
) -> Value:
    g, x = r.computed(grad_output, self)
    return where(x > 0, g, g * to(negative_slope, g.dtype))


@rows("elu_backward")
def elu_backward(
    r: Results, grad_output: Value, alpha: Any, scale: Any, input_scale: Any, is_result: bool, self_or_result: Value
) -> Value:
    g, x = r.computed(grad_output, self_or_result)
    a, s, i = (to(v, x.dtype) for v in (alpha, scale, input_scale))
    below = g * i * (x + a * s) if is_result else g * (i * a * s) * exp(x * i)
    return where(x <= 0, below, g * s)


@rows("softplus_backward")
def softplus_backward(r: Results, grad_output: Value, self: Value, beta: Any, threshold: Any) -> Value:
    g, x = r.computed(grad_output, self)
    scaled = x * to(beta, x.dtype)
    return where(scaled > to(threshold, x.dtype), g, g * sigmoid(scaled))


@rows("hardtanh_backward")
def hardtanh_backward(r: Results, grad_output: Value, self: Value, min_val: Any, max_val: Any) -> Value:
    g, x = r.computed(grad_output, self)
    outside = (x <= to(min_val, x.dtype)) | (x >= to(max_val, x.dtype))
    return where(outside, to(0, g.dtype), g)


@rows("hardsigmoid_backward")
def hardsigmoid_backward(r: Results, grad_output: Value, self: Value) -> Value:
    g, x = r.computed(grad_output, self)
    return where((x > -3.0) & (x < 3.0), g * (1.0 / 6.0), to(0, g.dtype))


@rows("hardswish_backward")
def hardswish_backward(r: Results, grad_output: Value, self: Value) -> Value:
    g, x = r.computed(grad_output, self)
    return where(x <= -3.0, to(0, g.dtype), where(x < 3.0, g * (x / 3.0 + 0.5), g))


@rows("log_sigmoid_backward")
def log_sigmoid_backward(r: Results, grad_output: Value, self: Value, buffer: Value) -> Value:
    g, x, z = r.computed(grad_output, self, buffer)
    return g * (where(x < 0, 1.0, 0.0) - where(x < 0, 1.0, -1.0) * (z / (1.0 + z)))
