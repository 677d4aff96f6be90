"""Suppression of boxes that lie over better ones."""

from __future__ import annotations

import numpy as np

import torchnp
from torchnp.shipped.torchvision.argument_checks import FLOATS, check, check_dtype


@torchnp.kernel(
    "torchvision::nms",
    schema="nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    tags=["dynamic_output_shape"],  # servers refuse it, because a handle's shape cannot depend on values
)
def nms(dets: np.ndarray, scores: np.ndarray, iou_threshold: float) -> np.ndarray:
    """Indices of boxes by falling score, without those that overlap one before them by more than a threshold."""
    check(dets.ndim == 2, f"boxes should be a 2d tensor, got {dets.ndim}D")
    check(dets.shape[1] == 4, f"boxes should have 4 elements in dimension 1, got {dets.shape[1]}")
    check(scores.ndim == 1, f"scores should be a 1d tensor, got {scores.ndim}D")
    n = f"{len(dets)} and {len(scores)}"
    check(len(dets) == len(scores), f"boxes and scores should have same number of elements in dimension 0, got {n}")
    check_dtype(dets, "nms_kernel", FLOATS)
    check(dets.dtype == scores.dtype, "dets should have the same type as scores")
    x1, y1, x2, y2 = dets.T
    areas = (x2 - x1) * (y2 - y1)
    left = torchnp.aten.sort(scores, 0, True)[1]  # NaN first, equal scores in their order
    kept = []
    while left.size:
        best, left = left[0], left[1:]
        kept.append(best)
        width = _less(x2[best], x2[left]) - _greater(x1[best], x1[left])
        height = _less(y2[best], y2[left]) - _greater(y1[best], y1[left])
        zero = dets.dtype.type(0)
        inter = _greater(zero, width) * _greater(zero, height)
        overlap = inter / (areas[best] + areas[left] - inter)
        left = left[~(overlap.astype(np.float64) > iou_threshold)]  # a NaN suppresses nothing
    return np.array(kept, np.int64)


def _greater(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """C++'s maximum, which gives its first argument where one is NaN."""
    return np.where(a < b, b, a)


def _less(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(b < a, b, a)
