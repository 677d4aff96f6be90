"""softmax and log_softmax, their gradients, and logsumexp."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, check_type, expanded, refuse, require, wrap_dim
from torchnp.core.errors import expected_type, output_shape, shape_text
from torchnp.core.fast_path import exact, is_axis, is_float, within
from torchnp.core.inplace_out_spec import Bound, WriteSpec, store
from torchnp.core.registry import kernel
from torchnp.core.target import since
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._elementwise import int_to_float
from torchnp.kernels._memory import axis_first
from torchnp.kernels._reduction import (
    FEW,
    NOT_NUMERIC,
    TILE,
    add_reduce,
    axes_of,
    ones,
    row_dots,
    row_sums,
    share_tiles,
)
from torchnp.kernels.extrema import reduced_shape
from torchnp.kernels.numerics.blocks import row_major_blocks
from torchnp.kernels.numerics.fma import fast_fma
from torchnp.kernels.numerics.vector_tails import AVX512
from torchnp.layout.apply import is_plain
from torchnp.layout.overlap import check_target
from torchnp.layout.stride_rules import contiguous, layout_of, place
from torchnp.threads import share

ndarray = np.ndarray
_max: Any
_add: Any
_max, _add = np.maximum.reduce, np.add.reduce  # called with positional arguments, which is cheaper


def _along(name: str, dim: int, *given: ndarray, of_rows: Callable[..., Any], whole: Callable[..., ndarray]) -> ndarray:
    """Apply ``of_rows`` to large float32 or float64 rows by tiles, else ``whole`` to tensors in the opmath dtype."""
    x = given[0]
    axis = wrap_dim(dim, x.ndim)
    if not x.size:
        return np.empty(x.shape, x.dtype)
    last = "lastdim_" if axis == max(x.ndim, 1) - 1 else ""
    require(f"{name}_{last}kernel_impl", x.dtype, dt.FLOATS)
    if x.size > TILE and axis == x.ndim - 1 > 0 and not dt.is_half(x.dtype):
        matrices = [v.reshape(-1, v.shape[-1]) for v in given]
        out = np.empty_like(matrices[0])
        share_tiles(lambda block: of_rows(*(m[block] for m in matrices), out[block]), *out.shape)
        return out.reshape(x.shape)
    if x.size > TILE and axis < x.ndim - 1 and not dt.is_half(x.dtype):
        return _by_columns(whole, axis, *given)
    wide = (np.atleast_1d(dt.cast(v, dt.opmath(v.dtype))) for v in given)
    return dt.cast(whole(*wide, axis, x.dtype), x.dtype).reshape(x.shape)


def _by_columns(whole: Callable[..., ndarray], axis: int, *given: ndarray) -> ndarray:
    """Apply ``whole`` to tiles in which ``axis`` comes first, so that NumPy's loops run along many columns."""
    x, result = given[0], np.empty_like(given[0])
    order = axis_first(x, axis)
    sources, to = [v.transpose(order) for v in given], result.transpose(order)

    def run(tile: tuple[slice, ...]) -> None:
        at = (slice(None), *tile)
        to[at] = whole(*(np.ascontiguousarray(v[at]) for v in sources), 0, x.dtype)

    share(run, row_major_blocks(to.shape[1:], 1, max(TILE // len(to), 1)))
    return result


# ---------------------------------------------------------------- forward


def _is_few(x: Any, dim: Any, half_to_float: Any) -> bool:
    few = half_to_float is False and is_float(x) and 0 < x.size <= FEW
    return few and is_axis(dim, x.ndim) and x.flags.c_contiguous


_ORDER = "torch adds in an order that changes with the processor, and its exp is right to 1 ulp"


def _log_magnitudes(self, dim, half_to_float):
    """Return the magnitudes of the terms that log_softmax adds; its rounding errors are relative to these."""
    return np.abs(self - self.max(dim, keepdims=True)) + np.log(self.shape[dim]) + 1


def _quick_softmax(self, dim, half_to_float):
    """Compute softmax of few float32 or float64 elements; return None for other arguments."""
    if not _is_few(self, dim, half_to_float):
        return None
    y = np.subtract(self, _max(self, dim, None, None, True))
    np.exp(y, y)
    return np.divide(y, _few_sums(y, dim), y)


def _few_sums(y: ndarray, dim: int) -> ndarray:
    """Return broadcastable sums along a dimension; if rows are short, put the sum in every column, which is faster."""
    n = y.shape[-1]
    if n <= 16 and (dim == -1 or dim == y.ndim - 1):
        return y.dot(ones((n, n), y.dtype))
    return _add(y, dim, None, None, True, 0)


def _quick_log_softmax(self, dim, half_to_float):
    if not _is_few(self, dim, half_to_float):
        return None
    y = np.subtract(self, _max(self, dim, None, None, True))
    total = _few_sums(np.exp(y), dim)
    return np.subtract(y, np.log(total, total), y)


def _forward(x: ndarray, dim: int, half_to_float: bool, *, op: str, of_rows: Any, whole: Any) -> ndarray:
    wrap_dim(dim, x.ndim)
    check(not half_to_float, "softmax with half to float conversion is not supported on CPU")
    return _along(op.strip("_"), dim, x, of_rows=of_rows, whole=whole)


def _softmax_rows(x: ndarray, y: ndarray) -> None:
    np.subtract(x, _max(x, 1, None, None, True), y)
    np.exp(y, y)
    np.multiply(y, np.reciprocal(row_sums(y)), y)


def _softmax_whole(x: ndarray, axis: int, dtype: np.dtype) -> ndarray:
    out = np.subtract(x, _max(x, axis, None, None, True), np.empty_like(x))
    np.exp(out, out)
    total = np.asarray(add_reduce(out, (axis,), True))
    if dt.is_half(dtype) and axis < x.ndim - 1:  # torch rounds elements that fill no vector to a half type
        inner = x.shape[axis + 1 :]
        kept = math.prod(inner) // AVX512.elements(dtype) * AVX512.elements(dtype)
        out = np.where(np.arange(math.prod(inner)).reshape(inner) < kept, out, dt.cast(dt.cast(out, dtype), x.dtype))
    return np.divide(out, total, out)


def _log_softmax_rows(x: ndarray, y: ndarray) -> None:
    np.subtract(x, _max(x, 1, None, None, True), y)
    np.subtract(y, np.log(row_sums(np.exp(y))), y)


def _log_softmax_whole(x: ndarray, axis: int, dtype: np.dtype) -> ndarray:
    x = x - _max(x, axis, None, None, True)
    total = add_reduce(np.exp(x), (axis,), True)
    if dt.is_half(dtype) and axis == x.ndim - 1:  # torch keeps the sum and its logarithm in the half type here
        total = dt.cast(dt.cast(np.log(dt.cast(dt.cast(total, dtype), x.dtype)), dtype), x.dtype)
        return np.subtract(x, total, x)
    return np.subtract(x, np.log(total), x)


_DIFFERS = ["half-opmath"]
(_softmax,) = rows(
    "_softmax", _forward, "exp(x) divided by its sum along a dimension.", differs=_DIFFERS, of_rows=_softmax_rows,
    whole=_softmax_whole, quick=within(4, _quick_softmax, _ORDER),
)  # fmt: skip
(_log_softmax,) = rows(
    "_log_softmax", _forward, "Log-softmax: x minus the logarithm of the sum of exp(x).", differs=_DIFFERS,
    of_rows=_log_softmax_rows, whole=_log_softmax_whole,
    quick=within(2, _quick_log_softmax, _ORDER, _log_magnitudes),
)  # fmt: skip

# ---------------------------------------------------------------- composites


def _after(self: ndarray, dim: int, dtype: Any, *, of: Callable[..., ndarray]) -> ndarray:
    return of(self if dtype is None else dt.cast(self, dt.as_dtype(dtype)), dim, False)


_TAIL = "along a dimension, after conversion to ``dtype``."
softmax, _ = rows("softmax.int special_softmax", _after, f"softmax {_TAIL}", of=_softmax, differs=_DIFFERS)
_DOC = f"log_softmax {_TAIL}"
log_softmax, _ = rows("log_softmax.int special_log_softmax", _after, _DOC, of=_log_softmax, differs=_DIFFERS)


@kernel("_safe_softmax", differs=_DIFFERS)
def _safe_softmax(self, dim, dtype=None):
    """softmax that gives 0 instead of NaN for rows that are all -inf."""
    out = softmax(self, dim, dtype)
    check(not dt.is_complex(self.dtype), "isneginf does not support complex inputs.")
    refuse("isneginf_cpu", self.dtype, dt.FLOAT8S)
    if not since("2.13"):
        refuse("where_cpu", out.dtype, dt.BARE_UNSIGNED)
    if self.dtype not in dt.FLOATS or self.size == 0:
        return out
    x = self if self.ndim else self.reshape(1)
    masked = np.logical_and.reduce(x == -np.inf, wrap_dim(dim, self.ndim), keepdims=True)
    return np.where(masked, out.dtype.type(0), out).reshape(self.shape) if masked.any() else out


@kernel("_masked_softmax", differs=["half-opmath"])
def _masked_softmax(self, mask, dim=None, mask_type=None):
    """softmax over the elements whose mask is False; masked ones give 0, and a fully masked row gives NaN."""
    check(mask.dtype == dt.bool_, "Mask should be a boolean tensor")
    if mask.shape != self.shape and self.ndim == 4 and mask.ndim == 2 and mask_type != 2:
        check(mask_type is not None, "Mask Type should be defined")
        words = "Mask Type should be 0 (src_mask) or 1 (src_key_padding_mask), or 2 (default_mask)"
        check(mask_type in (0, 1), words)
        batch, _, length, _ = self.shape
        names, sizes = ("(B, L)", (batch, length)) if mask_type else ("(L, L)", (length, length))
        check(mask.shape == sizes, f"For mask_type == {mask_type} mask shape should be {names}")
        mask = expanded(mask[:, None, None, :] if mask_type else mask[None, None], self.shape)
    check(mask.shape == self.shape, "For mask_type == 2 mask shape should match input shape")
    wrap_dim(-1 if dim is None else dim, self.ndim)
    require("masked_softmax", self.dtype, dt.FLOATS)
    inner = dt.opmath(self.dtype)
    out = _softmax(np.where(mask, inner.type(-np.inf), dt.cast(self, inner)), -1 if dim is None else dim, False)
    return dt.cast(out, self.dtype)


# ---------------------------------------------------------------- backward


def _backward(grad_output, output, dim, input_dtype, *, op, of_rows, whole):
    name = op.strip("_").removesuffix("_data")
    words = "Expected tensor for argument #1 'grad' to have same size as tensor for argument #2 'output'; but"
    sizes = f"{shape_text(grad_output.shape)} does not equal {shape_text(output.shape)}"
    same = grad_output.shape == output.shape
    # torch does not compare sizes for log_softmax; where it would read out of bounds, this raises after all other
    # checks.
    check(same or name == "log_softmax_backward", f"{words} {sizes} (while checking arguments for {name})")
    found = _along(name, dim, grad_output, output if same else grad_output, of_rows=of_rows, whole=whole)
    narrowed = input_dtype == dt.float16 and grad_output.dtype == dt.float32
    if not grad_output.size:  # torch checks the dtypes in the loop
        return found.astype(dt.float16) if narrowed else found
    if narrowed:
        raise expected_type(dt.float32, dt.float16)
    check_type(grad_output.dtype, output)
    check(same, f"{words} {sizes} (while checking arguments for {name})")
    return found


def _softmax_backward_rows(grad: ndarray, out: ndarray, found: ndarray) -> None:
    total = row_dots(grad, out)[:, None]
    if not total.all():
        total = _negative_where_all_are(total, grad * out, -1)
    np.multiply(np.subtract(grad, total, found), out, found)


def _softmax_backward_whole(grad: ndarray, out: ndarray, axis: int, dtype: np.dtype) -> ndarray:
    start = -0.0 if axis == grad.ndim - 1 else 0.0  # torch starts sums of rows with the first product, others with 0
    return (grad - np.add.reduce(grad * out, axis, keepdims=True, initial=start)) * out


def _negative_where_all_are(total: ndarray, terms: ndarray, axis: int) -> ndarray:
    """Return the sums, with -0 where all terms are -0."""
    if total.all():
        return total
    return np.where((total == 0) & np.signbit(terms).all(axis, keepdims=True), -total.dtype.type(0), total)


def _log_softmax_backward_rows(grad: ndarray, out: ndarray, found: ndarray) -> None:
    np.multiply(np.exp(out, found), _negative_where_all_are(row_sums(grad), grad, -1), found)
    np.subtract(grad, found, found)


def _log_softmax_backward_whole(grad: ndarray, out: ndarray, axis: int, dtype: np.dtype) -> ndarray:
    total = add_reduce(grad, (axis,), True)
    if axis == grad.ndim - 1:  # a row of -0 sums to -0
        total = _negative_where_all_are(total, grad, axis)
    return fast_fma(np.exp(out), -total, grad)


def _quick_softmax_backward(grad_output, output, dim, input_dtype):
    """Return the full kernel's result, bit for bit, for row-major float32 or float64 tensors; else None."""
    if (
        not is_float(grad_output)
        or type(output) is not ndarray
        or output.dtype is not grad_output.dtype
        or grad_output.size > TILE
    ):
        return None
    if grad_output.shape != output.shape or not is_axis(dim, grad_output.ndim) or input_dtype == dt.float16:
        return None
    if not is_plain(grad_output) or not is_plain(output):
        return None
    y = np.multiply(grad_output, output)
    start = -0.0 if dim == -1 or dim == grad_output.ndim - 1 else 0.0
    np.subtract(grad_output, _add(y, dim, None, None, True, start), y)
    return np.multiply(y, output, y)


(_of_softmax,) = rows(
    "_softmax_backward_data", _backward, "(grad - sum(grad * output)) * output.", differs=["half-opmath"],
    of_rows=_softmax_backward_rows, whole=_softmax_backward_whole, quick=exact(_quick_softmax_backward, placed=True),
)  # fmt: skip
rows(
    "_log_softmax_backward_data", _backward, "grad - exp(output) * sum(grad).", differs=["half-opmath"],
    of_rows=_log_softmax_backward_rows, whole=_log_softmax_backward_whole,
)  # fmt: skip


@kernel("_masked_softmax_backward", differs=["half-opmath"])
def _masked_softmax_backward(grad_output, output, mask, dim=None):
    """Gradient of `_masked_softmax`: the gradient of softmax over the unmasked elements, 0 for masked ones."""
    check(grad_output.shape == mask.shape, "Mask shape should match grad shape")
    check(mask.dtype == dt.bool_, "Mask should be a boolean tensor")
    axis = wrap_dim(-1 if dim is None else dim, grad_output.ndim)
    require("masked_softmax_backward", grad_output.dtype, dt.FLOATS)
    check_type(grad_output.dtype, output)
    kept = ~mask
    inner = dt.opmath(output.dtype)
    grad, out = (np.where(kept, dt.cast(x, inner), inner.type(0)) for x in (grad_output, output))
    total = add_reduce(grad * out, (axis,), True) + inner.type(0)  # here torch starts the sums of rows with 0, too
    found = dt.cast(np.where(kept, (grad - total) * out, inner.type(0)), output.dtype)
    return place(found, layout_of(grad_output)[1] if grad_output.flags.c_contiguous else contiguous(found.shape))


# ---------------------------------------------------------------- logsumexp


_OF_EXP = ["empty-dim", "int-to-default-float", "half-opmath", "logsumexp-of-infinity"]


def _precheck_summed(bound: Bound, outs: list[ndarray]) -> tuple[int, ...]:
    """Compute the result and write it to ``out=``: torch sums in the dtype of ``out=``, and checks that dtype first."""
    x, d = bound["self"], outs[0].dtype
    words = f"logsumexp(): Expected floating point type for result tensor, but got: {dt.scalar_name(d)}"
    check(dt.is_inexact(d), words)
    axes_of(bound["dim"], x.ndim)
    refuse("max_values_cpu" if x.size else "exp_vml_cpu", int_to_float(x.dtype), dt.FLOAT8S)
    if x.size and int_to_float(x.dtype) not in NOT_NUMERIC:
        refuse("sum_cpu", d, NOT_NUMERIC)
    check_target(outs[0])
    return store(outs[0], _logsumexp(x, bound["dim"], bound["keepdim"], d))


@kernel(
    "logsumexp", "special_logsumexp", differs=_OF_EXP, writes=WriteSpec(out=_precheck_summed, skips_memory_check=True)
)
def logsumexp(self, dim, keepdim=False):
    """log(sum(exp(x))) over dimensions, without overflow; -inf where all elements are -inf."""
    return _logsumexp(self, dim, keepdim, int_to_float(self.dtype))


def _logsumexp(x: ndarray, dim: Any, keepdim: bool, d: np.dtype) -> ndarray:
    """Compute `logsumexp` with exponentials in ``x``'s dtype, and their sum and its logarithm in ``d``."""
    axes, shape = axes_of(dim, x.ndim), x.shape
    narrow = int_to_float(x.dtype)
    refuse("max_values_cpu" if x.size else "exp_vml_cpu", narrow, dt.FLOAT8S)
    refuse("exp_vml_cpu", narrow, (dt.complex32,))
    # Here torch takes the maximum over no dimension at all, and then its result does not have the expected shape.
    if axes is None and x.ndim and x.size and not keepdim:
        raise output_shape((), (1,) * x.ndim)
    x, wide = dt.cast(x, dt.opmath(narrow)), dt.opmath(d)
    if x.size == 0:
        refuse("log_vml_cpu", d, (*dt.FLOAT8S, dt.complex32))
        return dt.cast(np.asarray(np.log(add_reduce(dt.cast(np.exp(x), wide), axes, keepdim))), d)
    top = np.asarray(np.maximum.reduce(x.real, axes, keepdims=True))
    top = np.where(np.isinf(top), top.dtype.type(0), top)
    step = _rounding(narrow)
    exps = dt.cast(step(np.exp(step(x - top))), wide)
    step = _rounding(d)
    total = step(np.log(step(add_reduce(exps, axes, True)))) + top
    return dt.cast(total if keepdim else total.reshape(reduced_shape(shape, axes, False)), d)


def _rounding(dtype: np.dtype) -> Callable[[Any], Any]:
    """Return a function that rounds values to a half type's precision; for other dtypes it does nothing."""
    return (lambda v: dt.cast(dt.cast(np.asarray(v), dtype), v.dtype)) if dt.is_half(dtype) else (lambda v: v)
