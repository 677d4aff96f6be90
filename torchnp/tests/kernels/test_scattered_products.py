"""Products of complex numbers at indices have the same bits as torch's multiplication."""

import warnings

import numpy as np
import pytest
import torch

import torchnp

DTYPES = [torch.complex64, torch.complex128]
# torch's loops fuse a product and a sum if torch was compiled for processors that can.
FUSED = torch.backends.cpu.get_cpu_capability() != "DEFAULT"


def numbers(shape, seed, dtype):
    x = torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))
    return torch.view_as_complex(torch.stack([x.real * 3, x.imag], -1))


def check(found, wanted, dtype):
    if dtype is torch.complex128 and not FUSED:
        torch.testing.assert_close(torch.from_numpy(found), wanted)
    else:
        real = torch.view_as_real(wanted).numpy()
        np.testing.assert_array_equal(found.view(real.dtype).reshape(real.shape), real)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("named", [1, 3, 50, 1000], ids=lambda n: f"{n} places")
@pytest.mark.parametrize("shape, dim", [((400,), 0), ((60, 7), 0), ((7, 60), 1), ((5, 30, 3), 1)])
def test_products(shape, dim, named, dtype):
    """Some places get no value and others many; the order matters."""
    target, source = numbers(shape, 0, dtype), numbers(shape, 1, dtype)
    index = torch.randint(min(named, shape[dim]), shape, generator=torch.Generator().manual_seed(2))
    given = target.numpy(), dim, index.numpy(), source.numpy()
    for include in (True, False):
        wanted = target.scatter_reduce(dim, index, source, "prod", include_self=include)
        found = torchnp.table["aten::scatter_reduce.two"](*given, "prod", include_self=include)
        check(found, wanted, dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns once that scatter with a reduction is deprecated
        wanted = target.scatter(dim, index, source, reduce="multiply")
        found = torchnp.table["aten::scatter.reduce"](*given, reduce="multiply")
    check(found, wanted, dtype)
    number = complex(0.3, -1.7)
    found = torchnp.table["aten::scatter.value_reduce"](*given[:3], number, reduce="multiply")
    check(found, target.scatter(dim, index, number, reduce="multiply"), dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_infinities(dtype):
    special = [
        complex(a, b)
        for a in (0.0, -0.0, 1.5, np.inf, -np.inf, np.nan, 1e30)
        for b in (0.0, -0.0, -2.0, np.inf, np.nan)
    ]
    pairs = torch.tensor([(a, b) for a in special for b in special], dtype=dtype)
    target, source = pairs[:, 0].clone(), pairs[:, 1].clone()
    index = torch.arange(len(pairs))
    wanted = target.scatter_reduce(0, index, source, "prod")
    found = torchnp.table["aten::scatter_reduce.two"](target.numpy(), 0, index.numpy(), source.numpy(), "prod")
    check(found, wanted, dtype)
