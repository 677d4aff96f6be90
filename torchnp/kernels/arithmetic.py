"""Arithmetic of two and three tensors: sums, products, quotients, remainders, interpolation."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.checks import check, require
from torchnp.kernels import _elementwise as el
from torchnp.kernels._rows import rows
from torchnp.kernels.numerics.fma import fast_fma
from torchnp.quick import exact
from torchnp.registry import kernel
from torchnp.scalars import scalar
from torchnp.writes import Writes

ndarray = np.ndarray
REAL = el.INTS | el.FLOATS

# ---------------------------------------------------------------- add, sub

_ADDABLE = el.NUMBERS | el.BOOL
# Of complex numbers torch multiplies the second by alpha even when that is 1: an infinite part makes the other nan.
_DIRECT_ADDABLE = [d for d in _ADDABLE if dt.opmath(d) == d and not dt.is_complex(d)]
PROMOTION = [
    "three-tier-promotion", "int-float-promotion", "number-promotion", "number-wraps", "complex-number-promotion",
    "unsigned-promotion",
]  # fmt: skip


def _alpha(alpha: Any, common: np.dtype) -> None:
    if (type(alpha) is float and common in el.FLOATS) or (alpha == 1 and type(alpha) is int):
        return
    check(not isinstance(alpha, bool) or common == dt.bool_, "Boolean alpha only supported for Boolean results.")
    words = "For integral input tensors, argument alpha must not be a floating point number."
    check(dt.is_inexact(common) or isinstance(alpha, int), words)
    words = "For non-complex input tensors, argument alpha must not be a complex number."
    check(dt.is_complex(common) or not isinstance(alpha, complex), words)


def _scaled_sum(a: Any, b: Any, alpha: Any, function: Any) -> ndarray:
    """``a + alpha * b`` in the promoted dtype; ``function`` is np.subtract for the negated alpha of 1."""
    _alpha(alpha, el.common_dtype(a, b))
    (a, b), common = el.in_opmath("add_stub", _ADDABLE, a, b)
    inner = a.dtype
    try:
        if dt.is_complex(common):
            # Real parts of zero keep their signs only in complex arithmetic, which a number of Python's has as well.
            scalar(alpha, common)
            factor = inner.type(complex(-alpha if function is np.subtract else alpha))
            value = np.add(a, np.multiply(b, factor, dtype=inner))
        elif alpha == 1 or function is np.subtract:
            value = function(a, b)
        elif common == dt.bool_:
            value = np.add(a, b & scalar(alpha, common))
        elif common in el.WIDE:  # torch fuses the multiplication and the addition
            value = fast_fma(b, scalar(alpha, common), a)
        else:
            value = np.add(a, b * dt.cast(scalar(alpha, common), inner))
    except ValueError:
        el.check_broadcast(a, b)
        raise
    return el.finish(value, common)


def _check_subtractable(a: Any, b: Any) -> None:
    both = [dt.bool_ == (x.dtype if isinstance(x, ndarray) else dt.number_dtype(x)) for x in (a, b)]
    words, use = "Subtraction, the `-` operator, with {} is not supported. {}", "operator instead."
    check(not all(both), words.format("two bool tensors", f"Use the `^` or `logical_xor()` {use}"))
    invert = f"If you are trying to invert a mask, use the `~` or `logical_not()` {use}"
    check(not any(both), words.format("a bool tensor", invert))


def _difference(a: Any, b: Any, alpha: Any) -> ndarray:
    """``a - alpha * b``: torch adds the negated multiple, which matters for the sign of zero."""
    _check_subtractable(a, b)
    _alpha(alpha, el.common_dtype(a, b))
    if alpha == 1:
        return _scaled_sum(a, b, alpha, np.subtract)
    return _scaled_sum(a, b, alpha if alpha == -(2**63) and type(alpha) is int else -alpha, np.add)  # -int64 wraps


_OF_SUM: dict[str, Any] = {"like": np.add, "make": el.fast(dict.fromkeys(_DIRECT_ADDABLE, np.add))}
_SUM = [*PROMOTION, "integer-alpha"]
_WRITTEN = ["inplace-within-category", "overlap-inplace", "out-resized", "out-overlap"]


@kernel("add.Tensor", differs=[*_SUM, *_WRITTEN, "fused-sum"], **_OF_SUM)
def add(self: ndarray, other: ndarray, *, alpha: Any = 1) -> ndarray:
    """``self + alpha * other``; for bool, or."""
    plain = alpha != 1 and (type(alpha) is float or type(alpha) is int) and type(other) is ndarray
    if plain and self.dtype is dt.float32 and _alike(self, other):
        return fast_fma(other, scalar(alpha, dt.float32), self)
    return _scaled_sum(self, other, alpha, np.add)


_with_number = lambda x, other, alpha: _scaled_sum(x, other, alpha, np.add)
(add_scalar,) = rows("add.Scalar", _with_number, "``self + alpha * other``.", differs=_SUM, **_OF_SUM)

_SUBTRACT = el.fast(dict.fromkeys([d for d in _DIRECT_ADDABLE if d != dt.bool_], np.subtract), mixes_bool=False)
_SUBTRACT_DIFFERS = [*PROMOTION, "no-bool-subtraction"]

sub, _, sub_scalar, _ = rows(
    "sub.Tensor subtract.Tensor sub.Scalar subtract.Scalar", _difference, "``self - alpha * other``.",
    like=np.subtract, differs=_SUBTRACT_DIFFERS, make=_SUBTRACT,
)  # fmt: skip
_, rsub_scalar = rows(
    "rsub.Tensor rsub.Scalar", lambda x, other, alpha: _difference(other, x, alpha), "``other - alpha * self``.",
    like=np.subtract, differs=_SUBTRACT_DIFFERS,
)  # fmt: skip

# ---------------------------------------------------------------- mul, div

mul = el.binary(
    "mul.Tensor mul.Scalar multiply.Tensor multiply.Scalar", np.multiply, cpu="mul_cpu", takes=el.ALL, exact_scalar=True,
    differs=PROMOTION, doc="Product; for bool, and.",
    writes=Writes(rounds_number=True),  # torch multiplies number * self in place, in their common dtype
)  # fmt: skip


def _trunc_divide(a: ndarray, b: ndarray) -> ndarray:
    quotient = np.floor_divide(a, b)
    return quotient + ((quotient * b != a) & ((a < 0) != (b < 0)))


def _checked(function: Any) -> Any:
    """A division of integers, which torch refuses to do by zero."""

    def divide(a: ndarray, b: ndarray) -> ndarray:
        if a.size and not np.all(b):
            raise RuntimeError("ZeroDivisionError")
        return function(a, b)

    return divide


def _floor_divide(a: ndarray, b: ndarray) -> ndarray:
    """NumPy's own for float32 and float64; half types by the same formula, rounded at each step."""
    if a.dtype in el.WIDE:
        return np.floor_divide(a, b)
    rest = np.fmod(a, b)
    quotient = (a - rest) / b
    one = a.dtype.type(1)
    quotient = np.where((rest != 0) & ((b < 0) != (rest < 0)), quotient - one, quotient)
    floor = np.floor(quotient)
    floor = np.where(quotient - floor > 0.5, floor + one, floor)
    return np.where(b == 0, a / b, np.where(quotient == 0, np.copysign(a.dtype.type(0), a / b), floor))


div = el.binary(
    "div.Tensor div.Scalar divide.Tensor divide.Scalar true_divide.Tensor true_divide.Scalar", np.true_divide,
    el.int_to_float, cpu="div_cpu", takes=el.FLOATS | el.COMPLEX, exact_scalar=True,
    differs=[*PROMOTION, "int-to-default-float"], doc="True quotient.",
)  # fmt: skip
floor_divide = el.binary(
    "floor_divide floor_divide.Scalar", np.floor_divide, cpu="div_floor_cpu", takes=REAL, integer=_checked(np.floor_divide),
    float=_floor_divide, exact_scalar=True, stepwise=True,
    differs=[*PROMOTION, "integer-division-by-zero", "no-bool-remainder"], doc="Quotient rounded down.",
)  # fmt: skip
_div_trunc = el.binary(
    "", lambda a, b: np.trunc(a / b), cpu="div_trunc_cpu", takes=REAL, integer=_checked(_trunc_divide),
    exact_scalar=True, stepwise=True, doc="Quotient rounded toward zero.",
)  # fmt: skip


@kernel(
    "div.Tensor_mode", "div.Scalar_mode", "divide.Tensor_mode", "divide.Scalar_mode", like=np.true_divide,
    differs=[*PROMOTION, "integer-division-by-zero", "div-trunc-of-integers"],
)  # fmt: skip
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


remainder = el.binary(
    "remainder.Tensor remainder.Scalar remainder.Scalar_Tensor", _remainder, cpu="remainder_cpu", takes=REAL,
    integer=_checked(np.remainder), like=np.remainder,
    differs=[*PROMOTION, "integer-division-by-zero", "remainder-zero-sign", "no-bool-remainder"],
    doc="Remainder with the sign of the divisor.",
)  # fmt: skip
fmod = el.binary(
    "fmod.Tensor fmod.Scalar", np.fmod, cpu="fmod_cpu", takes=REAL, integer=_checked(np.fmod),
    differs=[*PROMOTION, "integer-division-by-zero"], doc="Remainder with the sign of the dividend.",
)  # fmt: skip

# ---------------------------------------------------------------- three operands


def _three(
    cpu: str, takes: Any, self: ndarray, a: ndarray, b: ndarray, value: Any
) -> tuple[tuple[ndarray, ...], np.dtype]:
    tensors, out = el.in_opmath(cpu, takes, self, a, b)
    el.check_broadcast(self, a, b)
    if out == dt.complex32:
        scalar(value, out)
    return (*tensors, scalar(value, tensors[0].dtype)), out


def _alike(x: ndarray, *others: ndarray) -> bool:
    """Whether all are dense float32, or all float64, of one shape with dimensions."""
    if type(x) is not ndarray or not (x.dtype is dt.float32 or x.dtype is dt.float64) or not x.shape:
        return False
    for y in (x, *others):
        if type(y) is not ndarray or y.dtype is not x.dtype or y.shape != x.shape or not y.flags.c_contiguous:
            return False
    return True


def _quick_addcmul(self, tensor1, tensor2, *, value=1):
    if type(value) is not int or value != 1 or not _alike(self, tensor1, tensor2):
        return None
    return fast_fma(tensor1, tensor2, self)


def _quick_lerp(self, end, weight):
    if type(weight) is not float or not -0.5 < weight < 0.5 or not _alike(self, end):
        return None
    w = scalar(weight, self.dtype)
    if not -0.5 < w.item() < 0.5:  # after rounding too
        return None
    return fast_fma(np.subtract(end, self), w, self)


@kernel("addcmul", differs=["fused-sum"], quick=exact(_quick_addcmul))
def addcmul(self: ndarray, tensor1: ndarray, tensor2: ndarray, *, value: Any = 1) -> ndarray:
    """``self + value * tensor1 * tensor2``."""
    takes = REAL | el.ANY_COMPLEX
    (x, a, b, scale), out = _three("addcmul_cpu_out", takes, self, tensor1, tensor2, value)
    # Of complex numbers torch multiplies by 1 as well: an infinite part makes the other nan.
    scaled = a if value == 1 and not dt.is_complex(out) else scale * a
    return el.finish(fast_fma(scaled, b, x), out)


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
    (x, a, b, scale), out = _three("addcdiv_cpu_out", el.FLOATS | el.COMPLEX, self, tensor1, tensor2, value)
    return el.finish(x + (a if value == 1 and not dt.is_complex(out) else scale * a) / b, out)


def _lerp(a: ndarray, b: ndarray, w: ndarray) -> ndarray:
    """From the nearer end, so that both ends are exact."""
    near = np.abs(w) < 0.5
    step = np.subtract(b, a)
    if near.ndim == 0:
        return fast_fma(step, w, a) if near else fast_fma(step, w - w.dtype.type(1), b)
    return fast_fma(step, np.where(near, w, w - w.dtype.type(1)), np.where(near, a, b))


def _check_same_dtype(*named: tuple[str, ndarray]) -> None:
    first = named[0][1].dtype
    for name, x in named[1:]:
        if x.dtype != first:
            raise RuntimeError(f"expected dtype {dt.c_name(first)} for `{name}` but got dtype {dt.c_name(x.dtype)}")


@kernel("lerp.Tensor", differs=["fused-sum"])
def lerp(self: ndarray, end: ndarray, weight: ndarray) -> ndarray:
    """``self + weight * (end - self)``."""
    _check_same_dtype(("self", self), ("end", end))
    if weight.ndim:
        _check_same_dtype(("self", self), ("weight", weight))
    out = el.common_dtype(self, end, weight)  # a weight without dimensions takes part in promotion
    require("lerp_kernel_tensor", out, el.FLOATS | el.COMPLEX)
    el.check_broadcast(self, end, weight)
    inner = dt.opmath(out)
    return el.finish(_lerp(dt.cast(self, inner), dt.cast(end, inner), dt.cast(weight, inner)), out)


@kernel("lerp.Scalar", differs=["fused-sum"], quick=exact(_quick_lerp))
def lerp_scalar(self: ndarray, end: ndarray, weight: Any) -> ndarray:
    """``self + weight * (end - self)``."""
    _check_same_dtype(("self", self), ("end", end))
    require("lerp_kernel_scalar", self.dtype, el.FLOATS | el.COMPLEX)
    el.check_broadcast(self, end)
    inner = dt.opmath(self.dtype)
    return el.finish(_lerp(dt.cast(self, inner), dt.cast(end, inner), scalar(weight, inner)), self.dtype)
