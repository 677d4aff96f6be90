"""Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence

from torchnp import dtypes as dt
from torchnp.portable.library import ArrayLibrary
from torchnp.portable.rows import Array, portable
from torchnp.portable.standard.shape import part, wrap

Ints = Sequence[int]
# The standard's name for each of torch's codes, which divide by nothing, by sqrt(n) or by n. In the standard,
# "backward" divides the inverse transform by n, and "forward" divides the forward transform.
_FORWARD, _BACKWARD = ("backward", "ortho", "forward"), ("forward", "ortho", "backward")


def _mirrored(lib: ArrayLibrary, half: Array, axes: Ints, length: int) -> Array:
    """Return the whole transform of a real array; elements of negative frequencies are conjugates."""
    last = wrap(axes[-1], half.ndim)
    rest = lib.xp.conj(part(half, last, slice(1, length - half.shape[last] + 1)))
    for axis in (wrap(a, half.ndim) for a in axes):
        rest = lib.xp.flip(rest, axis=axis)
        rest = rest if axis == last else lib.xp.roll(rest, 1, axis=axis)
    return lib.xp.concat([half, rest], axis=last)


@portable("aten::_fft_r2c")
def fft_r2c(lib: ArrayLibrary, self: Array, dim: Ints, normalization: int, onesided: bool) -> Array:
    d = dt.to_complex(lib.dtype_of(self))
    if d == dt.complex32 or not dim:
        return NotImplemented
    half = lib.astype(lib.xp.fft.rfftn(self, axes=tuple(dim), norm=_FORWARD[normalization]), d)
    return half if onesided else _mirrored(lib, half, dim, self.shape[dim[-1]])


@portable("aten::_fft_c2r")
def fft_c2r(lib: ArrayLibrary, self: Array, dim: Ints, normalization: int, last_dim_size: int) -> Array:
    if not dim:
        return NotImplemented
    sizes = (*(self.shape[a] for a in dim[:-1]), last_dim_size)
    found = lib.xp.fft.irfftn(self, s=sizes, axes=tuple(dim), norm=_BACKWARD[normalization])
    return lib.astype(found, dt.to_real(lib.dtype_of(self)))


@portable("aten::_fft_c2c")
def fft_c2c(lib: ArrayLibrary, self: Array, dim: Ints, normalization: int, forward: bool) -> Array:
    if not dim:
        return self
    function, norm = (lib.xp.fft.fftn, _FORWARD) if forward else (lib.xp.fft.ifftn, _BACKWARD)
    return lib.astype(function(self, axes=tuple(dim), norm=norm[normalization]), lib.dtype_of(self))


_BY_NAME = {None: 0, "backward": 0, "ortho": 1, "forward": 2}
_INVERSE = {None: 2, "backward": 2, "ortho": 1, "forward": 0}


def _resized(lib: ArrayLibrary, x: Array, n: int | None, dim: int) -> Array:
    """Cut a dimension to a length, or extend it with zeros."""
    if n is None or x.shape[dim] == n:
        return x
    d = dim % x.ndim
    return lib.call("aten::constant_pad_nd", x, [0, 0] * (x.ndim - 1 - d) + [0, n - x.shape[d]], 0)


@portable("aten::fft_rfft")
def rfft(lib: ArrayLibrary, self: Array, n: int | None = None, dim: int = -1, norm: str | None = None) -> Array:
    return lib.call("aten::_fft_r2c", _resized(lib, lib.to_float(self), n, dim), [dim], _BY_NAME[norm], True)


@portable("aten::fft_irfft")
def irfft(lib: ArrayLibrary, self: Array, n: int | None = None, dim: int = -1, norm: str | None = None) -> Array:
    if not dt.is_complex(lib.dtype_of(self)):
        return NotImplemented
    size = 2 * (self.shape[dim] - 1) if n is None else n
    return lib.call("aten::_fft_c2r", _resized(lib, self, size // 2 + 1, dim), [dim], _INVERSE[norm], size)


def _complex(lib: ArrayLibrary, x: Array) -> Array:
    return lib.astype(x, dt.to_complex(lib.dtype_of(lib.to_float(x))))


@portable("aten::fft_fft")
def fft(lib: ArrayLibrary, self: Array, n: int | None = None, dim: int = -1, norm: str | None = None) -> Array:
    x = _resized(lib, lib.to_float(self), n, dim)
    if dt.is_complex(lib.dtype_of(x)):
        return lib.call("aten::_fft_c2c", x, [dim], _BY_NAME[norm], True)
    return lib.call("aten::_fft_r2c", x, [dim], _BY_NAME[norm], False)


@portable("aten::fft_ifft")
def ifft(lib: ArrayLibrary, self: Array, n: int | None = None, dim: int = -1, norm: str | None = None) -> Array:
    x = _resized(lib, lib.to_float(self), n, dim)
    if dt.is_complex(lib.dtype_of(x)):
        return lib.call("aten::_fft_c2c", x, [dim], _INVERSE[norm], False)
    found = lib.call("aten::_fft_r2c", x, [dim], _INVERSE[norm], False)
    return found if found is NotImplemented else lib.xp.conj(found)


def _several(
    lib: ArrayLibrary, self: Array, s: Ints | None, dim: Ints | None, norm: str | None, forward: bool
) -> Array:
    if s is not None:
        return NotImplemented
    axes = tuple(range(self.ndim)) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    mode = (_BY_NAME if forward else _INVERSE)[norm]
    return lib.call("aten::_fft_c2c", _complex(lib, self), axes, mode, forward)


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
