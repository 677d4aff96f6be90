"""Gradients of indexing: zeros with the gradient added where the elements came from."""

from __future__ import annotations

import math

import numpy as np

from torchnp.checks import broadcast_shapes, check
from torchnp.kernels._rows import rows
from torchnp.kernels.mask import masked_scatter, masked_select
from torchnp.kernels.scatter import index_add, scatter, scatter_add
from torchnp.kernels.view import unsqueeze, view
from torchnp.registry import kernel

ndarray = np.ndarray


@kernel("gather_backward")
def gather_backward(grad, self, dim, index, sparse_grad):
    """The gradient added at the positions that were gathered."""
    check(not sparse_grad, "torchnp has strided tensors only, got a sparse gradient")
    return scatter_add(np.zeros(self.shape, grad.dtype), dim, index, grad)


rows(
    "index_select_backward", lambda grad, sizes, dim, index: index_add(np.zeros(sizes, grad.dtype), dim, index, grad),
    "The gradient's slices added at the positions that were selected.",
)  # fmt: skip


@kernel("masked_select_backward")
def masked_select_backward(grad, input, mask):
    """The gradient, element by element, where the mask is true."""
    out = np.zeros(broadcast_shapes(input.shape, mask.shape), input.dtype)
    return masked_scatter(out, mask, grad)


@kernel("masked_scatter_backward")
def masked_scatter_backward(grad_output, mask, sizes):
    """The gradient where the mask is true, filled up with zeros to the size of the source."""
    taken = masked_select(grad_output, mask)
    missing = max(math.prod(sizes) - len(taken), 0)
    return view(np.concatenate([taken, np.zeros(missing, taken.dtype)]), sizes)


@kernel("value_selecting_reduction_backward")
def value_selecting_reduction_backward(grad, dim, indices, sizes, keepdim):
    """The gradient of a reduction that picks one element along a dimension."""
    if not keepdim and len(sizes):
        grad, indices = unsqueeze(grad, dim), unsqueeze(indices, dim)
    return scatter(np.zeros(sizes, grad.dtype), dim, indices, grad)
