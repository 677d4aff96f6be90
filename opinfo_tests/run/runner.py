"""The runner: gets cases, runs them on torch and on the backend, compares the results, and emits report rows."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from typing import Any

from ..backends.backend import Backend, Seen
from ..backends.torch_backend import TorchDevice
from ..case import ORDER, Case
from ..generate.large_calls import run_large
from ..generate.samples.opinfo import samples_of
from ..generate.samples.recording import Recorder
from ..generate.task import LARGE, THRESHOLDS, Task
from ..generate.threshold_calls import run_at_thresholds
from ..judge.unspecified import excused_by_reference, recheck_unspecified
from ..judge.verdict import Verdict, judge
from ..report.report import GOOD, REFUSED
from ..report.resource_usage import own
from ..report.undertested import values_of
from ..schema_facts import written_arrays
from .explain_failures import Explainer
from .oracle_cache import OracleCache
from .skipped import of_other_dtypes
from .time_and_memory import measured


@dataclass
class Options:
    """Options of a run; if ``ops`` is None, all overloads that the backend claims are judged."""

    ops: frozenset[str] | None = None
    dtypes: tuple[str, ...] = ()
    limit: int = 0
    seed: int = 0
    backward: bool = True
    order: int = ORDER
    timeout: float = 300.0  # on a busy machine the largest sampled volumes take more than 60 s
    store: OracleCache | None = None  # the quick tier's cache; calls that it lacks are generated and added
    choice: int = 0
    count_only: bool = False
    cases: bool = False  # add its case to each failing row, for the shrinker
    skip: set[str] = field(default_factory=set)
    errors: bool = True  # also judge calls for which torch raises an error
    measure: bool = False  # add time and peak memory, of the backend and of torch


def row_of(case: Case, verdict: Verdict, seconds: float) -> dict[str, Any]:
    row = {
        "op": case.op, "dtype": case.dtype, "id": case.id, "outcome": verdict.outcome,
        "sample": case.source, "sample_dtype": case.sample_dtype, "ms": round(seconds * 1e3, 3),
    }  # fmt: skip
    if verdict.max_abs:
        row |= {"max_abs": verdict.max_abs, "max_ulp": verdict.max_ulp}
    if verdict.refused:
        row["torch_raises"] = verdict.refused
    if verdict.reason:
        row["reason"] = verdict.reason
    if verdict.outcome != "pass":
        row |= {"message": verdict.message, "call": case.describe(400)}
    return row


def run_case(case: Case, oracle: Backend, backend: Backend, want: Seen | None = None) -> tuple[Verdict, float]:
    """Judge one case; ``want`` is torch's result if it is already known."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mine = backend.execute(case)
        want = want or oracle.execute(case)
        writes = written_arrays(case)
        verdict = recheck_unspecified(case, oracle, want, mine, judge(case, want, mine, writes), writes)
        if verdict.outcome not in (*GOOD, REFUSED) and (other := backend.reference(case)) is not None:
            verdict = excused_by_reference(verdict, judge(case, other, mine, writes))
        if verdict.outcome == "wrong-value" and backend.tolerates(case, want, mine):
            verdict = Verdict("pass")
        verdict.refused = want.error[0] if want.error else ""
    return verdict, mine.seconds


# A run yields ("rows", list of rows) as rows become available, and ("done", Done) at the end of each task.
Stream = Generator[tuple[str, Any], None, None]


@dataclass
class Done:
    """A task's results besides its rows."""

    task: Task
    samples: int
    calls: Counter[str]
    left_out: Counter[str]
    error: str = ""
    met: dict[str, dict[str, set[str]]] = field(default_factory=dict)  # overload -> option -> values that calls used
    usage: tuple[int, float, int] = (0, 0.0, 0)


class LocalSet:
    """Set of the digests seen so far, for a run in one process."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def add(self, digest: str) -> bool:
        """Add a digest; return whether it is new."""
        before = len(self._seen)
        self._seen.add(digest)
        return len(self._seen) > before


class Judge:
    """Takes cases from the recorder, judges each distinct case once, and emits its row.

    Cases are queued and judged between samples. Judging uses the random generator that samples also use, and the
    recorded samples must not depend on which cases are judged.
    """

    def __init__(
        self,
        backend: Backend,
        options: Options,
        emit: Callable[[dict[str, Any]], None],
        before: Callable[[Case], None] = lambda case: None,
        oracle: Backend | None = None,
        seen: Any = None,
    ) -> None:
        self.backend, self.options, self.emit, self.before = backend, options, emit, before
        self.oracle = oracle or TorchDevice("cpu")
        self.explain = Explainer(self.oracle, backend, cases=options.cases)
        self.seen = LocalSet() if seen is None else seen
        self.taken: Counter[tuple[str, str]] = Counter()
        self.unclaimed: Counter[str] = Counter()
        self.met: dict[str, dict[str, set[str]]] = {}
        self.waiting: list[tuple[Case, Seen | None]] = []

    def wanted(self, op: str) -> bool:
        if self.options.ops is not None and op not in self.options.ops:
            return False
        return op in self.backend.ops

    def take(self, case: Case, want: Seen | None = None) -> None:
        """Queue a case, with torch's result if known.

        A case is dropped if the backend does not claim it, an option excludes it, it was seen before, or the limit is
        reached.
        """
        o = self.options
        if self.backend.dtypes is not None and (others := case.dtypes() - self.backend.dtypes):
            self.unclaimed[f"dtype {min(others)} is not claimed"] += 1
            return
        if why := self.backend.exempt(case):
            self.unclaimed[why] += 1
            return
        if (fitted := self.backend.fitted(case)) is not case:
            case, want = fitted, None
        if not self.seen.add(case.digest):
            return
        key = case.op, case.dtype
        # This case was judged before, in the run that is resumed or by a process that died: count it toward the same
        # limit.
        if case.id in o.skip:
            self.taken[key] += 1
            return
        if of_other_dtypes(case, o.dtypes):
            self.unclaimed["--dtypes"] += 1
            return
        if o.limit and self.taken[key] >= o.limit:
            self.unclaimed["--max"] += 1
            return
        self.taken[key] += 1
        self.waiting.append((case, want))

    def drain(self) -> None:
        """Judge the queued cases."""
        cases, self.waiting, o = self.waiting, [], self.options
        for case, want in cases:
            if o.count_only:
                self.emit(row_of(case, Verdict("pass"), 0.0))
                continue
            if not o.errors:
                want = want or self.oracle.execute(case)
                if want.error:
                    self.unclaimed["--no-errors"] += 1
                    continue
            known = want
            if why := self.backend.out_of_range(case, lambda: known or self.oracle.execute(case)):
                self.unclaimed[why] += 1
                continue
            self.before(case)
            try:
                verdict, seconds = run_case(case, self.oracle, self.backend, want)
            except Exception as e:
                raise RuntimeError(f"the harness failed on {case.id}: {case.describe()}") from e
            if not verdict.refused:  # for a call that torch rejects, option values do not count as tested
                for name, value in values_of(case):
                    self.met.setdefault(case.op, {}).setdefault(name, set()).add(value)
            row = row_of(case, verdict, seconds)
            if o.measure and row["outcome"] in GOOD and not verdict.refused:
                row |= {"call": case.describe(300, 1), **measured(case, self.oracle, self.backend)}
            self.emit(row | self.explain(case, row) if "message" in row else row)


def run_one(task: Task, judge_: Judge) -> Done:
    """Run one task: judge all its cases."""
    o = judge_.options
    if o.store is not None and task.is_kept:
        return run_held(task, judge_, o.store)
    recorder = Recorder(judge_.wanted, judge_.take, relay=not task.is_drawn)
    count, error = 0, ""
    if task.source.startswith(LARGE):
        steps = run_large(task, recorder, o.seed)
    elif task.source.startswith(THRESHOLDS):
        steps = run_at_thresholds(task, recorder, o.seed)
    else:
        steps = samples_of(task, recorder, seed=o.seed, backward=o.backward, order=o.order)
    while True:
        try:
            next(steps)
        except StopIteration:
            break
        except Exception as e:
            error = f"{type(e).__name__}: {e}"
            break
        count += 1
        judge_.drain()
    judge_.drain()
    return done(task, judge_, count, recorder.calls, recorder.left_out, error)


def done(task: Task, judge_: Judge, count: int, calls: Counter[str], left_out: Counter[str], error: str) -> Done:
    unclaimed, judge_.unclaimed = judge_.unclaimed, Counter()
    met, judge_.met = judge_.met, {}
    return Done(task, count, calls, left_out + unclaimed, error, met, own())


def run_held(task: Task, judge_: Judge, store: OracleCache) -> Done:
    """Judge one task's calls from the cache."""
    error = ""
    try:
        for case, want in store.held(task, judge_.wanted, judge_.oracle):
            judge_.take(case, want)
    except Exception as e:
        error = f"{type(e).__name__}: {e}"
    calls = Counter(case.op for case, _ in judge_.waiting)
    judge_.drain()
    return done(task, judge_, calls.total(), calls, Counter(), error)


def run_here(tasks: Iterable[Task], backend: Backend, options: Options, **more: Any) -> Stream:
    """Run tasks in this process; yield ``("rows", list)`` and ``("done", Done)``."""
    rows: list[dict[str, Any]] = []
    judge_ = Judge(backend, options, rows.append, **more)
    for task in tasks:
        over = run_one(task, judge_)
        yield "rows", rows.copy()
        rows.clear()
        yield "done", over
