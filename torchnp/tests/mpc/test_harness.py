"""The harness on shares, for a part of the calls; docs/mpc.md has the figures of all."""

import re
import subprocess
import sys

import pytest

from torchnp import mpc

OPS = "mul.Tensor,div.Tensor,mm,exp,log,erf,sum.dim_IntList,relu,amax,sort,index_select,scatter_add,_softmax,cumprod"


def test_at_least_95_percent_of_drawn_calls_pass(tmp_path):
    names = ",".join(f"aten::{name}" for name in OPS.split(","))
    command = [sys.executable, "-m", "opinfo_tests", "--backend", "engine:torchnp.mpc:local", "--dtypes", "float32"]
    command += ["--no-errors", "--no-samples", "--draws", "3", "--jobs", "0", "--ops", names, "--gaps", "none.toml"]
    (tmp_path / "none.toml").write_text("")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    passed, total = re.search(r"([\d,]+) of ([\d,]+) calls? pass, 1\d overloads", done.stdout).groups()
    passed, total = (int(n.replace(",", "")) for n in (passed, total))
    assert total >= 20 and passed >= 0.95 * total, done.stdout


def test_what_the_engine_declares_to_the_harness():
    engine = mpc.local(bits=20)
    assert engine.resolution["float32"] == 2.0**-20 and engine.largest["float32"] == 2.0**11
    assert engine.tolerances["float32"] == (2.0**-16, 2.0**-16)


def test_arguments_are_rounded_and_those_out_of_range_are_not_judged():
    opinfo_tests = pytest.importorskip("opinfo_tests.backends.engine_backend")
    import numpy as np

    from opinfo_tests.backends.torch_backend import TorchDevice
    from opinfo_tests.case import Array, Case

    backend = opinfo_tests.engine(mpc.local())
    case = lambda *values: Case(
        "aten::exp", (Array(0, "float32", (len(values),), (4,)),), {}, [np.array(values, np.float32).view(np.uint8)]
    )
    unit = 2.0**-18
    found = backend.fitted(case(1.3 * unit, 2 * unit))
    assert found.arrays()[0].on(found.buffers).tolist() == [unit, 2 * unit]
    assert backend.fitted(found) is found and found.digest != case(1.3 * unit, 2 * unit).digest
    outside = lambda c: backend.out_of_range(c, lambda: TorchDevice("cpu").execute(c))
    assert outside(case(1.0)) == "" and "a result" in outside(case(10.0))
    assert "an argument" in outside(case(-8193.0)) and "an argument" in outside(case(float("inf")))
