"""Gradients of resampling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from torchnp import dtypes as dt
from torchnp.checks import check
from torchnp.errors import not_implemented
from torchnp.kernels._rows import rows
from torchnp.kernels._spatial import Ints, in_format, is_channels_last
from torchnp.kernels.resample import Sampling, antialiased, check_sizes, cubic, linear, nearest, unsample, without_inf

ndarray = np.ndarray
By = Callable[[int, int, bool, float | None, np.dtype], Sampling]


def _check_gradient(grad: ndarray, output_size: Ints, input_size: Ints, n: int) -> None:
    check_sizes(len(input_size), input_size, output_size, n)
    shape = (*input_size[:2], *output_size)
    words = f"Expected grad_output to be a tensor of dimension {n + 2} but got: dimension {grad.ndim}"
    check(grad.ndim == n + 2, words)
    words = "Expected grad_output to have the same shape as output;"
    for d, (a, b) in enumerate(zip(shape, grad.shape, strict=True)):
        check(a == b, f"{words} output.size({d}) = {a} but got grad_output.size({d}) = {b}")


def _backward(
    grad: ndarray, output_size: Ints, input_size: Ints, name: str, samplings: Callable[..., Sampling],
    scales: Sequence[float | None],
) -> ndarray:  # fmt: skip
    n = len(scales)
    _check_gradient(grad, output_size, input_size, n)
    accepted = (dt.float32, dt.float64) if "_aa" in name else dt.FLOATS
    if grad.dtype not in accepted:
        raise not_implemented(f"{name[1:]}_cpu" if "_aa" in name else name, grad.dtype)
    g = dt.cast(grad, dt.opmath(grad.dtype))
    if "linear" in name and "_aa" not in name:
        g = without_inf(g, input_size[2:], output_size)
    for d in range(n):
        g = unsample(g, 2 + d, input_size[2 + d], samplings(input_size[2 + d], output_size[d], scales[d], g.dtype))
    g = dt.cast(g, grad.dtype)
    keeps = "bicubic" not in name and not ("nearest" in name and n == 3)
    g = in_format(g, keeps and is_channels_last(grad))
    return g.copy("K") if np.may_share_memory(g, grad) else g


def _of_copies(grad: ndarray, output_size: Ints, input_size: Ints, *scales: float | None, op: str, exact: bool):
    def sampling(size: int, out: int, scale: float | None, dtype: np.dtype) -> Sampling:
        return Sampling(nearest(size, out, scale, exact, True)[:, None], np.ones((out, 1), dtype))

    return _backward(grad, output_size, input_size, op, sampling, scales)


_COPIES = "Gradients added up over the copies of each element."
_LOW = "upsample_nearest1d_backward upsample_nearest2d_backward upsample_nearest3d_backward"
_NEAR = "_upsample_nearest_exact1d_backward _upsample_nearest_exact2d_backward _upsample_nearest_exact3d_backward"
rows(_LOW, _of_copies, _COPIES, exact=False)
rows(_NEAR, _of_copies, _COPIES, exact=True)


def _of_shares(
    grad: ndarray, output_size: Ints, input_size: Ints, align_corners: bool, *scales: float | None, op: str, by: By
):
    if by is cubic and list(output_size) == list(input_size[2:]):
        by = linear  # equal sizes copy, whatever the scales

    def sampling(size: int, out: int, scale: float | None, dtype: np.dtype) -> Sampling:
        return by(size, out, align_corners, scale, dtype)

    return _backward(grad, output_size, input_size, op, sampling, scales)


_SHARES = "Gradients shared out by the weights of the forward op."
_LINEAR = "upsample_linear1d_backward upsample_bilinear2d_backward upsample_trilinear3d_backward"
rows(_LINEAR, _of_shares, _SHARES, by=linear)
rows("upsample_bicubic2d_backward", _of_shares, _SHARES, by=cubic)
rows("_upsample_bilinear2d_aa_backward", _of_shares, _SHARES, by=partial(antialiased, "bilinear"))
rows("_upsample_bicubic2d_aa_backward", _of_shares, _SHARES, by=partial(antialiased, "bicubic"))
rows("_upsample_lanczos2d_aa_backward", _of_shares, _SHARES, by=partial(antialiased, "lanczos"))
