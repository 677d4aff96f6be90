"""Limits (clamp, relu, ...) of half types, which compare bits: every value, both sides of the threshold, any memory
order."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import torchnp
from torchnp.interop import to_numpy

EVERY = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int16)
LIMITS = [
    (0, None), (-0.0, None), (None, 0.0), (None, -0.0), (-1, 1), (0, 6), (-0.0, 0.0), (0.0, -0.0), (1, -1), (-3, -2),
    (1e-7, 2), (-60000, 60000), (math.nan, 1),
]  # fmt: skip
LAYOUTS = {
    "all": lambda x: x.repeat(3),
    "column-major": lambda x: x.reshape(256, 256).t(),
    "stepped": lambda x: x[::2],
    "few": lambda x: x[31000:32023],
    "many": lambda x: x[31000:32024],
}


def same(ours, theirs):
    nan = torch.isnan(theirs).numpy()
    assert np.array_equal(np.isnan(ours.astype(np.float32)), nan)
    bits = np.ascontiguousarray(ours).view(np.int16), theirs.contiguous().view(torch.int16).numpy()
    assert np.array_equal(*(np.where(nan, 0, b) for b in bits))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_each_value_is_limited_as_in_torch(dtype, layout):
    x = LAYOUTS[layout](EVERY.view(dtype))
    for low, high in LIMITS:
        same(torchnp.table["aten::clamp"](to_numpy(x), low, high), torch.clamp(x, low, high))
    for name in ("relu", "hardtanh", "relu6"):
        same(torchnp.table[f"aten::{name}"](to_numpy(x)), getattr(torch.nn.functional, name)(x))
