"""Worker processes: if a call crashes or hangs, only that case fails, and the rest of its task continues.

Workers are forked from a fork server that has imported torch but run nothing. A fork of the caller's process would
inherit thread pools whose threads do not exist in the child: its first parallel loop would wait forever.
"""

from __future__ import annotations

import ctypes
import faulthandler
import multiprocessing as mp
import os
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from multiprocessing import forkserver
from multiprocessing.connection import wait
from typing import Any

import numpy as np

from .. import namespaces
from ..backends.backend import Backend
from ..backends.load import packed, unpacked
from ..case import Case
from ..generate.task import Task
from .runner import Judge, LocalSet, Options, Stream, run_one

_FORK = mp.get_context("forkserver")
_FORK.set_forkserver_preload(["opinfo_tests.run.preload"])
_PLACES = 256  # number of slots tried for a digest
_NOTE = 1024  # bytes of shared memory for the id and the text of the case that a worker is running


class SharedSet:
    """Set of the digests that any worker has seen: an open-addressing hash table of 64-bit keys in shared memory.

    Two workers that add the same digest at the same moment may both get True. If the table is full, a digest that finds
    no free slot is reported as new each time. In either case the parent drops the repeated row.
    """

    def __init__(self, slots: int = 1 << 23) -> None:
        self._memory = _FORK.RawArray(ctypes.c_uint64, slots)
        self._mask = slots - 1

    @cached_property
    def _table(self) -> np.ndarray:
        return np.ctypeslib.as_array(self._memory)

    def __getstate__(self) -> dict[str, Any]:
        return {"_memory": self._memory, "_mask": self._mask}

    def add(self, digest: str) -> bool:
        """Add a digest; return whether it is new."""
        key = int(digest, 16) or 1
        for at in range(key, key + _PLACES):
            found = int(self._table[at & self._mask])
            if found == key:
                return False
            if not found:
                self._table[at & self._mask] = key
                return True
        return True


@dataclass
class Worker:
    """One worker process, its current task, its next tasks, and a shared-memory note of the case that it is running."""

    process: Any
    pipe: Any
    note: Any
    since: Any
    task: Task | None = None
    following: deque[Task] = field(default_factory=deque)
    lost: set[str] = field(default_factory=set)


def serve(
    pipe: Any, note: Any, since: Any, backend: str | bytes, options: Options, seen: SharedSet, spaces: tuple[str, ...]
) -> None:
    """Run the tasks that the parent sends, until it sends None; send the rows in batches."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.disable()  # a crash is reported as an outcome

    def before(case: Case) -> None:
        note.value = f"{case.id}\n{case.describe(values=-1)}".encode()[: _NOTE - 1]
        since.value = time.monotonic()

    rows: list[dict[str, Any]] = []

    def emit(row: dict[str, Any]) -> None:
        since.value = 0.0
        rows.append(row)
        if len(rows) >= 100:
            pipe.send(("rows", rows))
            rows.clear()

    namespaces.meet_all(spaces)
    judge = Judge(unpacked(backend), options, emit, before, seen=seen)
    while (message := pipe.recv()) is not None:
        task, lost = message
        judge.options = replace(options, skip=options.skip | lost) if lost else options
        # A task whose worker died runs again from the start with a separate set, because the shared set contains cases
        # that the dead worker did not judge.
        judge.seen = LocalSet() if lost else seen
        try:
            done = run_one(task, judge)
        except Exception as e:
            pipe.send(("fault", "".join(traceback.format_exception(e))))
            return
        pipe.send(("rows", rows))
        rows.clear()
        pipe.send(("done", done))


def run_pool(tasks: list[Task], backend: Backend, options: Options, jobs: int) -> Stream:
    """Run tasks in ``jobs`` processes; yield ``("rows", list)`` and ``("done", Done)`` as they come."""
    seen = SharedSet()
    queue = deque(deque(some) for _, some in groupby(tasks, lambda task: task.beside or task))
    sent = packed(backend)
    workers = [start(sent, options, seen) for _ in range(min(jobs, len(tasks)))]
    given: set[str] = set(options.skip)
    try:
        for w in workers:
            give(w, queue)
        while any(w.task for w in workers):
            wait([w.pipe for w in workers if w.task], timeout=1.0)
            for i, w in enumerate(workers):
                if w.task is None:
                    continue
                lost = None
                try:
                    while w.task is not None and w.pipe.poll():
                        kind, value = w.pipe.recv()
                        if kind == "rows":
                            fresh = [r for r in value if r["id"] not in given]
                            given.update(r["id"] for r in fresh)
                            yield "rows", fresh
                        elif kind == "fault":
                            raise RuntimeError(value)
                        else:
                            yield kind, value
                            w.lost = set()
                            give(w, queue)
                except (EOFError, ConnectionResetError):
                    w.process.join()
                    lost = ("crash", death(w.process.exitcode))
                since = w.since.value  # read once: the worker sets it to 0 between cases
                if w.task is not None and since and time.monotonic() - since > options.timeout:
                    kill(w)
                    lost = ("timeout", f"no result after {options.timeout:.0f} s")
                if lost:
                    row = lost_row(w, *lost)
                    given.add(row["id"])
                    yield "rows", [row]
                    workers[i] = start(sent, options, seen)
                    workers[i].lost, workers[i].following = w.lost | {row["id"]}, w.following
                    if w.since.value:
                        workers[i].task = w.task
                        workers[i].pipe.send((w.task, workers[i].lost))
                    else:
                        give(workers[i], queue)
    finally:
        for w in workers:
            kill(w)


def fork(target: Callable[..., None], *args: Any) -> Any:
    """Start a process that ignores Ctrl-C from the start, like its fork server.

    Ctrl-C interrupts only the parent, which then ends the workers.
    """
    if threading.current_thread() is threading.main_thread():
        heard = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server inherits this
        try:
            forkserver.ensure_running()
        finally:
            signal.signal(signal.SIGINT, heard)
    process = _FORK.Process(target=while_heard, args=(target, *args), daemon=True)
    process.start()
    return process


def while_heard(target: Callable[..., None], *args: Any) -> None:
    """Run a process's function; exit silently if the parent is gone.

    An engine may have processes of its own: they are in the process's group, and end with it.
    """
    os.setpgrp()
    mp.current_process().daemon = False  # a daemon may not have children
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        target(*args)
    for child in mp.active_children():
        child.kill()


def start(backend: str | bytes, options: Options, seen: SharedSet) -> Worker:
    here, there = _FORK.Pipe()
    note, since = _FORK.RawArray(ctypes.c_char, _NOTE), _FORK.RawValue(ctypes.c_double, 0.0)
    process = fork(serve, there, note, since, backend, options, seen, namespaces.met())
    there.close()
    return Worker(process, here, note, since)


def give(w: Worker, queue: deque[deque[Task]]) -> None:
    """Give a worker its next task: the next of its current ``beside`` group, or the first of a new group."""
    if not w.following and queue:
        w.following = queue.popleft()
    w.task = w.following.popleft() if w.following else None
    if w.task is not None:
        w.pipe.send((w.task, set()))


def kill(w: Worker) -> None:
    end(w.process)
    w.process.join()
    w.pipe.close()


def end(process: Any) -> None:
    """Kill a process of `fork` and the processes that it started."""
    if process.pid and process.is_alive():
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:  # it has no group yet
            process.kill()


def death(code: int | None) -> str:
    if code is not None and code < 0:
        return f"the process died of {signal.Signals(-code).name}"
    return f"the process ended with status {code}"


def lost_row(w: Worker, outcome: str, message: str) -> dict[str, Any]:
    """Return the row of the case that a worker was running when it died; between cases, a row for its task."""
    assert w.task is not None, "a worker is lost with a task"
    noted = w.note.value.decode(errors="ignore") if w.since.value else f"{w.task.source}/{w.task.dtype}/recording"
    case_id, _, call = noted.partition("\n")
    op, dtype, _ = (*case_id.split("/"), "", "")[:3]
    return {"op": op, "dtype": dtype, "id": case_id, "outcome": outcome, "message": message, "call": call,
            "sample": w.task.source, "sample_dtype": w.task.dtype, "ms": 0.0}  # fmt: skip
