"""Calls that ask for a refusal, by rule: one argument of a good call, or two, changed in a way that most operators do not take."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from random import Random
from typing import Any

import numpy as np

from ..case import DTYPES, NAMES, Array, Case, Named, rebuilt, schemas, whole
from .constraint_table import constraint_of
from .constraints import EVERY_DTYPE
from .drawable import looks_at_sizes
from .strategies import draws
from .task import BROKEN

NUMBERS = (-1, -7, 0, 9, 100)
INDICES = (-1, -100, 100)  # out of range, and from the end
OTHER_DTYPES = tuple(dict.fromkeys(["float64", "float16", "complex128", *EVERY_DTYPE]))
FAR = (100, -100, -7)
# Lists with two faults: which of them is named?
UNLIKE = ([0, 0, 100], [0, -100, 100], [-1, -1, 100], [-1, -7], [-7, -1], [2, -1, -1], [1, 0, 1, 2])
# Numbers that a dtype has not: of sign, of part, and beyond the range of half types, of float and of 64 bits.
SCALARS = (-1.0, 1.5, 3 + 4j, True, 1e5, 1e39, -(2**63))
FLOATS = (-1.0, 1.5, float("nan"), 1e5, 1e39)
# What may be given for an argument that is left out.
GIVEN = {"int?": NUMBERS, "SymInt?": NUMBERS, "float?": FLOATS, "bool?": (False, True), "Scalar?": SCALARS}
AMONG = 20  # draws, of which they are
TWICE = 24  # calls of each of these with two changes
BASES = 2  # calls that torch takes, of each overload, whose arguments are changed


def run_broken(source: str, count: str, recorder: Any, start: int = 0) -> Iterator[None]:
    """Offer what is made of the first calls that torch takes, the same for every ``count`` of calls that are judged as drawn."""
    from ..backends.torch_backend import TorchDevice

    op, oracle = source.removeprefix(BROKEN), TorchDevice("cpu")
    if not recorder.wanted(op):
        return
    kept: list[Case] = []
    for case in draws(op, AMONG, start):
        if all(0 not in a.shape for a in case.arrays()) and not oracle.execute(case).error:
            kept.append(case)
        if len(kept) == BASES:
            break
    for case in kept:
        once = broken(replace(case, source=source, sample_dtype=count))
        for other in [*chain(*once), *broken_twice(once, Random(f"{op} {start} twice"))]:
            recorder.calls[op] += 1
            recorder.sink(other)
            yield


def broken_twice(once: list[list[Case]], random: Random) -> Iterator[Case]:
    """Yield some of the calls with one more change: which is refused first?"""
    for _ in range(TWICE if once else 0):
        case = random.choice(random.choice(once))
        if more := broken(case):
            yield random.choice(random.choice(more))


def broken(case: Case) -> list[list[Case]]:
    """Return the call with one argument changed: for each argument that may be, its changes."""
    names = [a.name for a in schemas()[case.op].args]
    seen = {case.digest}
    found = []
    for place, value in [*enumerate(case.args), *case.kwargs.items()]:
        a = schemas()[case.op].args[place if isinstance(place, int) else names.index(place)]
        buffers = list(case.buffers)
        calls = []
        for other in others(value, a, case, buffers):
            args = tuple(other if i == place else v for i, v in enumerate(case.args))
            kwargs = {k: other if k == place else v for k, v in case.kwargs.items()}
            made = replace(rebuilt(case, args, kwargs, buffers), digest="")
            if made.digest not in seen:
                seen.add(made.digest)
                calls.append(made)
        found += [calls] if calls else []
    return found


def others(value: Any, a: Any, case: Case, buffers: list[np.ndarray]) -> Iterator[Any]:
    """Yield what may stand in the place of an argument; new memory is added to ``buffers``."""
    row = constraint_of(case.op)
    sized = a.name not in row.unchecked and looks_at_sizes(case.op)
    if isinstance(value, Array):
        x = value.on(case.buffers)
        for other in [*arrays_like(x, sized), *(indices_like(x) if sized and row.wild_values else ())]:
            yield added(other, buffers)
    elif isinstance(value, list) and value and isinstance(value[0], Array):
        yield from [[]] * sized
        for x in arrays_like(value[0].on(case.buffers), sized):
            yield [added(x, buffers), *value[1:]]
    elif not sized:
        return
    elif isinstance(value, list) and all(type(v) is int for v in value) and "int" in a.type.lower():
        yield from ([], [*value, 1], value[1:], [-1] * len(value), [0] * len(value), [7] * len(value), [0] * 2)
        yield from ([*value, *value[:1]], *([*value[:-1], n] for n in FAR), *UNLIKE)
    elif type(value) is int and "int" in a.type.lower():
        yield from (n for n in NUMBERS if n != value)
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, (int, float)):
        yield from SCALARS if a.type.startswith("Scalar") else FLOATS
    elif value is None and a.type in GIVEN:
        yield from GIVEN[a.type]
    elif isinstance(value, str) or (value is None and a.type == "str?"):
        yield "bogus"
    elif isinstance(value, Named) and value.kind == "dtype":
        yield from (
            Named("dtype", name) for name in ("bool", "int64", "float32", "complex64", "float16") if name != value.name
        )


def added(x: np.ndarray, buffers: list[np.ndarray]) -> Array:
    made, window = whole(x, len(buffers))
    buffers.append(made)
    return replace(
        window, strides=np.empty([max(n, 1) for n in x.shape], x.dtype).strides
    )  # torch's, of no elements too


def arrays_like(x: np.ndarray, sized: bool) -> Iterator[np.ndarray]:
    """Yield arrays of other shapes, if asked, and of other dtypes, of the values of one that is not empty."""
    if sized:
        yield np.stack([x, x])
    if sized and x.ndim and x.size:
        yield np.take(x, 0, 0)
        yield np.concatenate([x, np.take(x, [0], -1)], -1)
        yield x[:0]
        yield np.resize(x, ())
    if sized and x.ndim > 1:
        yield x[:, :0]
    if sized:  # what is wrong twice
        yield cast(np.stack([x, x]), "complex64" if NAMES[x.dtype] != "complex64" else "bool")
        yield cast(x.reshape(-1)[:0], "bool" if NAMES[x.dtype] != "bool" else "float64")
    yield from (cast(x, name) for name in OTHER_DTYPES if name != NAMES[x.dtype])


def indices_like(x: np.ndarray) -> Iterator[np.ndarray]:
    """Yield arrays whose last element would be out of range, or from the end, if they were indices."""
    for n in INDICES if x.dtype in (np.int64, np.int32) else ():
        made = x.copy()
        made.reshape(-1)[-1:] = n
        yield made


def cast(x: np.ndarray, name: str) -> np.ndarray:
    """Return what a dtype has for the values of an array, of their magnitudes where it has no sign."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of imaginary parts that are lost
        return np.asarray(abs(x) if name.startswith("uint") else x).astype(DTYPES[name])
