"""Products of integers computed with BLAS equal NumPy's, which wrap like torch's, on both sides of each size limit."""

import numpy as np
import pytest

from torchnp.kernels.numerics import products

SHAPES = [
    ((70, 80), (80, 90)), ((200, 200), (200, 210)), ((3, 130, 129), (3, 129, 128)), ((2, 300, 300), (300, 300)),
    ((900, 3), (3, 900)), ((400,), (400, 300)), ((2, products._TERMS), (products._TERMS, 2)),
    ((2, products._TERMS + 1), (products._TERMS + 1, 2)), ((64, 0), (0, 65)), ((0, 64), (64, 65)),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "i4", "i8"])
@pytest.mark.parametrize("shapes", SHAPES)
def test_integer_products(dtype, shapes):
    rng, limits = np.random.default_rng(0), np.iinfo(dtype)
    for low, high in ((limits.min, limits.max), (limits.max - 3, limits.max)):
        a, b = (rng.integers(low, high, shape, dtype=dtype, endpoint=True) for shape in shapes)
        found = products._integer_product(a, b)
        assert found.dtype == dtype and np.array_equal(found, np.matmul(a, b))
