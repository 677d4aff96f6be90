"""Convolutions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.checks import check, shape_text
from torchnp.kernels._conv_checks import (
    Geometry,
    check_dtypes,
    expand,
    geometry,
    sizes_back,
    sum_dtype,
    transposed_sizes,
    wants_channels_last,
)
from torchnp.kernels._spatial import Ints, in_format, legacy_type, out_sizes
from torchnp.kernels.numerics.correlate import correlate, correlate_input
from torchnp.registry import kernel

ndarray = np.ndarray

# ---------------------------------------------------------------- convolution


@kernel("convolution", differs=["correlation", "conv-layout"])
def convolution(
    input: ndarray,
    weight: ndarray,
    bias: ndarray | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
) -> ndarray:
    """Cross-correlation of a batch with a bank of filters; with ``transposed``, the adjoint of one."""
    g = geometry(
        input,
        weight,
        None if bias is None else bias.shape,
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
        groups,
    )
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
    return dt.cast(y, input.dtype)


def _convolve_nothing(input: ndarray, weight: ndarray, g: Geometry, transposed: bool, groups: int) -> ndarray:
    """An empty batch, or no channels; torch's result has no channels then."""
    n, c, *sizes = input.shape
    check(
        n == 0 or c == 0,
        f"Only zero batch or zero channel inputs are supported, but got input shape: {shape_text(input.shape)}",
    )
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
    check(
        -1 not in shape,
        f"cannot reshape tensor of 0 elements into shape {shape_text(shape)} because the unspecified dimension "
        "size -1 can be any value and is ambiguous",
    )
    return np.empty((n, outputs, *out), dt.result_type(input, weight))


@kernel("_convolution")
def _convolution(
    input: ndarray,
    weight: ndarray,
    bias: ndarray | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
    benchmark: bool,
    deterministic: bool,
    cudnn_enabled: bool,
    allow_tf32: bool,
) -> ndarray:
    """`convolution` with switches for other devices."""
    return convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


@kernel("_convolution.deprecated")
def _convolution_deprecated(
    input: ndarray,
    weight: ndarray,
    bias: ndarray | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
    benchmark: bool,
    deterministic: bool,
    cudnn_enabled: bool,
) -> ndarray:
    """`convolution` with switches for other devices."""
    return convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


# ---------------------------------------------------------------- conv1d and so on: unbatched, complex


def _batched(input: ndarray, n: int, name: str) -> tuple[ndarray, bool]:
    if input.ndim not in (n + 1, n + 2):
        raise RuntimeError(
            f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {name}, "
            f"but got input of size: {shape_text(input.shape)}"
        )
    return (input[None], False) if input.ndim == n + 1 else (input, True)


def _conv(
    name: str,
    n: int,
    input: ndarray,
    weight: ndarray,
    bias: ndarray | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int,
    transposed: bool = False,
    output_padding: Ints = (0,),
) -> ndarray:
    if not transposed and bias is not None and bias.dtype != input.dtype:
        a, b = (dt.c_name(x.dtype) for x in (input, bias))
        raise RuntimeError(f"Input type ({a}) and bias type ({b}) should be the same")
    x, batched = _batched(input, n, name)
    rest = (stride, padding, dilation, transposed, output_padding, groups)
    of_complex = dt.is_complex(x.dtype)
    y = _complex(convolution, x, weight, bias, rest) if of_complex else convolution(x, weight, bias, *rest)
    return y if batched else y[0]


def _complex(
    convolve: Callable[..., ndarray], x: ndarray, w: ndarray, bias: ndarray | None, rest: tuple[Any, ...]
) -> ndarray:
    """A complex convolution by three real ones, as torch does it."""
    if not dt.is_complex(w.dtype):
        a, b = legacy_type(x.dtype), legacy_type(w.dtype)
        raise RuntimeError(f"Input type ({a}) and weight type ({b}) should be the same")
    if bias is not None and not dt.is_complex(bias.dtype):
        a, b = legacy_type(x.dtype), legacy_type(bias.dtype)
        raise RuntimeError(f"Input type ({a}) and bias type ({b}) should be the same")
    (xr, xi), (wr, wi) = (_parts(z) for z in (x, w))
    br, bi = (None, None) if bias is None else _parts(bias)
    a = convolve(xr, wr, br, *rest)
    b = convolve(xi, wi, None, *rest)
    total = None if bias is None else br + bi
    c = convolve(xr + xi, wr + wi, total, *rest)
    y = np.empty(a.shape, dt.opmath(x.dtype))
    y.real, y.imag = a - b, c - a - b
    return dt.cast(y, x.dtype)


def _parts(z: ndarray) -> tuple[ndarray, ndarray]:
    real = dt.to_real(z.dtype)
    z = dt.cast(z, dt.opmath(z.dtype))
    return dt.cast(z.real, real), dt.cast(z.imag, real)


@kernel("conv1d", like=np.correlate, differs=["correlation", "conv-layout"])
def conv1d(input, weight, bias=None, stride=(1,), padding=(0,), dilation=(1,), groups=1):
    """Cross-correlation over one dimension."""
    return _conv("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


@kernel("conv2d", differs=["correlation", "conv-layout"])
def conv2d(input, weight, bias=None, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1):
    """Cross-correlation over two dimensions."""
    return _conv("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


@kernel("conv3d", differs=["correlation", "conv-layout"])
def conv3d(input, weight, bias=None, stride=(1, 1, 1), padding=(0, 0, 0), dilation=(1, 1, 1), groups=1):
    """Cross-correlation over three dimensions."""
    return _conv("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


def _conv_mode(name, n, input, weight, bias, stride, padding, dilation, groups):
    x, batched = _batched(input, n, name)
    if dt.is_complex(x.dtype):
        rest = (stride, padding, dilation, groups)
        y = _complex(_convolution_mode, x, weight, bias, rest)
    else:
        y = _convolution_mode(x, weight, bias, stride, padding, dilation, groups)
    return y if batched else y[0]


@kernel("conv1d.padding", like=np.convolve, differs=["correlation", "conv-layout"])
def conv1d_padding(input, weight, bias=None, stride=(1,), padding="valid", dilation=(1,), groups=1):
    """`conv1d` with padding "same" or "valid"."""
    return _conv_mode("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


@kernel("conv2d.padding", differs=["correlation", "conv-layout"])
def conv2d_padding(input, weight, bias=None, stride=(1, 1), padding="valid", dilation=(1, 1), groups=1):
    """`conv2d` with padding "same" or "valid"."""
    return _conv_mode("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


@kernel("conv3d.padding", differs=["correlation", "conv-layout"])
def conv3d_padding(input, weight, bias=None, stride=(1, 1, 1), padding="valid", dilation=(1, 1, 1), groups=1):
    """`conv3d` with padding "same" or "valid"."""
    return _conv_mode("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


@kernel("_convolution_mode")
def _convolution_mode(input, weight, bias, stride, padding, dilation, groups):
    """`convolution` with padding "same" or "valid"."""
    n = weight.ndim - 2
    check(padding in ("same", "valid"), f"Invalid padding string: '{padding}'")
    if padding == "valid":
        return convolution(input, weight, bias, stride, (0,), dilation, False, (0,), groups)
    check(n > 0, "weight should have at least three dimensions")
    check(groups > 0, "non-positive groups is not supported")
    check(
        input.ndim == weight.ndim,
        f"Expected {n + 2}-dimensional input for {n + 2}-dimensional weight{shape_text(weight.shape)}, "
        f"but got {input.ndim}-dimensional input of size {shape_text(input.shape)} instead",
    )
    for given, label in ((stride, "stride"), (dilation, "dilation")):
        check(len(given) in (1, n), f"{label} cannot broadcast to {n} dimensions")
    check(max(stride) == 1, "padding='same' is not supported for strided convolutions")
    dilation = expand(dilation, "dilation", n)
    total = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
    small = [t // 2 for t in total]
    if any(t % 2 for t in total):  # an odd amount puts the extra element at the end
        input = np.pad(input, [(0, 0)] * (input.ndim - n) + [(0, t % 2) for t in total])
    return convolution(input, weight, bias, stride, small, dilation, False, (0,), groups)


@kernel("conv_transpose1d")
def conv_transpose1d(input, weight, bias=None, stride=(1,), padding=(0,), output_padding=(0,), groups=1, dilation=(1,)):
    """The adjoint of `conv1d`."""
    args = (input, weight, bias, stride, padding, dilation, groups, True, output_padding)
    return _conv("conv_transpose1d", 1, *args)


@kernel("conv_transpose2d.input")
def conv_transpose2d(
    input, weight, bias=None, stride=(1, 1), padding=(0, 0), output_padding=(0, 0), groups=1, dilation=(1, 1)
):
    """The adjoint of `conv2d`."""
    args = (input, weight, bias, stride, padding, dilation, groups, True, output_padding)
    return _conv("conv_transpose2d", 2, *args)


@kernel("conv_transpose3d.input")
def conv_transpose3d(
    input,
    weight,
    bias=None,
    stride=(1, 1, 1),
    padding=(0, 0, 0),
    output_padding=(0, 0, 0),
    groups=1,
    dilation=(1, 1, 1),
):
    """The adjoint of `conv3d`."""
    args = (input, weight, bias, stride, padding, dilation, groups, True, output_padding)
    return _conv("conv_transpose3d", 3, *args)


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
    check(
        self.shape[2] == weight.shape[1],
        "Input dim 2 (input channels) is not == dim 1 in the weight tensor (input channels)",
    )
    check(bias.shape[0] == weight.shape[2], "Bias size must equal dim 2 in the weight tensor (output channels).")
    check_steps(self, len(self), weight, pad)
    inner = dt.opmath(self.dtype)
    x, w = (dt.cast(a, inner).transpose(order) for a, order in ((self, (1, 2, 0)), (weight, (2, 1, 0))))
    y = correlate(x, np.ascontiguousarray(w), (1,), (pad,), (pad,), (1,), 1, False)
    y += dt.cast(bias, inner)[:, None]
    return dt.cast(in_format(y.transpose(2, 0, 1), False), self.dtype)
