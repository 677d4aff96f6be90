"""Cross-correlation and its two adjoints, as matrix products over windows.

Shapes: ``x`` (N, C, *S), ``w`` (O, C / groups, *K), ``y`` (N, O, *P). All three functions compute in the dtype of their
operands. Windows are copied into columns (im2col) for one block of items, groups and lines of the result at a time. If
image rows are short, the columns have channels innermost, because copies then run over longer stretches of memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from torchnp.kernels._spatial import Ints, add_taps, empty, in_format, out_sizes, pad, tap_slices, taps, windows
from torchnp.kernels.numerics.blocks import row_major_blocks
from torchnp.thresholds import Threshold

ndarray = np.ndarray

# Bytes of a block's columns, which are many times larger than their part of the image. If the weight is larger, columns
# may be as large as it is, because each product reads the whole weight.
_BUDGET: Threshold = 1 << 20


class _Block(NamedTuple):
    """A part of a correlation: slices of the items, the groups, and the lines of the result along its ``axis``."""

    items: slice
    groups: slice
    lines: slice
    axis: int

    def of(self, x: ndarray, groups: int) -> ndarray:
        """Return this part's items and channels of an array that has the channels of all groups."""
        each = x.shape[1] // groups
        return x[self.items, self.groups.start * each : self.groups.stop * each]

    def result(self, y: ndarray, groups: int) -> ndarray:
        """Return this part of a result."""
        return self.of(y, groups)[(slice(None),) * self.axis + (self.lines,)]

    def padding(self, before: Ints, after: Ints, size: int, line: int, step: int) -> tuple[Ints, Ints]:
        """Return the padding that makes this part's lines a whole image; negative amounts crop.

        ``size`` is the image's size along the axis, ``line`` the extent of a window, ``step`` the stride between
        windows.
        """
        d, start = self.axis - 2, self.lines.start * step
        beyond = (self.lines.stop - 1) * step + line - before[d] - size
        return (*before[:d], before[d] - start, *before[d + 1 :]), (*after[:d], beyond, *after[d + 1 :])


def _blocks(x: ndarray, w: ndarray, out: Ints, groups: int, copies: int) -> Iterator[_Block]:
    """Divide a correlation with result sizes ``out`` into blocks, along the first dimension larger than 1.

    ``copies`` is the number of elements in memory per point and group.
    """
    d = next((i for i, n in enumerate(out) if n > 1), 0)
    line = copies * math.prod(out) // out[d] * x.itemsize
    for items, some, lines in row_major_blocks((len(x), groups, out[d]), line, max(_BUDGET, w.nbytes)):
        yield _Block(items, some, lines, d + 2)


def _as_points(kernel: Ints, dilation: Ints, c: int, out: Ints, groups: int, channels_last: bool) -> bool:
    """Return whether to lay out columns with one row per point and channels innermost."""
    dense = groups == 1 and min(dilation) == max(dilation) == 1
    return dense and (channels_last or kernel[-1] * c > 2 * out[-1])


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
    as_points = _as_points(kernel, dilation, c, out, groups, channels_last)
    by_channel = per_group == 1 and groups == c > 1 and o % c == 0
    turned = np.moveaxis(w, 1, -1).reshape(o, -1).T if as_points else w.reshape(groups, o // groups, -1)
    y = empty((n, o, *out), x.dtype, channels_last)
    copies = 1 + 3 * o // c if by_channel else math.prod(w.shape[1:])
    for block in _blocks(x, w, out, groups, copies) if y.size else ():
        d = block.axis - 2
        amounts = block.padding(before, after, sizes[d], dilation[d] * (kernel[d] - 1) + 1, stride[d])
        image, part = block.of(x, groups), block.result(y, groups)
        shape = (len(part), *part.shape[2:])
        if as_points:
            found = np.matmul(_columns_last(image, kernel, shape[1:], stride, *amounts), turned)
            part[...] = np.moveaxis(found.reshape(*shape, o), -1, 1)
            continue
        image, weight = pad(image, *amounts), turned[block.groups]
        if by_channel:
            part[...] = _depthwise(image, weight, kernel, shape[1:], stride, dilation)
        else:
            columns = _columns(image, kernel, shape[1:], stride, dilation)
            columns = columns.reshape(len(part), len(weight), -1, math.prod(shape[1:]))
            part[...] = np.matmul(weight, columns).reshape(part.shape)
    return y


def correlate_input(
    y: ndarray, w: ndarray, sizes: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int,
    channels_last: bool, half: bool = False,
) -> ndarray:  # fmt: skip
    """Compute the adjoint in ``x`` (spatial sizes ``sizes``): add each ``y`` times ``w`` to its window.

    With ``half``, each product and sum is rounded to float16 as in torch, which matters if one overflows.
    """
    n, o, *out = y.shape
    per_group, *kernel = w.shape[1:]
    spread = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    half = half and not _largest(y) * _largest(w) * math.prod(kernel) * (o // groups) < 65504
    # If windows are larger than ``y``, they overlap nearly everywhere, and `correlate` does not pay off. If ``w`` is
    # not finite, the padding's zeros times inf would give NaN.
    few = math.prod(out) < math.prod(kernel)
    if max(stride) == 1 and not few and not half and np.isfinite(w).all():
        before = [k - 1 - p for k, p in zip(spread, padding, strict=True)]
        after = [s + k - 1 - b - m for s, k, b, m in zip(sizes, spread, before, out, strict=True)]
        flipped = np.flip(w, tuple(range(2, w.ndim))).reshape(groups, o // groups, per_group, *kernel)
        flipped = flipped.swapaxes(1, 2).reshape(groups * per_group, o // groups, *kernel)
        return correlate(y, flipped, stride, before, after, dilation, groups, channels_last)
    padded = [
        max(s + 2 * p, t * (m - 1) + k) for s, p, t, m, k in zip(sizes, padding, stride, out, spread, strict=True)
    ]
    x = empty((n, groups * per_group, *sizes), y.dtype, channels_last)
    y, weight = np.ascontiguousarray(y), w.reshape(groups, o // groups, per_group, *kernel)
    y = y.reshape(n, groups, o // groups, *out)
    item = per_group * math.prod(kernel) * math.prod(out) * y.itemsize
    inner: Any = (..., *(slice(p, p + s) for p, s in zip(padding, sizes, strict=True)))
    for items, some in row_major_blocks((n, groups), item, _BUDGET) if x.size else ():
        part, own = y[items, some], weight[some]
        total = np.zeros((*part.shape[:2], per_group, *padded), np.float16 if half else y.dtype)
        _spread(total, part, own, stride, dilation)
        x[items, some.start * per_group : some.stop * per_group] = total.reshape(len(part), -1, *padded)[inner]
    return x


def _spread(x: ndarray, y: ndarray, w: ndarray, stride: Ints, dilation: Ints) -> None:
    """Add to ``x`` (N, G, C, *S) the products of ``y`` (N, G, O, *P) and ``w`` (G, O, C, *K) at their windows."""
    (n, groups, o), out = y.shape[:3], y.shape[3:]
    c, kernel = w.shape[2], w.shape[3:]
    y, w = y.reshape(n, groups, o, -1), w.reshape(groups, o, c, -1)
    if by_point := math.prod(out) < math.prod(kernel):  # reversed, so that each sum adds the taps in order
        order, sizes, steps = taps(out)[::-1], kernel, (dilation, stride)
        rows, w = y.swapaxes(2, 3)[:, :, ::-1], w.reshape(groups, o, -1)
    else:
        order, sizes, steps = taps(kernel), out, (stride, dilation)
        w = w.transpose(0, 3, 2, 1)
    for (at,) in row_major_blocks((len(order),), x.itemsize * n * groups * c * math.prod(sizes), _BUDGET):
        if by_point:
            columns = np.matmul(rows[:, :, at], w)
        else:
            columns = np.matmul(w[:, at].reshape(groups, -1, o), y)
        columns = columns.astype(x.dtype, copy=False).reshape(n, groups, -1, c, *sizes)
        add_taps(x, zip(order[at], np.moveaxis(columns, 2, 0), strict=True), *steps)


def _largest(x: ndarray) -> float:
    return float(max(x.max(initial=0), -x.min(initial=0)))


def correlate_weight(
    x: ndarray, y: ndarray, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int, channels_last: bool
) -> ndarray:
    """Compute the adjoint in ``w``: for each weight, the sum of the products of its inputs and outputs."""
    n, c, *sizes = x.shape
    o, out = y.shape[1], y.shape[2:]
    per_group = c // groups
    if n * math.prod(out) * c == 0:
        return in_format(np.zeros((o, per_group, *kernel), x.dtype), channels_last)
    as_points = _as_points(kernel, dilation, c, out, groups, channels_last)
    shape = (1, o, math.prod(kernel) * c) if as_points else (groups, o // groups, per_group * math.prod(kernel))
    w = np.zeros(shape, x.dtype)
    for block in _blocks(x, w, out, groups, per_group * math.prod(kernel)):
        d = block.axis - 2
        line = dilation[d] * (kernel[d] - 1) + 1
        image, part, total = block.of(x, groups), block.result(y, groups), w[block.groups]
        amounts = block.padding(padding, padding, sizes[d], line, stride[d])
        points = math.prod(part.shape[2:])
        if as_points:
            columns = _columns_last(image, kernel, part.shape[2:], stride, *amounts)
            total += np.matmul(np.moveaxis(part, 1, -1).reshape(-1, o).T, columns)
            continue
        columns = _columns(pad(image, *amounts), kernel, part.shape[2:], stride, dilation)
        columns = columns.reshape(len(part), len(total), -1, points)
        for item, own in zip(part.reshape(len(part), len(total), -1, points), columns, strict=True):
            total += np.matmul(item, own.swapaxes(1, 2))
    if as_points:
        return in_format(np.moveaxis(w.reshape(o, *kernel, c), -1, 1), channels_last)
    return in_format(w.reshape(o, per_group, *kernel), channels_last)


def _columns(x: ndarray, kernel: Ints, out: Ints, stride: Ints, dilation: Ints) -> ndarray:
    """Copy all windows of a padded array: (N, C, *K, *P)."""
    return windows(x, kernel, out, stride, dilation).copy()


def _columns_last(x: ndarray, kernel: Ints, out: Ints, stride: Ints, before: Ints, after: Ints) -> ndarray:
    """Pad an array and copy all its windows with channels innermost: (N * P, K * C)."""
    n, c = x.shape[:2]
    padded = pad(np.moveaxis(x, 1, -1), (*before, 0), (*after, 0))
    steps = padded.strides[1:-1]
    by_window = [t * s for t, s in zip(stride, steps, strict=True)]
    # The last kernel dimension and the channels are adjacent in memory, so they are one dimension here.
    window = (*kernel[:-1], kernel[-1] * c)
    view = np.ndarray((n, *out, *window), x.dtype, padded, 0, (padded.strides[0], *by_window, *steps[:-1], x.itemsize))
    return view.reshape(n * math.prod(out), math.prod(window))


def _depthwise(x: ndarray, w: ndarray, kernel: Ints, out: Ints, stride: Ints, dilation: Ints) -> ndarray:
    """Correlate with one or more filters per channel, ``w`` (C, filters, K), tap by tap and without columns.

    If the image is not much larger than the result, its lines are added as one long row. Elements between the lines of
    the
    result are then computed too, and dropped.
    """
    n, c, *sizes = x.shape
    filters = w.shape[1]
    lines = tuple(out)
    x = x.reshape(n, c, 1, *sizes)
    if flat := max(stride) == 1 and math.prod(sizes) <= 2 * math.prod(out):
        steps = [s // x.itemsize for s in x.strides[3:]]
        lines = (sum((p - 1) * s for p, s in zip(out, steps, strict=True)) + 1,)
        x = x.reshape(n, c, 1, -1)
        starts = [sum(i * d * s for i, d, s in zip(tap, dilation, steps, strict=True)) for tap in taps(kernel)]
        shifted = [x[..., start : start + lines[0]] for start in starts]
    else:
        shifted = [x[(..., *tap_slices(tap, out, stride, dilation))] for tap in taps(kernel)]
    y = np.empty((n, c, filters, math.prod(sizes) if flat else math.prod(out)), x.dtype)
    total = y[..., : math.prod(lines)].reshape(n, c, filters, *lines)
    part = np.empty_like(total)
    for i, image in enumerate(shifted):
        np.multiply(image, w[:, :, i].reshape(c, filters, *[1] * len(lines)), out=part if i else total)
        if i:
            total += part
    total += 0  # torch's sum starts with 0, so a sum of -0 is 0
    inner: Any = (..., *(slice(p) for p in out))
    return y.reshape(n, c * filters, *(sizes if flat else out))[inner]
