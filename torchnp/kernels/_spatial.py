"""Shared code of convolutions, pooling and resampling: memory formats, padding and windows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from torchnp.kernels._memory import window
from torchnp.layout import stride_rules

ndarray = np.ndarray
Ints = Sequence[int]

# ---------------------------------------------------------------- memory formats


def is_channels_last(x: ndarray, lone: bool = False) -> bool:
    """Return whether torch treats a batch (if ``lone``, a dense unbatched volume) as channels-last by its strides."""
    if lone:
        return not x.flags.c_contiguous and np.moveaxis(x, 0, -1).flags.c_contiguous
    return stride_rules.looks_channels_last(x.shape, x.strides)


def code_for(name: str, x: ndarray, lone: bool = False) -> str:
    """Return the name of torch's kernel for an image or volume; there is a separate kernel for channels-last memory."""
    return f"{name}_channels_last" if is_channels_last(x, lone) else name


def empty(shape: Ints, dtype: np.dtype, channels_last: bool = False) -> ndarray:
    """Return an uninitialized array, with channels innermost in memory if requested."""
    if not channels_last:
        return np.empty(shape, dtype)
    return np.moveaxis(np.empty((shape[0], *shape[2:], shape[1]), dtype), -1, 1)


def in_format(x: ndarray, channels_last: bool) -> ndarray:
    """Return ``x`` in contiguous or channels-last layout; do not copy if it has that layout."""
    if not channels_last:
        return np.ascontiguousarray(x) if x.ndim else x
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)


# ---------------------------------------------------------------- windows


def pad(x: ndarray, before: Ints, after: Ints, value: float = 0) -> ndarray:
    """Pad the last dimensions of ``x``; negative amounts crop. The result is contiguous, and may be ``x`` itself."""
    n = len(before)
    if not any(before) and not any(after):
        return x if x.flags.c_contiguous else np.ascontiguousarray(x)
    lead, sizes = x.shape[: x.ndim - n], x.shape[x.ndim - n :]
    shape = (*lead, *(s + b + a for s, b, a in zip(sizes, before, after, strict=True)))
    out = np.zeros(shape, x.dtype) if value == 0 else np.full(shape, value, x.dtype)
    source: Any = (
        ...,
        *(slice(max(-b, 0), max(s - max(-a, 0), 0)) for s, b, a in zip(sizes, before, after, strict=True)),
    )
    part = x[source]
    inner: Any = (..., *(slice(max(b, 0), max(b, 0) + s) for s, b in zip(part.shape[-n:], before, strict=True)))
    out[inner] = part
    return out


def out_sizes(sizes: Ints, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints) -> tuple[int, ...]:
    """Return the number of windows that fit in each dimension."""
    return tuple(
        (s + 2 * p - d * (k - 1) - 1) // t + 1
        for s, k, t, p, d in zip(sizes, kernel, stride, padding, dilation, strict=True)
    )


def taps(kernel: Ints) -> list[tuple[int, ...]]:
    """Return all positions in a window, called taps, in row-major order."""
    return list(np.ndindex(*kernel))


def tap_slices(tap: Ints, out: Ints, stride: Ints, dilation: Ints) -> tuple[Any, ...]:
    """Return the slices of the padded array that select one tap of every window."""
    return tuple(
        slice(i * d, i * d + (n - 1) * t + 1, t) for i, n, t, d in zip(tap, out, stride, dilation, strict=True)
    )


def windows(x: ndarray, kernel: Ints, out: Ints, stride: Ints, dilation: Ints) -> ndarray:
    """Return all windows of a padded, contiguous array, as a view of shape (..., *kernel, *out)."""
    n = len(out)
    steps = x.strides[x.ndim - n :]
    by_tap = [d * s for d, s in zip(dilation, steps, strict=True)]
    by_window = [t * s for t, s in zip(stride, steps, strict=True)]
    # Making an np.ndarray over a buffer is 10 times cheaper than as_strided.
    return window(x, (*x.shape[: x.ndim - n], *kernel, *out), (*x.strides[: x.ndim - n], *by_tap, *by_window))


def add_taps(total: ndarray, parts: Iterable[tuple[tuple[int, ...], ndarray]], stride: Ints, dilation: Ints) -> None:
    """Add each part (..., *out) to ``total`` (..., *sizes), at the positions that its tap has in all windows."""
    for tap, part in parts:
        total[(..., *tap_slices(tap, part.shape[part.ndim - len(tap) :], stride, dilation))] += part
