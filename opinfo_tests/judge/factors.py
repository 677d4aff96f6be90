"""Decompositions: their defining equations hold, and what the equations leave free (sign, phase) is not compared."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..case import Case, widen
from .tolerances import CLOSE


def factors_hold(case: Case, want: list, got: list) -> bool:
    """Return whether ``got`` are factors of the same kind, and as close to the input, as torch's."""
    if case.op.startswith("aten::linalg_eig") and not case.op.startswith("aten::linalg_eigh"):
        return eigenpairs_hold(case, *map(widen, got)) if 0 not in want[0].shape else True
    products = RECONSTRUCT.get(case.op) or RECONSTRUCT.get(case.op.partition("::")[2].partition(".")[0])
    a = case.arrays()[0]
    name = a.dtype
    rtol, _ = CLOSE[name]
    if products is None or any(r is None or 0 in r.shape for r in want):
        return True
    mine, theirs = products(*map(widen, got)), products(*map(widen, want))
    scale = max(1.0, float(np.abs(widen(theirs)).max()))
    size = max(a.shape[-2:])
    return bool(np.allclose(mine, theirs, rtol=0, atol=10 * rtol * scale * size, equal_nan=True))


def eigenpairs_hold(case: Case, values: np.ndarray, vectors: np.ndarray) -> bool:
    """Return whether each pair is one, the vectors are of unit length and the values add up to the trace.

    The matrix is not put together again: that of the vectors may be singular.
    """
    window = case.arrays()[0]
    a = widen(window.on(case.buffers))
    scale, size = max(1.0, float(np.abs(a).max())), a.shape[-1]
    near = 10 * CLOSE[window.dtype][0] * scale * size
    pairs = np.abs(a @ vectors - vectors * values[..., None, :]).max() <= near
    unit = np.abs(np.linalg.norm(vectors, axis=-2) - 1).max() <= near
    return bool(pairs and unit and np.abs(values.sum(-1) - np.trace(a, axis1=-2, axis2=-1)).max() <= near)


def _svd(u: np.ndarray, s: np.ndarray, vh: np.ndarray) -> np.ndarray:
    k = s.shape[-1]
    return (u[..., :k] * s[..., None, :]) @ vh[..., :k, :]


def _svd_v(u: np.ndarray, s: np.ndarray, v: np.ndarray) -> np.ndarray:
    return _svd(u, s, np.swapaxes(v, -1, -2).conj())


def _eigh(values: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    if vectors.size == 0:
        return values
    return (vectors * values[..., None, :]) @ np.swapaxes(vectors, -1, -2).conj()


def _qr(q: np.ndarray, r: np.ndarray) -> np.ndarray:
    return q @ r if q.size else np.abs(r)


RECONSTRUCT: dict[str, Callable[..., np.ndarray]] = {
    "prims::svd": _svd, "linalg_svd": _svd, "_linalg_svd": _svd, "svd": _svd_v, "linalg_eigh": _eigh, "_linalg_eigh": _eigh,
    "linalg_qr": _qr, "qr": _qr,
}  # fmt: skip
