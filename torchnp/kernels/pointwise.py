"""Functions of one tensor, element by element: exponentials, logarithms, trigonometry, rounding, signs."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from torchnp import dtypes as dt
from torchnp.checks import require
from torchnp.kernels._elementwise import (
    ALL,
    ANY_COMPLEX,
    BOOL,
    COMPLEX,
    FLOATS,
    INTS,
    NUMBERS,
    UNSIGNED,
    always_bool,
    bool_to_int,
    complex_to_real,
    complex_to_real_float,
    int_to_float,
    unary,
)
from torchnp.registry import kernel
from torchnp.scalars import number

ndarray = np.ndarray
FLOAT = ("int-to-default-float",)  # the difference of every float function of integers
COPIES = INTS | UNSIGNED | FLOATS

# ---------------------------------------------------------------- exponentials and logarithms

exp = unary("exp", np.exp, int_to_float, cpu="exp_vml_cpu", differs=FLOAT)
unary("exp2 special_exp2", np.exp2, int_to_float, cpu="exp2", differs=FLOAT)
unary("expm1 special_expm1", np.expm1, int_to_float, cpu="expm1_vml_cpu", differs=FLOAT)
log = unary("log", np.log, int_to_float, cpu="log_vml_cpu", differs=FLOAT)
unary("log10", np.log10, int_to_float, cpu="log10_vml_cpu", differs=FLOAT)
log1p = unary("log1p special_log1p", np.log1p, int_to_float, cpu="log1p_vml_cpu", differs=FLOAT)
unary("log2", np.log2, int_to_float, cpu="log2_vml_cpu", differs=FLOAT)
sqrt = unary("sqrt", np.sqrt, int_to_float, cpu="sqrt_vml_cpu", differs=FLOAT)
unary("rsqrt", lambda x: np.divide(1, np.sqrt(x), dtype=x.dtype), int_to_float, cpu="rsqrt_cpu", differs=FLOAT)


def _reciprocal(x: ndarray) -> ndarray:
    return np.divide(1, x, dtype=x.dtype)


reciprocal = unary(
    "reciprocal",
    _reciprocal,
    int_to_float,
    cpu="reciprocal_cpu",
    like=np.reciprocal,
    differs=["reciprocal-of-integers", "reciprocal-of-complex-zero"],
)

# ---------------------------------------------------------------- trigonometry

unary("sin", np.sin, int_to_float, cpu="sin_vml_cpu", differs=FLOAT)
cos = unary("cos", np.cos, int_to_float, cpu="cos_vml_cpu", differs=FLOAT)
unary("tan", np.tan, int_to_float, cpu="tan_vml_cpu", differs=FLOAT)
unary("asin arcsin", np.arcsin, int_to_float, cpu="asin_vml_cpu", differs=FLOAT)


def _acos(z: ndarray) -> ndarray:
    """Of complex128 torch goes by the arc sine, so that the sign of a zero imaginary part is lost."""
    return np.pi / 2 - np.arcsin(z) if z.dtype == dt.complex128 else np.arccos(z)


unary("acos arccos", np.arccos, int_to_float, cpu="acos_vml_cpu", complex=_acos, differs=FLOAT)
unary("atan arctan", np.arctan, int_to_float, cpu="atan_vml_cpu", differs=FLOAT)
unary("sinh", np.sinh, int_to_float, cpu="sinh_cpu", differs=FLOAT)
unary("cosh", np.cosh, int_to_float, cpu="cosh_cpu", differs=FLOAT)
unary("tanh", np.tanh, int_to_float, cpu="tanh_vml_cpu", differs=FLOAT)
unary("asinh arcsinh", np.arcsinh, int_to_float, cpu="asinh_cpu", differs=FLOAT)
unary("acosh arccosh", np.arccosh, int_to_float, cpu="acosh_cpu", differs=FLOAT)
unary("atanh arctanh", np.arctanh, int_to_float, cpu="atanh_cpu", differs=FLOAT)


def _sinc(x: ndarray) -> ndarray:
    y = x * x.dtype.type(np.pi)
    return np.where(x == 0, x.dtype.type(1), np.sin(y) / y)


unary("sinc special_sinc", _sinc, int_to_float, cpu="sinc_cpu", like=np.sinc, differs=["int-to-default-float"])


def _scale(factor: float) -> Any:
    return lambda x: x * number(factor, x.dtype)


def _no_complex(words: str) -> list[tuple]:
    return [(ANY_COMPLEX, RuntimeError, words)]


unary(
    "deg2rad",
    _scale(np.pi / 180),
    int_to_float,
    cpu="mul_cpu_reduced_float",
    refuses=_no_complex("deg2rad is not supported for complex tensors."),
    like=np.deg2rad,
    differs=FLOAT,
)
unary(
    "rad2deg",
    _scale(180 / np.pi),
    int_to_float,
    cpu="mul_cpu_reduced_float",
    refuses=_no_complex("rad2deg is not supported for complex tensors."),
    like=np.rad2deg,
    differs=FLOAT,
)

# ---------------------------------------------------------------- rounding


def _rounding(name: str) -> dict[str, Any]:
    words = f"{name} is not supported for complex inputs"
    return {
        "cpu": f"{name}_vml_cpu",
        "takes": COPIES,
        "refuses": [(ANY_COMPLEX, NotImplementedError, words)],
        "integer": np.positive,
        "differs": ["no-bool-rounding"],
    }


unary("ceil", np.ceil, **_rounding("ceil"))
unary("floor", np.floor, **_rounding("floor"))
unary("trunc fix", np.trunc, **_rounding("trunc"))
unary("round", np.rint, cpu="round_vml_cpu", takes=COPIES, integer=np.positive, like=np.round)
unary("frac", lambda x: x - np.trunc(x), cpu="frac_cpu", takes=FLOATS)


@kernel("round.decimals", like=np.round, differs=["round-decimals-of-integers"])
def round_decimals(self: ndarray, *, decimals: int) -> ndarray:
    """Round half to even at a number of decimals, which may be negative."""
    require("round_cpu" if decimals else "round_vml_cpu", self.dtype, FLOATS)
    x = dt.cast(self, dt.opmath(self.dtype))
    ten = number(10.0 ** max(decimals, -decimals), x.dtype)
    rounded = np.rint(x * ten) / ten if decimals > 0 else np.rint(x / ten) * ten
    return dt.cast(np.asarray(rounded), self.dtype)


@kernel("special_round", like=np.round, differs=["round-decimals-of-integers"])
def special_round(self: ndarray, *, decimals: int = 0) -> ndarray:
    """`round.decimals`."""
    return round_decimals(self, decimals=decimals)


# ---------------------------------------------------------------- sign and magnitude


def _sign(x: ndarray) -> ndarray:
    """torch: (0 < x) - (x < 0), so that nan gives 0 and -0.0 gives 0.0."""
    return np.subtract(x > 0, x < 0, dtype=np.int8).astype(x.dtype)


def _sgn(z: ndarray) -> ndarray:
    size = np.abs(z)
    return np.where(size == 0, z.dtype.type(0), z / np.asarray(size, z.dtype))


def _angle(x: ndarray) -> ndarray:
    """0 or pi by sign; -0.0 counts as positive and nan stays."""
    return np.where(np.isnan(x), x, np.where(x < 0, x.dtype.type(np.pi), x.dtype.type(0)))


def copied(x: ndarray) -> ndarray:
    """The same values in memory of their own, in the same layout."""
    return x.copy(order="K")


_SIGNED = {"cpu": "sign_cpu", "bool": copied, "integer": np.sign}

abs = unary("abs absolute", np.abs, complex_to_real, cpu="abs_cpu", takes=NUMBERS | frozenset(dt.FLOAT8S[:4]))
neg = unary(
    "neg negative",
    np.negative,
    differs=["negative-strided"],
    cpu="neg_cpu",
    takes=NUMBERS,
    refuses=[
        (
            BOOL,
            RuntimeError,
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, "
            "use the `~` or `logical_not()` operator instead.",
        )
    ],
)
sign = unary(
    "sign",
    _sign,
    takes=INTS | FLOATS | BOOL,
    refuses=[
        (
            ANY_COMPLEX,
            NotImplementedError,
            "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead.",
        )
    ],
    like=np.sign,
    differs=["sign-of-nan", "sign-of-bool"],
    **_SIGNED,
)
unary(
    "sgn", _sign, takes=NUMBERS | BOOL, complex=_sgn, like=np.sign, differs=["sign-of-nan", "sign-of-bool"], **_SIGNED
)
unary(
    "signbit",
    np.signbit,
    always_bool,
    cpu="signbit_cpu",
    takes=BOOL | COPIES,
    refuses=[(ANY_COMPLEX, NotImplementedError, "signbit is not implemented for complex tensors.")],
    integer=lambda x: x < 0,
    bool=np.zeros_like,
)
unary(
    "angle",
    _angle,
    complex_to_real_float,
    cpu="angle_cpu",
    complex=lambda z: np.arctan2(z.imag, z.real),
    like=np.angle,
    differs=["angle-of-negative-zero", "int-to-default-float"],
)
unary("square", np.square, bool_to_int, cpu="pow", takes=INTS | FLOATS | COMPLEX, differs=["bool-power-is-int64"])
unary("_conj_physical", np.conjugate, cpu="conj_cpu", takes=NUMBERS | BOOL, bool=copied)


@kernel("conj_physical", like=np.conjugate)
def conj_physical(self: ndarray) -> ndarray:
    """The conjugate; a real tensor is returned itself."""
    if not dt.is_complex(self.dtype):
        return self
    return dt.cast(np.conjugate(dt.cast(self, dt.opmath(self.dtype))), self.dtype)


# ---------------------------------------------------------------- predicates

_FINITE = BOOL | INTS | UNSIGNED | FLOATS | ANY_COMPLEX | {dt.float8_e5m2}
_nowhere = np.zeros_like


def _no_complex_infinity(name: str) -> dict[str, Any]:
    return {
        "cpu": f"{name}_cpu",
        "takes": BOOL | INTS | UNSIGNED | FLOATS,
        "refuses": _no_complex(f"{name} does not support complex inputs."),
        "integer": lambda x: np.zeros_like(x, np.bool_),
        "bool": _nowhere,
    }


unary("isnan", np.isnan, always_bool, differs=["predicate-strided"], takes=ALL)
unary("isinf", np.isinf, always_bool, cpu="isinf", takes=_FINITE)
unary("isfinite", np.isfinite, always_bool, cpu="isfinite", takes=_FINITE | {dt.float8_e8m0fnu})
unary("isposinf", lambda x: x == np.inf, always_bool, like=np.isposinf, **_no_complex_infinity("isposinf"))
unary("isneginf", lambda x: x == -np.inf, always_bool, like=np.isneginf, **_no_complex_infinity("isneginf"))
unary(
    "isreal",
    lambda x: np.ones_like(x, np.bool_),
    always_bool,
    takes=ALL,
    complex=lambda z: z.imag == 0,
    like=np.isreal,
)
unary("logical_not", np.logical_not, always_bool, cpu="logical_not_cpu", takes=BOOL | INTS | FLOATS | COMPLEX)

# ---------------------------------------------------------------- nan_to_num


@kernel("nan_to_num", like=np.nan_to_num, differs=["nan-to-num-fills"])
def nan_to_num(self, nan=None, posinf=None, neginf=None):
    """Replace nan by 0, the infinities by the largest finite numbers, or each by the number given."""
    dtype = self.dtype
    if not dt.is_inexact(dtype):
        return self.copy(order="K")
    require("nan_to_num", dtype, FLOATS | COMPLEX)
    real = dt.to_real(dtype)
    largest = float(ml_dtypes.finfo(real).max)
    given = (0.0 if nan is None else nan, largest if posinf is None else posinf, -largest if neginf is None else neginf)
    fill_nan, fill_pos, fill_neg = (dt.cast(number(float(v), real), dt.opmath(real)) for v in given)

    def fill(x: ndarray) -> ndarray:
        return np.where(np.isnan(x), fill_nan, np.where(x == np.inf, fill_pos, np.where(x == -np.inf, fill_neg, x)))

    if dt.is_complex(dtype):
        out = np.empty_like(self)
        out.real, out.imag = fill(self.real), fill(self.imag)
        return out
    return dt.cast(np.asarray(fill(dt.cast(self, dt.opmath(dtype)))), dtype)
