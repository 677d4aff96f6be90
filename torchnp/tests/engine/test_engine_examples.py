"""The examples of the engine's page: each is short, compares its results with torch, and is run by the page."""

from __future__ import annotations

from pathlib import Path

import pytest

import torchnp
from torchnp.tests.docs.site_modules import DOCS

EXAMPLES = sorted((Path(torchnp.__file__).parent.parent / "examples" / "engines").glob("*.py"))

pytestmark = pytest.mark.skipif(not EXAMPLES, reason="the examples are beside the package in its sources alone")


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda f: f.stem)
def test_it_is_short_and_shown(file):
    text = file.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 80
    assert f"../examples/engines/{file.name}" in (DOCS / "engine.md").read_text(encoding="utf-8")


def test_those_that_run_alone_compare_and_are_run():
    page = (DOCS / "engine.md").read_text(encoding="utf-8")
    alone = [f for f in EXAMPLES if f.stem.startswith("own_")]
    assert len(alone) == 2
    for file in alone:
        text = file.read_text(encoding="utf-8")
        assert "assert_" in text and f"$ python examples/engines/{file.name}" in page
