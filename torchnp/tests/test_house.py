"""The measures of the house: files and functions that can be read at one sitting, and a room without rows."""

import ast
from collections import defaultdict
from pathlib import Path

import opinfo_tests
import torchnp
from torchnp.core.registry import REGISTERED

ROOT = Path(torchnp.__file__).parent
MODULES = sorted(p for p in ROOT.rglob("*.py") if "tests" not in p.relative_to(ROOT).parts)
LONGEST_FILE, LONGEST_FUNCTION = 600, 60  # lines; ruff holds the complexity, see pyproject.toml


def test_files_are_short():
    lengths = {str(p.relative_to(ROOT)): p.read_text().count("\n") for p in MODULES}
    assert {name: n for name, n in lengths.items() if n > LONGEST_FILE} == {}


def test_functions_are_short():
    functions = [
        (path, node)
        for path in MODULES
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


# Modules of one name: one family's rows, their gradients and their prims; what a package starts, keeps to itself or gives its tests; the
# generator and the rows that draw from it.
FAMILIES = {"kernels", "kernels/backward", "kernels/prims"}
OF_EACH_PACKAGE = {"__init__", "__main__", "_private", "conftest"}
ONE_MEANING = {"random": {"", "kernels"}}


def test_a_name_says_one_thing():
    homes = defaultdict(set)
    for package in (torchnp, opinfo_tests):
        top = Path(package.__file__).parent
        for path in top.rglob("*.py"):
            home = path.relative_to(top).parent.as_posix().removeprefix(".")
            homes[path.stem].add(home if top == ROOT else f"../{top.name}/{home}")
    shared = {name for name, places in homes.items() if len(places) > 1 and not places <= FAMILIES} - OF_EACH_PACKAGE
    assert {name: homes[name] for name in shared} == ONE_MEANING
