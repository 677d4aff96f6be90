"""Kernels that keep a row label: reductions along other dimensions, normalization, matrix products, indexing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.rpc.server.privacy import row_array as ra
from torchnp.rpc.server.privacy.row_array import RowArray, Unlabelled, to, where
from torchnp.rpc.server.privacy.row_kernels import Results, Value, exp, log, rows

ALONG = "along other dimensions than the rows'"
CONTRACT = "a product that does not sum over the rows"
LOOKUP = "each row looks up its own places, along another dimension or in a public tensor"


def _dims(dim: Any) -> list[int]:
    """Return the dimensions of a reduction. A full reduction is refused, because it includes the row dimension."""
    dims = [] if dim is None else dim if isinstance(dim, list) else [dim]
    if not dims:
        raise Unlabelled("a reduction of all dimensions")
    return dims


def _count(x: RowArray, dims: Sequence[int]) -> int:
    return math.prod(x.shape[d] for d in {d % x.ndim for d in dims})


def _sum(x: RowArray, dims: Sequence[int], keepdim: bool = False) -> RowArray:
    return ra.reduce(np.add, x, dims, keepdim)


# ---------------------------------------------------------------- reductions


@rows("sum.dim_IntList", rule=ALONG)
def sum_(r: Results, self: Value, dim: Any, keepdim: bool = False) -> Value:
    return _sum(to(self, dt.opmath(r.dtype)), _dims(dim), keepdim)


@rows("mean.dim", rule=ALONG)
def mean(r: Results, self: Value, dim: Any, keepdim: bool = False) -> Value:
    (x,) = r.computed(self)
    return _sum(x, _dims(dim), keepdim) / x.dtype.type(_count(x, _dims(dim)))


@rows("prod.dim_int", rule=ALONG)
def prod(r: Results, self: Value, dim: int, keepdim: bool = False) -> Value:
    return ra.reduce(np.multiply, to(self, dt.opmath(r.dtype)), [dim], keepdim)


@rows("amax", rule=ALONG)
def amax(r: Results, self: Value, dim: Any = None, keepdim: bool = False) -> Value:
    return ra.reduce(np.maximum, r.alike(self)[0], _dims(dim), keepdim)


@rows("amin", rule=ALONG)
def amin(r: Results, self: Value, dim: Any = None, keepdim: bool = False) -> Value:
    return ra.reduce(np.minimum, r.alike(self)[0], _dims(dim), keepdim)


@rows("all.dim", "all.dims", rule=ALONG)
def all_(r: Results, self: Value, dim: Any, keepdim: bool = False) -> Value:
    return ra.reduce(np.logical_and, self != 0, _dims(dim), keepdim)


@rows("any.dim", "any.dims", rule=ALONG)
def any_(r: Results, self: Value, dim: Any, keepdim: bool = False) -> Value:
    return ra.reduce(np.logical_or, self != 0, _dims(dim), keepdim)


@rows("count_nonzero.dim_IntList", rule=ALONG)
def count_nonzero(r: Results, self: Value, dim: Any) -> Value:
    return _sum(to(self != 0, dt.int64), _dims(dim))


def _upside_down(x: Value) -> Value:
    """Reverse the order of the values; nan stays the largest."""
    if x.dtype == dt.bool_:
        return np.logical_not(x)
    return np.invert(x) if x.dtype.kind in "iu" else -x


def _picked(x: Value, places: Value, dim: int, keepdim: bool) -> tuple[Value, Value]:
    values = ra.gather(x, dim, places)
    return (values, places) if keepdim else (ra.drop(values, dim), ra.drop(places, dim))


@rows("max.dim", rule=ALONG)
def max_(r: Results, self: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
    return _picked(self, ra.first_largest(r.alike(self)[0], dim, True), dim, keepdim)


@rows("min.dim", rule=ALONG)
def min_(r: Results, self: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
    (x,) = r.alike(self)
    return _picked(self, ra.first_largest(_upside_down(x), dim, True), dim, keepdim)


@rows("argmax", rule=ALONG)
def argmax(r: Results, self: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    return ra.first_largest(r.alike(self)[0], _dims(dim)[0], keepdim)


@rows("argmin", rule=ALONG)
def argmin(r: Results, self: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    (x,) = r.alike(self)
    return ra.first_largest(_upside_down(x), _dims(dim)[0], keepdim)


def _deviations(x: Value, dims: Sequence[int], correction: Any, keepdim: bool) -> tuple[Value, Value]:
    """Return the variance and the mean."""
    if x.dtype.kind == "c":
        raise Unlabelled("the variance of complex numbers")
    n = _count(x, dims)
    middle = _sum(x, dims, True) / x.dtype.type(n)
    squares = _sum((x - middle) * (x - middle), dims, keepdim)
    with np.errstate(all="ignore"):
        variance = squares / x.dtype.type(max(n - (1 if correction is None else float(correction)), 0.0))
    return variance, middle if keepdim else _sum(middle, dims)


@rows("var.dim", "var.correction", rule=ALONG)
def var(
    r: Results, self: Value, dim: Any = None, unbiased: bool = True, correction: Any = None, keepdim: bool = False
) -> Value:
    return _deviations(r.computed(self)[0], _dims(dim), correction if unbiased else 0, keepdim)[0]


@rows("std.dim", "std.correction", rule=ALONG)
def std(
    r: Results, self: Value, dim: Any = None, unbiased: bool = True, correction: Any = None, keepdim: bool = False
) -> Value:
    return np.sqrt(var(r, self, dim, unbiased, correction, keepdim))


@rows("var_mean.dim", "var_mean.correction", rule=ALONG)
def var_mean(
    r: Results, self: Value, dim: Any = None, unbiased: bool = True, correction: Any = None, keepdim: bool = False
) -> tuple[Value, Value]:
    return _deviations(r.computed(self)[0], _dims(dim), correction if unbiased else 0, keepdim)


@rows("std_mean.dim", "std_mean.correction", rule=ALONG)
def std_mean(
    r: Results, self: Value, dim: Any = None, unbiased: bool = True, correction: Any = None, keepdim: bool = False
) -> tuple[Value, Value]:
    variance, middle = var_mean(r, self, dim, unbiased, correction, keepdim)
    return np.sqrt(variance), middle


@rows(
    "linalg_vector_norm", "norm.ScalarOpt_dim", "norm.ScalarOpt_dim_dtype", rule=f"{ALONG}; of order 1, 2 or infinity"
)
def vector_norm(r: Results, self: Value, ord: Any = 2, dim: Any = None, keepdim: bool = False, p: Any = None) -> Value:
    (x,) = r.computed(self)
    order = ord if p is None else p
    if x.dtype.kind == "c" or order not in (1, 2, math.inf):
        raise Unlabelled("such a norm")
    if order == 2:
        return np.sqrt(_sum(x * x, _dims(dim), keepdim))
    size = np.absolute(x)
    return _sum(size, _dims(dim), keepdim) if order == 1 else ra.reduce(np.maximum, size, _dims(dim), keepdim)


@rows("cumsum", rule=ALONG)
def cumsum(r: Results, self: Value, dim: int) -> Value:
    return ra.scan(np.add, to(self, dt.opmath(r.dtype)), dim)


@rows("cumprod", rule=ALONG)
def cumprod(r: Results, self: Value, dim: int) -> Value:
    return ra.scan(np.multiply, to(self, dt.opmath(r.dtype)), dim)


@rows("sort", "sort.stable", rule=ALONG)
def sort(
    r: Results, self: Value, dim: int = -1, descending: bool = False, stable: bool | None = None
) -> tuple[Value, Value]:
    places = argsort(r, self, dim, descending)
    return ra.gather(self, dim, places), places


@rows("argsort", "argsort.stable", rule=ALONG)
def argsort(r: Results, self: Value, dim: int = -1, descending: bool = False, stable: bool | None = None) -> Value:
    (x,) = [self] if self.dtype.kind in "biu" else _halves_wider(self)
    if not descending:
        return ra.order(x, dim)
    last = to(self.shape[dim] - 1, dt.int64)
    return last - ra.backwards(ra.order(ra.backwards(x, dim), dim), dim)


def _halves_wider(x: Value) -> list[Value]:
    """Return half types as float32, which preserves their order."""
    return [to(x, dt.opmath(x.dtype))]


@rows("topk", rule=ALONG)
def topk(
    r: Results, self: Value, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Value, Value]:
    places = ra.piece(argsort(r, self, dim, largest), dim, 0, k)
    return ra.gather(self, dim, places), places


# ---------------------------------------------------------------- softmax and normalization


def _from_largest(x: Value, dim: int) -> Value:
    """Subtract the largest value along a dimension."""
    largest = ra.reduce(np.maximum, x, [dim], True)
    return x - largest


@rows("_softmax", "softmax.int", "special_softmax", rule=ALONG)
def softmax(r: Results, self: Value, dim: int, half_to_float: bool = False) -> Value:
    e = exp(_from_largest(to(self, dt.opmath(r.dtype)), dim))
    return e / _sum(e, [dim], True)


@rows("_log_softmax", "log_softmax.int", "special_log_softmax", rule=ALONG)
def log_softmax(r: Results, self: Value, dim: int, half_to_float: bool = False) -> Value:
    x = _from_largest(to(self, dt.opmath(r.dtype)), dim)
    return x - log(_sum(exp(x), [dim], True))


@rows("_softmax_backward_data", rule=ALONG)
def softmax_backward(r: Results, grad_output: Value, output: Value, dim: int, input_dtype: Any = None) -> Value:
    g, y = r.computed(grad_output, output)
    weighed = g * y
    return weighed - y * _sum(weighed, [dim], True)


@rows("_log_softmax_backward_data", rule=ALONG)
def log_softmax_backward(r: Results, grad_output: Value, output: Value, dim: int, input_dtype: Any = None) -> Value:
    g, y = r.computed(grad_output, output)
    return g - exp(y) * _sum(g, [dim], True)


@rows("logsumexp", "special_logsumexp", rule=ALONG)
def logsumexp(r: Results, self: Value, dim: Any, keepdim: bool = False) -> Value:
    (x,) = r.computed(self)
    largest = ra.reduce(np.maximum, x, _dims(dim), True)
    shift = where(np.isfinite(largest), largest, to(0, x.dtype))
    out = log(_sum(exp(x - shift), _dims(dim), True)) + shift
    return out if keepdim else _sum(out, _dims(dim))


@rows("glu", rule=ALONG)
def glu(r: Results, self: Value, dim: int = -1) -> Value:
    (x,) = r.computed(self)
    half = x.shape[dim] // 2
    return ra.piece(x, dim, 0, half) / (1.0 + exp(-ra.piece(x, dim, half, 2 * half)))


@rows("glu_backward", rule=ALONG)
def glu_backward(r: Results, grad_output: Value, self: Value, dim: int) -> Value:
    g, x = r.computed(grad_output, self)
    half = x.shape[dim] // 2
    value, gate = ra.piece(x, dim, 0, half), 1.0 / (1.0 + exp(-ra.piece(x, dim, half, 2 * half)))
    return ra.join([g * gate, g * value * gate * (1.0 - gate)], dim)


def _last(x: Value, normalized_shape: Sequence[int]) -> list[int]:
    return list(range(-len(normalized_shape), 0))


@rows("native_layer_norm", rule=f"{ALONG} (layer norm)")
def layer_norm(
    r: Results, input: Value, normalized_shape: list, weight: Value, bias: Value, eps: float
) -> tuple[Value, Value, Value]:
    x = to(input, dt.opmath(input.dtype))
    dims = _last(x, normalized_shape)
    variance, middle = _deviations(x, dims, 0, True)
    scale = 1.0 / np.sqrt(variance + eps)
    out = (x - middle) * scale
    if weight is not None:
        out = out * to(weight, x.dtype)
    return out if bias is None else out + to(bias, x.dtype), middle, scale


@rows("native_layer_norm_backward", rule=f"{ALONG} (layer norm); the gradients of weight and bias are mixed")
def layer_norm_backward(
    r: Results, grad_out: Value, input: Value, normalized_shape: list, mean: Value, rstd: Value, weight: Value,
    bias: Value, output_mask: list,
) -> tuple[Value, None, None]:  # fmt: skip
    dtype = dt.opmath(input.dtype)
    g, x, middle, scale = (to(v, dtype) for v in (grad_out, input, mean, rstd))
    dims = _last(x, normalized_shape)
    if weight is not None:
        g = g * to(weight, dtype)
    normal = (x - middle) * scale
    n = dtype.type(_count(x, dims))
    out = g - _sum(g, dims, True) / n - normal * (_sum(g * normal, dims, True) / n)
    return out * scale, None, None


# ---------------------------------------------------------------- products


@rows("mm", "bmm", rule=CONTRACT)
def mm(r: Results, self: Value, mat2: Value) -> Value:
    return np.matmul(*r.computed(self, mat2))


@rows("mv", rule=CONTRACT)
def mv(r: Results, self: Value, vec: Value) -> Value:
    a, b = r.computed(self, vec)
    return ra.drop(np.matmul(a, ra.insert(b, 1)), 1)


@rows("outer", "ger", rule=CONTRACT)
def outer(r: Results, self: Value, vec2: Value) -> Value:
    a, b = r.computed(self, vec2)
    return ra.insert(a, 1) * ra.insert(b, 0)


def _plus(self: Value, product: Value, beta: Any, alpha: Any) -> Value:
    if alpha != 1:
        product = product * to(alpha, product.dtype)
    if beta == 0:
        return product
    return to(self, product.dtype) * to(beta, product.dtype) + product


@rows("addmm", rule=CONTRACT)
def addmm(r: Results, self: Value, mat1: Value, mat2: Value, beta: Any = 1, alpha: Any = 1) -> Value:
    return _plus(self, mm(r, mat1, mat2), beta, alpha)


@rows("baddbmm", rule=CONTRACT)
def baddbmm(r: Results, self: Value, batch1: Value, batch2: Value, beta: Any = 1, alpha: Any = 1) -> Value:
    return _plus(self, mm(r, batch1, batch2), beta, alpha)


@rows("addmv", rule=CONTRACT)
def addmv(r: Results, self: Value, mat: Value, vec: Value, beta: Any = 1, alpha: Any = 1) -> Value:
    return _plus(self, mv(r, mat, vec), beta, alpha)


@rows("addr", rule=CONTRACT)
def addr(r: Results, self: Value, vec1: Value, vec2: Value, beta: Any = 1, alpha: Any = 1) -> Value:
    return _plus(self, outer(r, vec1, vec2), beta, alpha)


# ---------------------------------------------------------------- indexing


@rows("gather", rule=LOOKUP)
def gather(r: Results, self: Value, dim: int, index: Value, sparse_grad: bool = False) -> Value:
    return ra.gather(self, dim, index)


@rows("scatter.value", "scatter.src", rule=LOOKUP)
def scatter(r: Results, self: Value, dim: int, index: Value, value: Any = None, src: Value = None) -> Value:
    return ra.scatter(self, dim, index, to(value, r.dtype) if src is None else src, add=False)


@rows("scatter_add", rule=LOOKUP)
def scatter_add(r: Results, self: Value, dim: int, index: Value, src: Value) -> Value:
    return ra.scatter(to(self, dt.opmath(r.dtype)), dim, index, to(src, dt.opmath(r.dtype)), add=True)


@rows("embedding", rule=LOOKUP)
def embedding(
    r: Results, weight: Value, indices: Value, padding_idx: int = -1, scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Value:  # fmt: skip
    return ra.lookup(weight, indices, 0)


@rows("index_select", rule=LOOKUP)
def index_select(r: Results, self: Value, dim: int, index: Value) -> Value:
    return ra.lookup(self, index, dim)


@rows("index.Tensor", rule=LOOKUP)
def index_(r: Results, self: Value, indices: list) -> Value:
    given = [(axis, x) for axis, x in enumerate(indices) if x is not None]
    if len(given) != 1:
        raise Unlabelled("several index tensors")
    ((axis, index),) = given
    return ra.lookup(self, index, axis)
