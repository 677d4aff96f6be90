"""softmax and log_softmax, with their backward functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.checks import check, check_type, refuse, require, wrap_dim
from torchnp.errors import shape_text
from torchnp.kernels._reduction import FEW, TILE, add_reduce, row_sums, square_of_ones, tiles
from torchnp.kernels._rows import rows
from torchnp.quick import is_axis, within
from torchnp.registry import kernel

ndarray = np.ndarray
_max: Any
_add: Any
_max, _add = np.maximum.reduce, np.add.reduce  # called by place, which is cheaper


def prepare(name: str, x: ndarray, dim: int) -> tuple[int, bool]:
    """The axis, and whether there is nothing to compute; torch's kernels know the four real float types only."""
    axis = wrap_dim(dim, x.ndim)
    if x.size:
        last = "lastdim_" if axis == max(x.ndim, 1) - 1 else ""
        require(f"{name}_{last}kernel_impl", x.dtype, dt.FLOATS)
    return axis, x.size == 0


def _is_few(x: Any, dim: Any) -> bool:
    if type(x) is not ndarray or not 0 < x.size <= FEW or not is_axis(dim, x.ndim):
        return False
    return x.flags.c_contiguous and (x.dtype is dt.float32 or x.dtype is dt.float64)


_ORDER = "torch adds in an order that changes with the processor, and its exp is right to 1 ulp"


def _log_magnitudes(self, dim, half_to_float):
    """What is subtracted: the distance from the largest, and the logarithm of the sum."""
    return np.abs(self - self.max(dim, keepdims=True)) + np.log(self.shape[dim]) + 1


def _quick_softmax(self, dim, half_to_float):
    """Few float32 or float64 elements."""
    if half_to_float is not False or not _is_few(self, dim):
        return None
    y = np.subtract(self, _max(self, dim, None, None, True))
    np.exp(y, y)
    return np.divide(y, _few_sums(y, dim), y)


def _few_sums(y: ndarray, dim: int) -> ndarray:
    """Sums along a dimension, to broadcast; of short rows in every column, which spares the broadcasting."""
    n = y.shape[-1]
    if n <= 16 and (dim == -1 or dim == y.ndim - 1):
        return y.dot(square_of_ones(n, y.dtype))
    return _add(y, dim, None, None, True, 0)


def _quick_log_softmax(self, dim, half_to_float):
    if half_to_float is not False or not _is_few(self, dim):
        return None
    y = np.subtract(self, _max(self, dim, None, None, True))
    total = _few_sums(np.exp(y), dim)
    return np.subtract(y, np.log(total, total), y)


@kernel("_softmax", differs=["half-opmath", "zero-dim-axis"], quick=within(4, _quick_softmax, _ORDER))
def _softmax(self, dim, half_to_float):
    """exp(x) over its sum along a dimension."""
    check(not half_to_float, "softmax with half to float conversion is not supported on CPU")
    axis, empty = prepare("softmax", self, dim)
    if empty:
        return np.empty(self.shape, self.dtype)
    x = np.atleast_1d(dt.cast(self, dt.opmath(self.dtype)))
    if axis == x.ndim - 1 and x.size > TILE and x.ndim > 1:
        rows = x.reshape(-1, x.shape[-1])
        out = np.empty_like(rows)
        for block in tiles(*rows.shape):
            y = np.subtract(rows[block], _max(rows[block], 1, None, None, True), out[block])
            np.exp(y, y)
            np.multiply(y, np.reciprocal(row_sums(y)), y)
    else:
        out = np.subtract(x, _max(x, axis, None, None, True), np.empty_like(x))
        np.exp(out, out)
        np.divide(out, np.asarray(add_reduce(out, (axis,), True)), out)
    return dt.cast(out.reshape(self.shape), self.dtype)


@kernel(
    "_log_softmax", differs=["half-opmath", "zero-dim-axis"],
    quick=within(2, _quick_log_softmax, _ORDER, _log_magnitudes),
)  # fmt: skip
def _log_softmax(self, dim, half_to_float):
    """Logarithm of softmax, from the logarithm of the sum."""
    check(not half_to_float, "softmax with half to float conversion is not supported on CPU")
    axis, empty = prepare("log_softmax", self, dim)
    if empty:
        return np.empty(self.shape, self.dtype)
    if axis == self.ndim - 1 and self.size > TILE and self.dtype in (dt.float32, dt.float64) and self.ndim > 1:
        rows = self.reshape(-1, self.shape[-1])
        out = np.empty_like(rows)
        for block in tiles(*rows.shape):
            y = np.subtract(rows[block], _max(rows[block], 1, None, None, True), out[block])
            np.subtract(y, np.log(row_sums(np.exp(y))), y)
        return out.reshape(self.shape)
    x = np.atleast_1d(dt.cast(self, dt.opmath(self.dtype)))
    x = x - _max(x, axis, None, None, True)
    total = add_reduce(np.exp(x), (axis,), True)
    if dt.is_half(self.dtype) and axis == x.ndim - 1:  # torch keeps the sum and its logarithm in the half type here
        total = dt.cast(np.log(dt.cast(dt.cast(total, self.dtype), x.dtype)), self.dtype)
        np.subtract(x, dt.cast(total, x.dtype), x)
    else:
        np.subtract(x, np.log(total), x)
    return dt.cast(x, self.dtype).reshape(self.shape)


# ---------------------------------------------------------------- composites


def _after(self: ndarray, dim: int, dtype: Any, *, of: Callable[..., ndarray]) -> ndarray:
    return of(self if dtype is None else dt.cast(self, dt.as_dtype(dtype)), dim, False)


_TAIL = "along a dimension, after conversion to ``dtype``."
_DIFFERS = ["half-opmath", "zero-dim-axis"]
softmax, _ = rows("softmax.int special_softmax", _after, f"softmax {_TAIL}", of=_softmax, differs=_DIFFERS)
_DOC = f"log_softmax {_TAIL}"
log_softmax, _ = rows("log_softmax.int special_log_softmax", _after, _DOC, of=_log_softmax, differs=_DIFFERS)


@kernel("_safe_softmax", differs=["half-opmath", "zero-dim-axis"])
def _safe_softmax(self, dim, dtype=None):
    """softmax with 0 in place of NaN where a whole row is -inf."""
    out = softmax(self, dim, dtype)
    check(not dt.is_complex(self.dtype), "isneginf does not support complex inputs.")
    refuse("isneginf_cpu", self.dtype, dt.FLOAT8S)
    if self.dtype not in dt.FLOATS or self.size == 0:
        return out
    x = self if self.ndim else self.reshape(1)
    masked = np.logical_and.reduce(x == -np.inf, wrap_dim(dim, self.ndim), keepdims=True)
    return np.where(masked, out.dtype.type(0), out).reshape(self.shape)


@kernel("_masked_softmax", differs=["half-opmath"])
def _masked_softmax(self, mask, dim=None, mask_type=None):
    """softmax over what the mask leaves: its True elements count as 0, and a row of them as NaN."""
    check(mask.dtype == dt.bool_, "Mask should be a boolean tensor")
    if (2 if mask_type is None else mask_type) == 2:
        check(mask.shape == self.shape, "For mask_type == 2 mask shape should match input shape")
    elif mask_type == 1 and self.ndim == 4 and mask.ndim == 2:  # padding: batch by length
        mask = mask[:, None, None, :]
    require("masked_softmax", self.dtype, dt.FLOATS)
    hidden = np.broadcast_to(mask, self.shape)
    inner = dt.opmath(self.dtype)
    out = _softmax(np.where(hidden, inner.type(-np.inf), dt.cast(self, inner)), -1 if dim is None else dim, False)
    return dt.cast(out, self.dtype)


# ---------------------------------------------------------------- backward


def _prepare_backward(name: str, grad: ndarray, output: ndarray, dim: int) -> tuple[int, bool]:
    words = "Expected tensor for argument #1 'grad' to have same size as tensor for argument #2 'output'; but"
    sizes = f"{shape_text(grad.shape)} does not equal {shape_text(output.shape)}"
    check(grad.shape == output.shape, f"{words} {sizes} (while checking arguments for {name})")
    found = prepare(name, grad, dim)
    check_type(grad.dtype, output)
    return found


def _backward(grad, output, dim, input_dtype, *, op, of_rows, whole):
    axis, empty = _prepare_backward(op.strip("_").removesuffix("_data"), grad, output, dim)
    if empty:
        return np.empty(output.shape, output.dtype)
    large = grad.size > TILE and grad.flags.c_contiguous and output.flags.c_contiguous
    if large and axis == grad.ndim - 1 > 0 and grad.dtype in (dt.float32, dt.float64):
        grads, out = (x.reshape(-1, x.shape[-1]) for x in (grad, output))
        found = np.empty_like(grads)
        for block in tiles(*grads.shape):
            of_rows(grads[block], out[block], found[block])
        return found.reshape(output.shape)
    wide, out = (np.atleast_1d(dt.cast(x, dt.opmath(output.dtype))) for x in (grad, output))
    return dt.cast(whole(wide, out, axis), grad.dtype).reshape(output.shape)


def _softmax_rows(grad: ndarray, out: ndarray, found: ndarray) -> None:
    total = np.vecdot(grad, out)[:, None]
    if not total.all():  # a sum of negative zeros is one in torch
        products = grad * out
        total[((products == 0) & np.signbit(products)).all(-1)] = -0.0
    np.multiply(np.subtract(grad, total, found), out, found)


def _softmax_whole(grad: ndarray, out: ndarray, axis: int) -> ndarray:
    start = -0.0 if axis == grad.ndim - 1 else 0.0  # torch sums rows from their first product on, columns from zero
    return (grad - np.add.reduce(grad * out, axis, keepdims=True, initial=start)) * out


def _log_softmax_rows(grad: ndarray, out: ndarray, found: ndarray) -> None:
    np.multiply(np.exp(out, found), row_sums(grad), found)
    np.subtract(grad, found, found)


def _log_softmax_whole(grad: ndarray, out: ndarray, axis: int) -> ndarray:
    return grad - np.exp(out) * add_reduce(grad, (axis,), True)


(_of_softmax,) = rows(
    "_softmax_backward_data", _backward, "(grad - sum(grad * output)) * output.", differs=["half-opmath"],
    of_rows=_softmax_rows, whole=_softmax_whole,
)  # fmt: skip
rows(
    "_log_softmax_backward_data", _backward, "grad - exp(output) * sum(grad).", differs=["half-opmath"],
    of_rows=_log_softmax_rows, whole=_log_softmax_whole,
)  # fmt: skip


@kernel("_masked_softmax_backward", differs=["half-opmath"])
def _masked_softmax_backward(grad_output, output, mask, dim=None):
    """Gradient of `_masked_softmax`: that of softmax over what the mask leaves."""
    check(grad_output.shape == mask.shape, "Mask shape should match grad shape")
    check(mask.dtype == dt.bool_, "Mask should be a boolean tensor")
    axis = wrap_dim(-1 if dim is None else dim, grad_output.ndim)
    require("masked_softmax_backward", grad_output.dtype, dt.FLOATS)
    check_type(grad_output.dtype, output)
    kept = ~mask
    inner = dt.opmath(output.dtype)
    grad, out = (np.where(kept, dt.cast(x, inner), inner.type(0)) for x in (grad_output, output))
    found = _of_softmax(grad, out, axis, inner)
    return dt.cast(np.where(kept, found, inner.type(0)), output.dtype)
