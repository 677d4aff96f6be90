"""Which of two zeros torch's maximum and minimum return: its vector code the second, its scalar loop the first."""

import itertools

import numpy as np
import pytest
import torch

import torchnp
from torchnp.interop import to_numpy

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
# Fewer elements than any processor's vector, and whole pairs of the widest vectors; for other sizes the result depends
# on the processor.
SIZES = (1, 2, 3, 64, 256, 1024)


def zeros(n, seed, dtype):
    sign = torch.randint(2, (n,), generator=torch.Generator().manual_seed(seed))
    return torch.where(sign == 1, -0.0, 0.0).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ["maximum", "minimum", "fmax", "fmin", "max.other", "min.other"])
def test_of_two(name, dtype):
    function, kernel = getattr(torch, name.partition(".")[0]), torchnp.table[f"aten::{name}"]
    for n in SIZES:
        a, b = zeros(n, n, dtype), zeros(n, n + 1, dtype)
        alone = torch.tensor(-0.0, dtype=dtype)
        for x, y in ((a, b), (b, a), (a[::2], b[::2]), (a, alone), (alone, a), (alone, torch.tensor(0.0, dtype=dtype))):
            wanted, found = function(x, y), kernel(to_numpy(x), to_numpy(y))
            assert np.array_equal(np.signbit(found), torch.signbit(wanted).numpy()), (n, x.stride(), y.shape)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_of_other_values(name, dtype):
    """Other values are as before: nan on either side, infinities, equal values."""
    special = [float("nan"), float("inf"), float("-inf"), 1.5, -1.5, 0.0]
    pairs = torch.tensor([*itertools.product(special, special)] * 4, dtype=dtype)
    x, y = pairs[:, 0].clone(), pairs[:, 1].clone()
    for part in (slice(None), slice(5), slice(0, 100, 3)):
        found = torchnp.table[f"aten::{name}"](to_numpy(x[part]), to_numpy(y[part])).astype(np.float64)
        np.testing.assert_array_equal(found, getattr(torch, name)(x[part], y[part]).double().numpy())
