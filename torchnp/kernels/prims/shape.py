"""Prims that move or view elements. For ndarrays, view prims are NumPy views."""

from __future__ import annotations

import math
from functools import partial
from operator import index

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, wrap_dims
from torchnp.core.registry import kernel
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._spatial import Ints
from torchnp.kernels.prims._portable import NOT_TRUE, Array, aten, check_index, either, namespace, size_text
from torchnp.layout.overlap import check_target

ndarray = np.ndarray


# ---------------------------------------------------------------- views


@kernel("prims::broadcast_in_dim", like=np.broadcast_to, differs=["expand-writable"])
def broadcast_in_dim(a: Array, shape: Ints, broadcast_dimensions: Ints) -> Array:
    """A view of a larger shape; ``broadcast_dimensions`` gives the position of each dimension of ``a`` in it."""
    dims = list(broadcast_dimensions)
    check(a.ndim == len(dims), f"a.ndim ({a.ndim}) != len(broadcast_dimensions) ({len(dims)})", AssertionError)
    check(len(shape) >= a.ndim, f"len(shape) ({len(shape)}) must be >= a.ndim ({a.ndim})", AssertionError)
    for before, x in zip([-1, *dims], dims, strict=False):
        check(x > before, f"broadcast_dimensions must be strictly ascending: {x} <= {before}", AssertionError)
        check(x < len(shape), f"broadcast_dimension {x} out of bounds for shape of length {len(shape)}", AssertionError)
    for d, x in enumerate(dims):
        check(a.shape[d] in (1, shape[x]), f"{a.shape[d]} must be broadcastable to {shape[x]}")
    check(0 in shape or all(n >= 0 for n in shape), "numel: integer multiplication overflow")
    for x in range(len(shape)):
        if x not in dims:
            a = aten("unsqueeze")(a, x) if type(a) is ndarray else namespace(a).expand_dims(a, axis=x)
    return aten("expand")(a, shape) if type(a) is ndarray else namespace(a).broadcast_to(a, tuple(shape))


@kernel("prims::transpose", like=np.transpose)
def transpose(a: Array, permutation: Ints) -> Array:
    """A view with its dimensions in another order."""
    order = list(permutation)
    words = f"Attempting to permute a tensor of rank {a.ndim}, but received a permutation of length {len(order)}!"
    check(a.ndim == len(order), words, ValueError)
    check(sorted(order) == list(range(a.ndim)), f"Received an invalid permutation, {order}!", ValueError)
    return namespace(a).permute_dims(a, tuple(order))


@kernel("prims::squeeze", like=np.squeeze)
def squeeze(a: Array, dimensions: Ints) -> Array:
    """A view without the given dimensions, which must have size 1."""
    for d in dimensions:
        check_index(a.ndim, d)
        check(a.shape[d] == 1, f"Cannot squeeze dimension {d} with size {a.shape[d]} (must be 1)", AssertionError)
    wrap_dims(dimensions, a.ndim)
    return namespace(a).squeeze(a, axis=tuple(dimensions))


@kernel("prims::split_dim")
def split_dim(a: Array, dim: int, outer_length: int) -> Array:
    """A view with one dimension split in two, the outer one of the given length."""
    check_index(a.ndim, dim)
    length = a.shape[dim]
    words = f"Attempting to split dimension of length {length}, but outer length of {outer_length} divides it with a"
    inner = length // outer_length
    check(outer_length >= 0, NOT_TRUE)
    check(length % outer_length == 0, f"{words} remainder!", ValueError)
    shape = (*a.shape[:dim], outer_length, inner, *a.shape[dim + 1 :])
    return aten("view")(a, shape) if type(a) is ndarray else namespace(a).reshape(a, shape)


def _collapsed(a: Array, start: int, end: int) -> tuple[int, ...]:
    rank = max(a.ndim, 1)
    check_index(rank, start)
    check_index(rank, end)
    check(end >= start, f"Attempting to collapse but end, {end}, is less than start, {start}!", ValueError)
    shape = a.shape or (1,)
    return (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :])


rows(
    "prims::collapse", lambda a, *ends: namespace(a).reshape(a, _collapsed(a, *ends), copy=True),
    "A copy with dimensions ``start`` to ``end`` (included) merged into one.", like=np.reshape,
    differs=["copy-forms", "prims-count-from-front"],
)  # fmt: skip


@kernel("prims::collapse_view", like=np.reshape, differs=["view-never-copies", "prims-count-from-front"])
def collapse_view(a: Array, start: int, end: int) -> Array:
    """A view with dimensions ``start`` to ``end`` (included) merged into one; an error if strides do not allow it."""
    shape = _collapsed(a, start, end)
    if type(a) is not ndarray:
        return namespace(a).reshape(a, shape)
    try:
        return a.reshape(shape, copy=False)
    except ValueError:
        raise RuntimeError("Attempting to view a collapsed tensor, but no such view exists!") from None


_DOC = "A view of the whole array."
rows("prims::view_of", either, _DOC, native=lambda a: aten("view")(a, a.shape), portable=lambda xp, a: a)
_DOC = "The same memory read as another dtype."
rows(
    "prims::view_of_dtype",
    lambda *given: aten("view.dtype")(*given),
    _DOC,
    like=ndarray.view,
    differs=["view-dtype-alignment"],
)


@kernel(
    "prims::as_strided", like=np.lib.stride_tricks.as_strided, differs=["as-strided-storage", "as-strided-elements"]
)
def as_strided(a: ndarray, size: Ints, stride: Ints, storage_offset: int) -> ndarray:
    """Any view of an array's memory; strides and offset count elements."""
    check(len(size) == len(stride), f"len(size)={len(size)} != len(stride)={len(stride)}", AssertionError)
    check(storage_offset >= 0, f"storage_offset must be >= 0, got {storage_offset}", AssertionError)
    for s in stride:
        check(s >= 0, f"stride must be non-negative, got {s}", AssertionError)
    return aten("as_strided")(a, size, stride, storage_offset)


def _check_complex(a: Array) -> None:
    complex_ = dt.is_complex(a.dtype) if type(a) is ndarray else namespace(a).isdtype(a.dtype, "complex floating")
    check(complex_, "Only complex dtype is supported")


_DOC = "The {} parts of complex numbers, as a view."
_part = partial(rows, precheck=_check_complex)
_part("prims::real", either, _DOC.format("real"), native="real", portable="real", like=np.real)
_part("prims::imag", either, _DOC.format("imaginary"), native="imag", portable="imag", like=np.imag)


def _conj(a: ndarray) -> ndarray:
    check(dt.is_complex(a.dtype), "Expected complex dtype in prims.conj")
    return aten("_conj")(a)


rows("prims::conj", either, "Complex conjugate.", native=_conj, portable="conj", like=np.conj)


# ---------------------------------------------------------------- copies


@kernel("prims::reshape", like=np.reshape, differs=["copy-forms", "prims-count-from-front"])
def reshape(a: Array, shape: Ints) -> Array:
    """A contiguous copy in another shape."""
    if not len(shape):
        raise TypeError("reduce() of empty iterable with no initial value")  # torch multiplies the lengths by reduce()
    check(all(n >= 0 for n in shape), NOT_TRUE)
    size, wanted = math.prod(a.shape), math.prod(shape)
    words = f"Attempting to reshape a tensor with {size} elements to a shape with {wanted} elements!"
    check(size == wanted, words, ValueError)
    return namespace(a).reshape(a, tuple(shape), copy=True)


def _check_dims(a: Array, dims: Ints) -> None:
    for d in dims:
        check_index(a.ndim, d)


rows(
    "prims::rev", either, "A copy with the order of elements reversed along dimensions.", native="flip",
    portable=lambda xp, a, dims: xp.flip(a, axis=tuple(dims)), precheck=_check_dims, like=np.flip,
    differs=["flip-copies", "prims-count-from-front"],
)  # fmt: skip


@kernel("prims::cat", like=np.concatenate, differs=["prims-count-from-front"])
def cat(tensors: list[Array], dim: int) -> Array:
    """Arrays of one rank, concatenated."""
    check(dim >= 0, f"dim must be non-negative, got {dim}", AssertionError)
    shape = tensors[0].shape
    for i, x in enumerate(tensors):
        words = "All tensors must have the same number of dimensions. Expected"
        check(x.ndim == len(shape), f"{words} {len(shape)} but tensor {i} has {x.ndim}", AssertionError)
        for d, (common, length) in enumerate(zip(shape, x.shape, strict=True)):
            words = f"Sizes of tensors must match except in dimension {dim}. Expected {common} in dimension {d} but got"
            check(d == dim or length == common, f"{words} {length} for tensor number {i} in the list")
    check(dim < len(shape), "list assignment index out of range", IndexError)
    if type(tensors[0]) is not ndarray:
        return namespace(tensors[0]).concat(list(tensors), axis=dim)
    return aten("cat")(tensors, dim)


rows(
    "prims::clone", either, "A copy in a memory format, by default that of the input.", native="clone",
    portable=lambda xp, x, **_: xp.asarray(x, copy=True), like=np.copy,
    differs=["memory-format-fits"],
)  # fmt: skip


@kernel("prims::copy_strided")
def copy_strided(a: ndarray, stride: Ints) -> ndarray:
    """A copy with given strides, in elements."""
    out = aten("empty_strided")(a.shape, stride, dtype=a.dtype)
    check_target(out)
    out[...] = a
    return out


@kernel("prims::as_strided_scatter")
def as_strided_scatter(self: ndarray, src: ndarray, size: Ints, stride: Ints, storage_offset: int) -> ndarray:
    """A copy with ``src`` written to the elements that `as_strided` would select."""
    check(all(n >= 0 for n in size), NOT_TRUE)
    for s in stride:
        check(s >= 0, f"stride must be non-negative, got {s}", AssertionError)
    reach = 0 if 0 in size else 1 + index(storage_offset) + sum((n - 1) * s for n, s in zip(size, stride, strict=False))
    if self.size < reach:
        window_ = f"sizes {list(size)}, strides {list(stride)}, storage offset {storage_offset}  and itemsize"
        needed = f"{self.itemsize} requiring a storage size of {reach * self.itemsize} are out of bounds for storage of"
        raise RuntimeError(f"as_strided_scatter: {window_} {needed} size {self.nbytes}")
    slice_ = f"expected src to have a size equal to the slice of self. src size = {size_text(src.shape)}, slice size ="
    check(src.shape == tuple(size), f"{slice_} {list(size)}")
    return aten("as_strided_scatter")(self, src, size, stride, index(storage_offset))


rows("prims::device_put", lambda a, *_: a, "The array itself: there is only one device.")


@kernel("prims::copy_to", like=np.copyto, differs=["copy-casts-down"])
def copy_to(a: ndarray, b: ndarray) -> ndarray:
    """Write ``b`` into ``a``."""
    check(a.size == b.size, f"Attempting to copy {b.size} elements to a tensor with {a.size} elements!")
    check_target(a)
    a[...] = dt.cast(b, a.dtype)
    return a


_DOC = "The first elements of ``a`` in another shape; elements beyond them are uninitialized."
rows("prims::resize", lambda a, shape: aten("resize_")(a, shape), _DOC)
