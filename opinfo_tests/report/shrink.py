"""Shrinks failing calls: simplifies a failing call as long as it fails in the same way.

The search is greedy: it tries simpler calls, the simplest first, and continues from the first one that fails in the
same way, until none does or time is up. Calls run in a separate process, so that a crash or hang loses only that call.
"""

from __future__ import annotations

import contextlib
import math
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..case import Array, Case, is_complex, is_inexact, leaves, map_tree, rebuilt, schemas, whole, widen
from ..schema_facts import is_fragile

SECONDS = 2.0  # seconds for one failure
FEW = 32  # arrays with at most this many elements are simplified element by element

Kind = tuple[str, str]


def shrink(case: Case, kind_of: Callable[[Case], Kind], seconds: float = SECONDS, kind: Kind | None = None) -> Case:
    """Return the simplest call found that fails as ``case`` does (``kind``); it keeps the case's id and seed."""
    if is_fragile(case.op):  # torch itself crashes on slightly wrong arguments
        return case
    ends = time.perf_counter() + seconds
    kind = kind or kind_of(case)
    best, tried = case, set()
    while True:
        for other in simpler(best):
            if time.perf_counter() > ends:
                return best
            key = (repr((other.args, other.kwargs)), *(b.tobytes() for b in other.buffers))
            if hash(key) in tried or weight(other) >= weight(best):
                continue
            tried.add(hash(key))
            if kind_of(other) == kind:
                best = other
                break
        else:
            return best


def kind_of_failure(outcome: str, message: str) -> Kind:
    """Return what shrinking must preserve: the outcome, and the words of the message without numbers and shapes."""
    words = re.sub(r"\[.*?\]|\(.*?\)|\d+", "", message)
    if "error" in outcome:
        return outcome, " ".join(w for said in words.split(" | ") for w in said.split()[:6])
    special = re.findall(r"\b(?:nan|inf)\b", message.partition(":")[2])
    return outcome, " ".join([words.partition(":")[0], *sorted(set(special))])


def weight(case: Case) -> tuple[float, ...]:
    """Return a call's complexity: elements, dimensions, arrays, arguments, strided arrays, bytes, then values."""
    arrays = case.arrays()
    given = [x for x in leaves((case.args, case.kwargs)) if not isinstance(x, Array)]
    elements = sum(math.prod(a.shape) for a in arrays)
    memory = sum(b.size for b in case.buffers)
    strided = sum(not a.is_whole(case.buffers[a.buffer]) for a in arrays)
    numbers = sum(map(cost, given))
    if elements <= 8 * FEW:
        numbers += sum(cost(v) for a in arrays for v in widen(a.on(case.buffers)).reshape(-1).tolist())
    words = sum(x is not None for x in given) + len(case.args) + len(case.kwargs)
    return elements, sum(len(a.shape) for a in arrays), len(arrays), words, strided, memory, numbers


def cost(x: Any) -> float:
    """Return a value's complexity: 0 is simplest, then 1, other small integers, NaN, infinities, and all others."""
    if isinstance(x, complex):
        return cost(x.real) + 1.5 * cost(x.imag)
    if not isinstance(x, (int, float)):
        return 0
    if x != x or x in (math.inf, -math.inf):
        return 4 + (x == x)
    if x == 0:
        return 0.5 * (math.copysign(1, x) < 0)
    negative = 0.5 * (x < 0)
    if x == int(x):
        return (1 if abs(x) == 1 else 2 if abs(x) < 10 else 5 + len(str(abs(int(x))))) + negative
    return 6 + min(len(repr(x)), 12) + negative


# ---------------------------------------------------------------- simpler calls


def simpler(case: Case) -> Iterator[Case]:
    """Yield calls that are simpler than ``case`` in one respect, the largest simplifications first."""
    yield from own_memory(case)
    yield from fewer_arguments(case)
    yield from smaller(case)
    yield from fewer_dims(case)
    yield from simpler_arguments(case)
    yield from simpler_values(case)


def changed(case: Case, edit: Callable[[Array], Array], ints: Callable[[Any], Any] = lambda x: x) -> Case:
    """Return the case with its array windows edited by ``edit``, and its other values by ``ints``."""
    one = lambda x: edit(x) if isinstance(x, Array) else ints(x)
    return rebuilt(case, map_tree(one, case.args), map_tree(one, case.kwargs))


def own_memory(case: Case) -> Iterator[Case]:
    """Yield cases whose arrays have their own contiguous memory: first all of them, then one at a time."""
    chosen = list(dict.fromkeys(case.arrays()))
    for group in [chosen, *([a] for a in chosen if len(chosen) > 1)]:
        if all(a.is_whole(case.buffers[a.buffer]) for a in group) and len({a.buffer for a in group}) == len(group):
            continue
        yield with_values(case, {a: a.on(case.buffers) for a in group})


def with_values(case: Case, values: dict[Array, np.ndarray]) -> Case:
    """Return the case with new contiguous memory and new values for some of its arrays."""
    buffers, moved = list(case.buffers), {}
    for a, v in values.items():
        made, moved[a] = whole(v, len(buffers))
        buffers.append(made)
    swap = lambda x: moved.get(x, x) if isinstance(x, Array) else x
    return rebuilt(case, map_tree(swap, case.args), map_tree(swap, case.kwargs), buffers)


def cut(a: Array, axis: int, start: int, n: int) -> Array:
    shape = (*a.shape[:axis], n, *a.shape[axis + 1 :])
    return replace(a, shape=shape, offset=a.offset + start * a.strides[axis])


def smaller(case: Case) -> Iterator[Case]:
    """Yield cases with smaller sizes.

    First reduce one size in all arrays, with and without changing the integer arguments that equal it; then reduce one
    dimension of one array.
    """
    arrays = list(dict.fromkeys(case.arrays()))
    for n in sorted({n for a in arrays for n in a.shape if n > 1}, reverse=True):
        for m in sorted({1, n // 2, n - 1}):
            for start in (0, n - m):
                edit = lambda a: every_axis(a, n, start, m)
                yield changed(case, edit, lambda x: m if x == n and type(x) is int else x)
                yield changed(case, edit)
    for chosen in arrays:
        for axis, n in enumerate(chosen.shape):
            for m in sorted({1, n // 2, n - 1} & {*range(1, n)}):
                for start in (0, n - m):
                    yield changed(case, lambda a: cut(a, axis, start, m) if a == chosen else a)


def every_axis(a: Array, n: int, start: int, m: int) -> Array:
    for axis, size in enumerate(a.shape):
        if size == n:
            a = cut(a, axis, start, m)
    return a


def fewer_dims(case: Case) -> Iterator[Case]:
    """Yield cases with one dimension removed: first from all arrays, counted from either end, then from one array."""
    arrays = list(dict.fromkeys(case.arrays()))
    most = max((len(a.shape) for a in arrays), default=0)

    def without(a: Array, axis: int) -> Array:
        if not -len(a.shape) <= axis < len(a.shape) or 0 in a.shape:
            return a
        axis %= len(a.shape)
        return replace(a, shape=a.shape[:axis] + a.shape[axis + 1 :], strides=a.strides[:axis] + a.strides[axis + 1 :])

    for axis in (*range(most), *range(-most, 0)):
        edit = lambda a: without(a, axis)
        yield changed(case, edit, lambda x: x - 1 if type(x) is int and 0 < x < most and x > axis else x)
        yield changed(case, edit)
        shorter = lambda v: [x for i, x in enumerate(v) if i != axis % most] if is_ints(v) and len(v) == most else v
        args, kwargs = [shorter(v) for v in case.args], {k: shorter(v) for k, v in case.kwargs.items()}
        yield changed(replace(case, args=tuple(args), kwargs=kwargs), edit)
    for chosen in arrays:
        for axis in range(len(chosen.shape)):
            yield changed(case, lambda a: without(a, axis) if a == chosen else a)


def is_ints(v: Any) -> bool:
    return isinstance(v, list) and bool(v) and all(type(x) is int for x in v)


# ---------------------------------------------------------------- arguments


def places(case: Case) -> Iterator[tuple[Any, Any, Callable[[Any], Case]]]:
    """Yield each argument's declaration, its value, and a function that replaces it."""
    declared = schemas()[case.op].args
    for i, (a, v) in enumerate(zip(declared, case.args, strict=False)):
        yield a, v, partial(with_argument, case, i)
    named = {a.name: a for a in declared}
    for k, v in case.kwargs.items():
        if k in named:
            yield named[k], v, partial(with_keyword, case, k)


def with_argument(case: Case, i: int, x: Any) -> Case:
    return rebuilt(case, (*case.args[:i], x, *case.args[i + 1 :]), case.kwargs)


def with_keyword(case: Case, name: str, x: Any) -> Case:
    return rebuilt(case, case.args, case.kwargs | {name: x})


def fewer_arguments(case: Case) -> Iterator[Case]:
    """Yield cases without an argument that has a default, with None where allowed, or with shorter lists."""
    declared = schemas()[case.op].args
    optional = {a.name for a in declared if a.has_default}
    for k in case.kwargs.keys() & optional:
        yield rebuilt(case, case.args, {n: v for n, v in case.kwargs.items() if n != k})
    if case.args and declared[len(case.args) - 1].has_default:
        yield rebuilt(case, case.args[:-1], case.kwargs)
    for a, v, put in places(case):
        if v is not None and a.type.endswith("?"):
            yield put(None)
    longest = max((len(v) for _, v, _ in places(case) if isinstance(v, list)), default=0)
    for i in range(longest if longest > 1 else 0):
        shorter = lambda v: v[:i] + v[i + 1 :] if isinstance(v, list) and len(v) == longest else v
        yield rebuilt(case, tuple(map(shorter, case.args)), {k: shorter(v) for k, v in case.kwargs.items()})
    for _, v, put in places(case):
        if isinstance(v, list):
            for i in range(len(v)):
                yield put(v[:i] + v[i + 1 :])


def simpler_arguments(case: Case) -> Iterator[Case]:
    """Yield cases in which an argument is replaced by its default or by a simpler number."""
    for a, v, put in places(case):
        if a.has_default and type(v) in (bool, int, float, complex, str) and v != a.default:
            yield put(a.default)
        if isinstance(v, list):
            for i, x in enumerate(v):
                for y in simpler_numbers(x):
                    yield put([*v[:i], y, *v[i + 1 :]])
        for y in simpler_numbers(v):
            yield put(y)


def simpler_numbers(x: Any) -> list[Any]:
    if type(x) not in (bool, int, float, complex):
        return []
    if type(x) is bool:
        return [False] if x else []
    found: list[Any] = [type(x)(n) for n in (0, 1, 2, -1)]
    if type(x) is complex:
        found += [complex(x.real, 0), complex(0, x.imag)]
    elif math.isfinite(x):
        found += [type(x)(round(x)), type(x)(x // 2)]
    return [y for y in found if cost(y) < cost(x)]


def simpler_values(case: Case) -> Iterator[Case]:
    """Yield cases with simpler elements: all of an array 0 or 1, then single elements replaced by simpler numbers."""
    for a in dict.fromkeys(case.arrays()):
        x = a.on(case.buffers)
        if not x.size:
            continue
        for value in (0, 1):
            yield with_same_memory(case, a, np.full(x.shape, value).astype(x.dtype))
        if x.size > FEW:
            continue
        for at in np.ndindex(x.shape):
            now = widen(x[at])[()].item()
            for value in simpler_numbers(now):
                if is_inexact(x.dtype) or float(value) == int(value):
                    y = x.copy()
                    with contextlib.suppress(OverflowError):
                        y[at] = np.asarray(value, complex if is_complex(x.dtype) else None).astype(x.dtype)
                        yield with_same_memory(case, a, y)


def with_same_memory(case: Case, a: Array, values: np.ndarray) -> Case:
    """Return the case with other values written into an array's memory, which arrays that share it also see."""
    buffers = case.fresh_buffers()
    a.on(buffers)[...] = values
    return replace(case, buffers=buffers)
