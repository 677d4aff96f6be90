"""Colliding writes: if an index occurs more than once, torch keeps one of the values and does not promise which.

All other elements have one correct value. So do elements that are reduced (by sum, product, mean, minimum or maximum).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..case import Array, Case, map_tree
from ..schema_facts import bound

WriteSpec = tuple[np.ndarray, np.ndarray]  # flat positions in the written array, and the value written at each


def _places(shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(int(np.prod(shape))).reshape(shape)


def _scatter(self: np.ndarray, dim: int, index: np.ndarray, src: Any, **_: Any) -> WriteSpec | None:
    if not isinstance(src, np.ndarray):  # a scalar is written: the order of writes makes no difference
        return None
    index, src = np.atleast_1d(index), np.atleast_1d(src)
    at: list[np.ndarray] = list(np.indices(index.shape, sparse=True))
    at[dim] = index
    return _places(np.atleast_1d(self).shape)[tuple(at)], src[tuple(slice(n) for n in index.shape)]


def _index_copy(self: np.ndarray, dim: int, index: np.ndarray, source: np.ndarray, **_: Any) -> WriteSpec:
    places = _places(np.atleast_1d(self).shape).take(np.atleast_1d(index), axis=dim)
    return places, source.reshape(places.shape)


def _put(
    self: np.ndarray, index: np.ndarray, source: np.ndarray, accumulate: bool = False, **_: Any
) -> WriteSpec | None:
    return None if accumulate else (_places((self.size,))[index], source.reshape(index.shape))


def _index_put(
    self: np.ndarray, indices: list[Any], values: np.ndarray, accumulate: bool = False, **_: Any
) -> WriteSpec | None:
    if accumulate:
        return None
    key = (slice(None) if i is None else i.astype(bool) if i.dtype == np.uint8 else i for i in indices)
    places = _places(self.shape)[tuple(key)]
    return places, np.broadcast_to(values, places.shape)


def _as_strided(
    self: np.ndarray, src: np.ndarray, size: Any, stride: Any, storage_offset: int | None = None, **_: Any
) -> WriteSpec | None:
    at = [s // self.itemsize for s in self.strides]
    steps = np.array([step for n, step in zip(self.shape, at, strict=True) if n > 1] or [1])
    if not self.size or min([0, *stride, *steps]) < 0:
        return None
    held = np.tensordot(at, np.indices(self.shape), 1).ravel() if self.ndim else np.zeros(1, np.int64)
    if len(np.unique(held)) < held.size:  # torch copies an expanded array to a contiguous one
        held = np.arange(held.size)
    numbers = np.full(int(held.max()) + 1, -1)  # memory position -> index of the element there
    numbers[held] = np.arange(held.size)
    places = np.tensordot(stride, np.indices(src.shape), 1) if src.ndim else np.zeros((), np.int64)
    places = places.ravel() + (storage_offset or 0)
    if places.size and (places.max() >= len(numbers) or (numbers[places] < 0).any()):
        return None
    with np.errstate(all="ignore"):
        return numbers[places], src.astype(self.dtype)


WRITES: dict[str, Callable[..., WriteSpec | None]] = {
    "scatter": _scatter, "index_copy": _index_copy, "put": _put, "index_put": _index_put,
    "_index_put_impl": _index_put, "_unsafe_index_put": _index_put, "as_strided_scatter": _as_strided,
}  # fmt: skip


def explained(case: Case, pairs: list[tuple[Any, Any]]) -> bool:
    """Return whether all pairs (torch's, other) differ only at collisions, where the other is a written value."""
    name = case.op.partition("::")[2]
    base, _, overload = name.partition(".")
    find = WRITES.get(base.removesuffix("_"))
    if find is None or "reduce" in overload:
        return False
    held: dict[str, Any] = map_tree(lambda x: x.on(case.buffers) if isinstance(x, Array) else x, bound(case))
    given = {("src" if k == "value" else k): v for k, v in held.items()}
    found = find(**given)
    if found is None:
        return False
    places, sources = found[0].reshape(-1), found[1].reshape(-1)
    for want, got in pairs:
        if not isinstance(got, np.ndarray) or got.size != given["self"].size or got.dtype != sources.dtype:
            return False
        meets = np.bincount(places, minlength=got.size) > 1
        one_of = np.zeros(got.size, bool)
        np.logical_or.at(one_of, places, equal_bits(got.reshape(-1)[places], sources))
        if not (equal_bits(want, got).reshape(-1) | (meets & one_of)).all():
            return False
    return True


def equal_bits(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a mask of the elements that have the same bits in two arrays of the same shape and dtype."""
    size = a.dtype.itemsize
    left, right = (np.ascontiguousarray(x).reshape(-1).view(np.uint8).reshape(-1, size) for x in (a, b))
    return (left == right).all(axis=1).reshape(a.shape)
