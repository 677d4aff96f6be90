"""Fourier transforms and their frequencies."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, dim_of
from torchnp.core.errors import negative_size
from torchnp.core.inplace_out_spec import Bound, WriteSpec, copy_into
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._memory import check_options
from torchnp.kernels.fft_kernels import BY_N, BY_ROOT, NONE, _fft_c2c, _fft_c2r, _fft_r2c, _fft_r2c_out
from torchnp.kernels.ranges import arange, arange_start
from torchnp.kernels.rearrange import roll
from torchnp.layout import stride_rules
from torchnp.layout.overlap import check_target

ndarray = np.ndarray

# ---------------------------------------------------------------- what the public functions share


def _promoted(x: ndarray, complex_: bool) -> ndarray:
    out = x.dtype if dt.is_inexact(x.dtype) else dt.get_default_dtype()
    known = out not in (dt.float16, dt.bfloat16) and out not in dt.FLOAT8S
    check(known, f"Unsupported dtype {dt.scalar_name(out)}")
    value = dt.cast(x, dt.to_complex(out) if complex_ else out)
    return value if value is x else stride_rules.place(value, stride_rules.preserved(*stride_rules.layout_of(x)))


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
    """Cut or zero-pad to the given sizes."""
    wanted = dict(zip(axes, sizes, strict=True))
    shape = tuple(wanted.get(i, n) for i, n in enumerate(x.shape))
    cut: Any = (..., *map(slice, shape))
    x = x[cut]
    if shape == x.shape:
        return x
    out = stride_rules.empty(
        shape, x.dtype, stride_rules.in_format(shape, stride_rules.suggested(*stride_rules.layout_of(x)))
    )
    out[...] = 0
    out[tuple(map(slice, x.shape))] = x
    return out


def _axes(x: ndarray, s: Any, dim: Any, one: bool) -> tuple[list[int], list[int]]:
    """Return the axes and sizes of a transform; in n-dimensional transforms, -1 stands for a dimension's size."""
    if one:
        axis = dim_of(x, dim)
        return [axis], [_points(x.shape[axis] if s is None else s)]
    s, dim = (None if v is None else [v] if isinstance(v, int) else list(v) for v in (s, dim))
    if dim is not None:
        axes = [dim_of(x, d) for d in dim]
        check(len(set(axes)) == len(axes), "FFT dims must be unique")
        check(s is None or len(s) == len(axes), "When given, dim and shape arguments must have the same length")
    elif s is not None:
        check(len(s) <= x.ndim, f"Got shape with {len(s)} values but input tensor only has {x.ndim} dimensions.")
        axes = list(range(x.ndim - len(s), x.ndim))
    else:
        axes = list(range(x.ndim))
    return axes, [_points(x.shape[a] if n == -1 else n) for a, n in zip(axes, s or [-1] * len(axes), strict=True)]


def _told(op: str) -> tuple[str, bool, bool]:
    """Return the transform's name in torch's messages, and whether it is forward and one-dimensional."""
    name = op.removeprefix("fft_").replace("2", "n")
    return name, name[0] != "i", name[-1] != "n"


# Each ``out=`` overload checks the dtype of ``out`` between other checks, and some write ``out`` in a step after the
# transform. Therefore the functions below take ``out``, which is None in calls without ``out=``.


def _check_out(name: str, out: ndarray | None, complex_: bool) -> None:
    if out is not None and not (dt.is_complex if complex_ else dt.is_floating)(out.dtype):
        kind = "complex" if complex_ else "floating point"
        raise RuntimeError(f"{name} expects a {kind} output tensor, but got {dt.scalar_name(out.dtype)}")


def _given(value: ndarray, out: ndarray | None) -> ndarray:
    return value if out is None else copy_into(out, value)


def _conjugated(value: ndarray, out: ndarray | None, swapped: bool = False) -> ndarray:
    """Conjugate ``value`` in place, or into an ``out`` of the same dtype.

    For ihfftn over one dimension (``swapped``), torch swaps source and target: it reads ``out`` and writes a temporary,
    so that ``out`` is unchanged. Here ``out`` is written, but the checks are torch's.
    """
    if out is None:
        return np.conjugate(value, value)
    source, target = (out, value) if swapped else (value, out)
    check_target(target)
    names = tuple(dt.scalar_name(x.dtype) for x in (target, source))
    check(value.dtype == out.dtype, "Found dtype {} but expected {}".format(*names))
    return copy_into(out, np.conjugate(value, value), None if swapped else stride_rules.layout_of(value)[1])


# ---------------------------------------------------------------- to all frequencies, to half of them, and back


def _complex(x: ndarray, s: Any, dim: Any, norm: str | None, out: Any = None, *, op: str) -> ndarray:
    name, forward, one = _told(op)
    if one and not dt.is_complex(x.dtype):
        return _real(x, s, dim, norm, out, op=op, onesided=False)
    axes, sizes = _axes(x, s, dim, one)
    value, mode = _resized(_promoted(x, True), axes, sizes), _mode(norm, forward)
    _check_out(name if one else "fftn", out, True)
    return _given(_fft_c2c(value, tuple(axes), mode, forward), out)


def _real(
    x: ndarray, s: Any, dim: Any, norm: str | None, out: Any = None, *, op: str, onesided: bool = True
) -> ndarray:
    """Transform a real signal: compute one side of the spectrum, and fill in the other if requested."""
    name, forward, one = _told(op)
    kind = f"{name} expects {'a real' if one else 'a real-valued'} input tensor, but got {dt.scalar_name(x.dtype)}"
    # For the n-dimensional inverse, the transform itself refuses complex input with its own message.
    check(not dt.is_complex(x.dtype) or not (one or forward), kind)
    if one:
        _check_out(name, out, True)
        x = _promoted(x, False)
    axes, sizes = _axes(x, s, dim, one)
    check(len(axes) > 0, f"{name} must transform at least one axis")
    value, mode = _resized(_promoted(x, False), axes, sizes), _mode(norm, forward)
    if forward:
        _check_out(name, out, True)
        given = (value, tuple(axes), mode, onesided)
        return _fft_r2c(*given) if out is None else _fft_r2c_out(*given, out=out)
    spectrum = _fft_r2c(value, (axes[-1],), mode, onesided)
    if len(axes) == 1:
        return _conjugated(spectrum, out, swapped=not one)
    _check_out(name, out, True)
    return _given(_fft_c2c(spectrum.conj(), tuple(axes[:-1]), mode, False), out)


def _back(x: ndarray, s: Any, dim: Any, norm: str | None, out: Any = None, *, op: str) -> ndarray:
    """Return the real signal of a one-sided spectrum, by default with 2 (n - 1) points along the last axis."""
    name, forward, one = _told(op)
    if one:
        _check_out(name, out, False)
        x = _promoted(x, True)
        axes, sizes = [dim_of(x, dim)], [s]
    else:
        axes, sizes = _axes(x, s, dim, one)
        check(len(axes) > 0, f"{name} must transform at least one axis")
    given: Any = s if s is None or isinstance(s, int) else s[-1]
    unsaid = given is None or (given == -1 and not one)
    last = _points(2 * (x.shape[axes[-1]] - 1) if unsaid else given)
    value, mode = _resized(_promoted(x, True), axes, [*sizes[:-1], last // 2 + 1]), _mode(norm, forward)
    if forward:
        *others, final = axes
        if others:
            value = room = _fft_c2c(value, tuple(others), mode, True)
        else:
            room = stride_rules.empty(value.shape, value.dtype, stride_rules.preserved(*stride_rules.layout_of(value)))
        value, axes = np.conjugate(value, room), [final]
    _check_out(name, out, False)
    return _given(_fft_c2r(value, tuple(axes), mode, last), out)


# ---------------------------------------------------------------- the rows


_SIGNED = {"fft", "ifft", "rfft", "ihfft", "rfftn", "rfft2"}  # transforms whose zeros may differ in sign
_SIZED = {"irfftn", "irfft2"}
# How ``out=`` differs from NumPy's. torch accepts any dtype of one kind (_KIND) or only one dtype (_EXACT). NumPy
# ignores ``out`` (_IGNORED), or it must fit the sizes of every step (_STEPS).
_KIND, _EXACT = {"irfft", "irfftn", "irfft2", "hfft", "ifft2"}, {"ifft", "ihfft"}
_IGNORED, _STEPS = {"hfft", "ifft2", "irfft2"}, {"fftn", "ifftn", "rfftn", "fft2", "rfft2"}
for _row, _out_row, _transform, _doc in (
    ("fft_fft", "fft_fft.out", _complex, "Discrete Fourier transform along a dimension."),
    ("fft_ifft", "fft_ifft.out", _complex, "Inverse of `fft_fft`."),
    ("fft_rfft", "fft_rfft.out", _real, "Fourier transform of a real signal: the first n // 2 + 1 frequencies."),
    ("fft_irfft", "fft_irfft.out", _back, "Inverse of `fft_rfft`."),
    ("fft_hfft", "fft_hfft.out", _back, "Fourier transform of a signal with Hermitian symmetry; the result is real."),
    ("fft_ihfft", "fft_ihfft.out", _real, "Inverse of `fft_hfft`."),
    ("fft_fftn", "fft_fftn.out", _complex, "Discrete Fourier transform over dimensions, by default all."),
    ("fft_ifftn", "fft_ifftn.out", _complex, "Inverse of `fft_fftn`."),
    (
        "fft_rfftn",
        "fft_rfftn.out",
        _real,
        "`fft_fftn` of a real signal; the last dimension keeps n // 2 + 1 frequencies.",
    ),
    ("fft_irfftn", "fft_irfftn.out", _back, "Inverse of `fft_rfftn`."),
    ("fft_hfftn", "fft_hfftn.out", _back, "`fft_fftn` of a signal with Hermitian symmetry in the last dimension."),
    ("fft_ihfftn", "fft_ihfftn.out", _real, "Inverse of `fft_hfftn`."),
    ("fft_fft2", "fft_fft2.out", _complex, "`fft_fftn` over the last two dimensions."),
    ("fft_ifft2", "fft_ifft2.out", _complex, "`fft_ifftn` over the last two dimensions."),
    ("fft_rfft2", "fft_rfft2.out", _real, "`fft_rfftn` over the last two dimensions."),
    ("fft_irfft2", "fft_irfft2.out", _back, "`fft_irfftn` over the last two dimensions."),
    ("fft_hfft2", "fft_hfft2.out", _back, "`fft_hfftn` over the last two dimensions."),
    ("fft_ihfft2", "fft_ihfft2.out", _real, "`fft_ihfftn` over the last two dimensions."),
):
    _name = _row.removeprefix("fft_")
    _like = getattr(np.fft, _name, None)
    _also = ["complex-zero-sign"] if _name in _SIGNED else ["irfft-minus-1"] if _name in _SIZED else []
    _several = ["fft-dims-unique"] if _name[-1] in "n2" else []
    _differs = ["no-half-fft", "fft-of-integers", *_several, *_also]
    rows(_row, _transform, _doc, like=_like, differs=_differs)
    _written = ["fft-out-exact"] if _name in _EXACT else ["fft-out-kind"] if _name in _KIND else []
    _written += ["fft-out-ignored"] if _name in _IGNORED else ["fft-out-sized"] if _name in _STEPS else []
    _written += ["overlap-inplace", "out-resized"] if _like else []
    rows(_out_row, _transform, _doc, like=_like, differs=[*_differs, *_written])


# ---------------------------------------------------------------- frequencies


def _shifted(x: ndarray, dim: Any, *, up: int) -> ndarray:
    axes = range(x.ndim) if dim is None else [dim_of(x, d) for d in ([dim] if isinstance(dim, int) else dim)]
    return roll(x, [(x.shape[a] + up) // 2 for a in axes], tuple(axes))


rows(
    "fft_fftshift",
    _shifted,
    "The spectrum with the zero frequency moved to the middle.",
    up=0,
    like=np.fft.fftshift,
    differs=["roll-needs-shifts"],
)
rows(
    "fft_ifftshift", _shifted, "Inverse of `fft_fftshift`.", up=1, like=np.fft.ifftshift, differs=["roll-needs-shifts"]
)


def _check_frequencies(out: np.dtype, name: str) -> None:
    check(dt.is_inexact(out), f"{name} requires a floating point or complex dtype")


def _frequencies(n: int, d: float, dtype: Any, *options: Any, name: str) -> ndarray:
    check_options(*options)
    out = dt.get_default_dtype() if dtype is None else dt.as_dtype(dtype)
    size = _count(n, name)
    check(size >= 0, negative_size(size, (size,)))
    _check_frequencies(out, name)
    values = arange(size, dtype=out)
    if name == "fftfreq":
        values = np.concatenate([values[: (n + 1) // 2], arange_start(-(n // 2), 0, dtype=out)])
    # For a half dtype, the factor is rounded to that dtype first.
    step, inner = dt.cast(np.divide(1, n * d, dtype=np.float64)[...], out), dt.opmath(out)
    return dt.cast(dt.cast(values, inner) * dt.cast(step, inner), out)


def _count(n: int, name: str) -> int:
    return int(n / 2) + 1 if name == "rfftfreq" else n  # truncate toward zero, as in C


def _precheck_counted(bound: Bound, outs: list[ndarray], *, name: str) -> None:
    """Check the dtype of ``out=``, and ``n``: torch writes ``arange`` into ``out=``."""
    _check_frequencies(outs[0].dtype, name)
    check(_count(bound["n"], name) >= 0, "upper bound and lower bound inconsistent with step sign")


for _names, _like in (("fft_fftfreq", np.fft.fftfreq), ("fft_rfftfreq", np.fft.rfftfreq)):
    _name = _like.__name__
    _doc = f"Sample frequencies of `fft_{_name.removesuffix('freq')}`."
    rows(
        _names,
        _frequencies,
        _doc,
        name=_name,
        like=_like,
        differs=["default-dtype", "float-dtypes-alone", "missing-kernel", "fftfreq-of-nothing", "fftfreq-no-spacing"],
        writes=WriteSpec(out=partial(_precheck_counted, name=_name)),
    )
