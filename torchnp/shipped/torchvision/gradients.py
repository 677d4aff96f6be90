"""Gradients of the images that boxes were pooled from: each pixel's are added up in torchvision's order, to the bit."""

from __future__ import annotations

import numpy as np

import torchnp
from torchnp.shipped.torchvision.argument_checks import HALF_TOO, check, check_data, check_dtype, check_rank, check_same
from torchnp.shipped.torchvision.geometry import bins_of, box_of, grid_of, image_of, neighbours, points_of


@torchnp.kernel(
    "torchvision::_roi_align_backward",
    schema="_roi_align_backward(Tensor grad, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "SymInt batch_size, SymInt channels, SymInt height, SymInt width, int sampling_ratio, bool aligned) -> Tensor",
)
def _roi_align_backward(
    grad: np.ndarray, rois: np.ndarray, spatial_scale: float, pooled_height: int, pooled_width: int, batch_size: int,
    channels: int, height: int, width: int, sampling_ratio: int, aligned: bool,
) -> np.ndarray:  # fmt: skip
    """Each bin's gradient shared out among the pixels that its points lie between."""
    check_same(grad, rois, "grad", "roi_align_backward_kernel")
    out = np.zeros((batch_size, channels, height, width), grad.dtype)
    if grad.size == 0:
        return out
    check_rank(grad)
    check_dtype(grad, "roi_align_backward_kernel", HALF_TOO)
    _check_shapes(grad, rois, (channels, pooled_height, pooled_width))
    every = np.broadcast_to(np.arange(channels)[:, None, None], grad.shape[1:])
    t = grad.dtype.type
    for roi, one in zip(rois, grad):
        start, size = box_of(roi, t(spatial_scale), t(0.5 if aligned else 0))
        if not aligned:  # malformed boxes are made of size 1
            size = tuple(t(1) if s < 1 else s for s in size)
        _share_out(image_of(out, roi), one, every, start, size, sampling_ratio)
    return out


@torchnp.kernel(
    "torchvision::_ps_roi_align_backward",
    schema="_ps_roi_align_backward(Tensor grad, Tensor rois, Tensor channel_mapping, float spatial_scale, "
    "SymInt pooled_height, SymInt pooled_width, int sampling_ratio, SymInt batch_size, SymInt channels, SymInt height, "
    "SymInt width) -> Tensor",
)
def _ps_roi_align_backward(
    grad: np.ndarray, rois: np.ndarray, channel_mapping: np.ndarray, spatial_scale: float, pooled_height: int,
    pooled_width: int, sampling_ratio: int, batch_size: int, channels: int, height: int, width: int,
) -> np.ndarray:  # fmt: skip
    """Each bin's gradient shared out among the pixels of its own channel that its points lie between."""
    check_same(grad, rois, "grad", "ps_roi_align_backward_kernel")
    out = np.zeros((batch_size, channels, height, width), grad.dtype)
    if grad.size == 0:
        return out
    check_dtype(grad, "ps_roi_align_backward_kernel", HALF_TOO)
    check_data(channel_mapping, np.int32)
    _check_shapes(grad, rois, (channels // (pooled_height * pooled_width), pooled_height, pooled_width))
    _check_indices(channel_mapping, grad.shape, 0, channels)
    t = grad.dtype.type
    for roi, one, chosen in zip(rois, grad, channel_mapping):
        start, size = box_of(roi, t(spatial_scale), t(0.5))
        _share_out(image_of(out, roi), one, chosen, start, size, sampling_ratio)
    return out


@torchnp.kernel(
    "torchvision::_roi_pool_backward",
    schema="_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width, SymInt batch_size, SymInt channels, SymInt height, SymInt width) -> Tensor",
)
def _roi_pool_backward(
    grad: np.ndarray, rois: np.ndarray, argmax: np.ndarray, spatial_scale: float, pooled_height: int,
    pooled_width: int, batch_size: int, channels: int, height: int, width: int,
) -> np.ndarray:  # fmt: skip
    """Each bin's gradient at the pixel that was its maximum."""
    check(rois.ndim == 2 and rois.shape[1] == 5, "Tensor rois should have shape as Tensor[K, 5]")
    check_same(grad, rois, "grad", "roi_pool_backward_kernel")
    out = np.zeros((batch_size, channels, height, width), grad.dtype)
    if grad.size == 0:
        return out
    check_rank(grad)
    check_dtype(grad, "roi_pool_backward_kernel", HALF_TOO)
    check_data(argmax, np.int32)
    _check_shapes(grad, rois, (channels, pooled_height, pooled_width))
    _check_indices(argmax, grad.shape, -1, height * width)
    for roi, one, pixels in zip(rois, grad, argmax):
        channel, *bin_of = np.nonzero(pixels != -1)
        planes = image_of(out, roi).reshape(channels, -1)
        np.add.at(planes, (channel, pixels[channel, *bin_of]), one[channel, *bin_of])
    return out


@torchnp.kernel(
    "torchvision::_ps_roi_pool_backward",
    schema="_ps_roi_pool_backward(Tensor grad, Tensor rois, Tensor channel_mapping, float spatial_scale, "
    "SymInt pooled_height, SymInt pooled_width, SymInt batch_size, SymInt channels, SymInt height, SymInt width) -> Tensor",
)
def _ps_roi_pool_backward(
    grad: np.ndarray, rois: np.ndarray, channel_mapping: np.ndarray, spatial_scale: float, pooled_height: int,
    pooled_width: int, batch_size: int, channels: int, height: int, width: int,
) -> np.ndarray:  # fmt: skip
    """Each bin's gradient spread evenly over its pixels, of its own channel."""
    check_same(grad, rois, "grad", "ps_roi_pool_backward_kernel")
    out = np.zeros((batch_size, channels, height, width), grad.dtype)
    if grad.size == 0:
        return out
    check_dtype(grad, "ps_roi_pool_backward_kernel", HALF_TOO)
    check_data(channel_mapping, np.int32)
    pooled, t = (pooled_height, pooled_width), grad.dtype.type
    _check_shapes(grad, rois, (channels // (pooled_height * pooled_width), *pooled))
    _check_indices(channel_mapping, grad.shape, 0, channels)
    for roi, one, chosen in zip(rois, grad, channel_mapping):
        image = image_of(out, roi)
        # Unlike `ps_roi_pool`, the gradient covers the last row and column too, and rounds the corners as float32.
        ys, xs = bins_of(roi, t(spatial_scale), pooled, (height, width), more=0, narrow=True)
        for i, (top, bottom) in enumerate(ys):
            for j, (left, right) in enumerate(xs):
                if bottom > top and right > left:
                    share = one[:, i, j] / t((bottom - top) * (right - left))
                    np.add.at(image[:, top:bottom, left:right], chosen[:, i, j], share[:, None, None])
    return out


def _share_out(
    image: np.ndarray, grad: np.ndarray, channels: np.ndarray, start: tuple, size: tuple, sampling_ratio: int
) -> None:
    """Add a box's gradients (by result, row and column of bins) to an image in place, each to its bin's channel."""
    t, pooled = grad.dtype.type, grad.shape[1:]
    grids = [grid_of(s, n, sampling_ratio) for s, n in zip(size, pooled)]
    axes = [
        # For each axis, an array with dimensions bins, points, and the pixels before and after.
        [np.stack(pair, -1) for pair in ((low.T, high.T), (before.T, after.T), (within.T, within.T))]
        for low, high, before, after, within in (
            neighbours(points_of(a, s, n, sampling_ratio), length)
            for a, s, n, length in zip(start, size, pooled, image.shape[1:])
        )
    ]
    # Bins by rows and columns, then points, then the four pixels: the order in which torchvision adds.
    (y, down, y_within), (x, right, x_within) = (
        [a[:, None, :, None, :, None] if i == 0 else a[None, :, None, :, None, :] for a in axis]
        for i, axis in enumerate(axes)
    )
    place = (channels[..., None, None, None, None] * image.shape[1] + y) * image.shape[2] + x
    shares = grad[..., None, None, None, None] * (down * right) / t(grids[0] * grids[1])
    there = np.broadcast_to(y_within & x_within, place.shape)
    np.add.at(image.reshape(-1), place[there], shares[there])


def _check_shapes(grad: np.ndarray, rois: np.ndarray, pooled: tuple[int, ...]) -> None:
    """Refuse shapes beyond which torchvision would read."""
    if rois.ndim != 2 or rois.shape[1] != 5 or grad.shape != (len(rois), *pooled):
        raise IndexError(
            f"gradients are of shape {grad.shape}, those of boxes {rois.shape} are ({len(rois)}, {str(pooled)[1:]}"
        )


def _check_indices(indices: np.ndarray, shape: tuple[int, ...], low: int, high: int) -> None:
    """Refuse indices of pixels or channels that do not exist."""
    if indices.shape != shape or (indices < low).any() or (indices >= high).any():
        raise IndexError(f"indices of shape {indices.shape} are to be of shape {shape}, from {low} to {high - 1}")
