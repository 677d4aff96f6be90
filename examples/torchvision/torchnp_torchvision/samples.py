"""Calls that the rows are judged by: `python -m opinfo_tests --ops 'torchvision::*'` with torchvision, `record.py` for the tests.

Calls are drawn from the schema for `nms` alone: the others trust the numbers of images and the coordinates that they are
given, and read memory beyond the images where those are wrong.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

with contextlib.suppress(ImportError):  # where only recorded calls are wanted
    import torchvision  # noqa: F401  it registers its operators

DTYPES = ("float32", "float64", "float16")
COUNT = 12  # samples of each operator and dtype
TRUSTS = "it reads memory beyond what it is given where coordinates or numbers of images are wrong"
UNDRAWN = {
    f"torchvision::{name}": TRUSTS for name in ("roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool", "deform_conv2d")
}
# In the form of opinfo_tests.draw.constraints.rule, with its words given as they are where it is there.
RULES: tuple = ()
with contextlib.suppress(ImportError):
    from opinfo_tests.draw.constraints import C, T, rule

    RULES = (
        rule(
            "torchvision::nms",
            args={"dets": T("n 4"), "scores": T("n"), "iou_threshold": C((0.1, 0.5, 0.9))},
            dtypes="wide",
            sizes={"n": (0, 9)},
        ),
    )


def samples(op: str, dtype: str) -> Iterator[tuple[tuple, dict[str, Any]]]:
    """Calls of an operator in a dtype, the same at every time; those that torchvision refuses for the dtype ``errors``."""
    name = op.removeprefix("torchvision::")
    made = {"nms": _nms, "deform_conv2d": _deform_conv2d}.get(name, _pooling)
    if name not in ("nms", "deform_conv2d", "roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool"):
        return
    if dtype == "errors":
        for args in _refused(name):
            yield args, {}
    elif dtype in DTYPES and not (name == "nms" and dtype == "float16"):
        for turn in range(COUNT):
            yield made(name, np.random.default_rng([turn, DTYPES.index(dtype)]), turn, np.dtype(dtype)), {}


def _nms(name: str, rng: np.random.Generator, turn: int, dtype: np.dtype) -> tuple:
    n = (0, 1, 7, 40)[turn % 4]
    corners = rng.uniform(0, 10, (n, 2))
    boxes = np.hstack([corners, corners + rng.uniform(-1 if turn % 5 == 0 else 0, 6, (n, 2))])
    scores = rng.uniform(0, 1, n)
    if turn % 3 == 1:  # ties, and overlaps of just the threshold
        boxes, scores = np.round(boxes), np.round(scores * 4) / 4
    if turn % 6 == 5:
        boxes[rng.random(boxes.shape) < 0.05] = np.nan
        scores[rng.random(n) < 0.1] = np.nan
    return boxes.astype(dtype), scores.astype(dtype), float(rng.choice([0.1, 1 / 3, 0.5, 0.7]))


def _pooling(name: str, rng: np.random.Generator, turn: int, dtype: np.dtype) -> tuple:
    images, height, width = (int(n) for n in rng.integers(1, (3, 10, 10)))
    pooled = ((1, 1), (2, 2), (4, 1), (1, 2), (3, 2))[turn % 5]
    channels = pooled[0] * pooled[1] * int(rng.integers(1, 3)) if name.startswith("ps_") else int(rng.integers(1, 4))
    input = rng.standard_normal((images, channels, height, width))
    if turn % 6 == 5:
        input[rng.random(input.shape) < 0.1] = np.nan
        input[rng.random(input.shape) < 0.1] = np.inf
    n = int(rng.integers(0, 5))
    corners = np.sort(rng.uniform(-3, 20, (n, 2, 2)), 1)  # some beyond the image, on all sides
    if turn % 4 == 1:
        corners = np.round(corners)
    if turn % 4 == 3:
        corners[:, 1] = corners[:, 0] - turn % 3  # malformed, or empty
    rois = np.hstack([rng.integers(0, images, (n, 1)), corners.reshape(n, 4)])
    args = input.astype(dtype), rois.astype(dtype), float(rng.choice([1, 0.5, 0.3])), *pooled
    if name.endswith("align"):
        args = *args, int(rng.integers(-1, 4))
    return (*args, bool(turn % 2)) if name == "roi_align" else args


def _deform_conv2d(name: str, rng: np.random.Generator, turn: int, dtype: np.dtype) -> tuple:
    groups, offset_groups, images = (int(n) for n in rng.integers(1, 3, 3))
    stride, pad, dilation = ([int(n) for n in rng.integers(low, 3, 2)] for low in (1, 0, 1))
    taps, out = [int(n) for n in rng.integers(1, 4, 2)], [int(n) for n in rng.integers(1, 5, 2)]
    # As large as gives results of this size, or a little larger.
    size = [(o - 1) * s + d * (k - 1) + 1 - 2 * p for o, s, d, k, p in zip(out, stride, dilation, taps, pad)]
    out = [o + max(0, -((n - 1) // s)) for o, n, s in zip(out, size, stride)]
    size = [(o - 1) * s + d * (k - 1) + 1 - 2 * p for o, s, d, k, p in zip(out, stride, dilation, taps, pad)]
    channels, results = 2 * int(rng.integers(1, 3)), groups * int(rng.integers(1, 3))
    offset = rng.uniform(-3, 3, (images, 2 * offset_groups * taps[0] * taps[1], *out))
    args = (
        rng.standard_normal((images, channels, *size)),
        rng.standard_normal((results, channels // groups, *taps)),
        np.round(offset) if turn % 3 == 0 else offset,
        rng.uniform(0, 1, (images, offset_groups * taps[0] * taps[1], *out)),
        rng.standard_normal(results),
    )
    numbers = *stride, *pad, *dilation, groups, offset_groups, turn % 4 > 0
    return *(x.astype(dtype) for x in args), *numbers


def _refused(name: str) -> Iterator[tuple]:
    x, rois, boxes = np.ones((1, 4, 5, 5), np.float32), np.zeros((2, 5), np.float32), np.ones((2, 4), np.float32)
    if name == "nms":
        for dets, scores in (
            (boxes[0], boxes[:, 0]), (boxes[:, :3], boxes[:, 0]), (boxes, boxes), (boxes, boxes[0]),
            (boxes, np.ones(2)), (boxes.astype(np.int64), np.ones(2, np.int64)),
            (boxes.astype(np.float16), np.ones(2, np.float16)),
        ):  # fmt: skip
            yield dets, scores, 0.5
    elif name == "deform_conv2d":
        weight, offset, mask = (np.ones(s, np.float32) for s in ((2, 4, 2, 2), (1, 8, 4, 4), (1, 4, 4, 4)))
        good = x, weight, offset, mask, np.ones(2, np.float32), 1, 1, 0, 0, 1, 1, 1, 1, True
        changes = [(0, x[0]), (2, offset[0]), (1, weight[0]), (7, -1), (9, 0), (1, weight[:, :3]), (2, offset[:, :6])]
        changes += [
            (3, mask[:, :3]),
            (2, np.ones((2, 8, 4, 4), np.float32)),
            (2, offset[..., :3]),
            (12, 3),
            (3, mask[..., :3]),
        ]
        for place, value in changes:
            yield *good[:place], value, *good[place + 1 :]
    else:
        more = {"roi_align": (-1, True), "ps_roi_align": (-1,)}.get(name, ())
        yield x, rois.astype(np.float64), 1.0, 2, 2, *more
        yield x.astype(np.int64), rois.astype(np.int64), 1.0, 2, 2, *more
        if name != "roi_pool":  # which looks at no sizes
            yield x, rois[:, :4], 1.0, 2, 2, *more
        if name.startswith("ps_"):
            yield x, rois, 1.0, 3, 2, *more
