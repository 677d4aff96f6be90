"""The interface of an array library for the rows: its namespace, with torch's dtypes, promotion and rounding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import torchnp
from torchnp import dtypes as dt
from torchnp.core.errors import FAILURES, overflow
from torchnp.portable.rows import STANDARD, Array, Row, rows_for

ndarray = np.ndarray
Meta = tuple[tuple[int, ...], np.dtype]  # a result's shape and dtype


class ValueNeeded(TypeError):
    """Raised when an operator needs the value of an array that has none yet: in a trace, or in a lazy library."""


class LacksFunction(NotImplementedError):
    """Raised when a row calls a function that the library lacks; the NumPy kernel then replaces the row."""


class ArrayLibrary:
    """A library's array API namespace, and the other functions that torch's semantics need.

    Parameters
    ----------
    xp : module
        A namespace that follows the array API standard.

    Attributes
    ----------
    xp : module
        The namespace.
    kind : str
        The kind of library whose own rows are used; ``standard`` if there are none.
    scans_in_double : bool
        Whether variances, cumulative sums and products of float32 are computed in float64, as by torch on CPUs.
    """

    kind = STANDARD
    scans_in_double = True

    def __init__(self, xp: Any) -> None:
        self.xp = xp
        self._theirs = {d: getattr(xp, dt.dtype_name(d)) for d in dt.ALL if hasattr(xp, dt.dtype_name(d))}
        if hasattr(xp, "bool"):
            self._theirs[dt.bool_] = xp.bool
        self._ours = {_dtype_key(theirs): ours for ours, theirs in self._theirs.items()}
        self.own, self.standard = rows_for(self.kind)

    def __repr__(self) -> str:
        return f"<torchnp.portable.ArrayLibrary: {self.name}>"

    @property
    def name(self) -> str:
        """The library's name as users import it."""
        return self.xp.__name__.removeprefix("array_api_compat.")

    # ------------------------------------------------------------ rows

    def row(self, name: str) -> Row | None:
        """Return the library's own row of an operator, or else the standard row."""
        return self.own.get(name) or self.standard.get(name)

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call another row."""
        row = self.row(name)
        assert row is not None, name
        return row(self, *args, **kwargs)

    def run(self, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Run an operator's row; return NotImplemented if there is none, or if it does not cover the arguments.

        If the row fails, the NumPy kernel gets the same arguments, because its errors are torch's.
        """
        row = self.row(name)
        if row is None:
            return NotImplemented
        try:
            return row(self, *args, **kwargs)
        except LacksFunction:
            return NotImplemented
        except ValueNeeded:
            raise
        except FAILURES as error:
            torchs = self._error_of_kernel(name, args, kwargs)
            if torchs is None:
                raise
            raise torchs from error

    def _error_of_kernel(self, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Exception | None:
        """Return the NumPy kernel's error for a call, or None if it has none, or if an array has no values yet."""
        if name not in torchnp.table or self.is_traced(*_arrays_in([*args, *kwargs.values()], self)):
            return None
        given, named = self._lower(list(args)), {k: self._lower(x) for k, x in kwargs.items()}
        try:
            torchnp.table[name](*given, **named)
        except FAILURES as error:
            return error
        return None

    # ------------------------------------------------------------ arrays

    def is_array(self, x: Any) -> bool:
        """Return whether a value is an array; numbers and NumPy's scalars are not."""
        return hasattr(x, "dtype") and hasattr(x, "shape") and not isinstance(x, np.generic)

    def is_traced(self, *values: Any) -> bool:
        """Return whether a value is an array that has no values yet, so that no program can branch on it."""
        return False

    def from_numpy(self, a: ndarray) -> Array:
        """Return an array of this library with a copy of an ndarray's values."""
        if a.dtype not in self._theirs:
            raise TypeError(f"{self.name} has no dtype {a.dtype}")
        return self.xp.asarray(np.array(a, order="C"))

    def data(self, a: ndarray) -> Array:
        """Return an ndarray as a program's callers pass data; some libraries hold weights in another form."""
        return self.from_numpy(a)

    def to_numpy(self, x: Array) -> ndarray:
        """Return an ndarray with the values of an array; it may share memory, and must not be written."""
        if isinstance(x, ndarray):
            return x
        if hasattr(self.xp, "asnumpy"):  # CuPy's arrays are on the device
            return self.xp.asnumpy(x)
        try:
            found = np.from_dlpack(x)
        except (TypeError, AttributeError, BufferError, RuntimeError, ValueError):
            found = np.asarray(x)
        return np.array(found) if found.ndim == 0 else found

    def full(self, shape: Sequence[int], value: Any, dtype: Any) -> Array:
        """Return an array filled with one number, which wraps if the dtype cannot hold it."""
        d = dt.as_dtype(dtype)
        if isinstance(value, complex) and value.imag and not dt.is_complex(d) and not dt.is_bool(d):
            raise overflow(dt.c_name(d))
        if isinstance(value, (bool, int, float, complex)):
            exact = dt.number_dtype(value) if isinstance(value, int) else None  # floats are doubles until the last cast
            value = dt.cast(np.asarray(value, exact), d).item()
            return self.xp.full(tuple(shape), value, dtype=self.theirs(d))
        return self.xp.broadcast_to(self.astype(self.xp.asarray(value), d), tuple(shape))

    def item(self, x: Any) -> Any:
        """Return the value of a one-element array as a Python number; raise `ValueNeeded` if it has none yet."""
        if not self.is_array(x):
            return x
        if self.is_traced(x):
            raise ValueNeeded
        return self.to_numpy(x).reshape(()).item()

    def scan(
        self, step: Callable[..., tuple[Any, Array]], carry: Any, xs: Array, reverse: bool = False
    ) -> tuple[Any, Array]:
        """Call ``step(carry, x)`` along the first dimension; return the last carry and the stacked results."""
        found = []
        order = range(xs.shape[0])
        for i in reversed(order) if reverse else order:
            carry, y = step(carry, xs[i, ...])
            found.append(y)
        return carry, self.xp.stack(found[::-1] if reverse else found, axis=0)

    # ------------------------------------------------------------ dtypes

    @property
    def dtypes(self) -> frozenset[str]:
        """The names of torch's dtypes that the library has."""
        return frozenset(map(dt.dtype_name, self._theirs))

    def dtype_of(self, x: Array) -> np.dtype:
        """Return the dtype of an array, as a ``np.dtype``."""
        found = self._ours.get(_dtype_key(x.dtype))
        return np.dtype(x.dtype) if found is None else found

    def theirs(self, dtype: Any) -> Any:
        """Return the library's dtype for a dtype of torch; raise TypeError if it has none."""
        d = dt.as_dtype(dtype)
        if d not in self._theirs:
            raise TypeError(f"{self.name} has no dtype {d}")
        return self._theirs[d]

    def astype(self, x: Array, dtype: Any) -> Array:
        """Convert an array; complex numbers lose their imaginary part, as in torch."""
        d, source = dt.as_dtype(dtype), self.dtype_of(x)
        if source == d:
            return x
        if dt.is_complex(source) and not dt.is_complex(d):
            if dt.is_bool(d):
                return x != self.full((), 0, source)
            x, source = self.xp.real(x), dt.to_real(source)
        if source == dt.float64 and dt.is_half(d):  # rounded twice, as in torch
            x = self.xp.astype(x, self.theirs(dt.float32))
        return self.xp.astype(x, self.theirs(d))

    def result_type(self, *operands: Any) -> np.dtype:
        """Return torch's result dtype of arrays and numbers."""
        return dt.result_type(*(_stand_in(self.dtype_of(x), len(x.shape)) if self.is_array(x) else x for x in operands))

    def number(self, value: Any, dtype: np.dtype) -> Array:
        """Return a number as a 0-d array."""
        return self.full((), value, dtype)

    def promote(self, *operands: Any, to_float: bool = False) -> list[Array]:
        """Return operands in torch's common dtype, numbers as 0-d arrays; with ``to_float`` integers become floats."""
        d = self.result_type(*operands)
        if to_float and not dt.is_inexact(d):
            d = dt.get_default_dtype()
        return [self.astype(x, d) if self.is_array(x) else self.number(x, d) for x in operands]

    def to_float(self, x: Array) -> Array:
        """Convert an array of integers or booleans to the default dtype; return others unchanged."""
        return x if dt.is_inexact(self.dtype_of(x)) else self.astype(x, dt.get_default_dtype())

    def accumulator(self, dtype: Any) -> np.dtype:
        """Return the dtype in which long sums of a dtype are computed."""
        wide = {dt.float32: dt.float64, dt.complex64: dt.complex128} if self.scans_in_double else {}
        d = dt.as_dtype(dtype)
        return wide.get(d) or dt.opmath(d)

    def in_opmath(self, function: Callable[..., Array], *arrays: Any) -> Array:
        """Call a function on arrays of one floating point dtype; halves are computed in float32 and rounded once."""
        d = self.dtype_of(next(x for x in arrays if x is not None))
        wide = dt.opmath(d)
        if wide == d:
            return function(*arrays)
        found = function(*(x if x is None else self.astype(x, wide) for x in arrays))
        return self.astype(found, d)

    # ------------------------------------------------------------ the host

    def on_host(self, kernel: Callable[..., Any], args: Any, kwargs: Any, metas: Sequence[Meta] | None) -> list[Any]:
        """Call a NumPy kernel with this library's arrays.

        Parameters
        ----------
        kernel : callable
            Takes ndarrays in place of the library's arrays.
        args, kwargs : list, dict
            The kernel's arguments: arrays, numbers and lists of these.
        metas : list of tuple or None
            Shape and dtype of each result, which libraries that compute later need in advance.

        Returns
        -------
        list
            The results as arrays of this library.
        """
        lowered = [self._lower(x) for x in args], {k: self._lower(x) for k, x in kwargs.items()}
        found = kernel(*lowered[0], **lowered[1])
        found = list(found) if isinstance(found, (list, tuple)) else [found]
        return [self.from_numpy(x) if isinstance(x, ndarray) else x for x in found]

    def _lower(self, x: Any) -> Any:
        if isinstance(x, (list, tuple)):
            return [self._lower(v) for v in x]
        # A kernel must not write to the library's memory.
        return self.to_numpy(x).copy() if self.is_array(x) else x


def _arrays_in(values: Sequence[Any], lib: ArrayLibrary) -> list[Array]:
    lists = [x if isinstance(x, (list, tuple)) else [x] for x in values]
    return [x for found in lists for x in found if lib.is_array(x)]


def _dtype_key(dtype: Any) -> Any:
    """Return a library's dtype in a form that can be compared, because JAX uses both types and dtypes."""
    try:
        return np.dtype(dtype)
    except TypeError:
        return dtype


_STAND_INS: dict[tuple[np.dtype, bool], ndarray] = {}


def _stand_in(dtype: np.dtype, ndim: int) -> ndarray:
    """Return a small ndarray that replaces an array in computing the promoted dtype."""
    key = dtype, bool(ndim)
    if key not in _STAND_INS:
        _STAND_INS[key] = np.empty((1,) if ndim else (), dtype)
    return _STAND_INS[key]
