"""Rows of unequal length, one after the other, with the places where each begins."""

from __future__ import annotations

import numpy as np

from torchnp import dtypes as dt
from torchnp.checks import check
from torchnp.errors import expected_type, not_implemented
from torchnp.registry import kernel

ndarray = np.ndarray

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
    if nested_size.dtype != dt.int64:
        raise expected_type(dt.int64, nested_size.dtype)
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
