"""The script that finds ufuncs with wrong results in strided memory."""

import runpy
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "check_ufuncs.py"


@pytest.mark.parametrize("name, loop", [("negative", "f->f"), ("isnan", "f->?"), ("signbit", "d->?"), ("add", "ff->f")])
def test_guarded_ufuncs_are_right_at_all_strides(name, loop):
    names = runpy.run_path(str(SCRIPT))
    with np.errstate(all="ignore"):
        assert names["wrong_strides"](names["trusted"](getattr(np, name)), getattr(np, name), *loop.split("->")) == []


def test_a_wrong_ufunc_is_found():
    names = runpy.run_path(str(SCRIPT))

    def off(x, y, out):
        np.add(x, y, out=out)
        if out.strides[0] > out.itemsize:
            out[-1] = 0
        return out

    assert names["wrong_strides"](off, np.add, "ii", "i")
