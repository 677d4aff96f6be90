"""Other libraries' operators are judged like torch's: by calls drawn from their schemas, and by samples from a
package."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import opinfo_tests
from opinfo_tests import namespaces

ROWS = '''
import numpy as np, torchnp

@torchnp.kernel("mylib::scale", schema="""
    scale(Tensor self, Scalar factor=2) -> Tensor
    scale_(Tensor(a!) self, Scalar factor=2) -> Tensor(a!)
    scale.out(Tensor self, Scalar factor=2, *, Tensor(a!) out) -> Tensor(a!)
""")
def scale(self, factor=2):
    return torchnp.aten.mul(self, factor)

@torchnp.kernel("mylib::wrong", schema="wrong(Tensor self) -> Tensor")
def wrong(self):
    return np.where(self == 7, self, torchnp.aten.neg(self))

@torchnp.kernel("mylib::read", schema="read(Tensor self, int place) -> Tensor")
def read(self, place):
    return self[place]
'''
SAMPLES = """
import numpy as np, torch
from opinfo_tests.generate.constraints.constraint import rule

library = torch.library.Library("mylib", "DEF")
library.define("scale(Tensor self, Scalar factor=2) -> Tensor")
library.define("scale_(Tensor(a!) self, Scalar factor=2) -> Tensor(a!)")
library.define("scale.out(Tensor self, Scalar factor=2, *, Tensor(a!) out) -> Tensor(a!)")
library.define("wrong(Tensor self) -> Tensor")
library.define("read(Tensor self, int place) -> Tensor")
library.define("absent(Tensor self) -> Tensor")
library.impl("scale", lambda x, factor=2: x * factor, "CPU")
library.impl("scale_", lambda x, factor=2: x.mul_(factor), "CPU")
library.impl("scale.out", lambda x, factor=2, *, out: torch.mul(x, factor, out=out), "CPU")
library.impl("wrong", lambda x: -x, "CPU")

def read(x, place):
    assert 0 <= place < len(x), "it would read beyond its memory"
    return x[place].clone()

library.impl("read", read, "CPU")
UNDRAWN = {"mylib::read": "it trusts the place"}
RULES = (rule("mylib::wrong", dtypes="wide"),)

def samples(op, dtype):
    if op == "mylib::wrong" and dtype == "float32":
        yield (torch.arange(9.0),), {}
    if op == "mylib::scale" and dtype == "int64":
        yield (np.arange(4),), {"factor": 3}
    if op == "mylib::read" and dtype == "float64":
        yield (np.arange(4.0), 2), {}
"""


def judged(folder, *options):
    """Return the command's output and the rows of its report, with an installed package that has rows and samples of
    mylib."""
    (folder / "mylib_rows.py").write_text(ROWS)
    (folder / "mylib_samples.py").write_text(SAMPLES)
    info = folder / "mylib_rows-1.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mylib-rows\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[torchnp.kernels]\nmylib = mylib_rows\n[torchnp.samples]\nmylib = mylib_samples\nbroken = json:loads\n"
    )
    path = os.pathsep.join(map(str, (folder, Path(opinfo_tests.__file__).parent.parent)))
    report = folder / "report.jsonl"
    command = [sys.executable, "-W", "ignore", "-m", "opinfo_tests", "--report", str(report), *options]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
    rows = [json.loads(line) for line in report.read_text().splitlines()] if report.exists() else []
    return done, [row for row in rows if "outcome" in row]


def test_the_samples_of_shipped_rows_are_there():
    assert namespaces.OF_SHIPPED.keys() >= {"torchvision", "transformers"}
    assert all(importlib.util.find_spec(module) for module in namespaces.OF_SHIPPED.values())


def test_draws_and_samples_judge_a_library(tmp_path):
    done, rows = judged(tmp_path, "--ops", "mylib::*", "--draws", "30", "--jobs", "1", "--shrink", "5")
    assert done.returncode == 1, done.stderr
    outcomes = Counter((row["op"], row["sample"].partition("/")[0], row["outcome"]) for row in rows)
    assert {op for op, _, outcome in outcomes if outcome not in ("pass", "unspecified")} == {"mylib::wrong"}, (
        done.stdout
    )
    assert outcomes["mylib::wrong", "drawn", "wrong-value"] and outcomes["mylib::wrong", "given", "wrong-value"]
    for form in ("scale", "scale_", "scale.out"):
        assert outcomes[f"mylib::{form}", "drawn", "pass"] >= 15 and outcomes[f"mylib::{form}", "given", "pass"]
    drawn = {row["dtype"] for row in rows if row["sample"] == "drawn/mylib::wrong" and row["outcome"] == "wrong-value"}
    assert drawn <= {"float32", "float64"}  # as the package's rule says
    reads = [key[1] for key in outcomes if key[0] == "mylib::read"]
    assert reads == ["given"] and outcomes["mylib::read", "given", "pass"] >= 1  # with other memory layouts, too
    assert "absent mylib::absent" in done.stdout


def test_what_cannot_be_judged_is_told(tmp_path):
    for ops, words in (
        ("nolib::op", "torch has no operator of nolib: a package names a module"),
        ("mylib::scal", "no registered overload matches 'mylib::scal'; the closest are mylib::scale"),
        ("broken::*", "an entry point of torchnp.samples names a module"),
    ):
        done, _ = judged(tmp_path, "--ops", ops)
        assert done.returncode == 2 and words in done.stderr, done.stderr
