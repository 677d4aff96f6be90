"""Arithmetic of two and three tensors: sums, products, quotients, remainders, powers, limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.checks import check
from torchnp.kernels._elementwise import (
    ALL,
    ANY_COMPLEX,
    BOOL,
    COMPLEX,
    FLOAT8,
    FLOATS,
    INTS,
    NUMBERS,
    UNSIGNED,
    WIDE,
    Refusals,
    binary,
    check_broadcast,
    common_dtype,
    fast,
    finish,
    in_opmath,
    int_to_float,
    refuse,
    scalar,
)
from torchnp.registry import kernel

ndarray = np.ndarray
REAL = INTS | FLOATS

# ---------------------------------------------------------------- add, sub

_ADDABLE = NUMBERS | BOOL
_DIRECT_ADDABLE = [d for d in _ADDABLE if dt.opmath(d) == d]
_PROMOTION = ["three-tier-promotion", "unsigned-promotion"]


def _alpha(alpha: Any, common: np.dtype) -> None:
    if (type(alpha) is float and common in FLOATS) or (alpha == 1 and type(alpha) is int):
        return
    check(
        not isinstance(alpha, bool) or common == dt.bool_,
        "Boolean alpha only supported for Boolean results.",
    )
    check(
        dt.is_inexact(common) or isinstance(alpha, int),
        "For integral input tensors, argument alpha must not be a floating point number.",
    )
    check(
        dt.is_complex(common) or not isinstance(alpha, complex),
        "For non-complex input tensors, argument alpha must not be a complex number.",
    )


def _scaled_sum(a: Any, b: Any, alpha: Any, function: Any) -> ndarray:
    """``a + alpha * b`` in the promoted dtype; ``function`` is np.add, or np.subtract for alpha = -1."""
    _alpha(alpha, common_dtype(a, b))
    (a, b), common = in_opmath("add_stub", _ADDABLE, a, b)
    inner = a.dtype
    try:
        if alpha == 1 or function is np.subtract:
            value = function(a, b)
        elif common == dt.bool_:
            value = np.add(a, b & bool(alpha))
        elif common == dt.float32:
            # torch fuses the multiplication and the addition: the product is exact in double.
            value = np.add(a, np.multiply(b, scalar(alpha, common), dtype=np.float64))
        else:
            value = np.add(a, b * dt.cast(scalar(alpha, common), inner))
    except ValueError:
        check_broadcast(a, b)
        raise
    return finish(value, common)


def _check_subtractable(a: Any, b: Any) -> None:
    both = [dt.bool_ == (x.dtype if isinstance(x, ndarray) else dt.number_dtype(x)) for x in (a, b)]
    if not any(both):
        return
    check(
        not all(both),
        "Subtraction, the `-` operator, with two bool tensors is not supported. "
        "Use the `^` or `logical_xor()` operator instead.",
    )
    check(
        not any(both),
        "Subtraction, the `-` operator, with a bool tensor is not supported. "
        "If you are trying to invert a mask, use the `~` or `logical_not()` operator instead.",
    )


def _difference(a: Any, b: Any, alpha: Any) -> ndarray:
    """``a - alpha * b``: torch adds the negated multiple, which matters for the sign of zero."""
    _check_subtractable(a, b)
    _alpha(alpha, common_dtype(a, b))
    return _scaled_sum(a, b, 1, np.subtract) if alpha == 1 else _scaled_sum(a, b, -alpha, np.add)


@kernel("add.Tensor", like=np.add, differs=_PROMOTION, make=fast(dict.fromkeys(_DIRECT_ADDABLE, np.add)))
def add(self: ndarray, other: ndarray, *, alpha: Any = 1) -> ndarray:
    """``self + alpha * other``; for bool, or."""
    return _scaled_sum(self, other, alpha, np.add)


@kernel("add.Scalar", like=np.add, differs=_PROMOTION, make=fast(dict.fromkeys(_DIRECT_ADDABLE, np.add)))
def add_scalar(self: ndarray, other: Any, alpha: Any = 1) -> ndarray:
    """``self + alpha * other``."""
    return _scaled_sum(self, other, alpha, np.add)


_SUBTRACT = fast(dict.fromkeys([d for d in _DIRECT_ADDABLE if d != dt.bool_], np.subtract))
_SUBTRACT_DIFFERS = [*_PROMOTION, "no-bool-subtraction"]


@kernel("sub.Tensor", "subtract.Tensor", like=np.subtract, differs=_SUBTRACT_DIFFERS, make=_SUBTRACT)
def sub(self: ndarray, other: ndarray, *, alpha: Any = 1) -> ndarray:
    """``self - alpha * other``."""
    return _difference(self, other, alpha)


@kernel("sub.Scalar", "subtract.Scalar", like=np.subtract, differs=_SUBTRACT_DIFFERS, make=_SUBTRACT)
def sub_scalar(self: ndarray, other: Any, alpha: Any = 1) -> ndarray:
    """``self - alpha * other``."""
    return _difference(self, other, alpha)


@kernel("rsub.Tensor", like=np.subtract, differs=_SUBTRACT_DIFFERS)
def rsub(self: ndarray, other: ndarray, *, alpha: Any = 1) -> ndarray:
    """``other - alpha * self``."""
    return sub(other, self, alpha=alpha)


@kernel("rsub.Scalar", like=np.subtract, differs=_SUBTRACT_DIFFERS)
def rsub_scalar(self: ndarray, other: Any, alpha: Any = 1) -> ndarray:
    """``other - alpha * self``."""
    return sub(other, self, alpha=alpha)


# ---------------------------------------------------------------- mul, div

mul = binary(
    "mul.Tensor mul.Scalar multiply.Tensor multiply.Scalar",
    np.multiply,
    cpu="mul_cpu",
    takes=ALL,
    exact_scalar=True,
    differs=_PROMOTION,
    doc="Product; for bool, and.",
)


def _check_divisor(b: ndarray) -> None:
    if not np.all(b):
        raise RuntimeError("ZeroDivisionError")


def _int_trunc_divide(a: ndarray, b: ndarray) -> ndarray:
    _check_divisor(b)
    quotient = np.floor_divide(a, b)
    if a.dtype.kind == "u":
        return quotient
    inexact = quotient * b != a
    return quotient + (inexact & ((a < 0) != (b < 0)))


def _int_floor_divide(a: ndarray, b: ndarray) -> ndarray:
    _check_divisor(b)
    return np.floor_divide(a, b)


def _floor_divide(a: ndarray, b: ndarray) -> ndarray:
    """NumPy's own for float32 and float64; half types by the same formula, rounded at each step."""
    if a.dtype in WIDE:
        return np.floor_divide(a, b)
    rest = np.fmod(a, b)
    quotient = (a - rest) / b
    one = a.dtype.type(1)
    quotient = np.where((rest != 0) & ((b < 0) != (rest < 0)), quotient - one, quotient)
    floor = np.floor(quotient)
    floor = np.where(quotient - floor > 0.5, floor + one, floor)
    return np.where(b == 0, a / b, np.where(quotient == 0, np.copysign(a.dtype.type(0), a / b), floor))


div = binary(
    "div.Tensor div.Scalar divide.Tensor divide.Scalar true_divide.Tensor true_divide.Scalar",
    np.true_divide,
    int_to_float,
    cpu="div_cpu",
    takes=FLOATS | COMPLEX,
    exact_scalar=True,
    differs=[*_PROMOTION, "int-to-default-float"],
    doc="True quotient.",
)
floor_divide = binary(
    "floor_divide floor_divide.Scalar",
    np.floor_divide,
    cpu="div_floor_cpu",
    takes=REAL,
    integer=_int_floor_divide,
    float=_floor_divide,
    exact_scalar=True,
    stepwise=True,
    differs=[*_PROMOTION, "integer-division-by-zero"],
    doc="Quotient rounded down.",
)
_div_trunc = binary(
    "",
    lambda a, b: np.trunc(a / b),
    cpu="div_trunc_cpu",
    takes=REAL,
    integer=_int_trunc_divide,
    exact_scalar=True,
    stepwise=True,
    doc="Quotient rounded toward zero.",
)


@kernel(
    "div.Tensor_mode",
    "div.Scalar_mode",
    "divide.Tensor_mode",
    "divide.Scalar_mode",
    like=np.true_divide,
    differs=[*_PROMOTION, "integer-division-by-zero", "div-trunc-of-integers"],
)
def div_mode(self: ndarray, other: Any, *, rounding_mode: str | None) -> ndarray:
    """Quotient, rounded as ``rounding_mode`` says: not at all, toward zero ("trunc") or down ("floor")."""
    if rounding_mode is None:
        return div(self, other)
    if rounding_mode == "trunc":
        return _div_trunc(self, other)
    if rounding_mode == "floor":
        return floor_divide(self, other)
    raise RuntimeError(f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'")


# ---------------------------------------------------------------- remainders


def _remainder(a: ndarray, b: ndarray) -> ndarray:
    """The divisor's sign, except that a zero keeps the sign C's fmod gives it."""
    rest = np.fmod(a, b)
    return np.where((rest != 0) & ((b < 0) != (rest < 0)), rest + b, rest)


def _int_remainder(a: ndarray, b: ndarray) -> ndarray:
    _check_divisor(b)
    return np.remainder(a, b)


def _int_fmod(a: ndarray, b: ndarray) -> ndarray:
    _check_divisor(b)
    return np.fmod(a, b)


remainder = binary(
    "remainder.Tensor remainder.Scalar remainder.Scalar_Tensor",
    _remainder,
    cpu="remainder_cpu",
    takes=REAL,
    integer=_int_remainder,
    like=np.remainder,
    differs=[*_PROMOTION, "integer-division-by-zero", "remainder-zero-sign"],
    doc="Remainder with the sign of the divisor.",
)
fmod = binary(
    "fmod.Tensor fmod.Scalar",
    np.fmod,
    cpu="fmod_cpu",
    takes=REAL,
    integer=_int_fmod,
    differs=[*_PROMOTION, "integer-division-by-zero"],
    doc="Remainder with the sign of the dividend.",
)

# ---------------------------------------------------------------- powers


def _int_power(a: ndarray, b: ndarray) -> ndarray:
    """Negative powers of 1 and -1 are exact; of everything else they truncate to 0."""
    if b.dtype.kind == "u" or not np.any(b < 0):
        return np.power(a, b)
    value = np.power(a, np.maximum(b, 0))
    unit = np.where(a == 1, 1, np.where(a == -1, 1 - 2 * (b & 1), 0)).astype(a.dtype)
    return np.where(b < 0, unit, value)


_POWER = binary(
    "",
    np.power,
    cpu="pow",
    takes=REAL | COMPLEX,
    integer=_int_power,
)
_POWERS = ["integer-negative-powers", "bool-power-is-int64"]


@kernel("pow.Tensor_Tensor", like=np.power, differs=[*_PROMOTION, *_POWERS])
def pow(self: ndarray, exponent: ndarray) -> ndarray:
    """``self`` to the power of ``exponent``."""
    return _POWER(self, exponent)


_BY_EXPONENT: dict[Any, Callable[[ndarray], Any]] = {
    0.5: np.sqrt,
    2: np.square,
    3: lambda x: x * x * x,
    -0.5: lambda x: np.divide(1, np.sqrt(x), dtype=x.dtype),
    -1: lambda x: np.divide(1, x, dtype=x.dtype),
    -2: lambda x: np.divide(1, x * x, dtype=x.dtype),
}


@kernel("pow.Tensor_Scalar", like=np.power, differs=[*_PROMOTION, *_POWERS, "half-power-is-sqrt"])
def pow_scalar(self: ndarray, exponent: Any) -> ndarray:
    """``self`` to the power of a number; small powers by multiplication, halves by square root."""
    if self.dtype in WIDE and (type(exponent) is int or type(exponent) is float) and exponent in _BY_EXPONENT:
        return finish(_BY_EXPONENT[exponent](self), self.dtype)
    common = dt.result_type(self, exponent)
    check(dt.is_inexact(common) or exponent >= 0, "Integers to negative integer powers are not allowed.")
    if exponent == 0:
        return np.ones_like(self, common)
    if exponent == 1:
        return np.array(dt.cast(self, common), order="K")
    small = _BY_EXPONENT.get(exponent)
    # torch has no short cuts for float16, and takes those for bfloat16 with a rounding at each step.
    if small is None or common in (dt.float16, *FLOAT8) or not (dt.is_inexact(common) or exponent in (2, 3)):
        return _POWER(self, scalar(exponent, common) if isinstance(exponent, float) else exponent)
    refuse("pow" if exponent != 0.5 else "sqrt_vml_cpu", REAL | COMPLEX, common)
    return finish(small(dt.cast(self, common)), common)


@kernel("pow.Scalar", like=np.power, differs=[*_PROMOTION, *_POWERS])
def pow_of_scalar(self: Any, exponent: ndarray) -> ndarray:
    """A number to the power of a tensor."""
    if self == 1 and not isinstance(self, bool):
        return np.ones(exponent.shape, dt.result_type(self, exponent))
    return _POWER(self, np.ascontiguousarray(exponent).reshape(exponent.shape))


@kernel("float_power.Tensor_Tensor", "float_power.Tensor_Scalar", "float_power.Scalar", like=np.float_power)
def float_power(self: Any, exponent: Any) -> ndarray:
    """Power in float64 or complex128."""
    complex_ = any(
        dt.is_complex(x.dtype) if isinstance(x, ndarray) else isinstance(x, complex) for x in (self, exponent)
    )
    dtype = dt.complex128 if complex_ else dt.float64
    a, b = (dt.cast(x, dtype) if isinstance(x, ndarray) else dtype.type(x).item() for x in (self, exponent))
    if not isinstance(b, ndarray):
        return pow_scalar(a, b)
    return _POWER(a, b) if isinstance(a, ndarray) else pow_of_scalar(a, b)


# ---------------------------------------------------------------- three operands


def _three(
    cpu: str, takes: Any, self: ndarray, a: ndarray, b: ndarray, value: Any
) -> tuple[tuple[ndarray, ...], np.dtype]:
    tensors, out = in_opmath(cpu, takes, self, a, b)
    check_broadcast(self, a, b)
    return (*tensors, scalar(value, tensors[0].dtype)), out


@kernel("addcmul")
def addcmul(self: ndarray, tensor1: ndarray, tensor2: ndarray, *, value: Any = 1) -> ndarray:
    """``self + value * tensor1 * tensor2``."""
    takes = REAL | ANY_COMPLEX
    (x, a, b, scale), out = _three("addcmul_cpu_out", takes, self, tensor1, tensor2, value)
    return finish(x + (a if value == 1 else scale * a) * b, out)


@kernel("addcdiv")
def addcdiv(self: ndarray, tensor1: ndarray, tensor2: ndarray, *, value: Any = 1) -> ndarray:
    """``self + value * tensor1 / tensor2``."""
    check(
        dt.is_inexact(tensor1.dtype) or dt.is_inexact(tensor2.dtype),
        "Integer division with addcdiv is no longer supported, and in a future  release addcdiv will perform a true "
        "division of tensor1 and tensor2. The historic addcdiv behavior can be implemented as (input + value * "
        "torch.trunc(tensor1 / tensor2)).to(input.dtype) for integer inputs and as (input + value * tensor1 / tensor2) "
        "for float inputs. The future addcdiv behavior is just the latter implementation: "
        "(input + value * tensor1 / tensor2), for all dtypes.",
    )
    (x, a, b, scale), out = _three("addcdiv_cpu_out", FLOATS | COMPLEX, self, tensor1, tensor2, value)
    return finish(x + (a if value == 1 else scale * a) / b, out)


def _lerp(a: ndarray, b: ndarray, w: ndarray) -> ndarray:
    """From the nearer end, so that both ends are exact."""
    near = np.abs(w) < 0.5
    if near.ndim == 0:
        return a + w * (b - a) if near else b + (w - w.dtype.type(1)) * (b - a)
    return np.where(near, a + w * (b - a), b + (w - w.dtype.type(1)) * (b - a))


def _check_same_dtype(*named: tuple[str, ndarray]) -> None:
    first = named[0][1].dtype
    for name, x in named[1:]:
        if x.dtype != first:
            raise RuntimeError(f"expected dtype {_SPELLED[first]} for `{name}` but got dtype {_SPELLED[x.dtype]}")


# dtypes as C++ spells them in these messages.
_SPELLED = {dt_: f"c10::{dt.scalar_name(dt_)}" for dt_ in (*dt.HALVES, *dt.FLOAT8S)} | {
    dt.bool_: "bool", dt.uint8: "unsigned char", dt.int8: "signed char", dt.int16: "short int", dt.int32: "int",
    dt.int64: "long int", dt.uint16: "short unsigned int", dt.uint32: "unsigned int", dt.uint64: "long unsigned int",
    dt.float32: "float", dt.float64: "double", dt.complex32: "c10::complex<c10::Half>",
    dt.complex64: "c10::complex<float>", dt.complex128: "c10::complex<double>",
}  # fmt: skip


@kernel("lerp.Tensor")
def lerp(self: ndarray, end: ndarray, weight: ndarray) -> ndarray:
    """``self + weight * (end - self)``."""
    _check_same_dtype(("self", self), ("end", end))
    if weight.ndim:
        _check_same_dtype(("self", self), ("weight", weight))
    refuse("lerp_kernel_tensor", FLOATS | COMPLEX, self.dtype)
    check_broadcast(self, end, weight)
    inner = dt.opmath(self.dtype)
    return finish(_lerp(dt.cast(self, inner), dt.cast(end, inner), dt.cast(weight, inner)), self.dtype)


@kernel("lerp.Scalar")
def lerp_scalar(self: ndarray, end: ndarray, weight: Any) -> ndarray:
    """``self + weight * (end - self)``."""
    _check_same_dtype(("self", self), ("end", end))
    refuse("lerp_kernel_scalar", FLOATS | COMPLEX, self.dtype)
    check_broadcast(self, end)
    inner = dt.opmath(self.dtype)
    return finish(_lerp(dt.cast(self, inner), dt.cast(end, inner), scalar(weight, inner)), self.dtype)


# ---------------------------------------------------------------- limits


def _no_complex(name: str) -> Refusals:
    return [(ANY_COMPLEX, RuntimeError, f"{name} not implemented for complex tensors.")]


_LIMITS = BOOL | REAL
maximum = binary("maximum max.other", np.maximum, cpu="maximum_cpu", takes=_LIMITS, refuses=_no_complex("maximum"))
minimum = binary("minimum min.other", np.minimum, cpu="minimum_cpu", takes=_LIMITS, refuses=_no_complex("minimum"))
# Integers go the way of maximum and minimum.
_UNSIGNED = "\"{}_cpu\" not implemented for '{{}}'"
for _name, _function, _other in (("fmax", np.fmax, "maximum"), ("fmin", np.fmin, "minimum")):
    binary(
        _name,
        _function,
        cpu=f"{_name}_cpu",
        takes=_LIMITS,
        refuses=[*_no_complex(_name), (UNSIGNED, NotImplementedError, _UNSIGNED.format(_other))],
    )


def _clamp(cpu: str, takes: Any, self: ndarray, low: Any, high: Any) -> ndarray:
    given = [x for x in (low, high) if x is not None]
    check(given, "torch.clamp: At least one of 'min' or 'max' must not be None")
    if dt.is_complex(self.dtype):
        raise NotImplementedError("clamp is not supported for complex types")
    out = self.dtype
    if out not in WIDE or any([type(x) is not float and type(x) is not int for x in given]):
        out = dt.result_type(self, *given)
        refuse(cpu, takes, out)
        check_broadcast(self, *given)
    x = _limit(self, out)
    # Of two zeros NumPy's maximum and minimum take the second: the tensor's own.
    if low is not None:
        x = np.maximum(_limit(low, out), x)
    if high is not None:
        x = np.minimum(_limit(high, out), x)
    return finish(x, out)


def _limit(x: Any, out: np.dtype) -> ndarray:
    """A tensor or number rounded to the result dtype, in the dtype of the computation."""
    x = dt.cast(x, out) if isinstance(x, ndarray) else scalar(x, out)
    return x if out in WIDE else dt.cast(x, dt.opmath(out))


_CLAMP = ["three-tier-promotion", "clamp-of-bool"]


@kernel("clamp", "clip", like=np.clip, differs=_CLAMP)
def clamp(self: ndarray, min: Any = None, max: Any = None) -> ndarray:
    """Limit to [min, max]; nan stays, and where min exceeds max, max wins."""
    if min is not None and max is not None:
        return _clamp("clamp_scalar_cpu", REAL, self, min, max)
    return _clamp("clamp_min_scalar_cpu" if max is None else "clamp_max_scalar_cpu", REAL, self, min, max)


@kernel("clamp.Tensor", "clip.Tensor", like=np.clip, differs=_CLAMP)
def clamp_tensor(self: ndarray, min: ndarray | None = None, max: ndarray | None = None) -> ndarray:
    """Limit to [min, max] elementwise."""
    if min is not None and max is not None:
        return _clamp("clamp_cpu", REAL, self, min, max)
    return _clamp("maximum_cpu" if max is None else "minimum_cpu", _LIMITS, self, min, max)


@kernel("clamp_min", like=np.maximum, differs=_CLAMP)
def clamp_min(self: ndarray, min: Any) -> ndarray:
    """Limit from below."""
    return _clamp("clamp_min_scalar_cpu", REAL, self, min, None)


@kernel("clamp_max", like=np.minimum, differs=_CLAMP)
def clamp_max(self: ndarray, max: Any) -> ndarray:
    """Limit from above."""
    return _clamp("clamp_max_scalar_cpu", REAL, self, None, max)


binary("clamp_min.Tensor", np.maximum, cpu="maximum_cpu", takes=_LIMITS, args=("self", "min"))
binary("clamp_max.Tensor", np.minimum, cpu="minimum_cpu", takes=_LIMITS, args=("self", "max"))

# ---------------------------------------------------------------- functions of two tensors

_FLOAT = ["three-tier-promotion", "int-to-default-float"]


def _heaviside(x: ndarray, values: ndarray) -> ndarray:
    """nan counts as not positive."""
    return np.where(x == 0, values, (x > 0).astype(x.dtype))


def _logaddexp(a: ndarray, b: ndarray) -> ndarray:
    """Complex: about the operand of the larger real part."""
    first = a.real >= b.real
    high, low = np.where(first, a, b), np.where(first, b, a)
    value = high + np.log1p(np.exp(low - high))
    infinite = np.isinf(high.real) & (high.real == low.real)
    return np.where(infinite, np.where(high.real < 0, low, np.log(np.exp(low) + np.exp(high))), value)


binary("atan2 arctan2", np.arctan2, int_to_float, cpu="atan2_cpu", takes=FLOATS, differs=_FLOAT)
binary("hypot", np.hypot, cpu="hypot_cpu", takes=FLOATS, differs=["no-integers"])
binary("copysign.Tensor copysign.Scalar", np.copysign, int_to_float, cpu="copysign_cpu", takes=FLOATS, differs=_FLOAT)


def _nextafter(a: ndarray, b: ndarray) -> ndarray:
    """Of two equal zeros the second, as C has it; NumPy's loop for halves gives the first."""
    return np.where(a == b, b, np.nextafter(a, b))


binary(
    "nextafter",
    _nextafter,
    like=np.nextafter,
    cpu="nextafter_cpu",
    takes=FLOATS,
    compute=lambda d: d,
    differs=["no-integers"],
)
binary(
    "logaddexp",
    np.logaddexp,
    cpu="logaddexp_cpu",
    takes=FLOATS | COMPLEX,
    complex=_logaddexp,
    differs=["no-integers"],
)
binary("logaddexp2", np.logaddexp2, cpu="logaddexp2_cpu", takes=FLOATS, differs=["no-integers"])
_heaviside_row = binary("", _heaviside, cpu="heaviside_cpu", takes=_LIMITS)


@kernel("heaviside", like=np.heaviside, differs=["heaviside-of-nan"])
def heaviside(self: ndarray, values: ndarray) -> ndarray:
    """0 for negative, 1 for positive, ``values`` at zero."""
    check(
        not (dt.is_complex(self.dtype) or dt.is_complex(values.dtype)),
        "heaviside is not yet implemented for complex tensors.",
    )
    check(self.dtype == values.dtype, "heaviside is not yet implemented for tensors with different dtypes.")
    return _heaviside_row(self, values)


@kernel("ldexp.Tensor", like=np.ldexp, differs=["ldexp-of-floats"])
def ldexp(self: ndarray, other: ndarray) -> ndarray:
    """``self * 2 ** other``: exact for a float and an integer, else by way of the power."""
    if dt.is_floating(self.dtype) and not dt.is_inexact(other.dtype):
        refuse("ldexp_cpu", FLOATS, self.dtype)
        refuse("ldexp_cpu_exp", INTS, other.dtype)
        check_broadcast(self, other)
        return finish(np.ldexp(dt.cast(self, dt.opmath(self.dtype)), dt.cast(other, dt.int32)), self.dtype)
    if dt.is_complex(self.dtype):
        return mul(self, pow(np.full((), 2, self.dtype), other))
    return mul(self, pow_of_scalar(2.0, other))


@kernel("frexp.Tensor", like=np.frexp)
def frexp(self: ndarray) -> tuple[ndarray, ndarray]:
    """Mantissa in [0.5, 1) and int32 exponent of each element."""
    check(
        dt.is_floating(self.dtype),
        "torch.frexp() only supports floating-point dtypes",
    )
    refuse("frexp_cpu", FLOATS, self.dtype)
    mantissa, exponent = np.frexp(dt.cast(self, dt.opmath(self.dtype)))
    return finish(mantissa, self.dtype), finish(exponent, dt.int32)
