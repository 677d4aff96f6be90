"""The device ``np``: each probe of the files probes*.py, which run in one process each; and the report if torch lacks a
name."""

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from torch.utils import cpp_extension  # noqa: E402

HERE = Path(__file__).parent
FILES = sorted(path.stem for path in HERE.glob("probes*.py"))
PROBES = [
    (file, f.name)
    for file in FILES
    for f in ast.parse((HERE / f"{file}.py").read_text(encoding="utf-8")).body
    if isinstance(f, ast.FunctionDef) and f.name[0] != "_" and f.name not in ("raises", "run")
]
PRIVATE = HERE.parents[1] / "device" / "_private.py"
NEEDED = sorted(
    call.args[0].value
    for call in ast.walk(ast.parse(PRIVATE.read_text(encoding="utf-8")))
    if isinstance(call, ast.Call) and ast.unparse(call.func) == "need"
)


COMPILER = shutil.which(os.environ.get("CXX", "c++")) and cpp_extension.is_ninja_available()
# Where the extension can be built, the slower device without it is tested weekly.
PYTHON = pytest.param("0", id="python", marks=[pytest.mark.weekly] if COMPILER else [])


def with_extension(asked: str) -> dict[str, str]:
    """Return a process's environment that asks for the C++ extension, or does not."""
    if asked == "1" and not COMPILER:
        pytest.skip(reason="no C++ compiler, or no ninja")
    return os.environ | {"TORCHNP_DEVICE_EXTENSION": asked}


@pytest.fixture(scope="module", params=[PYTHON, pytest.param("1", id="extension")])
def found(request) -> dict[tuple[str, str], str]:
    results = {}
    environment = with_extension(request.param)
    for file in FILES:
        command = [sys.executable, "-W", "ignore", "-m", f"torchnp.tests.device.{file}"]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environment)
        assert ran.returncode == 0, ran.stderr
        results |= {(file, name): error for name, error in json.loads(ran.stdout.splitlines()[-1]).items()}
    return results


@pytest.mark.parametrize(("file", "name"), PROBES)
def test_device(file, name, found):
    assert not found[file, name], found[file, name]


GENERATORS = """
import torch, torchnp.device
ours, cpu = torch.Generator("np").manual_seed(3), torch.Generator().manual_seed(3)
for make in (torch.randn, torch.rand, lambda n, **how: torch.randperm(n, **how), lambda n, **how: torch.randint(9, (n,), **how)):
    assert torch.equal(make(7, generator=ours, device="np").cpu(), make(7, generator=cpu))
assert torch.equal(ours.get_state(), cpu.get_state()) and ours.device.type == "np"
storage = torch.UntypedStorage(8, device="np")
assert storage.nbytes() == 8 and bytes(storage.cpu().tolist()) == bytes(8)
x = torch.arange(6.0, device="np").reshape(2, 3)
kept = x.T[1]
del x
assert kept.tolist() == [1.0, 4.0] and kept.mul_(2).tolist() == [2.0, 8.0]
"""


def test_what_the_extension_alone_gives():
    command = [sys.executable, "-W", "error", "-c", GENERATORS]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=with_extension("1"))
    assert ran.returncode == 0, ran.stderr


def test_no_compiler_is_told_of(tmp_path):
    environment = with_extension("1") | {"CXX": "no-such-compiler", "TORCH_EXTENSIONS_DIR": str(tmp_path)}
    command = [sys.executable, "-c", "import torchnp.device"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environment)
    assert "unset TORCHNP_DEVICE_EXTENSION" in ran.stderr


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


def test_a_late_import_is_told_of():
    late = "import torch; torch.ones(1, requires_grad=True).sum().backward(); import torchnp.device"
    ran = subprocess.run([sys.executable, "-c", late], capture_output=True, text=True, check=False)
    assert "import torchnp.device before the first backward()" in ran.stderr
