"""``a * b + c`` with one rounding (FMA), as compilers generate for torch's AVX2 kernels, and polynomials with FMA.

`fma` rounds once in float32 and in float64. `fast_fma` rounds twice in float64, because no dtype holds the exact
product:
splitting it would take about fifty times as long as the sum, and gain half an ulp. If the product overflows, `fast_fma`
rounds
once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from torchnp.dtypes import float32
from torchnp.kernels.numerics.blocks import pieces, within
from torchnp.threads import share
from torchnp.thresholds import Threshold

ndarray = np.ndarray
STRIP: Threshold = 1 << 16  # elements; the operands of all steps stay in cache
_FEW: Threshold = 1 << 12  # elements
_TILE: Threshold = 1 << 13  # float64 elements; the twenty or so arrays of `_exactly` stay in cache
_DOUBLE = np.dtype(np.float64)


def fma(a: Any, b: Any, c: Any) -> ndarray:
    """Compute a * b + c with one rounding, in float32 or float64; ``b`` and ``c`` may be Python numbers."""
    if isinstance(b, float) and isinstance(c, float):
        if not c or math.frexp(b)[0] in (0.5, -0.5) or not (math.isfinite(b) and math.isfinite(c)):
            return a * b + c  # the product is exact, or nothing is added to it
        b, c = np.float64(b), np.float64(c)
    if a.dtype == float32:  # a product of two float32 numbers is exact in float64
        wide = np.multiply(a, b, dtype=np.float64)
        return np.add(wide, c, out=wide if type(wide) is ndarray and wide.shape == np.shape(c) else None).astype(
            float32
        )
    return _fma64(a, b, c)


def fast_fma(a: Any, b: Any, c: Any) -> ndarray:
    """Compute a * b + c for operands of one dtype, broadcast: one rounding in float32, two in float64."""
    if a.dtype != float32:
        try:
            with np.errstate(over="raise" if a.dtype == _DOUBLE else "ignore"):
                product = a * b
        except FloatingPointError:  # the sum may be finite though the product is not
            with np.errstate(all="ignore"):
                return _fma64(a, b, c)
        return np.add(product, c, out=product if product.shape == c.shape != () else None)
    if a.size <= _FEW:  # here NumPy's setup for casting inside the ufunc costs more than casting before it
        wide = a.astype(_DOUBLE)
        if a.ndim and (b.shape == () or b.shape == a.shape) and c.shape == a.shape:
            np.multiply(wide, b.astype(_DOUBLE), wide)
            np.add(wide, c.astype(_DOUBLE), wide)
            return wide.astype(float32)
        return np.asarray((wide * b.astype(_DOUBLE) + c.astype(_DOUBLE)).astype(float32))
    large = a.size > STRIP and a.shape == c.shape and b.shape in ((), a.shape)
    if large and a.flags.c_contiguous and c.flags.c_contiguous and (b.shape == () or b.flags.c_contiguous):
        factor = b if b.shape == () else b.reshape(-1)
        return _in_strips(a.reshape(-1), c.reshape(-1), factor).reshape(a.shape)
    wide = np.multiply(a, b, dtype=np.float64)
    return np.add(wide, c, out=wide if wide.ndim and wide.shape == a.shape == c.shape else None).astype(float32)


def fma_into(a: ndarray, b: Any, c: Any, wide: ndarray, out: ndarray) -> None:
    """Compute `fma` of float32 values held in float64 arrays, through a float64 buffer into a float32 array."""
    np.multiply(a, b, wide)
    np.add(wide, c, wide)
    np.copyto(out, wide, casting="same_kind")


def _in_strips(a: ndarray, c: ndarray, b: ndarray) -> ndarray:
    out = np.empty(a.shape, float32)
    factor = b.astype(np.float64) if b.ndim == 0 else None

    def strips(piece: slice) -> None:
        room = np.empty(STRIP)
        for part in within(piece, STRIP):
            wide = room[: part.stop - part.start]
            wide[...] = a[part]
            wide *= b[part] if factor is None else factor
            wide += c[part]
            out[part] = wide

    share(strips, pieces(a.size))
    return out


# ---------------------------------------------------------------- float64, exactly


def _fma64(a: Any, b: Any, c: Any) -> ndarray:
    given = [np.asarray(v) for v in (a, b, c)]
    size = max(v.size for v in given)
    if size <= _TILE or not all(v.size == 1 or (v.size == size and v.flags.c_contiguous) for v in given):
        return _exactly(a, b, c)
    out = np.empty(np.broadcast_shapes(*(v.shape for v in given)))
    flat, target = [v.reshape(-1) for v in given], out.reshape(-1)
    for part in within(slice(0, size), _TILE):
        target[part] = _exactly(*(v if v.size == 1 else v[part] for v in flat))
    return out


def _exactly(a: Any, b: Any, c: Any) -> ndarray:
    product, low = two_product(a, b)
    total, lost = two_sum(product, c)
    lost += low
    result = np.asarray(total + lost)
    # The sum of the errors is rounded too, which matters only if the result lies halfway between two numbers.
    halfway = 2 * (lost - (result - total))
    unsure = (result + halfway - result == halfway) & (halfway != 0)
    unsure |= (result == 0) | ~np.isfinite(result)
    if unsure.any():
        result[unsure] = _to_odd(*(np.broadcast_to(v, result.shape)[unsure] for v in (a, b, c)))
    return result


def _to_odd(a: ndarray, b: ndarray, c: ndarray) -> ndarray:
    # Boldo and Melquiond: split the product, add c exactly, round the remainder to odd, and round once.
    high, low = two_product(a, b)
    middle, rest = two_sum(c, low)
    top, tail = two_sum(high, middle)
    odd, error = two_sum(rest, tail)
    bits = odd.view(np.int64)
    bits += np.where((error != 0) & (bits & 1 == 0), np.where((error > 0) == (odd > 0), 1, -1), 0)
    result = top + odd
    # If a step overflowed (perhaps not the result) or lost a zero's sign, use longdouble, whose exponent is wider.
    plain = (a.astype(np.longdouble) * b + c).astype(np.float64)
    return np.where(np.isfinite(result) & (result != 0), result, plain)


def two_product(a: Any, b: Any) -> tuple[Any, Any]:
    """Return the product and its rounding error (Dekker)."""
    product, a_high, b_high = a * b, upper(a), upper(b)
    a_low, b_low = a - a_high, b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """Return the sum and its rounding error (Knuth)."""
    total = a + b
    b_part = total - a
    return total, (a - (total - b_part)) + (b - b_part)


def upper(x: Any) -> Any:
    """Return the upper 26 bits of a float64 (Veltkamp)."""
    shifted = x * 134217729.0
    return shifted - (shifted - x)


def horner(
    t: ndarray, coefficients: Sequence[float], out: ndarray | None = None, wide: ndarray | None = None
) -> ndarray:
    """Evaluate a polynomial at ``t``, highest degree first, in steps of `fast_fma`.

    ``out`` receives the result. If a float64 buffer ``wide`` is given too, ``t`` holds float32 values in a float64
    array.
    """
    first, *rest = coefficients
    if t.dtype == np.float64 and wide is None:
        value = np.full_like(t, first) if out is None else out
        np.multiply(t, first, out=value)
        for c in rest[:-1]:
            value += c
            value *= t
        value += rest[-1]
        return value
    first, *rest = (float(np.float32(c)) for c in coefficients)
    if wide is None or out is None:
        t, wide, out = t.astype(np.float64), np.empty(t.shape), np.empty_like(t)
    np.multiply(t, first, wide)
    for last, c in enumerate(rest, 1 - len(rest)):
        np.add(wide, c, wide)
        np.copyto(out, wide, casting="same_kind")
        if last:
            np.copyto(wide, out)
            np.multiply(wide, t, wide)
    return out
