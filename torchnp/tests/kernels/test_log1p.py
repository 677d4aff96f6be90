"""log1p of complex numbers near zero keeps the digits that 1 + z loses."""

import numpy as np
import pytest
import torch

import torchnp


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_near_zero_and_far(dtype):
    draw = np.random.default_rng(0)
    size = 10.0 ** draw.integers(-9, 4, 4000)
    z = torch.from_numpy((draw.normal(size=4000) + 1j * draw.normal(size=4000)) * size).to(dtype)
    want, got = torch.log1p(z).numpy(), torchnp.aten.log1p(z.numpy())
    near = np.abs(z.numpy()) < 0.3
    ulp = np.finfo(want.real.dtype).eps
    for part in ("real", "imag"):
        w, g = getattr(want, part)[near], getattr(got, part)[near]
        size = np.abs(w) if part == "imag" else np.maximum(np.abs(w), np.abs(z.numpy()[near]) ** 2 * 0.1)
        assert (np.abs(w - g) <= 64 * ulp * size).all()
    np.testing.assert_allclose(got[~near], want[~near], rtol=20 * ulp, atol=20 * ulp)


def test_special_values():
    z = [
        0j,
        complex(-0.0, 0.0),
        complex(0.0, -0.0),
        -1 + 0j,
        -2 + 0j,
        complex("nan"),
        complex("inf"),
        complex(1, float("nan")),
    ]
    np.testing.assert_array_equal(
        torchnp.aten.log1p(np.array(z)), torch.log1p(torch.tensor(z, dtype=torch.complex128)).numpy()
    )
    assert torchnp.aten.log1p(np.array(1j)).shape == ()
