"""The executor's fast convolutions and pooling. They work on images with channels innermost, in parts on all threads.

Pooling takes the operator's own arguments and passes unsupported cases to the table's kernel, as `fast_ops_common`
describes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import torchnp
from torchnp.blas import share_products
from torchnp.runtime.fast_ops_common import FLOAT, aligned, plain
from torchnp.threads import LARGE, blocks, get_num_threads, share
from torchnp.thresholds import Threshold

ndarray = np.ndarray
_ZERO = np.array(0, np.float32)


# ---------------------------------------------------------------- layout


def pair(n: Any) -> tuple[int, int]:
    """Return a pair from a number or a list of one or two. An empty list gives zeros, which later checks refuse."""
    values = tuple(n) or (0,) if isinstance(n, (list, tuple)) else (n,)
    return (values[0], values[-1])


def _padded(x: ndarray, pads: Sequence[int]) -> ndarray:
    """Return an image (N, C, H, W) as (N, H, W, C), padded with zeros."""
    inner = x.transpose(0, 2, 3, 1)
    if not any(pads) and inner.flags.c_contiguous:
        return inner
    n, h, w, c = inner.shape
    p, q = pads
    out = np.empty((n, h + 2 * p, w + 2 * q, c), x.dtype)

    def fill(at: slice) -> None:
        y = out[at]
        y[:, :p] = y[:, h + p :] = 0
        y[:, p : h + p, :q] = y[:, p : h + p, w + q :] = 0
        y[:, p : h + p, q : w + q] = inner[at]

    share(fill, blocks(n, -(-n // get_num_threads()) if x.size > LARGE else n or 1))
    return out


def _in_order(x: ndarray, like: ndarray) -> ndarray:
    """Return an image (N, H, W, C) as (N, C, H, W), channels-last if ``like`` is, else row-major."""
    out = x.transpose(0, 3, 1, 2)
    last = like.transpose(0, 2, 3, 1).flags.c_contiguous and not like.flags.c_contiguous
    return out if last else np.ascontiguousarray(out)


def _bands(n: int, rows: int, each: int) -> list[tuple[int, slice]]:
    """Split images into bands of rows of ``each`` numbers.

    There is at least one band per thread, and none has many more than `_BAND` numbers.
    """
    threads = get_num_threads()
    many = max(-(-rows * each // _BAND), -(-threads // n))
    while n * many < 4 * threads and n * many % threads:  # a remainder of bands would leave threads idle
        many += 1
    return [(i, at) for i in range(n) for at in blocks(rows, -(-rows // many))]


_BAND = 3 << 17


# ---------------------------------------------------------------- pooling


def max_pool2d(
    self: ndarray, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> ndarray:
    """Compute max pooling as the maximum of shifted slices: along the rows' axis first, then along the columns'."""
    kernel, steps, pads = pair(kernel_size), pair(stride or kernel_size), pair(padding)
    fits = plain(self) and self.ndim == 4 and self.size and pair(dilation) == (1, 1) and not ceil_mode
    fits = fits and min(kernel) > 0 and min(steps) > 0 and min(pads) >= 0
    sizes = [(n + 2 * p - k) // s + 1 if fits else 0 for n, p, k, s in zip(self.shape[2:], pads, kernel, steps)]
    if not fits or any(2 * p > k for p, k in zip(pads, kernel)) or min(sizes) < 1:
        return torchnp.table["aten::max_pool2d"](self, kernel_size, stride, padding, dilation, ceil_mode)
    image = self.transpose(0, 2, 3, 1)
    n, h, w, c = image.shape
    out = np.empty((n, *sizes, c), FLOAT)

    def work(part: tuple[int, slice]) -> None:
        i, at = part
        top, rows = at.start * steps[0] - pads[0], (len(out[i, at]) - 1) * steps[0] + kernel[0]
        x = np.empty((rows, w + 2 * pads[1], c), FLOAT)
        a, b = max(-top, 0), min(h - top, rows)  # the range of rows that are inside the image
        x[:a] = x[b:] = x[:, : pads[1]] = x[:, w + pads[1] :] = -np.inf
        x[a:b, pads[1] : w + pads[1]] = image[i, top + a : top + b]
        x = _largest(x, 0, kernel[0], steps[0])
        _largest(x, 1, kernel[1], steps[1], out[i, at])

    parts = _bands(n, sizes[0], w * c * steps[0])
    if self.size > LARGE:
        share(work, parts)
    else:
        for part in parts:
            work(part)
    return _in_order(out, self)


def _largest(x: ndarray, axis: int, kernel: int, step: int, out: ndarray | None = None) -> ndarray:
    last = (x.shape[axis] - kernel) // step * step + 1
    before: Any = (slice(None),) * axis
    first, *rest = (x[(*before, slice(k, k + last, step))] for k in range(kernel))
    out = np.maximum(first, rest[0] if rest else first, out=out)
    for part in rest[1:]:
        np.maximum(out, part, out=out)
    return out


# ---------------------------------------------------------------- convolution


class Convolution:
    """A 2-d convolution with constant weights, fused with the operators after it: bias, batch norm and ReLU.

    Parameters
    ----------
    weight, bias : ndarray, ndarray or None
        (O, C, KH, KW) and (O,), float32.
    stride, padding : pair of int
        As for ``conv2d``; dilation and groups are 1.
    points : int or None
        Total number of points (pixels) in the result's images, if known.

    Attributes
    ----------
    relu : bool
        Whether to apply ReLU.
    channels_last : bool
        Whether the result is channels-last in memory.
    """

    def __init__(
        self, weight: ndarray, bias: ndarray | None, stride: tuple[int, int], padding: tuple[int, int],
        points: int | None = None,
    ) -> None:  # fmt: skip
        o, c, *self._kernel = weight.shape
        self._bias, self._stride, self._padding = bias, stride, padding
        self._channels, self.relu, self.channels_last = (c, o), False, False
        many = points is None or points >= 4 * _TILES
        self._winograd = many and self._kernel == [3, 3] and stride == (1, 1) and min(c, o) >= _WINOGRAD
        self._given: ndarray | None = weight  # kept until it is rearranged, and as a fallback when Winograd overflows
        self._turned: ndarray | None = None

    @property
    def _weight(self) -> ndarray:
        """The weight as the matrix products need it; it is rearranged on first use."""
        given, turned = self._given, self._turned
        if turned is None:
            turned = self._turned = transformed(given) if self._winograd else _in_rows(given)
            if not self._winograd:
                self._given = None
        return turned

    def __call__(self, x: ndarray) -> ndarray:
        n, c, h, w = x.shape
        if c != self._channels[0] or x.dtype != FLOAT:
            raise RuntimeError(f"expected input of {self._channels[0]} channels and float32, got {c} and {x.dtype}")
        sizes = [s + 2 * p for s, p in zip((h, w), self._padding)]
        oh, ow = ((s - k) // t + 1 for s, k, t in zip(sizes, self._kernel, self._stride))
        if oh < 1 or ow < 1:
            raise RuntimeError(
                f"Calculated padded input size per channel: ({sizes[0]} x {sizes[1]}). Kernel size: "
                f"({self._kernel[0]} x {self._kernel[1]}). Kernel size can't be greater than actual input size"
            )
        out = np.empty((n, oh, ow, self._channels[1]), FLOAT)
        if out.size:
            self._compute(_padded(x, self._padding), out)
        result = out.transpose(0, 3, 1, 2)
        return result if self.channels_last else np.ascontiguousarray(result)

    def _compute(self, image: ndarray, out: ndarray) -> None:
        points = out.size // self._channels[1]
        if self._winograd:
            winograd(image, self._weight, out, self._finish)
            if not np.isfinite(np.add.reduce(out, axis=None)):  # it may have subtracted infinities, or overflowed
                self._by_taps(image, out, _in_rows(self._given))
        elif self._kernel == [1, 1]:
            self._of_points(image[:, :: self._stride[0], :: self._stride[1]], out)
        elif points <= _FEW:
            self._by_channels(image, out)
        elif self._channels[0] >= _TAPS:
            self._by_taps(image, out, self._weight)
        else:
            self._by_columns(image, out)

    def _of_points(self, image: ndarray, out: ndarray) -> None:
        """Compute a 1x1 convolution as one matrix product, with a row for each point."""
        x, y = image.reshape(-1, image.shape[-1]), out.reshape(-1, out.shape[-1])

        def work(at: slice) -> None:
            np.matmul(x[at], self._weight, out=y[at])
            self._finish(y[at])

        many = get_num_threads() if x.size * y.shape[1] > _WORTH else 1
        share_products(work, blocks(len(x), -(-len(x) // many)))

    def _columns(self, image: ndarray, rows: slice, width: int) -> ndarray:
        """Return the im2col matrix of some rows: the inputs of each point, (rows * width, KH * KW * C)."""
        (kh, kw), (down, along) = self._kernel, self._stride
        c, s = image.shape[-1], image.strides
        sizes = rows.stop - rows.start, width, kh, kw * c
        strides = down * s[0], along * s[1], s[0], image.itemsize
        return np.ndarray(sizes, FLOAT, image[rows.start * down :], 0, strides).reshape(-1, kh * kw * c)

    def _by_columns(self, image: ndarray, out: ndarray) -> None:
        """Compute by im2col and matmul, one band of output rows at a time, so that the im2col matrix stays in cache."""
        n, oh, ow, o = out.shape

        def work(part: tuple[int, slice]) -> None:
            i, at = part
            y = out[i, at]
            np.matmul(self._columns(image[i], at, ow), self._weight, out=y.reshape(-1, o))
            self._finish(y)

        share_products(work, _bands(n, oh, ow * len(self._weight)))

    def _by_channels(self, image: ndarray, out: ndarray) -> None:
        """Compute some output channels at a time: for few points, when most memory traffic is reading weights."""
        n, oh, ow, o = out.shape
        x, y = np.concatenate([self._columns(image[i], slice(0, oh), ow) for i in range(n)]), out.reshape(-1, o)

        def work(at: slice) -> None:
            np.matmul(x, self._weight[:, at], out=y[:, at])

        share_products(work, blocks(o, min(_CHANNELS, -(-o // get_num_threads()))))
        self._finish(y)

    def _by_taps(self, image: ndarray, out: ndarray, weight: ndarray) -> None:
        """Compute a sum of matrix products, one for each kernel position, which copies no input."""
        (kh, kw), (down, along) = self._kernel, self._stride
        n, oh, ow, o = out.shape
        taps = weight.reshape(kh * kw, -1, o)

        def work(part: tuple[int, slice]) -> None:
            i, at = part
            y, last = out[i, at], (ow - 1) * along + 1
            product = np.empty(y.shape, FLOAT)
            for k, tap in enumerate(taps):
                top, left = at.start * down + k // kw, k % kw
                x = image[i, top : top + (len(y) - 1) * down + 1 : down, left : left + last : along]
                np.matmul(x, tap, out=product if k else y)
                if k:
                    y += product
            self._finish(y)

        share_products(work, _bands(n, oh, ow * (image.shape[-1] + 2 * o)))

    def _finish(self, y: ndarray) -> None:
        if self._bias is not None:
            y += self._bias
        if self.relu:
            np.maximum(y, _ZERO, out=y)


_WORTH: Threshold = 1 << 23  # multiplications above which a product is worth a second thread
_FEW: Threshold = 64  # up to this many points, most memory traffic is reading weights
_CHANNELS: Threshold = 128  # output channels per block in `_by_channels`
_TAPS: Threshold = 32  # from this many channels on, one product per kernel position is at least as fast as im2col
# From this many channels, and 2x2 tiles, on Winograd's savings outweigh its transforms.
_WINOGRAD: Threshold = 256
_TILES: Threshold = 64
_WHOLE: Threshold = 1 << 18  # numbers in the images that are transformed at a time
_G = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])


def _in_rows(weight: Any) -> ndarray:
    """Rearrange (O, C, KH, KW) to (KH * KW * C, O)."""
    return aligned(weight.transpose(2, 3, 1, 0)).reshape(-1, len(weight))


def transformed(weight: Any) -> ndarray:
    """Transform (O, C, 3, 3) to the 16 matrices (C, O) of Winograd's matrix products."""
    o, c = weight.shape[:2]
    both = np.einsum("ai,ocij->aocj", _G, weight.astype(np.float64))
    return aligned(np.einsum("bj,aocj->abco", _G, both).reshape(16, c, o))


def winograd(image: ndarray, weight: ndarray, out: ndarray, finish: Callable[[ndarray], None]) -> None:
    """Compute Winograd's F(2x2, 3x3) convolution: 16 products instead of 36 for each 4x4 tile, four at a time."""
    n, h, w, o = out.shape
    c, th, tw = image.shape[-1], -(-h // 2), -(-w // 2)
    if h % 2 or w % 2:
        wider = np.zeros((n, 2 * th + 2, 2 * tw + 2, c), FLOAT)
        wider[:, : h + 2, : w + 2] = image
        image = wider
    sums = np.empty((4, 2, n, th, tw, o), FLOAT)

    def transform(part: tuple[slice, int]) -> None:
        at, a = part
        x = image[at]
        rows = _forward([x[:, k : k + 2 * th : 2] for k in range(4)], a)
        parts = np.empty((4, len(x), th, tw, c), FLOAT)
        for b in range(4):
            _forward([rows[:, :, k : k + 2 * tw : 2] for k in range(4)], b, parts[b])
        products = np.matmul(parts.reshape(4, -1, c), weight[4 * a : 4 * a + 4]).reshape(4, len(x), th, tw, o)
        for b in (0, 1):
            _backward(products, b, sums[a, b, at])

    def collect(at: slice) -> None:
        y = out[at]
        for a in (0, 1):
            for b in (0, 1):
                z = y[:, a::2, b::2]
                _backward([part[b, at, : z.shape[1], : z.shape[2]] for part in sums], a, z)
        finish(y)

    images = [*blocks(n, max(_WHOLE // (4 * th * tw * max(c, o)), 1))]
    share_products(transform, [(at, a) for at in images for a in range(4)])
    share(collect, images)


def _forward(d: Sequence[ndarray], which: int, out: ndarray | None = None) -> ndarray:
    function, i, j = ((np.subtract, 0, 2), (np.add, 1, 2), (np.subtract, 2, 1), (np.subtract, 1, 3))[which]
    return function(d[i], d[j], out=out)


def _backward(m: Sequence[ndarray], which: int, out: ndarray) -> None:
    if which == 0:
        np.add(m[1], m[2], out=out)
        out += m[0]
    else:
        np.subtract(m[1], m[2], out=out)
        out -= m[3]


def add_into(a: ndarray, b: ndarray, relu: bool) -> ndarray:
    """Compute ``a + b`` in the memory of ``a``, which nothing else uses; with ``relu``, replace negative sums by 0."""
    np.add(a, b, out=a)
    return np.maximum(a, _ZERO, out=a) if relu else a
