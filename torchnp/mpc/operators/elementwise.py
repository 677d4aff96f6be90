"""Elementwise operators on shares: arithmetic, comparisons, logic, and functions of one number."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from torchnp.engine import Call
from torchnp.mpc import functions
from torchnp.mpc.fixed_point import FixedPoint
from torchnp.mpc.operators.registry import bits_of, op, public, refuse, result_bits, secret, shared
from torchnp.mpc.protocol import RANGE_BITS
from torchnp.mpc.shares import SharedSum

# ---------------------------------------------------------------- sums and products


@op("add.Tensor")
def add(p: FixedPoint, call: Call, x: Any, y: Any, *, alpha: Any = 1) -> SharedSum:
    """Return ``x + alpha * y``."""
    bits = result_bits(p, call)
    if alpha != 1:
        y = p.scaled(p.at(y, bits), alpha) if secret(y) else np.asarray(public(y)) * alpha
    if secret(x) and secret(y):
        return p.add(p.at(x, bits), p.at(y, bits))
    value, known = (x, y) if secret(x) else (y, x)
    return p.plus(p.at(value, bits), p.encode(public(known), bits))


@op("sub.Tensor")
def sub(p: FixedPoint, call: Call, x: Any, y: Any, *, alpha: Any = 1) -> SharedSum:
    """Return ``x - alpha * y``."""
    return add(p, call, x, y, alpha=-alpha)


@op("neg")
def neg(p: FixedPoint, call: Call, x: SharedSum) -> SharedSum:
    """Return ``-x``."""
    return p.each(np.negative, x)


@op("mul.Tensor")
def mul(p: FixedPoint, call: Call, x: Any, y: Any) -> SharedSum:
    """Return ``x * y``."""
    bits = result_bits(p, call)
    if secret(x) and secret(y):
        return p.times(x, y, bits)
    value, known = (x, y) if secret(x) else (y, x)
    return p.scaled(value, public(known), bits)


@op("div.Tensor")
def div(p: FixedPoint, call: Call, x: Any, y: Any) -> SharedSum:
    """Return ``x / y``."""
    if not secret(y):
        return p.scaled(p.at(x, p.bits), 1 / np.asarray(public(y), np.float64))
    if secret(x):
        return functions.divide(p, x, p.at(y, p.bits))
    known = np.asarray(public(x))
    inverse = functions.reciprocal(p, p.at(y, p.bits))
    return inverse if (known == 1).all() and not known.ndim else p.scaled(inverse, known)


@op("pow.Tensor_Scalar")
def power(p: FixedPoint, call: Call, x: SharedSum, exponent: Any) -> SharedSum:
    """Return ``x ** exponent``; ``x`` must be positive unless the exponent is an integer or 1/2."""
    bits = result_bits(p, call)
    x = p.at(x, bits)
    if exponent in (0.5, -0.5):
        return (functions.sqrt if exponent > 0 else functions.rsqrt)(p, x)
    if exponent != int(exponent):
        return functions.exp(p, p.scaled(functions.log(p, x), exponent))
    if exponent == 0:
        return p.constant(p.encode(np.ones(x.shape), bits), bits)
    n, square, total = abs(int(exponent)), x, None
    while n:
        if n & 1:
            total = square if total is None else p.times(total, square, bits)
        n >>= 1
        if n:
            square = p.times(square, square, bits)
    assert total is not None
    return total if exponent > 0 else functions.reciprocal(p, total)


@op("_to_copy")
def to_copy(p: FixedPoint, call: Call, x: SharedSum, **_: Any) -> SharedSum:
    """Return the same numbers in another dtype; conversion to integers rounds towards zero."""
    spec = call.results[0]
    assert spec is not None
    return converted(p, x, spec.dtype)


def converted(p: FixedPoint, x: SharedSum, dtype: torch.dtype) -> SharedSum:
    """Convert numbers to another dtype; conversion to integers rounds towards zero."""
    if dtype == torch.bool:
        return p.complement(p.zero(x))
    bits = bits_of(p, dtype)
    if x.bits <= bits:
        return p.at(x, bits)
    return p.at(_towards_zero(p, x), 0)


def floored(p: FixedPoint, x: SharedSum) -> SharedSum:
    """Round down to integers, without fractional bits."""
    near = p.truncate(x, x.bits)  # rounded down or up; where it is rounded up, it is 1 too large
    return p.subtract(near, p.negative(p.subtract(x, p.at(near, x.bits))))


def _towards_zero(p: FixedPoint, x: SharedSum) -> SharedSum:
    sign = signs(p, p.negative(x))
    return p.multiply(floored(p, p.multiply(x, sign)), sign)


def signs(p: FixedPoint, negative: SharedSum) -> SharedSum:
    """Return -1 for a bit of 1, and 1 for 0."""
    return p.plus(p.each(lambda w: -2 * w, negative), np.int64(1))


def _rounding(name: str) -> None:
    def rounded(p: FixedPoint, call: Call, x: SharedSum) -> SharedSum:
        if x.bits == 0:
            return x
        if name == "floor":
            return p.at(floored(p, x), x.bits)
        if name == "ceil":
            return p.at(p.each(np.negative, floored(p, p.each(np.negative, x))), x.bits)
        return p.at(_towards_zero(p, x), x.bits)

    op(name)(rounded)


for _name in ("floor", "ceil", "trunc"):
    _rounding(_name)


@op("frac")
def frac(p: FixedPoint, call: Call, x: SharedSum) -> SharedSum:
    """Return the fractional part, which `trunc` cuts off."""
    return p.subtract(x, p.at(_towards_zero(p, x), x.bits))


# ---------------------------------------------------------------- comparisons


def _pair(p: FixedPoint, x: Any, y: Any) -> tuple[SharedSum, SharedSum]:
    """Return two arguments as shares with equally many fractional bits, enough for both."""
    kinds = [a.bits if secret(a) else p.bits * (np.asarray(public(a)).dtype.kind == "f") for a in (x, y)]
    return shared(p, x, max(kinds)), shared(p, y, max(kinds))


@op("lt.Tensor")
def lt(p: FixedPoint, call: Call, x: Any, y: Any) -> SharedSum:
    """Return ``x < y``."""
    return _bits(p.less(*_pair(p, x, y)))


@op("gt.Tensor")
def gt(p: FixedPoint, call: Call, x: Any, y: Any) -> SharedSum:
    """Return ``x > y``."""
    return lt(p, call, y, x)


@op("ge.Tensor")
def ge(p: FixedPoint, call: Call, x: Any, y: Any) -> SharedSum:
    """Return ``x >= y``."""
    return p.complement(lt(p, call, x, y))


@op("le.Tensor")
def le(p: FixedPoint, call: Call, x: Any, y: Any) -> SharedSum:
    """Return ``x <= y``."""
    return p.complement(lt(p, call, y, x))


@op("eq.Tensor")
def eq(p: FixedPoint, call: Call, x: Any, y: Any) -> SharedSum:
    """Return ``x == y``."""
    return _bits(p.zero(p.subtract(*_pair(p, x, y))))


@op("ne.Tensor")
def ne(p: FixedPoint, call: Call, x: Any, y: Any) -> SharedSum:
    """Return ``x != y``."""
    return p.complement(eq(p, call, x, y))


def _bits(x: SharedSum) -> SharedSum:
    return SharedSum(x.parts, 0)


@op("sign", "sgn")
def sign(p: FixedPoint, call: Call, x: SharedSum) -> SharedSum:
    """Return the sign: -1, 0 or 1."""
    both = SharedSum(tuple(np.stack([-w, w]) for w in x.parts), 0)
    less = p.negative(both)
    return p.at(p.each(lambda w: w[0] - w[1], less), x.bits)


@op("abs")
def absolute(p: FixedPoint, call: Call, x: SharedSum) -> SharedSum:
    """Return ``|x|``."""
    return p.multiply(x, signs(p, p.negative(x)))


@op("maximum")
def maximum(p: FixedPoint, call: Call, x: Any, y: Any) -> SharedSum:
    """Return the larger of two numbers."""
    a, b = _pair(p, x, y)
    return p.select(_bits(p.less(a, b)), b, a)


@op("minimum")
def minimum(p: FixedPoint, call: Call, x: Any, y: Any) -> SharedSum:
    """Return the smaller of two numbers."""
    a, b = _pair(p, x, y)
    return p.select(_bits(p.less(a, b)), a, b)


@op("clamp", "clamp.Tensor", "hardtanh")
def clamp(p: FixedPoint, call: Call, x: Any, min: Any = None, max: Any = None, **named: Any) -> SharedSum:
    """Limit ``x`` to the bounds."""
    if call.op == "aten::hardtanh":
        min, max = named.get("min_val", -1 if min is None else min), named.get("max_val", 1 if max is None else max)
    bits = result_bits(p, call)
    value = shared(p, x, bits)
    if min is not None:
        value = maximum(p, call, value, _bound(p, min, bits))
    return value if max is None else minimum(p, call, value, _bound(p, max, bits))


def _bound(p: FixedPoint, bound: Any, bits: int) -> SharedSum:
    """Return a bound of `clamp` as shares; a bound out of range becomes the largest or smallest number."""
    if isinstance(bound, (int, float)):
        most = 2.0 ** (RANGE_BITS - 1 - bits)
        bound = bound if -most < bound < most else np.copysign(most, bound).astype(np.float64 if bits else np.int64)
    return shared(p, bound, bits)


@op("clamp_min", "clamp_min.Tensor")
def clamp_min(p: FixedPoint, call: Call, x: Any, min: Any) -> SharedSum:
    """Return ``x``, or the bound where ``x`` is smaller."""
    return clamp(p, call, x, min)


@op("clamp_max", "clamp_max.Tensor")
def clamp_max(p: FixedPoint, call: Call, x: Any, max: Any) -> SharedSum:
    """Return ``x``, or the bound where ``x`` is larger."""
    return clamp(p, call, x, None, max)


@op("relu")
def relu(p: FixedPoint, call: Call, x: SharedSum) -> SharedSum:
    """Return ``max(x, 0)``."""
    positive = p.negative(p.each(np.negative, x))
    result = p.multiply(x, _bits(positive))
    result.hint = positive
    return result


@op("threshold_backward")
def threshold_backward(p: FixedPoint, call: Call, grad: Any, x: Any, threshold: Any) -> SharedSum:
    """Return the gradient where ``x > threshold``, else 0."""
    positive = x.hint if secret(x) and threshold == 0 else None
    if positive is None:
        positive = gt(p, call, x, threshold) if secret(x) else shared(p, public(x) > threshold, 0)
    return p.multiply(shared(p, grad, p.bits), _bits(positive))


# ---------------------------------------------------------------- logic


def _truth(p: FixedPoint, x: Any, is_bool: bool) -> SharedSum:
    if not secret(x):
        return shared(p, np.asarray(public(x)) != 0, 0)
    return x if is_bool else p.complement(p.zero(x))


def _logic(p: FixedPoint, name: str, a: SharedSum, b: SharedSum) -> SharedSum:
    both = p.multiply(a, b)
    if name == "and":
        return both
    return p.each(lambda x, y, z: x + y - (z if name == "or" else 2 * z), a, b, both)


@op("bitwise_and.Tensor", "bitwise_or.Tensor", "bitwise_xor.Tensor")
def bitwise(p: FixedPoint, call: Call, x: Any, y: Any) -> SharedSum:
    """Compute AND, OR or XOR of bools."""
    _only_bools(call)
    return _logic(p, call.op.split("_")[1].split(".")[0], shared(p, x, 0), shared(p, y, 0))


@op("bitwise_not")
def bitwise_not(p: FixedPoint, call: Call, x: SharedSum) -> SharedSum:
    """Return the negation of bools, and ``-x - 1`` for integers."""
    spec = call.results[0]
    assert spec is not None
    return p.complement(x) if spec.dtype == torch.bool else p.plus(p.each(np.negative, x), np.int64(-1))


def _only_bools(call: Call) -> None:
    spec = call.results[0]
    assert spec is not None
    if spec.dtype != torch.bool:
        raise refuse("each bit of an integer", "compare, or multiply with powers of two")


@op("where.self")
def where(p: FixedPoint, call: Call, condition: Any, x: Any, y: Any) -> SharedSum:
    """Return ``x`` where the condition holds, else ``y``."""
    bits = result_bits(p, call)
    a, b = shared(p, x, bits), shared(p, y, bits)
    if secret(condition):
        return p.select(condition, a, b)
    known = public(condition)
    choose: Any = lambda u, v: np.where(known, u, v)
    return p.each(choose, a, b)


@op("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(p: FixedPoint, call: Call, x: Any, mask: Any, value: Any) -> SharedSum:
    """Return ``value`` where the mask is true, else ``x``."""
    return where(p, call, mask, value, x)


# ---------------------------------------------------------------- functions of one number


def _unary(name: str, function: Any) -> None:
    def apply(p: FixedPoint, call: Call, x: SharedSum) -> SharedSum:
        return function(p, p.at(x, p.bits))

    op(name)(apply)


for _function in (functions.exp, functions.log, functions.reciprocal, functions.sqrt, functions.rsqrt, functions.tanh,
                  functions.sigmoid, functions.erf):  # fmt: skip
    _unary(_function.__name__, _function)
