"""Repro scripts run by themselves: for a wrong backend they print the difference and exit with 1, for a right one with
0."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import opinfo_tests
import torchnp
from opinfo_tests.backends.load import load_backend
from opinfo_tests.backends.torch_backend import TorchDevice
from opinfo_tests.case import DTYPES, Case
from opinfo_tests.generate.samples.recording import freeze
from opinfo_tests.report.repro import TooLargeError, choose, issue_body, literal, runner_text, script, write_repros
from opinfo_tests.run.runner import row_of, run_case

RIGHT = opinfo_tests.table(torchnp.table, "torchnp")


def no_keepdim(self: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    return np.sum(self, axis=None if dim is None else tuple(dim))


WRONG = opinfo_tests.table(
    {
        "aten::sub.Tensor": np.add,
        "aten::sum.dim_IntList": no_keepdim,
        "aten::t": lambda self: self.T.copy(),
        "aten::neg": lambda self: np.negative(self, out=self),
    },
    "wrong",
)


# Two functions on one line, of which one is chosen by a condition: the script contains the one that was called.
PAIR = {"aten::sin": lambda self: np.cos(self), "aten::cos": lambda self: np.sin(self) * 2}  # fmt: skip


def case_of(op: str, *args: Any, **kwargs: Any) -> Case:
    return freeze(op, args, kwargs, "test", "")


def run_script(case: Case, backend: Any, tmp_path: Path, alone: bool = False) -> subprocess.CompletedProcess:
    """Run a case's script in its own process, or in this process, which has already imported torch."""
    verdict, seconds = run_case(case, TorchDevice("cpu"), backend)
    text = script(case, row_of(case, verdict, seconds), backend)
    assert not re.search(r"import.*opinfo_tests", text)
    path = tmp_path / "repro.py"
    path.write_text(text, encoding="utf-8")
    if alone:
        return subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=120, check=False)
    with redirect_stdout(StringIO()) as out, pytest.raises(SystemExit) as done:
        runpy.run_path(str(path), run_name="__main__")
    return subprocess.CompletedProcess([], done.value.code, out.getvalue(), "")


def calls() -> dict[str, Case]:
    x = torch.arange(24.0).reshape(4, 6)
    special = torch.tensor([float("nan"), -0.0, float("inf"), 1e-45])
    return {
        "values": case_of("aten::sub.Tensor", x[:2, :3], special[:3]),
        "keyword": case_of("aten::sum.dim_IntList", x.t(), [1], True),
        "alias": case_of("aten::t", x[:, ::2]),
        "write": case_of("aten::neg", x[1]),
    }


@pytest.mark.parametrize("name", calls())
def test_wrong_backend_differs(name, tmp_path):
    case = calls()[name]
    done = run_script(case, WRONG, tmp_path, alone=name == "values")
    assert done.returncode == 1, done.stderr
    assert "DIFFERENT" in done.stdout
    assert "Traceback" not in done.stderr


def right_calls() -> dict[str, Case]:
    x = torch.randn(4, 6)
    wide = torch.linspace(-3, 3, 600).reshape(20, 30)
    return {
        "large": case_of("aten::sin", wide.t()),
        "bfloat16": case_of("aten::mul.Tensor", x.bfloat16(), torch.tensor(2.5)),
        "complex32": case_of("aten::neg", x[:, :2].to(torch.complex32)),
        "out": case_of("aten::add.out", x, 1.5, out=torch.zeros(0)),
        "inplace on a view": case_of("aten::mul_.Tensor", x[:, ::2], 3),
        "expanded": case_of("aten::add.Tensor", x[:1].expand(4, 6), x, alpha=2),
        "the same argument twice": case_of("aten::sub.Tensor", x, x),
        "dtype": case_of("aten::sum.dim_IntList", torch.ones(2, 0, dtype=torch.int8), [1], dtype=torch.float16),
        "refusal": case_of("aten::sum.dim_IntList", x, [5]),
        "view": case_of("aten::slice.Tensor", x, 1, 1, 5, 2),
        "random": case_of("aten::rand", [3], dtype=torch.float64, device=torch.device("cpu")),
        "list": case_of("aten::cat", [x, x[:2]], 0),
        "uint8 view": case_of("aten::view.dtype", x, torch.uint8),
        "special": case_of("aten::add.Tensor", torch.tensor([float("nan"), -0.0, 1j]), 1),
    }


@pytest.mark.parametrize("name", right_calls())
def test_right_backend_is_the_same(name, tmp_path):
    case = right_calls()[name]
    if case.op not in torchnp.table:
        pytest.skip(reason=f"the table has no {case.op}")
    done = run_script(case, RIGHT, tmp_path, alone=name == "random")
    assert done.returncode == 0, done.stdout + done.stderr


def test_torch_device_has_a_script(tmp_path):
    done = run_script(case_of("aten::add.Tensor", torch.ones(2), 1), TorchDevice("cpu"), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


OTHER = """
import numpy as np
import opinfo_tests

class Box:
    def __init__(self, a):
        self.held = a.copy()

class Boxed(opinfo_tests.Backend):
    name = "boxed"
    ops = {"aten::add.Tensor", "aten::sum.dim_IntList"}

    def put(self, a):
        return Box(a)

    def get(self, x):
        return x.held

    def named(self, leaf):
        return leaf.kind + leaf.name

    def run(self, op, args, kwargs):
        if op == "aten::add.Tensor":
            return Box(args[0].held + args[1].held + np.float32(WRONG))
        assert kwargs["dtype"] == "dtypefloat64"
        return Box(np.sum(args[0].held, tuple(args[1]), np.float64) + WRONG)
"""


@pytest.mark.parametrize("wrong", [0, 1])
def test_backend_class_has_a_script(wrong, tmp_path, monkeypatch):
    """A backend class with its own arrays is imported by name and called as the harness calls it."""
    (tmp_path / f"boxes{wrong}.py").write_text(OTHER.replace("WRONG", str(wrong)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    backend = load_backend(f"boxes{wrong}:Boxed")
    x = torch.arange(6.0).reshape(2, 3)
    for case in (
        case_of("aten::add.Tensor", x.t(), x.t()),
        case_of("aten::sum.dim_IntList", x, [1], dtype=torch.float64),
    ):
        done = run_script(case, backend, tmp_path)
        assert done.returncode == wrong and ("DIFFERENT" in done.stdout) is bool(wrong), done.stdout


def test_a_backend_without_a_name_has_no_script():
    class Local(opinfo_tests.Backend):
        pass

    with pytest.raises(TooLargeError, match="no name to be imported by"):
        runner_text(Local(), "aten::add.Tensor")


def test_array_api_and_compilers_have_scripts(tmp_path):
    x = torch.ones(3)
    done = run_script(case_of("prims::add", x, x), load_backend("array-api-strict"), tmp_path)
    assert done.returncode == 0, done.stdout
    assert (
        'torch.compile(lambda *a, **k: TORCH_OP(*a, **k), backend="eager"'
        in runner_text(opinfo_tests.compile("eager"), "aten::sin")[1]
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_literals_are_bit_for_bit(dtype):
    import ml_dtypes

    from opinfo_tests.report import repro_template

    helpers: dict[str, Any] = {"np": np, "ml_dtypes": ml_dtypes, "nan": np.nan, "inf": np.inf}
    source = repro_template.TEMPLATE
    start, stop = source.index("def unpack"), source.index("def memory")
    exec("import base64, zlib\n" + source[start:stop], helpers)
    for size in (0, 3, 65, 700):
        raw = np.random.default_rng(size).integers(0, 2 if dtype == "bool" else 256, size * 16, dtype=np.uint8)
        a = raw[: size * DTYPES[dtype].itemsize].view(DTYPES[dtype])
        back = eval(literal(a), helpers)
        assert back.dtype == a.dtype and back.shape == a.shape and back.tobytes() == a.tobytes()


def test_files_are_capped_for_each_overload_and_outcome(tmp_path):
    rows = []
    for i in range(5):
        case = case_of("aten::sub.Tensor", torch.full((2,), float(i)), torch.ones(2))
        verdict, seconds = run_case(case, TorchDevice("cpu"), WRONG)
        row = row_of(case, verdict, seconds)
        rows.append({**row, "repro": script(case, row, WRONG)})
    assert len(choose(rows)) == 3
    lines = write_repros(rows, tmp_path, WRONG)
    assert "3 repro scripts" in lines[-1] and "2 further failures of the same kinds" in lines[-1]
    assert len(list(tmp_path.glob("repro_*.py"))) == len(list(tmp_path.glob("repro_*.md"))) == 3


def test_issue_body_has_what_a_maintainer_needs():
    case = case_of("aten::sub.Tensor", torch.ones(2), torch.ones(2))
    verdict, seconds = run_case(case, TorchDevice("cpu"), WRONG)
    row = row_of(case, verdict, seconds)
    text = issue_body(row, script(case, row, WRONG))
    for part in (
        "aten::sub.Tensor",
        "wrong-value",
        torch.__version__,
        row["message"],
        "```python",
        "x0 = np.array([1.0, 1.0], np.float32)",
    ):
        assert part in text


@pytest.mark.parametrize(("op", "args", "outcome"), [
    ("aten::sub.Tensor", (torch.ones(2), torch.ones(2)), "wrong-value"),
    ("aten::sub.Tensor", (torch.ones(2), torch.ones(2, dtype=torch.bool)), "no-error"),
    ("aten::sin", (torch.ones(2, dtype=torch.int64),), "wrong-dtype"),
])  # fmt: skip
def test_a_small_case_is_a_short_script(op, args, outcome, tmp_path):
    case, backend = case_of(op, *args), opinfo_tests.table({"aten::sub.Tensor": np.add, "aten::sin": np.sin}, "short")
    verdict, seconds = run_case(case, TorchDevice("cpu"), backend)
    assert verdict.outcome == outcome
    text = script(case, row_of(case, verdict, seconds), backend)
    assert len([line for line in text.splitlines() if not line.startswith("#")]) <= 10
    done = run_script(case, backend, tmp_path)
    assert done.returncode == 1 and "DIFFERENT" in done.stdout, done


@pytest.mark.parametrize(("op", "called"), [("aten::sin", "np.cos(self)"), ("aten::cos", "np.sin(self) * 2")])
def test_two_lambdas_on_a_line(op, called, tmp_path):
    case, backend = case_of(op, torch.ones(2)), opinfo_tests.table(PAIR, "pair")
    verdict, seconds = run_case(case, TorchDevice("cpu"), backend)
    assert f"f = lambda self: {called}\n" in script(case, row_of(case, verdict, seconds), backend)
    assert run_script(case, backend, tmp_path).returncode == 1
