"""Gradients of sampling at the points of a grid."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from torchnp import dtypes as dt
from torchnp.checks import check, not_implemented
from torchnp.kernels.grid import (
    BICUBIC,
    NEAREST,
    Corner,
    axes_of,
    check_grid,
    check_single,
    corners,
    cubic_corners,
    gather,
    nearest_corner,
)
from torchnp.registry import kernel

ndarray = np.ndarray


def _backward(
    grad: ndarray,
    input: ndarray,
    grid: ndarray,
    mode: int,
    padding: int,
    align_corners: bool,
    output_mask: Sequence[bool],
    n: int,
    vector: bool = False,
) -> tuple[ndarray | None, ndarray | None]:
    check_grid(input, grid, n, mode)
    if input.dtype not in dt.FLOATS:
        name = "grid_sampler_2d_backward_cpu_kernel_impl" if n == 2 else "grid_sampler_3d_backward_cpu"
        raise not_implemented(name, input.dtype)
    for x in (grad, grid):
        check(
            x.dtype == input.dtype,
            f"expected scalar type {dt.scalar_name(input.dtype)} but found {dt.scalar_name(x.dtype)}",
        )
    inner = input.dtype  # torch rounds every step to it, of half types too
    g, x, points = grad, input, grid
    sizes = x.shape[2:]
    planes = x.reshape(*x.shape[:2], math.prod(sizes))
    of_input = np.zeros(planes.shape, np.float64)
    of_grid = np.zeros(points.shape, inner)
    axes = axes_of(points, sizes, padding, align_corners, vector)
    if mode == NEAREST:
        index, inside = nearest_corner(axes)
        found = [Corner(index, inside, np.ones(index.shape, inner), [])]
    else:
        found = cubic_corners(points, sizes, padding, align_corners) if mode == BICUBIC else corners(axes)
    for c in found:
        if output_mask[0]:
            _scatter(of_input, c.index, np.where(c.inside[:, None], g * c.weight[:, None], 0))
        if c.slopes:
            share = (g * gather(planes, c.index, c.inside)).sum(1, dtype=inner)
            for d, slope in enumerate(c.slopes):
                of_grid[..., n - 1 - d] += share * (slope if vector else np.where(c.inside, slope, 0))
    for d, a in enumerate(axes if mode != NEAREST else ()):
        of_grid[..., n - 1 - d] *= a.slope if mode != BICUBIC else _step(a.size, align_corners, inner)
    result = dt.cast(of_input, inner).reshape(input.shape) if output_mask[0] else None
    return result, of_grid


def _step(size: int, align_corners: bool, dtype: np.dtype) -> np.number:
    """How far a place moves when its coordinate moves by one."""
    return dtype.type((size - 1) / 2 if align_corners else size / 2)


def _scatter(total: ndarray, index: ndarray, values: ndarray) -> None:
    """Add (N, C, *P) values to (N, C, S) at (N, *P) indices."""
    n, c, size = total.shape
    places = (np.arange(n * c).reshape(n, c, 1) * size + index.reshape(n, 1, math.prod(index.shape[1:]))).reshape(-1)
    total += np.bincount(places, values.astype(np.float64).reshape(-1), math.prod(total.shape)).reshape(total.shape)


@kernel("grid_sampler_2d_backward")
def grid_sampler_2d_backward(grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask):
    """Gradients in the image and in the points."""
    return _backward(
        grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask, 2, vector=True
    )


@kernel("_grid_sampler_2d_cpu_fallback_backward")
def _grid_sampler_2d_cpu_fallback_backward(grad_output, input, grid, interpolation_mode, padding_mode, align_corners):
    """Gradients in the image and in the points, of float32."""
    check_grid(input, grid, 2, interpolation_mode)
    if not grad_output.size:
        return np.zeros(input.shape, input.dtype), np.zeros(grid.shape, grid.dtype)
    check_single((input, grid, grad_output))
    mask = (True, True)
    return _backward(grad_output, input, grid, interpolation_mode, padding_mode, align_corners, mask, 2)


@kernel("grid_sampler_3d_backward")
def grid_sampler_3d_backward(grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask):
    """Gradients in the volume and in the points."""
    return _backward(grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask, 3)
