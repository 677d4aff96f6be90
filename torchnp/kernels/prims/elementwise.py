"""Elementwise prims of one or two arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, refuse
from torchnp.core.registry import REGISTERED, kernel
from torchnp.kernels._declare_rows import rows
from torchnp.kernels.power import pow_scalar
from torchnp.kernels.prims._portable import (
    NUMBER,
    Array,
    aten,
    check_alike,
    dtype_in,
    either,
    name_of,
    namespace,
    through_numpy,
)

ndarray = np.ndarray
Portable = Callable[..., Array]
_FLOAT = ["int-to-default-float"]
_OF_FLOATS = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "exp2", "expm1", "log", "log10", "log1p", "log2", "sin",
    "sinh", "sqrt", "tan", "tanh",
)  # fmt: skip
_UNARY: dict[str, list[str]] = {
    **dict.fromkeys(_OF_FLOATS, _FLOAT), **{name: ["no-bool-rounding"] for name in ("ceil", "floor", "round")},
    "abs": ["missing-kernel"], "sign": ["sign-of-bool", "missing-kernel"],
    "reciprocal": ["reciprocal-of-integers", "reciprocal-of-complex-zero", "complex-zero-sign"],
}  # fmt: skip
_BINARY: dict[str, list[str]] = {
    "remainder": ["integer-division-by-zero", "remainder-zero-sign", "no-bool-remainder"],
    "pow": ["integer-negative-powers", "power-of-bools"], "mul": ["number-wraps"], "maximum": ["missing-kernel"],
      "minimum": ["missing-kernel"],
    "shift_left": ["missing-kernel"], "shift_right_arithmetic": ["missing-kernel"],
    "hypot": ["float-functions-refuse-integers"], "nextafter": ["float-functions-refuse-integers"],
}  # fmt: skip

_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
# The aten overloads that take a number as the second operand, and as the first.
_OF_NUMBERS: dict[str, tuple[str, ...]] = {
    **{name: (f"{name}.Scalar",) for name in (*_COMPARISONS, "fmod")},
    **{name: (f"{name}.Scalar", f"{name}.Scalar_Tensor") for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "remainder")},
    "shift_left": ("bitwise_left_shift.Tensor_Scalar", "bitwise_left_shift.Scalar_Tensor"),
    "shift_right_arithmetic": ("bitwise_right_shift.Tensor_Scalar", "bitwise_right_shift.Scalar_Tensor"),
    "pow": ("pow.Tensor_Scalar", "pow.Scalar"), "zeta": ("special_zeta.other_scalar", "special_zeta.self_scalar"),
}  # fmt: skip


def _of_number(name: str, self: Array, other: Array) -> Any:
    """Apply a prim to an array and a number; return None for two arrays, or if torch accepts no number."""
    first = isinstance(self, NUMBER)
    number, array = (self, other) if first else (other, self)
    if not isinstance(number, NUMBER) or isinstance(array, NUMBER):
        return None
    if name in ("maximum", "minimum"):  # the number takes the array's dtype
        number = REGISTERED["prims::scalar_tensor"].body(number, dtype=dt.as_dtype(name_of(array.dtype)), device="cpu")
        overload = name
    elif len(overloads := _OF_NUMBERS.get(name, ())) > first:
        overload = overloads[first]
    else:
        return None
    return through_numpy(aten(overload), *((number, array) if first else (array, number)))


def unary(name: str, of: str | None = None, portable: str | Portable | None = None) -> None:
    """Declare a prim of one array: its aten op, and its array API function if the standard has one."""
    of, like = of or name, getattr(np, portable if isinstance(portable, str) else name, None)
    portable = portable or (lambda xp, x: through_numpy(aten(of), x))
    doc = f"Elementwise ``{name}`` in the dtype of the operand."
    rows(f"prims::{name}", either, doc, native=of, portable=portable, like=like, differs=_UNARY.get(name, ()))


def binary(name: str, of: str | None = None, portable: str | Portable | None = None) -> None:
    """Declare a prim of two arrays of one dtype and shape."""
    of = of or f"{name}.Tensor"
    arithmetic, compares = name in ("add", "sub", "mul"), name in _COMPARISONS
    numeric = compares or name in ("add", "mul", "maximum", "minimum", "fmax", "fmin")

    def body(self: Array, other: Array) -> Array:
        if (made := _of_number(name, self, other)) is not None:
            return made
        if isinstance(other, NUMBER) and arithmetic:
            if type(self) is ndarray or isinstance(self, NUMBER):
                return aten(of)(self, other)
            other = namespace(self).full((), other, dtype=self.dtype)
        elif arithmetic and isinstance(self, NUMBER):
            if type(other) is ndarray:
                return aten(of)(self, other)
            self = namespace(other).full((), self, dtype=other.dtype)
        check_alike(self, other)
        if type(self) is ndarray and type(other) is ndarray:
            return aten(of)(self, other)
        if portable is None:
            return through_numpy(aten(of), self, other)
        xp = namespace(self)
        f = getattr(xp, portable) if isinstance(portable, str) else partial(portable, xp)
        if numeric and xp.isdtype(self.dtype, "bool"):  # the standard has arithmetic and order for numbers only
            return xp.astype(f(xp.astype(self, xp.uint8), xp.astype(other, xp.uint8)), self.dtype)
        return f(self, other)

    body.__name__ = name
    body.__doc__ = f"Elementwise ``{name}`` of two operands of one dtype and shape."
    like = getattr(np, portable, None) if isinstance(portable, str) else None
    kernel(f"prims::{name}", like=like, differs=["prims-no-promotion", *_BINARY.get(name, ())])(body)


# ---------------------------------------------------------------- functions of the array API standard

for _name in (
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "exp", "expm1", "floor", "isfinite",
    "log", "log10", "log1p", "log2", "round", "sin", "sinh", "sqrt", "tan", "tanh", "trunc", "reciprocal",
):  # fmt: skip
    unary(_name, portable=_name)
unary("neg", portable="negative")
unary("bitwise_not", portable="bitwise_invert")

for _name, _portable in (
    ("add", "add"), ("sub", "subtract"), ("mul", "multiply"), ("eq", "equal"), ("ne", "not_equal"), ("lt", "less"),
    ("le", "less_equal"), ("gt", "greater"), ("ge", "greater_equal"), ("remainder", "remainder"),
    ("bitwise_and", "bitwise_and"), ("bitwise_or", "bitwise_or"), ("bitwise_xor", "bitwise_xor"),
):  # fmt: skip
    binary(_name, portable=_portable)
for _name in ("atan2", "hypot", "maximum", "minimum", "nextafter"):
    binary(_name, _name, _name)
binary("pow", "pow.Tensor_Tensor", "pow")
binary("shift_left", "bitwise_left_shift.Tensor", "bitwise_left_shift")
binary("shift_right_arithmetic", "bitwise_right_shift.Tensor", "bitwise_right_shift")

# ---------------------------------------------------------------- composed of functions of the standard


def _signbit(xp: Any, x: Array) -> Array:
    if xp.isdtype(x.dtype, "bool"):
        return xp.zeros_like(x)
    return xp.signbit(x) if xp.isdtype(x.dtype, "real floating") else x < 0


def _skip_nan(pick: str) -> Portable:
    """Return a function for the maximum or minimum that returns nan only if both operands are nan."""

    def run(xp: Any, a: Array, b: Array) -> Array:
        if not xp.isdtype(a.dtype, "real floating"):
            return getattr(xp, pick)(a, b)
        return xp.where(xp.isnan(a), b, xp.where(xp.isnan(b), a, getattr(xp, pick)(a, b)))

    return run


def _fmod(xp: Any, a: Array, b: Array) -> Array:
    r = xp.remainder(xp.abs(a), xp.abs(b))
    return xp.where(a < 0, -r, r)


unary("exp2", portable=lambda xp, x: xp.pow(xp.full_like(x, 2), x))
unary("rsqrt", portable=lambda xp, x: 1.0 / xp.sqrt(x))
unary("sign", portable=lambda xp, x: xp.asarray(x, copy=True) if xp.isdtype(x.dtype, "bool") else xp.sign(x))
unary("signbit", portable=_signbit)
binary("fmax", "fmax", _skip_nan("maximum"))
binary("fmin", "fmin", _skip_nan("minimum"))
binary("fmod", portable=_fmod)

for _name, _of in (
    ("bessel_i0", "i0"), ("bessel_i0e", "special_i0e"), ("bessel_i1", "special_i1"), ("bessel_i1e", "special_i1e"),
    ("bessel_j0", "special_bessel_j0"), ("bessel_j1", "special_bessel_j1"), ("digamma", "digamma"), ("erf", "erf"),
    ("erf_inv", "erfinv"), ("erfc", "erfc"), ("erfcx", "special_erfcx"), ("lgamma", "lgamma"),
    ("ndtri", "special_ndtri"), ("spherical_bessel_j0", "special_spherical_bessel_j0"),
):  # fmt: skip
    unary(_name, _of)
for _name, _of in (("gcd", "gcd"), ("igamma", "igamma"), ("igammac", "igammac"), ("zeta", "special_zeta")):
    binary(_name, _of)

# ---------------------------------------------------------------- prims written out as functions


@kernel("prims::div", like=np.divide, differs=["prims-integer-div", "prims-no-promotion", "integer-division-by-zero"])
def div(self: Array, other: Array) -> Array:
    """Quotient in the dtype of the operands; integers are divided toward zero."""
    if isinstance(self, NUMBER) or isinstance(other, NUMBER):
        whole = (
            isinstance(self, int)
            if isinstance(self, NUMBER)
            else dt.is_integral(dt.as_dtype(name_of(self.dtype).rpartition(".")[2]))
        )
        divide = partial(aten("div.Tensor_mode"), rounding_mode="trunc" if whole else None)
        both = isinstance(self, NUMBER) and isinstance(other, NUMBER)
        return divide(self, other) if both else through_numpy(divide, self, other)
    check_alike(self, other)
    if type(self) is ndarray:
        if dt.is_integral(self.dtype):
            return aten("div.Tensor_mode")(self, other, rounding_mode="trunc")
        return aten("div.Tensor")(self, other)
    xp = namespace(self)
    if not xp.isdtype(self.dtype, "integral"):
        return xp.divide(self, other)
    down = xp.floor_divide(self, other)
    inexact = down * other != self
    return xp.where(inexact & ((self < 0) != (other < 0)), down + xp.ones_like(down), down)


def _cbrt(x: ndarray) -> ndarray:
    check(not dt.is_complex(x.dtype), "cbrt: Complex inputs not supported. Consider calling torch.pow(a, 1.0/3.0)")
    refuse("abs_cpu", x.dtype, (dt.bool_, *dt.BARE_UNSIGNED))
    refuse("pow", x.dtype, dt.FLOAT8S)
    magnitude = pow_scalar(np.abs(x), 1 / 3)  # nan for the least integer, whose absolute value overflows
    return dt.cast(np.copysign(magnitude, dt.cast(x, magnitude.dtype)), magnitude.dtype)


def _conj_physical(x: ndarray) -> ndarray:
    check(dt.is_complex(x.dtype), "prims.conj_physical is only defined for complex dtypes")
    return aten("conj_physical")(x)


def _frexp(x: ndarray) -> tuple[ndarray, ndarray]:
    check(dt.is_floating(x.dtype), "torch.frexp() only supports floating-point dtypes")
    return aten("frexp.Tensor")(x)


def _converted(a: ndarray, dtype: Any) -> ndarray:
    converted = dt.cast(a, dt.as_dtype(dtype))
    return converted.copy("K") if np.may_share_memory(converted, a) else converted  # a real part is a view


def _astype(xp: Any, a: Array, dtype: Any) -> Array:
    if xp.isdtype(a.dtype, "complex floating") and not dt.is_complex(dt.as_dtype(dtype)):
        a = xp.real(a)
    return xp.astype(a, dtype_in(xp, dtype))


_DOC = "Elements of ``a`` where ``pred`` is true, else of ``b``."
_WHERE = {(False, True): "where.ScalarOther", (True, False): "where.ScalarSelf", (True, True): "where.Scalar"}


def _where(pred: Array, a: Array, b: Array) -> Array:
    overload = _WHERE.get((isinstance(a, NUMBER), isinstance(b, NUMBER)))
    if overload:
        return through_numpy(aten(overload), pred, a, b)
    check_alike(a, b, flags=(pred,))
    return either(pred, a, b, native="where.self", portable="where")


rows("prims::where", _where, _DOC, like=np.where)
for _name, _native, _of_others, _like, _doc in (
    ("prims::cbrt", _cbrt, lambda xp, x: xp.copysign(xp.abs(x) ** (1 / 3), x), np.cbrt, "Real cube root."),
    (
        "prims::fill",
        "fill.Scalar",
        "full_like",
        np.full_like,
        "An array of the same shape and dtype, filled with one number.",
    ),
    ("prims::conj_physical", _conj_physical, "conj", np.conj, "Complex conjugate, as a new array."),
    (
        "prims::frexp",
        _frexp,
        lambda xp, x: through_numpy(_frexp, x),
        np.frexp,
        "Mantissa in [0.5, 1) and exponent of two.",
    ),
    ("prims::convert_element_type", _converted, _astype, np.astype, "A copy in another dtype."),
):
    _differs = {
        "prims::cbrt": [*_FLOAT, "missing-kernel"],
        "prims::frexp": ["float-functions-refuse-integers"],
    }.get(_name, [])
    rows(_name, either, _doc, native=_native, portable=_of_others, like=_like, differs=_differs)
