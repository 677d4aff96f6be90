"""The three Fourier transforms on which torch builds the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check
from torchnp.core.errors import ambiguous_view, not_implemented
from torchnp.core.inplace_out_spec import copy_into
from torchnp.core.registry import kernel
from torchnp.core.target import since
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._memory import check_size
from torchnp.layout import stride_rules
from torchnp.layout.overlap import check_target

ndarray = np.ndarray

# torch's normalisation modes: none, divide by sqrt(n), divide by n.
NONE, BY_ROOT, BY_N = 0, 1, 2


def _norm(normalization: int, forward: bool) -> Any:
    """Return NumPy's name for a normalisation.

    "backward" means that only the inverse divides by n, "forward" that only the forward transform does.
    """
    if normalization == BY_ROOT:
        return "ortho"
    return "backward" if (normalization == NONE) is forward else "forward"


# ---------------------------------------------------------------- the three kernels


def _check_fft(x: ndarray, takes_complex: bool) -> None:
    kind = "complex" if takes_complex else "floating-point"
    right = dt.is_complex(x.dtype) if takes_complex else dt.is_floating(x.dtype)
    check(right, f"Only supports {kind} dtypes, but found: {dt.scalar_name(x.dtype)}")


def _check_last(dim: Sequence[int]) -> None:
    check(len(dim) > 0, "ArrayRef: attempted to access back() of empty list")


def _check_plan(x: ndarray, dim: Sequence[int]) -> None:
    """Raise torch's error if it cannot plan a transform: for a size of 0, an unsupported dtype, or an empty tensor."""
    sizes = [x.shape[d] for d in dim]
    if 0 in sizes:
        raise ambiguous_view((-1, *sizes))
    if dt.opmath(x.dtype) != x.dtype:
        words = f"MKL FFT doesn't support tensors of type: {dt.scalar_name(dt.to_real(x.dtype))}"
        raise RuntimeError(words)
    check(x.size > 0, "MKL FFT error: Intel oneMKL DFTI ERROR: Inconsistent configuration parameters")


def _without_elements(shape: Sequence[int], dtype: np.dtype) -> ndarray | None:
    """Return the result if it has no elements (torch plans no transform for it since 2.15), else None."""
    if not since("2.15") or 0 not in shape:
        return None
    return stride_rules.dense(np.empty(check_size(shape), dtype))


@kernel("_fft_c2c", like=np.fft.fftn, differs=["fft-normalization", "fft-of-nothing"])
def _fft_c2c(self, dim, normalization, forward):
    """Complex transform over dimensions."""
    _check_fft(self, True)
    if not dim:
        return stride_rules.cloned(self)
    nothing = _without_elements(self.shape, self.dtype)
    if nothing is not None:
        return nothing
    _check_plan(self, dim)
    transform = np.fft.fftn if forward else np.fft.ifftn
    return _laid_out(transform(self, None, dim, _norm(normalization, bool(forward))), self, dim, whole=True)


def _laid_out(out: ndarray, x: ndarray, dim: Sequence[int], whole: bool = False) -> ndarray:
    """Place the result of a transform of ``x`` in torch's memory order."""
    dims = [d % x.ndim for d in dim]
    return stride_rules.place(out, stride_rules.transformed(stride_rules.layout_of(x), out.shape, dims, whole))


@kernel("_fft_r2c", like=np.fft.rfftn, differs=["fft-normalization", "complex-zero-sign", "missing-kernel"])
def _fft_r2c(self, dim, normalization, onesided):
    """Transform of real input over dimensions; if one-sided, the last of them keeps n // 2 + 1 frequencies."""
    nothing = _spectrum_of_nothing(self, dim, onesided)
    if nothing is not None:
        return nothing
    half = _one_sided(self, dim, normalization)
    return _laid_out(half if onesided else _fill(np.empty(self.shape, half.dtype), half, dim), self, dim)


def _spectrum_of_nothing(x: ndarray, dim: Sequence[int], onesided: bool) -> ndarray | None:
    _check_fft(x, False)
    _check_last(dim)
    if x.dtype in dt.FLOAT8S:
        raise RuntimeError(f"Unknown Complex ScalarType for {dt.scalar_name(x.dtype)}")
    shape = list(x.shape)
    if onesided:
        shape[dim[-1]] = shape[dim[-1]] // 2 + 1
    return _without_elements(shape, dt.to_complex(x.dtype))


def _one_sided(x: ndarray, dim: Sequence[int], normalization: int) -> ndarray:
    _check_plan(x, dim)
    norm = _norm(normalization, True)
    half = np.fft.rfft(x, None, dim[-1], norm)
    _sign_zeros(half, x, dim[-1])
    return np.fft.fftn(half, None, dim[:-1], norm) if len(dim) > 1 else half


# For real signals of these lengths, the frequencies where MKL gives a zero imaginary part a negative sign.
_NEGATIVE = {3: (1,), 5: (1,), 6: (), 7: (1,), 8: (1,), 10: (), 11: (1,), 13: (1,), 14: (4,)}
# For 6, 10 and 14 points: a frequency whose imaginary part is a sum of two terms. If the sum is zero, MKL gives -0
# where both terms are zero (False), or where they are not (True).
_SUMMED = {6: (1, False), 10: (4, True), 14: (6, True)}


def _sign_zeros(half: ndarray, x: ndarray, last: int) -> None:
    """Give zero imaginary parts the signs that they have in torch, where these are known."""
    n = x.shape[last]
    if n not in _NEGATIVE:
        return
    imag = along(half, last, 1, None).imag
    imag[imag == 0] = 0.0
    for k in _NEGATIVE[n]:
        part = along(half, last, k, k + 1).imag
        part[part == 0] = -0.0
    if n in _SUMMED:
        k, elsewhere = _SUMMED[n]
        part = along(half, last, k, k + 1).imag
        pairs = along(x, last, 2, n // 2, 2) == along(x, last, n - 2, n // 2, -2)
        part[(part == 0) & (pairs.all(last, keepdims=True) ^ elsewhere)] = -0.0


def along(x: ndarray, dim: int, *bounds: int | None) -> ndarray:
    """Return a slice of one dimension."""
    return x[(slice(None),) * dim + (slice(*bounds),)]


def _fill(out: ndarray, half: ndarray, dim: Sequence[int]) -> ndarray:
    """Store a one-sided spectrum in ``out``, and the conjugates of its values as the other side."""
    last, n = dim[-1], out.shape[dim[-1]]
    first = along(out, last, half.shape[last])
    check_target(first)
    first[...] = dt.cast(half, out.dtype)
    if n <= 2:
        return out
    if out.dtype not in (dt.complex64, dt.complex128):
        raise not_implemented("_fft_fill_with_conjugate_symmetry", out.dtype)
    mirrored = along(out, last, n - half.shape[last], 0, -1)
    for d in dim[:-1]:
        mirrored = np.roll(np.flip(mirrored, d), 1, d)
    np.conjugate(mirrored, out=along(out, last, half.shape[last], None))
    return out


@kernel("_fft_c2r", like=np.fft.irfftn, differs=["fft-normalization"])
def _fft_c2r(self, dim, normalization, last_dim_size):
    """Inverse transform of the one-sided spectrum of a real signal of the given size."""
    _check_fft(self, True)
    _check_last(dim)
    shape = [last_dim_size if d == dim[-1] % self.ndim else size for d, size in enumerate(self.shape)]
    nothing = _without_elements(shape, dt.to_real(self.dtype))
    if nothing is not None:
        return nothing
    x = _fft_c2c(self, dim[:-1], normalization, False) if len(dim) > 1 else self
    _check_plan(x, dim[-1:])
    return _laid_out(np.fft.irfft(x, last_dim_size, dim[-1], _norm(normalization, False)), x, dim[-1:])


# torch computes in the input's dtype, and copies the result into an ``out=`` of any dtype.


_COPIED = "The transform, copied into an out of any dtype."
_WRITTEN = ["overlap-inplace", "out-resized", "fft-out-casts"]
_NORMALIZED = {"differs": ["fft-normalization", *_WRITTEN]}
rows("_fft_c2c.out", lambda *args: copy_into(args[-1], _fft_c2c(*args[:-1])), _COPIED, like=np.fft.fftn, **_NORMALIZED)
rows(
    "_fft_c2r.out", lambda *args: copy_into(args[-1], _fft_c2r(*args[:-1])), _COPIED, like=np.fft.irfftn, **_NORMALIZED
)


@kernel("_fft_r2c.out", like=np.fft.rfftn, differs=["fft-normalization", "complex-zero-sign", *_WRITTEN])
def _fft_r2c_out(self, dim, normalization, onesided, *, out):
    """`_fft_r2c`, copied into ``out``.

    For a two-sided spectrum ``out`` must be complex64 or complex128, unless the last transformed dimension has at most
    2 elements.
    """
    nothing = _spectrum_of_nothing(self, dim, onesided)
    if nothing is not None:
        return copy_into(out, nothing)
    half = _one_sided(self, dim, normalization)
    if onesided:
        return copy_into(out, half)
    return copy_into(out, _fill(np.empty(self.shape, out.dtype), half, dim))
