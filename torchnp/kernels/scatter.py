"""Writing at indices along one dimension: scatter and its reductions, index_add, index_copy, index_fill."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchnp.core.checks import check, refuse, refuse_elements, warn, wrap_dim
from torchnp.core.errors import dim_out_of_range, index_out_of_range, no_dimensions, shape_text, unknown_reduction
from torchnp.core.fast_path import FEW_INDICES, exact, is_float
from torchnp.core.inplace_out_spec import Bound, WriteSpec, precheck_apart
from torchnp.core.python_scalars import item, scalar
from torchnp.core.registry import kernel
from torchnp.dtypes import COMPLEXES, HALVES, bool_, cast, complex32, int64, is_complex, is_inexact, opmath, scalar_name
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._memory import RARE, RARE_OR_CHALF, bits, copy_to_write, memory_of, orders, rarer
from torchnp.kernels.arithmetic import add, half_sum
from torchnp.kernels.limits import maximum, minimum
from torchnp.kernels.numerics import indexed_reductions as indexed
from torchnp.kernels.numerics.blocks import STRIP
from torchnp.kernels.numerics.vector_tails import alone_among
from torchnp.kernels.slicing import at, select
from torchnp.kernels.view import as_strided
from torchnp.layout.apply import is_plain
from torchnp.layout.overlap import check_target, check_written_at
from torchnp.layout.stride_rules import cloned, contiguous, dense, layout_of
from torchnp.threads import blocks
from torchnp.thresholds import Threshold

ndarray = np.ndarray

# These ops check last that the target shares no memory with index or source; scatter checks it first.
_APART_LAST = WriteSpec(after=precheck_apart, onto=True)

# ---------------------------------------------------------------- scatter

_ADD_OR_MULTIPLY = {None: None, "add": "sum", "multiply": "prod"}
_ANY = {r: r for r in ("sum", "prod", "mean", "amax", "amin")} | {"max": "amax", "min": "amin"}  # torch's older names


def _scattered(self, dim, index, *, op, src=None, value=None, reduce=None, include_self=True, known=_ADD_OR_MULTIPLY):
    """Write or reduce elements of ``src``, or one number, into a copy along a dimension."""
    if src is not None and reduce is not None and op == "scatter":
        warn(
            "The reduce argument of torch.scatter with Tensor src is deprecated and will be removed in a future PyTorch "
            "release. Use torch.scatter_reduce instead for more reduction options."
        )
    dim = _check_kinds(self, dim, index, src)
    if index.size:
        _check_sizes(self, dim, index, src)
    if reduce not in known:
        one_of_two = RuntimeError("reduce argument must be either add or multiply.")
        raise one_of_two if op == "scatter" else unknown_reduction(reduce)
    reduce = known[reduce]
    if not index.size:
        if reduce == "mean":
            _refuse_division(self.dtype)
        return copy_to_write(self)
    i, shape = index.reshape(index.shape or (1,)), self.shape or (1,)
    _check_code(self, reduce, include_self, "scalar" if src is None else "tensor")
    indexed.check_bounds(i[(slice(1),) * i.ndim], dim, shape[dim])  # torch checks the first index before ``value``
    values = scalar(value, self.dtype) if src is None else src.reshape(src.shape or (1,))[tuple(map(slice, i.shape))]
    indexed.check_bounds(i, dim, shape[dim])
    out = copy_to_write(self)
    if reduce is None:
        flat, steps = memory_of(out.reshape(shape))
        for part, places in indexed.linear_parts(i, steps, dim):
            bits(flat)[places] = bits(values if src is None else values[part])
        return out
    values, wide = np.broadcast_to(values, i.shape), opmath(self.dtype)
    if reduce == "sum" and include_self and (wide == self.dtype or i.size * indexed.RARE >= out.size):
        total = cast(out, wide)
        flat, steps = memory_of(total.reshape(shape))
        for part, places in indexed.linear_parts(i, steps, dim):
            np.add.at(flat, places.reshape(-1), cast(values[part], wide).reshape(-1))
        return cast(total, self.dtype)
    return _reduce_into(out.reshape(shape), i, dim, values, reduce, include_self).reshape(self.shape)


def _reduce_into(out: ndarray, index: ndarray, dim: int, values: ndarray, *how: Any) -> ndarray:
    """Reduce values at ``index`` along a dimension, as `reduce_at` does, into an array of any layout.

    Return ``out``, which may be overwritten, or a new array.
    """
    if index.size * indexed.RARE < out.size:
        flat, steps = memory_of(out)
        named, places = np.unique(indexed.linear(index, steps, dim), return_inverse=True)
        flat[named] = indexed.reduce_at(flat[named], places.reshape(-1), values.reshape(-1), *how)
        return out
    places = indexed.linear(index, contiguous(out.shape), dim)
    return indexed.reduce_at(out.reshape(-1), places.reshape(-1), values.reshape(-1), *how).reshape(out.shape)


def _check_kinds(self: ndarray, dim: int, index: ndarray, src: ndarray | None) -> int:
    dim = wrap_dim(dim, self.ndim)
    check(index.dtype in indexed.INDEX_DTYPES or not index.size, "scatter(): Expected dtype int32/int64 for index")
    words = "scatter(): Expected self.dtype to be equal to src.dtype"
    check(src is None or self.dtype == src.dtype, words)
    return dim


def _precheck_scatter(bound: Bound, written: list[ndarray]) -> None:
    """In place, check dtypes and sizes before overlap in memory, as torch does."""
    self, index, src = written[0], bound["index"], bound.get("src")
    dim = _check_kinds(self, bound["dim"], index, src)
    if index.size:
        _check_sizes(self, dim, index, src)
    precheck_apart(bound, written)


def _check_sizes(self: ndarray, dim: int, index: ndarray, src: ndarray | None) -> None:
    """Raise torch's error if the index has another rank than self and ``src``, or is larger than one of them.

    Along ``dim`` the index may be larger than self.
    """
    shape, sizes = self.shape or (1,), index.shape or (1,)
    check(len(sizes) == len(shape), "Index tensor must have the same number of dimensions as self tensor")
    if src is not None and max(src.ndim, 1) != len(sizes):
        fits = all(n <= m for n, m in zip(sizes, src.shape)) and all(
            n <= s or d == dim for d, (n, s) in enumerate(zip(sizes, shape))
        )
        check(not src.ndim or len(sizes) <= src.ndim or not fits, dim_out_of_range(src.ndim, src.ndim))
        raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
    given = sizes if src is None else src.shape or (1,)
    if any(n > m or (n > s and d != dim) for d, (n, m, s) in enumerate(zip(sizes, given, shape))):
        than = f" and to be no larger size than src {shape_text(src.shape)}" if src is not None else ""
        words = f"Expected index {shape_text(index.shape)} to be no larger than self {shape_text(self.shape)}"
        raise RuntimeError(f"{words} apart from dimension {dim}{than}")


def _check_code(self: ndarray, reduce: str | None, include_self: bool, kind: str) -> None:
    """Raise torch's error for dtypes that its kernel for the reduction lacks."""
    name = f"scatter_gather_{kind}_cpu" + (f"_reduce_{reduce}" if reduce in ("mean", "amax", "amin") else "")
    refuse(name if include_self else "scatter_reduce_exclude_input_init", self.dtype, rarer("2.14", RARE_OR_CHALF))
    lacking: dict[Any, Any] = {"amax": COMPLEXES, "amin": COMPLEXES, "mean": (bool_,)}
    refuse(name, self.dtype, lacking.get(reduce, ()))


_WRITES = WriteSpec(inplace=_precheck_scatter, memory_first=True, onto=True)
_AT = "along a dimension at the indices in ``index``."
(scatter,) = rows(
    "scatter.src", _scattered, f"The tensor with ``src``'s elements written {_AT}", like=np.put_along_axis,
    differs=["gather-negative", "gather-crops", "no-mixed-writes", "index-write-overlap"], writes=_WRITES,
)  # fmt: skip
rows(
    "scatter.value", _scattered, f"The tensor with one number written {_AT}", like=np.put_along_axis,
    differs=["gather-negative", "gather-crops", "number-wraps", "missing-kernel"], writes=_WRITES,
)  # fmt: skip
_DOC = "`scatter` of {} that adds or multiplies instead of writing."
rows("scatter.reduce", _scattered, _DOC.format("a tensor"), writes=_WRITES)
rows("scatter.value_reduce", _scattered, _DOC.format("one number"), writes=_WRITES)
(scatter_add,) = rows(
    "scatter_add", _scattered, f"The tensor with ``src``'s elements added {_AT}", reduce="sum", known=_ANY,
    like=np.add.at, writes=_WRITES,
    differs=["gather-negative", "gather-crops", "no-mixed-writes", "half-opmath", "index-write-overlap"],
)  # fmt: skip
_DOC = f"The tensor with ``src``'s elements reduced into it {_AT}"
rows("scatter_reduce.two", _scattered, _DOC, known=_ANY, differs=["half-opmath"], writes=_WRITES)

# ---------------------------------------------------------------- index_add


def _around(x: ndarray, dim: int) -> tuple[int, ...]:
    """Return the shape of the slices along ``dim``."""
    return (*x.shape[:dim], *x.shape[dim + 1 :])


def _check_index_source(self: ndarray, dim: int, index: ndarray, source: ndarray, name: str) -> int:
    dim = wrap_dim(dim, self.ndim)
    if index.ndim > 1:
        words = f"{name}: Index is supposed to be a vector, but got dim: {index.ndim} with type:"
        raise IndexError(f"{words} {scalar_name(index.dtype)} and size: {shape_text(index.shape)}")
    if index.dtype not in indexed.INDEX_DTYPES:
        raise RuntimeError(f"{name}: Expected dtype int32/int64 for index but got: {scalar_name(index.dtype)}")
    if self.dtype != source.dtype:
        words = f"{name}: self ({scalar_name(self.dtype)}) and source ({scalar_name(source.dtype)}) must have the same"
        raise RuntimeError(f"{words} scalar type")
    words = f"{name}: Indexing dim {dim} is out of bounds of the source tensor with dim {source.ndim}"
    check(dim in (0, *range(source.ndim)), words)
    extent = source.shape[dim] if source.ndim else 1
    check(source.ndim > 0 or index.size == 1, no_dimensions(dim))
    words = f"{name}: Number of indices ({index.size}) should be equal to source.size(dim):"
    check(index.size == extent, f"{words} ({extent}), for dim: {dim}")
    if self.ndim != source.ndim or _around(self, dim) != _around(source, dim):
        words = "source tensor shape must match self tensor shape, excluding the specified dimension. Got"
        raise RuntimeError(f"{words} self.shape = {shape_text(self.shape)} source.shape = {shape_text(source.shape)}")
    return dim


_BY_ROWS: Threshold = 16  # elements of the source per row of ``self``; from here on, torch adds row by row


def _quick_index_add(self, dim, index, source):
    """Add a few rows to a dense matrix; return None for other arguments."""
    if not type(self) is type(index) is type(source) is ndarray or type(dim) is not int or dim or self.ndim != 2:
        return None
    if not is_float(self) or source.dtype is not self.dtype or not is_plain(self):
        return None
    if index.dtype is not int64 or index.ndim != 1 or not 0 < index.size <= FEW_INDICES:
        return None
    named = index.tolist()
    if source.shape != (len(named), self.shape[1]) or min(named) < 0 or max(named) >= len(self):
        return None
    out = copy_to_write(self)
    np.add.at(out, index, source)
    return out


@kernel(
    "index_add",
    like=np.add.at,
    quick=exact(_quick_index_add, placed=True),
    writes=_APART_LAST,
    differs=[
        "gather-negative",
        "zero-dim-axis",
        "number-wraps",
        "index-add-alpha",
        "index-add-shapes",
        "no-mixed-writes",
        "index-write-overlap",
    ],
)
def index_add(self, dim, index, source, *, alpha=1):
    """The tensor with ``alpha`` times each slice of ``source`` added at its index along a dimension."""
    dim = _check_index_source(self, dim, index, source, "index_add_()")
    # If `whole`, torch calls scatter_add, which rounds half types once; otherwise it adds slice after slice.
    one = alpha == 1 and not isinstance(alpha, bool)
    whole = dim in (0, self.ndim - 1) and one and index.dtype == int64 and self.dtype != complex32
    whole = whole and self.ndim > 1
    if index.size or self.ndim < 2:
        rare = "add_stub" if self.ndim > 1 else "index_add_"
        if self.ndim > 1 and self.size and not whole:  # torch checks the first index before it adds
            check(indexed.out_of_bounds(index.reshape(-1)[:1], self.shape[dim]) is None, index_out_of_range())
        by_rows = whole and dim == 0 and self.size and source.size >= _BY_ROWS * len(self) and source.flags.c_contiguous
        summed = "scatter_add_expanded_index" if by_rows else "scatter_gather_tensor_cpu"
        refuse_elements(summed if whole else rare, self, rarer("2.14", RARE) if whole else RARE)
    if self.ndim > 1 and not (self.size and index.size):
        return self.copy()
    # Multiplying a complex number by 1 changes it if it has nan or infinities.
    factor = None if one and (whole or not is_complex(self.dtype)) else scalar(alpha, self.dtype)
    if whole:
        indexed.check_bounds(index, dim, self.shape[dim])
    check(indexed.out_of_bounds(index, self.shape[dim] if self.ndim else 1) is None, index_out_of_range())
    rounds = is_inexact(self.dtype) and (factor is not None or is_complex(self.dtype))
    if self.ndim > 1 and not whole and rounds:
        return _add_slices(self, dim, index.reshape(-1), source, 1 if factor is None else item(factor))
    if factor is not None:
        source = cast(cast(source, opmath(self.dtype)) * cast(factor, opmath(self.dtype)), self.dtype)
    if not self.ndim:
        return np.asarray(self + source) if index.size else self.copy()
    out, wide, index = copy_to_write(self), opmath(self.dtype) if whole else self.dtype, index.reshape(-1)
    if not (index.size and self.size):
        return out
    order, _ = orders(out)
    dense_out = out.transpose(order)
    if wide == self.dtype and dense_out.flags.c_contiguous:
        _add_along(dense_out, order.index(dim), index, source.transpose(order))
        return out
    named, index = np.unique(index, return_inverse=True)
    slices = np.array(out[at(dim, named)], wide, order="C")
    _add_along(slices, dim, index, source)
    out[at(dim, named)] = cast(slices, self.dtype)
    return out


def _add_along(out: ndarray, dim: int, index: ndarray, source: ndarray) -> None:
    """Add the slices of ``source`` along a dimension to the slices of the row-major ``out`` at ``index``."""
    out, source = out.reshape(-1, *out.shape[dim:]), source.reshape(-1, *source.shape[dim:])
    size, row = out.shape[1], out[0, 0].size
    for part in blocks(len(out), max(STRIP // max(index.size * row, 1), 1)):
        places = np.arange(len(out))[part][:, None] * size + index if len(out) > 1 else index
        indexed.add_rows(out.reshape(-1, row), places.reshape(-1), source[part].reshape(-1, row))


def _add_slices(self: ndarray, dim: int, index: ndarray, source: ndarray, alpha: Any) -> ndarray:
    """Compute `index_add` slice by slice with alpha; slices of the same index are added one after the other."""
    out, left, dtype = copy_to_write(self), np.arange(index.size), self.dtype
    wide, alone = opmath(dtype), None
    order, _ = orders(out)
    if dtype in HALVES:
        slices = select(dense(self), dim, 0), select(source, dim, 0)
        alone = np.expand_dims(alone_among(dtype, *slices), dim).transpose(order)
    into, source, dim = out.transpose(order), source.transpose(order), order.index(dim)  # rows of memory
    while left.size:
        first = np.unique(index[left], return_index=True)[1]
        one = left[first]
        a, b = into[at(dim, index[one])], source[at(dim, one)]
        if alone is None:
            a = add(a, b, alpha=alpha)
        else:
            a = half_sum(cast(a, wide), cast(b, wide), scalar(alpha, dtype), alone)
        into[at(dim, index[one])] = cast(a, dtype)
        left = np.delete(left, first)
    return out


# ---------------------------------------------------------------- index_copy, index_fill, index_reduce


def _precheck_index_copy(bound: Bound, targets: list[ndarray]) -> None:
    """Check the dimension, then overlap in memory; torch checks these before anything else."""
    wrap_dim(bound["dim"], targets[0].ndim)
    check_target(targets[0])
    precheck_apart(bound, targets)


def _check_window(self: ndarray, dim: int, n: int) -> None:
    """Raise torch's error for an empty target: torch makes a view of ``n`` slices before it checks the index."""
    if n and self.ndim and not self.shape[dim]:
        empty, shape = cloned(self), self.shape
        steps = layout_of(empty)[1]
        steps = steps if any(steps) else contiguous(shape)  # NumPy's own strides of empty arrays are 0
        as_strided(empty, (*shape[:dim], n, *shape[dim + 1 :]), (*steps[:dim], 0, *steps[dim + 1 :]))


@kernel(
    "index_copy",
    like=np.put_along_axis,
    differs=["gather-negative", "zero-dim-axis", "index-copy-long", "no-mixed-writes"],
    writes=WriteSpec(inplace=_precheck_index_copy, onto=True),
)
def index_copy(self, dim, index, source):
    """A copy of the tensor with slice i of the source written at position ``index[i]`` along a dimension."""
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
    words = "index_copy_(): Source/destination tensor must have same slice shapes. Destination slice shape:"
    found = f"{' '.join(map(str, mine))} at dimension {dim} and source slice shape: {' '.join(map(str, theirs))}"
    check(mine == theirs, f"{words} {found} at dimension 0.")
    extent = source.shape[dim] if source.ndim else index.size
    words = f"index_copy_(): Number of indices ({index.size}) should be equal to source.size(dim) ({extent})"
    check(index.size == extent, words, IndexError)
    extent = self.shape[dim] if self.ndim else 1
    _check_window(self, dim, index.size)
    refuse("index_copy_cpu", self.dtype, RARE)
    if 0 in mine:
        return copy_to_write(self)
    indexed.check_bounds(index, dim, extent, IndexError, "index_copy_(): ")
    out = copy_to_write(self)
    shape = self.shape or (1,)
    bits(out).reshape(shape)[at(dim, index.reshape(-1))] = bits(source).reshape(source.shape or (1,) * len(shape))
    return out


def _check_filled(self: ndarray, dim: int, index: ndarray) -> None:
    """Raise torch's error for an index out of bounds if slices have elements; negative ones count from the end."""
    size = self.shape[dim] if self.ndim else 1
    wrong = index[(index < -size) | (index >= size)]
    if wrong.size and 0 not in _around(self, dim):
        raise IndexError(f"index {wrong.flat[0]} is out of bounds for dimension {dim} with size {size}")


@kernel("index_fill.int_Scalar", like=np.put_along_axis, differs=["zero-dim-axis"], writes=_APART_LAST)
def index_fill(self, dim, index, value):
    """The tensor with one number written into the slices at ``index`` along a dimension."""
    check(index.dtype == int64, "index_fill_(): Expected dtype int64 for index.", IndexError)
    words = "index_fill_(): Converting complex Scalar to non-complex type is not supported"
    check(is_complex(self.dtype) or not isinstance(value, complex), words)
    dim = wrap_dim(dim, self.ndim)
    check(index.ndim < 2, "Index has to be a vector/scalar")
    shape, i = self.shape or (1,), index.reshape(-1)
    _check_window(self, dim, i.size)
    refuse("index_fill_cpu", self.dtype, RARE)
    number = scalar(value, self.dtype)
    _check_filled(self, dim, i)
    out = copy_to_write(self)
    if self.size:
        bits(out).reshape(shape)[at(dim, i)] = bits(number)
    return out


# torch reads the number before it writes, so the value may share memory with the target.
_FILL = WriteSpec(
    free=("value",), after=lambda bound, targets: check_written_at(targets[0], [bound["index"]]), onto=True
)


def check_filler(value: ndarray) -> None:
    words = f"index_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
    check(value.ndim == 0, words)


@kernel("index_fill.int_Tensor", like=np.put_along_axis, differs=["zero-dim-axis", "fill-0d"], writes=_FILL)
def index_fill_tensor(self, dim, index, value):
    """The tensor with the number in a 0-d tensor written into the slices at ``index`` along a dimension."""
    check_filler(value)
    return index_fill(self, dim, index, item(value))


@kernel("index_reduce", differs=["half-opmath"], writes=_APART_LAST)
def index_reduce(self, dim, index, source, reduce, *, include_self=True):
    """The tensor with each slice of ``source`` reduced into the slice at its index along a dimension."""
    warn("index_reduce() is in beta and the API may change at any time.")
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.")
    dim = _check_index_source(self, dim, index, source, "index_reduce_()")
    if not include_self:
        refuse("index_reduce_func_exclude_input_init", self.dtype, _NO_INDEX_REDUCE)
        _check_window(self, dim, index.size)
        _check_filled(self, dim, index)
    if self.ndim < 2:
        refuse("index_func_", self.dtype, _NO_INDEX_REDUCE)
    elif index.size:
        select(self, dim, 0)  # torch first makes a view of one slice
        if indexed.out_of_bounds(index.reshape(-1)[:1], self.shape[dim]) is None:  # torch checks index by index
            _refuse_index_reduce(self, reduce)
    check(indexed.out_of_bounds(index, self.shape[dim] if self.ndim else 1) is None, index_out_of_range())
    out = copy_to_write(self)
    if not index.size:
        return out
    _refuse_index_reduce(self, reduce)
    if reduce == "mean":
        _refuse_division(self.dtype)
    by_slices = index.size <= FEW_INDICES or source.size >= _LONG * index.size
    if by_slices and reduce in _OF_SLICES and self.ndim > 1 and self.dtype.kind in "fiu":
        _reduce_slices(out, dim, index.reshape(-1), source, reduce, include_self)
        return out
    shape = out.shape or (1,)
    i = np.broadcast_to(index.reshape([-1 if d == dim else 1 for d in range(len(shape))]), source.shape or (1,))
    # For a mean, torch counts with `index_add` of ones; if that calls scatter_add, half types are rounded once.
    steps = self.ndim < 2 or dim not in (0, self.ndim - 1) or index.dtype != int64
    out = _reduce_into(out.reshape(shape), i, dim, source, reduce, include_self, True, steps)
    return out.reshape(self.shape)


_LONG: Threshold = 1 << 10  # elements of a slice; from here on, slices are reduced one after the other
_OF_SLICES: dict[str, Any] = {"amax": maximum, "amin": minimum, "prod": np.multiply}


def _reduce_slices(out: ndarray, dim: int, index: ndarray, source: ndarray, reduce: str, include_self: bool) -> None:
    """Reduce each slice of the source into the slice of ``out`` at its index, as torch does."""
    reached = set()
    for k, position in enumerate(index.tolist()):
        into, new = out[at(dim, position)], source[at(dim, k)]
        into[...] = _OF_SLICES[reduce](into, new) if include_self or position in reached else new
        reached.add(position)


def _refuse_division(dtype: np.dtype) -> None:
    """Raise torch's error for dtypes without division: a mean divides by counts, even if it has no elements."""
    refuse("div_cpu", dtype, (complex32,))
    refuse("div_floor_cpu", dtype, (bool_,))


_NO_INDEX_REDUCE = RARE_OR_CHALF | {bool_, *COMPLEXES}


def _refuse_index_reduce(x: ndarray, reduce: str) -> None:
    """Raise torch's error for dtypes that a reduction's ops lack."""
    if reduce == "mean":
        refuse("add_stub", x.dtype, RARE)
    elif reduce != "prod":
        name = "maximum_cpu" if reduce == "amax" else "minimum_cpu"
        refuse(name, x.dtype, rarer("2.15", RARE | frozenset(COMPLEXES)))
