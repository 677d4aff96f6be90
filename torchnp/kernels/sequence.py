"""Sequences of different lengths: padded into one tensor, or packed step by step."""

from __future__ import annotations

import numpy as np

from torchnp.checks import check
from torchnp.dtypes import cast, int64, scalar_name
from torchnp.errors import no_dimensions
from torchnp.registry import kernel
from torchnp.scalars import scalar

ndarray = np.ndarray


@kernel("pad_sequence")
def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """Sequences of different lengths in one tensor, filled up at one side."""
    check(len(sequences) > 0, "received an empty list of sequences")
    check(
        padding_side in ("left", "right"), f"Expected padding_side to be one of left or right, but got {padding_side}."
    )
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
    if lengths.size != steps.shape[1]:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {lengths.size} (batch_size={steps.shape[1]})"
        )
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
        check(
            total_length >= longest,
            "Expected total_length to be at least the length of the longest sequence in input, but got "
            f"total_length={total_length} and max sequence length being {longest}",
        )
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
