"""Operators as the executor computes them where it need not give the table's bits: within the operator's tolerance, quicker.

Each takes the operator's own arguments and leaves to the table's kernel what it does not do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import torchnp

ndarray = np.ndarray
FLOAT = np.dtype(np.float32)
_ZERO = np.array(0, np.float32)


def plain(*arrays: Any) -> bool:
    """Whether all are arrays of float32."""
    return all(type(x) is ndarray and x.dtype == FLOAT for x in arrays)


_LINE = 64  # bytes of a line of cache, which are those of the widest vector too


def aligned(x: ndarray) -> ndarray:
    """A copy of float32 numbers in order, from the beginning of a line of cache: no vector of it is read from two."""
    room = np.empty(x.size + _LINE // 4, FLOAT)
    start = -room.ctypes.data % _LINE // 4
    out = room[start : start + x.size].reshape(x.shape)
    out[...] = x
    return out


# ---------------------------------------------------------------- pooling


def max_pool2d(
    self: ndarray, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> ndarray:
    """The largest of shifted slices: rows first, then columns."""
    kernel, steps, pads = pair(kernel_size), pair(stride or kernel_size), pair(padding)
    fits = plain(self) and self.ndim == 4 and self.size and pair(dilation) == (1, 1) and not ceil_mode
    if not fits or min(kernel) < 1 or min(steps) < 1 or min(pads) < 0 or any(2 * p > k for p, k in zip(pads, kernel)):
        return torchnp.table["aten::max_pool2d"](self, kernel_size, stride, padding, dilation, ceil_mode)
    x = padded(self, pads, -np.inf)
    for axis in (1, 2):
        x = _largest(x, axis, kernel[axis - 1], steps[axis - 1])
        if x is None:
            return torchnp.table["aten::max_pool2d"](self, kernel_size, stride, padding, dilation, ceil_mode)
    return in_order(x, self)


def _largest(x: ndarray, axis: int, kernel: int, step: int) -> Any:
    n = (x.shape[axis] - kernel) // step + 1
    if n < 1:
        return None
    before: Any = (slice(None),) * axis
    first, *rest = (x[(*before, slice(k, k + step * (n - 1) + 1, step))] for k in range(kernel))
    if not rest:
        return first
    out = np.maximum(first, rest[0])
    for part in rest[1:]:
        np.maximum(out, part, out=out)
    return out


# ---------------------------------------------------------------- layout: images are worked on with channels innermost


def pair(n: Any) -> tuple[int, int]:
    """Two numbers of one, or of a list of one or two; of none zeros, which fit nothing."""
    values = tuple(n) or (0,) if isinstance(n, (list, tuple)) else (n,)
    return (values[0], values[-1])


def padded(x: ndarray, pads: Sequence[int], value: float) -> ndarray:
    """An image (N, C, H, W) as (N, H, W, C), with an edge."""
    inner = x.transpose(0, 2, 3, 1)
    if not any(pads):
        return inner if inner.flags.c_contiguous else inner.copy()
    n, h, w, c = inner.shape
    out = np.empty((n, h + 2 * pads[0], w + 2 * pads[1], c), x.dtype)
    p, q = pads
    out[:, :p] = out[:, h + p :] = value
    out[:, p : h + p, :q] = out[:, p : h + p, w + q :] = value
    out[:, p : h + p, q : w + q] = inner
    return out


def in_order(x: ndarray, like: ndarray) -> ndarray:
    """An image (N, H, W, C) as (N, C, H, W), in memory as another one is."""
    out = x.transpose(0, 3, 1, 2)
    last = like.transpose(0, 2, 3, 1).flags.c_contiguous and not like.flags.c_contiguous
    return out if last else np.ascontiguousarray(out)


# ---------------------------------------------------------------- convolution


class Convolution:
    """A 2-d convolution whose weights are known, with what follows it: a bias, batch norm (in the weights), a maximum with 0.

    Parameters
    ----------
    weight, bias : ndarray, ndarray or None
        (O, C, KH, KW) and (O,), float32.
    stride, padding : pair of int
        As of ``conv2d``, without dilation and groups.

    Attributes
    ----------
    relu : bool
        Whether negative results become 0.
    channels_last : bool
        Whether the result lies in memory with its channels innermost.
    """

    def __init__(
        self, weight: ndarray, bias: ndarray | None, stride: tuple[int, int], padding: tuple[int, int]
    ) -> None:
        o, c, *self._kernel = weight.shape
        self._bias, self._stride, self._padding = bias, stride, padding
        self._channels, self.relu, self.channels_last = (c, o), False, False
        self._winograd = self._kernel == [3, 3] and stride == (1, 1) and min(c, o) >= _WINOGRAD
        self._given: ndarray | None = weight
        self._made: ndarray | None = None

    @property
    def _weight(self) -> ndarray:
        """As the products take it, made at the first call."""
        if self._made is None:
            self._made = self._turned(self._given)
            self._given = None
        return self._made

    def _turned(self, weight: Any) -> ndarray:
        o, c = weight.shape[:2]
        if not self._winograd:
            return aligned(weight.transpose(2, 3, 1, 0)).reshape(-1, o)
        both = np.einsum("ai,ocij->aocj", _G, weight.astype(np.float64))
        return aligned(np.einsum("bj,aocj->abco", _G, both).reshape(16, c, o))

    def __call__(self, x: ndarray) -> ndarray:
        n, c, h, w = x.shape
        if c != self._channels[0] or x.dtype != FLOAT:
            raise RuntimeError(f"expected input of {self._channels[0]} channels and float32, got {c} and {x.dtype}")
        image = padded(x, self._padding, 0)
        sizes = [s + 2 * p for s, p in zip((h, w), self._padding)]
        oh, ow = ((s - k) // t + 1 for s, k, t in zip(sizes, self._kernel, self._stride))
        if oh < 1 or ow < 1:
            raise RuntimeError(
                f"Calculated padded input size per channel: ({sizes[0]} x {sizes[1]}). Kernel size: "
                f"({self._kernel[0]} x {self._kernel[1]}). Kernel size can't be greater than actual input size"
            )
        out = np.empty((n, oh, ow, self._channels[1]), np.float32)
        if self._kernel == [1, 1]:
            rows = image[:, :: self._stride[0], :: self._stride[1]]
            np.matmul(rows.reshape(-1, c), self._weight, out=out.reshape(-1, out.shape[-1]))
            self._finish(out)
        elif self._winograd:
            winograd(image, self._weight, out)
            self._finish(out)
        else:
            self._by_rows(image, out)
        result = out.transpose(0, 3, 1, 2)
        return result if self.channels_last else np.ascontiguousarray(result)

    def _by_rows(self, image: ndarray, out: ndarray) -> None:
        """Some rows at a time: the columns of a part stay in the cache, and what is made of them too."""
        (kh, kw), (step, along) = self._kernel, self._stride
        n, oh, ow, o = out.shape
        c, size = image.shape[-1], image.itemsize
        s = image.strides
        rows = max(_COLUMNS // (ow * kh * kw * c), 1)
        columns = np.empty((min(rows, oh), ow, kh, kw * c), np.float32)
        for i in range(n):
            for at in range(0, oh, rows):
                m = min(rows, oh - at)
                view = np.ndarray(
                    (m, ow, kh, kw * c), FLOAT, image[i, at * step :], 0, (step * s[1], along * s[2], s[1], size)
                )
                part, y = columns[:m], out[i, at : at + m]
                np.copyto(part, view)
                np.matmul(part.reshape(m * ow, -1), self._weight, out=y.reshape(m * ow, o))
                self._finish(y)

    def _finish(self, y: ndarray) -> None:
        if self._bias is not None:
            y += self._bias
        if self.relu:
            np.maximum(y, _ZERO, out=y)


_COLUMNS = 1 << 18
_WINOGRAD = 128  # channels from which on products outweigh the transforms
_G = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])


def winograd(image: ndarray, weight: ndarray, out: ndarray) -> None:
    """Winograd's F(2x2, 3x3): of each 4x4 part of an image 16 products in place of 36."""
    n, h, w, o = out.shape
    c, th, tw = image.shape[-1], -(-h // 2), -(-w // 2)
    if h % 2 or w % 2:
        wider = np.zeros((n, 2 * th + 2, 2 * tw + 2, c), np.float32)
        wider[:, : h + 2, : w + 2] = image
        image = wider
    rows = np.empty((4, n, th, 2 * tw + 2, c), np.float32)
    _forward([image[:, k : k + 2 * th : 2] for k in range(4)], rows)
    parts = np.empty((4, 4, n, th, tw, c), np.float32)
    _forward([rows[:, :, :, k : k + 2 * tw : 2] for k in range(4)], parts.swapaxes(0, 1))
    products = np.matmul(parts.reshape(16, -1, c), weight).reshape(4, 4, n, th, tw, o)
    half = np.empty((2, 4, n, th, tw, o), np.float32)
    _backward(products, half[0], half[1])
    for a in (0, 1):
        y = out[:, a::2]
        across = half[a][:, :, : y.shape[1]]
        for b in (0, 1):
            _backward_one(across[:, :, :, : (w + 1 - b) // 2], y[:, :, b::2], b)


def _forward(d: list[ndarray], out: ndarray) -> None:
    np.subtract(d[0], d[2], out=out[0])
    np.add(d[1], d[2], out=out[1])
    np.subtract(d[2], d[1], out=out[2])
    np.subtract(d[1], d[3], out=out[3])


def _backward(m: ndarray, first: ndarray, second: ndarray) -> None:
    _backward_one(m, first, 0)
    _backward_one(m, second, 1)


def _backward_one(m: ndarray, out: ndarray, which: int) -> None:
    if which == 0:
        np.add(m[1], m[2], out=out)
        out += m[0]
    else:
        np.subtract(m[1], m[2], out=out)
        out -= m[3]


def add_into(a: ndarray, b: ndarray, relu: bool) -> ndarray:
    """``a + b`` in the memory of ``a``, which nobody else has; negative sums as 0 where that is asked for."""
    np.add(a, b, out=a)
    return np.maximum(a, _ZERO, out=a) if relu else a
