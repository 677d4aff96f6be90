"""Shapes: views, permutations, parts, repetitions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check
from torchnp.core.errors import ambiguous_view
from torchnp.portable.library import ArrayLibrary
from torchnp.portable.rows import Array, portable

Ints = Sequence[int]


def wrap(dim: int, ndim: int) -> int:
    """Return a dimension counted from the front."""
    size = max(ndim, 1)
    if not -size <= dim < size:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-size}, {size - 1}], but got {dim})")
    return dim + size if dim < 0 else dim


def inferred(x: Array, size: Ints) -> tuple[int, ...]:
    """Return sizes with a -1 replaced by the computed size."""
    sizes = list(size)
    for i, n in enumerate(sizes):
        if type(n) is int and n == -1:
            rest = math.prod(m for k, m in enumerate(sizes) if k != i)
            if type(rest) is int and rest == 0:
                raise ambiguous_view(size)
            sizes[i] = math.prod(x.shape) // rest
            break
    return tuple(sizes)


@portable("aten::view", "aten::reshape", "aten::_unsafe_view", "aten::view_copy", "aten::_reshape_copy")
def view(lib: ArrayLibrary, self: Array, size: Ints) -> Array:
    size = inferred(self, size)
    return self if tuple(self.shape) == size else lib.xp.reshape(self, size)


@portable("aten::view_as", "aten::reshape_as")
def view_as(lib: ArrayLibrary, self: Array, other: Array) -> Array:
    return lib.call("aten::view", self, tuple(other.shape))


@portable("aten::view.dtype")
def view_dtype(lib: ArrayLibrary, self: Array, dtype: Any) -> Array:
    return self if lib.dtype_of(self) == dt.as_dtype(dtype) else NotImplemented


@portable("aten::permute", "aten::permute_copy")
def permute(lib: ArrayLibrary, self: Array, dims: Ints) -> Array:
    return lib.xp.permute_dims(self, tuple(wrap(d, self.ndim) for d in dims))


@portable("aten::transpose.int", "aten::transpose_copy.int", "aten::swapaxes", "aten::swapdims")
def transpose(lib: ArrayLibrary, self: Array, dim0: int, dim1: int) -> Array:
    order = list(range(self.ndim))
    a, b = wrap(dim0, self.ndim), wrap(dim1, self.ndim)
    if not order:
        return self
    order[a], order[b] = b, a
    return lib.xp.permute_dims(self, tuple(order))


@portable("aten::t", "aten::t_copy", "aten::numpy_T")
def t(lib: ArrayLibrary, self: Array) -> Array:
    return lib.xp.permute_dims(self, tuple(reversed(range(self.ndim))))


@portable("aten::mT", "aten::mH", "aten::adjoint", "aten::matrix_H")
def mT(lib: ArrayLibrary, self: Array) -> Array:
    if dt.is_complex(lib.dtype_of(self)):
        return NotImplemented
    return transpose(lib, self, -1, -2)


@portable("aten::movedim.int", "aten::moveaxis.int")
def movedim_int(lib: ArrayLibrary, self: Array, source: int, destination: int) -> Array:
    return movedim(lib, self, [source], [destination])


@portable("aten::movedim.intlist", "aten::moveaxis.intlist")
def movedim(lib: ArrayLibrary, self: Array, source: Ints, destination: Ints) -> Array:
    n = self.ndim
    check(len(source) == len(destination), f"{len(source)} dimensions are moved to {len(destination)} places")
    moved = {wrap(b, n): wrap(a, n) for a, b in zip(source, destination)}
    rest = iter(d for d in range(n) if d not in moved.values())
    return lib.xp.permute_dims(self, tuple(moved[d] if d in moved else next(rest) for d in range(n)))


@portable("aten::flatten.using_ints")
def flatten(lib: ArrayLibrary, self: Array, start_dim: int = 0, end_dim: int = -1) -> Array:
    start, end = wrap(start_dim, self.ndim), wrap(end_dim, self.ndim)
    shape = tuple(self.shape)
    return lib.call("aten::view", self, (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :]))


@portable("aten::ravel")
def ravel(lib: ArrayLibrary, self: Array) -> Array:
    return lib.call("aten::view", self, (-1,))


@portable("aten::unflatten.int")
def unflatten(lib: ArrayLibrary, self: Array, dim: int, sizes: Ints) -> Array:
    check(len(sizes) > 0, "unflatten: sizes must be non-empty")
    check(self.ndim > 0, "unflatten got an unexpected error: the tensor has no dimensions")
    d, shape = wrap(dim, self.ndim), tuple(self.shape)
    rest = math.prod(n for n in sizes if not (type(n) is int and n == -1))
    inner = [shape[d] // rest if type(n) is int and n == -1 else n for n in sizes]
    return lib.call("aten::view", self, (*shape[:d], *inner, *shape[d + 1 :]))


@portable(
    "aten::squeeze.dims", "aten::squeeze.dim", "aten::squeeze", "aten::squeeze_copy.dims", "aten::squeeze_copy.dim",
    "aten::squeeze_copy",
)  # fmt: skip
def squeeze(lib: ArrayLibrary, self: Array, dim: int | Ints | None = None) -> Array:
    dims = range(self.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    axes = tuple(d for d in (wrap(d, self.ndim) for d in dims) if self.ndim and self.shape[d] == 1)
    return lib.xp.squeeze(self, axis=axes) if axes else self


@portable("aten::unsqueeze", "aten::unsqueeze_copy")
def unsqueeze(lib: ArrayLibrary, self: Array, dim: int) -> Array:
    return lib.xp.expand_dims(self, axis=dim)


@portable("aten::expand", "aten::expand_copy")
def expand(lib: ArrayLibrary, self: Array, size: Ints, *, implicit: bool = False) -> Array:
    lead = len(size) - self.ndim
    shape = tuple(self.shape[i - lead] if type(n) is int and n == -1 else n for i, n in enumerate(size))
    return self if shape == tuple(self.shape) else lib.xp.broadcast_to(self, shape)


@portable("aten::expand_as")
def expand_as(lib: ArrayLibrary, self: Array, other: Array) -> Array:
    return lib.xp.broadcast_to(self, tuple(other.shape))


@portable("aten::broadcast_to")
def broadcast_to(lib: ArrayLibrary, self: Array, size: Ints) -> Array:
    return expand(lib, self, size)


@portable("aten::broadcast_tensors")
def broadcast_tensors(lib: ArrayLibrary, tensors: list[Array]) -> list[Array]:
    return list(lib.xp.broadcast_arrays(*tensors))


@portable("aten::repeat")
def repeat(lib: ArrayLibrary, self: Array, repeats: Ints) -> Array:
    x = lib.xp.reshape(self, (1,) * (len(repeats) - self.ndim) + tuple(self.shape))
    return lib.xp.tile(x, tuple(repeats))


@portable("aten::tile")
def tile(lib: ArrayLibrary, self: Array, dims: Ints) -> Array:
    return repeat(lib, self, (1,) * (self.ndim - len(dims)) + tuple(dims))


@portable("aten::repeat_interleave.self_int")
def repeat_interleave(
    lib: ArrayLibrary, self: Array, repeats: int, dim: int | None = None, *, output_size: int | None = None
) -> Array:
    """Repeat each element next to itself, by broadcasting a new dimension and merging it with ``dim``."""
    x = lib.xp.reshape(self, (-1,)) if dim is None else self
    d, shape = wrap(0 if dim is None else dim, x.ndim), tuple(x.shape)
    wide = lib.xp.broadcast_to(lib.xp.expand_dims(x, axis=d + 1), (*shape[: d + 1], repeats, *shape[d + 1 :]))
    return lib.xp.reshape(wide, (*shape[:d], shape[d] * repeats, *shape[d + 1 :]))


def part(x: Array, dim: int, at: Any) -> Array:
    """Return an array indexed along one dimension."""
    return x[(slice(None),) * dim + (at,) + (slice(None),) * (x.ndim - dim - 1)]


def bounds(length: int, start: int | None, end: int | None) -> tuple[int, int]:
    """Return the start and end of a slice, clamped to a dimension's length."""
    low, high = 0 if start is None else start, length if end is None else end
    if type(length) is not int:  # a symbolic size in a trace, with which little can be computed
        whole = type(high) is int and high >= 2**31
        return low, length if whole else high + length if type(high) is int and high < 0 else high
    first, last, _ = slice(low, high).indices(length)
    return first, max(first, last)


@portable("aten::slice.Tensor", "aten::slice_copy.Tensor")
def slice_(
    lib: ArrayLibrary, self: Array, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Array:
    d = wrap(dim, self.ndim)
    first, last = bounds(self.shape[d], start, end)
    whole = type(first) is int and first == 0 and step == 1 and last is self.shape[d]
    return self if whole else part(self, d, slice(first, last, step))


@portable("aten::narrow", "aten::narrow_copy", "aten::narrow.Tensor")
def narrow(lib: ArrayLibrary, self: Array, dim: int, start: Any, length: int) -> Array:
    d, start = wrap(dim, self.ndim), lib.item(start)
    n = self.shape[d]
    if type(n) is int and type(start) is int:
        words = f"start out of range (expected to be in range of [{-n}, {n}], but got {start})"
        check(-n <= start <= n, words, IndexError)
    start = start + self.shape[d] if type(start) is int and start < 0 else start
    return part(self, d, slice(start, start + length))


@portable("aten::select.int", "aten::select_copy.int")
def select(lib: ArrayLibrary, self: Array, dim: int, index: int) -> Array:
    d = wrap(dim, self.ndim)
    return part(self, d, index + self.shape[d] if type(index) is int and index < 0 else index)


@portable("aten::split_with_sizes", "aten::split_with_sizes_copy", "aten::split.sizes", "aten::unsafe_split_with_sizes")
def split_with_sizes(lib: ArrayLibrary, self: Array, split_sizes: Ints, dim: int = 0) -> list[Array]:
    d, at, found = wrap(dim, self.ndim), 0, []
    for n in split_sizes:
        found.append(part(self, d, slice(at, at + n)))
        at += n
    return found


@portable("aten::split.Tensor", "aten::split_copy.Tensor", "aten::unsafe_split.Tensor")
def split(lib: ArrayLibrary, self: Array, split_size: int, dim: int = 0) -> list[Array]:
    n = self.shape[wrap(dim, self.ndim)]
    sizes = [min(split_size, n - i) for i in range(0, n, max(split_size, 1))] or [0]
    return split_with_sizes(lib, self, sizes, dim)


@portable("aten::chunk", "aten::unsafe_chunk")
def chunk(lib: ArrayLibrary, self: Array, chunks: int, dim: int = 0) -> list[Array]:
    n = self.shape[wrap(dim, self.ndim)]
    return split_with_sizes(lib, self, [0] * chunks, dim) if n == 0 else split(lib, self, -(-n // chunks), dim)


@portable("aten::tensor_split.indices", "aten::tensor_split.sections")
def tensor_split(lib: ArrayLibrary, self: Array, at: int | Ints, dim: int = 0) -> list[Array]:
    """Split at indices, or into a number of parts; if they can't be equal, the first parts are longer by one."""
    d = wrap(dim, self.ndim)
    at = lib.to_numpy(at).tolist() if lib.is_array(at) else at
    if not isinstance(at, int):
        ends = [0, *at, self.shape[d]]
        return [part(self, d, slice(*bounds(self.shape[d], a, b))) for a, b in pairwise(ends)]
    size, longer = divmod(self.shape[d], at)
    return split_with_sizes(lib, self, [size + (i < longer) for i in range(at)], d)


@portable("aten::tensor_split.tensor_indices_or_sections")
def tensor_split_tensor(lib: ArrayLibrary, self: Array, at: Array, dim: int = 0) -> list[Array]:
    check(lib.dtype_of(at) == dt.int64, "tensor_split expected tensor_indices_or_sections to have dtype of long")
    return tensor_split(lib, self, lib.to_numpy(at).tolist(), dim)


def _split_along(name: str, dim: int) -> None:
    @portable(f"aten::{name}.int", f"aten::{name}.array")
    def row(lib: ArrayLibrary, self: Array, at: int | Ints) -> list[Array]:
        return tensor_split(lib, self, at, 0 if name == "hsplit" and self.ndim == 1 else dim)


_split_along("hsplit", 1)
_split_along("vsplit", 0)
_split_along("dsplit", 2)


@portable("aten::unbind.int", "aten::unbind_copy.int")
def unbind(lib: ArrayLibrary, self: Array, dim: int = 0) -> list[Array]:
    d = wrap(dim, self.ndim)
    return [part(self, d, i) for i in range(self.shape[d])]


@portable("aten::diagonal", "aten::diagonal_copy")
def diagonal(lib: ArrayLibrary, self: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    """Return the diagonal: merge the two dimensions, and take every ``columns + 1``-th element."""
    a, b = wrap(dim1, self.ndim), wrap(dim2, self.ndim)
    order = [d for d in range(self.ndim) if d not in (a, b)] + [a, b]
    x = lib.xp.permute_dims(self, tuple(order))
    *batch, rows, columns = x.shape
    count = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    first = max(offset, 0) + max(-offset, 0) * columns
    flat = lib.xp.reshape(x, (*batch, rows * columns))
    return flat[..., first : first + (count - 1) * (columns + 1) + 1 if count else first : columns + 1]


@portable("aten::linalg_diagonal")
def linalg_diagonal(lib: ArrayLibrary, A: Array, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Array:
    return lib.call("aten::diagonal", A, offset, dim1, dim2)


@portable("aten::flip")
def flip(lib: ArrayLibrary, self: Array, dims: Ints) -> Array:
    axes = tuple(wrap(d, self.ndim) for d in dims)
    return lib.xp.flip(self, axis=axes) if axes and self.ndim else self


@portable("aten::fliplr")
def fliplr(lib: ArrayLibrary, self: Array) -> Array:
    return flip(lib, self, [1])


@portable("aten::flipud")
def flipud(lib: ArrayLibrary, self: Array) -> Array:
    return flip(lib, self, [0])


@portable("aten::roll")
def roll(lib: ArrayLibrary, self: Array, shifts: Ints, dims: Ints = ()) -> Array:
    if not dims:
        return lib.xp.roll(self, shifts[0])
    return lib.xp.roll(self, tuple(shifts), axis=tuple(wrap(d, self.ndim) for d in dims))


@portable("aten::rot90")
def rot90(lib: ArrayLibrary, self: Array, k: int = 1, dims: Ints = (0, 1)) -> Array:
    a, b = dims
    turns = k % 4
    if turns == 0:
        return self
    if turns == 2:
        return flip(lib, self, dims)
    x = flip(lib, self, [b]) if turns == 1 else transpose(lib, self, a, b)
    return transpose(lib, x, a, b) if turns == 1 else flip(lib, x, [b])


@portable("aten::tril")
def tril(lib: ArrayLibrary, self: Array, diagonal: int = 0) -> Array:
    return lib.xp.tril(self, k=diagonal)


@portable("aten::triu")
def triu(lib: ArrayLibrary, self: Array, diagonal: int = 0) -> Array:
    return lib.xp.triu(self, k=diagonal)


@portable("aten::pixel_shuffle")
def pixel_shuffle(lib: ArrayLibrary, self: Array, upscale_factor: int) -> Array:
    r, n = upscale_factor, self.ndim
    *batch, channels, height, width = self.shape
    x = lib.xp.reshape(self, (*batch, channels // r**2, r, r, height, width))
    order = (*range(n - 3), *(n - 3 + i for i in (0, 3, 1, 4, 2)))
    return lib.xp.reshape(lib.xp.permute_dims(x, order), (*batch, channels // r**2, height * r, width * r))


@portable("aten::pixel_unshuffle")
def pixel_unshuffle(lib: ArrayLibrary, self: Array, downscale_factor: int) -> Array:
    r, n = downscale_factor, self.ndim
    *batch, channels, height, width = self.shape
    x = lib.xp.reshape(self, (*batch, channels, height // r, r, width // r, r))
    order = (*range(n - 3), *(n - 3 + i for i in (0, 2, 4, 1, 3)))
    return lib.xp.reshape(lib.xp.permute_dims(x, order), (*batch, channels * r**2, height // r, width // r))


@portable("aten::channel_shuffle")
def channel_shuffle(lib: ArrayLibrary, self: Array, groups: int) -> Array:
    b, c, *space = self.shape
    x = lib.xp.reshape(self, (b, groups, c // groups, *space))
    return lib.xp.reshape(lib.xp.permute_dims(x, (0, 2, 1, *range(3, x.ndim))), tuple(self.shape))


@portable("aten::unfold", "aten::unfold_copy")
def unfold(lib: ArrayLibrary, self: Array, dimension: int, size: int, step: int) -> Array:
    if self.ndim == 0:
        return NotImplemented
    d = wrap(dimension, self.ndim)
    check(size <= self.shape[d], f"maximum size for tensor at dimension {d} is {self.shape[d]} but size is {size}")
    starts = np.arange(0, self.shape[d] - size + 1, step)
    at = lib.from_numpy((starts[:, None] + np.arange(size)).reshape(-1))
    x = lib.xp.take(self, at, axis=d)
    x = lib.xp.reshape(x, (*self.shape[:d], len(starts), size, *self.shape[d + 1 :]))
    return lib.xp.moveaxis(x, d + 1, -1)


# ---------------------------------------------------------------- parts written


def _written(lib: ArrayLibrary, self: Array, src: Array, dim: int, at: np.ndarray) -> Array:
    """Along one dimension, replace element i by element ``at[i]`` of ``src``, unless ``at[i]`` is negative."""
    if len(at) and (at < 0).all():
        return self
    shape = [1] * self.ndim
    shape[dim] = len(at)
    taken = lib.xp.take(lib.astype(src, lib.dtype_of(self)), lib.from_numpy(np.maximum(at, 0)), axis=dim)
    return lib.xp.where(lib.from_numpy((at >= 0).reshape(shape)), taken, self)


@portable("aten::slice_scatter")
def slice_scatter(
    lib: ArrayLibrary,
    self: Array,
    src: Array,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Array:
    d = wrap(dim, self.ndim)
    first, last = bounds(self.shape[d], start, end)
    if type(self.shape[d]) is not int or type(first) is not int or type(last) is not int:
        return NotImplemented
    src = lib.xp.broadcast_to(src, (*self.shape[:d], len(range(first, last, step)), *self.shape[d + 1 :]))
    at = np.full(self.shape[d], -1)
    at[first:last:step] = np.arange(len(range(first, last, step)))
    return _written(lib, self, src, d, at)


@portable("aten::select_scatter")
def select_scatter(lib: ArrayLibrary, self: Array, src: Array, dim: int, index: int) -> Array:
    d = wrap(dim, self.ndim)
    index = index + self.shape[d] if index < 0 else index
    return slice_scatter(lib, self, lib.xp.expand_dims(src, axis=d), d, index, index + 1)


@portable("aten::diagonal_scatter")
def diagonal_scatter(
    lib: ArrayLibrary, self: Array, src: Array, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Array:
    """Broadcast each source element along its row, and select it on the diagonal."""
    a, b = wrap(dim1, self.ndim), wrap(dim2, self.ndim)
    order = [d for d in range(self.ndim) if d not in (a, b)] + [a, b]
    x = lib.xp.permute_dims(self, tuple(order))
    rows, columns = x.shape[-2:]
    count, top = src.shape[-1], max(-offset, 0)
    if not count:
        return self
    at = lib.from_numpy(np.clip(np.arange(rows) - top, 0, count - 1))
    spread = lib.xp.expand_dims(lib.xp.take(lib.astype(src, lib.dtype_of(self)), at, axis=-1), axis=-1)
    mask = lib.from_numpy(np.arange(columns)[None, :] - np.arange(rows)[:, None] == offset)
    back = tuple(order.index(d) for d in range(self.ndim))
    return lib.xp.permute_dims(lib.xp.where(mask, spread, x), back)


# ---------------------------------------------------------------- sizes


@portable("aten::sym_size.int")
def sym_size(lib: ArrayLibrary, self: Array, dim: int) -> int:
    return self.shape[wrap(dim, self.ndim)]


@portable("aten::sym_numel")
def sym_numel(lib: ArrayLibrary, self: Array) -> int:
    return math.prod(self.shape)
