"""Boxes cut out of images and pooled to one size."""

from __future__ import annotations

import numpy as np

import torchnp
from torchnp.shipped.torchvision.argument_checks import HALF_TOO, check, check_dtype, check_rois
from torchnp.shipped.torchvision.geometry import bins_of, box_of, grid_of, image_of, neighbours, points_of


@torchnp.kernel(
    "torchvision::roi_align",
    schema="roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio, bool aligned) -> Tensor",
)
def roi_align(
    input: np.ndarray, rois: np.ndarray, spatial_scale: float, pooled_height: int, pooled_width: int,
    sampling_ratio: int, aligned: bool,
) -> np.ndarray:  # fmt: skip
    """The mean over a grid of points in each bin of each box, each interpolated from four pixels."""
    check_rois(input, rois, "roi_align_forward_kernel")
    t = input.dtype.type
    out = np.zeros((len(rois), input.shape[1], pooled_height, pooled_width), t)
    if out.size == 0:
        return out
    check_dtype(input, "roi_align_forward_kernel", HALF_TOO)
    for n, roi in enumerate(rois):
        image = image_of(input, roi)
        start, size = box_of(roi, t(spatial_scale), t(0.5 if aligned else 0))
        if not aligned:  # malformed boxes are made of size 1
            size = tuple(t(1) if s < 1 else s for s in size)
        points = grid_of(size[0], pooled_height, sampling_ratio) * grid_of(size[1], pooled_width, sampling_ratio)
        if points < 0:  # a box whose sides are swapped in one direction
            raise ValueError("cannot create std::vector larger than max_size()")
        ys, xs = (points_of(*one, sampling_ratio) for one in zip(start, size, (pooled_height, pooled_width)))
        rows, columns = (neighbours(p, length) for p, length in zip((ys, xs), image.shape[1:]))
        # Beyond the image, torchvision multiplies the first pixel by 0, which gives NaN if the pixel is infinite.
        beyond = image[:, :1, :1] * t(0)
        for y in range(len(ys)):
            for x in range(len(xs)):
                out[n] += _interpolated(image, [r[y] for r in rows], [c[x] for c in columns], beyond)
        out[n] /= t(max(points, 1))
    return out


@torchnp.kernel(
    "torchvision::ps_roi_align",
    schema="ps_roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio) -> (Tensor, Tensor)",
)
def ps_roi_align(
    input: np.ndarray,
    rois: np.ndarray,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
) -> tuple[np.ndarray, np.ndarray]:
    """As `roi_align`, with a channel of its own for each bin, and which."""
    check_rois(input, rois, "ps_roi_align_forward_kernel")
    out, channels = _positions(input, rois, pooled_height, pooled_width)
    if out.size == 0:
        return out, channels
    check_dtype(input, "ps_roi_align_forward_kernel", HALF_TOO)
    t = input.dtype.type
    for n, roi in enumerate(rois):
        image = image_of(input, roi).reshape(*out.shape[1:], *input.shape[2:])
        start, size = box_of(roi, t(spatial_scale), t(0.5))
        ys, xs = (points_of(*one, sampling_ratio) for one in zip(start, size, (pooled_height, pooled_width)))
        rows, columns = (neighbours(p, length) for p, length in zip((ys, xs), input.shape[2:]))
        for y in range(len(ys)):
            for x in range(len(xs)):
                out[n] += _interpolated(image, [r[y] for r in rows], [c[x] for c in columns], t(0))
        # No point at all gives 0 / 0.
        out[n] /= t(grid_of(size[0], pooled_height, sampling_ratio) * grid_of(size[1], pooled_width, sampling_ratio))
    return out, channels


@torchnp.kernel(
    "torchvision::roi_pool",
    schema="roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width) -> "
    "(Tensor, Tensor)",
)
def roi_pool(
    input: np.ndarray, rois: np.ndarray, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[np.ndarray, np.ndarray]:
    """The maximum in each bin of each box, and where in the image it is, -1 for none."""
    check_rois(input, rois, "roi_pool_forward_kernel")
    shape = len(rois), input.shape[1], pooled_height, pooled_width
    out, where = np.zeros(shape, input.dtype), np.zeros(shape, np.int32)
    if out.size == 0:
        return out, where
    check_dtype(input, "roi_pool_forward_kernel", HALF_TOO)
    lowest = input.dtype.type(-np.finfo(np.float32).max)  # the same for float64; in float16 it becomes -inf
    width = input.shape[3]
    for n, roi in enumerate(rois):
        image = image_of(input, roi)
        ys, xs = bins_of(roi, input.dtype.type(spatial_scale), (pooled_height, pooled_width), input.shape[2:], more=1)
        for i, (top, bottom) in enumerate(ys):
            for j, (left, right) in enumerate(xs):
                if bottom <= top or right <= left:
                    where[n, :, i, j] = -1
                    continue
                window = image[:, top:bottom, left:right].reshape(len(image), -1)
                window = np.where(np.isnan(window), -np.inf, window)  # a NaN is greater than nothing
                first = np.argmax(window, 1)
                best = np.take_along_axis(window, first[:, None], 1)[:, 0]
                row, column = np.divmod(first, right - left)
                out[n, :, i, j] = np.where(best > lowest, best, lowest)
                where[n, :, i, j] = np.where(best > lowest, (top + row) * width + left + column, -1)
    return out, where


@torchnp.kernel(
    "torchvision::ps_roi_pool",
    schema="ps_roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width) -> "
    "(Tensor, Tensor)",
)
def ps_roi_pool(
    input: np.ndarray, rois: np.ndarray, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[np.ndarray, np.ndarray]:
    """The mean in each bin of each box, with a channel of its own for each bin, and which."""
    check_rois(input, rois, "ps_roi_pool_forward_kernel")
    out, channels = _positions(input, rois, pooled_height, pooled_width)
    if out.size == 0:
        return out, channels
    check_dtype(input, "ps_roi_pool_forward_kernel", HALF_TOO)
    t = input.dtype.type
    height, width = input.shape[2:]
    for n, roi in enumerate(rois):
        image = image_of(input, roi).reshape(*out.shape[1:], height, width)
        # The last row and column are never pooled.
        ys, xs = bins_of(roi, t(spatial_scale), (pooled_height, pooled_width), (height - 1, width - 1), more=0)
        for i, (top, bottom) in enumerate(ys):
            for j, (left, right) in enumerate(xs):
                if bottom > top and right > left:
                    window = image[:, i, j, top:bottom, left:right].reshape(len(image), -1)
                    total = np.add.accumulate(window, 1)[:, -1] + t(0)  # adds from the first pixel to the last
                    out[n, :, i, j] = total / t((bottom - top) * (right - left))
    return out, channels


def _interpolated(image: np.ndarray, row: list, column: list, beyond: np.ndarray | np.floating) -> np.ndarray:
    """The values at the points of rows and columns, in every bin, and those of points beyond the image.

    An image is of channels by height by width, or with a plane for each bin before the last two.
    """
    (top, bottom, over, under, y_within), (left, right, before, after, x_within) = row, column
    y, x = np.ix_(range(len(top)), range(len(left)))
    own = () if image.ndim == 3 else (y, x)

    def pixels(ys: np.ndarray, xs: np.ndarray) -> np.ndarray:
        return image[(slice(None), *own, ys[:, None], xs[None, :])]

    over, under = over[:, None], under[:, None]
    found = over * before * pixels(top, left) + over * after * pixels(top, right)
    found = found + under * before * pixels(bottom, left) + under * after * pixels(bottom, right)
    return np.where(y_within[:, None] & x_within, found, beyond)


def _positions(input: np.ndarray, rois: np.ndarray, height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Room for the results of a position-sensitive pooling, and the channel that each bin takes."""
    words = "input channels must be a multiple of pooling height * pooling width"
    check(input.shape[1] % (height * width) == 0, words)
    shape = len(rois), input.shape[1] // (height * width), height, width
    channels = np.arange(input.shape[1], dtype=np.int32).reshape(shape[1:])
    return np.zeros(shape, input.dtype), np.broadcast_to(channels, shape).copy()
