"""Torch's checks of a convolution's arguments, and the sizes and strides of its result."""

from __future__ import annotations

import itertools
import math
import operator
from typing import Any, NamedTuple

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, check_type, require
from torchnp.core.errors import (
    AXES,
    by,
    conv_misfit,
    no_channels,
    no_filter,
    no_primitive,
    shape_text,
    small_output,
    tensor_type,
)
from torchnp.kernels._elementwise import check_result_dtype
from torchnp.kernels._spatial import Ints, is_channels_last
from torchnp.layout import stride_rules
from torchnp.thresholds import Threshold

ndarray = np.ndarray


class Geometry(NamedTuple):
    """Stride, padding, dilation and output padding of a convolution, each with one number per spatial dimension."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    output_padding: tuple[int, ...]


def geometry(
    input: ndarray, weight: ndarray, bias_shape: Ints | None, stride: Ints, padding: Ints, dilation: Ints,
    transposed: bool, output_padding: Ints, groups: int,
) -> Geometry:  # fmt: skip
    """Expand the parameters to one number per dimension; run the checks that torch makes before it picks a backend."""
    n = weight.ndim - 2
    check(n > 0, "weight should have at least three dimensions")
    check(groups > 0, "non-positive groups is not supported")
    given = {"stride": stride, "padding": padding, "dilation": dilation, "output_padding": output_padding}
    found = Geometry(**{name: expand(value, name, n) for name, value in given.items()})
    check_shapes(input, weight, bias_shape, found, transposed, groups)
    return found


def check_numbers(stride: Ints, padding: Ints, dilation: Ints, output_padding: Ints) -> None:
    """Raise torch's error for the first invalid parameter, in torch's order."""
    check(min(padding, default=0) >= 0, "negative padding is not supported")
    check(min(output_padding, default=0) >= 0, "negative output_padding is not supported")
    check(min(stride, default=1) > 0, "non-positive stride is not supported")
    check(min(dilation, default=0) >= 0, "dilation should be greater than zero")


def check_shapes(
    input: ndarray, weight: ndarray, bias_shape: Ints | None, found: Geometry, transposed: bool, groups: int
) -> None:
    """Refuse invalid parameters, and input, weight and bias whose shapes do not match."""
    check_numbers(found.stride, found.padding, found.dilation, found.output_padding)
    if weight.ndim != input.ndim:
        raise conv_misfit(input.shape, weight.shape, bias_shape, transposed, groups, 0, 0)
    channels = weight.shape[0] if transposed else weight.shape[1] * groups
    outputs = weight.shape[1] * groups if transposed else weight.shape[0]
    of_groups = weight.shape[0] >= groups and not weight.shape[0] % groups
    fits = bias_shape is None or tuple(bias_shape) == (outputs,)
    if not (of_groups and input.shape[1] == channels and fits):
        raise conv_misfit(input.shape, weight.shape, bias_shape, transposed, groups, channels, outputs)
    if not transposed:
        check_room(input.shape[2:], weight.shape[2:], found.padding, found.dilation)


def check_room(sizes: Ints, window: Ints, padding: Ints, dilation: Ints) -> None:
    """Refuse windows that do not fit into the padded input."""
    padded = [s + 2 * p for s, p in zip(sizes, padding, strict=True)]
    wide = [d * (k - 1) + 1 for d, k in zip(dilation, window, strict=True)]
    if any(w > s for w, s in zip(wide, padded, strict=True)):
        found = f"({by(padded)}). Kernel size: ({by(wide)})."
        words = f"Calculated padded input size per channel: {found} Kernel size can't be"
        raise RuntimeError(f"{words} greater than actual input size")


def expand(value: Ints | int, name: str, n: int) -> tuple[int, ...]:
    """Return a parameter as one number per dimension; refuse a length other than 1 or ``n``."""
    values: tuple[int, ...] = (value,) if isinstance(value, (int, np.integer)) else tuple(value)
    if len(values) not in (1, n):
        words = f"expected {name} to be a single integer value or a list of {n} values to match the convolution"
        raise RuntimeError(f"{words} dimensions, but got {name}={shape_text(values)}")
    return values * n if len(values) == 1 else values


# Dtypes for which oneDNN has memory formats.
TAKEN = frozenset((dt.float32, *dt.HALVES, dt.int8, dt.uint8, dt.float8_e4m3fn, dt.float8_e5m2))
_SINGLE: Threshold = 20480  # Elements of a single image up to which torch uses its own code instead of oneDNN.
_VENDOR = (dt.float32, *dt.HALVES)  # dtypes for which torch mostly uses oneDNN, whose rules differ


def by_vendor(input: ndarray, weight: ndarray, g: Geometry, transposed: bool, groups: int) -> bool:
    """Return whether torch computes this convolution with oneDNN, which checks less than torch's own code."""
    wide = any(o >= s for o, s in zip(g.output_padding, g.stride, strict=True))
    if input.dtype not in _VENDOR or (transposed and wide):
        return False
    # oneDNN computes float16 only on some processors; assume that this is not one of them
    if input.dtype != dt.float32:
        return bool(input.dtype == dt.bfloat16)
    # One thread would leave filters of one element to torch's own code; assume several.
    window, size = (1, *weight.shape[2:])[-2:], math.prod(input.shape[:4])
    return groups > 1 or min(window) > 3 or len(input) > 1 or size > _SINGLE


def check_dtypes(
    input: ndarray, weight: ndarray, bias: ndarray | None, transposed: bool, g: Geometry, groups: int, vendor: bool
) -> None:
    """Refuse dtypes for which torch's CPU backends have no code, and mixtures that they do not support."""
    dtype = input.dtype
    given = [("weight", weight)] if bias is None else [("weight", weight), ("bias", bias)]
    if vendor:
        for name, x in given:
            words = f"Input type ({tensor_type(dtype)}) and {name} type ({tensor_type(x.dtype)}) should be the same or"
            check(x.dtype == dtype, f"{words} input should be a MKLDNN tensor and {name} is a dense tensor")
        if not weight.size:
            raise no_primitive("deconvolution" if transposed else "convolution")
        return
    dims = 3 if input.ndim == 5 else 2
    check_filter(weight, transposed, max(g.dilation) > 1, groups)
    if transposed or max(g.dilation) > 1:
        slow = (dt.float64, dt.int64)
        require(f"slow_conv_transpose{dims}d_out_cpu" if transposed else "slow_conv_dilated<>", dtype, _VENDOR + slow)
    else:
        # For a 3-d convolution with a 1x1x1 kernel, stride 1 and no padding, torch builds no columns (im2col).
        plain = dims == 3 and {*weight.shape[2:], *g.stride} == {1} and not any(g.padding)
        require("slow_conv3d_cpu" if plain else COLUMNS[dims], dtype, WITH_COLUMNS)
    check_type(dtype, weight)
    if bias is None or not transposed:
        return  # torch first copies the bias, of any dtype, into the result, and then adds the products
    if dims == 3:
        check_type(dtype, bias)
    check_result_dtype(dt.promote_types(dtype, bias.dtype), dtype)


# Names of torch's im2col kernels in its error messages, by number of spatial dimensions.
COLUMNS = {2: "slow_conv2d_cpu", 3: "compute_columns3d"}
WITH_COLUMNS = (*_VENDOR, dt.float64, *dt.INTS)


def check_filter(weight: ndarray, transposed: bool, dilated: bool, groups: int) -> None:
    """Refuse a filter without elements, with the message of torch's own code (not oneDNN's)."""
    kernel_size = list((1, *weight.shape[2:]) if weight.ndim == 3 else weight.shape[2:])
    if 0 in kernel_size:
        raise no_filter(kernel_size, weight.shape, transposed, dilated)
    if transposed and not weight.shape[1]:
        raise no_channels((len(weight) // groups, 0, *weight.shape[2:]))


# Sums of up to this many products are computed in float64, because rounding errors of a float32 sum would show if terms
# cancel.
_WIDE: Threshold = 1 << 18


def sum_dtype(input: ndarray, weight: ndarray, points: Ints) -> np.dtype:
    """Return the dtype to compute in; ``points`` are the spatial sizes of the smaller image (input or output)."""
    products = math.prod(points) * math.prod(weight.shape) * input.shape[0]
    return dt.float64 if input.dtype == dt.float32 and products <= _WIDE else dt.opmath(input.dtype)


def wants_channels_last(input: ndarray, weight: ndarray) -> bool:
    """Return whether torch's backend for these operands returns channels-last results."""
    if input.ndim == 5 and input.dtype not in _VENDOR:
        return False
    return is_channels_last(input) or is_channels_last(weight)


def result_strides(
    shape: stride_rules.Shape, input: ndarray, weight: ndarray, vendor: bool, groups: int = 1
) -> stride_rules.Strides:
    """Return torch's strides for a result: channels-last if input or weight is (for 3-d only with oneDNN).

    Without oneDNN, torch concatenates the results of the groups, which can change the strides.
    """
    groups = 1 if vendor else groups  # oneDNN computes all groups at once
    x, w = input[:, : input.shape[1] // groups], weight[: len(weight) // groups]
    found = [stride_rules.layout_of(x), stride_rules.layout_of(w)]
    rows = len(shape) == 3
    if rows:
        if not stride_rules.is_contiguous(*stride_rules.layout_of(input)):
            found[0] = x.shape, stride_rules.contiguous(input.shape)
        found, shape = [stride_rules.as_image(*x) for x in found], (*shape[:2], 1, shape[2])
    if (
        len(shape) == 4
        and stride_rules.suggested(*found[0]) == "channels_last"
        and not stride_rules.is_channels_last(*found[0])
    ):
        found[0] = (
            found[0][0],
            stride_rules.in_format(found[0][0], "channels_last"),
        )  # torch first copies the input to channels-last
    last = any(stride_rules.suggested(*x) != "contiguous_format" for x in found) and (len(shape) == 4 or vendor)
    order = stride_rules.CHANNELS_LAST[len(shape)]
    if last and groups > 1:
        part = (shape[0], shape[1] // groups, *shape[2:])
        last = stride_rules.suggested(part, stride_rules.in_order(part, order, empty=True)) != "contiguous_format"
    strides = stride_rules.in_order(shape, order, empty=True) if last else stride_rules.contiguous(shape)
    return (*strides[:2], strides[3]) if rows else strides


def strides_of_result(
    shape: stride_rules.Shape, input: ndarray, weight: ndarray, bias: ndarray | None, *options: Any
) -> stride_rules.Strides:
    """Return the strides of `convolution`'s result; only shapes, strides and dtypes of the arguments are used."""
    if 0 in input.shape:
        return stride_rules.contiguous(shape)
    *_, transposed, _, groups = options
    g = geometry(input, weight, None if bias is None else bias.shape, *options)
    return result_strides(shape, input, weight, by_vendor(input, weight, g, transposed, groups), groups)


def check_weight_written(weight: ndarray, transposed: bool) -> None:
    """Refuse a weight gradient that is not channels-last in the memory format that the weight's strides suggest."""
    shape, strides = stride_rules.layout_of(weight)
    strides = stride_rules.in_format(shape, stride_rules.suggested(shape, strides))
    words = "grad_weight needs to be contiguous" if transposed else "slow_conv2d: grad_weight must be contiguous"
    check(stride_rules.is_channels_last(shape, strides), words)


def sizes_back(sizes: Ints, kernel: Ints, g: Geometry) -> list[int]:
    """Return the input sizes for which a convolution gives an output of ``sizes``."""
    along = zip(sizes, kernel, *g, strict=True)
    return [(s - 1) * t - 2 * p + d * (k - 1) + o + 1 for s, k, t, p, d, o in along]


def check_output_padding(g: Geometry) -> None:
    """Refuse output padding that is not smaller than the stride or the dilation."""
    if any(o >= s and o >= d for o, s, d in zip(g.output_padding, g.stride, g.dilation, strict=True)):
        flat, unit = ((0,), (1,)) if len(g.stride) == 1 else ((), ())  # torch computes 1-d convolutions as 2-d ones
        names = AXES[-max(len(g.stride), 2) :]
        given = {"output_padding": flat + g.output_padding, "stride": unit + g.stride, "dilation": unit + g.dilation}
        found = (f"{label}_{name}: {value}" for label, row in given.items() for name, value in zip(names, row))
        raise RuntimeError(f"output padding must be smaller than either stride or dilation, but got {' '.join(found)}")


def transposed_sizes(input: ndarray, weight: ndarray, g: Geometry, groups: int, vendor: bool) -> list[int]:
    """Check and return the sizes of a transposed convolution's result."""
    sizes, out = input.shape[2:], sizes_back(input.shape[2:], weight.shape[2:], g)
    check_output_padding(g)
    unit = (1,) if len(sizes) == 1 else ()
    if not weight.shape[1]:
        raise no_channels((len(weight) // groups, *weight.shape[1:]))
    if vendor and min(out) < 0:
        last = result_strides((1, 2, *[2] * len(out)), input, weight, True)[1] == 1
        counts = itertools.accumulate(
            (n % (1 << 64) for n in (len(input), weight.shape[1] * groups, *out)), operator.mul
        )
        check(not last or max(counts) < 1 << 64, "numel: integer multiplication overflow")
        raise RuntimeError(f"could not construct a memory descriptor using {'strides' if last else 'a format tag'}")
    if min(out) < 1 and not vendor:
        raise small_output((*unit, *sizes), (*unit, *out))
    return out
