"""Where boxes, their bins and the points in these lie in images, rounded step by step as torchvision's kernels do."""

from __future__ import annotations

import math

import numpy as np


def image_of(input: np.ndarray, roi: np.ndarray) -> np.ndarray:
    """The image that a box is of."""
    if not 0 <= roi[0] < len(input):
        raise IndexError(f"a box is of image {roi[0]}, and there are {len(input)}")  # torchvision reads beyond them
    return input[int(roi[0])]


def box_of(roi: np.ndarray, scale: np.floating, offset: np.floating) -> tuple[tuple, tuple]:
    """Where a box begins and how large it is, both downwards and to the right, in pixels."""
    left, top, right, bottom = roi[1:] * scale - offset
    return (top, left), (bottom - top, right - left)


def grid_of(size: np.floating, bins: int, sampling_ratio: int) -> int:
    """How many points a bin has in one direction."""
    return sampling_ratio if sampling_ratio > 0 else math.ceil(size / type(size)(bins))


def points_of(start: np.floating, size: np.floating, bins: int, sampling_ratio: int) -> np.ndarray:
    """The coordinates of each bin's points in one direction: points by bins."""
    t, grid = type(start), grid_of(size, bins, sampling_ratio)
    step = size / t(bins)
    inside = (np.arange(grid) + 0.5).astype(t) * step / t(max(grid, 1))
    return (start + np.arange(bins).astype(t) * step) + inside[:, None]


def neighbours(points: np.ndarray, length: int) -> tuple[np.ndarray, ...]:
    """The pixels before and after each point in one direction, their weights, and which points are in the image."""
    within = (points >= -1) & (points <= length)
    at = np.where(within & (points > 0), points, points.dtype.type(0))
    low = at.astype(np.int64)
    last = low >= length - 1
    low = np.where(last, length - 1, low)
    high = np.where(last, low, low + 1)
    after = np.where(last, points.dtype.type(0), at - low.astype(at.dtype))
    return low, high, 1 - after, after, within


def bins_of(
    roi: np.ndarray, scale: np.floating, bins: tuple[int, int], most: tuple[int, ...], more: int, narrow: bool = False
) -> list[list[tuple[int, int]]]:
    """Where each bin of a box begins and ends, in whole pixels, downwards and to the right.

    With ``narrow``, the corners are rounded to float32 first.
    """
    corners = roi[1:] * scale
    left, top, right, bottom = map(int, _rounded(corners.astype(np.float32) if narrow else corners))
    t = roi.dtype.type
    found = []
    for start, end, n, limit in ((top, bottom, bins[0], most[0]), (left, right, bins[1], most[1])):
        step = t(max(end - start + more, 1)) / t(n)
        edges = [(math.floor(t(i) * step) + start, math.ceil(t(i + 1) * step) + start) for i in range(n)]
        found.append([(min(max(a, 0), limit), min(max(b, 0), limit)) for a, b in edges])
    return found


def _rounded(x: np.ndarray) -> np.ndarray:
    """C's rounding, halves away from zero."""
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.sign(x), whole)
