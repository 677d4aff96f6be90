"""``torchnp new`` writes packages that pass their own tests at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import torchnp
from torchnp.cli import main

ROOT = Path(torchnp.__file__).parent.parent
LIBRARY = """
import torch

library = torch.library.Library("mylib", "DEF")
library.define("scale(Tensor self, Scalar factor=2) -> Tensor")
library.define("scale_(Tensor(a!) self, Scalar factor=2) -> Tensor(a!)")
library.define("both(Tensor self, Tensor other, *, bool turned=False) -> (Tensor, Tensor)")
library.define("forget_(Tensor(a!) x) -> ()")
library.impl("scale", lambda x, factor=2: x * factor, "CPU")
library.impl("scale_", lambda x, factor=2: x.mul_(factor), "CPU")
library.impl("both", lambda x, y, *, turned=False: (x - y, x + y) if turned else (x + y, x - y), "CPU")
"""


def conform(folder, *options):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder), str(folder.parent)])}
    command = [sys.executable, "-m", "torchnp", "conform", "--draws", "2", "--jobs", "0", *options]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def test_an_engine_passes_on_the_first_try(tmp_path, capsys):
    assert main(["new", "engine", "my_chip", "--directory", str(tmp_path)]) == 0
    assert "my_chip/engine.py" in capsys.readouterr().out
    texts = {str(p.relative_to(tmp_path)): p.read_text() for p in tmp_path.rglob("*") if p.is_file()}
    assert len(texts) == 7 and not any("$name" in text or "${" in text.replace("${{", "") for text in texts.values())
    options = ["--backend", "engine:my_chip:MyChipEngine", "--no-samples", "--dtypes", "float32"]
    done = conform(tmp_path / "my_chip", *options, "--ops", "aten::s*,aten::mul.Tensor,aten::mm")
    assert done.returncode == 0 and "calls pass, 10 overloads" in done.stdout, done.stdout + done.stderr


@pytest.mark.weekly
def test_all_that_an_engine_declares_passes(tmp_path):
    main(["new", "engine", "my_chip", "--directory", str(tmp_path)])
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["pytest", "-q"],
        cwd=tmp_path / "my_chip",
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


def test_kernels_pass_on_the_first_try(tmp_path):
    (tmp_path / "mylib.py").write_text(LIBRARY)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])}
    command = ["-m", "torchnp", "new", "kernels", "mylib_rows", "--library", "mylib", "--directory", str(tmp_path)]
    done = subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "mylib_rows"
    rows = (folder / "mylib_rows" / "kernels.py").read_text()
    assert "def scale(self, factor=2):" in rows and "def both(self, other, *, turned=False):" in rows
    readme = (folder / "README.md").read_text()
    assert "mylib::forget_" in readme and "pip install -e ." in readme and "forget" not in rows
    installed = folder / "mylib_rows-0.1.0.dist-info"  # as pip would make it from pyproject.toml
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: mylib-rows\nVersion: 0.1.0\n")
    text = (folder / "pyproject.toml").read_text()
    points = "\n".join(f"[torchnp.{kind}]\nmylib = mylib_rows.{kind}" for kind in ("kernels", "samples"))
    assert all(f'mylib = "mylib_rows.{kind}"' in text for kind in ("kernels", "samples"))
    (installed / "entry_points.txt").write_text(points)
    done = conform(folder, "--ops", "mylib::*")
    assert done.returncode == 0 and "calls pass, 3 overloads" in done.stdout, done.stdout + done.stderr


def test_what_it_refuses(tmp_path, capsys):
    for wrong, words in (
        (["engine", "My-Chip"], "no name of a package"),
        (["engine", "x", "--library", "y"], "torchnp new kernels NAME --library"),
        (["kernels", "x"], "torchnp new kernels NAME --library"),
        (["kernels", "x", "--library", "nowhere"], "No module named"),
        (["kernels", "x", "--library", "nowhere", "--module", "json"], "registers no functional operator"),
    ):
        assert main(["new", *wrong, "--directory", str(tmp_path)]) == 2
        assert words in capsys.readouterr().err
    main(["new", "engine", "twice", "--directory", str(tmp_path)])
    assert main(["new", "engine", "twice", "--directory", str(tmp_path)]) == 2
    assert "is there already" in capsys.readouterr().err


WRONG = """
import numpy as np, torchnp
from torchnp.engine import Engine
from torchnp.interop import to_numpy, to_torch

class Wrong(Engine):
    name = "wrong"
    ops = {"aten::sin": torchnp.table["aten::sin"], "aten::exp": lambda x: torchnp.table["aten::exp"](x) * 1.001,
           "aten::mul.Tensor": torchnp.table["aten::mul.Tensor"]}
    dtypes = ("float32",)
    decompositions = {"aten::cos": lambda x: x}

    def upload(self, tensor):
        return to_numpy(tensor).copy()

    def download(self, payload, spec):
        return to_torch(payload.astype("float32"))

class Rough(Wrong):
    tolerances = {"float32": (0.01, 0.01)}
    decompositions = {}
"""


@pytest.mark.weekly
def test_wrong_values_and_gradients_are_found(tmp_path):
    """Results within a declared tolerance pass; a gradient that needs a missing operator is reported as such."""
    (tmp_path / "wrong.py").write_text(WRONG)
    done = conform(tmp_path, "--backend", "engine:wrong:Wrong", "--no-samples", "--draws", "6")
    assert done.returncode == 1 and "GradientError" in done.stdout, done.stdout + done.stderr
    assert "wrong-value" in done.stdout
    done = conform(tmp_path, "--backend", "engine:wrong:Rough", "--no-samples", "--draws", "6")
    assert done.returncode == 0 and "its gradient needs aten::cos" in done.stdout, done.stdout + done.stderr


@pytest.mark.skipif(not (ROOT / "examples").exists(), reason="the examples are beside the package in its sources alone")
def test_an_engine_with_a_process_of_its_own_is_judged_in_the_harness_processes():
    options = ["--backend", "engine:numpy_process:NumpyProcess", "--no-samples", "--dtypes", "float32", "--jobs", "1"]
    done = conform(ROOT / "examples" / "engines", *options, "--ops", "aten::exp")
    assert done.returncode == 0 and "calls pass, 1 overload" in done.stdout, done.stdout + done.stderr
