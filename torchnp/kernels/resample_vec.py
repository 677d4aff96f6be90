"""Resampling by output size or scale factors, as ``torch.nn.functional.interpolate`` calls it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torchnp.checks import check
from torchnp.kernels import resample
from torchnp.kernels._spatial import Ints
from torchnp.registry import kernel


def _output(sizes: Ints, output_size: Ints | None, scale_factors: Sequence[float] | None) -> tuple[Ints, list]:
    """Output sizes, and the scale factors or None for each dimension."""
    n = len(sizes) - 2
    check((output_size is None) != (scale_factors is None), "Must specify exactly one of output_size and scale_factors")
    if output_size is not None:
        check(
            len(output_size) == n,
            "Expected static_cast<int64_t>(output_size->size()) == spatial_dimensions to be true, but got false.  ",
        )
        return output_size, [None] * n
    check(
        len(scale_factors) == n,
        "Expected static_cast<int64_t>(scale_factors->size()) == spatial_dimensions to be true, but got false.  ",
    )
    return [int(s * f) for s, f in zip(sizes[2:], scale_factors, strict=True)], list(scale_factors)


def _plain(name: str, run: Callable[..., Any]) -> None:
    @kernel(name)
    def upsample(input, output_size, scale_factors):
        out, scales = _output(input.shape, output_size, scale_factors)
        return run(input, out, *scales)

    upsample.__doc__ = f"``{name.removesuffix('.vec')}`` by output size or scale factors."


def _aligned(name: str, run: Callable[..., Any]) -> None:
    @kernel(name)
    def upsample(input, output_size, align_corners, scale_factors):
        out, scales = _output(input.shape, output_size, scale_factors)
        return run(input, out, align_corners, *scales)

    upsample.__doc__ = f"``{name.removesuffix('.vec')}`` by output size or scale factors."


_plain("upsample_nearest1d.vec", resample.upsample_nearest1d)
_plain("upsample_nearest2d.vec", resample.upsample_nearest2d)
_plain("upsample_nearest3d.vec", resample.upsample_nearest3d)
_plain("_upsample_nearest_exact1d.vec", resample._upsample_nearest_exact1d)
_plain("_upsample_nearest_exact2d.vec", resample._upsample_nearest_exact2d)
_plain("_upsample_nearest_exact3d.vec", resample._upsample_nearest_exact3d)
_aligned("upsample_linear1d.vec", resample.upsample_linear1d)
_aligned("upsample_bilinear2d.vec", resample.upsample_bilinear2d)
_aligned("upsample_trilinear3d.vec", resample.upsample_trilinear3d)
_aligned("upsample_bicubic2d.vec", resample.upsample_bicubic2d)
_aligned("_upsample_bilinear2d_aa.vec", resample._upsample_bilinear2d_aa)
_aligned("_upsample_bicubic2d_aa.vec", resample._upsample_bicubic2d_aa)
_aligned("_upsample_lanczos2d_aa.vec", resample._upsample_lanczos2d_aa)
