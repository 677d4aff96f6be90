"""Factorizations for which the standard has no function that returns the factors."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from torchnp import dtypes as dt
from torchnp.portable.library import ArrayLibrary
from torchnp.portable.rows import Array, portable
from torchnp.portable.standard.linalg import linalg_solve


def _factored(A: Array) -> tuple[Array, Array]:
    """Return LU factors, and pivots counted from 1."""
    factors, pivots, _ = jax.lax.linalg.lu(A)
    return factors, (pivots + 1).astype(jnp.int32)


@portable("aten::_linalg_det", on="jax")
def linalg_det(lib: ArrayLibrary, A: Array) -> tuple[Array, Array, Array]:
    return jnp.linalg.det(A), *_factored(A)


@portable("aten::_linalg_solve_ex", on="jax")
def linalg_solve_ex(
    lib: ArrayLibrary, A: Array, B: Array, *, left: bool = True, check_errors: bool = False
) -> tuple[Any, ...]:
    found: Any = linalg_solve(lib, A, B, left=left)
    if found is NotImplemented:
        return NotImplemented
    return found, *_factored(A), lib.full(A.shape[:-2], 0, dt.int32)


@portable("aten::linalg_lu_factor", on="jax")
def linalg_lu_factor(lib: ArrayLibrary, A: Array, *, pivot: bool = True) -> tuple[Array, Array]:
    return _factored(A) if pivot else NotImplemented


@portable("aten::linalg_qr", on="jax")
def linalg_qr(lib: ArrayLibrary, A: Array, mode: str = "reduced") -> tuple[Array, Array]:
    if mode not in ("reduced", "complete"):
        return NotImplemented
    q, r = jnp.linalg.qr(A, mode=mode)
    return q, r


@portable("aten::linalg_eigh", on="jax")
def linalg_eigh(lib: ArrayLibrary, self: Array, UPLO: str = "L") -> tuple[Array, Array]:
    values, vectors = jnp.linalg.eigh(self, UPLO=UPLO, symmetrize_input=False)
    return values, vectors


@portable("aten::linalg_solve_triangular", on="jax")
def linalg_solve_triangular(
    lib: ArrayLibrary, self: Array, B: Array, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Array:
    if self.ndim != B.ndim or self.shape[:-2] != B.shape[:-2]:
        return NotImplemented
    return jax.lax.linalg.triangular_solve(self, B, left_side=left, lower=not upper, unit_diagonal=unitriangular)
