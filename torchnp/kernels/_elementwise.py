"""How elementwise kernels are made: one row each, from a NumPy function and a promotion rule.

torch computes in the result dtype of promotion, half types in float32 with one rounding at the end (opmath). For
each common dtype a *loop* is planned once: the function, and the dtypes to convert from and to. Calls whose operands
need no conversion go from the table's function straight to the ufunc.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from torchnp import dtypes as dt
from torchnp.checks import broadcast_shapes, require
from torchnp.errors import cannot_cast, found_dtype, not_implemented, output_shape
from torchnp.kernels._fast import fast
from torchnp.registry import kernel
from torchnp.scalars import number, tensor
from torchnp.writes import NOTHING, PREDICATE, Writes

ndarray = np.ndarray
Ufunc = Callable[..., Any]
Rule = Callable[[np.dtype], np.dtype]
Dtypes = frozenset[np.dtype]
# What an op refuses beside the dtypes that its CPU kernel lacks: (dtypes, exception class, torch's words).
Refusals = Sequence[tuple[Collection[np.dtype], type[Exception], str]]

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


def same(common: np.dtype) -> np.dtype:
    """The result has the promoted dtype."""
    return common


def int_to_float(common: np.dtype) -> np.dtype:
    """Integers and bool give the default dtype."""
    return common if dt.is_inexact(common) else dt.get_default_dtype()


def bool_to_int(common: np.dtype) -> np.dtype:
    """bool gives int64, as it does beside a Python integer."""
    return dt.int64 if common == dt.bool_ else common


def always_bool(common: np.dtype) -> np.dtype:
    """Predicates."""
    return dt.bool_


def complex_to_real(common: np.dtype) -> np.dtype:
    """abs: complex gives its real partner."""
    return dt.to_real(common)


def complex_to_real_float(common: np.dtype) -> np.dtype:
    """angle: complex gives its real partner, integers the default dtype."""
    return dt.to_real(int_to_float(common))


# ---------------------------------------------------------------- operands


def operand(x: Any, dtype: np.dtype) -> ndarray:
    """A tensor or number in the dtype of the computation."""
    return dt.cast(x, dtype) if isinstance(x, ndarray) else number(x, dtype)


def refuse_row(cpu: str, common: np.dtype, takes: Collection[np.dtype], refuses: Refusals) -> None:
    """`require`, after what torch ``refuses`` before that in words of its own."""
    for which, error, words in refuses:
        if common in which:
            raise error(words.format(dt.scalar_name(common)))
    require(cpu, common, takes)


def common_dtype(first: Any, *others: Any) -> np.dtype:
    """`torchnp.result_type`, at once where all operands have one dtype."""
    dtype = getattr(first, "dtype", None)
    for x in others:
        if getattr(x, "dtype", None) is not dtype:
            return dt.result_type(first, *others)
    return dt.result_type(first) if dtype is None else dtype


def in_opmath(cpu: str, takes: Collection[np.dtype], *operands: Any) -> tuple[tuple[ndarray, ...], np.dtype]:
    """Operands in the dtype of the computation, and the dtype of the result.

    For the kernels that are more than a row: they compute on these and give back ``finish(value, out)``. Every such
    kernel has code for float32 and float64, which are not looked up in ``takes``.
    """
    out = common_dtype(*operands)
    if out in WIDE and all(type(x) is ndarray and x.dtype is out for x in operands):
        return operands, out
    require(cpu, out, takes)
    inner = dt.opmath(out)
    return tuple(dt.cast(operand(x, out), inner) for x in operands), out


def check_same_dtype(*tensors: ndarray) -> None:
    """Raise torch's error for the first tensor whose dtype is not the first one's."""
    expected = tensors[0].dtype
    for x in tensors:
        if x.dtype != expected:
            raise found_dtype(x.dtype, expected)


def check_broadcast(*operands: Any) -> None:
    """Raise torch's error where the sizes do not fit."""
    shape = None
    for x in operands:
        if isinstance(x, ndarray):
            if shape is None:
                shape = x.shape
            elif x.shape != shape:
                broadcast_shapes(*(x.shape for x in operands if isinstance(x, ndarray)))
                return


def check_result_dtype(result: np.dtype, target: np.dtype) -> None:
    """Raise torch's error if it does not write a result of one dtype into a tensor of another."""
    if not dt.can_cast(result, target):
        raise cannot_cast(result, target)


def in_place(target: ndarray, value: ndarray) -> ndarray:
    """What an in-place step inside a torch op leaves: the value in the target's dtype, if it has its shape."""
    if value.shape != target.shape:
        raise output_shape(target.shape, value.shape)
    check_result_dtype(value.dtype, target.dtype)
    return dt.cast(value, target.dtype)


# ---------------------------------------------------------------- rows


class Plan(NamedTuple):
    """How to compute for one common dtype."""

    function: Ufunc
    common: np.dtype  # what the operands are converted to, as torch does
    inner: np.dtype  # what the function computes in
    out: np.dtype


@dataclass(frozen=True)
class Elementwise:
    """What the rows of an elementwise op have in common.

    Attributes
    ----------
    ufunc : callable
        Computes in the dtype that ``compute`` gives.
    result : callable
        Promotion rule; its result is also the dtype of the computation, unless it is bool or the real partner
        of a complex input.
    cpu, takes, refuses
        What torch refuses: see `refuse_row`.
    compute : callable
        The dtype in which torch computes a dtype.
    exact_scalar : bool
        A second operand that is a number or one-element tensor is used in float32 beside a half type; else it is
        rounded to half first.
    stepwise : bool
        Two tensors of a half type are computed in it, with a rounding at each step.
    also : dict
        Other functions by category: ``complex=``, ``integer=``, ``bool=``, ``float=``, and ``half=`` for float16
        and bfloat16 converted to float32.
    """

    ufunc: Ufunc
    result: Rule
    takes: Collection[np.dtype]
    also: dict[str, Ufunc]
    cpu: str = ""
    refuses: Refusals = ()
    compute: Rule = dt.opmath
    exact_scalar: bool = False
    stepwise: bool = False

    def plan(self, common: np.dtype) -> Plan:
        if self.to_default:
            common = int_to_float(common)
        elif self.result is bool_to_int:
            common = bool_to_int(common)
        refuse_row(self.cpu, common, self.takes, self.refuses)
        function = self.also.get(_CATEGORY_NAMES[dt.category(common)], self.ufunc)
        if dt.is_half(common):
            function = self.also.get(_HALF, function)
        return Plan(function, common, self.compute(common), self.result(common))

    @property
    def to_default(self) -> bool:
        """Whether integers give the default dtype."""
        return self.result in (int_to_float, complex_to_real_float)

    def direct(self) -> dict[np.dtype, Ufunc]:
        """The functions that take and give a dtype as it is."""
        found = {}
        for dtype in dt.ALL:
            try:
                plan = self.plan(dtype)
            except RuntimeError:
                continue
            if plan.inner == dtype and (plan.out == dtype or plan.out == dt.bool_):
                found[dtype] = plan.function
        return found


_CATEGORY_NAMES = ("bool", "integer", "float", "complex")
_HALF = "half"


def _plans(op: Elementwise) -> Callable[[np.dtype], Plan]:
    """`Elementwise.plan`, remembered."""
    plans: dict[Any, Plan] = {}
    to_default = op.to_default

    def plan_of(common: np.dtype) -> Plan:
        key = (common, dt.get_default_dtype()) if to_default else common
        plan = plans.get(key)
        if plan is None:
            plan = plans[key] = op.plan(common)
        return plan

    return plan_of


def _of_one(op: Elementwise) -> Callable[[Any], ndarray]:
    plan_of = _plans(op)

    def run(x: Any) -> ndarray:
        x = tensor(x)
        function, common, inner, out = plan_of(x.dtype)
        return finish(function(dt.cast(dt.cast(x, common), inner)), out)

    return run


def _of_two(op: Elementwise) -> Callable[[Any, Any], ndarray]:
    plan_of, cpu, exact_scalar, stepwise = _plans(op), op.cpu, op.exact_scalar, op.stepwise

    def run(a: Any, b: Any) -> ndarray:
        try:
            common = dt.result_type(a, b)
        except RuntimeError:
            for x in map(tensor, (a, b)):  # complex operands are refused before promotion
                if dt.is_complex(x.dtype):
                    refuse_row(cpu, x.dtype, ALL, op.refuses)
            raise
        single = not isinstance(b, ndarray) or b.size == 1
        exact = exact_scalar and common != dt.complex32 and single  # torch rounds to complex32 first
        if exact and common in FLOAT8:
            raise not_implemented(f"{cpu}_reduced_float", common)
        function, common, inner, out = plan_of(common)
        b = operand(b, inner if exact else common)
        a = operand(a, common)
        if inner is not common and (exact or not stepwise):
            a, b = dt.cast(a, inner), dt.cast(b, inner)
        try:
            return finish(function(a, b), out)
        except ValueError:
            check_broadcast(a, b)
            raise

    return run


def unary(names: str, ufunc: Ufunc, result: Rule = same, **given: Any) -> Callable[[Any], ndarray]:
    """Declare an elementwise op of one tensor: the overloads and aliases, separated by spaces; see `_declare`."""
    return _declare(names, ufunc, result, **{"args": ("self",), "takes": FLOATS | COMPLEX} | given)


def binary(names: str, ufunc: Ufunc, result: Rule = same, **given: Any) -> Callable[[Any, Any], ndarray]:
    """Declare an elementwise op of two tensors or numbers: the overloads and aliases; see `_declare`."""
    return _declare(names, ufunc, result, **{"args": ("self", "other"), "takes": NUMBERS | BOOL} | given)


_SETTINGS = frozenset(field.name for field in fields(Elementwise))


def _declare(
    names: str,
    ufunc: Ufunc,
    result: Rule,
    *,
    args: tuple[str, ...],
    like: Any = None,
    differs: Sequence[str] = (),
    doc: str = "",
    writes: Writes = NOTHING,
    **given: Any,
) -> Callable[..., ndarray]:
    """The body of an elementwise op, declared under its names (none for a step of other kernels).

    ``args`` are the schema's names of the operands, ``like`` the NumPy function of the same purpose where it is not
    ``ufunc``; ``differs`` and ``writes`` are those of `kernel`. The rest is settings of `Elementwise`, or functions
    for a category.
    """
    settings = {key: value for key, value in given.items() if key in _SETTINGS}
    also = {key: value for key, value in given.items() if key not in _SETTINGS}
    if unknown := also.keys() - {*_CATEGORY_NAMES, _HALF}:
        raise TypeError(f"{names}: no such settings: {unknown}")
    op = Elementwise(ufunc, result, also=also, **settings)
    run = _of_one(op) if len(args) == 1 else _of_two(op)

    def body(*given: Any, **named: Any) -> ndarray:
        return run(*given, *(named[name] for name in args[len(given) :]))

    if not names:
        return body
    names_ = names.split()
    body.__name__ = body.__qualname__ = names_[0].partition(".")[0]
    body.__module__ = _caller()
    body.__doc__ = doc or f"Elementwise ``{body.__name__}``."
    vars(body)["__signature__"] = inspect.Signature(
        [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in args]
    )
    writes = PREDICATE if result is always_bool else writes
    return kernel(*names_, like=like or ufunc, differs=differs, make=fast(op.direct()), writes=writes)(body)


def finish(value: Any, out: np.dtype) -> ndarray:
    """A ufunc's result as an array of the result dtype."""
    if type(value) is not ndarray:
        value = np.asarray(value)
    return value if value.dtype is out else dt.cast(value, out)


def _caller() -> str:
    """The family module that declares the row."""
    frame: Any = sys._getframe()
    while frame.f_globals["__name__"] == __name__:
        frame = frame.f_back
    return frame.f_globals["__name__"]
