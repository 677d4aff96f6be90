"""QR, eigenvalue and singular value decompositions, and ops built on them."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import broadcast_shapes, check, dim_of, refuse
from torchnp.core.errors import out_dtype, shape_text
from torchnp.core.inplace_out_spec import Bound, WriteSpec
from torchnp.core.registry import kernel
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._reduction import NOT_NUMERIC
from torchnp.kernels.compare import gt
from torchnp.kernels.lu import (
    LAPACK,
    check_epsilon,
    check_inexact,
    check_lapack,
    check_matrix,
    check_square,
    column_major,
    factored,
    lapack,
    look_in_place,
    raise_first,
)
from torchnp.kernels.numerics import small_matrices
from torchnp.layout import stride_rules
from torchnp.layout.overlap import check_target
from torchnp.thresholds import Threshold

ndarray = np.ndarray
_NO_INTEGERS = ["no-integers-linalg"]


def _columns(x: ndarray) -> ndarray:
    """Copy into the column-major layout that LAPACK and torch use for factors."""
    return stride_rules.place(x, stride_rules.columns(x.shape))


# ---------------------------------------------------------------- QR


@kernel("linalg_qr", like=np.linalg.qr, differs=[*_NO_INTEGERS, "qr-mode-r"], writes=WriteSpec(out=look_in_place))
def linalg_qr(A, mode="reduced"):
    """Orthonormal and upper triangular factors."""
    check_matrix("linalg.qr", A)
    check_inexact("linalg.qr", A)
    words = f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
    check(mode in ("reduced", "complete", "r"), words)
    check_lapack("geqrf_cpu", A, True)
    found: Any = (np.empty(0, A.dtype), np.linalg.qr(A, "r")) if mode == "r" else np.linalg.qr(A, mode)
    q, r = found
    return q if mode == "r" else _columns(q), _columns(r)


_EITHER = "The QR factors, reduced if ``some``, else complete."
_by_flag = lambda x, some: linalg_qr(x, "reduced" if some else "complete")
rows("qr", _by_flag, _EITHER, like=np.linalg.qr, differs=_NO_INTEGERS, writes=WriteSpec(out=look_in_place))


@kernel("geqrf", writes=WriteSpec(out=look_in_place))
def geqrf(self):
    """QR factors as LAPACK packs them: Householder vectors below R, and their scales."""
    check(self.ndim >= 2, "torch.geqrf: input must have at least 2 dimensions.")
    check_lapack("geqrf_cpu", self, True)
    tau = np.empty((*self.shape[:-2], min(self.shape[-2:])), self.dtype)
    return factored("geqrf", self, tau)[0], tau


def _check_tau(name: str, a: ndarray, tau: ndarray) -> None:
    sizes = f"but got tau.ndim equal to {tau.ndim} and input.ndim is equal to {a.ndim}"
    check(a.ndim - tau.ndim == 1, f"{name}: Expected tau to have one dimension less than input, {sizes}")


def _householder_product(input: ndarray, tau: ndarray) -> ndarray:
    name = "torch.linalg.householder_product"
    check(input.ndim >= 2, f"{name}: input must have at least 2 dimensions.")
    m, n = input.shape[-2:]
    check(m >= n, f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]")
    check(n >= tau.shape[dim_of(tau, -1)], f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    _check_tau(name, input, tau)
    pair = f"tau dtype {dt.scalar_name(tau.dtype)} does not match input dtype {dt.scalar_name(input.dtype)}"
    check(input.dtype == tau.dtype, f"{name}: {pair}")
    check_lapack("orgqr_cpu", input, True)
    out = column_major(input.shape, input.dtype)
    if small_matrices.are_many_small(input.shape[:-2], m):
        out[...] = np.eye(m, n, dtype=input.dtype)
        for k in reversed(range(tau.shape[-1])):  # apply H_1 H_2 ... to the identity, last factor first
            v = input[..., :, k].copy()
            v[..., :k], v[..., k] = 0, 1
            along = np.einsum("...m,...mn->...n", v.conj(), out)
            out -= tau[..., k, None, None] * v[..., :, None] * along[..., None, :]
    elif input.size:
        multiply: Any = lapack("ungqr" if dt.is_complex(input.dtype) else "orgqr", input.dtype)
        for i in np.ndindex(input.shape[:-2]):
            out[i] = multiply(input[i], tau[i], lwork=_COLUMNS * n)[0]
    return out


_COLUMNS: Threshold = 32  # columns that LAPACK multiplies at once


linalg_householder_product, _ = rows(
    "linalg_householder_product orgqr", _householder_product,
    "First columns of the product of Householder reflections.", writes=WriteSpec(out=look_in_place),
)  # fmt: skip


def _check_ormqr(a: ndarray, tau: ndarray, other: ndarray, side: int) -> None:
    name = "torch.ormqr"
    check(a.ndim >= 2, f"{name}: input must have at least 2 dimensions.")
    check(other.ndim >= 2, f"{name}: other must have at least 2 dimensions.")
    size, found = other.shape[side], f"{name}: other.shape[{side}]"
    check(size == a.shape[-2], f"{found} must be equal to input.shape[-2]")
    least = f"must be equal to min(other.shape[{side}], input.shape[-1])"
    check(tau.shape[dim_of(tau, -1)] == min(size, a.shape[-1]), f"{name}: tau.shape[-1] {least}")
    _check_tau(name, a, tau)
    sizes = f"but got other.ndim equal to {other.ndim} and input.ndim is equal to {a.ndim}"
    words = "Expected other to have the same number of dimensions as input"
    check(a.ndim == other.ndim, f"{name}: {words}, {sizes}")
    for spoken, shape in (("tau", tau.shape[:-1]), ("other", other.shape[:-2])):
        words = f"Expected batch dimensions of {spoken} to be equal to input.shape[:-2], but got {shape_text(shape)}"
        check(shape == a.shape[:-2], f"{name}: {words}")
    for spoken, x in (("tau", tau), ("other", other)):
        pair = f"input has dtype{dt.scalar_name(a.dtype)} and {spoken} has dtype {dt.scalar_name(x.dtype)}"
        check(x.dtype == a.dtype, f"{name}: Expected input and {spoken} to have the same dtype, but {pair}")


@kernel("ormqr")
def ormqr(self, input2, input3, left=True, transpose=False):
    """The orthogonal matrix of `geqrf`, or its adjoint, times a matrix."""
    _check_ormqr(self, input2, input3, -2 if left else -1)
    check_lapack("ormqr_cpu", self, empty=input3.size > 0)
    m = self.shape[-2]
    n = min(m, self.shape[-1])  # columns beyond the rows hold no reflectors
    square = np.zeros((*self.shape[:-1], m), self.dtype)
    square[..., :n] = self[..., :n]
    q = linalg_householder_product(square, input2)
    q = q.mT.conj() if transpose else q
    return _columns(q @ input3 if left else input3 @ q)


# ---------------------------------------------------------------- eigenvalues


def _precheck_vectors(bound: Bound, outs: list[ndarray]) -> None:
    """Check the dtype of the eigenvectors' ``out=`` before that of the eigenvalues."""
    x = next(iter(bound.values()))
    check(len(outs) < 2 or outs[1].dtype == x.dtype, out_dtype(x.dtype, outs[-1].dtype))
    look_in_place(bound, outs[1:])


_BY_VECTORS = WriteSpec(out=_precheck_vectors)


@kernel("_linalg_eigh", like=np.linalg.eigh, differs=_NO_INTEGERS, writes=_BY_VECTORS)
def _linalg_eigh(A, UPLO="L", compute_v=True):
    """Eigenvalues in ascending order and eigenvectors of Hermitian matrices; only one triangle is read."""
    check_square("linalg.eigh", A)
    right = len(UPLO) == 1 and UPLO.upper() in ("L", "U")
    check(right, f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    check_lapack("linalg_eigh_cpu", A)
    if A.size == 0:
        return np.empty(A.shape[:-1], dt.to_real(A.dtype)), np.empty(A.shape if compute_v else 0, A.dtype)
    try:
        if not compute_v:
            return np.linalg.eigvalsh(A, UPLO), np.empty(0, A.dtype)
        values, vectors = np.linalg.eigh(A, UPLO)
    except np.linalg.LinAlgError:
        raise_first(np.full(A.shape[:-2], A.shape[-1] - 1), "linalg.eigh")
    return values, _columns(vectors)


_OF_EIGH: Any = {"by_name": True, "differs": _NO_INTEGERS}
_DOC = "Eigenvalues and eigenvectors of Hermitian matrices."
(linalg_eigh,) = rows("linalg_eigh", _linalg_eigh, _DOC, like=np.linalg.eigh, writes=_BY_VECTORS, **_OF_EIGH)
_OF_EIGH |= {"part": 0, "compute_v": False, "like": np.linalg.eigvalsh}
(linalg_eigvalsh,) = rows("linalg_eigvalsh", _linalg_eigh, "Eigenvalues of Hermitian matrices.", **_OF_EIGH)


def _eig(a: ndarray, *, name: str) -> Any:
    out = dt.to_complex(a.dtype)
    check_square(name, a)
    finite = bool(np.isfinite(dt.cast(a, dt.opmath(a.dtype))).all())
    check(finite, f"torch.{name}: input tensor should not contain infs or NaNs.")
    check_lapack("linalg_eig_out_cpu", a, True)
    if name == "linalg.eigvals":
        return np.linalg.eigvals(a).astype(out, copy=False)
    values, vectors = np.linalg.eig(a)
    return values.astype(out, copy=False), _columns(vectors.astype(out, copy=False))


for _name, _like, _doc in (
    ("linalg_eig", np.linalg.eig, "Eigenvalues and eigenvectors, always complex."),
    ("linalg_eigvals _linalg_eigvals", np.linalg.eigvals, "Eigenvalues, always complex."),
):
    rows(_name, _eig, _doc, name=f"linalg.{_like.__name__}", like=_like, differs=[*_NO_INTEGERS, "always-complex"])


# ---------------------------------------------------------------- singular values


@kernel("_linalg_svd", like=np.linalg.svd, differs=[*_NO_INTEGERS, "svd-reduced", "svd-without-vectors", "svd-driver"])
def _linalg_svd(A, full_matrices=False, compute_uv=True, *, driver=None):
    """Left singular vectors, singular values in descending order, and right singular vectors, conjugated."""
    check_matrix("linalg.svd", A)
    check_inexact("linalg.svd", A)
    words = "keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend."
    check(driver is None or not A.size, f"torch.linalg.svd: {words}")
    check_lapack("linalg_svd_cpu", A)
    wide = A if A.dtype in LAPACK else np.empty(A.shape, np.float32)  # only empty matrices of other dtypes get here
    u = vh = np.empty(0, A.dtype)
    try:
        if compute_uv:
            u, s, vh = np.linalg.svd(wide, full_matrices)
            u, vh = _columns(u.astype(A.dtype, copy=False)), np.ascontiguousarray(vh.astype(A.dtype, copy=False))
        else:
            s = np.linalg.svd(wide, compute_uv=False)
    except np.linalg.LinAlgError:
        raise_first(np.full(A.shape[:-2], -4), "linalg.svd")
    return u, s.astype(dt.to_real(A.dtype), copy=False), vh


_OF_SVD: Any = {"by_name": True, "differs": [*_NO_INTEGERS, "svd-driver"]}
rows("linalg_svd", _linalg_svd, "Singular vectors and values, with A = U diag(S) Vh.", like=np.linalg.svd, **_OF_SVD)
_OF_SVD |= {"part": 1, "compute_uv": False, "like": np.linalg.svdvals}
(linalg_svdvals,) = rows("linalg_svdvals", _linalg_svd, "Singular values in descending order.", **_OF_SVD)


# ---------------------------------------------------------------- from decompositions: polar, square root


def _precheck_polar(bound: Bound, outs: list[ndarray]) -> None:
    check_matrix("linalg.polar", bound["A"])
    check_inexact("linalg.polar", bound["A"])
    for out in outs:
        check(out.dtype == bound["A"].dtype, out_dtype(bound["A"].dtype, out.dtype))


@kernel("linalg_polar", differs=_NO_INTEGERS, writes=WriteSpec(out=_precheck_polar))
def linalg_polar(A):
    """U with orthonormal columns and a Hermitian positive-semidefinite H, with A = U H."""
    check_matrix("linalg.polar", A)
    check_inexact("linalg.polar", A)
    m, n = A.shape[-2:]
    check(m >= n, f"linalg.polar: input must have at least as many rows as columns, but got {m} by {n} matrices")
    u, s, vh = _linalg_svd(A)
    if not A.size:
        refuse("add_stub", A.dtype, dt.FLOAT8S)
        return np.zeros(A.shape, A.dtype), np.zeros((*A.shape[:-2], n, n), A.dtype)
    return u @ vh, (vh.mT.conj() * s[..., None, :]) @ vh


@kernel("linalg_matrix_sqrth", differs=_NO_INTEGERS)
def linalg_matrix_sqrth(self):
    """The Hermitian positive-semidefinite square root of a Hermitian matrix; negative eigenvalues count as 0."""
    check_square("linalg.matrix_sqrth", self)
    check_inexact("linalg.matrix_sqrth", self, low_precision=False)
    values, vectors = _linalg_eigh(self)
    return (vectors * np.sqrt(np.maximum(values, 0))[..., None, :]) @ vectors.mT.conj()


def _precheck_svd(bound: Bound, outs: list[ndarray]) -> None:
    """Check the ``out=`` tensors.

    Without ``compute_uv``, torch fills those for the vectors with 0, so their elements may overlap.
    """
    x, real = bound["self"], dt.to_real(bound["self"].dtype)
    whole = bound.get("compute_uv", True)
    for out in () if whole else outs[::2]:
        words = f"dtype {dt.scalar_name(x.dtype)} but got {dt.scalar_name(out.dtype)} instead"
        check(out.dtype == x.dtype, f"torch.svd: Expected out tensor to have {words}")
    check_matrix("linalg.svd", x)
    for out, dtype in zip(outs, (x.dtype, real, x.dtype), strict=True):
        check(out.dtype == dtype, out_dtype(dtype, out.dtype))
    for out in outs if whole else outs[1:2]:
        check_target(out)


_OF_OUTS = WriteSpec(out=_precheck_svd, skips_memory_check=True)
_SVD_DIFFERS = [*_NO_INTEGERS, "svd-v", "svd-reduced", "svd-without-vectors"]


@kernel("svd", like=np.linalg.svd, differs=_SVD_DIFFERS, writes=_OF_OUTS)
def svd(self, some=True, compute_uv=True):
    """Singular vectors and values, with self = U diag(S) V^H."""
    words = f"linalg.svd: input should have at least 2 dimensions, but has {self.ndim} dimensions instead"
    check(self.ndim >= 2, words)
    u, s, vh = _linalg_svd(self, not some and compute_uv, compute_uv)
    if not compute_uv:
        m, n = self.shape[-2:]
        u, vh = np.zeros((*self.shape[:-1], m), self.dtype), np.zeros((*self.shape[:-2], n, n), self.dtype)
    return u, s, vh.mT.conj()


# ---------------------------------------------------------------- rank and pseudo-inverse


def _check_tolerances(name: str, **tolerances: Any) -> None:
    for word, t in tolerances.items():
        if isinstance(t, ndarray) and dt.is_complex(t.dtype):
            got = dt.scalar_name(t.dtype)
            raise RuntimeError(f"{name}: {word} tensor of complex type is not supported. Got {got}")


def _tolerances(a: ndarray, atol: Any, rtol: Any) -> tuple[ndarray, ndarray]:
    """Return the absolute and relative tolerances; the relative default is 0 where the absolute one is positive."""
    absolute = np.asarray(0.0 if atol is None else atol)
    if rtol is not None:
        return absolute, np.asarray(rtol)
    eps = np.finfo(dt.to_real(a.dtype)).eps * max(a.shape[-2:])
    return absolute, np.where(gt(absolute, 0), 0.0, eps)


def _tolerance(top: ndarray, absolute: ndarray, relative: ndarray) -> ndarray:
    """Return the larger of the absolute tolerance and the relative one times ``top``."""
    for x in (relative, absolute):
        dt.promote_types(x.dtype, top.dtype)  # refuses float8
    broadcast_shapes(absolute.shape, broadcast_shapes(relative.shape, top.shape[:-1]))
    return np.maximum(absolute[..., None], relative[..., None] * top)


def _rank(a: ndarray, *, tol: Any = None, atol: Any = None, rtol: Any = None, hermitian: bool) -> ndarray:
    if tol is not None:
        atol, rtol = tol, 0.0
    check_matrix("torch.linalg.matrix_rank", a, "input")
    _check_tolerances("torch.linalg.matrix_rank", atol=atol, rtol=rtol)
    if rtol is None:
        check_epsilon(a)
    tolerances = _tolerances(a, atol, rtol)
    if a.size == 0:
        return np.zeros(a.shape[:-2], np.int64)
    s = np.abs(linalg_eigvalsh(a)) if hermitian else linalg_svdvals(a)
    limit = _tolerance(s.max(-1, keepdims=True), *tolerances).astype(s.dtype)
    return np.asarray((s > limit).sum(-1, dtype=np.int64))


def _precheck_counted(bound: Bound, outs: list[ndarray]) -> None:
    """Refuse an ``out=`` whose dtype torch cannot sum: torch counts in the dtype of ``out=``."""
    a = next(iter(bound.values()))
    check_matrix("torch.linalg.matrix_rank", a, "input")
    if a.size:
        refuse("sum_cpu", outs[0].dtype, NOT_NUMERIC)


_OF_RANK: Any = {
    "like": np.linalg.matrix_rank, "differs": ["rank-of-vectors", "tolerance-of-zero", *_NO_INTEGERS],
      "writes": WriteSpec(out=_precheck_counted),
}  # fmt: skip
_ABOVE = "Number of singular values above the tolerance, which may differ for each matrix."
_BETWEEN = "linalg_matrix_rank.atol_rtol_float linalg_matrix_rank.atol_rtol_tensor"
rows(_BETWEEN, _rank, _ABOVE, **_OF_RANK)
_ABOVE = "Number of singular values above an absolute tolerance, which may differ for each matrix."
rows("linalg_matrix_rank linalg_matrix_rank.tol_tensor", _rank, _ABOVE, **_OF_RANK)


def _pinv(
    a: ndarray, *, rcond: Any = None, atol: Any = None, rtol: Any = None, hermitian: bool = False, by_numbers: bool = False
) -> ndarray:  # fmt: skip
    if by_numbers and rtol is None:
        dim_of(a, -2)
        check_epsilon(a)
    _check_tolerances("torch.linalg.pinv", rcond=rcond)
    found = f"{dt.scalar_name(a.dtype)}{{{shape_text(a.shape)}}}"
    words = "expected a tensor with 2 or more dimensions of float, double, cfloat or cdouble types"
    check(a.ndim >= 2 and a.dtype in LAPACK, f"linalg.pinv({found}): {words}")
    _check_tolerances("torch.linalg.pinv", atol=atol, rtol=rtol)
    tolerances = _tolerances(a, atol, rtol if rcond is None else rcond)
    if a.size == 0:
        return np.empty((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype)
    if hermitian:
        values, vectors = linalg_eigh(a)
        size, left, right = np.abs(values), vectors, vectors.mT.conj()
    else:
        u, values, vh = _linalg_svd(a, False, True)
        size, left, right = values, vh.mT.conj(), u.mT.conj()
    limit = _tolerance(size.max(-1, keepdims=True), *tolerances)
    inverse = np.where(size > limit, 1 / values, 0).astype(values.dtype)
    return (left * inverse[..., None, :]) @ right


_OF_PINV: Any = {"like": np.linalg.pinv, "differs": ["rank-tolerance", *_NO_INTEGERS]}
_UP_TO = "Moore-Penrose inverse; singular values up to the tolerance count as 0."
rows("linalg_pinv.atol_rtol_float", _pinv, _UP_TO, by_numbers=True, **_OF_PINV)
rows("linalg_pinv.atol_rtol_tensor", _pinv, "`linalg_pinv` with a tolerance for each matrix.", **_OF_PINV)
rows("linalg_pinv", _pinv, _UP_TO, **_OF_PINV)
rows("pinverse", _pinv, _UP_TO, like=np.linalg.pinv, differs=_NO_INTEGERS)
_OF_PINV["differs"] = [*_NO_INTEGERS, "tolerance-tensors"]
rows("linalg_pinv.rcond_tensor", _pinv, _UP_TO, **_OF_PINV)
