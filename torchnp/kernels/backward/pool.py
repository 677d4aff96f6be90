"""Gradients of pooling."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, check_filled, check_shape, check_type, require
from torchnp.core.errors import shape_text
from torchnp.core.python_scalars import each
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._spatial import Ints, code_for, empty, is_channels_last
from torchnp.kernels.numerics.blocks import row_major_blocks
from torchnp.kernels.pool import (
    STRIP,
    check_average,
    check_lengths,
    check_ndim,
    divide,
    divisors,
    places,
    result,
    windows,
)
from torchnp.kernels.pool_adaptive import bins
from torchnp.thresholds import Threshold

ndarray = np.ndarray


def _same_dtype(x: ndarray, grad: ndarray, what: str, expected: str = "expected") -> None:
    if grad.dtype != x.dtype:
        a, b = (dt.c_name(v.dtype) for v in (x, grad))
        raise RuntimeError(f"{expected} dtype {a} for `{what}` but got dtype {b}")


# ---------------------------------------------------------------- maximum


def scatter_planes(grad: ndarray, indices: ndarray, shape: Ints, n: int) -> ndarray:
    """Add each gradient at its index in its plane (the last ``n`` dimensions), rounding each sum as torch does.

    For an index outside its plane torch writes out of bounds; here 0 is added instead, which changes nothing.
    """
    plane, planes = math.prod(shape[-n:]), math.prod(shape[:-n])
    within = indices.reshape(planes, math.prod(indices.shape[-n:]))
    values, out = grad.reshape(within.shape), np.zeros(shape, grad.dtype)
    for lines, part in row_major_blocks(within.shape if plane else (0, 0), 1, STRIP):
        at = within[lines, part]
        inside = np.minimum(np.maximum(at, 0), plane - 1)
        share = np.where(inside == at, values[lines, part], grad.dtype.type(0))
        inside += np.arange(lines.start, lines.stop)[:, None] * plane
        np.add.at(out.reshape(-1), inside.reshape(-1), share.reshape(-1))
    return out


def max_pool_backward(grad, x, kernel, stride, padding, dilation, ceil_mode, indices, *, n):
    """Compute the gradient of `max_pool_of`."""
    _same_dtype(x, grad, "gradOutput")
    if grad.ndim == x.ndim:
        check_ndim(grad, n, f"max_pool{n}d")
    w = windows(x, n, f"max_pool{n}d", kernel, stride, padding, dilation, ceil_mode)
    shape = (*x.shape[:-n], *w.out)
    check_shape(grad, shape, x.ndim - n - 1)
    check_shape(indices, shape, x.ndim - n - 1)
    check_shape(grad, shape)
    check_shape(indices, shape)
    require(code_for(f"max_pool{n}d_backward", grad, grad.ndim == 4 and n == 3), x.dtype, dt.FLOATS)
    check_type(dt.int64, indices)
    return result(scatter_planes(grad, indices, x.shape, n), x, n, volumes=True)


_AT_MAXIMA, _SHARED = (
    "Zeros with each gradient added at its maximum.",
    "Each gradient divided over its window's elements.",
)
max_pool2d_with_indices_backward, _ = rows(
    "max_pool2d_with_indices_backward max_pool3d_with_indices_backward", max_pool_backward, _AT_MAXIMA
)


_WHOLE: Threshold = 1 << 16  # elements of the planes that are processed at once


def _avg_backward(grad, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override, *, n):
    check_lengths(n, f"avg_pool{n}d", kernel, stride, padding)
    check(divisor_override != 0, "divisor must be not zero")
    w = windows(x, n, f"avg_pool{n}d", kernel, stride, padding, (1,), ceil_mode, last_first=n == 2, backward=n == 3)
    by = divisors(w, count_include_pad, divisor_override)
    shape = (*x.shape[:-n], *w.out)
    check_shape(grad, shape, x.ndim - n - 1)
    if n == 2:
        _same_dtype(x, grad, "gradOutput")
    check_shape(grad, shape)  # torch does not check the batch, and reads memory beyond a smaller one
    check_average(grad if n == 2 else x, n, "_backward")
    check_type(x.dtype, grad)
    after, taps = places(w)
    padded = tuple(map(sum, zip(w.padding, w.sizes, after, strict=True)))
    inner: tuple[Any, ...] = (..., *(slice(p, p + s) for p, s in zip(w.padding, w.sizes, strict=True)))
    last = n == 2 and is_channels_last(x)
    lead, out = 1 if last else x.ndim - n, empty(x.shape, x.dtype, last)
    for block in row_major_blocks(x.shape[:lead], 1, max(_WHOLE // math.prod((*x.shape[lead:-n], *padded)), 1)):
        share = divide(dt.cast(grad[block], dt.opmath(grad.dtype)), by)
        total = empty((*share.shape[:-n], *padded), share.dtype, last)
        total[...] = 0
        for tap in taps:
            total[tap] += share
        out[block] = dt.cast(total[inner], x.dtype)
    return result(out, x, n)


rows("avg_pool2d_backward avg_pool3d_backward", _avg_backward, _SHARED)

# ---------------------------------------------------------------- adaptive


def _adaptive_avg_backward(grad: ndarray, x: ndarray, *, n: int) -> ndarray:
    name = f"adaptive_avg_pool{n}d_backward"
    check_filled(grad, f"{name}(): Expected grad_output", "grad_output has sizes ")
    where, what = f"{name}_out_cpu_template: Expected", "grad_output" if n == 2 else "gradOutput_"
    check(grad.ndim == x.ndim, f"{where} dimensions {x.ndim} for `{what}` but got dimensions {grad.ndim}")
    check(x.ndim in (n + 1, n + 2), f"{where} {n + 1}D or {n + 2}D tensor, but got {shape_text(x.shape)}")
    if n == 2:
        _same_dtype(x, grad, "grad_output", where)
    require(code_for(name, grad) if n == 2 else f"{name}_cpu", x.dtype, dt.FLOATS)
    check_type(x.dtype, grad)
    g = dt.cast(grad, dt.opmath(grad.dtype))
    for d in range(x.ndim - n, x.ndim):
        g = _spread(g, d, x.shape[d])
    return result(dt.cast(g, x.dtype), x, n)


def _spread(g: ndarray, axis: int, size: int) -> ndarray:
    out = g.shape[axis]
    start, length = bins(size, out)
    g = g / length.astype(g.dtype).reshape(-1, *[1] * (g.ndim - axis - 1))
    total = np.zeros((*g.shape[:axis], size, *g.shape[axis + 1 :]), g.dtype)
    before = (slice(None),) * axis
    for i in range(out):
        total[(*before, slice(start[i], start[i] + length[i]))] += g[(*before, slice(i, i + 1))]
    return total


_adaptive_avg_pool2d_backward, _adaptive_avg_pool3d_backward = rows(
    "_adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward", _adaptive_avg_backward, _SHARED
)


def _adaptive_max_backward(grad: ndarray, x: ndarray, indices: ndarray, *, n: int) -> ndarray:
    name = f"adaptive_max_pool{n}d_backward"
    check_filled(grad, f"{name}(): Expected grad_output", "grad_output has sizes ")
    shown, what = ("adaptive_max_pooling2d_backward", "grad_output") if n == 2 else (name, "gradOutput")
    shape = shape_text(grad.shape)
    words = f"{shown}(): Expected {n + 1}D or {n + 2}D {what}, but got: {shape}"
    check(grad.ndim in (n + 1, n + 2), words)
    for ndim in (x.ndim, grad.ndim):
        check(indices.ndim == ndim, f"expected dimensions {ndim} for `indices` but got dimensions {indices.ndim}")
    words = f"expected sizes {shape_text(indices.shape)} for `{what}` but got sizes {shape}"
    check(indices.shape == grad.shape, words)
    _same_dtype(x, grad, what)
    require(code_for(name, x) if n == 2 else name, x.dtype, dt.FLOATS)
    check_type(dt.int64, indices)
    return result(scatter_planes(grad, indices, x.shape, n), x, n)


rows("adaptive_max_pool2d_backward adaptive_max_pool3d_backward", _adaptive_max_backward, _AT_MAXIMA)


def _fractional_backward(grad, x, kernel_size, output_size, indices, *, n):
    output_size = each(output_size, n)
    shape = (*x.shape[:-n], *output_size)
    if n == 2:
        for name, given in (("gradOutput", grad), ("indices", indices)):
            check(given.shape == shape, f"fractional_max_pool2d_backward(): {name} sizes unexpected")
    else:
        for name, a, b in zip(("time", "height", "width"), grad.shape[-3:], output_size, strict=True):
            check(a == b, f"fractional_max_pool3d_backward_out(): gradOutput {name} unexpected")
    require(f"fractional_max_pool{n}d_backward_out_frame", x.dtype, dt.FLOATS)
    asked = ((x.dtype, grad), (dt.int64, indices))
    for dtype, operand in asked if n == 2 else asked[::-1]:  # for volumes torch checks the indices first
        check_type(dtype, operand)
    return scatter_planes(grad, indices, x.shape, n)


rows("fractional_max_pool2d_backward fractional_max_pool3d_backward", _fractional_backward, _AT_MAXIMA)
