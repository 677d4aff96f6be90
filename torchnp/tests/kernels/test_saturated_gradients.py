"""Gradients where the function is flat: a large gradient times a small difference."""

import numpy as np
import pytest
import torch

import torchnp


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_tanh(dtype):
    draw = torch.Generator().manual_seed(0)
    y = torch.tanh(torch.randn(1 << 14, generator=draw, dtype=dtype) * 3)
    g = torch.randn(1 << 14, generator=draw, dtype=dtype) * 1e4
    wanted = torch.ops.aten.tanh_backward(g, y).numpy()
    # Both round a few times: 1 - y * y as a whole, not y * y.
    np.testing.assert_allclose(torchnp.aten.tanh_backward(g.numpy(), y.numpy()), wanted, 4 * torch.finfo(dtype).eps)
