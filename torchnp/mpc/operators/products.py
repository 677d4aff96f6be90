"""Products along a dimension: prod and cumprod."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchnp.engine import Call
from torchnp.mpc.fixed_point import FixedPoint
from torchnp.mpc.operators.linear import in_dtype
from torchnp.mpc.operators.registry import op, result_bits
from torchnp.mpc.shares import SharedSum


def _last(p: FixedPoint, x: SharedSum, dim: Any) -> SharedSum:
    """Move a dimension to the end, or flatten all dimensions if ``dim`` is None."""
    return p.each(lambda w: w.reshape(-1) if dim is None or not w.ndim else np.moveaxis(w, dim, -1), x)


@op("prod", "prod.dim_int")
def prod(p: FixedPoint, call: Call, x: SharedSum, dim: Any = None, keepdim: bool = False, **_: Any) -> SharedSum:
    """Return the product, computed by repeated products of neighbours."""
    bits, given = result_bits(p, call), x.shape
    x = p.at(_last(p, in_dtype(p, call, x), dim), bits)
    if x.shape[-1] == 0:
        x = p.constant(p.encode(np.ones((*x.shape[:-1], 1)), bits), bits)
    while x.shape[-1] > 1:
        n = x.shape[-1]
        left, right = p.each(lambda w: w[..., 0 : n - 1 : 2], x), p.each(lambda w: w[..., 1::2], x)
        product = p.times(left, right, bits)
        x = p.each(lambda a, w: np.concatenate([a, w[..., -1:]], -1), product, x) if n % 2 else product
    one = p.each(lambda w: w[..., 0], x)
    return p.each(lambda w: np.expand_dims(w, dim), one) if keepdim and dim is not None and given else one


@op("cumprod")
def cumprod(p: FixedPoint, call: Call, x: SharedSum, dim: int, **_: Any) -> SharedSum:
    """Return the cumulative product, computed by products with the elements 1, 2, 4, ... positions before."""
    bits, given = result_bits(p, call), x.shape
    x = p.at(_last(p, in_dtype(p, call, x), dim), bits)
    shift = 1
    while shift < x.shape[-1]:
        step = shift
        further = p.times(p.each(lambda w: w[..., step:], x), p.each(lambda w: w[..., :-step], x), bits)
        x = p.each(lambda w, a: np.concatenate([w[..., :step], a], -1), x, further)
        shift *= 2
    return p.each(lambda w: np.moveaxis(w, -1, dim) if given else w.reshape(()), x)
