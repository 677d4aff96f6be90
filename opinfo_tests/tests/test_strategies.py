"""Drawn calls: the same for a seed, mostly accepted by torch, varied; failures of wrong kernels shrink to a few
elements."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest
from hypothesis import find, settings
from hypothesis import strategies as st

import opinfo_tests
import torchnp
from opinfo_tests.backends.torch_backend import TorchDevice
from opinfo_tests.case import DTYPES, Case, is_inexact, schemas, widen
from opinfo_tests.generate.constraints.table import constraint_of
from opinfo_tests.generate.drawable import WRITES, drawable, not_drawn
from opinfo_tests.generate.mutations.invalid_calls import OTHER_DTYPES, recast
from opinfo_tests.generate.samples.recording import Recorder
from opinfo_tests.generate.strategies import EMPTIED, call_of, draws, emptied, plan, run_drawn
from opinfo_tests.generate.task import DRAWN
from opinfo_tests.namespaces import is_other
from opinfo_tests.report.repro import find_case
from opinfo_tests.report.shrink import kind_of_failure, shrink
from opinfo_tests.run.runner import Judge, Options, run_case, run_one

ORACLE = TorchDevice("cpu")
OWN = opinfo_tests.table(torchnp.table, "torchnp")
# One or two operators of each family, with the share of drawn calls that torch must accept.
ACCEPTED = {
    "aten::add.Tensor": 0.7, "aten::sin": 0.8, "aten::var.correction": 0.6, "aten::cat": 0.5, "aten::view": 0.6, "aten::gather": 0.6,
    "aten::index.Tensor": 0.5, "aten::mm": 0.6, "aten::linalg_inv_ex": 0.5, "aten::conv2d": 0.5, "aten::max_pool2d_with_indices": 0.5,
    "aten::native_layer_norm": 0.5, "aten::nll_loss_forward": 0.5, "aten::rand": 0.6, "aten::as_strided": 0.5, "aten::where.self": 0.6,
    "aten::slice.Tensor": 0.5, "aten::embedding": 0.5, "aten::_foreach_add.List": 0.5, "aten::bitwise_and.Tensor": 0.6,
}  # fmt: skip


@pytest.mark.parametrize("op", [op for op in ACCEPTED if op in torchnp.table])
def test_torch_accepts_most_draws_and_refuses_some(op):
    cases = draws(op, 60, 1)
    accepted = sum(ORACLE.execute(case).error is None for case in cases)
    assert len({case.digest for case in cases}) > 20
    assert accepted >= ACCEPTED[op] * len(cases)


def test_every_functional_overload_has_a_strategy():
    names = [op for op in drawable(torchnp.table) if not (schemas()[op].mutates or schemas()[op].is_out)]
    assert len(names) > 500
    for op in names:
        found = draws(op, 1)
        assert found and found[0].op == op, op


def test_forms_that_write_are_drawn_from_their_functional_form():
    own = [n for n in torchnp.table if not is_other(n)]  # other tests may have loaded other libraries
    writing = [n for n in own if schemas()[n].mutates or schemas()[n].is_out]
    drawn = drawable(writing)
    assert len(drawn) > 0.8 * len(writing)
    for op in drawn[:: len(drawn) // 60]:
        found = draws(op, 12)
        assert {case.op for case in found} <= {op}
    outs = [case.kwargs["out"] for case in draws("aten::mul.out", 60)]
    # Dtypes of ``out``: the result's, wider ones, and integers.
    assert {out.dtype for out in outs} > {"float32", "float64", "int64"}
    assert any(out.shape == (0,) for out in outs) and any(out.shape[-1:] == (2,) for out in outs)
    assert {case.args[0].shape for case in draws("aten::mul_.Tensor", 60)} > {(1,), ()}


def test_every_derived_row_is_drawn_or_says_why_not():
    derived = [n for n in torchnp.table if torchnp.table[n].status == "derived"]
    missed = {n: not_drawn(n) for n in derived if not_drawn(n)}
    assert len(missed) < 0.07 * len(derived)
    assert WRITES not in missed.values()


def test_targets_lie_in_other_memory():
    strides = {case.args[0].strides for case in draws("aten::sin_", 40) if len(case.args[0].shape) > 1}
    assert any(0 in s for s in strides)  # expanded
    assert any(s[0] and s[0] < s[-1] for s in strides)  # permuted
    assert any(min(s) > 8 for s in strides)  # every few elements of a larger array


def test_draws_are_the_same_for_a_seed_and_move_with_it():
    one, again, other = (draws("aten::add.Tensor", 20, seed) for seed in (3, 3, 4))
    assert [c.id for c in one] == [c.id for c in again]
    assert [c.id for c in one] != [c.id for c in other]


def test_a_call_is_drawn_once_and_more_go_on_where_fewer_end():
    few, many = draws("aten::maximum", 20), draws("aten::maximum", 150)
    assert [c.id for c in many[:20]] == [c.id for c in few]
    assert len({c.digest for c in many}) == 150
    assert len(draws("prims::maximum_value", 150)) == 20  # one call for each dtype: no others exist


@st.composite
def calls(draw, op):
    """Return a call of an overload as a case that hypothesis can shrink."""
    return call_of(op, draw(st.randoms(use_true_random=False)), draw(st.randoms(use_true_random=False)))


def test_hypothesis_draws_and_shrinks_the_same_calls():
    dropped = opinfo_tests.table({"aten::maximum": lambda self, other: np.fmax(self, other)})
    fails = lambda case: run_case(case, ORACLE, dropped)[0].outcome == "wrong-value"
    case = find(calls("aten::maximum"), fails, settings=settings(max_examples=500, database=None), random=Random(0))
    assert max(int(np.prod(a.shape)) for a in case.arrays()) <= 2


def traits(case: Case) -> set[str]:
    found = set()
    for a in case.arrays():
        x = a.on(case.buffers)
        found |= {f"dims {x.ndim}", f"dtype {a.dtype}"}
        found |= {"size 0"} if x.size == 0 else set()
        found |= {"strided"} if x.size and not x.flags.c_contiguous else set()
        found |= {"expanded"} if 0 in x.strides and x.size > 1 else set()
        found |= {"offset"} if a.offset else set()
        found |= {"negative stride"} if any(s < 0 for s in x.strides) else set()
        if is_inexact(DTYPES[a.dtype]) and x.size:
            w = widen(x)
            found |= {"nan"} if np.isnan(w).any() else set()
            found |= {"inf"} if np.isinf(w).any() else set()
            found |= {"-0."} if ((w == 0) & np.signbit(w.real)).any() else set()
        elif x.size and x.dtype.kind in "iu":
            found |= {"largest"} if (x == np.iinfo(x.dtype).max).any() else set()
    if len({a.dtype for a in case.arrays()}) > 1:
        found.add("mixed dtypes")
    if len({a.shape for a in case.arrays()}) > 1:
        found.add("broadcast")
    if len({a.buffer for a in case.arrays()}) < len(case.arrays()):
        found.add("aliased")
    return found


def test_draws_cover_what_breaks_kernels():
    seen = Counter(t for case in draws("aten::mul.Tensor", 500, 0) for t in traits(case))
    wanted = {
        "size 0",
        "strided",
        "expanded",
        "offset",
        "nan",
        "inf",
        "-0.",
        "largest",
        "mixed dtypes",
        "broadcast",
        "aliased",
    }
    assert wanted <= set(seen), wanted - set(seen)
    assert {f"dims {n}" for n in range(5)} <= set(seen)
    assert sum(t.startswith("dtype ") for t in seen) >= 12
    assert "negative stride" not in seen


def test_indices_are_negative_and_repeat():
    values = [case.arrays()[1].on(case.buffers) for case in draws("aten::take", 60, 0)]
    assert any((v < 0).any() for v in values)
    assert any(np.unique(v).size < v.size for v in values)


def test_failures_are_shrunk():
    dropped = opinfo_tests.table({"aten::maximum": lambda self, other: np.fmax(self, other)})

    def kind_of(case: Case) -> tuple[str, str]:
        verdict = run_case(case, ORACLE, dropped)[0]
        return kind_of_failure(verdict.outcome, verdict.message)

    failing = next(c for c in draws("aten::maximum", 300, 2) if kind_of(c)[1].endswith(" nan"))
    case = shrink(failing, kind_of, seconds=20)
    assert max(int(np.prod(a.shape)) for a in case.arrays()) <= 2
    assert any(np.isnan(widen(a.on(case.buffers))).any() for a in case.arrays() if is_inexact(DTYPES[a.dtype]))


def test_drawn_tasks_run_like_any_other():
    ops = frozenset(["aten::add.Tensor", "aten::sum.dim_IntList"])
    rows: list[dict] = []
    judge = Judge(OWN, Options(ops), rows.append)
    for task in plan(ops, 25):
        done = run_one(task, judge)
        assert not done.error
    assert len(rows) > 30 and {r["op"] for r in rows} == ops
    assert {r["sample"].partition("/")[0] for r in rows} == {"drawn", "broken"}
    case = find_case(rows[-1])
    assert case is not None and case.id == rows[-1]["id"]


def test_rows_are_merged_by_pattern_and_family():
    assert constraint_of("aten::mm").args["mat2"].shape == "k m"
    assert constraint_of("aten::gelu").dtypes == "float"
    assert constraint_of("aten::expand_copy").args["size"] is constraint_of("aten::expand").args["size"]


def test_a_call_comes_in_each_other_dtype_and_partly_in_other_memory():
    case = next(
        c for c in draws("aten::mm", 60) if not ORACLE.execute(c).error and all(min(a.shape) > 1 for a in c.arrays())
    )
    others = list(recast(case))
    assert {c.arrays()[0].dtype for c in others} == {*OTHER_DTYPES} - {case.arrays()[0].dtype}
    assert all(len(c.dtypes()) == len(case.dtypes()) for c in others)
    plain = [c.arrays()[0].is_whole(c.buffers[c.arrays()[0].buffer]) for c in others]
    assert plain == [turn % 2 == 0 for turn in range(len(others))]
    assert list(
        recast(next(iter(draws("aten::gru_cell", 1))))
    )  # for these arguments torch checks the dtypes, but not the sizes
    assert not list(recast(next(iter(draws("aten::arange", 1)))))


def test_each_way_of_options_is_drawn_with_many_elements_some_of_them_uneven():
    found: list[Case] = []
    recorder = Recorder(lambda _: True, found.append)
    for _ in run_drawn(DRAWN + "aten::_log_softmax", "60", recorder):
        pass
    many = [case for case in found if case.arrays()[0].shape and np.prod(case.arrays()[0].shape) > 30_000]
    rows = [
        c
        for c in many
        if len(c.arrays()[0].shape) > 1 and c.args[1] % len(c.arrays()[0].shape) == len(c.arrays()[0].shape) - 1
    ]
    spread = [np.ptp(np.nan_to_num(c.arrays()[0].on(c.buffers).max(-1).astype(float))) for c in rows]
    assert {c.arrays()[0].dtype for c in many} >= {"float32", "float64"} and max(spread) > 800


def test_calls_without_elements_are_as_torch_makes_them():
    found = list(emptied("aten::conv2d", 0))
    assert 3 < len(found) <= EMPTIED and len({c.digest for c in found}) == len(found)
    assert all(any(0 in a.shape for a in c.arrays()) for c in found)
    steps = {a.strides[-1] == DTYPES[a.dtype].itemsize for c in found for a in c.arrays() if a.shape and 0 in a.shape}
    assert steps == {True}  # not zero, which NumPy accepts
    assert not list(emptied("aten::_fused_sdp_choice", 0))  # torch divides by the number of heads, and crashes
