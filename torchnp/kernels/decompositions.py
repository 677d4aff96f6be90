"""QR, eigenvalue and singular value decompositions, and what rests on them."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.checks import check, wrap_dim
from torchnp.errors import shape_text
from torchnp.kernels._rows import rows
from torchnp.kernels.linalg import (
    LAPACK,
    LinAlgError,
    _lapack,
    check_epsilon,
    check_inexact,
    check_lapack,
    check_matrix,
    check_square,
    column_major,
    transposed,
)
from torchnp.registry import kernel

ndarray = np.ndarray


def _columns(x: ndarray) -> ndarray:
    """A copy in the layout that LAPACK and torch give factors."""
    out = column_major(x.shape, x.dtype)
    out[...] = x
    return out


# ---------------------------------------------------------------- QR


@kernel("linalg_qr", like=np.linalg.qr, differs=["no-integers-linalg", "qr-mode-r"])
def linalg_qr(A, mode="reduced"):
    """Orthonormal and upper triangular factors."""
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        )
    check_matrix("linalg.qr", A)
    check_inexact("linalg.qr", A)
    check_lapack("geqrf_cpu", A, True)
    if mode == "r":
        return np.empty(0, A.dtype), _columns(np.linalg.qr(A, "r"))
    q, r = np.linalg.qr(A, mode)
    return _columns(q), _columns(r)


@kernel("qr", like=np.linalg.qr, differs=["no-integers-linalg"])
def qr(self, some=True):
    """Orthonormal and upper triangular factors, reduced or complete."""
    return linalg_qr(self, "reduced" if some else "complete")


@kernel("geqrf")
def geqrf(self):
    """QR factors as LAPACK packs them: Householder vectors below R, and their scales."""
    check(self.ndim >= 2, "torch.geqrf: input must have at least 2 dimensions.")
    check_lapack("geqrf_cpu", self, True)
    packed = column_major(self.shape, self.dtype)
    tau = np.empty((*self.shape[:-2], min(self.shape[-2:])), self.dtype)
    if self.size:
        run = _lapack("geqrf", self.dtype)
        for i in np.ndindex(self.shape[:-2]):
            packed[i], tau[i] = run(self[i])[:2]
    return packed, tau


@kernel("linalg_householder_product")
def linalg_householder_product(input, tau):
    """First columns of the product of Householder reflections."""
    name = "torch.linalg.householder_product"
    check(input.ndim >= 2, f"{name}: input must have at least 2 dimensions.")
    m, n = input.shape[-2:]
    check(m >= n, f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]")
    check(n >= tau.shape[-1], f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    check(
        input.ndim - tau.ndim == 1,
        f"{name}: Expected tau to have one dimension less than input, but got tau.ndim equal to {tau.ndim} and "
        f"input.ndim is equal to {input.ndim}",
    )
    if input.dtype != tau.dtype:
        raise RuntimeError(
            f"{name}: tau dtype {dt.scalar_name(tau.dtype)} does not match input dtype {dt.scalar_name(input.dtype)}"
        )
    check_lapack("orgqr_cpu", input, True)
    out = column_major(input.shape, input.dtype)
    out[...] = np.eye(m, n, dtype=input.dtype)
    for k in reversed(range(tau.shape[-1])):  # H_1 H_2 ... applied to the identity from the right end
        v = input[..., :, k].copy()
        v[..., :k], v[..., k] = 0, 1
        along = np.einsum("...m,...mn->...n", v.conj(), out)
        out -= tau[..., k, None, None] * v[..., :, None] * along[..., None, :]
    return out


@kernel("orgqr")
def orgqr(self, input2):
    """First columns of the product of Householder reflections."""
    return linalg_householder_product(self, input2)


def _check_ormqr(a: ndarray, tau: ndarray, other: ndarray, side: int) -> None:
    name = "torch.ormqr:"
    check(a.ndim >= 2, f"{name} input must have at least 2 dimensions.")
    check(other.ndim >= 2, f"{name} other must have at least 2 dimensions.")
    check(
        other.shape[side] >= tau.shape[-1], f"{name} other.shape[{side}] must be greater than or equal to tau.shape[-1]"
    )
    check(other.shape[side] == a.shape[-2], f"{name} other.shape[{side}] must be equal to input.shape[-2]")
    check(
        tau.shape[-1] == min(other.shape[side], a.shape[-1]),
        f"{name} tau.shape[-1] must be equal to min(other.shape[{side}], input.shape[-1])",
    )
    check(
        a.ndim - tau.ndim == 1,
        f"{name} Expected tau to have one dimension less than input, but got tau.ndim equal to {tau.ndim} and "
        f"input.ndim is equal to {a.ndim}",
    )
    check(
        a.ndim == other.ndim,
        f"{name} Expected other to have the same number of dimensions as input, but got other.ndim equal to "
        f"{other.ndim} and input.ndim is equal to {a.ndim}",
    )
    for spoken, shape in (("tau", tau.shape[:-1]), ("other", other.shape[:-2])):
        if shape != a.shape[:-2]:
            raise RuntimeError(
                f"{name} Expected batch dimensions of {spoken} to be equal to input.shape[:-2], but got "
                f"{shape_text(shape)}"
            )
    for spoken, x in (("tau", tau), ("other", other)):
        if x.dtype != a.dtype:
            raise RuntimeError(
                f"{name} Expected input and {spoken} to have the same dtype, but input has dtype"
                f"{dt.scalar_name(a.dtype)} and {spoken} has dtype {dt.scalar_name(x.dtype)}"
            )


@kernel("ormqr")
def ormqr(self, input2, input3, left=True, transpose=False):
    """The orthogonal matrix of `geqrf`, or its adjoint, times a matrix."""
    _check_ormqr(self, input2, input3, -2 if left else -1)
    check_lapack("ormqr_cpu", self)
    m = self.shape[-2]
    n = min(m, self.shape[-1])  # more columns than rows hold no more reflectors
    square = np.zeros((*self.shape[:-1], m), self.dtype)
    square[..., :n] = self[..., :n]
    q = linalg_householder_product(square, input2)
    q = transposed(q).conj() if transpose else q
    return _columns(q @ input3 if left else input3 @ q)


# ---------------------------------------------------------------- eigenvalues


@kernel("_linalg_eigh", like=np.linalg.eigh, differs=["no-integers-linalg"])
def _linalg_eigh(A, UPLO="L", compute_v=True):
    """Eigenvalues in ascending order and eigenvectors of Hermitian matrices, of which one triangle is read."""
    check_square("linalg.eigh", A)
    check(
        len(UPLO) == 1 and UPLO.upper() in ("L", "U"), f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}"
    )  # fmt: skip
    check_lapack("linalg_eigh_cpu", A)
    real = dt.to_real(A.dtype)
    if A.size == 0:
        return np.empty(A.shape[:-1], real), np.empty(A.shape if compute_v else 0, A.dtype)
    try:
        if not compute_v:
            return np.linalg.eigvalsh(A, UPLO), np.empty(0, A.dtype)
        values, vectors = np.linalg.eigh(A, UPLO)
    except np.linalg.LinAlgError:
        raise LinAlgError(
            f"linalg.eigh: {'' if A.ndim == 2 else '(Batch element 0): '}The algorithm failed to converge because the "
            "input matrix is ill-conditioned or has too many repeated eigenvalues (error code: "
            f"{A.shape[-1] - 1})."
        ) from None
    return values, _columns(vectors)


@kernel("linalg_eigh", like=np.linalg.eigh, differs=["no-integers-linalg"])
def linalg_eigh(self, UPLO="L"):
    """Eigenvalues and eigenvectors of Hermitian matrices."""
    return _linalg_eigh(self, UPLO, True)


@kernel("linalg_eigvalsh", like=np.linalg.eigvalsh, differs=["no-integers-linalg"])
def linalg_eigvalsh(self, UPLO="L"):
    """Eigenvalues of Hermitian matrices."""
    return _linalg_eigh(self, UPLO, False)[0]


def _check_eig(a: ndarray, name: str) -> np.dtype:
    check_square(name, a)
    out = dt.to_complex(a.dtype)
    check(bool(np.isfinite(dt.cast(a, dt.opmath(a.dtype))).all()), f"torch.{name}: input tensor should not contain infs or NaNs.")  # fmt: skip
    check_lapack("linalg_eig_out_cpu", a, True)
    return out


@kernel("linalg_eig", like=np.linalg.eig, differs=["no-integers-linalg", "always-complex"])
def linalg_eig(self):
    """Eigenvalues and eigenvectors, always complex."""
    out = _check_eig(self, "linalg.eig")
    if self.size == 0:
        return np.empty(self.shape[:-1], out), np.empty(self.shape, out)
    values, vectors = np.linalg.eig(self)
    return values.astype(out, copy=False), _columns(vectors.astype(out, copy=False))


@kernel("_linalg_eigvals", "linalg_eigvals", like=np.linalg.eigvals, differs=["no-integers-linalg", "always-complex"])
def linalg_eigvals(self):
    """Eigenvalues, always complex."""
    out = _check_eig(self, "linalg.eigvals")
    if self.size == 0:
        return np.empty(self.shape[:-1], out)
    return np.linalg.eigvals(self).astype(out, copy=False)


# ---------------------------------------------------------------- singular values


@kernel("_linalg_svd", like=np.linalg.svd, differs=["no-integers-linalg", "svd-reduced"])
def _linalg_svd(A, full_matrices=False, compute_uv=True, *, driver=None):
    """Left singular vectors, singular values in descending order, and right singular vectors, conjugated."""
    check_matrix("linalg.svd", A)
    check_inexact("linalg.svd", A)
    check(driver is None, "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend.")  # fmt: skip
    check_lapack("linalg_svd_cpu", A)
    try:
        if not compute_uv:
            return np.empty(0, A.dtype), _singular_values(A), np.empty(0, A.dtype)
        wide = A if A.dtype in LAPACK else np.empty(A.shape, np.float32)  # of other dtypes only empty ones get here
        u, s, vh = np.linalg.svd(wide, full_matrices)
        if wide is not A:
            u, s, vh = u.astype(A.dtype), s.astype(dt.to_real(A.dtype)), vh.astype(A.dtype)
    except np.linalg.LinAlgError:
        batch = "" if A.ndim == 2 else "(Batch element 0): "
        raise LinAlgError(
            f"linalg.svd: {batch}The algorithm failed to converge because the input matrix contained non-finite values."
        ) from None
    return _columns(u), s, np.ascontiguousarray(vh)


def _singular_values(a: ndarray) -> ndarray:
    if a.size == 0:
        return np.empty((*a.shape[:-2], min(a.shape[-2:])), dt.to_real(a.dtype))
    return np.linalg.svd(a, compute_uv=False)


@kernel("linalg_svd", like=np.linalg.svd, differs=["no-integers-linalg"])
def linalg_svd(A, full_matrices=True, *, driver=None):
    """Singular vectors and values, with A = U diag(S) Vh."""
    return _linalg_svd(A, full_matrices, True, driver=driver)


@kernel("linalg_svdvals", like=np.linalg.svdvals, differs=["no-integers-linalg"])
def linalg_svdvals(A, *, driver=None):
    """Singular values in descending order."""
    return _linalg_svd(A, False, False, driver=driver)[1]


@kernel("svd", like=np.linalg.svd, differs=["no-integers-linalg", "svd-v", "svd-reduced"])
def svd(self, some=True, compute_uv=True):
    """Singular vectors and values, with self = U diag(S) V^H."""
    check(self.ndim >= 2, "linalg.svd: input should have at least 2 dimensions, but has "
          f"{self.ndim} dimensions instead")  # fmt: skip
    if compute_uv:
        u, s, vh = _linalg_svd(self, not some, True)
        return u, s, transposed(vh).conj()
    s = _linalg_svd(self, False, False)[1]
    m, n = self.shape[-2:]
    return np.zeros((*self.shape[:-1], m), self.dtype), s, np.zeros((*self.shape[:-2], n, n), self.dtype)


# ---------------------------------------------------------------- rank and pseudo-inverse


def _check_tolerances(name: str, **tolerances: Any) -> None:
    for word, t in tolerances.items():
        if isinstance(t, ndarray) and dt.is_complex(t.dtype):
            got = dt.scalar_name(t.dtype)
            raise RuntimeError(f"{name}: {word} tensor of complex type is not supported. Got {got}")


def _tolerance(a: ndarray, atol: Any, rtol: Any) -> tuple[Any, Any]:
    """Absolute and relative tolerance; the relative default counts where no absolute one is given."""
    eps = np.finfo(dt.to_real(a.dtype)).eps * max(a.shape[-2:])
    absolute = 0.0 if atol is None else atol
    if rtol is not None:
        return absolute, rtol
    return absolute, np.where(np.asarray(absolute) > 0, 0.0, eps)


def _spectrum(a: ndarray, hermitian: bool) -> ndarray:
    return np.abs(linalg_eigvalsh(a)) if hermitian else linalg_svdvals(a)


def _rank(a: ndarray, atol: Any, rtol: Any, hermitian: bool) -> ndarray:
    check_matrix("torch.linalg.matrix_rank", a, "input")
    if rtol is None:
        check_epsilon(a)
    if a.size == 0:
        return np.zeros(a.shape[:-2], np.int64)
    s = _spectrum(a, hermitian)
    atol, rtol = _tolerance(a, atol, rtol)
    top = s.max(-1)
    limit = np.maximum(atol, rtol * top).astype(s.dtype)
    return np.asarray((s > limit[..., None]).sum(-1, dtype=np.int64))


def _rank_between(a: ndarray, atol: Any, rtol: Any, hermitian: bool) -> ndarray:
    _check_tolerances("torch.linalg.matrix_rank", atol=atol, rtol=rtol)
    return _rank(a, atol, rtol, hermitian)


def _rank_above(a: ndarray, tol: Any, hermitian: bool) -> ndarray:
    _check_tolerances("torch.linalg.matrix_rank", tol=tol)
    return _rank(a, tol, 0.0, hermitian)


_OF_RANK = {"like": np.linalg.matrix_rank, "differs": ["rank-of-vectors"]}
rows(
    "linalg_matrix_rank.atol_rtol_float linalg_matrix_rank.atol_rtol_tensor",
    _rank_between,
    "Number of singular values above the tolerance, which may be one for each matrix.",
    **_OF_RANK,
)
rows(
    "linalg_matrix_rank linalg_matrix_rank.tol_tensor",
    _rank_above,
    "Number of singular values above an absolute tolerance, which may be one for each matrix.",
    **_OF_RANK,
)


def _pinv(a: ndarray, atol: Any, rtol: Any, hermitian: bool) -> ndarray:
    check(
        a.ndim >= 2 and a.dtype in LAPACK,
        f"linalg.pinv({dt.scalar_name(a.dtype)}{{{shape_text(a.shape)}}}): expected a tensor with 2 or more dimensions of "
        "float, double, cfloat or cdouble types",
    )
    if a.size == 0:
        return np.empty((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype)
    atol, rtol = _tolerance(a, atol, rtol)
    if hermitian:
        values, vectors = linalg_eigh(a)
        size, left, right = np.abs(values), vectors, transposed(vectors).conj()
    else:
        u, values, vh = _linalg_svd(a, False, True)
        size, left, right = values, transposed(vh).conj(), transposed(u).conj()
    top = size.max(-1, keepdims=True)
    limit = np.maximum(np.asarray(atol)[..., None], np.asarray(rtol)[..., None] * top)
    inverse = np.where(size > limit, 1 / values, 0).astype(values.dtype)
    return (left * inverse[..., None, :]) @ right


def _pinv_between(a: ndarray, atol: Any, rtol: Any, hermitian: bool) -> ndarray:
    if rtol is None:
        wrap_dim(-2, a.ndim)
        check_epsilon(a)
    return _pinv(a, atol, rtol, hermitian)


def _pinv_of_each(a: ndarray, atol: Any, rtol: Any, hermitian: bool) -> ndarray:
    _check_tolerances("torch.linalg.pinv", atol=atol, rtol=rtol)
    return _pinv(a, atol, rtol, hermitian)


def _pinv_above(a: ndarray, rcond: Any, hermitian: bool = False) -> ndarray:
    _check_tolerances("torch.linalg.pinv", rcond=rcond)
    return _pinv(a, 0.0, rcond, hermitian)


_OF_PINV = {"like": np.linalg.pinv, "differs": ["rank-tolerance"]}
_UP_TO = "Moore-Penrose inverse; singular values up to the tolerance count as 0."
rows("linalg_pinv.atol_rtol_float", _pinv_between, _UP_TO, **_OF_PINV)
rows("linalg_pinv.atol_rtol_tensor", _pinv_of_each, "`linalg_pinv` with a tolerance for each matrix.", **_OF_PINV)
rows("linalg_pinv linalg_pinv.rcond_tensor pinverse", _pinv_above, _UP_TO, **_OF_PINV)
