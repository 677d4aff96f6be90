"""Convolution whose taps are moved by offsets."""

from __future__ import annotations

import numpy as np

import torchnp
from torchnp_torchvision.checks import HALF_TOO, check, check_dtype, check_that


@torchnp.kernel(
    "torchvision::deform_conv2d",
    schema="deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, "
    "SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, "
    "SymInt offset_groups, bool use_mask) -> Tensor",
)
def deform_conv2d(
    input: np.ndarray, weight: np.ndarray, offset: np.ndarray, mask: np.ndarray, bias: np.ndarray, stride_h: int,
    stride_w: int, pad_h: int, pad_w: int, dilation_h: int, dilation_w: int, groups: int, offset_groups: int,
    use_mask: bool,
) -> np.ndarray:  # fmt: skip
    """The convolution of values that are interpolated where offsets point to, times a mask."""
    strides, pads, dilations = (stride_h, stride_w), (pad_h, pad_w), (dilation_h, dilation_w)
    size = _check(input, weight, offset, mask, strides, pads, dilations, groups, offset_groups, use_mask)
    t = input.dtype
    out = np.zeros((len(input), len(weight), *size), t)
    if len(input) == 0:
        return out
    check_dtype(input, "deformable_im2col", HALF_TOO)
    check(all(x.dtype == t for x in (weight, offset, mask, bias)), f"expected all arguments to be of dtype {t.name}")
    taps = weight.shape[2:]
    shape = len(input), offset_groups, *taps
    moved = offset.reshape(*shape, 2, *size)
    # Where each tap looks, by image, group of channels, tap and place.
    y, x = (
        (_grid(n, stride, pad, axis=i - 2) + _grid(taps[i], dilation, 0, axis=i - 4)).astype(t) + moved[..., i, :, :]
        for i, (n, stride, pad, dilation) in enumerate(zip(size, strides, pads, dilations))
    )
    images = input.reshape(len(input), offset_groups, -1, *input.shape[2:])
    values = _interpolated(images, y, x)  # image, group, channel, taps, place
    if use_mask:
        values = mask.reshape(*shape, *size)[:, :, None] * values
    columns = values.reshape(len(input), groups, -1, size[0] * size[1])
    wide = np.float32 if t == np.float16 else t  # half products are added up in float32
    kernels = weight.reshape(groups, len(weight) // groups, -1)
    out = (kernels.astype(wide) @ columns.astype(wide)).astype(t).reshape(out.shape)
    return out + bias.reshape(1, -1, 1, 1)


def _grid(n: int, step: int, before: int, axis: int) -> np.ndarray:
    """Whole coordinates along one of the last four axes."""
    return (np.arange(n) * step - before).reshape([-1 if i == axis else 1 for i in range(-4, 0)])


def _interpolated(images: np.ndarray, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Values between four pixels, those beyond the edge being 0."""
    height, width = images.shape[-2:]
    inside = (y > -1) & (y < height) & (x > -1) & (x < width)
    y, x = np.where(inside, y, 0), np.where(inside, x, 0)
    top, left = np.floor(y).astype(np.int64), np.floor(x).astype(np.int64)
    down, right = y - top.astype(y.dtype), x - left.astype(x.dtype)
    up, back = 1 - down, 1 - right
    found = _pixels(images, top, left, up * back)
    for ys, xs, weights in (
        (top, left + 1, up * right),
        (top + 1, left, down * back),
        (top + 1, left + 1, down * right),
    ):
        found = found + _pixels(images, ys, xs, weights)
    return np.where(inside[:, :, None], found, images.dtype.type(0))


def _pixels(images: np.ndarray, y: np.ndarray, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weighted pixels of every channel: image, group, channel, taps, place."""
    height, width = images.shape[-2:]
    there = ((y >= 0) & (y < height) & (x >= 0) & (x < width))[:, :, None]
    image, group = np.ogrid[: images.shape[0], : images.shape[1]]
    index = (image.reshape(-1, 1, 1, 1, 1, 1), group.reshape(1, -1, 1, 1, 1, 1), slice(None))
    values = images[(*index, np.clip(y, 0, height - 1), np.clip(x, 0, width - 1))]
    # The channels come last where indices stand on both sides of a slice.
    values = np.moveaxis(values, -1, 2)
    return weights[:, :, None] * np.where(there, values, images.dtype.type(0))


def _check(
    input: np.ndarray, weight: np.ndarray, offset: np.ndarray, mask: np.ndarray, strides: tuple, pads: tuple,
    dilations: tuple, groups: int, offset_groups: int, use_mask: bool,
) -> tuple[int, int]:  # fmt: skip
    """Refuse what torchvision refuses; the height and width of the result."""
    for name, array in (("input", input), ("offset", offset), ("mask", mask), ("weight", weight)):
        if name == "mask":
            check_that(not use_mask or mask.ndim == 4, "!use_mask || mask_c.ndimension() == 4")
        else:
            check_that(array.ndim == 4, f"{name}_c.ndimension() == 4")
    check(weight.shape[2] > 0 and weight.shape[3] > 0, f"weight_h: {weight.shape[2]} weight_w: {weight.shape[3]}")
    check(min(strides) > 0, f"stride_h: {strides[0]} stride_w: {strides[1]}")
    check(min(pads) >= 0, f"pad_h: {pads[0]} pad_w: {pads[1]}")
    check(min(dilations) > 0, f"dilation_h: {dilations[0]} dilation_w: {dilations[1]}")
    size = tuple(
        # C++ divides towards zero; what is less than 1 is refused below.
        int((n + 2 * pad - (dilation * (k - 1) + 1)) / stride) + 1
        for n, pad, dilation, k, stride in zip(input.shape[2:], pads, dilations, weight.shape[2:], strides)
    )
    check_that(weight.shape[1] * groups == input.shape[1], "weight_c.size(1) * n_weight_grps == input_c.size(1)")
    check_that(len(weight) % groups == 0, "weight_c.size(0) % n_weight_grps == 0")
    taps = offset_groups * weight.shape[2] * weight.shape[3]
    got = offset.shape[1], mask.shape[1] if mask.ndim > 1 else 0
    check(got[0] == 2 * taps, f"offset.shape[1] is not valid: got: {got[0]} expected: {2 * taps}")
    check(not use_mask or got[1] == taps, f"mask.shape[1] is not valid: got: {got[1]} expected: {taps}")
    check_that(input.shape[1] % offset_groups == 0, "input_c.size(1) % n_offset_grps == 0")
    check(len(offset) == len(input), "invalid batch size of offset")
    computed = f"computed output dims: ({size[0]}, {size[1]})"
    for name, array in (("offset", offset), *([("mask", mask)] if use_mask else [])):
        if name == "mask":
            check(len(mask) == len(input), "invalid batch size of mask")
        have = f"{name} output dims: ({array.shape[2]}, {array.shape[3]})"
        check(array.shape[2:] == size, f"{have} - {computed}")
    check(len(mask) == len(input), "invalid batch size of mask")
    check(min(size) > 0, f"Calculated output size too small - out_h: {size[0]} out_w: {size[1]}")
    return size
