"""Padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from torchnp.portable.library import ArrayLibrary
from torchnp.portable.rows import Array, portable
from torchnp.portable.standard.shape import part


@portable("aten::constant_pad_nd")
def constant_pad_nd(lib: ArrayLibrary, self: Array, pad: Sequence[int], value: Any = 0) -> Array:
    """Pad with a constant; negative amounts remove elements."""
    x = self
    for i in range(0, len(pad), 2):
        d = x.ndim - 1 - i // 2
        for amount, in_front in ((pad[i], True), (pad[i + 1], False)):
            if amount < 0:
                x = part(x, d, slice(-amount, None) if in_front else slice(None, x.shape[d] + amount))
            elif amount > 0:
                border = lib.full((*x.shape[:d], amount, *x.shape[d + 1 :]), value, lib.dtype_of(x))
                x = lib.xp.concat([border, x] if in_front else [x, border], axis=d)
    return x


def _taken(lib: ArrayLibrary, x: Array, pad: Sequence[int], places: Any) -> Array:
    """Along each dimension, take the elements at the indices that ``places`` computes."""
    for i in range(0, len(pad), 2):
        d = x.ndim - 1 - i // 2
        n = x.shape[d]
        if pad[i] or pad[i + 1]:
            x = lib.xp.take(x, lib.from_numpy(places(np.arange(-pad[i], n + pad[i + 1]), n)), axis=d)
    return x


def _reflected(at: np.ndarray, n: int) -> np.ndarray:
    return (n - 1) - np.abs((n - 1) - np.abs(at))


@portable("aten::reflection_pad1d", "aten::reflection_pad2d", "aten::reflection_pad3d")
def reflection_pad(lib: ArrayLibrary, self: Array, padding: Sequence[int]) -> Array:
    return _taken(lib, self, padding, _reflected)


@portable("aten::replication_pad1d", "aten::replication_pad2d", "aten::replication_pad3d")
def replication_pad(lib: ArrayLibrary, self: Array, padding: Sequence[int]) -> Array:
    return _taken(lib, self, padding, lambda at, n: np.clip(at, 0, n - 1))


@portable("aten::_pad_circular")
def pad_circular(lib: ArrayLibrary, self: Array, pad: Sequence[int]) -> Array:
    return _taken(lib, self, pad, lambda at, n: at % n)


@portable("aten::pad", "aten::_pad_enum")
def pad(
    lib: ArrayLibrary, self: Array, pad: Sequence[int], mode: str | int = "constant", value: float | None = None
) -> Array:
    mode = ("reflect", "replicate", "circular", "constant")[mode] if isinstance(mode, int) else mode
    if mode == "constant":
        return lib.call("aten::constant_pad_nd", self, pad, 0 if value is None else value)
    rows = {"reflect": reflection_pad, "replicate": replication_pad, "circular": pad_circular}
    return rows[mode](lib, self, pad)
