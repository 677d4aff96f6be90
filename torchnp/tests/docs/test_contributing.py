"""The steps of CONTRIBUTING for adding an op are carried out: an op is removed from a copy of the package, and put
back."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from torchnp.tests.docs.site_modules import site_module

ROOT = Path(__file__).resolve().parents[3]
FAMILY = Path("torchnp", "kernels", "power.py")
SNIPPET = site_module("blocks").texts(ROOT / "CONTRIBUTING.md", "python")[0]
ROWS = ("aten::heaviside", "aten::heaviside.out", "aten::heaviside_")


@pytest.fixture
def copy(tmp_path):
    for package in ("torchnp", "opinfo_tests"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def run(copy, *command):
    environment = os.environ | {"PYTHONPATH": str(copy), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *command], cwd=copy, env=environment, capture_output=True, text=True, timeout=300
    )
    return done.returncode, done.stdout + done.stderr


def statuses(copy):
    code = f"import torchnp; print(torchnp.__file__, *map(torchnp.table.status, {ROWS}))"
    status, printed = run(copy, "-c", code)
    assert status == 0 and str(copy) in printed, printed
    return printed.split()[1:]


def test_an_op_is_one_place_in_one_file(copy):
    family = (copy / FAMILY).read_text()
    assert family.count(SNIPPET) == 1, "CONTRIBUTING shows another body than the family file has"
    (copy / FAMILY).write_text(family.replace(SNIPPET, ""))
    assert statuses(copy) == ["absent"] * 3
    (copy / FAMILY).write_text((copy / FAMILY).read_text() + "\n\n" + SNIPPET)
    assert statuses(copy) == ["kernel", "derived", "derived"]
    status, printed = run(copy, "-m", "torchnp", "explain", "heaviside")
    assert status == 0 and "heaviside-of-nan" in printed
    status, printed = run(
        copy, "-m", "opinfo_tests", "--ops", "aten::heaviside*", "--jobs", "0", "--tier", "quick", "--dtypes", "float32"
    )
    assert status == 0, printed
    assert re.search(r"([1-9][\d,]*) of \1 calls pass, 3 overloads", printed), printed
