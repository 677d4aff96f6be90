"""Gradients and Jacobian-vector products that torch's autograd calls by name, for operators of several families."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, check_fits, dim_of, require, wrap_dim
from torchnp.core.inplace_out_spec import copy_into
from torchnp.core.registry import kernel
from torchnp.kernels import _elementwise as el
from torchnp.kernels._conv_checks import Geometry, sizes_back
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._elementwise import in_place
from torchnp.kernels.activation import sigmoid
from torchnp.kernels.arithmetic import add, div, mul, sub
from torchnp.kernels.backward.conv import convolution_backward
from torchnp.kernels.backward.normalization import native_batch_norm_backward
from torchnp.kernels.backward.pool import _adaptive_avg_pool3d_backward, max_pool2d_with_indices_backward
from torchnp.kernels.conv import _slow_conv2d_backward, convolution
from torchnp.kernels.copy import convert
from torchnp.kernels.index import gather
from torchnp.kernels.join import cat
from torchnp.kernels.lu import check_square
from torchnp.kernels.masked_nonzero import masked_fill
from torchnp.kernels.matrixnorm import linalg_matrix_exp
from torchnp.kernels.numerics.fma import fma
from torchnp.kernels.pool import max_pool2d_with_indices
from torchnp.kernels.rearrange import flip, sum_to_size
from torchnp.kernels.reduce import sum_dim
from torchnp.kernels.scan import cumprod, cumsum
from torchnp.kernels.slicing import narrow
from torchnp.kernels.tensor_products import matmul
from torchnp.kernels.view import expand, view
from torchnp.layout.stride_rules import contiguous, empty, iterated, layout_of, place, preserved

ndarray = np.ndarray


@kernel("cumprod_backward")
def cumprod_backward(grad, input, dim, output):
    """Gradient of `cumprod`, by dividing by each factor; from the first zero on, without division."""
    if input.size <= 1 or input.shape[wrap_dim(dim, input.ndim)] == 1:
        return grad
    axis, factors, products = wrap_dim(dim, input.ndim), input.conj(), output.conj()
    terms, zero = mul(products, grad), input == 0
    if not zero.any():
        return _laid(div(_tails(terms, axis), factors), input)
    zeros = np.cumsum(zero, axis)
    tails = _tails(masked_fill(terms, zeros != 0, 0.0), axis)
    tails = in_place(tails, div(tails, factors))
    # The gradient at the first zero: the product before it, times the sum of the products from there to the second
    # zero.
    first = zero & (zeros == 1)
    following = cumprod(masked_fill(factors, first | (zeros != 1), 1.0), axis)
    following = in_place(following, mul(following, masked_fill(grad, zeros != 1, 0.0)))
    total, at = sum_dim(following, [axis], True), np.argmax(first, axis, keepdims=True)
    before = masked_fill(gather(products, axis, np.maximum(at - 1, 0)), at == 0, 1.0)
    total = in_place(total, mul(total, before))
    common = dt.result_type(tails, total)
    return np.where(first, dt.cast(total, common), np.where(zeros == 0, dt.cast(tails, common), common.type(0)))


def _tails(x: ndarray, axis: int) -> ndarray:
    """Sum from each element to the last along an axis."""
    return flip(cumsum(flip(x, [axis]), axis), [axis])


def _laid(out: ndarray, x: ndarray) -> ndarray:
    """Lay out a result as TensorIterator does for a row-major tensor and ``x`` converted to the result's dtype."""
    sizes, strides = layout_of(x)
    own = (sizes, strides if x.dtype == out.dtype else preserved(sizes, strides))
    return place(out, iterated(((out.shape, contiguous(out.shape)), own)))


@kernel("matrix_exp_backward")
def matrix_exp_backward(self, grad):
    """The gradient of a matrix exponential, which is the upper right block of the exponential of a block matrix."""
    check_square("matrix_exp_backward", self)
    adjoint = self.swapaxes(-2, -1).conj()
    n = self.shape[-1]
    blocks = np.zeros((*self.shape[:-2], 2 * n, 2 * n), grad.dtype)
    blocks[..., :n, :n] = blocks[..., n:, n:] = dt.cast(adjoint, grad.dtype)
    check_fits(grad, self)
    blocks[..., :n, n:] = grad
    out = linalg_matrix_exp(blocks)[..., :n, n:]
    return out if out.size else empty(out.shape, out.dtype, contiguous(blocks.shape))


@kernel("glu_jvp")
def glu_jvp(glu, x, dx, dim):
    """The Jacobian-vector product of `glu` along dx."""
    dim = wrap_dim(dim, x.ndim)
    n = glu.shape[dim_of(glu, dim)]
    b, da, db = narrow(x, dim, n, n), narrow(dx, dim, 0, n), narrow(dx, dim, n, n)
    el.check_broadcast(glu, b, da, db)
    el.check_same_dtype(glu, b, da, db)
    require("glu_jvp_cpu", x.dtype, (dt.float32, dt.float64))
    gate = sigmoid(b)
    return fma(glu, fma(-gate, db, db), da * gate)


@kernel("glu_backward_jvp")
def glu_backward_jvp(grad_x, grad_glu, x, dgrad_glu, dx, dim):
    """The Jacobian-vector product of `glu_backward` along dgrad_glu and dx."""
    dim = wrap_dim(dim, x.ndim)
    n = grad_glu.shape[dim_of(grad_glu, dim)]
    a, b, da, db = (narrow(v, dim, start, n) for v in (x, dx) for start in (0, n))
    of_a = narrow(grad_x, dim, 0, n)
    narrow(grad_x, dim, n, n)  # only checks the length
    gate = sigmoid(b)
    value, turn = mul(a, gate), sub(db, mul(db, gate))  # glu, and db * (1 - gate) in torch's steps
    through = mul(of_a, turn)
    first = add(mul(dgrad_glu, gate), through)
    bend = sub(sub(da, mul(da, gate)), mul(value, turn))
    return cat([first, add(mul(first, sub(a, value)), mul(of_a, bend))], dim)


@kernel("_weight_norm_differentiable_backward")
def _weight_norm_differentiable_backward(grad_w, saved_v, saved_g, saved_norms, dim):
    """Gradients of `_weight_norm_interface`, composed of differentiable operators."""
    for name, x in (("grad_w", grad_w), ("saved_v", saved_v), ("saved_g", saved_g), ("saved_norms", saved_norms)):
        check(x.flags.c_contiguous, f"{name} must be contiguous")
    last = dim_of(saved_v, saved_v.ndim - 1)
    check(dim in (0, last), "Expected dim to be the first or last dimension")
    norms, n = dt.cast(saved_norms, saved_g.dtype), saved_v.shape[dim]
    along = view(mul(grad_w, saved_v), (-1, n) if dim else (n, -1))
    along = sum_dim(along, [0 if dim else 1]).reshape([n if d == dim else 1 for d in range(saved_v.ndim)])
    across = sub(grad_w, mul(saved_v, div(along, mul(norms, norms))))
    strides = iterated(((along.shape, contiguous(along.shape)), layout_of(saved_norms)))
    return mul(div(saved_g, norms), across), place(div(along, norms), strides)


@kernel("_batch_norm_impl_index_backward")
def _batch_norm_impl_index_backward(
    impl_index, input, grad_output, weight, running_mean, running_var, save_mean, save_var_transform, train, eps,
    output_mask, reservedSpace,
):  # fmt: skip
    """`native_batch_norm_backward`; in training, ``impl_index`` must be 0."""
    if not input.size:
        wide = [np.zeros(input.shape[1], input.dtype) if asked else None for asked in output_mask[1:]]
        return (np.zeros_like(input) if output_mask[0] and weight is not None else None, *wide)
    check(impl_index == 0 or not train, "Unsupported impl_index in _batch_norm_impl_index_backward: ")
    rest = (weight, running_mean, running_var, save_mean, save_var_transform, train, eps, output_mask)
    return native_batch_norm_backward(grad_output, input, *rest)


# ---------------------------------------------------------------- products


@kernel("linear_backward")
def linear_backward(self, grad_output, weight, output_mask):
    """Gradients of `linear` with respect to input, weight and bias; torch has them on other devices only."""
    rows, grads = self.reshape(-1, self.shape[-1]), grad_output.reshape(-1, grad_output.shape[-1])
    of_self = matmul(grads, weight).reshape(self.shape) if output_mask[0] else None
    of_weight = matmul(grads.T, rows) if output_mask[1] else None
    inner = dt.opmath(grads.dtype)
    of_bias = dt.cast(dt.cast(grads, inner).sum(0), grads.dtype) if output_mask[2] else None
    return of_self, of_weight, of_bias


@kernel("matmul_backward")
def matmul_backward(grad, self, other, mask):
    """Gradients of `matmul` with respect to both operands; torch has them for nested tensors only."""
    a = self[None, :] if self.ndim == 1 else self
    b = other[:, None] if other.ndim == 1 else other
    full = grad if self.ndim > 1 else np.expand_dims(grad, grad.ndim - (other.ndim > 1))
    full = full if other.ndim > 1 else full[..., None]
    left = _shaped(matmul(full, b.swapaxes(-2, -1).conj()), a, self) if mask[0] else None
    right = _shaped(matmul(a.swapaxes(-2, -1).conj(), full), b, other) if mask[1] else None
    return left, right


def _shaped(grad: ndarray, like: ndarray, target: ndarray) -> ndarray:
    return np.ascontiguousarray(sum_to_size(grad, like.shape).reshape(target.shape))


# ---------------------------------------------------------------- convolutions and pools


def _each(value: Any, n: int) -> tuple[int, ...]:
    """Repeat a single number for all dimensions."""
    return tuple(value) * n if len(value) == 1 else tuple(value)


def _sum(a: ndarray, b: ndarray) -> ndarray:
    return place(add(a, b), iterated((layout_of(a), layout_of(b))))


@kernel("_convolution_double_backward")
def _convolution_double_backward(
    ggI, ggW, ggb, gO, weight, self, stride, padding, dilation, transposed, output_padding, groups, output_mask
):  # fmt: skip
    """Gradients of `convolution_backward` with respect to the gradient, the input and the weight."""
    rest = (stride, padding, dilation, transposed, output_padding, groups)
    parts = [convolution(x, w, None, *rest) for x, w in ((ggI, weight), (self, ggW)) if x is not None and w is not None]
    if ggb is not None:
        parts.append(expand(view(np.ascontiguousarray(ggb), (1, ggb.size, *(1,) * (gO.ndim - 2))), gO.shape))
    of_grad = None
    for part in parts:
        of_grad = part if of_grad is None else _sum(of_grad, part)

    of_input = of_weight = None
    if ggW is not None:  # torch convolves gO with ggW, with `transposed` flipped
        back = [0]
        if not transposed:
            numbers = [_each(v, gO.ndim - 2) for v in (stride, padding, dilation, output_padding)]
            sizes = sizes_back(gO.shape[2:], ggW.shape[2:], Geometry(*numbers))
            back = [n - m for n, m in zip(self.shape[2:], sizes)]
        of_input = convolution(gO, ggW, None, stride, padding, dilation, not transposed, back, groups)
        if transposed:  # cut to the input's size: output_padding may add elements
            window: Any = (..., *map(slice, self.shape[2:]))
            of_input = of_input[window]
    if ggI is not None:  # torch computes it with input and output channels exchanged
        found: Any = convolution_backward(gO, ggI, weight, None, *rest, (False, True, False))[1]
        found = found.swapaxes(0, 1)
        image, places = (gO, ggI) if transposed else (ggI, gO)  # torch slices the gradient out of their convolution
        along = zip(image.shape[2:], places.shape[2:], *(_each(v, gO.ndim - 2) for v in (stride, padding, dilation)))
        whole = [(s + 2 * p - t * (n - 1) - 1) // d + 1 for s, n, t, p, d in along]
        window = (..., *map(slice, found.shape[2:]))
        of_weight = np.empty((*found.shape[:2], *whole), found.dtype)[window]
        of_weight[...] = found
        of_weight = of_weight.swapaxes(0, 1)
    return of_grad, of_input, of_weight  # torch ignores output_mask here


@kernel("_slow_conv2d_backward.grad_input")
def _slow_conv2d_backward_out(
    grad_output, self, weight, kernel_size, stride, padding, *, grad_input, grad_weight, grad_bias
):
    """`_slow_conv2d_backward`, written into ``grad_input``, ``grad_weight`` and ``grad_bias``."""
    grads = _slow_conv2d_backward(grad_output, self, weight, kernel_size, stride, padding, (True, True, True))
    return tuple(copy_into(out, grad) for out, grad in zip((grad_input, grad_weight, grad_bias), grads, strict=True))


rows(
    "adaptive_avg_pool3d_backward.grad_input", lambda grad, x, out: copy_into(out, _adaptive_avg_pool3d_backward(grad, x)),
    "`_adaptive_avg_pool3d_backward` written into ``grad_input``.",
)  # fmt: skip


@kernel("max_pool2d_backward")
def max_pool2d_backward(grad_output, self, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
    """The gradient of `max_pool2d`; it finds the maxima again. torch has it on other devices only."""
    rest = (kernel_size, stride, padding, dilation, ceil_mode)
    return max_pool2d_with_indices_backward(grad_output, self, *rest, max_pool2d_with_indices(self, *rest)[1])


_DOC = "The gradient of `to_dense` for a dense tensor: the gradient cast to its dtype."
rows("to_dense_backward", lambda grad, x, *_: convert(grad, x.dtype), _DOC)
