"""Which OpInfo entries call which overloads: found once for a torch version, kept in the user's cache directory."""

from __future__ import annotations

import json
import os
from fnmatch import fnmatchcase
from pathlib import Path

import torch
from rich.progress import track

from .own import own_reach
from .record import Recorder
from .samples import ERRORS, QUICK_DTYPES, Task, opinfos, registered, run_task, supported

FORM = 6  # raise it when the recorder learns to reach more


def cache_file() -> Path:
    """Return the path of the cache for this torch version."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "torchnp" / f"opinfo-reach-{torch.__version__}-{FORM}.json"


def reach() -> dict[str, frozenset[str]]:
    """Return the overloads that each entry calls in the quick dtypes, forward, backward and directly."""
    path = cache_file()
    if path.exists():
        found = json.loads(path.read_text())
    else:
        found = probe()
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_text(json.dumps(found))
        part.replace(path)
    return {k: frozenset(v) for k, v in found.items()} | own_reach()


def probe() -> dict[str, list[str]]:
    recorder = Recorder(lambda name: False, lambda case: None)
    found: dict[str, list[str]] = {}
    for source in track(opinfos(), description="finding which samples call which overloads (once)"):
        recorder.calls.clear()
        for dtype in sorted(supported(source) & set(QUICK_DTYPES)) or sorted(supported(source))[:2]:
            run_task(Task(source, dtype), recorder)
        if ERRORS in supported(source):
            run_task(Task(source, ERRORS), recorder)
        found[source] = sorted(n for n in recorder.calls if recorder.calls[n])
    return found


def select(patterns: list[str]) -> frozenset[str]:
    """Return the registered overloads that patterns name; a pattern that names none is an error."""
    names = registered()
    chosen: set[str] = set()
    for pattern in patterns:
        full = pattern if "::" in pattern else f"aten::{pattern}"
        hits = {n for n in names if fnmatchcase(n, full)}
        if not hits:
            raise SystemExit(f"opinfo_tests: no registered overload matches {pattern!r}{close(full)}")
        chosen |= hits
    return frozenset(chosen)


def close(name: str) -> str:
    import difflib

    near = difflib.get_close_matches(name, registered(), 4, 0.6)
    return f"; the closest are {', '.join(near)}" if near else ""


def plan(ops: frozenset[str] | None, dtypes: list[str]) -> list[Task]:
    """Return the tasks that reach any of ``ops`` (all when None), in the given dtypes, in a stable order."""
    reached = reach()
    tasks = []
    for source, calls in reached.items():
        if ops is None or calls & ops:
            allowed = supported(source)
            tasks += [Task(source, d) for d in dtypes if d in allowed]
    return tasks
