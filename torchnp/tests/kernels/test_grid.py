"""Volumes at the points of a grid: every step rounded as torch's loops round it, points that are nowhere included."""

import itertools

import numpy as np
import pytest
import torch

import torchnp
from torchnp.interop import to_numpy

SHAPES = [
    ((2, 3, 3, 2, 4), (2, 3, 2)),
    ((1, 1, 1, 1, 1), (2, 1, 3)),
    ((2, 2, 4, 3, 2), (0, 2, 2)),
    ((1, 0, 2, 2, 2), (1, 2, 1)),
]

# Points that are nowhere are NaN and infinite; torch converts those of bfloat16 to integers as C leaves undefined.
KINDS = [(torch.bfloat16, False), *itertools.product((torch.float16, torch.float32, torch.float64), (False, True))]


def same(theirs, mine):
    assert mine.dtype == to_numpy(theirs).dtype
    np.testing.assert_array_equal(mine.astype(np.float64), to_numpy(theirs).astype(np.float64))


@pytest.mark.parametrize("dtype, nowhere", KINDS, ids=str)
@pytest.mark.parametrize("shape, points", SHAPES, ids=str)
def test_volumes_bit_for_bit(dtype, nowhere, shape, points):
    random = torch.Generator().manual_seed(5)
    x = torch.randn(shape, generator=random).to(dtype)
    grid = (1.3 * torch.randn((shape[0], *points, 3), generator=random)).to(dtype)
    if nowhere:
        grid.view(-1)[::4], grid.view(-1)[1::7], grid.view(-1)[2::9] = torch.nan, torch.inf, -torch.inf
    grad = torch.randn((*shape[:2], *points), generator=random).to(dtype)
    table, aten = torchnp.table, torch.ops.aten
    for mode, padding, corners in itertools.product((0, 1), (0, 1, 2), (False, True)):
        how = (mode, padding, corners)
        same(aten.grid_sampler_3d(x, grid, *how), table["aten::grid_sampler_3d"](to_numpy(x), to_numpy(grid), *how))
        theirs = aten.grid_sampler_3d_backward(grad, x, grid, *how, (True, True))
        given = [to_numpy(t) for t in (grad, x, grid)]
        for t, m in zip(theirs, table["aten::grid_sampler_3d_backward"](*given, *how, (True, True)), strict=True):
            same(t, m)
