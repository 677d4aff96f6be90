"""Gradients of convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, check_no_dilation, check_shape, check_type, refuse, require
from torchnp.core.errors import dense_dtype, no_primitive, shape_text
from torchnp.core.registry import kernel
from torchnp.kernels import _conv_checks as checks
from torchnp.kernels._memory import RARE_OR_CHALF
from torchnp.kernels._spatial import Ints, in_format, out_sizes
from torchnp.kernels.numerics.correlate import correlate, correlate_input, correlate_weight
from torchnp.layout import stride_rules

ndarray = np.ndarray


@kernel("convolution_backward")
def convolution_backward(
    grad_output: ndarray, input: ndarray, weight: ndarray, bias_sizes: Ints | None, stride: Ints, padding: Ints,
    dilation: Ints, transposed: bool, output_padding: Ints, groups: int, output_mask: Sequence[bool],
) -> tuple[ndarray | None, ndarray | None, ndarray | None]:  # fmt: skip
    """Gradients of `convolution` with respect to input, weight and bias; None for those not requested."""
    rest = (stride, padding, dilation, transposed, output_padding, groups, output_mask)
    return gradients(grad_output, input, weight, bias_sizes, *rest)


def gradients(
    grad_output: ndarray, input: ndarray, weight: ndarray, bias_sizes: Ints | None, stride: Ints, padding: Ints,
    dilation: Ints, transposed: bool, output_padding: Ints, groups: int, output_mask: Sequence[bool], own: bool = False,
) -> tuple[ndarray | None, ndarray | None, ndarray | None]:  # fmt: skip
    """Compute `convolution_backward`; with ``own``, like torch's own code instead of oneDNN."""
    if weight.ndim > 2:
        numbers = {"stride": stride, "padding": padding, "dilation": dilation, "output_padding": output_padding}
        checks.check_numbers(*(checks.expand(value, name, weight.ndim - 2) for name, value in numbers.items()))
    check(groups > 0 or weight.ndim < 3, f"expected groups to be greater than 0, but got groups={groups}")
    g = checks.geometry(input, weight, None, stride, padding, dilation, transposed, output_padding, groups)
    ranks = f"but got: {input.ndim} and {grad_output.ndim}"
    words = "Expected input and grad_output to have the same number of dimensions"
    check(grad_output.ndim == input.ndim, f"{words}, {ranks}")
    words = "output_padding is not supported for non-transposed convolutions; got:"
    check(transposed or not any(g.output_padding), f"{words} {' '.join(map(str, g.output_padding))}")
    if 0 in input.shape:
        if own:
            _check_gradient(grad_output, input, weight, g, transposed, groups, output_mask)
        return _backward_of_nothing(input, weight, bias_sizes, output_mask)
    vendor = not own and checks.by_vendor(input, weight, g, transposed, groups)
    if vendor:
        g = _check_by_vendor(grad_output, input, weight, g, transposed, groups, output_mask)
    else:
        _check_gradient(grad_output, input, weight, g, transposed, groups, output_mask)
    dtype = grad_output.dtype
    if output_mask[2] and not any(output_mask[:2]):  # torch checks nothing else then
        refuse("sum_cpu", dtype, RARE_OR_CHALF)
    inner = checks.sum_dtype(input, weight, (input if transposed else grad_output).shape[2:])
    grad_input = grad_weight = grad_bias = None
    if output_mask[2]:
        wide = inner if dtype == input.dtype else dt.opmath(dtype)
        grad_bias = dt.cast(dt.cast(grad_output, wide).sum((0, *range(2, input.ndim)), dtype=wide), dtype)
    of_weight = output_mask[1] or (output_mask[2] and vendor)  # oneDNN computes weight and bias together
    if not (output_mask[0] or of_weight):
        return None, None, grad_bias
    channels_last = checks.wants_channels_last(input, weight)
    y, x, w = (dt.cast(a, inner) for a in (grad_output, input, weight))
    window = (g.stride, g.padding, g.dilation, groups, channels_last)
    if output_mask[0]:
        if transposed:
            grad = correlate(y, w, g.stride, g.padding, g.padding, g.dilation, groups, channels_last)
            part: Any = (..., *(slice(s) for s in x.shape[2:]))  # output_padding may leave room for one window more
            grad_input = in_format(dt.cast(grad[part], dtype), channels_last)
        else:
            half = dtype == dt.float16 and not vendor
            grad_input = dt.cast(correlate_input(y, w, x.shape[2:], *window, half=half), dtype)
    if of_weight:
        of, to = (y, x) if transposed else (x, y)
        grad_weight = dt.cast(correlate_weight(of, to, w.shape[2:], *window), dtype)
    # torch's own code converts the weight to channels-last; a weight that already is channels-last keeps its layout.
    own_layout = stride_rules.layout_of(weight)
    image = own_layout if weight.ndim > 3 else stride_rules.as_image(*own_layout)
    kept = not vendor and (transposed or set(g.dilation) == {1}) and stride_rules.is_channels_last(*image)
    given = (weight, weight) if kept else (input, weight)
    if of_weight and kept and channels_last and weight.ndim == 4:
        checks.check_weight_written(weight, transposed)
    grad_weight = _laid(grad_weight, *given, vendor)
    if grad_weight is not None and not output_mask[1] and weight.ndim == 3:  # torch squeezes only requested gradients
        grad_weight = np.expand_dims(grad_weight, 2)
    return _laid(grad_input, input, weight, vendor, groups), grad_weight, grad_bias


def _laid(x: ndarray | None, input: ndarray, weight: ndarray, vendor: bool, groups: int = 1) -> ndarray | None:
    return x if x is None else stride_rules.place(x, checks.result_strides(x.shape, input, weight, vendor, groups))


def _check_by_vendor(
    y: ndarray, x: ndarray, w: ndarray, g: checks.Geometry, transposed: bool, groups: int, mask: Sequence[bool]
) -> checks.Geometry:
    """Make oneDNN's checks: it reads the weight only for the input's gradient, and has one message for all errors."""
    if not any(mask):
        return g
    for a in (y, w) if mask[0] else (y,):
        check(a.dtype in checks.TAKEN, dense_dtype(a.dtype))
    if 0 in g.dilation:  # oneDNN then treats all dilations as 1
        check(x.ndim < 5, "dimensions are invalid")
        g = g._replace(dilation=(1,) * len(g.dilation))
    fits = w.size and y.shape == _shape_of_gradient(x, w, g, transposed, groups)
    beside = {a.dtype for a, read in ((x, any(mask[1:])), (w, transposed and mask[0])) if read}
    check(fits and beside <= {y.dtype}, no_primitive("deconvolution" if transposed else "convolution"))
    return g


def _shape_of_gradient(x: ndarray, w: ndarray, g: checks.Geometry, transposed: bool, groups: int) -> tuple[int, ...]:
    if transposed:
        return (len(x), w.shape[1] * groups, *checks.sizes_back(x.shape[2:], w.shape[2:], g))
    return (len(x), len(w), *out_sizes(x.shape[2:], w.shape[2:], *g[:3]))


def _check_gradient(
    y: ndarray, x: ndarray, w: ndarray, g: checks.Geometry, transposed: bool, groups: int, mask: Sequence[bool]
) -> None:
    """Make the checks of torch's own code.

    If only the bias's gradient is requested, torch checks only dilated and transposed 3-d convolutions.
    """
    dims = 3 if x.ndim == 5 else 2
    dilated = not transposed and set(g.dilation) != {1}
    of_weight = mask[1] or (mask[2] and transposed and dims == 3)
    if not (dilated or mask[0] or of_weight):
        return
    if 0 in g.dilation:
        check_no_dilation(g.dilation, w, transposed, False)
    if transposed and 0 not in w.shape[2:]:
        checks.check_output_padding(g)
    checks.check_filter(w, transposed, dilated, groups)
    shape = _shape_of_gradient(x, w, g, transposed, groups)
    if dilated:
        _check_dilated(y, x, w, shape, mask)
        return
    if transposed:
        checks.transposed_sizes(x, w, g, groups, False)
    part, outputs = y[:, : y.shape[1] // groups], shape[1] // groups  # torch goes group by group
    if transposed and dims == 2 and mask[2] and not mask[0]:
        found = f"but got: dimension 1 and tensor.size[0] = {part.shape[1]}"
        check(part.shape[1] == outputs, f"Expected a tensor of dimension 1 and tensor.size[0] == {outputs} {found}")
    check_shape(part, (len(x), outputs, *shape[2:]), 1)
    if transposed and len(y) < len(x):
        seen = shape_text((*y.shape[:2], *(1,) * (y.ndim == 3), *y.shape[2:]))
        raise IndexError(f"select(): index {len(y)} out of range for tensor of size {seen} at dimension 0")
    check_shape(y, shape)  # torch does not check this, and reads out of bounds for a smaller batch
    stem = f"slow_conv_transpose{dims}d_" if transposed else f"slow_conv{dims}d_cpu_"
    if mask[0]:
        first, *others = (y, w) if transposed and dims == 2 else (x, y, w)
        require(stem + ("backward_out_cpu" if transposed else "grad_input"), first.dtype, dt.FLOATS)
        check_type(first.dtype, *others)
    if of_weight:
        if not transposed:
            require(checks.COLUMNS[dims], x.dtype, checks.WITH_COLUMNS)
        require(stem + ("acc_grad_parameters_cpu" if transposed else "grad_weight"), x.dtype, dt.FLOATS)
        check_type(x.dtype, y if mask[1] else None)


def _check_dilated(y: ndarray, x: ndarray, w: ndarray, shape: tuple[int, ...], mask: Sequence[bool]) -> None:
    check(len(y) == len(x), f"grad_output.size(0)={len(y)} must be input.size(0)={len(x)}")
    check(y.shape[1] == len(w), f"grad_output.size(1)={y.shape[1]} must be weight.size(0)={len(w)}")
    unit = (1,) * (x.ndim == 3)  # torch runs a 1-d convolution as a 2-d one
    found, wanted = unit + y.shape[2:], unit + shape[2:]
    words = f"grad_output[2:] shape{shape_text(found)} must be equal to output size {' '.join(map(str, wanted))}"
    check(found == wanted, words)
    require("slow_conv_dilated<>", x.dtype, (*dt.FLOATS, dt.int64))
    check_type(x.dtype, w if mask[0] else None, y if any(mask[:2]) else None)


def _backward_of_nothing(
    input: ndarray, weight: ndarray, bias_sizes: Ints | None, output_mask: Sequence[bool]
) -> tuple[ndarray | None, ndarray | None, ndarray | None]:
    words = f"Only zero batch or zero channel inputs are supported, but got input shape: {shape_text(input.shape)}"
    check(0 in input.shape[:2], words)
    x, w = (np.zeros(a.shape, a.dtype) if asked else None for a, asked in zip((input, weight), output_mask))
    b = np.zeros(bias_sizes, weight.dtype) if output_mask[2] and bias_sizes is not None else None
    return _like(x, input), _like(w, weight), b


def _like(x: ndarray | None, own: ndarray) -> ndarray | None:
    return x if x is None else stride_rules.place(x, stride_rules.preserved(*stride_rules.layout_of(own)))
