"""What README and the pages show is run: every Python block, and the values in their comments."""

import ast
import importlib.util
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

import torchnp
from torchnp import rpc

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page):
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def cases():
    for page in PAGES:
        if page.name not in ("differences.md", "device.md"):  # which test_differences runs, and a process of its own
            code = "\n".join(blocks(page))
            if code:
                yield pytest.param(code, id=page.name)


@pytest.mark.parametrize("code", list(cases()))
def test_python_blocks_run(code, tmp_path, monkeypatch):
    """A statement whose line has a comment that begins with a number must give that number."""
    monkeypatch.chdir(tmp_path)  # examples may save files
    monkeypatch.setattr(
        "torchnp.rpc.client.connecting.connect", lambda address: rpc.local()
    )  # the server of `torchnp serve`
    torch.manual_seed(0)
    names = {}
    lines = code.splitlines()
    for node in ast.parse(code).body:
        source = ast.get_source_segment(code, node)
        comment = re.search(r"#\s*\[?(-?[\d.]+)\b", lines[node.end_lineno - 1])
        if isinstance(node, ast.Expr) and comment:
            value = np.ravel(np.asarray(eval(source, names)))[0]
            assert float(value) == pytest.approx(float(comment[1]), rel=1e-6), source
        else:
            exec(compile(ast.Module([node], []), "<page>", "exec"), names)


def test_arguments_that_are_explained_are_of_operators(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    words = importlib.import_module("argument_words")
    names = {(f"{s.namespace}::{s.base}", a.name) for s in torchnp.table.schemas.values() for a in s.args}
    assert not words.WORDS.keys() - {name for _, name in names} and not words.OF.keys() - names
    core = [a for s in torchnp.table.schemas.values() if "core" in s.tags for a in s.args]
    assert sum(a.name in words.WORDS for a in core) > 0.85 * len(core)


def test_plots_are_drawn_of_what_is_so(monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.syspath_prepend(ROOT / "docs")
    plots = importlib.import_module("plots")
    numpys, torchs = plots.steps("NumPy"), plots.steps("torch")
    assert {("int8", "float16"), ("int64", "float64"), ("uint8", "int16")} <= numpys
    assert {("int64", "float16"), ("int64", "bfloat16"), ("uint8", "int16")} <= torchs
    assert ("bool", "float64") not in numpys | torchs  # which follows
    _, errors = plots.ulps()
    assert dict(errors)["hypot"] == pytest.approx([0.5] * 6, abs=0.02)
    counts = sum((found for _, found in plots.coverage()), Counter())
    assert counts.total() == sum(n.startswith(("aten::", "prims::")) for n in torchnp.table.schemas)


def test_readme_status_is_up_to_date():
    spec = importlib.util.spec_from_file_location("readme_status", ROOT / "scripts" / "readme_status.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = (ROOT / "README.md").read_text()
    assert module.updated(text) == text, "run scripts/readme_status.py"
