"""Variants of a call with other memory layouts, or with one argument changed: which are made, and that faults which
they expose are found."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import chain, permutations, product

import numpy as np
import pytest
import torch

import torchnp
from opinfo_tests.backends.backend import Table
from opinfo_tests.backends.torch_backend import TorchDevice
from opinfo_tests.case import Array
from opinfo_tests.generate.drawable import drawable, may_break, takes_any_shape
from opinfo_tests.generate.mutations.invalid_calls import BASES, broken
from opinfo_tests.generate.mutations.layout_variants import KINDS, enlarged, relaid
from opinfo_tests.generate.mutations.promotion_cases import USUAL, paired
from opinfo_tests.generate.samples.opinfo import samples_of
from opinfo_tests.generate.samples.recording import Recorder, freeze
from opinfo_tests.generate.task import BROKEN, Task
from opinfo_tests.run.runner import run_case

ORACLE = TorchDevice("cpu")
X = torch.arange(1.0, 121.0).reshape(2, 3, 4, 5)


def call(op, *args, **kwargs):
    return freeze(op, args, kwargs, "", "float32")


def laid(kind, x=X, op="aten::add.Tensor"):
    made = relaid(call(op, x, x.clone()), kind)
    return made and made.args[0], made and made.args[0].on(made.buffers)


@pytest.mark.parametrize("kind", ["all last", "all sliced", "all mixed", "all spread", "first swapped", "first last"])
def test_values_stay_and_strides_do_not(kind):
    _, x = laid(kind)
    assert np.array_equal(x, X.numpy()) and not x.flags.c_contiguous


def test_each_kind_is_what_it_says():
    assert laid("all last")[0].strides == (240, 4, 60, 12)  # channels_last
    sliced, _ = laid("all sliced")  # cut out of (.., 4, 5, 6), from the second element
    assert sliced.offset == 4 and sliced.strides == (480, 120, 24, 4)
    assert laid("all spread")[0].strides[1] == 8
    assert 0 in laid("all expanded")[0].strides
    assert 0 in laid("all empty")[0].shape
    assert laid("all single")[0].shape == () and laid("first single")[0].shape == ()


def test_empty_and_0_d_are_for_what_takes_any_shape():
    assert takes_any_shape("aten::add.Tensor") and takes_any_shape("aten::sum.dim_IntList")
    assert takes_any_shape("aten::add_.Tensor")
    assert not takes_any_shape("aten::mv") and not takes_any_shape("aten::conv2d")
    a, b = torch.ones(3, 4), torch.ones(4)
    assert relaid(call("aten::mv", a, b), "all empty") is None
    # Other shapes would not fit the dimension.
    assert relaid(call("aten::sum.dim_IntList", a, [0]), "first single") is None


def test_every_call_is_repeated_and_the_kinds_take_turns():
    found = []
    recorder = Recorder(lambda op: op == "aten::add.Tensor", found.append, relay=True)
    recorder.source = "add"
    for _ in range(3 * len(KINDS)):
        recorder.see("aten::add.Tensor", (X, X.clone()), {})
    made = Counter((case.args[0].shape, case.args[0].strides) for case in found)
    assert len(made) >= 8
    assert sum(n for (_, strides), n in made.items() if strides == (240, 80, 20, 4)) < 2 * len(found) / 3


def test_one_argument_is_changed_at_a_time():
    case = call("aten::sum.dim_IntList", X, [0, 2], True)
    made = list(chain(*broken(case).values()))
    same = [sum(_equal(a, b, case, other) for a, b in zip(case.args, other.args, strict=True)) for other in made]
    changed = [len(case.args) - n + len(other.kwargs) for n, other in zip(same, made, strict=True)]
    assert set(changed) == {1} and len({other.digest for other in made}) == len(made)
    # Variants also give arguments that the call leaves out.
    assert {"dtype"} == {name for other in made for name in other.kwargs}
    arrays = [other.args[0] for other in made]
    assert {a.dtype for a in arrays} > {"float32", "int64", "bool"}
    assert {len(a.shape) for a in arrays} == {0, 1, 3, 4, 5}
    assert [7, 7] in [other.args[1] for other in made]


def _equal(a, b, case, other):
    if not isinstance(a, Array):
        return a == b
    return (a.dtype, a.shape) == (b.dtype, b.shape) and np.array_equal(a.on(case.buffers), b.on(other.buffers))


def changed(op, count="30"):
    found = []
    for _ in samples_of(Task(BROKEN + op, count), Recorder(lambda _: True, found.append)):
        pass
    return found


@pytest.mark.parametrize("op", ["aten::softmax.int", "aten::cat", "aten::addmm", "aten::select.int"])
def test_torch_refuses_many_of_them_and_takes_what_they_are_made_of(op):
    cases = changed(op)
    refused = sum(ORACLE.execute(case).error is not None for case in cases)
    assert BASES < refused < len(cases)


def test_a_refusal_that_is_lost_is_seen():
    """Kernels that do not check their dimensions, or whose errors have NumPy's words."""
    body = torchnp.table["aten::softmax.int"]

    def careless(x, dim, dtype=None):
        return body(x, min(max(dim, -1), 0), dtype)

    backend = Table({"aten::softmax.int": careless}, "careless")
    found = {run_case(case, ORACLE, backend)[0].outcome for case in changed("aten::softmax.int")}
    assert "no-error" in found


@pytest.mark.weekly  # the result depends only on torch
def test_what_torch_does_not_look_at_is_not_changed():
    assert not may_break("aten::_transform_bias_rescale_qkv") and not may_break("aten::_logcumsumexp.out")
    assert sum(map(may_break, drawable(torchnp.table))) > 1300


def test_many_elements_are_the_calls_own_again_and_again():
    case = call("aten::add.Tensor", X, torch.ones(3, 1, 5))
    made = enlarged(case)
    a, b = (w.on(made.buffers) for w in made.args)
    assert a.size > 10_000 and np.unique(a).size == X.numel()
    assert np.broadcast_shapes(a.shape, b.shape) == a.shape
    assert enlarged(call("aten::mv", torch.ones(3, 4), torch.ones(4))) is None


def test_pairs_of_dtypes_and_numbers_of_each_kind_show_what_promotion_forgets():
    two = list(paired(call("aten::mul.Tensor", X, X.clone()), ORACLE.execute))
    met: dict[tuple[int, ...], set[tuple[str, ...]]] = defaultdict(set)
    for c in two:
        met[tuple(len(a.shape) for a in c.arrays())].add(tuple(a.dtype for a in c.arrays()))
    for dims in ((1, 1), (1, 0), (0, 1)):  # each pair of dtypes in both orders
        assert met[dims] >= {*permutations(USUAL, 2)}
    assert len({c.digest for c in two}) == len(two)
    one = list(paired(call("aten::mul.Scalar", X, 2), ORACLE.execute))
    asked = {(c.arrays()[0].dtype, type(c.args[1])) for c in one}
    assert asked >= {*product(USUAL, (bool, int, float, complex))}
    assert not list(paired(call("aten::mv", torch.ones(3, 4), torch.ones(4)), ORACLE.execute))  # mv does not promote

    def careless(self, other):
        kinds = [getattr(x, "dtype", None) for x in (self, other)]  # a Python number has no dtype
        if kinds == [np.float16, np.complex64] and not other.ndim:
            return (self * other).astype(np.complex64)  # a half type beside a 0-d complex number gives complex32
        return torchnp.table["aten::mul.Tensor"](self, other)

    backend = Table({"aten::mul.Tensor": careless}, "careless")
    found = Counter(run_case(case, ORACLE, backend)[0].outcome for case in two)
    assert found.pop("wrong-dtype") >= 1 and set(found) <= {"pass", "unspecified"}
