"""Failures from any source are shrunk to a few elements; they fail in the same way and keep their id."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

import opinfo_tests
import torchnp
from opinfo_tests.backends.backend import Table
from opinfo_tests.backends.torch_backend import TorchDevice
from opinfo_tests.case import Case
from opinfo_tests.generate.samples.opinfo import samples_of
from opinfo_tests.generate.samples.recording import Recorder, freeze
from opinfo_tests.generate.task import Task
from opinfo_tests.report.shrink import kind_of_failure, shrink, weight
from opinfo_tests.run import command
from opinfo_tests.run.isolated_calls import Shrinker, Trials
from opinfo_tests.run.runner import run_case
from opinfo_tests.tests.mutants import MUTATIONS, Mutated

ORACLE = TorchDevice("cpu")

# overload, OpInfo entry, mutation, and the largest number of elements and of arguments of the shrunk failure
MUTANTS = [
    ("add.Tensor", "add", "alpha-ignored", 3),
    ("mul.Tensor", "mul", "one-ulp", 4),
    ("sub.Tensor", "sub", "arguments-swapped", 3),
    ("sum.dim_IntList", "sum", "keepdim-ignored", 2),
    ("cat", "cat", "one-ulp", 4),
    ("mm", "mm", "half-precision", 12),
    ("transpose.int", "transpose", "view-copied", 2),
    ("maximum", "maximum", "nan-dropped", 2),
    ("gather", "gather", "one-ulp", 3),
    ("native_layer_norm", "nn.functional.layer_norm", "half-precision", 8),
    ("mul.out", "mul", "out-not-written", 3),
]


def failing(op: str, source: str, table: Any, outcome: str) -> Case:
    """Return the largest of an entry's first cases that fails in this way."""
    backend, found = Table(table), []
    recorder = Recorder(lambda name: name == op, found.append)
    for _ in samples_of(Task(source, "float32"), recorder):
        if len(found) > 60:
            break
    bad = [c for c in found if run_case(c, ORACLE, backend)[0].outcome == outcome]
    return max(bad, key=lambda c: (weight(c)[0] < 2000, weight(c)[0]))


@pytest.mark.parametrize(("op", "source", "mutation", "most"), MUTANTS)
def test_mutants_shrink_to_a_few_elements(op, source, mutation, most):
    op, outcome = f"aten::{op}", MUTATIONS[mutation][1]
    table = Mutated(torchnp.table, op, mutation)
    case = failing(op, source, table, outcome)

    def kind_of(other: Case) -> tuple[str, str]:
        verdict = run_case(other, ORACLE, Table(table))[0]
        return kind_of_failure(verdict.outcome, verdict.message)

    small = shrink(case, kind_of, seconds=5)
    assert kind_of(small)[0] == kind_of(case)[0] == outcome
    assert weight(small)[0] <= most, small.describe()
    assert small.id == case.id


def test_what_is_shared_stays_shared():
    """A failure that needs two windows on one memory keeps both."""
    x = torch.arange(40.0).reshape(4, 10)
    case = freeze("aten::copy_", (x[:, 1:], x[:, :-1]), {}, "test", "")
    shares = lambda c: ("shared" if len({a.buffer for a in c.arrays()}) == 1 and weight(c)[0] else "apart", "")
    small = shrink(case, shares, seconds=2)
    assert len(small.buffers) == 1 and weight(small)[0] == 2
    assert small.buffers[0].size <= 16 + 8


@pytest.mark.parametrize("mutation", ["dies", "hangs"])
def test_trials_outlive_what_kills_them(mutation):
    trials = Trials(Table(Mutated(torchnp.table, "aten::sin", mutation)), patience=0.5)
    case = freeze("aten::sin", (torch.ones(3),), {}, "test", "")
    assert [trials(case)[0] for _ in range(2)] == [MUTATIONS[mutation][1]] * 2
    assert trials(freeze("aten::cos", (torch.ones(3),), {}, "test", ""))[0] == "pass"
    trials.close()


def cube_roots(self: Any) -> np.ndarray:
    return np.cbrt(self) if self.ndim > 1 and self.shape[1] > 2 else np.sqrt(self)


SQRT = {"aten::sqrt": cube_roots}


def test_repro_scripts_hold_the_shrunk_call(tmp_path, capsys):
    """From the command line: the script has the shrunk call, keeps the id, and still shows the difference."""
    options = [
        "--backend",
        "opinfo_tests.tests.test_shrink:SQRT",
        "--ops",
        "sqrt",
        "--dtypes",
        "float64",
        "--jobs",
        "1",
    ]
    (tmp_path / "none.toml").touch()
    assert command.main([*options, "--repro", str(tmp_path / "r"), "--gaps", str(tmp_path / "none.toml")]) == 1
    assert "shrunk: aten::sqrt(float64[1,3]" in capsys.readouterr().out.replace(", ", ",")
    scripts = sorted((tmp_path / "r").glob("repro_*.py"))
    texts = [s.read_text() for s in scripts]
    shrunk = [(s, t) for s, t in zip(scripts, texts, strict=True) if ", shrunk" in t]
    assert shrunk
    script, text = shrunk[0]
    assert f"repro_{text.partition('case aten::')[2].split(',')[0].replace('/', '_')}.py" == script.name
    assert "The simplest call found that fails alike" in script.with_suffix(".md").read_text()
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1 and "DIFFERENT" in done.stdout, done.stderr


def test_known_failures_are_left_as_they_are():
    from opinfo_tests.report.gaps import Gap

    backend = opinfo_tests.table(SQRT, "mine")
    case = freeze("aten::sqrt", (torch.rand(4, 5),), {}, "test", "")
    verdict = run_case(case, ORACLE, backend)[0]
    row = {"op": case.op, "dtype": case.dtype, "id": case.id, "outcome": verdict.outcome, "message": verdict.message}
    known = Shrinker(backend, 2.0, [Gap("aten::sqrt", "*", "wrong-value", "it is known")])
    assert known(row | {"case": case}) == row
    known.close()
