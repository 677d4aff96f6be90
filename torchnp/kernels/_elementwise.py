"""Builders of elementwise kernels from a NumPy function and a promotion rule.

torch computes in the promoted dtype, but computes half types in float32 and rounds once at the end (opmath). For each
common dtype, a `ComputePlan` is made once. It holds the function to call, and the dtypes to convert to and from. Calls
whose operands need no conversion call the ufunc directly.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import GAINED, broadcast_shapes, require
from torchnp.core.elementwise_strips import stripwise
from torchnp.core.errors import cannot_cast, found_dtype, not_implemented, output_shape
from torchnp.core.inplace_out_spec import NOTHING, WriteSpec
from torchnp.core.python_scalars import number, scalar, tensor
from torchnp.core.target import current, since
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._fast import fast
from torchnp.kernels.numerics.vector_tails import VECTOR, Loop, vector_or_tail
from torchnp.parallel_elementwise import by_parts
from torchnp.thresholds import Threshold

ndarray = np.ndarray
Ufunc = Callable[..., Any]
Rule = Callable[[np.dtype], np.dtype]
Dtypes = frozenset[np.dtype]
# Dtypes that torch refuses in addition to those that its CPU kernel lacks: (dtypes, exception class, torch's message).
# A fourth element, if any, is the first version of torch that accepts them.
Refusals = Sequence[tuple[Any, ...]]

# ---------------------------------------------------------------- the dtypes that torch's CPU kernels have code for

BOOL: Dtypes = frozenset({dt.bool_})
INTS: Dtypes = frozenset(dt.INTS)
UNSIGNED: Dtypes = frozenset(dt.BARE_UNSIGNED)
FLOATS: Dtypes = frozenset(dt.FLOATS)
WIDE: Dtypes = frozenset({dt.float32, dt.float64})
COMPLEX: Dtypes = frozenset({dt.complex64, dt.complex128})
ANY_COMPLEX: Dtypes = frozenset(dt.COMPLEXES)
FLOAT8: Dtypes = frozenset(dt.FLOAT8S)
NUMBERS: Dtypes = INTS | FLOATS | ANY_COMPLEX
ALL: Dtypes = frozenset(dt.ALL)

# ---------------------------------------------------------------- promotion rules: result dtype of a common dtype

same: Rule = lambda common: common
# Integers and bool give the default dtype.
int_to_float: Rule = lambda common: common if dt.is_inexact(common) else dt.get_default_dtype()
# bool gives int64, as it does next to a Python integer.
bool_to_int: Rule = lambda common: dt.int64 if common == dt.bool_ else common
always_bool: Rule = lambda common: dt.bool_
complex_to_real: Rule = dt.to_real
complex_to_real_float: Rule = lambda common: dt.to_real(int_to_float(common))

# ---------------------------------------------------------------- operands


def operand(x: Any, dtype: np.dtype) -> ndarray:
    """Return a tensor or number as an array of ``dtype``."""
    return dt.cast(x, dtype) if isinstance(x, ndarray) else number(x, dtype)


def refuse_row(cpu: str, common: np.dtype, takes: Collection[np.dtype], refuses: Refusals) -> None:
    """Raise the errors in ``refuses`` that apply to the common dtype, as torch does first; then call `require`."""
    for which, error, words, *until in refuses:
        if common in which and not (until and since(until[0])):
            raise error(words.format(dt.scalar_name(common)))
    require(cpu, common, takes)


def common_dtype(first: Any, *others: Any) -> np.dtype:
    """Return `torchnp.result_type` of the operands, quickly if they share a dtype; report bad shapes first."""
    dtype = getattr(first, "dtype", None)
    for x in others:
        if getattr(x, "dtype", None) is not dtype:
            try:
                return dt.result_type(first, *others)
            except RuntimeError:
                check_broadcast(first, *others)
                raise
    return dt.result_type(first, *others) if dtype is None else dtype


def in_opmath(cpu: str, takes: Collection[np.dtype], *operands: Any) -> tuple[tuple[ndarray, ...], np.dtype]:
    """Return the operands in the compute dtype (float32 for half types), and the result dtype.

    Kernels that are written out as functions compute with these operands and return ``finish(value, out)``. All of them
    accept float32 and float64, so these dtypes are not looked up in ``takes``.
    """
    out = common_dtype(*operands)
    if out in WIDE and all(type(x) is ndarray and x.dtype is out for x in operands):
        return operands, out
    if out not in takes:
        check_broadcast(*operands)
    require(cpu, out, takes)
    inner = dt.opmath(out)
    return tuple(dt.cast(operand(x, out), inner) for x in operands), out


def formula(
    *given: Any, of: Callable[..., Any], op: str = "", cpu: str = "", takes: Any = FLOATS, stepwise: Any = (),
    rounded: Any = (), into: int | None = None,
) -> Any:  # fmt: skip
    """Call ``of`` with tensors, followed by numbers, all converted to the compute dtype.

    Half types in ``stepwise`` are rounded at each step. For half types in ``rounded``, only the numbers are rounded.
    ``into`` is the index of the tensor whose dtype the result gets.
    """
    tensors = [x for x in given if isinstance(x, ndarray)]
    if len(tensors) > 1:
        check_broadcast(*tensors)
    if into is not None:
        check_result_dtype(dt.result_type(*tensors), tensors[into].dtype)
    arrays, out = in_opmath(cpu or f"{op}_cpu", takes, *tensors)
    if out in stepwise:
        arrays = tuple(dt.cast(x, out) for x in arrays)
    inner = arrays[0].dtype
    first = out if out in rounded else inner
    rest = [x if x is None else dt.cast(scalar(x, first), inner) for x in given[len(tensors) :]]
    value = of(*arrays, *rest)
    if into is not None:  # torch computes in the common dtype, then casts to the dtype of this tensor
        return dt.cast(finish(value, out), tensors[into].dtype)
    return tuple(finish(v, out) for v in value) if type(value) is tuple else finish(value, out)


def check_same_dtype(*tensors: ndarray) -> None:
    """Raise torch's error for the first tensor whose dtype differs from that of ``tensors[0]``."""
    expected = tensors[0].dtype
    for x in tensors:
        if x.dtype != expected:
            raise found_dtype(x.dtype, expected)


def check_broadcast(*operands: Any) -> None:
    """Raise torch's error if the shapes do not broadcast."""
    shapes = [x.shape for x in operands if isinstance(x, ndarray)]
    if len(set(shapes)) > 1:
        broadcast_shapes(*shapes)


def check_result_dtype(result: np.dtype, target: np.dtype) -> None:
    """Raise torch's error if a result dtype cannot be cast to the target's."""
    if not dt.can_cast(result, target):
        raise cannot_cast(result, target)


def in_place(target: ndarray, value: ndarray) -> ndarray:
    """Cast a value to the target's dtype, as an in-place step inside a torch op does; the shapes must match."""
    if value.shape != target.shape:
        raise output_shape(target.shape, value.shape)
    check_result_dtype(value.dtype, target.dtype)
    return dt.cast(value, target.dtype)


# ---------------------------------------------------------------- rows


class ComputePlan(NamedTuple):
    """How to compute for one common dtype."""

    function: Ufunc
    common: np.dtype  # operands are converted to this first, as in torch
    inner: np.dtype  # the function computes in this dtype
    out: np.dtype


Planner = Callable[[np.dtype], ComputePlan]
_CATEGORY_NAMES = ("bool", "integer", "float", "complex")
_HALVES = ("half", "bfloat16", "complex32")


def _planner(
    ufunc: Ufunc, result: Rule, cpu: str, takes: Collection[np.dtype], refuses: Refusals, compute: Rule, also: dict
) -> Planner:
    """Return a function that returns the plan for a common dtype, and makes each plan only once."""
    plans: dict[Any, ComputePlan] = {}
    to_default = result in (int_to_float, complex_to_real_float)
    by_version = cpu in GAINED or any(len(refusal) > 3 for refusal in refuses)
    before = int_to_float if to_default else result if result is bool_to_int else same

    def plan_of(common: np.dtype) -> ComputePlan:
        key = (common, dt.get_default_dtype()) if to_default else (common, current()) if by_version else common
        plan = plans.get(key)
        if plan is None:
            common = before(common)
            refuse_row(cpu, common, takes, refuses)
            function = also.get(_CATEGORY_NAMES[dt.category(common)], ufunc)
            if dt.is_half(common):
                function = also.get("half", function)
            function = also.get(common.name, function)
            inner = common if common in dt.HALVES and function in _OWN_OF_ONE else compute(common)
            plan = plans[key] = ComputePlan(function, common, inner, result(common))
        return plan

    return plan_of


# For these functions, NumPy and ml_dtypes have half-type loops that compute each element in float32. They give the same
# bits in one pass. For some of the unary functions they use a different math library than torch does, with equally
# accurate float32 results.
_OWN_OF_ONE = frozenset((
    np.negative, np.absolute, np.sqrt, np.floor, np.ceil, np.trunc, np.rint, np.square, np.isnan, np.isinf, np.isfinite,
    np.signbit, np.exp, np.exp2, np.expm1, np.log, np.log2, np.log10, np.log1p, np.sin, np.cos, np.tan, np.sinh, np.cosh,
    np.tanh, np.arcsin, np.arccos, np.arctan, np.arcsinh, np.arccosh, np.arctanh,
))  # fmt: skip
EXACT_BINARY_UFUNCS = frozenset((
    np.add, np.subtract, np.multiply, np.true_divide, np.copysign, np.less, np.less_equal, np.equal, np.not_equal,
    np.greater, np.greater_equal,
))  # fmt: skip

# For half types, these functions are computed with the bits, as uint16.
_BITS = {np.negative: (np.bitwise_xor, np.uint16(0x8000)), np.absolute: (np.bitwise_and, np.uint16(0x7FFF))}
TABLE: Threshold = 1 << 17  # half-type elements; from here on, a table of all results is faster than the function


def _direct(plan_of: Planner, cpu: str) -> dict[np.dtype, Ufunc]:
    """Return the functions for the dtypes that need no conversion of operands or result in any version of torch."""
    found = {}
    _, later = GAINED.get(cpu, ("", ()))
    for dtype in (d for d in dt.ALL if d not in later):
        with contextlib.suppress(RuntimeError):
            plan = plan_of(dtype)
            if plan.inner == dtype and plan.out in (dtype, dt.bool_):
                found[dtype] = plan.function
    return found


def of_half(function: Ufunc, dtype: np.dtype) -> Ufunc:
    """Wrap a float32 function for a half type: results are rounded to that type, unless they are bool."""
    if function in EXACT_BINARY_UFUNCS:
        return function

    def computed(*operands: ndarray) -> Any:
        value = function(*[x.astype(dt.float32) for x in operands])
        return value if value.dtype is dt.bool_ else value.astype(dtype)

    return computed


def _direct_halves(plan_of: Planner, run: Callable[..., ndarray], one: bool) -> dict[np.dtype, Ufunc]:
    """Return the functions for half types; functions of ``one`` operand use a table of results for large tensors."""
    found = {}
    for dtype in dt.HALVES:
        with contextlib.suppress(RuntimeError):
            plan = plan_of(dtype)
            if plan.common == dtype and plan.out in (dtype, dt.bool_):
                small = plan.function if plan.inner == dtype else of_half(plan.function, dtype)
                found[dtype] = (lambda x, f=small: f(x) if x.size < TABLE else run(x)) if one else small
    return found


def _of_one(
    plan_of: Planner, half_tail: Ufunc | None, tail_loop: Loop, many_halves: Ufunc | None = None
) -> Callable[[Any], ndarray]:
    # For each half type, the results for all its 2**16 values, indexed by the value's bits.
    tables: dict[np.dtype, ndarray] = {}

    def compute(x: ndarray) -> ndarray:
        function, common, inner, out = plan_of(x.dtype)
        return finish(function(dt.cast(dt.cast(x, common), inner)), out)

    def in_bulk(x: ndarray) -> ndarray:
        if x.size < TABLE or not dt.is_half(x.dtype):
            return compute(x)
        if many_halves:
            return many_halves(x)
        if (function := plan_of(x.dtype).function) in _BITS:
            ufunc, mask = _BITS[function]
            return ufunc(x.view(np.uint16), mask).view(x.dtype)
        if x.dtype not in tables:
            tables[x.dtype] = compute(np.arange(1 << 16, dtype=np.uint16).view(x.dtype))
        table = tables[x.dtype]
        return by_parts(lambda part: table.take(part.view(np.uint16), mode="clip"), x)

    def run(x: Any) -> ndarray:
        x = tensor(x)
        out = in_bulk(x)
        if half_tail and dt.is_half(out.dtype):
            alone = lambda part: finish(half_tail(part), out.dtype)
            return vector_or_tail(out, alone, dt.cast(x, out.dtype), loop=tail_loop)
        return out

    return run


def _of_two(
    plan_of: Planner, cpu: str, refuses: Refusals, exact_scalar: bool, stepwise: bool, half_tail: Ufunc | None
) -> Callable[[Any, Any], ndarray]:
    def run(a: Any, b: Any) -> ndarray:
        try:
            common = dt.result_type(a, b)
        except RuntimeError:
            for x in map(tensor, (a, b)):  # complex operands are refused before promotion
                if dt.is_complex(x.dtype):
                    refuse_row(cpu, x.dtype, ALL, refuses)
            check_broadcast(a, b)
            raise
        single = not isinstance(b, ndarray) or b.size == 1
        exact = exact_scalar and common != dt.complex32 and single  # torch rounds to complex32 first
        if exact_scalar and common in FLOAT8 and _is_broadcast_scalar(b):
            raise not_implemented(f"{cpu}_reduced_float", common)
        try:
            function, common, inner, out = plan_of(common)
        except NotImplementedError as error:
            if str(error).startswith('"'):  # torch reports a missing kernel after all other errors
                check_broadcast(a, b)
            raise
        b = operand(b, inner if exact else common)
        a = operand(a, common)
        given = a, b
        if inner is not common and (exact or not stepwise):
            a, b = dt.cast(a, inner), dt.cast(b, inner)
        try:
            value = finish(function(a, b), out)
            if half_tail and dt.is_half(common):
                return vector_or_tail(value, lambda *parts: finish(half_tail(*parts), out), *map(np.asarray, given))
            return value
        except ValueError:
            check_broadcast(a, b)
            raise

    return run


def _is_broadcast_scalar(b: Any) -> bool:
    """Return whether torch treats an operand as one repeated number: a Python number, or an array of strides 0."""
    if isinstance(b, ndarray):
        return b.size > 0 and not any(s for s, n in zip(b.strides, b.shape) if n > 1)
    return not isinstance(b, np.generic)


def unary(names: str, ufunc: Ufunc, result: Rule = same, **given: Any) -> Callable[[Any], ndarray]:
    """Declare a unary elementwise op; ``names`` are overloads and aliases, separated by spaces; see `_declare`."""
    return _declare(names, ufunc, result, 1, **{"takes": FLOATS | COMPLEX} | given)


def binary(names: str, ufunc: Ufunc, result: Rule = same, **given: Any) -> Callable[[Any, Any], ndarray]:
    """Declare an elementwise op of two tensors or numbers; ``names`` as in `unary`; see `_declare`."""
    return _declare(names, ufunc, result, 2, **{"takes": NUMBERS | BOOL} | given)


def _declare(
    names: str, ufunc: Ufunc, result: Rule, operands: int, *, takes: Collection[np.dtype], cpu: str = "",
    refuses: Refusals = (), compute: Rule = dt.opmath, exact_scalar: bool = False, stepwise: bool = False,
    half_tail: Ufunc | None = None, tail_loop: Loop = VECTOR, many_halves: Ufunc | None = None, like: Any = None, differs: Sequence[str] = (), doc: str = "",
    writes: WriteSpec = NOTHING, **also: Ufunc,
) -> Callable[..., ndarray]:  # fmt: skip
    """Declare an elementwise op under its names, and return its kernel; without names, only other kernels call it.

    Parameters
    ----------
    ufunc : callable
        Computes in the dtype that ``compute`` returns, by default float32 for half types.
    result : callable
        Promotion rule; its result is also the compute dtype, unless it is bool or the real dtype of a complex input.
    cpu, takes, refuses
        The name of torch's CPU kernel, the dtypes that it accepts, and other errors: see `refuse_row`.
    exact_scalar : bool
        If the first operand has a half type, use a second operand that is a number or one-element tensor in float32;
        otherwise round it to the half type first.
    stepwise : bool
        Compute two half-type tensors in that type, rounding at each step.
    half_tail, tail_loop
        The function for half-type elements in the scalar tail of torch's vectorized loop, and the kind of that loop.
    many_halves
        A faster function for at least `TABLE` half-type elements of a unary op.
    like, differs, writes
        As in `kernel`; ``like`` defaults to ``ufunc``.
    **also
        Functions that replace ``ufunc`` for a category: ``complex=``, ``integer=``, ``bool=``, ``float=``; ``half=`` for
        float16 and bfloat16 converted to float32, ``bfloat16=`` for bfloat16 only; ``complex32=``, converted to
        complex64.
    """
    if unknown := also.keys() - {*_CATEGORY_NAMES, *_HALVES}:
        raise TypeError(f"{names}: no such settings: {unknown}")
    plan_of = _planner(
        _stripped(ufunc), result, cpu, takes, refuses, compute, {k: _stripped(f) for k, f in also.items()}
    )
    run = (
        _of_one(plan_of, half_tail, tail_loop, many_halves)
        if operands == 1
        else _of_two(plan_of, cpu, refuses, exact_scalar, stepwise, half_tail)
    )
    if not names:
        return run
    doc = doc or f"Elementwise ``{names.split()[0].partition('.')[0]}``."
    writes = replace(writes, predicate=True) if result is always_bool else writes
    plain = not (stepwise or half_tail)
    direct = _direct(plan_of, cpu) | (_direct_halves(plan_of, run, operands == 1) if plain else {})
    bodies = rows(
        names,
        run,
        doc,
        like=like or ufunc,
        differs=differs,
        make=fast(direct, exact_scalar=exact_scalar),
        writes=writes,
    )
    for body in bodies:
        body.__module__ = _caller()
    return bodies[0]


def _stripped(function: Ufunc) -> Ufunc:
    """Make a function of several steps work strip by strip on large arrays; a ufunc (one step) stays unchanged."""
    return function if isinstance(function, np.ufunc) else stripwise(function, settled=True)


def finish(value: Any, out: np.dtype) -> ndarray:
    """Convert a ufunc's result to an array of the result dtype."""
    if type(value) is not ndarray:
        value = np.asarray(value)
    return value if value.dtype is out else dt.cast(value, out)


def _caller() -> str:
    """Return the name of the family module that declares the row."""
    frame: Any = sys._getframe()
    while frame.f_globals["__name__"] == __name__:
        frame = frame.f_back
    return frame.f_globals["__name__"]
