"""Amendments for the catalogue's chapters of values and of reductions."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from .amend_promotion import all_operands, operands, promote
from .explain_disagreements import amends, expects, refuse
from .natural_call import NaturalCall
from .torch_promotion import cast, promoted

# ---------------------------------------------------------------- reductions


@amends("correction", stage=2)
def use_correction_of_1(call: NaturalCall) -> Any:
    if "correction" in call.given or "unbiased" in call.given:
        return False
    call.kwargs["ddof"] = 1
    return True


@amends("empty-dim", stage=1)
def reduce_all_for_empty_dim(call: NaturalCall) -> Any:
    name = "dims" if "dims" in call.given else "dim"
    if call.given.get(name) != ():
        return False
    del call.given[name]
    return True


@amends("zero-dim-axis", stage=2)
def treat_number_as_vector(call: NaturalCall) -> Any:
    """Treat a 0-d array as 1-d, and drop the dimension from the results."""
    arrays = call.arrays()
    if not arrays or arrays[0].ndim:
        return False
    name = next(k for k, v in call.given.items() if v is arrays[0])
    call.given[name] = arrays[0][None]
    call.after.append(lambda out: tuple(map(flat, out)) if isinstance(out, tuple) else flat(out))
    return True


def flat(x: Any) -> Any:
    return np.asarray(x).reshape(()) if np.size(x) == 1 else x


@amends("half-opmath", "half-cumsum", "half-norm", stage=4)
def compute_halves_in_float32(call: NaturalCall) -> Any:
    if not any(x.dtype == np.float16 for x in call.arrays()):
        return False
    if call.given.get("dtype") == np.float16:
        call.given["dtype"] = np.dtype(np.float32)
    wide = {k: v for k, v in call.given.items() if isinstance(v, np.ndarray) and v.dtype == np.float16}
    call.given |= {k: v.astype(np.float32) for k, v in wide.items()}
    for k, v in call.given.items():
        if isinstance(v, list):
            call.given[k] = [
                x.astype(np.float32) if isinstance(x, np.ndarray) and x.dtype == np.float16 else x for x in v
            ]
    call.after.append(lambda out: narrow(out, np.float32, np.float16))
    return True


def narrow(out: Any, wide: Any, dtype: Any) -> Any:
    if isinstance(out, (tuple, list)):
        return type(out)([narrow(x, wide, dtype) for x in out])
    return np.asarray(out).astype(dtype) if np.asarray(out).dtype == wide else out


@amends("cumsum-accumulator", stage=4)
def accumulate_in_double(call: NaturalCall) -> Any:
    if call.first.dtype not in (np.float32, np.complex64):
        return False
    dtype = call.first.dtype
    call.kwargs["dtype"] = np.float64 if dtype == np.float32 else np.complex128
    call.after.append(lambda out: out.astype(dtype))
    return True


@expects("cascade-sum", "rounding", "zero sign")
def is_long_float_sum(call: NaturalCall) -> Any:
    """Return whether sums may differ in rounding: torch adds many floats in another order than NumPy."""
    return call.first.dtype.kind in "fc" and call.first.size > 8


@amends("median-of-nothing", stage=6)
def return_cast_nan(call: NaturalCall) -> Any:
    dtype = call.first.dtype
    if call.first.size or dtype.kind not in "iub":
        return False
    call.f = lambda x, axis=None, keepdims=False: np.full((), np.nan).astype(dtype)
    return True


@amends("cumsum-needs-dim", stage=0)
def refuse_missing_dim(call: NaturalCall) -> Any:
    return False if "dim" in call.given else refuse(call)


@amends("lower-median", stage=3)
def take_lower_median(call: NaturalCall) -> Any:
    nan = call.f in (np.nanmedian,)
    call.f = lambda x, axis=None, keepdims=False: np.asarray(
        (np.nanquantile if nan else np.quantile)(
            x.astype(np.float64) if x.dtype.kind in "ui" else x, 0.5, axis=axis, keepdims=keepdims, method="lower"
        )
    ).astype(x.dtype)
    return True


# ---------------------------------------------------------------- values


@amends("sign-of-nan", stage=5)
def return_zero_for_nan(call: NaturalCall) -> Any:
    if call.first.dtype.kind not in "fc":
        return False
    call.after.append(lambda out: np.where(np.isnan(call.first), np.zeros((), out.dtype), out))
    return True


@amends("heaviside-of-nan", stage=5)
def return_zero_where_input_is_nan(call: NaturalCall) -> Any:
    call.after.append(lambda out: np.where(np.isnan(call.given["self"]), np.zeros((), out.dtype), out))
    return True


@amends("angle-of-negative-zero", stage=2)
def drop_sign_of_zeros(call: NaturalCall) -> Any:
    if call.first.dtype.kind != "f":
        return False
    call.given["self"] = call.given["self"] + 0
    return True


@amends("remainder-zero-sign", stage=5)
def give_zeros_the_dividends_sign(call: NaturalCall) -> Any:
    zero = lambda out: np.copysign(np.zeros((), out.dtype), call.given["self"]).astype(out.dtype)
    call.after.append(lambda out: np.where(out == 0, zero(out), out) if out.dtype.kind == "f" else out)
    return True


@amends("clamp-zero-sign", stage=4)
def keep_sign_of_zeros(call: NaturalCall) -> Any:
    if promoted(all_operands(call)).kind != "f":
        return False

    def clamped(x: Any, min: Any = None, max: Any = None) -> Any:
        x = x if min is None else np.where(x < min, min, x)
        return x if max is None else np.where(x > max, max, x)

    call.f = (
        clamped
        if call.f is np.clip
        else (lambda a, b: np.where(a < b, b, a))
        if call.f is np.maximum
        else (lambda a, b: np.where(a > b, b, a))
    )
    return True


@expects("complex-zero-sign", "zero sign")
def is_complex_or_fft(call: NaturalCall) -> Any:
    return "fft" in call.op or "c" in {promoted(all_operands(call)).kind, *(x.dtype.kind for x in call.arrays())}


@expects("complex-infinities", "not finite")
def has_complex_input(call: NaturalCall) -> Any:
    return "c" in {x.dtype.kind for x in call.arrays()}


@expects("quotient-overflow", "not finite")
def is_float_division(call: NaturalCall) -> Any:
    return promoted(all_operands(call)).kind == "f"


@amends("gcd-of-smallest", stage=4)
def compute_wrapping_gcd(call: NaturalCall) -> Any:
    """Compute the gcd by Euclid's algorithm with C's remainder; absolute values may wrap."""
    dtype = promoted(all_operands(call))
    divisor = np.vectorize(lambda a, b: wrapping_gcd(dtype.type(a), dtype.type(b)), otypes=[dtype])

    def multiple(x: Any, y: Any) -> Any:
        g = divisor(x, y)
        return np.where(g == 0, 0, np.abs(x // np.where(g == 0, 1, g) * y)).astype(dtype)

    call.f = divisor if call.f is np.gcd else multiple
    return True


def wrapping_gcd(a: Any, b: Any) -> Any:
    with np.errstate(all="ignore"):
        a, b = np.abs(a), np.abs(b)
        while a != 0:
            a, b = np.fmod(b, a), a
    return b


@amends("heaviside-of-integers", stage=5)
def keep_integer_dtype(call: NaturalCall) -> Any:
    dtype = call.given["self"].dtype
    if dtype.kind not in "bui":
        return False
    call.after.append(lambda out: out.astype(dtype))
    return True


@amends("variance-in-double", stage=4)
def compute_variance_in_double(call: NaturalCall) -> Any:
    dtype = call.first.dtype
    if dtype not in (np.float32, np.complex64):
        return False
    call.kwargs["dtype"] = np.float64 if dtype == np.float32 else np.complex128
    call.after.append(lambda out: np.asarray(out).astype(np.float32))
    return True


@amends("variance-of-nothing", stage=6)
def return_nan_for_empty(call: NaturalCall) -> Any:
    if call.first.size:
        return False
    call.after.append(lambda out: np.full_like(out, np.nan))
    return True


@amends("integer-division-by-zero", stage=0)
def refuse_division_by_zero(call: NaturalCall) -> Any:
    found = all_operands(call)
    dtype = promoted(found)
    divisor = np.asarray(call.given["other"])
    if dtype.kind not in "ui" or not np.size(call.given["self"]) or not (cast(divisor, dtype) == 0).any():
        return False
    return refuse(call)


@amends("div-trunc-of-integers", stage=3)
def truncate_exactly(call: NaturalCall) -> Any:
    dtype = promoted(all_operands(call))
    if dtype.kind not in "bui" or call.given.get("rounding_mode") != "trunc":
        return False
    promote(call, np.dtype(np.int64) if dtype.kind == "b" else dtype)
    call.f = lambda x, y: np.floor_divide(x, y) + ((x % y != 0) & ((x < 0) != (y < 0)))
    call.after.append(lambda out: np.asarray(out).astype(dtype))
    return True


@amends("integer-negative-powers", stage=3)
def truncate_negative_powers(call: NaturalCall) -> Any:
    dtype = promoted(all_operands(call))
    if dtype.kind not in "ui" or not (np.asarray(call.given.get("exponent", call.given.get("other"))) < 0).any():
        return False
    promote(call)
    call.f = integer_powers
    return True


def integer_powers(x: Any, y: Any) -> Any:
    x, y = np.broadcast_arrays(x, y)
    inverse = np.where(x == 1, 1, np.where(x == -1, np.where(y % 2 == 0, 1, -1), 0)).astype(x.dtype)
    return np.where(y < 0, inverse, np.power(x, np.where(y < 0, 0, y).astype(y.dtype)))


@amends("half-power-is-sqrt", stage=3)
def compute_power_as_root(call: NaturalCall) -> Any:
    exponent = call.given.get("exponent")
    if isinstance(exponent, np.ndarray) or exponent not in (0.5, -0.5):
        return False
    call.f = (lambda x, y: np.sqrt(x)) if exponent == 0.5 else (lambda x, y: 1 / np.sqrt(x))
    return True


@amends("fused-sum", stage=4)
def round_sum_once(call: NaturalCall) -> Any:
    dtype = promoted(all_operands(call))
    if dtype not in (np.float16, np.float32, np.complex64) or not {"alpha"} & call.given.keys():
        return False
    wide = {"e": np.float32, "f": np.float64, "F": np.complex128}[dtype.char]
    call.given |= {n: cast(x, np.dtype(wide)) for n, x in operands(call).items()}
    call.after.append(lambda out: np.asarray(out).astype(dtype))
    return True


@amends("half-prod", stage=4)
def round_product_at_each_step(call: NaturalCall) -> Any:
    if call.first.dtype != np.float16:
        return False

    def product(x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
        x = x.ravel() if axis is None else np.moveaxis(x, axis, 0)
        total = np.ones(x.shape[1:], np.float16)
        for row in x:
            total = (total * row).astype(np.float16)
        return np.expand_dims(total, axis) if keepdims and axis is not None else total

    call.f = product
    return True


@amends("nan-to-num-fills", stage=2)
def fill_with_dtype_limits(call: NaturalCall) -> Any:
    dtype = call.first.dtype
    if dtype.kind != "V":
        return False
    top, zero = ml_dtypes.finfo(dtype).max, np.zeros((), dtype)
    call.f = lambda x: np.where(x != x, zero, np.clip(x, -top, top)).astype(dtype)
    return True


@amends("conj-of-bool", stage=3)
def copy_bools(call: NaturalCall) -> Any:
    if call.first.dtype.kind != "b":
        return False
    call.f = np.copy
    return True


@amends("logaddexp-of-complex", stage=3)
def compute_complex_logaddexp(call: NaturalCall) -> Any:
    if promoted(all_operands(call)).kind != "c":
        return False

    def added(x: Any, y: Any) -> Any:
        top = np.where(x.real > y.real, x, y)
        return top + np.log(np.exp(x - top) + np.exp(y - top))

    call.f = added
    return True


@expects("half-opmath", "rounding")
def has_halves(call: NaturalCall) -> Any:
    return any(x.dtype == np.float16 for x in call.arrays())


@amends("reciprocal-of-complex-zero", stage=5)
def return_inf_nan_for_complex_zero(call: NaturalCall) -> Any:
    if call.first.dtype.kind != "c":
        return False
    call.after.append(lambda out: np.where(call.first == 0, np.asarray(complex(np.inf, np.nan), out.dtype), out))
    return True


@expects("derivatives-in-integers", "value")
def can_overflow(call: NaturalCall) -> Any:
    """Return whether the span of the values, or with ``edge_order=2`` twice a value, overflows."""
    x = call.first
    far = [
        int(x.max()) - int(x.min()),
        *(2 * abs(int(i)) for i in (x.max(), x.min()) if call.full()["edge_order"] == 2),
    ]
    return x.dtype.kind == "i" and max(far) > np.iinfo(x.dtype).max


@expects("derivatives-of-one-point", "not finite")
def has_equal_points(call: NaturalCall) -> Any:
    return any((np.diff(x) == 0).any() for x in call.given["spacing"])


@amends("saturates-matrices", stage=3)
def saturate_leading_values(call: NaturalCall) -> Any:
    x = call.first
    if x.ndim < 2 or x.dtype != np.float32:
        return refuse(call)
    seen = x.shape[0] * x.shape[1] if x.flags.c_contiguous else 0

    def saturated(weight: Any, low: int, high: int, out: Any) -> Any:
        flat = out.reshape(-1)
        flat[:seen] = np.clip(flat[:seen], low, high)
        return out

    call.f = saturated
    return True
