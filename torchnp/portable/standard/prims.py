"""The prims. Most of the table's kernels call functions of their arrays' own namespace, so they serve as rows."""

from __future__ import annotations

from typing import Any

import torchnp
from torchnp import dtypes as dt
from torchnp.core.errors import FAILURES
from torchnp.portable.library import ArrayLibrary
from torchnp.portable.rows import Array, Row, portable

NOT_PORTABLE = frozenset(
    f"prims::{name}"
    for name in (
        "as_strided", "as_strided_scatter", "copy_strided", "copy_to", "resize", "view_of_dtype", "normal", "uniform",
        "_make_token", "_sink_tokens",
    )
)  # fmt: skip
"""Prims that the standard cannot express: strided memory, writes, random numbers."""

_HERE = (
    "prims::full", "prims::full_like", "prims::iota", "prims::scalar_tensor", "prims::empty", "prims::empty_strided",
    "prims::empty_permuted", "prims::convert_element_type", "prims::clone", "prims::view_of", "prims::device_put",
    "prims::erf", "prims::erfc", "prims::erf_inv", "prims::lgamma", "prims::digamma", "prims::fft_r2c",
    "prims::fft_c2c", "prims::fft_c2r",
)  # fmt: skip


def _kernel_of(name: str) -> Row:
    def row(lib: ArrayLibrary, *args: Any, **kwargs: Any) -> Any:
        try:
            return torchnp.table[name](*args, **kwargs)
        except FAILURES:
            if lib.is_traced(*args):  # Dask lacks some functions for arrays of several chunks
                return NotImplemented
            raise

    return row


for _name in torchnp.table:
    if _name.startswith("prims::") and _name not in NOT_PORTABLE and _name not in _HERE:
        portable(_name)(_kernel_of(_name))


@portable("prims::full")
def full(lib: ArrayLibrary, shape: Any, fill_value: Any, *, dtype: Any, **_: Any) -> Array:
    return lib.full(shape, fill_value, dtype)


@portable("prims::full_like")
def full_like(lib: ArrayLibrary, a: Array, fill_value: Any, *, dtype: Any, **_: Any) -> Array:
    return lib.full(a.shape, fill_value, dtype)


@portable("prims::empty")
def empty(lib: ArrayLibrary, shape: Any, *, dtype: Any, **_: Any) -> Array:
    return lib.full(shape, 0, dtype)


@portable("prims::empty_strided")
def empty_strided(lib: ArrayLibrary, shape: Any, strides: Any, *, dtype: Any, **_: Any) -> Array:
    return lib.full(shape, 0, dtype)


@portable("prims::empty_permuted")
def empty_permuted(lib: ArrayLibrary, shape: Any, physical_layout: Any, *, dtype: Any, **_: Any) -> Array:
    return lib.full(shape, 0, dtype)


@portable("prims::iota")
def iota(lib: ArrayLibrary, length: int, *, start: int, step: int, dtype: Any, **_: Any) -> Array:
    at = lib.xp.arange(length, dtype=lib.theirs(dt.int64))
    return lib.astype(at * step + start, dtype)


@portable("prims::scalar_tensor")
def scalar_tensor(lib: ArrayLibrary, s: Any, *, dtype: Any = None, **_: Any) -> Array:
    return lib.full((), s, dtype)


@portable("prims::convert_element_type")
def convert_element_type(lib: ArrayLibrary, a: Array, dtype: Any) -> Array:
    return lib.astype(a, dtype)


@portable("prims::erf")
def erf(lib: ArrayLibrary, self: Array) -> Array:
    return lib.call("aten::erf", self)


@portable("prims::erfc")
def erfc(lib: ArrayLibrary, self: Array) -> Array:
    return lib.call("aten::erfc", self)


@portable("prims::erf_inv")
def erf_inv(lib: ArrayLibrary, self: Array) -> Array:
    return lib.call("aten::erfinv", self)


@portable("prims::lgamma")
def lgamma(lib: ArrayLibrary, self: Array) -> Array:
    return lib.call("aten::lgamma", self)


@portable("prims::digamma")
def digamma(lib: ArrayLibrary, self: Array) -> Array:
    return lib.call("aten::digamma", self)


@portable("prims::fft_r2c")
def fft_r2c(lib: ArrayLibrary, self: Array, *, dim: Any, onesided: bool) -> Array:
    return lib.call("aten::_fft_r2c", self, dim, 0, onesided)


@portable("prims::fft_c2c")
def fft_c2c(lib: ArrayLibrary, self: Array, *, dim: Any, forward: bool) -> Array:
    return lib.call("aten::_fft_c2c", self, dim, 0, forward)


@portable("prims::fft_c2r")
def fft_c2r(lib: ArrayLibrary, self: Array, *, dim: Any, last_dim_size: int) -> Array:
    return lib.call("aten::_fft_c2r", self, dim, 0, last_dim_size)
