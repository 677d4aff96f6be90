"""Windows for spectral analysis: Bartlett, Blackman, Hamming, Hann, Kaiser."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from torchnp.checks import check
from torchnp.dtypes import c_name, cast, is_inexact, opmath
from torchnp.kernels._memory import check_options, factory_dtype
from torchnp.kernels.arithmetic import add_scalar, mul, sub
from torchnp.kernels.create import ones
from torchnp.kernels.numerics import cephes
from torchnp.kernels.numerics.fma import fast_fma
from torchnp.kernels.pointwise import cos
from torchnp.kernels.ranges import arange
from torchnp.registry import kernel

ndarray = np.ndarray


def _window(name: str, length: int, periodic: bool, shape: Any, dtype: Any, *options: Any) -> ndarray:
    """A window from its shape, a function of the places 0, 1, ... and of their number.

    A periodic window is a symmetric one that is longer by one, without its last value.
    """
    check_options(*options)
    dtype = factory_dtype(dtype)
    check(is_inexact(dtype), f"{name} expects floating point dtypes, got: TensorOptions(dtype={c_name(dtype)}")
    check(length >= 0, f"{name} requires non-negative window_length, got window_length={length}")
    if length <= 1:
        return ones([length], dtype=dtype)
    points = length + periodic
    return shape(arange(points, dtype=dtype), points)[:length]


# Each step is one of torch's own, rounded to the dtype, as is a number that stands first.


def _triangle(x: ndarray, points: int) -> ndarray:
    window = mul(2.0 / (points - 1), x)
    middle = (points - 1 >> 1) + 1
    window[middle:] = add_scalar(mul(-1, window[middle:]), 2)
    return window


def _blackman(x: ndarray, points: int) -> ndarray:
    angle = mul(math.pi / (points - 1), x)
    narrow, wide = mul(0.08, cos(mul(4, angle))), mul(0.5, cos(mul(2, angle)))
    return add_scalar(sub(narrow, wide), 0.42)


def _cosine(alpha: float, beta: float) -> Any:
    return lambda x, points: add_scalar(mul(-beta, cos(mul(math.pi * 2.0 / (points - 1), x))), alpha)


def _kaiser(beta: float) -> Any:
    def shape(x: ndarray, points: int) -> ndarray:
        wide = cast(x, opmath(x.dtype))
        real = wide.dtype.type
        half = real((points - 1) / 2.0)
        t = (wide - half) / half
        root = np.sqrt(np.abs(fast_fma(-t, t, np.ones(1, wide.dtype))))
        return cast(cephes.i0(real(beta) * root) / cephes.i0(np.array([beta], wide.dtype)), x.dtype)

    return shape


# ---------------------------------------------------------------- rows


@kernel("bartlett_window", like=np.bartlett, differs=["default-dtype"])
def bartlett_window(window_length, *, dtype=None, layout=None, device=None, pin_memory=None):
    """Triangle that returns to zero after its last place."""
    return _window("bartlett_window", window_length, True, _triangle, dtype, layout, device, pin_memory)


@kernel("bartlett_window.periodic", like=np.bartlett, differs=["default-dtype"])
def bartlett_window_periodic(window_length, periodic, *, dtype=None, layout=None, device=None, pin_memory=None):
    """Triangle, periodic or symmetric."""
    return _window("bartlett_window", window_length, periodic, _triangle, dtype, layout, device, pin_memory)


@kernel("blackman_window", like=np.blackman, differs=["default-dtype"])
def blackman_window(window_length, *, dtype=None, layout=None, device=None, pin_memory=None):
    """``0.42 - 0.5 cos(t) + 0.08 cos(2 t)`` over one period."""
    return _window("blackman_window", window_length, True, _blackman, dtype, layout, device, pin_memory)


@kernel("blackman_window.periodic", like=np.blackman, differs=["default-dtype"])
def blackman_window_periodic(window_length, periodic, *, dtype=None, layout=None, device=None, pin_memory=None):
    """`blackman_window`, periodic or symmetric."""
    return _window("blackman_window", window_length, periodic, _blackman, dtype, layout, device, pin_memory)


@kernel("hann_window", like=np.hanning, differs=["default-dtype"])
def hann_window(window_length, *, dtype=None, layout=None, device=None, pin_memory=None):
    """``0.5 - 0.5 cos(t)`` over one period."""
    return _window("hann_window", window_length, True, _cosine(0.5, 0.5), dtype, layout, device, pin_memory)


@kernel("hann_window.periodic", like=np.hanning, differs=["default-dtype"])
def hann_window_periodic(window_length, periodic, *, dtype=None, layout=None, device=None, pin_memory=None):
    """`hann_window`, periodic or symmetric."""
    return _window("hann_window", window_length, periodic, _cosine(0.5, 0.5), dtype, layout, device, pin_memory)


@kernel("hamming_window", like=np.hamming, differs=["default-dtype"])
def hamming_window(window_length, *, dtype=None, layout=None, device=None, pin_memory=None):
    """``0.54 - 0.46 cos(t)`` over one period."""
    return _window("hamming_window", window_length, True, _cosine(0.54, 0.46), dtype, layout, device, pin_memory)


@kernel("hamming_window.periodic", like=np.hamming, differs=["default-dtype"])
def hamming_window_periodic(window_length, periodic, *, dtype=None, layout=None, device=None, pin_memory=None):
    """`hamming_window`, periodic or symmetric."""
    return _window("hamming_window", window_length, periodic, _cosine(0.54, 0.46), dtype, layout, device, pin_memory)


@kernel("hamming_window.periodic_alpha", like=np.hamming, differs=["default-dtype"])
def hamming_window_alpha(window_length, periodic, alpha, *, dtype=None, layout=None, device=None, pin_memory=None):
    """``alpha - 0.46 cos(t)``."""
    return _window("hamming_window", window_length, periodic, _cosine(alpha, 0.46), dtype, layout, device, pin_memory)


@kernel("hamming_window.periodic_alpha_beta", like=np.hamming, differs=["default-dtype"])
def hamming_window_alpha_beta(
    window_length, periodic, alpha, beta, *, dtype=None, layout=None, device=None, pin_memory=None
):
    """``alpha - beta cos(t)``."""
    return _window("hamming_window", window_length, periodic, _cosine(alpha, beta), dtype, layout, device, pin_memory)


@kernel("kaiser_window", like=np.kaiser, differs=["default-dtype"])
def kaiser_window(window_length, *, dtype=None, layout=None, device=None, pin_memory=None):
    """Bessel's function I0 of 12 times half an ellipse, 1 at its highest."""
    return _window("kaiser_window", window_length, True, _kaiser(12.0), dtype, layout, device, pin_memory)


@kernel("kaiser_window.periodic", like=np.kaiser, differs=["default-dtype"])
def kaiser_window_periodic(window_length, periodic, *, dtype=None, layout=None, device=None, pin_memory=None):
    """`kaiser_window`, periodic or symmetric."""
    return _window("kaiser_window", window_length, periodic, _kaiser(12.0), dtype, layout, device, pin_memory)


@kernel("kaiser_window.beta", like=np.kaiser, differs=["default-dtype"])
def kaiser_window_beta(window_length, periodic, beta, *, dtype=None, layout=None, device=None, pin_memory=None):
    """`kaiser_window` with another factor than 12."""
    return _window("kaiser_window", window_length, periodic, _kaiser(beta), dtype, layout, device, pin_memory)
