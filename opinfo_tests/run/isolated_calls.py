"""Judges calls one at a time in a separate process, because a call that the shrinker tries may crash or hang."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from .. import namespaces
from ..backends.backend import Backend
from ..backends.load import packed, unpacked
from ..backends.torch_backend import TorchDevice
from ..case import Case
from ..report.gaps import Gap
from ..report.repro import TooLargeError, script
from ..report.shrink import Kind, kind_of_failure, shrink, weight
from .workers import _FORK, death, end, fork

PATIENCE = 1.0  # seconds for one call; a call that takes longer counts as hanging


def serve(pipe: Any, sent: str | bytes, spaces: tuple[str, ...]) -> None:
    """Judge the cases that the parent sends until it exits."""
    import faulthandler

    from .runner import run_case

    faulthandler.disable()
    namespaces.meet_all(spaces)
    backend, oracle = unpacked(sent), TorchDevice("cpu")
    pipe.send("ready")
    while True:
        case = pipe.recv()
        try:
            verdict = run_case(case, oracle, backend)[0]
            pipe.send((verdict.outcome, verdict.message))
        # The harness itself raised an error: report no outcome, so that this call does not count as a simpler failure.
        except Exception as e:
            pipe.send(("", f"{type(e).__name__}: {e}"))


class Trials:
    """Judges calls in a separate process: ``trials(case)`` returns how a call fails, ``last`` is the message."""

    def __init__(self, backend: Backend, patience: float = PATIENCE) -> None:
        self.sent, self.patience, self.last = packed(backend), patience, ""
        self.process: Any = None

    def __call__(self, case: Case) -> Kind:
        outcome, self.last = self.ask(case)
        return kind_of_failure(outcome, self.last)

    def ask(self, case: Case) -> tuple[str, str]:
        """Return the outcome and message of a call."""
        if self.process is None:
            self.pipe, there = _FORK.Pipe()
            self.process = fork(serve, there, self.sent, namespaces.met())
            there.close()
            self.pipe.recv()
        try:
            self.pipe.send(case)
            if self.pipe.poll(self.patience):
                return self.pipe.recv()
        except (EOFError, ConnectionResetError, BrokenPipeError):
            self.process.join()
            code, self.process = self.process.exitcode, None
            return "crash", death(code)
        self.close()
        return "timeout", f"no result after {self.patience:.0f} s"

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            end(self.process)
            self.process.join()
            self.process = None


class Shrinker:
    """Shrinks failures that no gap covers: adds the simpler call and its repro script to their rows."""

    def __init__(self, backend: Backend, seconds: float, known: Collection[Gap] = ()) -> None:
        self.backend, self.seconds, self.known = backend, seconds, known
        self.trials = Trials(backend) if seconds else None
        self.tried: set[str] = set()

    def __call__(self, row: dict[str, Any], case: Case | None = None) -> dict[str, Any]:
        """Return a failing row with its call shrunk. The call is ``row["case"]``, which is removed, or ``case``."""
        case = row.pop("case", case)
        if self.trials is None or case is None or any(g.covers(row) for g in self.known):
            return row
        self.tried.add(row["id"])
        kind = kind_of_failure(row["outcome"], row["message"])
        # If the call does not fail in the same way when run by itself, simpler calls cannot be compared with it.
        if self.trials(case) != kind:
            return row
        slow = 5 if row["outcome"] == "timeout" else 1
        small = shrink(case, self.trials, slow * self.seconds, kind)
        if weight(small) >= weight(case):
            return row
        self.trials(small)
        more = {"shrunk": small.describe(400), "shrunk_message": self.trials.last}
        try:
            more["repro"] = script(small, row | more, self.backend)
        except TooLargeError as e:
            more["repro_missing"] = str(e)
        return row | more

    def close(self) -> None:
        """End the trial process."""
        if self.trials is not None:
            self.trials.close()
