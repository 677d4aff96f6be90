"""Convolution whose taps are moved by offsets."""

from __future__ import annotations

import numpy as np

import torchnp
from torchnp.shipped.torchvision.argument_checks import HALF_TOO, check, check_dtype, check_that


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
    shape = len(input), offset_groups, *weight.shape[2:]
    y, x = places(offset.reshape(*shape, 2, *size), strides, pads, dilations)
    images = input.reshape(len(input), offset_groups, -1, *input.shape[2:])
    values = interpolated(images, y, x)
    if use_mask:
        values = mask.reshape(*shape, *size)[:, :, None] * values
    columns = values.reshape(len(input), groups, -1, size[0] * size[1])
    wide = np.float32 if t == np.float16 else t  # half products are added up in float32
    kernels = weight.reshape(groups, len(weight) // groups, -1)
    out = (kernels.astype(wide) @ columns.astype(wide)).astype(t).reshape(out.shape)
    return out + bias.reshape(1, -1, 1, 1)


def output_size(
    image: tuple[int, ...], taps: tuple[int, ...], strides: tuple, pads: tuple, dilations: tuple
) -> tuple[int, ...]:
    """The height and width of a convolution's result."""
    return tuple(
        int((n + 2 * pad - (dilation * (k - 1) + 1)) / stride) + 1  # C++ divides towards zero
        for n, k, stride, pad, dilation in zip(image, taps, strides, pads, dilations)
    )


def places(moved: np.ndarray, strides: tuple, pads: tuple, dilations: tuple) -> tuple[np.ndarray, np.ndarray]:
    """Where each tap looks, downwards and to the right, by image, group of channels, tap and place."""
    y, x = (
        (
            _grid(moved.shape[i - 2], strides[i], pads[i], i - 2) + _grid(moved.shape[i + 2], dilations[i], 0, i - 4)
        ).astype(moved.dtype)
        + moved[..., i, :, :]
        for i in (0, 1)
    )
    return y, x


def _grid(n: int, step: int, before: int, axis: int) -> np.ndarray:
    """Whole coordinates along one of the last four axes."""
    return (np.arange(n) * step - before).reshape([-1 if i == axis else 1 for i in range(-4, 0)])


def interpolated(images: np.ndarray, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Values interpolated from four pixels, by image, group, channel, tap and place; 0 beyond the edge."""
    height, width = images.shape[-2:]
    inside = (y > -1) & (y < height) & (x > -1) & (x < width)
    pixels, down, right = corners(images, np.where(inside, y, 0), np.where(inside, x, 0))
    up, back = 1 - down, 1 - right
    weights = up * back, up * right, down * back, down * right
    found = weights[0][:, :, None] * pixels[0]
    for weight, values in zip(weights[1:], pixels[1:]):
        found = found + weight[:, :, None] * values
    return np.where(inside[:, :, None], found, images.dtype.type(0))


def corners(images: np.ndarray, y: np.ndarray, x: np.ndarray) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """The four pixels about each place, row by row, and how far it is below and to the right of the first."""
    top, left = np.floor(y).astype(np.int64), np.floor(x).astype(np.int64)
    pixels = [_pixels(images, top + i, left + j) for i in (0, 1) for j in (0, 1)]
    return pixels, y - top.astype(y.dtype), x - left.astype(x.dtype)


def _pixels(images: np.ndarray, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Pixels of every channel, 0 beyond the edge: image, group, channel, taps, place."""
    height, width = images.shape[-2:]
    there = ((y >= 0) & (y < height) & (x >= 0) & (x < width))[:, :, None]
    image, group = np.ogrid[: images.shape[0], : images.shape[1]]
    index = (image.reshape(-1, 1, 1, 1, 1, 1), group.reshape(1, -1, 1, 1, 1, 1), slice(None))
    values = images[(*index, np.clip(y, 0, height - 1), np.clip(x, 0, width - 1))]
    # NumPy puts the sliced dimension (channels) last, because there are indices on both sides of it.
    return np.where(there, np.moveaxis(values, -1, 2), images.dtype.type(0))


def _check(
    input: np.ndarray, weight: np.ndarray, offset: np.ndarray, mask: np.ndarray, strides: tuple, pads: tuple,
    dilations: tuple, groups: int, offset_groups: int, use_mask: bool,
) -> tuple[int, int]:  # fmt: skip
    """Refuse what torchvision refuses; return the height and width of the result."""
    for name, array in (("input", input), ("offset", offset), ("mask", mask), ("weight", weight)):
        if name == "mask":
            check_that(not use_mask or mask.ndim == 4, "!use_mask || mask_c.ndimension() == 4")
        else:
            check_that(array.ndim == 4, f"{name}_c.ndimension() == 4")
    check(weight.shape[2] > 0 and weight.shape[3] > 0, f"weight_h: {weight.shape[2]} weight_w: {weight.shape[3]}")
    check(min(strides) > 0, f"stride_h: {strides[0]} stride_w: {strides[1]}")
    check(min(pads) >= 0, f"pad_h: {pads[0]} pad_w: {pads[1]}")
    check(min(dilations) > 0, f"dilation_h: {dilations[0]} dilation_w: {dilations[1]}")
    size = output_size(input.shape[2:], weight.shape[2:], strides, pads, dilations)
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
    return size[0], size[1]
