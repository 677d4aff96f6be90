"""Pooling over sliding windows: maximum and average."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, check_filled, dim_of, require
from torchnp.core.errors import expected_true, shape_text
from torchnp.core.inplace_out_spec import Bound, WriteSpec
from torchnp.core.registry import kernel
from torchnp.core.target import since
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._spatial import Ints, code_for, empty, in_format, is_channels_last, pad, tap_slices, taps
from torchnp.kernels.numerics.blocks import row_major_blocks
from torchnp.kernels.numerics.vector_tails import VECTOR
from torchnp.kernels.view import unsqueeze
from torchnp.layout.overlap import check_target
from torchnp.thresholds import Threshold

ndarray = np.ndarray


class PoolWindows(NamedTuple):
    """Geometry of a pool's windows; each field has one number per pooled dimension."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    sizes: tuple[int, ...]
    out: tuple[int, ...]


_WORDS = {1: "one", 2: "two", 3: "three"}


def _numbers(value: Any) -> tuple[int, ...]:
    """Return an int or a sequence of ints as a tuple."""
    return (int(value),) if isinstance(value, (int, np.integer)) else tuple(value)


def _expand(value: Ints, n: int, name: str, what: str, words: str) -> tuple[int, ...]:
    given = _numbers(value)
    if len(given) not in (1, n):
        raise RuntimeError(f"{name}: {what} {words} a single int, or a tuple of {_WORDS[n]} ints")
    return given * n if len(given) == 1 else given


def is_omitted(stride: Ints) -> bool:
    """Return whether the stride is an empty list, which stands for the kernel size."""
    return not isinstance(stride, (int, np.integer)) and len(stride) == 0


def check_lengths(n: int, name: str, kernel: Ints, stride: Ints, padding: Ints) -> list[tuple[int, ...]]:
    """Return kernel, stride and padding, each expanded to one number per dimension."""
    either = "must be" if name == "avg_pool3d" else "must either be"
    early = name == "avg_pool2d" and not since("2.13")
    size = _expand(kernel, n, name, "kernel_size", either)
    check(not early or all(0 < k < 1 << 31 for k in size), "integer out of range")
    step = size if is_omitted(stride) else _expand(stride, n, name, "stride", f"{either} omitted,")
    check(not early or all(0 <= s < 1 << 31 for s in step), "integer out of range")
    return [size, step, _expand(padding, n, name, "padding", either)]


def windows(
    x: ndarray,
    n: int,
    name: str,
    kernel: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    ceil_mode: bool,
    last_first: bool = False,
    backward: bool = False,
) -> PoolWindows:
    """Return the windows of a pool; first make all checks that torch makes before it computes."""
    kernel, stride, padding = check_lengths(n, name, kernel, stride, padding)
    dilation = _expand(dilation, n, name, "dilation", "must be either")
    check_ndim(x, n, name)
    sizes = x.shape[-n:]
    step = -1 if last_first else 1
    along = [*zip(sizes, kernel, stride, padding, dilation, strict=True)][::step]
    out = tuple(_windows_along(ceil_mode, *line) for line in along)[::step]
    axes = "THW"[3 - n :]
    named = (kernel, "kernel size", "k"), (stride, "stride", "d"), (dilation, "dilation", "dilation")
    for values, word, letter in named:
        if min(values) <= 0:
            got = " ".join(f"{letter}{a}: {v}" for a, v in zip(axes, values, strict=True))
            raise RuntimeError(f"{word} should be greater than zero, but got {got}")
    if 0 in x.shape[x.ndim == n + 2 :] or x.ndim > n + 2:
        raise _empty_input(x, n, name + "_backward" * backward)
    if any(p > k // 2 for p, k in zip(padding, kernel, strict=True)):
        raise _wide_padding(n, kernel, padding)
    if name == "avg_pool3d" and any(k > s for k, s in zip(kernel, sizes, strict=True)):
        image = " ".join(f"{a}: {s}" for a, s in zip(axes, sizes, strict=True))
        window = " ".join(f"k{a}: {k}" for a, k in zip(axes, kernel, strict=True))
        raise RuntimeError(f"input image ({image}) smaller than kernel size ({window})")
    if min(out) < 1:
        channels = x.shape[-n - 1]
        given, found = ("x".join(map(str, (channels, *s))) for s in (sizes, out))
        raise RuntimeError(f"Given input size: ({given}). Calculated output size: ({found}). Output size is too small")
    # Taps (positions in a window) beyond the padded input would read nothing.
    reach = (
        (k, max(-(-(s + 2 * p) // d), -(-p // d) + 1))
        for k, s, p, d in zip(kernel, sizes, padding, dilation, strict=True)
    )
    kernel = tuple(map(min, reach))
    return PoolWindows(kernel, stride, padding, dilation, sizes, out)


def check_ndim(x: ndarray, n: int, name: str) -> None:
    if x.ndim in (n + 1, n + 2):
        unread = name == "max_pool3d" and x.ndim == 4 and is_channels_last(x)  # torch treats it as a batch of images
        return check(not unread, "Unsupported memory format. Supports only ChannelsLast3d, Contiguous")
    if name == "avg_pool2d":
        dim_of(x, -3)
        return None  # with more than 4 dimensions, torch checks the windows first
    raise RuntimeError(f"non-empty {n + 1}D or {n + 2}D (batch mode) tensor expected for input")


def _empty_input(x: ndarray, n: int, name: str) -> RuntimeError:
    shape = shape_text(x.shape)
    if n == 2:
        words = "Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but got:"
        return RuntimeError(words + shape)
    where = "max_pool3d_with_indices_out_cpu_template()" if name == "max_pool3d" else f"{name}()"
    if since("2.15"):
        words = f"{where}: Expected input to have non-zero size for non-batch dimensions, but input has sizes"
        return RuntimeError(f"{words} {shape} with dimension {x.shape.index(0)} being empty")
    words = f"{where}: Expected input's non-batch dimensions to have positive length, but input has a shape of"
    return RuntimeError(f"{words} {shape} and non-batch dimension 0 has length zero!")


def _wide_padding(n: int, kernel: tuple[int, ...], padding: tuple[int, ...]) -> RuntimeError:
    """Return torch's error for padding above half the kernel size; torch ignores the dilation here."""
    words = "pad should be smaller than or equal to half of kernel size, but got "
    if n == 2:
        return RuntimeError(f"{words}padW = {padding[1]}, padH = {padding[0]}, kW = {kernel[1]}, kH = {kernel[0]}")
    named = (("k", kernel), ("pad", padding))
    got = (f"{what}{axis}: {row[d]}" for what, row in named for axis, d in (("T", 0), ("W", 2), ("H", 1)))
    return RuntimeError(words + " ".join(got))


def _windows_along(ceil_mode: bool, size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    check(stride != 0, "stride should not be zero")
    check(padding >= 0, f"pad must be non-negative, but got pad: {padding}")
    spread = dilation * (kernel - 1) + 1
    found = f"but got pad={padding}, kernel_size={kernel} and dilation={dilation}"
    check(padding <= int(spread / 2), f"pad should be at most half of effective kernel size, {found}")
    out = (size + 2 * padding - spread + (stride - 1 if ceil_mode else 0)) // stride + 1
    if ceil_mode and (out - 1) * stride >= size + padding:
        out -= 1  # the last window must start inside the array or its left padding
    return out


@functools.lru_cache(maxsize=256)
def places(w: PoolWindows) -> tuple[tuple[int, ...], list[tuple]]:
    """Return the padding at the end of each dimension, and each tap's index into the padded array.

    A tap is a position in a window.
    """
    along = zip(w.out, w.stride, w.dilation, w.kernel, w.sizes, w.padding, strict=True)
    after = tuple(max((o - 1) * s + d * (k - 1) + 1 - size - p, 0) for o, s, d, k, size, p in along)
    return after, [(..., *tap_slices(tap, w.out, w.stride, w.dilation)) for tap in taps(w.kernel)]


def padded(x: ndarray, w: PoolWindows, value: float) -> ndarray:
    """Pad the array so that every window lies in it."""
    after = places(w)[0]
    return pad(x, w.padding, after, value) if any(w.padding + after) else x


def result(y: ndarray, x: ndarray, n: int, volumes: bool = False) -> ndarray:
    """Put a pool's result in its input's memory format; for volumes, only if ``volumes``.

    torch keeps the memory format of unbatched volumes, but not of unbatched images.
    """
    if x.ndim == n + 2:
        return in_format(y, (n == 2 or volumes) and is_channels_last(x))
    return in_format(y[None], n == 3 and volumes and is_channels_last(x, lone=True))[0]


# ---------------------------------------------------------------- maximum


def max_pool(x: ndarray, w: PoolWindows, indices: bool = True) -> tuple[ndarray, Any]:
    """Return the maximum of each window and its index in the unpadded, flattened plane.

    The index is that of the first of equal maxima, of the last NaN, or of the first element if all are -inf.
    """
    p = padded(x, w, -np.inf if dt.is_floating(x.dtype) else int(np.iinfo(x.dtype).min))
    views = [p[place] for place in places(w)[1]]
    best = views[0].copy("K")
    keep_larger = _keep_larger if _has_minus_zero(p) else np.maximum
    if not indices:
        for view in views[1:]:
            keep_larger(best, view, out=best)
        return best, None
    first, offsets, base = _positions(w)
    chosen = np.empty_like(best, first.dtype)
    chosen[...] = first
    for i, view in enumerate(views[1:], 1):
        here = np.empty_like(best)  # contiguous, because three passes over a strided view cost more than the copy
        here[...] = view
        # This does chosen[here > best] = i; masked assignment would be slower, because it branches for each element.
        chosen += (first.dtype.type(i) - chosen) * (here > best).view(np.uint8)
        keep_larger(best, here, out=best)
    if dt.is_floating(x.dtype):
        nan = np.isnan(best)
        if nan.any():
            for i, view in enumerate(views):
                np.copyto(chosen, i, where=np.isnan(view))
    return best, offsets[chosen] + base


def _has_minus_zero(x: ndarray) -> bool:
    return dt.is_floating(x.dtype) and bool((x.view(f"u{x.itemsize}") == 1 << 8 * x.itemsize - 1).any())


def _keep_larger(best: ndarray, here: ndarray, out: ndarray) -> None:
    """Write the maximum, or the first of two zeros: for 0 and -0, np.maximum's choice depends on the memory layout."""
    np.copyto(out, here, where=(here > best) | np.isnan(here))


_IN_BYTE: Threshold = 256  # taps per window; below this, a tap's number fits in a byte


@functools.lru_cache(maxsize=256)
def _positions(w: PoolWindows) -> tuple[ndarray, ndarray, ndarray]:
    """Return each window's first tap inside the array, each tap's distance from tap 0, and tap 0's flat position."""
    steps = [math.prod(w.sizes[i + 1 :]) for i in range(len(w.sizes))]
    first = base = np.zeros((), np.int64)
    offsets = np.zeros((), np.int64)
    for d, step in enumerate(steps):
        start = np.arange(w.out[d]) * w.stride[d] - w.padding[d]
        skipped = np.where(start < 0, -(start // w.dilation[d]), 0)
        base = base[..., None] + start * step
        first = first[..., None] * w.kernel[d] + skipped
        offsets = offsets[..., None] + np.arange(w.kernel[d]) * w.dilation[d] * step
    small = np.uint8 if math.prod(w.kernel) < _IN_BYTE else np.int32
    return first.astype(small), offsets.reshape(-1), base


def max_pool_of(x: ndarray, *window: Any, n: int) -> tuple[ndarray, ndarray]:
    """Check the arguments of the ops and compute `max_pool` of images or volumes."""
    w = windows(x, n, f"max_pool{n}d", *window)
    require(code_for(f"max_pool{n}d", x, x.ndim == 4 and n == 3), x.dtype, dt.INTS + dt.FLOATS)
    last = x.dtype.kind in "iu" and math.prod(w.sizes) >= 1 << 8 * x.itemsize - 1
    if last and is_channels_last(x, x.ndim == 4 and n == 3):
        raise expected_true("input_depth * input_height * input_width <= std::numeric_limits<integer_t>::max()")
    best, indices = max_pool(dt.cast(x, dt.opmath(x.dtype)), w)
    if n == 3 and is_channels_last(x, x.ndim == 4):
        indices = _without_depth(indices, best, w, VECTOR.elements(x.dtype))
    return result(dt.cast(best, x.dtype), x, n, volumes=True), result(indices, x, n, volumes=True)


def _without_depth(indices: ndarray, best: ndarray, w: PoolWindows, lanes: int) -> ndarray:
    """Correct the index of each window of a channels-last volume whose maximum is the lowest value of the dtype.

    In channels that fill no whole SIMD vector, torch's index of such a window lies in the first plane of the volume.
    """
    lowest = -np.inf if dt.is_floating(best.dtype) else np.iinfo(best.dtype).min
    start = np.arange(w.out[0]) * w.stride[0] - w.padding[0]
    start += np.where(start < 0, -(start // w.dilation[0]), 0) * w.dilation[0]
    channels = best.shape[-4]
    beside = (np.arange(channels) >= channels // lanes * lanes).reshape(-1, 1, 1, 1)
    return indices - np.where(beside & (best == lowest), start.reshape(-1, 1, 1) * math.prod(w.sizes[1:]), 0)


max_pool2d_with_indices, _ = rows(
    "max_pool2d_with_indices max_pool3d_with_indices", max_pool_of,
    "Maximum over windows of an image or volume, and its flat spatial index.", differs=["pool-windows"],
)  # fmt: skip
rows("max_pool2d max_pool3d", max_pool_of, "Maximum over windows of an image or volume.", part=0)


@kernel("max_pool1d", differs=["pool-windows"])
def max_pool1d(self, kernel_size, stride=(), padding=(0,), dilation=(1,), ceil_mode=False):
    """Maximum over windows of a sequence."""
    words = "max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for input, but got:"
    check(self.ndim in (2, 3) and 0 not in self.shape[-2:], words + shape_text(self.shape))
    kernel = _single(kernel_size, "kernel_size must be an int, list of ints or")
    step = kernel if is_omitted(stride) else _single(stride, "stride must be None, an int, list of ints, or")
    border = _single(padding, "padding must be an int, list of ints, or")
    spread = _single(dilation, "dilation must be an int, list of ints or")
    for name, value in (("kernel_size", kernel), ("stride", step)):
        check(value > 0, f"max_pool1d() {name} must be greater than zero, but got {value}")
    check(border >= 0, f"max_pool1d() padding must be non-negative, but got {border}")
    found = f"but got padding={border} and kernel_size={kernel}"
    check(border <= kernel // 2, f"max_pool1d() padding should be at most half of kernel size, {found}")
    check(spread > 0, f"max_pool1d() dilation must be greater than zero, but got {spread}")
    if since("2.15"):
        words = f"effective kernel size overflows, but got kernel_size={kernel} and dilation={spread}"
        check(spread * (kernel - 1) < 1 << 63, words)
    out = _windows_along(ceil_mode, self.shape[-1], kernel, step, border, spread)
    check(out > 0, f"max_pool1d() Invalid computed output size: {out}")
    require("max_pool1d_impl", self.dtype, dt.FLOATS)
    w = PoolWindows((kernel,), (step,), (border,), (spread,), self.shape[-1:], (out,))
    return np.ascontiguousarray(max_pool(self, w, indices=False)[0])


def _single(value: Ints, words: str) -> int:
    given = _numbers(value)
    check(len(given) == 1, f"max_pool1d() {words} tuple of ints of size 1 but got size {len(given)}")
    return given[0]


def one_int(value: Ints, name: str, argument: str) -> int:
    """Return the number in an ``int[1]`` argument, or raise torch's error."""
    given = _numbers(value)
    check(len(given) == 1, f"{name}() argument '{argument}' should contain one int (got {len(given)})")
    return given[0]


def check_sequence(x: ndarray, name: str) -> None:
    """Raise torch's error unless the input has shape (C, L) or (N, C, L)."""
    words = f"Expected 2 to 3 dimensions, but got {x.ndim}-dimensional tensor for argument #1 'self'"
    check(x.ndim in (2, 3), f"{words} (while checking arguments for {name})")


def _of_sequence(x: ndarray, name: str, kernel_size: Ints, stride: Ints, padding: Ints) -> tuple[int, int, int]:
    check_sequence(x, name)
    kernel = one_int(kernel_size, name, "kernel_size")
    step = kernel if is_omitted(stride) else one_int(stride, name, "stride")
    return kernel, step, one_int(padding, name, "padding")


@kernel("max_pool1d_with_indices")
def max_pool1d_with_indices(self, kernel_size, stride=(), padding=(0,), dilation=(1,), ceil_mode=False):
    """Maximum over windows of a sequence, and its index."""
    kernel, step, border = _of_sequence(self, "max_pool1d", kernel_size, stride, padding)
    spread = one_int(dilation, "max_pool1d", "dilation")
    best, indices = max_pool_of(unsqueeze(self, -2), (1, kernel), (1, step), (0, border), (1, spread), ceil_mode, n=2)
    return np.squeeze(best, -2), np.squeeze(indices, -2)


# ---------------------------------------------------------------- average

_WHOLE: Threshold = 1 << 17  # elements of the planes that are averaged at once


@functools.lru_cache(maxsize=256)
def divisors(w: PoolWindows, count_include_pad: bool, divisor_override: int | None) -> ndarray | int:
    """Return the divisor of each window's sum; one number if all are equal."""
    check(divisor_override != 0, "divisor must be not zero")
    if divisor_override is not None:
        return divisor_override
    counts: Any = np.ones((), np.int64)
    for size, window, stride, border, out in zip(w.sizes, w.kernel, w.stride, w.padding, w.out, strict=True):
        start = np.arange(out) * stride - border
        end = np.minimum(start + window, size + border)
        if not count_include_pad:
            start, end = np.maximum(start, 0), np.minimum(end, size)
        counts = counts[..., None] * (end - start)
    return counts if counts.min() != counts.max() else counts.flat[0]


def divide(x: ndarray, by: ndarray | int) -> ndarray:
    """Divide as C does: quotients of integers round toward zero."""
    if dt.is_integral(x.dtype):
        quotient, rest = np.divmod(x, np.asarray(by, x.dtype))
        return quotient + ((rest != 0) & ((x < 0) != (np.asarray(by) < 0))).astype(x.dtype)
    return np.divide(x, np.asarray(by, x.dtype))


def _avg_pool(x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override=None, *, n):
    name = f"avg_pool{n}d"
    if divisor_override == 0:  # torch checks this after the lengths of the arguments
        check_lengths(n, name, kernel, stride, padding)
        if n == 3:
            check_ndim(x, n, name)
        raise RuntimeError("divisor must be not zero")
    w = windows(x, n, name, kernel, stride, padding, (1,), ceil_mode)
    check_average(x, n, "")
    by, last = divisors(w, count_include_pad, divisor_override), n == 2 and is_channels_last(x)
    mean = empty((*x.shape[:-n], *w.out), x.dtype, last)
    lead = 1 if last else x.ndim - n
    for block in row_major_blocks(x.shape[:lead], 1, max(_WHOLE // max(math.prod(x.shape[lead:]), 1), 1)):
        total = _window_sums(dt.cast(x[block], dt.opmath(x.dtype)), w, n)
        # torch adds the elements to 0, so a window of -0 gives 0. If not channels-last, it also adds the quotient to 0.
        zero = total.dtype.type(0)
        mean[block] = dt.cast(divide(total + zero, by) if last else divide(total, by) + zero, x.dtype)
    return result(mean, x, n)


def _window_sums(x: ndarray, w: PoolWindows, n: int) -> ndarray:
    """Sum over windows, one dimension after the other, which needs fewer additions than window by window."""
    total = padded(x, w, 0)
    for d in range(n):
        axis = total.ndim - n + d
        reach, step = (w.out[d] - 1) * w.stride[d] + 1, w.stride[d]
        views = [total[(*(slice(None),) * axis, slice(i, i + reach, step))] for i in range(w.kernel[d])]
        total = views[0] if len(views) == 1 else views[0] + views[1]
        for view in views[2:]:
            total += view
    return total


def check_average(x: ndarray, n: int, suffix: str) -> None:
    """Raise torch's error for dtypes that its average pools do not support."""
    accepted = (dt.int64, *dt.FLOATS) if n == 2 else (dt.int64, dt.float32, dt.float64)
    name = f"avg_pool{n}d{suffix}"
    require(f"{name}_out_frame" if n == 3 else code_for(name, x), x.dtype, accepted)


_DOC = "Mean over windows of an image or volume."
rows("avg_pool2d avg_pool3d", _avg_pool, _DOC, differs=["pool-windows", "pool-counts-padding"])


@kernel("avg_pool1d", differs=["pool-windows", "pool-counts-padding"])
def avg_pool1d(self, kernel_size, stride=(), padding=(0,), ceil_mode=False, count_include_pad=True):
    """Mean over windows of a sequence."""
    kernel, step, border = _of_sequence(self, "avg_pool1d", kernel_size, stride, padding)
    x = unsqueeze(self, -2)
    return np.squeeze(_avg_pool(x, (1, kernel), (1, step), (0, border), ceil_mode, count_include_pad, n=2), -2)


# ---------------------------------------------------------------- unpooling of maxima

STRIP: Threshold = 1 << 14  # elements that are written at once


def _unpool(x: ndarray, indices: ndarray, output_size: Ints, *window: Ints, n: int) -> ndarray:
    exactly = ("two elements (height, width)", "three elements (depth, height, width)")[n - 2]
    words = f"There should be exactly {exactly} in"
    check(len(output_size) == n, f"{words} output_size, but got {len(output_size)} elements.")
    for name, value in zip(("stride", "padding"), window):
        check(len(value) == n, f"{words} {name}, but got: {len(value)} elements.")
    for stride in window[:1]:
        check(min(stride) > 0, f"strides should be greater than zero, but got stride: {shape_text(stride)}")
    found = f" but got: {dt.scalar_name(indices.dtype)}" if n == 2 or since("2.15") else ""
    check(indices.dtype == dt.int64, f"elements in indices should be type int64{found}")
    words = f"Input to max_unpooling{n}d should be a {n + 1}d or {n + 2}d Tensor, but got a tensor with"
    check(x.ndim in (n + 1, n + 2), f"{words} {x.ndim} dimensions.")
    words = f"Expected shape of indices to be same as that of the input tensor ({shape_text(x.shape)}) but got"
    check(x.shape == indices.shape, f"{words} indices tensor with shape: {shape_text(indices.shape)}")
    check_filled(x, f"max_unpooling{n}d_forward_out_cpu(): Expected input", "got ", end=".")
    require(code_for("max_unpool2d", x) if n == 2 else "max_unpool3d", x.dtype, dt.FLOATS)
    planes, plane = math.prod(x.shape[:-n]), math.prod(output_size)
    within = indices.reshape(planes, math.prod(indices.shape[-n:]))
    values, out = x.reshape(within.shape), np.zeros(planes * max(plane, 0), x.dtype)
    for lines, part in row_major_blocks(within.shape, 1, STRIP):
        flat = within[lines, part]
        wrong = flat.view(np.uint64) >= max(plane, 0)  # as unsigned numbers, negative indices are too large, too
        if wrong.any():
            size = "x".join(map(str, output_size))
            raise RuntimeError(f"Found an invalid max index: {flat[wrong][0]} (output volumes are of size {size})")
        flat = flat + np.arange(lines.start, lines.stop)[:, None] * plane
        out[flat.reshape(-1)] = values[lines, part].reshape(-1)
    return result(out.reshape(*x.shape[:-n], *output_size), x, n)


def _precheck_zeroed(bound: Bound, outs: list[ndarray]) -> None:
    """For images, refuse an ``out=`` that overlaps itself: torch checks this because it first fills it with zeros."""
    if len(bound["output_size"]) == 2:
        check_target(outs[0])


_DOC = "Zeros, with each value written at its index, as returned by max pooling."
rows("max_unpool2d max_unpool3d", _unpool, _DOC, writes=WriteSpec(out=_precheck_zeroed))
