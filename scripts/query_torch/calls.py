"""Calls of torch: recorded from the harness's samples, and repeated in a separate process, which torch may crash."""

from __future__ import annotations

import json
import multiprocessing
import warnings
from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import torch

import torchnp
from opinfo_tests.backends.torch_backend import overload_of, thawed
from opinfo_tests.case import Case
from opinfo_tests.generate.samples import recording
from opinfo_tests.generate.samples.extra.make_calls import Make
from opinfo_tests.generate.samples.opinfo import samples_of
from opinfo_tests.generate.samples.opinfo_reach import plan

SCHEMAS = torchnp.table.schemas


def record_cases(
    wanted: Collection[str],
    dtypes: Collection[str],
    each: int,
    *,
    steps: int,
    size: int,
    transfers: int,
    more: str = "",
) -> list[Case]:
    """Return calls of the wanted overloads, with ``out=`` of the right shape and dtype.

    Parameters
    ----------
    each : int
        The number of calls of each overload and dtype.
    steps, size : int
        The number of samples of an entry that are used, and the largest number of bytes of a call.
    transfers : int
        The number of calls of a sibling that are turned into calls of an overload.
    more : str
        Lines ``op  (arguments)`` with calls of siblings that no sample makes.
    """
    taken: Counter[tuple[str, str]] = Counter()
    cases: list[Case] = []

    def take(case: Case) -> None:
        key = case.op, case.sample_dtype
        if sum(b.nbytes for b in case.buffers) < size and taken[key] < each:
            taken[key] += 1
            cases.append(case)

    recording.OUTS, recording.TRANSFERS = ("right",), transfers
    recorder = recording.Recorder(lambda n: n in wanted and taken[n, recorder.sample_dtype] < each, take)
    for task in plan(frozenset(wanted), list(dtypes)):
        recorder.transferred.clear()
        for step, _ in enumerate(samples_of(task, recorder)):
            if step > steps:
                break
    make = Make("float32")
    recorder.source = "more"
    for line in more.strip().splitlines():
        op, call = line.split(None, 1)
        args, kwargs = eval(f"call{call}", {**make.names(), "x": make.x, "p": make.p})
        recorder.transferred.clear()
        recorder.see(f"aten::{op}", args, kwargs)
    return cases


def build(case: Case) -> tuple[list[Any], dict[str, Any]]:
    """Return a call's arguments in new memory."""
    args, kwargs = thawed(case)
    return list(args), kwargs


def error_of(case: Case, args: list[Any], kwargs: dict[str, Any]) -> list[str] | None:
    """Call torch; return the class and first line of its error, or None."""
    torch.default_generator.manual_seed(case.seed)
    try:
        with torch.no_grad():
            overload_of(case.op)(*args, **kwargs)
    except Exception as e:  # any error of torch is an answer
        return [type(e).__name__, (str(e).splitlines() or [""])[0]]
    return None


# ---------------------------------------------------------------- in a separate process


Observe = Callable[[Case], dict[str, Any] | None]


def _work(observe: Observe, cases: list[Case], start: int, path: Path, at: Any) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    with path.open("a") as lines:
        for at.value in range(start, len(cases)):
            seen = observe(cases[at.value])
            if seen:
                lines.write(json.dumps(seen) + "\n")
                lines.flush()
        at.value = len(cases)


def observe_all(observe: Observe, make: Callable[[], list[Case]], path: Path) -> list[dict[str, Any]]:
    """Return the observations in a file; if it does not exist, make them first.

    They are made in a child process. If torch crashes it, the next child process continues after that case.
    """
    cases = [] if path.exists() else make()
    start = 0
    at = multiprocessing.Value("i", 0)
    path.touch()
    while start < len(cases):
        child = multiprocessing.Process(target=_work, args=(observe, cases, start, path, at))
        child.start()
        child.join()
        if at.value < len(cases):
            print(f"torch ended the process: {cases[at.value].describe(80)}")
        start = at.value + 1
    with path.open() as lines:
        return [json.loads(line) for line in lines]
