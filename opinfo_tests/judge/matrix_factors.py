"""Checks of matrix factorizations by their defining equations, which do not determine signs and phases.

The checks are: values in order, orthonormal vectors, triangular factors, and the product of the factors. No single
check would reject all wrong results.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..case import NAMES, Case, widen
from .tolerances import CLOSE

ndarray = np.ndarray


@dataclass(frozen=True)
class Near:
    """Absolute tolerance: ``unit`` times a power of ``scale``, the matrix's largest absolute value (at least 1)."""

    unit: float
    scale: float

    def equal(self, a: ndarray, b: ndarray, power: int = 1) -> bool:
        """Return whether arrays are equal, with a tolerance that grows as the ``power``-th power of the matrix."""
        return a.shape == b.shape and bool(np.abs(a - b).max(initial=0) <= self.unit * self.scale**power)

    def orthonormal(self, columns: ndarray) -> bool:
        return self.equal(adjoint(columns) @ columns, np.zeros_like(columns[..., :1, :]) + np.eye(columns.shape[-1]), 0)


def adjoint(a: ndarray) -> ndarray:
    return np.swapaxes(a, -1, -2).conj()


def broken_factors(case: Case, want: list, got: list) -> str:
    """Return which defining property ``got`` violates, or an empty string."""
    window = case.arrays()[0]
    check = CHECKS[case.op.partition(".")[0].rstrip("_")]
    a = widen(window.on(case.buffers))
    theirs, mine = [widen(x) for x in want], [widen(x) for x in got]
    if not a.size or not all(np.isfinite(t).all() for t in theirs):
        same = all(np.array_equal(t, m, equal_nan=True) for t, m in zip(theirs, mine, strict=True))
        return "" if same else "the factors are not torch's, of a matrix that has nothing to tell them apart"
    # Use the tolerance of the coarsest dtype: ``out=`` may have another dtype than the matrix.
    unit = max(CLOSE[d][0] for d in {window.dtype, *(NAMES[x.dtype] for x in want)} if d in CLOSE)
    return check(a, theirs, mine, Near(10 * unit * max(a.shape[-2:]), max(1.0, float(np.abs(a).max()))))


def _svd(a: ndarray, theirs: list[ndarray], mine: list[ndarray], near: Near) -> str:
    u, s, vh = mine
    k = s.shape[-1]
    if not near.equal(s, theirs[1]):
        return "singular values are not torch's"
    if (s < 0).any() or (np.diff(s) > 0).any():
        return "singular values are negative or do not descend"
    if not theirs[0].any():  # vectors were not requested: torch's are empty or zeros
        return "there are vectors, which were not asked for" if u.any() or vh.any() else ""
    if not near.orthonormal(u) or not near.orthonormal(adjoint(vh)):
        return "singular vectors are not orthonormal"
    product = (u[..., :k] * s[..., None, :]) @ vh[..., :k, :]
    return "" if near.equal(product, a) else "the product of the factors is not the matrix"


def _svd_v(a: ndarray, theirs: list[ndarray], mine: list[ndarray], near: Near) -> str:
    return _svd(a, theirs, [*mine[:2], adjoint(mine[2])], near)


def _eigh(a: ndarray, theirs: list[ndarray], mine: list[ndarray], near: Near) -> str:
    values, vectors = mine
    if not near.equal(values, theirs[0]):
        return "eigenvalues are not torch's"
    if (np.diff(values) < 0).any():
        return "eigenvalues do not ascend"
    if not theirs[1].size:
        return ""
    if not near.orthonormal(vectors):
        return "eigenvectors are not orthonormal"
    # torch reads only one triangle of the matrix, so compare with the product of torch's own factors.
    products = ((v * w[..., None, :]) @ adjoint(v) for w, v in (mine, theirs))
    return "" if near.equal(*products) else "the product of the factors is not the matrix"


def _eig(a: ndarray, theirs: list[ndarray], mine: list[ndarray], near: Near) -> str:
    """Check each eigenpair separately: the matrix of eigenvectors may be singular, so the product is no check."""
    values, vectors = mine
    if not near.equal(a @ vectors, vectors * values[..., None, :]):
        return "a value and its vector are no pair"
    if not near.equal(np.linalg.norm(vectors, axis=-2), np.ones_like(values, values.real.dtype), 0):
        return "eigenvectors are not of unit length"
    return _traces(a, values, near)


def _eigvals(a: ndarray, theirs: list[ndarray], mine: list[ndarray], near: Near) -> str:
    """Check eigenvalues in any order, as LAPACK returns them; each must be exact for a matrix near the given one."""
    values = mine[0]
    if values.shape[-1] != a.shape[-1]:
        return "there are not as many eigenvalues as rows"
    shifted = a[..., None, :, :] - values[..., None, None] * np.eye(a.shape[-1])
    if not near.equal(np.linalg.svd(shifted, compute_uv=False)[..., -1], np.zeros(values.shape)):
        return "a value is no eigenvalue"
    return _traces(a, values, near)


def _traces(a: ndarray, values: ndarray, near: Near) -> str:
    if not near.equal(values.sum(-1), np.trace(a, axis1=-2, axis2=-1)):
        return "eigenvalues do not add up to the trace"
    squares = near.equal((values**2).sum(-1), np.trace(a @ a, axis1=-2, axis2=-1), 2)
    return "" if squares else "squares of eigenvalues do not add up to the trace of the square"


def _qr(a: ndarray, theirs: list[ndarray], mine: list[ndarray], near: Near) -> str:
    q, r = mine
    if np.tril(r, -1).any():
        return "R is not upper triangular"
    if not theirs[0].size:  # only R was requested
        same = near.equal(adjoint(r) @ r, adjoint(theirs[1]) @ theirs[1], 2)
        return "" if same else "R is not a factor of the matrix"
    if not near.orthonormal(q):
        return "the columns of Q are not orthonormal"
    return "" if near.equal(q @ r, a) else "the product of the factors is not the matrix"


def _geqrf(a: ndarray, theirs: list[ndarray], mine: list[ndarray], near: Near) -> str:
    """Check that the reflections give an orthonormal Q and that Q R is the matrix.

    At full rank also compare the reflections with torch's, since both are LAPACK's. Below full rank a reflection may be
    computed from a column of rounding errors.
    """
    packed, tau = mine
    r = np.triu(packed[..., : tau.shape[-1], :])
    q = np.zeros_like(a[..., : tau.shape[-1]]) + np.eye(a.shape[-2], tau.shape[-1])
    for i in reversed(range(tau.shape[-1])):
        v = np.tril(packed[..., i : i + 1], -i - 1)
        v[..., i, :] = 1
        q = q - tau[..., i, None, None] * v @ (adjoint(v) @ q)
    if not near.orthonormal(q):
        return "the reflections do not make an orthonormal Q"
    if not near.equal(q @ r, a):
        return "the product of the factors is not the matrix"
    full = np.abs(np.diagonal(theirs[0], axis1=-2, axis2=-1)).min(-1) > np.sqrt(near.unit) * near.scale
    same = near.equal(packed[full], theirs[0][full]) and near.equal(tau[full], theirs[1][full])
    return "" if same else "the factors are not torch's, of a matrix of full rank"


def _polar(a: ndarray, theirs: list[ndarray], mine: list[ndarray], near: Near) -> str:
    """Check that H equals torch's H, which is unique; U is not unique for a matrix without full rank."""
    u, h = mine
    if not near.equal(h, theirs[1]):
        return "H is not torch's"
    if not near.orthonormal(u):
        return "the columns of U are not orthonormal"
    return "" if near.equal(u @ h, a) else "the product of the factors is not the matrix"


Check = Callable[[ndarray, list[ndarray], list[ndarray], Near], str]
CHECKS: dict[str, Check] = {
    "aten::linalg_svd": _svd, "aten::_linalg_svd": _svd, "prims::svd": _svd, "aten::svd": _svd_v,
    "aten::linalg_eigh": _eigh, "aten::_linalg_eigh": _eigh, "aten::linalg_eig": _eig,
    "aten::linalg_eigvals": _eigvals, "aten::_linalg_eigvals": _eigvals,
    "aten::linalg_polar": _polar, "aten::linalg_qr": _qr, "aten::qr": _qr, "aten::geqrf": _geqrf,
}  # fmt: skip
