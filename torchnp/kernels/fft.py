"""Fourier transforms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.checks import check, not_implemented, wrap_dim
from torchnp.registry import kernel

ndarray = np.ndarray

# torch's normalisation modes: none, divided by sqrt(n), divided by n.
NONE, BY_ROOT, BY_N = 0, 1, 2


def _forward_norm(normalization: int) -> str:
    return ("backward", "ortho", "forward")[min(max(normalization, 0), 2)]


def _inverse_norm(normalization: int) -> str:
    return ("forward", "ortho", "backward")[min(max(normalization, 0), 2)]


# ---------------------------------------------------------------- the three kernels


def _check_fft(x: ndarray, takes_complex: bool) -> None:
    kind = "complex" if takes_complex else "floating-point"
    right = dt.is_complex(x.dtype) if takes_complex else dt.is_floating(x.dtype)
    check(right, f"Only supports {kind} dtypes, but found: {dt.scalar_name(x.dtype)}")
    if x.dtype in dt.FLOAT8S:
        raise RuntimeError(f"Unknown Complex ScalarType for {dt.scalar_name(x.dtype)}")
    if dt.opmath(x.dtype) != x.dtype:
        raise RuntimeError(f"MKL FFT doesn't support tensors of type: {dt.scalar_name(x.dtype)}")


@kernel("_fft_c2c", like=np.fft.fftn, differs=["fft-normalization"])
def _fft_c2c(self, dim, normalization, forward):
    """Complex transform over dimensions."""
    _check_fft(self, True)
    if not dim:
        return self.copy()
    if forward:
        return np.fft.fftn(self, None, dim, _forward_norm(normalization))
    return np.fft.ifftn(self, None, dim, _inverse_norm(normalization))


@kernel("_fft_r2c", like=np.fft.rfftn, differs=["fft-normalization"])
def _fft_r2c(self, dim, normalization, onesided):
    """Transform of real input over dimensions; one-sided, the last of them keeps n // 2 + 1 frequencies."""
    _check_fft(self, False)
    check(len(dim) > 0, "ArrayRef: attempted to access back() of empty list")
    transform = np.fft.rfftn if onesided else np.fft.fftn
    return transform(self, None, dim, _forward_norm(normalization))


@kernel("_fft_c2r", like=np.fft.irfftn, differs=["fft-normalization"])
def _fft_c2r(self, dim, normalization, last_dim_size):
    """Inverse transform of the one-sided spectrum of a real signal of the given size."""
    _check_fft(self, True)
    check(len(dim) > 0, "ArrayRef: attempted to access back() of empty list")
    norm = _inverse_norm(normalization)
    x = np.fft.ifftn(self, None, dim[:-1], norm) if len(dim) > 1 else self
    return np.fft.irfft(x, last_dim_size, dim[-1], norm)


# ---------------------------------------------------------------- what the public functions share


def _promoted(x: ndarray, complex_: bool) -> ndarray:
    out = x.dtype if dt.is_inexact(x.dtype) else dt.get_default_dtype()
    check(out not in dt.HALVES and out not in dt.FLOAT8S, f"Unsupported dtype {dt.scalar_name(out)}")
    return dt.cast(x, dt.to_complex(out) if complex_ else out)


def _mode(norm: str | None, forward: bool) -> int:
    if norm is None or norm == "backward":
        return NONE if forward else BY_N
    if norm == "forward":
        return BY_N if forward else NONE
    check(norm == "ortho", f'Invalid normalization mode: "{norm}"')
    return BY_ROOT


def _points(n: int) -> int:
    check(n >= 1, f"Invalid number of data points ({n}) specified")
    return n


def _resized(x: ndarray, axes: Sequence[int], sizes: Sequence[int]) -> ndarray:
    """Cut or padded with zeros to the given sizes."""
    for axis, n in zip(axes, sizes, strict=True):
        if n < x.shape[axis]:
            x = x[(slice(None),) * axis + (slice(n),)]
        elif n > x.shape[axis]:
            padding = np.zeros([n - x.shape[axis] if i == axis else m for i, m in enumerate(x.shape)], x.dtype)
            x = np.concatenate([x, padding], axis)
    return x


def _axis(x: ndarray, dim: int) -> int:
    check(x.ndim > 0, f"Dimension specified as {dim} but tensor has no dimensions", IndexError)
    return wrap_dim(dim, x.ndim)


def _axes(x: ndarray, s: Sequence[int] | None, dim: Sequence[int] | None) -> tuple[list[int], list[int]]:
    """Axes and sizes of an n-dimensional transform."""
    s, dim = (None if v is None else [v] if isinstance(v, int) else list(v) for v in (s, dim))
    if dim is not None:
        axes = [_axis(x, d) for d in dim]
        check(len(set(axes)) == len(axes), "FFT dims must be unique")
        check(
            s is None or len(s) == len(axes), "When given, dim and shape arguments must have the same length"
        )  # fmt: skip
    if s is None:
        axes = axes if dim is not None else list(range(x.ndim))
        sizes = [x.shape[a] for a in axes]
    else:
        if dim is None:
            check(
                len(s) <= x.ndim, f"Got shape with {len(s)} values but input tensor only has {x.ndim} dimensions."
            )  # fmt: skip
            axes = list(range(x.ndim - len(s), x.ndim))
        sizes = [x.shape[a] if n == -1 else n for a, n in zip(axes, s, strict=True)]
    for n in sizes:
        _points(n)
    return axes, sizes


def _check_real(name: str, x: ndarray, words: str = "a real") -> None:
    check(
        not dt.is_complex(x.dtype), f"{name} expects {words} input tensor, but got {dt.scalar_name(x.dtype)}"
    )  # fmt: skip


# ---------------------------------------------------------------- one dimension


def _c2c(x: ndarray, n: int | None, dim: int, norm: str | None, forward: bool) -> ndarray:
    value = _promoted(x, True)
    axis = _axis(x, dim)
    size = _points(x.shape[axis] if n is None else n)
    return _fft_c2c(_resized(value, [axis], [size]), (axis,), _mode(norm, forward), forward)


def _r2c(name: str, x: ndarray, n: int | None, dim: int, norm: str | None, forward: bool) -> ndarray:
    _check_real(name, x)
    value = _promoted(x, False)
    axis = _axis(x, dim)
    size = _points(x.shape[axis] if n is None else n)
    out = _fft_r2c(_resized(value, [axis], [size]), (axis,), _mode(norm, forward), True)
    return out if forward else out.conj()


def _c2r(x: ndarray, n: int | None, dim: int, norm: str | None, forward: bool) -> ndarray:
    value = _promoted(x, True)
    axis = _axis(x, dim)
    size = _points(2 * (x.shape[axis] - 1) if n is None else n)
    value = _resized(value, [axis], [size // 2 + 1])
    return _fft_c2r(value.conj() if forward else value, (axis,), _mode(norm, forward), size)


@kernel("fft_fft", like=np.fft.fft, differs=["no-half-fft", "fft-of-integers"])
def fft_fft(self, n=None, dim=-1, norm=None):
    """Discrete Fourier transform along a dimension."""
    return _c2c(self, n, dim, norm, True)


@kernel("fft_ifft", like=np.fft.ifft, differs=["no-half-fft", "fft-of-integers"])
def fft_ifft(self, n=None, dim=-1, norm=None):
    """Inverse of `fft_fft`."""
    return _c2c(self, n, dim, norm, False)


@kernel("fft_rfft", like=np.fft.rfft, differs=["no-half-fft", "fft-of-integers"])
def fft_rfft(self, n=None, dim=-1, norm=None):
    """The n // 2 + 1 frequencies of a real signal."""
    return _r2c("rfft", self, n, dim, norm, True)


@kernel("fft_irfft", like=np.fft.irfft, differs=["no-half-fft", "fft-of-integers"])
def fft_irfft(self, n=None, dim=-1, norm=None):
    """Inverse of `fft_rfft`."""
    return _c2r(self, n, dim, norm, False)


@kernel("fft_hfft", like=np.fft.hfft, differs=["no-half-fft", "fft-of-integers"])
def fft_hfft(self, n=None, dim=-1, norm=None):
    """Transform of a signal with Hermitian symmetry, which is real."""
    return _c2r(self, n, dim, norm, True)


@kernel("fft_ihfft", like=np.fft.ihfft, differs=["no-half-fft", "fft-of-integers"])
def fft_ihfft(self, n=None, dim=-1, norm=None):
    """Inverse of `fft_hfft`."""
    return _r2c("ihfft", self, n, dim, norm, False)


# ---------------------------------------------------------------- several dimensions


def _c2cn(x: ndarray, s: Any, dim: Any, norm: str | None, forward: bool) -> ndarray:
    axes, sizes = _axes(x, s, dim)
    value = _resized(_promoted(x, True), axes, sizes)
    return _fft_c2c(value, tuple(axes), _mode(norm, forward), forward)


def _last_size(x: ndarray, axes: Sequence[int], s: Any) -> int:
    """Size of the real signal along the last transformed dimension."""
    given = None if s is None else s if isinstance(s, int) else s[-1]
    return _points(2 * (x.shape[axes[-1]] - 1) if given in (None, -1) else given)


@kernel("fft_fftn", like=np.fft.fftn, differs=["no-half-fft", "fft-of-integers"])
def fft_fftn(self, s=None, dim=None, norm=None):
    """Discrete Fourier transform over dimensions, by default all."""
    return _c2cn(self, s, dim, norm, True)


@kernel("fft_ifftn", like=np.fft.ifftn, differs=["no-half-fft", "fft-of-integers"])
def fft_ifftn(self, s=None, dim=None, norm=None):
    """Inverse of `fft_fftn`."""
    return _c2cn(self, s, dim, norm, False)


@kernel("fft_rfftn", like=np.fft.rfftn, differs=["no-half-fft", "fft-of-integers"])
def fft_rfftn(self, s=None, dim=None, norm=None):
    """Transform of a real signal; the last dimension keeps n // 2 + 1 frequencies."""
    _check_real("rfftn", self, "a real-valued")
    axes, sizes = _axes(self, s, dim)
    check(len(axes) > 0, "rfftn must transform at least one axis")
    value = _resized(_promoted(self, False), axes, sizes)
    return _fft_r2c(value, tuple(axes), _mode(norm, True), True)


@kernel("fft_irfftn", like=np.fft.irfftn, differs=["no-half-fft", "fft-of-integers"])
def fft_irfftn(self, s=None, dim=None, norm=None):
    """Inverse of `fft_rfftn`."""
    axes, sizes = _axes(self, s, dim)
    check(len(axes) > 0, "irfftn must transform at least one axis")
    last = _last_size(self, axes, s)
    value = _resized(_promoted(self, True), axes, [*sizes[:-1], last // 2 + 1])
    return _fft_c2r(value, tuple(axes), _mode(norm, False), last)


@kernel("fft_hfftn", differs=["no-half-fft", "fft-of-integers"])
def fft_hfftn(self, s=None, dim=None, norm=None):
    """Transform of a signal with Hermitian symmetry in the last dimension, which is real."""
    axes, sizes = _axes(self, s, dim)
    check(len(axes) > 0, "hfftn must transform at least one axis")
    last = _last_size(self, axes, s)
    value = _resized(_promoted(self, True), axes, [*sizes[:-1], last // 2 + 1])
    mode = _mode(norm, True)
    value = _fft_c2c(value, tuple(axes[:-1]), mode, True)
    return _fft_c2r(value.conj(), (axes[-1],), mode, last)


@kernel("fft_ihfftn", differs=["no-half-fft", "fft-of-integers"])
def fft_ihfftn(self, s=None, dim=None, norm=None):
    """Inverse of `fft_hfftn`."""
    _check_real("ihfftn", self, "a real-valued")
    axes, sizes = _axes(self, s, dim)
    check(len(axes) > 0, "ihfftn must transform at least one axis")
    value = _resized(_promoted(self, False), axes, sizes)
    mode = _mode(norm, False)
    value = _fft_r2c(value, (axes[-1],), mode, True).conj()
    return _fft_c2c(value, tuple(axes[:-1]), mode, False)


@kernel("fft_fft2", like=np.fft.fft2, differs=["no-half-fft", "fft-of-integers"])
def fft_fft2(self, s=None, dim=(-2, -1), norm=None):
    """`fft_fftn` over the last two dimensions."""
    return fft_fftn(self, s, dim, norm)


@kernel("fft_ifft2", like=np.fft.ifft2, differs=["no-half-fft", "fft-of-integers"])
def fft_ifft2(self, s=None, dim=(-2, -1), norm=None):
    """`fft_ifftn` over the last two dimensions."""
    return fft_ifftn(self, s, dim, norm)


@kernel("fft_rfft2", like=np.fft.rfft2, differs=["no-half-fft", "fft-of-integers"])
def fft_rfft2(self, s=None, dim=(-2, -1), norm=None):
    """`fft_rfftn` over the last two dimensions."""
    return fft_rfftn(self, s, dim, norm)


@kernel("fft_irfft2", like=np.fft.irfft2, differs=["no-half-fft", "fft-of-integers"])
def fft_irfft2(self, s=None, dim=(-2, -1), norm=None):
    """`fft_irfftn` over the last two dimensions."""
    return fft_irfftn(self, s, dim, norm)


@kernel("fft_hfft2", differs=["no-half-fft", "fft-of-integers"])
def fft_hfft2(self, s=None, dim=(-2, -1), norm=None):
    """`fft_hfftn` over the last two dimensions."""
    return fft_hfftn(self, s, dim, norm)


@kernel("fft_ihfft2", differs=["no-half-fft", "fft-of-integers"])
def fft_ihfft2(self, s=None, dim=(-2, -1), norm=None):
    """`fft_ihfftn` over the last two dimensions."""
    return fft_ihfftn(self, s, dim, norm)


# ---------------------------------------------------------------- frequencies


def _shifted(x: ndarray, dim: Any, shift: Any) -> ndarray:
    axes = range(x.ndim) if dim is None else [wrap_dim(d, x.ndim) for d in ([dim] if isinstance(dim, int) else dim)]
    return np.roll(x, [shift(x.shape[a]) for a in axes], tuple(axes)) if x.ndim else x.copy()


@kernel("fft_fftshift", like=np.fft.fftshift)
def fft_fftshift(self, dim=None):
    """The zero frequency moved to the middle."""
    return _shifted(self, dim, lambda n: n // 2)


@kernel("fft_ifftshift", like=np.fft.ifftshift)
def fft_ifftshift(self, dim=None):
    """Inverse of `fft_fftshift`."""
    return _shifted(self, dim, lambda n: math.ceil(n / 2))


def _frequencies(name: str, n: int, d: float, dtype: Any) -> ndarray:
    out = dt.get_default_dtype() if dtype is None else dt.as_dtype(dtype)
    check(dt.is_inexact(out), f"{name} requires a floating point or complex dtype")
    if dt.is_complex(out):
        raise not_implemented("arange_cpu", out)
    values = np.arange(n // 2 + 1) if name == "rfftfreq" else (np.arange(n) + n // 2) % max(n, 1) - n // 2
    inner = dt.opmath(out)
    return dt.cast(dt.cast(values, inner) * inner.type(np.divide(1, n * d)), out)


@kernel("fft_fftfreq", like=np.fft.fftfreq, differs=["default-dtype"])
def fft_fftfreq(n, d=1.0, *, dtype=None, layout=None, device=None, pin_memory=None):
    """Sample frequencies of `fft_fft`."""
    return _frequencies("fftfreq", n, d, dtype)


@kernel("fft_rfftfreq", like=np.fft.rfftfreq, differs=["default-dtype"])
def fft_rfftfreq(n, d=1.0, *, dtype=None, layout=None, device=None, pin_memory=None):
    """Sample frequencies of `fft_rfft`."""
    return _frequencies("rfftfreq", n, d, dtype)
