"""What convolutions, pools and resampling share: memory formats, padding and windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from torchnp.layout import stride_rules

ndarray = np.ndarray
Ints = Sequence[int]

# ---------------------------------------------------------------- memory formats


def is_channels_last(x: ndarray, lone: bool = False) -> bool:
    """Whether torch takes a batch of images or volumes for channels_last, by its strides alone; a ``lone`` volume must be dense."""
    if lone:
        return not x.flags.c_contiguous and np.moveaxis(x, 0, -1).flags.c_contiguous
    return stride_rules.looks_channels_last(x.shape, x.strides)


def code_for(name: str, x: ndarray, lone: bool = False) -> str:
    """The name of torch's code for an image or volume: for channels-last order it has code of its own."""
    return f"{name}_channels_last" if is_channels_last(x, lone) else name


def empty(shape: Ints, dtype: np.dtype, channels_last: bool = False) -> ndarray:
    """An unset array, with its channels innermost if asked."""
    if not channels_last:
        return np.empty(shape, dtype)
    return np.moveaxis(np.empty((shape[0], *shape[2:], shape[1]), dtype), -1, 1)


def in_format(x: ndarray, channels_last: bool) -> ndarray:
    """The same values with the strides of a memory format; ``x`` itself when it has them."""
    if not channels_last:
        return np.ascontiguousarray(x) if x.ndim else x
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)


# ---------------------------------------------------------------- windows


def pad(x: ndarray, before: Ints, after: Ints, value: float = 0) -> ndarray:
    """A contiguous array with the last dimensions padded; negative amounts crop. ``x`` itself if that changes nothing."""
    n = len(before)
    if not any(before) and not any(after):
        return x if x.flags.c_contiguous else np.ascontiguousarray(x)
    lead, sizes = x.shape[: x.ndim - n], x.shape[x.ndim - n :]
    shape = (*lead, *(s + b + a for s, b, a in zip(sizes, before, after, strict=True)))
    out = np.zeros(shape, x.dtype) if value == 0 else np.full(shape, value, x.dtype)
    source: Any = (..., *(slice(max(-b, 0), s - max(-a, 0)) for s, b, a in zip(sizes, before, after, strict=True)))
    part = x[source]
    inner: Any = (..., *(slice(max(b, 0), max(b, 0) + s) for s, b in zip(part.shape[-n:], before, strict=True)))
    out[inner] = part
    return out


def out_sizes(sizes: Ints, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints) -> tuple[int, ...]:
    """How many windows fit in each dimension."""
    return tuple(
        (s + 2 * p - d * (k - 1) - 1) // t + 1
        for s, k, t, p, d in zip(sizes, kernel, stride, padding, dilation, strict=True)
    )


def taps(kernel: Ints) -> list[tuple[int, ...]]:
    """All positions in a window, in row-major order."""
    return list(np.ndindex(*kernel))


def tap_slices(tap: Ints, out: Ints, stride: Ints, dilation: Ints) -> tuple[Any, ...]:
    """Where one tap of every window lies in the padded array."""
    return tuple(
        slice(i * d, i * d + (n - 1) * t + 1, t) for i, n, t, d in zip(tap, out, stride, dilation, strict=True)
    )
