"""Convolutions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp import layout
from torchnp.checks import check
from torchnp.errors import ambiguous_view, shape_text
from torchnp.kernels._conv_checks import (
    Geometry,
    by_vendor,
    check_dtypes,
    expand,
    geometry,
    result_strides,
    sizes_back,
    sum_dtype,
    transposed_sizes,
    wants_channels_last,
)
from torchnp.kernels._rows import rows
from torchnp.kernels._spatial import Ints, in_format, legacy_type, out_sizes
from torchnp.kernels.numerics.correlate import correlate, correlate_input
from torchnp.registry import kernel

ndarray = np.ndarray

# ---------------------------------------------------------------- convolution


@kernel("convolution", differs=["correlation", "conv-layout"])
def convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    """Cross-correlation of a batch with a bank of filters; with ``transposed``, the adjoint of one."""
    bias_shape = None if bias is None else bias.shape
    g = geometry(input, weight, bias_shape, stride, padding, dilation, transposed, output_padding, groups)
    if 0 in input.shape:
        return _convolve_nothing(input, weight, g, transposed, groups)
    sizes = transposed_sizes(input, weight, g, groups) if transposed and 0 not in weight.shape[2:] else ()
    check_dtypes(input, weight, bias, transposed, g, groups)
    channels_last = wants_channels_last(input, weight)
    points = input.shape[2:] if transposed else out_sizes(input.shape[2:], weight.shape[2:], *g[:3])
    inner = sum_dtype(input, weight, points)
    x, w = dt.cast(input, inner), dt.cast(weight, inner)
    if transposed:
        y = correlate_input(x, w, sizes, g.stride, g.padding, g.dilation, groups, channels_last)
    else:
        y = correlate(x, w, g.stride, g.padding, g.padding, g.dilation, groups, channels_last)
    if bias is not None:
        y += dt.cast(bias, inner).reshape(-1, *[1] * (y.ndim - 2))
    vendor = input.dtype == dt.float16 or by_vendor(input, weight, g, transposed, groups)
    return layout.place(dt.cast(y, input.dtype), result_strides(y.shape, input, weight, vendor))


def _convolve_nothing(input: ndarray, weight: ndarray, g: Geometry, transposed: bool, groups: int) -> ndarray:
    """An empty batch, or no channels; torch's result has no channels then."""
    n, c, *sizes = input.shape
    words = f"Only zero batch or zero channel inputs are supported, but got input shape: {shape_text(input.shape)}"
    check(n == 0 or c == 0, words)
    if transposed:
        out: Ints = sizes_back(sizes, weight.shape[2:], g)
    else:
        out = out_sizes(sizes, weight.shape[2:], *g[:3])
    if c and weight.size == 0:  # torch's empty result comes from the first weight
        raise IndexError("select(): index 0 out of range for tensor of size [0] at dimension 0")
    outputs = 0 if c == 0 else weight.shape[1] * groups if transposed else weight.shape[0]
    shape = [n, outputs, *((1,) if len(sizes) == 1 else ()), *out]
    for d, size in enumerate(shape):
        check(size >= -1, f"invalid shape dimension {size} at index {d} of shape {shape_text(shape)}")
    check(-1 not in shape, ambiguous_view(shape))
    return np.empty((n, outputs, *out), dt.result_type(input, weight))


_SWITCHES = "`convolution` with switches for other devices."
rows("_convolution _convolution.deprecated", lambda *args: convolution(*args[:9]), _SWITCHES)

# ---------------------------------------------------------------- conv1d and so on: unbatched, complex


def _batched(input: ndarray, name: str) -> tuple[ndarray, bool]:
    n = int(name[-2])
    if input.ndim not in (n + 1, n + 2):
        found = f"but got input of size: {shape_text(input.shape)}"
        raise RuntimeError(f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {name}, {found}")
    return (input[None], False) if input.ndim == n + 1 else (input, True)


def _conv(input, weight, bias, stride, padding, dilation, groups, *, op, transposed=False, output_padding=(0,)):
    if not transposed and bias is not None and bias.dtype != input.dtype:
        a, b = (dt.c_name(x.dtype) for x in (input, bias))
        raise RuntimeError(f"Input type ({a}) and bias type ({b}) should be the same")
    x, batched = _batched(input, op)
    rest = (stride, padding, dilation, transposed, output_padding, groups)
    of_complex = dt.is_complex(x.dtype)
    y = _complex(convolution, x, weight, bias, rest) if of_complex else convolution(x, weight, bias, *rest)
    return y if batched else y[0]


def _conv_transpose(input, weight, bias, stride, padding, output_padding, groups, dilation, *, op):
    args = (input, weight, bias, stride, padding, dilation, groups)
    return _conv(*args, op=op, transposed=True, output_padding=output_padding)


def _conv_mode(input: ndarray, weight: ndarray, bias: ndarray | None, *rest: Any, op: str) -> ndarray:
    x, batched = _batched(input, op)
    of_complex = dt.is_complex(x.dtype)
    y = _complex(_convolution_mode, x, weight, bias, rest) if of_complex else _convolution_mode(x, weight, bias, *rest)
    return y if batched else y[0]


def _complex(
    convolve: Callable[..., ndarray], x: ndarray, w: ndarray, bias: ndarray | None, rest: tuple[Any, ...]
) -> ndarray:
    """A complex convolution by three real ones, as torch does it."""
    for x_, name in ((w, "weight"), (bias, "bias")):
        if x_ is not None and not dt.is_complex(x_.dtype):
            pair = f"Input type ({legacy_type(x.dtype)}) and {name} type ({legacy_type(x_.dtype)})"
            raise RuntimeError(f"{pair} should be the same")
    (xr, xi), (wr, wi) = (_parts(z) for z in (x, w))
    br, bi = (None, None) if bias is None else _parts(bias)
    a = convolve(xr, wr, br, *rest)
    b = convolve(xi, wi, None, *rest)
    total = None if br is None or bi is None else br + bi
    c = convolve(xr + xi, wr + wi, total, *rest)
    y = layout.empty(a.shape, dt.opmath(x.dtype), layout.iterated([layout.layout_of(z) for z in (a, b)]))
    y.real, y.imag = a - b, c - a - b
    return dt.cast(y, x.dtype)


def _parts(z: ndarray) -> tuple[ndarray, ndarray]:
    real = dt.to_real(z.dtype)
    z = dt.cast(z, dt.opmath(z.dtype))
    return dt.cast(z.real, real), dt.cast(z.imag, real)


@kernel("_convolution_mode")
def _convolution_mode(input, weight, bias, stride, padding, dilation, groups):
    """`convolution` with padding "same" or "valid"."""
    n = weight.ndim - 2
    check(padding in ("same", "valid"), f"Invalid padding string: '{padding}'")
    if padding == "valid":
        return convolution(input, weight, bias, stride, (0,), dilation, False, (0,), groups)
    check(n > 0, "weight should have at least three dimensions")
    check(groups > 0, "non-positive groups is not supported")
    ranks = f"Expected {n + 2}-dimensional input for {n + 2}-dimensional weight{shape_text(weight.shape)}"
    found = f"but got {input.ndim}-dimensional input of size {shape_text(input.shape)} instead"
    check(input.ndim == weight.ndim, f"{ranks}, {found}")
    for given, label in ((stride, "stride"), (dilation, "dilation")):
        check(len(given) in (1, n), f"{label} cannot broadcast to {n} dimensions")
    check(max(stride) == 1, "padding='same' is not supported for strided convolutions")
    dilation = expand(dilation, "dilation", n)
    total = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
    small = [t // 2 for t in total]
    if any(t % 2 for t in total):  # an odd amount puts the extra element at the end
        as_it_was = layout.suggested(*layout.layout_of(input))
        input = np.pad(input, [(0, 0)] * (input.ndim - n) + [(0, t % 2) for t in total])
        input = layout.place(input, layout.in_format(input.shape, as_it_was))
    return convolution(input, weight, bias, stride, small, dilation, False, (0,), groups)


_DIFFERS = ["correlation", "conv-layout"]
rows("conv1d", _conv, "Cross-correlation over one dimension.", like=np.correlate, differs=_DIFFERS)
rows("conv2d conv3d", _conv, "Cross-correlation over two or three dimensions.", differs=_DIFFERS)
rows("conv1d.padding", _conv_mode, '`conv1d` with padding "same" or "valid".', like=np.convolve, differs=_DIFFERS)
_MODES = '`conv2d` and `conv3d` with padding "same" or "valid".'
rows("conv2d.padding conv3d.padding", _conv_mode, _MODES, differs=_DIFFERS)
rows("conv_transpose1d conv_transpose2d.input conv_transpose3d.input", _conv_transpose, "The adjoint of a convolution.")

# ---------------------------------------------------------------- time first


def check_steps(x: ndarray, times: int, weight: ndarray, pad: int) -> None:
    """torch views the steps under each tap of the kernel as rows, so that time and batch must lie in one run."""
    if not x.size or x.shape[1] == 1 or x.strides[0] == x.shape[1] * x.strides[1]:
        return
    out = times + 2 * pad - len(weight) + 1
    for tap in range(len(weight)):
        steps = min(times + pad - tap, out) - max(0, pad - tap)
        check(
            steps <= 1,
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
            "contiguous subspaces). Use .reshape(...) instead.",
        )


@kernel("conv_tbc")
def conv_tbc(self: ndarray, weight: ndarray, bias: ndarray, pad: int = 0) -> ndarray:
    """Convolution of (time, batch, channels) with (kernel, in, out) weights."""
    check(self.ndim == 3, "Input must have 3 dims: time, batch, in_channel")
    check(weight.ndim == 3, "Weight tensor must have 3 dims: kernel_width, in_channels, out_channels.")
    check(bias.ndim == 1, "Bias must be 1-D")
    words = "Input dim 2 (input channels) is not == dim 1 in the weight tensor (input channels)"
    check(self.shape[2] == weight.shape[1], words)
    check(bias.shape[0] == weight.shape[2], "Bias size must equal dim 2 in the weight tensor (output channels).")
    check_steps(self, len(self), weight, pad)
    inner = dt.opmath(self.dtype)
    x, w = (dt.cast(a, inner).transpose(order) for a, order in ((self, (1, 2, 0)), (weight, (2, 1, 0))))
    y = correlate(x, np.ascontiguousarray(w), (1,), (pad,), (pad,), (1,), 1, False)
    y += dt.cast(bias, inner)[:, None]
    return dt.cast(in_format(y.transpose(2, 0, 1), False), self.dtype)
