"""Known gaps: a TOML file for each backend that lists its known failures. It must be complete and current.

An entry says which failures are known and why. A run fails if a failure has no entry, if a case listed in an entry
passes, if a complete run has no failure for an entry, or if an entry names no operator or has no reason.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import torch

from torchnp.core.schema import of_any_version
from torchnp.core.target import parse

from ..case import DTYPES
from ..generate.task import is_drawn
from ..judge.verdict import OUTCOMES
from .report import Tally

ACCEPTED = "accepted without a reason: write one"


@cache
def capability() -> str:
    """Return the vector instructions that torch uses here: ``"AVX2"``, ``"AVX512"``, ``"DEFAULT"`` or another name."""
    return torch.backends.cpu.get_cpu_capability()


@dataclass(frozen=True)
class Gap:
    """Known failures with one outcome.

    ``op`` and ``dtype`` may be patterns (``aten::*.out``, ``*``). ``cases`` are the cases' hashes; without them the gap
    covers every such failure. ``message`` is a regular expression that must match the start of the failure's message,
    and ``call`` one that must match anywhere in the text of the call. ``drawn`` gaps occur only in random calls from
    schemas, so a run need not have them. ``since`` and ``until`` are the first and the last version of torch that has
    the gap. ``borrowed`` gaps come from another backend's file; whether they are stale is checked only in that
    backend's runs.
    """

    op: str
    dtype: str
    outcome: str
    reason: str
    cases: tuple[str, ...] = ()
    message: str = ""
    call: str = ""
    drawn: bool = False
    processor: str = ""
    since: str = ""
    until: str = ""
    line: int = 0
    borrowed: bool = False

    def covers(self, row: dict[str, Any]) -> bool:
        """Return whether the gap covers a failing row."""
        return (
            self.outcome == row["outcome"]
            and self.processor in ("", capability())
            and (not self.drawn or is_drawn(row["sample"]))
            and fnmatchcase(row["op"], self.op)
            and fnmatchcase(row["dtype"], self.dtype)
            and (not self.cases or row["id"].rpartition("/")[2] in self.cases)
            and (not self.message or re.match(self.message, row["message"]) is not None)
            and (not self.call or re.search(self.call, row.get("call", "")) is not None)
        )

    @property
    def here_or_there(self) -> bool:
        """Whether the gap occurs only on some machines or in some runs; its reason must begin by saying so."""
        sometimes = ("by processor", "by build", "by number of threads", "by what memory held")
        return bool(self.processor) or self.reason.startswith(sometimes)

    @property
    def plain(self) -> bool:
        """Whether the gap names one overload and dtype and has no conditions: ``--accept`` may rewrite it."""
        return not any(c in self.op + self.dtype for c in "*?[") and not (
            self.message or self.call or self.drawn or self.processor or self.since or self.until
        )


def file_for(backend: str) -> Path:
    """Return a backend's gaps file: in the package for backends of torchnp, in the working directory for others."""
    if backend in ("table", "numpy"):  # "numpy" is the entry point of the same table
        return Path(__file__).parents[1] / "gaps.toml"
    if backend == "torch-cpu":  # used by the control experiment
        return Path(__file__).parents[1] / "gaps-torch-cpu.toml"
    if backend.startswith("remote-"):  # all transports share one file
        return Path(__file__).parents[1] / "gaps-remote.toml"
    if backend in ("array-api-strict", "array-api-torch", "array-api-jax", "array-api-dask"):  # of the portable rows
        return Path(__file__).parents[1] / f"gaps-{backend}.toml"
    return Path(f"gaps-{re.sub(r'[^A-Za-z0-9]+', '-', backend)}.toml")


def load(path: Path) -> list[Gap]:
    """Return the entries of a gaps file that apply to the installed torch."""
    return [g for g in load_all(path) if holds(g.since, g.until)]


def load_all(path: Path) -> list[Gap]:
    """Return all entries of a gaps file; an invalid file is an error, not a warning."""
    if not path.exists():
        return []
    try:
        text = path.read_text(encoding="utf-8")
        whole = tomllib.loads(text)
    except OSError as e:
        raise SystemExit(f"{path}: {e.strerror or e}") from None
    except ValueError as e:  # invalid TOML or invalid UTF-8
        raise SystemExit(f"{path}: {e}") from None
    starts = [i for i, line in enumerate(text.splitlines(), 1) if line.strip() == "[[gap]]"]
    entries = whole.pop("gap", [])
    if whole or not isinstance(entries, list) or len(entries) != len(starts):
        raise SystemExit(f"{path}: each entry opens with a line [[gap]]")
    gaps = []
    for line, entry in zip(starts, entries, strict=True):
        unknown = set(entry) - {
            "op",
            "dtype",
            "outcome",
            "reason",
            "cases",
            "message",
            "call",
            "drawn",
            "processor",
            "since",
            "until",
        }
        if unknown or not {"op", "dtype", "outcome", "reason"} <= set(entry):
            raise SystemExit(
                f"{path}:{line}: an entry has op, dtype, outcome, reason and perhaps cases, message, call, drawn, processor, since and until"
            )
        cases, drawn = entry.pop("cases", []), entry.pop("drawn", False)
        if not isinstance(cases, list) or not all(isinstance(v, str) for v in [*entry.values(), *cases]):
            raise SystemExit(f"{path}:{line}: cases is a list of texts, all else is text")
        if not isinstance(drawn, bool):
            raise SystemExit(f"{path}:{line}: drawn is true or false")
        if entry["outcome"] not in OUTCOMES or not entry["reason"].strip():
            raise SystemExit(f"{path}:{line}: no such outcome, or no reason")
        for name in ("message", "call"):
            try:
                re.compile(entry.get(name, ""))
            except re.error as e:
                raise SystemExit(f"{path}:{line}: {name} is no regular expression: {e}") from None
        gaps.append(Gap(**entry, cases=tuple(cases), drawn=drawn, line=line))
    return gaps


def holds(since: str, until: str) -> bool:
    """Return whether the installed torch is in a range of versions; an empty end means no limit."""
    here = parse(torch.__version__)
    return (not since or here >= parse(since)) and (not until or here <= parse(until))


def known_to(backend: str, path: Path) -> list[Gap]:
    """Return a backend's gaps.

    The remote backend also has the gaps of the table, because its server runs the table's kernels.
    """
    gaps = load(path)
    if path == file_for(backend) and backend.startswith("remote-"):
        gaps += [replace(g, borrowed=True) for g in load(file_for("table"))]
    return gaps


@dataclass(frozen=True)
class Scope:
    """What a run covered completely: all cases of ``ops`` (of all ``claimed`` overloads) in samples of ``dtypes``."""

    ops: Collection[str]
    claimed: Collection[str]
    dtypes: Collection[str]

    def has(self, gap: Gap) -> bool:
        """Return whether the run included everything that a gap may cover, so that a gap without a failure is stale."""
        ops = {op for op in self.claimed if fnmatchcase(op, gap.op)}
        dtypes = {d for d in DTYPES if fnmatchcase(d, gap.dtype)} or set(DTYPES)
        return ops <= set(self.ops) and dtypes | {"errors"} <= set(self.dtypes)


@dataclass
class GapsVerdict:
    """Result of checking a run against a gaps file: unknown failures, stale entries, number of known failures."""

    unknown: list[dict[str, Any]]
    stale: list[str]
    known: int

    @property
    def ok(self) -> bool:
        return not self.unknown and not self.stale


def check(
    gaps: list[Gap], tally: Tally, registered: Collection[str], path: Path, whole: Scope | None = None
) -> GapsVerdict:
    """Compare a run's failures with the known gaps; ``whole`` is the scope that the run covered completely, if any."""
    hit: set[Gap] = set()
    unknown = []
    for row in tally.failures:
        found = [g for g in gaps if g.covers(row)]
        hit.update(found)
        if not found:
            unknown.append(row)
    failed = {row["id"] for row in tally.failures}
    stale = []
    for gap in (g for g in gaps if not g.borrowed):
        if not any(fnmatchcase(op, gap.op) for op in {*registered, *of_any_version()}):
            stale.append(f"{path}:{gap.line}: {gap.op} is not an operator: delete the entry")
            continue
        if gap.reason == ACCEPTED:
            stale.append(f"{path}:{gap.line}: {gap.op} {gap.dtype} {gap.outcome} has no reason yet: write one")
        ids = {f"{gap.op}/{gap.dtype}/{c}" for c in gap.cases}
        passed = sorted(i for i in ids & tally.ran if i not in failed)
        if passed:
            stale.append(f"{path}:{gap.line}: passes now: delete {', '.join(i.rpartition('/')[2] for i in passed)}")
        elif gap not in hit and not gap.drawn and not gap.here_or_there and whole and whole.has(gap):
            stale.append(f"{path}:{gap.line}: {gap.op} {gap.dtype} has no such {gap.outcome}: delete the entry")
    return GapsVerdict(unknown, stale, len(tally.failures) - len(unknown))


def accept(path: Path, gaps: list[Gap], tally: Tally, whole: Scope | None = None) -> list[Gap]:
    """Rewrite the `plain` entries that the run covered; keep their reasons and the other entries. Return all gaps."""
    borrowed = [g for g in gaps if g.borrowed]
    gaps = [g for g in gaps if not g.borrowed]
    families = [g for g in gaps if not g.plain] + [g for g in load_all(path) if not holds(g.since, g.until)]
    reasons = {(g.op, g.dtype, g.outcome): g.reason for g in gaps if g.plain}
    cases: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for g in gaps:
        if g.plain and not (whole and whole.has(g)):
            still = {c for c in g.cases if f"{g.op}/{g.dtype}/{c}" not in tally.ran}
            if still or not g.cases:
                cases[g.op, g.dtype, g.outcome] |= still
    for row in tally.failures:
        if not any(g.covers(row) for g in (*families, *borrowed)):
            cases[row["op"], row["dtype"], row["outcome"]].add(row["id"].rpartition("/")[2])
    new = [Gap(*key, reasons.get(key, ACCEPTED), tuple(sorted(found))) for key, found in sorted(cases.items())]
    path.write_text(dump([*families, *new]), encoding="utf-8")
    return load(path) + borrowed


def dump(gaps: Iterable[Gap]) -> str:
    text = ["# Known gaps: each entry has a reason, and must go when its cases pass.\n"]
    for g in gaps:
        text.append("[[gap]]")
        text += [f"{k} = {json.dumps(getattr(g, k))}" for k in ("op", "dtype", "outcome", "reason")]
        text += [
            f"{k} = {json.dumps(getattr(g, k))}"
            for k in ("message", "call", "processor", "since", "until")
            if getattr(g, k)
        ]
        text += ["drawn = true"] * g.drawn
        text += [f"cases = {json.dumps(list(g.cases))}"] * bool(g.cases)
        text.append("")
    return "\n".join(text)
