"""Judges a mutant in a forked process, which imports the package again with one module changed."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import resource
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import CodeType, ModuleType
from typing import Any

import numpy as np

from ..backends.backend import Backend, Seen, Table
from ..backends.load import own_table
from ..backends.torch_backend import TorchDevice
from ..case import Case
from ..judge.verdict import judge, same_bits
from ..report.report import GOOD
from ..run.runner import run_case
from ..schema_facts import written_arrays
from .coverage import FORK, Held
from .rules import ROOT, Mutant

OUTCOMES = ("caught", "survived", "unrun", "within", "same", "undecided")
SECONDS = 20  # seconds for one call of a mutant; a call that takes longer counts as caught
MEMORY = 4 << 30  # bytes that a mutant may allocate beyond the size of the process at its start


@dataclass(frozen=True)
class Found:
    """The outcome of a mutant.

    Attributes
    ----------
    outcome : str
        ``caught``: by the judge, or, if no call runs it, by a test. ``survived``: not caught, although a call differs
        visibly from the original. ``unrun``: no call runs it, and no test catches it. ``within``: it differs from the
        original only within the operator's tolerance. ``same``: no call differs. ``undecided``: the time was up.
    by : str
        The call or test that caught it, or the call that shows that a survivor differs from the original.
    calls : int
        Number of calls judged.
    told : tuple of str
        The ids of the calls that caught it: the first, or with ``Plan.through`` all recorded calls that did.
    """

    outcome: str
    by: str = ""
    calls: int = 0
    told: tuple[str, ...] = ()


class Altered(importlib.abc.MetaPathFinder):
    """Import hook that finds the changed module instead of the original."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant, self.source = mutant, mutant.source()

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name != self.mutant.module:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        assert spec is not None and spec.origin is not None
        return importlib.util.spec_from_file_location(name, spec.origin, loader=Loader(name, spec.origin, self.source))


class Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self.source = source

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.source, self.path, "exec", dont_inherit=True)


def modules_taken() -> dict[str, ModuleType]:
    """Remove the package's modules from ``sys.modules`` and return them."""
    return {n: sys.modules.pop(n) for n in [*sys.modules] if n == "torchnp" or n.startswith("torchnp.")}


class Original:
    """The original table next to a mutated one: inside the context, imports find the package's original modules."""

    def __init__(self) -> None:
        self.table = own_table()
        self.modules: dict[str, ModuleType] = {}

    def __enter__(self) -> Table:
        self.others = modules_taken()
        sys.modules.update(self.modules)
        return self.table

    def __exit__(self, *_: Any) -> None:
        self.modules = modules_taken()
        sys.modules.update(self.others)

    def mutated(self, mutant: Mutant) -> Table:
        """Import the package again with one module changed, and return its table as a backend."""
        self.modules = modules_taken()
        sys.meta_path.insert(0, Altered(mutant))
        module = importlib.import_module("torchnp")
        return Table(module.table, "mutant", strides=True)


@dataclass(frozen=True)
class Plan:
    """How a mutant is judged.

    Attributes
    ----------
    draws, probes : int
        Number of random calls of each overload for the judge, and for finding a difference in a survivor (probes).
    seed : int
        Seed of the probes.
    through : bool
        Whether all recorded calls are judged, even after one has caught the mutant.
    """

    draws: int
    probes: int
    seed: int = 0
    through: bool = False


def trial(mutant: Mutant, held: Sequence[Held], ops: Sequence[str], plan: Plan) -> Found:
    """Judge a mutant; if no call catches it, look for a call whose result differs from the original's."""
    original, oracle = Original(), TorchDevice("cpu")
    try:
        with limited():
            wrong = original.mutated(mutant)
    except Exception as e:
        return Found("caught", f"import: {type(e).__name__}: {e}")
    count, asked, told, by = 0, [], list[str](), ""
    for case, want in given(held, ops, plan.draws, oracle):
        if by and count >= len(held):
            break
        count += 1
        asked.append(case)
        with limited():
            verdict, _ = run_case(case, oracle, wrong, want)
        if verdict.outcome in GOOD:
            continue
        with original as right:
            passes = run_case(case, oracle, right, want)[0].outcome in GOOD
        if passes:
            told.append(case.id)
            by = by or f"{verdict.outcome} {case.describe()}: {verdict.message}"
            if not plan.through:
                break
    if by:
        return Found("caught", by, count, tuple(told))
    differ = False
    for case in [*asked, *(case for case, _ in given((), ops, plan.probes, None, plan.seed + 1))]:
        with limited(), original as right:
            theirs = right.execute(case)
        with limited():
            mine = wrong.execute(case)
        if judge(case, theirs, mine, written_arrays(case)).outcome not in GOOD:
            return Found("survived", case.describe(400), count)
        differ = differ or not alike(theirs, mine)
    if asked or differ:
        return Found("within" if differ else "same", "", count)
    failed = tests_fail()
    return Found("caught", f"the test {failed}") if failed else Found("unrun")


# Tests of code that no call of the harness runs: they compare kernels that torch's CPU lacks with other torch
# operators, and run portable kernels on arrays of other libraries.
TESTS = (
    "torchnp/tests/kernels/test_ops_of_other_devices.py",
    "torchnp/tests/kernels/test_vendor_aliases.py",
    "torchnp/tests/kernels/test_philox_sobol.py",
    "torchnp/tests/kernels/test_prims_on_other_libraries.py",
    "torchnp/tests/kernels/test_checks_before_writing.py::test_memory_that_no_array_owns",
    "torchnp/tests/kernels/test_checks_before_writing.py::test_what_the_rounding_of_few_logarithms_of_softmax_is_of",
    "torchnp/tests/kernels/test_random_ops.py::test_randperm_of_very_many",
)


def tests_fail() -> str:
    """Run `TESTS` on the loaded package; return the first test that fails, or an empty string."""
    import pytest

    failed: list[str] = []

    class Listener:
        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.failed:
                failed.append(report.nodeid)

        def pytest_collectreport(self, report: pytest.CollectReport) -> None:
            if report.failed:
                failed.append(report.nodeid)

    files = [str(ROOT.parent / name) for name in TESTS]
    left_out = (
        f"-pno:{plugin}" for plugin in ("cacheprovider", "xdist", "playwright")
    )  # playwright's plugin refuses nested runs
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        pytest.main(["-q", "-x", *left_out, *files], plugins=[Listener()])
    return failed[0] if failed else ""


def given(
    held: Sequence[Held], ops: Sequence[str], draws: int, oracle: Backend | None, seed: int = 0
) -> Iterator[tuple[Case, Seen | None]]:
    """Yield calls with torch's results: the recorded calls first, then random calls."""
    from ..generate.samples.opinfo import samples_of
    from ..generate.samples.recording import Recorder
    from ..generate.strategies import plan

    yield from held
    found: list[Case] = []
    recorder = Recorder(lambda _: True, found.append)
    for task in plan(ops, draws) if draws else ():
        for _ in samples_of(task, recorder, seed=seed):
            yield from ((case, oracle.execute(case) if oracle else None) for case in found)
            found.clear()


def alike(a: Seen, b: Seen) -> bool:
    """Return whether two runs gave bit-identical results, or the same error."""
    if a.error or b.error:
        return a.error == b.error
    pairs = [*zip(a.results, b.results, strict=True), *zip(a.after, b.after, strict=True)]
    return all(same_bits(x, y) if isinstance(x, np.ndarray) else x == y or x != x for x, y in pairs)


class limited:
    """Context manager that raises TimeoutError if a call takes too long."""

    def __enter__(self) -> None:
        signal.signal(signal.SIGALRM, self.stop)
        signal.alarm(SECONDS)

    def __exit__(self, *_: Any) -> None:
        signal.alarm(0)

    @staticmethod
    def stop(*_: Any) -> None:
        raise TimeoutError(f"no result after {SECONDS} s")


# ---------------------------------------------------------------- processes


def serve(pipe: Connection, of: Callable[..., Found], *arguments: Any) -> None:
    import faulthandler

    faulthandler.disable()
    os.setpgid(0, 0)  # its own process group, so that the processes it starts can be killed with it
    with open("/proc/self/statm") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipe.send(of(*arguments))


class Process:
    """A forked process in which ``of`` judges a mutant."""

    def __init__(self, mutant: Mutant, of: Callable[..., Found], *arguments: Any) -> None:
        self.mutant, self.since = mutant, time.monotonic()
        self.pipe, there = FORK.Pipe(duplex=False)
        self.process = FORK.Process(target=serve, args=(there, of, mutant, *arguments), daemon=True)
        self.process.start()
        there.close()

    def ended(self, timeout: float) -> Found | None:
        """Return the outcome, or None while the process runs."""
        if self.pipe.poll():
            try:
                found = self.pipe.recv()
            except EOFError:
                self.over()
                return Found("caught", f"the process ended with {self.process.exitcode}")
            self.over()
            return found
        if time.monotonic() - self.since > timeout:
            self.process.kill()
            self.over()
            return Found("undecided", f"no end after {timeout:.0f} s")
        return None

    def over(self) -> None:
        """Wait for the process to end, and kill the subprocesses that it left running, which may hang in a call."""
        self.process.join()
        assert self.process.pid
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


def ends(starts: Sequence[Callable[[], Process]], jobs: int, timeout: float) -> Iterator[tuple[Mutant, Found]]:
    """Run the processes, at most ``jobs`` at a time; yield each mutant with its outcome as it ends."""
    waiting, running = list(starts)[::-1], list[Process]()
    while waiting or running:
        while waiting and len(running) < max(1, jobs):
            running.append(waiting.pop()())
        time.sleep(0.02)
        for process in running.copy():
            found = process.ended(timeout)
            if found:
                running.remove(process)
                yield process.mutant, found
