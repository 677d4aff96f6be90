"""Normalizations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torchnp import dtypes as dt
from torchnp.core.checks import check
from torchnp.portable.library import ArrayLibrary
from torchnp.portable.rows import Array, portable

Ints = Sequence[int]


def _moments(lib: ArrayLibrary, x: Array, axes: tuple[int, ...], eps: float) -> tuple[Array, Array, Array]:
    """Return the deviations from the mean, the mean, and the inverse standard deviation."""
    mean = lib.xp.mean(x, axis=axes, keepdims=True)
    d = x - mean
    return d, mean, 1 / lib.xp.sqrt(lib.xp.mean(d * d, axis=axes, keepdims=True) + eps)


def _affine(x: Array, weight: Array | None, bias: Array | None) -> Array:
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


def _wide(lib: ArrayLibrary, x: Array | None) -> Any:
    return None if x is None else lib.astype(x, dt.opmath(lib.dtype_of(x)))


@portable("aten::native_layer_norm")
def native_layer_norm(
    lib: ArrayLibrary, input: Array, normalized_shape: Ints, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    if 0 in normalized_shape:
        return NotImplemented
    axes = tuple(range(input.ndim - len(normalized_shape), input.ndim))
    d, mean, rstd = _moments(lib, _wide(lib, input), axes, eps)
    y = lib.astype(_affine(d * rstd, _wide(lib, weight), _wide(lib, bias)), lib.dtype_of(input))
    stats = lib.dtype_of(input) if weight is None or lib.dtype_of(weight) == lib.dtype_of(input) else dt.float32
    return y, lib.astype(mean, stats), lib.astype(rstd, stats)


@portable("aten::layer_norm")
def layer_norm(
    lib: ArrayLibrary,
    input: Array,
    normalized_shape: Ints,
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-05,
    cudnn_enable: bool = True,
) -> Array:
    return native_layer_norm(lib, input, normalized_shape, weight, bias, eps)[0]


@portable("aten::rms_norm")
def rms_norm(
    lib: ArrayLibrary, input: Array, normalized_shape: Ints, weight: Array | None = None, eps: float | None = None
) -> Array:
    axes = tuple(range(input.ndim - len(normalized_shape), input.ndim))
    if dt.is_complex(lib.dtype_of(input)):
        return NotImplemented
    x = _wide(lib, input)
    eps = float(lib.xp.finfo(x.dtype).eps) if eps is None else eps
    y = x * (1 / lib.xp.sqrt(lib.xp.mean(x * x, axis=axes, keepdims=True) + eps))
    d = lib.result_type(input, weight) if weight is not None else lib.dtype_of(input)
    return lib.astype(_affine(y, _wide(lib, weight), None), d)


@portable("aten::native_group_norm")
def native_group_norm(
    lib: ArrayLibrary,
    input: Array,
    weight: Array | None,
    bias: Array | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
) -> tuple[Array, Array, Array]:
    if 0 in input.shape:
        return NotImplemented
    shape, d = tuple(input.shape), lib.dtype_of(input)
    x = lib.call("aten::view", _wide(lib, input), (N, group, C * HxW // group))
    deviations, mean, rstd = _moments(lib, x, (2,), eps)
    channels = (C, *[1] * (input.ndim - 2))
    w, b = (None if p is None else lib.xp.reshape(_wide(lib, p), channels) for p in (weight, bias))
    y = _affine(lib.call("aten::view", deviations * rstd, shape), w, b)
    stats = d if weight is None or lib.dtype_of(weight) == d else dt.float32
    return lib.astype(y, d), *(lib.astype(lib.xp.reshape(v, (N, group)), stats) for v in (mean, rstd))


@portable("aten::group_norm")
def group_norm(
    lib: ArrayLibrary,
    input: Array,
    num_groups: int,
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-05,
    cudnn_enabled: bool = True,
) -> Array:
    n, c, *space = input.shape
    return native_group_norm(lib, input, weight, bias, n, c, math.prod(space), num_groups, eps)[0]


# ---------------------------------------------------------------- batches


def _channels(lib: ArrayLibrary, x: Array | None, ndim: int) -> Array | None:
    return None if x is None else lib.xp.reshape(_wide(lib, x), (-1, *[1] * (ndim - 2)))


def _fixed(
    lib: ArrayLibrary, x: Array, weight: Array | None, bias: Array | None, mean: Array, variance: Array, eps: float
) -> Array:
    """Normalize with given statistics, as one multiplication and one addition."""
    scale = 1 / lib.xp.sqrt(_wide(lib, variance) + eps)
    scale = scale if weight is None else scale * _wide(lib, weight)
    shift = -_wide(lib, mean) * scale
    shift = shift if bias is None else shift + _wide(lib, bias)
    y = _wide(lib, x) * _channels(lib, scale, x.ndim) + _channels(lib, shift, x.ndim)
    return lib.astype(y, lib.dtype_of(x))


def _empty(lib: ArrayLibrary, x: Array) -> Array:
    return lib.full((0,), 0, lib.dtype_of(x))


@portable("aten::_native_batch_norm_legit_no_training")
def native_batch_norm_legit_no_training(
    lib: ArrayLibrary,
    input: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array,
    running_var: Array,
    momentum: float,
    eps: float,
) -> tuple[Array, Array, Array]:
    y = _fixed(lib, input, weight, bias, running_mean, running_var, eps)
    stats = weight if weight is not None else input
    return y, _empty(lib, stats), _empty(lib, stats)


@portable("aten::_native_batch_norm_legit_functional")
def native_batch_norm_legit_functional(
    lib: ArrayLibrary,
    input: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array,
    running_var: Array,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Array, Array, Array, Array, Array]:
    """Return the output, the batch's mean and inverse standard deviation, and the new running statistics."""
    if not training:
        rest = weight, bias, running_mean, running_var, momentum, eps
        return *native_batch_norm_legit_no_training(lib, input, *rest), running_mean, running_var
    x = _wide(lib, input)
    axes = tuple(d for d in range(x.ndim) if d != 1)
    count = math.prod(x.shape[d] for d in axes)
    d, mean, rstd = _moments(lib, x, axes, eps)
    variance = lib.xp.reshape(lib.xp.mean(d * d, axis=axes), (-1,))
    mean, scale = lib.xp.reshape(mean, (-1,)), lib.xp.reshape(rstd, (-1,))
    y = _affine(d * rstd, _channels(lib, weight, x.ndim), _channels(lib, bias, x.ndim))
    if running_mean is None:
        return lib.astype(y, lib.dtype_of(input)), mean, scale, running_mean, running_var
    moved = lambda old, new: lib.astype((1 - momentum) * _wide(lib, old) + momentum * new, lib.dtype_of(old))
    news = moved(running_mean, mean), moved(running_var, variance * (count / (count - 1)))
    return lib.astype(y, lib.dtype_of(input)), mean, scale, *news


@portable("aten::_native_batch_norm_legit.no_stats")
def native_batch_norm_legit_no_stats(
    lib: ArrayLibrary,
    input: Array,
    weight: Array | None,
    bias: Array | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Array, ...]:
    none: Any = None
    return native_batch_norm_legit_functional(lib, input, weight, bias, none, none, training, momentum, eps)[:3]


@portable("aten::batch_norm")
def batch_norm(
    lib: ArrayLibrary,
    input: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Array:
    """Normalize. In training, `torchnp.portable.functionalize` replaces this by an operator that returns statistics."""
    none: Any = None
    if training:
        return native_batch_norm_legit_functional(lib, input, weight, bias, none, none, True, momentum, eps)[0]
    return _fixed(lib, input, weight, bias, running_mean, running_var, eps)


@portable("aten::instance_norm")
def instance_norm(
    lib: ArrayLibrary,
    input: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Array:
    if not use_input_stats:
        return _fixed(lib, input, weight, bias, running_mean, running_var, eps)
    if running_mean is not None:
        return NotImplemented
    d, _, rstd = _moments(lib, _wide(lib, input), tuple(range(2, input.ndim)), eps)
    y = _affine(d * rstd, _channels(lib, weight, input.ndim), _channels(lib, bias, input.ndim))
    return lib.astype(y, lib.dtype_of(input))


@portable("aten::cosine_similarity")
def cosine_similarity(lib: ArrayLibrary, x1: Array, x2: Array, dim: int = 1, eps: float = 1e-08) -> Array:
    """Return the cosine similarity; each step is rounded to its tensor's own dtype, as in torch."""
    check(eps >= 0, f"eps must be non-negative, got: {eps:g}")
    if tuple(x1.shape) != tuple(x2.shape):
        x1, x2 = lib.xp.broadcast_arrays(x1, x2)  # ``dim`` is one of the result's dimensions
    length = lambda v: lib.xp.sqrt(lib.xp.sum(v * v, axis=dim, keepdims=True))
    unit = lambda v, norm: v / lib.xp.maximum(norm, lib.number(eps, lib.dtype_of(norm)))
    own = [
        x if dt.is_floating(lib.dtype_of(x)) else common
        for x, common in zip((x1, x2), lib.promote(x1, x2), strict=True)
    ]
    units = [lib.in_opmath(unit, x, lib.in_opmath(length, x)) for x in own]
    product = lib.in_opmath(lambda x, y: x * y, *lib.promote(*units))
    return lib.in_opmath(lambda v: lib.xp.sum(v, axis=dim), product)
