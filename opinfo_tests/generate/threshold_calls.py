"""Calls just below, at and above each size at which a kernel changes to another path, for ``--tier thresholds``.

The sizes are the constants of `torchnp.thresholds`. Small recorded calls run with constants that record what they are
compared with. Then one size of a call grows until the compared number reaches the constant.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

from torchnp.thresholds import modules, thresholds

from ..backends.backend import Backend
from ..backends.load import load_backend
from ..backends.torch_backend import TorchDevice
from ..case import Case
from . import large_calls
from .samples.opinfo import supported
from .samples.recording import Recorder
from .task import DRAWN, THRESHOLDS, Task, reseed

Key = tuple[str, str]  # a module and the name of a constant
MOST = 1 << 22  # limit for the number of elements of a call's largest argument
MEMORY = 1 << 30  # bytes of memory that a call may add; a product's result may be far larger than its arguments
HALF = "bfloat16"


class Noting(int):
    """An integer that records the numbers that it is compared with or divides; it records None for other arithmetic."""

    note: Callable[[int | None], None]


def _noting(name: str) -> Callable[[Noting, Any], Any]:
    plain, compares = getattr(int, name), name not in COMPUTES

    def method(self: Noting, other: Any) -> Any:
        if type(other) is int:
            self.note(other if compares else None)
        return plain(int(self), other)

    return method


COMPUTES = ("__mul__", "__rmul__", "__floordiv__")
for _name in ("__lt__", "__le__", "__gt__", "__ge__", "__rfloordiv__", *COMPUTES):
    setattr(Noting, _name, _noting(_name))


@cache
def places() -> list[tuple[Any, str, Key]]:
    """Return the variables that hold each constant, in the module that defines it and in those that import it."""
    known = thresholds()
    found = [(importlib.import_module(module), name, (module, name)) for module, name in known]
    for module in modules():
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(node, ast.ImportFrom):
                for imported in node.names:
                    key = str(node.module), imported.name
                    if key in known:
                        found.append((module, imported.asname or imported.name, key))
    return found


@contextmanager
def noted() -> Iterator[dict[Key, set[int | None]]]:
    """Let each constant record the numbers that kernels compare with it."""
    seen: dict[Key, set[int | None]] = defaultdict(set)
    held = [(module, name, getattr(module, name)) for module, name, _ in places()]
    for module, name, key in places():
        constant = Noting(getattr(module, name))
        constant.note = seen[key].add
        setattr(module, name, constant)
    try:
        yield seen
    finally:
        for module, name, value in held:
            setattr(module, name, value)


def met_by(case: Case, table: Backend) -> dict[Key, set[int | None]]:
    """Return, for each constant, the numbers that a call compares with it; an empty dict if the call fails."""
    with noted() as seen, large_calls.limited_memory(MEMORY), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        failed = table.execute(case).error
    return {} if failed else {key: values for key, values in seen.items() if values}


def with_size(case: Case, size: int, new: int) -> Case | None:
    """Return the case with one size replaced wherever it occurs, or None if it becomes too large."""
    if size == new:
        return case
    return large_calls.resized(case, lambda _, n: new if n == size else n, MOST)


def reached(key: Key, limit: int, case: Case, size: int, table: Backend) -> list[Case]:
    """Return the call at three consecutive sizes.

    The middle one is the smallest at which the number that the kernel compares with the constant is at least ``limit``.
    """

    def compared(new: int) -> int | None:
        other = with_size(case, size, new) if new > 0 else None
        if other is None:
            return None
        values = met_by(other, table).get(key, set())
        numbers = [v for v in values if v is not None]
        return max(numbers) if numbers else large_calls.largest_of(other).size if values else None

    low, high, value = 0, size, compared(size)
    while value is not None and value < limit:
        low, high = high, 2 * high + 1
        value = compared(high)
    if value is None:
        return []
    guess = -(-high * limit // value)  # correct if the compared number is a multiple of the size
    guesses = [guess - 1, guess]
    while high - low > 1:
        middle = guesses.pop() if guesses else (low + high) // 2
        if low < middle < high:
            value = compared(middle)
            low, high = (low, middle) if value is not None and value >= limit else (middle, high)
    around = (with_size(case, size, n) for n in (high - 1, high, high + 1) if n > 0)
    return [c for c in around if c is not None]


def calls_at_thresholds(op: str, bases: list[Case], table: Backend) -> Iterator[Case]:
    """Yield calls on both sides of each constant that an overload's kernel uses; torch must accept them.

    For each constant there are three calls with row-major arrays, and three with other arrays.
    """
    torch_cpu = TorchDevice("cpu")
    limits, over = thresholds(), set()
    reseed(op)
    for case in bases:
        row_major = large_calls.is_row_major(case)
        todo = [key for key in met_by(case, table) if (key, row_major) not in over]
        while todo:
            key = todo.pop()
            for size in dict.fromkeys(reversed(large_calls.largest_of(case).shape)):
                found = [large_calls.tried(c, torch_cpu) for c in reached(key, limits[key], case, size, table)]
                calls = [c for c, _, elements in found if elements]
                if calls:
                    over.add((key, row_major))
                    yield from calls
                    todo += [k for k in met_by(calls[-1], table) if (k, row_major) not in over and k not in todo]
                    break


def threshold_tasks(ops: frozenset[str]) -> list[Task]:
    """Return a task for each source of recorded calls."""
    sources = sorted({large_calls.source_of()[op] for op in ops})
    return [Task(f"{THRESHOLDS}{source}", large_calls.best_dtype(source)) for source in sources]


def run_at_thresholds(task: Task, recorder: Recorder, seed: int) -> Iterator[None]:
    """Pass a task's calls around thresholds to the recorder's sink; yield after each overload."""
    source = task.source.removeprefix(THRESHOLDS)
    homes = large_calls.source_of()
    ops = [
        op for op, place in homes.items() if place == source and recorder.wanted(op) and large_calls.can_be_scaled(op)
    ]
    if not ops:
        return
    dtypes = [task.dtype]
    if not source.startswith(DRAWN) and HALF in supported(source):
        dtypes.append(HALF)
    table = load_backend("table")
    for dtype in dtypes:
        bases = large_calls.recorded(Task(source, dtype), frozenset(ops), seed, layouts=True)
        for op in ops:
            for case in calls_at_thresholds(op, bases[op], table):
                recorder.sink(replace(case, source=task.source, sample_dtype=case.dtype, digest=""))
            yield
