"""Resampling of images: nearest and linear interpolation, as products with small matrices of weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import refuse
from torchnp.portable.library import ArrayLibrary
from torchnp.portable.rows import Array, portable

Scales = Sequence[float] | None
_INTEGERS = {dt.bool_, *dt.INTS} - {dt.uint8}  # torch resamples images of uint8


def _sizes(x: Array, output_size: Sequence[int] | None, scales: Scales) -> tuple[int, ...]:
    if output_size is not None:
        return tuple(output_size)
    assert scales is not None
    return tuple(int(x.shape[2 + i] * s) for i, s in enumerate(scales))


def _nearest(lib: ArrayLibrary, x: Array, sizes: Sequence[int], scales: Sequence[float | None], exact: bool) -> Array:
    """Resample to the nearest pixel; positions are computed in float32, as in torch."""
    refuse("compute_indices_weights_nearest", lib.dtype_of(x), _INTEGERS)
    for i, n in enumerate(sizes):
        length, s = x.shape[2 + i], scales[i]
        step = np.float32(1 / s if s else length / n)
        at = np.arange(n, dtype=np.float32)
        places = np.floor((at + np.float32(0.5)) * step if exact else at * step).astype(np.int64)
        if n != length or s:
            x = lib.xp.take(x, lib.from_numpy(np.minimum(places, length - 1)), axis=2 + i)
    return x


def _linear(lib: ArrayLibrary, x: Array, sizes: Sequence[int], scales: Sequence[float | None], align: bool) -> Array:
    """Interpolate between the two nearest pixels; positions are computed in the dtype of the values, as in torch."""
    real = dt.opmath(lib.dtype_of(x)).type
    for i, n in enumerate(sizes):
        length, s = x.shape[2 + i], scales[i]
        at = np.arange(n, dtype=real)
        if align:
            source = at * real((length - 1) / (n - 1) if n > 1 else 0)
        else:
            step = np.float64(real(1 / s if s else length / n))
            source = np.maximum(
                ((at + real(0.5)) * step - 0.5).astype(real), real(0)
            )  # rounded once: torch's is an FMA
        low = np.minimum(source.astype(np.int64), length - 1)
        weight = (source - low).reshape(-1, *[1] * (x.ndim - 3 - i))
        w = lib.astype(lib.from_numpy(weight), lib.dtype_of(x))
        take = lambda at: lib.xp.take(x, lib.from_numpy(at), axis=2 + i)
        x = take(low) * (1 - w) + take(np.minimum(low + 1, length - 1)) * w
    return x


def _plain(name: str, n: int, exact: bool) -> None:
    """Declare a nearest overload that takes each scale as a separate argument."""

    @portable(name)
    def row(lib: ArrayLibrary, self: Array, output_size: Sequence[int], *scales: float | None) -> Array:
        return _nearest(lib, self, output_size, [*scales, *[None] * (n - len(scales))], exact)


_plain("aten::upsample_nearest1d", 1, False)
_plain("aten::upsample_nearest2d", 2, False)
_plain("aten::upsample_nearest3d", 3, False)
_plain("aten::_upsample_nearest_exact1d", 1, True)
_plain("aten::_upsample_nearest_exact2d", 2, True)
_plain("aten::_upsample_nearest_exact3d", 3, True)


def _vec(name: str, exact: bool) -> None:
    @portable(name)
    def row(lib: ArrayLibrary, input: Array, output_size: Sequence[int] | None, scale_factors: Scales) -> Array:
        sizes = _sizes(input, output_size, scale_factors)
        return _nearest(lib, input, sizes, scale_factors or [None] * len(sizes), exact)


_vec("aten::upsample_nearest1d.vec", False)
_vec("aten::upsample_nearest2d.vec", False)
_vec("aten::upsample_nearest3d.vec", False)
_vec("aten::_upsample_nearest_exact1d.vec", True)
_vec("aten::_upsample_nearest_exact2d.vec", True)
_vec("aten::_upsample_nearest_exact3d.vec", True)


@portable("aten::upsample_linear1d.vec", "aten::upsample_bilinear2d.vec", "aten::upsample_trilinear3d.vec")
def upsample_linear_vec(
    lib: ArrayLibrary, input: Array, output_size: Sequence[int] | None, align_corners: bool, scale_factors: Scales
) -> Array:
    sizes = _sizes(input, output_size, scale_factors)
    if not dt.is_inexact(lib.dtype_of(input)):
        return NotImplemented
    factors: Any = scale_factors or [None] * len(sizes)
    return lib.in_opmath(lambda x: _linear(lib, x, sizes, factors, align_corners), input)


@portable("aten::upsample_linear1d", "aten::upsample_bilinear2d", "aten::upsample_trilinear3d")
def upsample_linear(
    lib: ArrayLibrary, self: Array, output_size: Sequence[int], align_corners: bool, *scales: float | None
) -> Array:
    if not dt.is_inexact(lib.dtype_of(self)):
        return NotImplemented
    factors = [*scales, *[None] * (len(output_size) - len(scales))]
    return lib.in_opmath(lambda x: _linear(lib, x, output_size, factors, align_corners), self)
