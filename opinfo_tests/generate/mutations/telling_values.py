"""Calls with values that expose wrong kernels.

They combine each special number with each other, use integers that overflow, combine NaN and infinity with each value
of each option, and for each option have a call whose result depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice, product
from typing import Any

import ml_dtypes
import numpy as np

from ...case import DTYPES, Case, is_complex, is_inexact, rebuilt, schemas
from ...judge.collisions import equal_bits
from ..constraints import constraint as con
from ..constraints.table import constraint_of
from ..drawable import takes_any_shape
from .layout_variants import retyped
from .promotion_cases import apart, numbered, on_memory, operands, plain, with_number
from .special_values import named_arrays, planted, takes_any

Execute = Callable[[Case], Any]

# ---------------------------------------------------------------- pairs of special numbers

GRID = ("float32", "float64", "float16", "bfloat16", "complex64", "int8", "int16", "int32", "int64", "uint8", "bool")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8")
HALVES = ("float16", "bfloat16")
DENSE = 700  # number of values in half precision, enough to show one additional rounding
# Integer division of the smallest integer by -1 crashes some of these operators; a divisor of 0 always gives an error.
DIVIDES = ("div", "remainder", "fmod", "gcd", "lcm", "modulus")


def divides(op: str) -> bool:
    return any(word in op for word in DIVIDES)


def ends(name: str, divisor: bool = False) -> np.ndarray:
    """Return the special numbers of a dtype, except 0 and -1 for integer divisors."""
    dtype = DTYPES[name]
    if dtype == np.bool_:
        return np.array([True]) if divisor else np.array([True, False])
    if not is_inexact(dtype):
        whole = np.iinfo(dtype)
        root = int(whole.max**0.5)
        numbers = [whole.max, whole.min, whole.max - 1, root + 1, 2 * root, 1, 3, -3 if whole.min else 200, 2, 100]
        return np.array([n for n in [*numbers, 0, -1] if n >= whole.min and not (divisor and n in (0, -1))], dtype)
    real = {"complex64": "float32"}.get(name, name)
    info = ml_dtypes.finfo(DTYPES[real])
    found: list[Any] = [
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        1.0,
        -1.0,
        2.5,
        -0.3,
        -3.0,
        float(info.max),
        float(info.tiny),
        float(info.smallest_subnormal),
    ]
    if name == "complex64":
        found = [complex(a, b) for a, b in product((0.0, -0.0, 1.5, -2.0), (0.0, -0.0, 3.0, -0.5))]
    with np.errstate(all="ignore"):
        return np.array(found).astype(dtype)


def gridded(case: Case, execute: Execute) -> Iterator[Case]:
    """Yield the call of an elementwise operator with each pair of special numbers, in each dtype."""
    schema = schemas()[case.op]
    if schema.mutates or schema.is_out or schema.is_view:
        return
    base = plain(case, execute)
    groups = operands(base)
    if "pointwise" not in schema.tags and not (len(groups) > 1 and is_elementwise(base, execute)):
        return
    if not groups or not {name for name, _ in named_arrays(base)} <= takes_any(base.op):
        return
    count, first = sum(map(len, groups)), groups[0][0]
    for name in GRID:
        one = retyped(base, name)
        if one is None or count != len(one.arrays()):
            return
        kinds = [a.dtype for a in one.arrays()]
        made = on_memory(one, crossing(kinds, first, divides(base.op)))
        if execute(made).error:
            continue
        yield made
        if name in HALVES:
            many = on_memory(one, [dense(kind, turn) for turn, kind in enumerate(kinds)])
            yield many
            yield from filter(None, (given(many, *option) for option in options(many)))
        for place in numbered(made):
            for number in (
                ends("float64" if is_inexact(DTYPES[name]) else name, True)
                if name in ("float32", "int32", "int64")
                else ()
            ):
                yield with_number(made, place, number.item())


def is_elementwise(case: Case, execute: Execute) -> bool:
    """Return whether an operator that is not tagged pointwise returns one element for each element of its operands."""
    if not takes_any_shape(case.op):
        return False
    results, shapes = execute(case).results, {a.shape for a in case.arrays()}
    return len(shapes) == 1 and [np.shape(r) for r in results] == [*shapes] and () not in shapes


def crossing(kinds: list[str], first: int, divisors: bool) -> list[np.ndarray]:
    """Return arrays that combine each number of the first with each of the second, and some of the third."""
    values = [ends(kind, divisors and i != first) for i, kind in enumerate(kinds)]
    # with three operands, an overflowing product may meet an infinity, or be rounded only after the addition
    if len(values) > 2:
        values = [moderate(v) for v in values]
    if len(values) == 1:
        return values
    rows, columns = len(values[0]), max(map(len, values[1:]))
    found = [np.repeat(values[0], columns)]
    found += [
        np.resize(np.roll(v, turn), columns) if turn == 0 else np.resize(v, columns)
        for turn, v in enumerate(values[1:])
    ]
    return found[:1] + [
        np.concatenate([np.roll(v, turn * row) for row in range(rows)]) for turn, v in enumerate(found[1:])
    ]


def moderate(values: np.ndarray) -> np.ndarray:
    """Return the numbers whose products do not overflow, and the infinities."""
    if not is_inexact(values.dtype):
        return values
    with np.errstate(all="ignore"):
        magnitude = np.abs(values)
        return values[(magnitude == np.inf) | ~(magnitude > 1e4)]


def dense(kind: str, turn: int) -> np.ndarray:
    """Return many numbers of different magnitudes and both signs."""
    rng = np.random.default_rng(turn)
    if not is_inexact(DTYPES[kind]):
        return rng.integers(0, 2, DENSE).astype(DTYPES[kind])
    return (rng.standard_normal(DENSE) * rng.choice([0.3, 1.0, 4.0], DENSE)).astype(DTYPES[kind])


# ---------------------------------------------------------------- integers that overflow


def overflowing(case: Case, execute: Execute) -> Iterator[Case]:
    """Yield the call of an operator that is not elementwise, with integers whose sums and products overflow."""
    schema = schemas()[case.op]
    if "pointwise" in schema.tags or schema.mutates or schema.is_out or schema.is_view:
        return
    base, free = apart(case), takes_any(case.op)
    if not any(name in free for name, _ in named_arrays(base)):
        return
    for kind in INTEGERS:
        one = retyped(base, kind)
        if one is None:
            return
        large = np.concatenate([np.repeat(ends(kind)[:1], 3), ends(kind)])
        values = [
            np.resize(np.roll(large, -turn), a.shape) if name in free and a.dtype == kind else a.on(one.buffers)
            for turn, (name, a) in enumerate(named_arrays(one))
        ]
        made = on_memory(one, values)
        if not execute(made).error:
            yield made


ROWS = (9, 7)  # shape of the matrix, for calls with one array


def proportional(case: Case, execute: Execute) -> Iterator[Case]:
    """Yield the call with proportional rows, for which rounding can push correlations and angles out of their range."""
    base, free = apart(case), takes_any(case.op)
    names = [name for name, _ in named_arrays(base)]
    if "pointwise" in schemas()[case.op].tags or schemas()[case.op].is_view or not set(names) <= free:
        return
    for kind in ("float32", "float64", "complex64"):
        one = retyped(base, kind)
        if one is None:
            return
        for rows in (ROWS, ()) if len(names) == 1 else ((),):
            made = on_memory(one, [multiples(a.on(one.buffers), rows or a.shape) for a in one.arrays()])
            if not execute(made).error:
                yield made
                break


def multiples(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return an array of the given shape with proportional rows; ``x`` itself if the shape is 0-d."""
    if not shape:
        return x
    row = np.random.default_rng(len(shape)).standard_normal(shape[-1:]) * (1 + 1j if is_complex(x.dtype) else 1)
    factors = (1 + np.arange(shape[0])) * 0.37 if len(shape) > 1 else np.ones(1)
    return np.broadcast_to(row * factors.reshape(-1, *[1] * (len(shape) - 1)), shape).astype(x.dtype)


# ---------------------------------------------------------------- options

LIMIT = 0.5  # value for optional numbers
KINDS = ("nan", "infinite", "zero")
MOST = 60  # number of calls with options and special numbers, for each operator
# Integer arguments that encode a choice, and the number of choices.
CHOICES = {"reduction": 3, "interpolation_mode": 3, "padding_mode": 3, "mode": 3}
UNTOLD = frozenset({"pin_memory", "device", "layout", "non_blocking", "generator", "memory_format"})


def choices(op: str, a: Any) -> tuple:
    """Return the values of an option, from its constraint, name and type; empty if the argument is not an option."""
    spec = constraint_of(op).args.get(a.name) or con.by_name(a)
    kind = a.type.removesuffix("?")
    if a.name in UNTOLD or a.is_out or "dim" in a.name or "axis" in a.name:
        return ()
    if isinstance(spec, (con.C, con.N)) and spec.choices:
        return tuple(dict.fromkeys(v for v in spec.choices if v is None or isinstance(v, (bool, int, float, str))))
    if kind == "bool":
        return (False, True)
    if a.type in ("Scalar?", "float?"):
        return (None,)
    if kind == "str" and a.name in con.WORDS:
        return con.WORDS[a.name]
    if kind in ("int", "SymInt") and a.name in CHOICES:
        return tuple(range(CHOICES[a.name]))
    return ()


def options(case: Case) -> Iterator[tuple[str, Any]]:
    """Yield the name of each option with each of its values."""
    for a in schemas()[case.op].args:
        for value in choices(case.op, a):
            yield a.name, value


def given(case: Case, name: str, value: Any) -> Case | None:
    """Return the call with an argument set by its name."""
    names = [a.name for a in schemas()[case.op].args if not a.kwonly]
    if name not in names or (place := names.index(name)) > len(case.args):
        kwargs = {**case.kwargs, name: value}
        return replace(rebuilt(case, case.args, kwargs), digest="")
    kwargs = {k: v for k, v in case.kwargs.items() if k != name}
    return replace(rebuilt(case, (*case.args[:place], value, *case.args[place + 1 :]), kwargs), digest="")


def beside_options(case: Case, execute: Execute) -> Iterator[Case]:
    """Yield the call with each value of each option, and NaN, infinities or signed zeros in each array."""
    schema = schemas()[case.op]
    if schema.mutates or schema.is_out or schema.is_view:
        return
    case = next((c for c in (retyped(case, "float32"), case) if c is not None and not execute(c).error), case)
    for a in schema.args:  # set optional limits, so that the options can then remove each of them
        if a.type in ("Scalar?", "float?") and (full := given(case, a.name, LIMIT)) and not execute(full).error:
            case = full
    yield from islice(specials(case, execute), MOST)


def specials(case: Case, execute: Execute) -> Iterator[Case]:
    every = sorted(options(case), key=lambda pair: isinstance(pair[1], bool))  # choices and orders first
    for name, value in every or [("", None)]:
        one = given(case, name, value) if name else case
        if one is None or constraint_of(one.op).dies(one) or execute(one).error:
            continue
        for which in range(len(one.arrays())):
            for kind in KINDS:
                if (made := planted(one, kind, which)) is not None:
                    yield made


def telling(cases: list[Case], execute: Execute) -> Iterator[Case]:
    """For each value of each option, find a call whose result depends on it; yield it with and without the value.

    Parameters
    ----------
    cases : list of Case
        Calls of one overload to search.
    execute : callable
        Runs a call on torch.
    """
    if not cases or schemas()[cases[0].op].mutates or schemas()[cases[0].op].is_out:
        return
    for name, value in dict.fromkeys(options(cases[0])):
        for case in cases:
            one = given(case, name, value)
            if one is None or one.digest == case.digest or constraint_of(one.op).dies(one):
                continue
            before, after = execute(case), execute(one)
            if before.error or after.error:
                continue
            if not same(before, after):
                yield from (case, one)
                break


def same(a: Any, b: Any) -> bool:
    """Return whether two runs gave the same results."""
    if len(a.results) != len(b.results) or a.structure != b.structure:
        return False
    return all(
        (x.shape == y.shape and x.dtype == y.dtype and bool(equal_bits(x, y).all()))
        if isinstance(x, np.ndarray) and isinstance(y, np.ndarray)
        else x == y
        for x, y in zip(a.results, b.results, strict=True)
    )
