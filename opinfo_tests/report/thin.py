"""Which overloads are hardly tried: few calls, or an option that was always the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from ..case import Case, schemas
from ..schemas import bound

LEAST = 8  # calls of an overload
ENUMERATED = frozenset({"reduction", "interpolation_mode", "padding_mode", "mode"})  # integers that are choices
UNTOLD = frozenset({"pin_memory", "device", "layout", "non_blocking"})  # mean nothing on the CPU
Options = Mapping[str, Mapping[str, Iterable[str]]]  # by overload and argument, the values that were met


@cache
def options(op: str) -> tuple[str, ...]:
    """Return the arguments of an overload that are options: booleans, choices, and what may be None."""
    return tuple(
        a.name
        for a in schemas()[op].args
        if a.name not in UNTOLD
        and not a.is_out
        and (a.type.rstrip("?") in ("bool", "str") or a.type.endswith("?") or a.name in ENUMERATED)
    )


def values_of(case: Case) -> Iterator[tuple[str, str]]:
    """Yield each option of a call with its value, of which any but None is one where it is no choice."""
    given = bound(case)
    for name in options(case.op):
        value = given.get(name)
        plain = value is None or isinstance(value, (bool, str)) or name in ENUMERATED
        yield name, str(value) if plain else "given"


def thin(calls: Mapping[str, int], met: Options, ops: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield overloads that are hardly tried, and why."""
    for op in sorted(ops):
        if calls.get(op, 0) < LEAST:
            yield op, f"{calls.get(op, 0)} calls"
        same = [
            f"{n}={next(iter(v), '')}"
            for n, v in ((n, met.get(op, {}).get(n, ())) for n in options(op))
            if len(set(v)) < 2
        ]
        if same:
            yield op, f"always {', '.join(same)}"


def merged(met: dict[str, dict[str, Any]], more: Options) -> None:
    """Add what was met elsewhere."""
    for op, found in more.items():
        for name, values in found.items():
            met.setdefault(op, {}).setdefault(name, set()).update(values)
