"""Resampling: nearest, linear, cubic, and their antialiased forms.

In every mode but nearest, an output element is a weighted sum of a few input elements, computed one dimension after the
other. `Sampling` holds the indices and weights for one dimension.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, require
from torchnp.core.errors import expected_true, not_implemented, shape_text
from torchnp.core.inplace_out_spec import Bound, WriteSpec
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._memory import take_slices
from torchnp.kernels._spatial import Ints, in_format, is_channels_last
from torchnp.kernels.numerics.fma import fast_fma, fma
from torchnp.layout import stride_rules
from torchnp.layout.overlap import check_apart
from torchnp.threads import blocks, share
from torchnp.thresholds import Threshold

ndarray = np.ndarray


@dataclass(frozen=True)
class Sampling:
    """Indices and weights of the input elements for each output element along one dimension, of shape (out, taps)."""

    index: ndarray
    weight: ndarray
    count: ndarray | None = None  # the number of taps that each output element uses; None if it uses all


Passes = list[tuple[int, Sampling]]  # one for each axis

# ---------------------------------------------------------------- where samples lie


def scale_of(size: int, out: int, align_corners: bool, scale: float | None, dtype: np.dtype) -> np.number:
    """Return the step in the input for one step in the output; a given scale factor overrides the sizes."""
    if align_corners:
        return dtype.type(size - 1) / dtype.type(out - 1) if out > 1 else dtype.type(0)
    if scale is not None and scale > 0:
        return dtype.type(1.0 / scale)
    return dtype.type(size) / dtype.type(out)


def positions(
    size: int, out: int, align_corners: bool, scale: float | None, dtype: np.dtype, fused: bool = True
) -> ndarray:
    """Return the output elements' positions in the input; ``fused``: whether torch's file is compiled to use FMA."""
    step = scale_of(size, out, align_corners, scale, dtype)
    at = np.arange(out, dtype=dtype)
    if align_corners:
        return step * at
    half = dtype.type(0.5)
    return fma(at + half, float(step), -0.5) if fused else (at + half) * step - half


@functools.lru_cache(maxsize=256)
def nearest(
    size: int, out: int, scale: float | None, exact: bool, shortcut: bool = False, dtype: np.dtype = dt.float32
) -> ndarray:
    """Return the index of the input element that each output element copies; its position is computed in ``dtype``.

    With ``shortcut``, a result of equal or double size copies or doubles each element, as some of torch's loops do.
    """
    if shortcut and not exact and out in (size, 2 * size):
        return np.arange(out) // (out // size)
    at, step = np.arange(out, dtype=dtype), scale_of(size, out, False, scale, dtype)
    index = _floor((at + dtype.type(0.5)) * step if exact else at * step).astype(np.int64)
    return np.minimum(index, size - 1)


def _floor(at: ndarray) -> ndarray:
    """Round positions down; torch first rounds float64 to float32, which may reach the next whole number."""
    return np.floor(at.astype(np.float32))


@functools.lru_cache(maxsize=256)
def linear(size: int, out: int, align_corners: bool, scale: float | None, dtype: np.dtype) -> Sampling:
    """Return the indices and weights of linear interpolation between two neighbours."""
    if size == out:
        return Sampling(np.arange(out)[:, None], np.ones((out, 1), dtype))
    at = np.maximum(positions(size, out, align_corners, scale, dtype), dtype.type(0))
    low = np.minimum(_floor(at).astype(np.int64), size - 1)
    share = np.clip(at - low.astype(dtype), 0, 1).astype(dtype)
    high = np.minimum(low + 1, size - 1)
    return Sampling(np.stack([low, high], 1), np.stack([1 - share, share], 1))


def _inner(x: ndarray, a: np.number, fused: Callable[..., ndarray] = fast_fma) -> ndarray:
    """Return the cubic weight of a neighbour at a distance up to 1, rounded as in torch's compiled code."""
    one = x.dtype.type(1)
    return fused(fused(x, a + 2 * one, -(a + 3 * one)) * x, x, one)


def _outer(x: ndarray, a: np.number, fused: Callable[..., ndarray] = fast_fma) -> ndarray:
    """Return the cubic weight of a neighbour at a distance from 1 to 2."""
    return fused(fused(fused(x, a, -5 * a), x, 8 * a), x, -4 * a)


@functools.lru_cache(maxsize=256)
def cubic(
    size: int, out: int, align_corners: bool, scale: float | None, dtype: np.dtype, fused: bool = True
) -> Sampling:
    """Return the indices and weights of cubic convolution, a = -0.75; the edge element replaces neighbours outside."""
    at = positions(size, out, align_corners, scale, dtype, fused)
    low = np.minimum(_floor(at), size - 1).astype(dtype)
    near = np.clip(at - low, 0, 1).astype(dtype)
    far, a = 1 - near, dtype.type(-0.75)
    weight = np.stack([_outer(near + 1, a), _inner(near, a), _inner(far, a), _outer(far + 1, a)], 1)
    index = np.clip(low.astype(np.int64)[:, None] + np.arange(-1, 3), 0, size - 1)
    return Sampling(index, weight.astype(dtype))


def _keys(x: ndarray) -> ndarray:
    x = np.abs(x)
    a = x.dtype.type(-0.5)
    # Use the exact FMA in double precision, too: as in torch, it gives a remainder instead of a weight of 0, which can
    # turn an infinity into nan.
    return np.where(x < 1, _inner(x, a, fma), np.where(x < 2, _outer(x, a, fma), 0))


_FILTERS: dict[str, tuple[Callable[[ndarray], ndarray], int]] = {
    "bilinear": (lambda x: np.maximum(1 - np.abs(x), 0), 2),
    "bicubic": (_keys, 4),
    "lanczos": (lambda x: np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0), 6),
}  # fmt: skip


@functools.lru_cache(maxsize=256)
def antialiased(mode: str, size: int, out: int, align_corners: bool, scale: float | None, dtype: np.dtype) -> Sampling:
    """Return the weights, which add up to one, of a filter that is stretched when shrinking."""
    function, width = _FILTERS[mode]
    step = scale_of(size, out, align_corners, scale, dtype)
    half = dtype.type(0.5)
    support = width * half * max(step, dtype.type(1))
    inverse = dtype.type(1) / step if step >= 1 else dtype.type(1)
    centre = step * (np.arange(out, dtype=dtype) + half)
    first = np.maximum((centre - support + half).astype(np.int64), 0)
    count = np.minimum((centre + support + half).astype(np.int64), size) - first
    j = np.arange(max(count.max(initial=1), 1))
    index = first[:, None] + j
    place = ((index.astype(dtype) - centre[:, None]).astype(np.float64) + 0.5) * inverse  # 0.5 is a double in torch
    weight = function(place.astype(dtype)).astype(dtype)
    weight[j >= count[:, None]] = 0
    total = np.add.accumulate(weight, 1)[:, -1:]
    weight /= np.where(total == 0, dtype.type(1), total)
    return Sampling(np.minimum(index, size - 1), weight, count)


# ---------------------------------------------------------------- sampling and its adjoint


MANY_TAPS: Threshold = 64  # taps of an output element; up to this many are added in torch's order


def _sample_by_product(x: ndarray, axis: int, s: Sampling) -> ndarray:
    """Compute `sample` for many taps: per output element, the product of its weights and its part of the input."""
    out = np.empty((*x.shape[:axis], len(s.index), *x.shape[axis + 1 :]), x.dtype)
    for i, (index, weight) in enumerate(zip(s.index, s.weight, strict=True)):
        taps = len(index) if s.count is None else max(int(s.count[i]), 0)
        own = slice(index[0], index[0] + taps)
        part = np.moveaxis(x[(slice(None),) * axis + (own,)], axis, -1)
        out[(slice(None),) * axis + (i,)] = part @ weight[: part.shape[-1]].astype(x.dtype)
    return out


def sample(x: ndarray, axis: int, s: Sampling) -> ndarray:
    """Compute each output element along one axis as the weighted sum of its taps."""
    if s.index.shape[1] == 1 and (s.weight == 1).all():
        return x if np.array_equal(s.index[:, 0], np.arange(x.shape[axis])) else x.take(s.index[:, 0], axis)
    if s.index.shape[1] > max(MANY_TAPS, len(s.index)):
        return _sample_by_product(x, axis, s)
    shape = (-1, *[1] * (x.ndim - 1 - axis))
    y = x.take(s.index[:, 0], axis)
    y *= s.weight[:, 0].reshape(shape)
    if s.count is not None:  # with a given scale factor, an element may have no tap in the input
        y[(slice(None),) * axis + (s.count <= 0,)] = 0
    for k in range(1, s.index.shape[1]):
        part = x.take(s.index[:, k], axis)
        part *= s.weight[:, k].reshape(shape)
        if s.count is not None:  # an element's unused taps add nothing, not 0 * inf
            part[(slice(None),) * axis + (k >= s.count,)] = -0.0
        y += part
    return y


def sample_bytes(x: ndarray, axis: int, s: Sampling) -> ndarray:
    """Compute `sample` for uint8 as Pillow does: 16-bit integer weights, and each pass rounded to bytes."""
    if s.index.shape[1] == 1 and (s.weight == 1).all():
        return sample(x, axis, s)
    weight = s.weight.copy()
    for k in range(1, weight.shape[1] if s.count is None else 0):  # taps of one edge element count as one
        same = s.index[:, k] == s.index[:, k - 1]
        weight[same, k] += weight[same, k - 1]
        weight[same, k - 1] = 0
    top = weight.max()
    bits = next((b for b in range(22) if int(0.5 + top * (1 << (b + 1))) >= 1 << 15), 22)
    scaled = weight * (1 << bits)
    weight = np.trunc(scaled + np.where(scaled < 0, -0.5, 0.5)).astype(np.int32)
    half = np.int32(1 << (bits - 1))
    if s.index.shape[1] > max(MANY_TAPS, len(s.index)):  # these sums are exact in double precision
        sums = _sample_by_product(x.astype(np.float64), axis, Sampling(s.index, weight, s.count))
        return np.clip((sums.astype(np.int32) + half) >> bits, 0, 255).astype(np.uint8)
    shape = (-1, *[1] * (x.ndim - 1 - axis))
    y: Any = half
    for k in range(s.index.shape[1]):
        y = y + x.take(s.index[:, k], axis) * weight[:, k].reshape(shape)
    return np.clip(y >> bits, 0, 255).astype(np.uint8)


DENSE: Threshold = 1 << 20  # elements of a dense matrix of weights; larger ones are sparse


def _unsample_sparse(g: ndarray, axis: int, size: int, s: Sampling) -> ndarray:
    """Compute `unsample` for long axes with a sparse matrix of weights."""
    from scipy.sparse import csr_array

    weight = s.weight if s.count is None else np.where(np.arange(s.index.shape[1]) < s.count[:, None], s.weight, 0)
    columns = np.broadcast_to(np.arange(len(s.index))[:, None], s.index.shape)
    matrix = csr_array((weight.reshape(-1), (s.index.reshape(-1), columns.reshape(-1))), (size, len(s.index)))
    turned = np.moveaxis(g, axis, 0)
    out = matrix @ turned.reshape(len(s.index), -1)
    return np.ascontiguousarray(np.moveaxis(out.reshape(size, *turned.shape[1:]), 0, axis))


def unsample(g: ndarray, axis: int, size: int, s: Sampling) -> ndarray:
    """Compute the adjoint of `sample`: add each output gradient, times its weights, to the input elements."""
    if s.index.shape[1] == 1 and np.array_equal(s.index[:, 0], np.arange(size)):
        return g
    if size * len(s.index) > DENSE:
        return _unsample_sparse(g, axis, size, s)
    if np.isfinite(g).all():  # a dense matrix would spread nan and inf by 0 * inf
        matrix = np.zeros((size, s.index.shape[0]), g.dtype)
        np.add.at(matrix, (s.index, np.arange(s.index.shape[0])[:, None]), s.weight)
        if axis == g.ndim - 1:
            return np.matmul(g, matrix.T)
        if axis == g.ndim - 2:
            return np.matmul(matrix, g)
        return np.moveaxis(np.tensordot(matrix, g, (1, axis)), 0, axis)
    out = np.zeros((*g.shape[:axis], size, *g.shape[axis + 1 :]), g.dtype)
    shape = (-1, *[1] * (g.ndim - 1 - axis))
    for k in range(s.index.shape[1]):
        share = g * s.weight[:, k].reshape(shape)
        if s.count is not None:
            share[(slice(None),) * axis + (k >= s.count,)] = 0
        where: Any = (*(slice(None),) * axis, s.index[:, k])
        np.add.at(out, where, share)
    return out


# ---------------------------------------------------------------- checks


def check_sizes(ndim: int, sizes: Ints, out: Ints, n: int) -> None:
    """Check the sizes of a resampling as torch does."""
    check(len(out) == n, f"It is expected output_size equals to {n}, but got size {len(out)}")
    check(ndim == n + 2, f"It is expected input_size equals to {n + 2}, but got size {ndim}")
    if min(*sizes[-n:], *out) <= 0:
        names = "DHW"[3 - n :]
        a, b = (", ".join(f"{c}: {v}" for c, v in zip(names, s, strict=True)) for s in (sizes[-n:], out))
        got = f"input ({a}) {'and ' * (n == 1)}output ({b})"
        raise RuntimeError(f"Input and output sizes should be greater than 0, but got {got}")


def _check_forward(x: ndarray, out: Ints, n: int) -> None:
    check_sizes(x.ndim, x.shape, out, n)
    if x.size == 0 and 0 in x.shape[1:]:
        raise RuntimeError(f"Non-empty {n + 2}D data tensor expected but got a tensor with sizes {shape_text(x.shape)}")


def without_inf(x: ndarray, sizes: Ints, out: Ints) -> ndarray:
    """Turn inf into NaN if a dimension keeps its size: torch then adds 0 times each element to that element."""
    if not any(map(operator.eq, sizes, out)) or np.isfinite(x).all():
        return x
    return np.where(np.isinf(x), x.dtype.type(np.nan), x)


def _by_channels(x: ndarray, out: Ints, mode: str) -> bool:
    """Return whether torch uses its channels_last loop: also for small images, and in linear mode for 3 channels."""
    if mode == "cubic":
        return False
    last = x.shape[1] > 3 and stride_rules.is_channels_last(*stride_rules.layout_of(x))
    return last or (x.ndim == 4 and (sum(out) <= 128 or (mode == "linear" and x.shape[1] == 3)))


def _cpu_name(x: ndarray, out: Ints, name: str, mode: str) -> str:
    return f"{name}_channels_last" if _by_channels(x, out, mode) else f"compute_indices_weights_{mode}"


def interpolated(x, output_size, align, *scales, sampling, averages=False):
    """Resample by weighted means of the input elements around each output element; ``sampling`` computes the weights.

    With ``averages`` the filter is as wide as an output element's extent; dimensions that keep their size are skipped.
    """
    n = len(scales)
    _check_forward(x, output_size, n)
    of_bytes = x.dtype == dt.uint8
    if averages and x.shape[2:] != tuple(output_size):
        require("compute_index_ranges_weights", x.dtype, (dt.float32, dt.float64, dt.uint8))
    if not averages and x.dtype not in dt.FLOATS and not (n == 2 and of_bytes):
        name = f"upsample_{('', 'bi', 'tri')[n - 1]}{sampling.__name__}{n}d"
        raise not_implemented(_cpu_name(x, output_size, name, sampling.__name__), x.dtype)
    weights = dt.float64 if of_bytes else dt.opmath(x.dtype)
    # For half types, torch's general loop stores weights in the half type, but its channels_last loop in float32.
    rounds = dt.is_half(x.dtype) and not averages and not _by_channels(x, output_size, sampling.__name__)
    passes = []
    for d in reversed(range(n)):
        size, out = x.shape[2 + d], output_size[d]
        if size == out and (of_bytes or averages):
            continue
        s = sampling(size, out, align, scales[d], weights)
        if rounds:
            s = _rounded(s, x.dtype)
        if averages and d == 0 and output_size[1] == 1 and not (of_bytes or (is_channels_last(x) and x.shape[1] > 1)):
            # torch treats a column as a row here, and uses the weights of its first element for all elements.
            s = Sampling(*(np.repeat(part[:1], out, 0) for part in (s.index, s.weight, s.count) if part is not None))
        passes.append((2 + d, s))
    sizes = x.shape[2:] if sampling is linear and not of_bytes else ()
    return _result(_sampled(*_needed(x, passes), output_size, sizes), x)


def _needed(x: ndarray, passes: Passes) -> tuple[ndarray, Passes]:
    """Along each axis of which the taps read less than half, keep only the elements that they read."""
    kept = []
    for axis, s in passes:
        if 2 * s.index.size < x.shape[axis]:
            read, index = np.unique(s.index, return_inverse=True)
            x, s = take_slices(x, read, axis), replace(s, index=index.reshape(s.index.shape))
        kept.append((axis, s))
    return x, kept


# Elements of a result; larger ones are computed from a few images at a time, so that they stay in cache.
_LARGE: Threshold = 1 << 17


def _sampled(x: ndarray, passes: Passes, output_size: Ints, sizes: Ints) -> ndarray:
    """Sample along one axis after the other; before that, apply `without_inf` for the input's original ``sizes``."""
    run = sample_bytes if x.dtype == dt.uint8 else sample

    def few(part: ndarray) -> ndarray:
        y = dt.cast(part, dt.opmath(x.dtype))
        y = without_inf(y, sizes, output_size)
        for axis, s in passes:
            y = run(y, axis, s)
        return dt.cast(y, x.dtype)

    def work(part: tuple[slice, slice]) -> None:
        out[part] = few(x[part])

    plane = max(math.prod(output_size), math.prod(x.shape[2:]))
    if x.shape[0] * x.shape[1] * plane < _LARGE:
        return few(x)
    out = np.empty((*x.shape[:2], *output_size), x.dtype)
    channels = list(blocks(x.shape[1], max(_LARGE // plane, 1)))
    # Images with few channels are processed several at a time.
    images = blocks(len(x), max(_LARGE // (plane * x.shape[1]), 1))
    share(work, [(i, part) for i in images for part in channels])
    return out


def _rounded(s: Sampling, dtype: np.dtype) -> Sampling:
    """Round weights to a half type as torch's general loop does; the first of two is 1 minus the rounded second."""
    weight = dt.cast(s.weight, dtype)
    if weight.shape[1] == 2:
        weight[:, 0] = 1 - weight[:, 1]
    return Sampling(s.index, dt.cast(weight, s.weight.dtype), s.count)


def averaged(x: ndarray, *args: Any, mode: str) -> ndarray:
    """Compute `interpolated` with a filter as wide as an output element's extent."""
    return interpolated(x, *args, sampling=functools.partial(antialiased, mode), averages=True)


def _result(y: ndarray, x: ndarray) -> ndarray:
    """Put the result in the input's format; copy if resampling to the same size returned the input itself."""
    y = in_format(y, is_channels_last(x))
    return y.copy("K") if np.may_share_memory(x, y) else y


def copied(x: ndarray, output_size: Ints, *scales: float | None, exact: bool) -> ndarray:
    """Copy one input element to each output element: the nearest to its centre, or the one at or before it."""
    n = len(scales)
    _check_forward(x, output_size, n)
    if x.dtype not in (*dt.FLOATS, dt.uint8):
        raise not_implemented(_cpu_name(x, output_size, f"upsample_nearest{n}d", "nearest"), x.dtype)
    last = is_channels_last(x)
    y, first = (np.moveaxis(x, 1, -1), 1) if last else (x, 2)  # in the order of memory
    shortcut = _by_channels(x, output_size, "nearest")
    at = dt.float64 if x.dtype == dt.float64 and not shortcut else dt.float32  # torch's general loop has doubles
    for d in range(n):
        size, out = x.shape[2 + d], output_size[d]
        if size == out and scales[d] in (None, 1.0):
            continue
        if out % size == 0 and scales[d] in (None, out / size):
            y = np.repeat(y, out // size, first + d)
        else:
            y = take_slices(y, nearest(size, out, scales[d], exact, shortcut, at), first + d)
    return _result(np.moveaxis(y, -1, 1) if last else y, x)


# ---------------------------------------------------------------- declarations


def _by_factors(input: ndarray, output_size: Any, *rest: Any, run: Callable[..., ndarray], dims: int, **given: Any):
    """Run an op with an output size or with scale factors, as ``torch.nn.functional.interpolate`` does.

    ``dims`` is the number of the op's spatial dimensions. An input of another rank is refused only by the op itself, or
    if
    a dimension lacks a factor.
    """
    *align_corners, factors = rest
    n = input.ndim - 2
    check((output_size is None) != (factors is None), "Must specify exactly one of output_size and scale_factors")
    name, given_ = ("scale_factors", factors) if output_size is None else ("output_size", output_size)
    if len(given_) != n:
        raise expected_true(f"static_cast<int64_t>({name}->size()) == spatial_dimensions")
    if factors is not None:
        output_size = [int(s * f) for s, f in zip(input.shape[2:], factors, strict=True)]
        if n < dims:
            raise RuntimeError(f"ArrayRef: invalid index Index = {n}; Length = {n}")
    return run(input, output_size, *align_corners, *([None] * dims if factors is None else factors[:dims]), **given)


_NEAREST = "Nearest-neighbour resampling of a sequence, image or volume: each output element copies the input element"
_SHRINKS = "antialiased when it shrinks."


def _precheck_lone(bound: Bound, outs: list[ndarray]) -> None:
    """If the input is 3-d with length 1, refuse an ``out=`` that partly overlaps it.

    torch then uses TensorIterator, which checks this.
    """
    x, (out,) = bound["self"], outs
    if x.ndim == 3 and x.shape[2] == 1 and out.shape == x.shape and out.dtype == x.dtype:
        check_apart(out, x)


_LONE = WriteSpec(out=_precheck_lone)


def _resampling(names: str, run: Callable[..., ndarray], doc: str, differs: Sequence[str] = (), **given: Any) -> None:
    """Declare the ops of one way to resample, and their ``.vec`` overloads with output size or scale factors."""
    rows(names, run, doc, differs=differs, writes=_LONE, **given)
    doc = "The op of the same name, given an output size or scale factors."
    for name in names.split():
        dims = next(int(c) for c in name if c.isdigit())
        rows(f"{name}.vec", _by_factors, doc, run=run, dims=dims, **given)


_NAMES, _DOC = "upsample_nearest1d upsample_nearest2d upsample_nearest3d", f"{_NEAREST} at or before its position."
_resampling(_NAMES, copied, _DOC, ["nearest-floor", "upsample-scales"], exact=False)
_NAMES = "_upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d"
_resampling(_NAMES, copied, f"{_NEAREST} nearest to its centre.", ["upsample-scales"], exact=True)
_NAMES, _DOC = "upsample_linear1d upsample_bilinear2d upsample_trilinear3d", "Linear interpolation of a sequence,"
_resampling(_NAMES, interpolated, f"{_DOC} image or volume.", ["align-corners", "upsample-scales"], sampling=linear)
_DOC, _DIFFERS = "Cubic interpolation of an image (a = -0.75).", ["cubic-coefficient", "upsample-scales"]
_resampling("upsample_bicubic2d", interpolated, _DOC, _DIFFERS, sampling=cubic)
_resampling("_upsample_bilinear2d_aa", averaged, f"Linear interpolation of an image, {_SHRINKS}", mode="bilinear")
_DOC = f"Cubic interpolation of an image (a = -0.5), {_SHRINKS}"
_resampling("_upsample_bicubic2d_aa", averaged, _DOC, ["cubic-coefficient"], mode="bicubic")
_resampling("_upsample_lanczos2d_aa", averaged, f"Lanczos interpolation of an image, {_SHRINKS}", mode="lanczos")
