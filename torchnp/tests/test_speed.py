"""What makes small operators and the import fast, in counts that do not depend on the processor.

``scripts/bench_ops.py`` measures times next to torch's. Times depend on the processor, so a limit on them would test
the machine.
"""

import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

import torchnp


def steps(function, *args):
    """Count the lines of Python, the Python functions and the built-in functions that a call runs, including the call
    itself."""
    counts = Counter()

    def count(frame, event, arg):
        counts[event] += 1
        return count

    def count_builtins(frame, event, arg):
        counts[event] += event == "c_call" and arg is not sys.setprofile

    trace, profile = sys.gettrace(), sys.getprofile()
    try:
        sys.settrace(count)
        function(*args)
        sys.settrace(None)
        sys.setprofile(count_builtins)
        function(*args)
    finally:
        sys.setprofile(profile)
        sys.settrace(trace)
    return counts


@pytest.mark.parametrize("name", ["add.Tensor", "sub.Tensor", "mul.Tensor"])
def test_arithmetic_of_small_arrays_runs_few_steps(name):
    """A second Python function in the path of every small call would be the first thing to slow it down."""
    kernel, a = torchnp.table[f"aten::{name}"], np.ones((8, 8), np.float32)
    kernel(a, a)  # the first call binds the kernel
    counts = steps(kernel, a, a)
    assert counts["call"] == 1 and counts["line"] <= 16 and counts["c_call"] <= 2, counts


def test_steps_are_counted():
    def inner(x):
        return len(x)

    counts = steps(lambda x: inner(x) + len(x), [1])
    assert (counts["call"], counts["line"], counts["c_call"]) == (2, 2, 2)


def test_import_loads_numpy_and_little_else():
    """The table, SciPy and torch are loaded by the first call that needs them."""
    code = "import sys, numpy, ml_dtypes; before = {*sys.modules}; import torchnp; print(*{*sys.modules} - before)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert {name for name in loaded if name.startswith("torchnp")} <= {
        "torchnp",
        "torchnp.core",
        "torchnp.core.target",
        "torchnp.dtypes",
        "torchnp.float_to_integer",
    }
    assert len(loaded) <= 10, loaded
