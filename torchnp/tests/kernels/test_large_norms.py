"""Means and deviations of millions of float32 numbers, compared with float64."""

import numpy as np
import pytest
import torch

import torchnp
from torchnp.interop import to_numpy

SHAPES = [(1, 4_100_001), (3, 1_000_000), (40, 50_000), (700, 5000)]
EPS = 1e-5
# Eight ulps, because BLAS's sums depend on the processor. torch's own results are within two, and off by hundreds if
# channels are innermost.
NEAR = 1e-6


@pytest.fixture(scope="module", params=[(s, m) for s in SHAPES for m in (0.0, 3.0)], ids=str)
def given(request):
    """Return the rows, their means and their reciprocal deviations in float64."""
    shape, middle = request.param
    x = np.random.default_rng(0).random(shape, np.float32) + np.float32(middle)
    wide = x.astype(np.float64)
    return x, wide.mean(1), 1 / np.sqrt(wide.var(1) + EPS)


def near(found, wanted):
    np.testing.assert_allclose(found.reshape(-1).astype(np.float64), wanted, rtol=NEAR)


def test_layer_norm(given):
    x, mean, rstd = given
    out, *found = torchnp.table["aten::native_layer_norm"](x, [x.shape[1]], None, None, EPS)
    near(found[0], mean)
    near(found[1], rstd)
    wanted = (x[:, :1000] - mean[:, None]) * rstd[:, None]
    np.testing.assert_allclose(out[:, :1000], wanted, rtol=1e-5, atol=3e-6)


@pytest.mark.parametrize("channels", [1, 5])
def test_group_norm(given, channels):
    x, mean, rstd = given
    if x.shape[1] % channels:
        channels = 1
    y = x.reshape(1, len(x) * channels, -1)
    _, *found = torchnp.table["aten::native_group_norm"](y, None, None, *y.shape, len(x), EPS)
    near(found[0], mean)
    near(found[1], rstd)


@pytest.mark.parametrize("layout", ["channels first", "channels last", "two dimensions"])
def test_batch_norm(given, layout):
    x, mean, rstd = given
    if layout == "channels first":
        y = x[None]
    else:
        y = np.ascontiguousarray(x.T)
        y = y if layout == "two dimensions" else y.T[None]
    running = [np.zeros(len(x), np.float32), np.ones(len(x), np.float32)]
    _, *found = torchnp.table["aten::native_batch_norm"](y, None, None, *running, True, 1.0, EPS)
    near(found[0], mean)
    near(found[1], rstd)
    near(running[0], mean)
    near(running[1], (1 / rstd**2 - EPS) * x.shape[1] / (x.shape[1] - 1))


def test_instance_norm(given):
    x, mean, rstd = given
    out = torchnp.table["aten::instance_norm"](x[None], None, None, None, None, True, 0.1, EPS, False)[0]
    wanted = (x[:, :1000] - mean[:, None]) * rstd[:, None]
    np.testing.assert_allclose(out[:, :1000], wanted, rtol=1e-5, atol=3e-6)


def test_variances_means_and_norms(given):
    x, mean, rstd = given
    variance = (1 / rstd**2 - EPS) * x.shape[1] / (x.shape[1] - 1)
    for name in ("var", "std"):
        found = torchnp.table[f"aten::{name}.correction"](x, [1])
        near(found, variance if name == "var" else np.sqrt(variance))
    near(torchnp.table["aten::var_mean.correction"](x, [1])[1], mean)
    near(torchnp.table["aten::mean.dim"](x, [1]), mean)
    near(torchnp.table["aten::linalg_vector_norm"](x, 2, [1]), np.sqrt((x.astype(np.float64) ** 2).sum(1)))
    squares = (x.astype(np.float64) ** 2).mean(1)
    near(torchnp.table["aten::_fused_rms_norm"](x, [x.shape[1]], None, EPS)[1], 1 / np.sqrt(squares + EPS))
    near(torchnp.table["aten::cdist"](x[:1], x[:1] * 0, 2.0, 2), np.sqrt((x[:1].astype(np.float64) ** 2).sum(1)))


def test_gradients(given):
    """Layer norm and softmax use sums over rows of the same length."""
    x, mean, rstd = given
    grad = np.random.default_rng(1).random(x.shape, np.float32)
    stats = mean[:, None].astype(np.float32), rstd[:, None].astype(np.float32)
    found = torchnp.table["aten::native_layer_norm_backward"](
        grad, x, [x.shape[1]], *stats, None, None, [True, False, False]
    )[0]
    wide, normal = grad.astype(np.float64), (x - mean[:, None]) * rstd[:, None]
    wanted = (wide - wide.mean(1, keepdims=True) - normal * (wide * normal).mean(1, keepdims=True)) * rstd[:, None]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=2e-5)
    total = (wide * x.astype(np.float64)).sum(1, keepdims=True)
    found = torchnp.table["aten::_softmax_backward_data"](grad, x, 1, np.dtype(np.float32))
    np.testing.assert_allclose(found, (wide - total) * x, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("shape", [(3, 50), (4, 50, 1, 1, 1), (2, 50, 3), (3, 21845), (3, 21846), (5, 40, 1)])
@pytest.mark.parametrize("spread", [0.01, 1])
def test_deviations_of_bfloat16_channels_have_torchs_mean(shape, spread):
    """If each channel has one element in an image, torch rounds the mean first. Both sides of `WIDE` are here."""
    channels = shape[1]
    x = 10 * torch.randn(1, channels, *[1] * (len(shape) - 2)) + spread * torch.randn(shape)
    args = [x, torch.randn(channels), torch.randn(channels), torch.zeros(channels), torch.ones(channels)]
    args = [a.bfloat16() for a in args]
    expected = torch.ops.aten._native_batch_norm_legit_functional(*args, True, 0.5, 1e-5)
    found = torchnp.aten._native_batch_norm_legit_functional(*map(to_numpy, args), True, 0.5, 1e-5)
    for a, b in zip(expected, found, strict=True):
        assert to_numpy(a).tobytes() == b.tobytes()


@pytest.mark.parametrize("dim, keepdim", [([1], False), ([-1], True), (None, False), ([0, 1], True)])
def test_vector_norm(given, dim, keepdim):
    x = given[0]
    axes = None if dim is None else tuple(dim)
    wanted = np.sqrt(np.square(x.astype(np.float64)).sum(axes, keepdims=keepdim))
    found = torchnp.aten.linalg_vector_norm(x, 2, dim, keepdim)
    assert found.shape == np.shape(wanted)
    near(found, np.reshape(wanted, -1))
