"""Samples for torchvision's operators: ``python -m opinfo_tests --ops 'torchvision::*'``; the tests record them, too.

Only `nms` gets random calls from its schema: the other operators do not check image numbers and coordinates, and read
beyond the images if these are wrong.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

with contextlib.suppress(ImportError):  # not needed for recorded calls
    import torchvision  # noqa: F401  registers its operators

DTYPES = ("float32", "float64", "float16")
COUNT = 12  # samples of each operator and dtype; gradients have half as many
TRUSTS = "it reads memory beyond what it is given where coordinates or numbers of images are wrong"
FORWARD = ("roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool", "deform_conv2d")
GRADIENTS = tuple(f"_{name}_backward" for name in FORWARD)
UNDRAWN = {f"torchvision::{name}": TRUSTS for name in (*FORWARD, *GRADIENTS)}
# Made with opinfo_tests.generate.constraints.constraint.rule, if it can be imported.
RULES: tuple = ()
with contextlib.suppress(ImportError):
    from opinfo_tests.generate.constraints.constraint import C, T, rule

    RULES = (
        rule(
            "torchvision::nms",
            args={"dets": T("n 4"), "scores": T("n"), "iou_threshold": C((0.1, 0.5, 0.9))},
            dtypes="wide",
            sizes={"n": (0, 9)},
        ),
    )


def samples(op: str, dtype: str) -> Iterator[tuple[tuple, dict[str, Any]]]:
    """Yield the calls of an operator in a dtype, always the same; for the dtype ``errors``, calls that raise."""
    name = op.removeprefix("torchvision::")
    if name not in ("nms", *FORWARD, *GRADIENTS):
        return
    made = {"nms": _nms, "deform_conv2d": _deform_conv2d}.get(name, _gradient if name in GRADIENTS else _pooling)
    if dtype == "errors":
        for args in _refused(name):
            yield args, {}
    elif dtype in DTYPES and not (name == "nms" and dtype == "float16"):
        for turn in range(COUNT // 2 if name in GRADIENTS else COUNT):
            yield made(name, np.random.default_rng([turn, DTYPES.index(dtype)]), turn, np.dtype(dtype)), {}


def _nms(name: str, rng: np.random.Generator, turn: int, dtype: np.dtype) -> tuple:
    n = (0, 1, 7, 40)[turn % 4]
    corners = rng.uniform(0, 10, (n, 2))
    boxes = np.hstack([corners, corners + rng.uniform(-1 if turn % 5 == 0 else 0, 6, (n, 2))])
    scores = rng.uniform(0, 1, n)
    if turn % 3 == 1:  # ties, and overlaps equal to the threshold
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
    corners = np.sort(rng.uniform(-3, 20, (n, 2, 2)), 1)  # some boxes extend beyond the image, on all sides
    if turn % 4 == 1:
        corners = np.round(corners)
    if turn % 4 == 3:
        corners[:, 1] = corners[:, 0] - turn % 3  # malformed or empty boxes
    rois = np.hstack([rng.integers(0, images, (n, 1)), corners.reshape(n, 4)])
    args: tuple = input.astype(dtype), rois.astype(dtype), float(rng.choice([1, 0.5, 0.3])), *pooled
    if name.endswith("align"):
        args = *args, int(rng.integers(-1, 4))
    return (*args, bool(turn % 2)) if name == "roi_align" else args


def _deform_conv2d(name: str, rng: np.random.Generator, turn: int, dtype: np.dtype) -> tuple:
    groups, offset_groups, images = (int(n) for n in rng.integers(1, 3, 3))
    stride, pad, dilation = ([int(n) for n in rng.integers(low, 3, 2)] for low in (1, 0, 1))
    taps, out = [int(n) for n in rng.integers(1, 4, 2)], [int(n) for n in rng.integers(1, 5, 2)]
    # Choose input sizes for which the output has this size, or a slightly larger one.
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


def _gradient(name: str, rng: np.random.Generator, turn: int, dtype: np.dtype) -> tuple:
    """Return arguments for a gradient operator, made from arguments of its forward operator."""
    name = name.removeprefix("_").removesuffix("_backward")
    if name == "deform_conv2d":
        args = _deform_conv2d(name, rng, turn, dtype)
        grad = rng.standard_normal((len(args[0]), len(args[1]), *args[2].shape[2:]))
        return grad.astype(dtype), *args
    input, rois, scale, height, width, *more = _pooling(name, rng, turn, dtype)
    if turn % 6 < 5:  # more boxes, so that several gradients are added in one pixel
        rois = np.repeat(rois, 2, 0)
    ps = name.startswith("ps_")
    shape = len(rois), input.shape[1] // (height * width if ps else 1), height, width
    grad = rng.standard_normal(shape)
    if turn % 6 == 5:
        grad[rng.random(shape) < 0.2] = np.inf
    if ps:
        own = [np.broadcast_to(np.arange(input.shape[1], dtype=np.int32).reshape(shape[1:]), shape).copy()]
    elif name == "roi_pool":
        own = [rng.integers(-1, input.shape[2] * input.shape[3], shape, np.int32)]
    else:
        own = []
    sizes = input.shape if name != "ps_roi_align" else (more.pop(), *input.shape)
    return grad.astype(dtype), rois, *own, scale, height, width, *sizes, *more


def _refused(name: str) -> Iterator[tuple]:
    x, rois, boxes = np.ones((1, 4, 5, 5), np.float32), np.zeros((2, 5), np.float32), np.ones((2, 4), np.float32)
    if name == "nms":
        for dets, scores in (
            (boxes[0], boxes[:, 0]), (boxes[:, :3], boxes[:, 0]), (boxes, boxes), (boxes, boxes[0]),
            (boxes, np.ones(2)), (boxes.astype(np.int64), np.ones(2, np.int64)),
            (boxes.astype(np.float16), np.ones(2, np.float16)),
        ):  # fmt: skip
            yield dets, scores, 0.5
    elif name in GRADIENTS:
        yield from _refused_gradients(name)
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
        if name != "roi_pool":  # roi_pool checks no sizes
            yield x, rois[:, :4], 1.0, 2, 2, *more
        if name.startswith("ps_"):
            yield x, rois, 1.0, 3, 2, *more


def _refused_gradients(name: str) -> Iterator[tuple]:
    x, grad, rois = np.ones((1, 4, 5, 5), np.float32), np.ones((2, 4, 2, 2), np.float32), np.zeros((2, 5), np.float32)
    if name == "_deform_conv2d_backward":
        weight, offset, mask = (np.ones(s, np.float32) for s in ((2, 4, 2, 2), (1, 8, 4, 4), (1, 4, 4, 4)))
        grad = np.ones((1, 2, 4, 4), np.float32)
        good = grad, x, weight, offset, mask, np.ones(2, np.float32), 1, 1, 0, 0, 1, 1, 1, 1, True
        for place, value in (
            (0, grad[0]), (0, grad[:, :1]), (0, grad[..., :3]), (1, x[0]), (2, weight[0]), (2, weight[:, :3]),
            (3, offset[:, :6]), (4, mask[:, :3]), (5, np.ones(3, np.float32)), (8, 5), (12, 2), (13, 2),
            (3, offset.astype(np.float64)), (0, grad.astype(np.float64)), (2, weight.astype(np.float64)),
            (1, x.astype(np.float64)),
        ):  # fmt: skip
            yield *good[:place], value, *good[place + 1 :]
        yield *(a.astype(np.int64) for a in good[:6]), *good[6:]
        return
    which = np.zeros(grad.shape, np.int32)
    own = () if name == "_roi_align_backward" else (which,)
    numbers = {"_roi_align_backward": (*x.shape, 2, True), "_ps_roi_align_backward": (2, *x.shape)}.get(name, x.shape)
    if name.startswith("_ps_"):
        grad, own = grad[:, :1], (which[:, :1],)
    yield grad, rois.astype(np.float64), *own, 1.0, 2, 2, *numbers
    yield grad.astype(np.int64), rois.astype(np.int64), *own, 1.0, 2, 2, *numbers
    if own:
        yield grad, rois, own[0].astype(np.int64), 1.0, 2, 2, *numbers
    if name == "_roi_pool_backward":
        yield grad, rois[:, :4], *own, 1.0, 2, 2, *numbers
    if not name.startswith("_ps_"):
        yield grad[0], rois, *own, 1.0, 2, 2, *numbers
