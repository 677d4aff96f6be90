"""Pools over bins: each sum in torch's order, whether bins are few or many, equal or not, of few or many planes."""

import numpy as np
import pytest
import torch

import torchnp
from torchnp.interop import to_numpy

IMAGES = [
    ((1, 1, 40, 50), (1, 1)),  # a single sum
    ((1, 1, 40, 50), (4, 5)),
    ((1, 3, 40, 50), (3, 4)),
    ((1, 9, 40, 50), (3, 4)),
    ((2, 9, 8, 8), (5, 7)),  # fewer elements than bins
    ((300, 3, 12, 12), (4, 4)),
    ((1, 1, 3, 40000), (2, 3)),  # longer than a strip
]
VOLUMES = [((1, 1, 9, 10, 11), (1, 1, 1)), ((2, 5, 8, 8, 6), (4, 3, 5)), ((2, 5, 9, 9, 9), (2, 2, 2))]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels last"])
@pytest.mark.parametrize("shape, out", IMAGES + VOLUMES, ids=str)
def test_adaptive_averages_bit_for_bit(shape, out, last, dtype):
    n = len(out)
    x = torch.randn(shape, generator=torch.Generator().manual_seed(2)).to(dtype)
    name = f"_adaptive_avg_pool{n}d"
    theirs = getattr(torch.ops.aten, name)(x, out)
    if last:  # where torch divides in other steps
        x = x.contiguous(memory_format=torch.channels_last if n == 2 else torch.channels_last_3d)
    mine = torchnp.table[f"aten::{name}"](to_numpy(x), out)
    np.testing.assert_array_equal(mine.astype(np.float64), to_numpy(theirs).astype(np.float64))
