"""Reductions over consecutive segments of a dimension, and their gradients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from torchnp.checks import check, require, wrap_dim
from torchnp.dtypes import FLOATS
from torchnp.errors import expected_true, invalid_view, unknown_reduction
from torchnp.kernels.numerics.accumulate import INDEX_DTYPES, add_rows
from torchnp.registry import kernel
from torchnp.scalars import scalar

ndarray = np.ndarray
_START = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -np.inf, "min": np.inf}
_UFUNC = {"prod": np.multiply, "max": np.maximum, "min": np.minimum}


def _lengths_of(
    data: ndarray, lengths: ndarray | None, offsets: ndarray | None, axis: int, unsafe: bool
) -> tuple[ndarray, int]:
    """The length of each segment, and the axis that they divide, checked."""
    axis = wrap_dim(axis, data.ndim)
    name, given = ("offsets", offsets) if offsets is not None else ("lengths", lengths)
    if given is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    check(data.ndim >= given.ndim, expected_true(f"data.dim() >= {name}_value.dim()"))
    words = f"segment_reduce(): Expected axis to be the last dimension of {name} but got {axis}."
    check(axis == given.ndim - 1, words)
    if offsets is not None:
        return np.diff(given, axis=-1), axis
    if not unsafe:
        words = "min(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with"
        check(given.size > 0, f"{words} the 'dim' argument.")
        check(given.min() >= 0, "lengths contains negative value!")
        words = "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1)"
        check((given.sum(-1) == data.shape[axis]).all(), f"{words} when !unsafe.")
    return given, axis


def _rows(data: ndarray, lengths: ndarray, axis: int) -> tuple[ndarray, ndarray, ndarray]:
    """The data as rows and the segment of each, those of no segment left out; and which have one."""
    extent, count = data.shape[axis], lengths.shape[-1]
    outer = lengths.size // max(count, 1)
    rows = np.ascontiguousarray(data).reshape(outer * extent, math.prod(data.shape[axis + 1 :]))
    per = lengths.reshape(outer, count)
    kept = (np.arange(extent) < per.sum(1)[:, None]).reshape(-1)
    return rows[kept], np.repeat(np.arange(outer * count), per.reshape(-1)), kept


@kernel("segment_reduce", like=np.add.reduceat, differs=["segments-by-length"])
def segment_reduce(data, reduce, *, lengths=None, indices=None, offsets=None, axis=0, unsafe=False, initial=None):
    """The sum, mean, product, maximum or minimum of each segment; a mean of nothing is NaN."""
    check(indices is None, "segment_reduce(): indices based reduction is not supported yet.")
    check(reduce in _START, unknown_reduction(reduce))
    lengths, axis = _lengths_of(data, lengths, offsets, axis, unsafe)
    name = "lengths" if offsets is None else "offsets"
    require(f"_segment_reduce_{name}_cpu_kernel1", lengths.dtype, INDEX_DTYPES)
    require("_segment_reduce_cpu", data.dtype, FLOATS)
    rows, segment, _ = _rows(data, lengths, axis)
    out = np.empty((lengths.size, rows.shape[1]), data.dtype)
    out[...] = scalar(_START[reduce] if initial is None else initial, data.dtype)
    if reduce in ("sum", "mean"):
        add_rows(out, segment, rows)
    else:
        places = segment[:, None] * rows.shape[1] + np.arange(rows.shape[1])
        _UFUNC[reduce].at(out.reshape(-1), places.reshape(-1), rows.reshape(-1))
    if reduce == "mean":
        size = lengths.reshape(-1, 1)
        out = (out / np.maximum(size, 1).astype(data.dtype)).astype(data.dtype)
        if initial is None:
            out[size[:, 0] == 0] = np.nan
    return out.reshape(*lengths.shape, *data.shape[axis + 1 :])


@kernel("_segment_reduce_backward")
def _segment_reduce_backward(grad, output, data, reduce, *, lengths=None, offsets=None, axis=0, initial=None):
    """The gradient of `segment_reduce`; equal extremes share it."""
    check(reduce in _START, unknown_reduction(reduce))
    lengths, axis = _lengths_of(data, lengths, offsets, axis, True)
    dtype = data.dtype
    require("_segment_reduce_cpu", dtype, FLOATS)
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
        found = np.where(equal, given / counts[segment], np.zeros((), dtype))
    out = np.zeros(data.shape, dtype)
    out.reshape(kept.size, rows.shape[1])[kept] = found
    return out


def _prod_gradient(rows: ndarray, segment: ndarray, grad: ndarray, result: ndarray, initial: Any) -> ndarray:
    """grad times the product of all others: the result over the value, or where that says nothing the product itself."""
    found = grad * result / rows
    start = 1.0 if initial is None else float(initial)
    for i, j in zip(*np.nonzero((rows == 0) | (rows != rows))):
        others = rows[segment == segment[i], j]
        place = i - int(np.argmax(segment == segment[i]))
        product = np.multiply.reduce(np.delete(others, place), dtype=rows.dtype, initial=rows.dtype.type(start))
        found[i, j] = grad[i, j] * product
    return found
