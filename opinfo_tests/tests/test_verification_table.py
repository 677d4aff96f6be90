"""The figures of docs/verification.md come from a report: the script adds up its rows, and the page has the committed
results."""

from __future__ import annotations

import json
import runpy
from collections import Counter
from pathlib import Path

import pytest

from opinfo_tests.report import pass_rates

SCRIPT = Path(__file__).parents[2] / "scripts" / "verification_table.py"
pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="docs and scripts are in a clone alone")


def script() -> dict:
    return runpy.run_path(str(SCRIPT))


def test_the_page_shows_the_results(capsys):
    assert script()["main"](["--check"]) == 0, capsys.readouterr().out


HEAD = {"header": 1, "backend": "torchnp", "torch": "2.13.0+cpu", "numpy": "2.4.6", "ml_dtypes": "0.6.0", "python": "3.11",
        "machine": "x86_64", "cpu": "AVX2", "tier": "quick", "seed": 3, "order": 1, "draws": 7, "dtypes": ["float32"], "ops": None,
        "max": 0}  # fmt: skip


def report(path: Path, *rows: dict) -> Path:
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return path


def test_rows_add_up(tmp_path):
    base = {"op": "aten::sin", "dtype": "float32", "outcome": "pass", "sample_dtype": "float32"}
    rows = [
        base,
        base | {"outcome": "wrong-value"},
        base | {"op": "prims::sin", "outcome": "unspecified"},
        base | {"dtype": "int64", "torch_raises": "TypeError"},
        base | {"dtype": "none", "sample_dtype": "errors"},
    ]
    run = script()
    found, pairs = run["totals"](report(tmp_path / "r.jsonl", HEAD, *rows, {"done": ["sin", "float32"]}, {"footer": 1}))
    assert pairs["aten::sin", "float32", "wrong-value"] == 1 and pairs.total() == 5
    assert found["calls"] == {"passed": 3, "unspecified": 1, "attempted": 5, "overloads": 2}
    assert found["errors"] == {"passed": 2, "unspecified": 0, "attempted": 2, "overloads": 1}
    assert found["prims"]["attempted"] == 1
    assert list(found["dtypes"]) == ["int64", "float32", "none"]
    assert "| `float32` | 1 | 1 | 3 | 2 |" in run["table"](found) and "--draws 7" in run["table"](found)


def test_counts_by_overload_and_dtype_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(pass_rates, "DATA", tmp_path / "passed.tsv")
    outcomes = {
        ("aten::sin", "int64", "pass"): 2,
        ("aten::sin", "float32", "pass"): 5,
        ("aten::cos", "int64", "unspecified"): 1,
    }
    pass_rates.write(
        Counter(outcomes | {("aten::cos", "int64", "wrong-value"): 1, ("aten::cos", "none", "wrong-value"): 1})
    )
    assert pass_rates.read.__wrapped__() == {
        "aten::cos": {"int64": (1, 2), "none": (0, 1)},
        "aten::sin": {"int64": (2, 2), "float32": (5, 5)},
    }


def test_they_add_up_to_the_results():
    results = json.loads(pass_rates.RESULTS.read_text())
    for dtype, found in results["dtypes"].items():
        cells = [row[dtype] for row in pass_rates.read().values() if dtype in row]
        good, attempted = (sum(column) for column in zip(*cells))
        assert (good, attempted) == (found["passed"] + found["unspecified"], found["attempted"])
        assert len(cells) == found["overloads"]
    assert len(pass_rates.read()) == results["calls"]["overloads"]


@pytest.mark.parametrize("rows", [[HEAD], [HEAD | {"ops": "sin"}, {"footer": 1}], [HEAD | {"max": 9}, {"footer": 1}]])
def test_a_part_of_a_run_is_refused(tmp_path, rows):
    with pytest.raises(SystemExit, match="broken off or of chosen operators"):
        script()["totals"](report(tmp_path / "r.jsonl", *rows))
