"""Convolutions by XLA; depthwise ones on CPUs by slices, for which XLA has no fast path there."""

from __future__ import annotations

from collections.abc import Sequence

import jax

from torchnp.portable.library import ArrayLibrary
from torchnp.portable.rows import Array, portable
from torchnp.portable.standard import convolution as standard

Ints = Sequence[int]


@portable("aten::convolution", on="jax")
def convolution(
    lib: ArrayLibrary,
    input: Array,
    weight: Array,
    bias: Array | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
) -> Array:
    n = weight.ndim - 2
    stride, padding, dilation, more = (standard.spread(v, n) for v in (stride, padding, dilation, output_padding))
    sizes = stride, padding, dilation

    def f(x: Array, w: Array, b: Array | None) -> Array:
        single = x.ndim == n + 1
        x = x[None] if single else x
        if transposed:
            y = _transposed(lib, x, w, *sizes, more, groups)
        elif groups > 1 and groups == x.shape[1] == w.shape[0]:
            slices = lambda x, w: standard.correlated(lib, x, w, *sizes, groups)
            whole = lambda x, w: _direct(x, w, *sizes, groups)
            y = jax.lax.platform_dependent(x, w, cpu=slices, default=whole)
        else:
            y = _direct(x, w, *sizes, groups)
        y = y if b is None else y + b.reshape(-1, *[1] * n)
        return y[0] if single else y

    return lib.in_opmath(f, input, weight, bias)


def _direct(x: Array, w: Array, stride: Ints, padding: Ints, dilation: Ints, groups: int) -> Array:
    return jax.lax.conv_general_dilated(
        x, w, stride, [(p, p) for p in padding], rhs_dilation=dilation, feature_group_count=groups
    )


def _transposed(
    lib: ArrayLibrary, x: Array, w: Array, stride: Ints, padding: Ints, dilation: Ints, more: Ints, groups: int
) -> Array:
    """A convolution of the input with zeros between its elements."""
    reach = [d * (k - 1) for d, k in zip(dilation, w.shape[2:])]
    return jax.lax.conv_general_dilated(
        x,
        standard.turned(lib, w, groups),
        [1] * len(reach),
        [(r - p, r - p + extra) for r, p, extra in zip(reach, padding, more)],
        lhs_dilation=stride,
        rhs_dilation=dilation,
        feature_group_count=groups,
    )
