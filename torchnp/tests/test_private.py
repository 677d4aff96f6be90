"""What is private elsewhere stands in one module, and may go: the public ways give the same."""

import re
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import torchnp
from torchnp import _private

PACKAGE = Path(torchnp.__file__).parent
PRIVATE = re.compile(
    r"(?:import|from)\s+(?:numpy|scipy)[\w.]*\._\w|(?:import|from) (?:numpy|scipy)[\w.]* import _\w|\bnp\._\w"
)


def test_private_names_stand_in_one_module():
    found = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if path.name != "_private.py" and "tests" not in path.parts and PRIVATE.search(path.read_text())
    }
    assert not found


def test_without_numpys_variable_kernels_are_quiet_all_the_same():
    program = """
import numpy as np
if hasattr(np, "_core"):
    del np._core.umath._extobj_contextvar
import warnings; warnings.simplefilter("error", RuntimeWarning)
import torchnp
from torchnp import _private
assert _private.leave_quiet is _private._leave_errstate
x = np.array([0.0, 1.0], np.float32)
assert str(torchnp.aten.log(x)) == "[-inf   0.]", torchnp.aten.log(x)
assert np.isnan(torchnp.aten.var(x[:1]))
assert torchnp.aten.div(x, x[:1]).tolist()[1] == np.inf
np.seterr(divide="raise")
torchnp.aten.log_(x)
try:
    np.log(np.zeros(1))
except FloatingPointError:
    print("restored")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "restored\n", done.stderr


@pytest.mark.parametrize("umath", [np._core.umath if hasattr(np, "_core") else None, types.SimpleNamespace(), None])
def test_quiet_state(umath):
    enter, leave = _private.quiet_state(umath)
    with np.errstate(divide="warn", invalid="raise"):
        before, token = np.geterr(), enter()
        assert set(np.geterr().values()) == {"ignore"}
        leave(token)
        assert np.geterr() == before


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
def test_rows_are_added_alike(dtype):
    rng = np.random.default_rng(0)
    index, rows = rng.integers(0, 5, 40), rng.standard_normal((40, 9)).astype(dtype)
    one, other = np.ones((5, 9), dtype), np.ones((5, 9), dtype)
    _private.add_rows_of()(one, index, rows)
    _private.add_rows_at(other, index, rows)
    assert np.array_equal(one, other)


def test_without_scipys_loop(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.sparse._sparsetools", None)
    assert _private.add_rows_of.__wrapped__() is _private.add_rows_at
