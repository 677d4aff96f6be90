"""The array library `rows`, with which the portable kernels of operators compute on an owner's rows.

Its arrays are `RowArray` and public ndarrays. Each function of the array API standard that works on rows is in
`PRIMITIVES`; all others take public arrays only. As in a JAX trace, a portable kernel cannot read a private value here.
So the operators that keep a row label are those whose portable kernel runs without an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import array_api_compat.numpy
import numpy as np

from torchnp import dtypes as dt
from torchnp.portable.library import ArrayLibrary
from torchnp.rpc.server.privacy import row_array as ra
from torchnp.rpc.server.privacy.row_array import RowArray, Unlabelled, elementwise, over, smooth, to, values_of

Function = Callable[..., Any]

# ---------------------------------------------------------------- primitives that combine others


def _sum(x: RowArray, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> RowArray:
    x = x if dtype is None else to(x, dtype)
    return ra.reduce(np.add, to(x, dt.int64) if x.dtype.kind in "biu" else x, axis, keepdims)


def _mean(x: RowArray, axis: Any = None, keepdims: bool = False) -> RowArray:
    return _sum(x, axis, keepdims) / x.dtype.type(math.prod(x.shape[d] for d in over(x, axis)[0]))


def _prod(x: RowArray, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> RowArray:
    return ra.reduce(np.multiply, x if dtype is None else to(x, dtype), axis, keepdims)


def _argsort(x: RowArray, axis: int = -1, stable: bool = True) -> RowArray:
    return ra.order(x, axis)


def _stack(arrays: Sequence[Any], axis: int = 0) -> RowArray:
    axis %= arrays[0].ndim + 1
    return ra.concat([_expanded(x, axis) for x in arrays], axis)


def _expanded(x: Any, axis: int) -> Any:
    return ra.expand_dims(x, axis) if type(x) is RowArray else np.expand_dims(x, axis)


def _broadcast_arrays(*arrays: Any) -> list[Any]:
    shape = np.broadcast_shapes(*(x.shape for x in arrays))
    return [(ra.broadcast_to if type(x) is RowArray else np.broadcast_to)(x, shape) for x in arrays]


def _moveaxis(x: RowArray, source: int, destination: int) -> RowArray:
    order = [d for d in range(x.ndim) if d != source % x.ndim]
    order.insert(destination % x.ndim, source % x.ndim)
    return ra.permute_dims(x, order)


def _triangle(lower: bool) -> Function:
    def function(x: RowArray, k: int = 0) -> RowArray:
        inside = np.tri(x.shape[-2], x.shape[-1], k if lower else k - 1, dtype=bool)
        return ra.where(inside if lower else ~inside, x, np.zeros((), x.dtype))

    return function


def _matmul(a: Any, b: Any) -> RowArray:
    """Do the same as the standard's ``matmul``; vectors are first expanded to matrices."""
    if a.ndim == 1 or b.ndim == 1:
        wide = _matmul(_expanded(a, 0) if a.ndim == 1 else a, _expanded(b, 1) if b.ndim == 1 else b)
        return ra.squeeze(wide, [-2] * (a.ndim == 1) + [-1] * (b.ndim == 1))
    return ra.matmul(a, b)


def _power(x: Any, exponent: Any) -> RowArray:
    """Raise rows to the power of one public number.

    Integer exponents up to 64 are computed with products, 0.5 with sqrt, and others with exp and log in float64.
    """
    if type(x) is not RowArray or type(exponent) is RowArray or exponent.ndim:
        raise Unlabelled("powers by rows")
    n = exponent.item()
    if x.dtype.kind == "c" or isinstance(n, complex) or not abs(n) <= 1e6:
        raise Unlabelled("such a power")
    if n == 0.5:
        return elementwise(np.sqrt, x)
    if n == int(n) and abs(n) <= 64:
        out = _whole_power(x, abs(int(n)))
        return out if n >= 0 else _inverse(out)
    return to(smooth("exp", smooth("log", to(x, dt.float64)) * float(n)), x.dtype)


def _whole_power(x: RowArray, size: int) -> RowArray:
    out, square = None, x
    while size:
        if size & 1:
            out = square if out is None else out * square
        square, size = square * square if size > 1 else square, size >> 1
    return ra.like(np.ones((), x.dtype), x) if out is None else out


def _inverse(x: RowArray) -> RowArray:
    if x.dtype.kind in "iu":
        raise Unlabelled("a negative power of integers")
    return 1.0 / x


def _whole(ufunc: np.ufunc, rest: bool) -> Function:
    def function(a: Any, b: Any) -> RowArray:
        return ra.quotient(a, b, rest) if a.dtype.kind in "iu" else elementwise(ufunc, a, b)

    return function


# ---------------------------------------------------------------- the namespace

_UFUNCS = {
    name: getattr(np, name)
    for name in (
        "add", "subtract", "multiply", "divide", "negative", "positive", "sqrt", "square", "sign", "floor", "ceil",
        "trunc", "maximum", "minimum", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "isnan",
        "isfinite", "isinf", "signbit", "copysign", "logical_and", "logical_or", "logical_xor", "logical_not",
        "bitwise_and", "bitwise_or", "bitwise_xor",
    )
} | {"abs": np.absolute, "round": np.rint, "bitwise_invert": np.invert, "conj": np.conjugate}  # fmt: skip


def _bound(function: Function, *first: Any) -> Function:
    return lambda *args, **kwargs: function(*first, *args, **kwargs)


EACH, ALONG, CONTRACT, LOOKUP, MOVE = "each", "along", "contract", "lookup", "move"
# The effect of each function on rows: it computes elementwise, computes along other dimensions, multiplies matrices,
# looks up elements, or moves elements.
_FUNCTIONS: dict[str, dict[str, Function]] = {
    EACH: {
        **{name: _bound(elementwise, ufunc) for name, ufunc in _UFUNCS.items()},
        **{name: _bound(smooth, name) for name in ("exp", "expm1", "log", "log1p", "tanh")},
        "log2": lambda x: smooth("log", x) * (1 / math.log(2)), "log10": lambda x: smooth("log", x) * (1 / math.log(10)),
        "floor_divide": _whole(np.floor_divide, False), "remainder": _whole(np.remainder, True), "pow": _power,
        "where": ra.where, "astype": to, "tril": _triangle(True), "triu": _triangle(False),
    },
    ALONG: {
        "sum": _sum, "mean": _mean, "prod": _prod, "max": _bound(ra.reduce, np.maximum),
        "min": _bound(ra.reduce, np.minimum), "any": _bound(ra.reduce, np.logical_or),
        "all": _bound(ra.reduce, np.logical_and), "argmax": _bound(ra.extreme, np.argmax),
        "argmin": _bound(ra.extreme, np.argmin), "argsort": _argsort,
        "cumulative_sum": lambda x, axis, dtype: ra.scan(np.add, to(x, dtype), axis),
        "cumulative_prod": lambda x, axis, dtype: ra.scan(np.multiply, to(x, dtype), axis),
    },
    CONTRACT: {"matmul": _matmul},
    LOOKUP: {"take": ra.take, "take_along_axis": ra.take_along_axis, "scatter": ra.scatter},
    MOVE: {
        "reshape": ra.reshape, "permute_dims": ra.permute_dims, "expand_dims": ra.expand_dims, "squeeze": ra.squeeze,
        "broadcast_to": ra.broadcast_to, "broadcast_arrays": _broadcast_arrays, "moveaxis": _moveaxis, "flip":
        lambda x, axis=None: ra.flip(x, axis), "roll": ra.roll, "tile": ra.tile, "concat": ra.concat, "stack": _stack,
        "asarray": lambda x: x, "real": _bound(ra.of_parts, "real"), "imag": _bound(ra.of_parts, "imag"),
        # Constant results contain no row.
        "zeros_like": lambda x: np.zeros(x.shape, x.dtype), "ones_like": lambda x: np.ones(x.shape, x.dtype),
    },
}  # fmt: skip
PRIMITIVES: dict[str, tuple[str, Function]] = {
    name: (kind, function) for kind, functions in _FUNCTIONS.items() for name, function in functions.items()
}
"""The functions that work on rows, with what they do to them."""


class RowNamespace:
    """The array API standard's functions: from `PRIMITIVES` if an argument has rows, otherwise from NumPy."""

    __name__ = "rows"

    def __getattr__(self, name: str) -> Any:
        public = getattr(array_api_compat.numpy, name, None)
        primitive = PRIMITIVES.get(name)
        if primitive is None and (public is None or not callable(public) or isinstance(public, type)):
            if public is None:
                raise AttributeError(name)
            return public

        def function(*args: Any, **kwargs: Any) -> Any:
            given = [x for a in (*args, *kwargs.values()) for x in (a if isinstance(a, (list, tuple)) else (a,))]
            if not any(type(x) is RowArray for x in given):
                if public is None:
                    raise Unlabelled(f"{name} of public arrays")
                return public(*args, **kwargs)
            if primitive is None:
                raise Unlabelled(f"{name} is no operation on an owner's rows")
            return primitive[1](*args, **kwargs)

        return function


class RowLibrary(ArrayLibrary):
    """The library ``rows``."""

    kind = "rows"

    def __init__(self) -> None:
        super().__init__(RowNamespace())
        self._theirs = {d: d for d in dt.ALL}
        self._ours = {d: d for d in dt.ALL}

    @property
    def name(self) -> str:
        return self.kind

    def is_traced(self, *values: Any) -> bool:
        return any(type(x) is RowArray for x in values)

    def from_numpy(self, a: np.ndarray) -> np.ndarray:
        return a

    def to_numpy(self, x: Any) -> np.ndarray:
        if type(x) is RowArray:
            raise Unlabelled("rows are read")
        return x

    def astype(self, x: Any, dtype: Any) -> Any:
        return to(x, dt.as_dtype(dtype))


def finished(x: Any, shape: tuple[int, ...], dtype: np.dtype, first: RowArray) -> RowArray | None:
    """Return a portable kernel's result, converted to its dtype; None if it has another shape, or no rows.

    If a public result has the first operand's shape, it counts as having constants in all of that operand's rows.
    """
    if isinstance(x, np.ndarray) and x.shape == first.shape:
        x = ra.like(x, first)
    if type(x) is not RowArray or x.shape != tuple(shape):
        return None
    found = ra.canonical(to(x, dtype))
    values = values_of(found)
    return found if values.base is None else RowArray(values.copy(), found.axis, found.order)
