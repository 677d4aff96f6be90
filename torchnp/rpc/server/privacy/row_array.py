"""Opaque arrays of an owner's rows. Operators cannot read their values, and no row of data affects another row.

Operators that keep a row label compute on a `RowArray` instead of an array. It is not an ndarray and cannot become one:
operations that are not defined here (truth value, numbers, nonzero, masks, other NumPy functions) raise `Unlabelled`.
So an operator takes the same steps whatever the values are. The operations here depend only on shapes, dtypes and
public values. Each documents its effect on the row dimension and refuses to sum, scan or broadcast over it, so index i
of a result depends only on the row that `order` names.

This is true for every bit, not only mathematically. Arithmetic uses ufuncs that IEEE 754 defines elementwise. Other
functions get only arguments in their ordinary range (`smooth`), because one unusual element may make vectorized code
process a whole vector differently.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from torchnp import dtypes as dt

DTYPES = frozenset([dt.bool_, *dt.INTS, *dt.FLOATS, dt.complex64, dt.complex128])
_HALVES = (dt.float16, dt.bfloat16)


class Unlabelled(TypeError):
    """Raised when an operation would let one row affect another, or is not defined on rows."""


def _refused(*args: Any, **kwargs: Any) -> Any:
    raise Unlabelled("this is no operation on an owner's rows")


class RowArray(NDArrayOperatorsMixin):
    """An opaque array, one dimension of which indexes rows.

    Attributes
    ----------
    axis : int
        The row dimension, non-negative.
    order : bytes
        The number of the row at each index, as int64, or -1 if there is none; empty if index i holds row i.
    shape, ndim, dtype
        The same as for an ndarray.
    """

    __slots__ = ("__axis", "__order", "__values")

    def __init__(self, values: np.ndarray, axis: int, order: bytes = b"") -> None:
        if values.dtype not in DTYPES or not 0 <= axis < values.ndim:
            raise Unlabelled(f"rows are no {values.dtype} array of {values.ndim} dimensions")
        self.__values, self.__axis, self.__order = values, axis, order

    @property
    def axis(self) -> int:
        return self.__axis

    @property
    def order(self) -> bytes:
        return self.__order

    @property
    def shape(self) -> tuple[int, ...]:
        return self.__values.shape

    @property
    def ndim(self) -> int:
        return self.__values.ndim

    @property
    def dtype(self) -> np.dtype:
        return self.__values.dtype

    __bool__ = __int__ = __float__ = __complex__ = __index__ = __iter__ = __len__ = __setitem__ = _refused
    __contains__ = __array__ = __array_function__ = __reduce_ex__ = __format__ = _refused
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<rows along dimension {self.axis} of {self.dtype} {self.shape}>"

    def __getitem__(self, at: Any) -> RowArray:
        return part(self, at)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> RowArray:
        if method != "__call__" or kwargs:
            raise Unlabelled(f"{ufunc.__name__}.{method} is no operation on an owner's rows")
        return matmul(*inputs) if ufunc is np.matmul else elementwise(ufunc, *inputs)


# Only this module, `row_library` and `row_calls` call this function; no row does.
def values_of(x: Any) -> np.ndarray:
    """Return the values of a RowArray, or a public array itself."""
    return x._RowArray__values if type(x) is RowArray else np.asarray(x)  # type: ignore[attr-defined]


def rows_of(x: RowArray) -> np.ndarray:
    """Return the row at each index of the row dimension."""
    return np.frombuffer(x.order, np.int64) if x.order else np.arange(x.shape[x.axis])


def packed(rows: np.ndarray) -> bytes:
    """Encode an order as the attribute of a RowArray; raise `Unlabelled` if a row occurs twice."""
    used = rows[rows >= 0]
    if len(np.unique(used)) != len(used):
        raise Unlabelled("a row is at two places")
    return b"" if np.array_equal(rows, np.arange(len(rows))) else rows.astype(np.int64).tobytes()


# ---------------------------------------------------------------- elementwise

# Ufuncs whose result is defined to the bit, except for the bits of a nan.
EXACT = frozenset([
    np.add, np.subtract, np.multiply, np.divide, np.negative, np.positive, np.absolute, np.sqrt, np.square, np.sign,
    np.rint, np.floor, np.ceil, np.trunc, np.fmod, np.floor_divide, np.remainder, np.maximum, np.minimum, np.fmax, np.fmin,
    np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal, np.isnan, np.isfinite, np.isinf,
    np.signbit, np.copysign, np.logical_and, np.logical_or, np.logical_xor, np.logical_not, np.bitwise_and,
    np.bitwise_or, np.bitwise_xor, np.invert, np.conjugate,
])  # fmt: skip
_OF_COMPLEX = frozenset([
    np.add, np.subtract, np.multiply, np.divide, np.negative, np.positive, np.conjugate, np.equal, np.not_equal,
    np.isnan, np.isfinite, np.isinf, np.logical_and, np.logical_or, np.logical_xor, np.logical_not,
])  # fmt: skip
# These fail or trap if an integer divisor is 0, so integers use `quotient` instead.
_WHOLE = frozenset([np.floor_divide, np.remainder, np.fmod])


def _complex(inputs: Sequence[Any]) -> bool:
    return any(x.dtype.kind == "c" if hasattr(x, "dtype") else isinstance(x, complex) for x in inputs)


def elementwise(ufunc: Any, *inputs: Any) -> RowArray:
    """Apply a ufunc of `EXACT`. Half precision is computed in float32 and then rounded."""
    if ufunc not in (_OF_COMPLEX if _complex(inputs) else EXACT) or len(inputs) != ufunc.nin:  # one more is written
        raise Unlabelled(f"{ufunc.__name__} is no operation on an owner's rows")
    if ufunc in _WHOLE and any(getattr(x, "dtype", dt.int64).kind in "biu" for x in inputs):
        raise Unlabelled("a quotient of integers")
    dtypes = {x.dtype for x in inputs if hasattr(x, "dtype")}
    arrays = [values_of(x) if hasattr(x, "dtype") else x for x in inputs]
    half = next(iter(dtypes)) if len(dtypes) == 1 and dtypes & set(_HALVES) else None
    out = ufunc(*(x.astype(np.float32) if half and hasattr(x, "dtype") else x for x in arrays))
    return _made(out.astype(half) if half and out.dtype == dt.float32 else out, inputs)


def _common(inputs: Sequence[Any]) -> tuple[int, int, bytes]:
    """Return the row dimension, counted from the right, its size, and the order, on which all operands must agree."""
    facts = {(x.axis - x.ndim, x.shape[x.axis], x.order) for x in inputs if type(x) is RowArray}
    if len(facts) != 1:
        raise Unlabelled("rows at several places")
    return facts.pop()


def _made(out: np.ndarray, inputs: Sequence[Any]) -> RowArray:
    """Return a broadcast result as a RowArray. The row dimension must not be broadcast."""
    place, n, order = _common(inputs)
    if not -out.ndim <= place or out.shape[place] != n:
        raise Unlabelled("rows are broadcast")
    return RowArray(out, out.ndim + place, order)


def where(condition: Any, one: Any, other: Any) -> Any:
    """Choose elementwise between two operands, like `numpy.where`."""
    operands = (condition, one, other)
    return _made(np.where(*(values_of(x) if hasattr(x, "dtype") else x for x in operands)), operands)


def like(value: Any, x: RowArray) -> RowArray:
    """Return public values or a number broadcast to the shape of ``x``, as a RowArray."""
    return RowArray(np.broadcast_to(value, x.shape), x.axis, x.order)


def to(x: Any, dtype: np.dtype) -> Any:
    """Convert to a dtype.

    As on CPUs, a float that is nan or out of int64's range first becomes the least int64.
    """
    array = values_of(x)
    if array.dtype.kind == "c" and not dt.is_complex(dtype) and dtype != dt.bool_:
        array = array.real
    if type(x) is not RowArray:
        return array.astype(dtype)
    if x.dtype == dtype:
        return x
    if dtype not in DTYPES:
        raise Unlabelled(f"rows of {dtype}")
    if dtype == dt.bool_:
        array = array != 0
    elif dtype.kind in "iu" and dt.is_floating(array.dtype):
        array = _whole(array, dtype)
    return RowArray(array.astype(dtype), x.axis, x.order)


def _whole(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    array = np.trunc(array.astype(np.float64))
    wide = np.int64
    fits = (array >= -(2.0**63)) & (array < 2.0**63)
    return np.where(fits, np.where(fits, array, 0.0).astype(wide), np.iinfo(wide).min).astype(dtype)


def canonical(x: RowArray) -> RowArray:
    """Replace all nans with the same nan.

    If both operands are nan, the CPU decides whose bits the result has, and vectorized code and its remainder may
    differ.
    """
    array = values_of(x)
    if dt.is_complex(array.dtype):
        parts = np.ascontiguousarray(array)[..., None].view(dt.to_real(array.dtype))
        array = np.where(np.isnan(parts), np.nan, parts).astype(parts.dtype).view(array.dtype)[..., 0]
    elif dt.is_floating(array.dtype):
        array = np.where(np.isnan(array), np.array(np.nan, np.float32).astype(array.dtype), array)
    return RowArray(array, x.axis, x.order)


def of_parts(name: str, x: RowArray) -> RowArray:
    """Return the real or the imaginary part."""
    return RowArray(getattr(values_of(x), name), x.axis, x.order)


# ---------------------------------------------------------------- along other dimensions


def over(x: RowArray, axes: Any, keepdims: bool = True) -> tuple[tuple[int, ...], int]:
    """Return dimensions counted from 0, without repetitions, and the row axis after they are reduced.

    Refuse the row axis, and ``axes=None``, which means all dimensions.
    """
    named = () if axes is None else (axes,) if isinstance(axes, int) else axes
    along = tuple(sorted({a % x.ndim for a in named}))
    if x.axis in along or not along:
        raise Unlabelled("rows are summed over")
    return along, x.axis if keepdims else x.axis - sum(a < x.axis for a in along)


def reduce(ufunc: Any, x: RowArray, axis: Any, keepdims: bool = False) -> RowArray:
    """Reduce along dimensions other than the row dimension."""
    along, rows = over(x, axis, keepdims)
    if _complex([x]) and ufunc not in (np.add, np.multiply):
        raise Unlabelled("an order of complex numbers")
    return RowArray(ufunc.reduce(values_of(x), axis=along, keepdims=keepdims), rows, x.order)


def scan(ufunc: Any, x: RowArray, axis: int) -> RowArray:
    """Compute a cumulative sum or product along a dimension other than the row dimension."""
    (along,), _ = over(x, axis)
    return RowArray(ufunc.accumulate(values_of(x), axis=along), x.axis, x.order)


def _ordered(x: RowArray) -> np.ndarray:
    """Return values that NumPy can order; half precision becomes float32, which preserves the order."""
    if _complex([x]):
        raise Unlabelled("an order of complex numbers")
    return values_of(x).astype(np.float32) if x.dtype in _HALVES else values_of(x)


def extreme(function: Callable[..., Any], x: RowArray, axis: Any, keepdims: bool) -> RowArray:
    """Return the index of the first largest or smallest element (`np.argmax` or `np.argmin`) along a dimension."""
    (along,), rows = over(x, axis, keepdims)
    return RowArray(function(_ordered(x), axis=along, keepdims=keepdims), rows, x.order)


def order(x: RowArray, axis: int) -> RowArray:
    """Return the indices of a stable ascending sort along a dimension other than the row dimension."""
    (along,), _ = over(x, axis)
    return RowArray(np.argsort(_ordered(x), axis=along, kind="stable"), x.axis, x.order)


def matmul(a: Any, b: Any) -> RowArray:
    """Return a product of matrices, or of batches of matrices; refuse one that would sum over rows."""
    if a.ndim < 2 or b.ndim < 2:
        raise Unlabelled("a product of vectors")
    if dt.is_bool(a.dtype) or a.dtype != b.dtype:
        raise Unlabelled("a product of other dtypes")
    place, *_ = _common((a, b))  # otherwise different rows of the operands could be combined
    if any(type(x) is RowArray and place == summed for x, summed in ((a, -1), (b, -2))):
        raise Unlabelled("rows are summed over")
    if place >= -2 and type(a) is type(b):
        raise Unlabelled("rows meet rows")
    return _made(np.matmul(values_of(a), values_of(b)), (a, b))


# ---------------------------------------------------------------- rows that move


def part(x: RowArray, at: Any) -> RowArray:
    """Index with integers, slices, ``...`` and None. The row dimension may be sliced but not indexed by an integer."""
    at = at if isinstance(at, tuple) else (at,)
    if any(type(i) not in (int, slice, type(None), type(...)) for i in at):
        raise Unlabelled("an index of another kind")
    rest = (slice(None),) * (x.ndim - sum(type(i) in (int, slice) for i in at))
    dots = next((k for k, i in enumerate(at) if i is ...), len(at))
    at = (*at[:dots], *rest, *at[dots + 1 :])
    source, axis, order, rows = 0, 0, x.order, None
    for i in at:
        if i is not None and source == x.axis:
            if type(i) is not slice:
                raise Unlabelled("one row is chosen")
            rows = axis
            order = packed(rows_of(x)[i])
        source, axis = source + (i is not None), axis + (type(i) is not int)
    assert rows is not None
    return RowArray(values_of(x)[at], rows, order)


def reshape(x: RowArray, shape: Sequence[int]) -> RowArray:
    """Change the shape; some dimension of the result must index the same rows."""
    out, n = np.reshape(values_of(x), tuple(shape)), x.shape[x.axis]
    before = math.prod(x.shape[: x.axis])
    fits = [d for d in range(out.ndim) if math.prod(out.shape[:d]) == before and out.shape[d] == n]
    if not fits:
        raise Unlabelled("rows are divided or merged")
    return RowArray(out, x.axis if x.axis in fits else fits[0], x.order)


def permute_dims(x: RowArray, axes: Sequence[int]) -> RowArray:
    return RowArray(np.transpose(values_of(x), tuple(axes)), [a % x.ndim for a in axes].index(x.axis), x.order)


def expand_dims(x: RowArray, axis: int) -> RowArray:
    out = np.expand_dims(values_of(x), axis)
    return RowArray(out, x.axis + (axis % out.ndim <= x.axis), x.order)


def squeeze(x: RowArray, axis: Any) -> RowArray:
    along, rows = over(x, axis, False)
    return RowArray(np.squeeze(values_of(x), along), rows, x.order)


def broadcast_to(x: RowArray, shape: Sequence[int]) -> RowArray:
    return _made(np.broadcast_to(values_of(x), tuple(shape)), [x])


def flip(x: RowArray, axis: Any) -> RowArray:
    along = {a % x.ndim for a in (range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis)}
    return x[tuple(slice(None, None, -1) if d in along else slice(None) for d in range(x.ndim))]


def roll(x: RowArray, shift: Any, axis: Any = None) -> RowArray:
    if axis is None:
        raise Unlabelled("rows are divided or merged")
    moved = np.roll(np.arange(x.shape[x.axis]).reshape([-1 if d == x.axis else 1 for d in range(x.ndim)]), shift, axis)
    return RowArray(np.roll(values_of(x), shift, axis), x.axis, packed(rows_of(x)[moved.ravel()]))


def tile(x: RowArray, repetitions: Sequence[int]) -> RowArray:
    return _made(np.tile(values_of(x), tuple(repetitions)), [x])


def concat(parts: Sequence[Any], axis: int) -> RowArray:
    """Join arrays. Along the row dimension, elements of public arrays belong to no row, and no row may occur twice."""
    dims = {x.axis for x in parts if type(x) is RowArray}
    out = np.concatenate([values_of(x) for x in parts], axis)
    if dims != {axis % out.ndim}:
        place, _, order = _common(parts)
        return RowArray(out, out.ndim + place, order)
    rows = [rows_of(x) if type(x) is RowArray else np.full(x.shape[axis], -1) for x in parts]
    return RowArray(out, axis % out.ndim, packed(np.concatenate(rows)))


def diagonal(x: RowArray, offset: int, axis1: int, axis2: int) -> RowArray:
    return _followed(x, lambda array: np.diagonal(array, offset, axis1, axis2))


def index(x: RowArray, at: tuple[Any, ...]) -> RowArray:
    """Index with one or several public arrays or masks."""
    if any(type(i) is RowArray for i in at):
        raise Unlabelled("rows are looked up in rows")
    return _followed(x, lambda array: array[at])


def _followed(x: RowArray, move: Callable[[np.ndarray], np.ndarray]) -> RowArray:
    """Move elements, and find the rows in the result by moving the row numbers in the same way."""
    shape = [-1 if d == x.axis else 1 for d in range(x.ndim)]
    numbers = move(np.broadcast_to(rows_of(x).reshape(shape), x.shape))
    for dim in sorted(range(numbers.ndim), key=lambda d: d != x.axis):
        line = numbers[tuple(slice(None) if d == dim else slice(1) for d in range(numbers.ndim))]
        if numbers.size and (numbers == line).all():
            return RowArray(move(values_of(x)), dim, packed(line.ravel()))
    raise Unlabelled("rows are divided or merged")


# ---------------------------------------------------------------- indexing


def take(x: Any, index: Any, axis: int) -> RowArray:
    """Take elements along a dimension, either from rows at public indices or from a public array at the rows' indices.

    If a row's index is out of range, the result is zero.
    """
    axis %= x.ndim
    if type(x) is not RowArray:
        return _lookup(x, index, axis)
    if type(index) is RowArray:
        raise Unlabelled("rows are looked up in rows")
    out = np.take(values_of(x), index, axis)
    if axis == x.axis:
        if index.ndim != 1:
            raise Unlabelled("rows are divided or merged")
        return RowArray(out, axis, packed(rows_of(x)[index]))
    return RowArray(out, x.axis + (index.ndim - 1 if axis < x.axis else 0), x.order)


def _lookup(table: np.ndarray, index: RowArray, axis: int) -> RowArray:
    if index.dtype not in (dt.int32, dt.int64):
        raise Unlabelled("indices of another dtype")
    places, size = values_of(index), table.shape[axis]
    shape = table.shape[:axis] + places.shape + table.shape[axis + 1 :]
    if not size:
        return RowArray(np.zeros(shape, table.dtype), axis + index.axis, index.order)
    inside = (places >= -size) & (places < size)
    found = np.take(table, np.where(inside, places, 0), axis)
    inside = inside.reshape(places.shape + (1,) * (table.ndim - axis - 1))
    return RowArray(np.where(inside, found, np.zeros((), table.dtype)), axis + index.axis, index.order)


def _at(index: Any, operands: Sequence[Any], axis: int) -> tuple[np.ndarray, int, bytes]:
    """Return the indices along ``axis``, the row dimension and the order.

    ``axis`` may be the row dimension only if the index is the only array with rows.
    """
    if any(x.ndim != index.ndim for x in operands) or index.dtype not in (dt.int32, dt.int64) or not index.ndim:
        raise Unlabelled("places of another number of dimensions")
    place, n, order = _common((index, *operands))
    dim = index.ndim + place
    if index.shape[dim] != n or (dim == axis % index.ndim and any(type(x) is RowArray for x in operands)):
        raise Unlabelled("rows are looked up in rows")
    return values_of(index), dim, order


def take_along_axis(x: Any, index: Any, axis: int) -> RowArray:
    """Gather elements by index along a dimension. If a row's index is out of range, the result is zero.

    Along the row dimension, a public index may name whole rows.
    """
    axis %= x.ndim
    if type(x) is RowArray and type(index) is not RowArray and axis == x.axis and index.ndim == x.ndim:
        first = index[tuple(slice(None) if d == axis else slice(1) for d in range(x.ndim))]
        whole = all(m == n for d, (m, n) in enumerate(zip(index.shape, x.shape)) if d != axis)
        if not whole or not index.size or (index != first).any():
            raise Unlabelled("rows are divided or merged")
        return take(x, first.ravel(), axis)
    places, dim, order = _at(index, [x], axis)
    size = x.shape[axis]
    if not size or any(x.shape[d] != n for d, n in enumerate(places.shape) if d != axis):
        raise Unlabelled("places beyond the operand")
    inside = (places >= 0) & (places < size)
    found = np.take_along_axis(values_of(x), np.where(inside, places, 0), axis)
    return RowArray(np.where(inside, found, np.zeros((), found.dtype)), dim, order)


def scatter(x: Any, axis: int, index: Any, source: Any, add: bool) -> RowArray:
    """Return a copy of ``x`` with ``source`` written or added at indices along a dimension.

    Indices out of range are ignored.
    """
    axis %= x.ndim
    source = source if source.ndim else np.broadcast_to(source, index.shape)
    places, dim, order = _at(index, [x, source], axis)
    if dim == axis or any(y.shape[dim] != index.shape[dim] for y in (x, source)):
        raise Unlabelled("rows are put among others")
    size, into = x.shape[axis], values_of(x)
    if any(
        m > n for y in (x, source) for d, (m, n) in enumerate(zip(places.shape, y.shape)) if d != axis or y is source
    ):
        raise Unlabelled("places beyond the operand")
    spare = np.zeros((*into.shape[:axis], 1, *into.shape[axis + 1 :]), into.dtype)
    out = np.concatenate([into, spare], axis)
    target = out[tuple(slice(None) if d == axis else slice(n) for d, n in enumerate(places.shape))]
    inside = np.where((places >= 0) & (places < size), places, size)
    given = values_of(source)[tuple(map(slice, places.shape))].astype(into.dtype)
    if add:
        grid = list(np.ogrid[tuple(map(slice, places.shape))])
        grid[axis] = inside
        np.add.at(target, tuple(grid), given)
    else:
        np.put_along_axis(target, inside, given, axis)
    return RowArray(np.ascontiguousarray(out[(slice(None),) * axis + (slice(size),)]), dim, order)


# ---------------------------------------------------------------- functions that no standard defines to the bit

# By dtype: the largest and the smallest argument for which exp is in its ordinary range, the least normal number, and
# the power of 2 by which log scales subnormal numbers.
_LARGEST = {dt.float32: 88.722, dt.float64: 709.78}
_SMALLEST = {dt.float32: -87.3, dt.float64: -708.3}
_NORMAL = {dt.float32: 2.0**-126, dt.float64: 2.0**-1022}
_LIFT = {dt.float32: 26, dt.float64: 54}


def smooth(name: str, x: RowArray) -> RowArray:
    """Apply exp, expm1, log, log1p or tanh to float32 or float64 rows.

    The library function gets only numbers in its ordinary range. Other numbers are replaced before the call, and their
    results are set after it.
    """
    if x.dtype not in _LARGEST:
        raise Unlabelled(f"{name} of {x.dtype}")
    out = _SMOOTH[name](values_of(x), x.dtype.type)
    return RowArray(out, x.axis, x.order)


def _exp(x: np.ndarray, real: Any) -> np.ndarray:
    low, high, tiny = real(_SMALLEST[np.dtype(real)]), real(_LARGEST[np.dtype(real)]), np.finfo(real).eps / 8
    small = np.abs(x) < tiny
    out = np.where(small, real(1), np.exp(np.where((x >= low) & (x <= high) & ~small, x, real(0.5))))
    out = np.where(x < low, real(0), np.where(x > high, real(np.inf), out))
    return np.where(np.isnan(x), real(np.nan), out)


def _expm1(x: np.ndarray, real: Any) -> np.ndarray:
    high, tiny = real(_LARGEST[np.dtype(real)]), np.finfo(real).eps / 8
    size = np.abs(x)
    out = np.expm1(np.where((x >= -40) & (x <= high) & (size >= tiny), x, real(0.5)))
    out = np.where(x < -40, real(-1), np.where(x > high, real(np.inf), out))
    return np.where((size < tiny) | np.isnan(x), x, out)


def _log(x: np.ndarray, real: Any) -> np.ndarray:
    lift = _LIFT[np.dtype(real)]
    small = x < real(_NORMAL[np.dtype(real)])
    plain = np.where(small, x * real(2.0**lift), x)
    out = np.log(np.where((plain > 0) & (plain < np.inf), plain, real(2)))
    out = np.where(small, out - real(lift * math.log(2)), out)
    out = np.where(x == 0, real(-np.inf), np.where(x == np.inf, real(np.inf), out))
    return np.where((x < 0) | np.isnan(x), real(np.nan), out)


def _log1p(x: np.ndarray, real: Any) -> np.ndarray:
    tiny = np.finfo(real).eps / 8
    size = np.abs(x)
    out = np.log1p(np.where((x > -1) & (x < np.inf) & (size >= tiny), x, real(0.5)))
    out = np.where(x == -1, real(-np.inf), np.where(x == np.inf, real(np.inf), out))
    out = np.where(size < tiny, x, out)
    return np.where((x < -1) | np.isnan(x), real(np.nan), out)


def _tanh(x: np.ndarray, real: Any) -> np.ndarray:
    tiny = np.finfo(real).eps / 8
    size = np.abs(x)
    out = np.tanh(np.where((size >= tiny) & (size <= 20), x, real(0.5)))
    out = np.where(size > 20, np.copysign(real(1), x), out)
    return np.where((size < tiny) | np.isnan(x), x, out)


_SMOOTH = {"exp": _exp, "expm1": _expm1, "log": _log, "log1p": _log1p, "tanh": _tanh}


# ---------------------------------------------------------------- integers


def quotient(x: Any, y: Any, rest: bool) -> RowArray:
    """Return the floor quotient, or the remainder, of integers of one dtype; the result is 0 where the divisor is 0."""
    a, b = values_of(x), values_of(y)
    if a.dtype != b.dtype or a.dtype.kind not in "iu":
        raise Unlabelled("a quotient of other than integers of one dtype")
    divisor = np.where((b == 0) | (b == b.dtype.type(-1 if b.dtype.kind == "i" else 0)), b.dtype.type(1), b)
    # The least integer divided by -1 overflows. So the dividend is negated instead, which wraps around.
    minus = (b == -1) if b.dtype.kind == "i" else np.zeros((), bool)
    if rest:
        out = np.where(minus | (b == 0), a.dtype.type(0), np.remainder(a, divisor))
    else:
        out = np.where(b == 0, a.dtype.type(0), np.where(minus, np.negative(a), np.floor_divide(a, divisor)))
    return _made(out, (x, y))
