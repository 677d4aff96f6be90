"""Resampling by output size or scale factors, as ``torch.nn.functional.interpolate`` calls it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from torchnp.checks import check
from torchnp.kernels._rows import rows
from torchnp.kernels._spatial import Ints
from torchnp.kernels.resample import averaged, copied, cubic, interpolated, linear

ndarray = np.ndarray


def _output(sizes: Ints, output_size: Any, scale_factors: Sequence[float] | None) -> tuple[Ints, list]:
    """Output sizes, and the scale factors or None for each dimension."""
    n = len(sizes) - 2
    check((output_size is None) != (scale_factors is None), "Must specify exactly one of output_size and scale_factors")
    words = "Expected static_cast<int64_t>(output_size->size()) == spatial_dimensions to be true, but got false.  "
    check(len(output_size if scale_factors is None else scale_factors) == n, words)
    if scale_factors is None:
        return output_size, [None] * n
    return [int(s * f) for s, f in zip(sizes[2:], scale_factors, strict=True)], list(scale_factors)


def _by_factors(
    input: ndarray, output_size: Ints | None, *rest: Any, resample: Callable[..., ndarray], **given: Any
) -> ndarray:
    *align_corners, scale_factors = rest
    out, scales = _output(input.shape, output_size, scale_factors)
    return resample(input, out, *align_corners, *scales, **given)


_DOC = "The op of the same name by output size or scale factors."

_EXACT = "_upsample_nearest_exact1d.vec _upsample_nearest_exact2d.vec _upsample_nearest_exact3d.vec"
_LINEAR = "upsample_linear1d.vec upsample_bilinear2d.vec upsample_trilinear3d.vec"
for _names, _resample, _given in (
    ("upsample_nearest1d.vec upsample_nearest2d.vec upsample_nearest3d.vec", copied, {"exact": False}),
    (_EXACT, copied, {"exact": True}),
    (_LINEAR, interpolated, {"sampling": linear}),
    ("upsample_bicubic2d.vec", interpolated, {"sampling": cubic}),
    ("_upsample_bilinear2d_aa.vec", averaged, {"mode": "bilinear"}),
    ("_upsample_bicubic2d_aa.vec", averaged, {"mode": "bicubic"}),
    ("_upsample_lanczos2d_aa.vec", averaged, {"mode": "lanczos"}),
):
    rows(_names, _by_factors, _DOC, resample=_resample, **_given)
