"""Prims that make arrays or numbers, and transforms of whole arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.checks import check
from torchnp.kernels._rows import rows
from torchnp.kernels._spatial import Ints
from torchnp.kernels.prims._portable import NOT_TRUE, Array, aten, namespace
from torchnp.registry import kernel

ndarray = np.ndarray

# ---------------------------------------------------------------- arrays


def _check_new(dtype: Any, requires_grad: bool, shape: Ints = ()) -> None:
    """Refuse a negative length, and gradients of numbers that have none."""
    check(all(n >= 0 for n in shape), NOT_TRUE)
    floats = dt.is_inexact(dt.as_dtype(dtype))
    check(floats or not requires_grad, "Only Tensors of floating point and complex dtype can require gradients")


@kernel("prims::iota", like=np.arange)
def iota(length: int, *, start: int, step: int, dtype: Any, device: Any, requires_grad: bool) -> ndarray:
    """``start + i * step`` for ``i`` below ``length``."""
    found = dt.as_dtype(dtype)
    check(dt.is_integral(found), "prims.iota only supports integer dtypes")
    check(step != 0, "step must be nonzero")
    _check_new(dtype, requires_grad)
    return dt.cast(start + np.arange(length, dtype=np.int64) * step, found)


@kernel("prims::empty", like=np.empty)
def empty(shape: Ints, *, dtype: Any, device: Any, requires_grad: bool) -> ndarray:
    """An unset array."""
    _check_new(dtype, requires_grad, shape)
    return np.empty(tuple(shape), dt.as_dtype(dtype))


def _unset(shape: Ints, order: Ints, *, op: str, dtype: Any, device: Any, requires_grad: bool) -> ndarray:
    out = aten(op)(shape, order, dtype=dtype)
    _check_new(dtype, requires_grad)
    return out


rows("prims::empty_strided", _unset, "An unset array with given strides, in elements.")
rows("prims::empty_permuted", _unset, "An unset array whose memory runs through the dimensions in a given order.")


@kernel("prims::full", like=np.full)
def full(shape: Ints, fill_value: Any, *, dtype: Any, device: Any, requires_grad: bool) -> ndarray:
    """An array that holds one number."""
    _check_new(dtype, False, shape)
    out = aten("full")(shape, fill_value, dtype=dtype)
    _check_new(dtype, requires_grad)
    return out


@kernel("prims::full_like", like=np.full_like)
def full_like(a: Array, fill_value: Any, *, dtype: Any, device: Any, requires_grad: bool) -> Array:
    """An array of the shape of another that holds one number."""
    if type(a) is not ndarray:
        return namespace(a).full_like(a, fill_value)
    out = aten("full_like")(a, fill_value, dtype=dtype)
    _check_new(dtype, requires_grad)
    return out


@kernel("prims::scalar_tensor", like=np.asarray)
def scalar_tensor(s: Any, *, dtype: Any = None, device: Any = None) -> ndarray:
    """A number as a 0-d array."""
    missing = [repr(name) for name, value in (("dtype", dtype), ("device", device)) if value is None]
    if missing:  # torch's schema lets them be None, its implementation does not
        plural = "s" if len(missing) > 1 else ""
        raise TypeError(
            f"_scalar_tensor_meta() missing {len(missing)} required keyword-only argument{plural}: {' and '.join(missing)}"
        )
    if isinstance(s, complex) and not dt.is_complex(dt.as_dtype(dtype)):
        raise TypeError("Complex scalar requires complex tensor dtype.")
    return aten("scalar_tensor")(s, dtype=dtype)


rows("prims::_make_token", lambda: np.empty(0, dt.get_default_dtype()), "An empty array that stands for a side effect.")
rows("prims::_sink_tokens", lambda tokens: None, "Nothing: the tokens have been used.")

# ---------------------------------------------------------------- numbers


@kernel("prims::item", like=ndarray.item)
def item(a: Array) -> Any:
    """The only element as a Python number."""
    size = int(np.prod(a.shape))
    check(size == 1, f"a Tensor with {size} elements cannot be converted to Scalar")
    if type(a) is ndarray:
        return aten("_local_scalar_dense")(a)
    xp = namespace(a)
    for kind, convert in (("bool", bool), ("integral", int), ("real floating", float)):
        if xp.isdtype(a.dtype, kind):
            return convert(xp.reshape(a, ()))
    return complex(xp.reshape(a, ()))


def _limits(dtype: Any) -> tuple[Any, Any]:
    found = dt.as_dtype(dtype)
    if found == dt.bool_:
        return False, True
    if not dt.is_inexact(found):
        return int(np.iinfo(found).min), int(np.iinfo(found).max)
    import ml_dtypes

    limits = ml_dtypes.finfo(dt.to_real(found))
    return float(limits.min), float(limits.max)


rows("prims::maximum_value", lambda dtype: _limits(dtype)[1], "The largest finite value of a dtype.")
rows("prims::minimum_value", lambda dtype: _limits(dtype)[0], "The smallest finite value of a dtype.")

# ---------------------------------------------------------------- transforms


@kernel("prims::svd", like=np.linalg.svd)
def svd(A: Array, *, full_matrices: bool) -> tuple[Array, Array, Array]:
    """Singular value decomposition: U, S and the conjugate transpose of V."""
    check(A.ndim >= 2, "linalg.svd: The input tensor A must have at least 2 dimensions.")
    if type(A) is not ndarray:
        return tuple(namespace(A).linalg.svd(A, full_matrices=full_matrices))
    if dt.is_half(A.dtype):
        raise RuntimeError(f"linalg.svd: Half precision dtypes not supported. Got torch.{dt.dtype_name(A.dtype)}")
    return aten("_linalg_svd")(A, full_matrices)


@kernel("prims::fft_r2c", like=np.fft.rfftn)
def fft_r2c(self: Array, *, dim: Ints, onesided: bool) -> Array:
    """Fourier transform of real numbers, not normalized."""
    if type(self) is ndarray:
        return aten("_fft_r2c")(self, dim, 0, onesided)
    xp = namespace(self)
    return xp.fft.rfftn(self, axes=tuple(dim)) if onesided else xp.fft.fftn(self + 0j, axes=tuple(dim))


@kernel("prims::fft_c2c", like=np.fft.fftn)
def fft_c2c(self: Array, *, dim: Ints, forward: bool) -> Array:
    """Fourier transform of complex numbers or its inverse, not normalized."""
    if type(self) is ndarray:
        return aten("_fft_c2c")(self, dim, 0, forward)
    fft = namespace(self).fft
    return fft.fftn(self, axes=tuple(dim)) if forward else fft.ifftn(self, axes=tuple(dim), norm="forward")


@kernel("prims::fft_c2r", like=np.fft.irfftn)
def fft_c2r(self: Array, *, dim: Ints, last_dim_size: int) -> Array:
    """Inverse Fourier transform to real numbers, not normalized."""
    if type(self) is ndarray:
        return aten("_fft_c2r")(self, dim, 0, last_dim_size)
    sizes = [self.shape[d] for d in dim[:-1]] + [last_dim_size]
    return namespace(self).fft.irfftn(self, s=sizes, axes=tuple(dim), norm="forward")
