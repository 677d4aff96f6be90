"""Arithmetic of two and three tensors: sums, products, quotients, remainders, interpolation."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import broadcast_shapes, check, require
from torchnp.core.errors import found_dtype, output_shape
from torchnp.core.fast_path import exact, is_float
from torchnp.core.inplace_out_spec import Bound, WriteSpec
from torchnp.core.python_scalars import scalar
from torchnp.core.registry import kernel
from torchnp.kernels import _elementwise as el
from torchnp.kernels._declare_rows import rows
from torchnp.kernels.numerics.blocks import by_tiles
from torchnp.kernels.numerics.fma import fast_fma
from torchnp.kernels.numerics.vector_tails import vector_or_tail
from torchnp.layout.apply import is_plain
from torchnp.layout.overlap import check_target
from torchnp.thresholds import Threshold

ndarray = np.ndarray
REAL = el.INTS | el.FLOATS

# ---------------------------------------------------------------- add, sub

_ADDABLE = el.NUMBERS | el.BOOL
# torch multiplies a complex operand by alpha even if alpha is 1: an infinite real or imaginary part then makes the
# other part nan.
_DIRECT_ADDABLE = [d for d in _ADDABLE if dt.opmath(d) == d and not dt.is_complex(d)]
PROMOTION = [
    "three-tier-promotion", "int-float-promotion", "number-promotion", "number-wraps", "complex-number-promotion",
    "unsigned-promotion",
]  # fmt: skip
OF_REALS = [d for d in PROMOTION if d != "complex-number-promotion"]


def _alpha(alpha: Any, a: Any, b: Any) -> None:
    common = el.common_dtype(a, b)
    if alpha == 1 and type(alpha) is int:
        return
    el.check_broadcast(a, b)
    if type(alpha) is float and common in el.FLOATS:
        return
    check(not isinstance(alpha, bool) or common == dt.bool_, "Boolean alpha only supported for Boolean results.")
    words = "For integral input tensors, argument alpha must not be a floating point number."
    check(dt.is_inexact(common) or isinstance(alpha, int), words)
    words = "For non-complex input tensors, argument alpha must not be a complex number."
    check(dt.is_complex(common) or not isinstance(alpha, complex), words)


def _scaled_sum(a: Any, b: Any, alpha: Any, function: Any) -> ndarray:
    """Compute ``a + alpha * b`` in the promoted dtype, or ``a - b`` if ``function`` is np.subtract."""
    _alpha(alpha, a, b)
    given = (a, b)
    (a, b), common = el.in_opmath("add_stub", _ADDABLE, a, b)
    inner = a.dtype
    try:
        if dt.is_complex(common):
            # Zero real parts keep their sign only in complex arithmetic, so a Python number becomes complex too.
            scalar(alpha, common)
            factor = inner.type(complex(-alpha if function is np.subtract else alpha))
            value = np.add(a, np.multiply(b, factor, dtype=inner))
        elif alpha == 1 or function is np.subtract:
            value = function(a, b)
        elif common == dt.bool_:
            value = np.add(a, b & scalar(alpha, common))
        elif common in el.WIDE:  # torch fuses the multiplication and the addition
            value = fast_fma(b, scalar(alpha, common), a)
        elif common in dt.HALVES:
            factor = scalar(alpha, common)
            alone = lambda x, y: half_sum(dt.cast(x, inner), dt.cast(y, inner), factor, True)
            value = vector_or_tail(half_sum(a, b, factor, False), alone, *_held(common, given, (a, b)))
        else:
            value = np.add(a, b * dt.cast(scalar(alpha, common), inner))
    except ValueError:
        el.check_broadcast(a, b)
        raise
    return el.finish(value, common)


def half_sum(a: ndarray, b: ndarray, alpha: ndarray, alone: ndarray | bool) -> ndarray:
    """Compute ``a + alpha * b`` of a half type in float32.

    torch rounds once in its vectorized loop, but at each step in that loop's scalar tail (where ``alone`` is true).
    """
    product = b * dt.cast(alpha, b.dtype)
    if alone is False:
        return np.add(a, product)
    return np.add(a, np.where(alone, dt.cast(dt.cast(product, alpha.dtype), b.dtype), product))


def _held(common: np.dtype, given: tuple[Any, ...], converted: tuple[ndarray, ...]) -> list[ndarray]:
    """Return the operands in the common dtype; those given in it unchanged, because torch reads their memory."""
    pairs = zip(given, converted, strict=True)
    return [g if isinstance(g, ndarray) and g.dtype == common else dt.cast(c, common) for g, c in pairs]


def _check_subtractable(a: Any, b: Any) -> None:
    both = [dt.bool_ == (x.dtype if isinstance(x, ndarray) else dt.number_dtype(x)) for x in (a, b)]
    words, use = "Subtraction, the `-` operator, with {} is not supported. {}", "operator instead."
    check(not all(both), words.format("two bool tensors", f"Use the `^` or `logical_xor()` {use}"))
    invert = f"If you are trying to invert a mask, use the `~` or `logical_not()` {use}"
    check(not any(both), words.format("a bool tensor", invert))


def _difference(a: Any, b: Any, alpha: Any) -> ndarray:
    """Compute ``a - alpha * b``; torch adds the negated product, which matters for the sign of zero."""
    _check_subtractable(a, b)
    _alpha(alpha, a, b)
    if alpha == 1:
        return _scaled_sum(a, b, alpha, np.subtract)
    # torch negates alpha; the smallest int64 wraps to itself
    return _scaled_sum(a, b, alpha if alpha == -(2**63) and type(alpha) is int else -alpha, np.add)


_HALF_SUMS, _HALF_DIFFERENCES = ({d: el.of_half(f, d) for d in dt.HALVES} for f in (np.add, np.subtract))
_OF_SUM: dict[str, Any] = {"like": np.add, "make": el.fast(dict.fromkeys(_DIRECT_ADDABLE, np.add) | _HALF_SUMS)}
_SUM = [*PROMOTION, "integer-alpha", "bool-alpha", "missing-kernel"]
_OVERLAPS = ["overlap-order", "overlap-operand"]
_WRITTEN = ["inplace-within-category", "overlap-inplace", *_OVERLAPS, "out-resized", "out-overlap"]


def _quick_scaled(self, other, *, alpha=1):
    if not isinstance(alpha, (float, int)) or type(alpha) is bool or not -1e30 < alpha < 1e30 or alpha == 1:
        return None
    if not _alike(self, other) or self.dtype is not dt.float32:
        return None
    return fast_fma(other, scalar(alpha, dt.float32), self)


@kernel("add.Tensor", differs=[*_SUM, *_WRITTEN, "fused-sum"], quick=exact(_quick_scaled, placed=True), **_OF_SUM)
def add(self: ndarray, other: ndarray, *, alpha: Any = 1) -> ndarray:
    """``self + alpha * other``; for bool, logical or."""
    return _scaled_sum(self, other, alpha, np.add)


_with_number = lambda x, other, alpha: _scaled_sum(x, other, alpha, np.add)
(add_scalar,) = rows("add.Scalar", _with_number, "``self + alpha * other``.", differs=_SUM, **_OF_SUM)

_SUBTRACTED = dict.fromkeys([d for d in _DIRECT_ADDABLE if d != dt.bool_], np.subtract)
_SUBTRACT = el.fast(_SUBTRACTED | _HALF_DIFFERENCES, mixes_bool=False)
_SUBTRACT_DIFFERS = [*PROMOTION, "no-bool-subtraction", "integer-alpha", "bool-alpha", "missing-kernel", *_OVERLAPS]

sub, _, sub_scalar, _ = rows(
    "sub.Tensor subtract.Tensor sub.Scalar subtract.Scalar", _difference, "``self - alpha * other``.",
    like=np.subtract, differs=_SUBTRACT_DIFFERS, make=_SUBTRACT,
)  # fmt: skip
_, rsub_scalar = rows(
    "rsub.Tensor rsub.Scalar", lambda x, other, alpha: _difference(other, x, alpha), "``other - alpha * self``.",
    like=np.subtract, differs=[d for d in _SUBTRACT_DIFFERS if d not in _OVERLAPS],
)  # fmt: skip

# ---------------------------------------------------------------- mul, div

_OF_PRODUCT: dict[str, Any] = {
    "cpu": "mul_cpu", "takes": el.ALL, "exact_scalar": True, "doc": "Product; for bool, logical and.",
    "writes": WriteSpec(rounds_number=True, number_first=True),  # torch multiplies number * self in place, in their common dtype
}  # fmt: skip
mul = el.binary("mul.Tensor mul.Scalar", np.multiply, differs=[*PROMOTION, "half-opmath", *_OVERLAPS], **_OF_PRODUCT)
el.binary("multiply.Tensor multiply.Scalar", np.multiply, differs=PROMOTION, **_OF_PRODUCT)


_NUMBER_FIRST = WriteSpec(number_first=True)


def _trunc_divide(a: ndarray, b: ndarray) -> ndarray:
    quotient = np.floor_divide(a, b)
    return quotient + ((quotient * b != a) & ((a < 0) != (b < 0)))


def _checked(function: Any) -> Any:
    """Wrap an integer division so that it refuses a zero divisor, as torch does."""

    def divide(a: ndarray, b: ndarray) -> ndarray:
        if a.size and not np.all(b):
            el.check_broadcast(a, b)
            raise RuntimeError("ZeroDivisionError")
        return function(a, b)

    return divide


_FEW: Threshold = 1 << 10  # elements
# Below this limit, a quotient of float32 numbers is truncated correctly in float64, and its product with the divisor is
# exact.
_FAR = 1 << 28


def _quick_fmod(a: ndarray, b: ndarray) -> ndarray:
    """Compute np.fmod, in float32 with one float64 division, because np.fmod calls C's function for each element."""
    if a.dtype != dt.float32 or max(a.size, b.size) < _FEW:
        return np.fmod(a, b)
    wide, divisor = a.astype(np.float64), b.astype(np.float64)
    quotient = wide / divisor
    np.trunc(quotient, quotient)
    far = np.isinf(divisor) | ~(np.abs(quotient) < _FAR)
    out = np.copysign((wide - quotient * divisor).astype(np.float32), a)
    return np.fmod(a, b, out=out, where=far)


def _floor_divide(a: ndarray, b: ndarray) -> ndarray:
    """Compute np.floor_divide step by step, which rounds half types at each step and is faster for many elements."""
    if a.dtype == dt.float64 or (a.dtype == dt.float32 and max(a.size, b.size) < _FEW):
        return np.floor_divide(a, b)
    rest = _quick_fmod(a, b)
    quotient = (a - rest) / b
    one = a.dtype.type(1)
    quotient = np.where((rest != 0) & ((b < 0) != (rest < 0)), quotient - one, quotient)
    floor = np.floor(quotient)
    floor = np.where(quotient - floor > 0.5, floor + one, floor)
    return np.where(b == 0, a / b, np.where(quotient == 0, np.copysign(a.dtype.type(0), a / b), floor))


div = el.binary(
    "div.Tensor div.Scalar divide.Tensor divide.Scalar true_divide.Tensor true_divide.Scalar", np.true_divide,
    el.int_to_float, cpu="div_cpu", takes=el.FLOATS | el.COMPLEX, exact_scalar=True,
    differs=[*(d for d in PROMOTION if d != "number-wraps"), "int-to-default-float", *_OVERLAPS], doc="True quotient.",
    writes=_NUMBER_FIRST,
)  # fmt: skip
floor_divide = el.binary(
    "floor_divide floor_divide.Scalar", np.floor_divide, cpu="div_floor_cpu", takes=REAL, integer=_checked(np.floor_divide),
    float=_floor_divide, exact_scalar=True, stepwise=True,
    differs=[*OF_REALS, "integer-division-by-zero", "no-bool-remainder", "half-opmath"], doc="Quotient rounded down.",
    writes=_NUMBER_FIRST,
)  # fmt: skip
_div_trunc = el.binary(
    "", lambda a, b: np.trunc(a / b), cpu="div_trunc_cpu", takes=REAL, integer=_checked(_trunc_divide),
    exact_scalar=True, stepwise=True, doc="Quotient rounded toward zero.",
)  # fmt: skip


@kernel(
    "div.Tensor_mode", "div.Scalar_mode", "divide.Tensor_mode", "divide.Scalar_mode", like=np.true_divide,
    differs=[
        *PROMOTION, "int-to-default-float", "integer-division-by-zero", "div-trunc-of-integers", "half-opmath",
        "no-bool-remainder",
    ],
    writes=_NUMBER_FIRST,
)  # fmt: skip
def div_mode(self: ndarray, other: Any, *, rounding_mode: str | None) -> ndarray:
    """Quotient, rounded as ``rounding_mode`` says: not at all, toward zero ("trunc") or down ("floor")."""
    words = f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'"
    check(rounding_mode in _ROUNDED, words)
    return _ROUNDED[rounding_mode](self, other)


_ROUNDED = {None: div, "trunc": _div_trunc, "floor": floor_divide}


# ---------------------------------------------------------------- remainders


_SCALED = {dt.float32: 2.0**25, dt.float64: 2.0**54}  # factors for denormal divisors


def _fmod_in_vectors(a: ndarray, b: ndarray) -> ndarray:
    """Compute C's fmod, but nan where the quotient overflows, because torch's vectorized loop divides first."""
    rest, info, one, zero = _quick_fmod(a, b), np.finfo(a.dtype), a.dtype.type(1), a.dtype.type(0)
    if not (np.abs(a / b) > info.max * a.dtype.type(0.97)).any():  # 0.97 leaves room for rounding
        return rest
    factor = np.where(np.abs(b) < info.tiny, a.dtype.type(_SCALED[a.dtype]), one)
    a, b = np.abs(a) * factor, np.abs(b) * factor
    quotient = np.nextafter(a, zero) * np.nextafter(one / b, zero)  # each rounded toward zero
    return np.where(np.isinf(quotient), a.dtype.type(np.nan), rest)


def _fmod(a: ndarray, b: ndarray) -> ndarray:
    """Compute C's fmod, with the nans of torch's vectorized loop except in that loop's scalar tail."""
    whole = _fmod_in_vectors(a, b)
    return vector_or_tail(whole, np.fmod, a, b) if np.isnan(whole).any() else whole


def _with_sign(fmod: Any) -> Any:
    """Return a function for the remainder with the divisor's sign; a zero keeps the sign that C's fmod gives it."""

    def remainder(a: ndarray, b: ndarray) -> ndarray:
        rest = fmod(a, b)
        return np.where((rest != 0) & ((b < 0) != (rest < 0)), rest + b, rest)

    return remainder


def _widened(function: Any) -> Any:
    """Wrap a float32 function to accept half types."""
    return lambda *parts: function(*(dt.cast(x, dt.float32) for x in parts))


remainder = el.binary(
    "remainder.Tensor remainder.Scalar remainder.Scalar_Tensor", _with_sign(_fmod), cpu="remainder_cpu", takes=REAL,
    integer=_checked(np.remainder), half=_with_sign(_fmod_in_vectors), half_tail=_widened(_with_sign(np.fmod)),
    like=np.remainder,
    differs=[*OF_REALS, "integer-division-by-zero", "remainder-zero-sign", "no-bool-remainder", "quotient-overflow"],
    doc="Remainder with the sign of the divisor.",
)  # fmt: skip
fmod = el.binary(
    "fmod.Tensor fmod.Scalar", _fmod, cpu="fmod_cpu", takes=REAL, integer=_checked(np.fmod), half=_fmod_in_vectors,
    half_tail=_widened(np.fmod), like=np.fmod,
    differs=[*OF_REALS, "integer-division-by-zero", "quotient-overflow"], doc="Remainder with the sign of the dividend.",
)  # fmt: skip

# ---------------------------------------------------------------- three operands


def _alike(x: ndarray, *others: ndarray) -> bool:
    """Return whether all operands are dense, with the same dtype (float32 or float64) and shape, and not 0-d."""
    if not is_float(x) or not is_plain(x):
        return False
    dtype, shape = x.dtype, x.shape
    for y in others:
        if type(y) is not ndarray or y.dtype is not dtype or y.shape != shape or not is_plain(y):
            return False
    return len(shape) > 0


def _quick_addcmul(self, tensor1, tensor2, *, value=1):
    if type(value) is not int or value != 1 or not _alike(self, tensor1, tensor2):
        return None
    return fast_fma(tensor1, tensor2, self)


def _quick_lerp(self, end, weight):
    if type(weight) is not float or not -0.5 < weight < 0.5 or not _alike(self, end):
        return None
    w = scalar(weight, self.dtype)
    if not -0.5 < w.item() < 0.5:  # the weight must be in the range after rounding, too
        return None
    return fast_fma(np.subtract(end, self), w, self)


def _added(cpu: str, takes: Any, of: Any, self: ndarray, tensor1: ndarray, tensor2: ndarray, value: Any) -> ndarray:
    el.check_broadcast(self, tensor1, tensor2)
    (x, a, b), out = el.in_opmath(cpu, takes, self, tensor1, tensor2)
    if out == dt.complex32:
        scalar(value, out)
    # torch multiplies complex numbers by 1 too: an infinite real or imaginary part then makes the other part nan.
    scale = scalar(value, x.dtype)
    return el.finish(of(x, a if value == 1 and not dt.is_complex(out) else scale * a, b), out)


def _precheck_added(bound: Bound, targets: list[ndarray]) -> None:
    """Refuse an in-place target of another shape or an unfit dtype before ``value`` is checked, as torch does."""
    check_target(targets[0])
    operands = [bound[name] for name in ("self", "tensor1", "tensor2")]
    shape, target = broadcast_shapes(*(x.shape for x in operands)), targets[0].shape
    check(shape == target, output_shape(target, shape))
    el.check_result_dtype(dt.result_type(*operands), targets[0].dtype)


@kernel(
    "addcmul",
    differs=["fused-sum"],
    quick=exact(_quick_addcmul, placed=True),
    writes=WriteSpec(inplace=_precheck_added),
)
def addcmul(self: ndarray, tensor1: ndarray, tensor2: ndarray, *, value: Any = 1) -> ndarray:
    """``self + value * tensor1 * tensor2``."""
    of = lambda x, a, b: fast_fma(a, b, x)
    return _added("addcmul_cpu_out", REAL | el.ANY_COMPLEX, of, self, tensor1, tensor2, value)


def _check_division(tensor1: ndarray, tensor2: ndarray) -> None:
    check(
        dt.is_inexact(tensor1.dtype) or dt.is_inexact(tensor2.dtype),
        "Integer division with addcdiv is no longer supported, and in a future  release addcdiv will perform a true "
        "division of tensor1 and tensor2. The historic addcdiv behavior can be implemented as (input + value * "
        "torch.trunc(tensor1 / tensor2)).to(input.dtype) for integer inputs and as (input + value * tensor1 / tensor2) "
        "for float inputs. The future addcdiv behavior is just the latter implementation: "
        "(input + value * tensor1 / tensor2), for all dtypes.",
    )


def _precheck_addcdiv(bound: Bound, targets: list[ndarray]) -> None:
    _check_division(bound["tensor1"], bound["tensor2"])
    _precheck_added(bound, targets)


@kernel("addcdiv", writes=WriteSpec(inplace=_precheck_addcdiv))
def addcdiv(self: ndarray, tensor1: ndarray, tensor2: ndarray, *, value: Any = 1) -> ndarray:
    """``self + value * tensor1 / tensor2``."""
    _check_division(tensor1, tensor2)
    of = lambda x, a, b: x + a / b
    return _added("addcdiv_cpu_out", el.FLOATS | el.COMPLEX, of, self, tensor1, tensor2, value)


def _lerp(a: ndarray, b: ndarray, w: ndarray) -> ndarray:
    """Interpolate from the nearer end, so that both ends are exact."""
    near = np.abs(w) < 0.5
    step = np.subtract(b, a)
    if w.dtype.kind == "c":
        return np.where(near, a + step * w, b - step * (w.dtype.type(1) - w))
    if near.ndim == 0:
        return fast_fma(step, w, a) if near else fast_fma(step, w - w.dtype.type(1), b)
    return fast_fma(step, np.where(near, w, w - w.dtype.type(1)), np.where(near, a, b))


def _lerp_row(self: ndarray, end: ndarray, weight: Any) -> ndarray:
    of_tensor = isinstance(weight, ndarray)
    for name, x in (("end", end), ("weight", weight))[: 2 if of_tensor and weight.ndim else 1]:
        words = f"expected dtype {dt.c_name(self.dtype)} for `{name}` but got dtype {dt.c_name(x.dtype)}"
        check(x.dtype == self.dtype, words)
    # A 0-d weight takes part in promotion; a number does not.
    out = el.common_dtype(self, end, weight) if of_tensor else self.dtype
    el.check_broadcast(self, end, weight)
    require("lerp_kernel_tensor" if of_tensor else "lerp_kernel_scalar", out, el.FLOATS | el.COMPLEX)
    a, b, w = ((dt.cast if isinstance(x, ndarray) else scalar)(x, dt.opmath(out)) for x in (self, end, weight))
    (value,) = by_tiles(lambda *part: (_lerp(*part),), a, b, w)
    return el.finish(value, out)


def _precheck_lerp(bound: Bound, outs: list[ndarray]) -> None:
    """Refuse an ``out=`` of another dtype than the operands, unless the weight is 0-d."""
    x, w = bound["self"], bound.get("weight")  # the overloads for lists have no weight
    if w is not None and w.ndim and outs[0].dtype != x.dtype == w.dtype == bound["end"].dtype:
        raise found_dtype(outs[0].dtype, x.dtype)


_row = partial(rows, differs=["fused-sum"])
(lerp,) = _row("lerp.Tensor", _lerp_row, "``self + weight * (end - self)``.", writes=WriteSpec(out=_precheck_lerp))
_row(
    "lerp.Scalar", _lerp_row, "``self + weight * (end - self)``, with a number.", quick=exact(_quick_lerp, placed=True)
)
