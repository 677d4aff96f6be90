"""`semantics`: inside it, operators on tensors have NumPy's meaning, and NumPy's own functions accept handles."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from torchnp.np import elementwise as el
from torchnp.np.dtypes import as_tensor, is_weak, kind, loop_dtypes, operand_key
from torchnp.np.indexing import assign, index_of
from torchnp.np.products import matmul
from torchnp.np.table import TABLE


class _State(threading.local):
    def __init__(self) -> None:
        self.depth = 0
        self.refused: TypeError | None = None  # the error of the in-place operator that was called last


_STATE = _State()


def is_active() -> bool:
    """Return whether this thread is inside `semantics`."""
    return _STATE.depth > 0


@contextlib.contextmanager
def semantics() -> Iterator[None]:
    """Give operators on tensors NumPy's meaning, and let NumPy's functions run on handles, in this thread.

    ``a + b`` promotes as arrays do, ``a ** -1`` of integers is an error, ``a[::-1]`` and ``a[[0, 1]] = x`` index as
    arrays do. ``np.var(handle)`` and ``np.add(handle, 1)`` call the functions of `torchnp.np`; elsewhere these are
    refused. Methods such as ``a.var()`` and functions of torch stay torch's.
    """
    with NumpyOperators():
        _STATE.depth += 1
        try:
            yield
        finally:
            _STATE.depth -= 1


class NumpyOperators(TorchFunctionMode):
    """The mode with which `semantics` changes operators."""

    def __torch_function__(self, function: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        ours = None if kwargs else _OPERATORS.get(function)
        return function(*args, **(kwargs or {})) if ours is None else ours(*args)


def _reflected(function: Callable) -> Callable:
    return lambda x, other: function(other, x)


def _inplace(function: Callable) -> Callable:
    def write(x: Tensor, other: Any) -> Tensor:
        try:
            return function(x, other, out=x)
        except TypeError as error:
            _STATE.refused = error
            raise

    return write


def _raising(name: str) -> Callable:
    """A method such as ``__iadd__`` that raises the error of `semantics`.

    torch's own method returns NotImplemented for any TypeError, and Python then computes ``a = a + b`` in its place.
    """
    method = getattr(torch.Tensor, name)

    @functools.wraps(method)
    def inplace(self: Tensor, other: Any) -> Any:
        if not _STATE.depth:
            return method(self, other)
        _STATE.refused = None
        result = method(self, other)
        error, _STATE.refused = _STATE.refused, None
        if result is NotImplemented and error is not None:
            raise error
        return result

    return inplace


def power(x: Any, exponent: Any) -> Tensor:
    """Return NumPy's ``x ** exponent``, which calls special functions for the Python numbers 2, 0.5, -1 and 1."""
    if isinstance(x, Tensor) and type(exponent) in (int, float):
        inexact = kind(x.dtype) in "fc"
        if exponent == 2 and (inexact or type(exponent) is int):
            return el.UFUNCS["square"](x)
        names = {0.5: "sqrt", -1: "reciprocal", 1: "positive"}
        if inexact and exponent in names:
            return el.UFUNCS[names[exponent]](x)
    return el.power(x, exponent)


def _matmul_inplace(self: Tensor, other: Any) -> Any:
    """Run ``a @= b``, which torch lacks: without `semantics`, Python computes ``a = a @ b``."""
    if not _STATE.depth:
        return NotImplemented
    keys = operand_key(self), operand_key(other if is_weak(other) else as_tensor(other))
    loop_dtypes("matmul", keys, (self.dtype,), None, "same_kind")  # NumPy's first check
    other = as_tensor(other)
    if self.dim() and other.dim() == 0:
        matmul(self, other)  # raises NumPy's error
    if self.dim() < 1 or other.dim() < 2:
        raise ValueError(
            "inplace matrix multiplication requires the first operand to have at least one and the second at least two "
            "dimensions."
        )
    return matmul(self, other, out=self)


def _operators() -> dict[Any, Callable]:
    named = {
        "add": el.add, "sub": el.subtract, "mul": el.multiply, "div": el.divide, "floor_divide": el.floor_divide,
        "remainder": el.remainder, "bitwise_and": el.UFUNCS["bitwise_and"], "bitwise_or": el.UFUNCS["bitwise_or"],
        "bitwise_xor": el.UFUNCS["bitwise_xor"], "eq": el.equal, "ne": el.not_equal, "lt": el.less, "le": el.less_equal,
        "gt": el.greater, "ge": el.greater_equal, "neg": el.negative, "abs": el.absolute, "bitwise_not": el.invert,
        "matmul": matmul,
    }  # fmt: skip
    dunders = {
        "add": el.add, "sub": el.subtract, "mul": el.multiply, "truediv": el.divide, "floordiv": el.floor_divide,
        "mod": el.remainder, "and": el.UFUNCS["bitwise_and"], "or": el.UFUNCS["bitwise_or"], "xor": el.UFUNCS["bitwise_xor"],
        "lshift": el.UFUNCS["left_shift"], "rshift": el.UFUNCS["right_shift"], "pow": power, "matmul": matmul,
    }  # fmt: skip
    found: dict[Any, Callable] = {}
    for name, ours in named.items():
        found[getattr(torch.Tensor, name)] = ours
        for form in (f"{name}_",):
            if hasattr(torch.Tensor, form) and name not in ("matmul", "neg", "abs", "bitwise_not"):
                found[getattr(torch.Tensor, form)] = _inplace(ours)
    for name, ours in dunders.items():
        found[getattr(torch.Tensor, f"__{name}__")] = ours
        found[getattr(torch.Tensor, f"__r{name}__")] = _reflected(ours)
        if hasattr(torch.Tensor, f"__i{name}__"):
            found[getattr(torch.Tensor, f"__i{name}__")] = _inplace(ours if name != "pow" else el.power)
    for name, ours in (("eq", el.equal), ("ne", el.not_equal), ("lt", el.less), ("le", el.less_equal), ("gt", el.greater),
                       ("ge", el.greater_equal), ("neg", el.negative), ("abs", el.absolute), ("invert", el.invert)):  # fmt: skip
        found[getattr(torch.Tensor, f"__{name}__")] = ours
    found[torch.Tensor.pow], found[torch.Tensor.__rdiv__] = power, _reflected(el.divide)
    found[torch.Tensor.__getitem__] = lambda x, index: index_of(as_tensor(x), index)
    found[torch.Tensor.__setitem__] = assign
    return found


_OPERATORS = _operators()
for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift"):
    _method = f"__i{_name}__"
    _ours = _OPERATORS[getattr(torch.Tensor, _method)]
    setattr(torch.Tensor, _method, _raising(_method))
    _OPERATORS[getattr(torch.Tensor, _method)] = _ours  # modes receive the new method from now on
torch.Tensor.__imatmul__ = _matmul_inplace  # type: ignore[attr-defined]


def call_numpy(function: Any, args: tuple, kwargs: dict[str, Any], method: str = "__call__") -> Any:
    """Call `torchnp.np`'s function for a NumPy function; return NotImplemented if it has none."""
    from torchnp.np.rebind_numpy_functions import public_names

    name = function.__name__ if isinstance(function, np.ufunc) else public_names().get(id(function), "")
    if name not in TABLE:
        return NotImplemented
    return getattr(TABLE[name].function, method)(*args, **kwargs)
