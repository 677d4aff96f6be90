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
from torchnp.kernels.cholesky_triangular import linalg_solve_triangular
from torchnp.kernels.lu import (
    check_inexact,
    check_lapack,
    check_same,
    check_square,
    column_major,
    factored,
    raise_first,
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
    batch = broadcast_shapes(B.shape[:-2], LD.shape[:-2])
    out = column_major((*batch, *B.shape[-2:]), B.dtype)
    if out.size:
        hermitian = hermitian and dt.is_complex(LD.dtype)
        ld, b = (np.broadcast_to(x, (*batch, *x.shape[-2:])).reshape(-1, *x.shape[-2:]) for x in (LD, B))
        found = np.broadcast_to(pivots, (*batch, LD.shape[-1])).reshape(-1, LD.shape[-1])
        solved = np.empty(b.shape, b.dtype)
        named, alike = np.unique(found, axis=0, return_inverse=True)  # matrices with the same pivots
        for i, own in enumerate(named.tolist()):
            part = alike.reshape(-1) == i
            solved[part] = _solved(ld[part], own, b[part], hermitian)
        out[...] = solved.reshape(out.shape)
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
    broadcast_shapes(b.shape[:-2], ld.shape[:-2])


def _solved(ld: ndarray, pivots: list[int], x: ndarray, hermitian: bool) -> ndarray:
    """Solve a stack of systems whose matrices have the same pivots; the arguments are copies, and may be overwritten.

    Not every SciPy has LAPACK's sytrs. Like LAPACK's sytrs2, this swaps rows of L to make it triangular.
    """
    blocks, k = [], 0  # for each block: its first column, and the row that was swapped with the block's last row
    twos = [False] * len(pivots)  # for each column: whether a 2x2 block of D begins there
    while k < len(pivots):
        twos[k] = pivots[k] < 0
        blocks.append((k, abs(pivots[k]) - 1))
        k += 1 + twos[k]
    swaps = [(k + twos[k], row, k) for k, row in blocks if k + twos[k] != row]
    if any(row < last for last, row, _ in swaps):  # no factorization gives such pivots
        return _solved_in_turn(ld, [(k, 1 + twos[k], row) for k, row in blocks], x, hermitian)
    for last, row, k in swaps:
        x[:, [last, row]] = x[:, [row, last]]
        ld[:, [last, row], :k] = ld[:, [row, last], :k]
    of_two = np.flatnonzero(twos)
    mixed = ld[:, of_two + 1, of_two]  # the elements of D below its diagonal
    ld[:, of_two + 1, of_two] = 0
    diagonal = np.diagonal(ld, axis1=1, axis2=2).copy()
    x = linalg_solve_triangular(ld, x, upper=False, unitriangular=True)
    by = (diagonal.real if hermitian else diagonal)[..., None].astype(x.dtype)
    y = x / by
    if of_two.size:  # in 2x2 blocks, LAPACK also reads the imaginary parts of the diagonal
        above = (mixed.conj() if hermitian else mixed)[..., None]
        y[:, of_two], y[:, of_two + 1] = _two_by_two(
            diagonal[:, of_two, None],
            above,
            mixed[..., None],
            diagonal[:, of_two + 1, None],
            x[:, of_two],
            x[:, of_two + 1],
        )
    turned = (ld.conj() if hermitian else ld).swapaxes(1, 2)
    x = linalg_solve_triangular(turned, y, upper=True, unitriangular=True)
    for last, row, _ in reversed(swaps):
        x[:, [last, row]] = x[:, [row, last]]
    return x


def _solved_in_turn(ld: ndarray, blocks: list[tuple[int, int, int]], x: ndarray, hermitian: bool) -> ndarray:
    """Solve block by block of D, swapping rows before each; ``blocks`` has first columns, sizes and rows to swap."""
    turned = ld.conj() if hermitian else ld
    for k, size, row in blocks:
        last, below, own = k + size - 1, slice(k + size, None), slice(k, k + size)
        x[:, [last, row]] = x[:, [row, last]]
        x[:, below] -= ld[:, below, own] @ x[:, own]
        if size == 1:
            x[:, own] /= (ld.real if hermitian else ld)[:, own, own]
        else:
            (a, b, c) = (ld[:, i, j, None] for i, j in ((k, k), (last, k), (last, last)))
            x[:, k], x[:, last] = _two_by_two(a, b.conj() if hermitian else b, b, c, x[:, k], x[:, last])
    for k, size, row in reversed(blocks):
        last, below, own = k + size - 1, slice(k + size, None), slice(k, k + size)
        x[:, own] -= turned[:, below, own].swapaxes(1, 2) @ x[:, below]
        x[:, [last, row]] = x[:, [row, last]]
    return x


def _two_by_two(a: ndarray, above: ndarray, below: ndarray, c: ndarray, first: ndarray, second: ndarray) -> tuple:
    """Solve with 2x2 blocks of D, scaled by their off-diagonal elements, which are the largest."""
    a, c, first, second = a / above, c / below, first / above, second / below
    determinant = a * c - a.dtype.type(1)
    return (c * first - second) / determinant, (a * second - first) / determinant
