"""Resampling: nearest, linear, cubic, and their antialiased forms.

Every mode but nearest is a sum over a few input elements for each output element, one dimension after the other:
`Sampling` holds their positions and weights.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, require
from torchnp.core.errors import expected_true, not_implemented, shape_text
from torchnp.core.write_spec import Bound, WriteSpec
from torchnp.kernels._spatial import Ints, in_format, is_channels_last
from torchnp.kernels._table_rows import rows
from torchnp.kernels.numerics.fma import fast_fma, fma
from torchnp.layout import stride_rules
from torchnp.layout.overlap import check_apart
from torchnp.threads import blocks, share
from torchnp.thresholds import Threshold

ndarray = np.ndarray


@dataclass(frozen=True)
class Sampling:
    """For each output element along one dimension, which input elements count and how much: (out, taps) each."""

    index: ndarray
    weight: ndarray
    count: ndarray | None = None  # the number of taps of each element, if not all


# ---------------------------------------------------------------- where samples lie


def scale_of(size: int, out: int, align_corners: bool, scale: float | None, dtype: np.dtype) -> np.number:
    """Input steps for one output step; a passed scale factor wins over the sizes."""
    if align_corners:
        return dtype.type(size - 1) / dtype.type(out - 1) if out > 1 else dtype.type(0)
    if scale is not None and scale > 0:
        return dtype.type(1.0 / scale)
    return dtype.type(size) / dtype.type(out)


def positions(
    size: int, out: int, align_corners: bool, scale: float | None, dtype: np.dtype, fused: bool = True
) -> ndarray:
    """Where output elements lie between input elements; only some of torch's files are compiled to fused steps."""
    step = scale_of(size, out, align_corners, scale, dtype)
    at = np.arange(out, dtype=dtype)
    if align_corners:
        return step * at
    half = dtype.type(0.5)
    return fma(at + half, float(step), -0.5) if fused else (at + half) * step - half


@functools.lru_cache(maxsize=256)
def nearest(size: int, out: int, scale: float | None, exact: bool, shortcut: bool = False) -> ndarray:
    """Index of the input element that each output element copies; ``shortcut``: copy or double as some torch loops."""
    if shortcut and not exact and out in (size, 2 * size):
        return np.arange(out) // (out // size)
    at = np.arange(out, dtype=np.float32)
    step = np.float32(scale_of(size, out, False, scale, dt.float32))
    index = np.floor((at + np.float32(0.5)) * step if exact else at * step).astype(np.int64)
    return np.minimum(index, size - 1)


def _floor(at: ndarray) -> ndarray:
    """Positions rounded down; torch rounds those in double to float before, far from 0 to the next whole number."""
    return np.floor(at.astype(np.float32))


@functools.lru_cache(maxsize=256)
def linear(size: int, out: int, align_corners: bool, scale: float | None, dtype: np.dtype) -> Sampling:
    """Linear interpolation of the two neighbours."""
    if size == out:
        return Sampling(np.arange(out)[:, None], np.ones((out, 1), dtype))
    at = np.maximum(positions(size, out, align_corners, scale, dtype), dtype.type(0))
    low = np.minimum(_floor(at).astype(np.int64), size - 1)
    share = np.clip(at - low.astype(dtype), 0, 1).astype(dtype)
    high = np.minimum(low + 1, size - 1)
    return Sampling(np.stack([low, high], 1), np.stack([1 - share, share], 1))


def _inner(x: ndarray, a: np.number, fused: Callable[..., ndarray] = fast_fma) -> ndarray:
    """The cubic weight of a neighbour at a distance up to 1, in the steps of torch's compiled code."""
    one = x.dtype.type(1)
    return fused(fused(x, a + 2 * one, -(a + 3 * one)) * x, x, one)


def _outer(x: ndarray, a: np.number, fused: Callable[..., ndarray] = fast_fma) -> ndarray:
    """The cubic weight of a neighbour at a distance from 1 to 2."""
    return fused(fused(fused(x, a, -5 * a), x, 8 * a), x, -4 * a)


@functools.lru_cache(maxsize=256)
def cubic(
    size: int, out: int, align_corners: bool, scale: float | None, dtype: np.dtype, fused: bool = True
) -> Sampling:
    """Cubic convolution of four neighbours, with a = -0.75; the edge stands for neighbours outside."""
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
    # Rounded once in double precision too: the remainder of a weight of 0 then turns an infinity into nan.
    return np.where(x < 1, _inner(x, a, fma), np.where(x < 2, _outer(x, a, fma), 0))


_FILTERS: dict[str, tuple[Callable[[ndarray], ndarray], int]] = {
    "bilinear": (lambda x: np.maximum(1 - np.abs(x), 0), 2),
    "bicubic": (_keys, 4),
    "lanczos": (lambda x: np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0), 6),
}  # fmt: skip


@functools.lru_cache(maxsize=256)
def antialiased(mode: str, size: int, out: int, align_corners: bool, scale: float | None, dtype: np.dtype) -> Sampling:
    """All elements under a filter that is stretched when shrinking; weights add up to one."""
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


MANY_TAPS: Threshold = 64  # of an output element; fewer are added in torch's order


def _sample_by_product(x: ndarray, axis: int, s: Sampling) -> ndarray:
    """`sample` of many taps: a product with the part of the input that each output element has weights for."""
    out = np.empty((*x.shape[:axis], len(s.index), *x.shape[axis + 1 :]), x.dtype)
    for i, (index, weight) in enumerate(zip(s.index, s.weight, strict=True)):
        taps = len(index) if s.count is None else max(int(s.count[i]), 0)
        own = slice(index[0], index[0] + taps)
        part = np.moveaxis(x[(slice(None),) * axis + (own,)], axis, -1)
        out[(slice(None),) * axis + (i,)] = part @ weight[: part.shape[-1]].astype(x.dtype)
    return out


def sample(x: ndarray, axis: int, s: Sampling) -> ndarray:
    """Weighted sums along one axis."""
    if s.index.shape[1] == 1 and (s.weight == 1).all():
        return x if np.array_equal(s.index[:, 0], np.arange(x.shape[axis])) else x.take(s.index[:, 0], axis)
    if s.index.shape[1] > max(MANY_TAPS, len(s.index)):
        return _sample_by_product(x, axis, s)
    shape = (-1, *[1] * (x.ndim - 1 - axis))
    y = x.take(s.index[:, 0], axis)
    y *= s.weight[:, 0].reshape(shape)
    if s.count is not None:  # a given scale factor may move past all of the input
        y[(slice(None),) * axis + (s.count <= 0,)] = 0
    for k in range(1, s.index.shape[1]):
        part = x.take(s.index[:, k], axis)
        part *= s.weight[:, k].reshape(shape)
        if s.count is not None:  # beyond a row's own taps there is nothing, not 0 * inf
            part[(slice(None),) * axis + (k >= s.count,)] = -0.0
        y += part
    return y


def sample_bytes(x: ndarray, axis: int, s: Sampling) -> ndarray:
    """`sample` for uint8 as Pillow does it: 16-bit integer weights, each pass rounded to bytes."""
    if s.index.shape[1] == 1 and (s.weight == 1).all():
        return sample(x, axis, s)
    weight = s.weight.copy()
    for k in range(1, weight.shape[1] if s.count is None else 0):  # taps clamped to the edge are one, rounded once
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


DENSE: Threshold = 1 << 20  # elements of a matrix of weights, most of which are 0


def _unsample_sparse(g: ndarray, axis: int, size: int, s: Sampling) -> ndarray:
    """`unsample` between long axes: by the weights that are not 0."""
    from scipy.sparse import csr_array

    weight = s.weight if s.count is None else np.where(np.arange(s.index.shape[1]) < s.count[:, None], s.weight, 0)
    columns = np.broadcast_to(np.arange(len(s.index))[:, None], s.index.shape)
    matrix = csr_array((weight.reshape(-1), (s.index.reshape(-1), columns.reshape(-1))), (size, len(s.index)))
    turned = np.moveaxis(g, axis, 0)
    out = matrix @ turned.reshape(len(s.index), -1)
    return np.ascontiguousarray(np.moveaxis(out.reshape(size, *turned.shape[1:]), 0, axis))


def unsample(g: ndarray, axis: int, size: int, s: Sampling) -> ndarray:
    """The adjoint of `sample`: every output element gives its shares back."""
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
    """Turn inf into NaN where a dimension keeps its size: torch adds 0 times each element to itself."""
    if not any(map(operator.eq, sizes, out)) or np.isfinite(x).all():
        return x
    return np.where(np.isinf(x), x.dtype.type(np.nan), x)


def _by_channels(x: ndarray, out: Ints, mode: str) -> bool:
    """Return whether torch takes its channels_last loop: also for small images, and in linear mode for 3 channels."""
    if mode == "cubic":
        return False
    last = x.shape[1] > 3 and stride_rules.is_channels_last(*stride_rules.layout_of(x))
    return last or (x.ndim == 4 and (sum(out) <= 128 or (mode == "linear" and x.shape[1] == 3)))


def _cpu_name(x: ndarray, out: Ints, name: str, mode: str) -> str:
    return f"{name}_channels_last" if _by_channels(x, out, mode) else f"compute_indices_weights_{mode}"


def interpolated(x, output_size, align, *scales, sampling, averages=False):
    """Weighted means of the input elements around each output element; ``sampling`` chooses them.

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
    # torch's loop over any number of taps keeps half weights in the half type, its channels_last loop in float32.
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
            # torch takes a column for a row here, and uses the weights of its first element all along.
            s = Sampling(*(np.repeat(part[:1], out, 0) for part in (s.index, s.weight, s.count) if part is not None))
        passes.append((2 + d, s))
    return _result(_sampled(x, output_size, passes, sampling is linear and not of_bytes), x)


_LARGE: Threshold = (
    1 << 17
)  # elements of a result from which on a few images at a time are sampled, so that they stay in cache


def _sampled(x: ndarray, output_size: Ints, passes: list[tuple[int, Sampling]], loses_inf: bool) -> ndarray:
    """Sample along one axis after the other; ``loses_inf``: torch multiplies inf by 0 where a dimension keeps its size."""
    run = sample_bytes if x.dtype == dt.uint8 else sample

    def few(part: ndarray) -> ndarray:
        y = dt.cast(part, dt.opmath(x.dtype))
        if loses_inf:
            y = without_inf(y, x.shape[2:], output_size)
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
    images = blocks(len(x), max(_LARGE // (plane * x.shape[1]), 1))  # of few channels, several at a time
    share(work, [(i, part) for i in images for part in channels])
    return out


def _rounded(s: Sampling, dtype: np.dtype) -> Sampling:
    """Round the weights as torch's loop over any number of taps does: of two, the first is 1 minus the second."""
    weight = dt.cast(s.weight, dtype)
    if weight.shape[1] == 2:
        weight[:, 0] = 1 - weight[:, 1]
    return Sampling(s.index, dt.cast(weight, s.weight.dtype), s.count)


def averaged(x: ndarray, *args: Any, mode: str) -> ndarray:
    """`interpolated` with a filter as wide as an output element's extent."""
    return interpolated(x, *args, sampling=functools.partial(antialiased, mode), averages=True)


def _result(y: ndarray, x: ndarray) -> ndarray:
    """Put the result in the input's format; copy if resampling to the same size returned the input itself."""
    y = in_format(y, is_channels_last(x))
    return y.copy("K") if np.may_share_memory(x, y) else y


def copied(x: ndarray, output_size: Ints, *scales: float | None, exact: bool) -> ndarray:
    """Copy one input element to each output element: the nearest to its centre, or that at or before its position."""
    n = len(scales)
    _check_forward(x, output_size, n)
    if x.dtype not in (*dt.FLOATS, dt.uint8):
        raise not_implemented(_cpu_name(x, output_size, f"upsample_nearest{n}d", "nearest"), x.dtype)
    y = x
    shortcut = _by_channels(x, output_size, "nearest")
    for d in range(n):
        size, out = x.shape[2 + d], output_size[d]
        if size == out and scales[d] in (None, 1.0):
            continue
        if out % size == 0 and scales[d] in (None, out / size):
            y = np.repeat(y, out // size, 2 + d)
        else:
            y = y.take(nearest(size, out, scales[d], exact, shortcut), 2 + d)
    return _result(y, x)


# ---------------------------------------------------------------- rows


def _by_factors(input: ndarray, output_size: Any, *rest: Any, run: Callable[..., ndarray], dims: int, **given: Any):
    """Run the op by output size or scale factors over ``dims``, as ``torch.nn.functional.interpolate`` does.

    An input of another rank is refused only by the op itself, or where a dimension lacks a factor.
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


_NEAREST = "Nearest-neighbour resampling of a sequence, image or volume: each element copies the one"
_SHRINKS = "antialiased when it shrinks."


def _precheck_lone(bound: Bound, outs: list[ndarray]) -> None:
    """Refuse overlap with sequences of one element, which torch reads through TensorIterator."""
    x, (out,) = bound["self"], outs
    if x.ndim == 3 and x.shape[2] == 1 and out.shape == x.shape and out.dtype == x.dtype:
        check_apart(out, x)


_LONE = WriteSpec(out=_precheck_lone)


def _resampling(names: str, run: Callable[..., ndarray], doc: str, differs: Sequence[str] = (), **given: Any) -> None:
    """Declare the ops of one way to resample, and their overloads by output size or scale factors."""
    rows(names, run, doc, differs=differs, writes=_LONE, **given)
    doc = "The op of the same name, given an output size or scale factors."
    for name in names.split():
        dims = next(int(c) for c in name if c.isdigit())
        rows(f"{name}.vec", _by_factors, doc, run=run, dims=dims, **given)


_NAMES, _DOC = "upsample_nearest1d upsample_nearest2d upsample_nearest3d", f"{_NEAREST} at or before its place."
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
