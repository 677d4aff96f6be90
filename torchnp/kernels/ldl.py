"""The LDL factorization of symmetric and Hermitian matrices, by LAPACK's sytrf and hetrf."""

from __future__ import annotations

import numpy as np

from torchnp import dtypes as dt
from torchnp.checks import broadcast_shapes, check
from torchnp.errors import dim_out_of_range, no_dimensions, shape_text
from torchnp.kernels.linalg import _lapack, check_inexact, check_lapack, check_same, check_square, column_major
from torchnp.registry import kernel

ndarray = np.ndarray

# The words with which torch reports a zero on the diagonal of D, which its list of failures leaves out.
_UNKNOWN = "false INTERNAL ASSERT FAILED, please report a bug to PyTorch. {}: Unknown error code: {}."


def _factor(a: ndarray, hermitian: bool) -> tuple[ndarray, ndarray, ndarray]:
    """Packed factors in the lower triangle, pivots counted from 1 and negative in blocks of two, and error codes."""
    check_lapack("ldl_factor_kernel_cpu", a)
    packed = column_major(a.shape, a.dtype)
    pivots = np.empty(a.shape[:-1], np.int32)
    info = np.zeros(a.shape[:-2], np.int32)
    if a.size:
        factor = _lapack("hetrf" if hermitian and dt.is_complex(a.dtype) else "sytrf", a.dtype)
        for i in np.ndindex(a.shape[:-2]):
            packed[i], pivots[i], info[i] = factor(a[i], lower=1)
    packed[..., ~np.tri(a.shape[-1], dtype=bool)] = 0
    return packed, pivots, info


@kernel("linalg_ldl_factor_ex")
def linalg_ldl_factor_ex(self, *, hermitian=False, check_errors=False):
    """L and the block diagonal D of A = L D L^T (or L D L^H) in one matrix, with pivots and error codes."""
    name = "torch.linalg.ldl_factor_ex"
    check_square(name, self)
    check_inexact(name, self)
    packed, pivots, info = _factor(self, hermitian)
    if check_errors:
        _raise(info, name)
    return packed, pivots, info


@kernel("linalg_ldl_factor")
def linalg_ldl_factor(self, *, hermitian=False):
    """`linalg_ldl_factor_ex` without error codes."""
    packed, pivots, info = linalg_ldl_factor_ex(self, hermitian=hermitian)
    _raise(info, "torch.linalg.ldl_factor")
    return packed, pivots


def _raise(info: ndarray, name: str) -> None:
    if info.any():
        raise RuntimeError(_UNKNOWN.format(name, info[info != 0][0]))


# ---------------------------------------------------------------- solving


@kernel("linalg_ldl_solve")
def linalg_ldl_solve(LD, pivots, B, *, hermitian=False):
    """Solution of A X = B from the packed LDL factors of A."""
    _check_solve(LD, pivots, B)
    batch = broadcast_shapes(B.shape[:-2], LD.shape[:-2])
    out = column_major((*batch, *B.shape[-2:]), B.dtype)
    if LD.size:
        check_lapack("ldl_solve_kernel_cpu", LD, True)
        words = "Pivots given to ldl_solve must all satisfy |pivot| {}. Did you properly pass the result of ldl_factor?"
        size = np.abs(pivots.astype(np.int64))
        check((size >= 1).all(), words.format(">= 1"))
        check((size <= LD.shape[-1]).all(), words.format("<= LD.size(-2)"))
    if out.size == 0:
        return out
    out[...] = B
    LD, pivots = np.broadcast_to(LD, (*batch, *LD.shape[-2:])), np.broadcast_to(pivots, (*batch, LD.shape[-1]))
    for i in np.ndindex(batch):
        _solve(LD[i], pivots[i].tolist(), out[i], hermitian and dt.is_complex(LD.dtype))
    return out


def _check_solve(ld: ndarray, pivots: ndarray, b: ndarray) -> None:
    name = "torch.linalg.ldl_solve"
    check_square(name, ld)
    check_inexact(name, ld)
    check_same(b, ld, ("b", "A"), end=".")
    if b.ndim < 2:
        raise no_dimensions(-2) if b.ndim == 0 else dim_out_of_range(-2, b.ndim)
    rows, sizes = ld.shape[-1], f"each b matrix is {b.shape[-2]} by {b.shape[-1]}"
    words = f"Incompatible matrix sizes for {name}: each A matrix is {rows} by {rows} but {sizes}"
    check(rows == b.shape[-2], words)
    words = "Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape"
    check(pivots.shape == ld.shape[:-1], f"{name}: {words} {shape_text(pivots.shape)} instead")
    check(dt.is_integral(pivots.dtype), f"{name}: Expected pivots to be integers. Got {dt.scalar_name(pivots.dtype)}")


def _solve(ld: ndarray, pivots: list[int], x: ndarray, hermitian: bool) -> None:
    """Solve in place, block by block of D; LAPACK's sytrs is not in every SciPy."""
    blocks, k = [], 0  # first column, columns, and the row that the last of them was exchanged with
    while k < len(pivots):
        size = 1 if pivots[k] > 0 else 2
        blocks.append((k, size, abs(pivots[k]) - 1))
        k += size
    for k, size, row in blocks:
        last, below, own = k + size - 1, slice(k + size, None), slice(k, k + size)
        x[[last, row]] = x[[row, last]]
        x[below] -= ld[below, own] @ x[own]
        block = np.tril(ld[own, own])
        mirrored = np.tril(block, -1).T
        block = block + (mirrored.conj() if hermitian else mirrored)
        if hermitian:
            np.fill_diagonal(block, block.diagonal().real)
        x[own] = x[own] / block if size == 1 else _two_by_two(block, x[own])
    for k, size, row in reversed(blocks):
        last, below, own = k + size - 1, slice(k + size, None), slice(k, k + size)
        lower = ld[below, own].conj() if hermitian else ld[below, own]
        x[own] -= lower.T @ x[below]
        x[[last, row]] = x[[row, last]]


def _two_by_two(d: ndarray, b: ndarray) -> ndarray:
    """The solution with a block of D, scaled by what stands beside its diagonal, as that is the largest there."""
    (a, upper), (lower, c) = d
    a, c = a / upper, c / lower
    first, second = b[0] / upper, b[1] / lower
    return np.stack([c * first - second, a * second - first]) / (a * c - d.dtype.type(1))
