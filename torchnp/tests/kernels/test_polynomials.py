"""Orthogonal polynomials: one degree, many degrees, one x; sorting by degree does not move elements."""

import numpy as np
import pytest
import torch

import torchnp
from torchnp.core.elementwise_strips import MANY

table = torchnp.table
NAMES = [f"{s}chebyshev_polynomial_{kind}" for s in ("", "shifted_") for kind in "tuvw"]
NAMES += ["hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"]
# At nan and infinities torch may return uninitialized memory.
ODD = [0.0, -0.0, 1.0, -1.0, 0.5, 1 - 2**-24, 2**-24 - 1, 2**-24, 3.0, -7.5]


def operands(size, dtype):
    torch.manual_seed(0)
    x, n = torch.randn(size, dtype=dtype), torch.randint(-2, 14, (size,)).to(dtype)
    x[: len(ODD)] = torch.tensor(ODD, dtype=dtype)[: x.numel()]
    return x, n + 0.25


def close(found, expected):
    torch.testing.assert_close(
        torch.from_numpy(found),
        expected,
        equal_nan=True,
        rtol=2e-4 if expected.dtype == torch.float32 else 1e-9,
        atol=1e-4,
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_degrees_and_places(name, dtype):
    op, kernel = getattr(torch.special, name), table[f"aten::special_{name}"]
    x, n = operands(60, dtype)
    close(kernel(x.numpy(), n.numpy()), op(x, n))
    turned = x.reshape(6, 10).T, n.reshape(10, 6)
    close(kernel(*(v.numpy() for v in turned)), op(*turned))
    close(kernel(x.reshape(6, 10, 1).numpy(), n[:7].numpy()), op(x.reshape(6, 10, 1), n[:7]))
    for degree in (-1, 0, 1, 2, 5, 9, 40):
        close(table[f"aten::special_{name}.n_scalar"](x.numpy(), degree), op(x, degree))
    for one in (0.3, -0.3, 1, -1.0, 1.5):
        close(table[f"aten::special_{name}.x_scalar"](one, n.numpy()), op(one, n))


@pytest.mark.parametrize("size", [MANY, MANY + 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_many_elements_are_as_few(dtype, size):
    x, n = (v.numpy() for v in operands(size, dtype))
    for name in ("chebyshev_polynomial_v", "legendre_polynomial_p"):
        kernel = table[f"aten::special_{name}"]
        for a, b in ((x, n), (x, n[3:4]), (x[4:5], n)):
            few = kernel(a[-50:], b[-50:])
            assert kernel(a, b)[-len(few) :].tobytes() == few.tobytes()


def test_huge_degrees_end():
    x = np.array([1.0, -1.0, 0.5, 2.0, np.nan])
    for name in NAMES[:8]:
        if not name.startswith("shifted"):
            found = table[f"aten::special_{name}.n_scalar"](x, 10**9)
            assert np.isfinite(found[:3]).all() and np.isnan(found[3:]).all()
