"""Ops that few programs call by name: combinations of matrices, hashes, NNPACK, copies, and those of torch's tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import broadcast_shapes, check, check_type, refuse, require, wrap_dim, wrap_dims
from torchnp.core.errors import dim_out_of_range, empty_list, expected_true, output_shape
from torchnp.core.registry import kernel
from torchnp.core.write_spec import Bound, WriteSpec, store
from torchnp.kernels._memory import RARE_OR_CHALF, check_size, empty_in_order, storage
from torchnp.kernels._rows import rows
from torchnp.kernels.arithmetic import mul, sub
from torchnp.kernels.conv import convolution
from torchnp.kernels.copy import clone
from torchnp.kernels.extrema import aminmax
from torchnp.kernels.fft_kernels import copied
from torchnp.kernels.vectornorm import linalg__powsum
from torchnp.kernels.view import view
from torchnp.layout.overlap import check_apart
from torchnp.layout.stride_rules import dense

ndarray = np.ndarray

rows("_aminmax", lambda x: aminmax(x), "`aminmax` of all elements.")
rows("_aminmax.dim", lambda x, dim, keepdim: aminmax(x, dim=dim, keepdim=keepdim), "`aminmax` along a dimension.")


def _matrix(coefficients: ndarray) -> ndarray:
    """torch reads two dimensions of coefficients, whatever others there are."""
    first: Any = (slice(None), slice(None), *(0,) * (coefficients.ndim - 2))
    return coefficients[first] if coefficients.ndim > 2 else coefficients


def _precheck_combined(bound: Bound, outs: list[ndarray]) -> tuple[int, ...] | None:
    """torch adds to this out in its dtype, and never resizes it: it must be what all three broadcast to, with the parts."""
    input, weights, (out,) = bound["input"], _matrix(bound["coefficients"]), outs
    if not input.size or not input.ndim or weights.ndim < 2:
        return None  # refused for that first
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
    """Sums of the parts of the first dimension, times a row of real coefficients for each sum, rounded at each step."""
    if coefficients.ndim < 2:
        raise dim_out_of_range(1, coefficients.ndim)
    coefficients = _matrix(coefficients)
    check(input.ndim > 0 and input.size > 0, "Empty tensor not supported")
    refuse(_NAME, input.dtype, RARE_OR_CHALF)
    return _combined(input, coefficients, np.zeros((len(coefficients), 1, *input.shape[1:]), input.dtype))[:, 0]


def _combined(input: ndarray, coefficients: ndarray, total: ndarray) -> ndarray:
    """What a sum becomes that has a dimension of one for the coefficients' rows before those of the parts."""
    dtype = total.dtype
    parts, weights = _read_as(input, dtype, 0), _read_as(coefficients, dt.to_real(dtype), 1)
    if dtype == dt.bool_:  # whatever bits the bytes have
        parts, weights = parts.view(np.uint8), weights.view(np.uint8)
    elif dt.is_complex(dtype):  # each part on its own
        parts, total = (np.ascontiguousarray(x).view(weights.dtype).reshape(*x.shape, 2) for x in (parts, total))
    inner = dt.opmath(total.dtype) if dtype != dt.bool_ else parts.dtype
    parts, weights = dt.cast(parts, inner), dt.cast(weights, inner)
    for weight, part in zip(weights.T, parts, strict=False):
        product = (np.bitwise_and if dtype == dt.bool_ else np.multiply).outer(weight, part[None])
        total = dt.cast(dt.cast(total, inner) + dt.cast(dt.cast(product, total.dtype), inner), total.dtype)
    return np.ascontiguousarray(total).view(dtype)[..., 0] if dt.is_complex(dtype) else total


def _read_as(x: ndarray, dtype: np.dtype, axis: int) -> ndarray:
    """The memory of x as torch reads it as another dtype: along one dimension as many elements of that apart.

    Of a wider dtype torch reads memory beyond that of x; here the values are converted.
    """
    if x.dtype == dtype or x.itemsize < dtype.itemsize:
        return dt.cast(x, dtype)
    memory, start = storage(x)
    strides = list(x.strides)
    strides[axis] = strides[axis] // x.itemsize * dtype.itemsize
    return ndarray(x.shape, dtype, memory, start, tuple(strides))


@kernel("hash_tensor")
def hash_tensor(self, dim=(), *, keepdim=False, mode=0):
    """Exclusive or of the bits of all values, floats as doubles and integers as 64 bits."""
    named = isinstance(dim, int) or len(dim)
    wrapped = [wrap_dim(d, self.ndim) for d in ([dim] if isinstance(dim, int) else dim)]
    words = "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with"
    check(named or self.size, f"{words} the 'dim' argument.")
    for d in ((dim,) if isinstance(dim, int) else dim or range(self.ndim)) if self.ndim else ():
        check(self.shape[d] > 0, f"hash_tensor: Expected reduction dim {d} to have non-zero size.", IndexError)
    axes = wrap_dims(wrapped, self.ndim) if named else tuple(range(self.ndim))
    check(mode == 0, f"Unknown hash_tensor mode: {mode}")
    if self.size:
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
    check(self, empty_list())
    return [linalg__powsum(x, ord, dtype=dtype) for x in self]


rows("_nnpack_available", lambda: True, "Whether `_nnpack_spatial_convolution` can be called.")


@kernel("_nnpack_spatial_convolution")
def _nnpack_spatial_convolution(input, weight, bias, padding, stride=(1, 1)):
    """`convolution` of images in single precision, with a padding less than the filter."""
    sides = zip(input.shape[2:], weight.shape[2:], padding, stride)
    shape = (*input.shape[:1], *weight.shape[:1], *(int((n + 2 * p - k) / s) + 1 for n, k, p, s in sides if s))
    check_size(shape)
    check(input.ndim == 4, "NNPack convolutionOutput expects 4D input Tensor N,C,H,W")
    check(weight.ndim == 4, "NNPack convolutionOutput expects 4D weight Tensor oC,iC,kH,kW")
    channels = f"in input Tensor ({input.shape[1]}) and weight Tensor ({weight.shape[1]})"
    words = f"Mismatch between number of input channels {channels} in NNPack convolutionOutput"
    check(input.shape[1] == weight.shape[1], words)
    single = all(x is None or x.dtype == dt.float32 for x in (input, weight, bias))
    check(single, "Mismatched Tensor types in NNPack convolutionOutput")
    steps = tuple(stride[:2]) != (1, 1)
    small = (steps or len(input) == 1 or max(weight.shape[2:]) <= 16) and input.size and weight.size
    fits = small and all(0 <= p < k for p, k in zip(padding, weight.shape[2:]))
    idle = steps and not len(input)
    check(fits or idle, "NNPACK SpatialConvolution_updateOutput failed")
    if idle:
        return empty_in_order(shape, input.dtype, None)
    row = None if bias is None else np.resize(bias, len(weight))  # its shape is not looked at
    return dense(convolution(input, weight, row, stride[:2], padding[:2], (1, 1), False, (0, 0), 1))


# ---------------------------------------------------------------- of other devices: the CPU has no kernel


def _depthwise(self, weight, kernel_size, bias, stride, padding, dilation):
    return convolution(self, weight, bias, stride, padding, dilation, False, [0] * len(stride), self.shape[1])


_ELSEWHERE = "torch has it on other devices only."
rows("_conv_depthwise2d conv_depthwise3d", _depthwise, f"`convolution` of each channel by itself; {_ELSEWHERE}")
rows("_copy_from_and_resize", lambda x, dst: copied(dst, x), f"Write self into dst, resized; {_ELSEWHERE}")


# ---------------------------------------------------------------- that torch registers for its own tests

rows("_foobar _test_parallel_materialize", lambda self, *args, **kwargs: self, "The tensor itself.")
_COPIED = (
    "_test_autograd_multiple_dispatch.fullcoverage _test_warn_in_autograd _test_autograd_multiple_dispatch.ntonly "
    "_test_functorch_fallback"
)
rows(_COPIED, lambda self, *_: clone(self), "A copy of the first tensor.", like=np.copy)
_FLAT = "All values in one dimension."
rows(
    "_test_autograd_multiple_dispatch_view",
    lambda self: view(self, [-1]),
    _FLAT,
    like=np.ravel,
    differs=["view-never-copies", "view-not-copy"],
)
rows("_test_serialization_subcmul", lambda x, y, alpha: sub(x, mul(y, alpha)), "self - alpha * other.")


def _ambiguous(_: ndarray, a: Any, b: Any, *, first: int, second: Any, words: str) -> ndarray:
    check(a == first, expected_true(f"a == {first}"))
    check(b == second, expected_true(words))
    return np.array(first, dt.int64)


_NAMES, _WHOLE = "_test_ambiguous_defaults.a", "One, if both numbers are."
rows(_NAMES, _ambiguous, _WHOLE, first=1, second=1, words="b == 1")
_NAMES, _WHOLE = "_test_ambiguous_defaults.b", "Two, if the number and the string are."
rows(_NAMES, _ambiguous, _WHOLE, first=2, second="2", words='b == "2"')


@kernel("_test_check_tensor")
def _test_check_tensor(self):
    """A copy, if all values are true."""
    check(self.dtype == dt.bool_, "self.scalar_type() == at::kBool INTERNAL ASSERT FAILED")
    check(self.all(), "Test message for TORCH_CHECK_TENSOR_ALL")
    return clone(self)


def _precheck_addends(bound: Bound, outs: list[ndarray]) -> None:
    """Without addends the values themselves are copied."""
    if bound["addends"] is None:
        check_apart(outs[0], bound["values"])


def _plus(values: ndarray, addends: list | int | None, *, dtype: np.dtype) -> ndarray:
    if addends is None:
        return values
    check(values.ndim == 1, expected_true("values.dim() == 1"))
    check_type(dtype, values)
    listed = [addends] * 2 if isinstance(addends, int) else list(addends)
    short = f"ArrayRef: invalid index Index = {len(listed)}; Length = {len(listed)}"
    check(len(listed) >= values.size, short)
    return values + np.array(listed[: values.size], dtype)


_LISTED = "The values, each plus a number of a list if there is one."
_INTEGERS, _LOOK = "_test_optional_intlist _test_optional_filled_intlist", WriteSpec(out=_precheck_addends)
rows(_INTEGERS, _plus, _LISTED, dtype=dt.int32, writes=_LOOK)
rows("_test_optional_floatlist", _plus, _LISTED, dtype=dt.float32, writes=_LOOK)


@kernel("_test_string_default")
def _test_string_default(dummy, a="\"'\\", b="\"'\\"):
    """The tensor itself, if the strings are those of the schema."""
    check(a == "\"'\\", "Default A failed")
    check(b == "\"'\\", "Default B failed")
    return dummy
