"""Calls with a fault in each of two arguments."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import torch

import opinfo_tests
import torchnp
from opinfo_tests.backends.backend import Backend
from opinfo_tests.backends.load import load_backend
from opinfo_tests.backends.torch_backend import TorchDevice
from opinfo_tests.generate.mutations.default_dtypes import by_default
from opinfo_tests.generate.mutations.invalid_calls import broken, lacking
from opinfo_tests.generate.mutations.pairwise_changes import CROSSED, FAULTS, crossed, joined, refused
from opinfo_tests.generate.mutations.promotion_cases import paired
from opinfo_tests.generate.mutations.values_near_arguments import levelled
from opinfo_tests.generate.samples.recording import freeze
from opinfo_tests.run.runner import run_case

X = torch.arange(12.0).reshape(3, 4)
SELECT = freeze("aten::index_select", (X, 0, torch.tensor([0, 2])), {}, "", "float32")


def test_a_fault_is_kept_once_for_each_check():
    once = broken(SELECT)
    faults = {place: refused(calls, TorchDevice("cpu").execute) for place, calls in once.items()}
    assert set(faults) == {0, 1, 2}
    assert all(0 < len(found) <= FAULTS for found in faults.values())
    kinds = {kind for kind, _ in faults[2]}
    assert kinds >= {"IndexError", "RuntimeError"}  # for wrong dimensions, and for wrong dtypes
    assert len({text for _, text in faults[1]}) == len(faults[1])


def test_both_changes_are_in_a_joined_call():
    once = broken(SELECT)
    one = next(case for case in once[0] if case.args[0].dtype == "int64")
    two = next(case for case in once[2] if case.args[2].dtype == "bool")
    both = joined(one, two, 2)
    assert both.args[0].dtype == "int64" and both.args[2].dtype == "bool" and both.args[1] == 0
    for k, case in ((0, one), (2, two)):
        assert (both.args[k].on(both.buffers) == case.args[k].on(case.buffers)).all()


def test_the_order_of_checks_is_seen():
    execute = TorchDevice("cpu").execute
    found = [*crossed(broken(SELECT), Random(0), execute)]
    assert 10 < len(found) <= CROSSED and all(execute(other).error for other in found)
    assert [c.digest for c in found] == [c.digest for c in crossed(broken(SELECT), Random(0), execute)]


def test_elements_stand_at_the_numbers_of_a_call():
    case = freeze("aten::hardshrink", (X,), {}, "", "float32")
    found = {(other.args[0].dtype, other.kwargs["lambd"]): other for other in levelled(case)}
    below = 0.5 * (1 - 2.0**-13)  # float16 rounds this to one half
    values = found["float16", below].args[0].on(found["float16", below].buffers)
    assert np.float16(below) == 0.5 and {0.5, -0.5} <= {float(v) for v in values.flat}
    assert {dtype for dtype, _ in found} == {"float16", "bfloat16", "float32", "float64"}


def test_numbers_given_by_name_are_of_every_kind():
    case = freeze("aten::addcmul", (X, X.clone(), X.clone()), {"value": 2}, "", "float32")
    found = {
        other.kwargs["value"]
        for other in paired(case, TorchDevice("cpu").execute)
        if {a.dtype for a in other.arrays()} == {"complex32"}
    }
    assert {1e5, 0.3} <= found


def test_where_code_is_missing_more_is_wrong():
    case = freeze("aten::add.Tensor", (X, X.clone()), {}, "", "float32")
    execute = TorchDevice("cpu").execute
    said = {execute(other).error[1] for other in lacking(case, Random(0), execute) if execute(other).error}
    assert any("not implemented" in text for text in said) and any("size" in text for text in said)


def test_the_default_dtype_is_changed_where_it_matters():
    execute = TorchDevice("cpu").execute
    sine = freeze("aten::sin", (torch.arange(3),), {}, "", "int64")
    assert {c.default_dtype for c in by_default(sine, execute)} == {"float64", "float16"}
    assert {c.dtype for c in by_default(sine, execute)} == {"int64", "bool"}
    assert not [*by_default(SELECT, execute)]


def test_a_backend_computes_under_the_calls_default_dtype():
    case = replace(freeze("aten::sin", (torch.arange(3),), {}, "", "int64"), default_dtype="float64", digest="")
    table = load_backend("table")
    assert not table.exempt(case) and table.execute(case).results[0].dtype == "float64"
    assert run_case(case, TorchDevice("cpu"), table)[0].outcome == "pass"
    assert torchnp.get_default_dtype() == "float32" and torch.get_default_dtype() == torch.float32
    assert "float64" in case.describe()
    assert run_case(case, TorchDevice("cpu"), Wrong())[0].outcome == "wrong-dtype"


class Wrong(type(load_backend("table"))):
    """The table, always under the usual default dtype."""

    def __init__(self):
        super().__init__(torchnp.table)

    def set_default_dtype(self, name):
        pass


def test_a_backend_without_a_default_dtype_is_not_asked():
    case = replace(freeze("aten::sin", (torch.arange(3),), {}, "", "int64"), default_dtype="float64", digest="")
    assert Backend().exempt(case) and not Backend().exempt(replace(case, default_dtype="float32"))
    assert not TorchDevice("cpu").exempt(case)
    assert opinfo_tests.table({"aten::sin": np.sin}).exempt(case)
