"""`torchnp/typed.pyi`, the types of the ops for type checkers and editors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import torchnp

ROOT = Path(__file__).parents[3]
RIGHT = """
import numpy as np
import numpy.typing as npt

import torchnp
from torchnp import aten, prims

x = np.ones((2, 3), np.float32)
i = np.array([0, 1])
a: npt.NDArray[np.float32] = aten.add.Tensor(x, x, alpha=2)
b = aten.add(x, 1)
c, d = aten.max.dim(x, 1)
e = aten.sum.dim_IntList(x, [0], True, dtype=np.float64)
f = aten.split(x, 1)
g = aten.softmax.int(x, -1)
h = aten.native_layer_norm(x, [3], None, None, 1e-5)[0]
j = aten.var.correction(x, [1], correction=0)
k = aten.index_select(x, 0, i)
l = aten.cat([x, x], 1)
m = aten.where.self(aten.gt.Scalar(x, 0), x, aten.neg.default(x))
n = aten.matmul(x, aten.t(x))
o = aten.zeros([2, 2], dtype=np.float32)
p = aten.expand(x, [4, 2, 3])
q = aten.clamp(x, 0.0, 1.0)
r = aten.topk(x, 2)
s, t, u = aten.unique_consecutive(x, True, True)
v = prims.mul(x, x)
w = aten.add_.Tensor(x, x)
y = aten.permute(x, (1, 0))
z: bool = aten.equal(x, x)
print(torchnp.table["aten::add.Tensor"].schema, torchnp.__version__)
"""
WRONG = """
import numpy as np

from torchnp import aten

aten.add.Tensor(np.ones(2), "x")
aten.add.Tensr(np.ones(2), 1)
aten.no_such_op(1)
aten.softmax.int(np.ones(2))
"""
SAID = ["incompatible type", 'maybe "Tensor"?', 'no attribute "no_such_op"', 'Missing positional argument "dim"']


def test_stubs_are_those_of_the_table():
    script = ROOT / "scripts" / "make_stubs.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, timeout=300)
    assert not done.returncode, done.stdout + done.stderr


def test_every_op_is_there():
    text = (Path(torchnp.__file__).parent / "typed.pyi").read_text(encoding="utf-8")
    missing = [op for space in (torchnp.aten, torchnp.prims) for op in dir(space) if f"{op}: _" not in text]
    assert not missing


@pytest.mark.parametrize("text, said", [(RIGHT, []), (WRONG, SAID)], ids=["right", "wrong"])
def test_a_strict_checker_knows_the_ops(tmp_path, text, said):
    pytest.importorskip("mypy")
    script = tmp_path / "script.py"
    script.write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache", script],
        capture_output=True, text=True, timeout=600, cwd=tmp_path,
    )  # fmt: skip
    found = [line for line in done.stdout.splitlines() if "error:" in line]
    assert len(found) == len(said) and all(words in line for words, line in zip(said, found, strict=True)), done.stdout


def test_the_script_that_passes_runs(capsys):
    exec(compile(RIGHT, "script", "exec"), {})
    assert "aten::add.Tensor(" in capsys.readouterr().out
