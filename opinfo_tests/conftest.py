"""Options of the pytest suite: ``pytest --pyargs opinfo_tests --backend table --tier quick``, also with ``-n 2``."""

from __future__ import annotations

import os
import shutil
import tempfile
import zlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .generate.task import Task

os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("opinfo_tests", "conformance with torch's operators")
    group.addoption(
        "--backend",
        default="table",
        help="the backend to judge: table, torch-DEVICE, compile-NAME, an entry point, or package.module:object",
    )
    group.addoption(
        "--tier",
        default="quick",
        choices=("quick", "full"),
        help="quick: some calls of each overload and dtype; full: every call",
    )
    group.addoption("--opinfo-seed", type=int, default=0, help="seed of the quick tier's choice and of the samples")
    group.addoption(
        "--opinfo-jobs",
        type=int,
        default=None,
        help="worker processes; 0 judges in pytest's process, which a crash or a hang then affects. The default is 2; "
        "under xdist it is 0, and at most 1",
    )
    group.addoption(
        "--opinfo-dtypes",
        default="",
        help="dtypes of the samples and of random calls, comma separated, or 'all'; default: float32, int64, complex64, bool and some others of each entry",
    )
    group.addoption(
        "--opinfo-draws",
        type=int,
        default=8,
        help="random calls of each overload from its schema (%(default)s; the command line's quick tier has 20)",
    )
    group.addoption("--opinfo-report", type=Path, default=None, help="write report.jsonl here")


def pytest_configure(config: pytest.Config) -> None:
    """Reject an unknown backend or an unreadable gaps file early; create a directory for xdist workers' reports."""
    if config.getoption("--backend") != "table":
        from .backends.load import load_backend
        from .report import gaps

        try:
            load_backend(config.getoption("--backend"))
            gaps.load(gaps.file_for(config.getoption("--backend")))
        except SystemExit as e:
            raise pytest.UsageError(str(e)) from None
    if config.pluginmanager.has_plugin("xdist"):
        config.pluginmanager.register(Parts(config), "opinfo-parts")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip the harness's own tests when another backend is judged."""
    mine = collection_path == Path(__file__).parent / "tests"
    return True if mine and config.getoption("--backend") != "table" else None


class Parts:
    """Merges the reports of xdist workers: each worker writes its own, and the controller merges them at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self.config, self.place, self.message = config, "", ""

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        self.place = self.place or tempfile.mkdtemp(prefix="opinfo-")
        node.workerinput["opinfo_parts"] = self.place

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        parts = sorted(Path(self.place).glob("*.jsonl")) if self.place else []
        if parts:
            self.message = put_together(self.config, parts)
            if self.message and session.exitstatus == 0:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if self.place:
            shutil.rmtree(self.place, ignore_errors=True)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.message:
            terminalreporter.write_line(self.message, red=True)


def put_together(config: pytest.Config, parts: list[Path]) -> str:
    """Merge the workers' reports into one; return what makes the whole run invalid, or an empty string.

    Failures that no known gap covers are not repeated here: their own tests have already failed.
    """
    from .backends.load import load_backend
    from .generate.samples.opinfo import registered
    from .generate.samples.opinfo_reach import reach
    from .report import gaps
    from .report.case_counts import too_few
    from .report.report import Tally, read

    get = config.getoption
    tally = Tally(config.getoption("--opinfo-report"), next(read(parts[0], "header"), {}))
    ran: set[str] = set()
    for part in parts:
        for row in read(part):
            if row["id"] not in tally.ran:
                tally.add(row)
        for row in read(part, "done"):
            ran.add(row["done"][0])
            tally.calls.update(row["calls"])
    backend = load_backend(get("--backend"))
    tally.close(backend.ops)
    needed = {source for source, calls in reach().items() if any(op in backend.ops for op in calls)}
    claimed = [op for op in registered() if op in backend.ops]
    complete = not needed - ran
    path = gaps.file_for(get("--backend"))
    whole = gaps.Scope(claimed, claimed, tally.head["dtypes"]) if complete and get("--tier") == "full" else None
    lines = gaps.check(gaps.load(path), tally, registered(), path, whole).stale
    if complete and not get("--opinfo-dtypes") and backend.dtypes is None:
        few = too_few(tally, claimed, get("--tier") == "quick")
        lines += [few] if few else []
    return "\n".join(lines)


ALL_INVALID = 8  # with at least so many draws of each overload, every overload is also called with invalid arguments


def is_drawn(task: Task, draws: int) -> bool:
    """Return whether a task of random calls runs; with few draws, a quarter of the tasks with invalid arguments run."""
    from .generate.task import BROKEN

    return draws >= ALL_INVALID or not task.source.startswith(BROKEN) or not zlib.crc32(task.source.encode()) % 4


def is_usual(source: str, dtype: str) -> bool:
    """Return whether the quick tier judges an entry in this dtype if the user names no dtypes.

    It judges float32 (int64, complex64 and bool if the entry has no floats) and the inputs that torch refuses, half of
    the combinations of an entry with another usual dtype, and an eighth of the rest.
    """
    from .generate.samples.opinfo import ERRORS, supported

    usual = dtype in ("int64", "complex64", "bool")
    if dtype in ("float32", ERRORS) or (usual and "float32" not in supported(source)):
        return True
    # The large inputs of grid_sampler_3d take half a minute in each dtype, and so do the calls of models.
    if source in ("grid_sampler_3d", "models"):
        return False
    return not zlib.crc32(f"{source} {dtype}".encode()) % (2 if usual else 8)


class Run:
    """One run for the whole session: worker processes judge entries in advance, and each test waits for its own entry.

    Under xdist each worker has its own run. It judges an entry when the entry's test starts, in the worker's own
    process unless ``--opinfo-jobs`` asks for another process: starting a process for each entry takes longer than
    judging the entry.
    """

    def __init__(self, config: pytest.Config, sources: list[str]) -> None:
        from .backends.load import load_backend
        from .generate.samples.opinfo import dtypes_of, registered, supported
        from .generate.samples.opinfo_reach import reach
        from .generate.strategies import drawn_families, plan
        from .generate.task import DRAWN, Task
        from .report import gaps
        from .report.report import Tally, header
        from .run.oracle_cache import opened
        from .run.runner import Options

        get = config.getoption
        self.backend = load_backend(get("--backend"))
        dtypes = dtypes_of(get("--opinfo-dtypes") or "all")
        self.quick = get("--tier") == "quick"
        self.counted = not get("--opinfo-dtypes") and self.backend.dtypes is None
        choice = get("--opinfo-seed")
        held = opened(choice=choice) if self.quick else None
        self.options = Options(dtypes=tuple(dtypes), seed=0, store=held, choice=choice)
        self.gaps_file = gaps.file_for(get("--backend"))
        self.gaps = gaps.load(self.gaps_file)
        claimed = [op for op in registered() if op in self.backend.ops]
        self.whole = gaps.Scope(claimed, claimed, dtypes) if not self.quick else None
        head = header(
            self.backend.name,
            loaded_by=self.backend.loaded_by,
            tier=get("--tier"),
            seed=get("--opinfo-seed"),
            dtypes=dtypes,
        )
        worker = getattr(config, "workerinput", None)
        self.parallel = worker is None
        jobs = get("--opinfo-jobs")
        self.jobs = (2 if jobs is None else jobs) if self.parallel else min(1, jobs or 0)
        report = get("--opinfo-report")
        if worker is not None:
            report = Path(worker["opinfo_parts"]) / f"{worker['workerid']}.jsonl"
        self.tally = Tally(report, head)
        self.rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.left: dict[str, int] = {}
        self.tasks: dict[str, list[Any]] = {}
        self.test_of: dict[str, str] = {}
        reached = reach()
        for source in sources:
            if source.startswith(DRAWN):
                ops = [op for op in drawn_families()[source.removeprefix(DRAWN)] if op in self.backend.ops]
                draws = get("--opinfo-draws")
                self.tasks[source] = [task for task in plan(ops, draws, by_rule=False) if is_drawn(task, draws)]
            else:
                called = source not in reached or any(op in self.backend.ops for op in reached[source])
                some = self.quick and not get("--opinfo-dtypes")
                taken = [d for d in dtypes if d in supported(source) and (not some or is_usual(source, d))]
                self.tasks[source] = [Task(source, d) for d in taken] if called else []
            self.left[source] = len(self.tasks[source])
            self.test_of |= {task.source: source for task in self.tasks[source]}
        every = [task for tasks in self.tasks.values() for task in tasks]
        samples = [task for task in every if not task.is_drawn]
        first = worker is None or worker["workerid"] == "gw0"
        self.invalid = self.control(samples) if samples and first else ""
        self.events = self.start(every) if self.parallel else iter(())

    def control(self, tasks: list[Any]) -> str:
        from .run.control_experiment import control

        return control(tasks, self.options, self.jobs, self.backend)

    def start(self, tasks: list[Any]) -> Any:
        from .run.runner import run_here
        from .run.workers import run_pool

        if self.jobs:
            return run_pool(tasks, self.backend, self.options, self.jobs)
        return run_here(tasks, self.backend, self.options)

    def wait_for(self, source: str) -> list[dict[str, Any]]:
        """Return the rows of a sample entry or an operator family once all its tasks are done."""
        if not self.parallel and self.left.get(source):
            self.options.skip = self.tally.ran
            self.events = self.start(self.tasks[source])
        while self.left.get(source):
            kind, value = next(self.events)
            if kind == "rows":
                for row in value:
                    self.tally.add(row)
                    self.rows[self.test_of[row["sample"]]].append(row)
            else:
                self.left[self.test_of[value.task.source]] -= 1
                self.tally.end_task(value, self.backend.ops)
        if not self.parallel:
            self.close()
        return self.rows[source]

    def close(self) -> None:
        """End the worker processes."""
        if hasattr(self.events, "close"):
            self.events.close()


def source_of(parameters: dict[str, Any]) -> str:
    from .generate.task import DRAWN

    return str(parameters["source"]) if "source" in parameters else DRAWN + str(parameters["family"])


@pytest.fixture(scope="session")
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Return the session's run on the selected entries; if the run is invalid, end the session."""
    from .run.control_experiment import INVALID

    items = [
        i
        for i in request.session.items
        if isinstance(i, pytest.Function) and i.originalname in ("test_entry", "test_drawn")
    ]
    found = Run(request.config, [source_of(i.callspec.params) for i in items])
    if found.invalid:
        message = f"invalid run: the control is not green: {found.invalid}"
        if found.parallel:
            pytest.exit(message, returncode=INVALID)
        pytest.fail(message, pytrace=False)
    yield found
    found.close()
    found.tally.close(found.backend.ops)
