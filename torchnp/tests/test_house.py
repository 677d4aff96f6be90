"""House rules: short files and functions, errors caught by name, unique class names."""

import ast
import random
from collections import Counter, defaultdict
from pathlib import Path

import opinfo_tests
import torchnp
from torchnp.core.registry import REGISTERED

ROOT = Path(torchnp.__file__).parent


def modules_of(package):
    top = Path(package.__file__).parent
    return sorted(p for p in top.rglob("*.py") if "tests" not in p.relative_to(top).parts)


MODULES = modules_of(torchnp)
BOTH = MODULES + modules_of(opinfo_tests)
CALLERS = {"engine", "mpc", "np", "portable"}  # a second table, and packages that call operators for another purpose
LONGEST_FILE, LONGEST_FUNCTION = 600, 60  # lines; ruff holds the complexity, see pyproject.toml


def test_files_are_short():
    lengths = {str(p.relative_to(ROOT.parent)): p.read_text().count("\n") for p in BOTH}
    assert {name: n for name, n in lengths.items() if n > LONGEST_FILE} == {}


def test_functions_are_short():
    functions = [
        (path, node)
        for path in BOTH
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert [f"{p.name}: {f.name}" for p, f in functions if f.end_lineno - f.lineno >= LONGEST_FUNCTION] == []


def test_numerics_declares_no_rows():
    assert torchnp.table
    assert not [name for name, row in REGISTERED.items() if row.family.startswith("numerics")]


def test_exceptions_are_caught_by_name():
    caught = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or {"Exception", "BaseException"} & set(ast.unparse(node.type).strip("()").split(", ")))
    ]
    assert not caught


def test_a_class_name_says_one_thing():
    homes = defaultdict(set)
    for path in BOTH:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                homes[node.name].add(path.relative_to(ROOT.parent).as_posix())
    assert homes["OpTable"]
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}


def operators_named_in(path):
    """Return the strings of a module (without docstrings) as names of operators: ``aten::add.Tensor`` is ``add``."""
    tree = ast.parse(path.read_text())
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = (
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs
    )
    return {word.rpartition("::")[2].partition(".")[0] for text in texts for word in text.split()}


def test_what_one_operator_does_stands_in_few_files(capsys):
    """Checks 50 random operators.

    Names that are also names of arguments are left out, because they cannot be told apart.
    """
    arguments = {a.name for schema in torchnp.table.schemas.values() for a in schema.args}
    ours = [name for name in REGISTERED if name.startswith(("aten::", "prims::"))]  # other tests may register more
    bases = {name.partition("::")[2].partition(".")[0] for name in ours}
    chosen = random.Random(5).sample(sorted(bases - arguments), 50)
    named = [operators_named_in(path) for path in MODULES if path.relative_to(ROOT).parts[0] not in CALLERS]
    files = Counter(sum(base in words for words in named) for base in chosen)
    with capsys.disabled():
        print(f"\nmodules that name an operator, of 50: {dict(sorted(files.items()))}")
    assert sum(n for count, n in files.items() if 1 <= count <= 3) >= 42
