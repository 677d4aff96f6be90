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
    """The product's error is torch's own, of other elements: a sum that cancels has no right order."""
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(1, 4096, generator=generator)
    a = torch.cat([a, -a], 1)
    b = torch.ones(8192, 1) + 1e-3 * torch.randn(8192, 1, generator=generator)

    def backwards(_):
        return np.cumsum((a.numpy() * b.numpy().T)[:, ::-1], axis=1, dtype=np.float32)[:, -1:].copy()

    true = (a.double() @ b.double()).item()
    assert abs(backwards(None).item() - true) > 1e-6
    assert outcome("aten::mm", lambda out: out, a, b) in ("pass", "unspecified")
    assert outcome("aten::mm", lambda out: out + 1, a, b) == "wrong-value"
