"""Arrays of constants and ranges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torchnp
from torchnp import dtypes as dt
from torchnp.core.checks import check
from torchnp.core.errors import overflow
from torchnp.portable.library import ArrayLibrary
from torchnp.portable.rows import Array, portable


@portable("aten::full")
def full(lib: ArrayLibrary, size: Sequence[int], fill_value: Any, *, dtype: Any = None, **_: Any) -> Array:
    own = dt.number_dtype(fill_value)
    if own == dt.uint64 and dtype in (None, dt.int64):
        raise overflow("int64_t")
    return lib.full(size, fill_value, own if dtype is None else dtype)


@portable("aten::zeros", "aten::empty.memory_format")
def zeros(lib: ArrayLibrary, size: Sequence[int], *, dtype: Any = None, **_: Any) -> Array:
    """Return zeros, also for operators whose result torch leaves uninitialized."""
    return lib.full(size, 0, dt.get_default_dtype() if dtype is None else dtype)


@portable("aten::ones")
def ones(lib: ArrayLibrary, size: Sequence[int], *, dtype: Any = None, **_: Any) -> Array:
    return lib.full(size, 1, dt.get_default_dtype() if dtype is None else dtype)


@portable("aten::empty_strided")
def empty_strided(
    lib: ArrayLibrary, size: Sequence[int], stride: Sequence[int], *, dtype: Any = None, **_: Any
) -> Array:
    return zeros(lib, size, dtype=dtype)


@portable("aten::empty_permuted")
def empty_permuted(
    lib: ArrayLibrary, size: Sequence[int], physical_layout: Sequence[int], *, dtype: Any = None, **_: Any
) -> Array:
    check(sorted(physical_layout) == list(range(len(size))), f"{physical_layout} is no order of {len(size)} dimensions")
    return zeros(lib, size, dtype=dtype)


@portable("aten::full_like")
def full_like(lib: ArrayLibrary, self: Array, fill_value: Any, *, dtype: Any = None, **_: Any) -> Array:
    return lib.full(self.shape, fill_value, lib.dtype_of(self) if dtype is None else dtype)


@portable("aten::zeros_like", "aten::empty_like")
def zeros_like(lib: ArrayLibrary, self: Array, *, dtype: Any = None, **_: Any) -> Array:
    return full_like(lib, self, 0, dtype=dtype)


@portable("aten::ones_like")
def ones_like(lib: ArrayLibrary, self: Array, *, dtype: Any = None, **_: Any) -> Array:
    return full_like(lib, self, 1, dtype=dtype)


@portable("aten::new_zeros", "aten::new_empty")
def new_zeros(lib: ArrayLibrary, self: Array, size: Sequence[int], *, dtype: Any = None, **_: Any) -> Array:
    return lib.full(size, 0, lib.dtype_of(self) if dtype is None else dtype)


@portable("aten::new_ones")
def new_ones(lib: ArrayLibrary, self: Array, size: Sequence[int], *, dtype: Any = None, **_: Any) -> Array:
    return lib.full(size, 1, lib.dtype_of(self) if dtype is None else dtype)


@portable("aten::new_full")
def new_full(
    lib: ArrayLibrary, self: Array, size: Sequence[int], fill_value: Any, *, dtype: Any = None, **_: Any
) -> Array:
    return lib.full(size, fill_value, lib.dtype_of(self) if dtype is None else dtype)


@portable("aten::fill.Scalar", "aten::fill.Tensor")
def fill(lib: ArrayLibrary, self: Array, value: Any) -> Array:
    return lib.call("aten::copy", self, value)


@portable("aten::zero")
def zero(lib: ArrayLibrary, self: Array) -> Array:
    return zeros_like(lib, self)


@portable("aten::scalar_tensor")
def scalar_tensor(lib: ArrayLibrary, s: Any, *, dtype: Any = None, **_: Any) -> Array:
    return lib.full((), s, dt.get_default_dtype() if dtype is None else dtype)


@portable("aten::arange.start_step")
def arange_start_step(lib: ArrayLibrary, start: Any, end: Any, step: Any = 1, *, dtype: Any = None, **_: Any) -> Array:
    """Return the NumPy kernel's values, because torch computes each value from its index, in double precision."""
    numbers = (start, end, step)
    if not all(isinstance(x, (int, float)) for x in numbers):  # a symbolic size in a trace
        d = dt.as_dtype(dtype) if dtype is not None else dt.int64
        return lib.astype(lib.xp.arange(*numbers), d)
    return lib.from_numpy(torchnp.table["aten::arange.start_step"](*numbers, dtype=dtype))


@portable("aten::arange.start")
def arange_start(lib: ArrayLibrary, start: Any, end: Any, *, dtype: Any = None, **_: Any) -> Array:
    return arange_start_step(lib, start, end, dtype=dtype)


@portable("aten::arange")
def arange(lib: ArrayLibrary, end: Any, *, dtype: Any = None, **_: Any) -> Array:
    return arange_start_step(lib, 0, end, dtype=dtype)


@portable("aten::linspace")
def linspace(lib: ArrayLibrary, start: Any, end: Any, steps: int, *, dtype: Any = None, **_: Any) -> Array:
    return lib.from_numpy(torchnp.table["aten::linspace"](start, end, steps, dtype=dtype))


@portable("aten::tril_indices")
def tril_indices(lib: ArrayLibrary, row: int, col: int, offset: int = 0, *, dtype: Any = None, **_: Any) -> Array:
    return lib.from_numpy(torchnp.table["aten::tril_indices"](row, col, offset, dtype=dtype))


@portable("aten::triu_indices")
def triu_indices(lib: ArrayLibrary, row: int, col: int, offset: int = 0, *, dtype: Any = None, **_: Any) -> Array:
    return lib.from_numpy(torchnp.table["aten::triu_indices"](row, col, offset, dtype=dtype))


@portable("aten::eye")
def eye(lib: ArrayLibrary, n: int, *, dtype: Any = None, **_: Any) -> Array:
    return lib.from_numpy(torchnp.table["aten::eye"](n, dtype=dtype))


@portable("aten::eye.m")
def eye_m(lib: ArrayLibrary, n: int, m: int, *, dtype: Any = None, **_: Any) -> Array:
    return lib.from_numpy(torchnp.table["aten::eye.m"](n, m, dtype=dtype))
