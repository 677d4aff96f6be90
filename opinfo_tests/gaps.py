"""Known gaps: one TOML file for a backend, strict both ways.

An entry says which failures are known and why. A failure that no entry knows fails the run; so does an entry whose
cases all ran and passed, an entry that names no operator, and an entry without a reason.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import defaultdict
from collections.abc import Container, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .compare import OUTCOMES
from .report import Tally

ACCEPTED = "accepted without a reason: write one"


@dataclass(frozen=True)
class Gap:
    """Known failures of one overload in one dtype with one outcome: all of them, or the ``cases`` with these hashes."""

    op: str
    dtype: str
    outcome: str
    reason: str
    cases: tuple[str, ...] = ()
    line: int = 0

    def covers(self, row: dict[str, Any]) -> bool:
        """Return whether a failing row is one of these."""
        same = (self.op, self.dtype, self.outcome) == (row["op"], row["dtype"], row["outcome"])
        return same and (not self.cases or row["id"].rpartition("/")[2] in self.cases)


def file_for(backend: str) -> Path:
    """Return the gaps file of a backend: ours is in the package, anyone else's in the working directory."""
    if backend == "table":
        return Path(__file__).with_name("gaps.toml")
    return Path(f"gaps-{re.sub(r'[^A-Za-z0-9]+', '-', backend)}.toml")


def load(path: Path) -> list[Gap]:
    """Read a gaps file; what is wrong with it is an error and not a warning."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    starts = [i for i, line in enumerate(text.splitlines(), 1) if line.strip() == "[[gap]]"]
    gaps = []
    for line, entry in zip(starts, tomllib.loads(text).get("gap", []), strict=True):
        unknown = set(entry) - {"op", "dtype", "outcome", "reason", "cases"}
        if unknown or not {"op", "dtype", "outcome", "reason"} <= set(entry):
            raise SystemExit(f"{path}:{line}: an entry has op, dtype, outcome, reason and perhaps cases")
        if entry["outcome"] not in OUTCOMES or not entry["reason"].strip():
            raise SystemExit(f"{path}:{line}: no such outcome, or no reason")
        gaps.append(Gap(**{**entry, "cases": tuple(entry.get("cases", ()))}, line=line))
    return gaps


@dataclass
class Verdict:
    """What a gaps file says about a run: failures that nobody knew, and entries that are wrong."""

    unknown: list[dict[str, Any]]
    stale: list[str]
    known: int

    @property
    def ok(self) -> bool:
        return not self.unknown and not self.stale


def check(gaps: list[Gap], tally: Tally, registered: Container[str], path: Path, whole: bool) -> Verdict:
    """Hold a run against the known gaps; ``whole`` when every case of the operators that ran was judged."""
    by_key: dict[tuple, list[Gap]] = defaultdict(list)
    for gap in gaps:
        by_key[gap.op, gap.dtype, gap.outcome].append(gap)
    hit: set[Gap] = set()
    unknown = []
    for row in tally.failures:
        found = [g for g in by_key.get((row["op"], row["dtype"], row["outcome"]), ()) if g.covers(row)]
        hit.update(found)
        if not found:
            unknown.append(row)
    failed = {row["id"] for row in tally.failures}
    ran = {(op, dtype) for op, dtype, _ in tally.counts}
    stale = []
    for gap in gaps:
        if gap.op not in registered:
            stale.append(f"{path}:{gap.line}: {gap.op} is not an operator: delete the entry")
            continue
        if gap.reason == ACCEPTED:
            stale.append(f"{path}:{gap.line}: {gap.op} {gap.dtype} {gap.outcome} has no reason yet: write one")
        ids = {f"{gap.op}/{gap.dtype}/{c}" for c in gap.cases}
        passed = sorted(i for i in ids & tally.ran if i not in failed)
        if passed:
            stale.append(f"{path}:{gap.line}: passes now: delete {', '.join(i.rpartition('/')[2] for i in passed)}")
        elif gap not in hit and whole and (gap.op, gap.dtype) in ran:
            stale.append(f"{path}:{gap.line}: {gap.op} {gap.dtype} has no {gap.outcome}: delete the entry")
    return Verdict(unknown, stale, len(tally.failures) - len(unknown))


def accept(path: Path, gaps: list[Gap], tally: Tally, whole: bool) -> list[Gap]:
    """Rewrite the entries of what ran, keeping reasons; return the new list."""
    reasons = {(g.op, g.dtype, g.outcome): g.reason for g in gaps}
    cases: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for g in gaps:
        ran_key = any((g.op, g.dtype, o) in tally.counts for o in OUTCOMES)
        if not (whole and ran_key):
            still = {c for c in g.cases if f"{g.op}/{g.dtype}/{c}" not in tally.ran}
            if still or not g.cases:
                cases[g.op, g.dtype, g.outcome] |= still
    for row in tally.failures:
        cases[row["op"], row["dtype"], row["outcome"]].add(row["id"].rpartition("/")[2])
    new = [Gap(*key, reasons.get(key, ACCEPTED), tuple(sorted(found))) for key, found in sorted(cases.items())]
    path.write_text(dump(new), encoding="utf-8")
    return new


def dump(gaps: Iterable[Gap]) -> str:
    text = ["# Known gaps: each entry has a reason, and must go when its cases pass.\n"]
    for g in gaps:
        text.append("[[gap]]")
        text += [f"{k} = {json.dumps(getattr(g, k))}" for k in ("op", "dtype", "outcome", "reason")]
        if g.cases:
            text.append(f"cases = {json.dumps(list(g.cases))}")
        text.append("")
    return "\n".join(text)
