"""Rearranged copies of a tensor's elements: flips, rolls, repeats, triangles, shuffles."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from torchnp.core.checks import check, dim_of, refuse_elements, require, wrap_dim, wrap_dims
from torchnp.core.errors import dim_out_of_range, negative_size, no_dimensions, shape_text
from torchnp.core.inplace_out_spec import Bound, Step, WriteSpec
from torchnp.core.registry import kernel
from torchnp.core.target import since
from torchnp.dtypes import INTS, can_cast, cast, complex32, int32, int64, promote_types, scalar_name
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._memory import RARE, RARE_OR_CHALF, bits, check_options, check_size, factory_dtype, new_like, rarer
from torchnp.kernels._spatial import code_for
from torchnp.kernels.copy import clone
from torchnp.kernels.create import filled
from torchnp.kernels.index import index_select
from torchnp.kernels.reduce import sum_all, sum_dim
from torchnp.kernels.scan import cumprod
from torchnp.kernels.slicing import at, diagonal
from torchnp.layout import stride_rules
from torchnp.layout.overlap import check_target
from torchnp.thresholds import Threshold

ndarray = np.ndarray

# ---------------------------------------------------------------- flip, rotate, roll


@kernel("flip", like=np.flip, differs=["flip-copies", "zero-dim-axis", "missing-kernel"])
def flip(self, dims):
    """A copy with the elements along ``dims`` in reverse order."""
    dims = wrap_dims(dims, self.ndim)
    if not self.size:
        return stride_rules.cloned(self)
    # torch flips rare dtypes only if it moves whole rows. Expanded dimensions need no flip.
    wide = [d for d in range(self.ndim) if self.shape[d] > 1]
    if any(d in dims and self.strides[d] for d in wide):
        inner = min(wide, key=lambda d: (abs(self.strides[d]), -d))
        if inner in dims or self.strides[inner] != self.itemsize:
            refuse_elements("flip_cpu", self, rarer("2.14", RARE_OR_CHALF))
    out = new_like(self, self.dtype)
    out[...] = np.flip(self, dims) if self.ndim else self
    return out


def _flip_one(self, *, axis):
    check(self.ndim > axis, f"Input must be >= {axis + 1}-d.")
    return flip(self, [axis])


_FLIPPED = ["flip-copies", "missing-kernel"]
rows("fliplr", _flip_one, "A copy with dimension 1 in reverse order.", axis=1, like=np.fliplr, differs=_FLIPPED)
rows("flipud", _flip_one, "A copy with dimension 0 in reverse order.", axis=0, like=np.flipud, differs=_FLIPPED)


@kernel("rot90", like=np.rot90, differs=_FLIPPED)
def rot90(self, k=1, dims=(0, 1)):
    """A copy rotated ``k`` times by 90 degrees in the plane of two dimensions."""
    check(len(dims) == 2, f"expected total rotation dims == 2, but got dims = {len(dims)}")
    check(self.ndim >= 2, f"expected total dims >= 2, but got total dims = {self.ndim}")
    a, b = dims
    different = f"expected rotation dims to be different, but got dim0 = {a} and dim1 = {b}"
    if not since("2.13"):
        check(a != b and abs(a - b) != self.ndim, different)
        for i, dim in enumerate(dims):
            check(-self.ndim <= dim < self.ndim, f"Rotation dim{i} out of range, dim{i} = {dim}")
    first, second = wrap_dim(a, self.ndim), wrap_dim(b, self.ndim)
    check(first != second, different)
    k %= 4
    if k == 0:
        return clone(self, memory_format="contiguous_format")
    if k == 2:
        return flip(self, [first, second])
    return flip(self, [second if k == 1 else first]).swapaxes(first, second)


@kernel("roll", like=np.roll, differs=["roll-aligned"])
def roll(self, shifts, dims=()):
    """A copy with elements shifted along dimensions, wrapping around at the ends."""
    shifts, dims = _listed(shifts), _listed(dims)
    if not self.size and (len(shifts) == len(dims) > 0 or (len(shifts) == self.ndim == 1 and not len(dims))):
        return stride_rules.cloned(self)
    check(len(shifts) > 0, "`shifts` required")
    if not len(dims) and len(shifts) == 1:
        return stride_rules.dense(_roll1(self.reshape(-1), shifts[0], 0).reshape(self.shape))
    check(len(shifts) == len(dims), f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}")
    for shift, dim in zip(shifts, dims):
        check(self.ndim > 0, no_dimensions(dim))
        self = _roll1(self, shift, wrap_dim(dim, self.ndim))
    return self


def _listed(x: Any) -> list[int]:
    return [x] if isinstance(x, int) else list(x)


def _roll1(x: ndarray, shift: int, dim: int) -> ndarray:
    n = x.shape[dim]
    shift = shift % n if n else 0
    stays, comes = x[at(dim, slice(0, n - shift))], x[at(dim, slice(n - shift, None))]
    memory_format = stride_rules.joined([stride_rules.layout_of(stays), stride_rules.layout_of(comes)])
    out = stride_rules.empty(x.shape, x.dtype, stride_rules.in_format(x.shape, memory_format))
    out[at(dim, slice(shift, None))] = stays
    out[at(dim, slice(0, shift))] = comes
    return out


# ---------------------------------------------------------------- repeat


@kernel("repeat", like=np.tile, differs=["repeat-is-tile"])
def repeat(self, repeats):
    """The tensor, repeated along each dimension as often as ``repeats`` says."""
    extra = len(repeats) - self.ndim
    check(extra >= 0, "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    shape = (1,) * extra + self.shape
    size = [n * r for n, r in zip(shape, repeats)]
    out = np.empty(check_size(size), self.dtype)
    if out.size:
        blocks = [n for pair in zip(repeats, shape) for n in pair]
        out.reshape(blocks)[...] = self.reshape([n for s in shape for n in (1, s)])
    return out


rows(
    "tile", lambda x, n: repeat(x, (1,) * (x.ndim - len(n)) + tuple(n)),
    "`repeat` that accepts fewer repeats than dimensions.", like=np.tile,
)  # fmt: skip


@kernel("repeat_interleave.Tensor", like=np.repeat, differs=["repeats-keep-dtype", "repeat-output-size"])
def repeat_interleave_tensor(repeats, *, output_size=None):
    """Each index i repeated ``repeats[i]`` times."""
    require("repeat_interleave_cpu", repeats.dtype, INTS if since("2.14") else (int32, int64))
    check(repeats.ndim == 1, "repeat_interleave only accept 1D vector as repeat")
    if output_size is not None:
        check(output_size >= 0, negative_size(output_size, (output_size,)))
        check(int(repeats.sum()) == output_size, "allocated size does not match required size")
    check(not repeats.size or int(repeats.min()) >= 0, "repeats can not be negative")
    return np.arange(repeats.size).astype(repeats.dtype).repeat(repeats)


@kernel("repeat_interleave.self_Tensor", like=np.repeat, differs=["repeat-of-number"])
def repeat_interleave(self, repeats, dim=None, *, output_size=None):
    """The slice at each index i of a dimension, repeated ``repeats[i]`` times."""
    if dim is None:
        self, dim = self.reshape(-1), 0
    check(repeats.ndim < 2, "repeats must be 0-dim or 1-dim tensor")
    axis = dim_of(self, dim)
    extent = self.shape[axis]
    if repeats.size == 1:
        repeats = np.broadcast_to(repeats.reshape(1), (extent,))
    elif repeats.size != extent:
        words = f"repeats must have the same size as input along dim, but got repeats.size(0) = {repeats.size} and"
        raise RuntimeError(f"{words} input.size({dim}) = {extent}")
    index = repeat_interleave_tensor(repeats, output_size=output_size)
    return index_select(self, axis, index if index.dtype == int32 else cast(index, int64))


@kernel("repeat_interleave.self_int", like=np.repeat, differs=["repeat-of-number", "repeat-output-size"])
def repeat_interleave_int(self, repeats, dim=None, *, output_size=None):
    """The slice at each index of a dimension, repeated ``repeats`` times."""
    if dim is None:
        self, dim = self.reshape(-1), 0
    if not self.ndim:  # torch inserts a dimension behind the repeated one, which a 0-d tensor lacks
        check(repeats >= 0 or dim not in (0, -1), "Repeats must be non-negative")
        raise dim_out_of_range(1 if dim in (0, -1) else dim, 1)
    dim = wrap_dim(dim, self.ndim)
    check(repeats >= 0, "Repeats must be non-negative")
    size = repeats * self.shape[dim]
    words = f"repeat_interleave: Invalid output_size, expected {size} but got {output_size}"
    check(output_size in (None, size), words)
    return self.repeat(repeats, dim)


# ---------------------------------------------------------------- triangles and diagonals


_KEPT: Threshold = 1 << 16  # elements; masks up to this size are cached


def _triangle(x: ndarray, diagonal: int, *, op: str) -> ndarray:
    check(x.ndim >= 2, f"{op}: input tensor must have at least 2 dimensions")
    refuse_elements(op, x, RARE)
    rows, columns = x.shape[-2:]
    keep = (_side if rows * columns <= _KEPT else _side.__wrapped__)(rows, columns, diagonal, op == "tril")
    out = np.zeros(x.shape, x.dtype)
    np.copyto(bits(out), bits(x), where=keep)
    return out


@functools.lru_cache(maxsize=16)
def _side(rows: int, columns: int, diagonal: int, lower: bool) -> ndarray:
    """Return the mask of a matrix's entries on and below (or above) a diagonal."""
    edge = np.arange(rows)[:, None] + diagonal
    return np.arange(columns) <= edge if lower else np.arange(columns) >= edge


def _write_triangle(bound: Bound, target: ndarray, step: Step) -> None:
    """Write a triangle into an expanded target as torch does in place: compute it in a copy, then write its zeros.

    Overlap is an error only if the target's batch is not contiguous, and only after all other checks.
    """
    out = target.copy()
    step(bound | {"self": out})
    if target.ndim > 3:
        (n, *_), (first, *strides) = stride_rules.layout_of(target)
        outer, *dense = stride_rules.contiguous(target.shape)
        if strides[:-2] != dense[:-2] or (n > 1 and first not in (0, outer)):
            check_target(target)
    target[~out.view(np.uint8).reshape(*out.shape, out.itemsize).any(-1)] = 0  # a negative zero stays


_DOC, _OF_TRI = (
    "The entries on and {} a diagonal, zero elsewhere.",
    {"differs": ["triangle-of-vector"], "writes": WriteSpec(expanded=_write_triangle)},
)
rows("tril", _triangle, _DOC.format("below"), like=np.tril, **_OF_TRI)
rows("triu", _triangle, _DOC.format("above"), like=np.triu, **_OF_TRI)


def _triangle_indices(row, col, offset, dtype, layout, device, pin_memory, *, op):
    check_options(layout, device, False)
    check(row >= 0, f"row must be non-negative, got{row}")
    check(col >= 0, f"col must be non-negative, got{col}")
    check_options(None, None, pin_memory)
    dtype = factory_dtype(dtype, int64)
    require(op, dtype, (int32, int64))
    inside = np.tri(row, col, offset, dtype=bool) if op == "tril_indices" else ~np.tri(row, col, offset - 1, dtype=bool)
    return np.stack(np.nonzero(inside)).astype(dtype, copy=False)


_DOC = "Row and column indices of the entries on and below a diagonal."
_DIFFERS = ["triangle-indices", "missing-kernel"]
rows("tril_indices", _triangle_indices, _DOC, like=np.tril_indices, differs=_DIFFERS)
_DOC = "Row and column indices of the entries on and above a diagonal."
rows("triu_indices", _triangle_indices, _DOC, like=np.triu_indices, differs=_DIFFERS)


@kernel("diag_embed", like=np.diagflat, differs=["diag-embed-batches"])
def diag_embed(self, offset=0, dim1=-2, dim2=-1):
    """Matrices in two new dimensions, with the vectors along the last dimension as their diagonals."""
    ndim = self.ndim + 1
    first, second = wrap_dim(dim1, ndim), wrap_dim(dim2, ndim)
    check(first != second, f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    n = self.shape[-1] + abs(offset)
    size = list(self.shape[:-1])
    for d in sorted((first, second)):
        size.insert(d, n)
    out = np.zeros(size, self.dtype)
    diagonal(out, offset, first, second)[...] = self
    return out


def _precheck_diag(bound: Bound, outs: list[ndarray]) -> None:
    """Raise torch's error if ``out=`` cannot hold a vector's dtype; torch's message for matrices differs."""
    x, out = bound["self"].dtype, outs[0].dtype
    if bound["self"].ndim == 1 and not can_cast(x, out):
        names = f"{scalar_name(x)} can't be cast to the desired out= type {scalar_name(out)}"
        raise RuntimeError(f"diag: result type {names}")


@kernel("diag", like=np.diag, differs=["flip-copies"], writes=WriteSpec(out=_precheck_diag))
def diag(self, diagonal=0):
    """The diagonal of a matrix, or the matrix that has a vector as its diagonal."""
    check(self.ndim in (1, 2), f"diag(): Supports 1D or 2D tensors. Got {self.ndim}D")
    return diag_embed(self, diagonal) if self.ndim == 1 else self.diagonal(diagonal).copy()


rows(
    "diagflat", lambda x, offset: diag_embed(x.reshape(-1), offset), "A matrix with all elements on a diagonal.",
    like=np.diagflat,
)  # fmt: skip


@kernel("fill_diagonal_", like=np.fill_diagonal)
def fill_diagonal_(self, fill_value, wrap=False):
    """Write one number on the main diagonal; with ``wrap`` it restarts after each square of a tall matrix."""
    check(self.ndim >= 2, "dimensions must larger than 1")
    if self.ndim > 2:
        check(len(set(self.shape)) == 1, "all dimensions of input must be of equal length")
    n = min(self.shape)
    value = filled(np.empty(n, self.dtype), fill_value)
    if n:
        np.fill_diagonal(bits(self), bits(value), wrap)
    return self


# ---------------------------------------------------------------- channels and pixels


def _shuffled(out: ndarray, source: ndarray) -> ndarray:
    """Copy a shuffled view to a dense tensor in the memory format that its source suggests."""
    dense = stride_rules.empty(
        out.shape, out.dtype, stride_rules.in_format(out.shape, stride_rules.suggested(*stride_rules.layout_of(source)))
    )
    dense[...] = out
    return dense


def _check_image(x: ndarray, r: int, name: str, factor: str) -> None:
    check(x.ndim >= 3, f"{name} expects input to have at least 3 dimensions, but got input with {x.ndim} dimension(s)")
    check(r > 0, f"{name} expects a positive {factor}, but got {r}")


def _check_pixels(x: ndarray, name: str) -> None:
    """Raise torch's error for channels-last volumes and rare dtypes, which it does not support."""
    words = "Unsupported memory format. Supports only ChannelsLast, Contiguous"
    check(stride_rules.suggested(*stride_rules.layout_of(x)) != "channels_last_3d", words)
    refuse_elements(code_for(name, x), x, RARE_OR_CHALF)


@kernel("pixel_shuffle")
def pixel_shuffle(self, upscale_factor):
    """Channels moved into pixels: shape (..., C r r, H, W) becomes (..., C, H r, W r)."""
    r = upscale_factor
    _check_image(self, r, "pixel_shuffle", "upscale_factor")
    *batch, c, h, w = self.shape
    if c % (r * r):
        words = "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor,"
        raise RuntimeError(f"{words} but input.size(-3)={c} is not divisible by {r * r}")
    _check_pixels(self, "pixel_shuffle")
    out = np.moveaxis(self.reshape(*batch, c // (r * r), r, r, h, w), (-4, -3), (-3, -1))
    return _shuffled(out.reshape(*batch, c // (r * r), h * r, w * r), self)


@kernel("pixel_unshuffle")
def pixel_unshuffle(self, downscale_factor):
    """Pixels moved into channels: shape (..., C, H r, W r) becomes (..., C r r, H, W)."""
    r = downscale_factor
    _check_image(self, r, "pixel_unshuffle", "downscale_factor")
    *batch, c, h, w = self.shape
    for name, n, d in (("height", h, -2), ("width", w, -1)):
        if n % r:
            words = f"pixel_unshuffle expects {name} to be divisible by downscale_factor,"
            raise RuntimeError(f"{words} but input.size({d})={n} is not divisible by {r}")
    if not self.size:  # torch clones empty tensors without a change of shape
        return stride_rules.cloned(self)
    _check_pixels(self, "pixel_unshuffle")
    out = np.moveaxis(self.reshape(*batch, c, h // r, r, w // r, r), (-3, -1), (-4, -3))
    return _shuffled(out.reshape(*batch, c * r * r, h // r, w // r), self)


@kernel("channel_shuffle", "native_channel_shuffle")
def channel_shuffle(self, groups):
    """The channels, divided into ``groups`` groups and interleaved."""
    words = f"channel_shuffle expects input with > 2 dims, but got input with sizes {shape_text(self.shape)}"
    check(self.ndim > 2, words)
    check(groups > 0, f"Number of groups to divide channels in must be positive. Value of groups:{groups}")
    c = self.shape[1]
    check(c % groups == 0, f"Number of channels must be divisible by groups. Got {c} channels and {groups} groups.")
    if not self.size:
        return stride_rules.cloned(self)
    last = stride_rules.suggested(*stride_rules.layout_of(self)) != "contiguous_format"
    refuse_elements("channel_shuffle_cl" if last else "channel_shuffle", self, RARE_OR_CHALF)
    out = self.reshape(self.shape[0], groups, c // groups, *self.shape[2:]).swapaxes(1, 2)
    return _shuffled(out.reshape(self.shape), self)


@kernel("vander", like=np.vander, differs=["vander-dtype"])
def vander(x, N=None, increasing=False):
    """Vandermonde matrix: its columns are the powers of a vector, the highest first unless ``increasing``."""
    check(x.ndim == 1, "x must be a one-dimensional tensor.")
    n = x.size if N is None else N
    check(n >= 0, "N must be non-negative.")
    dtype = promote_types(x.dtype, int64)
    if n > 1:
        refuse_elements("cumprod_out_cpu", x, frozenset({complex32}))
    powers = np.ones((x.size, n), dtype)
    powers[:, 1:] = cumprod(np.repeat(cast(x, dtype)[:, None], max(n - 1, 0), 1), 1)
    return powers if increasing else flip(powers, [1])


@kernel("sum_to_size", like=np.sum, differs=["sum-dtype"])
def sum_to_size(self, size):
    """The sum over the dimensions in which ``size`` would be expanded; the tensor itself if there are none."""
    if not len(size):
        return sum_all(self)
    extra = self.ndim - len(size)
    fits = extra >= 0 and all(n in (1, m) for n, m in zip(size, self.shape[extra:]))
    check(fits, f"size {{{shape_text(size)}}} is not expandable to size {{{shape_text(self.shape)}}}.")
    dims = [d for d in range(self.ndim) if d < extra or (size[d - extra] == 1 and self.shape[d] != 1)]
    return sum_dim(self, dims, True).reshape(size) if dims else self
