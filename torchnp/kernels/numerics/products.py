"""Shared code of matrix products: multiplication for each dtype, and torch's checks."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.errors import cannot_cast, not_implemented
from torchnp.core.python_scalars import number, scalar
from torchnp.threads import blocks
from torchnp.thresholds import Threshold

ndarray = np.ndarray


words = dt.c_name  # the C++ name of a dtype, as in some of torch's messages

# ---------------------------------------------------------------- checks


_NEVER = frozenset({dt.bool_, dt.complex32, *dt.BARE_UNSIGNED, dt.float8_e8m0fnu})


def check_products(kernel: str, dtype: np.dtype, float8: bool = False) -> None:
    if dtype in _NEVER or (not float8 and dtype in dt.FLOAT8S):
        raise not_implemented(kernel, dtype)


def factor(number: Any, dtype: np.dtype) -> ndarray:
    """Return beta or alpha in the opmath dtype; floats are truncated for integers."""
    return scalar(number, dt.opmath(dtype))


# ---------------------------------------------------------------- values


_LONG: Threshold = 1 << 16  # terms of a sum
_SMALL: Threshold = 1 << 12  # multiplications; up to this many cost less than the function calls around them
ROUNDED: Threshold = 400  # multiplications per matrix; below this, torch rounds each product before adding it
_COPIED: Threshold = 64  # elements; below this, NumPy's own copy for BLAS costs less than a check of the strides


def product(a: ndarray, b: ndarray, round_: bool = True, batches: bool = False) -> ndarray:
    """Compute ``a @ b`` of one dtype; half types are accumulated in float32 and rounded once."""
    dtype, inner = a.dtype, dt.opmath(a.dtype)
    small = a.ndim > 1 < b.ndim and 0 < a.shape[-2] * a.shape[-1] * b.shape[-1] < ROUNDED
    if small and (batches or dt.is_half(dtype)):
        a, b = dt.cast(a, inner), dt.cast(b, inner)
        out = np.asarray(sum(a[..., k, None] * b[..., k, None, :] for k in range(a.shape[-1])))
        return dt.cast(out, dtype) if round_ else out
    if dtype == dt.complex64 and a.size * b.shape[-1] <= _SMALL:
        # OpenBLAS loses twice as much accuracy as MKL if the four real products of a complex product cancel.
        return np.asarray(np.matmul(a.astype(dt.complex128), b.astype(dt.complex128))).astype(dtype)
    if dtype.kind in "fc" and dtype.itemsize > 2:
        a, b = blas_ready(a), blas_ready(b)
        return _long_product(a, b) if a.shape[-1] > _LONG and b.ndim > 1 else np.asarray(np.matmul(a, b))
    if dtype.kind in "iu":
        return _integer_product(a, b)
    out = np.asarray(np.matmul(dt.cast(a, inner), dt.cast(b, inner)))
    return dt.cast(out, dtype) if round_ else out


def _long_product(a: ndarray, b: ndarray) -> ndarray:
    """Compute a product by adding parts of its long sums in double: OpenBLAS keeps fewer partial sums than MKL."""
    total: Any = np.float64(0)
    for part in blocks(a.shape[-1], _LONG // 4):
        total = total + np.matmul(a[..., part], b[..., part, :])
    return np.asarray(total).astype(a.dtype)


def blas_ready(x: ndarray) -> ndarray:
    """Copy a matrix that BLAS cannot use (neither of its last strides is 1), which NumPy would multiply slowly."""
    if x.ndim < 2 or x.strides[-1] == x.itemsize or x.strides[-2] == x.itemsize or x.size < _COPIED:
        return x
    return np.ascontiguousarray(x)


def _integer_product(a: ndarray, b: ndarray) -> ndarray:
    """Multiply integers by BLAS in float64 if that is exact and faster, because NumPy has no BLAS for integers."""
    dtype, terms = a.dtype, a.shape[-1]
    if a.size * b.shape[-1] > _SMALL:
        if 16 * dtype.itemsize + terms.bit_length() <= _EXACT_BITS:
            return np.asarray(np.matmul(a.astype(np.float64), b.astype(np.float64))).astype(np.int64).astype(dtype)
        rows, columns = a.shape[-2] if a.ndim > 1 else 1, b.shape[-1] if b.ndim > 1 else 1
        worth = rows * terms * columns > _WORTH * (rows * terms + terms * columns + rows * columns)
        if worth and terms <= _TERMS and dtype.itemsize > 2:
            return _product_of_digits(a, b)
    return np.asarray(np.matmul(a, b))


_EXACT_BITS = 53  # bits that float64 holds exactly
_TERMS: Threshold = 1 << 18  # terms of a sum; float64 holds the sum of four times as many 16-bit by 16-bit products
_WORTH: Threshold = 32  # multiplications per element; from here on, ten BLAS products are faster than NumPy's loop
_DIGIT = 16  # bits


def _product_of_digits(a: ndarray, b: ndarray) -> ndarray:
    """Multiply modulo the dtype's range by products of 16-bit digits, omitting those beyond the range."""
    count, unsigned = 8 * a.itemsize // _DIGIT, np.dtype(f"u{a.itemsize}")

    def digits(x: ndarray) -> list[ndarray]:
        x = x.astype(unsigned)
        return [((x >> unsigned.type(_DIGIT * i)) & unsigned.type(0xFFFF)).astype(np.float64) for i in range(count)]

    of_a, of_b = digits(a), digits(b)
    total: Any = unsigned.type(0)
    for k in range(count):
        part = np.asarray(np.matmul(of_a[0], of_b[k]))
        for i in range(1, k + 1):
            part += np.matmul(of_a[i], of_b[k - i])
        total = total + (part.astype(np.int64).astype(unsigned) << unsigned.type(_DIGIT * k))
    return np.asarray(total).astype(a.dtype)


def beta_times(base: ndarray, beta: Any, total: ndarray | None = None, always: bool = False) -> ndarray:
    """Return beta * base + total. If beta is 0, ignore base, even NaN. If it is 1, multiply only if ``always``."""
    beta = factor(beta, base.dtype)
    if beta == 0:
        return np.zeros(base.shape, dt.opmath(base.dtype)) if total is None else total
    scaled = dt.cast(base, dt.opmath(base.dtype))
    if beta != 1 or always:
        scaled = scaled * beta
    if total is None:
        return scaled.copy()
    return np.add(scaled, total, total if total.dtype == scaled.dtype and total.ndim else None)


def without_product(base: ndarray, beta: Any, skips_empty: bool = True) -> ndarray:
    """Return beta * base, the result for empty factors; torch calls mul, so the base's dtype must hold the result.

    Beta is converted to the base's dtype: integers wrap, and values beyond a half type's range become infinite.
    """
    if skips_empty and not base.size:
        return np.empty(base.shape, dt.opmath(base.dtype))
    common = dt.result_type(base, beta)
    if beta != 0 and not dt.can_cast(common, base.dtype):
        raise cannot_cast(common, base.dtype)
    inner = dt.opmath(base.dtype)
    if beta == 0:
        return np.zeros(base.shape, inner)
    return dt.cast(base, inner) * dt.cast(number(beta, base.dtype), inner)


def weighted(base: ndarray, beta: Any, alpha: Any, a: ndarray, b: ndarray, batches: bool = False) -> ndarray:
    """Return beta * base + alpha * (a @ b), not yet rounded to a half type.

    If alpha is 0, the product is not computed and its NaN are ignored, except for ``batches`` and half types.
    """
    alpha = factor(alpha, base.dtype)
    if alpha == 0 and not (batches or dt.is_half(base.dtype)):
        return beta_times(base, beta)
    total = product(a, b, round_=False, batches=batches)
    complex_too = batches and dt.is_complex(base.dtype)  # multiplying by 1 changes only complex infinities
    return beta_times(base, beta, total * alpha if complex_too or alpha != 1 else total, complex_too)
