"""The two speed promises that hold on any machine: import time, and what a small op costs beside torch eager.

Ratios are measured side by side; the best of several attempts counts, because other work on the
machine only ever adds time. ``scripts/bench_ops.py`` prints the whole set.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import torchnp

pytestmark = pytest.mark.skipif(
    "PYTEST_XDIST_WORKER" in os.environ, reason="other workers have the cores: pytest torchnp/tests/test_speed.py"
)

spec = importlib.util.spec_from_file_location(
    "bench_ops", Path(__file__).resolve().parents[2] / "scripts" / "bench_ops.py"
)
bench = importlib.util.module_from_spec(spec)
spec.loader.exec_module(bench)


def best(ratio, bound, attempts=6):
    found = []
    for _ in range(attempts):
        found.append(ratio())
        if found[-1] <= bound:
            break
    return min(found)


def test_import_takes_at_most_twice_the_time_of_numpy():
    assert best(lambda: bench.bench_import(rounds=5), 2.0) <= 2.0


def small_add():
    kernel = torchnp.table["aten::add.Tensor"]
    a = np.ones((8, 8), np.float32)
    t = torch.ones(8, 8)

    def ratio():
        theirs, mine = bench.measure(lambda: torch.add(t, t), lambda: kernel(a, a), rounds=7)
        return min(mine) / min(theirs)

    return best(ratio, 0.7, attempts=4)


def test_small_add_takes_at_most_seven_tenths_of_torch():
    """It is 0.58 to 0.66, by processor, of one and the same code.

    Each attempt is a process of its own: where things fall in its memory is worth a tenth, either way.
    """
    assert best(lambda: float(subprocess.check_output([sys.executable, __file__])), 0.7) <= 0.7


if __name__ == "__main__":
    print(small_add())
