"""Private names of other libraries may disappear, so each is used in one module only; without them, public ways give
the same."""

import ast
import re
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import torchnp
from torchnp import _private_numpy

PACKAGE = Path(torchnp.__file__).parent
TREES = {
    path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text())
    for path in PACKAGE.rglob("*.py")
    if "tests" not in path.parts
}
# Not private to a library: names of operators, Python's frames and exit, and a namedtuple's copy with changed fields.
ALLOWED = re.compile(r"(torch\.ops\.)?(aten|prims)\._\w+|sys\._getframe|os\._exit|.*\._replace")


def is_private(name):
    """Return whether a name begins with one underscore, after removing the class from mangled names
    (``_Class__values``)."""
    name = re.sub(r"^_[A-Z]\w*?(?=__\w)", "", name)
    return name.startswith("_") and not name.startswith("__")


def defined(tree):
    """Yield the names that a module gives to functions, classes, variables, attributes and slots."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__slots__":
            yield from ast.literal_eval(node.value)


OURS = {name for tree in TREES.values() for name in defined(tree)}


def foreign_privates(tree):
    """Yield names with an underscore that a module imports or reads from other libraries."""
    theirs = set()  # names in this module that refer to other libraries
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            home = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            for path in [f"{home}.{a.name}".strip(".") for a in node.names]:
                if not path.startswith("torchnp"):
                    theirs |= {a.asname or a.name.partition(".")[0] for a in node.names}
                    yield from [path] if any(map(is_private, path.split("."))) else []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr) and not isinstance(node.ctx, ast.Store):
            text = ast.unparse(node)
            if (node.attr not in OURS or text.partition(".")[0] in theirs) and not ALLOWED.fullmatch(text):
                yield text


def test_private_names_stand_in_four_modules():
    found = {module: list(foreign_privates(tree)) for module, tree in TREES.items()}
    assert {module for module, names in found.items() if names} == {
        "_private_numpy.py",
        "compiler/_private.py",
        "device/_private.py",
        "interop/_private.py",
    }


@pytest.mark.parametrize(
    "source",
    [
        "import torch\nx = torch._C._get_dispatch_mode",
        "import numpy as np\nnp._core.umath",
        "from torch._ops import OpOverload",
        "from scipy import _lib",
        "import scipy.sparse._sparsetools",
        "def f(func):\n    return func._overloadpacket",
        "import torch\ntorch._conj(x)",
    ],
)
def test_a_private_name_is_found(source):
    assert list(foreign_privates(ast.parse(source)))


def test_the_one_of_torch_reaches_its_private_names_by_lookup():
    for_mypy = {"torch._ops.OpOverload", "torch.utils._python_dispatch.TorchDispatchMode"}
    assert set(foreign_privates(TREES["interop/_private.py"])) == for_mypy


def test_without_numpys_variable_kernels_are_quiet_all_the_same():
    program = """
import numpy as np
if hasattr(np, "_core"):
    del np._core.umath._extobj_contextvar
import warnings; warnings.simplefilter("error", RuntimeWarning)
import torchnp
from torchnp import _private_numpy
assert _private_numpy.leave_quiet is _private_numpy._leave_errstate
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
    enter, leave = _private_numpy.quiet_state(umath)
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
    _private_numpy.add_rows_of()(one, index, rows)
    _private_numpy.add_rows_at(other, index, rows)
    assert np.array_equal(one, other)


def test_without_scipys_loop(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.sparse._sparsetools", None)
    assert _private_numpy.add_rows_of.__wrapped__() is _private_numpy.add_rows_at


@pytest.mark.parametrize("seed", [0, 5489, 2**32 - 1])
def test_engines_are_seeded_alike(seed):
    without = type("MT19937", (np.random.MT19937,), {"_legacy_seeding": None})  # NumPy compares the class's name
    one, other = np.random.MT19937(1), without(1)
    _private_numpy.seed_engine(one, seed)
    _private_numpy.seed_engine(other, seed)
    assert np.array_equal(one.random_raw(1300), other.random_raw(1300))


def test_without_scipys_direction_numbers(monkeypatch):
    from scipy.stats import qmc

    assert _private_numpy.sobol_directions(3, 30).shape == (3, 30)
    monkeypatch.setattr(qmc, "Sobol", lambda *args, **kwargs: types.SimpleNamespace())
    with pytest.raises(RuntimeError, match="direction numbers: use SciPy"):
        torchnp.aten._sobol_engine_initialize_state_(np.zeros((3, 30), np.int64), 3)
