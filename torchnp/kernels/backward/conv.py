"""Gradients of convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp import layout
from torchnp.checks import check, check_shape, check_type, require
from torchnp.errors import dense_dtype, shape_text
from torchnp.kernels import _conv_checks as checks
from torchnp.kernels._spatial import Ints, in_format, out_sizes
from torchnp.kernels.numerics.correlate import correlate, correlate_input, correlate_weight
from torchnp.registry import kernel

ndarray = np.ndarray


@kernel("convolution_backward")
def convolution_backward(
    grad_output: ndarray, input: ndarray, weight: ndarray, bias_sizes: Ints | None, stride: Ints, padding: Ints,
    dilation: Ints, transposed: bool, output_padding: Ints, groups: int, output_mask: Sequence[bool],
) -> tuple[ndarray | None, ndarray | None, ndarray | None]:  # fmt: skip
    """Gradients of `convolution` in its input, weight and bias; None for those not asked for."""
    check(groups > 0 or weight.ndim < 3, f"expected groups to be greater than 0, but got groups={groups}")
    g = checks.geometry(input, weight, None, stride, padding, dilation, transposed, output_padding, groups)
    ranks = f"but got: {input.ndim} and {grad_output.ndim}"
    words = "Expected input and grad_output to have the same number of dimensions"
    check(grad_output.ndim == input.ndim, f"{words}, {ranks}")
    words = "output_padding is not supported for non-transposed convolutions; got:"
    check(transposed or not any(g.output_padding), f"{words} {' '.join(map(str, g.output_padding))}")
    if 0 in input.shape:
        return _backward_of_nothing(input, weight, bias_sizes, output_mask)
    vendor = checks.by_vendor(input, weight, g, transposed, groups)
    if vendor or any(output_mask[:2]):  # torch's own code looks at the gradient alone for that of the bias
        _check_gradient(grad_output, input, weight, g, transposed, groups, output_mask[0])
    channels_last = checks.wants_channels_last(input, weight)
    dtype = input.dtype
    inner = checks.sum_dtype(input, weight, (input if transposed else grad_output).shape[2:])
    y, x, w = (dt.cast(a, inner) for a in (grad_output, input, weight))
    grad_input = grad_weight = grad_bias = None
    window = (g.stride, g.padding, g.dilation, groups, channels_last)
    if output_mask[0]:
        if transposed:
            grad = correlate(y, w, g.stride, g.padding, g.padding, g.dilation, groups, channels_last)
            part: Any = (..., *(slice(s) for s in x.shape[2:]))  # output_padding may leave room for one window more
            grad_input = in_format(dt.cast(grad[part], dtype), channels_last)
        else:
            grad_input = dt.cast(correlate_input(y, w, x.shape[2:], *window), dtype)
    if output_mask[1] or (output_mask[2] and vendor):  # which makes both
        of, to = (y, x) if transposed else (x, y)
        grad_weight = dt.cast(correlate_weight(of, to, w.shape[2:], *window), dtype)
    if output_mask[2]:
        grad_bias = dt.cast(y.sum((0, *range(2, y.ndim)), dtype=inner), dtype)
    # torch's own code goes by the weight in that format, which one that has it already keeps as it is.
    own = layout.layout_of(weight) if weight.ndim > 3 else layout.as_image(*layout.layout_of(weight))
    kept = not vendor and layout.is_channels_last(*own)
    given = (weight, weight) if kept else (input, weight)
    return _laid(grad_input, input, weight, vendor), _laid(grad_weight, *given, vendor), grad_bias


def _laid(x: ndarray | None, input: ndarray, weight: ndarray, vendor: bool) -> ndarray | None:
    return x if x is None else layout.place(x, checks.result_strides(x.shape, input, weight, vendor))


_TAKEN = frozenset((dt.float32, *dt.HALVES, dt.int8, dt.uint8, *dt.FLOAT8S))  # what oneDNN has formats of


def _check_gradient(
    y: ndarray, x: ndarray, w: ndarray, g: checks.Geometry, transposed: bool, groups: int, of_input: bool
) -> None:
    dims = 3 if x.ndim == 5 else 2
    name = f"slow_conv_transpose{dims}d_backward_out_cpu" if transposed else f"slow_conv{dims}d_cpu"
    require(name + "_grad_input" * (of_input and not transposed), x.dtype, dt.FLOATS)
    if checks.by_vendor(x, w, g, transposed, groups):
        for a in (y, w):
            check(a.dtype in _TAKEN, dense_dtype(a.dtype))
    read = of_input or checks.by_vendor(x, w, g, transposed, groups)
    checks.check_dtypes(x, w if read else np.empty(w.shape, x.dtype), None, transposed, g, groups)
    check_type(x.dtype, y)
    sizes = checks.transposed_sizes(x, w, g, groups) if transposed else out_sizes(x.shape[2:], w.shape[2:], *g[:3])
    check_shape(y, (x.shape[0], w.shape[1] * groups if transposed else w.shape[0], *sizes))


def _backward_of_nothing(
    input: ndarray, weight: ndarray, bias_sizes: Ints | None, output_mask: Sequence[bool]
) -> tuple[ndarray | None, ndarray | None, ndarray | None]:
    words = f"Only zero batch or zero channel inputs are supported, but got input shape: {shape_text(input.shape)}"
    check(0 in input.shape[:2], words)
    x, w = (np.zeros(a.shape, a.dtype) if asked else None for a, asked in zip((input, weight), output_mask))
    b = np.zeros(bias_sizes, weight.dtype) if output_mask[2] and bias_sizes is not None else None
    return _like(x, input), _like(w, weight), b


def _like(x: ndarray | None, own: ndarray) -> ndarray | None:
    return x if x is None else layout.place(x, layout.preserved(*layout.layout_of(own)))
