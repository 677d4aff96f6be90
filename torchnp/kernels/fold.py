"""Sliding blocks of images as columns (im2col), and the adjoint sum (col2im)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, dim_of, require
from torchnp.core.errors import shape_text
from torchnp.core.inplace_out_spec import Bound, WriteSpec, resize
from torchnp.core.python_scalars import each
from torchnp.core.registry import kernel
from torchnp.kernels._spatial import Ints, add_taps, out_sizes, pad, taps, windows
from torchnp.kernels.numerics.blocks import row_major_blocks
from torchnp.thresholds import Threshold

ndarray = np.ndarray

_BUDGET: Threshold = 1 << 18  # bytes of images that are summed at a time
_DTYPES = (dt.bool_, *dt.FLOATS, dt.complex64, dt.complex128)


_WINDOW = ("kernel_size", "dilation", "padding", "stride")


def _pair(name: str, value: Ints | int) -> tuple[int, ...]:
    """Return an argument as a pair; a number stands for both elements, and a list of one is refused."""
    pair = each(value, 2)
    check(len(pair) == 2, f"It is expected {name} equals to 2, but got size {len(pair)}")
    return pair


def _window(*values: Ints | int, order: tuple[str, ...]) -> list[tuple[int, ...]]:
    """Return kernel size, dilation, padding and stride as pairs, checked in the given order."""
    kernel_size, dilation, padding, stride = found = list(map(_pair, _WINDOW, values))
    by_name = {"kernel": kernel_size, "dilation": dilation, "padding": padding, "stride": stride}
    for name in order:
        pair = by_name[name]
        if name == "padding":
            words = f"padding should be non-negative, but got pad_height: {pair[0]} pad_width: {pair[1]}"
            check(min(pair) >= 0, words)
            continue
        words = f"{'kernel size' if name == 'kernel' else name} should be greater than zero, but got"
        check(min(pair) > 0, f"{words} {name}_height: {pair[0]} {name}_width: {pair[1]}")
    return found


def _precheck_empty(*names: str) -> Any:
    """Return a hook for ``out=``: if the batch is empty, torch only resizes ``out=``, whatever its dtype.

    ``names`` are the names of the other arguments.
    """

    def look(bound: Bound, outs: list[ndarray]) -> frozenset[int]:
        x = bound["self"]
        if x.size:
            return frozenset()
        body = im2col if len(names) == 4 else col2im
        resize(outs[0], body(x, *(bound[name] for name in names)).shape)
        return frozenset({0})

    return look


@kernel(
    "im2col", like=np.lib.stride_tricks.sliding_window_view, differs=["blocks-as-columns"],
    writes=WriteSpec(out=_precheck_empty(*_WINDOW)),
)  # fmt: skip
def im2col(self: ndarray, kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints) -> ndarray:
    """Every window of an image as a column: (N, C * kernel, windows)."""
    order = ("kernel", "dilation", "padding", "stride")
    kernel_size, dilation, padding, stride = _window(kernel_size, dilation, padding, stride, order=order)
    if self.ndim < 3:
        dim_of(self, self.ndim or 1)
    words = "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input,"
    check(self.ndim <= 4 and 0 not in self.shape[-3:], f"{words} but got: {shape_text(self.shape)}")
    sizes = self.shape[-2:]
    out = out_sizes(sizes, kernel_size, stride, padding, dilation)
    given = f"Given input with spatial size {sizes}, {kernel_size=}, {dilation=}, {padding=}, calculated shape of"
    words = f"the array of sliding blocks as {out}, but its components must be at least one."
    check(min(out) >= 1, f"{given} {words}")
    require("im2col_out_cpu", self.dtype, _DTYPES)
    columns = windows(pad(self, padding, padding), kernel_size, out, stride, dilation).copy()
    return columns.reshape(*self.shape[:-3], self.shape[-3] * math.prod(kernel_size), math.prod(out))


@kernel("col2im", differs=["blocks-as-columns"], writes=WriteSpec(out=_precheck_empty("output_size", *_WINDOW)))
def col2im(self: ndarray, output_size: Ints, kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints) -> ndarray:
    """The adjoint of `im2col`: columns added up at the places of their windows."""
    output_size = _pair("output_size", output_size)
    order = ("kernel", "stride", "dilation", "padding")
    kernel_size, dilation, padding, stride = _window(kernel_size, dilation, padding, stride, order=order)
    words = "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for"
    check(self.ndim in (2, 3) and 0 not in self.shape[-2:], f"{words} input, but got: {shape_text(self.shape)}")
    d, size = self.ndim - 2, math.prod(kernel_size)
    words = "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got"
    check(self.shape[d] % size == 0, f"{words} input.size(1)={self.shape[d]} and {kernel_size=}.")
    out = out_sizes(output_size, kernel_size, stride, padding, dilation)
    if math.prod(out) != self.shape[d + 1] or min(out) < 1:
        given = f"{output_size=}, {kernel_size=}, {dilation=}, {padding=}, {stride=}"
        if min(out) < 1 and math.prod(out) == self.shape[d + 1]:
            words = "calculated shape of the array of sliding blocks as"
            raise RuntimeError(f"Given {given}, {words} {tuple(out)}, which is too small (non-positive)")
        words = "expected size of input's dimension 2 to match the calculated number of sliding blocks"
        found = f"{out[0]} * {out[1]} = {math.prod(out)}, but got input.size(2)={self.shape[d + 1]}."
        raise RuntimeError(f"Given {given}, {words} {found}")
    check(min(output_size) > 0, f"Expected output spatial size to be positive, but got: {output_size=}.")
    require("col2im_out_cpu", self.dtype, _DTYPES)
    planes = math.prod(self.shape[:d]) * self.shape[d] // size
    columns = self.reshape(planes, *kernel_size, *out)
    image = np.empty((planes, *output_size), self.dtype)
    padded = [o + 2 * p for o, p in zip(output_size, padding, strict=True)]
    inside: Any = (..., *(slice(p, p + o) for o, p in zip(output_size, padding, strict=True)))
    for (part,) in row_major_blocks((planes,), math.prod(padded) * self.itemsize, _BUDGET):
        total = np.zeros((part.stop - part.start, *padded), self.dtype)  # half types are rounded at each step
        _add_columns(total, columns[part], stride, dilation)
        image[part] = total[inside]
    return image.reshape(*self.shape[:d], self.shape[d] // size, *output_size)


def _add_columns(total: ndarray, columns: ndarray, stride: Ints, dilation: Ints) -> None:
    """Add the elements of all windows, ``columns`` (N, *kernel, *windows), to the images in ``total``."""
    kernel_size, out = columns.shape[1:3], columns.shape[3:]
    if math.prod(kernel_size) <= math.prod(out):
        add_taps(total, (((i, j), columns[:, i, j]) for i, j in taps(kernel_size)), stride, dilation)
        return
    for i in range(out[0] - 1, -1, -1):  # backwards, so that each sum adds the taps in order
        line = np.ascontiguousarray(columns[:, :, :, i].transpose(3, 0, 1, 2))
        add_taps(total, (((i, j), line[j]) for j in range(out[1] - 1, -1, -1)), dilation, stride)
