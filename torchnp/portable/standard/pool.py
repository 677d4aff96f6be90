"""Pooling: extremes and means over windows, adaptive means."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check
from torchnp.portable.library import ArrayLibrary
from torchnp.portable.rows import Array, portable
from torchnp.portable.standard.convolution import spread, windows

Ints = Sequence[int]


def lowest(lib: ArrayLibrary, x: Array) -> Any:
    """Return the smallest number of an array's dtype."""
    d = lib.dtype_of(x)
    return -math.inf if dt.is_inexact(d) else int(np.iinfo(d).min)


def _maximum_over(
    lib: ArrayLibrary, x: Array, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil: bool
) -> Array:
    best = None
    for _, seen in windows(lib, x, kernel, stride, padding, dilation, lowest(lib, x), ceil):
        best = seen if best is None else lib.xp.maximum(best, seen)
    return best


def sizes_of(kernel: Ints, stride: Ints, n: int) -> tuple[list[int], list[int]]:
    """Return a window's size, and its stride, which defaults to the size."""
    kernel = spread(kernel, n)
    return kernel, spread(stride, n) if stride else kernel


def _max_pool(name: str, n: int) -> None:
    @portable(name)
    def row(
        lib: ArrayLibrary,
        self: Array,
        kernel_size: Ints,
        stride: Ints = (),
        padding: Ints = (0,),
        dilation: Ints = (1,),
        ceil_mode: bool = False,
    ) -> Array:
        kernel, stride = sizes_of(kernel_size, stride, n)
        return _maximum_over(lib, self, kernel, stride, spread(padding, n), spread(dilation, n), ceil_mode)


_max_pool("aten::max_pool1d", 1)
_max_pool("aten::max_pool2d", 2)
_max_pool("aten::max_pool3d", 3)


def _max_pool_with_indices(name: str, n: int) -> None:
    @portable(name)
    def row(
        lib: ArrayLibrary,
        self: Array,
        kernel_size: Ints,
        stride: Ints = (),
        padding: Ints = (0,),
        dilation: Ints = (1,),
        ceil_mode: bool = False,
    ) -> tuple[Array, Array]:
        kernel, stride = sizes_of(kernel_size, stride, n)
        rest = stride, spread(padding, n), spread(dilation, n)
        space = self.shape[-n:]
        at = lib.xp.reshape(lib.xp.arange(math.prod(space), dtype=lib.theirs(dt.int64)), tuple(space))
        best: Any = None
        index: Any = None
        places = windows(lib, at, kernel, *rest, -1, ceil_mode)
        for (_, seen), (_, place) in zip(windows(lib, self, kernel, *rest, lowest(lib, self), ceil_mode), places):
            if best is None:
                best, index = seen, lib.xp.broadcast_to(place, tuple(seen.shape))
                continue
            # As in torch, a later NaN replaces an earlier one; of equal elements, the first inside the input is taken.
            better = (seen > best) | (index < 0)
            better = better | lib.xp.isnan(seen) if dt.is_inexact(lib.dtype_of(seen)) else better
            better = better & (place >= 0)
            best, index = lib.xp.where(better, seen, best), lib.xp.where(better, place, index)
        return best, index


_max_pool_with_indices("aten::max_pool1d_with_indices", 1)
_max_pool_with_indices("aten::max_pool2d_with_indices", 2)
_max_pool_with_indices("aten::max_pool3d_with_indices", 3)


def _counts(x: Array, kernel: Ints, stride: Ints, padding: Ints, ceil: bool, include_pad: bool) -> list[np.ndarray]:
    """Return, for each dimension, how many elements of each window are counted."""
    n, found = len(kernel), []
    for i in range(n):
        length, p = x.shape[i - n], padding[i]
        room = length + 2 * p - kernel[i]
        size = (-(-room // stride[i]) if ceil else room // stride[i]) + 1
        size -= ceil and (size - 1) * stride[i] >= length + p
        start = np.arange(size) * stride[i] - p
        end = np.minimum(start + kernel[i], length + p)
        if not include_pad:
            start, end = np.maximum(start, 0), np.minimum(end, length)
        found.append(end - start)
    return found


def _avg_pool(name: str, n: int) -> None:
    @portable(name)
    def row(
        lib: ArrayLibrary,
        self: Array,
        kernel_size: Ints,
        stride: Ints = (),
        padding: Ints = (0,),
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Array:
        kernel, stride = sizes_of(kernel_size, stride, n)
        padding = spread(padding, n)
        if not dt.is_inexact(lib.dtype_of(self)):
            return NotImplemented

        def mean(x: Array) -> Array:
            total: Any = 0  # as in torch, so that no mean is -0
            for _, seen in windows(lib, x, kernel, stride, padding, [1] * n, 0, ceil_mode):
                total = total + seen
            if divisor_override:
                return total / divisor_override
            if not ceil_mode and (count_include_pad or not any(padding)):
                return total / math.prod(kernel)
            factors = _counts(x, kernel, stride, padding, ceil_mode, count_include_pad)
            counts = factors[0]
            for factor in factors[1:]:
                counts = counts[..., None] * factor
            return total / lib.astype(lib.from_numpy(counts), lib.dtype_of(x))

        return lib.in_opmath(mean, self)


_avg_pool("aten::avg_pool1d", 1)
_avg_pool("aten::avg_pool2d", 2)
_avg_pool("aten::avg_pool3d", 3)


def _adaptive_avg_pool(n: int, *names: str) -> None:
    """Declare the mean over bins of the last ``n`` dimensions, one dimension after the other."""

    @portable(*names)
    def row(lib: ArrayLibrary, self: Array, output_size: Ints) -> Array:
        sizes = [output_size] if isinstance(output_size, int) else output_size
        check(len(sizes) == n, f"{names[0].removeprefix('aten::')}: output_size must be {n}")
        if not dt.is_inexact(lib.dtype_of(self)):
            return NotImplemented

        def mean(x: Array) -> Array:
            if all(type(s) is int and s == 1 for s in sizes):
                return lib.call("aten::mean.dim", x, tuple(range(-n, 0)), True)
            for i, bins in enumerate(sizes):
                x = _binned(lib, x, x.ndim - n + i, bins)
            return x

        return lib.in_opmath(lambda x: mean(x) + 0, self)  # torch's sums start from 0, so no mean is -0


_adaptive_avg_pool(1, "aten::adaptive_avg_pool1d")
_adaptive_avg_pool(2, "aten::adaptive_avg_pool2d", "aten::_adaptive_avg_pool2d")
_adaptive_avg_pool(3, "aten::adaptive_avg_pool3d", "aten::_adaptive_avg_pool3d")


def _binned(lib: ArrayLibrary, x: Array, dim: int, bins: int) -> Array:
    length = x.shape[dim]
    if bins == length:
        return x
    if bins and length % bins == 0:
        shape = (*x.shape[:dim], bins, length // bins, *x.shape[dim + 1 :])
        return lib.xp.mean(lib.xp.reshape(x, shape), axis=dim + 1)
    start = np.arange(bins) * length // max(bins, 1)
    end = -(-(np.arange(1, bins + 1) * length) // max(bins, 1))
    counts = end - start
    at = start[:, None] + np.arange(counts.max(initial=0))  # bins may overlap, and have up to two different sizes
    inside = np.reshape(at < end[:, None], (*at.shape, *[1] * (x.ndim - dim - 1)))
    seen = lib.xp.take(x, lib.from_numpy(np.minimum(at, length - 1).reshape(-1)), axis=dim)
    seen = lib.xp.reshape(seen, (*x.shape[:dim], *at.shape, *x.shape[dim + 1 :]))
    total = lib.xp.sum(lib.xp.where(lib.from_numpy(inside), seen, lib.number(0, lib.dtype_of(x))), axis=dim + 1)
    sizes = lib.from_numpy(counts.reshape(-1, *[1] * (x.ndim - dim - 1)))
    return total / lib.astype(sizes, lib.dtype_of(x))
