"""Joining arrays: cat, stack."""

from __future__ import annotations

import math

from torchnp.core.checks import check
from torchnp.portable.library import ArrayLibrary
from torchnp.portable.rows import Array, portable
from torchnp.portable.standard.shape import wrap


@portable("aten::cat", "aten::concat", "aten::concatenate")
def cat(lib: ArrayLibrary, tensors: list[Array], dim: int = 0) -> Array:
    """Concatenate; empty 1-d arrays, which torch skips, affect only the dtype."""
    for i, x in enumerate(tensors):
        check(x.ndim, f"zero-dimensional tensor (at position {i}) cannot be concatenated")
    d = lib.result_type(*tensors)
    kept = [x for x in tensors if tuple(x.shape) != (0,)] or tensors[:1]
    kept = [lib.astype(x, d) for x in kept]
    return kept[0] if len(kept) == 1 else lib.xp.concat(kept, axis=wrap(dim, kept[0].ndim))


@portable("aten::stack", "aten::_stack")
def stack(lib: ArrayLibrary, tensors: list[Array], dim: int = 0) -> Array:
    return lib.xp.stack(lib.promote(*tensors), axis=wrap(dim, tensors[0].ndim + 1))


@portable("aten::hstack")
def hstack(lib: ArrayLibrary, tensors: list[Array]) -> Array:
    rows = [lib.xp.reshape(x, (1,)) if x.ndim == 0 else x for x in tensors]
    return cat(lib, rows, 0 if rows[0].ndim == 1 else 1)


@portable("aten::vstack", "aten::row_stack")
def vstack(lib: ArrayLibrary, tensors: list[Array]) -> Array:
    return cat(lib, [lib.xp.reshape(x, (1, -1)) if x.ndim < 2 else x for x in tensors], 0)


@portable("aten::dstack")
def dstack(lib: ArrayLibrary, tensors: list[Array]) -> Array:
    def deep(x: Array) -> Array:
        x = lib.xp.reshape(x, (1, -1)) if x.ndim < 2 else x
        return lib.xp.expand_dims(x, axis=2) if x.ndim == 2 else x

    return cat(lib, [deep(x) for x in tensors], 2)


@portable("aten::column_stack")
def column_stack(lib: ArrayLibrary, tensors: list[Array]) -> Array:
    return cat(lib, [lib.xp.reshape(x, (math.prod(x.shape), 1)) if x.ndim < 2 else x for x in tensors], 1)


@portable("aten::block_diag")
def block_diag(lib: ArrayLibrary, tensors: list[Array]) -> Array:
    d = lib.result_type(*tensors)
    blocks = [lib.xp.reshape(x, (1, -1)) if x.ndim < 2 else x for x in tensors]
    width, before, rows = sum(x.shape[1] for x in blocks), 0, []
    for x in blocks:
        sides = [before, width - before - x.shape[1]]
        rows.append(lib.call("aten::constant_pad_nd", lib.astype(x, d), sides))
        before += x.shape[1]
    return lib.xp.concat(rows, axis=0)


@portable("aten::meshgrid", "aten::meshgrid.indexing")
def meshgrid(lib: ArrayLibrary, tensors: list[Array], *, indexing: str = "ij") -> list[Array]:
    return list(lib.xp.meshgrid(*(lib.xp.reshape(x, (-1,)) for x in tensors), indexing=indexing))
