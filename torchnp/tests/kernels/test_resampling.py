"""Resampling by scale factors that floating point cannot represent."""

from __future__ import annotations

import pytest
import torch

import torchnp
from torchnp.interop import to_numpy

LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["upsample_nearest", "_upsample_nearest_exact"])
@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("last", [False, True])
def test_nearest_by_factors(last, dims, name, dtype):
    """torch has double precision positions in its general loop alone, which is that of images of more than 128."""
    overload = f"{name}{dims}d"
    for factor in (2.7, 1.1, 1.7):
        x = torch.arange(60).expand(1, 4, *[2] * (dims - 1), 60).to(dtype).contiguous()
        if last and dims > 1:
            x = x.contiguous(memory_format=LAST[x.ndim])
        for row in (2, 130):
            args = [row] * (dims - 1) + [int(60 * factor)], *[None] * (dims - 1), factor
            theirs = getattr(torch.ops.aten, overload)(x, *args)
            assert (torchnp.table[f"aten::{overload}"](to_numpy(x), *args) == to_numpy(theirs)).all()
