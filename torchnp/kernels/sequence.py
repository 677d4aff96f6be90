"""Sequences of different lengths: padded into one tensor, packed step by step, or jagged."""

from __future__ import annotations

import numpy as np

from torchnp import dtypes as dt
from torchnp.checks import check, check_type
from torchnp.dtypes import cast, int64, scalar_name
from torchnp.errors import no_dimensions, not_implemented
from torchnp.registry import kernel
from torchnp.scalars import scalar

ndarray = np.ndarray


@kernel("pad_sequence")
def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """Sequences of different lengths in one tensor, filled up at one side."""
    check(len(sequences) > 0, "received an empty list of sequences")
    words = f"Expected padding_side to be one of left or right, but got {padding_side}."
    check(padding_side in ("left", "right"), words)
    check(sequences[0].ndim, "ArrayRef: invalid slice, N = 1; size = 0")
    check(all(x.ndim for x in sequences), no_dimensions(0))
    longest, trailing = max(x.shape[0] for x in sequences), sequences[0].shape[1:]
    out = np.empty((len(sequences), longest, *trailing), sequences[0].dtype)
    out[...] = scalar(padding_value, out.dtype)
    for row, x in zip(out, sequences):
        n = x.shape[0]
        row[slice(longest - n, longest) if padding_side == "left" else slice(n)] = cast(x, out.dtype)
    return out if batch_first else np.ascontiguousarray(out.swapaxes(0, 1))


def _no_lengths(x: ndarray) -> str:
    found = f"{x.ndim}D cpu {scalar_name(x.dtype)} tensor"
    return f"'lengths' argument should be a 1D CPU int64 tensor, but got {found}"


@kernel("_pack_padded_sequence")
def _pack_padded_sequence(input, lengths, batch_first):
    """The steps of all sequences one after the other, and how many sequences each step has."""
    check(input.size > 0, "Cannot pack empty tensors.")
    check(lengths.dtype == int64 and lengths.ndim == 1, _no_lengths(lengths))
    steps = input.swapaxes(0, 1) if batch_first else input
    words = f"Expected `len(lengths)` to be equal to batch_size, but got {lengths.size} (batch_size={steps.shape[1]})"
    check(lengths.size == steps.shape[1], words)
    words = "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
    check(int(lengths[-1]) > 0, words)
    check(
        not (np.diff(lengths) > 0).any(),
        "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
        "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if you do "
        "not need ONNX exportability",
    )
    batch_sizes = (np.arange(int(lengths[0]))[:, None] < lengths).sum(1)
    return np.concatenate([step[:n] for step, n in zip(steps, batch_sizes)]), batch_sizes


@kernel("_pad_packed_sequence")
def _pad_packed_sequence(data, batch_sizes, batch_first, padding_value, total_length):
    """Packed sequences in one tensor, filled up at the end, and their lengths."""
    check(batch_sizes.size, "batch_sizes can not be empty")
    longest, batch = batch_sizes.size, int(batch_sizes[0])
    if total_length > 0:
        words = "Expected total_length to be at least the length of the longest sequence in input, but got"
        found = f"total_length={total_length} and max sequence length being {longest}"
        check(total_length >= longest, f"{words} {found}")
    out = np.empty((max(longest, total_length), batch, *data.shape[1:]), data.dtype)
    out[...] = scalar(padding_value, data.dtype)
    return _unpacked(out, data, batch_sizes, batch_first), (batch_sizes[:, None] > np.arange(batch)).sum(0)


def _unpacked(out, packed, batch_sizes, batch_first):
    """Packed steps written into a padded tensor."""
    start = 0
    for row, n in zip(out, batch_sizes.tolist()):
        row[:n] = packed[start : start + n]
        start += n
    return out.swapaxes(0, 1) if batch_first else out


@kernel("_pack_padded_sequence_backward")
def _pack_padded_sequence_backward(grad, input_size, batch_sizes, batch_first):
    """The gradient of packed steps in the shape of the padded tensor."""
    check(min(input_size, default=0) >= 0, "zeros: Dimension size must be non-negative.")
    check(batch_sizes.ndim == 1, _no_lengths(batch_sizes))
    shape = (input_size[1], input_size[0], *input_size[2:]) if batch_first else tuple(input_size)
    return _unpacked(np.zeros(shape, grad.dtype), grad, batch_sizes, batch_first)


# ---------------------------------------------------------------- rows one after the other, with the places where each begins

_SINGLE = "only a single jagged dim is supported for now"


@kernel("_jagged_to_padded_dense_forward")
def _jagged_to_padded_dense_forward(values, offsets, max_lengths, padding_value=0.0):
    """Rows of unequal length as rows of one length, the rest padded; longer rows are cut."""
    single = len(offsets) == len(max_lengths) == 1
    name = "_jagged_to_padded_dense_forward"
    asserted = "offsets_list.size() == 1 && max_lengths.size() == 1 INTERNAL ASSERT FAILED"
    check(single, f"{asserted}: {name}(): {_SINGLE}")
    if dt.is_complex(values.dtype) or values.dtype in (*dt.BARE_UNSIGNED, *dt.FLOAT8S):
        raise not_implemented(f"{name}_cpu", values.dtype)
    ends, length = offsets[0].astype(np.int64), max_lengths[0]
    out = np.empty((len(ends) - 1, length, *values.shape[1:]), values.dtype)
    out[...] = dt.cast(np.asarray(padding_value, np.float64), values.dtype)
    for row, start, end in zip(out, ends[:-1], ends[1:], strict=True):
        part = values[start : min(end, start + length)]
        row[: len(part)] = part
    return out


@kernel("_padded_dense_to_jagged_forward")
def _padded_dense_to_jagged_forward(dense, offsets, total_L=None):
    """The beginnings of padded rows one after the other."""
    name = "_padded_dense_to_jagged_forward"
    check(len(offsets) == 1, f"offsets_list.size() == 1 INTERNAL ASSERT FAILED: {name}(): {_SINGLE}")
    ends, most = offsets[0].astype(np.int64), dense.shape[1]
    words = f"{name}(): final offset should match total_L value"
    check(total_L is None or ends[-1] == total_L, words)
    lengths = np.diff(ends)
    for length in lengths[lengths > most][:1]:
        words = f"found batch item of length {length} when max length specified by padded input is {most}"
        raise RuntimeError(f"{name}(): {words}")
    parts = [row[:length] for row, length in zip(dense, lengths, strict=True)]
    return np.concatenate(parts, dtype=dense.dtype)


@kernel("_nested_compute_contiguous_strides_offsets")
def _nested_compute_contiguous_strides_offsets(nested_size):
    """The strides of rows of unequal shapes, and the places where each begins, if they lie one after the other."""
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
    return not bool((mask[:, 1:] & ~mask[:, :-1]).any())
