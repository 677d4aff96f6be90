"""Pools over bins: each sum in torch's order, for few or many bins, equal or not, and for few or many planes."""

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
LONE = [((4, 4, 6, 7), (3, 2, 2)), ((4, 4, 6, 7), (0, 0, 9))]  # their strides may look like those of an image
VOLUMES = [((1, 1, 9, 10, 11), (1, 1, 1)), ((2, 5, 8, 8, 6), (4, 3, 5)), ((2, 5, 9, 9, 9), (2, 2, 2))]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels last"])
@pytest.mark.parametrize("shape, out", IMAGES + VOLUMES + LONE, ids=str)
def test_adaptive_averages_bit_for_bit(shape, out, last, dtype):
    n = len(out)
    x = torch.randn(shape, generator=torch.Generator().manual_seed(2)).to(dtype)
    name = f"_adaptive_avg_pool{n}d"
    theirs = getattr(torch.ops.aten, name)(x, out)
    if last:  # here torch divides in other steps
        x = x.contiguous(memory_format=torch.channels_last if x.ndim == 4 else torch.channels_last_3d)
    mine = torchnp.table[f"aten::{name}"](to_numpy(x), out)
    np.testing.assert_array_equal(mine.astype(np.float64), to_numpy(theirs).astype(np.float64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape, size", [((2, 3, 4, 5), (3, 3)), ((3000, 2, 2, 2), (3, 2)), ((1, 2, 130, 131), (7, 9))])
def test_scattering_into_planes(shape, size, dtype):
    """For equal indices, the last value counts in max_unpool, and all gradients are added, over blocks of planes or
    parts of a plane."""
    random = torch.Generator().manual_seed(4)
    x = torch.randn(shape, generator=random).to(dtype)
    indices = torch.randint(0, size[0] * size[1], shape, generator=random)
    image = torch.zeros((*shape[:2], *size), dtype=dtype)
    calls = [("max_unpool2d", (x, indices, size)), ("adaptive_max_pool2d_backward", (x, image, indices))]
    for name, args in calls:
        theirs = getattr(torch.ops.aten, name)(*args)
        mine = torchnp.table[f"aten::{name}"](*(to_numpy(a) if isinstance(a, torch.Tensor) else a for a in args))
        np.testing.assert_array_equal(mine.astype(np.float64), to_numpy(theirs).astype(np.float64))


def test_unpooling_refuses_the_first_wrong_index():
    x, indices = np.zeros((1, 2, 130, 131), np.float32), np.zeros((1, 2, 130, 131), np.int64)
    indices[0, 1, 100, 5], indices[0, 1, 120, 5] = -7, 99
    with pytest.raises(RuntimeError, match="Found an invalid max index: -7"):
        torchnp.table["aten::max_unpool2d"](x, indices, [3, 3])


@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels last"])
@pytest.mark.parametrize("shape", [(2, 3, 7, 9), (1500, 3, 6, 6), (1, 3, 260, 259)])
def test_blocks_of_planes_change_no_average(monkeypatch, shape, last):
    x = np.random.default_rng(1).standard_normal(shape, np.float32)
    if last:
        x = np.moveaxis(np.moveaxis(x, 1, -1).copy(), -1, 1)
    window, table = ([3, 2], [2, 2], [1, 1], True, False), torchnp.table
    found = []
    for size in (1 << 16, 1 << 30):
        monkeypatch.setattr("torchnp.kernels.pool._WHOLE", size)
        monkeypatch.setattr("torchnp.kernels.backward.pool._WHOLE", size)
        mean = table["aten::avg_pool2d"](x, *window)
        found.append((mean, table["aten::avg_pool2d_backward"](mean, x, *window, None)))
    for a, b in zip(*found, strict=True):
        assert a.strides == b.strides
        np.testing.assert_array_equal(a, b)
