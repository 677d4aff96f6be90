"""README's figures are a report's: the script adds up rows, and the table is that of the committed results."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "readme_harness.py"
pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="README and scripts are in a clone alone")


def script() -> dict:
    return runpy.run_path(str(SCRIPT))


def test_readme_shows_the_results(capsys):
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
    found = run["totals"](report(tmp_path / "r.jsonl", HEAD, *rows, {"done": ["sin", "float32"]}, {"footer": 1}))
    assert found["calls"] == {"passed": 3, "unspecified": 1, "attempted": 5, "overloads": 2}
    assert found["errors"] == {"passed": 2, "unspecified": 0, "attempted": 2, "overloads": 1}
    assert found["prims"]["attempted"] == 1
    assert list(found["dtypes"]) == ["int64", "float32", "none"]
    assert "| `float32` | 1 | 1 | 3 | 2 |" in run["table"](found) and "--draws 7" in run["table"](found)


@pytest.mark.parametrize("rows", [[HEAD], [HEAD | {"ops": "sin"}, {"footer": 1}], [HEAD | {"max": 9}, {"footer": 1}]])
def test_a_part_of_a_run_is_refused(tmp_path, rows):
    with pytest.raises(SystemExit, match="broken off or of chosen operators"):
        script()["totals"](report(tmp_path / "r.jsonl", *rows))
