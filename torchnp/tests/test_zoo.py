"""The tour through torch's extension points: each file runs as it is, is short, and ends in a comparison with torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import torchnp

ROOT = Path(torchnp.__file__).parent.parent
ZOO = sorted((ROOT / "examples" / "zoo").glob("*.py"))
LONGEST = 80

pytestmark = pytest.mark.skipif(not ZOO, reason="the examples are beside the package in its sources alone")


@pytest.mark.parametrize("file", ZOO, ids=lambda f: f.stem)
def test_it_runs(file, tmp_path):
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    text = file.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LONGEST and ("assert_" in text or "assert " in text)


def test_the_page_shows_each():
    page = (ROOT / "docs" / "zoo.md").read_text(encoding="utf-8")
    assert all(f"../examples/zoo/{f.name}" in page for f in ZOO) and page.count("literalinclude") == len(ZOO)
