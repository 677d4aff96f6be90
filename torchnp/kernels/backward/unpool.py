"""Gradients of pools with random windows."""

from __future__ import annotations

import numpy as np

from torchnp import dtypes as dt
from torchnp.checks import check, check_type, require
from torchnp.kernels._rows import rows
from torchnp.kernels._spatial import Ints
from torchnp.kernels.backward.pool import scatter_planes

ndarray = np.ndarray


def _backward(grad: ndarray, x: ndarray, kernel_size: Ints, output_size: Ints, indices: ndarray, *, n: int) -> ndarray:
    shape = (*x.shape[:-n], *output_size)
    if n == 2:
        check(grad.shape == shape, "fractional_max_pool2d_backward(): gradOutput sizes unexpected")
    else:
        for name, a, b in zip(("time", "height", "width"), grad.shape[-3:], output_size, strict=True):
            check(a == b, f"fractional_max_pool3d_backward_out(): gradOutput {name} unexpected")
    require(f"fractional_max_pool{n}d_backward_out_frame", x.dtype, dt.FLOATS)
    check_type(x.dtype, grad)
    return scatter_planes(grad, indices, x.shape, n)


_DOC = "Gradients put where the maxima stood."
rows("fractional_max_pool2d_backward fractional_max_pool3d_backward", _backward, _DOC)
