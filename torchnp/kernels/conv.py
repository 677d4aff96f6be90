"""Convolutions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from torchnp import dtypes as dt
from torchnp.checks import check, not_implemented, shape_text
from torchnp.kernels._correlate import correlate, correlate_input
from torchnp.kernels._spatial import Ints, in_format, is_channels_last, legacy_type, out_sizes
from torchnp.registry import kernel

ndarray = np.ndarray

# ---------------------------------------------------------------- parameters


class Geometry(NamedTuple):
    """The parameters of a convolution, one number for each dimension."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    output_padding: tuple[int, ...]


def geometry(
    input: ndarray,
    weight: ndarray,
    bias_shape: Ints | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
) -> Geometry:
    """The parameters expanded, and everything checked that torch checks before it picks a backend."""
    n = weight.ndim - 2
    check(n > 0, "weight should have at least three dimensions")
    check(groups > 0, "non-positive groups is not supported")
    found = Geometry(
        expand(stride, "stride", n),
        expand(padding, "padding", n),
        expand(dilation, "dilation", n),
        expand(output_padding, "output_padding", n),
    )
    check(min(found.padding) >= 0, "negative padding is not supported")
    check(min(found.output_padding) >= 0, "negative output_padding is not supported")
    check(min(found.stride) > 0, "non-positive stride is not supported")
    check(min(found.dilation) >= 0, "dilation should be greater than zero")
    check(min(found.dilation) > 0, "non-positive dilation is not supported")
    channels = weight.shape[0] if transposed else weight.shape[1] * groups
    outputs = weight.shape[1] * groups if transposed else weight.shape[0]
    if (
        weight.ndim != input.ndim
        or weight.shape[0] < groups
        or weight.shape[0] % groups
        or input.shape[1] != channels
        or (bias_shape is not None and tuple(bias_shape) != (outputs,))
    ):
        raise _misfit(input, weight, bias_shape, transposed, groups, channels, outputs)
    if not transposed:
        padded = [s + 2 * p for s, p in zip(input.shape[2:], found.padding, strict=True)]
        window = [d * (k - 1) + 1 for d, k in zip(found.dilation, weight.shape[2:], strict=True)]
        if any(w > s for w, s in zip(window, padded, strict=True)):
            raise RuntimeError(
                f"Calculated padded input size per channel: ({by(padded)}). Kernel size: ({by(window)}). "
                "Kernel size can't be greater than actual input size"
            )
    return found


def _misfit(
    input: ndarray,
    weight: ndarray,
    bias_shape: Ints | None,
    transposed: bool,
    groups: int,
    channels: int,
    outputs: int,
) -> RuntimeError:
    """torch's words for shapes that do not go together."""
    shape, of_input = shape_text(weight.shape), shape_text(input.shape)
    if weight.ndim != input.ndim:
        return RuntimeError(
            f"Expected {weight.ndim}-dimensional input for {weight.ndim}-dimensional weight {shape}, "
            f"but got {input.ndim}-dimensional input of size {of_input} instead"
        )
    if weight.shape[0] < groups:
        return RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, "
            f"but got weight of size {shape} instead"
        )
    if weight.shape[0] % groups:
        return RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, "
            f"but got weight of size [{shape}] instead"
        )
    if input.shape[1] != channels:
        given = "transposed=1" if transposed else f"groups={groups}"
        return RuntimeError(
            f"Given {given}, weight of size {shape}, expected input{of_input} to have {channels} channels, "
            f"but got {input.shape[1]} channels instead"
        )
    given = "transposed=1, weight" if transposed else "weight"
    return RuntimeError(
        f"Given {given} of size {shape}, expected bias to be 1-dimensional with {outputs} elements, "
        f"but got bias of size {shape_text(bias_shape)} instead"
    )


def by(sizes: Ints) -> str:
    """Sizes as torch prints them in these messages: ``2 x 3``."""
    return " x ".join(map(str, sizes))


def expand(value: Ints, name: str, n: int) -> tuple[int, ...]:
    """A parameter with one number, or one for each dimension."""
    value = (value,) if isinstance(value, (int, np.integer)) else tuple(value)
    if len(value) == 1:
        return value * n
    if len(value) != n:
        raise RuntimeError(
            f"expected {name} to be a single integer value or a list of {n} values to match the convolution dimensions, "
            f"but got {name}={shape_text(value)}"
        )
    return value


_VENDOR = (dt.float32, *dt.HALVES)  # computed by oneDNN, which has rules of its own
_SLOW = (dt.float64, *dt.INTS)


def check_dtypes(input: ndarray, weight: ndarray, bias: ndarray | None, transposed: bool) -> None:
    """Refuse what torch's CPU backends have no code for, or will not mix."""
    dtype = input.dtype
    if dtype in _VENDOR:
        for name, x in (("weight", weight), ("bias", bias)):
            if x is not None and x.dtype != dtype:
                raise RuntimeError(
                    f"Input type ({legacy_type(dtype)}) and {name} type ({legacy_type(x.dtype)}) should be the same "
                    f"or input should be a MKLDNN tensor and {name} is a dense tensor"
                )
        return
    dims = 3 if input.ndim == 5 else 2
    if transposed and dtype not in (dt.float64, dt.int64):
        raise not_implemented(f"slow_conv_transpose{dims}d_out_cpu", dtype)
    if dtype not in _SLOW:
        raise not_implemented("slow_conv2d_cpu" if dims == 2 else "compute_columns3d", dtype)
    if weight.dtype != dtype:
        raise RuntimeError(f"expected scalar type {dt.scalar_name(dtype)} but found {dt.scalar_name(weight.dtype)}")


def wants_channels_last(input: ndarray, weight: ndarray) -> bool:
    """Whether torch's backend for these gives its results with channels innermost."""
    if input.ndim == 5 and input.dtype not in _VENDOR:
        return False
    return is_channels_last(input) or is_channels_last(weight)


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
    check_dtypes(input, weight, bias, transposed)
    channels_last = wants_channels_last(input, weight)
    inner = dt.opmath(input.dtype)
    x, w = dt.cast(input, inner), dt.cast(weight, inner)
    if transposed:
        sizes = transposed_sizes(input.shape[2:], weight.shape[2:], g)
        y = correlate_input(x, w, sizes, g.stride, g.padding, g.dilation, groups, channels_last)
    else:
        y = correlate(x, w, g.stride, g.padding, g.padding, g.dilation, groups, channels_last)
    if bias is not None:
        y += dt.cast(bias, inner).reshape(-1, *[1] * (y.ndim - 2))
    return dt.cast(y, input.dtype)


def transposed_sizes(sizes: Ints, kernel: Ints, g: Geometry) -> list[int]:
    """The sizes of a transposed convolution's result."""
    if any(o >= s and o >= d for o, s, d in zip(g.output_padding, g.stride, g.dilation, strict=True)):
        flat = (0,) if len(sizes) == 1 else ()  # torch runs one dimension as two
        unit = (1,) if len(sizes) == 1 else ()
        names = ("depth", "height", "width")[-max(len(sizes), 2) :]
        words = (
            f"{label}_{name}: {value}"
            for label, values in (
                ("output_padding", flat + g.output_padding),
                ("stride", unit + g.stride),
                ("dilation", unit + g.dilation),
            )
            for name, value in zip(names, values, strict=True)
        )
        raise RuntimeError(f"output padding must be smaller than either stride or dilation, but got {' '.join(words)}")
    out = [
        (s - 1) * t - 2 * p + d * (k - 1) + o + 1
        for s, k, t, p, d, o in zip(sizes, kernel, *g[:3], g.output_padding, strict=True)
    ]
    if min(out) < 1:
        unit = (1,) if len(sizes) == 1 else ()
        raise RuntimeError(
            f"Given input size per channel: ({by((*unit, *sizes))}). "
            f"Calculated output size per channel: ({by((*unit, *out))}). Output size is too small"
        )
    return out


def _convolve_nothing(input: ndarray, weight: ndarray, g: Geometry, transposed: bool, groups: int) -> ndarray:
    """An empty batch, or no channels; torch's result has no channels then."""
    n, c, *sizes = input.shape
    check(
        n == 0 or c == 0,
        f"Only zero batch or zero channel inputs are supported, but got input shape: {shape_text(input.shape)}",
    )
    if transposed:
        out: Ints = transposed_sizes(sizes, weight.shape[2:], g)
    else:
        out = out_sizes(sizes, weight.shape[2:], *g[:3])
    outputs = 0 if c == 0 else weight.shape[1] * groups if transposed else weight.shape[0]
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


_TYPE_NAMES = {
    dt.float16: "c10::Half", dt.bfloat16: "c10::BFloat16", dt.float32: "float", dt.float64: "double", dt.int32: "int",
    dt.int64: "long", dt.complex64: "c10::complex<float>", dt.complex128: "c10::complex<double>", dt.bool_: "bool",
}  # fmt: skip


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
    if bias is not None and bias.dtype != input.dtype:
        a, b = (_TYPE_NAMES.get(x.dtype, str(x.dtype)) for x in (input, bias))
        raise RuntimeError(f"Input type ({a}) and bias type ({b}) should be the same")
    x, batched = _batched(input, n, name)
    rest = (stride, padding, dilation, transposed, output_padding, groups)
    y = _complex(x, weight, bias, rest) if dt.is_complex(x.dtype) else convolution(x, weight, bias, *rest)
    return y if batched else y[0]


def _complex(x: ndarray, w: ndarray, bias: ndarray | None, rest: tuple[Any, ...]) -> ndarray:
    """A complex convolution by three real ones, as torch does it."""
    if not dt.is_complex(w.dtype):
        a, b = legacy_type(x.dtype), legacy_type(w.dtype)
        raise RuntimeError(f"Input type ({a}) and weight type ({b}) should be the same")
    (xr, xi), (wr, wi) = (_parts(z) for z in (x, w))
    br, bi = (None, None) if bias is None else _parts(bias)
    a = convolution(xr, wr, br, *rest)
    b = convolution(xi, wi, None, *rest)
    total = None if bias is None else br + bi
    c = convolution(xr + xi, wr + wi, total, *rest)
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
    if padding == "valid":
        return _conv(name, n, input, weight, bias, stride, (0,) * n, dilation, groups)
    check(padding == "same", f"Invalid padding string: '{padding}'")
    x, _ = _batched(input, n, name)
    stride, dilation = expand(stride, "stride", n), expand(dilation, "dilation", n)
    check(x.ndim == weight.ndim, "Expected input and weight to have the same number of dimensions")
    check(max(stride) == 1, "padding='same' is not supported for strided convolutions")
    total = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
    small = [t // 2 for t in total]
    if any(t % 2 for t in total):  # an odd amount puts the extra element at the end
        input = np.pad(input, [(0, 0)] * (input.ndim - n) + [(0, t % 2) for t in total])
    return _conv(name, n, input, weight, bias, stride, small, dilation, groups)


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
    return _conv_mode(f"conv{n}d", n, input, weight, bias, stride, padding, dilation, groups)


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
    inner = dt.opmath(self.dtype)
    x, w = (dt.cast(a, inner).transpose(order) for a, order in ((self, (1, 2, 0)), (weight, (2, 1, 0))))
    y = correlate(x, np.ascontiguousarray(w), (1,), (pad,), (pad,), (1,), 1, False)
    y += dt.cast(bias, inner)[:, None]
    return dt.cast(in_format(y.transpose(2, 0, 1), False), self.dtype)
