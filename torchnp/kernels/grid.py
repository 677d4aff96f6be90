"""Sampling an image at the points of a grid, and affine grids."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import ml_dtypes
import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, check_type, dim_of, refuse, require, wrap_dim
from torchnp.core.errors import batch2_mismatch, invalid_view, not_implemented, shape_text
from torchnp.core.registry import kernel
from torchnp.core.target import since
from torchnp.kernels import ranges
from torchnp.kernels._memory import check_size
from torchnp.kernels._spatial import Ints
from torchnp.kernels._table_rows import rows
from torchnp.kernels.numerics.products import product
from torchnp.kernels.numerics.vector_tails import SCALAR, VECTOR, Loop

ndarray = np.ndarray

BILINEAR, NEAREST, BICUBIC = 0, 1, 2
ZEROS, BORDER, REFLECTION = 0, 1, 2

# ---------------------------------------------------------------- coordinates


def unnormalize(grid: ndarray, d: int, size: int, align_corners: bool) -> ndarray:
    """Map -1..1 to pixel coordinates; without ``align_corners``, -1 and 1 are the outer edges."""
    n, kind = grid.shape[-1], grid.dtype.type
    coordinate = grid[..., n - 1 - d] + kind(1)
    if n == 2:  # torch's vector code for images rounds at different steps than its loops over volumes
        return coordinate * kind((size - 1) / 2) if align_corners else coordinate * kind(size / 2) - kind(0.5)
    return coordinate / kind(2) * kind(size - 1) if align_corners else (coordinate * kind(size) - kind(1)) / kind(2)


def reflect(at: ndarray, size: int, align_corners: bool, loop: Loop) -> tuple[ndarray, ndarray]:
    """Reflect coordinates into the image; also return the sign of the reflection.

    Vector loops subtract whole reflections; for distances beyond the precision, the offset becomes 0.
    """
    low, high = (0, 2 * (size - 1)) if align_corners else (-1, 2 * size - 1)
    if low == high:
        return np.zeros_like(at), np.zeros_like(at)
    start, span = at.dtype.type(low / 2), at.dtype.type((high - low) / 2)
    distance = at - start
    sign = np.where(distance < 0, at.dtype.type(-1), at.dtype.type(1))
    distance = np.abs(distance)
    extra = np.fmod(distance, span)
    if loop.vector:
        extra[np.isfinite(distance) & (distance * ml_dtypes.finfo(at.dtype).eps > span)] = 0
    even = np.floor(distance / span) % 2 == 0
    even |= ~np.isfinite(distance)  # a non-finite count is treated as even
    return np.where(even, extra + start, span - extra + start), np.where(even, sign, -sign)


def bounded(at: ndarray, size: int, padding: int, align_corners: bool, loop: Loop) -> tuple[ndarray, ndarray]:
    """Apply the padding mode to coordinates; also return the derivative with respect to the input coordinates.

    Outside the image the derivative is 0: in torch's scalar loops a product, with the sign of the reflection; in its
    vector loops unsigned. NaN becomes the first element in vector loops and the last in scalar ones; in the gradient
    it stays NaN.
    """
    slope = np.ones_like(at)
    if padding == REFLECTION:
        at, slope = reflect(at, size, align_corners, loop)
    if padding in (BORDER, REFLECTION):
        inside = ~((at <= 0) | (at >= size - 1))
        slope = np.where(inside, slope, 0) if loop.vector and loop.gradient else slope * inside
        at = np.minimum(np.maximum(at, 0), size - 1)  # np.clip widens bfloat16
        if not loop.gradient:
            at = np.where(np.isnan(at), at.dtype.type(0 if loop.vector else size - 1), at)
    return at, slope


class Axis(NamedTuple):
    """One dimension: coordinates in the image, and their derivative with respect to the grid."""

    at: ndarray
    slope: ndarray
    size: int


def axes_of(grid: ndarray, sizes: Ints, padding: int, align_corners: bool, loop: Loop) -> list[Axis]:
    """The `Axis` of each dimension; a grid's coordinates come in reverse order, x (the width) first."""
    found = []
    for d, size in enumerate(sizes):
        at = unnormalize(grid, d, size, align_corners)
        at, slope = bounded(at, size, padding, align_corners, loop)
        step = (size - 1) / 2 if align_corners else size / 2
        found.append(Axis(at, grid.dtype.type(step) * slope, size))
    return found


# ---------------------------------------------------------------- corners


@dataclass(frozen=True)
class Corner:
    """One neighbour of each point: flat index, weight, and the weight's slopes by dimension, both as factors."""

    index: ndarray
    inside: ndarray
    weight: list[ndarray]
    slopes: list[list[ndarray]]


def corners(axes: list[Axis], loop: Loop) -> Iterator[Corner]:
    """The neighbours of each point for linear interpolation; in vector loops a dimension's two weights sum to 1."""
    lows = [np.floor(a.at) for a in axes]
    starts = [_whole(low, len(axes)) for low in lows]
    for bits in np.ndindex(*[2] * len(axes)):
        places, weights, signs = [], [], []
        for a, low, start, bit in zip(axes, lows, starts, bits, strict=True):
            places.append(start + start.dtype.type(bit))
            over = a.at - low
            weights.append(over if bit else 1 - over if loop.vector else low + 1 - a.at)
            signs.append(1 if bit else -1)
        slopes = []
        for d, sign in enumerate(signs):
            first, *others = [w for i, w in enumerate(weights) if i != d][::-1]
            slopes.append([sign * first, *others])
        # Multiply x first, as torch does: each product is rounded.
        yield Corner(*_flat(places, [a.size for a in axes]), [reduce(np.multiply, weights[::-1])], slopes)


def _whole(place: ndarray, n: int) -> ndarray:
    """Whole-numbered coordinates as indices.

    In half-type images they are held in 16 bits, and NaN or more than 32 bits becomes 0. In volumes a bfloat16 NaN
    becomes 0; elsewhere NaN has no index.
    """
    if n == 3 or not dt.is_half(place.dtype):
        return np.where(np.isnan(place), place.dtype.type(0), place) if place.dtype == dt.bfloat16 else place
    wide = place.astype(np.float64)
    return np.where(np.abs(wide) < 2**31, wide, -(2.0**31)).astype(np.int64).astype(np.int16)


def _flat(places: list[ndarray], sizes: Ints) -> tuple[ndarray, ndarray]:
    """Flat indices of whole-numbered coordinates (any index outside the image), and a mask of those inside."""
    inside = np.ones(places[0].shape, np.bool_)
    index = np.zeros(places[0].shape, np.int64)
    for p, size in zip(places, sizes, strict=True):
        inside &= (p >= 0) & (p <= size - 1)
        wide = p.astype(np.int64) if p.dtype.kind == "i" else dt.cast(p, dt.opmath(p.dtype))
        index = index * size + np.fmin(np.fmax(wide, 0), size - 1).astype(np.int64)
    return index, inside


def nearest_corner(axes: list[Axis]) -> tuple[ndarray, ndarray]:
    """The nearest element; halves round to even."""
    return _flat([_whole(np.rint(a.at), len(axes)) for a in axes], [a.size for a in axes])


def cubic_near(x: ndarray, a: float) -> ndarray:
    """The weight of a neighbour at a distance up to 1."""
    return ((a + 2) * x - (a + 3)) * x * x + 1


def cubic_far(x: ndarray, a: float) -> ndarray:
    """The weight of a neighbour at a distance from 1 to 2."""
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a


def cubic_weights(t: ndarray) -> tuple[list[ndarray], list[ndarray]]:
    """Weights of four neighbours and their slopes, with a = -0.75."""
    a, far, near = t.dtype.type(-0.75), [t + 1, 2 - t], [t, 1 - t]
    df = [(3 * a * x - 10 * a) * x + 8 * a for x in far]
    dn = [(3 * (a + 2) * x - 2 * (a + 3)) * x for x in near]
    weights = [cubic_far(far[0], a), *(cubic_near(x, a) for x in near), cubic_far(far[1], a)]
    return weights, [df[0], dn[0], -dn[1], -df[1]]


def cubic_corners(grid: ndarray, sizes: Ints, padding: int, align_corners: bool, loop: Loop) -> Iterator[Corner]:
    """The 16 or 64 neighbours of each point, a line of the last dimension after the other.

    The padding mode applies to each. Weights are in the order of the grid's coordinates, x first; so are the factors
    of slopes in volumes. In images torch multiplies by the changing weight first.
    """
    n, places, weights, changes = len(sizes), [], [], []
    for d, size in enumerate(sizes):
        at = unnormalize(grid, d, size, align_corners)
        low = np.floor(at)
        places.append([_whole(bounded(low + (i - 1), size, padding, align_corners, loop)[0], n) for i in range(4)])
        w, change = cubic_weights(at - low)
        weights.append(w)
        changes.append(change)
    for taps in np.ndindex(*[4] * n):
        of = [w[i] for w, i in zip(weights, taps, strict=True)]
        slopes = [[changes[o][taps[o]] if o == d else of[o] for o in reversed(range(n))] for d in range(n)]
        if n == 2:
            slopes[0].reverse()
        yield Corner(*_flat([p[i] for p, i in zip(places, taps, strict=True)], sizes), of[::-1], slopes)


def gather(x: ndarray, index: ndarray, inside: ndarray) -> ndarray:
    """(N, C, *P) values of (N, C, S) at (N, *P) indices; zeros outside."""
    n, c = x.shape[:2]
    flat = index.reshape(n, math.prod(index.shape[1:]))
    values = np.empty((n, c, flat.shape[1]), x.dtype)
    for one, at, out in zip(x, flat, values):
        np.take(one, at, 1, out, "clip")
    bits = np.dtype(f"u{x.itemsize}")  # by bits: values where a mask is true are slow to set
    every = np.negative(inside.reshape(n, 1, -1).astype(bits))
    np.bitwise_and(values.view(bits), every, values.view(bits))
    return values.reshape(n, c, *index.shape[1:])


def inner_dtype(dtype: np.dtype, mode: int, n: int) -> np.dtype:
    """The dtype that torch computes in."""
    return dt.opmath(dtype) if mode == BICUBIC and n == 3 else dtype


def check_grid(input: ndarray, grid: ndarray, n: int, mode: int) -> None:
    """Torch's checks of an image and a grid."""
    of_input, of_grid = shape_text(input.shape), f"grid with sizes {shape_text(grid.shape)}"
    both = f"but got input with sizes {of_input} and {of_grid}"
    same = input.shape[dim_of(input, 0)] == grid.shape[dim_of(grid, 0)]
    check(same, f"grid_sampler(): expected grid and input to have same batch size, {both}")
    words = f"grid_sampler(): expected grid to have size {input.ndim - 2} in last dimension, but got {of_grid}"
    check(grid.shape[-1] == input.ndim - 2, words)
    words = f"grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes {of_input}"
    for d in range(2, input.ndim):
        check(input.shape[d] > 0, f"{words} with dimension {d} being empty")
    words = f"grid_sampler(): expected {n + 2}D input and grid with same number of dimensions, {both}"
    check(input.ndim == n + 2 and grid.ndim == n + 2, words)
    check(n == 2 or mode != BICUBIC or since("2.15"), "grid_sampler(): bicubic interpolation only supports 4D input")


def _sample(input: ndarray, grid: ndarray, mode: int, padding: int, align_corners: bool, loop: Loop) -> ndarray:
    # torch rounds every step to the image's dtype, even for half types, but for cubic interpolation of volumes.
    sizes, out = input.shape[2:], input.dtype
    input, grid = (dt.cast(v, inner_dtype(out, mode, len(sizes))) for v in (input, grid))
    planes = input.reshape(*input.shape[:2], math.prod(sizes))
    if mode == BICUBIC:
        found = [*cubic_corners(grid, sizes, padding, align_corners, loop)]
        values = [gather(planes, c.index, c.inside) for c in found]
        if len(sizes) == 3:
            shares = (v * (c.weight[2] * c.weight[1])[:, None] * c.weight[0][:, None] for v, c in zip(values, found))
            return dt.cast(reduce(np.add, shares), out)
        for d in range(2):  # each line first
            weighted = [v * c.weight[d][:, None] for v, c in zip(values, found[:: 4**d], strict=True)]
            values = [reduce(np.add, weighted[i : i + 4]) for i in range(0, len(weighted), 4)]
        return values[0]
    axes = axes_of(grid, sizes, padding, align_corners, loop)
    if mode == NEAREST:
        return gather(planes, *nearest_corner(axes))
    y = np.zeros((*input.shape[:2], *grid.shape[1:-1]), input.dtype)
    for c in corners(axes, loop):
        # A NaN or infinite point gives NaN in torch's vector loops, and is skipped in the others.
        weight = c.weight[0] if loop.vector else np.where(c.inside, c.weight[0], 0)
        y += gather(planes, c.index, c.inside) * weight[:, None]
    return y


def _sampler(input, grid, interpolation_mode, padding_mode, align_corners, *, n: int) -> ndarray:
    check_grid(input, grid, n, interpolation_mode)
    shape = (*input.shape[:2], *grid.shape[1:-1])
    if n == 3 or 0 not in shape:
        require("grid_sampler_2d_cpu_kernel_impl" if n == 2 else "grid_sampler3d_cpu", input.dtype, dt.FLOATS)
    if 0 in shape:  # nothing is read
        return np.empty(shape, input.dtype)
    check_type(input.dtype, grid)
    return _sample(input, grid, interpolation_mode, padding_mode, align_corners, VECTOR if n == 2 else SCALAR)


_DOC = "An image or volume sampled at grid points, whose coordinates run from -1 to 1."
grid_sampler_2d, grid_sampler_3d = rows("grid_sampler_2d grid_sampler_3d", _sampler, _DOC, differs=["grid-half-even"])


@kernel("_grid_sampler_2d_cpu_fallback", differs=["grid-half-even"])
def _grid_sampler_2d_cpu_fallback(input, grid, interpolation_mode, padding_mode, align_corners):
    """`grid_sampler_2d` of float32."""
    check_grid(input, grid, 2, interpolation_mode)
    if input.shape[0] * input.shape[1] * grid.shape[1] * grid.shape[2] == 0:
        return np.empty((*input.shape[:2], *grid.shape[1:3]), input.dtype)
    check_type(dt.float32, input, grid)  # torch has no other kernel, but checks only if there is work
    return _sample(input, grid, interpolation_mode, padding_mode, align_corners, SCALAR)


@kernel("grid_sampler")
def grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners):
    """`grid_sampler_2d` or `grid_sampler_3d`."""
    sample = grid_sampler_2d if input.ndim == 4 else grid_sampler_3d
    return sample(input, grid, interpolation_mode, padding_mode, align_corners)


# ---------------------------------------------------------------- affine grids


def _base_grid(size: Ints, align_corners: bool, dtype: np.dtype) -> ndarray:
    """The homogeneous coordinates of all points of an image or volume, of shape (points, n + 1)."""
    check(len(size) in (4, 5), "AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs.")
    n, sizes = len(size) - 2, size[2:]
    check_size((size[0], *sizes, n + 1))
    for steps in sizes[::-1]:  # for a single step torch makes a tensor of one number
        refuse("tensor_cpu" if steps <= 1 else "linspace_cpu", dtype, ranges.NO_SPACE)
        check(steps > 1 or not dt.is_half(dtype), not_implemented("tensor_cpu", dtype))
    grid = np.ones((*sizes, n + 1), dtype)
    for d, steps in enumerate(sizes):
        line = np.zeros(steps, dtype)
        if steps > 1:
            line = ranges.linspace(-1, 1, steps, dtype=dtype)
            if not align_corners:
                wide = dt.cast(line, dt.opmath(dtype))
                line = dt.cast(dt.cast(wide * (steps - 1), wide.dtype) / steps, dtype)
        grid[..., n - 1 - d] = line.reshape(-1, *[1] * (n - 1 - d))
    return grid.reshape(-1, n + 1)


@kernel("affine_grid_generator")
def affine_grid_generator(theta: ndarray, size: Ints, align_corners: bool) -> ndarray:
    """Grids of points, transformed by one affine map per batch item."""
    points, n = _base_grid(size, align_corners, theta.dtype), len(size) - 2
    if theta.ndim < 3:
        wrap_dim(max(theta.ndim, 1), theta.ndim)
    check(theta.ndim == 3, "batch2 must be a 3D tensor")
    if theta.shape[0] != size[0] or theta.shape[2] != n + 1:
        raise batch2_mismatch(size[0], n + 1, (theta.shape[0], theta.shape[2]))
    shape = (size[0], *size[2:], n)
    check(theta.shape[1] == n, invalid_view(shape, size[0] * len(points) * theta.shape[1]))
    return product(points, theta.swapaxes(1, 2), batches=True).reshape(shape)


@kernel("affine_grid_generator_backward")
def affine_grid_generator_backward(grad: ndarray, size: Ints, align_corners: bool) -> ndarray:
    """The gradient of `affine_grid_generator` with respect to the maps."""
    points = _base_grid(size, align_corners, grad.dtype)
    total = product(points.T, grad.reshape(size[0], len(points), len(size) - 2), batches=True)
    return total.swapaxes(1, 2)
