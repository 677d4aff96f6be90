"""Windows for spectral analysis: Bartlett, Blackman, Hann, Hamming and Kaiser."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._memory import check_options, factory_dtype
from torchnp.kernels.arithmetic import add_scalar, mul, sub
from torchnp.kernels.create import ones
from torchnp.kernels.numerics import bessel_airy
from torchnp.kernels.numerics.fma import fast_fma
from torchnp.kernels.pointwise import cos
from torchnp.kernels.ranges import arange

ndarray = np.ndarray


def _window(
    length: int, periodic: bool = True, *factors: float, op: str, shape: Any, dtype: Any, layout: Any, device: Any,
    pin_memory: Any,
) -> ndarray:  # fmt: skip
    """Make the values of a window with ``shape``, a function of the positions 0, 1, ... and of their number.

    A periodic window is a symmetric window with one more point, without its last value.
    """
    check_options(layout, device, False)
    dtype = factory_dtype(dtype)
    if not dt.is_inexact(dtype):
        named = {"device": (device, "cpu"), "layout": (layout, "Strided"), "requires_grad": (None, "false")}
        named["pinned_memory"] = (pin_memory, str(bool(pin_memory)).lower())
        given = [f"{k}={word}{' (default)' * (x is None)}" for k, (x, word) in named.items()]
        words = ", ".join([f"dtype={dt.c_name(dtype)}", *given, "memory_format=(nullopt)"])
        raise RuntimeError(f"{op} expects floating point dtypes, got: TensorOptions({words})")
    check(length >= 0, f"{op} requires non-negative window_length, got window_length={length}")
    check_options(None, None, pin_memory)  # torch checks this when it allocates
    if length <= 1:
        return ones([length], dtype=dtype)
    points = length + periodic
    return shape(arange(points, dtype=dtype), points, *factors)[:length]


# Each step is one torch op: its result, and a number as its first operand, are rounded to the dtype.


def _triangle(x: ndarray, points: int) -> ndarray:
    window = mul(2.0 / (points - 1), x)
    middle = (points - 1 >> 1) + 1
    window[middle:] = add_scalar(mul(-1, window[middle:]), 2)
    return window


def _blackman(x: ndarray, points: int) -> ndarray:
    angle = mul(math.pi / (points - 1), x)
    narrow, wide = mul(0.08, cos(mul(4, angle))), mul(0.5, cos(mul(2, angle)))
    return add_scalar(sub(narrow, wide), 0.42)


def _cosine(x: ndarray, points: int, alpha: float = 0.54, beta: float = 0.46) -> ndarray:
    return add_scalar(mul(-beta, cos(mul(math.pi * 2.0 / (points - 1), x))), alpha)


def _kaiser(x: ndarray, points: int, beta: float = 12.0) -> ndarray:
    wide = dt.cast(x, dt.opmath(x.dtype))
    real = wide.dtype.type
    half = real((points - 1) / 2.0)
    t = (wide - half) / half
    root = np.sqrt(np.abs(fast_fma(-t, t, np.ones(1, wide.dtype))))
    return dt.cast(bessel_airy.i0(real(beta) * root) / bessel_airy.i0(np.array([beta], wide.dtype)), x.dtype)


_DIFFERS = ["periodic-windows", "default-dtype", "float-dtypes-alone", "missing-kernel"]
rows(
    "bartlett_window bartlett_window.periodic", _window, "A triangle over one period, 0 at both ends.", shape=_triangle,
    like=np.bartlett, differs=_DIFFERS,
)  # fmt: skip
rows(
    "blackman_window blackman_window.periodic", _window, "``0.42 - 0.5 cos(t) + 0.08 cos(2 t)`` over one period.",
    shape=_blackman, like=np.blackman, differs=[*_DIFFERS, "windows-in-dtype"],
)  # fmt: skip
rows(
    "hann_window hann_window.periodic", _window, "``0.5 - 0.5 cos(t)`` over one period.",
    shape=lambda x, points: _cosine(x, points, 0.5, 0.5), like=np.hanning, differs=_DIFFERS,
)  # fmt: skip
rows(
    "hamming_window hamming_window.periodic hamming_window.periodic_alpha hamming_window.periodic_alpha_beta", _window,
    "``alpha - beta cos(t)`` over one period, by default ``0.54 - 0.46 cos(t)``.",
    shape=_cosine, like=np.hamming, differs=[*_DIFFERS, "hamming-coefficients"],
)  # fmt: skip
rows(
    "kaiser_window kaiser_window.periodic kaiser_window.beta", _window,
    "``I0(beta sqrt(1 - t^2)) / I0(beta)`` for t from -1 to 1, by default beta 12.",
    shape=_kaiser, like=np.kaiser, differs=_DIFFERS,
)  # fmt: skip
