"""Maxima put back where they stood, and pools with random windows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from torchnp import dtypes as dt
from torchnp.checks import check, check_filled, require
from torchnp.errors import shape_text
from torchnp.kernels._rows import rows
from torchnp.kernels._spatial import Ints, in_format, is_channels_last

ndarray = np.ndarray

# ---------------------------------------------------------------- max_unpool


def _unpool(x: ndarray, indices: ndarray, output_size: Ints, *window: Ints, n: int) -> ndarray:
    exactly = ("two elements (height, width)", "three elements (depth, height, width)")[n - 2]
    words = f"There should be exactly {exactly} in"
    check(len(output_size) == n, f"{words} output_size, but got {len(output_size)} elements.")
    for name, value in zip(("stride", "padding"), window):
        check(len(value) == n, f"{words} {name}, but got: {len(value)} elements.")
    for stride in window[:1]:
        check(min(stride) > 0, f"strides should be greater than zero, but got stride: {shape_text(stride)}")
    found = dt.scalar_name(indices.dtype)
    check(indices.dtype == dt.int64, f"elements in indices should be type int64 but got: {found}")
    words = f"Input to max_unpooling{n}d should be a {n + 1}d or {n + 2}d Tensor, but got a tensor with"
    check(x.ndim in (n + 1, n + 2), f"{words} {x.ndim} dimensions.")
    words = f"Expected shape of indices to be same as that of the input tensor ({shape_text(x.shape)}) but got"
    check(x.shape == indices.shape, f"{words} indices tensor with shape: {shape_text(indices.shape)}")
    check_filled(x, f"max_unpooling{n}d_forward_out_cpu(): Expected input", "got ", end=".")
    require(f"max_unpool{n}d", x.dtype, dt.FLOATS)
    lead = x.shape[:-n]
    planes, plane = int(np.prod(lead)), int(np.prod(output_size))
    flat = indices.reshape(planes, int(np.prod(indices.shape[-n:])))
    wrong = (flat < 0) | (flat >= plane)
    if wrong.any():
        size = "x".join(map(str, output_size))
        raise RuntimeError(f"Found an invalid max index: {flat[wrong][0]} (output volumes are of size {size})")
    out = np.zeros(planes * plane, x.dtype)
    out[(flat + np.arange(planes)[:, None] * plane).reshape(-1)] = np.ascontiguousarray(x).reshape(-1)
    return in_format(out.reshape(*lead, *output_size), n == 2 and is_channels_last(x))


rows("max_unpool2d", _unpool, "Zeros, with the values where `max_pool2d_with_indices` found them.")
rows("max_unpool3d", _unpool, "Zeros, with the values where `max_pool3d_with_indices` found them.")


# ---------------------------------------------------------------- fractional pools


def _starts(samples: ndarray, size: int, out: int, window: int) -> ndarray:
    """First elements of the windows along one dimension, (N, C, out), in the arithmetic of the samples' dtype."""
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
        check(len(value) in (1, n) and len(value) == n, f"{name}: {what} must either be a single Int or {words}")
    where = f"{name}()" if n == 2 else f"{name}_out()"
    check(x.ndim in (n + 1, n + 2), f"{where}: Expected {n + 1}D or {n + 2}D tensor, but got: {shape_text(x.shape)}")
    check_filled(x, f"{where}: Expected input", "got", end=".")
    names = ("time", "height", "width")[3 - n :]
    sizes = list(zip(names, x.shape[-n:], output_size, kernel_size, strict=True))
    for label, size, out, window in (sizes[0], *sizes[:0:-1]):  # the width before the height of three
        check(
            out + window - 1 <= size - (n == 3),  # in three dimensions torch wants one more
            f"{where}: pool {label} {window} too large relative to input {label} {size}",
        )
    check(samples.dtype == x.dtype, "Expect _random_samples to have the same dtype as input")
    check(samples.ndim == 3, f"Expect _random_samples to have 3 dimensions, got {samples.ndim}")
    batch = x.shape[0] if x.ndim == n + 2 else 1
    check(samples.shape[0] >= batch, "Expect _random_samples.size(0) no less then input batch size.")
    check(samples.shape[1] == x.shape[-n - 1], "Expect _random_samples.size(1) equals to input channel size.")
    check(samples.shape[2] == n, f"Expect _random_samples.size(2) equals to {n}; got {samples.shape[2]}.")
    require(f"{name}_out_frame", x.dtype, dt.FLOATS)


def _fractional(
    x: ndarray, kernel_size: Ints, output_size: Ints, samples: ndarray, *, n: int
) -> tuple[ndarray, ndarray]:
    _check_fractional(x, kernel_size, output_size, samples, n)
    batched = x if x.ndim == n + 2 else x[None]
    sizes = batched.shape[2:]
    samples = samples[: batched.shape[0]]
    # In two dimensions the first sample is for the width.
    order = [1, 0] if n == 2 else [0, 1, 2]
    starts = [_starts(samples[..., order[d]], sizes[d], output_size[d], kernel_size[d]) for d in range(n)]
    v = dt.cast(batched, dt.opmath(x.dtype))
    flat = v.reshape(*v.shape[:2], int(np.prod(sizes)))
    best = np.full((*v.shape[:2], int(np.prod(output_size))), -np.inf, v.dtype)
    indices = np.zeros(best.shape, np.int64)
    for step, tap in enumerate(np.ndindex(*kernel_size)):
        at = _places(starts, tap, sizes).reshape(best.shape)
        values = np.take_along_axis(flat, at, -1)
        take = (values > best) | np.isnan(values) | (step == 0)
        np.copyto(best, values, where=take)
        np.copyto(indices, at, where=take)
    shape = (*x.shape[:-n], *output_size)
    return dt.cast(best, x.dtype).reshape(shape), indices.reshape(shape)


def _places(starts: Sequence[ndarray], tap: Sequence[int], sizes: Ints) -> ndarray:
    """Flat places of one tap of all windows: (N, C, *out)."""
    at = np.zeros((1, 1), np.int64)
    for d, (start, t, size) in enumerate(zip(starts, tap, sizes, strict=True)):
        line = (start + t).reshape(*start.shape[:2], *[1] * d, start.shape[2])
        at = at[..., None] * size + line
    return at


rows(
    "fractional_max_pool2d fractional_max_pool3d", _fractional,
    "Maximum over windows whose places follow from random samples, and its flat index.", differs=["fractional-windows"],
)  # fmt: skip
