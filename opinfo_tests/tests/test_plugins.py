"""Other backends, each made in a line: torch's CPU device, a torch.compile backend, ten NumPy functions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from functools import cache
from typing import Any

import numpy as np
import pytest

import opinfo_tests
import torchnp
from opinfo_tests.backends.compile_backend import NOT_COMPILED, Compiled
from opinfo_tests.backends.load import load_backend
from opinfo_tests.generate.samples.opinfo import ERRORS, registered, supported
from opinfo_tests.generate.samples.opinfo_reach import in_families
from opinfo_tests.generate.task import Task
from opinfo_tests.report.report import GOOD, REFUSED, read
from opinfo_tests.run import command
from opinfo_tests.run import control_experiment as controls
from opinfo_tests.run.runner import Options, run_here
from opinfo_tests.tests.mutants import Mutated
from torchnp import cli

TEN = {
    "aten::add.Tensor": np.add,
    "aten::cumsum": np.cumsum,
    "aten::flip": np.flip,
    "aten::mean": np.mean,
    "aten::median": np.median,
    "aten::reciprocal": np.reciprocal,
    "aten::sign": np.sign,
    "aten::sin": np.sin,
    "aten::sum": np.sum,
    "aten::var": np.var,
}


NAMELESS = opinfo_tests.table(TEN)
OTHERS = opinfo_tests.table(TEN, "opinfo_tests.tests.test_plugins:TEN")


def judged(backend: Any, sources: str, dtypes: str, limit: int, ops: Any = None) -> list[dict[str, Any]]:
    """Return the rows of the first cases of some entries."""
    tasks = [Task(s, d) for s in sources.split() for d in dtypes.split() if d in supported(s)]
    rows = []
    for kind, value in run_here(tasks, backend, Options(ops=ops, limit=limit)):
        rows += value if kind == "rows" else []
        assert kind == "rows" or not value.error
    return rows


def outcomes(rows: list[dict[str, Any]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        found[row["op"]].add(row["outcome"])
    return found


def test_torch_cpu_passes_everything():
    """torch's CPU, judged as a backend like any other, passes every call."""
    rows = judged(
        opinfo_tests.device("cpu"), "cat index_put sort rand_like linalg.svd view",
        f"float32 bfloat16 int64 {ERRORS}", 2,
    )  # fmt: skip
    assert len(rows) > 300
    assert {row["outcome"] for row in rows} == {"pass"}


def test_under_the_mode():
    """The table inside torch: the same calls on tensors under NumpyMode, with torch's own strides and storages."""
    rows = judged(load_backend("numpy-mode"), "add cumsum softmax index_put as_strided", f"float32 int64 {ERRORS}", 2)
    assert len(rows) > 150
    assert {row["outcome"] for row in rows} <= {"pass", "unspecified"}


def test_compiled():
    """torch.compile with single operators, including views, writes, random numbers and refusals."""
    wanted = "add.Tensor add_.Tensor add.out transpose.int rand_like sin sum.dim_IntList mm"
    ops = frozenset(f"aten::{n}" for n in wanted.split())
    rows = judged(
        opinfo_tests.compile("aot_eager"), "add transpose rand_like sin sum mm", f"float32 int64 {ERRORS}", 3, ops
    )
    assert set(outcomes(rows)) == ops
    assert [(r["call"], r["message"]) for r in rows if r["outcome"] not in (*GOOD, REFUSED)] == []
    assert {(r["op"], r["reason"]) for r in rows if r["outcome"] == REFUSED} == {("aten::add.out", NOT_COMPILED)}


def test_what_torchs_compiler_does_is_no_fault_of_a_compiler():
    """If torch's kernels called in the same place fail alike (an unchecked dtype, another message), the failure is
    excused. Wrong values are never excused."""
    given = "own exp2 acos", f"float32 int64 {ERRORS}", 4, frozenset({"aten::acos", "aten::exp2_", "aten::roll.out"})
    rows = judged(opinfo_tests.compile("torchnp"), *given)
    assert {r["outcome"] for r in rows} == {*GOOD, REFUSED}
    excused = [r for r in rows if r.get("message", "").startswith("so do torch's kernels in this place: ")]
    assert 1 < len(excused) < len(rows) / 2 and {r["outcome"] for r in excused} == {"unspecified"}

    class Wrong(Compiled):
        def run(self, op: str, args: tuple, kwargs: dict[str, Any]) -> Any:
            return super().run(op, args, kwargs) + 1

    wrong = judged(Wrong("torchnp"), *given)
    assert {r["outcome"] for r in wrong} >= {"wrong-alias", "wrong-value"}
    assert len([r for r in wrong if r["outcome"] not in GOOD]) > len(excused)


@pytest.mark.parametrize("library", ["strict", "torch"])
def test_array_api(library):
    """torchnp's portable rows on arrays of other libraries: every call in the library's dtypes gives torch's result."""
    backend = load_backend(f"array-api-{library}")
    assert backend.name == f"array-api-{library}" and len(backend.ops) > 100
    rows = judged(
        backend, "_refs.add _refs.where _refs.var _refs.sign _refs.cat _refs.lt _refs.prod _refs.remainder _refs.fmod "
        "_refs.amax _refs.amin _refs.sum _refs.fmax _refs.signbit _refs.fft.fft _refs.fft.ifft2 _refs.fft.rfft _refs.fft.irfft "
        "_refs.linalg.svd", "float32 bfloat16 int64 bool complex64", 3,
    ) + judged(backend, "_refs.fft.ifft2", "complex64", 8)  # fmt: skip
    assert len({r["op"] for r in rows}) >= 10
    assert {r["dtype"] for r in rows} >= {"float32", "int64", "bool", "complex64"}
    assert any("bfloat16" in r["id"] for r in rows) == (library == "torch")  # the array API standard has no such dtype
    assert [(r["call"], r["message"]) for r in rows if r["outcome"] not in GOOD] == []


@cache
def ten() -> tuple[dict[str, Any], ...]:
    backend = opinfo_tests.table(TEN, "numpy")
    entries = "add cumsum flip mean median reciprocal sign sin sum var own"
    return tuple(judged(backend, entries, f"float32 int64 bool bfloat16 complex64 {ERRORS}", 12))


# overload, dtype, the outcome of some of its calls, the difference that is named
NUMPY_IS_NOT_TORCH = [
    ("var", "float32", "wrong-value", "correction"),
    ("var", "complex64", "wrong-value", "correction"),
    ("median", "float32", "wrong-value", "lower-median"),
    ("sign", "float32", "wrong-value", "sign-of-nan"),
    ("sign", "bool", "spurious-error", "sign-of-bool"),
    ("cumsum", "int64", "wrong-shape", "zero-dim-axis"),
    ("flip", "float32", "wrong-alias", "flip-copies"),
    ("reciprocal", "int64", "wrong-dtype", "reciprocal-of-integers"),
    ("sin", "int64", "wrong-dtype", "int-to-default-float"),
    ("sum", "bfloat16", "wrong-value", "half-opmath"),
]


@pytest.mark.parametrize(("op", "dtype", "outcome", "difference"), NUMPY_IS_NOT_TORCH)
def test_ten_numpy_functions_differ(op, dtype, outcome, difference):
    """Where NumPy differs from torch, the report says so and names the difference."""
    said = [r.get("diagnosis", "") for r in ten() if (r["op"], r["dtype"], r["outcome"]) == (f"aten::{op}", dtype, outcome)]  # fmt: skip
    assert any(f"(difference: {difference})" in text for text in said), said


@pytest.mark.parametrize(
    ("op", "dtype"),
    [("sin", "float32"), ("sum", "float32"), ("sum", "int64"), ("mean", "float32"), ("reciprocal", "float32")],
)
def test_ten_numpy_functions_agree(op, dtype):
    """Where NumPy agrees with torch, every call passes."""
    found = [r["outcome"] for r in ten() if (r["op"], r["dtype"]) == (f"aten::{op}", dtype)]
    assert found and set(found) <= set(GOOD)


def test_ten_numpy_functions_are_ten():
    """Only operators in the dict are judged, and all of them."""
    assert {r["op"] for r in ten()} == set(TEN)


def test_add_fails_only_with_alpha():
    """np.add has no alpha.

    Without alpha it agrees with torch, except for complex nan, which alpha=1 puts into both parts.
    """
    for row in ten():
        if row["op"] == "aten::add.Tensor" and row["outcome"] not in GOOD and row["sample"] == "add":
            spread = row["dtype"].startswith("complex") and "nan" in row["message"]
            assert "alpha" in row["call"] or row["sample_dtype"] == ERRORS or spread, row["call"]


class Bytes:
    """An array of another library."""

    def __init__(self, a: np.ndarray) -> None:
        self.dtype, self.shape, self.data = a.dtype, a.shape, a.tobytes()


class Own(opinfo_tests.Backend):
    """A backend class for a library that has its own arrays."""

    name = "own"
    ops = frozenset({"aten::neg", "aten::relu"})

    def put(self, a):
        return Bytes(a)

    def get(self, x):
        return np.frombuffer(x.data, x.dtype).reshape(x.shape)

    def run(self, op, args, kwargs):
        return self.put(torchnp.table[op](self.get(args[0])))


def test_backend_class():
    rows = judged(Own(), "neg nn.functional.relu", "float32 bfloat16", 5)
    assert set(outcomes(rows)) == Own.ops
    assert {r["outcome"] for r in rows} == {"pass"}


class Absence(Own):
    def run(self, op, args, kwargs):
        raise NotImplementedError(op)


def test_raising_is_not_absence():
    """A claimed operator that raises NotImplementedError fails: missing operators must be declared."""
    rows = judged(Absence(), "neg", "float32", 5)
    assert rows and {r["outcome"] for r in rows} == {"spurious-error"}


# ---------------------------------------------------------------- names, the command line, pytest


@pytest.mark.parametrize(
    ("name", "kind"),
    [("table", "torchnp"), ("numpy", "torchnp"), ("torch-cpu", "torch-cpu"), ("compile-eager", "compile-eager"),
     ("array-api-strict", "array-api-strict"),
     ("opinfo_tests.tests.test_plugins:NAMELESS", "opinfo_tests.tests.test_plugins:NAMELESS"),
     ("opinfo_tests.tests.test_plugins:TEN", "opinfo_tests.tests.test_plugins:TEN"), ("opinfo_tests.tests.test_plugins:Own", "own")],
)  # fmt: skip
def test_names(name, kind):
    assert load_backend(name).name == kind


@pytest.mark.parametrize(
    ("name", "words"),
    [("nonesuch", "there are table, numpy-mode, torch-DEVICE .*numpy"), ("torch-nonesuch", "no device"), ("no.such:thing", "No module"),
     ("compile-nonesuch", "inductor"), ("array-api-nonesuch", "standard"), ("array-api-math", "standard"),
       ("math:pi", "neither a Backend"), ("opinfo_tests:nonesuch", "no attribute")],
)  # fmt: skip
def test_unknown_backend(name, words, capsys):
    with pytest.raises(SystemExit, match=words):
        load_backend(name)
    assert cli.main(["conform", "--backend", name]) == 2
    assert capsys.readouterr().err.startswith("torchnp conform: ")


def test_unknown_overload():
    with pytest.raises(ValueError, match="no overload aten::ad"):
        opinfo_tests.table({"aten::ad.Tensor": np.add})


def test_conform(tmp_path, capsys):
    """A run from the command line that is interrupted and resumed has the same cases."""
    whole, broken = tmp_path / "whole.jsonl", tmp_path / "broken.jsonl"
    (tmp_path / "gaps.toml").touch()
    options = ["--backend", "opinfo_tests.tests.test_plugins:TEN", "--families", "pointwise,reduce,rearrange,variance"]
    options += ["--ops", "sin,flip", "--dtypes", "int64,bool", "--jobs", "0", "--gaps", str(tmp_path / "gaps.toml")]
    assert cli.main(["conform", *options, "--report", str(whole)]) == 1
    out = capsys.readouterr().out
    assert "aten::flip" in out and "(difference: flip-copies)" in out
    assert out.startswith(
        "loading torch's samples ...\ncontrol: torch's CPU device and torchnp's table on some of the same cases ..."
    )
    lines = whole.read_text().splitlines(keepends=True)
    broken.write_text("".join(lines[: len(lines) // 2]) + lines[-2][:9])
    assert cli.main(["conform", *options, "--report", str(broken), "--resume"]) == 1
    assert "resumed: " in capsys.readouterr().out
    assert sorted((r["id"], r["outcome"]) for r in read(broken)) == sorted((r["id"], r["outcome"]) for r in read(whole))
    assert json.loads(broken.read_text().splitlines()[-1])["total"] == len(list(read(whole)))
    assert cli.main(["conform", *options, "--seed", "7", "--report", str(broken), "--resume"]) == 2
    assert "seed differ" in capsys.readouterr().err
    options[1] = "opinfo_tests.tests.test_plugins:OTHERS"
    assert command.main([*options, "--report", str(whole), "--resume"]) == 2
    assert "loaded_by differ" in capsys.readouterr().err


def test_families_are_names_for_any_backend(capsys):
    """A family consists of the operators in torchnp's module of that name; an unknown family is an error that lists all
    of them."""
    every = in_families("reduce,backward", registered())
    assert {"aten::sum", "aten::sigmoid_backward"} <= every and "aten::sin" not in every
    options = [
        "--backend",
        "opinfo_tests.tests.test_plugins:TEN",
        "--families",
        "pointwise",
        "--dtypes",
        "bool",
        "--jobs",
        "0",
    ]
    command.main([*options, "--max", "2"])
    out = capsys.readouterr().out
    assert "aten::sin" in out and "aten::sum" not in out
    for backend in ("table", "torch-cpu"):
        assert command.main(["--backend", backend, "--families", "nonesuch"]) == 2
        assert "no family 'nonesuch': there are accelerators, activation, " in capsys.readouterr().err


def test_invalid_run(monkeypatch, capsys):
    """If the control run fails, nothing is reported, and the exit status says so."""
    broken = {n: Mutated(torchnp.table, n, "result-dtype")[n] for n in ("aten::sin", "aten::cos")}
    monkeypatch.setattr(controls, "TorchDevice", lambda device: opinfo_tests.table(broken, "broken"))
    arguments = ["--ops", "sin,cos", "--dtypes", "float32", "--jobs", "0"]
    assert command.main(arguments) == controls.INVALID
    assert "invalid run: the control is not green" in capsys.readouterr().out


def test_too_few(monkeypatch, capsys):
    """If fewer cases are collected than the file of counts says, the run fails even if all of them pass."""
    monkeypatch.setattr(command, "plan", lambda ops, dtypes, home: [Task("cos", "float32")])
    assert command.main(["--ops", "cos", "--draws", "0", "--jobs", "0"]) == 1
    out = capsys.readouterr().out
    assert "the samples did not all run" in out
    monkeypatch.setattr(command, "plan", lambda ops, dtypes, home: [])
    assert command.main(["--ops", "cos", "--draws", "0", "--jobs", "0"]) == controls.INVALID
    assert "nothing was judged" in capsys.readouterr().out


@pytest.mark.parametrize("more", [pytest.param([], marks=pytest.mark.weekly), ["-n", "2"]])
def test_pytest_from_anywhere(more, tmp_path):
    """``pytest --pyargs opinfo_tests`` has its options in any directory, and is strict about gaps, also under xdist."""
    (tmp_path / "mine.py").write_text(
        "import numpy as np\nfunctions = {'aten::neg': np.negative, 'aten::sign': np.sign}\n"
    )
    passing = next(r["id"] for r in judged(opinfo_tests.table({"aten::neg": np.negative}), "neg", "float32", 1))
    entry = '[[gap]]\nop = "aten::{}"\ndtype = "float32"\noutcome = "wrong-value"\nreason = "a test"\ncases = ["{}"]\n'
    closed = passing.rpartition("/")[2]
    (tmp_path / "gaps-mine-functions.toml").write_text(entry.format("neg", closed) + entry.format("nonesuch", "aa"))
    arguments = [
        "--pyargs", "opinfo_tests", "--backend", "mine:functions", "--tier", "full", "--opinfo-dtypes", "float32,bool,errors",
        "-k", "gaps or entry and (neg or sign) and not foreach and not signal", "--opinfo-jobs", "0",
        "--opinfo-report", "r.jsonl", "--junitxml", "j.xml", "-p", "no:cacheprovider", "-q", *more,
    ]  # fmt: skip
    plain = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments],
        cwd=tmp_path,
        env=plain,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "torch gives np.float32(0.0)" in ran.stdout and "(difference: sign-of-nan)" in ran.stdout
    assert f"passes now: delete {closed}" in ran.stdout
    assert "aten::nonesuch is not an operator" in ran.stdout
    assert {r["op"] for r in read(tmp_path / "r.jsonl")} == {"aten::neg", "aten::sign"}
    assert "test_entry[sign]" in (tmp_path / "j.xml").read_text()
