"""Which OpInfo entries call which overloads.

The record for one version of torch is in the package. For other versions it is computed once, and stored in the user's
cache.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import torch
from rich.progress import track

from ... import namespaces
from ...schema_facts import siblings
from ..task import Task
from . import plugin_samples
from .extra.make_calls import own_reach
from .model_calls import SOURCE as MODELS
from .model_calls import models_reach
from .opinfo import ERRORS, PROBE_DTYPES, opinfos, registered, run_task, supported
from .recording import Recorder

DATA = Path(__file__).parents[2] / "data" / "reach.tsv"
Reach = dict[str, frozenset[str]]


def version() -> str:
    return torch.__version__.partition("+")[0]


def cache_file() -> Path:
    """Return the path of the record in the user's cache, for versions of torch without a record in the package."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "torchnp" / f"opinfo-reach-{version()}.tsv"


def load(path: Path) -> Reach | None:
    """Return the record in a file, or None if the file does not exist or is for another version of torch."""
    if not path.exists():
        return None
    head, *lines = path.read_text(encoding="utf-8").splitlines()
    if head != f"torch {version()}":
        return None
    rows = (line.partition("\t") for line in lines)
    return {source: frozenset(calls.split()) for source, _, calls in rows}


def save(path: Path, found: Mapping[str, Iterable[str]]) -> None:
    """Write a record atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    rows = "".join(f"{source}\t{' '.join(sorted(calls))}\n" for source, calls in sorted(found.items()))
    part.write_text(f"torch {version()}\n{rows}", encoding="utf-8")
    part.replace(path)


@cache
def reach() -> Reach:
    """Return the overloads that each entry's samples call, and their `siblings`."""
    found = load(DATA) or load(cache_file())
    if found is None:
        found = probe()
        save(cache_file(), found)
    found = found | own_reach() | models_reach()
    return {k: v.union(*(siblings()[op] for op in v if op in siblings())) for k, v in found.items()}


@cache
def listed(source: str) -> tuple[str, ...]:
    """Return the overloads in a source that is a list of calls; empty for other sources."""
    lists = own_reach() | models_reach()
    return tuple(sorted({op for name in lists.get(source, ()) for op in (name, *siblings()[name])}))


HOMES = 3  # number of home entries of an overload; the quick tier uses only their calls


@cache
def ranked_sources() -> dict[str, list[str]]:
    """Return the sources that call each overload: those with its name first, then those with the fewest overloads."""
    found: dict[str, list[tuple[bool, int, str]]] = {}
    for source, calls in reach().items():
        for op in calls:
            base = op.partition("::")[2].partition(".")[0].strip("_")
            found.setdefault(op, []).append((base != source.partition(".")[0].strip("_"), len(calls), source))
    return {op: [source for _, _, source in sorted(rows)] for op, rows in found.items()}


@cache
def homes() -> Reach:
    """Return the home entries of each overload: the first of its `ranked_sources`, and the models."""
    return {
        op: frozenset(s for i, s in enumerate(rows) if i < HOMES or s == MODELS)
        for op, rows in ranked_sources().items()
    }


def probe() -> Reach:
    """Run every sample to find which overloads it calls."""
    recorder = Recorder(lambda name: False, lambda case: None)
    found: Reach = {}
    for source in track(opinfos(), description="finding which samples call which overloads (once)"):
        recorder.calls.clear()
        for dtype in sorted(supported(source) & {*PROBE_DTYPES, ERRORS}) or sorted(supported(source))[:2]:
            run_task(Task(source, dtype), recorder)
        found[source] = frozenset(recorder.calls)
    return found


def select(patterns: list[str]) -> frozenset[str]:
    """Return the registered overloads that match the patterns, also of other libraries; each pattern must match one."""
    chosen: set[str] = set()
    for pattern in patterns:
        full = pattern if "::" in pattern else f"aten::{pattern}"
        namespaces.meet_all(namespaces.offered(full.partition("::")[0]))
        hits = {n for n in registered() if fnmatchcase(n, full)}
        if not hits:
            raise SystemExit(f"opinfo_tests: no registered overload matches {pattern!r}{close(full)}")
        chosen |= hits
    return frozenset(chosen)


def in_families(text: str, ops: Iterable[str]) -> frozenset[str]:
    """Return the overloads whose family in torchnp.table is in a comma separated list.

    These are torchnp's families, whatever backend is judged. ``backward`` includes ``backward.activation``,
    ``backward.conv`` and so on.
    """
    import torchnp

    table = torchnp.table
    families = {n: table[n].family for n in table}
    every = set(families.values())
    chosen: set[str] = set()
    for name in text.split(","):
        found = {f for f in every if f == name or f.startswith(f"{name}.")}
        if not found:
            raise SystemExit(f"opinfo_tests: no family {name!r}: there are {', '.join(sorted(every))}")
        chosen |= found
    hits = frozenset(n for n in ops if families.get(n) in chosen)
    if not hits:
        raise SystemExit(f"opinfo_tests: none of the chosen overloads is in {text}")
    return hits


def close(name: str) -> str:
    import difflib

    near = difflib.get_close_matches(name, registered(), 4, 0.6)
    return f"; the closest are {', '.join(near)}" if near else ""


def plan(ops: frozenset[str] | None, dtypes: list[str], home: bool = False) -> list[Task]:
    """Return the tasks that call any of ``ops`` (all overloads if None), in the given dtypes, in a stable order.

    With ``home``, use only entries that are a home entry of one of the overloads.
    """
    reached = reach()
    if home:
        chosen = frozenset(registered() if ops is None else ops)
        live = frozenset().union(*(homes().get(op, ()) for op in chosen))
        reached = {source: calls for source, calls in reached.items() if source in live}
    tasks = []
    for source, calls in reached.items():
        if ops is None or calls & ops:
            allowed = supported(source)
            tasks += [Task(source, d) for d in dtypes if d in allowed]
    return tasks + plugin_samples.plan(ops or (), dtypes)
