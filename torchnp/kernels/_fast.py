"""Fast paths of elementwise ops: the kernel in the table directly calls the function for the operands' dtype.

Most calls need no conversion, so that one Python call is enough. All other calls (other dtypes, keywords, shapes that
do not broadcast) go to the row's full kernel, which converts the operands or raises torch's error.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.python_scalars import number
from torchnp.core.registry import NOT_GIVEN, Settle, is_busy, raise_mismatch, run_quiet
from torchnp.core.schema import Schema
from torchnp.parallel_elementwise import by_parts
from torchnp.threads import LARGE

ndarray = np.ndarray
Function = Callable[..., Any]

_TAKES_NUMBER = {float: "f", int: "fiu"}  # dtype kinds that accept a Python number of this type
_HALVES = frozenset(dt.HALVES)  # the functions for these dtypes convert to float32 and back
_MOST = 1 << 15  # numbers of smaller magnitude are within the range of every half type
_asarray = np.asarray
# If an operand owns its memory, the result has the usual strides even in dimensions of size 1.
_ROWS, _OWN_ROWS = 1, 1 | 4  # bits of ndarray.flags.num: C_CONTIGUOUS, and OWNDATA


def _common(a: ndarray, b: ndarray, mixes_bool: bool) -> np.dtype | None:
    """Return the common dtype of tensors of different built-in dtypes; None to leave the call to the full kernel."""
    pair = a.dtype, b.dtype
    if not mixes_bool and dt.bool_ in pair:
        return None
    return (_PROMOTED if (a.ndim > 0) is (b.ndim > 0) else _DEMOTED if a.ndim else _PROMOTED_BACK).get(pair)


_PLAIN = [d for d in dt.ALL if d.isbuiltin == 1 and d != dt.float16]
_PAIRS = [(a, b) for a in _PLAIN for b in _PLAIN]
_PROMOTED = {pair: dt.PROMOTE[pair] for pair in _PAIRS if pair in dt.PROMOTE}
# The common dtypes of pairs with one 0-d tensor, which is the second of the pair in _DEMOTED, and the first in
# _PROMOTED_BACK. They do not depend on the default dtype, so `result_type` can compute them here.
_DEMOTED, _PROMOTED_BACK = {}, {}
for _a, _b in _PAIRS:
    with contextlib.suppress(RuntimeError):
        _DEMOTED[_a, _b] = _PROMOTED_BACK[_b, _a] = dt.result_type(np.empty(1, _a), np.empty((), _b))
del _a, _b


def fast(
    direct: dict[np.dtype, Function], mixes_bool: bool = True, exact_scalar: bool = False
) -> Callable[[Function, Schema, Settle], Function]:
    """Return a function that makes a row's kernel; ``direct`` maps dtypes that need no conversion to their functions.

    Unless ``mixes_bool``, calls that mix bool with another dtype are left to the row's full kernel. A number next to a
    half-type tensor is rounded to the tensor's dtype, or to float32 if ``exact_scalar``.
    """
    beside = {
        d: (dt.float32, _by_float32(direct, d)) if exact_scalar else (d, direct[d]) for d in dt.HALVES if d in direct
    }

    def make(slow: Function, schema: Schema, settle: Settle) -> Function:
        made: Any
        if len(schema.args) == 1:
            made = _of_tensor(direct, slow, schema, settle)
        else:
            made = _of_tensors(direct, beside, slow, mixes_bool, settle)
        made.direct = direct  # the derived in-place rows use it
        return made

    return make


def _by_float32(direct: dict[np.dtype, Function], dtype: np.dtype) -> Function:
    """Return a function of a half-type tensor and a float32 number."""
    function = direct[dt.float32]

    def computed(x: ndarray, n: ndarray) -> Any:
        value = function(x.astype(dt.float32), n)
        return value if value.dtype is dt.bool_ else value.astype(dtype)

    return computed


def _of_tensor(direct: dict[np.dtype, Function], slow: Function, schema: Schema, settle: Settle) -> Function:
    function_of = direct.get

    # Separate parameters are cheaper than unpacking a tuple; their names must not clash with the schema's.
    def of_tensor(_0: Any = NOT_GIVEN, *rest: Any, **named: Any) -> Any:
        if type(_0) is ndarray and not rest and not named:
            function = function_of(_0.dtype)
            if function is not None:
                try:
                    small = _0.size < LARGE or type(function) is not np.ufunc
                    out = run_quiet(function, _0) if small else run_quiet(by_parts, function, _0)
                    if type(out) is not ndarray:
                        return _asarray(out)
                    plain = _0.flags.c_contiguous and out.size and (_0.base is None or 1 not in _0.shape)
                    return out if plain else settle(out, (_0,), named)
                except RuntimeError as error:
                    if not is_busy(error):
                        raise
        elif isinstance(_0, (int, float, complex)):
            raise_mismatch(schema, (_0, *rest), named)  # torch converts a number to a tensor only next to a tensor
        return slow(*rest, **named) if _0 is NOT_GIVEN else slow(_0, *rest, **named)

    return of_tensor


def _of_tensors(
    direct: dict[np.dtype, Function], beside: dict[np.dtype, tuple[np.dtype, Function]], slow: Function, mixes_bool: bool,
    settle: Settle,
) -> Function:  # fmt: skip
    function_of = direct.get

    def of_tensors(_0: Any = NOT_GIVEN, _1: Any = NOT_GIVEN, *rest: Any, **named: Any) -> Any:
        if type(_0) is ndarray and not rest and not named:
            dtype, kind, function = _0.dtype, type(_1), None
            if kind is ndarray:
                a, b = _0, _1
                if dtype is not b.dtype:
                    dtype = _common(a, b, mixes_bool)
                    if dtype is None:
                        return slow(a, b)
                    a, b = a.astype(dtype, copy=False), b.astype(dtype, copy=False)
            elif dtype.kind in _TAKES_NUMBER.get(kind, "") and dtype is not dt.float16:
                # A number of no higher category takes the tensor's dtype. Half types are left to the next branch,
                # because some rows do not round the number to them.
                a, b = _0, number(_1, dtype)
            elif dtype in beside and (kind is float or kind is int) and -_MOST < _1 < _MOST:
                dtype, function = beside[dtype]
                a, b = _0, number(_1, dtype)
            else:
                dtype = None
            function = function or function_of(dtype)
            if function is not None:
                try:
                    small = (a.size < LARGE and b.size < LARGE) or not (
                        type(function) is np.ufunc or a.dtype in _HALVES
                    )
                    out = run_quiet(function, a, b) if small else run_quiet(by_parts, function, a, b)
                    if type(out) is not ndarray:
                        return _asarray(out)
                    flags = a.flags.num & b.flags.num
                    if out.size and (flags & _OWN_ROWS == _OWN_ROWS or (flags & _ROWS and 1 not in out.shape)):
                        return out
                    return settle(out, (_0, _1), named)
                except ValueError:
                    pass  # NumPy refused the shapes or a negative integer power: the full kernel raises torch's error
                except RuntimeError as error:
                    if not is_busy(error):
                        raise
        return (
            slow(_0, _1, *rest, **named) if _1 is not NOT_GIVEN else slow(*([] if _0 is NOT_GIVEN else [_0]), **named)
        )

    return of_tensors
