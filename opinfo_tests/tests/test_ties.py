"""Indices of equal values: other indices that pick the same values are unspecified, and all others are wrong."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import opinfo_tests
import torchnp
from opinfo_tests.backends.torch_backend import TorchDevice
from opinfo_tests.generate.samples.recording import freeze
from opinfo_tests.run.runner import run_case

X = torch.tensor([[2.0, 1.0, 2.0, float("nan"), 1.0, 2.0, float("nan")]])


def outcome(op, change, *args, **kwargs):
    """Return the verdict on torchnp's kernel if its last result, the index, is changed."""

    def row(*a, **k):
        out = torchnp.table[op](*a, **k)
        if isinstance(out, tuple):
            return (*out[:-1], change(out[-1]))
        return change(out)

    case = freeze(op, (X, *args), kwargs, "", "float32")
    return run_case(case, TorchDevice("cpu"), opinfo_tests.table({op: row}))[0].outcome


def swap(i, j):
    def change(index):
        index = index.copy()
        index[:, [i, j]] = index[:, [j, i]]
        return index

    return change


@pytest.mark.parametrize("op", ["aten::sort", "aten::argsort"])
def test_order_of_equal_values(op):
    assert outcome(op, lambda index: index, -1) == "pass"
    assert outcome(op, swap(0, 1), -1) == "unspecified"
    assert outcome(op, swap(5, 6), -1) == "unspecified"
    assert outcome(op, swap(1, 2), -1) == "wrong-value"
    assert outcome(op, lambda index: np.where(index == 4, 1, index), -1) == "wrong-value"


def test_a_stable_sort_keeps_the_order():
    assert outcome("aten::sort.stable", swap(0, 1), stable=True, dim=-1) == "wrong-value"
    assert outcome("aten::sort.stable", swap(0, 1), stable=False, dim=-1) == "unspecified"


def test_one_of_equal_values():
    assert outcome("aten::kthvalue", lambda index: 5 - index, 1) == "unspecified"
    assert outcome("aten::kthvalue", lambda index: index + 1, 1) == "wrong-value"
