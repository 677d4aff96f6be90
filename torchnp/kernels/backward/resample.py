"""Gradients of resampling."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, check_shape
from torchnp.core.errors import not_implemented
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._spatial import Ints, in_format, is_channels_last
from torchnp.kernels.resample import Sampling, antialiased, check_sizes, cubic, linear, nearest, unsample, without_inf
from torchnp.layout import stride_rules

ndarray = np.ndarray
By = Callable[..., Sampling]


def _check_gradient(grad: ndarray, output_size: Ints, input_size: Ints, n: int) -> None:
    check_sizes(len(input_size), input_size, output_size, n)
    shape = (*input_size[:2], *output_size)
    if n == 1:
        check_shape(grad, shape)
    words = f"Expected grad_output to be a tensor of dimension {n + 2} but got: dimension {grad.ndim}"
    check(grad.ndim == n + 2, words)
    words = "Expected grad_output to have the same shape as output;"
    for d, (a, b) in enumerate(zip(shape, grad.shape, strict=True)):
        check(a == b, f"{words} output.size({d}) = {a} but got grad_output.size({d}) = {b}")


def _kernel_name(op: str, grad: ndarray) -> str:
    """Return torch's name of the CPU kernel; channels-last gradients have a kernel with another name."""
    if "cubic" in op or not stride_rules.is_channels_last(*stride_rules.layout_of(grad)):
        return op
    return f"{op}_channels_last" if "linear" in op else f"{'_' * ('exact' not in op and grad.ndim == 5)}{op}_cl"


def _copies(size: int, out: int, scale: float | None, dtype: np.dtype, *, exact: bool) -> Sampling:
    return Sampling(nearest(size, out, scale, exact, True)[:, None], np.ones((out, 1), dtype))


def _backward(grad: ndarray, output_size: Ints, input_size: Ints, *rest: Any, op: str, n: int, by: By) -> ndarray:
    align, scales = rest[:-n], rest[-n:]
    _check_gradient(grad, output_size, input_size, n)
    averages = "_aa" in op
    takes = (dt.float32, dt.float64) if averages else dt.FLOATS
    copies = "bicubic" in op and not averages and list(output_size) == list(input_size[2:])  # copies accept any dtype
    if grad.dtype not in takes and not copies:
        raise not_implemented(f"{op[1:]}_cpu" if averages else _kernel_name(op, grad), grad.dtype)
    g = dt.cast(grad, dt.opmath(grad.dtype))
    if list(output_size) == list(input_size[2:]):
        if copies:
            by = linear  # if the sizes are equal, elements are copied, whatever the scales
        elif not averages:
            g = g + g.dtype.type(0)  # torch adds to zeros, which leaves no -0.0
    if "linear" in op and not averages:
        g = without_inf(g, input_size[2:], output_size)
    for d in range(n):
        g = unsample(g, 2 + d, input_size[2 + d], by(input_size[2 + d], output_size[d], *align, scales[d], g.dtype))
    g = dt.cast(g, grad.dtype)
    keeps = "bicubic" not in op and not ("nearest" in op and n == 3)
    g = in_format(g, keeps and is_channels_last(grad))
    return g.copy("K") if np.may_share_memory(g, grad) else g


_COPIES = "For each input element, the sum of the gradients of its copies."
_SHARES = "The gradients, distributed with the weights of the forward op."
_LOW = "upsample_nearest1d_backward upsample_nearest2d_backward upsample_nearest3d_backward"
_NEAR = "_upsample_nearest_exact1d_backward _upsample_nearest_exact2d_backward _upsample_nearest_exact3d_backward"
_LINEAR = "upsample_linear1d_backward upsample_bilinear2d_backward upsample_trilinear3d_backward"
rows(_LOW, _backward, _COPIES, by=partial(_copies, exact=False))
rows(_NEAR, _backward, _COPIES, by=partial(_copies, exact=True))
rows(_LINEAR, _backward, _SHARES, by=linear)
rows("upsample_bicubic2d_backward", _backward, _SHARES, by=partial(cubic, fused=False))
rows("_upsample_bilinear2d_aa_backward", _backward, _SHARES, by=partial(antialiased, "bilinear"))
rows("_upsample_bicubic2d_aa_backward", _backward, _SHARES, by=partial(antialiased, "bicubic"))
rows("_upsample_lanczos2d_aa_backward", _backward, _SHARES, by=partial(antialiased, "lanczos"))
