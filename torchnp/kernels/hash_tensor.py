"""XOR of the bits of all values: `hash_tensor` and `prims::xor_sum`."""

from __future__ import annotations

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, require, wrap_dim, wrap_dims
from torchnp.core.registry import kernel

ndarray = np.ndarray


@kernel("hash_tensor")
def hash_tensor(self, dim=(), *, keepdim=False, mode=0):
    """XOR of the bits of all values, with floats as doubles and integers as int64."""
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
    """XOR along dimensions; torch implements this prim only in its compiler."""
    total = np.bitwise_xor.reduce(inp, None if dims is None else tuple(dims))
    return dt.cast(np.asarray(total), inp.dtype if output_dtype is None else dt.as_dtype(output_dtype))
