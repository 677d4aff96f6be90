"""LU and Cholesky factors, and what is solved with them: determinants, inverses, linear systems."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.checks import broadcast_shapes, check
from torchnp.errors import no_dimensions, not_implemented, shape_text
from torchnp.kernels._memory import empty_in_order
from torchnp.kernels._rows import rows
from torchnp.kernels.slicing import diagonal
from torchnp.registry import kernel

ndarray = np.ndarray
LAPACK = (dt.float32, dt.float64, dt.complex64, dt.complex128)


class LinAlgError(RuntimeError):
    """A matrix that an algorithm cannot handle, as torch.linalg.LinAlgError."""


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
    """Refuse other dtypes; of an ``empty`` matrix too, where torch does not return early."""
    if (a.size or empty) and a.dtype not in LAPACK:
        raise not_implemented(kernel_name, a.dtype)


def check_epsilon(a: ndarray) -> None:
    check(a.dtype in LAPACK, "This function doesn't handle types other than float and double")


def check_same(a: ndarray, b: ndarray, names: tuple[str, str], name: str = "", end: str = "") -> None:
    """Refuse operands of two dtypes."""
    if a.dtype != b.dtype:
        first, second = names
        found = f"{first} of type {dt.scalar_name(a.dtype)} and {second} of type {dt.scalar_name(b.dtype)} instead{end}"
        raise RuntimeError(f"{name}Expected {first} and {second} to have the same dtype, but found {found}")


def check_sides(name: str, a: ndarray, b: ndarray, left: bool) -> None:
    """Refuse matrices that are no sides of one equation."""
    check_matrix(name, b, "B")
    equation, sizes = "AX = B" if left else "XA = B", " and ".join(f"{x.shape[-2]}x{x.shape[-1]}" for x in (a, b))
    words = f"{name}: Incompatible shapes of A and B for the equation {equation} ({sizes})"
    check(a.shape[-2] == b.shape[-2 if left else -1], words)


def raise_first(info: ndarray, name: str, message: str, error: type[RuntimeError] = LinAlgError) -> None:
    """Raise for the first matrix of a batch whose algorithm failed; ``{}`` stands for its code."""
    if info.any():
        at = int(np.flatnonzero(info)[0])
        batch = "" if info.ndim == 0 else f"(Batch element {at}): "
        raise error(f"{name}: {batch}{message.format(int(info.flat[at]))}")


SINGULAR = "The diagonal element {} is zero, the inversion could not be completed because the input matrix is singular."
NOT_POSITIVE = (
    "The factorization could not be completed because the input is not positive-definite (the leading minor of order "
    "{} is not positive-definite)."
)
ZERO_PIVOT = (
    "U[{0},{0}] is zero and using it on lu_solve would result in a division by zero. If you still want to perform the "
    "factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
)


def transposed(a: ndarray) -> ndarray:
    return a.swapaxes(-2, -1)


def column_major(shape: tuple[int, ...], dtype: np.dtype) -> ndarray:
    """Room for a batch of matrices in the layout that LAPACK and torch give factors."""
    return transposed(empty_in_order((*shape[:-2], shape[-1], shape[-2]), dtype, None))


def _lapack(name: str, dtype: np.dtype) -> Any:
    from scipy.linalg import get_lapack_funcs

    return get_lapack_funcs(name, dtype=dtype)


# ---------------------------------------------------------------- LU


def _check_factored(name: str, a: ndarray) -> None:
    words = f"Expected tensor with 2 or more dimensions. Got size: {shape_text(a.shape)} instead"
    check(a.ndim >= 2, f"{name}: {words}")


def easier_side(a: ndarray) -> ndarray:
    """The transpose where that is LAPACK's layout: torch factors it instead, for the determinant."""
    return transposed(a) if a.flags.c_contiguous and not dt.is_complex(a.dtype) else a


def lu_factor(a: ndarray) -> tuple[ndarray, ndarray, ndarray]:
    """Packed LU factors, pivots counted from 1, and 0 or the place of the first zero pivot, for each matrix."""
    check_lapack("lu_cpu", a)
    m, n = a.shape[-2:]
    lu = column_major(a.shape, a.dtype)
    pivots = np.empty((*a.shape[:-2], min(m, n)), np.int32)
    info = np.zeros(a.shape[:-2], np.int32)
    if a.size == 0:
        return lu, pivots, info
    getrf = _lapack("getrf", a.dtype)
    for i in np.ndindex(a.shape[:-2]):
        lu[i], swaps, info[i] = getrf(a[i])
        pivots[i] = swaps + 1
    return lu, pivots, info


def permutation(pivots: ndarray, m: int) -> ndarray:
    """The order of rows that the exchanges of ``pivots`` lead to."""
    order = np.broadcast_to(np.arange(m), (*pivots.shape[:-1], m)).copy()
    for batch in np.ndindex(pivots.shape[:-1]):
        row = order[batch]
        for i, p in enumerate(pivots[batch] - 1):
            row[i], row[p] = row[p], row[i]
    return order


@kernel("linalg_lu_factor_ex")
def linalg_lu_factor_ex(A, *, pivot=True, check_errors=False):
    """Packed LU factors with partial pivoting, pivots, and an error code for each matrix."""
    _check_factored("torch.lu_factor", A)
    check_lapack("lu_cpu", A)
    check(pivot or not A.size, "linalg.lu_factor: LU without pivoting is not implemented on the CPU")
    lu, pivots, info = lu_factor(A)
    if check_errors:
        raise_first(info, "torch.linalg.lu_factor_ex", ZERO_PIVOT, RuntimeError)
    return lu, pivots, info


@kernel("linalg_lu_factor")
def linalg_lu_factor(A, *, pivot=True):
    """Packed LU factors with partial pivoting, and pivots."""
    lu, pivots, info = linalg_lu_factor_ex(A, pivot=pivot)
    raise_first(info, "torch.linalg.lu_factor", ZERO_PIVOT, RuntimeError)
    return lu, pivots


_DOC = "Packed LU factors, pivots and error codes."
rows("_lu_with_info", lambda A, pivot, _: linalg_lu_factor_ex(A, pivot=pivot), _DOC)


def _unpacked(lu: ndarray) -> tuple[ndarray, ndarray]:
    m, n = lu.shape[-2:]
    k = min(m, n)
    lower = np.tril(lu[..., :, :k], -1)
    lower[..., range(k), range(k)] = 1
    return lower, np.triu(lu[..., :k, :])


def _permutation_matrix(pivots: ndarray, m: int, dtype: np.dtype) -> ndarray:
    order = permutation(pivots, m)
    return transposed(order[..., :, None] == np.arange(m)).astype(dtype)


@kernel("linalg_lu")
def linalg_lu(A, *, pivot=True):
    """Permutation, unit lower and upper triangular factors with A = P L U."""
    _check_factored("linalg.lu", A)
    lu, pivots, _ = linalg_lu_factor_ex(A, pivot=pivot)
    if not pivot:
        return np.empty(0, A.dtype), *_unpacked(lu)
    return _permutation_matrix(pivots, A.shape[-2], A.dtype), *_unpacked(lu)


def _row_pivots(lu: ndarray, pivots: ndarray) -> ndarray:
    """The exchanges of each matrix: as torch does, the first of as many rows of pivots as there are matrices."""
    batch, m, count = lu.shape[:-2], lu.shape[-2], min(lu.shape[-2:])
    rows = pivots.reshape(-1, pivots.shape[-1] if pivots.ndim else 1) if pivots.size else pivots.reshape(0, 0)
    needed, out_of_range = math.prod(batch) if count else 0, bool(((pivots < 1) | (pivots > m)).any())
    # Of too few pivots torch reads what is in memory behind them.
    check(
        not needed or (len(rows) >= needed and rows.shape[1] >= count and not out_of_range),
        "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive."
        "Did you properly pass the result of lu_factor?",
    )
    return rows[:needed, :count].reshape(*batch, count) if needed else np.empty((*batch, 0), pivots.dtype)


@kernel("lu_unpack")
def lu_unpack(LU_data, LU_pivots, unpack_data=True, unpack_pivots=True):
    """Permutation and triangular factors from packed ones."""
    _check_factored("torch.lu_unpack", LU_data)
    check(
        not unpack_pivots or LU_pivots.dtype == dt.int32,
        "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.\n"
        "Note: this function is intended to be used with the output produced by torch.linalg.lu_factor",
    )
    p, lower, upper = (np.empty(0, LU_data.dtype) for _ in range(3))
    if unpack_pivots:
        p = _permutation_matrix(_row_pivots(LU_data, LU_pivots), LU_data.shape[-2], LU_data.dtype)
    if unpack_data:
        lower, upper = _unpacked(LU_data)
    return p, lower, upper


# ---------------------------------------------------------------- determinants


def _diagonal_and_sign(lu: ndarray, pivots: ndarray) -> tuple[ndarray, ndarray]:
    exchanges = (pivots != np.arange(1, pivots.shape[-1] + 1)).sum(-1)
    return np.diagonal(lu, 0, -2, -1), np.where(exchanges % 2, -1, 1)


@kernel("_linalg_det", differs=["no-integers-linalg"])
def _linalg_det(A):
    """Determinants, with the LU factors that they were computed from."""
    check_square("linalg.det", A)
    check_inexact("linalg.det", A)
    lu, pivots, _ = lu_factor(easier_side(A))
    diagonal, sign = _diagonal_and_sign(lu, pivots)
    return np.asarray(np.multiply.reduce(diagonal, -1) * sign.astype(A.dtype)), lu, pivots


_OF_DET = {"like": np.linalg.det, "differs": ["no-integers-linalg"]}
linalg_det, _ = rows("linalg_det det", _linalg_det, "Determinants.", part=0, **_OF_DET)


@kernel("_linalg_slogdet", differs=["no-integers-linalg"])
def _linalg_slogdet(A):
    """Sign and logarithm of the absolute determinant, with the LU factors."""
    check_square("linalg.slogdet", A)
    check_inexact("linalg.slogdet", A, False)
    lu, pivots, _ = lu_factor(easier_side(A))
    diagonal, sign = _diagonal_and_sign(lu, pivots)
    length = np.abs(diagonal)
    direction = diagonal / length if dt.is_complex(A.dtype) else np.sign(diagonal)
    direction = np.where(length == 0, A.dtype.type(0), direction)
    signs = np.multiply.reduce(direction, -1) * sign.astype(A.dtype)
    return np.asarray(signs), np.asarray(np.add.reduce(np.log(length), -1)), lu, pivots


_OF_SLOGDET = {"like": np.linalg.slogdet, "differs": ["no-integers-linalg"], "part": slice(2)}
rows("linalg_slogdet slogdet", _linalg_slogdet, "Sign and logarithm of the absolute determinant.", **_OF_SLOGDET)


@kernel("logdet", differs=["no-integers-linalg"])
def logdet(self):
    """Logarithm of the determinant; NaN where it is negative."""
    check_square("logdet", self)
    check_inexact("logdet", self, False)
    sign, logabsdet = _linalg_slogdet(self)[:2]
    if dt.is_complex(self.dtype):
        return np.log(sign) + logabsdet
    return np.where(sign == -1, self.dtype.type(np.nan), logabsdet)


# ---------------------------------------------------------------- systems


_UNSOLVED = "The solver failed because the input matrix is singular."


@kernel("_linalg_solve_ex", differs=["solve-vectors", "no-integers-linalg"])
def _linalg_solve_ex(A, B, *, left=True, check_errors=False):
    """Solution of A X = B or X A = B, with the LU factors, pivots and error codes."""
    check_inexact("linalg.solve", A)
    check_same(A, B, ("A", "B"), "linalg.solve: ")
    vector = B.ndim == 1 or B.shape == A.shape[:-1]
    right = B[..., None] if vector else B
    check_square("linalg.solve", A)
    check_sides("linalg.solve", A, right, left)
    check(left or not vector, "linalg.solve: Vector broadcasting of the left hand side is not supported for left=False. "
          "In this case linalg.solve is equivalent to B / A.squeeze(-1)")  # fmt: skip
    lu, pivots, info = lu_factor(A)
    if check_errors:
        raise_first(info, "torch.linalg.solve_ex", _UNSOLVED)
    x = lu_solved(lu, pivots, right, left)
    return x[..., 0] if vector else x, lu, pivots, info


def lu_solved(lu: ndarray, pivots: ndarray, b: ndarray, left: bool, adjoint: bool = False) -> ndarray:
    """Solve with packed factors, matrix by matrix."""
    batch = broadcast_shapes(lu.shape[:-2], b.shape[:-2])
    shape = (*batch, *b.shape[-2:])
    out = column_major(shape, b.dtype) if left else empty_in_order(shape, b.dtype, None)
    if out.size == 0:
        return out
    getrs = _lapack("getrs", lu.dtype)
    lu, b = (np.broadcast_to(x, batch + x.shape[-2:]) for x in (lu, b))
    pivots = np.broadcast_to(pivots, batch + pivots.shape[-1:])
    # X A = B is A^T X^T = B^T.
    trans = (2 if adjoint else 0) if left else (0 if adjoint else 1)
    conjugate = not left and adjoint and dt.is_complex(b.dtype)
    for i in np.ndindex(batch):
        rhs = b[i] if left else b[i].T
        x = getrs(lu[i], pivots[i] - 1, rhs.conj() if conjugate else rhs, trans=trans)[0]
        x = x.conj() if conjugate else x
        out[i] = x if left else x.T
    return out


_WITHOUT_FACTORS = {"part": slice(None, None, 3), "differs": ["solve-vectors", "no-integers-linalg"]}
(linalg_solve_ex,) = rows(
    "linalg_solve_ex", lambda A, B, left, check: _linalg_solve_ex(A, B, left=left, check_errors=check),
    "Solution of A X = B or X A = B, with error codes.", **_WITHOUT_FACTORS,
)  # fmt: skip


@kernel("linalg_solve", like=np.linalg.solve, differs=["solve-vectors", "no-integers-linalg"])
def linalg_solve(A, B, *, left=True):
    """Solution of A X = B or X A = B."""
    x, info = linalg_solve_ex(A, B, left=left)
    raise_first(info, "torch.linalg.solve", _UNSOLVED)
    return x


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
    check_lapack("linalg.lu_solve_cpu", LU)
    if B.size:
        words = "Pivots given to lu_solve must all be {}. Did you properly pass the result of lu_factor?"
        check(bool((pivots >= 1).all()), words.format("greater or equal to 1"))
        check(bool((pivots <= LU.shape[-2]).all()), words.format("smaller or equal to LU.size(-2)"))
    return lu_solved(LU, pivots, B, left, adjoint)


_DOC = "Solution of A X = self from the packed LU factors of A."
rows("lu_solve", lambda b, lu, pivots: linalg_lu_solve(lu, pivots, b), _DOC)


@kernel("linalg_inv_ex", differs=["no-integers-linalg"])
def linalg_inv_ex(A, *, check_errors=False):
    """Inverses, and error codes."""
    out, info = _inverse(A)
    if check_errors:
        raise_first(info, "linalg.inv_ex", SINGULAR)
    return out, info


def _inverse(a: ndarray) -> tuple[ndarray, ndarray]:
    check_square("linalg.inv", a)
    check_inexact("linalg.inv", a, False)
    lu, pivots, info = lu_factor(a)
    identity = np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape)
    return lu_solved(lu, pivots, identity, True), info


def inverted(a: ndarray, name: str) -> ndarray:
    """Inverses; the error for a singular matrix opens with the name."""
    out, info = _inverse(a)
    raise_first(info, name, SINGULAR)
    return out


_OF_INV = {"like": np.linalg.inv, "differs": ["no-integers-linalg"]}
linalg_inv, _ = rows("linalg_inv inverse", inverted, "Inverses.", name="linalg.inv", **_OF_INV)

# ---------------------------------------------------------------- views and codes


_OF_DIAGONAL = {"like": np.linalg.diagonal, "differs": ["diagonal-writable"]}
rows("linalg_diagonal", diagonal, "The diagonals of matrices, as a view.", **_OF_DIAGONAL)


@kernel("_linalg_check_errors")
def _linalg_check_errors(info, api_name, *, is_matrix):
    """Raise what the error codes of an algorithm mean."""
    known = {"linalg.inv": SINGULAR, "linalg.inv_ex": SINGULAR, "linalg.cholesky": NOT_POSITIVE}
    messages = known | {"linalg.cholesky_ex": NOT_POSITIVE, "cholesky": NOT_POSITIVE}
    messages |= {"torch.linalg.solve": _UNSOLVED, "torch.linalg.solve_ex": _UNSOLVED}
    if api_name.startswith("torch.linalg.lu_factor"):
        raise_first(info, api_name, ZERO_PIVOT, RuntimeError)
    raise_first(info, api_name, messages.get(api_name, "Unknown error code: {}."))
