"""Options of the suite: ``pytest --pyargs opinfo_tests --backend table --tier quick``."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("opinfo_tests", "conformance with torch's operators")
    group.addoption("--backend", default="table", help="what is judged: table, torch-cpu, or package.module:object")
    group.addoption("--tier", default="quick", choices=("quick", "full"), help="a share chosen by hash, or every case")
    group.addoption("--opinfo-seed", type=int, default=0, help="moves the quick tier's choice and the samples")
    group.addoption("--opinfo-jobs", type=int, default=2, help="worker processes; 0 judges in pytest's own")
    group.addoption("--opinfo-dtypes", default="", help="dtypes of the samples, comma separated, or 'all'")
    group.addoption("--opinfo-report", type=Path, default=None, help="write report.jsonl here")


class Run:
    """One run for the whole session: entries are judged ahead in worker processes, and each test waits for its own."""

    def __init__(self, config: pytest.Config, sources: list[str]) -> None:
        from . import gaps
        from .counts import quick_rates
        from .load import load_backend
        from .report import Tally, header
        from .runner import Options
        from .samples import ERRORS, QUICK_DTYPES, Task, dtypes_of, supported

        get = config.getoption
        self.backend = load_backend(get("--backend"))
        dtypes = dtypes_of(get("--opinfo-dtypes") or ",".join((*QUICK_DTYPES, ERRORS)))
        self.rates = quick_rates() if get("--tier") == "quick" else None
        self.whole = self.rates is None
        options = Options(dtypes=tuple(dtypes), seed=0, rates=self.rates, choice=get("--opinfo-seed"))
        self.gaps_file = gaps.file_for(get("--backend"))
        self.gaps = gaps.load(self.gaps_file)
        head = header(self.backend.name, tier=get("--tier"), seed=get("--opinfo-seed"), dtypes=dtypes)
        self.tally = Tally(get("--opinfo-report"), head)
        self.rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.left: dict[str, int] = {}
        tasks = []
        for source in sources:
            mine = [Task(source, d) for d in dtypes if d in supported(source)]
            self.left[source] = len(mine)
            tasks += mine
        self.parallel = "PYTEST_XDIST_WORKER" not in os.environ and get("--opinfo-jobs") > 0
        self.events = self.start(tasks, options, get("--opinfo-jobs"))

    def start(self, tasks: list[Any], options: Any, jobs: int) -> Iterator[tuple[str, Any]]:
        from .pool import run_pool
        from .runner import run_here

        return run_pool(tasks, self.backend, options, jobs) if self.parallel else run_here(tasks, self.backend, options)

    def wait_for(self, source: str) -> list[dict[str, Any]]:
        """Return an entry's rows, once all its tasks are done."""
        while self.left.get(source):
            kind, value = next(self.events)
            if kind == "rows":
                for row in value:
                    self.tally.add(row)
                    self.rows[row["sample"]].append(row)
            else:
                self.left[value.task.source] -= 1
                self.tally.calls.update(value.calls)
                if value.error:
                    self.tally.errors.append(f"{value.task.source} {value.task.dtype}: {value.error}")
        return self.rows[source]


@pytest.fixture(scope="session")
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Return the session's run over the entries that were selected."""
    items = [i for i in request.session.items if getattr(i, "originalname", "") == "test_entry"]
    found = Run(request.config, [i.callspec.params["source"] for i in items])
    yield found
    found.events.close()
    found.tally.close()
