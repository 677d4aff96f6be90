"""Reports: report.jsonl has a header row and a row for each case; summaries and diffs use only these rows."""

from __future__ import annotations

import json
import platform
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ..generate.task import BROKEN, DRAWN
from .resource_usage import Usage
from .undertested import merged

GOOD = ("pass", "unspecified")
REFUSED = "refused"  # refused by the backend's policy: counted only by reason


def header(backend: str, **more: Any) -> dict[str, Any]:
    """Return the header row: versions, the seed, and the options of the run."""
    import ml_dtypes
    import numpy
    import torch

    import torchnp

    return {
        "header": 1, "backend": backend, "torchnp": torchnp.__version__, "torch": torch.__version__,
        "numpy": numpy.__version__, "ml_dtypes": ml_dtypes.__version__, "python": platform.python_version(),
        "machine": platform.machine(), "cpu": torch.backends.cpu.get_cpu_capability(), **more,
    }  # fmt: skip


@dataclass
class Tally:
    """Counts of rows, the failing rows, and how often samples called each overload."""

    path: Path | None = None
    head: dict[str, Any] = field(default_factory=dict)
    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    failures: list[dict[str, Any]] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    max_ulp: dict[tuple[str, str], float] = field(default_factory=dict)
    ran: set[str] = field(default_factory=set)
    errors: list[str] = field(default_factory=list)
    drawn: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    # calls with an argument changed to a wrong one, by whether torch raised an error
    broken: Counter[bool] = field(default_factory=Counter)
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)  # refused calls, by reason and overload
    met: dict[str, dict[str, Any]] = field(default_factory=dict)  # overload -> option -> values that calls used
    absent: frozenset[str] = frozenset()  # requested overloads that the backend does not claim
    tasks: int = 0  # number of finished tasks
    measured: list[dict[str, Any]] = field(default_factory=list)  # rows with the time and memory of large calls
    append: bool = False
    usage: Usage = field(default_factory=Usage)

    def __post_init__(self) -> None:
        self._file = self.path.open("a" if self.append else "w", encoding="utf-8") if self.path else None
        if self._file and self.head and not self.append:
            self._file.write(json.dumps(self.head) + "\n")

    def add(self, row: dict[str, Any]) -> None:
        """Count one row and write it."""
        if self._file:
            self._file.write(json.dumps(row | facts(row["op"])) + "\n")
        self.count(row)

    def count(self, row: dict[str, Any]) -> None:
        """Count one row."""
        key = row["op"], row["dtype"]
        self.ran.add(row["id"])
        if row["outcome"] == REFUSED:
            self.refused[row["reason"], row["op"]] += 1
            return
        self.counts[*key, row["outcome"]] += 1
        if row.get("max_ulp"):
            self.max_ulp[key] = max(self.max_ulp.get(key, 0.0), row["max_ulp"])
        if row["sample"].startswith(DRAWN):
            self.drawn[row["op"]] += 1
            self.accepted[row["op"]] += "torch_raises" not in row
        if row["sample"].startswith(BROKEN):
            self.broken["torch_raises" in row] += 1
        if "torch_ms" in row:
            self.measured.append(row)
        if row["outcome"] not in GOOD:
            self.failures.append(row)

    def end_task(self, done: Any, ops: Any) -> None:
        """Count a task's results other than rows, and write that it is done, so that a run can be resumed."""
        self.usage.of(done.usage)
        self.tasks += 1
        if done.error:
            self.errors.append(f"{done.task.source} {done.task.dtype}: {done.error}")
        elif self._file:
            absent = {n: c for n, c in done.calls.items() if n not in ops}
            row = {"done": [done.task.source, done.task.dtype], "calls": absent, "left_out": dict(done.left_out)}
            row["met"] = {op: {n: sorted(v) for n, v in found.items()} for op, found in done.met.items()}
            self._file.write(json.dumps(row) + "\n")
            self._file.flush()
        self.calls.update(done.calls)
        self.left_out.update(done.left_out)
        merged(self.met, done.met)

    def close(self, ops: Any = (), asked: Iterable[str] = ()) -> None:
        """End the report with a footer row.

        It lists called overloads that are not in ``ops``, overloads in ``asked`` without a case, and errors of samples.
        """
        if self._file:
            end = {"absent": absent_calls(self, ops), "left_out": dict(self.left_out), "errors": self.errors}
            end["unjudged"] = sorted(set(asked) - {op for op, _, _ in self.counts} - {op for _, op in self.refused})
            end["usage"] = self.usage.facts()
            if self.drawn:
                end["drawn"] = {op: [self.accepted[op], n] for op, n in sorted(self.drawn.items())}
            self._file.write(json.dumps({"footer": 1, "total": self.total, "good": self.good, **end}) + "\n")
            self._file.close()
            self._file = None

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def good(self) -> int:
        return sum(n for (_, _, outcome), n in self.counts.items() if outcome in GOOD)

    def by(self, place: int) -> dict[str, Counter[str]]:
        """Return the outcomes counted by overload (0) or by dtype (1)."""
        found: dict[str, Counter[str]] = defaultdict(Counter)
        for key, n in self.counts.items():
            found[key[place]][key[2]] += n
        return dict(sorted(found.items()))


def resumed(path: Path, head: dict[str, Any]) -> tuple[Tally, set[tuple[str, str]]]:
    """Return the tally of an interrupted run's report, and the tasks that it finished.

    The report is truncated after its last complete row. It is an error if the report is from a run with other versions
    or options.
    """
    if not path.exists():
        return Tally(path, head), set()
    end = 0
    over: set[tuple[str, str]] = set()
    tally = Tally(head=head)
    with path.open("rb") as lines:
        for line in lines:
            try:
                row = json.loads(line)
            except ValueError:
                break
            if "footer" in row or not line.endswith(b"\n"):
                break
            if not end and row != json.loads(json.dumps(head)):
                other = [k for k in head if row.get(k) != json.loads(json.dumps(head[k]))]
                raise SystemExit(f"opinfo_tests: {path} is of another run: {', '.join(other) or 'no header'} differ")
            end += len(line)
            if "op" in row:
                tally.count(row)
            elif "done" in row:
                over.add(tuple(row["done"]))
                tally.calls.update(row["calls"])
                tally.left_out.update(row["left_out"])
                merged(tally.met, row.get("met", {}))
    if not end:
        return Tally(path, head), set()
    with path.open("r+b") as f:
        f.truncate(end)
    tally.path, tally.append = path, True
    tally.__post_init__()
    return tally, over


def read(path: Path, key: str = "op") -> Iterator[dict[str, Any]]:
    """Yield the rows of a report that have a key: ``op`` for cases, ``header``, or ``done`` for finished tasks."""
    return (row for row in every_row(path) if key in row)


def every_row(path: Path) -> Iterator[dict[str, Any]]:
    """Yield all rows of a report; if the file is not a report, exit with a one-line error."""
    number = 0
    try:
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                number += 1
                row = json.loads(line)
                if not isinstance(row, dict) or ("op" in row and not {"id", "dtype", "outcome"} <= set(row)):
                    raise ValueError("other keys")
                yield row
    except OSError as e:
        raise SystemExit(f"opinfo_tests: {path}: {e.strerror or e}") from None
    except ValueError as e:
        raise SystemExit(f"opinfo_tests: {path}:{number}: not a row of a report: {e}") from None


@cache
def facts(op: str) -> dict[str, Any]:
    """Return an overload's status in torchnp's table, and the overload that its kernel is derived from."""
    import torchnp

    table = torchnp.table
    if op not in table.schemas:
        return {}
    source = table[op].derived_from if op in table else None
    return {"status": table.status(op), **({"derived_from": source} if source else {})}


def tally_of(rows: Iterable[dict[str, Any]]) -> Tally:
    tally = Tally()
    for row in rows:
        tally.add(row)
    return tally


def good_of(outcomes: Counter[str]) -> int:
    return sum(outcomes[o] for o in GOOD)


def refusals(tally: Tally) -> list[tuple[str, int, list[str]]]:
    """Return the reasons for refused calls, most frequent first, each with its number of calls and its overloads."""
    calls: Counter[str] = Counter()
    names: dict[str, list[str]] = defaultdict(list)
    for (reason, op), n in tally.refused.most_common():
        calls[reason] += n
        names[reason].append(op)
    return [(reason, n, names[reason]) for reason, n in calls.most_common()]


def absent_calls(tally: Tally, ops: Any, wanted: frozenset[str] | None = None) -> list[tuple[str, int]]:
    """Return the overloads that samples called but the backend does not claim, the most called first."""
    found = [(n, c) for n, c in tally.calls.items() if n not in ops and (wanted is None or n in wanted)]
    return sorted(found, key=lambda nc: (-nc[1], nc[0]))


def summary(tally: Tally, ops: Any, absent_rows: int = 40) -> str:
    """Return the summary in Markdown."""
    lines = [f"# {tally.good:,} of {tally.total:,} calls pass", ""]
    lines += ["| dtype | passed | attempted | overloads | failing |", "|---|---:|---:|---:|---:|"]
    pairs: dict[str, set[str]] = defaultdict(set)
    bad_pairs: dict[str, set[str]] = defaultdict(set)
    for op, dtype, outcome in tally.counts:
        pairs[dtype].add(op)
        if outcome not in GOOD:
            bad_pairs[dtype].add(op)
    for dtype, outcomes in tally.by(1).items():
        good, total = good_of(outcomes), sum(outcomes.values())
        lines.append(f"| {dtype} | {good:,} | {total:,} | {len(pairs[dtype])} | {len(bad_pairs[dtype])} |")
    outcomes = Counter()
    for (_, _, outcome), n in tally.counts.items():
        outcomes[outcome] += n
    lines += ["", "| outcome | calls |", "|---|---:|"] + [f"| {o} | {n:,} |" for o, n in outcomes.most_common()]
    failing = [(op, c) for op, c in tally.by(0).items() if good_of(c) < sum(c.values())]
    if failing:
        lines += ["", "## Failing overloads", "", "| overload | passed | attempted | outcomes |", "|---|---:|---:|---|"]
        for op, c in failing:
            bad = ", ".join(f"{o} {n}" for o, n in c.most_common() if o not in GOOD)
            lines.append(f"| {op} | {good_of(c):,} | {sum(c.values()):,} | {bad} |")
    if tally.refused:
        lines += [
            "",
            f"## Calls that the backend refuses ({tally.refused.total():,}), which are not among those attempted",
            "",
            "| reason | calls | overloads |",
            "|---|---:|---:|",
        ]
        lines += [f"| {reason} | {n:,} | {len(names)} |" for reason, n, names in refusals(tally)]
    absent = absent_calls(tally, ops)
    if absent:
        lines += [
            "",
            f"## Absent overloads ({len(absent)}), most called first",
            "",
            "| overload | calls |",
            "|---|---:|",
        ]
        lines += [f"| {op} | {n:,} |" for op, n in absent[:absent_rows]]
    return "\n".join(lines) + "\n"


def diff(before: Path, after: Path) -> tuple[list[str], int]:
    """Compare two reports; return the changes as lines, and the exit status.

    The status is 1 if cases got worse or are missing in ``after``, 2 if the reports have no case in common, else 0.
    """
    old = {r["id"]: r for r in read(before)}
    new = {r["id"]: r for r in read(after)}
    found: dict[str, list[str]] = {"better": [], "other": [], "worse": []}
    shared = old.keys() & new.keys()
    for case in (c for c in new if c in shared):
        was, now = old[case]["outcome"], new[case]["outcome"]
        if was != now and not (was in GOOD and now in GOOD):
            how = "worse" if was in GOOD else "better" if now in GOOD else "other"
            message = (old if how == "better" else new)[case].get("message", "")
            found[how].append(f"{was} -> {now}: {case}: {message}")
    lines = [f"{how}: {line}" for how, several in found.items() for line in several]
    missing, added = len(old) - len(shared), len(new) - len(shared)
    lines.append(f"{len(shared):,} compared, {missing:,} only in {before}, {added:,} only in {after}")
    if not shared:
        return [*lines, "the reports have no case in common"], 2
    lines.append(
        f"{some(len(found['worse']), 'case')} got worse, {len(found['better'])} got better, "
        f"{len(found['other'])} fail in another way"
    )
    return lines, int(bool(found["worse"] or missing))


def some(n: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun, such as ``1 overload`` or ``1,200 overloads``."""
    return f"{n:,} {noun if n == 1 else plural or f'{noun}s'}"
