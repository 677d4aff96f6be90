"""Powers, exponents, and other functions of two tensors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, check_fits, refuse, require
from torchnp.core.errors import cannot_cast
from torchnp.core.inplace_out_spec import NO_VECTORS, Bound, WriteSpec, store
from torchnp.core.python_scalars import number, scalar, whole
from torchnp.core.registry import kernel
from torchnp.kernels import _elementwise as el
from torchnp.kernels._declare_rows import rows
from torchnp.kernels.arithmetic import PROMOTION, mul
from torchnp.kernels.numerics.vector_tails import AVX512, vector_or_tail
from torchnp.layout.overlap import check_target
from torchnp.thresholds import Threshold

ndarray = np.ndarray
REAL = el.INTS | el.FLOATS

# ---------------------------------------------------------------- powers


def _int_power(a: ndarray, b: ndarray) -> ndarray:
    """Compute integer powers; negative powers are exact for 1 and -1, and truncate to 0 for other bases."""
    if b.dtype.kind == "u" or not np.any(b < 0):
        return np.power(a, b)
    value = np.power(a, np.maximum(b, 0))
    unit = np.where(a == 1, 1, np.where(a == -1, 1 - 2 * (b & 1), 0)).astype(a.dtype)
    return np.where(b < 0, unit, value)


def _real_power(a: ndarray, b: ndarray) -> ndarray:
    """Compute C's power.

    If all exponents of an inner loop are 0.5, NumPy takes the square root instead, which is nan for -inf and -0 for -0.
    """
    value, root = _quick_power(a, b) if max(a.size, b.size) > _FEW else np.power(a, b), b == 0.5
    return np.where(root & ((a == 0) | np.isinf(a)), np.abs(a), value) if np.any(root) else value


_FEW: Threshold = 1 << 8  # elements


def _quick_power(a: ndarray, b: ndarray) -> ndarray:
    """Compute np.power of the absolute value, then set the sign; np.power is 70 times slower for negative bases."""
    value, half = np.power(np.abs(a), b), b * b.dtype.type(0.5)
    whole = np.trunc(b) == b
    np.copyto(value, np.copysign(value, a), where=whole & (np.trunc(half) != half))
    np.copyto(value, np.nan, where=(a < 0) & (a != -np.inf) & ~whole)
    return value


def _complex_power(a: ndarray, b: ndarray) -> ndarray:
    """Compute complex powers by the logarithm, as C does.

    NumPy multiplies for small integer exponents, and treats a base of 0 differently.
    """
    value = np.power(a, b)
    apart = (a == 0) | ((b.imag == 0) & (np.abs(b.real) < 100) & (np.trunc(b.real) == b.real))
    return np.where(apart, np.exp(_c_product(b, np.log(a))), value) if np.any(apart) else value


def _c_product(a: ndarray, b: ndarray) -> ndarray:
    """Multiply complex numbers as C does: if both parts would be nan, an infinite factor gives an infinite product."""
    out = np.asarray(a * b)
    lost = np.isnan(out.real) & np.isnan(out.imag)
    infinite = [np.isinf(x.real) | np.isinf(x.imag) for x in (a, b)]
    lost &= infinite[0] | infinite[1]
    if not lost.any():
        return out
    (ar, ai), (br, bi) = (_boxed(x, inf) for x, inf in zip((a, b), infinite))
    out.real[lost] = (np.inf * (ar * br - ai * bi))[lost]
    out.imag[lost] = (np.inf * (ar * bi + ai * br))[lost]
    return out


def _boxed(x: ndarray, infinite: ndarray) -> list[ndarray]:
    """Return a factor's parts with nan as 0. If it is infinite, infinity becomes 1 and all else 0. Signs are kept."""
    kept = [np.where(np.isnan(part), np.copysign(0, part), part) for part in (x.real, x.imag)]
    return [np.where(infinite, np.copysign(np.isinf(part), part), part) for part in kept]


_POWER = el.binary(
    "", np.power, cpu="pow", takes=REAL | el.COMPLEX, complex=_complex_power, float=_real_power, integer=_int_power
)
_PROMOTION = [d for d in PROMOTION if d != "number-wraps"]
_POWERS = ["integer-negative-powers", "bool-power-is-int64"]

_DOC, _DIFFERS = (
    "``self`` to the power of ``exponent``.",
    [*_PROMOTION, *_POWERS, "power-of-bools", "complex-infinities", "complex-zero-sign"],
)
(pow,) = rows("pow.Tensor_Tensor", _POWER, _DOC, like=np.power, differs=_DIFFERS)


_BY_EXPONENT: dict[Any, Callable[[ndarray], Any]] = {
    0.5: np.sqrt, 2: np.square, 3: lambda x: x * x * x, -0.5: lambda x: np.divide(1, np.sqrt(x), dtype=x.dtype),
    -1: lambda x: np.divide(1, x, dtype=x.dtype), -2: lambda x: np.divide(1, x * x, dtype=x.dtype),
}  # fmt: skip
_SHORT_CUTS = {0.5: "sqrt_vml_cpu", -0.5: "rsqrt_cpu", -1: "reciprocal_cpu"}


@kernel("pow.Tensor_Scalar", like=np.power, differs=[*_PROMOTION, *_POWERS, "half-power-is-sqrt"])
def pow_scalar(self: Any, exponent: Any) -> ndarray:
    """``self`` to the power of a number; exponents 2 and 3 multiply, 0.5 and -0.5 take a square root."""
    if self.dtype in el.WIDE and (type(exponent) is int or type(exponent) is float) and exponent in _BY_EXPONENT:
        return el.finish(_BY_EXPONENT[exponent](self), self.dtype)
    if isinstance(exponent, int) and not dt.is_inexact(self.dtype):
        check(whole(exponent) >= 0, "Integers to negative integer powers are not allowed.")
    common = dt.result_type(self, exponent)
    if exponent == 0:
        return np.ones_like(self, common)
    if exponent == 1:
        return np.array(dt.cast(self, common), order="K")
    small = _BY_EXPONENT.get(exponent)
    # torch has no shortcuts for float16; its shortcuts for bfloat16 round at each step.
    if small is None or common in (dt.float16, *el.FLOAT8) or not (dt.is_inexact(common) or exponent in (2, 3)):
        require("pow", common, REAL | el.COMPLEX)
        # torch converts an exponent to float and double without checking its range.
        convert = number if common in el.WIDE or dt.is_complex(common) else scalar
        base = dt.cast(self, common) if self.dtype in dt.BARE_UNSIGNED else self  # bare unsigned dtypes do not promote
        rounded = float(number(exponent, common)) if common == dt.float32 else 0.5
        if rounded.is_integer() and rounded != exponent:
            # torch's vector code rounds the exponent to float, here to an integer; its scalar code uses the exact
            # exponent.
            base = dt.cast(base, common)
            alone = lambda x: el.finish(np.power(dt.cast(x, dt.float64), float(exponent)), common)
            return vector_or_tail(_POWER(base, convert(exponent, common)), alone, base, loop=AVX512)
        return _POWER(base, convert(exponent, common))
    require(_SHORT_CUTS.get(exponent, "pow"), common, REAL | el.COMPLEX)
    return el.finish(small(dt.cast(self, common)), common)


def _filled(bound: Bound, outs: list[ndarray]) -> tuple[int, ...]:
    """If the base is 1, fill ``out=`` with ones, whatever its dtype, as torch does."""
    if not _is_one(bound["self"]):
        return ()
    return store(outs[0], np.ones(bound["exponent"].shape, dt.bool_))


def _is_one(base: Any) -> bool:
    return base == 1 and not isinstance(base, bool)


_FILLS = WriteSpec(out=_filled)


@kernel("pow.Scalar", like=np.power, differs=[*_PROMOTION, *_POWERS, "scalar-left-operand"], writes=_FILLS)
def pow_of_scalar(self: Any, exponent: ndarray) -> ndarray:
    """A number to the power of a tensor."""
    if _is_one(self):
        return np.ones(exponent.shape, dt.result_type(self, exponent))
    return _POWER(self, np.ascontiguousarray(exponent).reshape(exponent.shape))


def _double_of(*given: Any) -> np.dtype:
    dtypes = (x.dtype if isinstance(x, ndarray) else dt.number_dtype(x) for x in given)
    return dt.complex128 if any(map(dt.is_complex, dtypes)) else dt.float64


def _precheck_double(bound: Bound, targets: list[ndarray], *, what: str) -> None:
    """Check the dtype of the target, which torch does before it checks sizes and memory."""
    wanted, found = (dt.scalar_name(d) for d in (_double_of(bound["self"], bound["exponent"]), targets[0].dtype))
    check(found == wanted, f"the {what} has dtype {found} but the operation's result requires dtype {wanted}")


_OF_DOUBLES = WriteSpec(
    inplace=partial(_precheck_double, what="base given to float_power_"),
    out=partial(_precheck_double, what="output given to float_power"),
)


@kernel(
    "float_power.Tensor_Tensor",
    "float_power.Tensor_Scalar",
    "float_power.Scalar",
    like=np.float_power,
    differs=["complex-zero-sign"],
    writes=_OF_DOUBLES,
)
def float_power(self: Any, exponent: Any) -> ndarray:
    """Power in float64 or complex128."""
    dtype = _double_of(self, exponent)
    a, b = (dt.cast(x, dtype) if isinstance(x, ndarray) else dtype.type(x).item() for x in (self, exponent))
    if not isinstance(b, ndarray):
        return pow_scalar(a, b)
    return _POWER(a, b) if isinstance(a, ndarray) else pow_of_scalar(a, b)


# ---------------------------------------------------------------- functions of two tensors

_FLOAT = ["three-tier-promotion", "int-to-default-float"]


def complex_logaddexp(a: ndarray, b: ndarray) -> ndarray:
    """Compute complex logaddexp relative to the operand with the larger real part, so that exp does not overflow.

    If any part of an operand is nan, both parts of the result are.
    """
    first = a.real >= b.real
    high, low = np.where(first, a, b), np.where(first, b, a)
    value = high + np.log1p(np.exp(low - high))
    infinite = np.isinf(high.real) & (high.real == low.real)
    value = np.where(infinite, np.where(high.real < 0, low, np.log(np.exp(low) + np.exp(high))), value)
    return np.where(np.isnan(a) | np.isnan(b), value.dtype.type(complex(np.nan, np.nan)), value)


_to_float = partial(el.binary, result=el.int_to_float, takes=el.FLOATS, differs=_FLOAT)
_to_float("atan2 arctan2", np.arctan2, cpu="atan2_cpu")
_to_float("copysign.Tensor copysign.Scalar", np.copysign, cpu="copysign_cpu", differs=[*_FLOAT, "number-promotion"])
_of_floats = partial(el.binary, takes=el.FLOATS, differs=["float-functions-refuse-integers", "int-float-promotion"])
_of_floats("hypot", np.hypot, cpu="hypot_cpu")
_OF_LOGADDEXP = ["float-functions-refuse-integers", "logaddexp-of-complex"]
_of_floats(
    "logaddexp",
    np.logaddexp,
    cpu="logaddexp_cpu",
    takes=el.FLOATS | el.COMPLEX,
    complex=complex_logaddexp,
    differs=_OF_LOGADDEXP,
)
_of_floats("logaddexp2", np.logaddexp2, cpu="logaddexp2_cpu")
# For equal arguments, also 0 and -0, C's nextafter returns the second; NumPy's float16 loop returns the first.
_nextafter = lambda a, b: np.where(a == b, b, np.nextafter(a, b))
_of_floats("nextafter", _nextafter, like=np.nextafter, cpu="nextafter_cpu", compute=el.same, writes=NO_VECTORS)
# nan gives 0, because it is not positive.
_step = lambda x, values: np.where(x == 0, values, (x > 0).astype(x.dtype))
_heaviside_row = el.binary("", _step, cpu="heaviside_cpu", takes=el.BOOL | REAL)


def _check_real(*tensors: ndarray) -> None:
    words = "heaviside is not yet implemented for complex tensors."
    check(not any(dt.is_complex(x.dtype) for x in tensors), words)


def _precheck_step(bound: Bound, targets: list[ndarray]) -> None:
    """For unsupported dtypes, check the target's memory and the shape of ``values`` first, as torch does in place."""
    x, values = bound["self"], bound["values"]
    if x.dtype == values.dtype and not dt.is_complex(x.dtype) and x.dtype not in el.BOOL | REAL:
        check_target(targets[0])
        check_fits(values, targets[0])


_STEP = WriteSpec(
    inplace=_precheck_step, out=lambda bound, outs: _check_real(bound["self"], bound["values"], *outs), vectors=False
)


@kernel(
    "heaviside",
    like=np.heaviside,
    differs=["heaviside-of-nan", "heaviside-of-integers", "no-mixed-dtypes"],
    writes=_STEP,
)
def heaviside(self: ndarray, values: ndarray) -> ndarray:
    """0 for negative, 1 for positive, ``values`` at zero."""
    _check_real(self, values)
    check(self.dtype == values.dtype, "heaviside is not yet implemented for tensors with different dtypes.")
    return _heaviside_row(self, values)


def _precheck_ldexp(bound: Bound, targets: list[ndarray]) -> None:
    d = bound["self"].dtype
    check(dt.is_inexact(d), f"ldexp can't be cast to the desired output type {dt.scalar_name(d)}")
    if dt.is_floating(d) and not dt.is_inexact(bound["other"].dtype):  # for other dtypes, torch computes a power first
        check_target(targets[0])
        check_fits(bound["other"], targets[0])


def _precheck_inexact(bound: Bound, outs: list[ndarray]) -> None:
    d = outs[0].dtype
    check(dt.is_inexact(d), f"ldexp can't be cast to the desired output type {dt.scalar_name(d)}")
    x, other = bound["self"], bound["other"]
    two: Any = np.empty((), x.dtype) if _is_wide(x) else 2.0
    power = np.empty(other.shape, dt.result_type(two, other))
    refuse("pow", power.dtype, (dt.complex32,))
    result = dt.result_type(x, power)
    check(dt.can_cast(result, d), cannot_cast(result, d))


def _is_wide(x: ndarray) -> bool:
    """Return whether `ldexp` computes ``2 ** other`` with 2 in the dtype of ``x``, not with the Python number 2.0."""
    return dt.is_inexact(x.dtype) and x.dtype != dt.float32


# In place, torch computes the power of 2 before it checks the target. The power is a new tensor, so `other` may overlap
# the target.
_LDEXP = WriteSpec(inplace=_precheck_ldexp, out=_precheck_inexact, dtype_before_target=True, free=("other",))


@kernel(
    "ldexp.Tensor",
    like=np.ldexp,
    differs=["ldexp-of-floats", "int-to-default-float", "three-tier-promotion"],
    writes=_LDEXP,
)
def ldexp(self: ndarray, other: ndarray) -> ndarray:
    """``self * 2 ** other``: exact for floats with integer exponents; otherwise the power is computed first."""
    if dt.is_floating(self.dtype) and not dt.is_inexact(other.dtype):
        el.check_broadcast(self, other)
        require("ldexp_cpu", self.dtype, el.FLOATS)
        require("ldexp_cpu_exp", other.dtype, el.INTS)
        return el.finish(np.ldexp(dt.cast(self, dt.opmath(self.dtype)), dt.cast(other, dt.int32)), self.dtype)
    power = pow(np.full((), 2, self.dtype), other) if _is_wide(self) else pow_of_scalar(2.0, other)
    if power.dtype == other.dtype == dt.float32:  # rounded correctly, as torch's result is
        power = np.exp2(other.astype(np.float64)).astype(np.float32)
    return mul(self, power)


@kernel("frexp.Tensor", like=np.frexp, differs=["float-functions-refuse-integers"])
def frexp(self: ndarray) -> tuple[ndarray, ndarray]:
    """Mantissa in [0.5, 1) and int32 exponent of each element."""
    check(dt.is_floating(self.dtype), "torch.frexp() only supports floating-point dtypes")
    require("frexp_cpu", self.dtype, el.FLOATS)
    mantissa, exponent = np.frexp(dt.cast(self, dt.opmath(self.dtype)))
    return el.finish(mantissa, self.dtype), el.finish(exponent, dt.int32)
