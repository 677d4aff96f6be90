"""NumPy's ufuncs on tensors, one line each; NumPy chooses the dtypes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torchnp.np.dtypes import HALVES, values_are_here
from torchnp.np.table import TABLE, add_row, in_numpy
from torchnp.np.ufunc import TensorUfunc
from torchnp.np.uint64 import divmod_of_uint64, gcd_of_uint64, lcm_of_uint64, power_of_uint64, shift_of_uint64

PROMOTION = (
    "three-tier-promotion int-float-promotion number-promotion number-wraps unsigned-promotion prims-no-promotion"
)
OF_COMPLEX = f"{PROMOTION} complex-number-promotion"
WRITES = "out-resized out-overlap inplace-within-category"
COMPARED = "comparison-in-promoted-dtype comparison-wraps-number"
TO_FLOAT = "int-to-default-float"
_LOG2 = math.log(2)
_SIGN = torch.iinfo(torch.int64).min
# For a scalar exponent of 0.5, newer versions of NumPy call sqrt, which gives nan for -inf.
with np.errstate(invalid="ignore"):
    _ROOTS = bool(np.isnan(np.power(np.array([-np.inf]), 0.5))[0])


def ufunc(names: str, function: Callable, undoes: str = "", **how: Any) -> TensorUfunc:
    """Add a ufunc under one or more names (``"absolute abs"``); the first is the ufunc's own name."""
    first = names.split()[0]
    made = TensorUfunc(first, function, **how)
    add_row(" ".join(n for n in names.split() if in_numpy(n) is not None), made, undoes)
    return made


def _of_bool(x: Tensor) -> bool:
    return x.dtype == torch.bool


def _is_int(x: Tensor) -> bool:
    return not (x.is_floating_point() or x.is_complex())


# ---------------------------------------------------------------- reductions of ufuncs


def _sum(x: Tensor, axes: tuple[int, ...], keepdim: bool) -> Tensor:
    return torch.any(x, axes, keepdim) if _of_bool(x) else torch.sum(x, axes, keepdim, dtype=x.dtype)


def _over_axes(function: Callable) -> Callable:
    """Return a reduction of several dimensions, which reduces one after the other."""

    def reduce(x: Tensor, axes: tuple[int, ...], keepdim: bool) -> Tensor:
        for axis in sorted(axes, reverse=True):
            x = function(x, axis, keepdim)
        return x

    return reduce


_prod = _over_axes(lambda x, axis, keepdim: torch.prod(x, axis, keepdim, dtype=x.dtype))
_all = _over_axes(lambda x, axis, keepdim: torch.all(x, axis, keepdim))
_any = _over_axes(lambda x, axis, keepdim: torch.any(x, axis, keepdim))


def _extreme(function: Callable, compare: Callable) -> Callable:
    """Return amax or amin that compares complex numbers by real parts, then by imaginary parts."""

    def reduce(x: Tensor, axes: tuple[int, ...], keepdim: bool) -> Tensor:
        if not x.is_complex():
            return function(x, axes, keepdim)
        from torchnp.np.axes import merged_last, restored

        rows = merged_last(x, axes)
        best = rows[..., 0]
        for i in range(1, rows.shape[-1]):
            best = compare(best, rows[..., i])
        return restored(best, x, axes, keepdim)

    return reduce


def _cumulated(function: Callable) -> Callable:
    return lambda x, axis: x.clone() if x.shape[axis] == 0 else function(x, axis)[0]


def _cumsum(x: Tensor, axis: int) -> Tensor:
    return torch.cummax(x.to(torch.int8), axis)[0].bool() if _of_bool(x) else torch.cumsum(x, axis, dtype=x.dtype)


# ---------------------------------------------------------------- order of complex numbers


def _complex_less(x: Tensor, y: Tensor, equal: bool) -> Tensor:
    """Compare by real parts, then by imaginary parts, as NumPy does; any comparison with a nan real part is false."""
    a, b, c, d = x.real, x.imag, y.real, y.imag
    last = (b <= d) if equal else (b < d)
    return ((a < c) & ~torch.isnan(b) & ~torch.isnan(d)) | ((a == c) & last)


def _compared(real: Callable, swap: bool, equal: bool) -> Callable:
    def function(x: Tensor, y: Tensor) -> Tensor:
        if not x.is_complex():
            return real(x, y)
        return _complex_less(y, x, equal) if swap else _complex_less(x, y, equal)

    return function


def _nan_of(x: Tensor) -> Tensor:
    return torch.isnan(x.real) | torch.isnan(x.imag) if x.is_complex() else torch.isnan(x)


def _larger(real: Callable, greater: bool) -> Callable:
    """Return maximum or minimum, which give nan if an operand is nan; of two complex nans, the first."""

    def function(x: Tensor, y: Tensor) -> Tensor:
        if not x.is_complex():
            return real(x, y)
        first = _complex_less(y, x, True) if greater else _complex_less(x, y, True)
        return torch.where(_nan_of(x) | (first & ~_nan_of(y)), x, y)

    return function


def _larger_number(real: Callable, greater: bool) -> Callable:
    """Return fmax or fmin, which give the number if only one operand is nan."""

    def function(x: Tensor, y: Tensor) -> Tensor:
        if _is_int(x):
            return torch.maximum(x, y) if greater else torch.minimum(x, y)
        if not x.is_complex():
            return real(x, y)
        first = _complex_less(y, x, True) if greater else _complex_less(x, y, True)
        return torch.where(_nan_of(y) | (first & ~_nan_of(x)), x, y)

    return function


maximum = ufunc(
    "maximum", _larger(torch.maximum, True), f"no-complex-maximum {PROMOTION} {WRITES}", ordered=True,
    reduce=_extreme(torch.amax, _larger(torch.maximum, True)), accumulate=_cumulated(torch.cummax),
)  # fmt: skip
minimum = ufunc(
    "minimum", _larger(torch.minimum, False), f"no-complex-maximum {PROMOTION} {WRITES}", ordered=True,
    reduce=_extreme(torch.amin, _larger(torch.minimum, False)), accumulate=_cumulated(torch.cummin),
)  # fmt: skip
ufunc("fmax", _larger_number(torch.fmax, True), f"no-complex-maximum {PROMOTION}", ordered=True)
ufunc("fmin", _larger_number(torch.fmin, False), f"no-complex-maximum {PROMOTION}", ordered=True)


def _of_mixed(function: Callable) -> Callable:
    """Return a comparison of int64 with uint64: negative numbers are less than all unsigned ones."""

    def compare(x: Tensor, y: Tensor, first_unsigned: bool) -> Tensor:
        negative = (y if first_unsigned else x) < 0
        order = torch.full_like(y if first_unsigned else x, _SIGN)
        by_sign = (
            function(torch.zeros_like(order), order) if first_unsigned else function(order, torch.zeros_like(order))
        )
        return torch.where(negative, by_sign, function(x ^ _SIGN, y ^ _SIGN))

    return compare


equal = ufunc("equal", torch.eq, f"{COMPARED} {OF_COMPLEX}", mixed=_of_mixed(torch.eq))
not_equal = ufunc("not_equal", torch.ne, f"{COMPARED} {OF_COMPLEX}", mixed=_of_mixed(torch.ne))
less = ufunc(
    "less",
    _compared(torch.lt, False, False),
    f"no-complex-comparison {COMPARED}",
    ordered=True,
    mixed=_of_mixed(torch.lt),
)
less_equal = ufunc(
    "less_equal",
    _compared(torch.le, False, True),
    f"no-complex-comparison {COMPARED}",
    ordered=True,
    mixed=_of_mixed(torch.le),
)
greater = ufunc(
    "greater",
    _compared(torch.gt, True, False),
    f"no-complex-comparison {COMPARED}",
    ordered=True,
    mixed=_of_mixed(torch.gt),
)
greater_equal = ufunc(
    "greater_equal",
    _compared(torch.ge, True, True),
    f"no-complex-comparison {COMPARED}",
    ordered=True,
    mixed=_of_mixed(torch.ge),
)

# ---------------------------------------------------------------- arithmetic


def _minus_one(y: Tensor) -> Tensor:
    return y == -1 if y.dtype != torch.uint8 else torch.zeros_like(y, dtype=torch.bool)


def _floor_divide(x: Tensor, y: Tensor) -> Tensor:
    if not _is_int(x):
        return torch.div(x, y, rounding_mode="floor")  # which has a gradient, zero
    # In NumPy, division by zero gives 0, and the smallest integer divided by -1 is itself.
    quotient = torch.floor_divide(x, torch.where((y == 0) | _minus_one(y), torch.ones_like(y), y))
    return torch.where(y == 0, torch.zeros_like(x), torch.where(_minus_one(y), -x, quotient))


def _remainder(x: Tensor, y: Tensor) -> Tensor:
    if not _is_int(x):
        found = torch.remainder(x, y)
        return torch.where(found == 0, torch.copysign(found, y), found)
    found = torch.remainder(x, torch.where((y == 0) | _minus_one(y), torch.ones_like(y), y))
    return torch.where((y == 0) | _minus_one(y), torch.zeros_like(x), found)


def _fmod(x: Tensor, y: Tensor) -> Tensor:
    if not _is_int(x):
        return _in_double(torch.fmod)(x, y)
    found = torch.fmod(x, torch.where((y == 0) | _minus_one(y), torch.ones_like(y), y))
    return torch.where((y == 0) | _minus_one(y), torch.zeros_like(x), found)


def _divide(x: Tensor, y: Tensor) -> Tensor:
    return torch.true_divide(x, y)


def _power(x: Tensor, y: Tensor) -> Tensor:
    if x.is_complex():
        return _complex_power(x, y)
    if _is_int(x) and values_are_here(x, y) and bool((y < 0).any()):
        raise ValueError("Integers to negative integer powers are not allowed.")
    found = torch.pow(x, y)
    if _ROOTS and y.dim() == 0 and x.is_floating_point():
        return torch.where(y == 0.5, torch.sqrt(x), found)
    return found


def _complex_power(x: Tensor, y: Tensor) -> Tensor:
    """Compute complex powers. Powers of 0 are NumPy's: 1, 0, or nan if the exponent's real part is not positive."""
    at_zero = torch.where(
        y == 0,
        torch.ones_like(y),
        torch.where(y.real > 0, torch.zeros_like(y), torch.full_like(y, complex(math.nan, math.nan))),
    )
    return torch.where((x == 0) | (y == 0), at_zero, _whole_power(x, y, torch.pow(x, y)))


def _whole_power(x: Tensor, y: Tensor, otherwise: Tensor) -> Tensor:
    """Use products for the exponents 1, 2 and 3, as NumPy does, because they keep infinities."""
    square = x * x
    for exponent, value in ((1, x), (2, square), (3, square * x)):
        otherwise = torch.where(y == exponent, value, otherwise)
    return otherwise


def _in_double(function: Callable) -> Callable:
    """Return a function that computes float32 in float64, because torch's vectorized float32 code overflows early."""
    return lambda *x: function(*(v.double() for v in x)).to(x[0].dtype) if x[0].dtype == torch.float32 else function(*x)


def _parts_of_complex(function: Callable) -> Callable:
    """Apply torch.add or torch.sub to real and imaginary parts: torch's complex product with alpha=1 can give NaN."""

    def by_parts(x: Tensor, y: Tensor) -> Tensor:
        if not x.is_complex():
            return function(x, y)
        return torch.view_as_complex(
            function(torch.view_as_real(x.resolve_conj()), torch.view_as_real(y.resolve_conj()))
        )

    return by_parts


def _multiply(x: Tensor, y: Tensor) -> Tensor:
    return torch.logical_and(x, y) if _of_bool(x) else torch.mul(x, y)


add = ufunc(
    "add", _parts_of_complex(torch.add), f"{OF_COMPLEX} {WRITES} index-write-overlap", reduce=_sum, accumulate=_cumsum
)
subtract = ufunc("subtract", _parts_of_complex(torch.sub), f"{OF_COMPLEX} {WRITES} no-bool-subtraction overlap-operand")
multiply = ufunc(
    "multiply", _multiply, f"{OF_COMPLEX} {WRITES}", reduce=_prod,
    accumulate=lambda x, axis: torch.cumprod(x, axis, dtype=x.dtype) if not _of_bool(x) else torch.cummin(x.to(torch.int8), axis)[0].bool(),
)  # fmt: skip
divide = ufunc("divide true_divide", _divide, f"{OF_COMPLEX} {WRITES} {TO_FLOAT} prims-integer-div")
floor_divide = ufunc(
    "floor_divide",
    _floor_divide,
    f"{PROMOTION} integer-division-by-zero",
    unsigned=lambda x, y: divmod_of_uint64(x, y)[0],
)
remainder = ufunc(
    "remainder mod", _remainder, f"{PROMOTION} no-bool-remainder remainder-zero-sign integer-division-by-zero",
    unsigned=lambda x, y: divmod_of_uint64(x, y)[1],
)  # fmt: skip
ufunc("fmod", _fmod, f"{PROMOTION} integer-division-by-zero", unsigned=lambda x, y: divmod_of_uint64(x, y)[1])
ufunc("divmod", lambda x, y: (_floor_divide(x, y), _remainder(x, y)), PROMOTION, unsigned=divmod_of_uint64)
power = ufunc(
    "power pow", _power,
    f"{OF_COMPLEX} bool-power-is-int64 power-of-bools integer-negative-powers half-power-is-sqrt scalar-left-operand",
    unsigned=power_of_uint64,
)  # fmt: skip
ufunc(
    "float_power", lambda x, y: _complex_power(x, y) if x.is_complex() else torch.pow(x, y), f"{OF_COMPLEX} {TO_FLOAT}"
)
negative = ufunc("negative", lambda x: torch.neg(x), "negative-strided")
ufunc("positive", torch.clone, "positive-is-self")


def _absolute(x: Tensor) -> Tensor:
    return x.clone() if _of_bool(x) else torch.abs(x)


def _sign(x: Tensor) -> Tensor:
    if x.is_complex():
        size = torch.abs(x)
        return torch.where(size == 0, torch.zeros_like(x), x / size)
    return torch.where(torch.isnan(x), x, torch.sign(x)) if x.is_floating_point() else torch.sign(x)


def _reciprocal(x: Tensor) -> Tensor:
    if x.is_complex():
        return _complex_reciprocal(x)
    if not _is_int(x):
        return torch.reciprocal(x)
    smallest = torch.full_like(x, torch.iinfo(x.dtype).min if x.dtype in (torch.int32, torch.int64) else 0)
    return torch.where(x == 0, smallest, torch.where(torch.abs(x) == 1, x, torch.zeros_like(x)))


def _complex_reciprocal(x: Tensor) -> Tensor:
    """Compute 1/x with Smith's algorithm, by the ratio of the smaller part to the larger; 1/0 is nan in both parts."""
    a, b = x.real, x.imag
    flat = torch.abs(b) <= torch.abs(a)
    ratio = torch.where(flat, b / a, a / b)
    size = torch.where(flat, a + b * ratio, a * ratio + b)
    return torch.complex(torch.where(flat, 1 / size, ratio / size), torch.where(flat, -ratio / size, -1 / size))


def _rint(x: Tensor) -> Tensor:
    return torch.complex(torch.round(x.real), torch.round(x.imag)) if x.is_complex() else torch.round(x)


def _kept_bool(function: Callable) -> Callable:
    """Return a rounding function that leaves bools and integers unchanged."""
    return lambda x: x.clone() if _is_int(x) else function(x)


absolute = ufunc("absolute abs", _absolute, "missing-kernel", unsigned=torch.clone)
ufunc("fabs", torch.abs, f"{TO_FLOAT}")
ufunc("sign", _sign, "sign-of-nan sign-of-bool", unsigned=lambda x: (x != 0).to(torch.int64))
ufunc("signbit", torch.signbit, TO_FLOAT)
ufunc("copysign", torch.copysign, PROMOTION)
ufunc("square", lambda x: _multiply(x, x))
reciprocal = ufunc(
    "reciprocal",
    _reciprocal,
    "reciprocal-of-integers reciprocal-of-complex-zero complex-zero-sign",
    unsigned=lambda x: (x == 1).to(torch.int64),
)
ufunc("floor", _kept_bool(torch.floor), "no-bool-rounding")
ufunc("ceil", _kept_bool(torch.ceil), "no-bool-rounding")
ufunc("trunc", _kept_bool(torch.trunc), "no-bool-rounding")
rint = ufunc("rint", _rint, f"{TO_FLOAT} no-bool-rounding")

# ---------------------------------------------------------------- exponentials and logarithms


def _logaddexp2(x: Tensor, y: Tensor) -> Tensor:
    """Compute logaddexp2 with log1p; torch's takes the log2 of 1 plus a small number, which is less exact."""
    larger, smaller = torch.maximum(x, y), torch.minimum(x, y)
    found = larger + torch.log1p(torch.exp2(smaller - larger)) / _LOG2
    return torch.where(x == y, x + 1, found)


exp = ufunc("exp", torch.exp, TO_FLOAT)
ufunc("exp2", torch.exp2, TO_FLOAT)
ufunc("expm1", torch.expm1, TO_FLOAT)
log = ufunc("log", torch.log, TO_FLOAT)
ufunc("log2", torch.log2, TO_FLOAT)
ufunc("log10", torch.log10, TO_FLOAT)
ufunc("log1p", torch.log1p, TO_FLOAT)
ufunc("logaddexp", torch.logaddexp, f"{PROMOTION} {TO_FLOAT} logaddexp-of-complex float-functions-refuse-integers")
ufunc("logaddexp2", _logaddexp2, f"{PROMOTION} {TO_FLOAT} float-functions-refuse-integers")
sqrt = ufunc("sqrt", torch.sqrt, TO_FLOAT)
ufunc("cbrt", lambda x: torch.copysign(torch.pow(torch.abs(x), 1 / 3), x), TO_FLOAT)

# ---------------------------------------------------------------- angles

sin = ufunc("sin", torch.sin, TO_FLOAT)
cos = ufunc("cos", torch.cos, TO_FLOAT)
ufunc("tan", torch.tan, TO_FLOAT)
ufunc("sinh", torch.sinh, TO_FLOAT)
ufunc("cosh", _in_double(torch.cosh), f"{TO_FLOAT} early-overflow")
ufunc("tanh", torch.tanh, TO_FLOAT)
ufunc("arcsin asin", torch.asin, TO_FLOAT)
ufunc("arccos acos", torch.acos, TO_FLOAT)
ufunc("arctan atan", torch.atan, TO_FLOAT)
ufunc("arcsinh asinh", torch.asinh, TO_FLOAT)
ufunc("arccosh acosh", torch.acosh, TO_FLOAT)
ufunc("arctanh atanh", torch.atanh, TO_FLOAT)
arctan2 = ufunc("arctan2 atan2", torch.atan2, f"{PROMOTION} {TO_FLOAT}")
ufunc("hypot", torch.hypot, f"{PROMOTION} {TO_FLOAT} float-functions-refuse-integers")
ufunc("deg2rad", lambda x: x * (math.pi / 180), TO_FLOAT)
ufunc("radians", lambda x: x * (math.pi / 180), TO_FLOAT)
ufunc("rad2deg", lambda x: x * (180 / math.pi), TO_FLOAT)
ufunc("degrees", lambda x: x * (180 / math.pi), TO_FLOAT)

# ---------------------------------------------------------------- tests of values, logic


def _of_floats(function: Callable, otherwise: bool) -> Callable:
    """Return a test of floats such as isnan; for integers, ``otherwise`` is the result."""
    return lambda x: torch.full_like(x, otherwise, dtype=torch.bool) if _is_int(x) else function(x)


def _truth(x: Tensor) -> Tensor:
    return x if _of_bool(x) else x != 0


def _logical(function: Callable) -> Callable:
    return lambda *x: function(*map(_truth, x))


ufunc("isnan", _of_floats(torch.isnan, False), "predicate-strided")
ufunc("isinf", _of_floats(torch.isinf, False), "predicate-strided")
ufunc("isfinite", _of_floats(torch.isfinite, True), "predicate-strided")
ufunc("logical_and", _logical(torch.logical_and), "uint8-truth", reduce=_all)
ufunc("logical_or", _logical(torch.logical_or), "uint8-truth", reduce=_any)
ufunc("logical_xor", _logical(torch.logical_xor), "uint8-truth")
logical_not = ufunc("logical_not", _logical(torch.logical_not))

# ---------------------------------------------------------------- bits and integers


def _shifted(function: Callable, left: bool) -> Callable:
    """Return a shift that gives 0 (or the sign, to the right) if the number of bits is negative or too large."""

    def shift(x: Tensor, y: Tensor) -> Tensor:
        bits = torch.iinfo(x.dtype).bits
        beyond = (y < 0) | (y >= bits)
        found = function(x, torch.where(beyond, torch.zeros_like(y), y))
        rest = torch.zeros_like(x) if left else torch.where(x < 0, torch.full_like(x, -1), torch.zeros_like(x))
        if x.dtype == torch.uint8 and not left:
            rest = torch.zeros_like(x)
        return torch.where(beyond, rest, found)

    return shift


def _gcd(x: Tensor, y: Tensor) -> Tensor:
    """Return the gcd of absolute values. -2**63 has no absolute value in int64; its divisors are powers of two."""
    smallest = torch.iinfo(torch.int64).min
    a, b = torch.broadcast_tensors(x.to(torch.int64), y.to(torch.int64))
    small_a, small_b = a == smallest, b == smallest
    one = torch.ones_like(a)
    found = torch.abs(torch.gcd(torch.where(small_a, one, a), torch.where(small_b, one, b)))
    other = torch.where(small_a, b, a)
    power_of_two = torch.where(other == 0, torch.full_like(a, smallest), torch.bitwise_and(other, -other))
    return torch.where(small_a | small_b, power_of_two, found).to(x.dtype)


def _lcm(x: Tensor, y: Tensor) -> Tensor:
    divisor = _gcd(x, y)
    return _floor_divide(torch.abs(x), torch.abs(divisor)) * torch.abs(y)


ufunc("bitwise_and", torch.bitwise_and, PROMOTION)
ufunc("bitwise_or", torch.bitwise_or, PROMOTION)
ufunc("bitwise_xor", torch.bitwise_xor, PROMOTION)
invert = ufunc("invert bitwise_not bitwise_invert", torch.bitwise_not)
ufunc("left_shift bitwise_left_shift", _shifted(torch.bitwise_left_shift, True), PROMOTION)
ufunc(
    "right_shift bitwise_right_shift", _shifted(torch.bitwise_right_shift, False), PROMOTION, unsigned=shift_of_uint64
)
ufunc("gcd", _gcd, f"{PROMOTION} gcd-of-smallest", unsigned=gcd_of_uint64)
ufunc("lcm", _lcm, PROMOTION, unsigned=lcm_of_uint64)


def _bit_count(x: Tensor) -> Tensor:
    """Return the number of set bits of the absolute value, as NumPy does."""
    return x.to(torch.uint8) if _of_bool(x) else _set_bits(torch.abs(x), torch.iinfo(x.dtype).bits)


def _set_bits(x: Tensor, bits: int) -> Tensor:
    ones = (torch.bitwise_and(torch.bitwise_right_shift(x, i), 1) for i in range(bits))
    return sum(ones, torch.zeros_like(x)).to(torch.uint8)


ufunc("bitwise_count", _bit_count, unsigned=lambda x: _set_bits(x, 64))

# ---------------------------------------------------------------- parts of floats


def _frexp(x: Tensor) -> tuple[Tensor, Tensor]:
    mantissa, exponent = torch.frexp(x)
    return mantissa, torch.where(torch.isfinite(x), exponent, torch.zeros_like(exponent))


def _modf(x: Tensor) -> tuple[Tensor, Tensor]:
    whole = torch.trunc(x)
    part = torch.where(torch.isinf(x), torch.zeros_like(x), x - whole)
    return torch.copysign(part, x), whole


def _heaviside(x: Tensor, y: Tensor) -> Tensor:
    found = torch.where(x == 0, y, (x > 0).to(x.dtype))
    return torch.where(torch.isnan(x), x, found)


def _ldexp(x: Tensor, exponent: Tensor) -> Tensor:
    """Compute x * 2**exponent in four steps, because one power of two might overflow although the product does not."""
    whole = torch.clamp(exponent.double(), -4000, 4000)
    half = torch.floor(whole / 2)
    quarter = torch.floor(half / 2)
    wide = x.double()
    for step in (
        quarter,
        half - quarter,
        torch.floor((whole - half) / 2),
        whole - half - torch.floor((whole - half) / 2),
    ):
        wide = wide * torch.exp2(step)
    return wide.to(x.dtype)


def _nextafter(x: Tensor, y: Tensor) -> Tensor:
    """Call torch's nextafter; for half types, add or subtract 1 from the integer with the same bits."""
    if x.dtype not in HALVES:
        return torch.nextafter(x, y)
    x, y = torch.broadcast_tensors(x, y)
    away = (y > x) == (x > 0)
    step = (x.contiguous().view(torch.int16) + torch.where(away, 1, -1).to(torch.int16)).view(x.dtype)
    least = torch.copysign(torch.ones_like(x, dtype=torch.int16).view(x.dtype), y)
    found = torch.where(x == 0, least, step)
    return torch.where(torch.isnan(x) | torch.isnan(y), x + y, torch.where(x == y, y, found))


def _spacing(x: Tensor) -> Tensor:
    if x.dtype in HALVES:  # for negative halves too, NumPy's step is towards infinity
        step = _nextafter(x, torch.full_like(x, math.inf)) - x
        return torch.where(torch.isinf(x), torch.full_like(x, math.nan), step)
    to_next = torch.nextafter(x, torch.copysign(torch.full_like(x, math.inf), x)) - x
    return torch.where(torch.isinf(x), torch.full_like(x, math.nan), to_next)


ufunc("frexp", _frexp)
ufunc("modf", _modf)
ufunc("ldexp", _ldexp, "ldexp-of-floats")
ufunc("heaviside", _heaviside, f"{PROMOTION} heaviside-of-nan heaviside-of-integers no-mixed-dtypes")
ufunc("nextafter", _nextafter, PROMOTION, halves=True)
ufunc("spacing", _spacing, halves=True)


def _conjugate(x: Tensor) -> Tensor:
    return torch.conj_physical(x) if x.is_complex() else x.clone()


conjugate = ufunc("conjugate conj", _conjugate, "conj-of-bool conj-of-real")
UFUNCS: dict[str, Any] = {name: r.function for name, r in TABLE.items()}
