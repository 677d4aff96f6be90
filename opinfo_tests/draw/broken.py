"""Calls that ask for a refusal, by rule: one argument of a good call changed in a way that most operators do not take."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ..case import DTYPES, NAMES, Array, Case, Named, rebuilt, schemas, whole
from .constraint_table import constraint_of
from .strategies import draws
from .task import BROKEN

# For an array of a dtype, others that many operators refuse beside it.
OTHER_DTYPES = {
    "float32": ("int64", "float64", "bool"),
    "float64": ("float32", "complex128"),
    "int64": ("float32", "int32"),
}
NUMBERS = (-1, -7, 0, 9, 100)
AMONG = 20  # draws, of which they are
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
        for other in broken(replace(case, source=source, sample_dtype=count)):
            recorder.calls[op] += 1
            recorder.sink(other)
            yield


def broken(case: Case) -> Iterator[Case]:
    """Yield the call with one argument changed, argument by argument."""
    names = [a.name for a in schemas()[case.op].args]
    seen = {case.digest}
    for place, value in [*enumerate(case.args), *case.kwargs.items()]:
        a = schemas()[case.op].args[place if isinstance(place, int) else names.index(place)]
        buffers = list(case.buffers)
        for other in others(value, a, case, buffers):
            args = tuple(other if i == place else v for i, v in enumerate(case.args))
            kwargs = {k: other if k == place else v for k, v in case.kwargs.items()}
            made = replace(rebuilt(case, args, kwargs, buffers), digest="")
            if made.digest not in seen:
                seen.add(made.digest)
                yield made


def others(value: Any, a: Any, case: Case, buffers: list[np.ndarray]) -> Iterator[Any]:
    """Yield what may stand in the place of an argument; new memory is added to ``buffers``."""
    sized = a.name not in constraint_of(case.op).unchecked
    if isinstance(value, Array):
        for x in arrays_like(value.on(case.buffers), sized):
            yield added(x, buffers)
    elif isinstance(value, list) and value and isinstance(value[0], Array):
        yield from [[]] * sized
        for x in arrays_like(value[0].on(case.buffers), sized):
            yield [added(x, buffers), *value[1:]]
    elif not sized:
        return
    elif isinstance(value, list) and all(type(v) is int for v in value) and "int" in a.type.lower():
        yield from ([], [*value, 1], value[1:], [-1] * len(value), [0] * len(value), [7] * len(value), [0] * 2)
    elif type(value) is int and "int" in a.type.lower():
        yield from (n for n in NUMBERS if n != value)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield from (-1.0, 1.5, 3 + 4j, True) if a.type.startswith("Scalar") else (-1.0, 1.5, float("nan"))
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
    if sized and x.ndim:
        yield np.take(x, 0, 0)
        yield np.concatenate([x, np.take(x, [0], -1)], -1)
        yield x[:0]
        yield np.resize(x, ())
    for name in OTHER_DTYPES.get(NAMES[x.dtype], ("float32",)):
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of imaginary parts that are lost
            yield x.astype(DTYPES[name])
