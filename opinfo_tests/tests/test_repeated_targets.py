"""Lists that contain an array twice: a difference that the second call amplifies is unspecified; a wrong first call is
wrong."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import opinfo_tests
from opinfo_tests.backends.torch_backend import TorchDevice
from opinfo_tests.generate.samples.recording import freeze
from opinfo_tests.run.runner import run_case


def outcome(ulps: int, repeated: bool = True) -> str:
    """Return the verdict on tangents that are off by ``ulps`` in each call."""

    def tan_(self):
        for x in self:
            x[...] = np.tan(x.astype(np.float64))
            x.view(np.int32)[...] += ulps

    x = torch.full((1,), -1.5)
    call = ([x, torch.full((1,), -1.0), x if repeated else torch.full((1,), -1.5)],)
    case = freeze("aten::_foreach_tan_", call, {}, "", "float32")
    return run_case(case, TorchDevice("cpu"), opinfo_tests.table({"aten::_foreach_tan_": tan_}))[0].outcome


@pytest.mark.parametrize("ulps", [-1, 0, 1])
def test_what_the_second_call_magnifies_is_unspecified(ulps):
    assert outcome(ulps) in ("pass", "unspecified")
    assert outcome(ulps, repeated=False) == "pass"


@pytest.mark.parametrize("ulps", [-300, 300])
def test_a_wrong_first_call_is_wrong(ulps):
    assert outcome(ulps) == "wrong-value"
    assert outcome(ulps, repeated=False) == "wrong-value"
