"""Tests of the harness: every mutant must be caught with the right outcome, and the unchanged kernel must pass."""

from __future__ import annotations

from functools import cache

import pytest

import torchnp
from opinfo_tests.backends.backend import Table
from opinfo_tests.backends.torch_backend import TorchDevice
from opinfo_tests.case import Case
from opinfo_tests.generate.samples.opinfo import ERRORS, samples_of
from opinfo_tests.generate.samples.opinfo_reach import select
from opinfo_tests.generate.samples.recording import Recorder
from opinfo_tests.generate.task import Task
from opinfo_tests.report.report import GOOD
from opinfo_tests.run.runner import Options, run_case
from opinfo_tests.run.workers import SharedSet, run_pool
from opinfo_tests.tests.mutants import MUTATIONS, Mutated

# overload, OpInfo entry, dtype of the samples (or errors), mutations
MUTANTS = [
    ("add.Tensor", "add", "float32", "result-dtype extra-dimension one-ulp off-by-one half-precision alpha-ignored "
     "input-written input-clobbered refuses absent-by-exception one-tuple no-result"),
    ("arange.start_step", "arange", ERRORS, "accepts error-class"),
    ("cat", "cat", ERRORS, "refuses-otherwise error-class error-words accepts"),
    ("add_.Tensor", "add", "float32", "not-written"),
    ("sub.Tensor", "sub", "int64", "arguments-swapped off-by-one result-dtype"),
    ("mul.Tensor", "mul", "bool", "result-dtype one-ulp"),
    ("mul.out", "mul", "float32", "out-not-written out-not-resized overlaps-taken view-copied result-dtype"),
    ("narrow_copy.out", "narrow_copy", "int64", "out-not-written"),
    ("sum", "sum", "float32", "scalar-result result-dtype"),
    ("sin", "sin", "float64", "half-precision"),
    ("relu", "nn.functional.relu", "float32", "input-written input-clobbered one-ulp"),
    ("view", "view", "float32", "view-copied extra-dimension"),
    ("transpose.int", "transpose", "float32", "view-copied"),
    ("select.int", "select", "float32", "view-copied"),
    ("clone", "clone", "float32", "input-returned one-ulp"),
    ("sum.dim_IntList", "sum", "float32", "keepdim-ignored half-precision result-dtype"),
    ("mean.dim", "mean", "float32", "keepdim-ignored half-precision"),
    ("amax", "amax", "float32", "one-ulp off-by-one"),
    ("rand_like", "rand_like", "float32", "draws-more off-by-one result-dtype"),
    ("mm", "mm", "float32", "half-precision result-dtype off-by-one"),
    ("bmm", "bmm", "float32", "half-precision input-written"),
    ("_softmax", "softmax", "float32", "half-precision off-by-one"),
    ("cat", "cat", "float32", "one-ulp result-dtype"),
    ("flip", "flip", "float32", "off-by-one one-ulp"),
    ("where.self", "where", "float32", "one-ulp result-dtype"),
    ("gather", "gather", "float32", "one-ulp off-by-one"),
    ("index_select", "index_select", "float32", "one-ulp"),
    ("cumsum", "cumsum", "float32", "half-precision result-dtype"),
    ("sort.stable", "sort", "int64", "one-ulp result-dtype"),
    ("topk", "topk", "float32", "one-ulp off-by-one"),
    ("embedding", "nn.functional.embedding", "float32", "one-ulp off-by-one"),
    ("avg_pool2d", "nn.functional.avg_pool2d", "float32", "half-precision extra-dimension"),
    ("convolution", "nn.functional.conv2d", "float32", "half-precision result-dtype"),
    ("native_layer_norm", "nn.functional.layer_norm", "float32", "half-precision result-dtype"),
    ("threshold_backward", "nn.functional.relu", "float32", "one-ulp result-dtype"),
    ("sign", "sign", "float32", "one-ulp"),
    ("sin", "sin", "float64", "single-precision"),
    ("sum", "sum", "float64", "single-precision"),
    ("mm", "mm", "float64", "single-precision"),
    ("_softmax", "softmax", "float64", "single-precision"),
    ("native_layer_norm", "nn.functional.layer_norm", "float64", "single-precision"),
    ("convolution", "nn.functional.conv2d", "complex128", "single-precision"),
    ("_linalg_svd", "linalg.svd", "float64", "single-precision"),
    ("linalg_inv_ex", "linalg.inv", "float64", "single-precision"),
    ("special_bessel_j0", "special.bessel_j0", "float64", "single-precision"),
    ("igamma", "igamma", "float64", "single-precision"),
    ("sub.Tensor", "sub", "float32", "made-row-major made-column-major"),
    ("cumsum", "cumsum", "float32", "made-column-major"),
    ("sort", "sort", "float32", "made-row-major"),
    ("neg", "neg", "float32", "zero-sign-lost input-written"),
    ("maximum", "maximum", "float32", "nan-dropped one-ulp"),
    ("_foreach_mul.List", "_foreach_mul", "float32", "one-ulp result-dtype"),
    ("_foreach_add_.List", "_foreach_add", "float32", "lists-not-written"),
    ("uniform_", "uniform", "float32", "not-written draws-more"),
]  # fmt: skip
LAID = frozenset(name for name, (_, outcome) in MUTATIONS.items() if outcome == "wrong-strides")
ROWS = [(f"aten::{op}", source, dtype, m) for op, source, dtype, names in MUTANTS for m in names.split()]


@cache
def cases(op: str, source: str, dtype: str, limit: int = 150) -> list[Case]:
    """Return the first cases of an overload from an entry's samples."""
    found: list[Case] = []
    recorder = Recorder(lambda name: name == op, found.append, relay=True)
    for _ in samples_of(Task(source, dtype), recorder):
        if len(found) >= limit:
            break
    return found


def outcomes(table, op: str, source: str, dtype: str, strides: bool) -> set[str]:
    backend, oracle = Table(table, strides=strides), TorchDevice("cpu")
    return {run_case(case, oracle, backend)[0].outcome for case in cases(op, source, dtype)}


@pytest.mark.parametrize(("op", "source", "dtype"), sorted({row[:3] for row in ROWS}))
def test_control(op, source, dtype):
    """The unchanged kernel passes the cases that its mutants are judged by."""
    assert cases(op, source, dtype), "no case"
    strides = any(row[:3] == (op, source, dtype) and row[3] in LAID for row in ROWS)
    assert outcomes(torchnp.table, op, source, dtype, strides) <= set(GOOD)


@pytest.mark.parametrize(("op", "source", "dtype", "mutation"), ROWS)
def test_mutant(op, source, dtype, mutation):
    """A wrong kernel is caught, with the outcome that names its fault."""
    found = outcomes(Mutated(torchnp.table, op, mutation), op, source, dtype, mutation in LAID)
    assert MUTATIONS[mutation][1] in found


@pytest.mark.parametrize("mutation", ["dies", "hangs"])
def test_crash_and_hang(mutation):
    """A crash or hang is the outcome of one case; the other overloads of the same task are still judged."""
    backend = Table(Mutated(torchnp.table, "aten::sin", mutation))
    ops = frozenset({"aten::sin", "aten::sin_"})
    options = Options(ops=ops, limit=1, timeout=1.0)
    rows = [
        row
        for kind, found in run_pool([Task("sin", "float32")], backend, options, 1)
        if kind == "rows"
        for row in found
    ]
    lost = [row for row in rows if row["op"] == "aten::sin"]
    assert lost and {row["outcome"] for row in lost} == {MUTATIONS[mutation][1]}
    assert all(row["call"].startswith("aten::sin(float32[") for row in lost)
    assert {row["outcome"] for row in rows if row["op"] == "aten::sin_"} == {"pass"}


def test_misspelt_pattern_is_an_error():
    with pytest.raises(SystemExit, match="matches 'aten::vra'"):
        select(["aten::vra"])


def test_case_is_the_same_each_time():
    """Two recordings give the same ids, even if other operators are judged in between."""
    first = [c.id for c in cases("aten::add.Tensor", "add", "float32")]
    outcomes(torchnp.table, "aten::add.Tensor", "add", "float32", True)
    cases.cache_clear()
    assert first == [c.id for c in cases("aten::add.Tensor", "add", "float32")]


def test_a_clobbered_input_is_never_called_a_wrong_value():
    """Wrong writes are reported before the wrong values that they cause."""
    found = outcomes(
        Mutated(torchnp.table, "aten::relu", "input-clobbered"), "aten::relu", "nn.functional.relu", "float32", True
    )
    assert "wrong-alias" in found and "wrong-value" not in found


def test_a_resized_out_that_is_not_returned_is_caught():
    """If torch resizes an ``out``, its memory is compared, although its strides are not."""
    backend, oracle = Table(Mutated(torchnp.table, "aten::mul.out", "view-copied")), TorchDevice("cpu")
    resized = 0
    for case in cases("aten::mul.out", "mul", "float32"):
        want = oracle.execute(case)
        if not want.error and want.after[-1].shape != case.arrays()[-1].shape and want.results[0].size:
            resized += 1
            assert run_case(case, oracle, backend)[0].outcome == "wrong-alias"
    assert resized


def test_a_full_set_of_digests_goes_on():
    seen = SharedSet(slots=8)
    digests = [f"{n:016x}" for n in range(1, 21)]
    assert [seen.add(d) for d in digests] == [True] * 20
    assert [seen.add(d) for d in digests[:8]] == [False] * 8
