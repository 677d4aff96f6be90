"""Nearest upsampling by a factor in compiled graphs takes eager torch's pixels; torch's own decomposition takes
others."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from torchnp import compiler


@pytest.fixture(autouse=True)
def reset():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_pixels_and_gradients(dims, mode):
    factors = (1.1, 2.05, 2.4)

    def f(x):
        return [F.interpolate(x, scale_factor=factor, mode=mode) for factor in factors]

    for n in (3, 5):
        results = []
        for run in (f, torch.compile(f, backend=compiler.backend)):
            x = torch.arange(2.0 * n**dims).reshape(1, 2, *[n] * dims).requires_grad_()
            out = run(x)
            sum((y * torch.arange(float(y.numel())).reshape(y.shape)).sum() for y in out).backward()
            results.append([*out, x.grad])
        for found, want in zip(*results, strict=True):
            assert torch.equal(found, want) and found.stride() == want.stride()


def test_sizes_that_change():
    run = torch.compile(lambda x: F.interpolate(x, scale_factor=2.05), backend=compiler.backend, dynamic=True)
    for n in (3, 5, 11):
        x = torch.arange(1.0 * n * n).reshape(1, 1, n, n)
        assert torch.equal(run(x), F.interpolate(x, scale_factor=2.05))


def test_other_backends_are_left_what_they_have():
    """torch's own decomposition takes other pixels, as its backend `aot_eager` shows, which otherwise computes like
    eager torch."""
    x = torch.arange(25.0).reshape(1, 1, 5, 5)
    operators = torch.ops.aten.upsample_nearest2d, torch.ops.aten._upsample_nearest_exact3d

    def registered():
        return [dict(f.py_kernels) for packet in operators for f in (packet.default, packet.vec)]

    before = registered()
    torch.compile(lambda x: F.interpolate(x, scale_factor=2.05), backend=compiler.backend)(x)
    assert registered() == before and all(before)
    theirs = torch.compile(lambda x: F.interpolate(x, scale_factor=2.05), backend="aot_eager")(x)
    assert not torch.equal(theirs, F.interpolate(x, scale_factor=2.05))
