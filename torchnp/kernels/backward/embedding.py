"""Gradients of lookup tables."""

from __future__ import annotations

import numpy as np

from torchnp.checks import check, refuse_elements
from torchnp.dtypes import cast, opmath
from torchnp.kernels._memory import RARE
from torchnp.kernels.embedding import check_indices
from torchnp.kernels.numerics.accumulate import add_rows
from torchnp.registry import kernel

ndarray = np.ndarray


@kernel("embedding_dense_backward")
def embedding_dense_backward(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq):
    """The rows of the gradient added where their indices point, the padding index left out."""
    check_indices(indices, "embedding_backward", 2)
    width = grad_output.shape[-1]
    index, rows = indices.reshape(-1), grad_output.reshape(indices.size, width)
    keep = (index != padding_idx) & (index >= 0) & (index < num_weights)  # torch passes over indices of no row
    if not keep.all():
        index, rows = index[keep], rows[keep]
    if scale_grad_by_freq and index.size:
        counts = np.bincount(index, minlength=num_weights)
        wide = opmath(rows.dtype)
        scale = (1.0 / counts[index]).astype(wide)
        rows = cast(cast(rows, wide) * scale[:, None], rows.dtype)
    refuse_elements("add_stub", rows, RARE)
    out = np.zeros((num_weights, width), grad_output.dtype)
    add_rows(out, index, rows)
    return out


@kernel("embedding_backward")
def embedding_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq, sparse):
    """`embedding_dense_backward`; sparse gradients have no array form."""
    check(not sparse, "torchnp has strided tensors only, got a sparse gradient")
    return embedding_dense_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq)
