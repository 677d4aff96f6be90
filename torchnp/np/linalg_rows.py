"""`numpy.linalg` on tensors: NumPy's own code, with torch's factorizations instead of NumPy's LAPACK wrappers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from torchnp.np.arrays import on_arrays
from torchnp.np.dtypes import as_tensor, values_are_here
from torchnp.np.rebind_numpy_functions import OVERRIDES, rebound_row
from torchnp.np.table import row
from torchnp.np.ufunc import saved

OF_INTEGERS = "no-integers-linalg"


def _checked(found: Tensor, info: Tensor) -> Tensor:
    """Return the result with nan where LAPACK failed; raise NumPy's error instead if NumPy's code requests errors."""
    failed = info != 0
    if np.geterr()["invalid"] == "call" and values_are_here(info) and bool(failed.any()):
        np.geterrcall()("invalid value", 8)  # type: ignore[misc,operator]
    return torch.where(failed[..., None, None], torch.full_like(found, torch.nan), found)


def _inexact(x: Tensor) -> Tensor:
    return x if x.is_floating_point() or x.is_complex() else x.to(torch.float64)


def _inv(a: Tensor, **kwargs: Any) -> Tensor:
    return _checked(*torch.linalg.inv_ex(_inexact(a)))


def _solve(a: Tensor, b: Tensor, **kwargs: Any) -> Tensor:
    a, b = _together(a, b)
    if a.shape[-1] != b.shape[-2]:
        raise ValueError(
            "solve: Input operand 1 has a mismatch in its core dimension 0, with gufunc signature (m,m),(m,n)->(m,n) (size "
            f"{b.shape[-2]} is different from {a.shape[-1]})"
        )
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return _checked(*torch.linalg.solve_ex(a.expand((*batch, *a.shape[-2:])), b.expand((*batch, *b.shape[-2:]))))


def _solve1(a: Tensor, b: Tensor, **kwargs: Any) -> Tensor:
    return _solve(a, b[..., None])[..., 0]


def _together(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    a, b = _inexact(a), _inexact(b)
    common = torch.promote_types(a.dtype, b.dtype)
    return a.to(common), b.to(common)


def _cholesky(upper: bool) -> Any:
    def factor(a: Tensor, **kwargs: Any) -> Tensor:
        return _checked(*torch.linalg.cholesky_ex(_inexact(a), upper=upper))

    return factor


def _svd(full: bool) -> Any:
    def factor(a: Tensor, **kwargs: Any) -> tuple[Tensor, Tensor, Tensor]:
        x = _inexact(a)
        if values_are_here(x) and not bool(torch.isfinite(x).all()):
            raise np.linalg.LinAlgError("SVD did not converge")
        u, s, vh = torch.linalg.svd(x, full_matrices=full)
        return u, saved(s), vh  # NumPy's pinv writes into s

    return factor


def _svd_values(a: Tensor, **kwargs: Any) -> Tensor:
    x = _inexact(a)
    if values_are_here(x) and not bool(torch.isfinite(x).all()):
        raise np.linalg.LinAlgError("SVD did not converge")
    return torch.linalg.svdvals(x)


def _lstsq(a: Tensor, b: Tensor, rcond: Any, **kwargs: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    a, b = _together(a, b)
    tolerance = float(rcond)
    found = torch.linalg.lstsq(a, b, rcond=tolerance, driver="gelsd")
    rest = b - a @ found.solution
    squares = (rest.real**2 + rest.imag**2) if rest.is_complex() else rest**2
    return found.solution, squares.sum(-2), found.rank.to(torch.int32), found.singular_values


def _slogdet(a: Tensor, **kwargs: Any) -> tuple[Tensor, Tensor]:
    sign, log = torch.linalg.slogdet(_inexact(a))
    return torch.where(sign == 0, torch.zeros_like(sign), sign), log


def _eigh(lower: bool) -> Any:
    return lambda a, **kwargs: tuple(torch.linalg.eigh(_inexact(a), "L" if lower else "U"))


def _eigvalsh(lower: bool) -> Any:
    return lambda a, **kwargs: torch.linalg.eigvalsh(_inexact(a), "L" if lower else "U")


class LapackOnTensors:
    """The replacement of ``numpy.linalg._umath_linalg``: its functions on arrays, computed by torch."""

    inv = staticmethod(on_arrays(_inv))
    solve = staticmethod(on_arrays(_solve))
    solve1 = staticmethod(on_arrays(_solve1))
    det = staticmethod(on_arrays(lambda a, **kwargs: torch.linalg.det(_inexact(a))))
    slogdet = staticmethod(on_arrays(_slogdet))
    cholesky_lo = staticmethod(on_arrays(_cholesky(False)))
    cholesky_up = staticmethod(on_arrays(_cholesky(True)))
    eig = staticmethod(on_arrays(lambda a, **kwargs: tuple(torch.linalg.eig(_inexact(a)))))
    eigvals = staticmethod(on_arrays(lambda a, **kwargs: torch.linalg.eigvals(_inexact(a))))
    eigh_lo = staticmethod(on_arrays(_eigh(True)))
    eigh_up = staticmethod(on_arrays(_eigh(False)))
    eigvalsh_lo = staticmethod(on_arrays(_eigvalsh(True)))
    eigvalsh_up = staticmethod(on_arrays(_eigvalsh(False)))
    svd = staticmethod(on_arrays(_svd_values))
    svd_f = staticmethod(on_arrays(_svd(True)))
    svd_s = staticmethod(on_arrays(_svd(False)))
    lstsq = staticmethod(on_arrays(_lstsq))


OVERRIDES["_umath_linalg"] = LapackOnTensors

# NumPy's versions use different LAPACK names for QR, so it is written here with torch's function.


@row("linalg.qr", f"{OF_INTEGERS} qr-mode-r")
def qr(a: Any, mode: str = "reduced") -> Any:
    """`numpy.linalg.qr` on tensors; ``mode="r"`` returns only the second factor, ``"raw"`` LAPACK's factors."""
    x = as_tensor(a)
    if mode not in ("reduced", "complete", "r", "raw"):
        raise ValueError(f"Unrecognized mode '{mode}'")
    if x.dim() < 2:
        raise np.linalg.LinAlgError(f"{x.dim()}-dimensional array given. Array must be at least two-dimensional")
    if x.dtype in (torch.float16, torch.bfloat16):
        raise TypeError("array type float16 is unsupported in linalg")
    x = _inexact(x)
    if mode == "raw":
        packed, scales = torch.geqrf(x)
        return packed.transpose(-1, -2), scales
    q, r = torch.linalg.qr(x, mode)
    return r if mode == "r" else _QRResult(q, r)


_QRResult: Any = type(np.linalg.qr(np.eye(1)))

rebound_row("linalg.inv linalg.det linalg.solve linalg.cholesky linalg.eigh linalg.eigvalsh", OF_INTEGERS)
rebound_row("linalg.slogdet", f"{OF_INTEGERS} slogdet-sign-of-zero")
rebound_row("linalg.eig linalg.eigvals", f"{OF_INTEGERS} always-complex")
rebound_row("linalg.svd", f"{OF_INTEGERS} svd-reduced svd-without-vectors svd-v")
rebound_row("linalg.svdvals", f"{OF_INTEGERS} svd-driver")
rebound_row("linalg.lstsq", f"{OF_INTEGERS} lstsq-results lstsq-tolerance lstsq-batches")
rebound_row("linalg.pinv", f"{OF_INTEGERS} rank-tolerance tolerance-tensors")
rebound_row("linalg.matrix_rank", f"{OF_INTEGERS} rank-of-vectors tolerance-of-zero")
rebound_row("linalg.cond", f"{OF_INTEGERS} cond-of-zero cond-of-singular")
rebound_row("linalg.norm", f"{OF_INTEGERS} norm-flattens no-integers-norm half-norm")
rebound_row("linalg.vector_norm", "no-integers-norm norm-of-nothing")
rebound_row("linalg.matrix_norm linalg.matrix_power linalg.tensorinv linalg.tensorsolve", OF_INTEGERS)
rebound_row("linalg.multi_dot", "chain-of-one no-mixed-products")
rebound_row("linalg.cross", "cross-broadcast cross-default-dim")
rebound_row("linalg.matmul linalg.tensordot linalg.vecdot linalg.outer linalg.diagonal linalg.trace")
