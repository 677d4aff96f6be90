"""The search of the documentation site, run in a browser on the index of a build: the first results."""

import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from html import unescape
from pathlib import Path

import pytest

from torchnp.lookup.resolve import SPELLED, meaning_of, spelled
from torchnp.tests.lookup.test_explain import QUESTIONS

pytestmark = pytest.mark.weekly  # .ci/run runs it with the tests of the built site
DOCS = Path(__file__).resolve().parents[3] / "docs"
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FIRST = {
    "ddof": "ops/aten.var.html",
    "numpy.var": "ops/aten.var.html",
    "unbiased": "ops/aten.var.html",
    "broadcast_to": "ops/aten.broadcast_to.html",
    "torch.unique": "ops/aten._unique2.html",
    "//": "ops/aten.floor_divide.html",
    "a  //  b": "ops/aten.floor_divide.html",
    "numpy.ndarray.sum": "ops/aten.sum.html",
    "torch.nn.functional.cross_entropy": "ops/aten.cross_entropy_loss.html",
    "torch.nn.CrossEntropyLoss": "ops/aten.cross_entropy_loss.html",
    "linalg.norm": "ops/aten.linalg_norm.html",
    "torch.ops.aten.var.correction": "ops/aten.var.html",
    "prims.var": "ops/prims.var.html",
    "cross entropy": "ops/aten.cross_entropy_loss.html",
    "np.ptp": "names/numpy.html#np.ptp",
    "T": "ops/aten.numpy_T.html",
    "torch.load": "names/torch.html#torch.load",
    "np.sum(x, axis=0)": "ops/aten.sum.html",
    "x @ y.T": "ops/aten.matmul.html",
    "-7 // 2": "ops/aten.floor_divide.html",
    "integer division of negatives": "ops/aten.floor_divide.html",
    "img[:, ::-1]": "ops/aten.slice.html",
    "x[x > 0] = 0": "ops/aten.index_put_.html",
    "lower-median": "differences/reductions.html#lower-median",
    "lower of the two": "differences/reductions.html#lower-median",
    "what does torch.unique do in NumPy?": "ops/aten._unique2.html",
    "what does np.ptp become": "names/numpy.html#np.ptp",
}
TYPOS = {
    "softmx": "ops/aten.softmax.html",
    "np.vra": "ops/aten.var.html",
    "F.crossentropy": "ops/aten.cross_entropy_loss.html",
    "broadcastto": "ops/aten.broadcast_to.html",
    "np.percentil": "names/numpy.html#np.percentile",
    "torch.uniqe": "ops/aten._unique2.html",
    "defualt_rng": "names/numpy.html#np.random.default_rng",
}
OTHERS = ("sort", "correction", "", "no such thing at all", "<b>", "(", "__proto__", "constructor")


@functools.cache
def search_index():
    pytest.importorskip("matplotlib", reason="the pages that it is an index of are drawn with matplotlib")
    sys.path.insert(0, str(DOCS))
    try:
        import search_index
    finally:
        sys.path.remove(str(DOCS))
    return search_index


@functools.cache
def hits():
    """Return the results for every query of this file, found in one visit to the browser."""
    if BROWSER is None:
        if os.environ.get("CI"):
            pytest.fail("no chromium on this machine: CI installs it")
        pytest.skip(reason="no chromium on this machine")
    asked = [*(question for question, _ in QUESTIONS), *FIRST, *TYPOS, *OTHERS]
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "page.html")
        shutil.copy(DOCS / "_static" / "search.js", folder)
        Path(folder, "searchnames.js").write_text(search_index().script(), encoding="utf-8")
        Path(folder, "ask.js").write_text(
            f"document.body.textContent = JSON.stringify({json.dumps(asked)}.map(query => NameSearch.search(query)))"
        )
        scripts = "".join(f'<script src="{name}.js"></script>' for name in ("search", "searchnames", "ask"))
        page.write_text(f"<!doctype html><meta charset=utf-8><body>{scripts}</body>")
        command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                   f"--user-data-dir={folder}/profile", "--dump-dom", f"file://{page}"]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    body = re.search(r"(?s)<body>(.*)</body>", done.stdout)
    assert body and body[1].startswith("[["), done.stderr[-2000:]
    return dict(zip(asked, json.loads(unescape(body[1])), strict=True))


@pytest.mark.parametrize("question", [question for question, _ in QUESTIONS])
def test_a_question_is_answered_among_the_first_three(question):
    """The first result is the best page for the meaning of the name, and the next ones are its other pages."""
    places = search_index().pages_of(meaning_of(question))[:3]
    assert [hit["url"] for hit in hits()[question]][: len(places)] == places


@pytest.mark.parametrize("query", FIRST)
def test_first_hit(query):
    assert hits()[query][0]["url"] == FIRST[query]


@pytest.mark.parametrize("query", TYPOS)
def test_typos(query):
    assert TYPOS[query] in [hit["url"] for hit in hits()[query][:3]]


def test_names_come_before_arguments_descriptions_differences_and_examples():
    kinds = [hit["kind"] for hit in hits()["sort"]]
    assert kinds == sorted(kinds, key=search_index().search.KINDS.index) and kinds[0] == "name"
    titles = [hit["title"] for hit in hits()["correction"]]
    assert titles[0] == "torch.var" and "Variance and standard deviation divide by N - 1" in titles


def test_what_is_no_name_is_taken():
    assert hits()[""] == [] and hits()["no such thing at all"] == []


def test_patterns_are_read_alike_in_python_and_in_javascript():
    """The patterns use only syntax that both languages have: no named groups, lookbehind, or references in
    replacements."""
    patterns = [*SPELLED, *search_index().REGISTRY]
    assert not [p for p, ours in patterns if re.search(r"\(\?(?![:=!])", p) or re.search(r"[\\$]", ours)]
    assert spelled("torch.nn.functional.relu") == "F.relu" and spelled("numpy.linalg.det") == "np.linalg.det"
    assert spelled("linalg.det") == "torch.linalg.det" and spelled("rng.normal") == "np.random.normal"


def test_every_address_of_the_index_is_of_a_page_that_is_written():
    rows = search_index().index()
    assert len({address for address, *_ in rows["pages"]}) == len(rows["pages"])
    used = {page for kind in ("names", "texts") for row in rows[kind] for page in row[1 + (kind == "texts") :]}
    assert used == set(range(len(rows["pages"])))
