"""Reads and judges faults that were written by hand by people who had not seen the harness.

A fault either changes the source text of a kernel, or is a function that replaces a kernel and gets the kernel as an
argument.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from ..backends.backend import Seen, Table
from ..backends.torch_backend import TorchDevice
from ..case import Case, schemas
from ..generate.samples.opinfo import dtypes_of
from ..generate.samples.opinfo_reach import listed, plan
from ..generate.task import Task
from ..report.report import GOOD
from ..run import oracle_cache
from ..run.outputs import DRAWS, drawn_tasks
from ..run.runner import Judge, Options, run_case, run_one
from .rules import ROOT, Mutant, source_of
from .trial import Found, Original, limited, modules_taken

SHIPPED = Path(__file__).parents[1] / "data" / "faults"  # faults from blind audits, one file for each audit


@dataclass(frozen=True)
class Fault:
    """One fault, and the overloads whose results it changes.

    Attributes
    ----------
    name : str
        The fault's id in its file.
    mutant : Mutant or None
        The change; None if the kernel's source no longer contains the text to change.
    ops : tuple of str
        The overloads whose calls are judged.
    why : str
        What the fault makes wrong.
    witness : str
        The arguments of a call of the first overload for which the fault changes the result, written as in
        `generate.samples.extra`.
    """

    name: str
    mutant: Mutant | None
    ops: tuple[str, ...]
    why: str
    witness: str = ""


def read(path: Path) -> list[Fault]:
    """Return the faults in a file: a JSON list of ``{"id", "file", "old", "new", "ops", "why"}``.

    Instead of ``file``, ``old`` and ``new``, an entry may have ``wrong``: the source of a function named ``wrong`` that
    takes the kernel of the entry's first overload, followed by the arguments of the call. ``witness`` may give the
    arguments of a call whose result the fault changes.

    Raises
    ------
    SystemExit
        The file does not exist or does not contain such a list.
    """
    try:
        return [fault(row) for row in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError, KeyError) as e:
        raise SystemExit(f"opinfo_tests.mutate: {path} is no list of faults: {type(e).__name__}: {e}") from None


def fault(row: dict[str, Any]) -> Fault:
    if "wrong" in row:
        return Fault(row["id"], Replaced.of(row), tuple(row["ops"]), row["why"], row.get("witness", ""))
    module = row["file"].removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    before, after = row["old"].encode(), row["new"]
    mutant = None
    if (ROOT.parent / row["file"]).is_file():
        source = source_of(module).encode()
        if source.count(before) == 1:
            start = source.index(before)
            line = source[:start].count(b"\n") + 1
            mutant = Mutant(module, "", line, row["id"], row["old"], after, start, start + len(before))
    return Fault(row["id"], mutant, tuple(row["ops"]), row["why"], row.get("witness", ""))


class Replaced(Mutant):
    """A mutant that replaces a kernel by a function; ``function`` is the overload, ``after`` the function's source."""

    @classmethod
    def of(cls, row: dict[str, Any]) -> Replaced:
        return cls("torchnp.table", row["ops"][0], 1, row["id"], "the kernel", row["wrong"], 0, 0)

    def source(self) -> str:
        return self.after

    def table(self, right: Mapping[str, Callable]) -> Mapping[str, Callable]:
        """Return the table with this kernel replaced."""
        names: dict[str, Any] = {"np": np, "ml_dtypes": ml_dtypes}
        exec(compile(self.after, self.rule, "exec"), names)
        wrong, kernel = partial(names["wrong"], right[self.function]), right[self.function]
        return Overlaid(
            right,
            {
                self.function: wrong
                if schemas()[self.function].mutates or schemas()[self.function].is_view
                else settled(wrong, kernel)
            },
        )


def settled(wrong: Callable, right: Callable) -> Callable:
    """Return a kernel with the wrong kernel's values, dtypes and shapes, and the original's memory layout.

    If the wrong kernel raises an error, the original's result or error is used.
    """

    def kernel(*args: Any, **kwargs: Any) -> Any:
        try:
            out, refusal = right(*args, **kwargs), None
        except Exception as e:
            out, refusal = None, e
        try:
            mine = wrong(*args, **kwargs)
        except Exception:
            if refusal is not None:
                raise refusal from None
            return out
        return mine if refusal is not None else laid(mine, out)

    return kernel


def laid(mine: Any, out: Any) -> Any:
    """Copy results into the original kernel's results, to get their layout, if dtypes and shapes agree."""
    if isinstance(out, (tuple, list)) and isinstance(mine, (tuple, list)) and len(out) == len(mine):
        return type(out)([laid(m, o) for m, o in zip(mine, out, strict=True)])
    mine = np.asarray(mine) if isinstance(mine, np.generic) else mine
    if (
        not isinstance(mine, np.ndarray)
        or (mine.dtype, mine.shape) != (out.dtype, out.shape)
        or not out.flags.writeable
    ):
        return mine
    out[...] = mine
    return out


class Overlaid(Mapping):
    """A table in which some kernels are replaced."""

    def __init__(self, table: Mapping[str, Callable], over: Mapping[str, Callable]) -> None:
        self.under, self.over = table, over

    def __getitem__(self, name: str) -> Callable:
        return self.over.get(name) or self.under[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.under)

    def __len__(self) -> int:
        return len(self.under)


class Limited(Table):
    """A table that raises TimeoutError if a call takes too long."""

    def execute(self, case: Case) -> Seen:
        with limited():
            return super().execute(case)


def trial(mutant: Mutant, ops: Sequence[str], tier: str = "full") -> Found:
    """Judge a tier's calls until one fails with the mutant but passes with the original."""
    original, oracle = Original(), TorchDevice("cpu")
    try:
        with limited():
            wrong = Limited(table_of(mutant, original), "mutant", strides=True)
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

    names = frozenset(ops)
    judge = Judge(
        wrong, Options(names, store=oracle_cache.opened() if tier == "quick" else None), look, before=asked.append
    )
    samples = plan(names, dtypes_of("all"), home=True) if tier == "quick" else nearest_first(names)
    try:
        for task in [*drawn_tasks(names, DRAWS[tier]), *samples]:
            run_one(task, judge)
    except CaughtError as e:
        return Found("caught", str(e), len(asked))
    return Found("survived", "", len(asked))


def table_of(mutant: Mutant, original: Original) -> Mapping[str, Callable]:
    """Return torchnp's table with the mutant's change."""
    if isinstance(mutant, Replaced):
        original.modules = modules_taken()
        sys.modules.update(original.modules)
        return mutant.table(original.table.table)
    return original.mutated(mutant).table


def nearest_first(ops: frozenset[str]) -> list[Task]:
    """Return the full tier's tasks that call the overloads: lists of calls first, then home entries, then others."""
    home = frozenset(task.source for task in plan(ops, dtypes_of("all"), home=True))
    rank = lambda task: 0 if listed(task.source) else 1 if task.source in home else 2
    return sorted(plan(ops, dtypes_of("all")), key=rank)


class CaughtError(Exception):
    """Raised to stop judging when a call has exposed the mutant."""
