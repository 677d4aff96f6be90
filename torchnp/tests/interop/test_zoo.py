"""The tour through torch's extension points: each file is short, compares with torch, and is run by its page.

test_guides.py runs the page, as the site's build does.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import torchnp
from torchnp.tests.docs.site_modules import DOCS, site_module

ROOT = Path(torchnp.__file__).parent.parent
ZOO = sorted((ROOT / "examples" / "zoo").glob("*.py"))
LONGEST = 80

pytestmark = pytest.mark.skipif(not ZOO, reason="the examples are beside the package in its sources alone")


@pytest.mark.parametrize("file", ZOO, ids=lambda f: f.stem)
def test_it_is_short_and_compares(file):
    text = file.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LONGEST and ("assert_" in text or "assert " in text)


def test_the_page_shows_each_and_runs_it():
    page = DOCS / "zoo.md"
    text = page.read_text(encoding="utf-8")
    assert all(f"../examples/zoo/{f.name}" in text for f in ZOO) and text.count("literalinclude") == len(ZOO)
    commands = {b.code.partition("\n")[0] for b in site_module("blocks").find(page) if not b.why}
    assert commands == {f"$ python examples/zoo/{f.name}" for f in ZOO}
