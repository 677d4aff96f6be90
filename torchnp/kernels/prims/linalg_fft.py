"""The prims of linear algebra and Fourier transforms: ``svd``, ``fft_r2c``, ``fft_c2c`` and ``fft_c2r``."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, wrap_dim
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._spatial import Ints
from torchnp.kernels.prims._portable import NOT_TRUE, Array, aten, either

ndarray = np.ndarray


def _svd(A: ndarray, *, full_matrices: bool) -> tuple[ndarray, ...]:
    got = f"Got torch.{dt.dtype_name(A.dtype)}"
    check(dt.is_inexact(A.dtype), f"linalg.svd: Expected a floating point or complex tensor as input. {got}")
    check(not dt.is_half(dt.to_real(A.dtype)), f"linalg.svd: Half precision dtypes not supported. {got}")
    return aten("_linalg_svd")(A, full_matrices)


def _check_matrix(A: Array, **_: Any) -> None:
    check(A.ndim >= 2, "linalg.svd: The input tensor A must have at least 2 dimensions.")


rows(
    "prims::svd", either, "Singular value decomposition: U, S and the conjugate transpose of V.", native=_svd,
    portable=lambda xp, A, **how: tuple(xp.linalg.svd(A, **how)), precheck=_check_matrix, like=np.linalg.svd,
)  # fmt: skip


def _r2c(xp: Any, x: Array, *, dim: Ints, onesided: bool) -> Array:
    return xp.fft.rfftn(x, axes=tuple(dim)) if onesided else xp.fft.fftn(x + 0j, axes=tuple(dim))


def _c2c(xp: Any, x: Array, *, dim: Ints, forward: bool) -> Array:
    return xp.fft.fftn(x, axes=tuple(dim)) if forward else xp.fft.ifftn(x, axes=tuple(dim), norm="forward")


def _c2r(xp: Any, x: Array, *, dim: Ints, last_dim_size: int) -> Array:
    sizes = [x.shape[d] for d in dim[:-1]] + [last_dim_size]
    return xp.fft.irfftn(x, s=sizes, axes=tuple(dim), norm="forward")


def _check_fft(x: Array, *, dim: Ints, onesided: bool = False, last_dim_size: int = 0, **how: Any) -> None:
    axes = [wrap_dim(d, x.ndim) for d in dim]
    check(len(set(axes)) == len(axes), "duplicate value in the list of dims")
    check(axes or how or not onesided, "tuple index out of range", IndexError)
    check(last_dim_size >= 0, NOT_TRUE)


for _name, _portable, _like, _doc in (
    ("prims::fft_r2c", _r2c, np.fft.rfftn, "Fourier transform of real numbers"),
    ("prims::fft_c2c", _c2c, np.fft.fftn, "Fourier transform of complex numbers or its inverse"),
    ("prims::fft_c2r", _c2r, np.fft.irfftn, "Inverse Fourier transform to real numbers"),
):
    _native = lambda x, *, _of=f"_{_name[7:]}", dim, **how: aten(_of)(x, dim, 0, *how.values())
    _differs = ["no-half-fft", "complex-zero-sign"] if _name == "prims::fft_r2c" else []
    _doc = f"{_doc}, not normalized."
    rows(
        _name,
        either,
        _doc,
        native=_native,
        portable=_portable,
        precheck=_check_fft,
        like=_like,
        differs=_differs,
    )
