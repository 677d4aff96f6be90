"""The device ``np``: each probe of on_device.py, which runs in one process of its own, and what a torch without a name says."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

HERE = Path(__file__).parent
PROBES = [
    f.name
    for f in ast.parse((HERE / "on_device.py").read_text(encoding="utf-8")).body
    if isinstance(f, ast.FunctionDef) and f.name[0] != "_" and f.name not in ("raises", "main")
]
PRIVATE = HERE.parent / "device" / "_private.py"
NEEDED = sorted(
    call.args[0].value
    for call in ast.walk(ast.parse(PRIVATE.read_text(encoding="utf-8")))
    if isinstance(call, ast.Call) and ast.unparse(call.func) == "need"
)


@pytest.fixture(scope="module")
def found() -> dict[str, str]:
    command = [sys.executable, "-W", "ignore", "-m", "torchnp.tests.on_device"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", PROBES)
def test_device(name, found):
    assert not found[name], found[name]


WITHOUT = """
import runpy, sys, torch
import torchnp.interop._private as private
look, path = private.lookup, sys.argv[1]
for name in sys.argv[2:]:
    private.lookup = lambda asked, default=None, name=name: default if asked == name else look(asked, default)
    try:
        runpy.run_path(path)
    except RuntimeError as error:
        print(error)
    else:
        print("nothing")
"""


def test_a_torch_without_a_name_is_told_of():
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT, str(PRIVATE), *NEEDED], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    said = ran.stdout.splitlines()
    assert len(NEEDED) > 7
    assert [
        f"has no torch.{name}, which torchnp needs here" in line for name, line in zip(NEEDED, said, strict=True)
    ] == [True] * len(NEEDED)


def test_the_page_runs_and_a_late_import_is_told_of():
    page = HERE.parents[1] / "docs" / "device.md"
    if page.exists():  # not in a wheel
        code = "\n".join(re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE))
        subprocess.run([sys.executable, "-c", code], check=True, timeout=600)
    late = "import torch; torch.ones(1, requires_grad=True).sum().backward(); import torchnp.device"
    ran = subprocess.run([sys.executable, "-c", late], capture_output=True, text=True, check=False)
    assert "import torchnp.device before the first backward()" in ran.stderr
