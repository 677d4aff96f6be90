"""Fourier transforms."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torchnp import dtypes as dt
from torchnp.portable.library import ArrayLibrary
from torchnp.portable.rows import Array, portable

Ints = Sequence[int]
_NONE, _ROOT, _LENGTH = range(3)  # torch's codes for normalization: by nothing, by sqrt(n), by n


def _normalized(lib: ArrayLibrary, x: Array, mode: int, count: int) -> Array:
    if mode == _NONE:
        return x
    return x * lib.number(1 / (math.sqrt(count) if mode == _ROOT else count), lib.dtype_of(x))


@portable("aten::_fft_r2c")
def fft_r2c(lib: ArrayLibrary, self: Array, dim: Ints, normalization: int, onesided: bool) -> Array:
    d = dt.to_complex(lib.dtype_of(self))
    if d == dt.complex32 or not dim:
        return NotImplemented
    axes = tuple(dim)
    found = lib.xp.fft.rfftn(self, axes=axes) if onesided else lib.xp.fft.fftn(lib.astype(self, d), axes=axes)
    return _normalized(lib, lib.astype(found, d), normalization, math.prod(self.shape[a] for a in axes))


@portable("aten::_fft_c2r")
def fft_c2r(lib: ArrayLibrary, self: Array, dim: Ints, normalization: int, last_dim_size: int) -> Array:
    if not dim:
        return NotImplemented
    sizes = [self.shape[a] for a in dim[:-1]] + [last_dim_size]
    found = lib.xp.fft.irfftn(self, s=tuple(sizes), axes=tuple(dim), norm="forward")
    return _normalized(lib, lib.astype(found, dt.to_real(lib.dtype_of(self))), normalization, math.prod(sizes))


@portable("aten::_fft_c2c")
def fft_c2c(lib: ArrayLibrary, self: Array, dim: Ints, normalization: int, forward: bool) -> Array:
    if not dim:
        return self
    axes = tuple(dim)
    found = lib.xp.fft.fftn(self, axes=axes) if forward else lib.xp.fft.ifftn(self, axes=axes, norm="forward")
    count = math.prod(self.shape[a] for a in axes)
    return _normalized(lib, lib.astype(found, lib.dtype_of(self)), normalization, count)


_BY_NAME = {None: 0, "backward": 0, "ortho": _ROOT, "forward": _LENGTH}
_INVERSE = {None: _LENGTH, "backward": _LENGTH, "ortho": _ROOT, "forward": 0}


def _resized(lib: ArrayLibrary, x: Array, n: int | None, dim: int) -> Array:
    """Cut a dimension to a length, or extend it with zeros."""
    if n is None or x.shape[dim] == n:
        return x
    d = dim % x.ndim
    return lib.call("aten::constant_pad_nd", x, [0, 0] * (x.ndim - 1 - d) + [0, n - x.shape[d]], 0)


@portable("aten::fft_rfft")
def rfft(lib: ArrayLibrary, self: Array, n: int | None = None, dim: int = -1, norm: str | None = None) -> Array:
    return fft_r2c(lib, _resized(lib, lib.to_float(self), n, dim), [dim], _BY_NAME[norm], True)


@portable("aten::fft_irfft")
def irfft(lib: ArrayLibrary, self: Array, n: int | None = None, dim: int = -1, norm: str | None = None) -> Array:
    if not dt.is_complex(lib.dtype_of(self)):
        return NotImplemented
    size = 2 * (self.shape[dim] - 1) if n is None else n
    return fft_c2r(lib, _resized(lib, self, size // 2 + 1, dim), [dim], _INVERSE[norm], size)


def _complex(lib: ArrayLibrary, x: Array) -> Array:
    return lib.astype(x, dt.to_complex(lib.dtype_of(lib.to_float(x))))


@portable("aten::fft_fft")
def fft(lib: ArrayLibrary, self: Array, n: int | None = None, dim: int = -1, norm: str | None = None) -> Array:
    return fft_c2c(lib, _resized(lib, _complex(lib, self), n, dim), [dim], _BY_NAME[norm], True)


@portable("aten::fft_ifft")
def ifft(lib: ArrayLibrary, self: Array, n: int | None = None, dim: int = -1, norm: str | None = None) -> Array:
    return fft_c2c(lib, _resized(lib, _complex(lib, self), n, dim), [dim], _INVERSE[norm], False)


def _several(
    lib: ArrayLibrary, self: Array, s: Ints | None, dim: Ints | None, norm: str | None, forward: bool
) -> Array:
    if s is not None:
        return NotImplemented
    axes = tuple(range(self.ndim)) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    return fft_c2c(lib, _complex(lib, self), axes, (_BY_NAME if forward else _INVERSE)[norm], forward)


@portable("aten::fft_fft2")
def fft2(lib: ArrayLibrary, self: Array, s: Ints | None = None, dim: Ints = (-2, -1), norm: str | None = None) -> Array:
    return _several(lib, self, s, dim, norm, True)


@portable("aten::fft_ifft2")
def ifft2(
    lib: ArrayLibrary, self: Array, s: Ints | None = None, dim: Ints = (-2, -1), norm: str | None = None
) -> Array:
    return _several(lib, self, s, dim, norm, False)


@portable("aten::fft_fftn")
def fftn(
    lib: ArrayLibrary, self: Array, s: Ints | None = None, dim: Ints | None = None, norm: str | None = None
) -> Array:
    return _several(lib, self, s, dim, norm, True)


@portable("aten::fft_ifftn")
def ifftn(
    lib: ArrayLibrary, self: Array, s: Ints | None = None, dim: Ints | None = None, norm: str | None = None
) -> Array:
    return _several(lib, self, s, dim, norm, False)
