"""Short targeted runs: judge a backend on each NumPy-torch difference of the catalogue, which takes seconds."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
import torch

import torchnp
from torchnp.difference_catalogue import CATALOGUE
from torchnp.differences import Difference, evaluate

from ..backends.backend import Backend
from ..backends.torch_backend import TorchDevice
from ..case import Case
from ..generate.samples.recording import Recorder
from ..report.gaps import Gap
from ..report.report import GOOD
from .runner import run_case


@dataclass(frozen=True)
class Asked:
    """A backend's result for one difference: the number of calls that torch's expression makes, and the failed ones."""

    difference: Difference
    calls: int
    wrong: tuple[tuple[Case, str, str], ...]  # the failed calls, each with its outcome and message


def calls_of(difference: Difference, backend: Backend) -> list[Case]:
    """Return the calls that a difference's torch expression makes, of the overloads that the backend claims."""
    cases: list[Case] = []
    recorder = Recorder(lambda op: op in backend.ops, cases.append)
    recorder.source = f"differences/{difference.id}"
    with recorder:
        evaluate(difference.torch, torch=torch, np=np, scipy=scipy, torchnp=torchnp)
    kept = [c for c in {c.digest: c for c in cases}.values() if backend.dtypes is None or c.dtypes() <= backend.dtypes]
    return [c for c in kept if not backend.exempt(c)]


def ask(backend: Backend, known: Collection[Gap] = ()) -> Iterator[Asked]:
    """Judge the calls that each difference's torch expression makes; failures that gaps cover do not count."""
    oracle = TorchDevice("cpu")
    for difference in CATALOGUE.values():
        wrong: list[tuple[Case, str, str]] = []
        cases = calls_of(difference, backend)
        for case in cases:
            verdict, _ = run_case(case, oracle, backend)
            row = {"op": case.op, "dtype": "", "id": "", "sample": case.source, "call": case.describe()}
            row |= {"outcome": verdict.outcome, "message": verdict.message}
            if verdict.outcome not in GOOD and not any(gap.covers(row) for gap in known):
                wrong.append((case, verdict.outcome, verdict.message))
        yield Asked(difference, len(cases), tuple(wrong))


def show_differences(console: Any, backend: Backend, known: Collection[Gap] = ()) -> int:
    """Print the differences that a backend gets wrong, except known gaps; return the exit status."""
    found = list(ask(backend, known))
    met = [a for a in found if a.calls]
    wrong = [a for a in met if a.wrong]
    for a in wrong:
        console.print(f"{a.difference.id}: {a.difference.title}", style="red", markup=False)
        console.print(f"  {a.difference.torch}  ->  {a.difference.torch_value}", markup=False)
        for case, outcome, message in a.wrong:
            console.print(f"    {outcome}: {message}", style="bold", markup=False)
            console.print(f"      {case.describe()}", style="dim", markup=False)
    unmet = [a.difference.id for a in found if not a.calls]
    if unmet:
        print(f"no call that {backend.name} claims: {', '.join(unmet)}")
    print(f"{len(met) - len(wrong)} of {len(met)} differences are as in torch, by {sum(a.calls for a in met)} calls")
    return 1 if wrong or not met else 0
