"""Fourier transforms and their frequencies."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp import layout
from torchnp.checks import check, dim_of
from torchnp.errors import negative_size
from torchnp.kernels._rows import rows
from torchnp.kernels.fft_kernels import BY_N, BY_ROOT, NONE, _fft_c2c, _fft_c2r, _fft_r2c, _fft_r2c_out, along, copied
from torchnp.kernels.ranges import arange, arange_start
from torchnp.kernels.rearrange import roll
from torchnp.overlap import check_target

ndarray = np.ndarray

# ---------------------------------------------------------------- what the public functions share


def _promoted(x: ndarray, complex_: bool) -> ndarray:
    out = x.dtype if dt.is_inexact(x.dtype) else dt.get_default_dtype()
    check(out not in (dt.float16, dt.bfloat16) and out not in dt.FLOAT8S, f"Unsupported dtype {dt.scalar_name(out)}")
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
        x = along(x, axis, n) if n < x.shape[axis] else x
    wanted = dict(zip(axes, sizes, strict=True))
    shape = tuple(wanted.get(i, n) for i, n in enumerate(x.shape))
    if shape == x.shape:
        return x
    out = layout.empty(shape, x.dtype, layout.in_format(shape, layout.suggested(*layout.layout_of(x))))
    out[...] = 0
    out[tuple(map(slice, x.shape))] = x
    return out


def _axes(x: ndarray, s: Sequence[int] | None, dim: Sequence[int] | None) -> tuple[list[int], list[int]]:
    """Axes and sizes of an n-dimensional transform."""
    s, dim = (None if v is None else [v] if isinstance(v, int) else list(v) for v in (s, dim))
    if dim is not None:
        axes = [dim_of(x, d) for d in dim]
        check(len(set(axes)) == len(axes), "FFT dims must be unique")
        check(s is None or len(s) == len(axes), "When given, dim and shape arguments must have the same length")
    if s is None:
        axes = axes if dim is not None else list(range(x.ndim))
        sizes = [x.shape[a] for a in axes]
    else:
        if dim is None:
            check(len(s) <= x.ndim, f"Got shape with {len(s)} values but input tensor only has {x.ndim} dimensions.")
            axes = list(range(x.ndim - len(s), x.ndim))
        sizes = [x.shape[a] if n == -1 else n for a, n in zip(axes, s, strict=True)]
    for n in sizes:
        _points(n)
    return axes, sizes


def _check_real(name: str, x: ndarray, words: str = "a real") -> None:
    check(not dt.is_complex(x.dtype), f"{name} expects {words} input tensor, but got {dt.scalar_name(x.dtype)}")


# Each out= form looks at the dtype of its out in the middle of its work, and some write it by another step than the
# transform: the functions below take out=None for the functional form.


def _check_out(name: str, out: ndarray | None, complex_: bool) -> None:
    if out is not None and not (dt.is_complex if complex_ else dt.is_floating)(out.dtype):
        kind = "complex" if complex_ else "floating point"
        raise RuntimeError(f"{name} expects a {kind} output tensor, but got {dt.scalar_name(out.dtype)}")


def _given(value: ndarray, out: ndarray | None) -> ndarray:
    return value if out is None else copied(out, value)


def _conjugated(value: ndarray, out: ndarray | None, swapped: bool = False) -> ndarray:
    """The conjugate, written into an out of its very dtype; of an n-dimensional transform, torch swaps the two.

    Over one dimension, its ihfftn.out reads out and writes a temporary array: out is as before. Here it is written.
    """
    if out is None:
        return value.conj()
    source, target = (out, value) if swapped else (value, out)
    check_target(target)
    names = tuple(dt.scalar_name(x.dtype) for x in (target, source))
    check(value.dtype == out.dtype, "Found dtype {} but expected {}".format(*names))
    conjugate = value.conj()
    return copied(out, conjugate, None if swapped else layout.layout_of(conjugate)[1])


def _c2c(
    name: str, x: ndarray, axes: Sequence[int], sizes: Sequence[int], norm: str | None, forward: bool, out: Any
) -> ndarray:
    value, mode = _resized(x, axes, sizes), _mode(norm, forward)
    _check_out(name, out, True)
    return _given(_fft_c2c(value, tuple(axes), mode, forward), out)


# ---------------------------------------------------------------- one dimension


def _either(
    name: str, forward: bool, x: ndarray, n: int | None, dim: int, norm: str | None, out: Any = None
) -> ndarray:
    """A transform to all frequencies: of a real signal, one side is computed and the other filled in."""
    if not dt.is_complex(x.dtype):
        return _r2c(name, forward, False, x, n, dim, norm, out)
    axis = dim_of(x, dim)
    size = _points(x.shape[axis] if n is None else n)
    return _c2c(name, x, [axis], [size], norm, forward, out)


def _r2c(
    name: str, forward: bool, onesided: bool, x: ndarray, n: int | None, dim: int, norm: str | None, out: Any = None
) -> ndarray:
    _check_real(name, x)
    _check_out(name, out, True)
    value = _promoted(x, False)
    axis = dim_of(x, dim)
    size = _points(x.shape[axis] if n is None else n)
    value, mode = _resized(value, [axis], [size]), _mode(norm, forward)
    if forward and out is not None:
        return _fft_r2c_out(value, (axis,), mode, onesided, out=out)
    spectrum = _fft_r2c(value, (axis,), mode, onesided)
    return spectrum if forward else _conjugated(spectrum, out)


def _c2r(name: str, forward: bool, x: ndarray, n: int | None, dim: int, norm: str | None, out: Any = None) -> ndarray:
    _check_out(name, out, False)
    value = _promoted(x, True)
    axis = dim_of(x, dim)
    size = _points(2 * (x.shape[axis] - 1) if n is None else n)
    value, mode = _resized(value, [axis], [size // 2 + 1]), _mode(norm, forward)
    return _given(_fft_c2r(value.conj() if forward else value, (axis,), mode, size), out)


_fft, _ifft = partial(_either, "fft", True), partial(_either, "ifft", False)
_rfft, _ihfft = partial(_r2c, "rfft", True, True), partial(_r2c, "ihfft", False, True)
_irfft, _hfft = partial(_c2r, "irfft", False), partial(_c2r, "hfft", True)


# ---------------------------------------------------------------- several dimensions


def _fftn(x: ndarray, s: Any, dim: Any, norm: str | None, out: Any = None, forward: bool = True) -> ndarray:
    axes, sizes = _axes(x, s, dim)
    return _c2c("fftn", _promoted(x, True), axes, sizes, norm, forward, out)


_ifftn = partial(_fftn, forward=False)


def _rfftn(x: ndarray, s: Any, dim: Any, norm: str | None, out: Any = None) -> ndarray:
    _check_real("rfftn", x, "a real-valued")
    axes, sizes = _axes(x, s, dim)
    check(len(axes) > 0, "rfftn must transform at least one axis")
    value, mode = _resized(_promoted(x, False), axes, sizes), _mode(norm, True)
    _check_out("rfftn", out, True)
    return _given(_fft_r2c(value, tuple(axes), mode, True), out)


def _hermitian(name: str, x: ndarray, s: Any, dim: Any) -> tuple[ndarray, list[int], int]:
    """A spectrum cut or padded to the shape that a real signal asks for, its axes, and the signal's last size."""
    axes, sizes = _axes(x, s, dim)
    check(len(axes) > 0, f"{name} must transform at least one axis")
    given = None if s is None else s if isinstance(s, int) else s[-1]
    last = _points(2 * (x.shape[axes[-1]] - 1) if given in (None, -1) else given)
    return _resized(_promoted(x, True), axes, [*sizes[:-1], last // 2 + 1]), axes, last


def _irfftn(x: ndarray, s: Any, dim: Any, norm: str | None, out: Any = None) -> ndarray:
    value, axes, last = _hermitian("irfftn", x, s, dim)
    mode = _mode(norm, False)
    _check_out("irfftn", out, False)
    return _given(_fft_c2r(value, tuple(axes), mode, last), out)


def _hfftn(x: ndarray, s: Any, dim: Any, norm: str | None, out: Any = None) -> ndarray:
    value, axes, last = _hermitian("hfftn", x, s, dim)
    mode = _mode(norm, True)
    value = _fft_c2c(value, tuple(axes[:-1]), mode, True) if len(axes) > 1 else value
    _check_out("hfftn", out, False)
    return _given(_fft_c2r(value.conj(), (axes[-1],), mode, last), out)


def _ihfftn(x: ndarray, s: Any, dim: Any, norm: str | None, out: Any = None) -> ndarray:
    axes, sizes = _axes(x, s, dim)
    check(len(axes) > 0, "ihfftn must transform at least one axis")
    # A complex input is refused by the transform, in its words.
    value, mode = _resized(_promoted(x, False), axes, sizes), _mode(norm, False)
    spectrum = _fft_r2c(value, (axes[-1],), mode, True)
    if len(axes) == 1:
        return _conjugated(spectrum, out, swapped=True)
    _check_out("ihfftn", out, True)
    return _given(_fft_c2c(spectrum.conj(), tuple(axes[:-1]), mode, False), out)


# ---------------------------------------------------------------- the rows


_DIFFERS = ["no-half-fft", "fft-of-integers"]

_like: Any
for _name, _transform, _like, _doc in (
    ("fft", _fft, np.fft.fft, "Discrete Fourier transform along a dimension."),
    ("ifft", _ifft, np.fft.ifft, "Inverse of `fft_fft`."),
    ("rfft", _rfft, np.fft.rfft, "The n // 2 + 1 frequencies of a real signal."),
    ("irfft", _irfft, np.fft.irfft, "Inverse of `fft_rfft`."),
    ("hfft", _hfft, np.fft.hfft, "Transform of a signal with Hermitian symmetry, which is real."),
    ("ihfft", _ihfft, np.fft.ihfft, "Inverse of `fft_hfft`."),
    ("fftn", _fftn, np.fft.fftn, "Discrete Fourier transform over dimensions, by default all."),
    ("ifftn", _ifftn, np.fft.ifftn, "Inverse of `fft_fftn`."),
    ("rfftn", _rfftn, np.fft.rfftn, "`fft_fftn` of a real signal; the last dimension keeps n // 2 + 1 frequencies."),
    ("irfftn", _irfftn, np.fft.irfftn, "Inverse of `fft_rfftn`."),
    ("hfftn", _hfftn, None, "`fft_fftn` of a signal with Hermitian symmetry in the last dimension."),
    ("ihfftn", _ihfftn, None, "Inverse of `fft_hfftn`."),
    ("fft2", _fftn, np.fft.fft2, "`fft_fftn` over the last two dimensions."),
    ("ifft2", _ifftn, np.fft.ifft2, "`fft_ifftn` over the last two dimensions."),
    ("rfft2", _rfftn, np.fft.rfft2, "`fft_rfftn` over the last two dimensions."),
    ("irfft2", _irfftn, np.fft.irfft2, "`fft_irfftn` over the last two dimensions."),
    ("hfft2", _hfftn, None, "`fft_hfftn` over the last two dimensions."),
    ("ihfft2", _ihfftn, None, "`fft_ihfftn` over the last two dimensions."),
):  # fmt: skip
    rows(f"fft_{_name} fft_{_name}.out", _transform, _doc, like=_like, differs=_DIFFERS)


# ---------------------------------------------------------------- frequencies


def _shifted(x: ndarray, dim: Any, *, up: int) -> ndarray:
    axes = range(x.ndim) if dim is None else [dim_of(x, d) for d in ([dim] if isinstance(dim, int) else dim)]
    return roll(x, [(x.shape[a] + up) // 2 for a in axes], tuple(axes))


rows("fft_fftshift", _shifted, "The zero frequency moved to the middle.", up=0, like=np.fft.fftshift)
rows("fft_ifftshift", _shifted, "Inverse of `fft_fftshift`.", up=1, like=np.fft.ifftshift)


def _frequencies(n: int, d: float, dtype: Any, *options: Any, name: str) -> ndarray:
    out = dt.get_default_dtype() if dtype is None else dt.as_dtype(dtype)
    # As in C, half of an odd negative number is nearer to zero.
    size = int(n / 2) + 1 if name == "rfftfreq" else n
    check(size >= 0, negative_size(size, (size,)))
    check(dt.is_inexact(out), f"{name} requires a floating point or complex dtype")
    values = arange(size, dtype=out)
    if name == "fftfreq":
        values = np.concatenate([values[: (n + 1) // 2], arange_start(-(n // 2), 0, dtype=out)])
    # What a half dtype is multiplied by is rounded to it first.
    step, inner = dt.cast(np.divide(1, n * d, dtype=np.float64)[...], out), dt.opmath(out)
    return dt.cast(dt.cast(values, inner) * dt.cast(step, inner), out)


for _like in (np.fft.fftfreq, np.fft.rfftfreq):
    _name = _like.__name__
    _doc = f"Sample frequencies of `fft_{_name.removesuffix('freq')}`."
    rows(f"fft_{_name}", _frequencies, _doc, name=_name, like=_like, differs=["default-dtype"])
