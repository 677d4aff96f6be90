"""``a * b + c`` with one rounding, as compilers contract torch's kernels with AVX2."""

from __future__ import annotations

import math

import numpy as np

from torchnp.dtypes import float32

ndarray = np.ndarray
STRIP = 1 << 14  # elements: all steps find their operands in the cache


def fma(a: ndarray, b: float, c: float) -> ndarray:
    """a * b + c with one rounding, for float32 or float64 `a`."""
    if not c or math.frexp(b)[0] in (0.5, -0.5) or not (math.isfinite(b) and math.isfinite(c)):
        return a * b + c  # the product is exact, or nothing is added to it
    if a.dtype == float32:  # a product of two float32 is exact in float64
        wide = a.astype(np.float64)
        wide *= b
        wide += c
        return wide.astype(np.float32)
    return fma64(a, np.float64(b), np.float64(c))


def fused(a: ndarray, b: ndarray, c: ndarray) -> ndarray:
    """a * b + c of arrays of one dtype that broadcast; of float32 the product is exact, and the sum rounded from float64.

    float64 is rounded twice: the exact product has no dtype to be in, and taking it apart costs some fifty times the
    sum, for half a unit in the last place.
    """
    if a.dtype != float32:
        product = a * b
        return np.add(product, c, out=product if product.shape == c.shape != () else None)
    if a.size > STRIP and a.shape == c.shape and b.shape in ((), a.shape):
        arrays = [a.reshape(-1), c.reshape(-1)] if a.flags.c_contiguous and c.flags.c_contiguous else []
        if arrays and (b.shape == () or b.flags.c_contiguous):
            return _in_strips(*arrays, b if b.shape == () else b.reshape(-1)).reshape(a.shape)
    wide = np.multiply(a, b, dtype=np.float64)
    return np.add(wide, c, out=wide if wide.ndim and wide.shape == a.shape == c.shape else None).astype(float32)


def _in_strips(a: ndarray, c: ndarray, b: ndarray) -> ndarray:
    out = np.empty(a.shape, float32)
    room, factor = np.empty(STRIP), b.astype(np.float64) if b.ndim == 0 else None
    for start in range(0, a.size, STRIP):
        part = slice(start, start + STRIP)
        wide = room[: min(STRIP, a.size - start)]
        wide[...] = a[part]
        wide *= b[part] if factor is None else factor
        wide += c[part]
        out[part] = wide
    return out


def fma64(a: ndarray, b: ndarray | np.float64, c: ndarray | np.float64) -> ndarray:
    # Boldo and Melquiond: split the product, add c exactly, round the rest to odd, and round once.
    high, low = _two_product(a, b)
    middle, rest = _two_sum(c, low)
    top, tail = _two_sum(high, middle)
    odd, error = _two_sum(rest, tail)
    bits = odd.view(np.int64)
    bits += np.where((error != 0) & (bits & 1 == 0), np.where((error > 0) == (odd > 0), 1, -1), 0)
    result = top + odd
    right = np.isfinite(result) & (result != 0)
    if right.all():
        return result
    # A step has overflowed, perhaps not the result, or lost the sign of a zero: a longer exponent tells.
    plain = (a.astype(np.longdouble) * b + c).astype(np.float64)
    return np.where(right, result, plain)


def _two_product(a: ndarray, b: ndarray | np.float64) -> tuple[ndarray, ndarray]:
    def split(x: ndarray) -> tuple[ndarray, ndarray]:
        t = 134217729.0 * x
        high = t - (t - x)
        return high, x - high

    product = a * b
    (ah, al), (bh, bl) = split(a), split(b)
    return product, ((ah * bh - product) + ah * bl + al * bh) + al * bl


def _two_sum(a: ndarray | np.float64, b: ndarray) -> tuple[ndarray, ndarray]:
    total = a + b
    b_part = total - a
    return total, (a - (total - b_part)) + (b - b_part)
