"""Gradients of indexing, views and lookup tables: zeros, with the gradient added where the elements were read."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from torchnp.core.checks import broadcast_shapes, check, check_fits, dim_of, refuse, refuse_elements, wrap_dim
from torchnp.core.errors import output_shape
from torchnp.core.registry import kernel
from torchnp.dtypes import cast, is_complex, opmath
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._memory import RARE, RARE_OR_CHALF, check_size
from torchnp.kernels._spatial import Ints
from torchnp.kernels.create import zeros_of
from torchnp.kernels.embedding import check_indices
from torchnp.kernels.masked_nonzero import masked_scatter, masked_select
from torchnp.kernels.numerics.indexed_reductions import add_rows
from torchnp.kernels.ranges import arange_step
from torchnp.kernels.scatter import check_filler, index_add, scatter, scatter_add
from torchnp.kernels.slicing import diagonal, select, slice_tensor
from torchnp.kernels.view import expand, unfold, unsqueeze, view
from torchnp.layout import stride_rules

ndarray = np.ndarray


def _copied_zeros(shape: Ints, dtype: np.dtype) -> ndarray:
    """Return zeros that take up no memory, for an operator that copies its input."""
    return np.broadcast_to(np.zeros((), dtype), shape)


@kernel("gather_backward")
def gather_backward(grad, self, dim, index, sparse_grad):
    """Zeros with the gradient added at the gathered positions."""
    if sparse_grad:  # torch then checks only the numbers of dimensions and elements
        for d in range(self.ndim if dim else 0):
            wrap_dim(d, grad.ndim)
        broadcast_shapes((grad.size,), (index.size,))
        raise RuntimeError("torchnp has strided tensors only, got a sparse gradient")
    return scatter_add(_copied_zeros(self.shape, grad.dtype), dim, index, grad)


rows(
    "index_select_backward",
    lambda grad, sizes, dim, index: index_add(_copied_zeros(check_size(sizes), grad.dtype), dim, index, grad),
    "Zeros with the gradient's slices added at the selected positions.",
)  # fmt: skip


@kernel("masked_select_backward")
def masked_select_backward(grad, input, mask):
    """Zeros with the elements of the gradient, in order, where the mask is true."""
    shape = broadcast_shapes(input.shape, mask.shape)
    strides = stride_rules.preserved(*stride_rules.layout_of(expand(input, shape)))
    return stride_rules.place(masked_scatter(np.zeros(shape, input.dtype), mask, grad), strides)


@kernel("masked_scatter_backward")
def masked_scatter_backward(grad_output, mask, sizes):
    """The gradient's elements where the mask is true, padded with zeros to the size of the source."""
    taken = masked_select(grad_output, mask)
    missing = max(math.prod(sizes) - len(taken), 0)
    return view(np.concatenate([taken, np.zeros(missing, taken.dtype)]), sizes)


@kernel("value_selecting_reduction_backward")
def value_selecting_reduction_backward(grad, dim, indices, sizes, keepdim):
    """Gradient of a reduction that selects one element along a dimension."""
    if not keepdim and len(sizes):
        grad, indices = unsqueeze(grad, dim), unsqueeze(indices, dim)
    zeros_of((0, *sizes), grad.dtype)  # refuses a negative size
    return scatter(_copied_zeros(sizes, grad.dtype), dim, indices, grad)


# ---------------------------------------------------------------- views


def _in_zeros(grad: ndarray, sizes: Ints, *where: Any, view: Callable[..., ndarray]) -> ndarray:
    out = zeros_of(sizes, grad.dtype)
    part = view(out, *where)
    check_fits(grad, part)
    part[...] = grad
    return out


rows("select_backward", _in_zeros, "Zeros with the gradient at one position of a dimension.", view=select)
rows("slice_backward", _in_zeros, "Zeros with the gradient in a range of a dimension.", view=slice_tensor)
rows("diagonal_backward", _in_zeros, "Zeros with the gradient on a diagonal.", view=diagonal)


@kernel("unfold_backward")
def unfold_backward(grad_in, input_sizes, dim, size, step):
    """Gradient of `unfold`: the gradients of the windows, added where windows overlap."""
    check(step > 0, f"step is {step} but must be > 0", ValueError)
    if step >= size:  # no windows overlap
        return _in_zeros(grad_in, input_sizes, dim, size, step, view=unfold)
    out = zeros_of(input_sizes, grad_in.dtype)  # half types are rounded at each step
    dim = wrap_dim(dim, out.ndim)
    dim_of(out, dim)
    reached, count = list(out.shape), grad_in.shape[dim_of(grad_in, dim)]
    reached[dim] = min(reached[dim], (count - 1) * step + size)
    together = broadcast_shapes(reached, (*grad_in.shape[:dim], 1, *grad_in.shape[dim + 1 :])[:-1])
    check(list(together) == reached, output_shape(reached, together))
    refuse_elements("unfold_backward_cpu", grad_in, RARE_OR_CHALF)
    ahead = (slice(None),) * dim
    for i in reversed(range(size)):  # the i-th elements of windows never overlap; the first window is added first
        part = out[(*ahead, slice(i, max(i + (count - 1) * step + 1, 0), step))]
        part += grad_in[(*ahead, slice(part.shape[dim]), ..., i)]
    return out


@kernel("trace_backward")
def trace_backward(grad, sizes):
    """Gradient of a trace: zeros with the trace's gradient along the diagonal."""
    check(len(sizes) == 2, "expected matrix input")
    if min(sizes) < 0:  # torch makes this many zeros, then an arange of the diagonal's positions
        check(math.prod(sizes) != 0, "upper bound and lower bound inconsistent with step sign")
        arange_step(0, len(zeros_of([math.prod(sizes)], grad.dtype)), sizes[1] + 1)
    check_filler(grad)
    refuse("index_fill_cpu", grad.dtype, RARE)
    return _in_zeros(grad, sizes, view=diagonal)


@kernel("embedding_dense_backward")
def embedding_dense_backward(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq):
    """The rows of the gradient, added at their indices in the embedding table; the padding index gets none."""
    check_indices(indices, "embedding_backward", 2)
    width = grad_output.shape[dim_of(grad_output, -1)]
    index, rows = indices.reshape(-1), view(np.ascontiguousarray(grad_output), (indices.size, width))
    keep = (index != padding_idx) & (index >= 0) & (index < num_weights)  # torch skips indices outside the table
    if not keep.all():
        index, rows = index[keep], rows[keep]
    if scale_grad_by_freq and index.size:
        counts = np.bincount(index, minlength=num_weights)
        wide = opmath(rows.dtype)
        scale = (1.0 / counts[index]).astype(wide)
        rows = cast(cast(rows, wide) * scale[:, None], rows.dtype)
    elif is_complex(rows.dtype):  # torch multiplies by a complex 1, which makes NaN of infinities
        rows = cast(cast(rows, opmath(rows.dtype)) * opmath(rows.dtype).type(1), rows.dtype)
    refuse_elements("add_stub", rows, RARE)
    out = zeros_of((num_weights, width), grad_output.dtype)
    add_rows(out, index, rows)
    return out


@kernel("embedding_backward")
def embedding_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq, sparse):
    """`embedding_dense_backward`; sparse gradients have no array form."""
    check(not sparse, "torchnp has strided tensors only, got a sparse gradient")
    return embedding_dense_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq)
