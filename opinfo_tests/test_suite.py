"""The pytest suite: one test for each OpInfo entry (all dtypes, forward and backward), and checks of the whole run."""

from __future__ import annotations

from typing import Any

import pytest

from opinfo_tests.backends.torch_backend import TorchDevice
from opinfo_tests.conftest import Run
from opinfo_tests.generate.samples import model_calls
from opinfo_tests.generate.samples.opinfo import opinfos, registered
from opinfo_tests.generate.strategies import drawn_families
from opinfo_tests.generate.task import DRAWN, Task
from opinfo_tests.report import gaps
from opinfo_tests.report.case_counts import too_few
from opinfo_tests.report.report import GOOD, REFUSED
from opinfo_tests.run.runner import Options, run_here

SOURCES = [*opinfos(), "own", model_calls.SOURCE]


def test_control() -> None:
    """The oracle passes when judged against itself; otherwise all results of the run are invalid."""
    rows: list[dict[str, Any]] = []
    for kind, value in run_here([Task("add", "float32"), Task("var", "float32"), Task("sort", "int64")],
                                TorchDevice("cpu"), Options(limit=20)):  # fmt: skip
        rows += value if kind == "rows" else []
    assert len(rows) > 100
    assert {row["outcome"] for row in rows} <= set(GOOD)


@pytest.mark.parametrize("source", SOURCES)
def test_entry(source: str, run: Run) -> None:
    """Every call that an entry's samples make agrees with torch or is a known gap."""
    hold(source, run)


@pytest.mark.parametrize("family", drawn_families())
def test_drawn(family: str, run: Run) -> None:
    """Every random call from the schemas of a family agrees with torch or is a known gap."""
    hold(DRAWN + family, run)


def hold(source: str, run: Run) -> None:
    """Fail if any call of a sample entry or a family fails and no known gap covers it."""
    failures = [row for row in run.wait_for(source) if row["outcome"] not in (*GOOD, REFUSED)]
    if not run.rows[source]:
        pytest.skip(reason="no call of its own that the backend claims")
    unknown = [row for row in failures if not any(gap.covers(row) for gap in run.gaps)]
    if unknown:
        text = "\n".join(described(r) for r in unknown[:20])
        pytest.fail(f"{len(unknown)} of {len(run.rows[source])} calls are not torch's\n{text}", pytrace=False)


def described(row: dict[str, Any]) -> str:
    lines = [f"{row['outcome']}: {row['message']}", row.get("diagnosis", ""), row["call"], row["id"]]
    return "\n    ".join(line for line in lines if line)


def all_entries_ran(run: Run) -> bool:
    return len(run.left) == len(SOURCES) + len(drawn_families()) and not any(run.left.values())


def test_gaps_are_current(run: Run) -> None:
    """Every known gap still fails, names a registered operator, and has a reason."""
    if not run.tally.total:
        pytest.skip(reason="no entry was selected")
    whole = run.whole if all_entries_ran(run) else None
    found = gaps.check(run.gaps, run.tally, registered(), run.gaps_file, whole)
    assert not found.stale, "\n".join(found.stale)


def test_denominator(run: Run) -> None:
    """The run collected nearly as many cases as are recorded, so that an empty run does not pass."""
    if not all_entries_ran(run) or not run.parallel or not run.counted:
        pytest.skip(reason="not the whole suite in one process")
    message = too_few(run.tally, [op for op in registered() if op in run.backend.ops], run.quick)
    assert not message, message
