"""Batches of small matrices, computed at once: both sides of the limits, dtypes, singular matrices, broadcast batches."""

import numpy as np
import pytest
import torch

import torchnp
from torchnp.interop import to_numpy
from torchnp.kernels.numerics.small_matrices import FACTORED, SMALL, TRIANGULAR

DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)
SIDES = (1, 2, 5, SMALL, SMALL + 1)
MANY = FACTORED * SMALL  # enough matrices of each of these sides to be computed at once
BATCHES = {  # by the side: one too few for batched computation, just enough, and in two dimensions
    "few": lambda side: (FACTORED * side - 1,),
    "enough": lambda side: (FACTORED * side,),
    "two": lambda side: (side, FACTORED),
}
table = torchnp.table


def matrices(batch, side, dtype):
    torch.manual_seed(side + len(batch))
    return torch.randn(*batch, side, side, dtype=dtype)


def close(mine, torchs):
    """Assert equality apart from rounding, which the matrices' condition numbers (up to some thousand) amplify."""
    limit = 1e4 * torch.finfo(torchs.dtype).eps
    np.testing.assert_allclose(mine, to_numpy(torchs), limit, limit)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("batch", BATCHES)
def test_factors_and_solutions(batch, side, dtype):
    batch = BATCHES[batch](side)
    a = matrices(batch, side, dtype)
    lu, pivots, info = table["aten::linalg_lu_factor_ex"](a.numpy())
    want, pivots_of_torch, _ = torch.linalg.lu_factor_ex(a)
    assert not info.any() and pivots.dtype == info.dtype == np.int32
    assert lu.strides == tuple(s * lu.itemsize for s in want.stride())
    p, lower, upper = table["aten::lu_unpack"](lu, pivots)
    np.testing.assert_allclose(p @ lower @ upper, a.numpy(), 0, 1e2 * torch.finfo(dtype).eps)
    assert np.abs(lower).max() < 1.5  # a complex pivot is chosen by cabs1, and may be smaller by a factor of sqrt(2)
    if dtype in (
        torch.float64,
        torch.complex128,
    ):  # in single precision, rounding may choose between nearly equal pivots
        assert np.array_equal(pivots, pivots_of_torch)
        close(lu, want)
    b = torch.randn(*batch, side, 3, dtype=dtype)
    for adjoint in (False, True):
        mine = table["aten::linalg_lu_solve"](to_numpy(want), to_numpy(pivots_of_torch), b.numpy(), adjoint=adjoint)
        torchs = torch.linalg.lu_solve(want, pivots_of_torch, b, adjoint=adjoint)
        residual = (a.mH if adjoint else a) @ torch.from_numpy(np.ascontiguousarray(mine)) - b
        theirs = (a.mH if adjoint else a) @ torchs - b
        assert residual.abs().max() <= 8 * theirs.abs().max() + 1e2 * torch.finfo(dtype).eps
        assert mine.strides == tuple(s * mine.itemsize for s in torchs.stride())
    p, lower, upper = table["aten::lu_unpack"](to_numpy(want), to_numpy(pivots_of_torch))
    for mine, torchs in zip((p, lower, upper), torch.lu_unpack(want, pivots_of_torch), strict=True):
        assert np.array_equal(mine, to_numpy(torchs))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_triangular_systems(side, upper, unit, dtype):
    a = matrices((TRIANGULAR * side,), side, dtype) * 0.2 + 2 * torch.eye(side, dtype=dtype)
    b = torch.randn(1, side, 2, dtype=dtype)
    for left in (False, True):
        given = b if left else b.mT
        mine = table["aten::linalg_solve_triangular"](
            a.numpy(), to_numpy(given), upper=upper, left=left, unitriangular=unit
        )
        torchs = torch.linalg.solve_triangular(a, given, upper=upper, left=left, unitriangular=unit)
        close(mine, torchs)
        assert mine.strides == tuple(s * mine.itemsize for s in torchs.stride())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_singular_matrices(dtype):
    a = matrices((MANY,), 4, dtype)
    a[3] = 0
    a[5, :, 2] = a[5, :, 1]
    a[7, 1] = 0
    mine = table["aten::linalg_lu_factor_ex"](a.numpy())
    torchs = torch.linalg.lu_factor_ex(a)
    assert np.array_equal(mine[2][[3, 7]], torchs[2][[3, 7]]) and mine[2][0] == 0
    zero = torch.eye(3, dtype=dtype).repeat(MANY, 1, 1)
    zero[2, 1, 1] = 0
    b = torch.ones(MANY, 3, 1, dtype=dtype)
    got = table["aten::linalg_solve_triangular"](zero.numpy(), b.numpy(), upper=True)
    assert np.array_equal(np.isfinite(got), np.isfinite(torch.linalg.solve_triangular(zero, b, upper=True).numpy()))
    with pytest.raises(RuntimeError, match=r"linalg.solve: \(Batch element 3\)"):
        table["aten::linalg_solve"](a.numpy(), b[:, :1].expand(MANY, 4, 1).numpy())


def test_values_that_are_not_finite_go_to_lapack():
    a = matrices((MANY,), 3, torch.float64).numpy()
    a[1, 1, 1], a[2, 0, 0] = np.nan, np.inf
    factor = table["aten::linalg_lu_factor_ex"]
    for whole, part in zip(factor(a), factor(a[: MANY - 1]), strict=True):
        assert np.array_equal(whole[: MANY - 1], part, equal_nan=True)


@pytest.mark.parametrize("shape", [(200, 0, 3), (200, 3, 0), (200, 0, 0), (0, 3, 3), (500, 3, 5), (500, 5, 3)], ids=str)
def test_empty_and_oblong_matrices(shape):
    x = torch.randn(shape)
    for mine, torchs in zip(table["aten::linalg_lu_factor_ex"](x.numpy()), torch.linalg.lu_factor_ex(x), strict=True):
        assert mine.shape == tuple(torchs.shape)
        assert mine.strides == tuple(mine.itemsize * s for s in torchs.stride())
