"""Operators that treat each row of a batch independently: the NumPy kernel runs on each block of the batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import dask.array as da
import numpy as np

import torchnp
from torchnp import dtypes as dt
from torchnp.portable.dask.library import is_lazy
from torchnp.portable.library import ArrayLibrary
from torchnp.portable.rows import Array, Row, portable
from torchnp.portable.standard import fft, shape
from torchnp.portable.standard import matmul as standard
from torchnp.portable.standard.join import cat as standard_cat
from torchnp.portable.standard.pad import constant_pad_nd as standard_pad


def _whole_rows(x: Array) -> Array:
    """Rechunk a Dask array so that it is cut only along its first dimension."""
    return x.rechunk(dict.fromkeys(range(1, x.ndim), -1))


def _kernel_on_block(block: np.ndarray, *, operator: str, args: tuple, kwargs: dict, result: int | None) -> np.ndarray:
    found = torchnp.table[operator](np.array(block), *args, **kwargs)
    return found if result is None else found[result]


def by_block(name: str, results: int = 1) -> Row:
    """Return a row that runs a kernel on each block of its first argument's batch; other arguments are not cut."""

    def row(lib: ArrayLibrary, self: Array, *args: Any, **kwargs: Any) -> Any:
        if not is_lazy(self):
            arrays = [x for a in args for x in (a if isinstance(a, list) else [a])]
            return NotImplemented if any(map(is_lazy, arrays)) else torchnp.table[name](self, *args, **kwargs)
        if any(map(is_lazy, (*args, *kwargs.values()))) or self.ndim == 0:
            return NotImplemented
        x = _whole_rows(self)
        one = torchnp.table[name](np.zeros((1, *x.shape[1:]), x.dtype), *args, **kwargs)
        made = []
        for i, sample in enumerate(one if results > 1 else [one]):
            rest = [(n,) for n in sample.shape[1:]]
            made.append(
                da.map_blocks(
                    _kernel_on_block, x, operator=name, args=args, kwargs=kwargs, result=i if results > 1 else None,
                    dtype=sample.dtype, chunks=(x.chunks[0], *rest), drop_axis=list(range(1, x.ndim)),
                    new_axis=list(range(1, sample.ndim)), meta=np.empty((0,) * sample.ndim, sample.dtype),
                )
            )  # fmt: skip
        return made[0] if results == 1 else tuple(made)

    return row


for _name in (
    "aten::conv1d", "aten::conv2d", "aten::conv3d", "aten::convolution", "aten::max_pool1d", "aten::max_pool2d",
    "aten::max_pool3d", "aten::avg_pool2d", "aten::avg_pool3d", "aten::adaptive_avg_pool2d", "aten::_adaptive_avg_pool2d",
    "aten::adaptive_avg_pool3d", "aten::_adaptive_avg_pool3d", "aten::erf", "aten::gelu", "aten::silu",
    "aten::reflection_pad1d", "aten::reflection_pad2d", "aten::reflection_pad3d", "aten::upsample_bilinear2d.vec",
    "aten::upsample_nearest2d.vec",
):  # fmt: skip
    portable(_name, on="dask")(by_block(_name))
for _name in ("aten::max_pool2d_with_indices", "aten::max_pool3d_with_indices"):
    portable(_name, on="dask")(by_block(_name, 2))


@portable("aten::constant_pad_nd", on="dask")
def constant_pad_nd(lib: ArrayLibrary, self: Array, pad: Sequence[int], value: Any = 0) -> Array:
    if len(pad) // 2 == self.ndim and any(pad[-2:]):
        return standard_pad(lib, self, pad, value)
    return by_block("aten::constant_pad_nd")(lib, self, pad, value)


@portable("aten::embedding", on="dask")
def embedding(lib: ArrayLibrary, weight: Array, indices: Array, *args: Any, **kwargs: Any) -> Array:
    if not is_lazy(indices) or is_lazy(weight):
        return NotImplemented if is_lazy(weight) else torchnp.table["aten::embedding"](weight, indices)
    x = _whole_rows(indices)
    take = lambda block: torchnp.table["aten::embedding"](weight, np.array(block))
    return da.map_blocks(take, x, dtype=weight.dtype, chunks=(*x.chunks, (weight.shape[1],)), new_axis=[x.ndim])


@portable("aten::gather", on="dask")
def gather(lib: ArrayLibrary, self: Array, dim: int, index: Array, *, sparse_grad: bool = False) -> Array:
    """Gather in one block of the batch at a time, unless ``dim`` is the batch."""
    if not is_lazy(self) and not is_lazy(index):
        return torchnp.table["aten::gather"](self, dim, index)
    n = index.ndim
    if n != self.ndim or not n or shape.wrap(dim, n) == 0:
        return NotImplemented
    self = self[: index.shape[0]]
    rows = (index if is_lazy(index) else self).chunks[0]
    a, b = (
        (x if is_lazy(x) else da.from_array(x)).rechunk({0: rows, **dict.fromkeys(range(1, n), -1)})
        for x in (self, index)
    )
    take = lambda x, at: torchnp.table["aten::gather"](np.array(x), dim, np.array(at))
    places = (0, *range(n, 2 * n - 1))
    empty = np.empty((0,) * n, a.dtype)
    return da.blockwise(take, places, a, tuple(range(n)), b, places, dtype=a.dtype, concatenate=True, meta=empty)


@portable(
    "aten::view", "aten::reshape", "aten::_unsafe_view", "aten::view_copy", "aten::_reshape_copy", on="dask"
)  # fmt: skip
def view(lib: ArrayLibrary, self: Array, size: Sequence[int]) -> Array:
    """Reshape. If the first dimensions stay, so do their chunks; otherwise each chunk of rows is reshaped."""
    size = shape.inferred(self, size)
    if not is_lazy(self) or tuple(self.shape) == size:
        return self if is_lazy(self) else self.reshape(size)
    keep = 0
    while keep < min(self.ndim, len(size)) and self.shape[keep] == size[keep]:
        keep += 1
    if not keep:
        return _in_new_rows(_whole_rows(self), size)
    x, tail = self.rechunk(dict.fromkeys(range(keep, self.ndim), -1)), size[keep:]
    return da.map_blocks(
        lambda block: block.reshape(block.shape[:keep] + tail),
        x,
        dtype=x.dtype,
        drop_axis=list(range(keep, x.ndim)),
        new_axis=list(range(keep, len(size))),
        chunks=x.chunks[:keep] + tuple((n,) for n in tail),
    )


def _in_new_rows(x: Array, size: tuple[int, ...]) -> Array:
    """Reshape each chunk, after rechunking so that each holds a whole number of new rows."""
    row, wanted = math.prod(x.shape[1:]), math.prod(size[1:])
    if 0 in x.shape and 0 in size:  # Dask cannot merge the chunks of an array without elements
        return da.zeros(size, dtype=x.dtype)
    if not x.ndim or not size or not row or not wanted:
        return da.reshape(x, size)
    step = wanted // math.gcd(row, wanted)
    if any(n % step for n in x.chunks[0]):
        x = x.rechunk({0: -(-max(x.chunks[0]) // step) * step})
    return da.map_blocks(
        lambda block: block.reshape(-1, *size[1:]),
        x,
        dtype=x.dtype,
        drop_axis=list(range(1, x.ndim)),
        new_axis=list(range(1, len(size))),
        chunks=(tuple(n * row // wanted for n in x.chunks[0]), *((n,) for n in size[1:])),
    )


@portable("aten::cat", on="dask")
def cat(lib: ArrayLibrary, tensors: list[Array], dim: int = 0) -> Array:
    """Concatenate; NumPy arrays are first cut into the chunks of the Dask arrays."""
    first = next((x for x in tensors if is_lazy(x)), None)
    if first is None or len({x.ndim for x in tensors}) > 1:
        return standard_cat(lib, tensors, dim)
    d = shape.wrap(dim, first.ndim)
    chunks = lambda x: tuple(x.shape[i] if i == d else first.chunks[i] for i in range(x.ndim))
    return standard_cat(lib, [x if is_lazy(x) else da.from_array(x, chunks=chunks(x)) for x in tensors], dim)


def _transform(name: str, whole: Row) -> None:
    """Declare a Fourier transform, whose dimensions are not cut."""

    @portable(name, on="dask")
    def row(lib: ArrayLibrary, self: Array, dim: Sequence[int], *args: Any) -> Array:
        uncut = dict.fromkeys((shape.wrap(d, self.ndim) for d in dim), -1)
        return whole(lib, self.rechunk(uncut) if is_lazy(self) else self, dim, *args)


_transform("aten::_fft_r2c", fft.fft_r2c)
_transform("aten::_fft_c2c", fft.fft_c2c)
_transform("aten::_fft_c2r", fft.fft_c2r)


@portable("aten::mm", "aten::bmm", "aten::matmul", on="dask")
def matmul(lib: ArrayLibrary, self: Array, other: Array) -> Array:
    """Multiply chunks of whole rows, so that no product needs a sum over several chunks.

    If both matrices are cut in the same way along the dimension of the sum, the products of their chunks are added
    instead. So correlating the columns of a long array does not gather it.
    """
    matrices = all(is_lazy(x) and x.ndim == 2 for x in (self, other)) and dt.is_inexact(lib.dtype_of(self))
    if matrices and self.chunks[1] == other.chunks[0] and len(self.chunks[1]) > 1:
        return lib.in_opmath(lambda a, b: da.tensordot(a, b, axes=((1,), (0,))), self, other)
    a, b = (
        x.rechunk({x.ndim - 1: -1, x.ndim - 2: -1} if x.ndim > 2 else {x.ndim - 1: -1}) if is_lazy(x) else x
        for x in (self, other)
    )
    found = standard.matmul(lib, a, b)
    return found if found is NotImplemented else lib.astype(found, lib.dtype_of(self))  # Dask sums in wider integers
