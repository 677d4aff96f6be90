"""Writing at indices along one dimension: scatter and its reductions, index_add, index_copy, index_fill."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from torchnp.checks import check, refuse, refuse_elements, warn, wrap_dim
from torchnp.dtypes import COMPLEXES, bool_, cast, complex32, int64, is_complex, is_inexact, opmath, scalar_name
from torchnp.errors import dim_out_of_range, index_out_of_range, not_implemented, shape_text, unknown_reduction
from torchnp.kernels._memory import RARE, RARE_OR_CHALF, bits
from torchnp.kernels._rows import rows
from torchnp.kernels.arithmetic import add
from torchnp.kernels.numerics.accumulate import (
    INDEX_DTYPES,
    add_rows,
    as_matrix,
    check_bounds,
    linear,
    out_of_bounds,
    reduce_at,
)
from torchnp.kernels.slicing import at
from torchnp.overlap import check_target, check_written_at
from torchnp.registry import kernel
from torchnp.scalars import item, scalar
from torchnp.writes import Bound, Writes, look_apart

ndarray = np.ndarray

# Their targets share no memory with index or source, which scatter looks at first.
_APART, _APART_LAST = Writes(inplace=look_apart), Writes(after=look_apart)

# ---------------------------------------------------------------- scatter


def _check_dtypes(self: ndarray, dim: int, index: ndarray, src: ndarray | None) -> int:
    dim = wrap_dim(dim, self.ndim)
    check(index.dtype in INDEX_DTYPES or not index.size, "scatter(): Expected dtype int32/int64 for index")
    if src is not None and self.dtype != src.dtype:
        raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
    return dim


def _places(
    self: ndarray, dim: int, index: ndarray, src: ndarray | None, check_dtype: Callable[[], None]
) -> tuple[ndarray, ndarray]:
    """Where the index points to in a row-major copy of ``self``, checked; and that copy, flat."""
    dim = _check_dtypes(self, dim, index, src)
    out = np.array(self, order="C", copy=True)
    if not index.size:
        return out, np.empty(0, int64)
    i = index if index.ndim else index.reshape(1)
    shape = self.shape or (1,)
    check(i.ndim == len(shape), "Index tensor must have the same number of dimensions as self tensor")
    if src is not None and max(src.ndim, 1) != i.ndim:
        check(i.ndim <= max(src.ndim, 1), dim_out_of_range(src.ndim, src.ndim))
        raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
    bad = any(n > m for d, (n, m) in enumerate(zip(i.shape, shape)) if d != dim)
    if src is not None and not bad:
        bad = any(n > m for n, m in zip(i.shape, src.shape or (1,)))
    if bad:
        than = f" and to be no larger size than src {shape_text(src.shape)}" if src is not None else ""
        words = f"Expected index {shape_text(index.shape)} to be no larger than self {shape_text(self.shape)}"
        raise RuntimeError(f"{words} apart from dimension {dim}{than}")
    check_dtype()
    check_bounds(i, dim, shape[dim])
    return out, linear(i, shape, dim)


def _part(src: ndarray, places: ndarray) -> ndarray:
    """The part of a source that the index covers."""
    if src.shape == places.shape:
        return src
    return src.reshape(src.shape or (1,))[tuple(slice(n) for n in places.shape)] if places.size else src.reshape(-1)[:0]


@kernel("scatter.src", like=np.put_along_axis, differs=["gather-negative", "index-write-overlap"], writes=_APART)
def scatter(self, dim, index, src):
    """The tensor with ``src``'s elements written along a dimension at the positions of the index."""
    look = lambda: refuse_elements("scatter_gather_tensor_cpu", self, RARE_OR_CHALF)
    out, places = _places(self, dim, index, src, look)
    bits(out).reshape(-1)[places] = bits(_part(src, places))
    return out


@kernel("scatter.value", like=np.put_along_axis, differs=["gather-negative"], writes=_APART)
def scatter_value(self, dim, index, value):
    """The tensor with one number written along a dimension at the positions of the index."""
    look = lambda: refuse_elements("scatter_gather_scalar_cpu", self, RARE_OR_CHALF)
    out, places = _places(self, dim, index, None, look)
    if places.size:
        bits(out).reshape(-1)[places] = bits(scalar(value, self.dtype))
    return out


def _check_name(self: ndarray, dim: int, index: ndarray, src: ndarray | None, known: bool, error: Exception) -> None:
    """torch looks at the name of a reduction after the dimension and the dtypes."""
    if not known:
        _check_dtypes(self, dim, index, src)
        raise error


_REDUCE = {"add": "sum", "multiply": "prod"}
_ADD_OR_MULTIPLY = "reduce argument must be either add or multiply."
_REDUCE_TWO = ("sum", "prod", "mean", "amax", "amin")


def _added_or_multiplied(self, dim, index, *, src=None, value=None, reduce):
    if src is not None:
        warn(
            "The reduce argument of torch.scatter with Tensor src is deprecated and will be removed in a future PyTorch "
            "release. Use torch.scatter_reduce instead for more reduction options."
        )
    _check_name(self, dim, index, src, reduce in _REDUCE, RuntimeError(_ADD_OR_MULTIPLY))
    return _reduced(self, dim, index, src, reduce, True, value)


_DOC = "that adds or multiplies where it would write."
rows("scatter.reduce", _added_or_multiplied, f"`scatter` {_DOC}", writes=_APART)
rows("scatter.value_reduce", _added_or_multiplied, f"`scatter` of one number {_DOC}", writes=_APART)
(scatter_add,) = rows(
    "scatter_add", lambda x, dim, index, src: _reduced(x, dim, index, src, "sum", True),
    "The tensor with ``src``'s elements added along a dimension at the positions of the index.",
    like=np.add.at, differs=["gather-negative", "half-opmath", "index-write-overlap"], writes=_APART,
)  # fmt: skip


@kernel("scatter_reduce.two", differs=["half-opmath"], writes=_APART)
def scatter_reduce(self, dim, index, src, reduce, *, include_self=True):
    """The tensor with ``src``'s elements reduced into it along a dimension at the positions of the index."""
    reduce = {"max": "amax", "min": "amin"}.get(reduce, reduce)  # torch's older names
    _check_name(self, dim, index, src, reduce in _REDUCE_TWO, unknown_reduction(reduce))
    return _reduced(self, dim, index, src, reduce, include_self)


def _reduced(
    self: ndarray, dim: int, index: ndarray, src: ndarray | None, reduce: str, include_self: bool, value: Any = None
) -> ndarray:
    check_dtype = lambda: _check_reduce(self, reduce, include_self, "scalar" if src is None else "tensor")
    out, places = _places(self, dim, index, src, check_dtype)
    if index.size:
        values = np.broadcast_to(scalar(value, self.dtype), places.shape) if src is None else _part(src, places)
        how = _REDUCE.get(reduce, reduce)
        out = reduce_at(out.reshape(-1), places.reshape(-1), values.reshape(-1), how, include_self)
    return out.reshape(self.shape)


def _check_reduce(self: ndarray, reduce: str, include_self: bool, kind: str) -> None:
    """torch's kernels of each reduction leave out dtypes of their own."""
    name = f"scatter_gather_{kind}_cpu" + (f"_reduce_{reduce}" if reduce in ("mean", "amax", "amin") else "")
    refuse_elements(name if include_self else "scatter_reduce_exclude_input_init", self, RARE_OR_CHALF)
    if (is_complex(self.dtype) and reduce in ("amax", "amin")) or (self.dtype == bool_ and reduce == "mean"):
        raise not_implemented(name, self.dtype)


# ---------------------------------------------------------------- index_add


def _around(x: ndarray, dim: int) -> tuple[int, ...]:
    """The shape of a slice."""
    return (*x.shape[:dim], *x.shape[dim + 1 :])


def _check_index_source(self: ndarray, dim: int, index: ndarray, source: ndarray, name: str) -> int:
    dim = wrap_dim(dim, self.ndim)
    if index.ndim > 1:
        words = f"{name}: Index is supposed to be a vector, but got dim: {index.ndim} with type:"
        raise IndexError(f"{words} {scalar_name(index.dtype)} and size: {shape_text(index.shape)}")
    if index.dtype not in INDEX_DTYPES:
        raise RuntimeError(f"{name}: Expected dtype int32/int64 for index but got: {scalar_name(index.dtype)}")
    if self.dtype != source.dtype:
        words = f"{name}: self ({scalar_name(self.dtype)}) and source ({scalar_name(source.dtype)}) must have the same"
        raise RuntimeError(f"{words} scalar type")
    extent = source.shape[dim] if dim < source.ndim else 1
    if index.size != extent and (self.ndim or not _around(source, dim)):
        raise RuntimeError(
            f"{name}: Number of indices ({index.size}) should be equal to source.size(dim): ({extent}), for dim: {dim}"
        )
    if self.ndim != source.ndim or _around(self, dim) != _around(source, dim):
        words = "source tensor shape must match self tensor shape, excluding the specified dimension. Got"
        raise RuntimeError(f"{words} self.shape = {shape_text(self.shape)} source.shape = {shape_text(source.shape)}")
    return dim


@kernel("index_add", like=np.add.at, differs=["gather-negative", "index-write-overlap"], writes=_APART_LAST)
def index_add(self, dim, index, source, *, alpha=1):
    """The tensor with ``alpha`` times the source's slices added at the positions that a vector names."""
    dim = _check_index_source(self, dim, index, source, "index_add_()")
    # torch's scatter_add, which rounds half types once; else it adds slice after slice
    whole = dim in (0, self.ndim - 1) and alpha == 1 and index.dtype == int64 and self.dtype != complex32
    whole = whole and self.ndim > 1
    if index.size or self.ndim < 2:
        rare = "add_stub" if self.ndim > 1 else "index_add_"
        refuse_elements("scatter_gather_tensor_cpu" if whole else rare, self, RARE)
    if self.ndim > 1 and not (self.size and index.size):
        return self.copy()
    factor = None if alpha == 1 else scalar(alpha, self.dtype)
    check(out_of_bounds(index, self.shape[dim] if self.ndim else 1) is None, index_out_of_range())
    rounds = is_inexact(self.dtype) and (factor is not None or is_complex(self.dtype))
    if self.ndim > 1 and not whole and rounds:
        return _add_slices(self, dim, index.reshape(-1), source, 1 if factor is None else item(factor))
    if factor is not None:
        source = cast(cast(source, opmath(self.dtype)) * cast(factor, opmath(self.dtype)), self.dtype)
    if not self.ndim:
        return np.asarray(self + source) if index.size else self.copy()
    dtype, wide = self.dtype, opmath(self.dtype) if whole else self.dtype
    self, source = cast(self, wide), cast(source, wide)
    matrix, back = as_matrix(self, dim)
    rows = source if dim == 0 else source.transpose(dim, *(d for d in range(source.ndim) if d != dim))
    add_rows(matrix, index.reshape(-1), np.ascontiguousarray(rows).reshape(len(rows), matrix.shape[1]))
    return cast(back(matrix), dtype)


def _add_slices(self: ndarray, dim: int, index: ndarray, source: ndarray, alpha: Any) -> ndarray:
    """`index_add` by sums with alpha, which slices of one position are added with one after the other."""
    out, left = self.copy(), np.arange(index.size)
    while left.size:
        first = np.unique(index[left], return_index=True)[1]
        one = left[first]
        out[at(dim, index[one])] = add(out[at(dim, index[one])], source[at(dim, one)], alpha=alpha)
        left = np.delete(left, first)
    return out


# ---------------------------------------------------------------- index_copy, index_fill, index_reduce


def _look_index_copy(bound: Bound, targets: list[ndarray]) -> None:
    """Memory comes before all but the dimension."""
    wrap_dim(bound["dim"], targets[0].ndim)
    check_target(targets[0])
    look_apart(bound, targets)


@kernel("index_copy", like=np.put_along_axis, differs=["gather-negative"], writes=Writes(inplace=_look_index_copy))
def index_copy(self, dim, index, source):
    """The tensor with the source's slices written at the positions that a vector names."""
    dim = wrap_dim(dim, self.ndim)
    check(index.ndim < 2, f"index_copy_(): Index should have dimension 1 or 0 (got {index.ndim})", IndexError)
    if not source.ndim and index.size != 1:
        raise IndexError(f"index_copy_(): When source is scalar, index should have one element (got {index.size})")
    if source.ndim != self.ndim and source.ndim and self.ndim:
        words = "index_copy_(): When source and destination are not scalars, their dimensionality must match."
        raise IndexError(f"{words} Source dimensionality ({source.ndim}), destination dimensionality ({self.ndim})")
    check(index.dtype == int64, f"index_copy_(): Expected a long tensor for index, but got {scalar_name(index.dtype)}")
    if self.dtype != source.dtype:
        words = "index_copy_(): self and source expected to have the same dtype, but got (self)"
        raise RuntimeError(f"{words} {scalar_name(self.dtype)} and (source) {scalar_name(source.dtype)}")
    mine, theirs = _around(self, dim), _around(source, dim)
    if mine != theirs:
        raise RuntimeError(
            "index_copy_(): Source/destination tensor must have same slice shapes. Destination slice shape: "
            f"{' '.join(map(str, mine))} at dimension {dim} and source slice shape: {' '.join(map(str, theirs))} "
            "at dimension 0."
        )
    if source.ndim and index.size != source.shape[dim]:
        raise IndexError(
            f"index_copy_(): Number of indices ({index.size}) should be equal to source.size(dim) ({source.shape[dim]})"
        )
    extent = self.shape[dim] if self.ndim else 1
    check_bounds(index, dim, extent, IndexError, "index_copy_(): ")
    refuse("index_copy_cpu", self.dtype, RARE)
    out = np.array(self, order="C", copy=True)
    if not self.ndim:
        if index.size:
            bits(out)[...] = bits(source).reshape(-1)[-1]
        return out
    bits(out)[at(dim, index.reshape(-1))] = bits(source) if source.ndim else bits(source).reshape((1,) * self.ndim)
    return out


@kernel("index_fill.int_Scalar", like=np.put_along_axis, writes=_APART_LAST)
def index_fill(self, dim, index, value):
    """The tensor with one number in the slices that a vector names."""
    check(index.dtype == int64, "index_fill_(): Expected dtype int64 for index.", IndexError)
    words = "index_fill_(): Converting complex Scalar to non-complex type is not supported"
    check(is_complex(self.dtype) or not isinstance(value, complex), words)
    dim = wrap_dim(dim, self.ndim)
    check(index.ndim < 2, "Index has to be a vector/scalar")
    refuse("index_fill_cpu", self.dtype, RARE)
    number = scalar(value, self.dtype)
    extent = self.shape[dim] if self.ndim else 1
    i = index.reshape(-1)
    wrong = i[(i < -extent) | (i >= extent)]
    if wrong.size and (self.size or not extent):
        raise IndexError(f"index {wrong[0]} is out of bounds for dimension {dim} with size {extent}")
    out = np.array(self, order="C", copy=True)
    if self.ndim and self.size:
        bits(out)[at(dim, i)] = bits(number)
    elif i.size:
        bits(out)[...] = bits(number)
    return out


# torch reads the number before it writes.
_FILL = Writes(free=("value",), after=lambda bound, targets: check_written_at(targets[0], [bound["index"]]))


@kernel("index_fill.int_Tensor", like=np.put_along_axis, writes=_FILL)
def index_fill_tensor(self, dim, index, value):
    """The tensor with the number of a 0-d tensor in the slices that a vector names."""
    words = f"index_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
    check(value.ndim == 0, words)
    return index_fill(self, dim, index, item(value))


@kernel("index_reduce", differs=["half-opmath"], writes=_APART_LAST)
def index_reduce(self, dim, index, source, reduce, *, include_self=True):
    """The tensor with the source's slices reduced into those that a vector names."""
    warn("index_reduce() is in beta and the API may change at any time.")
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.")
    dim = _check_index_source(self, dim, index, source, "index_reduce_()")
    if not include_self:
        refuse_elements("index_reduce_func_exclude_input_init", self, _NO_INDEX_REDUCE)
    if index.size and self.ndim < 2:
        refuse_elements("index_func_", self, _NO_INDEX_REDUCE)
    check(out_of_bounds(index, self.shape[dim] if self.ndim else 1) is None, index_out_of_range())
    if index.size:
        _refuse_index_reduce(self, reduce)
    out = np.array(self, order="C", copy=True)
    shape = out.shape or (1,)
    i = index.reshape([-1 if d == dim else 1 for d in range(len(shape))])
    i = np.broadcast_to(i, source.shape or (1,))
    places = linear(i, shape, dim)
    out = reduce_at(out.reshape(-1), places.reshape(-1), source.reshape(-1), reduce, include_self, True)
    return out.reshape(self.shape)


_NO_INDEX_REDUCE = RARE_OR_CHALF | {bool_, *COMPLEXES}


def _refuse_index_reduce(x: ndarray, reduce: str) -> None:
    """Each reduction is made of other ops, which leave out dtypes of their own."""
    if reduce == "mean":
        refuse_elements("add_stub", x, RARE)
        refuse_elements("div_cpu", x, frozenset({complex32}))
        refuse_elements("div_floor_cpu", x, frozenset({bool_}))
    elif reduce != "prod":
        refuse_elements("maximum_cpu" if reduce == "amax" else "minimum_cpu", x, RARE_OR_CHALF | set(COMPLEXES))
