"""Ops that few programs call by name: extremes together, combinations of matrices, hashes, powers, NNPACK, copies."""

from __future__ import annotations

import numpy as np

from torchnp import dtypes as dt
from torchnp.checks import check, require, wrap_dims
from torchnp.errors import dim_out_of_range
from torchnp.kernels._rows import rows
from torchnp.kernels.conv import convolution
from torchnp.kernels.extrema import aminmax
from torchnp.kernels.fft_kernels import copied
from torchnp.kernels.vectornorm import linalg__powsum
from torchnp.registry import kernel

ndarray = np.ndarray

rows("_aminmax", lambda x: aminmax(x), "`aminmax` of all elements.")
rows("_aminmax.dim", lambda x, dim, keepdim: aminmax(x, dim=dim, keepdim=keepdim), "`aminmax` along a dimension.")


@kernel("_compute_linear_combination", differs=["half-opmath"])
def _compute_linear_combination(input, coefficients):
    """Sums of the parts of the first dimension, times a row of coefficients for each sum."""
    check(input.ndim > 0 and input.size > 0 and coefficients.size > 0, "Empty tensor not supported")
    if coefficients.ndim < 2:
        raise dim_out_of_range(1, coefficients.ndim)
    inner = dt.opmath(input.dtype)
    weights, parts = dt.cast(dt.cast(coefficients, input.dtype), inner), dt.cast(input, inner)
    return dt.cast(np.tensordot(weights, parts, 1), input.dtype)


@kernel("hash_tensor")
def hash_tensor(self, dim=(), *, keepdim=False, mode=0):
    """Exclusive or of the bits of all values, floats as doubles and integers as 64 bits."""
    named = isinstance(dim, int) or len(dim)
    axes = wrap_dims(dim, self.ndim) if named else tuple(range(self.ndim))
    words = "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with"
    check(named or self.size, f"{words} the 'dim' argument.")
    for d in axes if self.ndim else ():
        check(self.shape[d] > 0, f"hash_tensor: Expected reduction dim {d} to have non-zero size.", IndexError)
    check(mode == 0, f"Unknown hash_tensor mode: {mode}")
    require("xor_sum_cpu", self.dtype, (dt.bool_, *dt.INTS, *dt.FLOATS))
    wide = dt.cast(self, dt.float64 if dt.is_floating(self.dtype) else dt.int64)
    bits = np.ascontiguousarray(wide).reshape(self.shape).view(np.uint64)
    return np.bitwise_xor.reduce(bits, axes, keepdims=keepdim) if self.ndim else bits.copy()


@kernel("prims::xor_sum")
def xor_sum(inp, dims, *, output_dtype=None):
    """Exclusive or along dimensions; torch itself leaves this prim to its compiler."""
    total = np.bitwise_xor.reduce(inp, None if dims is None else tuple(dims))
    return dt.cast(np.asarray(total), inp.dtype if output_dtype is None else dt.as_dtype(output_dtype))


@kernel("_foreach_powsum.Scalar")
def _foreach_powsum(self, ord=2, dtype=None):
    """The sum of each tensor's magnitudes to a power."""
    check(len(self) > 0, "Tensor list must have at least one tensor.")
    for x in filter(np.size, self):
        require("powsum_cpu", x.dtype if dt.is_inexact(x.dtype) else dt.int64, (*dt.FLOATS, *dt.COMPLEXES))
    return [linalg__powsum(x, ord, dtype=dtype) for x in self]


rows("_nnpack_available", lambda: True, "Whether `_nnpack_spatial_convolution` can be called.")


@kernel("_nnpack_spatial_convolution")
def _nnpack_spatial_convolution(input, weight, bias, padding, stride=(1, 1)):
    """`convolution` of images in single precision with stride 1."""
    check(input.ndim == 4, "NNPack convolutionOutput expects 4D input Tensor N,C,H,W")
    check(input.dtype == dt.float32, "Mismatched Tensor types in NNPack convolutionOutput")
    check(tuple(stride) == (1, 1), "NNPACK SpatialConvolution_updateOutput failed")
    return convolution(input, weight, bias, stride, padding, (1, 1), False, (0, 0), 1)


# ---------------------------------------------------------------- of other devices: the CPU has no kernel


def _depthwise(self, weight, kernel_size, bias, stride, padding, dilation):
    return convolution(self, weight, bias, stride, padding, dilation, False, [0] * len(stride), self.shape[1])


_ELSEWHERE = "torch has it on other devices only."
rows("_conv_depthwise2d conv_depthwise3d", _depthwise, f"`convolution` of each channel by itself; {_ELSEWHERE}")
rows("_copy_from_and_resize", lambda x, dst: copied(dst, x), f"Write self into dst, resized; {_ELSEWHERE}")
