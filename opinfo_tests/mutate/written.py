"""Faults that were written by hand, without sight of the harness: files of them, and how many the judge catches."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..backends.backend import Seen, Table
from ..backends.torch_backend import TorchDevice
from ..case import Case
from ..draw.reach import listed, plan
from ..draw.samples import dtypes_of
from ..draw.task import Task
from ..report.report import GOOD
from ..run.outputs import DRAWS, drawn_tasks
from ..run.runner import Judge, Options, run_case, run_one
from .changes import ROOT, Mutant, source_of
from .trial import Found, Original, limited

SHIPPED = Path(__file__).parents[1] / "data" / "faults"  # the blind audits, a file for each


@dataclass(frozen=True)
class Fault:
    """One fault and the overloads that it shows in.

    Attributes
    ----------
    name : str
        Of the fault in its file.
    mutant : Mutant or None
        The change; None where the kernel no longer has the text that it changes.
    ops : tuple of str
        The overloads whose calls are judged.
    why : str
        What is wrong.
    """

    name: str
    mutant: Mutant | None
    ops: tuple[str, ...]
    why: str


def read(path: Path) -> list[Fault]:
    """Return the faults of a file: JSON, a list of ``{"id", "file", "old", "new", "ops", "why"}``.

    Raises
    ------
    SystemExit
        The file is not there or is not such a list.
    """
    try:
        return [fault(row) for row in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError, KeyError) as e:
        raise SystemExit(f"opinfo_tests.mutate: {path} is no list of faults: {type(e).__name__}: {e}") from None


def fault(row: dict[str, Any]) -> Fault:
    module = row["file"].removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    before, after = row["old"].encode(), row["new"]
    mutant = None
    if (ROOT.parent / row["file"]).is_file():
        source = source_of(module).encode()
        if source.count(before) == 1:
            start = source.index(before)
            line = source[:start].count(b"\n") + 1
            mutant = Mutant(module, "", line, row["id"], row["old"], after, start, start + len(before))
    return Fault(row["id"], mutant, tuple(row["ops"]), row["why"])


class Limited(Table):
    """A table each of whose calls has the time of a mutant's."""

    def execute(self, case: Case) -> Seen:
        with limited():
            return super().execute(case)


def trial(mutant: Mutant, ops: Sequence[str]) -> Found:
    """Judge every call of the full tier, to the first that the mutant does not pass and the original does."""
    original, oracle = Original(), TorchDevice("cpu")
    try:
        with limited():
            wrong = Limited(original.mutated(mutant).table, "mutant", strides=True)
    except Exception as e:
        return Found("caught", f"import: {type(e).__name__}: {e}")
    asked: list[Case] = []

    def look(row: dict[str, Any]) -> None:
        if row["outcome"] in GOOD:
            return
        with original as right:
            passes = run_case(asked[-1], oracle, right)[0].outcome in GOOD
        if passes:
            raise CaughtError(f"{row['outcome']} {row['call']}: {row['message']}")

    judge = Judge(wrong, Options(frozenset(ops)), look, before=asked.append)
    try:
        for task in [*drawn_tasks(frozenset(ops), DRAWS["full"]), *nearest_first(frozenset(ops))]:
            run_one(task, judge)
    except CaughtError as e:
        return Found("caught", str(e), len(asked))
    return Found("survived", "", len(asked))


def nearest_first(ops: frozenset[str]) -> list[Task]:
    """Return the tasks of the full tier that reach overloads: lists of calls, entries that say most of them, others."""
    home = frozenset(task.source for task in plan(ops, dtypes_of("all"), home=True))
    rank = lambda task: 0 if listed(task.source) else 1 if task.source in home else 2
    return sorted(plan(ops, dtypes_of("all")), key=rank)


class CaughtError(Exception):
    """A call tells the mutant from the original: no other is needed."""
