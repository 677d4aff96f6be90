"""Reads at indices (advanced indexing, index_select, take, gather), and writes with index_put and put."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from torchnp.core.checks import broadcast_shapes, check, refuse, refuse_elements, warn, wrap_dim
from torchnp.core.errors import index_out_of_range, no_dimensions, not_implemented, shape_text
from torchnp.core.fast_path import FEW_INDICES, exact, is_axis
from torchnp.core.inplace_out_spec import Bound, Step, WriteSpec, precheck_apart
from torchnp.core.registry import kernel
from torchnp.core.target import since
from torchnp.dtypes import BARE_UNSIGNED, FLOAT8S, bcomplex32, bool_, cast, float8_e8m0fnu, int64, scalar_name, uint8
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._memory import (
    RARE_OR_CHALF,
    bits,
    copy_to_write,
    element_strides,
    memory_of,
    rarer,
    take_slices,
)
from torchnp.kernels.copy import clone
from torchnp.kernels.masked_nonzero import masked_fill, masked_fill_tensor
from torchnp.kernels.numerics.blocks import STRIP, row_major_blocks
from torchnp.kernels.numerics.indexed_reductions import (
    INDEX_DTYPES,
    RARE,
    add_rows,
    check_bounds,
    linear_parts,
    out_of_bounds,
    places_of,
)
from torchnp.kernels.pointwise import logical_not
from torchnp.kernels.view import expand, view
from torchnp.layout.overlap import check_target, check_written_at, offer_target, overlaps_itself
from torchnp.layout.stride_rules import WRITTEN, contiguous

ndarray = np.ndarray
ALL = slice(None)
_MASKS = (bool_, uint8)
_NO_INDEX_PUT = frozenset((*BARE_UNSIGNED, float8_e8m0fnu))

# ---------------------------------------------------------------- advanced indexing


def numpy_index(x: ndarray, indices: Sequence[ndarray | None]) -> tuple[Any, ...]:
    """Convert torch's index list to a NumPy index: masks become positions, and None becomes a full slice."""
    check(len(indices) > 0, "at least one index must be provided", IndexError)
    if len(indices) > x.ndim:
        raise IndexError(f"too many indices for tensor of dimension {x.ndim} (got {len(indices)})")
    words = "tensors used as indices must be long, int, byte or bool tensors"
    check(all(i is None or i.dtype in (*INDEX_DTYPES, bool_, uint8) for i in indices), words, IndexError)
    out: list[Any] = []
    for i in indices:
        if i is None:
            out.append(ALL)
        elif i.dtype == bool_ or i.dtype == uint8:
            if i.dtype == uint8:
                warn("indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.")
            for j, n in enumerate(i.shape):
                place = len(out) + j
                if n != x.shape[wrap_dim(place, x.ndim)]:
                    words = f"The shape of the mask {shape_text(i.shape)} at index {j} does not match the shape of the"
                    raise IndexError(f"{words} indexed tensor {shape_text(x.shape)} at index {place}")
            out.extend(i.nonzero() if i.ndim else ())
        else:
            out.append(i)
    if len(out) > x.ndim or len(indices) > x.ndim:
        raise IndexError(f"too many indices for tensor of dimension {x.ndim} (got {max(len(out), len(indices))})")
    return tuple(out)


def _named(x: ndarray, index: tuple[Any, ...]) -> tuple[int, ...]:
    """Return the shape of the result of an index; raise torch's error if the index arrays do not broadcast."""
    given = {d: i.shape for d, i in enumerate(index) if i is not ALL}
    try:
        shape = broadcast_shapes(*given.values())
    except RuntimeError:
        words = "shape mismatch: indexing tensors could not be broadcast together with shapes"
        raise IndexError(f"{words} {', '.join(map(shape_text, given.values()))}") from None
    rest = [n for d, n in enumerate(x.shape) if d not in given]
    lead = min(given) if given and max(given) - min(given) < len(given) else 0
    return (*rest[:lead], *shape, *rest[lead:])


def _check_any(x: ndarray, index: tuple[Any, ...]) -> None:
    """Raise torch's error for indices into a dimension of size 0, whatever their values."""
    given = [(n, i.shape) for n, i in zip(x.shape, index, strict=False) if i is not ALL]
    none = given and 0 in next(zip(*given)) and 0 not in broadcast_shapes(*(shape for _, shape in given))
    check(not none, "index is out of bounds for dimension with size 0", IndexError)


def _raise_index(error: Exception, x: ndarray, index: tuple[Any, ...]) -> None:
    """Raise torch's error for an index that NumPy refused, unless the result is empty: then torch reads no index."""
    shape = _named(x, index)
    arrays: Any = [i for i in index if i is not ALL]
    sizes = [n for n, i in zip(x.shape, index, strict=False) if i is not ALL]
    arrays = np.broadcast_arrays(*arrays)
    _check_any(x, index)
    if 0 in shape:
        return
    # torch checks element by element, and counts only the indexed dimensions in its message.
    wrong = np.stack([(i < -n) | (i >= n) for i, n in zip(arrays, sizes, strict=True)], -1)
    for *place, d in np.argwhere(wrong)[:1]:
        found = f"index {arrays[d][tuple(place)]} is out of bounds"
        raise IndexError(f"{found} for dimension {d} with size {sizes[d]}") from None
    raise IndexError(str(error).replace("axis", "dimension")) from None


_NO_TENSOR = "ntensor >= 3 INTERNAL ASSERT FAILED"


@kernel("index.Tensor", like=np.ndarray.__getitem__, differs=["index-int-not-advanced", "index-uint8-mask"])
def index(self, indices):
    """The elements at positions given as tensors; a bool or uint8 tensor is a mask."""
    first = indices[0] if len(indices) == 1 else None
    if first is not None and first.dtype == bool_ and first.shape == self.shape and self.ndim:
        return bits(self)[first].view(self.dtype)
    where = numpy_index(self, indices)
    arrays = [d for d, i in enumerate(where) if i is not ALL]
    x = bits(self)
    if not arrays:
        check(not self.size, _NO_TENSOR)
        return np.empty(self.shape, self.dtype)
    if not self.size:
        _named(self, where)
        _check_any(self, where)  # NumPy accepts any index if the result is empty
    try:
        out = take_slices(x, where[arrays[0]], arrays[0]) if len(arrays) == 1 else x[where]
    except IndexError as error:
        _raise_index(error, self, where)
        out = np.empty(_named(self, where), x.dtype)
    return np.asarray(out).view(self.dtype)


@kernel("_unsafe_index.Tensor", like=np.ndarray.__getitem__, differs=["unsafe-index-integers"])
def _unsafe_index(self, indices):
    """`index`, with the same checks (torch omits them in compiled programs)."""
    _check_numbers("_unsafe_index", indices)
    return index(self, indices)


@kernel("_unsafe_masked_index")
def _unsafe_masked_index(self, mask, indices, fill):
    """`index` where the mask is true, and a number elsewhere; out-of-range indices are clamped."""
    _check_numbers("_unsafe_masked_index", indices)
    return masked_fill(index(self, _clamped(self, indices)), logical_not(mask), fill)


def _check_numbers(name: str, indices: Sequence[ndarray | None]) -> None:
    for i in indices:
        if i is not None and i.dtype not in INDEX_DTYPES:
            raise RuntimeError(f"{name} found unexpected index type {scalar_name(i.dtype)}")


def _clamped(x: ndarray, indices: Sequence[ndarray | None]) -> list[ndarray | None]:
    return [i if i is None else np.clip(i, -x.shape[d], x.shape[d] - 1) for d, i in enumerate(indices)]


# ---------------------------------------------------------------- index_put


def _fills(indices: Sequence[ndarray | None], values: ndarray, accumulate: bool) -> bool:
    """Return whether torch uses `masked_fill`: for one mask and one number, which it reads before it writes."""
    given = [i for i in indices if i is not None]
    return values.size == 1 and not accumulate and len(given) == 1 and given[0].dtype in _MASKS


def _check_mask(self: ndarray, d: int, mask: ndarray) -> None:
    """Refuse a mask with too many dimensions, because torch reads the size of each before it calls `masked_fill`."""
    if self.ndim > d and mask.shape[: self.ndim - d] == self.shape[d : d + mask.ndim]:
        for place in range(d, d + mask.ndim):
            wrap_dim(place, self.ndim)


def _precheck_apart(bound: Bound, targets: list[ndarray]) -> None:
    if not _fills(bound["indices"], bound["values"], bound["accumulate"]):
        precheck_apart(bound, targets)


def _write_expanded(bound: Bound, target: ndarray, step: Step) -> None:
    step(bound | {"self": target.copy()})  # raises the call's errors
    put_expanded(target, bound["indices"], bound["values"], bound["accumulate"])


def _check_source_dtype(self: ndarray, values: ndarray) -> None:
    if self.dtype != values.dtype:
        words = f"Index put requires the source and destination dtypes match, got {scalar_name(self.dtype)} for the"
        raise RuntimeError(f"{words} destination and {scalar_name(values.dtype)} for the source.")


_DIFFERS = [
    "index-put-accumulates", "index-uint8-mask", "no-mixed-writes", "index-write-overlap", "index-put-needs-index",
]  # fmt: skip


@kernel(
    "index_put", like=np.ndarray.__setitem__,
    differs=_DIFFERS,
    writes=WriteSpec(free=("values",), after=_precheck_apart, expanded=_write_expanded, onto=True),
)  # fmt: skip
def index_put(self, indices, values, accumulate=False):
    """The tensor with values written, or added, at positions given as tensors."""
    named = any(i is not None for i in indices)
    if not named and values.size == 1 and not accumulate:  # torch's error if there is no mask
        none = "masked_fill_ only supports boolean masks, but got mask with dtype nullptr (uninitialized)"
        raise RuntimeError("sym_strides() called on an undefined Tensor" if self.ndim > len(indices) else none)
    if _fills(indices, values, accumulate):
        d, mask = next((d, i) for d, i in enumerate(indices) if i is not None)
        _check_mask(self, d, mask)
        numpy_index(self, indices)  # refuses a mask that does not fit
        return _fill(self, d, mask, values)
    where = numpy_index(self, indices) if len(indices) else ()
    shape = _named(self, where)
    fits = values.ndim <= len(shape) and all(n in (1, m) for n, m in zip(values.shape[::-1], shape[::-1]))
    _check_any(self, where)
    words = f"shape mismatch: value tensor of shape {shape_text(values.shape)} cannot be broadcast to indexing"
    check(fits, f"{words} result of shape {shape_text(shape)}")
    _check_source_dtype(self, values)
    refuse("index_put", self.dtype, _NO_INDEX_PUT)
    check(named or not self.size, _NO_TENSOR)
    if accumulate:
        return _add_at(copy_to_write(self), where, values)
    out = copy_to_write(self) if WRITTEN.onto is self else clone(self)
    try:
        bits(out)[where] = bits(values)
    except IndexError as error:
        _raise_index(error, self, where)
    return out


rows(
    "_unsafe_index_put", index_put, "`index_put`.", like=np.ndarray.__setitem__,
    differs=["index-put-accumulates", "index-uint8-mask", "no-mixed-writes", "index-put-needs-index"],
    writes=WriteSpec(free=("values",), after=_precheck_apart, expanded=_write_expanded, onto=True),
)  # fmt: skip


def _fill(self: ndarray, dim: int, mask: ndarray, value: ndarray) -> ndarray:
    """Call `masked_fill`, which torch uses for one mask and one number of any dtype."""
    mask = mask.reshape((*(1,) * dim, *mask.shape, *(1,) * (self.ndim - dim - mask.ndim)))
    return masked_fill_tensor(self, mask, value.reshape(()))


def _add_at(out: ndarray, where: tuple[Any, ...], values: ndarray) -> ndarray:
    """Add values in index order, also at duplicate indices; return ``out`` itself or a new array.

    Whole rows are added if the last dimensions are not indexed.
    """
    shape, where = _named(out, where), (*where, *[ALL] * (out.ndim - len(where)))
    arrays = [d for d, i in enumerate(where) if i is not ALL]
    values = np.broadcast_to(values, shape)
    for d in arrays:
        i, n = where[d], out.shape[d]
        if out_of_bounds(i, n) is not None and ((i < -n) | (i >= n)).any():
            _raise_index(IndexError(), out, where)
    if not values.size:
        return out
    if not out.flags.c_contiguous:
        if values.size * RARE < out.size:
            np.add.at(out, where, values)
            return out
        out = out.copy()
    last = out.ndim - 1 - max(arrays, default=-1)  # dimensions of a row
    row = math.prod(shape[len(shape) - last :])
    named, rows = shape[: len(shape) - last], out.reshape(-1, row)
    terms = _terms(out.shape[: out.ndim - last], where, named)
    for part in row_major_blocks(named, row, STRIP):
        added, places = values[part], np.zeros((1,) * len(named), np.int64)
        for i, n, step in terms:
            i = i[tuple(s if size > 1 else ALL for s, size in zip(part, i.shape, strict=False))]
            places = places + np.where(i < 0, i + n, i) * step
        places = np.broadcast_to(places, added.shape[: len(named)])
        add_rows(rows, places.reshape(-1), added.reshape(-1, row))
    return out


def _terms(sizes: tuple[int, ...], where: tuple[Any, ...], shape: tuple[int, ...]) -> list[tuple[ndarray, int, int]]:
    """Return each dimension's indices, shaped to broadcast to the result, with the dimension's size and stride."""
    arrays = [d for d, i in enumerate(where) if i is not ALL]
    together = len(shape) - len(sizes) + len(arrays)  # dimensions of the index arrays
    lead = min(arrays) if arrays and max(arrays) - min(arrays) < len(arrays) else 0
    terms, others = [], 0
    for d, (n, step) in enumerate(zip(sizes, contiguous(sizes), strict=True)):
        i = where[d]
        if i is ALL:
            before = others + (together if others >= lead else 0)
            i, behind, others = np.arange(n), len(shape) - 1 - before, others + 1
        else:
            behind = len(shape) - lead - together
        terms.append((i.reshape((*(1,) * (len(shape) - behind - i.ndim), *i.shape, *(1,) * behind)), n, step))
    return terms


@kernel("_index_put_impl_", like=np.ndarray.__setitem__, differs=_DIFFERS)
def _index_put_impl_(self, indices, values, accumulate=False, unsafe=False):
    """`index_put` in place."""
    offer_target(self, [indices, values])
    try:
        out = index_put(self, indices, values, accumulate)
    finally:
        WRITTEN.onto = None
    if not _fills(indices, values, accumulate):
        check_written_at(self, [indices, values])
    if overlaps_itself(self):
        put_expanded(self, indices, values, accumulate)
    elif out is not self:
        self[...] = out
    return self


def put_expanded(self: ndarray, indices: Sequence[ndarray | None], values: ndarray, accumulate: bool) -> None:
    """Write into expanded dimensions as `index_put`, in index order: map the indices to positions in memory."""
    places = self[tuple(slice(0, 1 if s == 0 else None) for s in self.strides)]
    numbers = np.broadcast_to(np.arange(places.size).reshape(places.shape), self.shape)
    picked = numbers[numpy_index(self, indices)]
    values = np.broadcast_to(cast(values, self.dtype), picked.shape).reshape(-1)
    out = index_put(places.reshape(-1), [picked.reshape(-1)], values, accumulate)
    places[...] = out.reshape(places.shape)


@kernel("_unsafe_masked_index_put_accumulate")
def _unsafe_masked_index_put_accumulate(self, mask, indices, values):
    """`index_put` that accumulates the values where the mask is true."""
    _check_numbers("_unsafe_masked_index", indices)
    values = masked_fill(values, logical_not(mask), 0)
    return index_put(self, _clamped(self, indices), values, True)


# ---------------------------------------------------------------- along one dimension


def _quick_index_select(self, dim, index):
    """Compute `index_select` for a short index vector, else return None."""
    if not type(self) is type(index) is ndarray or not self.size or not is_axis(dim, self.ndim):
        return None
    if self.dtype in BARE_UNSIGNED or self.dtype.num > 255:
        return None
    if index.dtype is not int64 or index.ndim != 1 or not 0 < index.size <= FEW_INDICES:
        return None
    named = index.tolist()
    return take_slices(self, index, dim) if min(named) >= 0 and max(named) < self.shape[dim] else None


@kernel("index_select", like=np.take, differs=["gather-negative", "zero-dim-axis"], quick=exact(_quick_index_select))
def index_select(self, dim, index):
    """The slices of a dimension at the positions in a vector."""
    dim = wrap_dim(dim, self.ndim)
    check(index.ndim < 2, "index_select(): Index is supposed to be a vector", IndexError)
    if not self.ndim:
        check(index.size == 1, f"index_select(): Index to scalar can have only 1 value, got {index.size} value(s)")
    check(index.dtype in INDEX_DTYPES, "index_select(): Expected dtype int32 or int64 for index")
    if self.ndim < 2 and self.dtype in ((bcomplex32,) if since("2.14") else BARE_UNSIGNED):
        raise not_implemented("index_select", self.dtype)
    if not self.ndim:
        check(int(index.reshape(())) == 0, index_out_of_range())
        return self.copy()
    empty = self.ndim > 1 and not self.size
    check(not empty or self.shape[dim] or not index.size, "index_select(): self indexing axis dim should be positive")
    wrong = out_of_bounds(index, self.shape[dim])
    if wrong is not None:
        check(dim == 1 or empty, index_out_of_range())
        raise RuntimeError(f"INDICES element is out of DATA bounds, id={wrong} axis_dim={self.shape[dim]}")
    return take_slices(bits(self), index.reshape(-1), dim).view(self.dtype)


@kernel("take", like=np.take)
def take(self, index):
    """The elements at positions of the flattened tensor, in the shape of the index."""
    check(index.dtype == int64, f"take(): Expected a long tensor for index, but got {scalar_name(index.dtype)}")
    if index.size:
        refuse_elements("take_cpu", self, RARE_OR_CHALF)
    check(self.size > 0 or not index.size, "take(): tried to take from an empty tensor", IndexError)
    if self.flags.c_contiguous or index.size * RARE >= self.size:
        try:
            return np.asarray(bits(self).take(index)).view(self.dtype)
        except IndexError:
            raise _flat_bounds(index, self.size) from None
    flat, steps = memory_of(bits(self))
    return np.asarray(flat.take(places_of(_positions(index, self.size), self.shape, steps))).view(self.dtype)


def _positions(index: ndarray, n: int) -> ndarray:
    """Return positions of a flattened tensor; negative ones count from the end."""
    if index.size and (index.min() < -n or index.max() >= n):
        raise _flat_bounds(index, n)
    return np.where(index < 0, index + n, index)


def _flat_bounds(index: ndarray, n: int) -> IndexError:
    wrong = index[(index < -n) | (index >= n)].flat[0]
    return IndexError(f"out of range: tried to access index {wrong} on a tensor of {n} elements.")


def _check_put(self: ndarray, index: ndarray, source: ndarray) -> None:
    check(index.dtype == int64, f"put_(): Expected a long tensor for index, but got {scalar_name(index.dtype)}")
    if self.dtype != source.dtype:
        words = "put_(): self and source expected to have the same dtype, but got self.dtype"
        raise RuntimeError(f"{words} = {scalar_name(self.dtype)} and source.dtype = {scalar_name(source.dtype)}")
    if source.size != index.size:
        words = "put_(): Expected source and index to have the same number of elements, but got"
        raise IndexError(f"{words} source.numel() = {source.size}, index.numel() = {index.size}")
    check(self.size > 0 or not index.size, "put_(): Tried to put elements into an empty tensor", IndexError)


def _precheck_put(bound: Bound, targets: list[ndarray]) -> None:
    """Check the arguments, then overlaps in memory; the positions are checked later."""
    _check_put(bound["self"], bound["index"], bound["source"])
    check_target(targets[0])
    precheck_apart(bound, targets)


@kernel(
    "put", like=np.put, differs=["put-as-many", "no-mixed-writes"], writes=WriteSpec(inplace=_precheck_put, onto=True)
)
def put(self, index, source, accumulate=False):
    """The tensor with elements written, or added, at positions of the flattened tensor."""
    _check_put(self, index, source)
    if index.size:
        refuse_elements("take_put_cpu", self, RARE_OR_CHALF)
    out = copy_to_write(self)
    values = source.reshape(-1)
    flat, steps = memory_of(out)
    places = index.reshape(-1)
    if not out.flags.c_contiguous:
        places = places_of(_positions(places, self.size), self.shape, steps)
    try:
        if accumulate:
            np.add.at(flat, places, values)
        else:
            bits(flat)[places] = bits(values)
    except IndexError:
        raise _flat_bounds(index, self.size) from None
    return out


# ---------------------------------------------------------------- gather


def _names_rows(x: ndarray, index: ndarray) -> bool:
    """Return whether an index along dimension 0 is strided like an expanded vector: then torch gathers whole rows."""
    first, *others = element_strides(index)
    alike = x.shape[1:] == index.shape[1:] and x.flags.c_contiguous
    return alike and first == 1 and max(others, default=0) <= 1


@kernel("gather", like=np.take_along_axis, differs=["gather-negative", "gather-crops"])
def gather(self, dim, index, *, sparse_grad=False):
    """Elements read at the positions in ``index`` along ``dim``, and at the index's own coordinates elsewhere."""
    dim = wrap_dim(dim, self.ndim)
    if not index.size:
        return np.empty(index.shape, self.dtype)
    check(index.dtype in INDEX_DTYPES, "gather(): Expected dtype int32/int64 for index")
    source, i = self.reshape(self.shape or (1,)), index.reshape(index.shape or (1,))
    check(i.ndim == source.ndim, "Index tensor must have the same number of dimensions as input tensor")
    for d, (n, m) in enumerate(zip(i.shape, source.shape)):
        if d != dim and n > m:
            words = f"Size does not match at dimension {d} expected index {shape_text(index.shape)} to be no larger"
            raise RuntimeError(f"{words} than self {shape_text(self.shape)} apart from dimension {dim}")
    by_rows = self.dtype in FLOAT8S and self.ndim and dim == 0 and _names_rows(source, i)
    refuse(
        "gather_expanded_index" if by_rows else "scatter_gather_tensor_cpu", source.dtype, rarer("2.14", RARE_OR_CHALF)
    )
    check_bounds(i, dim, source.shape[dim])
    flat, steps = memory_of(bits(source))
    out = np.empty(i.shape, flat.dtype)
    for part, places in linear_parts(i, steps, dim):
        out[part] = flat.take(places)
    return out.reshape(index.shape).view(self.dtype)


@kernel("take_along_dim", like=np.take_along_axis, differs=["take-along-flat", "take-along-wraps"])
def take_along_dim(self, indices, dim=None):
    """`gather` with index and tensor broadcast against each other; without a dimension, on the flattened tensors."""
    if dim is None:
        return gather(view(self, [-1]), 0, view(indices, [-1]))
    words = f"torch.take_along_dim(): dtype of indices should be Long but got {scalar_name(indices.dtype)}"
    if self.ndim != indices.ndim:
        ranks = "torch.take_along_dim(): input and indices should have the same number of dimensions, but got"
        raise RuntimeError(f"{ranks} {self.ndim} dimensions for input, and {indices.ndim} dimensions for indices")
    check(indices.dtype == int64, words)
    dim = wrap_dim(dim, self.ndim)
    check(self.ndim > 0, no_dimensions(dim))
    one_of = lambda shape, n: (*shape[:dim], n, *shape[dim + 1 :])
    around = broadcast_shapes(one_of(self.shape, 1), one_of(indices.shape, 1))
    whole = one_of(around, indices.shape[dim])
    check(self.shape[dim] or 0 in whole, "ZeroDivisionError")
    indices = indices % max(self.shape[dim], 1)  # torch wraps every index around here
    return gather(expand(self, one_of(around, self.shape[dim])), dim, expand(indices, whole))
