"""Copies of a tensor in which one view is overwritten."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchnp.core.errors import shape_text
from torchnp.dtypes import cast
from torchnp.kernels._declare_rows import rows
from torchnp.kernels.copy import clone, storage_copied
from torchnp.kernels.slicing import diagonal, select, slice_tensor
from torchnp.kernels.view import as_strided
from torchnp.layout.overlap import check_target, overlaps_itself

ndarray = np.ndarray


def _overwritten(self: ndarray, src: ndarray, *where: Any, view: Any, copied: Any = clone) -> ndarray:
    out = copied(self)
    part = view(out, *where)
    if part.shape != src.shape:
        words = f"expected src to have a size equal to the slice of self. src size = {shape_text(src.shape)},"
        raise RuntimeError(f"{words} slice size = {shape_text(part.shape)}")
    if 0 in part.strides:  # only as_strided views have strides of 0
        check_target(part)
    part[...] = cast(src, part.dtype)
    return out


_LIKE: dict[str, Any] = {"like": np.ndarray.__setitem__, "differs": ["scatter-of-its-shape"]}
rows("select_scatter", _overwritten, "A copy with one position of a dimension overwritten.", view=select, **_LIKE)
rows("slice_scatter", _overwritten, "A copy with a range of a dimension overwritten.", view=slice_tensor, **_LIKE)
rows(
    "diagonal_scatter",
    _overwritten,
    "A copy with a diagonal overwritten.",
    view=diagonal,
    like=np.fill_diagonal,
    differs=["scatter-of-its-shape"],
)
rows(
    "as_strided_scatter", _overwritten, "A copy with a strided view of its memory overwritten.", view=as_strided,
    copied=lambda x: clone(x) if overlaps_itself(x) else storage_copied(x), like=np.lib.stride_tricks.as_strided,
      differs=["as-strided-storage", "as-strided-elements", "scatter-of-its-shape"],
)  # fmt: skip
