"""Functions of one tensor, element by element: exponentials, logarithms, trigonometry, rounding, signs."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from torchnp import dtypes as dt
from torchnp.checks import require
from torchnp.errors import not_implemented
from torchnp.kernels import _elementwise as el
from torchnp.kernels._rows import rows
from torchnp.registry import kernel
from torchnp.scalars import number
from torchnp.writes import Bound, Writes

ndarray = np.ndarray
FLOAT = ("int-to-default-float",)  # the difference of every float function of integers
COPIES = el.INTS | el.UNSIGNED | el.FLOATS

# ---------------------------------------------------------------- exponentials and logarithms

exp = el.unary("exp", np.exp, el.int_to_float, cpu="exp_vml_cpu", differs=FLOAT)
el.unary("exp2 special_exp2", np.exp2, el.int_to_float, cpu="exp2", differs=FLOAT)
el.unary("expm1 special_expm1", np.expm1, el.int_to_float, cpu="expm1_vml_cpu", differs=FLOAT)
log = el.unary("log", np.log, el.int_to_float, cpu="log_vml_cpu", differs=FLOAT)
el.unary("log10", np.log10, el.int_to_float, cpu="log10_vml_cpu", differs=FLOAT)
log1p = el.unary("log1p special_log1p", np.log1p, el.int_to_float, cpu="log1p_vml_cpu", differs=FLOAT)
el.unary("log2", np.log2, el.int_to_float, cpu="log2_vml_cpu", differs=FLOAT)
sqrt = el.unary("sqrt", np.sqrt, el.int_to_float, cpu="sqrt_vml_cpu", differs=FLOAT)
el.unary("rsqrt", lambda x: np.divide(1, np.sqrt(x), dtype=x.dtype), el.int_to_float, cpu="rsqrt_cpu", differs=FLOAT)


reciprocal = el.unary(
    "reciprocal", lambda x: np.divide(1, x, dtype=x.dtype), el.int_to_float, cpu="reciprocal_cpu", like=np.reciprocal,
    differs=["reciprocal-of-integers", "reciprocal-of-complex-zero"],
)  # fmt: skip

# ---------------------------------------------------------------- trigonometry

el.unary("sin", np.sin, el.int_to_float, cpu="sin_vml_cpu", differs=FLOAT)
cos = el.unary("cos", np.cos, el.int_to_float, cpu="cos_vml_cpu", differs=FLOAT)
el.unary("tan", np.tan, el.int_to_float, cpu="tan_vml_cpu", differs=FLOAT)
el.unary("asin arcsin", np.arcsin, el.int_to_float, cpu="asin_vml_cpu", differs=FLOAT)


def _acos(z: ndarray) -> ndarray:
    """Of complex128 torch goes by the arc sine, so that the sign of a zero imaginary part is lost."""
    return np.pi / 2 - np.arcsin(z) if z.dtype == dt.complex128 else np.arccos(z)


el.unary("acos arccos", np.arccos, el.int_to_float, cpu="acos_vml_cpu", complex=_acos, differs=FLOAT)
el.unary("atan arctan", np.arctan, el.int_to_float, cpu="atan_vml_cpu", differs=FLOAT)
el.unary("sinh", np.sinh, el.int_to_float, cpu="sinh_cpu", differs=FLOAT)
el.unary("cosh", np.cosh, el.int_to_float, cpu="cosh_cpu", differs=FLOAT)
el.unary("tanh", np.tanh, el.int_to_float, cpu="tanh_vml_cpu", differs=FLOAT)
el.unary("asinh arcsinh", np.arcsinh, el.int_to_float, cpu="asinh_cpu", differs=FLOAT)
el.unary("acosh arccosh", np.arccosh, el.int_to_float, cpu="acosh_cpu", differs=FLOAT)
el.unary("atanh arctanh", np.arctanh, el.int_to_float, cpu="atanh_cpu", differs=FLOAT)


def _sinc(x: ndarray) -> ndarray:
    y = x * x.dtype.type(np.pi)
    return np.where(x == 0, x.dtype.type(1), np.sin(y) / y)


el.unary("sinc special_sinc", _sinc, el.int_to_float, cpu="sinc_cpu", like=np.sinc, differs=["int-to-default-float"])


def _no_complex(words: str) -> list[tuple]:
    return [(el.ANY_COMPLEX, RuntimeError, words)]


for _name, _like, _factor in (("deg2rad", np.deg2rad, np.pi / 180), ("rad2deg", np.rad2deg, 180 / np.pi)):
    el.unary(
        _name, lambda x, factor=_factor: x * number(factor, x.dtype), el.int_to_float, cpu="mul_cpu_reduced_float",
        refuses=_no_complex(f"{_name} is not supported for complex tensors."), like=_like, differs=FLOAT,
    )  # fmt: skip

# ---------------------------------------------------------------- rounding


def _rounding(name: str) -> dict[str, Any]:
    words = f"{name} is not supported for complex inputs"
    return {
        "cpu": f"{name}_vml_cpu",
        "takes": COPIES,
        "refuses": [(el.ANY_COMPLEX, NotImplementedError, words)],
        "integer": np.positive,
        "differs": ["no-bool-rounding"],
    }


el.unary("ceil", np.ceil, **_rounding("ceil"))
el.unary("floor", np.floor, **_rounding("floor"))
el.unary("trunc fix", np.trunc, **_rounding("trunc"))
el.unary("round", np.rint, cpu="round_vml_cpu", takes=COPIES, integer=np.positive, like=np.round)
el.unary("frac", lambda x: x - np.trunc(x), cpu="frac_cpu", takes=el.FLOATS)


def _round_decimals(self, decimals):
    require("round_cpu" if decimals else "round_vml_cpu", self.dtype, el.FLOATS)
    x = dt.cast(self, dt.opmath(self.dtype))
    ten = number(10.0 ** max(decimals, -decimals), x.dtype)
    rounded = np.rint(x * ten) / ten if decimals > 0 else np.rint(x / ten) * ten
    return dt.cast(np.asarray(rounded), self.dtype)


_DOC = "Round half to even at a number of decimals, which may be negative."
rows("round.decimals special_round", _round_decimals, _DOC, like=np.round, differs=["round-decimals-of-integers"])

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


_SIGNED: dict[str, Any] = {"cpu": "sign_cpu", "bool": copied, "integer": np.sign}

abs = el.unary("abs absolute", np.abs, el.complex_to_real, cpu="abs_cpu", takes=el.NUMBERS | frozenset(dt.FLOAT8S[:4]))
_NEGATED_MASK = (
    "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, "
    "use the `~` or `logical_not()` operator instead."
)
neg = el.unary(
    "neg negative", np.negative, differs=["negative-strided"], cpu="neg_cpu", takes=el.NUMBERS,
    refuses=[(el.BOOL, RuntimeError, _NEGATED_MASK)],
)  # fmt: skip
_COMPLEX_SIGN = "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead."
sign = el.unary(
    "sign", _sign, takes=el.INTS | el.FLOATS | el.BOOL, refuses=[(el.ANY_COMPLEX, NotImplementedError, _COMPLEX_SIGN)],
    like=np.sign, differs=["sign-of-nan", "sign-of-bool"], **_SIGNED,
)  # fmt: skip
el.unary(
    "sgn", _sign, takes=el.NUMBERS | el.BOOL, complex=_sgn, like=np.sign, differs=["sign-of-nan", "sign-of-bool"],
    **_SIGNED,
)  # fmt: skip
el.unary(
    "signbit", np.signbit, el.always_bool, cpu="signbit_cpu", takes=el.BOOL | COPIES,
    refuses=[(el.ANY_COMPLEX, NotImplementedError, "signbit is not implemented for complex tensors.")],
    integer=lambda x: x < 0, bool=np.zeros_like,
)  # fmt: skip
el.unary(
    "angle", _angle, el.complex_to_real_float, cpu="angle_cpu", complex=lambda z: np.arctan2(z.imag, z.real),
    like=np.angle, differs=["angle-of-negative-zero", "int-to-default-float"],
)  # fmt: skip
el.unary(
    "square", np.square, el.bool_to_int, cpu="pow", takes=el.INTS | el.FLOATS | el.COMPLEX,
    differs=["bool-power-is-int64"],
)  # fmt: skip
el.unary("_conj_physical", np.conjugate, cpu="conj_cpu", takes=el.NUMBERS | el.BOOL, bool=copied)


def _look_conj(bound: Bound, outs: list[ndarray]) -> None:
    """Unlike the functional form this computes, of real dtypes too."""
    dtype = bound["self"].dtype
    if dtype == outs[0].dtype and dtype not in el.NUMBERS | el.BOOL | el.ANY_COMPLEX:
        raise not_implemented("conj_cpu", dtype)


@kernel("conj_physical", like=np.conjugate, writes=Writes(out=_look_conj))
def conj_physical(self: ndarray) -> ndarray:
    """The conjugate; a real tensor is returned itself."""
    if not dt.is_complex(self.dtype):
        return self
    return dt.cast(np.conjugate(dt.cast(self, dt.opmath(self.dtype))), self.dtype)


# ---------------------------------------------------------------- predicates

_FINITE = el.BOOL | el.INTS | el.UNSIGNED | el.FLOATS | el.ANY_COMPLEX | {dt.float8_e5m2}


def _no_complex_infinity(name: str) -> dict[str, Any]:
    return {
        "cpu": f"{name}_cpu",
        "takes": el.BOOL | el.INTS | el.UNSIGNED | el.FLOATS,
        "refuses": _no_complex(f"{name} does not support complex inputs."),
        "integer": lambda x: np.zeros_like(x, np.bool_),
        "bool": np.zeros_like,
    }


el.unary("isnan", np.isnan, el.always_bool, differs=["predicate-strided"], takes=el.ALL)
el.unary("isinf", np.isinf, el.always_bool, cpu="isinf", takes=_FINITE)
el.unary("isfinite", np.isfinite, el.always_bool, cpu="isfinite", takes=_FINITE | {dt.float8_e8m0fnu})
el.unary("isposinf", lambda x: x == np.inf, el.always_bool, like=np.isposinf, **_no_complex_infinity("isposinf"))
el.unary("isneginf", lambda x: x == -np.inf, el.always_bool, like=np.isneginf, **_no_complex_infinity("isneginf"))
el.unary(
    "isreal", lambda x: np.ones_like(x, np.bool_), el.always_bool, takes=el.ALL, complex=lambda z: z.imag == 0,
    like=np.isreal,
)  # fmt: skip
el.unary(
    "logical_not", np.logical_not, el.always_bool, cpu="logical_not_cpu",
    takes=el.BOOL | el.INTS | el.FLOATS | el.COMPLEX,
)  # fmt: skip


@kernel("nan_to_num", like=np.nan_to_num, differs=["nan-to-num-fills"])
def nan_to_num(self, nan=None, posinf=None, neginf=None):
    """Replace nan by 0, the infinities by the largest finite numbers, or each by the number given."""
    dtype = self.dtype
    if not dt.is_inexact(dtype):
        return self.copy(order="K")
    require("nan_to_num", dtype, el.FLOATS | el.COMPLEX)
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
