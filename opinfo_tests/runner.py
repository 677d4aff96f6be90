"""Runs cases: draws them, asks the oracle and the backend, judges, and hands over rows."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from torchnp import schema as schemas

from .backend import Backend
from .case import Array, Case, leaves
from .compare import Verdict, judge
from .record import Recorder
from .samples import Task, run_task
from .torch_backend import TorchDevice


@dataclass
class Options:
    """What to run: ``ops`` None means all that the backend claims."""

    ops: frozenset[str] | None = None
    dtypes: tuple[str, ...] = ()
    limit: int = 0
    seed: int = 0
    backward: bool = True
    order: int = 1
    timeout: float = 60.0
    share: int = 1
    skip: set[str] = field(default_factory=set)


@cache
def all_schemas() -> dict[str, Any]:
    return schemas.load()


def written_arrays(case: Case) -> frozenset[int]:
    """Return which of the case's array arguments, in order, the schema says are written."""
    found: set[int] = set()
    index = 0
    args = all_schemas()[case.op].args
    values = [*zip(args, case.args, strict=False)]
    by_name = {a.name: a for a in args}
    values += [(by_name[k], v) for k, v in case.kwargs.items() if k in by_name]
    for argument, value in values:
        for leaf in leaves(value):
            if isinstance(leaf, Array):
                if argument.is_write:
                    found.add(index)
                index += 1
    return frozenset(found)


def row_of(case: Case, verdict: Verdict, seconds: float) -> dict[str, Any]:
    row = {
        "op": case.op, "dtype": case.dtype, "id": case.id, "outcome": verdict.outcome,
        "sample_dtype": case.sample_dtype, "ms": round(seconds * 1e3, 3),
    }  # fmt: skip
    if verdict.max_abs:
        row |= {"max_abs": verdict.max_abs, "max_ulp": verdict.max_ulp}
    if not verdict.same_strides:
        row["same_strides"] = False
    if verdict.outcome != "pass":
        row |= {"message": verdict.message, "call": case.describe()}
    return row


def run_case(case: Case, oracle: Backend, backend: Backend) -> tuple[Verdict, float]:
    """Judge one case."""
    mine = backend.execute(case)
    verdict = judge(case, oracle.execute(case), mine, written_arrays(case))
    return verdict, mine.seconds


class Judge:
    """Takes cases from the recorder, once each, and makes rows of them."""

    def __init__(
        self,
        backend: Backend,
        options: Options,
        emit: Callable[[dict[str, Any]], None],
        before: Callable[[str], None] = lambda case_id: None,
        oracle: Backend | None = None,
    ) -> None:
        self.backend, self.options, self.emit, self.before = backend, options, emit, before
        self.oracle = oracle or TorchDevice("cpu")
        self.seen: set[str] = set()
        self.taken: Counter[tuple[str, str]] = Counter()

    def wanted(self, op: str) -> bool:
        if self.options.ops is not None and op not in self.options.ops:
            return False
        return op in self.backend.ops

    def take(self, case: Case) -> None:
        """Judge a case unless it was seen, is over the limit or belongs to another share."""
        if case.digest in self.seen:
            return
        self.seen.add(case.digest)
        o = self.options
        if o.share > 1 and shard(case.digest, o.seed) % o.share:
            return
        if o.limit and self.taken[case.op, case.dtype] >= o.limit:
            return
        self.taken[case.op, case.dtype] += 1
        if case.id in o.skip:
            return
        self.before(case.id)
        verdict, seconds = run_case(case, self.oracle, self.backend)
        self.emit(row_of(case, verdict, seconds))


def shard(digest: str, seed: int) -> int:
    return int.from_bytes(hashlib.blake2b(f"{digest}{seed}".encode(), digest_size=4).digest(), "little")


def run_here(tasks: Iterable[Task], backend: Backend, options: Options) -> Iterator[tuple[Task, list[dict], Counter]]:
    """Run tasks in this process; yield each with its rows and the calls that were counted."""
    rows: list[dict[str, Any]] = []
    judge_ = Judge(backend, options, rows.append)
    for task in tasks:
        recorder = Recorder(judge_.wanted, judge_.take)
        run_task(task, recorder, seed=options.seed, backward=options.backward, order=options.order)
        yield task, rows.copy(), recorder.calls
        rows.clear()
