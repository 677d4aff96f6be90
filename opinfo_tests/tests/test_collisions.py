"""Several values are written to one place: the result is unspecified if it is one of them, and wrong otherwise."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import opinfo_tests
import torchnp
from opinfo_tests.backends.torch_backend import TorchDevice
from opinfo_tests.generate.samples.recording import freeze
from opinfo_tests.run.runner import run_case

INDEX = torch.tensor([1, -3, 0, 1])  # place 1 is written three times, with indices from both ends


def cases():
    x, rows = torch.zeros(4), torch.tensor([10.0, 20.0, 30.0, 40.0])
    wide, many = torch.zeros(3, 4), torch.arange(12.0).reshape(3, 4)
    yield "aten::scatter.src", (x, 0, INDEX % 4, rows), {}
    yield "aten::scatter.src", (wide, 1, (INDEX % 4).expand(3, 4), many), {}
    yield "aten::scatter_.src", (x, 0, INDEX % 4, rows), {}
    yield "aten::index_copy", (wide, 1, INDEX % 4, many), {}
    yield "aten::index_copy.out", (wide, 1, INDEX % 4, many), {"out": torch.zeros(3, 4)}
    yield "aten::put", (x, INDEX, rows), {}
    yield "aten::index_put", (x, [INDEX], rows), {}
    yield "aten::index_put", (wide, [None, INDEX], many), {}
    yield "aten::_unsafe_index_put", (wide, [None, INDEX], many), {}


ADDED = [
    ("aten::scatter_add", (torch.zeros(4), 0, INDEX % 4, torch.ones(4)), {}),
    ("aten::scatter_reduce.two", (torch.zeros(4), 0, INDEX % 4, torch.ones(4), "amax"), {}),
    ("aten::scatter.reduce", (torch.zeros(4), 0, INDEX % 4, torch.ones(4)), {"reduce": "add"}),
    ("aten::scatter.value", (torch.zeros(4), 0, INDEX % 4, 3.0), {}),
    ("aten::put", (torch.zeros(4), INDEX, torch.ones(4), True), {}),
    ("aten::index_put", (torch.zeros(4), [INDEX], torch.ones(4), True), {}),
]


def outcome(op, args, kwargs, change):
    def row(*a, **k):
        out = torchnp.table[op](*a, **k)
        change(out)
        return out

    return run_case(freeze(op, args, kwargs, "", "float32"), TorchDevice("cpu"), opinfo_tests.table({op: row}))[
        0
    ].outcome


def write(at, value):
    def change(out):
        out[..., at] = value

    return change


@pytest.mark.parametrize(("op", "args", "kwargs"), list(cases()))
def test_one_of_the_values_that_meet(op, args, kwargs):
    last = args[-1]
    first = last.numpy()[..., 0]  # the value that is written to place 1 first
    assert outcome(op, args, kwargs, lambda out: None) == "pass"
    assert outcome(op, args, kwargs, write(1, first)) == "unspecified"
    assert outcome(op, args, kwargs, write(1, 99)) == "wrong-value"  # none of the values written
    assert outcome(op, args, kwargs, write(0, first + 1)) == "wrong-value"  # a place with one written value
    assert outcome(op, args, kwargs, write(3, first + 1)) == "wrong-value"  # a place that is not written


@pytest.mark.parametrize(("op", "args", "kwargs"), ADDED)
def test_what_adds_up_has_one_answer(op, args, kwargs):
    assert outcome(op, args, kwargs, lambda out: None) == "pass"
    assert outcome(op, args, kwargs, lambda out: np.add(out, 1, out=out)) == "wrong-value"
    assert outcome(op, args, kwargs, write(1, 1.5)) == "wrong-value"


@pytest.mark.parametrize("turned", [False, True])
def test_a_window_that_meets_itself(turned):
    """Rows of three elements that overlap, each shifted by one: elements 1 and 2 of the memory are written twice."""
    x, src = torch.zeros(2, 4), torch.arange(1.0, 7.0).reshape(2, 3)
    args = (x.t() if turned else x, src, [2, 3], [1, 1], 0)
    assert outcome("aten::as_strided_scatter", args, {}, lambda out: None) in ("pass", "unspecified")

    def at(place, value):
        return lambda out: out.__setitem__((place, 0) if turned else (0, place), value)

    said = [outcome("aten::as_strided_scatter", args, {}, at(1, value)) for value in (2.0, 4.0, 99.0)]
    assert sorted(said[:2]) in (["pass", "unspecified"], ["unspecified", "unspecified"]) and said[2] == "wrong-value"
    assert outcome("aten::as_strided_scatter", args, {}, at(0, 4.0)) == "wrong-value"  # a place with one written value
