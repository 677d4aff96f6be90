"""Opaque arrays of an owner's rows. Kernels cannot read their values, and no row affects another row.

Kernels that keep a row label get a `RowArray` instead of an array. It is not an ndarray and cannot become one:
operations that are not defined here (truth value, numbers, nonzero, masks, other NumPy functions) raise `Unlabelled`.
So a kernel takes the same steps whatever the values are. The operations here look only at shapes and dtypes. Each
tracks the row dimension and refuses to sum, scan or broadcast over it, so index i of a result depends only on row i.

This is true for every bit, not only mathematically. Arithmetic uses ufuncs that IEEE 754 defines elementwise. Other
functions get only arguments in their ordinary range (`smooth`), because vectorized code may process a whole vector
differently because of one unusual element.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from torchnp import dtypes as dt

DTYPES = frozenset([dt.bool_, *dt.INTS, *dt.FLOATS, dt.complex64, dt.complex128])


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
    shape, ndim, dtype
        As for an ndarray.
    """

    __slots__ = ("__axis", "__values")

    def __init__(self, values: np.ndarray, axis: int) -> None:
        if values.dtype not in DTYPES or not 0 <= axis < values.ndim:
            raise Unlabelled(f"rows are no {values.dtype} array of {values.ndim} dimensions")
        self.__values, self.__axis = values, axis

    @property
    def axis(self) -> int:
        return self.__axis

    @property
    def shape(self) -> tuple[int, ...]:
        return self.__values.shape

    @property
    def ndim(self) -> int:
        return self.__values.ndim

    @property
    def dtype(self) -> np.dtype:
        return self.__values.dtype

    __bool__ = __int__ = __float__ = __complex__ = __index__ = __iter__ = __len__ = __getitem__ = __setitem__ = _refused
    __contains__ = __array__ = __array_function__ = __reduce_ex__ = __format__ = _refused
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<rows along dimension {self.axis} of {self.dtype} {self.shape}>"

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> RowArray:
        if method != "__call__" or kwargs or ufunc not in (_OF_COMPLEX if _complex(inputs) else EXACT):
            raise Unlabelled(f"{ufunc.__name__}.{method} is no operation on an owner's rows")
        return _product(*inputs) if ufunc is np.matmul else _elementwise(ufunc, inputs)


# Only this module, `row_calls` and `row_moves` call this function; no kernel does.
def values_of(x: Any) -> np.ndarray:
    """Return the values of a RowArray, or a public array itself."""
    return x._RowArray__values if type(x) is RowArray else np.asarray(x)  # type: ignore[attr-defined]


# Elementwise ufuncs (and matmul) whose result is defined to the bit, except for the bits of a nan.
EXACT = frozenset([
    np.add, np.subtract, np.multiply, np.divide, np.negative, np.positive, np.absolute, np.sqrt, np.square, np.sign,
    np.rint, np.floor, np.ceil, np.trunc, np.fmod, np.floor_divide, np.remainder, np.maximum, np.minimum, np.fmax, np.fmin,
    np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal, np.isnan, np.isfinite, np.isinf,
    np.signbit, np.copysign, np.logical_and, np.logical_or, np.logical_xor, np.logical_not, np.bitwise_and,
    np.bitwise_or, np.bitwise_xor, np.invert, np.conjugate, np.matmul,
])  # fmt: skip
_OF_COMPLEX = frozenset([
    np.add, np.subtract, np.multiply, np.divide, np.negative, np.positive, np.conjugate, np.equal, np.not_equal,
    np.isnan, np.isfinite, np.isinf, np.logical_and, np.logical_or, np.logical_xor, np.logical_not, np.matmul,
])  # fmt: skip


def _complex(inputs: Sequence[Any]) -> bool:
    return any(x.dtype.kind == "c" if hasattr(x, "dtype") else isinstance(x, complex) for x in inputs)


# These fail or trap for an integer divisor of 0; `quotient` is used for integers.
_WHOLE = frozenset([np.floor_divide, np.remainder, np.fmod])


def _elementwise(ufunc: Callable[..., Any], inputs: Sequence[Any]) -> RowArray:
    if ufunc in _WHOLE and any(getattr(x, "dtype", dt.int64).kind in "biu" for x in inputs):
        raise Unlabelled("a quotient of integers")
    arrays = [values_of(x) for x in inputs]
    return _made(ufunc(*arrays), inputs)


def _made(out: np.ndarray, inputs: Sequence[Any]) -> RowArray:
    """Return an elementwise result as a RowArray.

    Row dimensions, counted from the right, must agree and must not be broadcast.
    """
    facts = {(x.axis - x.ndim, x.shape[x.axis]) for x in inputs if type(x) is RowArray}
    if len(facts) != 1:
        raise Unlabelled("rows at several places")
    ((place, n),) = facts
    if not -out.ndim <= place or out.shape[place] != n:
        raise Unlabelled("rows are broadcast")
    return RowArray(out, out.ndim + place)


def _product(a: Any, b: Any) -> RowArray:
    """Return a product of matrices, or of batches of matrices, that does not sum over rows."""
    if a.ndim < 2 or b.ndim < 2:
        raise Unlabelled("a product of vectors")
    places = set()
    for x, summed in ((a, -1), (b, -2)):
        if type(x) is RowArray:
            if (place := x.axis - x.ndim) == summed:
                raise Unlabelled("rows are summed over")
            places.add((place, x.shape[x.axis]))
    if len(places) != 1:  # rows of one operand would be combined with other rows of the other operand
        raise Unlabelled("rows meet rows")
    ((place, n),) = places
    if place >= -2 and type(a) is type(b):
        raise Unlabelled("rows meet rows")
    out = np.matmul(values_of(a), values_of(b))
    if out.shape[place] != n:
        raise Unlabelled("rows are broadcast")
    return RowArray(out, out.ndim + place)


# ---------------------------------------------------------------- operations that are not ufuncs


def where(condition: Any, one: Any, other: Any) -> Any:
    """Choose elementwise between two operands, like `numpy.where`."""
    operands = (condition, one, other)
    out = np.where(*map(values_of, operands))
    return _made(out, operands) if any(type(x) is RowArray for x in operands) else out


def like(value: Any, x: RowArray) -> RowArray:
    """Return public values or a number broadcast to the shape of ``x``, as a RowArray."""
    return RowArray(np.broadcast_to(value, x.shape), x.axis)


def plain(value: Any, dtype: np.dtype) -> np.ndarray:
    """Convert a public array or number to a dtype."""
    array = np.asarray(value)
    if array.dtype.kind == "c" and not dt.is_complex(dtype) and dtype != dt.bool_:
        array = array.real
    return array.astype(dtype)


def to(x: Any, dtype: np.dtype) -> Any:
    """Convert to a dtype.

    A float that is nan or out of int64's range first becomes the least int64, as CPUs convert it.
    """
    if type(x) is not RowArray:
        return plain(x, dtype)
    if x.dtype == dtype:
        return x
    if dtype not in DTYPES:
        raise Unlabelled(f"rows of {dtype}")
    array = values_of(x)
    if dtype == dt.bool_:
        return RowArray(array != 0, x.axis)
    if array.dtype.kind == "c" and not dt.is_complex(dtype):
        array = array.real
    if dtype.kind in "iu" and dt.is_floating(array.dtype):
        array = _whole(array, dtype)
    return RowArray(array.astype(dtype), x.axis)


def _whole(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    array = np.trunc(array.astype(np.float64))
    wide = np.int64
    fits = (array >= -(2.0**63)) & (array < 2.0**63)
    return np.where(fits, np.where(fits, array, 0.0).astype(wide), np.iinfo(wide).min).astype(dtype)


def canonical(x: RowArray) -> RowArray:
    """Replace all nans by the same nan.

    The CPU decides which operand's nan a result has, and vectorized code and its remainder may differ.
    """
    array = values_of(x)
    if dt.is_complex(array.dtype):
        parts = np.ascontiguousarray(array)[..., None].view(dt.to_real(array.dtype))
        return RowArray(np.where(np.isnan(parts), np.nan, parts).astype(parts.dtype).view(array.dtype)[..., 0], x.axis)
    if not dt.is_floating(array.dtype):
        return x
    nan = np.array(np.nan, np.float32).astype(array.dtype)
    return RowArray(np.where(np.isnan(array), nan, array), x.axis)


def _over(x: RowArray, axes: Sequence[int], keepdims: bool) -> tuple[tuple[int, ...], int]:
    """Return the reduced axes counted from 0, without repetitions, and the row axis after the reduction.

    Refuse to reduce the row axis.
    """
    along = tuple(sorted({a % x.ndim for a in axes}))
    if x.axis in along or not along:
        raise Unlabelled("rows are summed over")
    return along, x.axis if keepdims else x.axis - sum(a < x.axis for a in along)


_REDUCE = frozenset([np.add, np.multiply, np.maximum, np.minimum, np.logical_and, np.logical_or])


def reduce(ufunc: np.ufunc, x: RowArray, axes: Sequence[int], keepdims: bool = False) -> RowArray:
    """Reduce along dimensions other than the row dimension."""
    along, axis = _over(x, axes, keepdims)
    if ufunc not in _REDUCE or (_complex([x]) and ufunc not in (np.add, np.multiply)):
        raise Unlabelled(f"a reduction by {ufunc.__name__}")
    reduction: Any = ufunc.reduce
    return RowArray(reduction(values_of(x), axis=along, keepdims=keepdims), axis)


def scan(ufunc: np.ufunc, x: RowArray, axis: int) -> RowArray:
    """Compute a cumulative sum or product along a dimension other than the row dimension."""
    (along,), _ = _over(x, [axis], True)
    if ufunc not in (np.add, np.multiply):
        raise Unlabelled(f"a scan by {ufunc.__name__}")
    return RowArray(ufunc.accumulate(values_of(x), axis=along), x.axis)


def _ordered(x: RowArray) -> None:
    if _complex([x]):
        raise Unlabelled("an order of complex numbers")


def first_largest(x: RowArray, axis: int, keepdims: bool) -> RowArray:
    """Return the index of the first largest element along a dimension other than the row dimension; nan is largest."""
    (along,), rows = _over(x, [axis], keepdims)
    _ordered(x)
    return RowArray(np.argmax(values_of(x), axis=along, keepdims=keepdims), rows)


def order(x: RowArray, axis: int) -> RowArray:
    """Return the indices of a stable ascending sort along a dimension other than the row dimension."""
    (along,), _ = _over(x, [axis], True)
    _ordered(x)
    return RowArray(np.argsort(values_of(x), axis=along, kind="stable"), x.axis)


def piece(x: Any, axis: int, start: int, stop: int, step: int = 1) -> Any:
    """Slice along a dimension other than the row dimension."""
    at = (slice(None),) * (axis % x.ndim) + (slice(start, stop, step),)
    if type(x) is not RowArray:
        return x[at]
    _over(x, [axis], True)
    return RowArray(values_of(x)[at], x.axis)


def backwards(x: RowArray, axis: int) -> RowArray:
    """Reverse along a dimension other than the row dimension."""
    (along,), _ = _over(x, [axis], True)
    return RowArray(np.flip(values_of(x), along), x.axis)


def join(parts: Sequence[RowArray], axis: int) -> RowArray:
    """Concatenate along a dimension other than the row dimension."""
    for x in parts:
        _over(x, [axis], True)
    return _made_alike(np.concatenate([values_of(x) for x in parts], axis), parts)


def _made_alike(out: np.ndarray, parts: Sequence[RowArray]) -> RowArray:
    if len({(x.axis, x.shape[x.axis]) for x in parts}) != 1:
        raise Unlabelled("rows at several places")
    return RowArray(out, parts[0].axis)


def insert(x: Any, axis: int) -> Any:
    """Insert a dimension of size 1 at a non-negative axis."""
    if type(x) is not RowArray:
        return np.expand_dims(x, axis)
    return RowArray(np.expand_dims(values_of(x), axis), x.axis + (axis <= x.axis))


def drop(x: RowArray, axis: int) -> RowArray:
    """Remove a dimension of size 1."""
    (along,), rows = _over(x, [axis], False)
    return RowArray(np.squeeze(values_of(x), along), rows)


# ---------------------------------------------------------------- indexing


def lookup(table: np.ndarray, index: RowArray, axis: int) -> RowArray:
    """Take entries of a public table at indices that the rows hold.

    The result is zero where an index is out of range.
    """
    if type(table) is RowArray or index.dtype not in (dt.int32, dt.int64):
        raise Unlabelled("rows are looked up in rows")
    axis %= table.ndim
    places, size = values_of(index), table.shape[axis]
    shape = table.shape[:axis] + places.shape + table.shape[axis + 1 :]
    if not size:
        return RowArray(np.zeros(shape, table.dtype), axis + index.axis)
    inside = ((places >= -size) & (places < size)).reshape(places.shape + (1,) * (table.ndim - axis - 1))
    found = np.take(table, np.where((places >= -size) & (places < size), places, 0), axis)
    return RowArray(np.where(inside, found, np.zeros((), table.dtype)), axis + index.axis)


def _at(index: Any, operands: Sequence[Any], axis: int) -> tuple[np.ndarray, int]:
    """Return the indices along ``axis``, and the row dimension.

    The two may be equal only if the index alone has rows.
    """
    if any(x.ndim != index.ndim for x in operands) or index.dtype not in (dt.int32, dt.int64) or not index.ndim:
        raise Unlabelled("places of another number of dimensions")
    rows = {(x.axis, x.shape[x.axis]) for x in (index, *operands) if type(x) is RowArray}
    if len(rows) != 1:
        raise Unlabelled("rows at several places")
    ((dim, n),) = rows
    if index.shape[dim] != n or (dim == axis % index.ndim and any(type(x) is RowArray for x in operands)):
        raise Unlabelled("rows are looked up in rows")
    return values_of(index), dim


def gather(x: Any, axis: int, index: Any) -> RowArray:
    """Gather elements by index along a dimension. The result is zero where an index is out of range."""
    axis %= x.ndim
    places, dim = _at(index, [x], axis)
    size = x.shape[axis]
    part = values_of(x)[tuple(slice(None) if d == axis else slice(n) for d, n in enumerate(places.shape))]
    if not size or any(part.shape[d] != n for d, n in enumerate(places.shape) if d != axis):
        raise Unlabelled("places beyond the operand")
    inside = (places >= 0) & (places < size)
    found = np.take_along_axis(part, np.where(inside, places, 0), axis)
    return RowArray(np.where(inside, found, np.zeros((), part.dtype)), dim)


def scatter(x: Any, axis: int, index: Any, source: Any, add: bool) -> RowArray:
    """Return a copy of ``x`` with ``source`` written or added at indices along a dimension.

    Indices out of range are ignored.
    """
    axis %= x.ndim
    source = (
        source if type(source) is RowArray else np.broadcast_to(source, index.shape) if not np.ndim(source) else source
    )
    places, dim = _at(index, [x, source], axis)
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
    return RowArray(np.ascontiguousarray(out[(slice(None),) * axis + (slice(size),)]), dim)


# ---------------------------------------------------------------- functions that no standard defines to the bit

# By dtype: the largest and the smallest argument for which exp is ordinary, the least normal number, and the power of 2
# by which log scales subnormal numbers.
_LARGEST = {dt.float32: 88.722, dt.float64: 709.78}
_SMALLEST = {dt.float32: -87.3, dt.float64: -708.3}
_NORMAL = {dt.float32: 2.0**-126, dt.float64: 2.0**-1022}
_LIFT = {dt.float32: 26, dt.float64: 54}


def smooth(name: str, x: Any) -> Any:
    """Apply exp, expm1, log, log1p or tanh to float32 or float64 rows, or to a public array.

    The library function gets only numbers in its ordinary range. Other numbers are replaced before the call, and their
    results are set after it.
    """
    if x.dtype not in _LARGEST:
        raise Unlabelled(f"{name} of {x.dtype}")
    out = _SMOOTH[name](values_of(x), x.dtype.type)
    return RowArray(out, x.axis) if type(x) is RowArray else out


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
    """Return the floor quotient, or the remainder, of integers of one dtype; 0 where the divisor is 0."""
    a, b = values_of(x), values_of(y)
    if a.dtype != b.dtype or a.dtype.kind not in "iu":
        raise Unlabelled("a quotient of other than integers of one dtype")
    divisor = np.where((b == 0) | (b == b.dtype.type(-1 if b.dtype.kind == "i" else 0)), b.dtype.type(1), b)
    # The least integer divided by -1 overflows, so the dividend is negated instead, which wraps.
    minus = (b == -1) if b.dtype.kind == "i" else np.zeros((), bool)
    if rest:
        out = np.where(minus | (b == 0), a.dtype.type(0), np.remainder(a, divisor))
    else:
        out = np.where(b == 0, a.dtype.type(0), np.where(minus, np.negative(a), np.floor_divide(a, divisor)))
    return _made(out, (x, y))
