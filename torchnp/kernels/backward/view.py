"""Gradients of views: zeros with the gradient in the part that was viewed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from torchnp.checks import broadcast_shapes, check, refuse_elements, wrap_dim
from torchnp.dtypes import cast, opmath
from torchnp.kernels._memory import RARE_OR_CHALF
from torchnp.kernels._rows import rows
from torchnp.kernels._spatial import Ints
from torchnp.kernels.slicing import diagonal, select, slice_tensor
from torchnp.registry import kernel

ndarray = np.ndarray


def _in_zeros(grad: ndarray, sizes: Ints, *where: Any, view: Callable[..., ndarray]) -> ndarray:
    out = np.zeros(sizes, grad.dtype)
    part = view(out, *where)
    if grad.shape != part.shape:
        broadcast_shapes(part.shape, grad.shape)
    part[...] = grad
    return out


rows("select_backward", _in_zeros, "Zeros with the gradient at one position of a dimension.", view=select)
rows("slice_backward", _in_zeros, "Zeros with the gradient in a range of a dimension.", view=slice_tensor)
rows("diagonal_backward", _in_zeros, "Zeros with the gradient on a diagonal.", view=diagonal)


@kernel("unfold_backward")
def unfold_backward(grad_in, input_sizes, dim, size, step):
    """The gradients of all windows added where they overlap."""
    if not len(input_sizes):
        return grad_in.reshape(-1).sum(dtype=grad_in.dtype).reshape(())
    dim = wrap_dim(dim, len(input_sizes))
    refuse_elements("unfold_backward_cpu", grad_in, RARE_OR_CHALF)
    grad = cast(grad_in, opmath(grad_in.dtype))
    out = np.zeros(input_sizes, grad.dtype)
    ahead, count = (slice(None),) * dim, grad.shape[dim]
    for i in range(size):  # the i-th elements of all windows never overlap
        out[(*ahead, slice(i, i + (count - 1) * step + 1, step))] += grad[..., i]
    return cast(out, grad_in.dtype)


@kernel("trace_backward")
def trace_backward(grad, sizes):
    """The gradient of a trace: its value along the diagonal."""
    check(len(sizes) == 2, "expected matrix input")
    out = np.zeros(sizes, grad.dtype)
    diagonal(out)[...] = grad
    return out
