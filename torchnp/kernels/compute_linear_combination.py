"""`_compute_linear_combination`: sums of tensors, weighted by the rows of a coefficient matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import broadcast_shapes, check, refuse, wrap_dim
from torchnp.core.errors import dim_out_of_range, output_shape
from torchnp.core.inplace_out_spec import Bound, WriteSpec, store
from torchnp.core.registry import kernel
from torchnp.kernels._memory import RARE_OR_CHALF, storage

ndarray = np.ndarray


def _matrix(coefficients: ndarray) -> ndarray:
    """Return ``coefficients[:, :, 0, ..., 0]``: torch reads only the first two dimensions."""
    first: Any = (slice(None), slice(None), *(0,) * (coefficients.ndim - 2))
    return coefficients[first] if coefficients.ndim > 2 else coefficients


def _precheck_combined(bound: Bound, outs: list[ndarray]) -> tuple[int, ...] | None:
    """Compute the result, and write it to ``out=``.

    torch adds to the old values of ``out=``, in its dtype, and never resizes it, so it must have the broadcast shape.
    """
    input, weights, (out,) = bound["input"], _matrix(bound["coefficients"]), outs
    if not input.size or not input.ndim or weights.ndim < 2:
        return None  # the full kernel refuses these arguments
    at = wrap_dim(1, out.ndim + 1)
    shape = (*out.shape[:at], 1, *out.shape[at:])
    common = broadcast_shapes(shape, (1, 1, *input.shape[1:]), (weights.shape[0], *(1,) * input.ndim))
    if common != shape:
        raise output_shape(shape, common)
    refuse(_NAME, out.dtype, RARE_OR_CHALF)
    total = np.expand_dims(out, at)
    return store(out, _combined(input, weights, total).reshape(out.shape))


_NAME = "_compute_linear_combination_cpu"


@kernel("_compute_linear_combination", writes=WriteSpec(out=_precheck_combined))
def _compute_linear_combination(input, coefficients):
    """Sums over the first dimension, each weighted by a row of real coefficients, rounded at each step."""
    if coefficients.ndim < 2:
        raise dim_out_of_range(1, coefficients.ndim)
    coefficients = _matrix(coefficients)
    check(input.ndim > 0 and input.size > 0, "Empty tensor not supported")
    refuse(_NAME, input.dtype, RARE_OR_CHALF)
    return _combined(input, coefficients, np.zeros((len(coefficients), 1, *input.shape[1:]), input.dtype))[:, 0]


def _combined(input: ndarray, coefficients: ndarray, total: ndarray) -> ndarray:
    """Add the weighted parts to ``total``, which has a size-1 dimension before those of the parts."""
    dtype = total.dtype
    parts, weights = _read_as(input, dtype, 0), _read_as(coefficients, dt.to_real(dtype), 1)
    if dtype == dt.bool_:  # torch computes with the raw bytes
        parts, weights = parts.view(np.uint8), weights.view(np.uint8)
    elif dt.is_complex(dtype):  # real and imaginary part separately
        parts, total = (np.ascontiguousarray(x).view(weights.dtype).reshape(*x.shape, 2) for x in (parts, total))
    inner = dt.opmath(total.dtype) if dtype != dt.bool_ else parts.dtype
    parts, weights = dt.cast(parts, inner), dt.cast(weights, inner)
    for weight, part in zip(weights.T, parts, strict=False):
        product = (np.bitwise_and if dtype == dt.bool_ else np.multiply).outer(weight, part[None])
        total = dt.cast(dt.cast(total, inner) + dt.cast(dt.cast(product, total.dtype), inner), total.dtype)
    return np.ascontiguousarray(total).view(dtype)[..., 0] if dt.is_complex(dtype) else total


def _read_as(x: ndarray, dtype: np.dtype, axis: int) -> ndarray:
    """Reinterpret x's memory as another dtype, as torch does; along ``axis`` the stride counts elements of that dtype.

    For a wider dtype torch reads memory beyond x; here the values are converted.
    """
    if x.dtype == dtype or x.itemsize < dtype.itemsize:
        return dt.cast(x, dtype)
    memory, start = storage(x)
    strides = list(x.strides)
    strides[axis] = strides[axis] // x.itemsize * dtype.itemsize
    return ndarray(x.shape, dtype, memory, start, tuple(strides))
