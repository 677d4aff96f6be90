"""Operands that share memory with the written array.

NumPy's copy made beforehand is wrong where torch promises an order, and unspecified elsewhere.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

import opinfo_tests
import torchnp
from opinfo_tests.backends.torch_backend import TorchDevice
from opinfo_tests.generate.samples.recording import freeze
from opinfo_tests.run.runner import run_case


def buffered(self, other, **_):
    """Compute as NumPy does: read all of the operand before writing."""
    self[...] = np.broadcast_to(other, self.shape).copy()
    return self


def outcome(row, op, *args):
    return run_case(freeze(op, args, {}, "", "float32"), TorchDevice("cpu"), opinfo_tests.table({op: row}))[0].outcome


@pytest.mark.parametrize(
    "rows, columns, found",
    [(3, 5, "wrong-value"), (3, 7, "wrong-value"), (3, 90, "unspecified")],
    ids=["short rows", "as long as a vector", "vectors"],
)
def test_a_copy_that_reads_first(rows, columns, found):
    x = torch.arange(float(rows * columns)).reshape(rows, columns)
    assert outcome(torchnp.table["aten::copy_"], "aten::copy_", x[:, 1:], x[:, :-1]) in ("pass", found)
    assert outcome(buffered, "aten::copy_", x[:, 1:], x[:, :-1]) == found


def test_a_copy_that_is_not_refused():
    x = torch.arange(5.0)
    assert outcome(buffered, "aten::copy_", x[1:], x[:-1]) == "no-error"


def test_what_shares_no_element_has_one_answer():
    def wrong(self, other, **_):
        return buffered(self, other + 1)

    x = torch.zeros(3, 90)
    assert outcome(wrong, "aten::copy_", x[:, :40], x[:, 50:]) == "wrong-value"
    assert outcome(wrong, "aten::copy_", x, torch.ones(3, 90)) == "wrong-value"
