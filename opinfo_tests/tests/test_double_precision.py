"""Rounding errors that are excused: those as small as torch's own error, or as a change of the inputs' last bits makes.

Random numbers are never excused.
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
    """If a sum cancels, no order is right: a result as accurate as torch's is unspecified, and a less accurate one is
    wrong."""
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


def test_an_overflow_excuses_nothing_beside_it():
    """If torch's sum overflows, the true sum is accepted too. Other values, and wrong numbers next to it, are not."""
    half = torch.tensor([[300.0, 300.0, 0.001], [2.0, 3.0, 4.0]]).half()
    changes = {
        (90.0, 24.0): "unspecified",
        (80.0, 24.0): "wrong-value",
        (90.0, 25.0): "wrong-value",
        (np.inf, 25.0): "wrong-value",
    }
    for answer, found in changes.items():
        assert outcome("aten::prod.dim_int", lambda out, answer=answer: np.array(answer, np.float16), half, 1) == found


def test_inputs_that_differ_in_their_last_bits():
    """If products cancel in double precision, or a matrix is singular, the error may be what a change of the inputs'
    last bits makes."""
    a = torch.tensor([[1e30, 1.0, -1e30]], dtype=torch.float64)
    b = torch.tensor([[1.1], [1.0], [1.1]], dtype=torch.float64)
    for off, found in ((1e13, "unspecified"), (1e18, "wrong-value")):
        assert outcome("aten::mm", lambda out, off=off: out + off, a, b) == found
    assert outcome("aten::mm", lambda out: out + 1e19, a.abs(), b) == "wrong-value"
    singular = torch.tensor([[4.0, -1.0], [4.0, -1.0]])
    # Depending on the processor, torch's result is infinite or large; results for slightly changed inputs vary as
    # widely.
    near = "wrong-value" if torch.linalg.cond(singular).isinf() else "unspecified"
    for answer, found in (
        (np.inf, "unspecified"),
        (3e17, "unspecified"),
        (1e3, near),
        (-1e30, "unspecified" if near == "wrong-value" else "wrong-value"),
        (np.nan, "wrong-value"),
    ):
        wrong = lambda out, answer=answer: np.full_like(out, answer)
        assert outcome("aten::linalg_cond", wrong, singular) in ("pass", found)
    assert outcome("aten::linalg_cond", lambda out: out * np.float32(1.01), torch.eye(2) + 0.5) == "wrong-value"


def test_what_torch_does_not_write_is_no_answer():
    """Elements that change from one call of torch to the next are not compared; all others are."""
    case = freeze("aten::neg", (torch.arange(4.0),), {}, "", "float32")

    class Forgetful(TorchDevice):
        calls = 0

        def execute(self, case):
            seen = super().execute(case)
            self.calls += 1
            seen.results[0][2] = self.calls
            return seen

    def judged(change):
        backend = opinfo_tests.table({"aten::neg": lambda x: change(torchnp.table["aten::neg"](x))})
        return run_case(case, Forgetful("cpu"), backend)[0].outcome

    def but_last(out):
        out[3] = 7
        return out

    assert judged(lambda out: out) == "unspecified"
    assert judged(but_last) == "wrong-value"


def test_a_variance_may_be_off_by_a_rounding_for_each_term():
    """torch's own variance has such an error, because it adds the terms one by one.

    For few terms the error must be small.
    """
    few, many = torch.arange(9.0, dtype=torch.float64), torch.arange(40_000.0, dtype=torch.float64)
    for x, off, said in ((few, 3e-12, "wrong-value"), (many, 3e-12, "pass"), (many, 3e-11, "wrong-value")):
        assert outcome("aten::var.correction", lambda out, by=off: out * (1 + by), x) == said
        assert outcome("aten::sum", lambda out, by=off: out * (1 + by), x) == "wrong-value"
