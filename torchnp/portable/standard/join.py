"""Arrays joined: cat, stack."""

from __future__ import annotations

from torchnp.portable.library import ArrayLibrary
from torchnp.portable.rows import Array, portable
from torchnp.portable.standard.shape import wrap


@portable("aten::cat", "aten::concat", "aten::concatenate")
def cat(lib: ArrayLibrary, tensors: list[Array], dim: int = 0) -> Array:
    """Vectors without elements, which torch skips, count for the dtype only."""
    d = lib.result_type(*tensors)
    kept = [x for x in tensors if tuple(x.shape) != (0,)] or tensors[:1]
    kept = [lib.astype(x, d) for x in kept]
    return kept[0] if len(kept) == 1 else lib.xp.concat(kept, axis=wrap(dim, kept[0].ndim))


@portable("aten::stack")
def stack(lib: ArrayLibrary, tensors: list[Array], dim: int = 0) -> Array:
    return lib.xp.stack(lib.promote(*tensors), axis=wrap(dim, tensors[0].ndim + 1))


@portable("aten::hstack")
def hstack(lib: ArrayLibrary, tensors: list[Array]) -> Array:
    rows = [lib.xp.reshape(x, (1,)) if x.ndim == 0 else x for x in tensors]
    return cat(lib, rows, 0 if rows[0].ndim == 1 else 1)


@portable("aten::vstack", "aten::row_stack")
def vstack(lib: ArrayLibrary, tensors: list[Array]) -> Array:
    return cat(lib, [lib.xp.reshape(x, (1, -1)) if x.ndim < 2 else x for x in tensors], 0)


@portable("aten::meshgrid", "aten::meshgrid.indexing")
def meshgrid(lib: ArrayLibrary, tensors: list[Array], *, indexing: str = "ij") -> list[Array]:
    return list(lib.xp.meshgrid(*(lib.xp.reshape(x, (-1,)) for x in tensors), indexing=indexing))
