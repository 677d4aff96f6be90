"""Adaptive pooling: the size of the result is given, and windows (bins) may differ in size and overlap."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, check_filled, require
from torchnp.core.errors import negative_size, shape_text
from torchnp.core.inplace_out_spec import Bound, WriteSpec
from torchnp.core.python_scalars import each
from torchnp.core.registry import kernel
from torchnp.core.target import since
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._memory import check_size
from torchnp.kernels._spatial import Ints, code_for, is_channels_last
from torchnp.kernels.numerics.blocks import row_major_blocks
from torchnp.kernels.pool import PoolWindows, check_sequence, max_pool, one_int, result
from torchnp.kernels.reduce import mean_dim
from torchnp.kernels.view import unsqueeze
from torchnp.layout import stride_rules
from torchnp.thresholds import Threshold

ndarray = np.ndarray


@functools.lru_cache(maxsize=256)
def bins(size: int, out: int) -> tuple[ndarray, ndarray]:
    """Return the first element and the length of each bin along one dimension."""
    i = np.arange(out)
    start = i * size // max(out, 1)
    return start, -(-(i + 1) * size // max(out, 1)) - start


def check_bins(x: ndarray, n: int, output_size: Ints, name: str) -> None:
    """Check an adaptive pool's input as torch does."""
    average = name.startswith("adaptive_avg")
    check(not average or len(output_size) == n, f"{name}: output_size must be {n}")
    if average and n == 3:
        check_filled(x, f"{name}(): Expected input", "input has sizes ", 1)
    if x.ndim not in (n + 1, n + 2):
        colon = "" if average else ":"
        raise RuntimeError(f"{name}(): Expected {n + 1}D or {n + 2}D tensor, but got{colon} {shape_text(x.shape)}")
    # torch treats the first dimension as the batch; for averages over images, it does not check the channels, either.
    check_filled(x, f"{name}(): Expected input", "input has sizes ", x.ndim - n if average and n == 2 else 1)
    check(len(output_size) == n, f"{name}(): internal error: output_size.size() must be {n}")
    shape = (*x.shape[:-n], *output_size)
    negative = next((n for n in output_size if n < 0), 0)
    if negative and (n == 2 or not average or 0 not in shape):
        raise RuntimeError("numel: integer multiplication overflow") if average else negative_size(negative, shape)
    if n != 2 or 0 not in shape or not average:  # torch calls no kernel for an image average with an empty result
        require(code_for(name, x) if n == 2 else f"{name}_cpu", x.dtype, dt.FLOATS)


# ---------------------------------------------------------------- average


def _adaptive_avg(x: ndarray, output_size: Ints, *, n: int) -> ndarray:
    check_bins(x, n, output_size, f"adaptive_avg_pool{n}d")
    if x.shape[-n:] == tuple(output_size):
        return result(x + x.dtype.type(0), x, n)  # torch's sums start at 0, which turns -0 into 0
    wide = dt.opmath(x.dtype) if n == 2 else x.dtype  # for volumes torch rounds each partial sum
    if x.ndim < n + 2 or 0 in (*x.shape, *output_size) or not is_channels_last(x):
        return result(_bin_means(x, x.ndim - n, output_size, wide), x, n)
    return result(np.moveaxis(_bin_means(np.moveaxis(x, 1, -1), 1, output_size, wide), -1, 1), x, n)


_STRIP: Threshold = 1 << 15  # elements or sums of bins that are processed at once
_WIDE: Threshold = 1 << 6  # least number of sums that are computed side by side
_SIDE_BY_SIDE: Threshold = (
    8  # sums; from this many on, np.add.reduce over rows of sums is faster than np.add.accumulate
)


def _bin_means(x: ndarray, axis: int, output_size: Ints, wide: np.dtype) -> ndarray:
    """Return the means of bins along the dimensions from ``axis`` on, adding elements in torch's order."""
    n = len(output_size)
    before, sizes, after = x.shape[:axis], x.shape[axis : axis + n], x.shape[axis + n :]
    mean = np.empty((*before, *output_size, *after), x.dtype)
    if not mean.size:
        return mean
    along = [bins(*pair) for pair in zip(sizes, output_size, strict=True)]
    few = math.prod(output_size) < math.prod(int(length.max()) for _, length in along)
    equal = all(s % o == 0 for s, o in zip(sizes, output_size, strict=True))
    sums = math.prod((*output_size, *after))
    for block in row_major_blocks(
        before, 1, max(_STRIP // (math.prod((*sizes, *after)) if equal else sums), _WIDE // sums, 1)
    ):
        total = np.zeros(mean[block].shape, wide)
        if equal:  # split each dimension in two: bins, and elements of a bin
            split = (m for s, o in zip(sizes, output_size, strict=True) for m in (o, s // o))
            parted = x[block].reshape(*total.shape[:axis], *split, *after)
            _add_windows(total, np.moveaxis(parted, range(axis + 1, axis + 2 * n, 2), range(n)), n)
        elif few:
            for place in np.ndindex(*output_size):
                ends = ((start[i], start[i] + length[i]) for (start, length), i in zip(along, place, strict=True))
                window = x[(*block, *(slice(*pair) for pair in ends))]
                into = total[(*[slice(None)] * axis, *place)]
                _add_windows(into, np.moveaxis(window, range(axis, axis + n), range(n)), n)
        else:
            _add_bins(total, x[block], axis, along)
        for d, (_, length) in enumerate(along):
            total /= length.astype(wide).reshape(-1, *[1] * (x.ndim - axis - d - 1))
        mean[block] = dt.cast(total, x.dtype)
    return mean


def _add_windows(total: ndarray, window: ndarray, n: int) -> None:
    """Add the elements of each window, which lie along the first n dimensions, to ``total``, one after the other."""
    for block in row_major_blocks(window.shape[:n], 1, max(_STRIP // total.size, 1)):
        part = window[block]
        room = np.empty((1 + math.prod(part.shape[:n]), *total.shape), total.dtype)
        room[0] = total
        room[1:].reshape(part.shape)[...] = part
        total[...] = np.add.reduce(room, 0) if total.size >= _SIDE_BY_SIDE else np.add.accumulate(room, 0)[-1]


def _add_bins(total: ndarray, x: ndarray, axis: int, along: Sequence[tuple[ndarray, ndarray]]) -> None:
    """Add one element of each bin at a time to ``total``, in the bins' row-major order."""
    (start, length), *rest = along
    for i in range(length.max(initial=0)):
        reach = np.flatnonzero(length > i)
        part = x.take(start[reach] + i, axis)
        whole = reach.size == length.size
        into = total if whole else total.take(reach, axis)
        if rest:
            _add_bins(into, part, axis + 1, rest)
        else:
            into += part
        if not whole:
            place: tuple[Any, ...] = (*(slice(None),) * axis, reach)
            total[place] = into


_BINS = ["adaptive-bins"]
rows("_adaptive_avg_pool2d _adaptive_avg_pool3d", _adaptive_avg, "Mean over bins of an image or volume.", differs=_BINS)


def _or_mean(x: ndarray, output_size: Ints, *, n: int) -> ndarray:
    check(len(output_size) == n, f"adaptive_avg_pool{n}d: output_size must be {n}")
    if min(output_size) < 0:
        got = ", ".join(map(str, output_size)) if n == 2 else ",".join(map(str, output_size)).replace(",", ", ", 1)
        words = f"adaptive_avg_pool{n}d: elements of output_size must be greater than or equal to 0 but received"
        raise RuntimeError(f"{words} {{{got}}}")
    if tuple(output_size) == (1,) * n and stride_rules.WRITTEN.target is None:
        # Without ``out=``, torch calls mean here, which also accepts complex numbers and other ranks.
        mean = mean_dim(x, range(-1, -n - 1, -1), True)
        as_it_was = stride_rules.suggested(*stride_rules.layout_of(x))
        return stride_rules.place(mean, stride_rules.in_format(mean.shape, as_it_was))
    out = _adaptive_avg(x, output_size, n=n)
    return out if n == 2 else stride_rules.dense(out)


def _precheck_out(bound: Bound, outs: list[ndarray], *, n: int) -> None:
    """Make the checks of the pool itself, because with ``out=`` torch does not call mean."""
    if outs[0].dtype == bound["self"].dtype:
        check_bins(bound["self"], n, bound["output_size"], f"adaptive_avg_pool{n}d")


_DOC = "Mean over bins of an image or volume."
(adaptive_avg_pool2d,) = rows(
    "adaptive_avg_pool2d", _or_mean, _DOC, writes=WriteSpec(out=functools.partial(_precheck_out, n=2))
)
rows("adaptive_avg_pool3d", _or_mean, _DOC, writes=WriteSpec(out=functools.partial(_precheck_out, n=3)))


@kernel("adaptive_avg_pool1d", differs=["adaptive-bins"])
def adaptive_avg_pool1d(self: ndarray, output_size: Ints) -> ndarray:
    """Mean over bins of a sequence."""
    check_sequence(self, "adaptive_avg_pool1d")
    out = one_int(output_size, "adaptive_avg_pool1d", "output_size")
    return np.squeeze(_or_mean(unsqueeze(self, -2), (1, out), n=2), -2)


# ---------------------------------------------------------------- maximum


def _adaptive_max(x: ndarray, output_size: Ints, *, n: int) -> tuple[ndarray, ndarray]:
    out = each(output_size, n)
    check_bins(x, n, out, f"adaptive_max_pool{n}d")
    sizes = x.shape[-n:]
    v = dt.cast(x, dt.opmath(x.dtype))
    if x.size and 0 not in out and math.prod(out) < math.prod(-(-s // o) for s, o in zip(sizes, out, strict=True)):
        best, indices = _maxima_of_few_bins(v, *zip(*map(bins, sizes, out), strict=True))
    elif all(o and s % o == 0 for s, o in zip(sizes, out, strict=True)):
        kernel = tuple(s // o for s, o in zip(sizes, out, strict=True))
        best, indices = max_pool(v, PoolWindows(kernel, kernel, (0,) * n, (1,) * n, sizes, out))
    else:
        best, indices = _maxima(v, *zip(*map(bins, sizes, out), strict=True))
    return result(dt.cast(best, x.dtype), x, n), result(indices, x, n)


def _maxima_of_few_bins(x: ndarray, starts: Sequence[ndarray], lengths: Sequence[ndarray]) -> tuple[ndarray, ndarray]:
    """Compute `_maxima` bin by bin, which is faster if there are fewer bins than elements in a bin."""
    n, out = len(starts), [len(start) for start in starts]
    best = np.empty((*x.shape[:-n], *out), x.dtype)
    indices = np.empty(best.shape, np.int64)
    for place in np.ndindex(*out):
        corner = [int(start[i]) for start, i in zip(starts, place, strict=True)]
        window: Any = [slice(c, c + int(length[i])) for c, length, i in zip(corner, lengths, place, strict=True)]
        part = x[(..., *window)]
        flat = np.ascontiguousarray(part).reshape(*x.shape[:-n], -1)
        at = np.asarray(flat.argmax(-1))
        value = np.take_along_axis(flat, at[..., None], -1)[..., 0]
        last = flat.shape[-1] - 1 - np.isnan(flat[..., ::-1]).argmax(-1)
        at = np.where(np.isnan(value), last, at)
        best[(..., *place)] = value
        found = np.unravel_index(at, part.shape[-n:])
        indices[(..., *place)] = np.ravel_multi_index([f + c for f, c in zip(found, corner, strict=True)], x.shape[-n:])
    return best, indices


def _maxima(x: ndarray, starts: Sequence[ndarray], lengths: Sequence[Any]) -> tuple[ndarray, ndarray]:
    """Return the first maximum or the last NaN of each bin, in the bin's order, and its flat index in the plane.

    For each pooled dimension, ``starts`` has the first index of each bin and ``lengths`` its size. Both have shape
    (out,)
    if all channels have the same bins, else (N, C, out); a length may be one number for all bins.
    """
    n, out = len(starts), [start.shape[-1] for start in starts]
    sizes = x.shape[-n:]
    flat = x.reshape(*x.shape[:-n], math.prod(sizes))
    best = np.full((*x.shape[:-n], *out), -np.inf, x.dtype)
    indices = np.empty(best.shape, np.int64)
    widths = [np.max(length, initial=0) for length in lengths]
    if 0 in widths:  # torch's index of an empty window is its start
        indices[...] = sum(
            s.reshape(*s.shape[:-1], *[1] * d, out[d], *[1] * (n - 1 - d)) * math.prod(sizes[d + 1 :])
            for d, s in enumerate(starts)
        )
    for step, tap in enumerate(np.ndindex(*widths)):
        at, inside = np.zeros((), np.int64), np.ones((), np.bool_)
        for d, (start, length, t, size) in enumerate(zip(starts, lengths, tap, sizes, strict=True)):
            line = np.minimum(start + t, size - 1)
            at = at[..., None] * size + line.reshape(*line.shape[:-1], *[1] * d, out[d])
            inside = inside[..., None] & (length > t)
        if at.ndim == n:
            values = flat.take(at, -1)
        else:
            values = np.take_along_axis(flat, at.reshape(*flat.shape[:2], math.prod(out)), -1).reshape(at.shape)
        take = ((values > best) | np.isnan(values) | (step == 0)) & inside
        np.copyto(best, values, where=take)
        np.copyto(indices, at, where=take)
    return best, indices


_DOC = "Maximum over bins of an image or volume, and its flat spatial index."
rows("adaptive_max_pool2d adaptive_max_pool3d", _adaptive_max, _DOC, differs=_BINS)


@kernel("adaptive_max_pool1d", differs=["adaptive-bins"])
def adaptive_max_pool1d(self: ndarray, output_size: Ints) -> tuple[ndarray, ndarray]:
    """Maximum over bins of a sequence, and its index."""
    check_sequence(self, "adaptive_max_pool1d")
    out = one_int(output_size, "adaptive_max_pool1d", "output_size")
    check_filled(self, "adaptive_max_pool1d(): Expected input", "input has sizes ")
    best, indices = _adaptive_max(unsqueeze(self, -2), (1, out), n=2)
    return np.squeeze(best, -2), np.squeeze(indices, -2)


# ---------------------------------------------------------------- windows from random samples


def _starts(samples: ndarray, size: int, out: int, window: int) -> ndarray:
    """Return the first index of each window along one dimension, (N, C, out), computed in the samples' dtype."""
    place = np.zeros((*samples.shape, out), np.int64)
    if out > 1:
        one = samples.dtype.type
        step = one(size - window) / one(out - 1)
        i = np.arange(out - 1).astype(samples.dtype)
        moved = (i + samples[..., None]) * step
        place[..., :-1] = moved.astype(np.float64).astype(np.int64)
        place[..., :-1] -= (samples * step).astype(np.float64).astype(np.int64)[..., None]
    if out:
        place[..., -1] = size - window
    return place


def _check_fractional(x: ndarray, kernel_size: Ints, output_size: Ints, samples: ndarray, n: int) -> None:
    name = f"fractional_max_pool{n}d"
    words = "tuple of Ints" if n == 2 else "tuple of three Ints"
    for what, value in (("kernel_size", kernel_size), ("output_size", output_size)):
        check(len(value) == n, f"{name}: {what} must either be a single Int or {words}")
    if since("2.14"):
        spelled = "x".join(map(str, kernel_size))
        check(min(kernel_size) > 0, f"{name}(): kernel size should be greater than zero, but got {spelled}")
    where = f"{name}()" if n == 2 else f"{name}_out()"
    check(x.ndim in (n + 1, n + 2), f"{where}: Expected {n + 1}D or {n + 2}D tensor, but got: {shape_text(x.shape)}")
    check_filled(x, f"{where}: Expected input", "got", end=".")
    names = ("time", "height", "width")[3 - n :]
    sizes = list(zip(names, x.shape[-n:], output_size, kernel_size, strict=True))
    for label, size, out, window in (sizes[0], *sizes[:0:-1]):  # the width comes before the height
        # In three dimensions torch requires one more element, and room for the window itself.
        fits = out + window - 1 <= size if n == 2 else out + window - 1 < size and window <= size
        check(fits, f"{where}: pool {label} {window} too large relative to input {label} {size}")
    check_size((*x.shape[:-n], *output_size))
    check(samples.dtype == x.dtype, "Expect _random_samples to have the same dtype as input")
    check(samples.ndim == 3, f"Expect _random_samples to have 3 dimensions, got {samples.ndim}")
    batch = x.shape[0] if x.ndim == n + 2 else 1
    check(samples.shape[0] >= batch, "Expect _random_samples.size(0) no less then input batch size.")
    check(samples.shape[1] == x.shape[-n - 1], "Expect _random_samples.size(1) equals to input channel size.")
    check(samples.shape[2] == n, f"Expect _random_samples.size(2) equals to {n}; got {samples.shape[2]}.")
    require(f"{name}_out_frame", x.dtype, dt.FLOATS)


def _fractional(x, kernel_size, output_size, samples, *, n):
    kernel_size, output_size = each(kernel_size, n), each(output_size, n)
    _check_fractional(x, kernel_size, output_size, samples, n)
    batched = x if x.ndim == n + 2 else x[None]
    sizes = batched.shape[2:]
    samples = samples[: batched.shape[0]]
    order = [1, 0] if n == 2 else [0, 1, 2]  # in two dimensions the first sample is for the width
    starts = [_starts(samples[..., order[d]], sizes[d], output_size[d], kernel_size[d]) for d in range(n)]
    best, indices = _maxima(dt.cast(batched, dt.opmath(x.dtype)), starts, kernel_size)
    shape = (*x.shape[:-n], *output_size)
    return dt.cast(best, x.dtype).reshape(shape), indices.reshape(shape)


_DOC = "Maximum over windows placed by random samples, and its flat spatial index."
rows("fractional_max_pool2d fractional_max_pool3d", _fractional, _DOC, differs=["fractional-windows"])
