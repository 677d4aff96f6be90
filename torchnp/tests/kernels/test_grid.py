"""Volumes sampled at a grid's points: every step is rounded as in torch's loops, also for points at NaN and
infinity."""

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

# Some points are NaN or infinite; for bfloat16, torch's conversion of these to integers is undefined in C.
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


@pytest.mark.parametrize("points", [(1, 1), (7, 3), (2, 3, 4)], ids=str)
@pytest.mark.parametrize("memory", ["contiguous", "channels last", "expanded"])
def test_blocks_of_points_change_no_bit(monkeypatch, points, memory):
    """Blocks of several images, of a part of one, and of all points give the same sums in the same order."""
    random, n = np.random.default_rng(3), len(points)
    x, grad = (random.standard_normal((5, 3, *s), np.float32) for s in ((4, 3, 5)[-n:], points))
    if memory == "channels last":
        x, grad = (np.moveaxis(np.moveaxis(v, 1, -1).copy(), -1, 1) for v in (x, grad))
    if memory == "expanded":
        x, grad = (np.broadcast_to(v[:, :1], v.shape) for v in (x, grad))
    grid = (1.3 * random.standard_normal((5, *points, n))).astype(np.float32)
    grid.reshape(-1)[::9] = np.nan
    names = [f"aten::grid_sampler_{n}d"] + ["aten::_grid_sampler_2d_cpu_fallback"] * (n == 2)

    def found():
        for name, mode, padding in itertools.product(names, (0, 1, 2)[: 5 - n], (0, 1, 2)):
            masks = [[True, True]] * ("fallback" not in name)
            yield torchnp.table[name](x, grid, mode, padding, False)
            yield from torchnp.table[f"{name}_backward"](grad, x, grid, mode, padding, False, *masks)

    whole = list(found())
    for size in (4, 50):
        monkeypatch.setattr("torchnp.kernels.grid._BLOCK", 1)
        monkeypatch.setattr("torchnp.kernels.grid._POINTS", size)
        for one, other in zip(whole, found(), strict=True):
            np.testing.assert_array_equal(one, other)


def test_many_small_images_and_many_points():
    random = torch.Generator().manual_seed(6)
    for images, points in ((3000, (1, 1, 2)), (1, (30, 20, 20))):
        x, grid = (
            torch.randn((images, 2, 2, 3, 2), generator=random),
            torch.randn((images, *points, 3), generator=random),
        )
        grad = torch.randn((images, 2, *points), generator=random)
        theirs = torch.ops.aten.grid_sampler_3d_backward(grad, x, grid, 0, 2, False, (True, True))
        given = [to_numpy(t) for t in (grad, x, grid)]
        for t, m in zip(theirs, torchnp.table["aten::grid_sampler_3d_backward"](*given, 0, 2, False, (True, True))):
            same(t, m)
