"""Convolutions: one matrix product for each kernel position, on strided slices of the padded input."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from torchnp.portable.library import ArrayLibrary
from torchnp.portable.rows import Array, portable

Ints = Sequence[int]


def spread(values: Ints | int, n: int) -> list[int]:
    """Return a value for each dimension; a single value is repeated."""
    if isinstance(values, int):
        return [values] * n
    return list(values) * (n if len(values) == 1 else 1)


def windows(
    lib: ArrayLibrary,
    x: Array,
    kernel: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    fill: float = 0,
    ceil: bool = False,
) -> Iterator[tuple[tuple[int, ...], Array]]:
    """Yield each kernel position, and the strided slice of the input that all windows read there."""
    n = len(kernel)
    sizes, more = [], []
    for i in range(n):
        length = x.shape[i - n]
        reach = dilation[i] * (kernel[i] - 1) + 1
        room = length + 2 * padding[i] - reach
        size = (-(-room // stride[i]) if ceil else room // stride[i]) + 1
        if ceil and (size - 1) * stride[i] >= length + padding[i]:
            size -= 1
        sizes.append(size)
        needed = (size - 1) * stride[i] + reach - length - padding[i]
        more.append(max(0, needed) if type(needed) is int else padding[i])
    amounts = [v for i in reversed(range(n)) for v in (padding[i], more[i])]
    if any(type(v) is not int or v for v in amounts):
        x = lib.call("aten::constant_pad_nd", x, amounts, fill)
    for point in np.ndindex(*kernel):
        first = [point[i] * dilation[i] for i in range(n)]
        yield (
            point,
            x[(..., *(slice(first[i], first[i] + (sizes[i] - 1) * stride[i] + 1, stride[i]) for i in range(n)))],
        )


def correlated(
    lib: ArrayLibrary, x: Array, w: Array, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> Array:
    """Compute a convolution as the sum of products over the kernel positions."""
    outputs, n = w.shape[0], w.ndim - 2
    total = None
    for point, seen in windows(lib, x, w.shape[2:], stride, padding, dilation):
        k = w[(slice(None), slice(None), *point)]
        batch, channels, *space = seen.shape
        if groups == channels == outputs and w.shape[1] == 1:
            y = seen * lib.xp.reshape(k, (channels, *[1] * n))
        else:
            flat = lib.xp.reshape(seen, (batch, groups, channels // groups, math.prod(space)))
            k = lib.xp.reshape(k, (groups, outputs // groups, channels // groups))
            y = lib.xp.reshape(lib.xp.matmul(k, flat), (batch, outputs, *space))
        total = y if total is None else total + y
    return total


def _spread_out(lib: ArrayLibrary, x: Array, stride: Ints) -> Array:
    """Insert zeros between the elements of the last dimensions."""
    n = len(stride)
    for i in range(n):
        d, s = x.ndim - n + i, stride[i]
        if s > 1:
            length = x.shape[d]
            zeros = lib.full((*x.shape[: d + 1], s - 1, *x.shape[d + 1 :]), 0, lib.dtype_of(x))
            x = lib.xp.concat([lib.xp.expand_dims(x, axis=d + 1), zeros], axis=d + 1)
            x = lib.xp.reshape(x, (*x.shape[:d], length * s, *x.shape[d + 2 :]))
            x = x[(slice(None),) * d + (slice(0, length * s - s + 1),) + (slice(None),) * (x.ndim - d - 1)]
    return x


def turned(lib: ArrayLibrary, w: Array, groups: int) -> Array:
    """Convert a transposed convolution's filter to a convolution's: flip it, and swap input and output channels."""
    n = w.ndim - 2
    w = lib.xp.flip(w, axis=tuple(range(2, n + 2)))
    inputs, outputs = w.shape[:2]
    w = lib.xp.reshape(w, (groups, inputs // groups, outputs, *w.shape[2:]))
    w = lib.xp.permute_dims(w, (0, 2, 1, *range(3, n + 3)))
    return lib.xp.reshape(w, (groups * outputs, inputs // groups, *w.shape[3:]))


@portable("aten::convolution")
def convolution(
    lib: ArrayLibrary,
    input: Array,
    weight: Array,
    bias: Array | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
) -> Array:
    n = weight.ndim - 2
    stride, padding, dilation, more = (spread(v, n) for v in (stride, padding, dilation, output_padding))

    def f(x: Array, w: Array, b: Array | None) -> Array:
        single = x.ndim == n + 1
        x = lib.xp.expand_dims(x, axis=0) if single else x
        if transposed:
            edge = [dilation[i] * (w.shape[2 + i] - 1) - padding[i] for i in range(n)]
            x = _spread_out(lib, x, stride)
            ends = [v for i in reversed(range(n)) for v in (edge[i], edge[i] + more[i])]
            x = lib.call("aten::constant_pad_nd", x, ends, 0)
            y = correlated(lib, x, turned(lib, w, groups), [1] * n, [0] * n, dilation, groups)
        else:
            y = correlated(lib, x, w, stride, padding, dilation, groups)
        y = y if b is None else y + lib.xp.reshape(b, (-1, *[1] * n))
        return lib.xp.squeeze(y, axis=0) if single else y

    return lib.in_opmath(f, input, weight, bias)


@portable("aten::conv1d", "aten::conv2d", "aten::conv3d")
def conv(
    lib: ArrayLibrary,
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Ints = (1,),
    padding: Ints = (0,),
    dilation: Ints = (1,),
    groups: int = 1,
) -> Array:
    return lib.call("aten::convolution", input, weight, bias, stride, padding, dilation, False, [0], groups)


@portable("aten::conv1d.padding", "aten::conv2d.padding", "aten::conv3d.padding")
def conv_padding(
    lib: ArrayLibrary,
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Ints = (1,),
    padding: str = "valid",
    dilation: Ints = (1,),
    groups: int = 1,
) -> Array:
    """Convolve with padding by name; ``same`` pads as many zeros as the filter overlaps, an odd one at the end."""
    n = weight.ndim - 2
    if padding == "same":
        reach = [d * (k - 1) for d, k in zip(spread(dilation, n), weight.shape[2:])]
        input = lib.call("aten::constant_pad_nd", input, [v for r in reversed(reach) for v in (r // 2, r - r // 2)], 0)
    return conv(lib, input, weight, bias, stride, [0], dilation, groups)


@portable("aten::conv_transpose1d", "aten::conv_transpose2d.input", "aten::conv_transpose3d.input")
def conv_transpose(
    lib: ArrayLibrary,
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Ints = (1,),
    padding: Ints = (0,),
    output_padding: Ints = (0,),
    groups: int = 1,
    dilation: Ints = (1,),
) -> Array:
    bias = bias if bias is None else lib.astype(bias, lib.dtype_of(input))
    return lib.call("aten::convolution", input, weight, bias, stride, padding, dilation, True, output_padding, groups)


@portable("aten::im2col")
def im2col(lib: ArrayLibrary, self: Array, kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints) -> Array:
    kernel, dilation, padding, stride = (spread(v, 2) for v in (kernel_size, dilation, padding, stride))
    x = lib.xp.expand_dims(self, axis=0) if self.ndim == 3 else self
    y = lib.xp.stack([seen for _, seen in windows(lib, x, kernel, stride, padding, dilation)], axis=2)
    n, c, points, *space = y.shape
    y = lib.xp.reshape(y, (n, c * points, math.prod(space)))
    return y[0, ...] if self.ndim == 3 else y
