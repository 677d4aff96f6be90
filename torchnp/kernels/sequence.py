"""Sequences of different lengths: padded into one tensor, packed step by step, jagged, or reduced by segment."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, check_fits, check_type, refuse, require, wrap_dim
from torchnp.core.errors import expected_true, invalid_view, no_dimensions, unknown_reduction
from torchnp.core.python_scalars import scalar
from torchnp.core.registry import kernel
from torchnp.core.target import since
from torchnp.kernels._memory import check_size, empty_in_order
from torchnp.kernels.extrema import min_all
from torchnp.kernels.numerics.indexed_reductions import INDEX_DTYPES, add_rows
from torchnp.kernels.slicing import select, slice_tensor

ndarray = np.ndarray


@kernel("pad_sequence")
def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """Sequences of different lengths in one tensor, padded at one side."""
    check(len(sequences) > 0, "received an empty list of sequences")
    words = f"Expected padding_side to be one of left or right, but got {padding_side}."
    check(padding_side in ("left", "right"), words)
    check(sequences[0].ndim, "ArrayRef: invalid slice, N = 1; size = 0")
    check(all(x.ndim for x in sequences), no_dimensions(0))
    longest, trailing = max(x.shape[0] for x in sequences), sequences[0].shape[1:]
    out = np.full((len(sequences), longest, *trailing), scalar(padding_value, sequences[0].dtype))
    for row, x in zip(out, sequences):
        n = x.shape[0]
        target = row[longest - n :] if padding_side == "left" else row[:n]
        check_fits(x, target)
        target[...] = dt.cast(x, out.dtype)
    return out if batch_first else np.ascontiguousarray(out.swapaxes(0, 1))


def _no_lengths(x: ndarray) -> str:
    found = f"{x.ndim}D cpu {dt.scalar_name(x.dtype)} tensor"
    return f"'lengths' argument should be a 1D CPU int64 tensor, but got {found}"


@kernel("_pack_padded_sequence")
def _pack_padded_sequence(input, lengths, batch_first):
    """Packed sequences: for each step the elements of all sequences that reach it, and the number of these."""
    check(input.size > 0, "Cannot pack empty tensors.")
    check(lengths.dtype == dt.int64 and lengths.ndim == 1, _no_lengths(lengths))
    steps = input.swapaxes(0, 1) if batch_first else input
    words = f"Expected `len(lengths)` to be equal to batch_size, but got {lengths.size} (batch_size={steps.shape[1]})"
    check(lengths.size == steps.shape[1], words)
    words = "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
    check(int(lengths[-1]) > 0, words)
    check(
        not (np.diff(lengths) > 0).any(),
        "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
        "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if you do "
        "not need ONNX exportability.",
    )
    batch_sizes = (np.arange(int(lengths[0]))[:, None] < lengths).sum(1)
    return np.concatenate([step[:n] for step, n in zip(steps, batch_sizes)]), batch_sizes


@kernel("_pad_packed_sequence")
def _pad_packed_sequence(data, batch_sizes, batch_first, padding_value, total_length):
    """Packed sequences in one tensor, padded at the end, and their lengths."""
    check(batch_sizes.dtype == dt.int64 and batch_sizes.ndim == 1, _no_lengths(batch_sizes))
    check(batch_sizes.size, "batch_sizes can not be empty")
    longest, batch = batch_sizes.size, int(batch_sizes[0])
    if total_length > 0:
        words = "Expected total_length to be at least the length of the longest sequence in input, but got"
        found = f"total_length={total_length} and max sequence length being {longest}"
        check(total_length >= longest, f"{words} {found}")
    out = empty_in_order((max(longest, total_length), batch, *data.shape[1:]), data.dtype, None)
    out[...] = scalar(padding_value, data.dtype)
    return _unpacked(out, data, batch_sizes, batch_first), (batch_sizes[:, None] > np.arange(batch)).sum(0)


def _unpacked(out, packed, batch_sizes, batch_first):
    """Write packed steps into a padded tensor."""
    start = 0
    for i, n in enumerate(batch_sizes.tolist()):
        rows, values = slice_tensor(select(out, 0, i), 0, 0, n), packed[start : start + n]
        check_fits(values, rows)
        rows[...] = values
        start += n
    return out.swapaxes(0, 1) if batch_first else out


@kernel("_pack_padded_sequence_backward")
def _pack_padded_sequence_backward(grad, input_size, batch_sizes, batch_first):
    """The gradient of packed steps in the shape of the padded tensor."""
    check(min(input_size, default=0) >= 0, "zeros: Dimension size must be non-negative.")
    check(batch_sizes.dtype == dt.int64 and batch_sizes.ndim == 1, _no_lengths(batch_sizes))
    check(len(input_size) > 1 or not batch_first, expected_true("input_size.size() >= 2"))
    shape = (input_size[1], input_size[0], *input_size[2:]) if batch_first else tuple(input_size)
    out = empty_in_order(shape, grad.dtype, None)
    out[...] = 0
    return _unpacked(out, grad, batch_sizes, batch_first)


# ---------------------------------------------------------------- jagged rows: one after the other, with their offsets

_SINGLE = "only a single jagged dim is supported for now"


def _ends(name: str, offsets: ndarray) -> ndarray:
    words = f"{name}(): expected 1D offsets, but got offsets.dim() == {offsets.ndim}"
    check(offsets.ndim == 1, words)
    return dt.cast(offsets, dt.int64)


def _copy_rows(target: ndarray, source: ndarray) -> None:
    check_fits(source, target)
    target[...] = source


@kernel("_jagged_to_padded_dense_forward")
def _jagged_to_padded_dense_forward(values, offsets, max_lengths, padding_value=0.0):
    """Jagged rows as rows of one length: shorter rows are padded, longer ones are cut."""
    single = len(offsets) == len(max_lengths) == 1
    name = "_jagged_to_padded_dense_forward"
    asserted = "offsets_list.size() == 1 && max_lengths.size() == 1 INTERNAL ASSERT FAILED"
    check(single, f"{asserted}: {name}(): {_SINGLE}")
    ends, most = _ends(name, offsets[0]), max_lengths[0]
    check(values.ndim, "vector::_M_range_insert", RuntimeError if since("2.15") else ValueError)
    refuse(f"{name}_cpu", values.dtype, (*dt.COMPLEXES, *dt.BARE_UNSIGNED, *dt.FLOAT8S))
    padding = dt.cast(np.asarray(padding_value, np.float64), values.dtype)
    out = empty_in_order(check_size((len(ends) - 1, most, *values.shape[1:])), values.dtype, None)
    out[...] = padding
    for row, (start, end) in zip(out, itertools.pairwise(ends.tolist()), strict=True):
        length = min(end - start, most)
        _copy_rows(slice_tensor(row, 0, 0, length), slice_tensor(values, 0, start, start + length))
    return out


@kernel("_padded_dense_to_jagged_forward")
def _padded_dense_to_jagged_forward(dense, offsets, total_L=None):
    """Padded rows as jagged rows: the parts without padding, concatenated."""
    name = "_padded_dense_to_jagged_forward"
    check(len(offsets) == 1, f"offsets_list.size() == 1 INTERNAL ASSERT FAILED: {name}(): {_SINGLE}")
    ends = _ends(name, offsets[0])
    total = int(select(ends, 0, -1))
    check(total_L is None or total == total_L, f"{name}(): final offset should match total_L value")
    words = f"{name}(): expected padded dim >= 2, but padded.dim() == {dense.ndim}"
    check(dense.ndim >= 2, words)
    most = dense.shape[1]
    out = empty_in_order(check_size((total, *dense.shape[2:])), dense.dtype, None)
    out[...] = 0
    for i, (start, end) in enumerate(itertools.pairwise(ends.tolist())):
        words = f"found batch item of length {end - start} when max length specified by padded input is {most}"
        check(end - start <= most, f"{name}(): {words}")
        _copy_rows(slice_tensor(out, 0, start, end), slice_tensor(select(dense, 0, i), 0, 0, end - start))
    return out


@kernel("_nested_compute_contiguous_strides_offsets")
def _nested_compute_contiguous_strides_offsets(nested_size):
    """Strides and offsets of a nested tensor's parts, which are contiguous and lie one after the other."""
    check_type(dt.int64, nested_size)
    strides = np.ones(nested_size.shape, np.int64)
    strides[:, :-1] = np.cumprod(nested_size[:, :0:-1], 1)[:, ::-1]
    offsets = np.zeros(len(nested_size), np.int64)
    offsets[1:] = np.cumsum(nested_size.prod(1))[:-1]
    return strides, offsets


@kernel("_nested_tensor_from_mask_left_aligned")
def _nested_tensor_from_mask_left_aligned(t, mask):
    """Whether each row of a mask has its true values first."""
    found = dt.scalar_name(mask.dtype)
    check(mask.dtype == dt.bool_, f"Expected mask to be of ScalarType Bool, but got {found} instead.")
    check(mask.ndim == 2, "Padding mask should be 2D")
    check(t.ndim == 3, "Input should be a 3D tensor, N * L * D")
    check(mask.shape == t.shape[:2], "Mask size should match input size")
    select(mask, 1, -1)
    return not bool((mask[:, 1:] & ~mask[:, :-1]).any())


# ---------------------------------------------------------------- reductions over consecutive segments of a dimension

_START = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -np.inf, "min": np.inf, "amax": -np.inf, "amin": np.inf}


def _lengths_of(
    data: ndarray, lengths: ndarray | None, offsets: ndarray | None, axis: int, unsafe: bool
) -> tuple[ndarray, int]:
    """Check the arguments; return the length of each segment, and the axis that the segments divide."""
    axis = wrap_dim(axis, data.ndim)
    name, given = ("offsets", offsets) if offsets is not None else ("lengths", lengths)
    if given is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    check(data.ndim >= given.ndim, expected_true(f"data.dim() >= {name}_value.dim()"))
    check(axis == given.ndim - 1, f"segment_reduce(): Expected axis to be the last dimension of {name} but got {axis}.")
    if offsets is not None:
        return np.diff(given, axis=-1), axis
    if not unsafe:
        check(min_all(given) >= 0, "lengths contains negative value!")
        words = "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1)"
        check((given.sum(-1) == data.shape[axis]).all(), f"{words} when !unsafe.")
    return given, axis


def _rows(data: ndarray, lengths: ndarray, axis: int) -> tuple[ndarray, ndarray, ndarray]:
    """Return the rows of ``data`` that lie in a segment, the segment of each, and the mask of these rows."""
    extent, count = data.shape[axis], lengths.shape[-1]
    outer = lengths.size // max(count, 1)
    rows = np.ascontiguousarray(data).reshape(outer * extent, math.prod(data.shape[axis + 1 :]))
    per = lengths.reshape(outer, count)
    kept = (np.arange(extent) < per.sum(1)[:, None]).reshape(-1)
    return rows[kept], np.repeat(np.arange(outer * count), per.reshape(-1)), kept


@kernel("segment_reduce", like=np.add.reduceat, differs=["segments-by-length"])
def segment_reduce(data, reduce, *, lengths=None, indices=None, offsets=None, axis=0, unsafe=False, initial=None):
    """The sum, mean, product, maximum or minimum of each segment; the mean of an empty segment is NaN."""
    check(indices is None, "segment_reduce(): indices based reduction is not supported yet.")
    check(reduce in _START, unknown_reduction(reduce))
    lengths, axis = _lengths_of(data, lengths, offsets, axis, unsafe)
    name = "lengths" if offsets is None else "offsets"
    require(f"_segment_reduce_{name}_cpu_kernel1", lengths.dtype, INDEX_DTYPES)
    require("_segment_reduce_cpu", data.dtype, dt.FLOATS)
    rows, segment, _ = _rows(data, lengths, axis)
    start = scalar(_START[reduce] if initial is None else initial, data.dtype)
    out = np.full((lengths.size, rows.shape[1]), start)
    if reduce in ("sum", "mean"):
        add_rows(out, segment, rows)
    elif reduce == "prod":
        places = segment[:, None] * rows.shape[1] + np.arange(rows.shape[1])
        np.multiply.at(out.reshape(-1), places.reshape(-1), rows.reshape(-1))
    else:
        beyond = np.less if reduce in ("min", "amin") else np.greater
        rank = np.arange(segment.size) - np.searchsorted(segment, segment)  # position in its segment
        for i in range(int(rank.max(initial=-1)) + 1):  # the first of equal values, also of 0 and -0, is kept
            mine = rank == i
            row, found = rows[mine], out[segment[mine]]
            out[segment[mine]] = np.where((beyond(row, found) | (row != row)) & (found == found), row, found)
    if reduce == "mean":
        size = lengths.reshape(-1, 1)
        out = (out / np.maximum(size, 1).astype(data.dtype)).astype(data.dtype)
        if initial is None:
            out[size[:, 0] == 0] = np.nan
    return out.reshape(*lengths.shape, *data.shape[axis + 1 :])


@kernel("_segment_reduce_backward")
def _segment_reduce_backward(grad, output, data, reduce, *, lengths=None, offsets=None, axis=0, initial=None):
    """Gradient of `segment_reduce`; equal maxima or minima share a gradient if it is positive."""
    check(reduce in _START, unknown_reduction(reduce))
    lengths, axis = _lengths_of(data, lengths, offsets, axis, True)
    dtype = data.dtype
    require("_segment_reduce_cpu", dtype, dt.FLOATS)
    rows, segment, kept = _rows(data, lengths, axis)
    shape = (lengths.size, rows.shape[1])
    check(grad.size == output.size == math.prod(shape), invalid_view(lengths.shape + data.shape[axis + 1 :], grad.size))
    given, result = grad.reshape(shape)[segment], output.reshape(shape)[segment]
    if reduce == "sum":
        found = given
    elif reduce == "mean":
        found = given / lengths.reshape(-1)[segment][:, None].astype(dtype)
    elif reduce == "prod":
        found = _prod_gradient(rows, segment, given, result, initial)
    else:
        equal = (rows == result) | (rows != rows)
        counts = np.zeros(shape, dtype)
        add_rows(counts, segment, equal.astype(dtype))
        shared = np.where(given > 0, given / counts[segment], given)
        found = np.where(equal, shared, np.zeros((), dtype))
    out = np.zeros(data.shape, dtype)
    out.reshape(kept.size, rows.shape[1])[kept] = found
    return out


def _prod_gradient(rows: ndarray, segment: ndarray, grad: ndarray, result: ndarray, initial: Any) -> ndarray:
    """Return grad times the product of all other factors: result / value, or for zeros and NaN the product itself."""
    found = grad * result / rows
    start = 1.0 if initial is None else float(initial)
    for i, j in zip(*np.nonzero((rows == 0) | (rows != rows))):
        others = rows[segment == segment[i], j]
        place = i - int(np.argmax(segment == segment[i]))
        product = np.multiply.reduce(np.delete(others, place), dtype=rows.dtype, initial=rows.dtype.type(start))
        found[i, j] = grad[i, j] * product
    return found
