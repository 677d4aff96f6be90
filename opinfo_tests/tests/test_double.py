"""What torch's double precision excuses: rounding that is as near to it as torch's own, and never other random numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import opinfo_tests
import torchnp
from opinfo_tests.backends.torch_backend import TorchDevice
from opinfo_tests.draw.record import freeze
from opinfo_tests.run.runner import run_case


def outcome(op, change, *args):
    def row(*a, **k):
        return change(torchnp.table[op](*a, **k))

    return run_case(freeze(op, args, {}, "", "float32"), TorchDevice("cpu"), opinfo_tests.table({op: row}))[0].outcome


@pytest.mark.parametrize("op", ["aten::normal_functional", "aten::rand_like", "aten::randn_like", "aten::exponential"])
def test_other_random_numbers(op):
    x = torch.zeros(20)
    assert outcome(op, lambda out: out, x) == "pass"
    assert outcome(op, lambda out: np.roll(out, 1), x) == "wrong-value"


def test_a_sum_in_another_order():
    """Where sums cancel no order is the right one: another that is as near as torch's is unspecified, a worse one wrong."""
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(64, 4096, generator=generator)
    a = torch.cat([a, -a], 1)
    b = torch.ones(8192, 1) + 1e-3 * torch.randn(8192, 1, generator=generator)
    terms = a.numpy() * b.numpy().T

    def backwards(_):
        return terms[:, ::-1].copy().sum(1, keepdims=True)

    def one_by_one(_):
        return np.cumsum(terms.astype(np.float16), axis=1)[:, -1:].astype(np.float32)

    assert outcome("aten::mm", backwards, a, b) == "unspecified"
    assert outcome("aten::mm", one_by_one, a, b) == "wrong-value"
