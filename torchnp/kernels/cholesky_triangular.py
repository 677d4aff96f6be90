"""Cholesky factors, and triangular systems."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import broadcast_shapes, check, check_type, warn
from torchnp.core.inplace_out_spec import Bound, WriteSpec
from torchnp.core.registry import kernel
from torchnp.kernels._declare_rows import rows
from torchnp.kernels.lu import (
    check_inexact,
    check_lapack,
    check_same,
    check_sides,
    check_square,
    column_major,
    factored,
    lapack,
    look_in_place,
    raise_first,
    solutions,
)
from torchnp.kernels.numerics import small_matrices
from torchnp.layout import stride_rules

ndarray = np.ndarray

# ---------------------------------------------------------------- triangular systems


def _triangular(a: ndarray, b: ndarray, upper: bool, trans: int, unit: bool) -> ndarray:
    trtrs: Any = lapack("trtrs", a.dtype) if b.size else None

    def solve(b: ndarray, a: ndarray) -> ndarray:
        if trans < 2 and a.flags.c_contiguous:  # its transpose needs no copy
            x, info = trtrs(a.T, b, lower=upper, trans=1 - trans, unitdiag=unit)
        else:
            x, info = trtrs(a, b, lower=not upper, trans=trans, unitdiag=unit)
        # LAPACK stops at a zero on the diagonal; torch's BLAS divides by it.
        return small_matrices.solve_triangular(a, b, (), upper, trans, unit) if info > 0 else x

    batch = broadcast_shapes(b.shape[:-2], a.shape[:-2])
    if not b.size or not small_matrices.are_many_small(batch, a.shape[-1], small_matrices.TRIANGULAR):
        return solutions(solve, b, a)
    out = column_major((*batch, *b.shape[-2:]), b.dtype)
    out[...] = small_matrices.solve_triangular(a, b, batch, upper, trans, unit)
    return out


def _check_triangular(a: ndarray, b: ndarray, left: bool) -> None:
    name = "linalg.solve_triangular"
    check_square(name, a)
    check_sides(name, a, b, left)
    check_lapack("triangular_solve_cpu", a, empty=True)


def _precheck_gaps(bound: Bound, outs: list[ndarray]) -> None:
    """Check the arguments, and B's dtype if ``out=`` has matrices that are neither row- nor column-major.

    For such matrices torch computes in memory of B's dtype, instead of in ``out=``.
    """
    a, b, out = bound["self"], bound["B"], outs[0]
    _check_triangular(a, b, bound["left"])
    fits = out.shape == (*broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:])
    if fits and not (out.flags.c_contiguous or out.mT.flags.c_contiguous):
        check_type(a.dtype, b)


@kernel("linalg_solve_triangular", writes=WriteSpec(out=_precheck_gaps))
def linalg_solve_triangular(self, B, *, upper, left=True, unitriangular=False):
    """Solution of A X = B or X A = B with triangular A."""
    _check_triangular(self, B, left)
    B = dt.cast(B, self.dtype)
    if left:
        return _triangular(self, B, upper, 0, unitriangular)
    return _triangular(self, B.mT, upper, 1, unitriangular).mT


def _check_system(name: str, b: ndarray, a: ndarray) -> None:
    m, n = a.shape[-2:]
    check(m == n, f"A must be batches of square matrices, but they are {m} by {n} matrices")
    words = f"each A matrix is {m} by {m} but each b matrix is {b.shape[-2]} by {b.shape[-1]}"
    check(n == b.shape[-2], f"Incompatible matrix sizes for {name}: {words}")


@kernel("triangular_solve", writes=WriteSpec(out=look_in_place))
def triangular_solve(self, A, upper=True, transpose=False, unitriangular=False):
    """Solution of A X = self with triangular A, and a copy of A."""
    warn(
        "torch.triangular_solve is deprecated in favor of torch.linalg.solve_triangularand will be removed in a future "
        "PyTorch release.\ntorch.linalg.solve_triangular has its arguments reversed and does not return a copy of one of "
        "the inputs.\nX = torch.triangular_solve(B, A).solution\nshould be replaced with\n"
        "X = torch.linalg.solve_triangular(A, B)."
    )
    for x, letter in ((self, "b"), (A, "A")):
        words = f"Expected {letter} to have at least 2 dimensions, but it has {x.ndim} dimensions instead"
        check(x.ndim >= 2, f"torch.triangular_solve: {words}")
    check_same(self, A, ("b", "A"), end=".")
    _check_system("triangular_solve", self, A)
    check_lapack("triangular_solve_cpu", A, True)
    batch = broadcast_shapes(self.shape[:-2], A.shape[:-2])
    x = _triangular(A, self, upper, int(transpose), unitriangular)
    copy = column_major((*batch, *A.shape[-2:]), A.dtype)
    copy[...] = A
    return x, copy


# ---------------------------------------------------------------- Cholesky


def _cholesky(a: ndarray, upper: bool, check_errors: bool = True, *, name: str = "linalg.cholesky_ex") -> Any:
    spoken = name.removesuffix("_ex")
    check_square(spoken, a)
    if spoken == "linalg.cholesky":
        check_inexact(spoken, a)
    triangle = a.dtype in dt.FLOAT8S and spoken == "linalg.cholesky"  # torch first extracts the triangle
    check_lapack(("triu" if upper else "tril") if triangle else "cholesky_cpu", a)
    out, info = factored("potrf", a, lower=not upper, clean=True)
    if check_errors:
        raise_first(info, name)
    return out, info


_EX = "Triangular factor L with A = L L^H, and error codes; only one triangle of A is read."
rows("linalg_cholesky_ex", _cholesky, _EX, differs=["no-integers-linalg"])
rows(
    "linalg_cholesky", _cholesky, "Triangular factor L with A = L L^H.", name="linalg.cholesky", part=0,
    like=np.linalg.cholesky, differs=["no-integers-linalg"],
)  # fmt: skip


@kernel("cholesky", like=np.linalg.cholesky, differs=["no-integers-linalg"])
def cholesky(self, upper=False):
    """Triangular factor L with A = L L^H."""
    warn(
        "torch.cholesky is deprecated in favor of torch.linalg.cholesky and will be removed in a future PyTorch "
        "release.\nL = torch.cholesky(A)\nshould be replaced with\nL = torch.linalg.cholesky(A)\nand\n"
        "U = torch.cholesky(A, upper=True)\nshould be replaced with\nU = torch.linalg.cholesky(A).mH\n"
        "This transform will produce equivalent results for all valid (symmetric positive definite) inputs."
    )
    if self.size == 0:
        return stride_rules.dense(np.empty(self.shape, self.dtype))
    out, _ = _cholesky(self, upper, name="cholesky")
    return stride_rules.place(out, stride_rules.columns(out.shape))


def _precheck_solved(bound: Bound, outs: list[ndarray]) -> None:
    """Check first, as torch does, that ``out=`` can hold the result."""
    x, d = bound["self"].dtype, outs[0].dtype
    words = "cholesky_solve: Expected result to be safely castable from"
    check(dt.can_cast(x, d), f"{words} {dt.scalar_name(x)} dtype, but got result with dtype {dt.scalar_name(d)}")


@kernel("cholesky_solve", writes=WriteSpec(out=_precheck_solved))
def cholesky_solve(self, input2, upper=False):
    """Solution of A X = self from the Cholesky factor of A."""
    check(self.ndim >= 2, f"b should have at least 2 dimensions, but has {self.ndim} dimensions instead")
    check(input2.ndim >= 2, f"u should have at least 2 dimensions, but has {input2.ndim} dimensions instead")
    check_same(self, input2, ("b", "A"), end=".")
    _check_system("cholesky_solve", self, input2)
    return _cholesky_solved(self, input2, upper)


def _cholesky_solved(b: ndarray, u: ndarray, upper: bool) -> ndarray:
    check_lapack("cholesky_solve_cpu", b, True)
    check_type(b.dtype, u)
    adjoint = 2 if dt.is_complex(b.dtype) else 1
    first, second = (adjoint, 0) if upper else (0, adjoint)
    return _triangular(u, _triangular(u, b, upper, first, False), upper, second, False)


rows("_cholesky_solve_helper", _cholesky_solved, "`cholesky_solve` without its checks.")


@kernel("cholesky_inverse")
def cholesky_inverse(self, upper=False):
    """Inverse of A from its Cholesky factor."""
    check_square("cholesky_inverse", self)
    check_lapack("cholesky_inverse_out_cpu", self, True)
    half, info = factored("potri", self, lower=not upper)
    raise_first(info, "cholesky_inverse")
    part, other = (np.triu, np.tril) if upper else (np.tril, np.triu)
    half[...] = part(half)
    half += other(half.mT.conj(), -1 if upper else 1)
    return half
