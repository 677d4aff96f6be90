"""Linear algebra with the standard's optional extension. Without it, these operators run on the host."""

from __future__ import annotations

from typing import Any

from torchnp import dtypes as dt
from torchnp.core.errors import FAILURES
from torchnp.portable.library import ArrayLibrary
from torchnp.portable.rows import Array, portable


def _has(lib: ArrayLibrary, function: str) -> bool:
    """Return whether a library has a function. Dask's count as missing, because they do not take batches."""
    return lib.kind != "dask" and hasattr(getattr(lib.xp, "linalg", None), function)


def _success(lib: ArrayLibrary, matrices: Array) -> Array:
    """Return LAPACK's ``info`` for a batch: always 0, because other libraries raise or return NaN instead."""
    return lib.full(matrices.shape[:-2], 0, dt.int32)


@portable("aten::linalg_cholesky")
def linalg_cholesky(lib: ArrayLibrary, self: Array, *, upper: bool = False) -> Array:
    if not _has(lib, "cholesky"):
        return NotImplemented
    found = lib.xp.linalg.cholesky(self)
    return lib.call("aten::conj", lib.call("aten::transpose.int", found, -1, -2)) if upper else found


@portable("aten::linalg_cholesky_ex")
def linalg_cholesky_ex(
    lib: ArrayLibrary, self: Array, *, upper: bool = False, check_errors: bool = False
) -> tuple[Array, Array]:
    found: Any = linalg_cholesky(lib, self, upper=upper)
    return NotImplemented if found is NotImplemented else (found, _success(lib, self))


def _solved(lib: ArrayLibrary, A: Array, B: Array) -> Array:
    """Solve for matrices, or for vectors if the shape of ``B`` implies it."""
    vector = B.ndim == 1 or (A.ndim - 1 == B.ndim and tuple(B.shape) == tuple(A.shape[:-1]))
    if vector:
        return lib.xp.squeeze(lib.xp.linalg.solve(A, lib.xp.expand_dims(B, axis=-1)), axis=-1)
    return lib.xp.linalg.solve(A, B)


@portable("aten::linalg_solve")
def linalg_solve(lib: ArrayLibrary, A: Array, B: Array, *, left: bool = True) -> Array:
    if not left or not _has(lib, "solve") or 0 in B.shape:
        return NotImplemented
    return _solved(lib, A, B)


@portable("aten::linalg_solve_ex")
def linalg_solve_ex(
    lib: ArrayLibrary, A: Array, B: Array, *, left: bool = True, check_errors: bool = False
) -> tuple[Array, Array]:
    found: Any = linalg_solve(lib, A, B, left=left)
    return NotImplemented if found is NotImplemented else (found, _success(lib, A))


@portable("aten::linalg_inv")
def linalg_inv(lib: ArrayLibrary, A: Array) -> Array:
    return lib.xp.linalg.inv(A) if _has(lib, "inv") and 0 not in A.shape else NotImplemented


@portable("aten::linalg_inv_ex")
def linalg_inv_ex(lib: ArrayLibrary, A: Array, *, check_errors: bool = False) -> tuple[Array, Array]:
    try:
        found: Any = linalg_inv(lib, A)
    except FAILURES:  # a singular matrix, for which torch returns a result and its ``info``
        return NotImplemented
    return NotImplemented if found is NotImplemented else (found, _success(lib, A))


@portable("aten::linalg_det")
def linalg_det(lib: ArrayLibrary, A: Array) -> Array:
    return lib.xp.linalg.det(A) if _has(lib, "det") and 0 not in A.shape else NotImplemented


@portable("aten::_linalg_check_errors")
def linalg_check_errors(lib: ArrayLibrary, info: Array, api_name: str, *, is_matrix: bool) -> None:
    """Check nothing: libraries raise or return NaN themselves, so there is no ``info`` of LAPACK to check."""
