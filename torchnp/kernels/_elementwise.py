"""How elementwise kernels are made: one row each, from a NumPy function and a promotion rule.

torch computes in the result dtype of promotion, half types in float32 with one rounding at the end (opmath). For
each input dtype a *loop* is planned once, a function of the arrays alone; a call looks its loop up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.checks import broadcast_shapes, not_implemented
from torchnp.registry import _IGNORE, Row, enter_quiet, kernel, leave_quiet, raise_mismatch
from torchnp.schema import Schema

ndarray = np.ndarray
Ufunc = Callable[..., Any]

# ---------------------------------------------------------------- promotion rules: result dtype of a common dtype


def same(common: np.dtype) -> np.dtype:
    """The result has the promoted dtype."""
    return common


def int_to_float(common: np.dtype) -> np.dtype:
    """Integers and bool give the default dtype."""
    return common if dt.is_inexact(common) else dt.get_default_dtype()


def always_bool(common: np.dtype) -> np.dtype:
    return dt.bool_


def complex_to_real(common: np.dtype) -> np.dtype:
    """abs, real, imag, angle: complex gives its real partner."""
    return dt.to_real(common)


# ---------------------------------------------------------------- operands


def operand(x: Any, dtype: np.dtype) -> ndarray:
    """A tensor or number in the dtype of the computation; integers wrap as C++ casts do."""
    if isinstance(x, ndarray):
        return dt.cast(x, dtype)
    return number(x, dtype)


def number(x: Any, dtype: np.dtype) -> ndarray:
    """A Python number as a 0-d array of ``dtype``.

    Raises
    ------
    RuntimeError
        An integer beyond 64 bits.
    """
    if type(x) is int and not -(2**63) <= x < 2**64:
        raise RuntimeError("Overflow when unpacking long long")
    wide = np.asarray(x)
    return dt.cast(wide, dtype) if wide.dtype in dt.ALL else dt.cast(np.asarray(complex(x)), dtype)


# ---------------------------------------------------------------- unary


def unary(
    name: str,
    ufunc: Ufunc,
    result: Callable[[np.dtype], np.dtype] = same,
    *,
    like: Any = None,
    differs: Collection[str] = (),
    refuses: dict[np.dtype, str] | None = None,
    compute: Callable[[np.dtype], np.dtype] = dt.opmath,
    **also: Ufunc,
) -> Callable[[Any], ndarray]:
    """Declare an elementwise op of one tensor.

    Parameters
    ----------
    ufunc : callable
        Computes in the dtype that ``compute`` gives for the promoted input.
    result : callable
        Promotion rule; its result dtype is also the dtype of the computation, unless it is bool or the real
        partner of a complex input.
    refuses : dict
        dtype -> torch's name of the CPU kernel that has no code for it, for the error.
    also : callable
        Other functions by category: ``complex=``, ``integer=``, ``bool=``, ``float=``.
    """
    refuses = refuses or {}

    def plan(dtype: np.dtype) -> Ufunc:
        if dtype in refuses:
            raise not_implemented(refuses[dtype], dtype)
        out = result(dtype)
        common = dtype if out == dt.bool_ or dt.is_complex(dtype) else out
        inner = compute(common)
        f = also.get(("bool", "integer", "float", "complex")[dt.category(dtype)], ufunc)
        if inner == dtype and out == dtype:
            return f
        return lambda x: dt.cast(np.asarray(f(dt.cast(x, inner))), out)

    loops: dict[np.dtype, Ufunc] = {}

    def body(self: ndarray) -> ndarray:
        if not isinstance(self, ndarray):
            self = number(self, dt.number_dtype(self))
        loop = loops.get(self.dtype)
        if loop is None:
            loop = plan(self.dtype)
            if dt.is_inexact(self.dtype):  # the loops of integers depend on the default dtype
                loops[self.dtype] = loop
        return loop(self)

    return _declare(name, body, like or ufunc, differs, _fast(1, body, loops))


# ---------------------------------------------------------------- binary


def binary(
    name: str,
    ufunc: Ufunc,
    result: Callable[[np.dtype], np.dtype] = same,
    *,
    like: Any = None,
    differs: Collection[str] = (),
    refuses: dict[np.dtype, str] | None = None,
    compute: Callable[[np.dtype], np.dtype] = dt.opmath,
    **also: Ufunc,
) -> Callable[[Any, Any], ndarray]:
    """Declare an elementwise op of two tensors or numbers; the parameters are those of `unary`."""
    refuses = refuses or {}

    def plan(common: np.dtype) -> tuple[Ufunc, np.dtype, np.dtype]:
        if common in refuses:
            raise not_implemented(refuses[common], common)
        out = result(common)
        inner = compute(common if out == dt.bool_ else out)
        return also.get(("bool", "integer", "float", "complex")[dt.category(common)], ufunc), inner, out

    def body(self: Any, other: Any) -> ndarray:
        f, inner, out = plan(dt.result_type(self, other))
        a, b = operand(self, inner), operand(other, inner)
        try:
            value = f(a, b)
        except ValueError:
            broadcast_shapes(a.shape, b.shape)  # torch's words for sizes that do not fit
            raise
        return value if type(value) is ndarray and value.dtype == out else dt.cast(np.asarray(value), out)

    direct = {dtype: ufunc for dtype in dt.ALL if _is_direct(dtype, result, compute, refuses)}
    for dtype in list(direct):
        direct[dtype] = also.get(("bool", "integer", "float", "complex")[dt.category(dtype)], ufunc)
    return _declare(name, body, like or ufunc, differs, _fast(2, body, direct))


def _is_direct(dtype: np.dtype, result: Callable, compute: Callable, refuses: Collection) -> bool:
    """Two operands of this dtype need no conversion before or after the function."""
    return dtype not in refuses and compute(dtype) == dtype and result in (same, always_bool)


# ---------------------------------------------------------------- the kernel of a row


def _declare(name: str, body: Callable, like: Any, differs: Collection[str], make: Callable) -> Callable:
    body.__name__ = body.__qualname__ = name.partition(".")[0]
    body.__module__ = _caller()
    body.__doc__ = f"Elementwise ``{name.partition('.')[0]}``."
    return kernel(name, like=like, differs=tuple(differs), make=make)(body)


def _caller() -> str:
    """The family module that declares the row."""
    import sys

    frame = sys._getframe()
    while frame.f_globals["__name__"] == __name__:
        frame = frame.f_back
    return frame.f_globals["__name__"]


def _fast(arity: int, body: Callable, direct: dict[np.dtype, Ufunc]) -> Callable[[Row, Schema], Callable[..., Any]]:
    """Kernels that call the function of a dtype straight from the wrapper's frame: one Python call in all."""

    def make(row: Row, schema: Schema) -> Callable[..., Any]:
        def kernel1(*args: Any, **kwargs: Any) -> Any:
            token = enter_quiet(_IGNORE)
            try:
                (x,) = args
                out = direct[x.dtype](x)
                return out if type(out) is ndarray else np.asarray(out)
            except Exception:
                return slow(args, kwargs)
            finally:
                leave_quiet(token)

        def kernel2(*args: Any, **kwargs: Any) -> Any:
            token = enter_quiet(_IGNORE)
            try:
                a, b = args
                if a.dtype is b.dtype:
                    out = direct[a.dtype](a, b)
                    return out if type(out) is ndarray else np.asarray(out)
                return slow(args, kwargs)
            except Exception:
                return slow(args, kwargs)
            finally:
                leave_quiet(token)

        def slow(args: tuple, kwargs: dict[str, Any]) -> Any:
            try:
                return body(*args, **kwargs)
            except Exception:
                raise_mismatch(schema, args, kwargs)
                raise

        return kernel1 if arity == 1 else kernel2

    return make
