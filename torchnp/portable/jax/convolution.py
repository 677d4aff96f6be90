"""Convolutions and max pooling with XLA, and replacements of convolutions for which XLA has no fast path on CPUs.

Depthwise convolutions are computed as sums of slices. So are convolutions of images smaller than the filter, whose
operands XLA swaps. Strided convolutions of few channels (the stems of image models) move the points within a stride to
the channels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import jax

from torchnp.portable.library import ArrayLibrary
from torchnp.portable.rows import Array, portable
from torchnp.portable.standard import convolution as standard
from torchnp.portable.standard import pool

Ints = Sequence[int]
_FEW = 4  # up to this many input channels, the points within a stride become channels


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
        else:
            whole = lambda x, w: _direct(x, w, *sizes, groups)
            on_cpu = _on_cpu(lib, x, w, *sizes, groups)
            y = whole(x, w) if on_cpu is None else jax.lax.platform_dependent(x, w, cpu=on_cpu, default=whole)
        y = y if b is None else y + b.reshape(-1, *[1] * n)
        return y[0] if single else y

    return lib.in_opmath(f, input, weight, bias)


def _on_cpu(
    lib: ArrayLibrary, x: Array, w: Array, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> Callable[[Array, Array], Array] | None:
    """Return a function that is faster than XLA's convolution on CPUs, or None if there is none."""
    space, kernel = x.shape[2:], w.shape[2:]
    if not all(type(n) is int for n in space):
        return None
    depthwise = groups > 1 and groups == x.shape[1] == w.shape[0]
    if depthwise or (groups == 1 and math.prod(kernel) > math.prod(space)):
        return lambda x, w: standard.correlated(lib, x, w, stride, padding, dilation, groups)
    if (
        groups == 1
        and x.shape[1] <= _FEW
        and len(set(stride)) == 1
        and 1 < stride[0] <= min(kernel)
        and set(dilation) == {1}
    ):
        return lambda x, w: _by_stride(x, w, stride, padding)
    return None


def _by_stride(x: Array, w: Array, stride: Ints, padding: Ints) -> Array:
    """Compute a strided convolution as one with stride 1, after moving the points within a stride to the channels."""
    s, n = stride[0], len(stride)
    sizes = [(length + 2 * p - k) // s + 1 for length, p, k in zip(x.shape[2:], padding, w.shape[2:])]
    steps = [-(-k // s) for k in w.shape[2:]]
    ends = [((size - 1 + k) * s) - length - p for size, k, length, p in zip(sizes, steps, x.shape[2:], padding)]
    zero = jax.numpy.zeros((), x.dtype)
    x = jax.lax.pad(x, zero, [(0, 0, 0), (0, 0, 0), *((p, end, 0) for p, end in zip(padding, ends))])
    w = jax.lax.pad(w, zero, [(0, 0, 0), (0, 0, 0), *((0, k * s - w.shape[2 + i], 0) for i, k in enumerate(steps))])

    def gathered(v: Array) -> Array:
        v = v.reshape(*v.shape[:2], *(m for length in v.shape[2:] for m in (length // s, s)))
        v = v.transpose(0, 1, *range(3, 3 + 2 * n, 2), *range(2, 2 + 2 * n, 2))
        return v.reshape(v.shape[0], -1, *v.shape[2 + n :])

    return jax.lax.conv_general_dilated(gathered(x), gathered(w), [1] * n, [(0, 0)] * n)


def _direct(x: Array, w: Array, stride: Ints, padding: Ints, dilation: Ints, groups: int) -> Array:
    return jax.lax.conv_general_dilated(
        x, w, stride, [(p, p) for p in padding], rhs_dilation=dilation, feature_group_count=groups
    )


def _transposed(
    lib: ArrayLibrary, x: Array, w: Array, stride: Ints, padding: Ints, dilation: Ints, more: Ints, groups: int
) -> Array:
    """Compute a transposed convolution as a convolution of the input with zeros between its elements."""
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


def _max_pool(name: str, n: int) -> None:
    @portable(name, on="jax")
    def row(
        lib: ArrayLibrary,
        self: Array,
        kernel_size: Ints,
        stride: Ints = (),
        padding: Ints = (0,),
        dilation: Ints = (1,),
        ceil_mode: bool = False,
    ) -> Array:
        """Max pooling; as in torch, the gradient goes to the first of several largest elements."""
        kernel, stride = pool.sizes_of(kernel_size, stride, n)
        padding, dilation = standard.spread(padding, n), standard.spread(dilation, n)
        ends = []
        for length, k, s, p, d in zip(self.shape[-n:], kernel, stride, padding, dilation):
            reach = d * (k - 1) + 1
            size = (length + 2 * p - reach + ceil_mode * (s - 1)) // s + 1
            size -= ceil_mode and (size - 1) * s >= length + p
            ends.append(max(0, (size - 1) * s + reach - length - p))
        rest = self.ndim - n
        return jax.lax.reduce_window(
            self,
            jax.numpy.asarray(pool.lowest(lib, self), self.dtype),
            jax.lax.max,
            (1,) * rest + tuple(kernel),
            (1,) * rest + tuple(stride),
            ((0, 0),) * rest + tuple(zip(padding, ends)),
            window_dilation=(1,) * rest + tuple(dilation),
        )


_max_pool("aten::max_pool1d", 1)
_max_pool("aten::max_pool2d", 2)
_max_pool("aten::max_pool3d", 3)
