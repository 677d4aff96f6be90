"""No module imports itself through others, including imports in functions and for type checking; packages import what
they say."""

import ast
import graphlib
import importlib
import re
from pathlib import Path

import pytest

import torchnp

ROOT = Path(torchnp.__file__).parent


def module_name(path, root=ROOT):
    parts = path.relative_to(root.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def sources(root=ROOT):
    return {module_name(p): p.read_text(encoding="utf-8") for p in root.rglob("*.py") if "tests" not in p.parts}


def named_in(nodes, name, modules):
    """Yield the modules that import statements of one module name."""
    is_package = any(m.startswith(f"{name}.") for m in modules)
    home = name if is_package else name.rpartition(".")[0]
    for node in nodes:
        if isinstance(node, ast.Import):
            named = [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = home.rsplit(".", node.level - 1)[0] if node.level else ""
            base = ".".join(filter(None, (base, node.module)))
            inner = [f"{base}.{a.name}" for a in node.names]
            named = [n if n in modules else base for n in inner]
        else:
            continue
        yield from (n for n in named if n in modules)


def imported(name, source, modules):
    """Yield the modules that a module imports anywhere in its source, except its own packages."""
    for n in named_in(ast.walk(ast.parse(source)), name, modules):
        if not f"{name}.".startswith(f"{n}."):
            yield n


def run_before(name, source, modules):
    """Yield the modules that Python runs on importing one: those of its import statements, and the packages that
    contain them."""
    for n in named_in(ast.parse(source).body, name, modules):
        parts = n.split(".")
        for m in (".".join(parts[:i]) for i in range(1, len(parts) + 1)):
            if m in modules and not f"{name}.".startswith(f"{m}."):
                yield m


def check(modules, edges=imported):
    graphlib.TopologicalSorter({n: set(edges(n, s, modules)) for n, s in modules.items()}).prepare()


@pytest.mark.parametrize("edges", [imported, run_before])
def test_no_import_circles(edges):
    check(sources(), edges)


def test_kernels_know_nothing_of_the_forms_made_of_them():
    modules = sources()
    for name, source in modules.items():
        if name.startswith("torchnp.kernels"):
            assert not [n for n in imported(name, source, modules) if n.startswith("torchnp.derived")], name


def rooms_of(modules):
    """Return the packages whose docstring lists their imports, with the listed packages."""
    found = {}
    for name, source in modules.items():
        said = re.search(r"Imports (`.*`)", (ast.get_docstring(ast.parse(source)) or "").replace("\n", " "))
        if said and any(m.startswith(f"{name}.") for m in modules):
            found[name] = re.findall(r"`(torchnp[\w.]+)`", said[1])
    return found


def test_a_room_imports_what_its_docstring_says():
    modules = sources()
    rooms = rooms_of(modules)
    assert len(rooms) >= 12
    wrong = []
    for name, source in modules.items():
        room = name.rpartition(".")[0]
        for other in imported(name, source, modules) if room in rooms else ():
            home = other.rpartition(".")[0]
            named = any(f"{other}.".startswith(f"{r}.") for r in rooms[room])
            siblings = home in rooms and home.rpartition(".")[0] == room.rpartition(".")[0]
            if home != room and siblings and not named:
                wrong.append(f"{name} imports {other}")
    assert not wrong


def test_the_server_imports_nothing_of_the_client():
    modules = sources()
    servers = [n for n in modules if n.startswith(("torchnp.rpc.server", "torchnp.rpc.wire"))]
    assert len(servers) > 40
    assert not [n for n in servers for m in imported(n, modules[n], modules) if m.startswith("torchnp.rpc.client")]


def test_a_circle_by_way_of_a_package_is_found():
    with pytest.raises(graphlib.CycleError):
        check({"p": "", "p.q": "from p.a import g", "p.q.b": "", "p.a": "from p.q.b import h"}, run_before)


def test_a_circle_is_found():
    inside = "def f():\n    from . import a"
    with pytest.raises(graphlib.CycleError):
        check({"p": "", "p.a": "from p.b import g", "p.b": inside})


def test_programs_in_strings_import_what_there_is():
    """Tests start processes with programs in strings, which no linter reads; this finds imports of moved modules in
    them."""
    missing, count = set(), 0
    for folder in (ROOT, ROOT.parent / "opinfo_tests"):
        for path in folder.rglob("*.py"):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            texts = (n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str))
            for module, names in re.findall(
                r"(?:^|;)[ \t]*from ((?:torchnp|opinfo_tests)[\w.]*) import ([\w ,]+)", "\n".join(texts), re.MULTILINE
            ):
                count += 1
                missing |= {
                    (path.name, module, name) for name in names.split(",") if not importable(module, name.split()[0])
                }
    assert not missing and count > 30


def importable(module, name):
    try:
        return hasattr(importlib.import_module(module), name) or importlib.import_module(f"{module}.{name}")
    except ImportError:
        return False


def test_a_moved_module_is_found():
    assert importable("torchnp.core", "table") and importable("torchnp.core.table", "OpTable")
    assert not importable("torchnp.core.tables", "OpTable") and not importable("torchnp.core.table", "OpTables")
