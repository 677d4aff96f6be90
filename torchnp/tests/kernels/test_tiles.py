"""Operators that compute large arrays tile by tile give the same bits as for small parts."""

import numpy as np
import pytest
import torch

import torchnp
from torchnp.interop import to_numpy
from torchnp.kernels import scan
from torchnp.kernels.numerics import blocks
from torchnp.kernels.numerics.blocks import STRIP, by_tiles, row_major_blocks

table = torchnp.table
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def bits(*arrays):
    return [(x.tobytes(), x.shape, x.strides, x.dtype) for x in arrays]


@pytest.fixture
def small(monkeypatch):
    """Make tiles small, so that arrays count as large."""

    def make():
        monkeypatch.setattr(blocks, "STRIP", 64)
        monkeypatch.setattr(scan, "STRIP", 64)
        monkeypatch.setattr(scan, "_COLUMNS", 8)

    return make


@pytest.mark.parametrize("shape", [(), (5,), (7, 3), (2, 1, 9), (1, 100), (3, 4, 5, 6)])
@pytest.mark.parametrize("size", [1, 7, 20, 1000])
def test_tiles_cover_each_element_once(shape, size):
    seen = np.zeros(shape, int)
    for tile in row_major_blocks(shape, 1, size):
        assert seen[tile].size <= size
        seen[tile] += 1
    assert (seen == 1).all()


@pytest.mark.parametrize("turned", [False, True])
def test_results_keep_the_order_of_the_first_operand(turned):
    x = np.arange(2.0 * STRIP + 6).reshape(2, -1)
    x = x.T if turned else x
    row = x[:1]
    total, flags = by_tiles(lambda a, b, c: (a + b * c, a > b), x, row, np.array(2.0))
    assert bits(total, flags) == bits(x + row * 2, x > row)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_several_results(dtype, small):
    torch.manual_seed(0)
    x, other = (to_numpy(v) for v in torch.randn(2, 6, 40).to(dtype))
    scale, zero = np.linspace(0.1, 1, 6, dtype=np.float32), np.zeros(6, np.int32)
    calls = [
        lambda: table["aten::fake_quantize_per_tensor_affine_cachemask"](x, 0.1, 0, -8, 7),
        lambda: table["aten::fake_quantize_per_channel_affine_cachemask"](x.T, scale, zero, 1, 0, 7),
        lambda: table["aten::log_sigmoid_forward"](x.T),
        lambda: [table["aten::glu_backward"](other, np.concatenate([x, x]), 0)],
        lambda: [table["aten::glu_backward"](other.T, np.concatenate([x.T, x.T], 1), 1)],
    ]
    whole = [bits(*call()) for call in calls]
    small()
    assert [bits(*call()) for call in calls] == whole


@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_huber_loss_backward(dtype, reduction):
    torch.manual_seed(0)
    for size in (STRIP, 2 * STRIP + 37):
        g, x, t = torch.randn(3, size).to(dtype)
        found = table["aten::huber_loss_backward"](*map(to_numpy, (g, x, t)), reduction, 0.7)
        expected = torch.ops.aten.huber_loss_backward(g, x, t, reduction, 0.7)
        assert found.tobytes() == to_numpy(expected).tobytes()


@pytest.mark.parametrize("op", ["cumsum", "cumprod", "logcumsumexp"])
@pytest.mark.parametrize("dtype", [*DTYPES, torch.int32], ids=str)
def test_scans(op, dtype, small):
    torch.manual_seed(0)
    whole, cut = [], []
    for shape in ((300,), (3, 200), (200, 3), (5, 6, 40)):
        x = to_numpy((torch.randn(shape) * 2).to(dtype))
        x[..., 0] = 0
        if op == "logcumsumexp" and dtype == torch.int32:
            continue
        for view in (x, x.T, x[::2]):
            for dim in range(x.ndim):
                whole.append((view, dim, table[f"aten::{op}"](view, dim, **_told(op, dtype))))
    small()
    cut = [table[f"aten::{op}"](view, dim, **_told(op, dtype)) for view, dim, _ in whole]
    assert bits(*cut) == bits(*(result for *_, result in whole))


def _told(op, dtype):
    """Return a dtype as a string, for which the fast path is not taken."""
    return {} if op == "logcumsumexp" or dtype != torch.float32 else {"dtype": np.dtype(np.float32)}
