"""Assertions about numbers, which exported programs contain: they raise an error or do nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from torchnp.core.checks import check
from torchnp.core.python_scalars import whole
from torchnp.core.registry import kernel
from torchnp.kernels._declare_rows import rows
from torchnp.kernels.copy import clone
from torchnp.kernels.create import empty
from torchnp.kernels.shape import is_nonzero


def _true(x: Any, words: str = "Expected Tensor with single nonzero value, but got zero") -> None:
    check(is_nonzero(x) if isinstance(x, np.ndarray) else x, words or "Assertion is failed")


rows("_assert_async", _true, "Raise an error if the value is zero.")
(_assert_async_msg,) = rows("_assert_async.msg", _true, "Raise an error with a message if the value is zero.")
(_assert_scalar,) = rows("_assert_scalar", _true, "Raise an error with a message if the number is zero.")


# ---------------------------------------------------------------- a number is within a range

_LEAST, _MOST = -(2**63), 2**63 - 1


@kernel("sym_constrain_range")
def sym_constrain_range(size, *, min=None, max=None) -> None:
    """Refuse a number outside a range."""
    size, low, high = whole(size), _LEAST if min is None else min, _MOST if max is None else max
    check(high >= low, f"Max must be greater than or equal to min. Got min={low} max={high}")
    check(low <= size <= high, f"Invalid value range for {size} between [{low}, {high}].")


@kernel("sym_constrain_range_for_size")
def sym_constrain_range_for_size(size, *, min=None, max=None) -> None:
    """`sym_constrain_range` with a default minimum of 0; ``max`` must be above 2."""
    words = "Max value to constrain_range_for_size must be greater than 2. got:"
    check(max is None or max > 2, f"{words} {max}")
    sym_constrain_range(size, min=0 if min is None else min, max=max)


def _with_token(x: Any, *args: Any, body: Callable[..., None], called: Sequence[str]) -> Any:
    *given, token = args
    body(x, **dict(zip(called, given, strict=True)))
    return clone(token)


for _name, _body, _names in (
    ("_functional_assert_async.msg", _assert_async_msg, ["assert_msg"]),
    ("_functional_assert_scalar", _assert_scalar, ["assert_msg"]),
    ("_functional_sym_constrain_range", sym_constrain_range, ["min", "max"]),
    ("_functional_sym_constrain_range_for_size", sym_constrain_range_for_size, ["min", "max"]),
):
    rows(_name, _with_token, f"`{_body.__name__}`, returning a copy of the token.", body=_body, called=_names)


@kernel("_make_dep_token", like=np.empty, differs=["default-dtype", "memory-format-fits"])
def _make_dep_token(*, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    """An uninitialized 0-d tensor that programs pass from one assertion to the next, to fix the order of the calls."""
    options = {"layout": layout, "device": device, "pin_memory": pin_memory, "memory_format": memory_format}
    return empty((), dtype=dtype, **options)


@kernel("_print", like=print)
def _print(s) -> None:
    """Print a line."""
    print(s)
