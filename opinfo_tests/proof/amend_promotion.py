"""Amendments for the catalogue's chapter of promotion: operands and results get torch's dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..case import DTYPES
from .explain_disagreements import amends, expects, refuse
from .natural_call import NaturalCall
from .torch_promotion import DEFAULT, KINDS, cast, category, promoted

# Arguments whose dtypes determine the result's dtype; other arguments, such as alpha, do not.
OPERANDS = ("self", "other", "exponent", "min", "max", "condition_self", "elements", "test_elements", "element", "test_element",
            "vec2", "y", "x", "a", "b", "tensors", "value", "values", "sorted_sequence", "boundaries")  # fmt: skip
INTEGER = "bui"


def operands(call: NaturalCall) -> dict[str, Any]:
    """Return by name the arguments of a call that take part in promotion, except lists."""
    return {
        n: call.given[n]
        for n in OPERANDS
        if n in call.given and isinstance(call.given[n], (np.ndarray, int, float, complex))
    }


def list_operands(call: NaturalCall) -> list[np.ndarray]:
    return call.given["tensors"] if isinstance(call.given.get("tensors"), list) else []


def all_operands(call: NaturalCall) -> list[Any]:
    return [*operands(call).values(), *list_operands(call)]


def promote(call: NaturalCall, dtype: np.dtype | None = None) -> Any:
    """Convert all operands to the promoted dtype; return False if that changes nothing."""
    dtype = dtype or promoted(all_operands(call))
    same = all(isinstance(x, np.ndarray) and x.dtype == dtype for x in all_operands(call))
    if same and not isinstance(call.given.get("alpha"), int):
        return False
    if "alpha" in call.given:
        call.given["alpha"] = cast(call.given["alpha"], dtype)
    call.given |= {n: cast(x, dtype) for n, x in operands(call).items()}
    if list_operands(call):
        call.given["tensors"] = [cast(x, dtype) for x in list_operands(call)]
    return True


def operands_by_tier(call: NaturalCall) -> tuple[list[np.ndarray], list[np.ndarray], list[Any]]:
    """Return the operands of each promotion tier: arrays with dimensions, 0-d arrays, and numbers."""
    found = all_operands(call)
    arrays = [x for x in found if isinstance(x, np.ndarray)]
    return (
        [x for x in arrays if x.ndim],
        [x for x in arrays if not x.ndim],
        [x for x in found if not isinstance(x, np.ndarray)],
    )


@amends("three-tier-promotion", stage=3)
def promote_by_tiers(call: NaturalCall) -> Any:
    dims, zero, _ = operands_by_tier(call)
    kinds = {x.dtype for x in (*dims, *zero)}
    return promote(call) if dims and zero and len(kinds) > 1 else False


@amends("int-float-promotion", stage=3)
def promote_by_category(call: NaturalCall) -> Any:
    dims, zero, _ = operands_by_tier(call)
    return promote(call) if len({category(x) for x in (*dims, *zero)}) > 1 else False


@amends("isclose-of-integers", stage=3)
def compare_as_floats(call: NaturalCall) -> Any:
    full = call.full()
    if category(full["self"]) > 1 or (full["rtol"] == 0 and full["atol"] == 0):
        return False
    return promote(call, DEFAULT[2])


@amends("number-promotion", "scalar-left-operand", stage=3)
def promote_integers_by_float_number(call: NaturalCall) -> Any:
    dims, zero, numbers = operands_by_tier(call)
    highest = max((category(x) for x in (*dims, *zero)), default=3)
    number = max((category(x) for x in numbers), default=0)
    return promote(call) if number == 2 and highest < 2 else False


@amends("complex-number-promotion", stage=3)
def promote_by_complex_number(call: NaturalCall) -> Any:
    dims, zero, numbers = operands_by_tier(call)
    highest = max((category(x) for x in (*dims, *zero)), default=3)
    return promote(call) if max(map(category, numbers), default=0) == 3 and highest < 3 else False


@amends("number-wraps", stage=3)
def wrap_number(call: NaturalCall) -> Any:
    dtype = promoted(all_operands(call))
    numbers = [*operands_by_tier(call)[2], call.given.get("alpha", 0)]
    if dtype.kind not in "iu" or all(isinstance(n, int) and fits(n, dtype) for n in numbers):
        return False
    return promote(call)


@amends("number-wraps", stage=3)
def wrap_fill_value(call: NaturalCall) -> Any:
    name = next(n for n in ("fill_value", "value", "s") if n in call.given)
    dtype = call.given.get("dtype") or call.first.dtype
    if not isinstance(call.given[name], int) or dtype.kind not in "iu" or fits(call.given[name], dtype):
        return False
    call.given[name] = cast(call.given[name], dtype)
    return True


@amends("number-wraps", stage=3)
def wrap_range(call: NaturalCall) -> Any:
    """Compute prims.iota in int64."""
    dtype = call.given["dtype"]
    if not call.op.endswith("iota"):
        return False
    call.given["dtype"] = np.dtype(np.int64)
    call.after.append(lambda out: out.astype(dtype))
    return True


def fits(number: int, dtype: np.dtype) -> bool:
    return np.iinfo(dtype).min <= number <= np.iinfo(dtype).max


@amends("bool-power-is-int64", stage=3)
def promote_bools_to_int64(call: NaturalCall) -> Any:
    dims, zero, numbers = operands_by_tier(call)
    if any(category(x) for x in (*dims, *zero)) or (numbers and max(map(category, numbers)) > 1):
        return False
    return promote(call, np.dtype(np.int64))


@amends("comparison-in-promoted-dtype", stage=3)
def compare_in_promoted_dtype(call: NaturalCall) -> Any:
    return promote(call)


@amends("comparison-wraps-number", stage=3)
def wrap_compared_number(call: NaturalCall) -> Any:
    dtype = promoted(all_operands(call))
    return promote(call) if dtype.kind in "iu" and any(not fits(n, dtype) for n in operands_by_tier(call)[2]) else False


@amends("unsigned-promotion", stage=0)
def refuse_mixed_unsigned_operands(call: NaturalCall) -> Any:
    dims, zero, _ = operands_by_tier(call)
    barebones = {np.dtype(np.uint16), np.dtype(np.uint32), np.dtype(np.uint64)}
    for tier in (dims, zero):
        kinds = {x.dtype for x in tier}
        if (kinds & barebones and any(d.kind in "iu" for d in kinds - (kinds & barebones))) or len(
            kinds & barebones
        ) > 1:
            return refuse(call)
    return False


@amends("unsigned-promotion", stage=0)
def refuse_mixed_unsigned_dtypes(call: NaturalCall) -> Any:
    types = {np.dtype(call.given[n]) for n in ("type1", "type2")}
    wide = [t for t in types if t.kind == "u" and t.itemsize > 1]
    return refuse(call) if wide and len(types) > 1 and all(t.kind in INTEGER for t in types) else False


@amends("unsigned-promotion", stage=0)
def refuse_uint64_numbers(call: NaturalCall) -> Any:
    """Refuse a number that only uint64 can hold, if all arrays are of bool."""
    found = all_operands(call)
    numbers = [x for x in found if isinstance(x, int) and not isinstance(x, bool) and x >= 2**63]
    lower = all(category(x) == 0 for x in found if isinstance(x, np.ndarray))
    return refuse(call) if numbers and lower else False


@amends("int-to-default-float", stage=3)
def compute_integers_in_float32(call: NaturalCall) -> Any:
    found = all_operands(call)
    if not found or max(map(category, found)) > 1:
        return False
    return promote(call, DEFAULT[2])


@expects("int-to-default-float", "not finite")
def overflows_with_exp(call: NaturalCall) -> Any:
    """Return whether cosh or sinh overflows: torch's vectorized float32 versions are infinite wherever exp is."""
    return call.f in (np.cosh, np.sinh) and bool((np.abs(call.first.astype(np.float64)) > 88.72).any())


@amends("reciprocal-of-integers", stage=3)
def reciprocal_of_integers(call: NaturalCall) -> Any:
    return compute_integers_in_float32(call)


@amends("prims-integer-div", stage=3)
def truncate_quotient(call: NaturalCall) -> Any:
    dtype = promoted(all_operands(call))
    if dtype.kind not in "iu":
        return False
    call.after.append(lambda out: np.trunc(out).astype(dtype))
    return True


@amends("sum-dtype", stage=3)
def sum_in_int64(call: NaturalCall) -> Any:
    """Compute sums and products of bools and integers in int64."""
    if call.first.dtype.kind not in INTEGER or "dtype" in call.given:
        return False
    call.kwargs["dtype"] = np.int64
    return True


@amends("uint8-truth", stage=5)
def return_uint8(call: NaturalCall) -> Any:
    if call.first.dtype != np.uint8:
        return False
    call.after.append(lambda out: np.asarray(out).astype(np.uint8))
    return True


@amends("scalar-tensor-is-float", stage=5)
def return_float32(call: NaturalCall) -> Any:
    """Return float32 for any number if no dtype is given."""
    if "dtype" in call.given:
        return False
    call.after.append(lambda out: out.astype(DEFAULT[2]))
    return True


@amends("default-dtype", stage=5)
def use_default_dtype(call: NaturalCall) -> Any:
    """Return float32 (complex64) for floats (complex numbers) if no dtype is given."""
    if "dtype" in call.given:
        return False
    call.after.append(lambda out: np.asarray(out).astype(DEFAULT[min(category(out), 3)]) if category(out) > 1 else out)
    return True


@amends("where-number", stage=3)
def promote_numbers(call: NaturalCall) -> Any:
    x, y = call.given["self"], call.given["other"]
    if isinstance(x, np.ndarray) or isinstance(y, np.ndarray):
        return False
    return promote(call)


@amends("cov-dtype", stage=5)
def keep_input_dtype(call: NaturalCall) -> Any:
    dtype = call.first.dtype
    if KINDS[dtype.kind] < 2:
        return False
    call.after.append(lambda out: np.asarray(out).astype(dtype))
    return True


@amends("sign-of-bool", stage=3)
def copy_bools(call: NaturalCall) -> Any:
    if call.first.dtype.kind != "b":
        return False
    call.f = np.copy
    return True


@amends("ldexp-of-floats", stage=2)
def multiply_by_power_of_two(call: NaturalCall) -> Any:
    call.f = lambda x, y: x * np.power(np.float32(2) if category(y) < 2 else np.asarray(2, y.dtype), y)
    return True


@amends("fft-of-integers", stage=3)
def cast_integers_to_float32(call: NaturalCall) -> Any:
    if call.given["self"].dtype.kind not in INTEGER:
        return False
    call.given["self"] = call.given["self"].astype(np.float32)
    return True


@amends("always-complex", stage=5)
def return_complex_eigenvalues(call: NaturalCall) -> Any:
    def made(out: Any) -> Any:
        values = out[0] if isinstance(out, tuple) else out
        wide = np.result_type(values.dtype, np.complex64)
        return tuple(np.asarray(x).astype(wide) for x in out) if isinstance(out, tuple) else values.astype(wide)

    call.after.append(made)
    return True


@amends("can-cast-by-category", stage=2)
def cast_by_category(call: NaturalCall) -> Any:
    call.f = lambda a, b: (
        not (np.dtype(b).kind == "b" and np.dtype(a).kind != "b") and KINDS[np.dtype(a).kind] <= KINDS[np.dtype(b).kind]
    )
    return True


@amends("promotion-category", stage=2)
def return_torch_promotion(call: NaturalCall) -> Any:
    def told(a: Any, b: Any) -> np.dtype:
        found = [np.empty(1, x) if isinstance(x, np.dtype) else x for x in (a, b)]
        tensors = [x for x in found if isinstance(x, np.ndarray) and x.ndim]
        half = bool(tensors) and all(x.dtype == np.float16 for x in tensors) and max(map(category, found)) == 3
        return DTYPES["complex32"] if half else promoted(found)

    call.f = told
    return True


@amends("bincount-weights", stage=5)
def return_float32_counts(call: NaturalCall) -> Any:
    if "weights" not in call.given or call.given["weights"].dtype != np.float32:
        return False
    call.after.append(lambda out: out.astype(np.float32))
    return True


@amends("masked-fill-truncates", stage=3)
def convert_value(call: NaturalCall) -> Any:
    call.given["value"] = cast(call.given["value"], call.given["self"].dtype)
    return True


@amends("fill-overflow", stage=0)
def refuse_overflowing_fill(call: NaturalCall) -> Any:
    full = call.full()
    arrays = call.arrays()
    own = [full["self"]] if "mask" in full else [x for x in arrays if x.dtype.kind != "b"]
    dtype = full.get("dtype") or promoted(own or [0.5])
    values = [full[n] for n in ("fill_value", "value", "s", "self", "other", "min", "max") if n in full]
    if isinstance(value := full.get("value"), np.ndarray) and not value.ndim:
        values.append(value.item())
    return refuse(call) if any(overflows(v, dtype) for v in values if isinstance(v, (int, float, complex))) else False


def overflows(value: Any, dtype: np.dtype) -> bool:
    """Return whether a number cannot be converted to a dtype, which is an error in torch."""
    if isinstance(value, complex):
        return dtype.kind != "c" and (value.imag != 0 or overflows(value.real, dtype))
    if dtype.kind in "iu":  # unsigned dtypes also accept negative numbers, which wrap
        finite = value == value and abs(value) != float("inf")
        return not finite or not fits(abs(int(value)) if dtype.kind == "u" else int(value), dtype)
    return dtype.kind == "f" and abs(value) != float("inf") and abs(value) > float(np.finfo(dtype).max)
