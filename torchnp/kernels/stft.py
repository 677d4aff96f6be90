"""The short-time Fourier transform and its inverse."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check
from torchnp.core.errors import dim_out_of_range, shape_text, tensor_type
from torchnp.core.registry import kernel
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._memory import element_strides
from torchnp.kernels.arithmetic import div, mul
from torchnp.kernels.backward.index import unfold_backward
from torchnp.kernels.extrema import min_all
from torchnp.kernels.fft_kernels import BY_N, BY_ROOT, NONE, _fft_c2c, _fft_c2r, _fft_r2c
from torchnp.kernels.pad import constant_pad_nd, pad
from torchnp.kernels.pointwise import abs as absolute
from torchnp.kernels.power import pow_scalar
from torchnp.kernels.view import as_strided, unsqueeze
from torchnp.kernels.view_dtype import view_as_real
from torchnp.layout.stride_rules import iterated, layout_of, place

ndarray = np.ndarray


def _call(
    name: str, x: ndarray, n_fft: int, hop: int | None, size: int | None, window: ndarray | None, **options: Any
) -> tuple[str, int, int]:
    """Return the call as torch's messages quote it, the hop length and the window length."""
    hop, size = n_fft >> 2 if hop is None else hop, n_fft if size is None else size
    given = "None" if window is None else f"{tensor_type(window.dtype)}{{{shape_text(window.shape)}}}"
    rest = ", ".join(f"{k}={v if v is None else int(v)}" for k, v in options.items())
    lengths = f"n_fft={n_fft}, hop_length={hop}, win_length={size}, window={given}"
    return f"{name}({tensor_type(x.dtype)}{shape_text(x.shape)}, {lengths}, {rest})", hop, size


# ---------------------------------------------------------------- stft


@kernel("stft.center")
def stft_center(
    self, n_fft, hop_length=None, win_length=None, window=None, center=True, pad_mode="reflect", normalized=False,
    onesided=None, return_complex=None, align_to_window=None,
):  # fmt: skip
    """Fourier transforms of windows on a signal, ``hop_length`` apart; if ``center``, the signal is padded first."""
    if center and align_to_window is not None:
        raise RuntimeError("stft align_to_window should only be set when center = false.")
    shown = {"normalized": normalized, "onesided": onesided, "return_complex": return_complex}
    shown |= {"align_to_window": align_to_window}
    call, hop, size = _call("stft", self, n_fft, hop_length, win_length, window, **shown)
    if return_complex is None:
        words = "stft requires the return_complex parameter be given for real inputs, and will further require that"
        known = dt.is_complex(self.dtype) or (window is not None and dt.is_complex(window.dtype))
        check(known, f"{words} return_complex=True in a future PyTorch release.")
        return_complex = True
    check(dt.is_inexact(self.dtype), f"{call} : expected a tensor of floating point or complex values")
    check(self.ndim in (1, 2), f"{call} : expected a 1D or 2D tensor")
    signal = self if self.ndim == 2 else unsqueeze(self, 0)
    if center:
        signal = pad(signal[None], [int(n_fft / 2)] * 2, pad_mode)[0]
    _check_sizes(call, signal.shape[1], n_fft, hop, size, window)
    frames = _frames(signal, n_fft, hop, size, pad_mode if align_to_window else None)
    weights = _full_window(window, n_fft, size, signal.dtype)
    if weights is not None:
        frames = place(mul(frames, weights), iterated((layout_of(frames), layout_of(weights))))
    spectrum = _transform(frames, normalized, onesided)
    spectrum = spectrum.swapaxes(1, 2) if self.ndim == 2 else spectrum[0].T
    return spectrum if return_complex else view_as_real(spectrum)


def _check_sizes(call: str, points: int, n_fft: int, hop: int, size: int, window: ndarray | None) -> None:
    # torch's message says n_fft but has the window's length.
    check(0 < n_fft <= points, f"{call} : expected 0 < n_fft < {points}, but got n_fft={size}")
    check(hop > 0, f"{call} : expected hop_length > 0, but got hop_length={hop}")
    check(0 < size <= n_fft, f"{call} : expected 0 < win_length <= n_fft, but got win_length={size}")
    if window is not None and window.shape != (size,):
        words = f"expected a 1D window tensor of size equal to win_length={size}, but got window with size"
        raise RuntimeError(f"{call} : {words} {shape_text(window.shape)}")


def _frames(signal: ndarray, n_fft: int, hop: int, size: int, align: str | None) -> ndarray:
    """Return (batch, frame, time) views of the signal.

    With ``align``, a padding mode, the first window starts at the start of the signal.
    """
    batch, points = signal.shape
    if align is None:
        count = 1 + (points - n_fft) // hop
    else:
        count, left = 1 + (points - size) // hop, (n_fft - size) // 2
        signal = pad(signal, [left, left], align)
    across, along = element_strides(signal)
    # If aligned, the last window may end beyond the signal; torch then reads the memory behind it.
    return as_strided(signal, (batch, count, n_fft), (across, along * hop, along))


def _full_window(window: ndarray | None, n_fft: int, size: int, dtype: np.dtype) -> ndarray | None:
    """Return the window, zero-padded to n_fft points; None for a rectangular window (the default) of full length."""
    if window is None and size == n_fft:
        return None
    given = np.ones(size, dtype) if window is None else window
    left = (n_fft - size) // 2
    return constant_pad_nd(given, [left, n_fft - size - left]) if size < n_fft else given


def _transform(frames: ndarray, normalized: bool, onesided: bool | None) -> ndarray:
    norm = BY_ROOT if normalized else NONE
    if not dt.is_complex(frames.dtype):
        return _fft_r2c(frames, [frames.ndim - 1], norm, True if onesided is None else onesided)
    check(not onesided, "Cannot have onesided output if window or input is complex")
    return _fft_c2c(frames, [frames.ndim - 1], norm, True)


_as_it_is = lambda x, n, hop, size, window, *rest: stft_center(x, n, hop, size, window, False, "constant", *rest)
rows("stft", _as_it_is, "Short-time Fourier transform without padding; `stft.center` can pad the signal first.")


# ---------------------------------------------------------------- istft


@kernel("istft")
def istft(
    self, n_fft, hop_length=None, win_length=None, window=None, center=True, normalized=False, onesided=None,
    length=None, return_complex=False,
):  # fmt: skip
    """Inverse short-time Fourier transform: overlapping windows added, divided by the sum of squared windows."""
    shown = {"center": center, "normalized": normalized, "onesided": onesided, "length": length}
    shown |= {"return_complex": return_complex}
    call, hop, size = _call("istft", self, n_fft, hop_length, win_length, window, **shown)
    onesided = _check_spectrum(call, self, n_fft, onesided)
    check(0 < hop <= size, f"{call} : expected 0 < hop_length <= win_length")
    check(0 < size <= n_fft, f"{call} : expected 0 < win_length <= n_fft")
    if window is not None:
        fits = window.shape == (size,)
        check(fits, f"{call} : Invalid window shape. window has to be 1D and length of `win_length`")
    weights = _full_window(window, n_fft, size, dt.to_real(self.dtype))
    if weights is None:
        weights = np.ones(n_fft, dt.to_real(self.dtype))
    spectrum = (self if self.ndim == 3 else self[None]).swapaxes(1, 2)
    frames = _inverse(spectrum, n_fft, normalized, onesided, window, return_complex)
    total = n_fft + hop * (spectrum.shape[1] - 1)
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else total - n_fft // 2 if center else total
    # A negative length counts from the end, as in torch's slices.
    part = slice(start, end)
    signal = unfold_backward(mul(frames, weights), [len(frames), total], 1, n_fft, hop)[:, part]
    squares = np.broadcast_to(pow_scalar(weights, 2), (1, *frames.shape[1:]))
    envelope = unfold_backward(squares, [1, total], 1, n_fft, hop)[:, part]
    check(not min_all(absolute(envelope)) < 1e-11, f"{call} window overlap add min: 1\n[ CPUBoolType{{}} ]")
    signal = div(signal, envelope)
    signal = signal if self.ndim == 3 else signal[0]
    return constant_pad_nd(signal, [0, end - total]) if end > total else signal


def _check_spectrum(call: str, x: ndarray, n_fft: int, onesided: bool | None) -> bool:
    """Return whether the spectrum is one-sided, after torch's checks of its shape."""
    words = "istft requires a complex-valued input tensor matching the output from stft with return_complex=True."
    check(dt.is_complex(x.dtype), words)
    if x.ndim < 2:  # torch counts the parts of a complex number as one more dimension
        raise dim_out_of_range(-2 - x.ndim, x.ndim + 1)
    check(x.size > 0, f"{call} : input tensor cannot be empty.")
    check(x.ndim in (2, 3), f"{call} : expected a tensor with 3 or 4 dimensions, but got {x.ndim + 1}")
    bins = x.shape[-2]
    if onesided is None:
        onesided = bins != n_fft
    wanted, name, value = (int(n_fft / 2) + 1, "n_fft / 2 + 1", "True") if onesided else (n_fft, "n_fft", "False")
    if bins != wanted:
        words = f"to match {name} when onesided={value}, but got {bins}"
        raise RuntimeError(f"{call} : expected the frequency dimension (3rd to the last) of the input tensor {words}")
    return onesided


def _inverse(
    spectrum: ndarray, n_fft: int, normalized: bool, onesided: bool, window: ndarray | None, return_complex: bool
) -> ndarray:
    norm = BY_ROOT if normalized else BY_N
    if return_complex:
        check(not onesided, "Cannot have onesided output if window or input is complex")
        return _fft_c2c(spectrum, [2], norm, False)
    real = window is None or not dt.is_complex(window.dtype)
    check(real, "Complex windows are incompatible with return_complex=False")
    return _fft_c2r(spectrum if onesided else spectrum[..., : n_fft // 2 + 1], [2], norm, n_fft)
