"""The registry of kernels that keep a row label, and the elementwise ones among them.

Each kernel uses the operations of `torchnp.rpc.server.privacy.row_array`. It is called with the schema's parameters by
name; rows are a `RowArray`, public tensors are arrays. It returns a value for each result of the schema, or None for a
result without rows. Shapes and dtypes of results come from the table's kernel, which runs first and raises the errors
that torch raises.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from torchnp import dtypes as dt
from torchnp.kernels.numerics import erf as fdlibm
from torchnp.rpc.server.privacy.row_array import RowArray, Unlabelled, like, quotient, smooth, to, where

Value = Any  # a RowArray, a public array or a number


class Results:
    """The dtypes of a kernel's results."""

    def __init__(self, dtypes: list[np.dtype]) -> None:
        self.dtypes = dtypes
        self.dtype = dtypes[0]

    def alike(self, *operands: Value) -> list[Any]:
        """Return the operands promoted as by torch, with half types as float32."""
        together = dt.opmath(dt.result_type(*map(_without_values, operands)))
        return [to(x, together) for x in operands]

    def computed(self, *operands: Value) -> list[Any]:
        """Return the operands in torch's compute dtype: promoted, and floating point or complex if the result is."""
        together = dt.result_type(*map(_without_values, operands))
        if dt.is_inexact(self.dtype):
            together = dt.promote_types(together, self.dtype)
        together = dt.opmath(together)
        return [to(x, together) for x in operands]


def _without_values(x: Value) -> Any:
    return np.empty((1,) * x.ndim, x.dtype) if type(x) is RowArray else x


class RowKernel(NamedTuple):
    """A kernel that keeps a row label: its function, its rule in words, and its parameter names."""

    function: Callable[..., Any]
    rule: str
    takes: frozenset[str]


EACH = "elementwise: all rows at the same place from the right"
KERNELS: dict[str, RowKernel] = {}

# Parameters that only affect how a result is stored, which the predicted result already determines.
STORED = frozenset(["dtype", "layout", "device", "pin_memory", "memory_format", "non_blocking", "copy", "out_dtype"])


def rows(*names: str, rule: str = EACH) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function under the functional overloads that it computes."""

    def put(function: Callable[..., Any]) -> Callable[..., Any]:
        takes = frozenset(list(inspect.signature(function).parameters)[1:])
        for name in names:
            assert name not in KERNELS, name
            KERNELS[f"aten::{name}"] = RowKernel(function, rule, takes)
        return function

    return put


def unreduced(reduction: int) -> None:
    """Raise an error for a loss with a reduction, because that would sum over rows."""
    if reduction != 0:
        raise Unlabelled("a loss that is summed over rows")


# ---------------------------------------------------------------- functions


def exp(x: Value) -> Value:
    return smooth("exp", x)


def log(x: Value) -> Value:
    return smooth("log", x)


def sigmoid(x: Value) -> Value:
    return 1.0 / (1.0 + exp(-x))


def softplus(x: Value) -> Value:
    """Compute log(1 + exp(x))."""
    return np.maximum(x, 0.0) + smooth("log1p", exp(-np.absolute(x)))


def _polynomial(t: Value, coefficients: tuple[float, ...]) -> Value:
    out = t * 0.0 + coefficients[0]
    for c in coefficients[1:]:
        out = out * t + c
    return out


def _ratio(t: Value, above: tuple[float, ...], below: tuple[float, ...]) -> Value:
    return _polynomial(t, above) / _polynomial(t, below)


def erf(x: RowArray) -> RowArray:
    """Compute the error function by fdlibm's rational approximations, in float64."""
    wide = to(x, dt.float64)
    size = np.absolute(wide)
    square = np.minimum(size, 6.0) * np.minimum(size, 6.0)
    near = wide + wide * (_ratio(square, fdlibm.NEAR_P, fdlibm.NEAR_Q) - 0.0)
    t = 1.0 / np.maximum(square, 1.0)
    tail = where(size < 2.857, _ratio(t, fdlibm.MIDDLE_P, fdlibm.MIDDLE_Q), _ratio(t, fdlibm.FAR_P, fdlibm.FAR_Q))
    far = 1.0 - exp(tail - 0.5625 - square) / np.maximum(size, 1.0)
    middle = fdlibm.AT_ONE + _ratio(np.minimum(size, 2.0) - 1.0, fdlibm.ONE_P, fdlibm.ONE_Q)
    out = where(size < 0.84375, near, np.copysign(where(size < 1.25, middle, far), wide))
    return to(where(size >= 6.0, np.copysign(1.0, wide), where(np.isnan(wide), wide, out)), x.dtype)


# ---------------------------------------------------------------- unary operators


def _one(name: str, function: Callable[[Any], Any]) -> None:
    @rows(name)
    def kernel(r: Results, self: Value) -> Value:
        return function(*r.computed(self))


_HALF_ROOT, _DENSITY = math.sqrt(0.5), 1 / math.sqrt(2 * math.pi)
_function: Any
_ufunc: Any
for _name, _function in {
    "neg": np.negative, "positive": np.positive, "sqrt": np.sqrt, "square": np.square, "sign": np.sign,
    "ceil": np.ceil, "floor": np.floor, "trunc": np.trunc, "fix": np.trunc, "round": np.rint,
    "conj_physical": np.conjugate, "_conj_physical": np.conjugate,
    "rsqrt": lambda x: 1.0 / np.sqrt(x), "reciprocal": lambda x: 1.0 / x, "frac": lambda x: x - np.trunc(x),
    "exp": exp, "expm1": lambda x: smooth("expm1", x), "log": log, "log1p": lambda x: smooth("log1p", x),
    "log2": lambda x: log(x) * (1 / math.log(2)), "log10": lambda x: log(x) * (1 / math.log(10)),
    "exp2": lambda x: exp(x * math.log(2)), "special_exp2": lambda x: exp(x * math.log(2)),
    "tanh": lambda x: smooth("tanh", x), "sigmoid": sigmoid, "special_expit": sigmoid, "erf": erf, "special_erf": erf,
    "relu": lambda x: np.maximum(x, 0), "relu6": lambda x: np.minimum(np.maximum(x, 0), 6),
    "silu": lambda x: x * sigmoid(x), "mish": lambda x: x * smooth("tanh", softplus(x)),
    "hardsigmoid": lambda x: np.minimum(np.maximum(x + 3.0, 0.0), 6.0) / 6.0,
    "hardswish": lambda x: x * np.minimum(np.maximum(x + 3.0, 0.0), 6.0) / 6.0,
}.items():  # fmt: skip
    _one(_name, _function)


@rows("abs", "absolute")
def absolute(r: Results, self: Value) -> Value:
    if self.dtype.kind == "c":
        raise Unlabelled("the size of complex numbers")
    return np.absolute(*r.computed(self))


@rows("bitwise_not")
def bitwise_not(r: Results, self: Value) -> Value:
    return np.invert(self)


def _asked(name: str, function: Callable[[Any], Any]) -> None:
    @rows(name)
    def kernel(r: Results, self: Value) -> Value:
        return function(*r.alike(self))


for _name, _function in {
    "logical_not": np.logical_not, "isnan": np.isnan, "isfinite": np.isfinite, "isinf": np.isinf, "signbit": np.signbit,
}.items():  # fmt: skip
    _asked(_name, _function)


@rows(
    "clone", "alias_copy", "detach_copy", "_to_copy", "to.dtype", "to.dtype_layout", "to.device", "to.other", "contiguous",
    "lift_fresh_copy", "lift",
)  # fmt: skip
def clone(r: Results, self: Value, other: Value = None) -> Value:
    return self


@rows("zeros_like", "empty_like", "zero")
def zeros_like(r: Results, self: Value) -> Value:
    return like(np.zeros((), r.dtype), self)


@rows("ones_like")
def ones_like(r: Results, self: Value) -> Value:
    return like(np.ones((), r.dtype), self)


@rows("full_like", "fill.Scalar", "fill.Tensor")
def full_like(r: Results, self: Value, fill_value: Value = None, value: Value = None) -> Value:
    given = fill_value if value is None else value
    return where(np.zeros((), bool), to(self, r.dtype), to(given, r.dtype))


@rows("copy")
def copy(r: Results, self: Value, src: Value) -> Value:
    return where(np.ones((), bool), to(src, r.dtype), to(self, r.dtype))


@rows("nan_to_num")
def nan_to_num(r: Results, self: Value, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Value:
    if not dt.is_floating(self.dtype):
        return self
    (x,) = r.computed(self)
    largest = float(np.finfo(np.float32).max) if self.dtype in (dt.float32, dt.bfloat16) else None
    if largest is None:
        largest = float(np.finfo(self.dtype).max)
    real = x.dtype.type
    top, low = real(largest if posinf is None else posinf), real(-largest if neginf is None else neginf)
    out = where(x == np.inf, top, where(x == -np.inf, low, x))
    return where(np.isnan(x), real(0.0 if nan is None else nan), out)


# ---------------------------------------------------------------- operators on two or more tensors


@rows("add.Tensor", "add.Scalar")
def add(r: Results, self: Value, other: Value, alpha: Any = 1) -> Value:
    a, b = r.computed(self, other)
    return a + (b if alpha == 1 else b * to(alpha, b.dtype))


@rows("sub.Tensor", "sub.Scalar", "subtract.Tensor", "subtract.Scalar")
def sub(r: Results, self: Value, other: Value, alpha: Any = 1) -> Value:
    a, b = r.computed(self, other)
    return a - (b if alpha == 1 else b * to(alpha, b.dtype))


@rows("rsub.Tensor", "rsub.Scalar")
def rsub(r: Results, self: Value, other: Value, alpha: Any = 1) -> Value:
    return sub(r, other, self, alpha)


@rows("mul.Tensor", "mul.Scalar", "multiply.Tensor", "multiply.Scalar")
def mul(r: Results, self: Value, other: Value) -> Value:
    a, b = r.computed(self, other)
    return a * b


@rows(
    "div.Tensor", "div.Scalar", "div.Tensor_mode", "div.Scalar_mode", "divide.Tensor", "divide.Scalar",
    "true_divide.Tensor", "true_divide.Scalar",
)  # fmt: skip
def div(r: Results, self: Value, other: Value, rounding_mode: str | None = None) -> Value:
    a, b = r.computed(self, other)
    if rounding_mode is None:
        return a / b
    if a.dtype.kind in "iu":
        return quotient(a, b, rest=False) if rounding_mode == "floor" else _toward_zero(a, b)
    return np.floor(a / b) if rounding_mode == "floor" else np.trunc(a / b)


def _toward_zero(a: Value, b: Value) -> Value:
    """Compute the truncated quotient of integers: the floor, plus 1 where the floor is negative and inexact."""
    floor, rest = quotient(a, b, rest=False), quotient(a, b, rest=True)
    return where((rest != 0) & (floor < 0), floor + to(1, floor.dtype), floor)


@rows("floor_divide", "floor_divide.Scalar")
def floor_divide(r: Results, self: Value, other: Value) -> Value:
    return div(r, self, other, "floor")


@rows("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")
def remainder(r: Results, self: Value, other: Value) -> Value:
    a, b = r.computed(self, other)
    if a.dtype.kind in "iu":
        return quotient(a, b, rest=True)
    rest = np.fmod(a, b)
    return where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)


def _two(names: str, function: Callable[[Any, Any], Any], alike: bool = False) -> None:
    @rows(*names.split())
    def kernel(r: Results, self: Value, other: Value) -> Value:
        return function(*(r.alike if alike else r.computed)(self, other))


_two("maximum", np.maximum)
_two("minimum", np.minimum)
_two("fmax", np.fmax)
_two("fmin", np.fmin)
_two("copysign.Tensor copysign.Scalar", np.copysign)
for _name, _ufunc in {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}.items():  # fmt: skip
    _two(f"{_name}.Tensor {_name}.Scalar", _ufunc, alike=True)
for _name, _ufunc in {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}.items():
    _two(f"bitwise_{_name}.Tensor bitwise_{_name}.Scalar", _ufunc)
    _two(f"__{_name}__.Tensor __{_name}__.Scalar", _ufunc)
for _name, _ufunc in {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}.items():
    _two(f"logical_{_name}", _ufunc, alike=True)


@rows("pow.Tensor_Scalar")
def power(r: Results, self: Value, exponent: Any) -> Value:
    """Compute powers: integer exponents up to 64 by products, 0.5 by sqrt, others by exp and log in float64."""
    (x,) = r.computed(self)
    if x.dtype == dt.bool_ or x.dtype.kind == "c" or isinstance(exponent, complex):
        raise Unlabelled("powers of complex numbers")
    if exponent == 0.5:
        return np.sqrt(x)
    if exponent == int(exponent) if math.isfinite(exponent) else False:
        size = abs(int(exponent))
        if size <= 64:
            out = _whole_power(x, size)
            return out if exponent >= 0 else _inverse(out)
    if x.dtype.kind in "iu" or not math.isfinite(exponent) or abs(exponent) > 1e6:
        raise Unlabelled("such a power")
    out = exp(log(to(x, dt.float64)) * float(exponent))
    return to(out, x.dtype)


def _whole_power(x: Value, size: int) -> Value:
    out, square = None, x
    while size:
        if size & 1:
            out = square if out is None else out * square
        square, size = square * square if size > 1 else square, size >> 1
    return like(np.ones((), x.dtype), x) if out is None else out


def _inverse(x: Value) -> Value:
    if x.dtype.kind in "iu":
        raise Unlabelled("a negative power of integers")
    return 1.0 / x


@rows("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def where_(r: Results, condition: Value, self: Value, other: Value) -> Value:
    return where(to(condition, dt.bool_), to(self, r.dtype), to(other, r.dtype))


@rows("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(r: Results, self: Value, mask: Value, value: Value) -> Value:
    return where(to(mask, dt.bool_), to(value, r.dtype), to(self, r.dtype))


@rows("clamp", "clamp.Tensor", "clip", "clip.Tensor", "clamp_min", "clamp_min.Tensor", "clamp_max", "clamp_max.Tensor")
def clamp(r: Results, self: Value, min: Value = None, max: Value = None) -> Value:
    given = [x for x in (min, max) if x is not None]
    x, *bounds = r.computed(self, *given)
    if min is not None:
        x = np.maximum(x, bounds[0])
    return x if max is None else np.minimum(x, bounds[-1])


@rows("hardtanh")
def hardtanh(r: Results, self: Value, min_val: Any = -1, max_val: Any = 1) -> Value:
    return clamp(r, self, min_val, max_val)


@rows("addcmul")
def addcmul(r: Results, self: Value, tensor1: Value, tensor2: Value, value: Any = 1) -> Value:
    x, a, b = r.computed(self, tensor1, tensor2)
    return x + to(value, x.dtype) * a * b


@rows("addcdiv")
def addcdiv(r: Results, self: Value, tensor1: Value, tensor2: Value, value: Any = 1) -> Value:
    x, a, b = r.computed(self, tensor1, tensor2)
    return x + to(value, x.dtype) * a / b


@rows("lerp.Scalar", "lerp.Tensor")
def lerp(r: Results, self: Value, end: Value, weight: Value) -> Value:
    a, b, w = r.computed(self, end, weight)
    return a + w * (b - a)


# ---------------------------------------------------------------- activations with parameters


@rows("gelu")
def gelu(r: Results, self: Value, approximate: str = "none") -> Value:
    (x,) = r.computed(self)
    return x * 0.5 * (1.0 + (erf(x * _HALF_ROOT) if approximate == "none" else smooth("tanh", _inner(x))))


def _inner(x: Value) -> Value:
    return math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)


@rows("leaky_relu")
def leaky_relu(r: Results, self: Value, negative_slope: Any = 0.01) -> Value:
    (x,) = r.computed(self)
    return where(x > 0, x, x * to(negative_slope, x.dtype))


@rows("elu")
def elu(r: Results, self: Value, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Value:
    (x,) = r.computed(self)
    a, s, i = (to(v, x.dtype) for v in (alpha, scale, input_scale))
    return where(x < 0, smooth("expm1", x * i) * (a * s), x * s)


@rows("threshold")
def threshold_(r: Results, self: Value, threshold: Any, value: Any) -> Value:
    (x,) = r.computed(self)
    return where(x <= to(threshold, x.dtype), to(value, x.dtype), x)


@rows("softplus")
def softplus_(r: Results, self: Value, beta: Any = 1, threshold: Any = 20) -> Value:
    (x,) = r.computed(self)
    scaled = x * to(beta, x.dtype)
    return where(scaled > to(threshold, x.dtype), x, softplus(scaled) / to(beta, x.dtype))


@rows("log_sigmoid_forward")
def log_sigmoid_forward(r: Results, self: Value) -> tuple[Value, Value]:
    (x,) = r.computed(self)
    return -softplus(-x), exp(-np.absolute(x))
