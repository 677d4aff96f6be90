"""LU factors, and operators that use them: determinants, inverses, linear systems."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import broadcast_shapes, check, refuse_elements
from torchnp.core.errors import (
    ALGORITHM_FAILED,
    INTERNAL_ASSERT,
    NOT_FINITE,
    no_dimensions,
    not_implemented,
    shape_text,
)
from torchnp.core.inplace_out_spec import Bound, WriteSpec
from torchnp.core.registry import kernel
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._memory import RARE, RARE_OR_CHALF, rarer
from torchnp.kernels.arithmetic import add
from torchnp.kernels.numerics import small_matrices
from torchnp.kernels.slicing import diagonal
from torchnp.layout import stride_rules
from torchnp.layout.overlap import check_apart

ndarray = np.ndarray
LAPACK = (dt.float32, dt.float64, dt.complex64, dt.complex128)


class LinAlgError(RuntimeError):
    """Raised if an algorithm fails on a matrix, like torch.linalg.LinAlgError."""


# ---------------------------------------------------------------- checks


def check_matrix(name: str, a: ndarray, letter: str = "A") -> None:
    check(a.ndim >= 2, f"{name}: The input tensor {letter} must have at least 2 dimensions.")


def check_square(name: str, a: ndarray, letter: str = "A") -> None:
    check_matrix(name, a, letter)
    m, n = a.shape[-2:]
    check(m == n, f"{name}: {letter} must be batches of square matrices, but they are {m} by {n} matrices")


def check_inexact(name: str, a: ndarray, low_precision: bool = True) -> None:
    got = dt.scalar_name(a.dtype)
    check(dt.is_inexact(a.dtype), f"{name}: Expected a floating point or complex tensor as input. Got {got}")
    check(low_precision or a.dtype in LAPACK, f"{name}: Low precision dtypes not supported. Got {got}")


def check_lapack(kernel_name: str, a: ndarray, empty: bool = False) -> None:
    """Refuse dtypes that LAPACK lacks; if ``empty``, even for empty matrices (where torch does not return early)."""
    if (a.size or empty) and a.dtype not in LAPACK:
        raise not_implemented(kernel_name, a.dtype)


def check_epsilon(a: ndarray) -> None:
    check(a.dtype in LAPACK, "This function doesn't handle types other than float and double")


def check_same(a: ndarray, b: ndarray, names: tuple[str, str], name: str = "", end: str = "") -> None:
    """Refuse operands of different dtypes."""
    if a.dtype != b.dtype:
        first, second = names
        found = f"{first} of type {dt.scalar_name(a.dtype)} and {second} of type {dt.scalar_name(b.dtype)} instead{end}"
        raise RuntimeError(f"{name}Expected {first} and {second} to have the same dtype, but found {found}")


def check_sides(name: str, a: ndarray, b: ndarray, left: bool) -> None:
    """Refuse matrices whose shapes do not fit the equation."""
    check_matrix(name, b, "B")
    equation, sizes = "AX = B" if left else "XA = B", " and ".join(f"{x.shape[-2]}x{x.shape[-1]}" for x in (a, b))
    words = f"{name}: Incompatible shapes of A and B for the equation {equation} ({sizes})"
    check(a.shape[-2] == b.shape[-2 if left else -1], words)


def raise_first(info: ndarray, name: str) -> None:
    """Raise for the first failed matrix of a batch; a negative code is the number of an invalid LAPACK argument."""
    if not info.any():
        return
    at = int(np.flatnonzero(info)[0])
    code, batch = int(info.flat[at]), "" if info.ndim == 0 else f"(Batch element {at}): "
    word = next((word for word in ALGORITHM_FAILED if word in name), "")
    if code < 0 and word != "svd":
        bug = "Most certainly there is a bug in the implementation calling the backend library."
        raise RuntimeError(f"{INTERNAL_ASSERT} {name}: {batch}Argument {-code} has illegal value. {bug}")
    check(word, f"{INTERNAL_ASSERT} {name}: Unknown error code: {code}.")
    words = NOT_FINITE if code < 0 else ALGORITHM_FAILED[word].format(code)
    raise (RuntimeError if word == "lu_factor" else LinAlgError)(f"{name}: {batch}{words}")


@kernel("_linalg_check_errors")
def _linalg_check_errors(info, api_name, *, is_matrix):
    """Raise the error for an algorithm's error codes."""
    raise_first(info.reshape(() if is_matrix else -1), api_name)


# ---------------------------------------------------------------- LAPACK, matrix by matrix


def column_major(shape: tuple[int, ...], dtype: np.dtype) -> ndarray:
    """Allocate a batch of matrices in the column-major layout that LAPACK and torch use for factors."""
    return stride_rules.empty(shape, dtype, stride_rules.columns(shape))


def look_in_place(bound: Bound, outs: list[ndarray]) -> None:
    """Refuse overlap of the argument and the ``out=`` into which torch copies it, to run LAPACK in place.

    That ``out=`` is the first one with the argument's shape, if it has the argument's dtype and LAPACK's layout.
    """
    x = next(iter(bound.values()))
    out = next((out for out in outs if out.shape == x.shape), x)
    if out.dtype == x.dtype and out.ndim > 1 and out.mT.flags.c_contiguous:
        check_apart(out, x)


def lapack(name: str, dtype: np.dtype) -> Any:
    from scipy.linalg import get_lapack_funcs

    return get_lapack_funcs(name, dtype=dtype)


def factored(routine: str, a: ndarray, *beside: ndarray, **options: Any) -> tuple[ndarray, ndarray]:
    """Factor each matrix with a LAPACK routine, and return the factors and error codes.

    The routine's other outputs (pivots or Householder scales) are written into ``beside``.
    """
    out, info = column_major(a.shape, a.dtype), np.zeros(a.shape[:-2], np.int32)
    run: Any = lapack(routine, a.dtype) if a.size else None
    for i in np.ndindex(info.shape if a.size else 0):
        out[i], *found, info[i] = run(a[i], **options)
        for kept, value in zip(beside, found):
            kept[i] = value
    return out, info


def solutions(solve: Callable[..., ndarray], b: ndarray, a: ndarray, *pivots: ndarray) -> ndarray:
    """Return ``solve(b, a, *pivots)`` for each matrix of the broadcast batches."""
    batch = broadcast_shapes(b.shape[:-2], a.shape[:-2])
    out = column_major((*batch, *b.shape[-2:]), b.dtype)
    if out.size:
        given = [np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (b, a)]
        given += [np.broadcast_to(x, (*batch, x.shape[-1])) for x in pivots]
        for i in np.ndindex(batch):
            out[i] = solve(*(x[i] for x in given))
    return out


# ---------------------------------------------------------------- LU


def _check_factored(name: str, a: ndarray) -> None:
    words = f"Expected tensor with 2 or more dimensions. Got size: {shape_text(a.shape)} instead"
    check(a.ndim >= 2, f"{name}: {words}")


def _packed(a: ndarray) -> tuple[ndarray, ndarray, ndarray]:
    """Return packed LU factors, 1-based pivots, and 0 or the position of the first zero pivot, for each matrix."""
    check_lapack("lu_cpu", a)
    if a.size and small_matrices.are_many_small(a.shape[:-2], max(a.shape[-2:])) and np.isfinite(a).all():
        factors, pivots, info = small_matrices.factor(a)
        lu = column_major(a.shape, a.dtype)
        lu[...] = factors
        return lu, pivots + np.int32(1), info
    pivots = np.zeros((*a.shape[:-2], min(a.shape[-2:])), np.int32)
    lu, info = factored("getrf", a, pivots)
    return lu, pivots + np.int32(1), info


def _unpacked(lu: ndarray) -> tuple[ndarray, ndarray]:
    m, n = lu.shape[-2:]
    k = min(m, n)
    lower = np.tril(lu[..., :, :k], -1)
    lower[..., range(k), range(k)] = 1
    return lower, np.triu(lu[..., :k, :])


def _permutation_matrix(pivots: ndarray, m: int, dtype: np.dtype) -> ndarray:
    """Return the permutation matrix that undoes the row swaps of ``pivots``."""
    order = np.broadcast_to(np.arange(m), (*pivots.shape[:-1], m)).copy()
    for i in range(pivots.shape[-1]):
        other = pivots[..., i, None] - 1
        row = np.take_along_axis(order, other, -1)
        np.put_along_axis(order, other, order[..., i, None], -1)
        order[..., i, None] = row
    return (order[..., :, None] == np.arange(m)).mT.astype(dtype)


def _lu_factor(a: ndarray, pivot: bool, check_errors: bool = True, *, name: str = "torch.linalg.lu_factor_ex") -> Any:
    _check_factored("torch.lu_factor", a)
    check_lapack("lu_cpu", a)
    check(pivot or not a.size, "linalg.lu_factor: LU without pivoting is not implemented on the CPU")
    lu, pivots, info = _packed(a)
    if check_errors:
        raise_first(info, name)
    return lu, pivots, info


_DOC = "Packed LU factors with partial pivoting, pivots, and an error code for each matrix."
rows("linalg_lu_factor_ex", _lu_factor, _DOC, writes=WriteSpec(out=look_in_place))
rows("_lu_with_info", lambda A, pivot, _: _lu_factor(A, pivot, False), _DOC)
_DOC = "Packed LU factors with partial pivoting, and pivots."
_writes = WriteSpec(out=look_in_place)
rows("linalg_lu_factor", _lu_factor, _DOC, name="torch.linalg.lu_factor", part=slice(2), writes=_writes)


# For a square matrix, only the ``out=`` of the upper factor is checked for overlap.
@kernel("linalg_lu", writes=WriteSpec(out=lambda bound, outs: look_in_place(bound, outs[:0:-1])))
def linalg_lu(A, *, pivot=True):
    """Permutation, unit lower and upper triangular factors with A = P L U."""
    _check_factored("linalg.lu", A)
    lu, pivots, _ = _lu_factor(A, pivot, False)
    order = _permutation_matrix(pivots, A.shape[-2], A.dtype) if pivot else np.empty(0, A.dtype)
    return order, *_unpacked(lu)


def _row_pivots(lu: ndarray, pivots: ndarray) -> ndarray:
    """Return the pivots of each matrix: as in torch, the first rows of ``pivots``, one row for each matrix."""
    batch, m, count = lu.shape[:-2], lu.shape[-2], min(lu.shape[-2:])
    rows = pivots.reshape(-1, pivots.shape[-1] if pivots.ndim else 1) if pivots.size else pivots.reshape(0, 0)
    needed, out_of_range = math.prod(batch) if count else 0, bool(((pivots < 1) | (pivots > m)).any())
    # With too few pivots torch reads the memory behind them.
    check(
        not needed or (len(rows) >= needed and rows.shape[1] >= count and not out_of_range),
        "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive."
        "Did you properly pass the result of lu_factor?",
    )
    return rows[:needed, :count].reshape(*batch, count) if needed else np.empty((*batch, 0), pivots.dtype)


@kernel("lu_unpack")
def lu_unpack(LU_data, LU_pivots, unpack_data=True, unpack_pivots=True):
    """Permutation and triangular factors from packed LU factors."""
    _check_factored("torch.lu_unpack", LU_data)
    check(
        not unpack_pivots or LU_pivots.dtype == dt.int32,
        "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.\n"
        "Note: this function is intended to be used with the output produced by torch.linalg.lu_factor",
    )
    p, lower, upper = (np.empty(0, LU_data.dtype) for _ in range(3))
    if unpack_data:
        refuse_elements("tril", LU_data, RARE)
    if unpack_pivots:
        exchanges = _row_pivots(LU_data, LU_pivots)
        refuse_elements("scatter_gather_scalar_cpu", LU_data, rarer("2.14", RARE_OR_CHALF))
        p = _permutation_matrix(exchanges, LU_data.shape[-2], LU_data.dtype)
    if unpack_data:
        lower, upper = _unpacked(LU_data)
    return p, lower, upper


# ---------------------------------------------------------------- determinants


def _triangle(name: str, a: ndarray, low_precision: bool) -> tuple[ndarray, ndarray, ndarray, ndarray]:
    """Return the diagonal of U, the determinant of P, packed factors and pivots."""
    check_square(name, a)
    check_inexact(name, a, low_precision)
    if not a.size:  # torch multiplies the pivots' sign by the empty product, which refuses float8
        dt.promote_types(dt.int64, a.dtype)
    # torch factors the transpose if that has LAPACK's layout.
    lu, pivots, _ = _packed(a.mT if a.flags.c_contiguous and not dt.is_complex(a.dtype) else a)
    exchanges = (pivots != np.arange(1, pivots.shape[-1] + 1)).sum(-1)
    return np.diagonal(lu, 0, -2, -1), np.where(exchanges % 2, -1, 1).astype(a.dtype), lu, pivots


@kernel("_linalg_det", differs=["no-integers-linalg"], writes=WriteSpec(out=look_in_place))
def _linalg_det(A):
    """Determinants, with the LU factors they are computed from."""
    diagonal, sign, lu, pivots = _triangle("linalg.det", A, True)
    return np.asarray(np.multiply.reduce(diagonal, -1) * sign), lu, pivots


_OF_DET = {"like": np.linalg.det, "differs": ["no-integers-linalg"]}
linalg_det, _ = rows("linalg_det det", _linalg_det, "Determinants.", part=0, **_OF_DET)


@kernel("_linalg_slogdet", differs=["no-integers-linalg"], writes=WriteSpec(out=look_in_place))
def _linalg_slogdet(A):
    """Sign and logarithm of the absolute determinant, with the LU factors."""
    diagonal, sign, lu, pivots = _triangle("linalg.slogdet", A, False)
    length = np.abs(diagonal)
    direction = diagonal / length if dt.is_complex(A.dtype) else np.sign(diagonal)
    signs = np.multiply.reduce(np.where(length == 0, A.dtype.type(0), direction), -1) * sign
    return np.asarray(signs), np.asarray(np.add.reduce(np.log(length), -1)), lu, pivots


_OF_SLOGDET = {"like": np.linalg.slogdet, "differs": ["no-integers-linalg", "slogdet-sign-of-zero"], "part": slice(2)}
rows("linalg_slogdet slogdet", _linalg_slogdet, "Sign and logarithm of the absolute determinant.", **_OF_SLOGDET)


@kernel("logdet", differs=["no-integers-linalg"])
def logdet(self):
    """Logarithm of the determinant; NaN if it is negative."""
    check_square("logdet", self)
    check_inexact("logdet", self, False)
    sign, logabsdet = _linalg_slogdet(self)[:2]
    if dt.is_complex(self.dtype):
        return stride_rules.dense(add(np.log(sign), logabsdet))  # with infinities, torch's sum has a nan imaginary part
    out = np.where(sign == -1, self.dtype.type(np.nan), logabsdet)
    return (
        out
        if out.size
        else stride_rules.place(out, stride_rules.iterated([(out.shape, stride_rules.contiguous(out.shape)), ((), ())]))
    )


# ---------------------------------------------------------------- systems


def _solve(A, B, left, check_errors=True, *, name="torch.linalg.solve_ex"):
    check_inexact("linalg.solve", A)
    check_same(A, B, ("A", "B"), "linalg.solve: ")
    vector = B.ndim == 1 or B.shape == A.shape[:-1]
    right = B[..., None] if vector else B
    check_square("linalg.solve", A)
    check_sides("linalg.solve", A, right, left)
    check(left or not vector, "linalg.solve: Vector broadcasting of the left hand side is not supported for left=False. "
          "In this case linalg.solve is equivalent to B / A.squeeze(-1)")  # fmt: skip
    lu, pivots, info = _packed(A)
    if check_errors:
        raise_first(info, name)
    x = _lu_solved(lu, pivots, right, left)
    return x[..., 0] if vector else x, lu, pivots, info


def _lu_solved(lu: ndarray, pivots: ndarray, b: ndarray, left: bool, adjoint: bool = False) -> ndarray:
    """Solve with packed factors; X A = B is A^H X^H = B^H."""
    if not left:
        x = _lu_solved(lu, pivots, b.mT.conj(), True, not adjoint)
        return np.conjugate(x, x).mT
    batch = broadcast_shapes(b.shape[:-2], lu.shape[:-2])
    if b.size and small_matrices.are_many_small(batch, lu.shape[-1]):
        x = column_major((*batch, *b.shape[-2:]), b.dtype)
        x[...] = small_matrices.solve_factored(lu, pivots - 1, b, batch, adjoint)
        return x
    getrs: Any = lapack("getrs", lu.dtype) if b.size else None
    trans = 2 if adjoint else 0
    return solutions(lambda b, lu, pivots: getrs(lu, pivots - 1, b, trans=trans)[0], b, lu, pivots)


def _precheck_solved(bound: Bound, outs: list[ndarray]) -> None:
    """Refuse overlap of B with an ``out=`` in LAPACK's layout, into which torch first copies B."""
    b, out = bound["B"], outs[0]
    side = out[..., None] if b.shape == bound["A"].shape[:-1] else out
    if out.shape == b.shape and out.dtype == b.dtype and (side.mT if bound["left"] else side).flags.c_contiguous:
        check_apart(out, b)


_OF_SOLVE: Any = {"differs": ["solve-vectors", "no-integers-linalg"], "writes": WriteSpec(out=_precheck_solved)}
_DOC = "Solution of A X = B or X A = B"
rows("_linalg_solve_ex", _solve, f"{_DOC}, with the LU factors, pivots and error codes.", **_OF_SOLVE)
rows("linalg_solve_ex", _solve, f"{_DOC}, with error codes.", part=slice(None, None, 3), **_OF_SOLVE)
_OF_SOLVE |= {"like": np.linalg.solve, "part": 0}
(linalg_solve,) = rows("linalg_solve", _solve, f"{_DOC}.", name="torch.linalg.solve", **_OF_SOLVE)


@kernel("linalg_lu_solve")
def linalg_lu_solve(LU, pivots, B, *, left=True, adjoint=False):
    """Solution of A X = B from the packed LU factors of A."""
    check_inexact("torch.linalg.lu_solve", LU)
    check_same(LU, B, ("LU", "B"), "linalg.lu_solve: ")
    check(pivots.dtype == dt.int32, "linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32")
    check_square("torch.linalg.lu_solve", LU)
    check_sides("linalg.lu_solve", LU, B, left)
    check(pivots.ndim > 0, no_dimensions(-1))
    count = "Number of pivots per batch should be same as the dimension of the matrix"
    check(pivots.shape[-1] == LU.shape[-1], f"linalg.lu_solve: {count}")
    words = "linalg.lu_solve: Expected LU.shape[:-1] and pivots.shape to be the same, but got pivots with shape"
    check(pivots.shape == LU.shape[:-1], f"{words} {shape_text(pivots.shape)} instead")
    broadcast_shapes(B.shape[:-2], LU.shape[:-2])
    if B.size:
        check_lapack("linalg.lu_solve_cpu", LU)
        words = "Pivots given to lu_solve must all be {}. Did you properly pass the result of lu_factor?"
        check(bool((pivots >= 1).all()), words.format("greater or equal to 1"))
        check(bool((pivots <= LU.shape[-2]).all()), words.format("smaller or equal to LU.size(-2)"))
    return _lu_solved(LU, pivots, B, left, adjoint)


_DOC = "Solution of A X = self from the packed LU factors of A."
rows("lu_solve", lambda b, lu, pivots: linalg_lu_solve(lu, pivots, b), _DOC)


def inverted(a: ndarray, check_errors: bool = True, *, name: str = "linalg.inv_ex") -> tuple[ndarray, ndarray]:
    """Return inverses and error codes; ``name`` starts the error message."""
    check_square("linalg.inv", a)
    check_inexact("linalg.inv", a, False)
    lu, pivots, info = _packed(a)
    if check_errors:
        raise_first(info, name)
    identity = np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape)
    return _lu_solved(lu, pivots, identity, True), info


_OF_INV: Any = {"differs": ["no-integers-linalg"]}
rows("linalg_inv_ex", inverted, "Inverses, and error codes.", **_OF_INV)
_OF_INV |= {"like": np.linalg.inv, "part": 0, "name": "linalg.inv"}
linalg_inv, _ = rows("linalg_inv inverse", inverted, "Inverses.", **_OF_INV)

_OF_DIAGONAL = {"like": np.linalg.diagonal, "differs": ["diagonal-writable"]}
rows("linalg_diagonal", diagonal, "The diagonals of matrices, as a view.", **_OF_DIAGONAL)
