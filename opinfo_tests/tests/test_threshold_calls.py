"""Calls around thresholds: which quantities kernels compare with them, and on which sides the calls lie."""

import numpy as np
import pytest

import torchnp
from opinfo_tests.backends.backend import Table
from opinfo_tests.backends.load import load_backend
from opinfo_tests.case import Case, whole
from opinfo_tests.generate import large_calls, threshold_calls
from opinfo_tests.generate.samples.recording import Recorder
from opinfo_tests.run.runner import Judge, Options, run_one
from torchnp.core import elementwise_strips
from torchnp.kernels import arithmetic

FEW = arithmetic.__name__, "_FEW"
TABLE = load_backend("table")


def case_of(op, *arrays, rest=()):
    buffers, windows = zip(*(whole(a, i) for i, a in enumerate(arrays)), strict=True)
    return Case(op, (*windows, *rest), {}, list(buffers))


def fmod_of(shape):
    return case_of("aten::fmod.Tensor", np.ones(shape, np.float32), np.full(shape, 2, np.float32))


def test_kernels_note_what_they_compare():
    before = arithmetic._FEW, torchnp.derived.inplace.MANY
    met = threshold_calls.met_by(fmod_of((3, 7)), TABLE)
    assert met[FEW] == {21}
    assert before == (arithmetic._FEW, torchnp.derived.inplace.MANY) and type(arithmetic._FEW) is int
    imported = [
        module.__name__ for module, _, key in threshold_calls.places() if key[1] == "MANY" and "strips" in key[0]
    ]
    assert {"torchnp.core.elementwise_strips", "torchnp.derived.inplace", "torchnp.derived.outs"} <= set(imported)


def test_a_call_that_fails_meets_nothing():
    shapes = case_of("aten::fmod.Tensor", np.ones((3, 7), np.float32), np.ones((3, 5), np.float32))
    assert threshold_calls.met_by(shapes, TABLE) == {}


@pytest.mark.parametrize("shape, sizes", [((5,), (1023, 1024, 1025)), ((4, 3), (1020, 1024, 1028))])
def test_sizes_just_below_at_and_above(shape, sizes):
    found = threshold_calls.reached(FEW, arithmetic._FEW, fmod_of(shape), shape[-1], TABLE)
    assert tuple(c.arrays()[0].size for c in found) == sizes
    assert all(c.arrays()[0].shape == c.arrays()[1].shape for c in found)


@pytest.fixture(scope="module")
def drawn():
    """Return the calls of one operator, by their number of elements."""
    cases, (task,) = [], threshold_calls.threshold_tasks(frozenset(["aten::fmod.Tensor"]))
    for _ in threshold_calls.run_at_thresholds(task, Recorder("aten::fmod.Tensor".__eq__, cases.append), 0):
        pass
    return cases


def test_calls_lie_on_both_sides_of_each_threshold(drawn):
    sizes = {max(a.size for a in case.arrays()) for case in drawn}
    for limit in (arithmetic._FEW, elementwise_strips.MANY, torchnp.threads.LARGE):
        assert any(0.9 * limit < n < limit for n in sizes) and any(limit < n < 1.1 * limit for n in sizes)
    assert {"float32", "bfloat16"} <= {case.dtype for case in drawn}
    assert {True, False} == {large_calls.is_row_major(case) for case in drawn}


def test_a_kernel_that_is_wrong_beyond_its_threshold_is_found():
    def fmod(a, b):
        return torchnp.aten.fmod.Tensor(a, b) + np.float32(a.size > arithmetic._FEW + 1)

    rows, op = [], "aten::fmod.Tensor"
    judge = Judge(Table({op: fmod}), Options(frozenset([op])), rows.append)
    for task in threshold_calls.threshold_tasks(judge.options.ops):
        run_one(task, judge)
    assert {"pass", "wrong-value"} <= {row["outcome"] for row in rows}
