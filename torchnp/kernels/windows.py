"""Windows for spectral analysis: Bartlett, Blackman, Hamming, Hann, Kaiser."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from torchnp.checks import check
from torchnp.dtypes import c_name, cast, is_inexact, opmath
from torchnp.kernels._memory import check_options, factory_dtype
from torchnp.kernels._rows import rows
from torchnp.kernels.arithmetic import add_scalar, mul, sub
from torchnp.kernels.create import ones
from torchnp.kernels.numerics import cephes
from torchnp.kernels.numerics.fma import fast_fma
from torchnp.kernels.pointwise import cos
from torchnp.kernels.ranges import arange

ndarray = np.ndarray


def _window(
    length: int, periodic: bool = True, *factors: float, op: str, shape: Any, dtype: Any, layout: Any, device: Any,
    pin_memory: Any,
) -> ndarray:  # fmt: skip
    """A window from its shape, a function of the places 0, 1, ... and of their number.

    A periodic window is a symmetric one that is longer by one, without its last value.
    """
    check_options(layout, device, pin_memory)
    dtype = factory_dtype(dtype)
    check(is_inexact(dtype), f"{op} expects floating point dtypes, got: TensorOptions(dtype={c_name(dtype)}")
    check(length >= 0, f"{op} requires non-negative window_length, got window_length={length}")
    if length <= 1:
        return ones([length], dtype=dtype)
    points = length + periodic
    return shape(arange(points, dtype=dtype), points, *factors)[:length]


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


def _cosine(x: ndarray, points: int, alpha: float = 0.54, beta: float = 0.46) -> ndarray:
    return add_scalar(mul(-beta, cos(mul(math.pi * 2.0 / (points - 1), x))), alpha)


def _kaiser(x: ndarray, points: int, beta: float = 12.0) -> ndarray:
    wide = cast(x, opmath(x.dtype))
    real = wide.dtype.type
    half = real((points - 1) / 2.0)
    t = (wide - half) / half
    root = np.sqrt(np.abs(fast_fma(-t, t, np.ones(1, wide.dtype))))
    return cast(cephes.i0(real(beta) * root) / cephes.i0(np.array([beta], wide.dtype)), x.dtype)


# ---------------------------------------------------------------- rows

for _name, _like, _shape, _doc in (
    ("bartlett", np.bartlett, _triangle, "Triangle that returns to zero at its end."),
    ("blackman", np.blackman, _blackman, "``0.42 - 0.5 cos(t) + 0.08 cos(2 t)`` over one period."),
    ("hann", np.hanning, lambda x, points: _cosine(x, points, 0.5, 0.5), "``0.5 - 0.5 cos(t)`` over one period."),
    ("hamming", np.hamming, _cosine, "``alpha - beta cos(t)`` over one period, by default ``0.54 - 0.46 cos(t)``."),
    ("kaiser", np.kaiser, _kaiser, "Bessel's function I0 of ``beta`` (12) times half an ellipse, 1 at its highest."),
):
    _more = {"hamming": ("periodic_alpha", "periodic_alpha_beta"), "kaiser": ("beta",)}.get(_name, ())
    _names = " ".join((f"{_name}_window", *(f"{_name}_window.{form}" for form in ("periodic", *_more))))
    rows(_names, _window, _doc, shape=_shape, like=_like, differs=["default-dtype"])
