"""Undertested overloads: overloads with few calls, or with an option that always had the same value."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from ..case import Case, schemas
from ..schema_facts import bound

DATA = Path(__file__).parents[1] / "data" / "thin.tsv"
LEAST = 8  # number of calls that an overload must have
CALLS = "calls"
# integer arguments that encode a choice
ENUMERATED = frozenset({"reduction", "interpolation_mode", "padding_mode", "mode"})
UNTOLD = frozenset({"pin_memory", "device", "layout", "non_blocking"})  # arguments that have no effect on the CPU
Options = Mapping[str, Mapping[str, Iterable[str]]]  # overload -> argument -> values that calls used


@cache
def options(op: str) -> tuple[str, ...]:
    """Return the arguments of an overload that are options: booleans, strings, choices, and optional arguments."""
    return tuple(
        a.name
        for a in schemas()[op].args
        if a.name not in UNTOLD
        and not a.is_out
        and (a.type.rstrip("?") in ("bool", "str") or a.type.endswith("?") or a.name in ENUMERATED)
    )


def values_of(case: Case) -> Iterator[tuple[str, str]]:
    """Yield each option of a call and its value: "given" for optional arguments other than flags and strings."""
    given = bound(case)
    for name in options(case.op):
        value = given.get(name)
        plain = value is None or isinstance(value, (bool, str)) or name in ENUMERATED
        yield name, str(value) if plain else "given"


@dataclass(frozen=True)
class Thin:
    """An undertested aspect of an overload: its few ``calls``, or an option that always had the same value."""

    op: str
    what: str
    value: str

    def __str__(self) -> str:
        return f"{self.op}: {self.value} calls" if self.what == CALLS else f"{self.op}: always {self.what}={self.value}"


def thin(calls: Mapping[str, int], met: Options, ops: Iterable[str]) -> Iterator[Thin]:
    """Yield the undertested aspects of overloads."""
    for op in sorted(ops):
        if calls.get(op, 0) < LEAST:
            yield Thin(op, CALLS, str(calls.get(op, 0)))
        for name in options(op):
            values = set(met.get(op, {}).get(name, ()))
            if len(values) < 2:
                yield Thin(op, name, next(iter(values), ""))


@dataclass(frozen=True)
class Reason:
    """A line of thin.tsv: why options of the matching overloads need not vary, or why they have few calls."""

    pattern: str
    what: frozenset[str]
    reason: str
    line: int

    @property
    def by_processor(self) -> bool:
        """Whether the reason depends on the processor: runs on another processor may not need this line."""
        return self.reason.startswith("by processor")

    def covers(self, found: Thin) -> bool:
        return found.what in self.what and fnmatchcase(found.op, self.pattern)


def reasons(path: Path = DATA) -> list[Reason]:
    """Return the lines of thin.tsv; a line without a reason is an error."""
    found = []
    for i, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.startswith("#"):
            pattern, what, reason = [*line.split("\t"), "", ""][:3]
            if not (what.strip() and reason.strip()):
                raise SystemExit(f"{path}:{i}: a line has overloads, what is hardly tried of them, and a reason")
            found.append(Reason(pattern, frozenset(what.split()), reason, i))
    return found


def held(found: Sequence[Thin], judged: Collection[str], claimed: Iterable[str], path: Path = DATA) -> list[str]:
    """Compare undertested aspects with thin.tsv; return messages about missing and outdated lines.

    A line counts as outdated only if every ``claimed`` overload that its pattern matches was ``judged``.
    """
    known = reasons(path)
    wrong = [str(f) for f in found if not any(r.covers(f) for r in known)]
    if wrong:
        how = "draw it (opinfo_tests/generate/constraints, generate/samples/extra)"
        wrong.append(f"hardly tried, and no line of {path} says why: {how}, or say there why it cannot be")
    claimed = set(claimed)
    for r in known:
        ops = {op for op in claimed if fnmatchcase(op, r.pattern)}
        met = {f.what for f in found if r.covers(f)}
        if not ops:
            wrong.append(f"{path}:{r.line}: {r.pattern} is no overload: delete the line")
        elif not r.by_processor and ops <= set(judged) and met != r.what:
            wrong.append(f"{path}:{r.line}: {r.pattern} is tried now: delete {', '.join(sorted(r.what - met))}")
    return wrong


def merged(met: dict[str, dict[str, Any]], more: Options) -> None:
    """Add the option values that another process recorded to ``met``."""
    for op, found in more.items():
        for name, values in found.items():
            met.setdefault(op, {}).setdefault(name, set()).update(values)
