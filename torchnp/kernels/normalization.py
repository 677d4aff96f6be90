"""Layer, group, root-mean-square and weight normalisation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import broadcast_shapes, check, check_type, dim_of, require, wrap_dim, wrap_dims
from torchnp.core.errors import expected_true, negative_size, shape_text
from torchnp.core.fast_path import exact, is_float
from torchnp.core.python_scalars import scalar
from torchnp.core.registry import kernel
from torchnp.core.target import since
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._reduction import TILE, add_reduce, row_dots, row_sums, share_tiles
from torchnp.kernels._spatial import is_channels_last
from torchnp.kernels.numerics.fma import fma
from torchnp.kernels.numerics.vector_tails import VECTOR
from torchnp.layout import stride_rules
from torchnp.layout.apply import is_plain
from torchnp.thresholds import Threshold

ndarray = np.ndarray

SMALL: Threshold = 1 << 16  # elements; up to here half types round exactly as in torch, larger inputs are faster


def mixed(x: ndarray, *parameters: ndarray | None) -> bool:
    """Return whether ``x`` has a half type and the parameters have float32, the only mixture that torch accepts."""
    given = [p for p in parameters if p is not None]
    if not given or given[0].dtype == x.dtype:
        return False
    for p in given:
        check(p.dtype == dt.float32, "mixed dtype (CPU): expect parameter to have scalar type of Float")
    check(dt.opmath(x.dtype) == dt.float32 != x.dtype, "mixed dtype (CPU): all inputs must share same datatype.")
    return True


def check_kernel(name: str, x: ndarray, *parameters: ndarray | None) -> None:
    """Raise torch's error if its kernel lacks the dtype of ``x``, or if a parameter's dtype does not go with it."""
    require(name, x.dtype, dt.FLOATS)
    given = [p for p in parameters if p is not None]
    if given and (given[0].dtype == x.dtype or given[0].dtype != dt.opmath(x.dtype)):
        check_type(x.dtype, *given)


def inner(x: ndarray | None) -> Any:
    """Cast a tensor to the dtype in which torch computes (opmath)."""
    return None if x is None else dt.cast(x, dt.opmath(x.dtype))


def channels_last(x: ndarray) -> bool:
    return x.transpose(0, *range(2, x.ndim), 1).flags.c_contiguous


_add: Any = np.add.reduce
_LIMITS = {np.dtype(d): (np.finfo(d).eps, np.finfo(d).max / 8) for d in (np.float32, np.float64)}


def centred(x: ndarray, vector: int) -> tuple[ndarray, ndarray, ndarray, bool]:
    """Return the centred rows, their means and variances, all 2-d, and whether torch's order of operations matters."""
    n = x.dtype.type(x.shape[1])
    mean = (row_sums(x) if x.size > TILE // 4 and x.flags.c_contiguous else _add(x, 1, None, None, True)) / n
    d = x - mean
    variance = row_dots(d, d)[:, None] / n
    least, most = _LIMITS[x.dtype]
    plain = (variance > least * mean * mean) & (variance <= most / n)
    shown = n <= SMALL and not plain.all()
    if shown:  # equal numbers, overflow or nan: the result depends on torch's order of operations
        rows = ~plain[:, 0]
        mean[rows], squares = _moments(x[rows], vector)
        d[rows], variance[rows] = x[rows] - mean[rows], squares / n
    return d, mean, variance, shown


def _moments(x: ndarray, vector: int) -> tuple[ndarray, ndarray]:
    """Return each row's mean and sum of squared deviations: updated per SIMD lane, then the lanes are merged."""
    n, lanes = x.shape[1], VECTOR.elements(x.dtype)
    whole = x[:, : n - n % vector].reshape(len(x), -1, vector // lanes, lanes)
    nothing = 0, np.zeros((len(x), lanes), x.dtype), np.zeros((len(x), lanes), x.dtype)
    levels: list[_Part] = [nothing]
    for chunk, start in enumerate(range(0, whole.shape[1], 16), 1):
        for half in range(vector // lanes):
            levels[0] = _joined(levels[0], _stepped(whole[:, start : start + 16, half]))
        levels.append(nothing)
        for level in range(1, len(levels)):  # carry as in a binary counter
            if chunk % (1 << level):
                break
            levels[level], levels[level - 1] = _joined(levels[level], levels[level - 1]), nothing
    total = levels[0]
    for part in levels[1:]:
        total = _joined(total, part)
    row = _stepped(x[:, n - n % vector :, None], alone=True)
    for i in range(lanes):
        row = _joined(row, (total[0], total[1][:, i : i + 1], total[2][:, i : i + 1]), alone=True)
    return row[1:]


_Part = tuple[int, ndarray, ndarray]  # element count, means and sums of squared deviations


def _stepped(x: ndarray, alone: bool = False) -> _Part:
    """Reduce axis 1 with a running mean.

    torch's vector code multiplies by 1 / n in an FMA; its scalar code (``alone``) divides by n.
    """
    mean = squares = np.zeros(x.shape[::2], x.dtype)
    for i in range(x.shape[1]):
        d, n = x[:, i] - mean, x.dtype.type(i + 1)
        mean = mean + d / n if alone else fma(d, 1 / n, mean)
        rest = x[:, i] - mean
        squares = squares + d * rest if alone else fma(d, rest, squares)
    return x.shape[1], mean, squares


def _joined(a: _Part, b: _Part, alone: bool = False) -> _Part:
    """Merge two parts as torch's vector code does, or (``alone``) merge one lane into the scalar part."""
    if not alone and not (a[0] and b[0]):
        return a if a[0] else b
    kind, n = a[1].dtype.type, a[0] + b[0]
    share, d = kind(b[0]) / kind(max(n, 1)), b[1] - a[1]
    if alone:
        return n, fma(d, share, a[1]), a[2] + fma(d * d * share, kind(a[0]), b[2])
    return n, a[1] + share * d, a[2] + b[2] + d * d * share * kind(a[0])


_REPEATED: Threshold = 1 << 16  # elements of a parameter's row repeated by `_repeated`


def _repeated(p: ndarray | None, x: ndarray) -> Any:
    """Repeat a parameter's row up to ``_REPEATED`` elements if ``x`` has many rows, which avoids broadcasting."""
    if p is None:
        return None
    step, row = _REPEATED // x.shape[1], inner(p).reshape(1, -1)
    return np.tile(row, (step, 1)) if len(x) >= 2 * step > 2 else row


def by_rows(ufunc: np.ufunc, x: ndarray, rows: ndarray) -> None:
    """Apply a ufunc to each row of ``x`` and one parameter row, in place; ``rows`` holds that row once or more."""
    if len(rows) > 1 and len(x) % len(rows) == 0:
        x = x.reshape(-1, *rows.shape)
    elif len(x) < len(rows):
        rows = rows[: len(x)]
    else:
        rows = rows[0]
    ufunc(x, rows, x)


def check_layer(x: ndarray, normalized_shape: Any, weight: Any, bias: Any = None, lead: str = ", ") -> int:
    """Check the shapes as torch does; return the number of normalised elements."""
    shape = tuple(normalized_shape)
    words = "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got"
    check(shape, f"{words} normalized_shape = []")
    for name, p in (("weight", weight), ("bias", bias)):
        if p is not None and p.shape != shape:
            found = f"{shape_text(p.shape)} and normalized_shape = {shape_text(shape)}"
            words = f"Expected {name} to be of same shape as normalized_shape, but got"
            raise RuntimeError(f"{words} {name} of shape {found}")
    if x.ndim < len(shape) and not lead:  # only rms_norm passes an empty lead
        raise ValueError(f"Input tensor must have at least {len(shape)} dimensions, but got {x.ndim}")
    if x.ndim < len(shape) or x.shape[x.ndim - len(shape) :] != shape:
        words = f"Given normalized_shape={shape_text(shape)}, expected input with shape [*{lead}{shape_text(shape)[1:]}"
        raise RuntimeError(f"{words}, but got input of size{shape_text(x.shape)}")
    return math.prod(shape)


# The fast path's limits. They are low because the fast path checks means and variances as Python numbers.
_FEW_ROWS: Threshold = 64
_FEW: Threshold = 1 << 12  # elements


def are_ordinary(mean: ndarray, variance: ndarray, n: int) -> bool:
    """Return whether no row needs torch's order of operations; limits are twice as strict as those of `centred`."""
    least, most = map(float, _LIMITS[mean.dtype])
    least, most = 2 * least, most / (2 * n)
    return all(least * m * m < v < most for m, v in zip(mean.ravel().tolist(), variance.ravel().tolist()))


def _quick_layer_norm(input, normalized_shape, weight, bias, eps):
    """Compute layer norm of a few dense rows with weight and bias; return None for other arguments."""
    if not is_float(input) or not is_plain(input) or input.size > _FEW or type(eps) is not float:
        return None
    if not type(weight) is type(bias) is ndarray or type(normalized_shape) not in (list, tuple):
        return None
    dtype, shape = input.dtype, tuple(normalized_shape)
    before = input.ndim - len(shape)
    if not shape or before < 0 or not input.shape[before:] == shape == weight.shape == bias.shape:
        return None
    if weight.dtype is not dtype or bias.dtype is not dtype:
        return None
    n, one = weight.size, scalar(1, dtype)
    x, count = input.reshape(-1, n), scalar(n, dtype)
    if len(x) > _FEW_ROWS:
        return None
    mean = _add(x, 1, None, None, True)
    np.divide(mean, count, mean)
    y = np.subtract(x, mean)
    rstd = row_dots(y, y).reshape(-1, 1)
    np.divide(rstd, count, rstd)
    if not are_ordinary(mean, rstd, n):
        return None
    np.add(rstd, scalar(eps, dtype), rstd)
    np.sqrt(rstd, rstd)
    np.divide(one, rstd, rstd)
    np.multiply(y, rstd, y)
    np.multiply(y, weight.reshape(n), y)
    np.add(y, bias.reshape(n), y)
    kept = (*input.shape[:before], *(1,) * len(shape))
    return y.reshape(input.shape), mean.reshape(kept), rstd.reshape(kept)


@kernel("native_layer_norm", differs=["half-opmath"], quick=exact(_quick_layer_norm, placed=True))
def native_layer_norm(input, normalized_shape, weight, bias, eps):
    """Layer norm: (row - mean) / deviation * weight + bias; also the means and 1 / deviation."""
    stats = dt.float32 if mixed(input, weight, bias) else input.dtype
    n = check_layer(input, normalized_shape, weight, bias)
    check_kernel("LayerNormKernelImpl", input, weight, bias)
    x = inner(input).reshape(input.size // n if n else math.prod(input.shape[: -len(normalized_shape)]), n)
    kept = input.shape[: input.ndim - len(normalized_shape)] + (1,) * len(normalized_shape)
    if n == 0:
        return np.empty(input.shape, input.dtype), np.zeros(kept, stats), np.full(kept, np.nan, stats)
    scale, shift = _repeated(weight, x), _repeated(bias, x)
    if shift is None:  # without a bias torch adds 0, which turns -0 into 0
        shift = np.zeros((1, 1), x.dtype)
    y, mean, rstd = np.empty_like(x), np.empty((len(x), 1), x.dtype), np.empty((len(x), 1), x.dtype)

    def normalise(block: slice) -> None:
        d, mean[block], variance, _ = centred(x[block], VECTOR.elements(input.dtype))
        rstd[block] = 1 / np.sqrt(variance + x.dtype.type(eps))
        row = np.multiply(d, rstd[block], y[block])
        if input.itemsize == 2 and x.size <= SMALL:  # for half types torch computes x * rstd - mean * rstd with one FMA
            shifted = np.float64(-mean[block] * rstd[block])
            row[...] = x[block].astype(np.float64) * rstd[block] + shifted
        if scale is not None:
            by_rows(np.multiply, row, scale)
        if shift is not None:
            by_rows(np.add, row, shift)

    share_tiles(normalise, *x.shape)
    out = dt.cast(y.reshape(input.shape), input.dtype)
    return out, dt.cast(mean.reshape(kept), stats), dt.cast(rstd.reshape(kept), stats)


rows("layer_norm", native_layer_norm, "Layer normalization.", part=0, by_name=True, differs=["half-opmath"])


@kernel("_fused_rms_norm", differs=["half-opmath"])
def _fused_rms_norm(input, normalized_shape, weight, eps):
    """RMS norm: each row divided by its root mean square, times weight; also 1 / root mean square."""
    require("rms_norm", input.dtype, (*dt.FLOATS, dt.complex64, dt.complex128))
    x = inner(input)
    axes = tuple(range(x.ndim - len(normalized_shape), x.ndim)) or tuple(range(x.ndim))  # torch uses only the length
    if axes[:1] < (0,):
        axes = wrap_dims(axes[::-1], x.ndim) if x.ndim or len(axes) > 1 else ()
    n = math.prod(x.shape[a] for a in axes)
    real = dt.to_real(x.dtype)
    eps = np.finfo(real).eps if eps is None else eps
    mean_square = add_reduce(x * x, axes, True) / real.type(n)
    with np.errstate(all="ignore"):  # torch adds 1 * eps, and a complex 1 times infinity is nan
        more = real.type(eps) if real == x.dtype else x.dtype.type(1) * x.dtype.type(eps)
    rstd = (1 / np.sqrt(mean_square + more)).astype(x.dtype)
    y = x * rstd
    if weight is not None:
        broadcast_shapes(y.shape, weight.shape)
        common = dt.result_type(y, weight)  # torch's promotion, in which a 0-d input does not decide the dtype
        y = dt.cast(dt.cast(y, common) * dt.cast(weight, common), y.dtype)
    return stride_rules.place(dt.cast(y, input.dtype), _as_products(input, rstd.shape, weight)), rstd


def _as_products(x: ndarray, kept: tuple[int, ...], weight: ndarray | None) -> stride_rules.Strides:
    """Return the strides that TensorIterator gives ``x * rstd * weight``; row-major if x is not channels-last."""
    shape, own = stride_rules.layout_of(x)
    wide = dt.opmath(x.dtype)
    rows_as = shape, own if x.dtype == wide else stride_rules.preserved(shape, own)
    found = shape, stride_rules.iterated((rows_as, (kept, stride_rules.contiguous(kept))))
    if weight is not None:
        by, common = stride_rules.layout_of(weight), dt.promote_types(wide, weight.dtype)
        parts = ((found, wide), (by, weight.dtype))
        parts_as = [at if dtype == common else (at[0], stride_rules.preserved(*at)) for at, dtype in parts]
        shape = np.broadcast_shapes(shape, weight.shape)
        found = shape, stride_rules.iterated(parts_as)
    as_it_is = (
        stride_rules.is_contiguous(*found) or stride_rules.suggested(*stride_rules.layout_of(x)) != "contiguous_format"
    )
    return found[1] if as_it_is else stride_rules.contiguous(shape)


@kernel("rms_norm", differs=["half-opmath"])
def rms_norm(input, normalized_shape, weight=None, eps=None):
    """Root-mean-square normalisation."""
    check_layer(input, normalized_shape, weight, lead="")
    return _fused_rms_norm(input, normalized_shape, weight, eps)[0]


def check_group(x: ndarray, weight: Any, bias: Any, channels: int, group: int, points: int) -> None:
    if since("2.14"):
        check(channels > 0, f"Expected number of channels to be greater than 0, got {channels}")
        check(points > 0, f"Expected HxW to be greater than 0, got {points}")
    check(group > 0, f"Expected num groups to be greater than 0, got {group}")
    words = "Expected number of channels in input to be divisible by num_groups, but got input of shape"
    check(channels % group == 0, f"{words} {shape_text(x.shape)} and num_groups={group}")
    for name, p in (("weight", weight), ("bias", bias)):
        of = p
        if not since("2.14"):  # the message about the bias had the weight's shape
            of = weight
        words = f"Expected {name} to be a vector of size equal to the number of channels in input, but got"
        found = (
            f"{name} of shape {shape_text((0,) if of is None else of.shape)} and input of shape {shape_text(x.shape)}"
        )
        check(p is None or p.shape == (channels,), f"{words} {found}")


def _in_format(x: ndarray) -> bool:
    """Return whether a tensor is dense in the memory format that its strides suggest."""
    return channels_last(x) if is_channels_last(x) else bool(x.flags.c_contiguous)


@kernel("native_group_norm", differs=["half-opmath"])
def native_group_norm(input, weight, bias, N, C, HxW, group, eps):
    """Layer norm over each of ``group`` groups of channels; also the means and 1 / deviation."""
    check_group(input, weight, bias, C, group, HxW)
    if since("2.14"):
        input = input if _in_format(input) else np.ascontiguousarray(input)
    check(_in_format(input), expected_true("X.is_contiguous(memory_format)"))
    stats = dt.float32 if mixed(input, weight, bias) else input.dtype
    check(N >= 0, negative_size(N, (N, group)))
    require("GroupNormKernelImpl", input.dtype, dt.FLOATS)
    nothing = N == 0 if since("2.14") else not input.size
    check(input.size == N * C * HxW or (nothing and since("2.14")), expected_true("X.numel() == N * C * HxW"))
    check_kernel("GroupNormKernelImpl", input, weight, bias)
    if nothing:
        empty = np.zeros((N, group), stats)
        return np.empty(input.shape, input.dtype), empty, np.full((N, group), np.nan, stats)
    y, mean, variance, shown = centred(inner(input).reshape(N * group, -1), VECTOR.elements(input.dtype))
    by_pixel = is_channels_last(input) and not input.flags.c_contiguous
    if by_pixel:  # torch's variance is mean(x**2) - mean**2 here, which overflows to inf or nan
        square = (variance.astype(np.float64) + np.square(mean, dtype=np.float64)) * y[0].size
        large = square > np.finfo(y.dtype).max
        variance[large] = np.inf - np.square(mean[large])
        by_pixel = bool(large.any())
    rstd = np.asarray(1 / np.sqrt(np.add(variance, eps, dtype=np.float64)), y.dtype)
    affine = weight is not None or bias is not None
    if (shown and affine) or by_pixel:  # torch applies one scale and shift per channel
        parts = group, -1, 1
        scale = rstd.reshape(-1, group, 1, 1)
        scale = scale if weight is None else scale * inner(weight).reshape(parts)
        shift = y.dtype.type(0) if bias is None else inner(bias).reshape(parts)
        shift = fma(-scale, mean.reshape(-1, group, 1, 1), shift)
        y = fma(inner(input).reshape(-1, group, C // group, abs(HxW)), scale, shift)
    else:
        np.multiply(y, rstd, y)
        y = y.reshape(abs(N), abs(C), abs(HxW))  # torch accepts two negative sizes: their product is positive
        if weight is not None:
            np.multiply(y, inner(weight).reshape(C, 1), y)
        if affine:  # without a bias torch adds 0 after the weight, which turns -0 into 0
            np.add(y, y.dtype.type(0) if bias is None else inner(bias).reshape(C, 1), y)
    y = dt.cast(y.reshape(input.shape), input.dtype)
    return y, dt.cast(mean.reshape(N, group), stats), dt.cast(rstd.reshape(N, group), stats)


@kernel("group_norm", differs=["half-opmath"])
def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
    """Group normalisation."""
    dim_of(input, 0)
    wrap_dim(1, input.ndim)
    n, channels = input.shape[:2]
    check_group(input, weight, bias, channels, num_groups, math.prod(input.shape[2:]))
    input = input if _in_format(input) else np.ascontiguousarray(input)
    return native_group_norm(input, weight, bias, n, channels, math.prod(input.shape[2:]), num_groups, eps)[0]


def _squares_of_rows(rows: ndarray) -> ndarray:
    """Return the sum of each row's squares in torch's order: one lane for each element of a 32-byte vector."""
    lanes, n = 32 // rows.itemsize, rows.shape[1]
    squares, whole = rows * rows, n - n % lanes
    sums = np.add.reduce(squares[:, :whole].reshape(len(rows), whole // lanes, lanes), 1)
    sums[:, : n - whole] += squares[:, whole:]
    while sums.shape[1] > 1:
        first, second = np.split(sums, 2, 1)
        sums = first + second
    return sums


@kernel("_weight_norm_interface", differs=["half-opmath"])
def _weight_norm_interface(v, g, dim=0):
    """v * g / |v| with one norm for each slice along ``dim`` (the first or last dimension); also the norms."""
    require("weight_norm_kernel", v.dtype, dt.FLOATS)
    check_type(v.dtype, g)
    x = inner(v)
    axes = tuple(i for i in range(v.ndim) if i != wrap_dim(dim, v.ndim))
    if 0 not in axes and v.dtype in (dt.float32, dt.float64):
        rows = np.ascontiguousarray(x).reshape(len(x), math.prod(x.shape[1:]))
        norms = np.sqrt(_squares_of_rows(rows)).reshape(-1, *[1] * (v.ndim - 1))
    else:
        norms = np.sqrt(add_reduce(x * x, axes, True))
    scale = inner(g).reshape(-1)[: norms.size].reshape(norms.shape) / norms  # torch does not check g's shape
    return dt.cast(x * scale, v.dtype), norms.reshape(g.shape) if g.size == norms.size else norms


_DOC = "v * g / |v| with one norm for each slice along ``dim``."
rows("_weight_norm", _weight_norm_interface, _DOC, part=0, differs=["half-opmath"])
