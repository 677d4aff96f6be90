"""Calls made by rule: each pair of dtypes, special numbers, overflow, nan with each option, equal sizes."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import torch

from opinfo_tests.backends.backend import Table
from opinfo_tests.backends.load import own_table
from opinfo_tests.backends.torch_backend import TorchDevice
from opinfo_tests.generate.mutations.invalid_calls import run_broken
from opinfo_tests.generate.mutations.promotion_cases import USUAL, paired
from opinfo_tests.generate.mutations.telling_values import beside_options, gridded, overflowing, telling
from opinfo_tests.generate.samples.recording import Recorder, freeze
from opinfo_tests.generate.strategies import cubes, run_drawn
from opinfo_tests.mutate import judge_handwritten_faults
from opinfo_tests.mutate.trial import alike
from opinfo_tests.report.report import GOOD
from opinfo_tests.run.runner import run_case

EXECUTE = TorchDevice("cpu").execute
X = torch.arange(6.0).reshape(2, 3)


def task(op, source="broken"):
    found = []
    recorder = Recorder(lambda _: True, found.append)
    run = run_broken if source == "broken" else run_drawn
    for _ in run(f"{source}/{op}", "20", recorder):
        pass
    return found


BINARY = ["aten::add.Tensor", "aten::copysign.Tensor", "aten::lt.Tensor", "aten::mul.Tensor"]


@pytest.mark.parametrize("op", BINARY)
def test_every_pair_of_dtypes_meets_in_each_form(op):
    found = set()
    for case in task(op):
        if len(case.arrays()) == 2:
            one, two = case.arrays()
            found.add((one.dtype, two.dtype, bool(one.shape), bool(two.shape)))
    wanted = {(a, b, *form) for a, b in permutations(USUAL, 2) for form in ((True, True), (True, False), (False, True))}
    assert wanted <= found
    if op not in ("aten::add.Tensor", "aten::mul.Tensor"):  # the others accept no number for a tensor
        return
    numbers = {(case.arrays()[0].dtype, type(case.args[1])) for case in task(op) if len(case.arrays()) == 1}
    assert {(name, kind) for name in USUAL for kind in (bool, int, float, complex)} <= numbers


@pytest.mark.parametrize(
    "op",
    [
        "aten::add_.Tensor",
        "aten::add.out",
        "aten::where.self",
        "aten::cat",
        "aten::stack",
        "aten::addcmul",
        "aten::_foreach_add.List",
        "aten::atan2",
        "aten::pow.Tensor_Tensor",
        "aten::maximum",
    ],
)
def test_every_pair_of_dtypes_meets(op):
    found = {(a, b) for case in task(op) for a, b in permutations({x.dtype for x in case.arrays()} | {""}, 2)}
    assert {*permutations(USUAL, 2)} <= found


def test_what_refuses_all_pairs_is_not_asked_for_each():
    case = freeze("aten::mm", (X, X.t().contiguous()), {}, "drawn/mm", "20")
    assert not [*paired(case, EXECUTE)]


def test_each_special_number_meets_each_other_one():
    case = freeze("aten::copysign.Tensor", (X, X.clone()), {}, "drawn/x", "20")
    one = next(c for c in gridded(case, EXECUTE) if c.dtype == "float32")
    a, b = (x.on(one.buffers) for x in one.arrays())
    assert ((a == 1) & (b == 0) & np.signbit(b)).any() and (np.isnan(a) & np.isinf(b)).any()
    integers = next(
        c for c in gridded(freeze("aten::mul.Tensor", (X, X.clone()), {}, "", "20"), EXECUTE) if c.dtype == "int32"
    )
    a, b = (x.on(integers.buffers).astype(np.int64) for x in integers.arrays())
    assert (abs(a * b) > 2**31).any()


def test_integers_are_never_divided_by_nothing():
    case = freeze("aten::floor_divide", (X, X + 1), {}, "", "20")
    for made in gridded(case, EXECUTE):
        divisor = made.arrays()[1].on(made.buffers)
        assert divisor.dtype.kind not in "iu" or not np.isin(divisor.astype(np.int64), [0, -1]).any()


def test_products_and_sums_overflow():
    case = freeze("aten::mm", (X, X.t().contiguous()), {}, "", "20")
    found = {c.dtype: c for c in overflowing(case, EXECUTE)}
    assert set(found) == {"int8", "int16", "int32", "int64", "uint8"}
    a, b = (x.on(found["int16"].buffers).astype(object) for x in found["int16"].arrays())
    assert (abs(a @ b) > 2**15).any()


def test_nan_stands_beside_each_value_of_an_option():
    case = freeze("aten::linalg_vector_norm", (X, 2), {}, "", "20")
    found = {c.args[1] for c in beside_options(case, EXECUTE) if np.isnan(c.arrays()[0].on(c.buffers)).any()}
    assert {0, 1, 2, float("inf"), float("-inf")} <= found
    reduced = freeze(
        "aten::scatter_reduce.two", (X, 0, torch.zeros(1, 3, dtype=torch.int64), X[:1].clone(), "amax"), {}, "", "20"
    )
    nans = [
        c
        for c in beside_options(reduced, EXECUTE)
        if c.args[4] == "amax" and np.isnan(c.arrays()[-1].on(c.buffers)).any()
    ]
    assert nans


def test_an_option_is_seen_where_it_matters():
    plain, equal = (freeze("aten::isclose", (x, x.clone(), 0.0, 0.0), {}, "", "20") for x in (X, X * float("nan")))
    found = [c for c in telling([plain, equal], EXECUTE) if c.args[4:] == (True,)]
    assert [np.isnan(c.arrays()[0].on(c.buffers)).all() for c in found] == [True]


def test_of_equal_sizes_an_exchange_shows():
    found = [c for c in cubes("aten::tensordot", 0) if len(c.args[2]) == 2 and not EXECUTE(c).error]
    reversed_ = [freeze for freeze in found if not alike(EXECUTE(freeze), EXECUTE(with_dims(freeze)))]
    assert reversed_


def with_dims(case):
    from dataclasses import replace

    return replace(case, args=(*case.args[:3], case.args[3][::-1]), digest="")


def test_a_batch_of_one_is_refused_where_torch_refuses_it():
    assert any(
        len(c.arrays()) == 2 and c.arrays()[1].shape[:1] == (1,) and c.arrays()[0].shape[0] > 1 and EXECUTE(c).error
        for c in task("aten::bmm")
        if len(c.arrays()) == 2 and all(len(a.shape) == 3 for a in c.arrays())
    )


def test_a_conversion_of_negative_numbers_counts():
    case = freeze("aten::_to_copy", (torch.tensor([-1.0, 300.0]),), {"dtype": torch.uint8}, "", "")
    right, wrong = (
        own_table(),
        Table({"aten::_to_copy": lambda self, **_: np.clip(self, 0, 255).astype(np.uint8)}, "wrong"),
    )
    assert run_case(case, TorchDevice("cpu"), right)[0].outcome == "pass"
    assert run_case(case, TorchDevice("cpu"), wrong)[0].outcome == "wrong-value"


FAULTS = list(judge_handwritten_faults.read(judge_handwritten_faults.SHIPPED / "u.json"))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
def test_a_fault_differs_at_its_witness(fault):
    given = eval(fault.witness, {"torch": torch})
    args, kwargs = given if len(given) == 2 and isinstance(given[1], dict) else (given, {})
    case, own = freeze(fault.ops[0], args, kwargs, "witness", ""), own_table()
    wrong = Table(fault.mutant.table(own.table), "wrong", strides=True)
    assert not alike(EXECUTE(case), wrong.execute(case))
    assert run_case(case, TorchDevice("cpu"), own)[0].outcome in GOOD


CHEAP = [
    "U001",
    "U002",
    "U003",
    "U004",
    "U005",
    "U006",
    "U007",
    "U008",
    "U009",
    "U010",
    "U011",
    "U012",
    "U016",
    "U021",
    "U023",
    "U035",
    "U037",
    "U050",
]


@pytest.mark.parametrize("fault", [f for f in FAULTS if f.name in CHEAP], ids=lambda f: f"{f.name}-{f.ops[0][6:]}")
def test_drawn_calls_of_the_quick_tier_catch(fault):
    own, oracle = own_table(), TorchDevice("cpu")
    wrong = Table(fault.mutant.table(own.table), "wrong", strides=True)
    for source in ("drawn", "broken"):
        for case in task(fault.ops[0], source):
            if run_case(case, oracle, wrong)[0].outcome not in GOOD and run_case(case, oracle, own)[0].outcome in GOOD:
                return
    pytest.fail(fault.why)
