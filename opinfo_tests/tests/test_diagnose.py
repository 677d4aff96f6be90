"""Ten NumPy functions as a backend: the report says where NumPy agrees with torch, where it does not, and by which
difference."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch

import opinfo_tests
import torchnp
from opinfo_tests.backends.torch_backend import TorchDevice
from opinfo_tests.generate.samples.recording import freeze
from opinfo_tests.judge.diagnose import diagnose, shows_as
from opinfo_tests.run.explain_failures import Explainer
from opinfo_tests.run.runner import row_of, run_case

ORACLE = TorchDevice("cpu")
NUMPY = opinfo_tests.table(
    {
        "aten::add.Tensor": np.add,
        "aten::floor_divide": np.floor_divide,
        "aten::var": np.var,
        "aten::median": np.median,
        "aten::sign": np.sign,
        "aten::sum": np.sum,
        "aten::cumsum": np.cumsum,
        "aten::flip": np.flip,
        "aten::reciprocal": np.reciprocal,
        "aten::sin": np.sin,
        "aten::mean": np.mean,
        "aten::repeat": np.repeat,
    },
    "numpy",
)
f32 = torch.tensor([1.0, 2.0, 3.0, 5.0])
i64 = torch.tensor([1, 2, 3, 5])
half = torch.full((3,), 60000.0, dtype=torch.float16)
nan = torch.tensor([float("nan"), -1.0])

# operator, arguments, outcome, words of the diagnosis
CALLS: list[tuple[str, tuple, str, str]] = [
    ("aten::add.Tensor", (f32, f32), "pass", ""),
    ("aten::add.Tensor", (i64, i64), "pass", ""),
    ("aten::add.Tensor", (f32, torch.tensor(1.0, dtype=torch.float64)), "wrong-dtype", "matches NumPy, not torch: a 0-d tensor"),
    ("aten::add.Tensor", (i64, f32.half()), "wrong-dtype", "matches NumPy, not torch"),
    ("aten::add.Tensor", (torch.ones(1, dtype=torch.uint64), i64[:1]), "no-error", "unsigned-promotion"),
    ("aten::floor_divide", (i64, i64), "pass", ""),
    ("aten::floor_divide", (i64, i64 * 0), "no-error", "integer-division-by-zero"),
    ("aten::var", (f32,), "wrong-value", "(difference: correction)"),
    ("aten::var", (i64,), "no-error", "(difference: no-integers)"),
    ("aten::median", (f32[:3],), "pass", ""),
    ("aten::median", (f32,), "wrong-value", "(difference: lower-median)"),
    ("aten::sign", (f32,), "pass", ""),
    ("aten::sign", (nan,), "wrong-value", "(difference: sign-of-nan)"),
    ("aten::sum", (f32,), "pass", ""),
    ("aten::sum", (torch.ones(3, dtype=torch.uint8),), "wrong-dtype", "(difference: sum-dtype)"),
    ("aten::cumsum", (f32, 0), "pass", ""),
    ("aten::flip", (f32.reshape(2, 2), [0]), "wrong-alias", "(difference: flip-copies)"),
    ("aten::reciprocal", (f32,), "pass", ""),
    ("aten::reciprocal", (i64,), "wrong-dtype", "(difference: reciprocal-of-int"),
    ("aten::sin", (f32,), "pass", ""),
    ("aten::sin", (i64,), "wrong-dtype", "(difference: int-to-default-float)"),
    ("aten::mean", (f32,), "pass", ""),
    ("aten::mean", (i64,), "no-error", "(difference: no-integers)"),
    ("aten::repeat", (i64, [2]), "wrong-value", "(difference: repeat-is-tile)"),
]  # fmt: skip


def judged(op: str, args: tuple, backend: Any = NUMPY, **kwargs: Any) -> dict[str, Any]:
    case = freeze(op, args, kwargs, "test", "")
    verdict, seconds = run_case(case, ORACLE, backend)
    row = row_of(case, verdict, seconds)
    return row | (Explainer(ORACLE, backend)(case, row) if "message" in row else {})


@pytest.mark.parametrize(
    ("op", "args", "outcome", "words"), CALLS, ids=[f"{c[0][6:]}-{c[2]}-{i}" for i, c in enumerate(CALLS)]
)
def test_numpy_is_reported_exactly_where_it_is_not_torch(op, args, outcome, words):
    row = judged(op, args)
    assert row["outcome"] == outcome, row
    if outcome == "pass":
        assert "diagnosis" not in row
    else:
        assert words in row.get("diagnosis", ""), row


def test_listed_differences_are_what_is_named():
    for op, args, outcome, _ in CALLS:
        found = judged(op, args).get("diagnosis", "")
        listed = {d.id: d for d in torchnp.table[op].differences}
        for name in re.findall(r"\(difference: ([^)]+)\)", found):
            assert name in listed and outcome in shows_as(listed[name])


x = torch.arange(6.0).reshape(2, 3) + 1
square = x[:, :2]
ONE_OFF: list[tuple[str, Any, tuple, dict, str]] = [
    ("aten::exp", lambda self: np.exp(self).astype(np.float64), (x,), {}, "another dtype: float64 for float32"),
    ("aten::t", lambda self: self, (square,), {}, "transposed"),
    ("aten::sum.dim_IntList", lambda self, dim=None, keepdim=False, **_: np.sum(self, tuple(dim)), (x, [0], True), {}, "size 1"),
    ("aten::add.Tensor", lambda self, other, alpha=1: self + other, (x, x), {"alpha": 3}, "without alpha"),
    ("aten::sub.Tensor", lambda self, other, alpha=1: other - self, (x, x[:1] * 3), {}, "opposite sign"),
    ("aten::pow.Tensor_Tensor", lambda self, exponent: exponent**self, (x, x[:1]), {}, "self and exponent swapped"),
    ("aten::abs", lambda self: self.copy(), (-x,), {}, "opposite sign"),
    ("aten::maximum", lambda self, other: np.fmax(self, other), (nan, nan[:1] * 0 + torch.tensor([3.0, 4.0])), {}, "nan"),
    ("aten::mul.Tensor", lambda self, other: self * other * 2, (x, x), {}, "torch's times 2"),
    ("aten::floor", lambda self: np.floor(self) + 1, (x,), {}, "torch's plus 1"),
    ("aten::expand", lambda self, size, implicit=False: self[:1], (x[:1], [4, 3]), {}, "not broadcast"),
    ("aten::neg", lambda self: 0 - self, (torch.tensor([0.0, 1.0]),), {}, "sign of zeros"),
    ("aten::exp", lambda self: np.nextafter(np.exp(self), np.float32(9e9)) * np.float32(1.000001), (x,), {}, "rounding"),
    ("aten::eq.Tensor", lambda self, other: self != other, (x, x), {}, "the opposite"),
    ("aten::cos", lambda self: self.copy(), (x,), {}, "handed back unchanged"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("op", "kernel", "args", "kwargs", "words"), ONE_OFF, ids=[f"{o[0][6:]}-{o[4]}" for o in ONE_OFF]
)
def test_right_values_in_another_form(op, kernel, args, kwargs, words):
    row = judged(op, args, opinfo_tests.table({op: kernel}), **kwargs)
    assert row["outcome"] not in ("pass", "unspecified")
    assert words in row["diagnosis"], row


def test_nothing_is_said_of_what_nothing_is_known():
    case = freeze("aten::sin", (x,), {}, "test", "")
    backend = opinfo_tests.table({"aten::sin": lambda self: np.sin(self) ** 2 + self})
    found = diagnose(case, "wrong-value", ORACLE.execute(case), backend.execute(case), ORACLE)
    assert found == ""


def test_scripts_are_capped():
    explain = Explainer(ORACLE, NUMPY, most=2)
    rows = []
    for i in range(4):
        case = freeze("aten::sign", (nan + i,), {}, "test", "")
        verdict, seconds = run_case(case, ORACLE, NUMPY)
        row = row_of(case, verdict, seconds)
        rows.append(row | explain(case, row))
    assert sum("repro" in r for r in rows) == 2
    assert all("diagnosis" in r for r in rows)
