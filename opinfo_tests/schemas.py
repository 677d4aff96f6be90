"""What the schemas say that the harness needs: who writes what, and which overload is whose ``out=`` form."""

from __future__ import annotations

from functools import cache
from typing import Any

from torchnp import schema

from .case import Array, Case, leaves


@cache
def all_schemas() -> dict[str, Any]:
    """Return every registered schema by its full name."""
    return schema.load()


@cache
def out_forms() -> dict[str, str]:
    """Return the ``out=`` overload of each functional overload that has one with the same arguments."""
    shape = lambda s: (s.packet, tuple((a.name, a.type) for a in s.args if not a.is_out))  # noqa: E731
    by_shape = {shape(s): name for name, s in all_schemas().items() if s.is_out}
    return {name: by_shape[shape(s)] for name, s in all_schemas().items() if not s.mutates and shape(s) in by_shape}


def written_arrays(case: Case) -> frozenset[int]:
    """Return which of the case's array arguments, in order, the schema says are written.

    An operator that only changes its argument's shape or strides writes no memory.
    """
    found: set[int] = set()
    declared = all_schemas()[case.op]
    if "inplace_view" in declared.tags:
        return frozenset()
    by_name = {a.name: a for a in declared.args}
    values = [*zip(declared.args, case.args, strict=False)]
    values += [(by_name[k], v) for k, v in case.kwargs.items() if k in by_name]
    index = 0
    for argument, value in values:
        for leaf in leaves(value):
            if isinstance(leaf, Array):
                if argument.is_write:
                    found.add(index)
                index += 1
    return frozenset(found)


# What these hold before the call is never read: uninitialised memory there would make a case's hash unstable.
OVERWRITES = frozenset(
    "fill_ zero_ copy_ normal_ uniform_ random_ bernoulli_ exponential_ geometric_ cauchy_ log_normal_".split()  # noqa: SIM905
)


def blank_written(op: str, args: tuple, kwargs: dict[str, Any], buffers: list) -> None:
    """Zero what a call overwrites without reading it."""
    declared = all_schemas().get(op)
    if declared is None or not (declared.is_out or declared.base in OVERWRITES):
        return
    written = {a.name for a in declared.args if (a.is_out if declared.is_out else a.is_write)}
    values = [*zip((a.name for a in declared.args), args, strict=False), *kwargs.items()]
    uses: dict[int, bool] = {}
    for name, value in values:
        for leaf in leaves(value):
            if isinstance(leaf, Array):
                uses[leaf.buffer] = uses.get(leaf.buffer, True) and name in written
    for buffer, only_written in uses.items():
        if only_written:
            buffers[buffer][...] = 0
