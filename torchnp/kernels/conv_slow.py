"""The backends of `convolution` that torch registers as ops of their own; here they are all one computation."""

from __future__ import annotations

import numpy as np

from torchnp import dtypes as dt
from torchnp.checks import check, wrap_dims
from torchnp.errors import dense_dtype, shape_text
from torchnp.kernels._memory import empty_in_order, memory_order
from torchnp.kernels._rows import rows
from torchnp.kernels._spatial import Ints
from torchnp.kernels.backward.conv import convolution_backward
from torchnp.kernels.conv import check_steps, convolution
from torchnp.kernels.reduce import sum_dim
from torchnp.registry import kernel

ndarray = np.ndarray


def _plain(
    self: ndarray, weight: ndarray, bias: ndarray | None, stride: Ints, padding: Ints, dilation: Ints
) -> ndarray:
    """A convolution without groups; these backends take an item without its batch."""
    n = len(stride)
    x = self[None] if self.ndim == n + 1 else self
    y = convolution(
        x, weight.reshape(weight.shape[0], -1, *weight.shape[2:]), bias, stride, padding, dilation, False, [0] * n, 1
    )
    return y if x is self else y[0]


def _forward2d(self, weight, kernel_size, bias, stride, padding):
    check(self.ndim == 4, f"Expected 4D input tensor, but got: {shape_text(self.shape)}")
    return _plain(self, weight, bias, stride, padding, (1, 1))


def _forward3d(self, weight, kernel_size, bias, stride, padding):
    check(self.ndim == 5, f"non-empty 5D input tensor expected but got: {shape_text(self.shape)}")
    return _plain(self, weight, bias, stride, padding, (1, 1, 1))


rows("_slow_conv2d_forward thnn_conv2d", _forward2d, "Convolution over two dimensions.")
rows("slow_conv3d_forward slow_conv3d", _forward3d, "Convolution over three dimensions.")


def _check_dilated(self, weight, kernel_size, bias, stride, dilation) -> None:
    """What these two check before the others do: the filter's sizes, the channels, then the bias."""
    n = len(stride)
    check(len(kernel_size) == n, f"kernel sizes length should be {n}, but got {len(kernel_size)}")
    check(self.ndim in (n + 1, n + 2), f"input must be 4D or 5D tensor but got {self.ndim}D tensor")
    if weight.ndim != n + 2 or min(stride) <= 0 or min(dilation) <= 0:
        return  # refused by `convolution`
    if weight.shape[2:] != tuple(kernel_size):
        shapes = f"{shape_text(weight.shape[2:])} must be equal to kernel_size {shape_text(kernel_size)}"
        raise RuntimeError(f"weight[2:] shape {shapes}")
    at = self.ndim - n - 1
    found = f"but got input to be of shape {shape_text(self.shape)}"
    words = f"Need input of dimension {self.ndim} and input.size[{at}] == {weight.shape[1]}"
    check(self.shape[at] == weight.shape[1], f"{words} {found}")
    if bias is not None:
        check(bias.ndim == 1, f"bias must be 1D tensor but got {bias.ndim}D tensor")
        words = f"Need bias of dimension 1 and bias.size[0] == {len(weight)}"
        check(len(bias) == len(weight), f"{words} but got input to be of shape {shape_text(bias.shape)}")


def _dilated(self, weight, kernel_size, bias, stride, padding, dilation):
    _check_dilated(self, weight, kernel_size, bias, stride, dilation)
    return _plain(self, weight, bias, stride, padding, dilation)


def _transposed(self, weight, kernel_size, bias, stride, padding, output_padding, dilation):
    n = len(stride)
    check(len(kernel_size) == n, f"It is expected kernel_size equals to {n}, but got size {len(kernel_size)}")
    x = self[None] if self.ndim == len(stride) + 1 else self
    y = convolution(x, weight, bias, stride, padding, dilation, True, output_padding, 1)
    return y if x is self or n == 2 else y[0]  # torch keeps the batch that it made in two dimensions


rows("slow_conv_dilated2d slow_conv_dilated3d", _dilated, "Convolution with holes.")
rows("slow_conv_transpose2d slow_conv_transpose3d", _transposed, "The adjoint of a convolution.")


@kernel("mkldnn_convolution")
def mkldnn_convolution(self, weight, bias, padding, stride, dilation, groups):
    """`convolution` with its parameters in another order, for the dtypes that oneDNN has."""
    check(self.dtype in (dt.float32, *dt.HALVES), dense_dtype(self.dtype))
    return convolution(self, weight, bias, stride, padding, dilation, False, [0] * (weight.ndim - 2), groups)


@kernel("_slow_conv2d_backward.output_mask")
def _slow_conv2d_backward(grad_output, self, weight, kernel_size, stride, padding, output_mask):
    """Gradients of `_slow_conv2d_forward`."""
    if not any(output_mask[:2]):  # torch looks at the gradient alone then
        wrap_dims((0, 2, 3), grad_output.ndim)
        return None, None, sum_dim(grad_output, (0, 2, 3)) if output_mask[2] else None
    sizes = [weight.shape[0]]
    rest = (stride, padding, (1, 1), False, (0, 0), 1, output_mask)
    of_x, of_w, of_b = convolution_backward(grad_output, self, weight, sizes, *rest)
    return of_x, of_w if output_mask[1] else None, of_b


@kernel("conv_tbc_backward")
def conv_tbc_backward(self, input, weight, bias, pad):
    """Gradients of `conv_tbc` in its input, weight and bias."""
    for x in (self, input, empty_in_order(input.shape, input.dtype, memory_order(input))):
        check_steps(x, len(input), weight, pad)
    grad, x = (a.transpose(1, 2, 0) for a in (self, input))
    w = weight.transpose(2, 1, 0)
    rest = ((1,), (pad,), (1,), False, (0,), 1, (True, True, True))
    of_x, of_w, of_b = convolution_backward(grad, x, np.ascontiguousarray(w), [bias.shape[0]], *rest)
    of_x, of_w = np.asarray(of_x).transpose(2, 0, 1), np.asarray(of_w).transpose(2, 1, 0)
    return np.ascontiguousarray(of_x), np.ascontiguousarray(of_w), of_b
