"""Changed calls of operators whose arguments torch does not check.

Some of these calls crash torch, others return arbitrary memory. So the calls of `samples.extra` with one argument
changed run in a forked process, three times with different freed memory. Calls for which torch gives the same result
each time are used with this result, and do not run again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from random import Random
from signal import SIGKILL
from typing import Any

import numpy as np
import torch

from ...case import Case
from ..samples.extra.make_calls import own_cases
from ..task import BROKEN
from .invalid_calls import broken, offered

TIMES = 3
ASKED = 200  # number of calls of an overload
BASES = 8  # number of its calls in `samples.extra` whose arguments are changed
SECONDS = 5  # seconds for one call
ENDLESS = 3  # number of timeouts after which no more calls are tried


def run_asked(source: str, count: str, recorder: Any, start: int = 0) -> Iterator[None]:
    """Pass changed variants of an overload's calls in `samples.extra` to the sink; yield after each."""
    op = source.removeprefix(BROKEN)
    if not recorder.wanted(op):
        return
    found: dict[str, Case] = {}
    for case in own_cases(op, BASES):
        for made in chain(*broken(replace(case, source=source, sample_dtype=count), sized=True).values()):
            found[made.digest] = made
    calls = list(found.values())
    chosen = Random(f"{op} {start} asked").sample(calls, min(ASKED, len(calls)))
    yield from offered(steady(chosen), recorder)


def steady(cases: Iterable[Case]) -> Iterator[Case]:
    """Yield the calls that do not crash torch and always give the same result, each with this result."""
    left, endless = list(cases), 0
    while left and endless < ENDLESS:
        answers, process = asked(left)
        count = 0
        for answer in answers:
            if answer is not None:
                yield replace(left[count], known=answer)
            count += 1
        endless += os.WTERMSIG(os.waitpid(process, 0)[1]) == SIGKILL
        left = left[count + 1 :]  # the next call killed the process, or there is no next call


def asked(cases: list[Case]) -> tuple[Iterator[Any], int]:
    """Run calls in a forked process; return an iterator of results (None for results that vary), and the process id."""
    here, there = Pipe(duplex=False)
    process = os.fork()
    if process == 0:
        try:
            answer(cases, there)
        finally:
            os._exit(0)
    there.close()
    return answers_from(here, process), process


def answers_from(pipe: Connection, process: int) -> Iterator[Any]:
    with pipe:
        while True:
            if not pipe.poll(SECONDS):
                os.kill(process, SIGKILL)
            try:
                yield pipe.recv()
            except EOFError:
                return


def answer(cases: list[Case], pipe: Connection) -> None:
    """Run the calls and send their results; runs in the forked process."""
    import faulthandler

    from ...backends.torch_backend import TorchDevice
    from ...judge.unspecified import in_other_memory

    faulthandler.disable()
    torch._nnpack_available()  # before this check has run, NNPACK rejects all calls
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    oracle = TorchDevice("cpu")
    for case in cases:
        seen = [in_other_memory(case, oracle, turn) for turn in range(TIMES)]
        pipe.send(seen[0] if len({shown(x) for x in seen}) == 1 else None)


def shown(seen: Any) -> tuple:
    """Return the parts of a result that are compared."""
    values = [*seen.results, *seen.after]
    return (
        seen.error,
        *((v.shape, str(v.dtype), v.tobytes()) if isinstance(v, np.ndarray) else repr(v) for v in values),
    )
