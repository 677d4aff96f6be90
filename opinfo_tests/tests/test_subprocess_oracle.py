"""Calls of operators that do not validate their arguments.

Calls that crash torch, or whose results vary, are not judged.
"""

import os
import signal
import time

import pytest

from opinfo_tests.backends.backend import Seen
from opinfo_tests.backends.torch_backend import TorchDevice
from opinfo_tests.generate.mutations import subprocess_oracle
from opinfo_tests.generate.samples.recording import Recorder
from opinfo_tests.generate.strategies import draws, plan
from opinfo_tests.generate.task import BROKEN


@pytest.fixture
def answering(monkeypatch):
    """Make the forked process answer calls according to a table of their digests."""
    ways = {}

    def execute(self, case):
        return ways.get(case.digest, lambda: Seen(results=[1]))()

    monkeypatch.setattr(TorchDevice, "execute", execute)
    return ways


def test_what_is_steady_comes_with_its_answer(answering):
    good, dying, varying, last = draws("aten::neg", 4)
    answering[dying.digest] = lambda: os.kill(os.getpid(), signal.SIGSEGV)
    answering[varying.digest] = lambda: Seen(results=[time.monotonic_ns()])
    found = list(subprocess_oracle.steady([good, dying, varying, last]))
    assert [c.digest for c in found] == [good.digest, last.digest]
    assert all(c.known.results == [1] for c in found)


def test_a_call_that_never_ends_is_killed(answering, monkeypatch):
    monkeypatch.setattr(subprocess_oracle, "SECONDS", 0.2)
    [endless] = draws("aten::neg", 1)
    answering[endless.digest] = lambda: time.sleep(60)
    assert list(subprocess_oracle.steady([endless])) == []


def test_after_some_that_are_killed_no_others_are_asked(answering):
    calls = draws("aten::neg", subprocess_oracle.ENDLESS + 2)
    for case in calls[1:-1]:
        answering[case.digest] = lambda: os.kill(os.getpid(), signal.SIGKILL)  # as a call that takes too long
    assert [c.digest for c in subprocess_oracle.steady(calls)] == [calls[0].digest]


def test_an_error_in_the_forked_process_stays_there(answering):
    good, bad, last = draws("aten::neg", 3)
    answering[bad.digest] = lambda: 1 / 0
    assert [c.digest for c in subprocess_oracle.steady([good, bad, last])] == [good.digest, last.digest]


def test_changed_calls_of_a_trusting_operator_are_planned_and_not_asked_again():
    op = "aten::_validate_sparse_coo_tensor_args"
    assert [t.source for t in plan([op], 1)] == [BROKEN + op]
    found = []
    for _ in subprocess_oracle.run_asked(BROKEN + op, "1", Recorder(op.__eq__, found.append)):
        pass
    assert len(found) > 100 and all(c.known is not None for c in found)
    assert len({c.known.error for c in found}) > 5
    assert TorchDevice("cpu").execute(found[0]) is found[0].known
