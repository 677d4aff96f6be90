"""Convolutions, and the backends of `convolution` that torch registers as ops of their own."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import (
    check,
    check_no_dilation,
    check_positive,
    check_shape,
    check_type,
    dim_of,
    require,
    wrap_dims,
)
from torchnp.core.errors import (
    EMPTY_FILTER,
    ambiguous_view,
    by,
    cannot_cast,
    dense_dtype,
    no_primitive,
    shape_text,
    small_output,
    tensor_type,
)
from torchnp.core.registry import kernel
from torchnp.core.target import since
from torchnp.kernels import _conv_checks as checks
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._memory import check_size, empty_in_order, new_like
from torchnp.kernels._spatial import out_sizes
from torchnp.kernels.arithmetic import add, mul
from torchnp.kernels.backward.conv import gradients
from torchnp.kernels.matmul import addmm
from torchnp.kernels.numerics.correlate import correlate, correlate_input
from torchnp.kernels.numerics.products import blas_ready
from torchnp.kernels.reduce import sum_dim
from torchnp.layout import stride_rules
from torchnp.thresholds import Threshold

ndarray = np.ndarray
Body = Callable[..., ndarray]


@kernel("convolution", differs=["correlation", "conv-layout"])
def convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    """Cross-correlation of a batch with a bank of filters; if ``transposed``, the adjoint of a cross-correlation."""
    return _convolve(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


def _convolve(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, own=False):
    """Compute `convolution`; with ``own``, like torch's own code instead of oneDNN."""
    bias_shape = None if bias is None else bias.shape
    g = checks.geometry(input, weight, bias_shape, stride, padding, dilation, transposed, output_padding, groups)
    if 0 in input.shape:
        return _convolve_nothing(input, weight, bias, g, transposed, groups)
    vendor = not own and checks.by_vendor(input, weight, g, transposed, groups)
    if vendor:  # oneDNN checks the dtypes first
        checks.check_dtypes(input, weight, bias, transposed, g, groups, vendor)
    if 0 in g.dilation:
        check_no_dilation(g.dilation, weight, transposed, vendor)
    sizes = (
        checks.transposed_sizes(input, weight, g, groups, vendor) if transposed and 0 not in weight.shape[2:] else ()
    )
    if not vendor:
        checks.check_dtypes(input, weight, bias, transposed, g, groups, vendor)
    channels_last = checks.wants_channels_last(input, weight)
    points = input.shape[2:] if transposed else out_sizes(input.shape[2:], weight.shape[2:], *g[:3])
    inner = checks.sum_dtype(input, weight, points)
    x, w = dt.cast(input, inner), dt.cast(weight, inner)
    if transposed:
        window = (g.stride, g.padding, g.dilation, groups, channels_last)
        y = correlate_input(x, w, sizes, *window, half=input.dtype == dt.float16 and not vendor)
    else:
        y = correlate(x, w, g.stride, g.padding, g.padding, g.dilation, groups, channels_last)
    if bias is not None:
        y += dt.cast(bias, inner).reshape(-1, *[1] * (y.ndim - 2))
    return stride_rules.place(dt.cast(y, input.dtype), checks.result_strides(y.shape, input, weight, vendor, groups))


def _convolve_nothing(
    input: ndarray, weight: ndarray, bias: ndarray | None, g: checks.Geometry, transposed: bool, groups: int
) -> ndarray:
    """Convolve an empty batch, or an input without channels, for which torch's result has no channels either."""
    n, c, *sizes = input.shape
    seen = (n, c, 1, *sizes) if len(sizes) == 1 else input.shape
    words = f"Only zero batch or zero channel inputs are supported, but got input shape: {shape_text(seen)}"
    check(n == 0 or c == 0, words)
    out = checks.sizes_back(sizes, weight.shape[2:], g) if transposed else out_sizes(sizes, weight.shape[2:], *g[:3])
    if c and weight.size == 0:  # torch computes an empty result from the first element of the weight
        raise IndexError("select(): index 0 out of range for tensor of size [0] at dimension 0")
    outputs = 0 if c == 0 else weight.shape[1] * groups if transposed else weight.shape[0]
    flat = len(sizes) == 1
    shape = [n, outputs, *((1,) if flat else ()), *out]
    for d, size in enumerate(shape):
        check(size >= -1, f"invalid shape dimension {size} at index {d} of shape {shape_text(shape)}")
    check(-1 not in shape, ambiguous_view(shape))
    own, strides = stride_rules.layout_of(input), stride_rules.contiguous(shape)
    # Here torch returns the product of the input and a number without viewing it in another shape
    if c and (n, outputs, *out) == input.shape:
        strides = stride_rules.iterated([stride_rules.as_image(*own) if flat else own, ((), ())])
    strides = (*strides[:2], strides[3]) if flat else strides
    by = np.empty((), weight.dtype) if c else weight  # torch multiplies an empty batch by one element of the weight
    y = stride_rules.empty((n, outputs, *out), dt.result_type(input, by), strides)
    total = y.dtype if bias is None else dt.result_type(y, np.empty((), bias.dtype))  # torch adds one bias element
    if not dt.can_cast(total, y.dtype):
        raise cannot_cast(total, y.dtype)
    return y


_SWITCHES = "`convolution`; the switches for cuDNN are ignored."
rows("_convolution _convolution.deprecated", lambda *args: convolution(*args[:9]), _SWITCHES)

# ---------------------------------------------------------------- conv1d and so on: unbatched, complex


def _batched(input: ndarray, weight: ndarray, bias: ndarray | None, *rest: Any, op: str, run: Body) -> ndarray:
    """Convolve a batch or a single item, real or complex."""
    n = int(op[-2])
    if run is _forward and bias is not None and bias.dtype != input.dtype:
        a, b = (dt.c_name(x.dtype) for x in (input, bias))
        raise RuntimeError(f"Input type ({a}) and bias type ({b}) should be the same")
    if input.ndim not in (n + 1, n + 2):
        found = f"but got input of size: {shape_text(input.shape)}"
        raise RuntimeError(f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {op}, {found}")
    args = (input[None] if input.ndim == n + 1 else input, weight, bias)
    y = _complex(run, *args, rest) if dt.is_complex(input.dtype) else run(*args, *rest)
    return y if input.ndim == n + 2 else y[0]


def _forward(input, weight, bias, stride, padding, dilation, groups):
    return convolution(input, weight, bias, stride, padding, dilation, False, (0,), groups)


def _adjoint(input, weight, bias, stride, padding, output_padding, groups, dilation):
    return convolution(input, weight, bias, stride, padding, dilation, True, output_padding, groups)


def _complex(convolve: Body, x: ndarray, w: ndarray, bias: ndarray | None, rest: tuple) -> ndarray:
    """Compute a complex convolution from three real ones, as torch does."""
    for y, name in ((w, "weight"), (bias, "bias")):
        if y is not None and y.dtype != x.dtype:
            pair = f"Input type ({tensor_type(x.dtype)}) and {name} type ({tensor_type(y.dtype)})"
            raise RuntimeError(f"{pair} should be the same")
    (xr, xi), (wr, wi) = (_parts(z) for z in (x, w))
    br, bi = (None, None) if bias is None else _parts(bias)
    a = convolve(xr, wr, br, *rest)
    b = convolve(xi, wi, None, *rest)
    total = None if br is None or bi is None else br + bi
    c = convolve(xr + xi, wr + wi, total, *rest)
    y = add(a - b, mul(c - a - b, 1j))  # an infinite imaginary part times 1j has a nan real part; the sum is all nan
    return stride_rules.place(y, stride_rules.iterated([stride_rules.layout_of(z) for z in (a, b)]))


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
        return _forward(input, weight, bias, stride, (0,), dilation, groups)
    check(n > 0, "weight should have at least three dimensions")
    check(groups > 0, "non-positive groups is not supported")
    ranks = f"Expected {n + 2}-dimensional input for {n + 2}-dimensional weight{shape_text(weight.shape)}"
    found = f"but got {input.ndim}-dimensional input of size {shape_text(input.shape)} instead"
    check(input.ndim == weight.ndim, f"{ranks}, {found}")
    for given, label in ((stride, "stride"), (dilation, "dilation")):
        check(len(given) in (1, n), f"{label} cannot broadcast to {n} dimensions")
    check(set(stride) <= {1}, "padding='same' is not supported for strided convolutions")
    dilation = checks.expand(dilation, "dilation", n)
    total = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
    small = [int(t / 2) for t in total]
    if any(t % 2 for t in total):  # if an amount is odd, the extra element goes to the end
        as_it_was = stride_rules.suggested(*stride_rules.layout_of(input))
        input = np.pad(input, [(0, 0)] * (input.ndim - n) + [(0, t % 2) for t in total])
        input = stride_rules.place(input, stride_rules.in_format(input.shape, as_it_was))
    return _forward(input, weight, bias, stride, small, dilation, groups)


_DIFFERS = ["correlation", "conv-layout"]
rows(
    "conv1d",
    _batched,
    "Cross-correlation over one dimension.",
    run=_forward,
    like=np.correlate,
    differs=[*_DIFFERS, "half-opmath"],
)
_DOC = "Cross-correlation over two or three dimensions."
rows("conv2d conv3d", _batched, _DOC, run=_forward, differs=_DIFFERS)
_DOC = '`conv1d` with padding "same" or "valid".'
rows("conv1d.padding", _batched, _DOC, run=_convolution_mode, like=np.convolve, differs=_DIFFERS)
_DOC = '`conv2d` and `conv3d` with padding "same" or "valid".'
rows("conv2d.padding conv3d.padding", _batched, _DOC, run=_convolution_mode, differs=_DIFFERS)
_NAMES = "conv_transpose1d conv_transpose2d.input conv_transpose3d.input"
rows(_NAMES, _batched, "Transposed convolution.", run=_adjoint)


def check_steps(x: ndarray, times: int, weight: ndarray, pad: int) -> None:
    """Refuse strides for which torch cannot view time and batch as one dimension, as it does for each tap."""
    if not x.size or x.shape[1] == 1 or x.strides[0] == x.shape[1] * x.strides[1]:
        return
    out = times + 2 * pad - len(weight) + 1
    words = "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
    for tap in range(len(weight)):
        steps = min(times + pad - tap, out) - max(0, pad - tap)
        check(steps <= 1, words + "contiguous subspaces). Use .reshape(...) instead.")


@kernel("conv_tbc")
def conv_tbc(self: ndarray, weight: ndarray, bias: ndarray, pad: int = 0) -> ndarray:
    """Convolution of (time, batch, channels) with (kernel, in, out) weights."""
    check(self.ndim == 3, "Input must have 3 dims: time, batch, in_channel")
    check(weight.ndim == 3, "Weight tensor must have 3 dims: kernel_width, in_channels, out_channels.")
    check(bias.ndim == 1, "Bias must be 1-D")
    words = "Input dim 2 (input channels) is not == dim 1 in the weight tensor"
    check(self.shape[2] == weight.shape[1], words)
    check(bias.shape[0] == weight.shape[2], "Bias size must equal dim 2 in the weight tensor (output channels).")
    check_steps(self, len(self), weight, pad)
    times, batch = len(self) + 2 * pad - len(weight) + 1, self.shape[1]
    y = np.broadcast_to(dt.cast(bias, self.dtype), check_size((times, batch, len(bias)))).copy()
    # Only float32 and float64 are summed in place; in other dtypes, torch rounds the sum after each tap.
    in_place = self.dtype == weight.dtype and self.dtype in (dt.float32, dt.float64)
    for tap in range(len(weight)):
        first, last = max(pad - tap, 0), min(len(self) + pad - tap, times)
        if first < last:
            part, x = y[first:last], self[first + tap - pad : last + tap - pad]
            flat, rows = (a.reshape(len(a) * batch, a.shape[2]) for a in (part, x))
            if in_place:
                # With one inner channel, a multiplication gives the same products as BLAS, and is faster.
                lone = rows.shape[1] == 1 < min(flat.shape)
                flat += rows * weight[tap] if lone else np.matmul(blas_ready(rows), blas_ready(weight[tap]))
            else:
                part[...] = addmm(flat, rows, weight[tap]).reshape(part.shape)
    return y


# ---------------------------------------------------------------- backends that torch registers as ops: one computation


def _plain(self, weight, bias, stride, padding, dilation):
    """Convolve without groups; these backends also accept an input without a batch dimension."""
    n = len(stride)
    x = self[None] if self.ndim == n + 1 else self
    y = _convolve(x, weight, bias, stride, padding, dilation, False, [0] * n, 1, own=True)
    return y if x is self else y[0]


def _of_batch(self, weight, kernel_size, bias, stride, padding, *, n):
    weight = _as_window(self, weight, kernel_size, bias, stride, padding, n)
    if n == 2 and not self.shape[1]:  # torch treats an input without channels as zeros
        self = np.zeros((len(self), weight.shape[1], *self.shape[2:]), self.dtype)
    if not len(self):
        require(checks.COLUMNS[n], self.dtype, checks.WITH_COLUMNS)
        check_type(self.dtype, weight)
    bias = bias if len(self) else None
    if n == 3 and weight.ndim == 5 and self.shape[1] != weight.shape[1]:
        return _of_groups(self, weight, bias, stride, padding)
    y = _plain(self, weight, bias, stride, padding, (1,) * n)
    return y if len(self) else stride_rules.place(y, checks.result_strides(y.shape, self, weight, False))


def _of_groups(self, weight, bias, stride, padding):
    """Convolve volumes in groups, whose number torch infers from the channels.

    Output channels that belong to no group get the bias.
    """
    checks.check_room(self.shape[2:], weight.shape[2:], padding, (1, 1, 1))
    outputs, planes = weight.shape[:2]
    groups = self.shape[1] // planes
    check(groups > 0, "none zero group size expected")
    words = f"Expected a tensor of dimension 5 and tensor.size[1] == {groups * planes}"
    check(self.shape[1] == groups * planes, f"{words} but got: dimension 5 and tensor.size[1] = {self.shape[1]}")
    each = outputs // groups
    shape = (len(self), outputs, *out_sizes(self.shape[2:], weight.shape[2:], stride, padding, (1, 1, 1)))
    y = stride_rules.empty(shape, self.dtype, checks.result_strides(shape, self, weight, False))
    y[...] = 0 if bias is None else bias.reshape(-1, 1, 1, 1)
    for group in range(groups if each else 0):
        own, its = slice(group * each, (group + 1) * each), slice(group * planes, (group + 1) * planes)
        part = None if bias is None else bias[own]
        y[:, own] = _plain(self[:, its], weight[own], part, stride, padding, (1, 1, 1))
    return y


def _as_window(self, weight, kernel_size, bias, stride, padding, n):
    """Run the first checks of these backends, and return the weight.

    For 2-d convolutions the weight is reshaped to (outputs, planes, *kernel_size).
    """
    for name, value in (("kernel_size", kernel_size), ("stride", stride), ("padding", padding)):
        words = f"2D {name} expected" if n == 2 else f"It is expected {name} equals to 3, but got size {len(value)}"
        check(len(value) == n, words)
    if n == 3:
        dim_of(weight, 1)
    if n == 3 and weight.shape[1]:  # torch divides by the weight's channels, to get the number of groups
        dim_of(self, 1)
    for name, value in (("kernel", kernel_size), ("stride", stride)):
        found = f" {name}_height: {value[0]} {name}_width: {value[1]}" if n == 2 else f": {by(value)} (TxHxW)"
        check(min(value) > 0, f"{name}{' size' * (name == 'kernel')} should be greater than zero, but got{found}")
    folded = n == 2 and weight.ndim == 4  # torch has flattened it to a matrix by now
    shape = (len(weight), math.prod(weight.shape[1:])) if folded else weight.shape
    words = f"non-empty 2D or {n + 2}D weight tensor expected, but got: {shape_text(shape)}"
    check(weight.size and weight.ndim in (2, n + 2), words)
    if bias is not None:
        dim_of(bias, 0)
        check_shape(bias, weight.shape[:1])
    expected = "Expected 4D input tensor," if n == 2 else "non-empty 5D input tensor expected"
    whole = self.ndim == n + 2 and (n == 2 or 0 not in self.shape[1:])
    check(whole, f"{expected} but got: {shape_text(self.shape)}")
    if n == 2:
        planes = weight.size // (len(weight) * math.prod(kernel_size))
        found = f"dimension 4 and tensor.size[1] = {self.shape[1]}"
        words = f"Expected a tensor of dimension 4 and tensor.size[1] == {planes} but got: {found}"
        check(self.shape[1] in (0, planes), words)
        return weight.reshape(len(weight), planes, *kernel_size)
    if weight.ndim == 2:
        planes = weight.shape[1] // math.prod(kernel_size)
        found = f"but got: dimension 5 and tensor.size[1] = {self.shape[1]}"
        check(self.shape[1] == planes, f"Expected a tensor of dimension 5 and tensor.size[1] == {planes} {found}")
    return weight


_NAMES = "_slow_conv2d_forward thnn_conv2d slow_conv3d_forward slow_conv3d"
rows(_NAMES, _of_batch, "Convolution over two or three dimensions.")


def _dilated(self, weight, kernel_size, bias, stride, padding, dilation, *, n):
    # These two ops first check the filter's sizes, then the channels, then the bias.
    given = {"kernel sizes": kernel_size, "strides": stride, "dilations": dilation, "pads": padding}
    for name, value in given.items():
        check(len(value) == n, f"{name} length should be {n}, but got {len(value)}")
    for name, value in (("kernel size", kernel_size), ("stride", stride), ("dilation", dilation)):
        check(min(value) > 0, f"{name} should be greater than zero, but got {shape_text(value)}")
    check(self.ndim in (n + 1, n + 2), f"input must be 4D or 5D tensor but got {self.ndim}D tensor")
    out = out_sizes(self.shape[-n:], kernel_size, stride, padding, dilation)
    told = "is too small (all sizes must be non-negative)"
    check(min(out) >= 0, f"calculated output size {' '.join(map(str, out))} {told}")
    check(weight.ndim == n + 2, f"weight must be {n + 2}D tensor but got {weight.ndim}D tensor dim={n}")
    shapes = f"{shape_text(weight.shape[2:])} must be equal to kernel_size {shape_text(kernel_size)}"
    check(weight.shape[2:] == tuple(kernel_size), f"weight[2:] shape {shapes}")
    at = self.ndim - n - 1
    found = f"but got input to be of shape {shape_text(self.shape)}"
    words = f"Need input of dimension {self.ndim} and input.size[{at}] == {weight.shape[1]}"
    check(self.shape[at] == weight.shape[1], f"{words} {found}")
    if bias is not None:
        check(bias.ndim == 1, f"bias must be 1D tensor but got {bias.ndim}D tensor")
        words = f"Need bias of dimension 1 and bias.size[0] == {len(weight)}"
        check(len(bias) == len(weight), f"{words} but got input to be of shape {shape_text(bias.shape)}")
    require("slow_conv_dilated<>", self.dtype, (*dt.FLOATS, dt.int64))
    check_type(self.dtype, weight)
    if not self.size or not len(weight) or 0 in out:
        y = np.zeros((*self.shape[:at], len(weight), *out), self.dtype)
        return stride_rules.dense(y if bias is None else y + dt.cast(bias, y.dtype).reshape(-1, *(1,) * n))
    return _plain(self, weight, bias, stride, padding, dilation)


def _transposed(self, weight, kernel_size, bias, stride, padding, output_padding, dilation, *, n):
    given = ("kernel_size", kernel_size), ("dilation", dilation), ("padding", padding), ("stride", stride)
    for name, value in (*given, ("stride", output_padding)):
        check(len(value) == n, f"It is expected {name} equals to {n}, but got size {len(value)}")
    shape, filled = shape_text(self.shape), self.size and self.ndim in (n + 1, n + 2)
    check(n == 2 or filled, f"non-empty 4D or 5D (batch mode) tensor expected for input, but got: {shape}")
    for name, value in (("kernel", kernel_size), ("stride", stride), ("dilation", dilation))[n - 2 :]:
        check_positive(name, value)
    g = checks.Geometry(*map(tuple, (stride, padding, dilation, output_padding)))
    checks.check_output_padding(g)
    words = "non-empty 2D or 4D weight tensor expected, but got:" if n == 2 else EMPTY_FILTER
    check(weight.size and (weight.ndim == n + 2 or weight.ndim == n == 2), f"{words} {shape_text(weight.shape)}")
    if bias is not None:
        check_shape(bias, weight.shape[1:2])
    check(filled, f"non-empty 3D or 4D input tensor expected but got a tensor with size {shape}")
    sizes = self.shape[-n:]
    out = checks.sizes_back(sizes, kernel_size, g)
    check(min(out) > 0, small_output(sizes, out))
    check_shape(self, (*self.shape[: -n - 1], len(weight), *sizes))
    x = self[None] if self.ndim == n + 1 else self
    y = _convolve(x, weight, bias, stride, padding, dilation, True, output_padding, 1, own=True)
    return y if x is self or n == 2 else y[0]  # in two dimensions torch keeps the batch dimension that it added


rows("slow_conv_dilated2d slow_conv_dilated3d", _dilated, "Dilated convolution.")
rows("slow_conv_transpose2d slow_conv_transpose3d", _transposed, "Transposed convolution.")


@kernel("mkldnn_convolution")
def mkldnn_convolution(self, weight, bias, padding, stride, dilation, groups):
    """`convolution` by oneDNN, which converts the weight to the input's dtype; integers saturate."""
    given = {"padding": padding, "stride": stride, "dilation": dilation}
    found = {name: checks.expand(value, name, self.ndim - 2) for name, value in given.items()}
    g = checks.Geometry(**found, output_padding=(0,) * (self.ndim - 2))
    checks.check_numbers(g.stride, g.padding, (), ())
    check(min(g.dilation, default=1) > 0, "non-positive dilation is not supported")
    check(groups > 0, "non-positive groups is not supported")
    checks.check_shapes(self, weight, None if bias is None else bias.shape, g, False, groups)
    for x in (self, weight) if bias is None else (self, weight, bias):
        check(x.dtype in checks.TAKEN, dense_dtype(x.dtype))
    fits = bias is None or bias.dtype in (dt.float32, *[x for x in dt.HALVES if x == self.dtype])
    check(fits and self.shape[1] and weight.size, no_primitive("convolution"))
    words = (
        f"mkldnn_to_dense expects float, bfloat16, half, uint8, int8{', float8_e4m3fn' * since('2.13')} tensor input"
    )
    check(self.dtype not in dt.FLOAT8S, words)
    inner = dt.float32 if self.dtype.kind in "iu" else self.dtype
    x, w, b = (None if x is None else dt.cast(x, inner) for x in (self, weight, bias))
    y = convolution(x, w, b, stride, padding, dilation, False, [0], groups)
    if inner != self.dtype:
        limits = np.iinfo(self.dtype)
        np.clip(np.rint(y, out=y), limits.min, limits.max, out=y)
    return stride_rules.place(dt.cast(y, self.dtype), stride_rules.layout_of(y)[1])


@kernel("_slow_conv2d_backward.output_mask")
def _slow_conv2d_backward(grad_output, self, weight, kernel_size, stride, padding, output_mask):
    """Gradients of `_slow_conv2d_forward`."""
    of_x = of_w = of_b = None

    def one(*mask: bool) -> tuple[Any, ...]:
        window = _as_window(self, weight, kernel_size, None, stride, padding, 2)
        rest = (stride, padding, (1, 1), False, (0, 0), 1)
        return gradients(grad_output, self, window, [len(weight)], *rest, mask, own=True)

    if output_mask[0]:
        of_x = one(True, False, False)[0]
    if output_mask[2]:  # needs grad_output only
        wrap_dims((0, 2, 3), grad_output.ndim)
        of_b = sum_dim(grad_output, (0, 2, 3), dtype=grad_output.dtype)
    if output_mask[1]:
        given = [stride_rules.layout_of(x) for x in (self, weight) if x.ndim == 4]
        if any(stride_rules.suggested(*x) != "contiguous_format" for x in given):
            checks.check_weight_written(weight, False)
        of_w = dt.cast(one(False, True, False)[1].reshape(weight.shape), grad_output.dtype)
    return of_x, of_w, of_b


@kernel("conv_tbc_backward")
def conv_tbc_backward(self, input, weight, bias, pad):
    """Gradients of `conv_tbc` with respect to input, weight and bias."""
    for x in (self, input, new_like(input, input.dtype)):
        check_steps(x, len(input), weight, pad)
    of_x, of_w = new_like(input, input.dtype), new_like(weight, weight.dtype)
    of_x[...], of_w[...] = 0, 0
    spans = []
    for tap in range(len(weight)):
        shift, start = max(tap - pad, 0), max(pad - tap, 0)
        n = min(len(input) + pad - tap, len(input) + 2 * pad - len(weight) + 1) - start
        if n > 0:
            spans.append((tap, slice(shift, shift + n), slice(start, start + n)))
    rows = lambda a: a.reshape(len(a) * a.shape[1], a.shape[2])
    for tap, steps, taken in spans:
        part = of_x[steps]
        part[...] = addmm(rows(part), rows(self[taken]), weight[tap].T).reshape(part.shape)
    for tap, steps, taken in spans:
        of_w[tap] = addmm(of_w[tap], rows(input[steps]).T, rows(self[taken]))
    return of_x, of_w, dt.cast(sum_dim(sum_dim(self, [0]), [0]), bias.dtype)


rows("_nnpack_available", lambda: True, "Always True: `_nnpack_spatial_convolution` is available.")


_NNPACK: Threshold = 16  # size of the largest filter that NNPACK transforms


@kernel("_nnpack_spatial_convolution")
def _nnpack_spatial_convolution(input, weight, bias, padding, stride=(1, 1)):
    """`convolution` of float32 images, with padding smaller than the filter."""
    sides = zip(input.shape[2:], weight.shape[2:], padding, stride)
    shape = (*input.shape[:1], *weight.shape[:1], *(int((n + 2 * p - k) / s) + 1 for n, k, p, s in sides if s))
    check_size(shape)
    check(input.ndim == 4, "NNPack convolutionOutput expects 4D input Tensor N,C,H,W")
    check(weight.ndim == 4, "NNPack convolutionOutput expects 4D weight Tensor oC,iC,kH,kW")
    channels = f"in input Tensor ({input.shape[1]}) and weight Tensor ({weight.shape[1]})"
    words = f"Mismatch between number of input channels {channels} in NNPack convolutionOutput"
    check(input.shape[1] == weight.shape[1], words)
    single = all(x is None or x.dtype == dt.float32 for x in (input, weight, bias))
    check(single, "Mismatched Tensor types in NNPack convolutionOutput")
    steps = tuple(stride[:2]) != (1, 1)
    small = (steps or len(input) == 1 or max(weight.shape[2:]) <= _NNPACK) and input.size and weight.size
    fits = small and all(0 <= p < k for p, k in zip(padding, weight.shape[2:]))
    idle = steps and not len(input)
    check(fits or idle, "NNPACK SpatialConvolution_updateOutput failed")
    if idle:
        return empty_in_order(shape, input.dtype, None)
    row = None if bias is None else np.resize(bias, len(weight))  # torch does not check the bias's shape
    return stride_rules.dense(convolution(input, weight, row, stride[:2], padding[:2], (1, 1), False, (0, 0), 1))


def _depthwise(self, weight, kernel_size, bias, stride, padding, dilation):
    return convolution(self, weight, bias, stride, padding, dilation, False, [0] * len(stride), self.shape[1])


rows(
    "_conv_depthwise2d conv_depthwise3d",
    _depthwise,
    "Depthwise `convolution`, one group per channel; torch has it on other devices only.",
)
