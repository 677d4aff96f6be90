"""Kernels that the library ``rows`` uses instead of portable ones; each section gives the reason for its kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.kernels.numerics import erf as fdlibm
from torchnp.portable.library import ArrayLibrary
from torchnp.portable.rows import portable
from torchnp.portable.standard.shape import wrap
from torchnp.rpc.server.privacy import row_array as ra
from torchnp.rpc.server.privacy.row_array import RowArray, to, where

Value = Any  # a RowArray or a public array

# ---------------------------------------------------------------- portable kernels that call a NumPy kernel, which reads


def _ratio(t: Value, above: tuple[float, ...], below: tuple[float, ...]) -> Value:
    return _polynomial(t, above) / _polynomial(t, below)


def _polynomial(t: Value, coefficients: tuple[float, ...]) -> Value:
    out = t * 0.0 + coefficients[0]
    for c in coefficients[1:]:
        out = out * t + c
    return out


@portable("aten::erf", "aten::special_erf", on="rows")
def erf(lib: ArrayLibrary, self: RowArray) -> RowArray:
    """Compute the error function with fdlibm's rational approximations, in float64."""
    xp, x = lib.xp, lib.to_float(self)
    wide = to(x, dt.float64)
    size = xp.abs(wide)
    square = np.minimum(size, 6.0) * np.minimum(size, 6.0)
    near = wide + wide * _ratio(square, fdlibm.NEAR_P, fdlibm.NEAR_Q)
    t = 1.0 / np.maximum(square, 1.0)
    tail = where(size < 2.857, _ratio(t, fdlibm.MIDDLE_P, fdlibm.MIDDLE_Q), _ratio(t, fdlibm.FAR_P, fdlibm.FAR_Q))
    far = 1.0 - xp.exp(tail - 0.5625 - square) / np.maximum(size, 1.0)
    middle = fdlibm.AT_ONE + _ratio(np.minimum(size, 2.0) - 1.0, fdlibm.ONE_P, fdlibm.ONE_Q)
    out = where(size < 0.84375, near, np.copysign(where(size < 1.25, middle, far), wide))
    return to(where(size >= 6.0, np.copysign(1.0, wide), where(xp.isnan(wide), wide, out)), x.dtype)


# ---------------------------------------------------------------- portable kernels that merge the row dimension


@portable("aten::exp2", "aten::special_exp2", on="rows")
def exp2(lib: ArrayLibrary, self: RowArray) -> RowArray:
    """Compute powers of 2 with exp; `rows` has no powers by rows."""
    return lib.in_opmath(lambda x: lib.xp.exp(x * math.log(2)), lib.to_float(self))


@portable("aten::embedding", on="rows")
def embedding(
    lib: ArrayLibrary,
    weight: Value,
    indices: Value,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Value:
    return lib.xp.take(weight, indices, axis=0)


@portable("aten::index_select", on="rows")
def index_select(lib: ArrayLibrary, self: Value, dim: int, index: Value) -> Value:
    return lib.xp.take(self, index, axis=wrap(dim, self.ndim))


@portable("aten::index.Tensor", on="rows")
def index_(lib: ArrayLibrary, self: Value, indices: Sequence[Any]) -> Value:
    """Move rows with public indices, or look up elements of a public array with the rows' indices in one dimension."""
    given = [(d, x) for d, x in enumerate(indices) if x is not None]
    if type(self) is RowArray:
        return ra.index(self, tuple(slice(None) if x is None else x for x in indices))
    if len(given) != 1:
        return NotImplemented
    ((axis, index),) = given
    return lib.xp.take(self, index, axis=axis)


@portable("aten::diagonal", "aten::diagonal_copy", on="rows")
def diagonal(lib: ArrayLibrary, self: RowArray, offset: int = 0, dim1: int = 0, dim2: int = 1) -> RowArray:
    return ra.diagonal(self, offset, dim1, dim2)


# ---------------------------------------------------------------- no portable kernel: the standard cannot write


@portable("aten::scatter.value", on="rows")
def scatter_value(lib: ArrayLibrary, self: Value, dim: int, index: Value, value: Any) -> Value:
    return ra.scatter(self, dim, index, lib.number(value, self.dtype), add=False)


@portable("aten::scatter.src", on="rows")
def scatter_src(lib: ArrayLibrary, self: Value, dim: int, index: Value, src: Value) -> Value:
    return ra.scatter(self, dim, index, src, add=False)


@portable("aten::scatter_add", on="rows")
def scatter_add(lib: ArrayLibrary, self: Value, dim: int, index: Value, src: Value) -> Value:
    wide = dt.opmath(self.dtype)
    return ra.scatter(to(self, wide), dim, index, to(src, wide), add=True)


# ---------------------------------------------------------------- two of three results mix rows


@portable("aten::native_layer_norm_backward", on="rows")
def native_layer_norm_backward(
    lib: ArrayLibrary,
    grad_out: Value,
    input: Value,
    normalized_shape: Sequence[int],
    mean: Value,
    rstd: Value,
    weight: Any,
    bias: Any,
    output_mask: Sequence[bool],
) -> tuple[Value, None, None]:
    """Compute only the gradient of the input; those of weight and bias are sums over rows."""
    dtype, axes = dt.opmath(input.dtype), tuple(range(-len(normalized_shape), 0))
    g, x, middle, scale = (to(v, dtype) for v in (grad_out, input, mean, rstd))
    g = g if weight is None else g * to(weight, dtype)
    normal, n = (x - middle) * scale, math.prod(normalized_shape)
    total = lambda v: lib.xp.sum(v, axis=axes, keepdims=True) / n
    return (g - total(g) - normal * total(g * normal)) * scale, None, None
