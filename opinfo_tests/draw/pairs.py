"""Calls for promotion, by rule: two arrays of each pair of dtypes, or an array beside each kind of number, 0-d ones too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations, product

from ..case import Array, Case, rebuilt, schemas, whole
from .drawable import takes_any_shape
from .relaid import cast, retyped, windowed

DTYPES = (
    "bool", "uint8", "int64", "uint16", "float16", "bfloat16", "float32", "float64", "complex64", "complex32", "float8_e5m2",
)  # fmt: skip
NUMBERS = (True, 2, 2.5, 1 + 2j)
# Which of two arrays is 0-d beside the calls where the second is: in turn neither, the first, both.
SINGLE: tuple[tuple[int, ...], ...] = ((), (0,), (0, 1))


def paired(case: Case) -> Iterator[Case]:
    """Yield the call with its first two arrays of unlike dtypes, and with its numbers of each kind beside each dtype."""
    arrays = case.arrays()
    apart = len({a.buffer for a in arrays}) == len(arrays)
    if not arrays or not apart or not arrays[0].shape or not takes_any_shape(case.op):
        return
    if len(arrays) > 1:
        for turn, (one, two) in enumerate(permutations(DTYPES, 2)):
            yield of_dtypes(case, (one, two), (1,))
            yield of_dtypes(case, (one, two), SINGLE[turn % len(SINGLE)])
    types = [a.type for a in schemas()[case.op].args]
    places = [
        i for i, v in enumerate(case.args) if types[i].startswith("Scalar") and isinstance(v, (int, float, complex))
    ]
    for turn, (place, name, number) in enumerate(product(places, DTYPES, NUMBERS)):
        other = retyped(case, name)
        if other is not None:
            other = of_dtypes(other, (name,), (0,) if turn % 2 else ())
            args = tuple(number if i == place else v for i, v in enumerate(other.args))
            yield replace(rebuilt(other, args, other.kwargs), digest="")


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
