"""Cross-correlation and its two adjoints, as matrix products over windows.

Shapes: ``x`` (N, C, *S), ``w`` (O, C / groups, *K), ``y`` (N, O, *P). All three products run in the dtype of their
operands. If image rows are short, columns are laid out with channels innermost, because copies then run over longer
stretches of memory.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np

from torchnp.kernels._spatial import Ints, empty, in_format, out_sizes, pad, tap_slices, taps
from torchnp.threads import blocks
from torchnp.thresholds import Threshold

ndarray = np.ndarray

# Columns are many times larger than the image: batches are split into parts whose columns about fit the caches.
_BUDGET: Threshold = 1 << 22


def _parts(n: int, item: int) -> list[slice]:
    """Split a batch of ``n`` items of ``item`` bytes into parts of about the budget."""
    return list(blocks(n, max(_BUDGET // max(item, 1), 1)))


def correlate(
    x: ndarray, w: ndarray, stride: Ints, before: Ints, after: Ints, dilation: Ints, groups: int, channels_last: bool
) -> ndarray:
    """``y[n, o, p] = sum over c, k of x[n, c, p * stride + k * dilation - before] * w[o, c, k]``."""
    n, c, *sizes = x.shape
    o, per_group, *kernel = w.shape
    padded = [s + b + a for s, b, a in zip(sizes, before, after, strict=True)]
    out = out_sizes(padded, kernel, stride, [0] * len(kernel), dilation)
    if c * math.prod(kernel) == 0 or n == 0:
        return in_format(np.zeros((n, o, *out), x.dtype), channels_last)
    if math.prod(kernel) == 1 and groups == 1 and not any(before) and not any(after) and not channels_last:
        kept: Any = (..., *(slice(None, None, s) for s in stride))
        x = np.ascontiguousarray(x if max(stride) == 1 else x[kept])
        return np.matmul(w.reshape(o, c), x.reshape(n, c, -1)).reshape(n, o, *x.shape[2:])
    parts = _parts(n, c * math.prod(kernel) * math.prod(out) * x.itemsize)
    if len(parts) > 1:
        rest = (w, stride, before, after, dilation, groups, channels_last)
        return np.concatenate([correlate(x[part], *rest) for part in parts])
    if groups == 1 and min(dilation) == max(dilation) == 1 and (channels_last or kernel[-1] * c > 2 * out[-1]):
        columns = _columns_last(x, kernel, out, stride, before, after)
        y = np.matmul(columns, np.moveaxis(w, 1, -1).reshape(o, -1).T).reshape(n, *out, o)
        return in_format(np.moveaxis(y, -1, 1), channels_last)
    x = pad(x, before, after)
    if per_group == 1 and groups == c > 1 and o % c == 0:
        return in_format(_depthwise(x, w, out, stride, dilation), channels_last)
    columns = _columns(x, kernel, out, stride, dilation)
    columns = columns.reshape(n, groups, per_group * math.prod(kernel), math.prod(out))
    y = np.matmul(w.reshape(groups, o // groups, -1), columns).reshape(n, o, *out)
    return in_format(y, channels_last)


def correlate_input(
    y: ndarray, w: ndarray, sizes: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int,
    channels_last: bool, half: bool = False,
) -> ndarray:  # fmt: skip
    """The adjoint in ``x``: each ``y`` spreads ``w`` over its window. ``sizes`` are the spatial sizes of ``x``.

    With ``half``, each weight's contribution and each sum is rounded to float16, as in torch: overflow shows it.
    """
    n, o, *out = y.shape
    per_group, *kernel = w.shape[1:]
    spread = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    half = half and not _largest(y) * _largest(w) * math.prod(kernel) * (o // groups) < 65504
    if max(stride) == 1 and not half and np.isfinite(w).all():  # zeros beyond the edge times inf would give NaN
        before = [k - 1 - p for k, p in zip(spread, padding, strict=True)]
        after = [s + k - 1 - b - m for s, k, b, m in zip(sizes, spread, before, out, strict=True)]
        flipped = np.flip(w, tuple(range(2, w.ndim))).reshape(groups, o // groups, per_group, *kernel)
        flipped = flipped.swapaxes(1, 2).reshape(groups * per_group, o // groups, *kernel)
        return correlate(y, flipped, stride, before, after, dilation, groups, channels_last)
    padded = [
        max(s + 2 * p, t * (m - 1) + k) for s, p, t, m, k in zip(sizes, padding, stride, out, spread, strict=True)
    ]
    c = groups * per_group
    parts = _parts(n, c * math.prod(kernel) * math.prod(out) * y.itemsize)
    if len(parts) > 1:
        rest = (w, sizes, stride, padding, dilation, groups, channels_last, half)
        return np.concatenate([correlate_input(y[part], *rest) for part in parts])
    x = np.zeros((n, c, *padded), y.dtype)
    if x.size and o:
        grouped = np.ascontiguousarray(y).reshape(n, groups, o // groups, math.prod(out))
        columns = np.matmul(w.reshape(groups, o // groups, -1).swapaxes(1, 2), grouped)
        columns = (columns.astype(np.float16) if half else columns).reshape(n, c, *kernel, *out)
        for tap in taps(kernel):
            at: Any = (..., *tap_slices(tap, out, stride, dilation))
            x[at] += columns[(slice(None), slice(None), *tap)]
            if half:
                x[at] = x[at].astype(np.float16)
    inner: Any = (..., *(slice(p, p + s) for p, s in zip(padding, sizes, strict=True)))
    return in_format(x[inner], channels_last)


def _largest(x: ndarray) -> float:
    return float(max(x.max(initial=0), -x.min(initial=0)))


def correlate_weight(
    x: ndarray, y: ndarray, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int, channels_last: bool
) -> ndarray:
    """The adjoint in ``w``: each weight sums the products of its inputs and outputs."""
    n, c, *sizes = x.shape
    o, out = y.shape[1], y.shape[2:]
    per_group = c // groups
    points = math.prod(out)
    if n * points * c == 0:
        return in_format(np.zeros((o, per_group, *kernel), x.dtype), channels_last)
    parts = _parts(n, c * math.prod(kernel) * points * x.itemsize)
    if len(parts) > 1:
        rest = (kernel, stride, padding, dilation, groups, channels_last)
        return reduce(np.add, (correlate_weight(x[part], y[part], *rest) for part in parts))
    if groups == 1 and min(dilation) == max(dilation) == 1 and (channels_last or kernel[-1] * c > 2 * out[-1]):
        after = [
            max(p, t * (m - 1) + k - s - p) for s, p, t, m, k in zip(sizes, padding, stride, out, kernel, strict=True)
        ]
        columns = _columns_last(x, kernel, out, stride, padding, after)
        w = np.matmul(np.moveaxis(y, 1, -1).reshape(-1, o).T, columns).reshape(o, *kernel, c)
        return in_format(np.moveaxis(w, -1, 1), channels_last)
    columns = _columns(pad(x, padding, padding), kernel, out, stride, dilation)
    columns = columns.reshape(n, groups, -1, points)
    w = np.matmul(y.reshape(n, groups, o // groups, points), columns.swapaxes(2, 3))
    w = w[0] if n == 1 else w.sum(0, dtype=w.dtype)
    return in_format(w.reshape(o, per_group, *kernel), channels_last)


def _columns(x: ndarray, kernel: Ints, out: Ints, stride: Ints, dilation: Ints) -> ndarray:
    """All windows of a padded array, copied: (N, C, *K, *P)."""
    steps = x.strides[2:]
    by_tap = [d * s for d, s in zip(dilation, steps, strict=True)]
    by_window = [t * s for t, s in zip(stride, steps, strict=True)]
    shape = (*x.shape[:2], *kernel, *out)
    # Making an np.ndarray over a buffer is 10 times cheaper than as_strided.
    return np.ndarray(shape, x.dtype, x, 0, (*x.strides[:2], *by_tap, *by_window)).copy()


def _columns_last(x: ndarray, kernel: Ints, out: Ints, stride: Ints, before: Ints, after: Ints) -> ndarray:
    """All windows of an array, padded and copied with channels innermost: (N * P, K * C)."""
    n, c = x.shape[:2]
    padded = pad(np.moveaxis(x, 1, -1), (*before, 0), (*after, 0))
    steps = padded.strides[1:-1]
    by_window = [t * s for t, s in zip(stride, steps, strict=True)]
    # The last kernel dimension and the channels are adjacent in memory: one run.
    window = (*kernel[:-1], kernel[-1] * c)
    view = np.ndarray((n, *out, *window), x.dtype, padded, 0, (padded.strides[0], *by_window, *steps[:-1], x.itemsize))
    return view.reshape(n * math.prod(out), math.prod(window))


def _depthwise(x: ndarray, w: ndarray, out: Ints, stride: Ints, dilation: Ints) -> ndarray:
    """One or more filters per channel: products tap by tap, without columns."""
    n, c = x.shape[:2]
    o, _, *kernel = w.shape
    y = np.zeros((n, c, o // c, *out), x.dtype)
    weights = w.reshape(c, o // c, -1)
    part = empty(y.shape, y.dtype)
    for i, tap in enumerate(taps(kernel)):
        at: Any = (..., *tap_slices(tap, out, stride, dilation))
        shifted = x[at][:, :, None]
        np.multiply(shifted, weights[:, :, i].reshape(c, o // c, *[1] * len(out)), out=part)
        y += part
    return y.reshape(n, o, *out)
