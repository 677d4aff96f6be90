"""Convolutions and folds in blocks give torch's results, whatever the block size."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch

import torchnp
from torchnp.kernels import fold
from torchnp.kernels.numerics import correlate

# Input, weight, stride, padding, dilation and groups.
CASES = {
    "lines": ((2, 3, 40), (4, 3, 5), 1, 2, 1, 1),
    "image": ((2, 4, 17, 40), (6, 4, 3, 3), 1, 1, 1, 1),
    "image, few points": ((3, 8, 5, 4), (4, 8, 3, 3), 1, 1, 1, 1),
    "steps": ((2, 4, 19, 23), (6, 2, 3, 5), 2, 3, 1, 2),
    "dilated": ((1, 4, 19, 23), (4, 4, 2, 3), 1, 4, 3, 1),
    "by channel": ((2, 5, 19, 23), (10, 1, 3, 3), 1, 1, 1, 5),
    "by channel, steps": ((2, 5, 19, 23), (5, 1, 5, 5), 2, 2, 1, 5),
    "large window": ((2, 2, 19, 17), (3, 2, 17, 16), 1, 0, 1, 1),
    "padding only": ((1, 2, 3, 3), (2, 2, 2, 2), 3, 9, 1, 1),
    "volume": ((1, 2, 5, 9, 11), (2, 2, 3, 3, 3), 1, 1, 1, 1),
    "one long row": ((1, 1, 3, 4, 90), (1, 1, 3, 4, 4), 1, 0, 1, 1),
}


def numbers(shape, seed, dtype=torch.float64):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(dtype)


def arrays(args):
    return [x.numpy() if isinstance(x, torch.Tensor) else x for x in args]


def check(found, wanted):
    assert found.strides == tuple(s * found.itemsize for s in wanted.stride())
    np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("budget", [1 << 20, 1 << 14, 1], ids=lambda n: f"{n} bytes")
@pytest.mark.parametrize("name", CASES)
def test_convolution(name, budget, monkeypatch):
    monkeypatch.setattr(correlate, "_BUDGET", budget)
    input_shape, weight_shape, stride, padding, dilation, groups = CASES[name]
    n = len(input_shape) - 2
    for last in (False, True):
        x, w = numbers(input_shape, 0), numbers(weight_shape, 1)
        if last and n == 2:
            x = x.contiguous(memory_format=torch.channels_last)
        rest: Any = [[stride] * n, [padding] * n, [dilation] * n, False, [0] * n, groups]
        y = torch.convolution(x, w, None, *rest)
        check(torchnp.table["aten::convolution"](*arrays([x, w, None, *rest])), y)
        # The gradient of the result, as an image that is distributed over its windows.
        given = [numbers(y.shape, 2), x, w, [len(w)], *rest, [True, True, True]]
        wanted = torch.ops.aten.convolution_backward(*given)
        for found, one in zip(torchnp.table["aten::convolution_backward"](*arrays(given)), wanted, strict=True):
            check(found, one)


@pytest.mark.parametrize("budget", [1 << 20, 1 << 12, 1], ids=lambda n: f"{n} bytes")
@pytest.mark.parametrize("window", [3, 4, 5, 11], ids=lambda n: f"window {n}")
@pytest.mark.parametrize("stride", [1, 2])
def test_transposed(window, stride, budget, monkeypatch):
    """Windows with fewer elements than the image has points, with as many, and with more."""
    monkeypatch.setattr(correlate, "_BUDGET", budget)
    x, w = numbers((2, 4, 4, 4), 0), numbers((4, 3, window, window), 1)
    w[0, 0, 0, 0] = torch.inf  # affects only the elements under its window
    args: Any = [x, w, None, [stride] * 2, [1, 0], [1, 2], True, [0, 0], 2]
    check(torchnp.table["aten::convolution"](*arrays(args)), torch.convolution(*args))


@pytest.mark.parametrize("budget", [1 << 18, 1], ids=lambda n: f"{n} bytes")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.complex64], ids=str)
def test_folds(dtype, budget, monkeypatch):
    """The bits are torch's, for windows with fewer elements than there are windows, and with more."""
    monkeypatch.setattr(fold, "_BUDGET", budget)
    for kernel, stride, padding in itertools.product([(1, 1), (2, 3), (7, 5)], [1, 2], [0, 2]):
        rest = [list(kernel), [1, 1], [padding] * 2, [stride] * 2]
        x = numbers((2, 3, 9, 8), 0, dtype)
        columns = torch.ops.aten.im2col(x, *rest)
        found = torchnp.table["aten::im2col"](x.numpy(), *rest)
        assert not np.shares_memory(found, x.numpy())
        np.testing.assert_array_equal(found, columns.numpy())
        wanted = torch.ops.aten.col2im(columns, [9, 8], *rest)
        np.testing.assert_array_equal(torchnp.table["aten::col2im"](columns.numpy(), [9, 8], *rest), wanted.numpy())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("channels", [(0, 3), (1, 1), (1, 3), (3, 1), (4, 5)], ids=str)
@pytest.mark.parametrize("times, batch", [(1, 1), (3, 2), (8, 1)])
def test_time_batch_channels(times, batch, channels, dtype):
    """Products of a column and a row, which need no sum, and of matrices."""
    x, w = numbers((times, batch, channels[0]), 0, dtype), numbers((3, *channels), 1, dtype)
    for padding in (1, 2):
        args = x, w, numbers(channels[1:], 2, dtype), padding
        found = torchnp.table["aten::conv_tbc"](*arrays(args))
        np.testing.assert_allclose(found, torch.conv_tbc(*args).numpy(), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("window", [(1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1), (1,)], ids=str)
@pytest.mark.parametrize("images", [1, 2, 16])
def test_where_onednn_starts(images, window):
    """The strides and words of oneDNN, to which torch leaves filters of one element if it has several threads."""
    before, n = torch.get_num_threads(), len(window)
    torch.set_num_threads(2)
    try:
        for stride, dilation, groups in itertools.product((1, 2), (1, 2), (1, 2)):
            x, w = (numbers((size, 4 // g, *[4] * n), 0).float() for size, g in ((images, 1), (6, groups)))
            x, w = x.movedim(1, -1).contiguous().movedim(-1, 1), w[(..., *(slice(s) for s in window))]
            rest: Any = [[stride] * n, [0] * n, [dilation] * n, False, [0] * n, groups]
            y = torch.convolution(x, w, None, *rest)
            found = torchnp.table["aten::convolution"](*arrays([x, w, None, *rest]))
            assert found.strides == tuple(4 * s for s in y.stride())
            given = [y, x, w, None, *rest, [True, True, False]]
            wanted = torch.ops.aten.convolution_backward(*given)[:2]
            for found, one in zip(torchnp.table["aten::convolution_backward"](*arrays(given)), wanted):
                assert found.strides == tuple(4 * s for s in one.stride())
            with pytest.raises(RuntimeError) as theirs:
                torch.convolution(x, w.double(), None, *rest)
            with pytest.raises(RuntimeError) as ours:
                torchnp.table["aten::convolution"](*arrays([x, w.double(), None, *rest]))
            assert str(ours.value).split(" but")[0] == str(theirs.value).split("\n")[0].split(" but")[0]
    finally:
        torch.set_num_threads(before)


def test_weight_gradient_that_torch_cannot_write():
    x = numbers((2, 12, 5, 5), 0).contiguous(memory_format=torch.channels_last)
    w = numbers((12, 1, 2, 4), 1).permute(0, 3, 2, 1)
    for transposed, given in ((True, x), (False, x[:, :4])):
        rest: Any = [[1, 1], [0, 0], [1, 1], transposed, [0, 0], 1]
        args = [torch.convolution(given, w, None, *rest), given, w, None, *rest, [False, True, False]]
        with pytest.raises(RuntimeError) as theirs:
            torch.ops.aten.convolution_backward(*args)
        with pytest.raises(RuntimeError, match=str(theirs.value).split("\n")[0]):
            torchnp.table["aten::convolution_backward"](*arrays(args))


@pytest.mark.parametrize("sizes", [(50,), (5121,), (20, 20, 20), (18, 20, 20), (16, 16, 21)], ids=str)
def test_a_single_image_is_large(sizes):
    """torch counts the elements along the first four dimensions, and takes a line for an image with one row."""
    x, w = numbers((1, 4, *sizes), 0).float(), numbers((1, 4, *[5 if len(sizes) == 1 else 2] * len(sizes)), 1)
    rest: Any = [[1] * len(sizes), [0] * len(sizes), [1] * len(sizes), False, [0] * len(sizes), 1]
    with pytest.raises(RuntimeError) as theirs:
        torch.convolution(x, w, None, *rest)
    with pytest.raises(RuntimeError) as ours:
        torchnp.table["aten::convolution"](*arrays([x, w, None, *rest]))
    assert str(ours.value)[:20] == str(theirs.value)[:20]
