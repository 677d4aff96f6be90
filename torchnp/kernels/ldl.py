"""The LDL factorization of symmetric and Hermitian matrices, by LAPACK's sytrf and hetrf."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import broadcast_shapes, check, refuse
from torchnp.core.errors import dim_out_of_range, no_dimensions, shape_text
from torchnp.core.registry import kernel
from torchnp.core.target import since
from torchnp.kernels._declare_rows import rows
from torchnp.kernels.lu import (
    check_inexact,
    check_lapack,
    check_same,
    check_square,
    factored,
    raise_first,
    solutions,
)

ndarray = np.ndarray


def _factor(a: ndarray, hermitian: bool, check_errors: bool = True, *, name: str = "torch.linalg.ldl_factor_ex") -> Any:
    """Return packed factors in the lower triangle, 1-based pivots (negative for 2x2 blocks), and error codes."""
    check_square("torch.linalg.ldl_factor_ex", a)
    check_inexact("torch.linalg.ldl_factor_ex", a)
    check_lapack("tril" if a.dtype in dt.FLOAT8S else "ldl_factor_kernel_cpu", a)
    pivots = np.empty(a.shape[:-1], np.int32)
    packed, info = factored("hetrf" if hermitian and dt.is_complex(a.dtype) else "sytrf", a, pivots, lower=1)
    packed[..., ~np.tri(a.shape[-1], dtype=bool)] = 0
    if check_errors:
        raise_first(info, name)
    return packed, pivots, info


_DOC = "L and the block diagonal D of A = L D L^T (or L D L^H) in one matrix, with pivots and error codes."
rows("linalg_ldl_factor_ex", _factor, _DOC)
_DOC = "`linalg_ldl_factor_ex` without error codes."
rows("linalg_ldl_factor", _factor, _DOC, name="torch.linalg.ldl_factor", part=slice(2))


# ---------------------------------------------------------------- solving


@kernel("linalg_ldl_solve")
def linalg_ldl_solve(LD, pivots, B, *, hermitian=False):
    """Solution of A X = B from the packed LDL factors of A."""
    _check_solve(LD, pivots, B)
    if LD.size:
        if since("2.13"):
            refuse("abs_cpu", pivots.dtype, dt.BARE_UNSIGNED)
        check_lapack("ldl_solve_kernel_cpu", LD, True)
        words = "Pivots given to ldl_solve must all satisfy |pivot| {}. Did you properly pass the result of ldl_factor?"
        size = np.abs(pivots)  # in the pivots' dtype, in which the absolute value of the minimum stays negative
        check((size >= 1).all(), words.format(">= 1"))
        check((size <= LD.shape[-1]).all(), words.format("<= LD.size(-2)"))
    hermitian = hermitian and dt.is_complex(LD.dtype)
    return solutions(lambda b, ld, pivots: _solved(ld, pivots.tolist(), b.copy(), hermitian), B, LD, pivots)


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
    broadcast_shapes(b.shape[:-2], ld.shape[:-2])


def _solved(ld: ndarray, pivots: list[int], x: ndarray, hermitian: bool) -> ndarray:
    """Solve in place, by blocks of D; not every SciPy has LAPACK's sytrs."""
    blocks, k = [], 0  # each block's first column, its number of columns, and the row exchanged with its last one
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
        if hermitian and size == 1:  # for 2x2 blocks LAPACK reads the imaginary parts too
            block = block.real
        x[own] = x[own] / block if size == 1 else _two_by_two(block, x[own])
    for k, size, row in reversed(blocks):
        last, below, own = k + size - 1, slice(k + size, None), slice(k, k + size)
        lower = ld[below, own].conj() if hermitian else ld[below, own]
        x[own] -= lower.T @ x[below]
        x[[last, row]] = x[[row, last]]
    return x


def _two_by_two(d: ndarray, b: ndarray) -> ndarray:
    """Solve with a 2x2 block of D, scaled by its off-diagonal elements, which are the largest."""
    (a, upper), (lower, c) = d
    a, c = a / upper, c / lower
    first, second = b[0] / upper, b[1] / lower
    return np.stack([c * first - second, a * second - first]) / (a * c - d.dtype.type(1))
