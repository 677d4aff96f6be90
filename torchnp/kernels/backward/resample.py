"""Gradients of resampling."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from torchnp import dtypes as dt
from torchnp.checks import check, not_implemented
from torchnp.kernels._spatial import Ints, in_format, is_channels_last
from torchnp.kernels.resample import (
    Sampling,
    Scales,
    antialiased,
    check_sizes,
    cubic,
    linear,
    nearest,
    unsample,
    without_inf,
)
from torchnp.registry import kernel

ndarray = np.ndarray


def _check_gradient(grad: ndarray, output_size: Ints, input_size: Ints, n: int) -> None:
    check_sizes(len(input_size), input_size, output_size, n)
    shape = (*input_size[:2], *output_size)
    check(
        grad.ndim == n + 2,
        f"Expected grad_output to be a tensor of dimension {n + 2} but got: dimension {grad.ndim}",
    )
    for d, (a, b) in enumerate(zip(shape, grad.shape, strict=True)):
        if a != b:
            raise RuntimeError(
                "Expected grad_output to have the same shape as output; "
                f"output.size({d}) = {a} but got grad_output.size({d}) = {b}"
            )


def _backward(
    grad: ndarray, output_size: Ints, input_size: Ints, name: str, samplings: Callable[..., Sampling], scales: Scales
) -> ndarray:
    n = len(scales)
    _check_gradient(grad, output_size, input_size, n)
    accepted = (dt.float32, dt.float64) if "_aa" in name else dt.FLOATS
    if grad.dtype not in accepted:
        raise not_implemented(name, grad.dtype)
    g = dt.cast(grad, dt.opmath(grad.dtype))
    if "linear" in name and "_aa" not in name:
        g = without_inf(g, input_size[2:], output_size)
    for d in range(n):
        g = unsample(g, 2 + d, input_size[2 + d], samplings(input_size[2 + d], output_size[d], scales[d], g.dtype))
    g = dt.cast(g, grad.dtype)
    keeps = "bicubic" not in name and not ("nearest" in name and n == 3)
    g = in_format(g, keeps and is_channels_last(grad))
    return g.copy("K") if np.may_share_memory(g, grad) else g


def _nearest(grad: ndarray, output_size: Ints, input_size: Ints, scales: Scales, exact: bool) -> ndarray:
    def sampling(size: int, out: int, scale: float | None, dtype: np.dtype) -> Sampling:
        return Sampling(nearest(size, out, scale, exact, True)[:, None], np.ones((out, 1), dtype))

    name = f"{'_upsample_nearest_exact' if exact else 'upsample_nearest'}{len(scales)}d_backward"
    return _backward(grad, output_size, input_size, name, sampling, scales)


def _with_corners(grad, output_size, input_size, name, which, align_corners, scales) -> ndarray:
    def sampling(size: int, out: int, scale: float | None, dtype: np.dtype) -> Sampling:
        return which(size, out, align_corners, scale, dtype)

    return _backward(grad, output_size, input_size, name, sampling, scales)


# ---------------------------------------------------------------- nearest


@kernel("upsample_nearest1d_backward")
def upsample_nearest1d_backward(grad_output, output_size, input_size, scales=None):
    """Gradients added up over the copies of each element."""
    return _nearest(grad_output, output_size, input_size, (scales,), False)


@kernel("upsample_nearest2d_backward")
def upsample_nearest2d_backward(grad_output, output_size, input_size, scales_h=None, scales_w=None):
    """Gradients added up over the copies of each pixel."""
    return _nearest(grad_output, output_size, input_size, (scales_h, scales_w), False)


@kernel("upsample_nearest3d_backward")
def upsample_nearest3d_backward(grad_output, output_size, input_size, scales_d=None, scales_h=None, scales_w=None):
    """Gradients added up over the copies of each voxel."""
    return _nearest(grad_output, output_size, input_size, (scales_d, scales_h, scales_w), False)


@kernel("_upsample_nearest_exact1d_backward")
def _upsample_nearest_exact1d_backward(grad_output, output_size, input_size, scales=None):
    """Gradients added up over the copies of each element."""
    return _nearest(grad_output, output_size, input_size, (scales,), True)


@kernel("_upsample_nearest_exact2d_backward")
def _upsample_nearest_exact2d_backward(grad_output, output_size, input_size, scales_h=None, scales_w=None):
    """Gradients added up over the copies of each pixel."""
    return _nearest(grad_output, output_size, input_size, (scales_h, scales_w), True)


@kernel("_upsample_nearest_exact3d_backward")
def _upsample_nearest_exact3d_backward(
    grad_output, output_size, input_size, scales_d=None, scales_h=None, scales_w=None
):
    """Gradients added up over the copies of each voxel."""
    return _nearest(grad_output, output_size, input_size, (scales_d, scales_h, scales_w), True)


# ---------------------------------------------------------------- linear, cubic, antialiased


@kernel("upsample_linear1d_backward")
def upsample_linear1d_backward(grad_output, output_size, input_size, align_corners, scales=None):
    """Gradients shared out by the weights of `upsample_linear1d`."""
    name = "upsample_linear1d_backward"
    return _with_corners(grad_output, output_size, input_size, name, linear, align_corners, (scales,))


@kernel("upsample_bilinear2d_backward")
def upsample_bilinear2d_backward(grad_output, output_size, input_size, align_corners, scales_h=None, scales_w=None):
    """Gradients shared out by the weights of `upsample_bilinear2d`."""
    rest = ("upsample_bilinear2d_backward", linear, align_corners, (scales_h, scales_w))
    return _with_corners(grad_output, output_size, input_size, *rest)


@kernel("upsample_trilinear3d_backward")
def upsample_trilinear3d_backward(
    grad_output, output_size, input_size, align_corners, scales_d=None, scales_h=None, scales_w=None
):
    """Gradients shared out by the weights of `upsample_trilinear3d`."""
    rest = ("upsample_trilinear3d_backward", linear, align_corners, (scales_d, scales_h, scales_w))
    return _with_corners(grad_output, output_size, input_size, *rest)


@kernel("upsample_bicubic2d_backward")
def upsample_bicubic2d_backward(grad_output, output_size, input_size, align_corners, scales_h=None, scales_w=None):
    """Gradients shared out by the weights of `upsample_bicubic2d`."""
    which = linear if list(output_size) == list(input_size[2:]) else cubic  # equal sizes copy, whatever the scales
    rest = ("upsample_bicubic2d_backward", which, align_corners, (scales_h, scales_w))
    return _with_corners(grad_output, output_size, input_size, *rest)


def _antialiased(grad, output_size, input_size, mode, align_corners, scales) -> ndarray:
    def sampling(size: int, out: int, scale: float | None, dtype: np.dtype) -> Sampling:
        return antialiased(mode, size, out, align_corners, scale, dtype)

    return _backward(grad, output_size, input_size, f"upsample_{mode}2d_aa_backward_cpu", sampling, scales)


@kernel("_upsample_bilinear2d_aa_backward")
def _upsample_bilinear2d_aa_backward(grad_output, output_size, input_size, align_corners, scales_h=None, scales_w=None):
    """Gradients shared out by the weights of `_upsample_bilinear2d_aa`."""
    return _antialiased(grad_output, output_size, input_size, "bilinear", align_corners, (scales_h, scales_w))


@kernel("_upsample_bicubic2d_aa_backward")
def _upsample_bicubic2d_aa_backward(grad_output, output_size, input_size, align_corners, scales_h=None, scales_w=None):
    """Gradients shared out by the weights of `_upsample_bicubic2d_aa`."""
    return _antialiased(grad_output, output_size, input_size, "bicubic", align_corners, (scales_h, scales_w))


@kernel("_upsample_lanczos2d_aa_backward")
def _upsample_lanczos2d_aa_backward(grad_output, output_size, input_size, align_corners, scales_h=None, scales_w=None):
    """Gradients shared out by the weights of `_upsample_lanczos2d_aa`."""
    return _antialiased(grad_output, output_size, input_size, "lanczos", align_corners, (scales_h, scales_w))
