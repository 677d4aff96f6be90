"""Batch and instance normalisation with running statistics, and batch norm split for several processes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, check_fits, check_type, dim_of, refuse, require, wrap_dim
from torchnp.core.errors import mean_of, shape_text
from torchnp.core.fast_path import exact
from torchnp.core.inplace_out_spec import Bound, WriteSpec
from torchnp.core.python_scalars import scalar
from torchnp.core.registry import kernel
from torchnp.core.target import since
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._reduction import add_reduce, row_dots
from torchnp.kernels.arithmetic import add, mul
from torchnp.kernels.normalization import channels_last, check_kernel, inner, mixed
from torchnp.kernels.rearrange import repeat
from torchnp.kernels.slicing import select
from torchnp.kernels.view import view
from torchnp.layout.apply import is_plain
from torchnp.layout.overlap import check_apart, check_target, overlaps_itself
from torchnp.thresholds import Threshold

ndarray = np.ndarray

WIDE: Threshold = 1 << 16  # elements; above this, statistics are not summed in float64, for speed


def per_channel(v: ndarray, x: ndarray) -> ndarray:
    """Reshape a vector over channels so that it broadcasts against ``x``."""
    return v.reshape(-1, *(1,) * (x.ndim - 2))


def channel_sum(x: ndarray) -> ndarray:
    return add_reduce(x, (0, *range(2, x.ndim)))


def channel_dot(x: ndarray, y: ndarray) -> ndarray:
    """Return the sums of products over all dimensions but the channels."""
    if x.ndim == 2:
        return add_reduce(x * y, (0,))
    pixels = math.prod(x.shape[2:])
    return add_reduce(row_dots(x.reshape(*x.shape[:2], pixels), y.reshape(*y.shape[:2], pixels)), (0,))


# ---------------------------------------------------------------- forward


def _check(x: ndarray, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool) -> np.dtype:
    """Check the arguments, and return the dtype of the statistics."""
    wrap_dim(1, x.ndim)
    require("batch_norm", x.dtype, dt.FLOATS)
    given = [p for p in (weight, bias, running_mean, running_var) if p is not None]
    like = bool(given) and given[0].dtype == x.dtype  # otherwise torch checks all parameters first
    if running_var is not None and like and not (training or _dense(x, *given)):
        # For strided memory, torch first takes the square root of the variance.
        refuse("add_stub", running_var.dtype, dt.FLOAT8S)
        refuse("sqrt_vml_cpu", running_var.dtype, (dt.complex32,))
    stats = dt.float32 if mixed(x, weight, bias, running_mean, running_var) else x.dtype
    first = next((p.dtype for p in (weight, bias) if p is not None), None) == x.dtype
    if first and not training:
        check_type(x.dtype, weight, bias)
    for r in (running_mean, running_var):  # torch reads these one element at a time
        check(r is None or r.ndim == 1, f"TensorAccessor expected 1 dims but tensor has {0 if r is None else r.ndim}")
        if first:
            check_type(x.dtype, r)
    check_kernel("batch_norm", x, weight, bias, running_mean, running_var)
    check_sizes(x, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    if training:
        check(x.size, f"input tensor must have at least one element, but got input_sizes = {shape_text(x.shape)}")
    else:
        check(running_mean is not None, "running_mean and running_var must be defined in evaluation mode")
    return stats


def _check_mean(x: ndarray, *parameters: ndarray | None) -> None:
    """Refuse dtypes that torch cannot average, if torch computes the mean before anything else.

    It does so if ``x`` is not dense and the first parameter has the dtype of ``x``.
    """
    first = next((p for p in parameters if p is not None), x)
    if not _dense(x) and first.dtype == x.dtype:
        refuse("sum_cpu", x.dtype, (*dt.FLOAT8S, dt.complex32))
        check(dt.is_inexact(x.dtype), mean_of(x.dtype))


def check_sizes(x: ndarray, **given: ndarray | None) -> None:
    """Check that each parameter has one element per channel."""
    for name, p in given.items():
        size = x.shape[1] if p is None else p.size
        check(size == x.shape[1], f"{name} should contain {x.shape[1]} elements not {size}")


def _dense(x: Any, *parameters: Any) -> bool:
    """Return whether torch uses its dense-memory kernels, which round at other steps than those for strided memory."""
    dense = bool(x.flags.c_contiguous) or (x.ndim in (4, 5) and channels_last(x))
    return dense and all(p is None or p.flags.c_contiguous for p in parameters)


def _statistics(x: ndarray, stats: np.dtype) -> tuple[ndarray, ndarray]:
    """Return channel means and sums of squared deviations, in the dtypes in which torch stores them."""
    value = inner(x)
    kind = value.dtype
    wide = value.astype(np.float64) if value.size <= WIDE else value
    mean = channel_sum(wide) / wide.dtype.type(x.size // x.shape[1])
    # For half types, deviations are taken from the unrounded mean, with two exceptions: strided memory, and
    # channels-last memory (which includes channels of one element) if the mean is stored in bfloat16.
    exact = (x.flags.c_contiguous and x.size > len(x) * x.shape[1]) or (_dense(x) and stats != dt.bfloat16)
    centre = mean.astype(kind) if exact else inner(dt.cast(mean, stats)).astype(kind)
    dense = _dense(x)
    # Strided memory is summed element by element in double precision, so squares do not overflow.
    d = (value if dense or kind != dt.float32 or value.size > WIDE else wide) - per_channel(centre, x)
    if value.size > WIDE:  # correct the rounding error of the first sum in the narrow dtype
        rest, squares = channel_sum(d) / kind.type(x.size // x.shape[1]), channel_dot(d, d)
        mean = centre + rest
        if exact:
            squares = squares - rest * rest * kind.type(x.size // x.shape[1])
    else:
        squares = channel_sum(np.square(d).astype(np.float64))
    if dense:
        kept = dt.float32 if stats == dt.float16 else stats
        return dt.cast(mean, kept), dt.cast(squares, kept)
    return dt.cast(mean, stats), squares.astype(kind if dt.opmath(x.dtype) != x.dtype else np.float64)


def _moved(x: ndarray, mean: ndarray, squares: ndarray, running: Sequence[ndarray], momentum: float) -> list[ndarray]:
    """Return the running mean and variance moved towards those of ``x``. Use the unbiased variance, NaN for one value.

    An expanded running tensor has one number for all channels, which is updated once per channel, in torch's order.
    """
    wide = np.dtype(np.float32 if dt.opmath(x.dtype) != x.dtype else np.float64)
    variance = dt.cast(squares / squares.dtype.type(x.size // x.shape[1] - 1), wide)
    moved = []
    for old, new in zip(running, (mean, variance), strict=True):
        kept, kind = dt.cast(old, mean.dtype), mean.dtype.type if _dense(x) else np.float64
        share = kind(momentum)
        step = (share if new is mean else wide.type(share)) * new
        after = dt.cast(dt.cast((kind(1) - share) * kept, step.dtype) + step, old.dtype)
        if overlaps_itself(old):
            for i in range(1, len(old)):
                kept = dt.cast(after[i - 1], mean.dtype)
                after[i] = dt.cast(dt.cast((kind(1) - share) * kept, step.dtype) + step[i], old.dtype)
        moved.append(after)
    return moved


def _strided(x: ndarray, mean: ndarray, invstd: ndarray, weight: Any, bias: Any) -> ndarray:
    """Return the output for strided memory, where torch rounds every step to the dtype of input and parameters."""
    y = (x - per_channel(mean, x)) * per_channel(invstd, x)
    if weight is not None:
        y = y * per_channel(weight, x)
    return dt.cast(y + (y.dtype.type(0) if bias is None else per_channel(bias, x)), x.dtype)


def _affine(x: ndarray, mean: ndarray, invstd: ndarray, weight: Any, bias: Any) -> ndarray:
    """Return the output for dense memory: one multiplication and one addition, with one rounding."""
    value = inner(x)
    kind = value.dtype
    scale = invstd if weight is None else invstd * inner(weight).reshape(-1)  # torch checks only the number of elements
    wide = np.float64 if value.size <= WIDE else kind
    shift = ((0 if bias is None else inner(bias).reshape(-1)) - mean.astype(wide) * scale.astype(wide)).astype(kind)
    y = value * per_channel(scale.astype(wide), x)
    np.add(y, per_channel(shift, x), y)
    return dt.cast(y, x.dtype)


def batch_norm_values(
    x: ndarray, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, momentum: float, eps: float
) -> tuple[ndarray, ndarray, ndarray, Any, Any]:
    """Return the output, the saved mean and inverse standard deviation, and the new running statistics."""
    if training:
        _check_mean(x, weight, bias, running_mean, running_var)
    elif since("2.15"):
        for name, value in (("running_mean", running_mean), ("running_var", running_var)):
            check(value is not None, f"{name} must be defined in evaluation mode", ValueError)
    words = "running_mean and running_var must either both be None or neither be None"
    check((running_mean is None) == (running_var is None), words, ValueError)
    dense = _dense(x, weight, bias, running_mean, running_var)
    rooted = running_var is not None and not (training or dense or dt.is_inexact(running_var.dtype))
    if rooted and x.dtype == dt.get_default_dtype():  # the dtype of square roots of integers
        running_var = dt.cast(running_var, x.dtype)
    stats = _check(x, weight, bias, running_mean, running_var, training)
    if training:
        mean, squares = _statistics(x, stats)
        variance = dt.cast(squares / squares.dtype.type(x.size // x.shape[1]), dt.opmath(squares.dtype))
        wide = variance if dt.opmath(x.dtype) != x.dtype else variance.astype(np.float64)
        root = np.sqrt(wide + wide.dtype.type(eps))
        invstd = dt.cast(np.where((variance == 0) & (eps == 0), 0, np.reciprocal(root)), stats)
        if running_mean is not None:
            running_mean, running_var = _moved(x, mean, squares, (running_mean, running_var), momentum)
        mean = dt.cast(mean, stats)
        saved = (mean, invstd)
    else:
        mean, saved = running_mean, (np.empty(0, stats), np.empty(0, stats))
        invstd = inner(running_var)
        if dense:
            invstd = 1 / np.sqrt(invstd + invstd.dtype.type(eps))
        else:
            for step in (lambda v: v + v.dtype.type(eps), np.sqrt, np.reciprocal):
                invstd = inner(dt.cast(step(invstd), running_var.dtype))
            invstd = dt.cast(invstd, running_var.dtype)
    out = _affine(x, inner(mean), inner(invstd), weight, bias) if dense else _strided(x, mean, invstd, weight, bias)
    return out, *saved, running_mean, running_var


def _precheck_out(bound: Bound, outs: list[ndarray]) -> frozenset[int]:
    """Check the ``out=`` tensors, and return the indices of those that torch leaves unwritten.

    Outside training, these are the ones for the saved statistics.
    """
    given = [bound.get(name) for name in ("input", "weight", "bias", "running_mean", "running_var")]
    dense = _dense(*given)
    # TensorIterator checks for overlap; torch's loops for dense memory do not
    if not dense and outs[0].shape == bound["input"].shape:
        check_apart(outs[0], bound["input"])
    if bound.get("training", True):
        return frozenset()
    if dense:
        for x in outs[1:]:
            check(x.ndim == 1, f"TensorAccessor expected 1 dims but tensor has {x.ndim}")
        dtype, (weight, bias, *running) = bound["input"].dtype, given[1:]
        parameter = next(p for p in (weight, bias, outs[1]) if p is not None)
        mixed(bound["input"], *given[1:])  # refuses some dtypes
        # With a half-type input, the dtype of all parameters is that of the first one: the input's, or float32.
        read = dt.float32 if dt.is_half(dtype) and parameter.dtype != dtype else dtype
        check_type(read, *outs[1:], *running)
    return frozenset({1, 2})


def _native(input, weight, bias, running_mean, running_var, training, momentum, eps):
    *out, new_mean, new_var = batch_norm_values(input, weight, bias, running_mean, running_var, training, momentum, eps)
    # The schema does not say so, but torch updates the running statistics in place.
    if training and running_mean is not None:
        running_mean[...], running_var[...] = new_mean, new_var
    return tuple(out)


def _quick_native(input, weight, bias, running_mean, running_var, training, momentum, eps):
    """Compute training-mode batch norm for dense float32 input with weight and bias; return None for any other call.

    The result equals the full kernel's bit for bit. Calls with running statistics are left to the full kernel.
    """
    if running_mean is not None or running_var is not None or training is not True:
        return None
    if not is_channels(input, weight, bias) or type(eps) is not float or not eps > 0:
        return None
    channels, n = (-1, *(1,) * (input.ndim - 2)), input.size // input.shape[1]
    mean = channel_sum(input.astype(np.float64))
    np.divide(mean, n, mean)
    mean = mean.astype(np.float32)
    d = np.subtract(input, mean.reshape(channels))
    np.square(d, d)
    variance = np.divide(channel_sum(d.astype(np.float64)).astype(np.float32), scalar(n, dt.float32)).astype(np.float64)
    np.add(variance, eps, variance)
    np.sqrt(variance, variance)
    invstd = np.reciprocal(variance, variance).astype(np.float32)
    scale = np.multiply(invstd, weight).astype(np.float64)
    shift = np.subtract(bias, np.multiply(mean, scale)).astype(np.float32)
    y = np.multiply(input, scale.reshape(channels))
    np.add(y, shift.reshape(channels), y)
    return y.astype(np.float32), mean, invstd


def is_channels(x: Any, *parameters: Any) -> bool:
    """Return whether all are dense float32: ``x`` with at most `WIDE` elements, others with one number per channel."""
    if type(x) is not ndarray or x.dtype is not dt.float32 or x.ndim < 2 or not is_plain(x) or x.size > WIDE:
        return False
    one = x.shape[1:2]
    return all(type(p) is ndarray and p.dtype is dt.float32 and p.shape == one and is_plain(p) for p in parameters)


_DOC = "Batch normalization of each channel; updates the running statistics in training."
_NAMES, _WRITES = "native_batch_norm _native_batch_norm_legit", WriteSpec(out=_precheck_out)
_QUICK = exact(_quick_native, placed=True)
native_batch_norm, _ = rows(_NAMES, _native, _DOC, differs=["half-opmath"], writes=_WRITES, quick=_QUICK)
_FIXED, _HALF = {"part": slice(3), "differs": ["half-opmath"]}, {"differs": ["half-opmath"]}
_NAME, _DOC = "_native_batch_norm_legit.no_stats", "`native_batch_norm` without running statistics."
rows(_NAME, lambda x, w, b, *rest: batch_norm_values(x, w, b, None, None, *rest), _DOC, writes=_WRITES, **_FIXED)
_NAME, _DOC = "_native_batch_norm_legit_no_training", "`native_batch_norm` in evaluation mode."
rows(_NAME, lambda x, w, b, mean, var, *rest: batch_norm_values(x, w, b, mean, var, False, *rest), _DOC, **_FIXED)
_RESERVE = np.empty(0, np.uint8)


def _with_reserve(x, weight, bias, running_mean, running_var, *rest, training):
    return *_native(x, weight, bias, running_mean, running_var, training, *rest), _RESERVE.copy()


_WRITES = WriteSpec(out=lambda bound, outs: _precheck_out(bound, outs) | {3})
_DOC = "Training-mode batch norm that updates the running statistics; the reserve buffer is empty."
rows("_batch_norm_with_update", _with_reserve, _DOC, training=True, writes=_WRITES, **_HALF)
_DOC = "Evaluation-mode batch norm; the reserve buffer, for other devices, is empty."
rows("_batch_norm_no_update", _with_reserve, _DOC, training=False, **_HALF)


@kernel("batch_norm_update_stats", differs=["half-opmath"])
def batch_norm_update_stats(input, running_mean, running_var, momentum):
    """Channel means and biased variances; updates the running statistics."""
    require("batch_norm_update_stats_cpu", input.dtype, dt.FLOATS)
    dim_of(input, 1)
    _check_mean(input, running_mean, running_var)
    stats = _check(input, None, None, running_mean, running_var, True)
    mean, squares = _statistics(input, stats)
    given = [np.zeros(mean.shape, stats) if r is None else r for r in (running_mean, running_var)]
    for running, new in zip((running_mean, running_var), _moved(input, mean, squares, given, momentum), strict=True):
        if running is not None:  # either may be missing here
            running[...] = new
    return dt.cast(mean, stats), dt.cast(squares / squares.dtype.type(input.size // input.shape[1]), stats)


# ---------------------------------------------------------------- composites


def _accumulator(dtype: np.dtype) -> np.dtype:
    """Return torch's accumulate type on CPU: float32 for half types, else the widest type of the dtype's kind."""
    if dt.is_complex(dtype):
        return dt.complex128
    if dt.is_floating(dtype):
        return dt.float64 if dtype == dt.float32 else dt.opmath(dtype)
    return dt.int64 if dt.is_integral(dtype) else dtype


@kernel("_batch_norm_impl_index", differs=["half-opmath"])
def _batch_norm_impl_index(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled):
    """`native_batch_norm` with shape checks; also the reserve buffer, and the number of the backend that ran."""
    if input.size == 0:
        out = input.copy()
        for step, p in ((mul, weight), (add, bias)):
            if p is not None:
                out = step(out, select(p, 0, 0))
        # torch reads the number of channels even of an input without that dimension, and gets 0.
        wide = np.zeros(input.shape[1] if input.ndim > 1 else 0, _accumulator(input.dtype))
        return out, wide, wide.copy(), _RESERVE.copy(), 0
    for name, p in {"running_mean": running_mean, "running_var": running_var}.items():
        check(training or p is not None, f"{name} must be defined in evaluation mode")
        wrap_dim(1, input.ndim)
        check_sizes(input, **{name: p})
    check_sizes(input, weight=weight, bias=bias)
    out = native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)
    return *out, _RESERVE.copy(), 0


_DOC = "Batch normalization; updates the running statistics in training."
(batch_norm,) = rows("batch_norm", _batch_norm_impl_index, _DOC, part=0, **_HALF)


@kernel("instance_norm", differs=["half-opmath"])
def instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled):
    """Normalisation of each sample separately; the running statistics are averaged over the samples."""
    words = "Expected running_mean and running_var to be defined when use_input_stats is false"
    check(use_input_stats or (running_mean is not None and running_var is not None), words)
    dim_of(input, 0)
    wrap_dim(1, input.ndim)
    n, channels = input.shape[:2]
    kept = (input if weight is None else weight).dtype
    running = [running_mean, running_var]
    if running_mean is not None and running_mean.dtype != kept:  # torch does not check the variance's dtype
        undefined = "Expected a proper Tensor but got None (or an undefined Tensor in C++) for argument #0 'self'"
        repeat(running_mean, [n])
        check(running_var is not None, undefined)
        running = [dt.cast(p, kept) for p in running]
    given = [None if p is None else repeat(p, [n]) for p in (weight, bias, *running)]
    as_one = np.ascontiguousarray(input).reshape(1, n * channels, *input.shape[2:])
    out = batch_norm(as_one, *given, use_input_stats, momentum, eps, cudnn_enabled)
    # As in native_batch_norm, torch updates the running statistics although the schema does not say so.
    for running, new in ((running_mean, given[2]), (running_var, given[3])):
        if running is not None and new is not None and use_input_stats:
            check_target(running)
            mean = dt.cast(view(inner(new), [n, channels]).mean(0), new.dtype)
            check_fits(mean, running)
            running[...] = dt.cast(mean, running.dtype)
    return out.reshape(input.shape)


# ---------------------------------------------------------------- in parts, for several processes: torch has it on CUDA only


@kernel("batch_norm_stats", differs=["half-opmath"])
def batch_norm_stats(input, eps):
    """Mean and inverse standard deviation of each channel."""
    x = inner(input)
    mean, squares = _statistics(x, x.dtype)
    return mean, 1 / np.sqrt(squares / x.dtype.type(x.size // x.shape[1]) + x.dtype.type(eps))


@kernel("batch_norm_elemt", differs=["half-opmath"])
def batch_norm_elemt(input, weight, bias, mean, invstd, eps):
    """Each channel minus its mean, times its inverse standard deviation and weight, plus its bias."""
    return dt.cast(_strided(*map(inner, (input, mean, invstd, weight, bias))), input.dtype)


@kernel("batch_norm_gather_stats_with_counts", differs=["half-opmath"])
def batch_norm_gather_stats_with_counts(input, mean, invstd, running_mean, running_var, momentum, eps, counts):
    """Combine the statistics of all processes, weighted by their counts; updates the running statistics."""
    means, invstds, weights = inner(mean), inner(invstd), dt.cast(counts, dt.opmath(mean.dtype))[:, None]
    total = weights.sum()
    average = (means * weights).sum(0) / total
    squares = ((1 / (invstds * invstds) - means.dtype.type(eps)) * weights).sum(0)
    squares = squares + (weights * (means - average) ** 2).sum(0)
    for running, moved in ((running_mean, average), (running_var, squares / (total - 1))):
        if running is not None:  # written in place, as in batch norm
            running[...] = dt.cast((1 - momentum) * inner(running) + momentum * moved, running.dtype)
    return average, 1 / np.sqrt(squares / total + means.dtype.type(eps))


@kernel("batch_norm_gather_stats", differs=["half-opmath"])
def batch_norm_gather_stats(input, mean, invstd, running_mean, running_var, momentum, eps, count):
    """`batch_norm_gather_stats_with_counts` with the same count for every process."""
    counts = np.full(len(mean), count, mean.dtype)
    return batch_norm_gather_stats_with_counts(input, mean, invstd, running_mean, running_var, momentum, eps, counts)


@kernel("batch_norm_backward_reduce", differs=["half-opmath"])
def batch_norm_backward_reduce(grad_out, input, mean, invstd, weight, input_g, weight_g, bias_g):
    """One process's sums for the gradient: of grad_out, and of grad_out times the deviation from the mean."""
    grad, x = inner(grad_out), inner(input)
    total, along = channel_sum(grad), channel_dot(x - per_channel(inner(mean), x), grad)
    dtype = input.dtype if weight is None else weight.dtype
    of_weight = dt.cast(along * inner(invstd), dtype) if weight_g else None
    of_bias = dt.cast(total, dtype) if bias_g else None
    sums: tuple[Any, Any] = (total, along) if input_g else (None, None)
    return *sums, of_weight, of_bias


@kernel("batch_norm_backward_elemt", differs=["half-opmath"])
def batch_norm_backward_elemt(grad_out, input, mean, invstd, weight, sum_dy, sum_dy_xmu, count):
    """The gradient of `batch_norm_elemt` with respect to its input, from the sums of all processes."""
    grad, x, scale = inner(grad_out), inner(input), inner(invstd)
    n = dt.cast(count, x.dtype).sum()
    along = inner(sum_dy_xmu) / n * scale * scale
    d = x - per_channel(inner(mean), x)
    grad = grad - per_channel(inner(sum_dy) / n, x) - d * per_channel(along, x)
    factor = scale if weight is None else scale * inner(weight)
    return dt.cast(grad * per_channel(factor, x), input.dtype)
