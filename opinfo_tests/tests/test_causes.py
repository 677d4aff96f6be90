"""Failures are grouped by cause, wrong values come before wrong messages, and nothing is printed twice."""

from __future__ import annotations

import pytest
import torch

import opinfo_tests
from opinfo_tests.backends.torch_backend import TorchDevice
from opinfo_tests.generate.samples.recording import freeze
from opinfo_tests.judge.diagnose import diagnose
from opinfo_tests.judge.verdict import first_line
from opinfo_tests.report.causes import causes, shown


def row(op: str, outcome: str, message: str, **more: str) -> dict:
    return {
        "op": f"aten::{op}",
        "outcome": outcome,
        "message": message,
        "call": f"{op}()",
        "id": op,
        "sample": "s",
        "sample_dtype": "float32",
    } | more


ROWS = [
    *(row(f"op{i}", "wrong-error", f"ValueError: no {i} | torch: RuntimeError: bad {i}") for i in range(25)),
    *(row(f"op{i}", "no-error", f"torch raises RuntimeError: size {i} must match {i + 1}") for i in range(25)),
    *(row(f"op{i}", "wrong-value", f"{i} of 9 differ: {i}.0, torch gives 1.0") for i in range(25)),
    row("op1", "wrong-value", "1 of 1 differ", diagnosis="equal to torch's without alpha"),
]


def test_alike_failures_of_many_overloads_are_one_cause():
    found = causes(ROWS)
    assert [(c.outcome, len(c.rows)) for c in found] == [
        ("wrong-value", 25),
        ("wrong-value", 1),
        ("no-error", 25),
        ("wrong-error", 25),
    ]
    lines = [text for text, _ in shown(ROWS, 4)]
    said = [line for line in lines if not line.lstrip().startswith("op")]  # without calls and ids
    assert len(lines) < 25 and len(set(said)) == len(said)
    assert lines[0].startswith("wrong-value: 25 calls of aten::op") and lines[0].endswith("and 19 others")


def test_what_is_not_shown_is_counted():
    rows = [row("op", "wrong-value", "x", diagnosis=word) for word in ("one", "two", "three")]
    assert [text for text, _ in shown(rows, 2)][-1].startswith("wrong-value: 1 more cause")


X = torch.arange(6.0).reshape(2, 3)
REFUSED = [
    ("aten::view", (X, [5]), {}, ""),
    ("aten::view", (X.t(), [6]), {}, "(difference: view-never-copies)"),
    ("aten::add.Tensor", (X, X), {"alpha": True}, "(difference: bool-alpha)"),
    ("aten::add.Tensor", (X, X), {"alpha": 1e39}, ""),
]


@pytest.mark.parametrize(
    ("op", "args", "kwargs", "words"), REFUSED, ids=[f"{r[0][6:]}-{i}" for i, r in enumerate(REFUSED)]
)
def test_a_refusal_is_explained_by_the_difference_that_says_its_words(op, args, kwargs, words):
    case = freeze(op, args, kwargs, "test", "")
    backend = opinfo_tests.table(
        {
            "aten::view": lambda self, size: self.ravel()[:1].reshape(1),
            "aten::add.Tensor": lambda self, other, alpha=1: self + alpha * other,
        }
    )
    mine = backend.execute(case)
    import numpy as np

    if op == "aten::view":
        mine = opinfo_tests.table({op: lambda self, size: np.reshape(self, size)}).execute(case)
    found = diagnose(
        case, "wrong-error" if mine.error else "no-error", TorchDevice("cpu").execute(case), mine, TorchDevice("cpu")
    )
    assert " or " not in found
    assert words in found if words else "difference" not in found


def test_words_are_not_cut():
    assert first_line("one two three", 9) == "one two ..." and first_line("one two three", 13) == "one two three"
