"""Gradients of sampling at the points of a grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check_type, require
from torchnp.core.registry import kernel
from torchnp.kernels import grid as forward
from torchnp.kernels._table_rows import rows
from torchnp.kernels.grid import BICUBIC, NEAREST, Corner, check_grid, gather, inner_dtype
from torchnp.kernels.numerics.fma import fast_fma
from torchnp.kernels.numerics.vector_tails import SCALAR, VECTOR, Loop

ndarray = np.ndarray


def _backward(grad, input, grid, mode, padding, align_corners, output_mask, *, n: int, loop: Loop) -> tuple:
    check_grid(input, grid, n, mode)
    name = "grid_sampler_2d_backward_cpu_kernel_impl" if n == 2 else "grid_sampler_3d_backward_cpu"
    nothing = not grad.size if n == 2 else not (input.size and grid.size)
    if n == 3 or not nothing:
        require(name, input.dtype, dt.FLOATS)
    if nothing:  # nothing is read
        return np.zeros(input.shape, input.dtype) if output_mask[0] else None, np.zeros(grid.shape, grid.dtype)
    check_type(input.dtype, grid, grad)
    out, sizes = input.dtype, input.shape[2:]
    inner = inner_dtype(out, mode, n)  # torch rounds every step to this
    input, grid, grad = (dt.cast(v, inner) for v in (input, grid, grad))
    planes = input.reshape(*input.shape[:2], math.prod(sizes))
    of_input = np.zeros(planes.shape, out)
    plain = mode == NEAREST and loop.vector  # torch then uses the forward's coordinates
    axes = forward.axes_of(grid, sizes, padding, align_corners, loop if plain else loop.backward)
    if mode == NEAREST:
        found = [Corner(*forward.nearest_corner(axes), [np.ones(grid.shape[:-1], inner)], [])]
    elif mode == BICUBIC:
        found = list(forward.cubic_corners(grid, sizes, padding, align_corners, loop))
        if n == 2:
            found = [c for column in range(4) for c in found[column::4]]  # column by column, as torch adds
    else:
        found = list(forward.corners(axes, loop))
    if output_mask[0]:
        _scatter(of_input, found, grad)
    of_grid = np.zeros(grid.shape, inner)
    if mode != NEAREST:
        moved = _moved(found, planes, grad, n, loop)
        for d, a in enumerate(axes):
            # how far a position moves when its coordinate moves by one
            step = inner.type((a.size - 1) / 2 if align_corners else a.size / 2)
            of_grid[..., n - 1 - d] = moved[d] * (step if mode == BICUBIC else a.slope)
    return of_input.reshape(input.shape) if output_mask[0] else None, dt.cast(of_grid, out)


def _moved(found: list[Corner], planes: ndarray, g: ndarray, n: int, loop: Loop) -> list[ndarray]:
    """Gradients with respect to the positions, per dimension, summed in the order of torch's loops.

    Scalar linear loops skip corners outside the image. Vector loops and bicubic interpolation count them as 0. For
    four neighbours, vector loops first subtract neighbouring values.
    """
    total = [np.zeros(found[0].index.shape, g.dtype) for _ in range(n)]
    everywhere = loop.vector or len(found) >= 16
    for channel in range(g.shape[1]):
        one = slice(channel, channel + 1)
        values = [gather(planes[:, one], c.index, c.inside)[:, 0] for c in found]
        if loop.vector and len(found) == 4:
            for d, ((a, b), (p, q)) in enumerate((((0, 2), (1, 3)), ((0, 1), (2, 3)))):
                (near,), (far,) = found[b].slopes[d], found[q].slopes[d]
                change = fast_fma(values[q] - values[p], far, (values[b] - values[a]) * near)
                total[d] = fast_fma(change, g[:, channel], total[d])
            continue
        for c, value in zip(found, values, strict=True):
            for t, factors in zip(total, c.slopes, strict=True):
                order = (value, g[:, channel], *factors) if loop.vector else (value, *factors, g[:, channel])
                share = reduce(np.multiply, order)
                np.add(t, share, out=t, where=True if everywhere else c.inside)
    return total


def _scatter(total: ndarray, found: list[Corner], g: ndarray) -> None:
    """Add each corner's share of (N, C, *P) gradients to (N, C, S), each sum rounded in the order of the points."""
    shares, places, inside = [], [], []
    for c in found:
        at = _places(total.shape, c.index)
        places.append(at)
        share = reduce(np.multiply, (w[:, None] for w in c.weight), g)
        shares.append(dt.cast(share, total.dtype).reshape(at.shape))
        inside.append(np.broadcast_to(c.inside.reshape(at.shape[0], 1, at.shape[2]), at.shape))
    wanted = np.stack(inside, -1)
    np.add.at(total.reshape(-1), np.stack(places, -1)[wanted], np.stack(shares, -1)[wanted])


def _places(shape: Sequence[int], index: ndarray) -> ndarray:
    """Return (N, C, P) flat positions in (N, C, S) for (N, *P) indices."""
    n, c, size = shape
    return np.arange(n * c).reshape(n, c, 1) * size + index.reshape(n, 1, math.prod(index.shape[1:]))


_DOC = "Gradients with respect to the image or volume, and to the grid."
(grid_sampler_2d_backward,) = rows("grid_sampler_2d_backward", _backward, _DOC, loop=VECTOR)
rows("grid_sampler_3d_backward", _backward, _DOC, loop=SCALAR)


@kernel("_grid_sampler_2d_cpu_fallback_backward")
def _grid_sampler_2d_cpu_fallback_backward(grad_output, input, grid, interpolation_mode, padding_mode, align_corners):
    """Gradients with respect to the image and to the grid, for float32 only."""
    check_grid(input, grid, 2, interpolation_mode)
    if not grad_output.size:
        return np.zeros(input.shape, input.dtype), np.zeros(grid.shape, grid.dtype)
    check_type(dt.float32, input, grid, grad_output)
    args = (grad_output, input, grid, interpolation_mode, padding_mode, align_corners, (True, True))
    return _backward(*args, n=2, loop=SCALAR)
