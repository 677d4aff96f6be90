"""Functions of one tensor, element by element: exponentials, logarithms, trigonometry, rounding, signs."""

from __future__ import annotations

from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import require
from torchnp.core.errors import not_implemented
from torchnp.core.inplace_out_spec import Bound, WriteSpec
from torchnp.core.python_scalars import number
from torchnp.core.registry import kernel
from torchnp.core.target import since
from torchnp.kernels import _elementwise as el
from torchnp.kernels._declare_rows import rows
from torchnp.kernels.numerics.vector_tails import AVX512, vector_or_tail

ndarray = np.ndarray
FLOAT = ("int-to-default-float",)  # the declared difference of float functions: integers give the default float dtype
COPIES = el.INTS | el.UNSIGNED | el.FLOATS

# ---------------------------------------------------------------- functions of floats


def _log1p(z: ndarray) -> ndarray:
    """Compute complex log1p precisely for small numbers, as torch does and NumPy does not."""
    x, y = z.real.astype(np.float64), z.imag.astype(np.float64)
    size = x * (2 + x) + y * y  # abs(1 + z) ** 2 - 1
    small = np.where(size == 0, x, np.log1p(size) / 2)
    out = np.empty_like(z)
    out.real = np.where(np.hypot(x, y) < 0.5, small, np.log(np.hypot(x / 2 + 0.5, y / 2)) + np.log(2))
    out.imag = np.arctan2(y, x + 1)
    # If rounding makes (1 + z) - 1 differ from z, torch multiplies log(1 + z) by their quotient z / ((1 + z) - 1): for an
    # infinite imaginary part this is inf / inf.
    rounded = (z.real + 1) - 1 != z.real
    lost = np.isinf(y) & np.isfinite(x) & rounded
    # If rounding removed the real part, torch divides by the imaginary part, whose inverse may be infinite.
    lost |= (z.real + 1 == 1) & (x != 0) & (y != 0) & np.isinf(1 / z.imag)
    out[np.isnan(x) | np.isnan(y) | lost] = complex(np.nan, np.nan)
    return out


_of_floats = partial(el.unary, result=el.int_to_float, differs=FLOAT)
_LOG1P = (*FLOAT, "complex-infinities")
log1p = _of_floats("log1p special_log1p", np.log1p, cpu="log1p_vml_cpu", complex=_log1p, differs=_LOG1P)
exp = _of_floats("exp", np.exp, cpu="exp_vml_cpu")
log = _of_floats("log", np.log, cpu="log_vml_cpu")
sqrt = _of_floats("sqrt", np.sqrt, cpu="sqrt_vml_cpu")
cos = _of_floats("cos", np.cos, cpu="cos_vml_cpu")
tanh = _of_floats("tanh", np.tanh, cpu="tanh_vml_cpu")
_function: np.ufunc
for _names, _function in (
    ("expm1 special_expm1", np.expm1), ("log10", np.log10), ("log2", np.log2), ("sin", np.sin), ("tan", np.tan),
    ("asin arcsin", np.arcsin), ("atan arctan", np.arctan),
):  # fmt: skip
    _of_floats(_names, _function, cpu=f"{_names.split()[0]}_vml_cpu")
for _names, _function in (
    ("asinh arcsinh", np.arcsinh), ("acosh arccosh", np.arccosh), ("atanh arctanh", np.arctanh),
):  # fmt: skip
    _of_floats(_names, _function, cpu=f"{_names.split()[0]}_cpu")


def _early(x: ndarray, function: np.ufunc) -> ndarray:
    """Compute sinh or cosh like torch's vector code, which before torch 2.14 overflows early: it halves twice the value."""
    out = np.asarray(function(x))
    if since("2.14"):
        return out
    np.multiply(out, number(2.0, out.dtype), out)
    return np.multiply(out, number(0.5, out.dtype), out)


def _by_exp(x: ndarray, function: np.ufunc) -> ndarray:
    """Compute sinh or cosh, without early overflow for the elements that fill no vector (torch's scalar code)."""
    if x.size < 2 * AVX512.elements(x.dtype):
        return np.asarray(function(x))
    return vector_or_tail(_early(x, function), function, x, loop=AVX512)


for _names, _function in (("sinh", np.sinh), ("cosh", np.cosh)):
    _of_floats(
        _names, partial(_by_exp, function=_function), cpu=f"{_names}_cpu", like=_function, complex=_function,
        half=partial(_early, function=_function), half_tail=_function, tail_loop=AVX512,
        differs=[*FLOAT, "early-overflow"],
    )  # fmt: skip


def _acos(z: ndarray) -> ndarray:
    """Compute complex acos; for complex128 torch uses asin, which loses the sign of a zero imaginary part."""
    return np.pi / 2 - np.arcsin(z) if z.dtype == dt.complex128 else np.arccos(z)


def _sinc(x: ndarray) -> ndarray:
    y = x * x.dtype.type(np.pi)
    return np.where(x == 0, x.dtype.type(1), np.sin(y) / y)


_of_floats("acos arccos", np.arccos, cpu="acos_vml_cpu", complex=_acos, differs=[*FLOAT, "complex-zero-sign"])
_of_floats("exp2 special_exp2", np.exp2, cpu="exp2")
_of_floats("sinc special_sinc", _sinc, cpu="sinc_cpu", like=np.sinc, differs=[*FLOAT, "half-opmath"])
_rsqrt = lambda x: np.divide(x.dtype.type(1), np.sqrt(x))
_of_floats("rsqrt", _rsqrt, cpu="rsqrt_cpu", half_tail=_rsqrt)
reciprocal = _of_floats(
    "reciprocal", lambda x: np.divide(1, x, dtype=x.dtype), cpu="reciprocal_cpu", like=np.reciprocal,
    differs=["reciprocal-of-integers", "reciprocal-of-complex-zero", "complex-zero-sign"],
)  # fmt: skip


def _no_complex(words: str, error: type[Exception] = RuntimeError) -> el.Refusals:
    return [(el.ANY_COMPLEX, error, words)]


for _name, _like, _factor in (("deg2rad", np.deg2rad, np.pi / 180), ("rad2deg", np.rad2deg, 180 / np.pi)):
    _of_floats(
        _name, lambda x, factor=_factor: x * number(factor, x.dtype), cpu="mul_cpu_reduced_float",
        refuses=_no_complex(f"{_name} is not supported for complex tensors."), like=_like,
    )  # fmt: skip

# ---------------------------------------------------------------- rounding

_rounding = partial(el.unary, takes=COPIES, integer=np.positive)
for _names, _function in (("ceil", np.ceil), ("floor", np.floor), ("trunc fix", np.trunc)):
    _words = f"{_function.__name__} is not supported for complex inputs"
    _given: dict[str, Any] = {"refuses": _no_complex(_words, NotImplementedError), "differs": ["no-bool-rounding"]}
    _rounding(_names, _function, cpu=f"{_function.__name__}_vml_cpu", **_given)
round = _rounding("round", np.rint, cpu="round_vml_cpu", like=np.round, differs=["no-bool-rounding"])
el.unary("frac", lambda x: x - np.trunc(x), cpu="frac_cpu", takes=el.FLOATS)


def _round_decimals(self, decimals):
    require("round_cpu" if decimals else "round_vml_cpu", self.dtype, el.FLOATS)
    x = dt.cast(self, dt.opmath(self.dtype))
    ten = number(10.0 ** max(decimals, -decimals), x.dtype)
    rounded = np.rint(x * ten) / ten if decimals > 0 else np.rint(x / ten) * ten
    return dt.cast(np.asarray(rounded), self.dtype)


_DOC = "Round half to even at a number of decimals, which may be negative."
rows(
    "round.decimals special_round",
    _round_decimals,
    _DOC,
    like=np.round,
    differs=["round-decimals-of-integers", "missing-kernel"],
)

# ---------------------------------------------------------------- sign and magnitude


def _sign(x: ndarray) -> ndarray:
    """Return (0 < x) - (x < 0) as torch does, so that nan gives 0 and -0.0 gives 0.0."""
    return np.subtract(x > 0, x < 0, dtype=np.int8).astype(x.dtype)


def _sgn(z: ndarray) -> ndarray:
    """Compute the complex sign; torch's vector code divides each part, its scalar code divides complex numbers."""
    size = np.abs(z)
    out = np.empty_like(z)
    out.real, out.imag = z.real / size, z.imag / size
    return np.where(size == 0, z.dtype.type(0), vector_or_tail(out, _sgn_alone, z, loop=AVX512))


def _sgn_alone(z: ndarray) -> ndarray:
    size = np.hypot(z.real, z.imag)  # np.abs of complex64 may be off by one unit in the last place
    return np.where(size == 0, z.dtype.type(0), z / size.astype(z.dtype))


def _negative(z: ndarray) -> ndarray:
    """Negate complex numbers; torch's vector code subtracts from 0, which never gives -0."""
    return vector_or_tail(np.subtract(z.dtype.type(0), z), np.negative, z)


def _angle(x: ndarray) -> ndarray:
    """Return the angle of real numbers: pi if negative, 0 otherwise (also for -0.0), nan for nan."""
    out = np.asarray(np.multiply(x < 0, x.dtype.type(np.pi)))
    np.copyto(out, x, where=np.isnan(x))
    return out


def copied(x: ndarray) -> ndarray:
    """Copy a tensor, keeping its layout."""
    return x.copy(order="K")


abs = el.unary(
    "abs absolute",
    np.abs,
    el.complex_to_real,
    cpu="abs_cpu",
    takes=el.NUMBERS | frozenset(dt.FLOAT8S[:4]),
    differs=["missing-kernel"],
)
_NEGATED_MASK = (
    "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, "
    "use the `~` or `logical_not()` operator instead."
)
neg = el.unary(
    "neg negative", np.negative, differs=["negative-strided", "complex-zero-sign"], cpu="neg_cpu", takes=el.NUMBERS,
    refuses=[(el.BOOL, RuntimeError, _NEGATED_MASK)], complex=_negative, complex32=np.negative,
)  # fmt: skip
_COMPLEX_SIGN = "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead."
_signs = partial(
    el.unary, cpu="sign_cpu", takes=el.NUMBERS | el.BOOL, bool=copied, integer=np.sign, like=np.sign,
    differs=["sign-of-nan", "sign-of-bool"],
)  # fmt: skip
sign = _signs(
    "sign", _sign, refuses=_no_complex(_COMPLEX_SIGN, NotImplementedError),
    differs=["sign-of-nan", "sign-of-bool", "missing-kernel"],
)  # fmt: skip
_signs(
    "sgn", _sign, complex=_sgn, complex32=_sgn_alone,
    differs=["sign-of-nan", "sign-of-bool", "complex-infinities"],
)  # fmt: skip
el.unary(
    "signbit", np.signbit, el.always_bool, cpu="signbit_cpu", takes=el.BOOL | el.INTS | el.FLOATS,
    refuses=_no_complex("signbit is not implemented for complex tensors.", NotImplementedError),
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
el.unary(
    "_conj_physical", np.conjugate, cpu="conj_cpu", takes=el.NUMBERS | el.BOOL, bool=copied, differs=["conj-of-bool"]
)


def _precheck_conj(bound: Bound, outs: list[ndarray]) -> None:
    """Raise torch's error for dtypes that its kernel lacks: only ``out=`` runs the kernel for real dtypes, too."""
    dtype = bound["self"].dtype
    if dtype == outs[0].dtype and dtype not in el.NUMBERS | el.BOOL | el.ANY_COMPLEX:
        raise not_implemented("conj_cpu", dtype)


@kernel("conj_physical", like=np.conjugate, differs=["conj-of-real"], writes=WriteSpec(out=_precheck_conj))
def conj_physical(self: ndarray) -> ndarray:
    """The complex conjugate; a real tensor is returned unchanged."""
    if not dt.is_complex(self.dtype):
        return self
    return dt.cast(np.conjugate(dt.cast(self, dt.opmath(self.dtype))), self.dtype)


# ---------------------------------------------------------------- predicates

_FINITE = el.BOOL | el.INTS | el.UNSIGNED | el.FLOATS | el.ANY_COMPLEX | {dt.float8_e5m2}
el.unary("isnan", np.isnan, el.always_bool, differs=["predicate-strided"], takes=el.ALL)
el.unary("isinf", np.isinf, el.always_bool, cpu="isinf", takes=_FINITE)
el.unary("isfinite", np.isfinite, el.always_bool, cpu="isfinite", takes=_FINITE | {dt.float8_e8m0fnu})
for _name, _predicate, _infinity in (("isposinf", np.isposinf, np.inf), ("isneginf", np.isneginf, -np.inf)):
    el.unary(
        _name, lambda x, infinity=_infinity: x == infinity, el.always_bool, cpu=f"{_name}_cpu", takes=el.BOOL | COPIES,
        refuses=_no_complex(f"{_name} does not support complex inputs."), like=_predicate,
        integer=lambda x: np.zeros_like(x, np.bool_), bool=np.zeros_like,
    )  # fmt: skip
el.unary(
    "isreal", lambda x: np.ones_like(x, np.bool_), el.always_bool, takes=el.ALL, complex=lambda z: z.imag == 0,
    like=np.isreal,
)  # fmt: skip
_NEGATED = el.BOOL | el.INTS | el.FLOATS | el.COMPLEX
_precheck_negated = lambda bound, outs: require("logical_not_cpu", outs[0].dtype, _NEGATED)
logical_not = el.unary(
    "logical_not", np.logical_not, el.always_bool, cpu="logical_not_cpu", takes=_NEGATED,
    writes=WriteSpec(out=_precheck_negated),
)  # fmt: skip


@kernel("nan_to_num", like=np.nan_to_num, differs=["nan-to-num-fills"])
def nan_to_num(self, nan=None, posinf=None, neginf=None):
    """The tensor with nan replaced by ``nan`` (or 0), infinities by ``posinf`` and ``neginf`` (or finite limits)."""
    dtype = self.dtype
    if not dt.is_inexact(dtype):
        return self.copy(order="K")
    require("nan_to_num", dtype, el.FLOATS | el.COMPLEX)
    real = dt.to_real(dtype)
    largest = float(ml_dtypes.finfo(real).max)
    given = (0.0 if nan is None else nan, largest if posinf is None else posinf, -largest if neginf is None else neginf)
    fill_nan, fill_pos, fill_neg = (dt.cast(number(float(v), real), dt.opmath(real)) for v in given)

    def fill(x: ndarray) -> ndarray:
        if np.isfinite(x).all():
            return x.copy(order="K")
        return np.where(np.isnan(x), fill_nan, np.where(x == np.inf, fill_pos, np.where(x == -np.inf, fill_neg, x)))

    if dt.is_complex(dtype):
        out = np.empty_like(self)
        out.real, out.imag = fill(self.real), fill(self.imag)
        return out
    return dt.cast(np.asarray(fill(dt.cast(self, dt.opmath(dtype)))), dtype)
