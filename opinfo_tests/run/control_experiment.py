"""The control experiment: before each run, torch's CPU device and torchnp's table are judged on some of its tasks.

If either fails, the run is invalid: the harness is broken, not the backend.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..backends.backend import Backend
from ..backends.torch_backend import TorchDevice
from ..generate.task import Task
from ..report import gaps
from ..report.report import GOOD
from .oracle_cache import shard
from .runner import Options, run_here
from .workers import run_pool

INVALID = 3  # exit status of an invalid run, which says nothing about its backend
TASKS, CASES = 6, 150  # maximum numbers of tasks and cases that the control experiment runs
OURSELVES = ("torchnp", "torch-cpu")  # backends for which torchnp's table is not judged first
OURS = 0.9  # share of torchnp's calls that must pass: a wrong kernel fails a few calls, a broken harness nearly all


def control(tasks: list[Task], options: Options, jobs: int, backend: Backend) -> str:
    """Return why the run is invalid, or an empty string.

    The control experiment judges torch's CPU device as the backend, which must pass the first cases of some of the
    tasks. It also judges torchnp's own table, which may fail a few cases, because a fault in one of our kernels is not
    a fault in the harness.
    """
    store = options.store
    chosen = sorted(tasks, key=lambda t: shard(f"{t.source} {t.dtype}", options.choice))[:TASKS]
    options = replace(options, limit=2, store=None, skip=set(), count_only=False)
    torch_cpu = TorchDevice("cpu")
    if backend.name != torch_cpu.name and not (store and store.was_green(chosen)):
        rows = judged(chosen, options, jobs, torch_cpu)
        bad = [r for r in rows if r["outcome"] not in GOOD]
        if bad:
            return f"torch itself fails {len(bad)} of {len(rows)} calls, as {described(bad[0])}"
        if store:
            store.note_green(chosen)
    if backend.name not in OURSELVES:
        from ..backends.load import own_table

        known = gaps.load(gaps.file_for("table"))
        rows = judged(chosen, options, jobs, own_table())
        bad = [r for r in rows if r["outcome"] not in GOOD and not any(g.covers(r) for g in known)]
        if len(bad) > (1 - OURS) * len(rows) + 1:
            return f"torchnp's own table fails {len(bad)} of {len(rows)} calls, as {described(bad[0])}"
    return ""


def announced(backend: Backend) -> str:
    """Return the line that says which backends the control experiment judges; "" if it judges none."""
    both = {"torch's CPU device": backend.name != "torch-cpu", "torchnp's table": backend.name not in OURSELVES}
    names = " and ".join(name for name, judged_ in both.items() if judged_)
    return f"control: {names} on some of the same cases ...\n" if names else ""


def judged(tasks: list[Task], options: Options, jobs: int, backend: Backend) -> list[dict[str, Any]]:
    """Judge the first cases of some tasks; return their report rows."""
    running = run_pool(tasks, backend, options, jobs) if jobs else run_here(tasks, backend, options)
    rows: list[dict[str, Any]] = []
    for kind, value in running:
        rows += value if kind == "rows" else []
        if len(rows) >= CASES:
            break
    running.close()
    return rows


def described(row: dict[str, Any]) -> str:
    return f"{row['id']}: {row['outcome']}: {row.get('message', '')}"
