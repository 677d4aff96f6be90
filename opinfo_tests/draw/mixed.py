"""Calls for promotion, by rule: two arrays of each pair of dtypes, an array beside each kind of number, 0-d ones too, and each
dtype asked for by name of an array of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations, product
from typing import Any

from ..case import Array, Case, Named, rebuilt, schemas, whole
from .drawable import takes_any_shape
from .relaid import cast, retyped, windowed

DTYPES = (
    "bool", "uint8", "int64", "uint16", "float16", "bfloat16", "float32", "float64", "complex64", "complex32", "float8_e5m2",
)  # fmt: skip
# The last is beyond the half types and complex32, and one of them is no number of theirs.
NUMBERS = (True, 2, 2.5, 1.0, 0.3, 1 + 2j, 1e5)
# Which of two arrays is 0-d beside the calls where the second is: in turn neither, the first, both.
SINGLE: tuple[tuple[int, ...], ...] = ((), (0,), (0, 1))


def paired(case: Case) -> Iterator[Case]:
    """Yield the call with its first two arrays of unlike dtypes, its numbers of each kind and the dtypes that it asks for."""
    arrays = case.arrays()
    apart = len({a.buffer for a in arrays}) == len(arrays)
    if not arrays or not apart or not arrays[0].shape:
        return
    yield from asked(case)
    if not takes_any_shape(case.op):
        return
    if len(arrays) > 1:
        for turn, (one, two) in enumerate(permutations(DTYPES, 2)):
            yield of_dtypes(case, (one, two), (1,))
            yield of_dtypes(case, (one, two), SINGLE[turn % len(SINGLE)])
    for place, name, number, single in product(numbered(case), DTYPES, NUMBERS, ((), (0,))):
        other = retyped(case, name)
        if other is not None:
            yield with_number(of_dtypes(other, (name,), single), place, number)


def numbered(case: Case) -> list[int | str]:
    """Return the places of the numbers that a call gives, and the names of those that are given by name or have a default."""
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
    """Return the call with another number at a place, or by a name."""
    args = tuple(value if i == place else v for i, v in enumerate(case.args))
    kwargs = case.kwargs if isinstance(place, int) else {**case.kwargs, place: value}
    return replace(rebuilt(case, args, kwargs), digest="")


def asked(case: Case) -> Iterator[Case]:
    """Yield the call with each dtype asked for by name, of arrays of each."""
    names = [a.name for a in schemas()[case.op].args if a.type.startswith("ScalarType")]
    places = [a.name for a in schemas()[case.op].args if not a.kwonly]
    for name, one, two in product(names[:1], DTYPES, DTYPES):
        other = retyped(case, one)
        place = places.index(name) if name in places else len(case.args)
        if other is None or (name in places and place > len(case.args)):
            return
        if name in places:
            args, kwargs = (*other.args[:place], Named("dtype", two), *other.args[place + 1 :]), other.kwargs
        else:
            args, kwargs = other.args, {**other.kwargs, name: Named("dtype", two)}
        yield replace(rebuilt(other, args, kwargs), digest="")


def of_dtypes(case: Case, names: tuple[str, ...], single: tuple[int, ...]) -> Case:
    """Return the case with its first arrays cast to dtypes, some of them to one element without dimensions."""
    made: dict[int, Array] = {}
    buffers = list(case.buffers)
    for i, name in enumerate(names):
        a = case.arrays()[i]
        x = cast(a.on(case.buffers), name)
        if i in single and x.size:
            x = x.reshape(-1)[:1].reshape(())
        buffers[a.buffer], made[i] = whole(x, a.buffer)
    return windowed(case, made, buffers)
