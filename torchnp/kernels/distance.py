"""Distances between vectors, with their gradients."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import broadcast_shapes, check, check_type, require
from torchnp.core.errors import cannot_cast, complex_clamp, dim_out_of_range, no_dimensions
from torchnp.core.python_scalars import number, scalar
from torchnp.core.registry import kernel
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._memory import new_like
from torchnp.kernels._reduction import row_dots
from torchnp.kernels.arithmetic import add_scalar, div, mul, sub
from torchnp.kernels.join import cat
from torchnp.kernels.limits import maximum
from torchnp.kernels.power import pow_scalar
from torchnp.kernels.reduce import sum_dim
from torchnp.kernels.tensor_products import matmul
from torchnp.kernels.vectornorm import linalg_vector_norm, norm_along, norm_over
from torchnp.kernels.view import m_t
from torchnp.threads import blocks
from torchnp.thresholds import Threshold

ndarray = np.ndarray

_BY_PRODUCTS: Threshold = 25  # rows; with more, torch computes Euclidean distances by a matrix product
LARGEST: Threshold = 1 << 21  # elements in a block of differences


def _blocks(x1: ndarray, x2: ndarray, batch: tuple[int, ...]) -> Iterator[tuple[tuple, ndarray]]:
    """Yield the differences of all pairs of rows in blocks of bounded size, each with the index of its rows in ``x1``.

    A block holds several small matrices, or some rows of a large one.
    """
    of_row = x2.shape[-2] * x2.shape[-1]
    if math.prod(batch) * of_row <= LARGEST:
        for part in blocks(x1.shape[-2], LARGEST // (math.prod(batch) * of_row)):
            yield (..., part, slice(None)), x1[..., part, None, :] - x2[..., None, :, :]
        return
    if not batch:
        for part in blocks(len(x1), max(1, LARGEST // of_row)):
            yield (part,), x1[part, None, :] - x2
        return
    first, second = (np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (x1, x2))
    for matrices in blocks(math.prod(batch), max(1, LARGEST // (x1.shape[-2] * of_row))):
        places = np.unravel_index(np.arange(matrices.start, matrices.stop), batch)
        a, b = first[places], second[places]
        for part in blocks(x1.shape[-2], max(1, LARGEST // (len(a) * of_row))):
            yield (*places, part), a[:, part, None, :] - b[:, None, :, :]


def _lengths(d: ndarray, p: float) -> ndarray:
    """Return p-norms along the last axis; p = 0 counts nonzero elements."""
    if p == 2:
        return np.sqrt(row_dots(d, d))
    if p == 0:
        return np.add.reduce(np.where(np.isnan(d), d, d != 0), -1, d.dtype)
    return norm_along(d, p, -1)


def _check_cdist(x1: ndarray, x2: ndarray, p: float, mode: int | None) -> tuple[int, ...]:
    for name, x in (("X1", x1), ("X2", x2)):
        check(x.ndim >= 2, f"cdist only supports at least 2D tensors, {name} got: {x.ndim}D")
    found = f"X1: {x1.shape[-1]} X2: {x2.shape[-1]}"
    check(x1.shape[-1] == x2.shape[-1], f"X1 and X2 must have the same number of columns. {found}")
    for name, x in (("X1", x1), ("X2", x2)):
        words = f"cdist only supports floating-point dtypes, {name} got:"
        check(dt.is_floating(x.dtype), f"{words} {dt.scalar_name(x.dtype)}")
    check(p >= 0, "cdist only supports non-negative p values")
    check(mode in (None, 0, 1, 2), f"possible modes: 0, 1, 2, but was: {mode}")
    return broadcast_shapes(x1.shape[:-2], x2.shape[:-2])


@kernel("_cdist_forward", differs=["cdist-by-products"])
def _cdist_forward(x1, x2, p, compute_mode):
    """p-norm distances of all pairs of rows; Euclidean ones of many rows use matrix products, as in torch."""
    batch = _check_cdist(x1, x2, p, compute_mode)
    shape = (*batch, x1.shape[-2], x2.shape[-2])
    if math.prod(shape) == 0 or x1.shape[-1] == 0:
        return np.zeros(shape, x1.dtype)
    if p == 2 and (compute_mode == 1 or (compute_mode in (None, 0) and max(shape[-2:]) > _BY_PRODUCTS)):
        return _euclidean_dist(*(np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (x1, x2)))
    require("cdist", x1.dtype, (dt.float32, dt.float64))
    check_type(x1.dtype, x2)
    out, p = np.empty(shape, x1.dtype), number(p, x1.dtype).item()
    for at, d in _blocks(x1, x2, batch):
        # cdist ignores NaN in the maximum; in pdist, NaN wins.
        out[at] = np.fmax.reduce(np.abs(d), -1, initial=0) if math.isinf(p) else _lengths(d, p)
    return out


@kernel("_euclidean_dist", differs=["cdist-by-products"])
def _euclidean_dist(x1, x2):
    """Euclidean distances of all pairs of rows, sqrt(|a|**2 - 2 a b + |b|**2) computed with one matrix product."""
    squares = [sum_dim(pow_scalar(x, 2), -1, True) for x in (x1, x2)]
    ones = [np.ones(s.shape, s.dtype) for s in squares]
    out = matmul(cat([mul(x1, -2), squares[0], ones[0]], -1), m_t(cat([x2, ones[1], squares[1]], -1)))
    check(not dt.is_complex(out.dtype), complex_clamp())
    check(dt.is_inexact(out.dtype), cannot_cast(dt.get_default_dtype(), out.dtype))
    inner = dt.cast(out, dt.opmath(out.dtype))
    return dt.cast(np.sqrt(np.maximum(inner, 0)), out.dtype)


rows("cdist", _cdist_forward, "p-norm distances of all pairs of rows.", differs=["cdist-by-products"])


def _pulled(grad: ndarray, d: ndarray, length: ndarray, p: float) -> ndarray:
    """Multiply ``grad`` by the derivative of the p-norm along the last axis; where that does not exist, return 0."""
    grad, length, kind = grad[..., None], length[..., None], d.dtype.type
    if p == 1:
        return grad * np.sign(d)
    if p == math.inf:
        return grad * np.sign(d) * (1 - np.minimum(1, np.ceil(np.abs(np.abs(d) - length))))
    if p == 2:
        found = grad * d / length
    elif p < 2:
        found = np.sign(d) * np.abs(d) ** kind(p - 1) * grad / length ** kind(p - 1)
        if p < 1:
            found = np.where(d == 0, kind(0), found)
    else:
        found = d * np.abs(d) ** kind(p - 2) * grad / length ** kind(p - 1)
    return np.where(length == 0, kind(0), found)


@kernel("_cdist_backward", renamed={"grad": "grad_output"})  # before torch 2.14 the argument was called ``grad``
def _cdist_backward(grad_output, x1, x2, p, cdist):
    """Gradient of `_cdist_forward` with respect to ``x1``."""
    batch = broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    out = np.zeros((*batch, *x1.shape[-2:]), x1.dtype)
    if out.size == 0 or x2.size == 0:
        none = new_like(x1, x1.dtype)
        none[...] = 0
        return none
    require("cdist_backward", x1.dtype, (dt.float32, dt.float64))
    if p == 0:
        return out
    check_type(x1.dtype, grad_output, cdist, x2)
    grad_output, cdist = (np.broadcast_to(x, (*batch, x1.shape[-2], x2.shape[-2])) for x in (grad_output, cdist))
    for at, d in _blocks(x1, x2, batch):
        out[at] = np.add.reduce(_pulled(grad_output[at], d, cdist[at], p), -2)
    return out


@kernel("_pdist_forward")
def _pdist_forward(self, p=2.0):
    """p-norm distances of all pairs of rows, each pair once: the upper triangle of `cdist`, flattened."""
    check(self.flags.c_contiguous, "_pdist_forward requires contiguous input")
    check(self.ndim, no_dimensions(0))
    n = self.shape[0]
    if n <= 1:
        return np.empty(0, self.dtype)
    check(self.ndim > 1, dim_out_of_range(1, 1))
    count = n * (n - 1) // 2
    if self.shape[1] == 0:
        return np.zeros(count, self.dtype)
    require("pdist", self.dtype, (dt.float32, dt.float64))
    # If ``self`` has more than two dimensions, there are more than n rows; torch takes the first ``count`` pairs.
    rows = self.reshape(-1, self.shape[1])
    i, j = (x[:count] for x in np.triu_indices(len(rows), 1))
    p = number(p, self.dtype).item()
    p = math.inf if math.isinf(p) else p  # torch treats -inf as inf
    out = np.empty(count, self.dtype)
    for part in blocks(count, max(1, LARGEST // rows.shape[1])):
        out[part] = _lengths(rows[i[part]] - rows[j[part]], p)
    return out


@kernel("pdist")
def pdist(self, p=2.0):
    """p-norm distances of all pairs of rows, each pair once."""
    check(self.ndim == 2, f"pdist only supports 2D tensors, got: {self.ndim}D")
    check(dt.is_floating(self.dtype), "pdist only supports floating-point dtypes")
    check(p >= 0, "pdist only supports non-negative p values")
    return _pdist_forward(np.ascontiguousarray(self), p)


@kernel("_pdist_backward", renamed={"grad": "grad_output"})  # before torch 2.14 the argument was called ``grad``
def _pdist_backward(grad_output, self, p, pdist):
    """Gradient of `_pdist_forward`."""
    for name, x in (("self", self), ("pdist", pdist)):
        check(x.flags.c_contiguous, f"_pdist_backward requires {name} to be contiguous")
    require("pdist_backward", self.dtype, (dt.float32, dt.float64))
    out = np.zeros(self.shape, self.dtype)
    if p == 0:
        return out
    check_type(self.dtype, grad_output, pdist)
    if pdist.size == 0 or self.size == 0:
        return out
    start = 0
    for i in range(self.shape[0] - 1):
        pairs = slice(start, start := start + self.shape[0] - 1 - i)
        step = _pulled(grad_output[pairs], self[i] - self[i + 1 :], pdist[pairs], p)
        out[i] += np.add.reduce(step, 0)
        out[i + 1 :] -= step
    return out


@kernel("cosine_similarity")
def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    """Cosine of the angle between vectors along a dimension; norms are at least ``eps``."""
    common = dt.result_type(x1, x2)
    words = "expected common dtype to be floating point, yet common dtype is"
    check(dt.is_floating(common), f"{words} {dt.scalar_name(common)}")
    check(eps >= 0, f"eps must be non-negative, got: {eps:g}")
    shape = broadcast_shapes(x1.shape, x2.shape)
    unit = []
    for x in (x1, x2):  # each norm is computed in the tensor's own dtype, but in the common dtype for integers
        x = np.broadcast_to(x if dt.is_floating(x.dtype) else dt.cast(x, common), shape)
        length = linalg_vector_norm(x, 2, dim, True)
        unit.append(div(x, maximum(length, dt.cast(scalar(eps, dt.opmath(length.dtype)), length.dtype))))
    return sum_dim(mul(*unit), dim)


@kernel("pairwise_distance")
def pairwise_distance(x1: ndarray, x2: ndarray, p: float = 2.0, eps: float = 1e-06, keepdim: bool = False) -> ndarray:
    """The p-norm of ``x1 - x2 + eps`` over the last dimension."""
    return norm_over(add_scalar(sub(x1, x2), eps), p, -1, keepdim)
