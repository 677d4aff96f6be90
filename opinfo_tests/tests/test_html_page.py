"""The HTML page in a browser: what it shows, filters and opens, given only a report's text."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from importlib.resources import files
from pathlib import Path

import pytest

from opinfo_tests.report import badge
from opinfo_tests.report.html_page import page, read_all, write_page

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
HEAD = {"header": 1, "backend": "mine", "torch": "2.13.0", "numpy": "2.4", "torchnp": "0.1", "seed": 7}
EVIL = "1 of 6 differ </script><b id=evil>\u2028 & <i>"


def row(op: str, dtype: str, outcome: str, case: str, **more: object) -> dict:
    return {"op": op, "dtype": dtype, "id": f"{op}/{dtype}/{case}", "outcome": outcome, "sample": "s",
            "sample_dtype": dtype, "ms": 0.1, "status": "kernel", **more}  # fmt: skip


def rows(many: int = 0) -> list[dict]:
    found = [
        row("aten::var.correction", "float32", "pass", "aa"),
        row("aten::var.correction", "float32", "wrong-value", "bb", message=EVIL, call="aten::var.correction(float32[3])",
            diagnosis="matches NumPy, not torch (difference: correction)", repro="print('shown')\n"),
        row("aten::var.correction", "int64", "pass", "cc"),
        row("aten::var_mean", "float32", "pass", "dd"),
        row("aten::add_.Tensor", "float32", "pass", "ee", status="derived", derived_from="aten::add.Tensor"),
        row("aten::sub.Tensor", "bool", "crash", "ff", message="died"),
    ]  # fmt: skip
    return found + [row(f"aten::op_{i}", "float32", "pass", f"{i:04}") for i in range(many)]


FOOT = {"footer": 1, "absent": [["aten::linalg_svd", 12], ["aten::fft", 3]]}


def write(path: Path, many: int = 0) -> Path:
    report = path / "report.jsonl"
    report.write_text("".join(json.dumps(r) + "\n" for r in (HEAD, *rows(many), FOOT)))
    write_page(report, path / "page.html")
    return path / "page.html"


def dom(path: Path, state: str = "", size: str = "1300,900") -> str:
    """Return the page's elements after its script has run."""
    if BROWSER is None:
        if os.environ.get("CI"):
            pytest.fail("no chromium on this machine: CI installs it")
        pytest.skip(reason="no chromium on this machine")
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--window-size={size}",
               f"--user-data-dir={path.parent / 'profile'}", "--virtual-time-budget=3000", "--dump-dom",
                 f"file://{path}{state}"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert 'data-ready="yes"' in done.stdout, done.stderr[-2000:]
    return re.sub(r'(?s)<script type="application/json".*?</script>', "", done.stdout)


def shown(text: str) -> list[str]:
    return re.findall(r'<tr data-op="([^"]+)"', text)


def test_summary_and_matrix(tmp_path):
    text = dom(write(tmp_path))
    assert shown(text) == ["aten::add_.Tensor", "aten::sub.Tensor", "aten::var.correction", "aten::var_mean"]
    assert "66.66%" in text and "4 of 6 calls pass" in text and "2 absent" in text
    assert "mine against torch 2.13.0" in text
    assert re.search(r'data-dtype="float32"[^>]*>1/2<', text)
    assert sorted(re.findall(r'data-outcome="([\w-]+)"', text)) == ["crash", "pass", "wrong-value"]
    assert 'id="evil"' not in text


@pytest.mark.parametrize(
    ("state", "names"),
    [
        ("#q=var&only=failing", ["aten::var.correction"]),
        ("#q=correction+differ", ["aten::var.correction"]),
        ("#status=derived", ["aten::add_.Tensor"]),
        ("#outcome=crash", ["aten::sub.Tensor"]),
        ("#dtype=int64", ["aten::var.correction"]),
        ("#dtype=int64&only=failing", []),
        ("#sort=-failing&only=failing", ["aten::sub.Tensor", "aten::var.correction"]),
        ("#sort=share&dtype=float32", ["aten::var.correction", "aten::add_.Tensor", "aten::var_mean"]),
    ],
)
def test_filters_are_in_the_address(tmp_path, state, names):
    assert shown(dom(write(tmp_path), state)) == names


def test_a_cell_opens(tmp_path):
    text = dom(write(tmp_path), "#open=aten::var.correction|float32")
    sheet = text[text.index("<dialog") : text.index("</dialog>")]
    assert "open" in sheet[: sheet.index(">")]
    for part in ("wrong-value", "1 of 6 differ &lt;/script&gt;", "difference: correction", "print('shown')"):
        assert part in sheet
    assert "aten::var.correction/float32/bb" in sheet and "aten::var.correction/float32/aa" in sheet
    assert "Tensor self" in sheet  # the schema


def test_thousands_of_rows_are_drawn_as_they_are_needed(tmp_path):
    path = write(tmp_path, many=4000)
    start = time.perf_counter()
    drawn = len(shown(dom(path)))
    assert 40 <= drawn < 1000
    assert time.perf_counter() - start < 60


def test_page_asks_no_network():
    text = page(HEAD, rows(), FOOT)
    assert not re.search(r"(src|href)\s*=\s*[\"']?(https?:)?//|@import|url\(", text)
    assert text.count("</script>") == 2


def test_the_template_ships_in_the_package():
    assert (files("opinfo_tests.report") / "page.html").is_file()


def test_an_empty_report_has_a_page(tmp_path):
    report = tmp_path / "report.jsonl"
    report.write_text(json.dumps(HEAD) + "\n")
    write_page(report, tmp_path / "page.html")
    assert "No overload fits" in (tmp_path / "page.html").read_text()
    assert read_all(report)[1] == []


def test_badge(tmp_path):
    assert "99.9%" in badge.svg(9999, 10000) and badge.share_text(5, 5) == "100%" and badge.share_text(0, 0)
    badge.write_badge(1, 2, tmp_path / "b.json")
    assert json.loads((tmp_path / "b.json").read_text())["message"] == "50.0%"
    badge.write_badge(1, 2, tmp_path / "b.svg")
    assert (tmp_path / "b.svg").read_text().startswith("<svg")


def test_products_from_a_report_alone(tmp_path):
    write(tmp_path)
    command = [sys.executable, "-m", "opinfo_tests", "--from-report", str(tmp_path / "report.jsonl"), "--html",
               str(tmp_path / "new.html"), "--badge", str(tmp_path / "b.svg")]  # fmt: skip
    subprocess.run(command, check=True, timeout=120)
    assert "aten::var.correction" in (tmp_path / "new.html").read_text()
    assert "66.6%" in (tmp_path / "b.svg").read_text()
