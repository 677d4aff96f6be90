"""Gradients of sampling at the points of a grid."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from functools import reduce
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check_type, require
from torchnp.core.registry import kernel
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._memory import memory_of
from torchnp.kernels.grid import (
    BICUBIC,
    BILINEAR,
    NEAREST,
    Near,
    Tap,
    blocks_of,
    check_grid,
    inner_dtype,
    mask_of,
    masked,
    part_of,
    places_of,
    taps_of,
    values_of,
    weight_of,
)
from torchnp.kernels.numerics.fma import fast_fma
from torchnp.kernels.numerics.vector_tails import SCALAR, VECTOR, Loop

ndarray = np.ndarray


def _backward(grad, input, grid, mode, padding, align_corners, output_mask, *, n: int, loop: Loop) -> tuple:
    check_grid(input, grid, n, mode)
    name = "grid_sampler_2d_backward_cpu_kernel_impl" if n == 2 else "grid_sampler_3d_backward_cpu"
    nothing = not grad.size if n == 2 else not (input.size and grid.size)
    if n == 3 or not nothing:
        require(name, input.dtype, dt.FLOATS)
    if nothing:
        return np.zeros(input.shape, input.dtype) if output_mask[0] else None, np.zeros(grid.shape, grid.dtype)
    check_type(input.dtype, grid, grad)
    inner, sizes = inner_dtype(input.dtype, mode, n), input.shape[2:]  # torch rounds every step to ``inner``
    of_input, of_grid = np.zeros(input.shape, input.dtype), np.zeros(grid.shape, grid.dtype)
    images, total, channels = memory_of(input), memory_of(of_input), input.shape[1]
    # For nearest mode in vector loops and for bicubic mode, torch computes coordinates as in the forward pass.
    taken = loop if mode == BICUBIC or (mode == NEAREST and loop.vector) else loop.backward
    for block in blocks_of(grid, channels, mode):
        points = dt.cast(grid[block].reshape(-1, n), inner)
        g = dt.cast(part_of(grad, block).reshape(channels, -1), inner)
        taps, steps = taps_of(points, sizes, mode, padding, align_corners, taken)
        if output_mask[0]:
            _scatter(total.flat, _in_order(places_of(taps, block, channels, total.strides), mode, n), taps, g, mode)
        if mode != NEAREST:
            values = _in_order(values_of(images, taps, block, channels, inner), mode, n)
            moved = _moved(values, taps, g, mode, loop)
            part = np.stack([m * step for m, step in zip(moved, steps, strict=True)][::-1], -1)
            of_grid[block] = dt.cast(part, grid.dtype).reshape(of_grid[block].shape)
    return of_input if output_mask[0] else None, of_grid


def _in_order(found: Iterable[Any], mode: int, n: int) -> list[Any]:
    """Return the neighbours' items in the order in which torch adds them: by columns for bicubic images."""
    found = list(found)
    return [one for column in range(4) for one in found[column::4]] if mode == BICUBIC and n == 2 else found


def _changes(near: Near, d: int, mode: int) -> list[ndarray]:
    """Return the derivative of a neighbour's weight along a dimension, as factors in torch's order."""
    if mode == BICUBIC:
        factors = [tap.slope if i == d else tap.weight for i, tap in enumerate(near)]
        return factors if len(near) == 2 and d == 0 else factors[::-1]  # in images the changing weight comes first
    first, *others = [tap.weight for i, tap in enumerate(near) if i != d][::-1]
    return [near[d].slope * first, *others]


def _moved(values: list[ndarray], taps: list[list[Tap]], g: ndarray, mode: int, loop: Loop) -> ndarray:
    """Return the gradients of the positions, per dimension, summed in the order of torch's loops.

    Scalar linear loops skip neighbours outside the image. Vector loops and bicubic interpolation count them as 0. For
    four neighbours, vector loops first subtract neighbouring values.
    """
    near, n = _in_order(itertools.product(*taps), mode, len(taps)), len(taps)
    total = np.zeros((n, g.shape[1]), g.dtype)
    if loop.vector and mode == BILINEAR:
        changes = np.empty((n, *g.shape), g.dtype)
        for d, ((a, b), (p, q)) in enumerate((((0, 2), (1, 3)), ((0, 1), (2, 3)))):
            (closer,), (far,) = _changes(near[b], d, mode), _changes(near[q], d, mode)
            changes[d] = fast_fma(values[q] - values[p], far, (values[b] - values[a]) * closer)
        for channel, one in enumerate(g):
            total = fast_fma(changes[:, channel], one, total)
        return total
    shares = np.empty((n, len(g), len(values), g.shape[1]), g.dtype)
    for k, (one, value) in enumerate(zip(near, values, strict=True)):
        for d in range(n):
            factors = _changes(one, d, mode)
            share = reduce(np.multiply, (value, g, *factors) if loop.vector else (value, *factors, g))
            shares[d, :, k] = share if loop.vector or mode == BICUBIC else masked(share, mask_of(one))
    for share in shares.reshape(n, -1, g.shape[1]).swapaxes(0, 1):
        total += share
    return total


def _scatter(total: ndarray, places: list[ndarray], taps: list[list[Tap]], g: ndarray, mode: int) -> None:
    """Add each neighbour's share of (C, points) gradients at its index, rounding after each addition in torch's order.

    A neighbour outside the image adds 0 to an element inside, which changes no bit of a sum that started at 0.
    """
    shares = np.empty((*g.shape, len(places)), total.dtype)
    for k, near in enumerate(_in_order(itertools.product(*taps), mode, len(taps))):
        weights = [weight_of(near)] if mode == BILINEAR else [tap.weight for tap in near[::-1]]
        shares[..., k] = dt.cast(masked(reduce(np.multiply, weights, g), mask_of(near)), total.dtype)
    np.add.at(total, np.stack(places, -1).reshape(-1), shares.reshape(-1))


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
