"""Calls that test dtype promotion.

Operands get each pair of dtypes in both orders, as arrays, 0-d arrays and numbers. For input arrays of every dtype,
each ``dtype`` argument takes every dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain, permutations, product
from typing import Any

import numpy as np

from ...case import DTYPES as EVERY
from ...case import Array, Case, Named, leaves, map_tree, rebuilt, schemas, whole
from ..constraints import constraint as con
from ..constraints.table import constraint_of
from ..drawable import functional_form, takes_any_shape
from .layout_variants import cast, retyped
from .special_values import takes_any

USUAL = (
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
)  # fmt: skip
# Each of these dtypes is paired with the dtypes in `BESIDE`.
RARE = ("uint16", "uint32", "uint64", "complex32", "float8_e5m2", "float8_e4m3fn")
BESIDE = ("uint8", "int64", "float32", "float64", "complex64")
PAIRS = (*permutations(USUAL, 2), *((a, b) for one, two in product(RARE, BESIDE) for a, b in ((one, two), (two, one))))
# Dtypes for ``dtype`` arguments; `NUMBERED` is for arrays that are combined with numbers.
DTYPES = (
    "bool", "uint8", "int64", "uint16", "float16", "bfloat16", "float32", "float64", "complex64", "complex32", "float8_e5m2",
)  # fmt: skip
NUMBERED = (*USUAL, "uint16", "complex32", "float8_e5m2")
# The last number overflows float16 and complex32, and half-precision dtypes cannot represent 0.3.
NUMBERS = (True, 2, 2.5, 1.0, 0.3, 1 + 2j, 1e5)
KINDS = (True, 2, 0.3, 1 + 2j)  # numbers that replace an array
# Values of the first operand and of the others: fractions, and numbers that float32 rounds. No divisor becomes 0 when
# truncated.
VALUES = ((2.5, -3.0, 0.3, 33554433.0), (3.0, 1.7, -2.0, 33554434.0))
# Which operands are 0-d: none, the second, the first, or both.
FORMS = ("", "second", "first", "both")
OUTS = ("float32", "float64", "int64", "complex64", "bool", "bfloat16")
PROBES = (
    ("float32", "float64"),
    ("float64", "float32"),
    ("int64", "float32"),
    ("float32", "int64"),
    ("int32", "int64"),
)

Execute = Callable[[Case], Any]


def paired(case: Case, execute: Execute) -> Iterator[Case]:
    """Yield the call with operands of different dtypes, with numbers of each kind, and with each ``dtype`` argument.

    Parameters
    ----------
    case : Case
        A call that torch accepts.
    execute : callable
        Runs a call on torch.
    """
    if not case.arrays():
        return
    yield from asked(case)
    base = plain(case, execute)
    alone = [i for i, x in enumerate(base.args) if isinstance(x, (list, tuple)) and x and isinstance(x[0], Array)]
    if len(base.arrays()) == 1 and alone:
        base = listed_twice(base, alone[0])
    # Mix dtypes only for operators that accept arrays of any shape: for others torch may not check the arguments, and
    # may then read an operand as the wrong dtype, out of bounds.
    groups = operands(base) if takes_any_shape(base.op) or alone == [0] else []
    if len(groups) > 1 and any(not execute(of_dtypes(base, groups, *pair)).error for pair in PROBES):
        yield from mixed(base, groups)
    if takes_any_shape(base.op):
        yield from as_number(base, execute)
    if takes_any_shape(case.op):
        yield from numbers(case)


def mixed(base: Case, groups: list[list[int]]) -> Iterator[Case]:
    """Yield calls in which one operand has another dtype than the rest, for each pair of dtypes.

    Frequent dtypes get all forms (which operands are 0-d), other dtypes one form in turn.
    """
    schema = schemas()[base.op]
    often = len(groups) == 2 and not schema.is_out
    forms = FORMS[:3] if takes_any_shape(base.op) else FORMS[:1]
    turn = 0
    for pair in PAIRS:
        for odd in range(1 if len(groups) == 2 else 0, len(groups)):
            every = often and pair[0] in USUAL and pair[1] in USUAL
            chosen = (
                forms
                if every and not schema.mutates
                else (forms * 2)[turn % len(forms) :][: 1 + every * (len(forms) > 1)]
            )
            if takes_any_shape(base.op) and turn % 8 == 0:
                chosen = (*chosen, FORMS[3])
            for form in chosen:
                yield of_dtypes(base, groups, *pair, odd, form, turn)
            turn += 1


def plain(case: Case, execute: Execute) -> Case:
    """Return the call without optional arguments, and with small simple arrays if shapes and values are free."""
    schema = schemas()[case.op]
    required = {a.name for a in schema.args if not a.has_default or a.is_out} | constraint_of(case.op).always
    count = sum(a.name in required for a in schema.args[: len(case.args)])
    names = [a.name for a in schema.args[: len(case.args)]]
    least = rebuilt(case, case.args[:count], {k: v for k, v in case.kwargs.items() if k in required})
    least = apart(replace(least, digest=""))
    found = [least] if all(n in required for n in names[:count]) else []
    for one in [*found, apart(case)]:
        free = takes_any_shape(one.op) and {a.name for a in schema.args if a.type.startswith("Tensor")} <= takes_any(
            one.op
        )
        for other in ([valued(one)] if free else []) + [one]:
            if not execute(other).error:
                return other
    return apart(case)


def listed_twice(case: Case, place: int) -> Case:
    """Return the call with the list at ``place`` repeated, so that it has each array twice."""
    args = tuple(v * 2 if i == place else v for i, v in enumerate(case.args))
    return apart(replace(case, args=args))


def apart(case: Case) -> Case:
    """Return the call with each array in its own contiguous memory."""
    buffers: list[np.ndarray] = []

    def leaf(x: Any) -> Any:
        if not isinstance(x, Array):
            return x
        memory, window = whole(x.on(case.buffers), len(buffers))
        buffers.append(memory)
        return window

    args, kwargs = map_tree(leaf, case.args), map_tree(leaf, case.kwargs)
    return replace(case, args=args, kwargs=kwargs, buffers=buffers, digest="")


def valued(case: Case) -> Case:
    """Return the call with 1-d arrays of simple values."""
    first = case.arrays()[0].buffer
    buffers = [made(VALUES[i != first], a.dtype) for i, a in enumerate(case.arrays())]
    return on_memory(case, buffers)


def made(values: tuple[float, ...], name: str) -> np.ndarray:
    """Return simple values in a dtype; integers wrap."""
    dtype = EVERY[name]
    if dtype.kind in "iu":
        return np.array([int(v) for v in values]).astype(dtype)
    return cast(np.array(values), name)


def on_memory(case: Case, values: list[np.ndarray]) -> Case:
    """Return the call with its arrays replaced by these values in order, each in its own memory."""
    pairs = [whole(x, i) for i, x in enumerate(values)]
    windows = iter([window for _, window in pairs])
    leaf = lambda x: next(windows) if isinstance(x, Array) else x
    args, kwargs = map_tree(leaf, case.args), map_tree(leaf, case.kwargs)
    return replace(case, args=args, kwargs=kwargs, buffers=[memory for memory, _ in pairs], digest="")


def operands(case: Case) -> list[list[int]]:
    """Return the indices of each operand's arrays; an operand is a tensor or tensor list argument whose dtype is free.

    If a call has a single list, its operands are the first array of the list and the other arrays.
    """
    row = constraint_of((functional_form(case.op) if schemas()[case.op].mutates else "") or case.op)
    declared = schemas()[case.op].args
    by_name = {a.name: a for a in declared}
    given = [*zip((a.name for a in declared), case.args, strict=False), *case.kwargs.items()]
    groups: list[list[int]] = []
    count = 0
    for name, value in given:
        n = sum(isinstance(x, Array) for x in leaves(value))
        spec = row.args.get(name)
        fixed = isinstance(spec, (con.T, con.Ts)) and spec.dtype not in ("main", "same", "real")
        if n and not fixed and not by_name[name].is_out:
            groups.append([*range(count, count + n)])
        count += n
    if len(groups) == 1 and len(groups[0]) > 1 and "[]" not in str(schemas()[case.op].returns[:1]):
        return [groups[0][:1], groups[0][1:]]
    return groups


def of_dtypes(
    case: Case, groups: list[list[int]], one: str, two: str, odd: int = 1, form: str = "", turn: int = 0
) -> Case:
    """Return the call with operand ``odd`` in dtype ``two``, the others in ``one``, and ``out=`` in changing dtypes.

    ``form`` says which operands are 0-d: ``second`` means the odd one, ``first`` the others.
    """
    kinds = {
        i: (two, form in ("second", "both")) if k == odd else (one, form in ("first", "both"))
        for k, group in enumerate(groups)
        for i in group
    }
    outs = [a for a in schemas()[case.op].args if a.is_out]
    arrays = case.arrays()
    values = []
    for i, a in enumerate(arrays):
        x = a.on(case.buffers)
        if i in kinds:
            name, single = kinds[i]
            x = cast(x, name)
            x = x.reshape(-1)[:1].reshape(()) if single and x.size else x
        elif outs and i >= len(arrays) - len(outs):
            x = cast(x, OUTS[turn % len(OUTS)])
        values.append(x)
    return on_memory(case, values)


def as_number(case: Case, execute: Execute) -> Iterator[Case]:
    """Yield the call with either of two operands replaced by numbers of each kind, and arrays of each dtype."""
    tensors = [i for i, x in enumerate(case.args) if isinstance(x, Array)]
    for place in tensors[:2] if len(case.arrays()) > 1 else ():
        if execute(number_at(case, place, 2)).error:
            continue
        for turn, (name, number) in enumerate(product(NUMBERED, KINDS)):
            other = retyped(case, name)
            if other is not None:
                single = () if turn % 3 else tuple(range(len(other.arrays())))
                yield number_at(shrunk(other, single), place, number)


def numbers(case: Case) -> Iterator[Case]:
    """Yield the call with each kind of number for each Scalar argument, and arrays of each dtype, sometimes 0-d."""
    case = apart(case)
    for place, name in product(numbered(case), NUMBERED):
        other = retyped(case, name)
        if other is None:
            return
        for turn, number in enumerate(NUMBERS):
            yield with_number(other, place, number)
            if turn % 2 and case.arrays()[0].shape:
                yield with_number(shrunk(other, (0,)), place, number)


def shrunk(case: Case, single: tuple[int, ...]) -> Case:
    """Return the call with some of its arrays reduced to their first element, as 0-d arrays."""
    arrays = [a.on(case.buffers) for a in case.arrays()]
    return (
        on_memory(case, [x.reshape(-1)[:1].reshape(()) if i in single and x.size else x for i, x in enumerate(arrays)])
        if single
        else case
    )


def number_at(case: Case, place: int, value: complex) -> Case:
    """Return the call with a number instead of an array."""
    args = tuple(value if i == place else v for i, v in enumerate(case.args))
    return replace(rebuilt(case, args, case.kwargs), digest="")


def numbered(case: Case) -> list[int | str]:
    """Return the positions of a call's Scalar arguments, or the names of those given by keyword or omitted."""
    schema = schemas()[case.op]
    types = {a.name: a.type for a in schema.args}
    left_out = {a.name: a.default for a in schema.args[len(case.args) :] if a.has_default} | case.kwargs
    found: list[tuple[int | str, Any]] = [*enumerate(case.args), *left_out.items()]
    return [
        place
        for place, v in found
        if types[place if isinstance(place, str) else schema.args[place].name].startswith("Scalar")
        and isinstance(v, (int, float, complex))
    ]


def with_number(case: Case, place: int | str, value: complex) -> Case:
    """Return the call with another number at a position or under a name."""
    args = tuple(value if i == place else v for i, v in enumerate(case.args))
    kwargs = case.kwargs if isinstance(place, int) else {**case.kwargs, place: value}
    return replace(rebuilt(case, args, kwargs), digest="")


def asked(case: Case) -> Iterator[Case]:
    """Yield the call with arrays of each dtype and, for each, every value of its ``dtype`` argument."""
    names = [a.name for a in schemas()[case.op].args if a.type.startswith("ScalarType")]
    places = [a.name for a in schemas()[case.op].args if not a.kwonly]
    for name, one, two in product(names[:1], chain(DTYPES, ("int8", "int32")), chain(DTYPES, ("int8", "int32"))):
        other = retyped(case, one)
        place = places.index(name) if name in places else len(case.args)
        if other is None or (name in places and place > len(case.args)):
            return
        if name in places:
            args, kwargs = (*other.args[:place], Named("dtype", two), *other.args[place + 1 :]), other.kwargs
        else:
            args, kwargs = other.args, {**other.kwargs, name: Named("dtype", two)}
        yield replace(rebuilt(other, args, kwargs), digest="")
