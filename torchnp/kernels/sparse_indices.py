"""Index tensors of sparse layouts: conversion and validation.

The table has no sparse tensors, which consist of several arrays; these ops work on their parts, which are arrays.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import broadcast_shapes, check, check_type, dim_of, require
from torchnp.core.errors import found_dtype, shape_text
from torchnp.core.registry import kernel
from torchnp.kernels._declare_rows import rows
from torchnp.kernels.extrema import smallest
from torchnp.kernels.matmul import addmm
from torchnp.kernels.numerics.blocks import STRIP
from torchnp.threads import blocks

ndarray = np.ndarray

# ---------------------------------------------------------------- compressed and back


_WIDTH = {True: dt.int32, False: dt.int64}  # index dtypes, by ``out_int32``


@kernel("_convert_indices_from_coo_to_csr", like=np.searchsorted, differs=["row-indices-walked"])
def _convert_indices_from_coo_to_csr(self, size, *, out_int32=False):
    """CSR row pointers of sorted row indices: where each row begins, and where the last one ends."""
    check(self.ndim <= 1, f"Input is supposed to be a vector, but got {self.ndim} dimensional tensor.")
    require("convert_indices_from_coo_to_csr_cpu", self.dtype, dt.INTS)
    rows = self.reshape(-1)
    if not rows.size:
        return np.zeros(size + 1, _WIDTH[bool(out_int32)])
    counts, top = np.zeros(size + 2, np.int64), -1  # elements of each row, after the count of indices below row 0
    for part in blocks(rows.size, STRIP):
        reached = np.clip(rows[part].astype(np.int64), -1, size)
        reached[0] = max(reached[0], top)
        np.maximum.accumulate(reached, out=reached)
        top = reached[-1]
        begins = np.flatnonzero(np.diff(reached, prepend=-2))
        counts[reached[begins] + 1] += np.diff(begins, append=len(reached))
    starts = np.cumsum(counts)[:-1]
    starts[max(int(rows[-1]) + 1, 0) :] = rows.size
    return starts.astype(_WIDTH[bool(out_int32)], copy=False)


@kernel("_convert_indices_from_csr_to_coo", like=np.repeat, differs=["csr-batches"])
def _convert_indices_from_csr_to_coo(crow_indices, col_indices, *, out_int32=False, transpose=False):
    """COO indices (batch, row and column) of CSR indices."""
    dims = f"{crow_indices.ndim} and {crow_indices.ndim} dimensional tensors, respectively."
    words = f"crow_indices and col_indices are supposed to have the same dimensionality, but got {dims}"
    check(crow_indices.ndim == col_indices.ndim, words)
    require("convert_indices_from_csr_to_coo_cpu", crow_indices.dtype, dt.INTS)
    columns = col_indices.reshape(-1)
    batch = crow_indices.shape[:-1]
    found = np.zeros((len(batch) + 2, columns.size), np.int64)
    if columns.size and crow_indices.shape[dim_of(crow_indices, -1)] != 1:
        each = col_indices.shape[-1]
        if batch:
            numbers = np.repeat(np.indices(batch).reshape(len(batch), -1), each, axis=1)
            broadcast_shapes(found[:-2].shape, numbers.shape)
            found[:-2] = numbers
        found[-2] = _row_numbers(crow_indices.astype(np.int64).reshape(math.prod(batch), -1), each)
        found[-1] = dt.cast(columns, dt.int64)
    return np.concatenate([found[:-2], found[:-3:-1] if transpose else found[-2:]]).astype(_WIDTH[bool(out_int32)])


def _row_numbers(starts: ndarray, each: int) -> ndarray:
    """Return the row of each value of each batch; 0 for values in no row, for which torch writes no result."""
    ends = np.clip(starts, 0, each)
    counts = np.maximum(np.diff(ends), 0)
    batch, row = np.nonzero(counts)
    counts = counts[batch, row]
    inside = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    out = np.zeros(len(starts) * each, np.int64)
    out[np.repeat(batch * each + ends[batch, row], counts) + inside] = np.repeat(row, counts)
    return out


# ---------------------------------------------------------------- validation of compressed indices


def _names(is_crow: bool) -> tuple[str, str, str, str]:
    return ("crow_indices", "col_indices", "row", "col") if is_crow else ("ccol_indices", "row_indices", "col", "row")


@kernel("_validate_compressed_sparse_indices")
def _validate_compressed_sparse_indices(is_crow, compressed_idx, plain_idx, cdim, dim, nnz) -> None:
    """Raise unless the indices describe ``nnz`` values with sorted, distinct indices in each row or column."""
    compressed, plain, outer, inner = _names(is_crow)
    for x, name, size, wanted in (
        (compressed_idx, compressed, f"n{outer}s + 1", cdim + 1), (plain_idx, plain, "nnz", nnz)
    ):  # fmt: skip
        length = x.shape[dim_of(x, -1)]
        words = f"{name} have wrong shape: {name}.shape[-1] = {length} is not equal to {size} = {wanted}"
        check(length == wanted, words)
    require("compressed_index_invariance_checks_cpu", plain_idx.dtype, (dt.int32, dt.int64))
    if compressed_idx.dtype != plain_idx.dtype:
        raise found_dtype(compressed_idx.dtype, plain_idx.dtype)
    check(((plain_idx >= 0) & (plain_idx < dim)).all(), f"`0 <= {plain} < n{inner}s` is not satisfied.")
    check((compressed_idx[..., 0] == 0).all(), f"`{compressed}[..., 0] == 0` is not satisfied.")
    check((compressed_idx[..., -1] == nnz).all(), f"`{compressed}[..., -1] == nnz` is not satisfied.")
    # torch counts the batches of the first tensor, and does not check that the second has as many.
    for starts, numbers in zip(_rows(compressed_idx), _rows(plain_idx), strict=False):
        for start, end in itertools.pairwise(starts.tolist()):
            words = f"`0 <= {compressed}[..., 1:] - {compressed}[..., :-1] <= n{inner}s` is not satisfied."
            check(0 <= end - start <= dim, words)
            if (np.diff(numbers[start:end]) <= 0).any():
                part = f"{plain}[..., {compressed}[..., i - 1]:{compressed}[..., i]] for all i = 1, ..., n{outer}s"
                words = f"`{part} are sorted and distinct along the last dimension values` is not satisfied."
                raise RuntimeError(words)


def _rows(x: ndarray) -> ndarray:
    return x.reshape(int(np.prod(x.shape[:-1])), x.shape[-1])


# ---------------------------------------------------------------- validation of a sparse tensor's parts


def _check_compressed(
    compressed: ndarray, plain: ndarray, values: ndarray, size: Sequence[int], *options: Any, is_crow: bool, block: bool
) -> None:
    name, plain_name, outer, _ = _names(is_crow)
    outers = {"row": "rows", "col": "columns"}[outer]
    check(compressed.ndim >= 1, f"{name} must have dimensionality >= 1 but got {compressed.ndim}")
    dims = f"{compressed.ndim} and {plain.ndim}, respectively"
    check(compressed.ndim == plain.ndim, f"{name} and {plain_name} dimensionalities must be equal but got {dims}")
    batch, block_ndim = compressed.ndim - 1, 2 if block else 0
    blocks = f"batch and block dimensionalities (={batch} + {block_ndim})"
    check(values.ndim > batch + block_ndim, f"values must have dimensionality > sum of {blocks} but got {values.ndim}")
    for x, what in ((plain, plain_name), (compressed, name)):
        run = x.strides[-1] == x.itemsize or (x is plain and not x.size)
        check(run, f"expected {what} to be a contiguous tensor per batch")
    dense = values.ndim - batch - block_ndim - 1
    words = f"tensor dimensionality must be sum of batch, base, and dense dimensionalities (={batch} + 2 + {dense})"
    check(len(size) == batch + 2 + dense, f"{words} but got {len(size)}")
    nnz = values.shape[batch]
    found = [x.shape[:batch] for x in (compressed, plain, values)]
    listed = f"{name} (={shape_text(found[0])}), {plain_name} (={shape_text(found[1])}), and values (={shape_text(found[2])})"
    words = f"all batch dimensions of {listed} must be equal to tensor batch dimensions (={shape_text(size[:batch])})"
    check(all(x == tuple(size[:batch]) for x in found), words)
    shape = list(size[batch : batch + 2])
    for i in range(2) if block else ():
        edge = values.shape[batch + 1 + i] or 1  # the sizes of empty blocks count as 1
        words = f"tensor shape[{batch + i}] (={shape[i]}) must be divisible with blocksize[{i}] (={edge})"
        check(shape[i] % edge == 0, f"{words} as defined by values shape")
        shape[i] //= edge
    count, other = shape if is_crow else shape[::-1]
    kind = f"{outers.removesuffix('s')} blocks" if block else outers
    words = f"{name}.shape[-1] must be equal to the number of {kind} + 1 (={count + 1})"
    check(compressed.shape[-1] == count + 1, f"{words}, but got {compressed.shape[-1]}")
    words = f"{plain_name}.shape[-1] must be equal to nnz (={nnz}) as defined by values.shape[{batch}]"
    check(plain.shape[-1] == nnz, f"{words}, but got {plain.shape[-1]}")
    pair = f"{dt.scalar_name(compressed.dtype)} and {dt.scalar_name(plain.dtype)}, respectively"
    check(compressed.dtype == plain.dtype, f"{name} and {plain_name} must have the same dtype, bot got {pair}")
    words = f"{name} and {plain_name} dtype must be Int or Long, but got {dt.scalar_name(compressed.dtype)}"
    check(compressed.dtype in (dt.int32, dt.int64), words)
    _validate_compressed_sparse_indices(is_crow, compressed, plain, count, other, nnz)


# The overload, torch's name and number of the layout, whether rows are compressed, whether it has blocks, a
# description.
_LAYOUTS = (
    ("_validate_sparse_csr_tensor_args", "sparse_csr", "3", True, False, "tensor compressed by rows"),
    ("_validate_sparse_csc_tensor_args", "sparse_csc", "5", False, False, "tensor compressed by columns"),
    ("_validate_sparse_bsr_tensor_args", "sparse_bsr", "6", True, True, "tensor of blocks, compressed by rows"),
    ("_validate_sparse_bsc_tensor_args", "sparse_bsc", "7", False, True, "tensor of blocks, compressed by columns"),
)
_OTHERS = {"strided": "Strided", "0": "Strided", "sparse_coo": "Sparse", "1": "Sparse", "_mkldnn": "Mkldnn"}
for _name, _, _, _is_crow, _block, _doc in _LAYOUTS:
    rows(_name, _check_compressed, f"Raise unless the parts form a sparse {_doc}.", is_crow=_is_crow, block=_block)


@kernel("_validate_sparse_compressed_tensor_args")
def _validate_sparse_compressed_tensor_args(
    compressed_indices, plain_indices, values, size, layout, check_pinning=None
) -> None:  # fmt: skip
    """Raise unless the parts form a sparse tensor of the compressed layout."""
    name = str(layout).removeprefix("torch.")
    for _, known, number, is_crow, block, _ in _LAYOUTS:
        if name in (known, number):
            return _check_compressed(compressed_indices, plain_indices, values, size, is_crow=is_crow, block=block)
    words = f"expected sparse compressed tensor layout but got {_OTHERS.get(name, name)}"
    raise RuntimeError(f"validate_sparse_compressed_tensor_args {words}")


@kernel("_validate_sparse_coo_tensor_args")
def _validate_sparse_coo_tensor_args(indices, values, size, is_coalesced=None, check_pinning=None) -> None:
    """Raise unless the indices fit the values and lie within the size."""
    check(indices.ndim == 2, f"indices must be sparse_dim x nnz, but got: {shape_text(indices.shape)}")
    sparse, dense = indices.shape[0], max(values.ndim - 1, 0)
    found = f"len(size) = {len(size)}, sparse_dim = {sparse}, dense_dim = {dense}"
    check(len(size) == sparse + dense, f"'len(size) == sparse_dim + dense_dim' is not satisfied: {found}")
    if not indices.size:
        return
    smallest(indices, 1)
    check_type(dt.int64, indices)
    for i, row in enumerate(indices):
        check(row.min() >= 0, f"found negative index {row.min()} for dim {i}")
        words = f"for dim {i}, size is {size[i]} but found index {row.max()}"
        check(row.max() < size[i], f"size is inconsistent with indices: {words}")
    if is_coalesced and values.ndim and len(values) > 1:
        # torch takes the smallest step from one index to the next, and fails if there is none.
        words = "min(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with"
        check(indices.shape[1] > 1, f"{words} the 'dim' argument.")
        increasing = all(a < b for a, b in itertools.pairwise(indices.T.tolist()))
        check(increasing, "cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor")


_DIFFERS = ["no-mixed-products", "beta-zero", "half-opmath", "alpha-zero"]
(_sparse_addmm,) = rows(
    "_sparse_addmm", addmm, "`addmm` of dense matrices; in torch the first factor may be sparse.", differs=_DIFFERS
)


@kernel("_sparse_mm", like=np.matmul, differs=["no-mixed-products", "no-bool-product", "matrix-only"])
def _sparse_mm(sparse, dense):
    """`mm`, one factor of which may be sparse in torch; the product of dense factors is column-major."""
    dim_of(sparse, -2)
    dim_of(dense, -1)
    dim_of(dense, -2)
    base: Any = np.zeros((dense.shape[-1], sparse.shape[-2]), sparse.dtype)
    return _sparse_addmm(base, dense.swapaxes(-1, -2), sparse.swapaxes(-1, -2), beta=0).swapaxes(-1, -2)
