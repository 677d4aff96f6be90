"""Gradients of the convolution whose taps are moved by offsets."""

from __future__ import annotations

import numpy as np

import torchnp
from torchnp.shipped.torchvision.argument_checks import (
    HALF_TOO,
    check,
    check_data,
    check_dtype,
    check_rank,
    reshaped,
    torchs_name,
)
from torchnp.shipped.torchvision.deform import corners, interpolated, output_size, places

MOST_IMAGES = 32  # images that torchvision processes at once


@torchnp.kernel(
    "torchvision::_deform_conv2d_backward",
    schema="_deform_conv2d_backward(Tensor grad, Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, "
    "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, "
    "SymInt offset_groups, bool use_mask) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def _deform_conv2d_backward(
    grad: np.ndarray, input: np.ndarray, weight: np.ndarray, offset: np.ndarray, mask: np.ndarray, bias: np.ndarray,
    stride_h: int, stride_w: int, pad_h: int, pad_w: int, dilation_h: int, dilation_w: int, groups: int,
    offset_groups: int, use_mask: bool,
) -> tuple[np.ndarray, ...]:  # fmt: skip
    """Gradients of `deform_conv2d` with respect to the images, the weight, the offsets, the mask and the bias."""
    for array in (input, weight, grad):
        check_rank(array)
    steps = (stride_h, stride_w), (pad_h, pad_w), (dilation_h, dilation_w)
    summed = torchnp.aten.sum(grad, [0, 2, 3])
    if len(input) == 0:
        return *(np.zeros(a.shape, a.dtype) for a in (input, weight, offset, mask)), np.ones_like(bias) * summed
    t, n = input.dtype, len(input)
    grads, weights, moved, scale = _arranged(grad, input, weight, offset, mask, steps, groups, offset_groups, use_mask)
    size = grads.shape[-2:]
    y, x = places(moved, *steps)
    images = input.reshape(n, offset_groups, -1, *input.shape[2:])
    values = interpolated(images, y, x)  # image, group of offsets, channel, taps, place
    wide = np.float32 if t == np.float16 else t  # half products are added up in float32
    grads = grads.reshape(*grads.shape[:3], -1).astype(wide)
    weights = weights.reshape(*weights.shape[:2], -1).astype(wide)
    columns = (weights.swapaxes(1, 2) @ grads).astype(t).reshape(values.shape)
    words = f"The size of tensor a ({bias.size}) must match the size of tensor b ({summed.size}) at non-singleton dimension 0"
    check(bias.size in (1, summed.size), words)
    found = (scale * values).reshape(n, groups, -1, size[0] * size[1]).astype(wide)
    return (
        _of_images(images, scale, columns, y, x).reshape(input.shape),
        (grads @ found.swapaxes(2, 3)).sum(0).astype(t).reshape(weight.shape),
        _of_offsets(images, scale, columns, y, x).reshape(offset.shape),
        _in_order(columns * values).reshape(mask.shape) if use_mask else np.zeros(mask.shape, mask.dtype),
        np.ones_like(bias) * summed,
    )


def _arranged(
    grad: np.ndarray, input: np.ndarray, weight: np.ndarray, offset: np.ndarray, mask: np.ndarray, steps: tuple,
    groups: int, offset_groups: int, use_mask: bool,
) -> tuple[np.ndarray, ...]:  # fmt: skip
    """Gradients and weight by group, offsets by tap, and the mask or 1, after torchvision's checks."""
    for name, pair, least in zip(("stride", "pad", "dilation"), steps, (1, None, 1)):  # torch divides by 0
        check(least is None or min(pair) >= least, f"{name}_h: {pair[0]} {name}_w: {pair[1]}")
    n, taps = len(input), weight.shape[2:]
    size = output_size(input.shape[2:], taps, *steps)
    at_once = next((k for k in range(min(n // 2, MOST_IMAGES), 1, -1) if n % k == 0), 1)
    blocks, each = (n // at_once, at_once), int(np.prod(taps))
    moved = reshaped(offset, (n, offset_groups, *taps, 2, *size), (*blocks, offset_groups * 2 * each, *size))
    scale: np.ndarray = np.ones((), input.dtype)
    if use_mask:
        scale = reshaped(mask, (n, offset_groups, 1, *taps, *size), (*blocks, offset_groups * each, *size))
    by_group = groups, len(weight) // groups
    grads = reshaped(grad, (n, *by_group, *size), (*blocks, *by_group, *size))
    weights = reshaped(weight, (*by_group, *weight.shape[1:]), (*by_group, *weight.shape[1:]))
    rows, have = input.shape[1] * each // groups, weight.shape[1] * each
    check(
        rows == have,
        f"Bad in-place call: input tensor size [{rows}, {at_once * size[0] * size[1]}] and output tensor size "
        f"[{have}, {at_once * size[0] * size[1]}] should match",
    )
    for first, second, words in (
        (grad, input, "self and mat2 must have the same dtype, but got {1} and {0}"),
        (weight, grad, "mat1 and mat2 must have the same dtype, but got {0} and {1}"),
    ):
        check(first.dtype == second.dtype, words.format(*map(torchs_name, (first, second))))
    check_dtype(input, "compute_grad_offset_and_mask", HALF_TOO)
    for array in (offset, mask):
        check_data(array, input.dtype)
    return grads, weights, moved, scale


def _of_images(images: np.ndarray, scale: np.ndarray, columns: np.ndarray, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Spread each tap's gradient over the four pixels around its place, in torchvision's order."""
    height, width = images.shape[-2:]
    (rows, above), (cols, before) = (
        # float32 for halves: torch takes their absolute value so.
        (at, 1 - np.abs(p[..., None] - at.astype(p.dtype)).astype(np.result_type(p, np.float32)))
        for p, at in ((p, np.floor(p).astype(np.int64)[..., None] + np.arange(2)) for p in (y, x))
    )
    rows, above, cols, before = rows[..., None], above[..., None], cols[..., None, :], before[..., None, :]
    there = (rows >= 0) & (rows < height) & (above > 0) & (cols >= 0) & (cols < width) & (before > 0)
    near = (above * before).astype(images.dtype)
    out = np.zeros(images.shape, images.dtype)
    scale = np.broadcast_to(scale, (*y.shape[:2], 1, *y.shape[2:]))[..., None, None]
    planes = np.arange(images.shape[1] * images.shape[2]).reshape(*images.shape[1:3], 1, 1, 1, 1, 1, 1) * (
        height * width
    )
    for n, image in enumerate(out):
        shares = scale[n] * near[n][:, None] * columns[n][..., None, None]
        place = planes + (rows[n] * width + cols[n])[:, None]
        inside = np.broadcast_to(there[n][:, None], place.shape)
        np.add.at(image.reshape(-1), place[inside], shares[inside])
    return out


def _of_offsets(images: np.ndarray, scale: np.ndarray, columns: np.ndarray, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """How far the value at each tap's place rises downwards and to the right, times its gradient."""
    pixels, down, right = corners(images, y, x)
    down, right = down[:, :, None], right[:, :, None]
    downwards = right * (pixels[3] - pixels[1]) + (1 - right) * (pixels[2] - pixels[0])
    across = down * (pixels[3] - pixels[2]) + (1 - down) * (pixels[1] - pixels[0])
    return np.stack([_in_order(scale * slope * columns) for slope in (downwards, across)], 4)


def _in_order(shares: np.ndarray) -> np.ndarray:
    """The sum over channels, from the first to the last."""
    return np.add.accumulate(shares, 2)[:, :, -1] + shares.dtype.type(0)
