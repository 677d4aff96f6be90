"""Measure torch, NumPy's BLAS and torchnp, each with its own threads: ``python scripts/bench_threads.py``.

One process may have three thread pools: of torch, of NumPy's BLAS, and of torchnp. Each row of the table sets their
sizes, and calls a matrix product and a sum of large arrays: on torch only, on torchnp only, and on both in turn. The
figures are milliseconds per call: the median and, in parentheses, the 90th percentile of many calls.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

SIZE, ELEMENTS = 512, 1 << 22
CALLS = 60
SETTINGS = {  # number of threads of torch, of BLAS, and of torchnp; 0 means one for each processor
    "all as they are": (0, 0, 0),
    "torch alone has several": (0, 1, 1),
    "torchnp and BLAS have several": (1, 0, 0),
    "torchnp alone has several": (1, 1, 0),
    "one each": (1, 1, 1),
}


def times(calls: list[Callable[[], object]]) -> list[list[float]]:
    """Return the milliseconds of each function's calls; the functions are called in turn."""
    found: list[list[float]] = [[] for _ in calls]
    for function in calls:
        function()
    for _ in range(CALLS):
        for function, taken in zip(calls, found, strict=True):
            start = time.perf_counter()
            function()
            taken.append(1e3 * (time.perf_counter() - start))
    return found


def measure(own: int) -> dict[str, list[float]]:
    import torch

    import torchnp

    if own:
        torchnp.set_num_threads(own)
    a, x = torch.randn(SIZE, SIZE), torch.randn(ELEMENTS)
    mine, numbers = a.numpy(), x.numpy()
    theirs = {"mm": lambda: torch.mm(a, a), "add": lambda: torch.add(x, x)}
    ours = {"mm": lambda: torchnp.aten.mm(mine, mine), "add": lambda: torchnp.aten.add(numbers, numbers)}
    found = {}
    for op in theirs:
        found[f"torch {op}"], found[f"torchnp {op}"] = times([theirs[op]])[0], times([ours[op]])[0]
        found[f"torch {op}, in turn"], found[f"torchnp {op}, in turn"] = times([theirs[op], ours[op]])
    return found


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--one", type=int, help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.one is not None:
        print(json.dumps(measure(a.one)))
        return
    heads: list[str] = []
    for words, (torchs, blas, own) in SETTINGS.items():
        env = dict(os.environ)
        for name, n in (("OMP_NUM_THREADS", torchs), ("MKL_NUM_THREADS", torchs), ("OPENBLAS_NUM_THREADS", blas)):
            # set each, because without its own variable OpenBLAS would take OMP_NUM_THREADS
            env[name] = str(n or len(os.sched_getaffinity(0)))
        run = subprocess.run(
            [sys.executable, __file__, "--one", str(own)], env=env, capture_output=True, text=True, check=True
        )
        found = json.loads(run.stdout.splitlines()[-1])
        if not heads:
            heads = [*found]
            print("|", " | ".join(["threads", *heads]), "|")
            print("|", "|".join(["---"] * (len(heads) + 1)), "|", sep="")
        cells = (f"{statistics.median(t):.2g} ({sorted(t)[int(0.9 * len(t))]:.2g})" for t in found.values())
        print("|", " | ".join([words, *cells]), "|", flush=True)


if __name__ == "__main__":
    main()
