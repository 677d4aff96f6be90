"""No module imports itself by way of others, at whatever level of indentation; what never runs is left out."""

import ast
import graphlib
from pathlib import Path

import pytest

import torchnp

ROOT = Path(torchnp.__file__).parent


def module_name(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def sources(root=ROOT):
    return {module_name(p): p.read_text(encoding="utf-8") for p in root.rglob("*.py") if "tests" not in p.parts}


def running(node):
    """The nodes of a tree without the blocks that only type checkers read."""
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
            yield child
            yield from running(child)


def imported(name, source, modules):
    """The modules that one names in its imports; its packages, which Python runs before it, are none of them."""
    is_package = any(m.startswith(f"{name}.") for m in modules)
    home = name if is_package else name.rpartition(".")[0]
    for node in running(ast.parse(source)):
        if isinstance(node, ast.Import):
            named = [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = home.rsplit(".", node.level - 1)[0] if node.level else ""
            base = ".".join(filter(None, (base, node.module)))
            inner = [f"{base}.{a.name}" for a in node.names]
            named = [n if n in modules else base for n in inner]
        else:
            continue
        yield from (n for n in named if n in modules and not f"{name}.".startswith(f"{n}."))


def check(modules):
    graphlib.TopologicalSorter({n: set(imported(n, s, modules)) for n, s in modules.items()}).prepare()


def test_no_import_circles():
    check(sources())


def test_kernels_know_nothing_of_the_forms_made_of_them():
    modules = sources()
    for name, source in modules.items():
        if name.startswith("torchnp.kernels"):
            assert not [n for n in imported(name, source, modules) if n.startswith("torchnp.derived")], name


def test_a_circle_is_found():
    inside = "def f():\n    from . import a"
    with pytest.raises(graphlib.CycleError):
        check({"p": "", "p.a": "from p.b import g", "p.b": inside})
