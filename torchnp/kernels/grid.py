"""Sampling an image at the points of a grid, and affine grids."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import reduce
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, check_type, dim_of, refuse, require, wrap_dim
from torchnp.core.errors import batch2_mismatch, invalid_view, not_implemented, shape_text
from torchnp.core.registry import kernel
from torchnp.core.target import since
from torchnp.kernels import ranges
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._memory import MemorySpan, check_size, memory_of
from torchnp.kernels._spatial import Ints
from torchnp.kernels.numerics.blocks import row_major_blocks
from torchnp.kernels.numerics.products import product
from torchnp.kernels.numerics.vector_tails import SCALAR, VECTOR, Loop
from torchnp.thresholds import Threshold

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

    torch's vectorized loops subtract whole reflections; if the distance is too large for the precision, the remaining
    offset is 0.
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


def bounded(at: ndarray, size: int, padding: int, align_corners: bool, loop: Loop) -> tuple[ndarray, Any]:
    """Apply the padding mode to coordinates; for a gradient, also return the derivative with respect to them.

    Outside the image the derivative is 0, with the reflection's sign in torch's scalar loops, +0 in its vectorized
    loops. NaN becomes the first index in vectorized loops, the last in scalar loops, and stays NaN for a gradient.
    """
    slope: Any = at.dtype.type(1)
    if padding == REFLECTION:
        at, slope = reflect(at, size, align_corners, loop)
    if padding in (BORDER, REFLECTION):
        if loop.gradient:
            inside = ~((at <= 0) | (at >= size - 1))
            slope = np.where(inside, slope, 0) if loop.vector else slope * inside
        at = np.minimum(np.maximum(at, 0), size - 1)  # np.clip widens bfloat16
        if not loop.gradient:
            at = np.where(np.isnan(at), at.dtype.type(0 if loop.vector else size - 1), at)
    return at, slope


# ---------------------------------------------------------------- neighbours


class Tap(NamedTuple):
    """A neighbour of each point along one dimension: its index, whether it is in the image, its weight, and its slope.

    An index outside the image is replaced by the nearest one inside. The mask has all bits set inside the image, and
    none outside. The slope is the derivative of the weight.
    """

    place: ndarray
    mask: ndarray
    weight: ndarray
    slope: Any


Near = tuple[Tap, ...]  # a neighbour of each point: one tap for each dimension


def _tap(place: ndarray, size: int, weight: ndarray, slope: Any) -> Tap:
    wide = place.astype(np.int64) if place.dtype.kind == "i" else dt.cast(place, dt.opmath(place.dtype))
    inside = np.fmin(np.fmax(wide, 0), size - 1)
    mask = np.negative((inside == wide).astype(f"u{place.itemsize}"))
    return Tap(inside.astype(np.int64), mask, weight, slope)


def _whole(place: ndarray, n: int) -> ndarray:
    """Convert whole-numbered coordinates to indices.

    In images of half types, indices have 16 bits, and NaN or a number of more than 32 bits becomes 0. In volumes, a
    bfloat16 NaN becomes 0. In all other cases NaN stays NaN.
    """
    if n == 3 or not dt.is_half(place.dtype):
        return np.where(np.isnan(place), place.dtype.type(0), place) if place.dtype == dt.bfloat16 else place
    wide = place.astype(np.float64)
    return np.where(np.abs(wide) < 2**31, wide, -(2.0**31)).astype(np.int64).astype(np.int16)


def _nearest_taps(at: ndarray, size: int, n: int) -> list[Tap]:
    """Return a tap at the nearest element; halves round to even."""
    return [_tap(_whole(np.rint(at), n), size, at.dtype.type(1), 0)]


def _linear_taps(at: ndarray, size: int, n: int, loop: Loop) -> list[Tap]:
    """Return taps at the elements before and after; in vectorized loops their weights add up to 1."""
    low = np.floor(at)
    first, over = _whole(low, n), at - low
    under = 1 - over if loop.vector else low + 1 - at
    return [_tap(first, size, under, -1), _tap(first + first.dtype.type(1), size, over, 1)]


def cubic_near(x: ndarray, a: float) -> ndarray:
    """Return the weight of a neighbour at a distance up to 1."""
    return ((a + 2) * x - (a + 3)) * x * x + 1


def cubic_far(x: ndarray, a: float) -> ndarray:
    """Return the weight of a neighbour at a distance from 1 to 2."""
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a


def cubic_weights(t: ndarray) -> tuple[list[ndarray], list[ndarray]]:
    """Return the weights of four neighbours and their slopes, with a = -0.75."""
    a, far, near = t.dtype.type(-0.75), [t + 1, 2 - t], [t, 1 - t]
    df = [(3 * a * x - 10 * a) * x + 8 * a for x in far]
    dn = [(3 * (a + 2) * x - 2 * (a + 3)) * x for x in near]
    weights = [cubic_far(far[0], a), *(cubic_near(x, a) for x in near), cubic_far(far[1], a)]
    return weights, [df[0], dn[0], -dn[1], -df[1]]


def _cubic_taps(at: ndarray, size: int, n: int, padding: int, align_corners: bool, loop: Loop) -> list[Tap]:
    """Return taps at two elements before and two after; the padding mode applies to each."""
    low = np.floor(at)
    places = [_whole(bounded(low + (i - 1), size, padding, align_corners, loop)[0], n) for i in range(4)]
    return [_tap(p, size, w, s) for p, w, s in zip(places, *cubic_weights(at - low), strict=True)]


def taps_of(
    points: ndarray, sizes: Ints, mode: int, padding: int, align_corners: bool, loop: Loop
) -> tuple[list[list[Tap]], list[Any]]:
    """Return each dimension's taps for some points, and how far the taps move if a point's coordinate moves by one."""
    n, found, steps = len(sizes), [], []
    for d, size in enumerate(sizes):
        at = unnormalize(points, d, size, align_corners)
        step = points.dtype.type((size - 1) / 2 if align_corners else size / 2)
        if mode == BICUBIC:
            found.append(_cubic_taps(at, size, n, padding, align_corners, loop))
        else:
            at, slope = bounded(at, size, padding, align_corners, loop)
            found.append(_nearest_taps(at, size, n) if mode == NEAREST else _linear_taps(at, size, n, loop))
            step = step * slope
        steps.append(step)
    return found, steps


def weight_of(near: Near) -> ndarray:
    """Return the weight of a neighbour; the order of factors is torch's (x first), because each product is rounded."""
    return reduce(np.multiply, (tap.weight for tap in near[::-1]))


def mask_of(near: Near) -> ndarray:
    """Return a mask of the neighbours in the image: all bits set, or none."""
    return reduce(np.bitwise_and, (tap.mask for tap in near))


def masked(values: ndarray, mask: ndarray) -> ndarray:
    """Set values outside the image to 0, in place; a bitwise and also removes NaN."""
    of_values = values.view(mask.dtype)
    np.bitwise_and(of_values, mask, of_values)
    return values


# ---------------------------------------------------------------- blocks of points

_BLOCK: Threshold = 1 << 16  # neighbours of a block's points, in all channels
_POINTS: Threshold = 1 << 10  # least number of points in a block, however many channels there are
Block = tuple[slice, ...]


def blocks_of(grid: ndarray, channels: int, mode: int) -> Iterator[Block]:
    """Split the (N, *P) points of a grid into blocks, in row-major order: several images each, or a part of one."""
    neighbours = (2, 1, 4)[mode] ** grid.shape[-1]
    return row_major_blocks(grid.shape[:-1], 1, max(_BLOCK // (channels * neighbours), _POINTS))


def part_of(x: ndarray, block: Block) -> ndarray:
    """Return a block of (N, *P) points of (N, C, *P) values, with channels first."""
    return x[(block[0], slice(None), *block[1:])].swapaxes(0, 1)


def places_of(taps: list[list[Tap]], block: Block, channels: int, strides: Ints) -> Iterator[ndarray]:
    """Yield, for each neighbour of a block's points, its (C, points) positions in memory."""
    images, points = np.arange(block[0].start, block[0].stop), taps[0][0].place.size
    images = np.repeat(images * strides[0], points // images.size)
    planes = images + np.arange(channels)[:, None] * strides[1]
    along = [[tap.place * step for tap in line] for line, step in zip(taps, strides[2:], strict=True)]
    for places in itertools.product(*along):
        yield planes + reduce(np.add, places)


def values_of(
    images: MemorySpan, taps: list[list[Tap]], block: Block, channels: int, dtype: np.dtype
) -> Iterator[ndarray]:
    """Yield, for each neighbour of a block's points, its (C, points) values; they are 0 outside the image."""
    for near, places in zip(itertools.product(*taps), places_of(taps, block, channels, images.strides), strict=True):
        yield masked(dt.cast(images.flat.take(places, mode="clip"), dtype), mask_of(near))


def inner_dtype(dtype: np.dtype, mode: int, n: int) -> np.dtype:
    """Return the dtype that torch computes in."""
    return dt.opmath(dtype) if mode == BICUBIC and n == 3 else dtype


def check_grid(input: ndarray, grid: ndarray, n: int, mode: int) -> None:
    """Run torch's checks of an image and a grid."""
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
    # torch rounds every step to the image's dtype, even for half types, except in cubic interpolation of volumes.
    sizes, (n, c) = input.shape[2:], input.shape[:2]
    inner, images = inner_dtype(input.dtype, mode, len(sizes)), memory_of(input)
    y = np.empty((n, c, *grid.shape[1:-1]), input.dtype)
    for block in blocks_of(grid, c, mode):
        points = dt.cast(grid[block].reshape(-1, len(sizes)), inner)
        taps, _ = taps_of(points, sizes, mode, padding, align_corners, loop)
        mean = _mean(values_of(images, taps, block, c, inner), taps, mode, loop)
        part = part_of(y, block)
        part[...] = dt.cast(mean, y.dtype).reshape(part.shape)
    return y


def _mean(values: Iterator[ndarray], taps: list[list[Tap]], mode: int, loop: Loop) -> ndarray:
    """Return the weighted sums of values at all neighbours, in the order of torch's loops."""
    if mode == NEAREST:
        return next(values)
    if mode == BICUBIC and len(taps) == 2:  # first along each line
        lines = (reduce(np.add, (next(values) * x.weight for x in taps[1])) * y.weight for y in taps[0])
        return reduce(np.add, lines)
    pairs = zip(values, itertools.product(*taps), strict=True)
    if mode == BICUBIC:
        return reduce(np.add, (v * (z.weight * y.weight) * x.weight for v, (z, y, x) in pairs))
    total: Any = 0
    for v, near in pairs:
        weight = weight_of(near)
        # A NaN or infinite point gives NaN in torch's vectorized loops, and is skipped in scalar loops.
        v *= weight if loop.vector else masked(weight, mask_of(near))
        total += v
    return total


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
    """Return the homogeneous coordinates of all points of an image or volume, of shape (points, n + 1)."""
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
