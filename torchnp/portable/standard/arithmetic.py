"""Arithmetic: elementwise functions of one and of two operands."""

from __future__ import annotations

import math
from typing import Any

from torchnp import dtypes as dt
from torchnp.core.checks import check, refuse
from torchnp.portable.library import ArrayLibrary
from torchnp.portable.rows import Array, portable

# ---------------------------------------------------------------- one operand


def float_function(name: str, function: str, on: str = "standard") -> None:
    """Declare the row of a function of the namespace that converts integers to floats first."""
    portable(name, on=on)(lambda lib, self: lib.in_opmath(getattr(lib.xp, function), lib.to_float(self)))


float_function("aten::exp", "exp")
float_function("aten::expm1", "expm1")
float_function("aten::log", "log")
float_function("aten::log1p", "log1p")
float_function("aten::log2", "log2")
float_function("aten::log10", "log10")
float_function("aten::sqrt", "sqrt")
float_function("aten::sin", "sin")
float_function("aten::cos", "cos")
float_function("aten::tan", "tan")
float_function("aten::asin", "asin")
float_function("aten::acos", "acos")
float_function("aten::atan", "atan")
float_function("aten::sinh", "sinh")
float_function("aten::cosh", "cosh")
float_function("aten::tanh", "tanh")
float_function("aten::asinh", "asinh")
float_function("aten::acosh", "acosh")
float_function("aten::atanh", "atanh")


@portable("aten::reciprocal")
def reciprocal(lib: ArrayLibrary, self: Array) -> Array:
    return lib.in_opmath(lambda x: 1 / x, lib.to_float(self))


@portable("aten::rsqrt")
def rsqrt(lib: ArrayLibrary, self: Array) -> Array:
    return lib.in_opmath(lambda x: 1 / lib.xp.sqrt(x), lib.to_float(self))


@portable("aten::sigmoid", "aten::special_expit")
def sigmoid(lib: ArrayLibrary, self: Array) -> Array:
    return lib.in_opmath(lambda x: 1 / (1 + lib.xp.exp(-x)), lib.to_float(self))


@portable("aten::exp2", "aten::special_exp2")
def exp2(lib: ArrayLibrary, self: Array) -> Array:
    return lib.in_opmath(lambda x: lib.xp.pow(lib.number(2, lib.dtype_of(x)), x), lib.to_float(self))


@portable("aten::square")
def square(lib: ArrayLibrary, self: Array) -> Array:
    return lib.call("aten::pow.Tensor_Scalar", self, 2)


@portable("aten::abs", "aten::absolute")
def abs_(lib: ArrayLibrary, self: Array) -> Array:
    return lib.xp.abs(self)


@portable("aten::neg")
def neg(lib: ArrayLibrary, self: Array) -> Array:
    return lib.xp.negative(self)


@portable("aten::sign")
def sign(lib: ArrayLibrary, self: Array) -> Array:
    if dt.is_bool(lib.dtype_of(self)):
        return self
    zero = lib.number(0, lib.dtype_of(self))
    # In torch, the sign of NaN is 0.
    return lib.astype(self > zero, lib.dtype_of(self)) - lib.astype(self < zero, lib.dtype_of(self))


@portable("aten::signbit")
def signbit(lib: ArrayLibrary, self: Array) -> Array:
    if dt.is_inexact(lib.dtype_of(self)):
        return lib.xp.signbit(self)
    if dt.is_bool(lib.dtype_of(self)):
        return lib.full(self.shape, False, dt.bool_)
    return self < lib.number(0, lib.dtype_of(self))


def _rounding(function: str, *names: str) -> None:
    """Declare a rounding function, which returns integers unchanged."""

    @portable(*names)
    def row(lib: ArrayLibrary, self: Array) -> Array:
        refuse(f"{function}_vml_cpu", lib.dtype_of(self), (dt.bool_,))
        return getattr(lib.xp, function)(self) if dt.is_inexact(lib.dtype_of(self)) else self


_rounding("floor", "aten::floor")
_rounding("ceil", "aten::ceil")
_rounding("round", "aten::round")
_rounding("trunc", "aten::trunc", "aten::fix")


@portable("aten::frac")
def frac(lib: ArrayLibrary, self: Array) -> Array:
    return self - lib.xp.trunc(self)


@portable("aten::bitwise_not")
def bitwise_not(lib: ArrayLibrary, self: Array) -> Array:
    is_bool = dt.is_bool(lib.dtype_of(self))
    return lib.xp.logical_not(self) if is_bool else lib.xp.bitwise_invert(self)


@portable("aten::nan_to_num")
def nan_to_num(
    lib: ArrayLibrary, self: Array, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Array:
    d = lib.dtype_of(self)
    if not dt.is_inexact(d):
        return self
    if dt.is_complex(d):
        return NotImplemented
    limits = lib.call("prims::minimum_value", d), lib.call("prims::maximum_value", d)
    x = lib.xp.where(lib.xp.isnan(self), lib.number(0.0 if nan is None else nan, d), self)
    x = lib.xp.where(x == lib.number(math.inf, d), lib.number(limits[1] if posinf is None else posinf, d), x)
    return lib.xp.where(x == lib.number(-math.inf, d), lib.number(limits[0] if neginf is None else neginf, d), x)


# ---------------------------------------------------------------- two operands


def _scaled(lib: ArrayLibrary, x: Array, by: Any) -> Array:
    """Multiply by a number. As in torch, a complex product by 1 makes the other part of an infinite one NaN."""
    d = lib.dtype_of(x)
    return x if type(by) in (int, float) and by == 1 and not dt.is_complex(d) else x * lib.number(by, d)


def _difference(lib: ArrayLibrary, x: Array, y: Array, alpha: Any) -> Array:
    """Compute ``x - alpha * y``; torch adds complex numbers times ``-alpha``."""
    return x + _scaled(lib, y, -alpha) if dt.is_complex(lib.dtype_of(x)) else x - _scaled(lib, y, alpha)


@portable("aten::add.Tensor", "aten::add.Scalar")
def add(lib: ArrayLibrary, self: Array, other: Any, alpha: Any = 1) -> Array:
    a, b = lib.promote(self, other)
    if dt.is_bool(lib.dtype_of(a)):
        return lib.xp.logical_or(a, b) if alpha else lib.xp.logical_or(a, lib.xp.zeros_like(b))
    return lib.in_opmath(lambda x, y: x + _scaled(lib, y, alpha), a, b)


@portable("aten::sub.Tensor", "aten::sub.Scalar", "aten::subtract.Tensor", "aten::subtract.Scalar")
def sub(lib: ArrayLibrary, self: Array, other: Any, alpha: Any = 1) -> Array:
    return lib.in_opmath(lambda x, y: _difference(lib, x, y, alpha), *lib.promote(self, other))


@portable("aten::rsub.Tensor", "aten::rsub.Scalar")
def rsub(lib: ArrayLibrary, self: Array, other: Any, alpha: Any = 1) -> Array:
    return lib.in_opmath(lambda x, y: _difference(lib, y, x, alpha), *lib.promote(self, other))


@portable("aten::mul.Tensor", "aten::mul.Scalar", "aten::multiply.Tensor", "aten::multiply.Scalar")
def mul(lib: ArrayLibrary, self: Array, other: Any) -> Array:
    a, b = _operands(lib, self, other)
    if dt.is_bool(lib.dtype_of(a)):
        return lib.xp.logical_and(a, b)
    return a * b if lib.dtype_of(a) == lib.dtype_of(b) else lib.in_opmath(lambda x, y: x * y, a, b)


def _operands(lib: ArrayLibrary, self: Array, other: Any, to_float: bool = False) -> tuple[Array, Array]:
    """Promote the operands of a product or quotient.

    If the first has a half type and the second one element of another dtype, the second becomes float32, as in torch.
    """
    a, b = lib.promote(self, other, to_float=to_float)
    d = lib.dtype_of(a)
    if d in dt.HALVES and lib.is_array(other) and lib.dtype_of(other) != d and all(n == 1 for n in other.shape):
        b = lib.astype(other, dt.float32)
    return a, b


@portable(
    "aten::div.Tensor", "aten::div.Scalar", "aten::divide.Tensor", "aten::divide.Scalar", "aten::true_divide.Tensor",
    "aten::true_divide.Scalar",
)  # fmt: skip
def div(lib: ArrayLibrary, self: Array, other: Any) -> Array:
    return lib.in_opmath(lambda x, y: x / y, *_operands(lib, self, other, to_float=True))


@portable("aten::div.Tensor_mode", "aten::div.Scalar_mode")
def div_mode(lib: ArrayLibrary, self: Array, other: Any, *, rounding_mode: str | None) -> Array:
    words = "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found"
    check(rounding_mode in (None, "trunc", "floor"), f"{words} '{rounding_mode}'")
    if rounding_mode is None:
        return div(lib, self, other)
    a, b = lib.promote(self, other)
    if dt.is_bool(lib.dtype_of(a)):
        return NotImplemented
    if rounding_mode == "floor":
        return floor_divide(lib, a, b)
    if dt.is_inexact(lib.dtype_of(a)):
        return lib.in_opmath(lambda x, y: lib.xp.trunc(x / y), a, b)
    quotient, signs = lib.xp.floor_divide(a, b), (a < 0) != (b < 0)
    return lib.xp.where(signs & (quotient * b != a), quotient + lib.number(1, lib.dtype_of(a)), quotient)


@portable("aten::floor_divide", "aten::floor_divide.Scalar")
def floor_divide(lib: ArrayLibrary, self: Array, other: Any) -> Array:
    a, b = lib.promote(self, other)
    if not dt.is_inexact(lib.dtype_of(a)):
        return NotImplemented if dt.is_bool(lib.dtype_of(a)) else lib.xp.floor_divide(a, b)

    def divided(x: Array, y: Array) -> Array:
        """Divide as c10's div_floor_floating: the exact quotient, rounded down once."""
        rest = _fmod(lib, x, y)
        quotient = (x - rest) / y
        quotient = lib.xp.where((rest != 0) & ((y < 0) != (rest < 0)), quotient - 1, quotient)
        down = lib.xp.floor(quotient)
        down = lib.xp.where(quotient - down > 0.5, down + 1, down)
        whole = lib.xp.where(quotient == 0, lib.xp.copysign(lib.xp.zeros_like(quotient), x / y), down)
        return lib.xp.where(y == 0, x / y, whole)

    return lib.in_opmath(divided, a, b)


def _fmod(lib: ArrayLibrary, x: Array, y: Array) -> Array:
    """Return the remainder with the dividend's sign."""
    d = lib.dtype_of(x)
    if not dt.is_inexact(d):
        rest = lib.xp.remainder(x, y)
        return lib.xp.where((rest != 0) & ((rest < 0) != (x < 0)), rest - y, rest)
    return lib.xp.copysign(lib.xp.remainder(lib.xp.abs(x), lib.xp.abs(y)), x)


@portable("aten::fmod.Tensor", "aten::fmod.Scalar")
def fmod(lib: ArrayLibrary, self: Array, other: Any) -> Array:
    return lib.in_opmath(lambda x, y: _fmod(lib, x, y), *lib.promote(self, other))


@portable("aten::remainder.Tensor", "aten::remainder.Scalar", "aten::remainder.Scalar_Tensor")
def remainder(lib: ArrayLibrary, self: Any, other: Any) -> Array:
    a, b = lib.promote(self, other)

    def rest(x: Array, y: Array) -> Array:
        if not dt.is_inexact(lib.dtype_of(x)):
            return lib.xp.remainder(x, y)
        found = _fmod(lib, x, y)
        return lib.xp.where((found != 0) & ((y < 0) != (found < 0)), found + y, found)

    return lib.in_opmath(rest, a, b)


@portable("aten::pow.Tensor_Scalar", "aten::pow.Tensor_Tensor", "aten::pow.Scalar")
def pow_(lib: ArrayLibrary, self: Any, exponent: Any) -> Array:
    a, b = lib.promote(self, exponent)
    d = lib.dtype_of(a)
    if dt.is_bool(d):
        return lib.xp.logical_or(a, lib.xp.logical_not(b))
    if type(exponent) in (int, float) and dt.is_floating(d) and exponent in (0.5, 2, 3, -1):
        return lib.in_opmath(lambda x: _small_power(lib, x, exponent), a)
    if not dt.is_inexact(d) and not lib.is_array(exponent) and exponent < 0:
        return NotImplemented
    if lib.is_array(exponent) and dt.is_signed(d) and not dt.is_inexact(d):
        return _integer_power(lib, a, b)
    return lib.in_opmath(lib.xp.pow, a, b)


def _integer_power(lib: ArrayLibrary, a: Array, b: Array) -> Array:
    """Compute powers of integers; negative powers are truncated to 0, except those of 1 and -1."""
    zero, one = (lib.number(n, lib.dtype_of(a)) for n in (0, 1))
    negative = b < zero
    sign = lib.xp.where(lib.xp.bitwise_and(b, one) == one, a, one)
    ones = lib.xp.where(lib.xp.abs(a) == one, sign, zero)
    return lib.xp.where(negative, ones, lib.xp.pow(a, lib.xp.where(negative, zero, b)))


def _small_power(lib: ArrayLibrary, x: Array, exponent: float) -> Array:
    if exponent == 0.5:
        return lib.xp.sqrt(x)
    if exponent == -1:
        return 1 / x
    return x * x if exponent == 2 else x * x * x


@portable("aten::atan2")
def atan2(lib: ArrayLibrary, self: Array, other: Array) -> Array:
    return lib.in_opmath(lib.xp.atan2, *lib.promote(self, other, to_float=True))


@portable("aten::hypot")
def hypot(lib: ArrayLibrary, self: Array, other: Array) -> Array:
    return lib.in_opmath(lib.xp.hypot, *lib.promote(self, other))


@portable("aten::logaddexp")
def logaddexp(lib: ArrayLibrary, self: Array, other: Array) -> Array:
    if any(dt.is_complex(lib.dtype_of(x)) for x in (self, other)):
        return NotImplemented
    return lib.in_opmath(lib.xp.logaddexp, *lib.promote(self, other))


@portable("aten::copysign.Tensor", "aten::copysign.Scalar")
def copysign(lib: ArrayLibrary, self: Array, other: Any) -> Array:
    return lib.in_opmath(lib.xp.copysign, *lib.promote(self, other, to_float=True))


def _bitwise(names: tuple[str, ...], of_bools: str, of_integers: str) -> None:
    @portable(*names)
    def row(lib: ArrayLibrary, self: Any, other: Any) -> Array:
        a, b = lib.promote(self, other)
        return getattr(lib.xp, of_bools if dt.is_bool(lib.dtype_of(a)) else of_integers)(a, b)


_bitwise(
    ("aten::bitwise_and.Tensor", "aten::bitwise_and.Scalar", "aten::__and__.Tensor", "aten::__and__.Scalar"),
    "logical_and",
    "bitwise_and",
)
_bitwise(
    ("aten::bitwise_or.Tensor", "aten::bitwise_or.Scalar", "aten::__or__.Tensor", "aten::__or__.Scalar"),
    "logical_or",
    "bitwise_or",
)
_bitwise(
    ("aten::bitwise_xor.Tensor", "aten::bitwise_xor.Scalar", "aten::__xor__.Tensor", "aten::__xor__.Scalar"),
    "logical_xor",
    "bitwise_xor",
)


@portable("aten::addcmul")
def addcmul(lib: ArrayLibrary, self: Array, tensor1: Array, tensor2: Array, *, value: Any = 1) -> Array:
    given = lib.promote(self, tensor1, tensor2)
    return lib.in_opmath(lambda x, a, b: x + _scaled(lib, a * b, value), *given)


@portable("aten::addcdiv")
def addcdiv(lib: ArrayLibrary, self: Array, tensor1: Array, tensor2: Array, *, value: Any = 1) -> Array:
    given = lib.promote(self, tensor1, tensor2)
    if not dt.is_inexact(lib.dtype_of(given[0])):
        return NotImplemented
    return lib.in_opmath(lambda x, a, b: x + _scaled(lib, a, value) / b, *given)


@portable("aten::lerp.Scalar", "aten::lerp.Tensor")
def lerp(lib: ArrayLibrary, self: Array, end: Array, weight: Any) -> Array:
    """Interpolate from the nearer end, so that weights near 1 give exact values near ``end``."""
    given = lib.promote(self, end)
    w = (
        lib.astype(weight, lib.dtype_of(given[0]))
        if lib.is_array(weight)
        else lib.number(weight, lib.dtype_of(given[0]))
    )
    if dt.is_complex(lib.dtype_of(w)):
        return NotImplemented
    near = lambda a, b, t: lib.xp.where(lib.xp.abs(t) < 0.5, a + t * (b - a), b - (b - a) * (1 - t))
    return lib.in_opmath(near, *given, w)


# ---------------------------------------------------------------- complex numbers


@portable("aten::real")
def real(lib: ArrayLibrary, self: Array) -> Array:
    return lib.xp.real(self) if dt.is_complex(lib.dtype_of(self)) else self


@portable("aten::imag")
def imag(lib: ArrayLibrary, self: Array) -> Array:
    return lib.xp.imag(self)


@portable("aten::_conj", "aten::conj", "aten::_conj_physical", "aten::conj_physical")
def conj(lib: ArrayLibrary, self: Array) -> Array:
    return lib.xp.conj(self) if dt.is_complex(lib.dtype_of(self)) else self


@portable("aten::angle")
def angle(lib: ArrayLibrary, self: Array) -> Array:
    d = lib.dtype_of(self)
    if dt.is_complex(d):
        return lib.xp.atan2(lib.xp.imag(self), lib.xp.real(self))
    x = lib.to_float(self)
    e = lib.dtype_of(x)
    turned = lib.xp.where(x < 0, lib.number(math.pi, e), lib.number(0, e))
    return lib.xp.where(lib.xp.isnan(x), x, turned)


@portable("aten::view_as_real")
def view_as_real(lib: ArrayLibrary, self: Array) -> Array:
    return lib.xp.stack([lib.xp.real(self), lib.xp.imag(self)], axis=-1)


@portable("aten::view_as_complex")
def view_as_complex(lib: ArrayLibrary, self: Array) -> Array:
    return complex_(lib, self[..., 0], self[..., 1])


@portable("aten::complex")
def complex_(lib: ArrayLibrary, real: Array, imag: Array) -> Array:
    a, b = lib.dtype_of(real), lib.dtype_of(imag)
    check(a == b and dt.is_floating(a), f"no complex numbers have parts of {a} and {b}")
    d = dt.to_complex(a)
    return lib.astype(real, d) + lib.astype(imag, d) * lib.number(1j, d)
