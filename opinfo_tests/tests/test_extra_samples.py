"""torch accepts each row of `samples.extra` in some dtype, and every overload of the table is reached or excused."""

from __future__ import annotations

from functools import cache

import pytest

import torchnp
from opinfo_tests.backends.torch_backend import TorchDevice
from opinfo_tests.generate.samples.extra import make_calls as extra
from opinfo_tests.generate.samples.extra.internal_operators import NO_CPU_FAMILIES
from opinfo_tests.generate.samples.extra.unreached import UNREACHED
from opinfo_tests.generate.samples.opinfo import registered, run_task
from opinfo_tests.generate.samples.opinfo_reach import reach
from opinfo_tests.generate.samples.recording import Recorder
from opinfo_tests.generate.task import Task


@cache
def recorded() -> tuple[dict[str, bool], Recorder]:
    """Return for each overload whether torch accepts one of the calls that the rows make."""
    oracle, taken = TorchDevice("cpu"), {}

    def sink(case):
        if not taken.get(case.op):
            taken[case.op] = oracle.execute(case).error is None

    recorder = Recorder(lambda op: True, sink)
    for dtype in ("float32", "int64", "bool", "complex64"):
        run_task(Task("own", dtype), recorder)
    return taken, recorder


@pytest.mark.weekly  # the result depends only on torch
def test_torch_takes_every_row():
    taken, recorder = recorded()
    mine = {op for _, op, _ in extra.rows()}
    assert mine <= registered()
    # If other sources also call the operator, a row may consist of calls that torch refuses.
    elsewhere = frozenset().union(*(ops for source, ops in reach().items() if source != extra.SOURCE))
    assert {op for op in mine - elsewhere if not taken.get(op)} == set(), dict(recorder.left_out)


def test_every_overload_is_reached_or_has_a_reason():
    reached = frozenset().union(*reach().values())
    missed = {op for op in torchnp.table if op in registered() and op not in reached}
    missed -= {op for op in missed if torchnp.table[op].family in NO_CPU_FAMILIES}
    assert missed == {op for op in UNREACHED if op in torchnp.table}  # later versions of torch have more overloads
