"""The registry of operators on secret-shared tensors: functions of shares and public values, by overload."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from torchnp.engine import Call
from torchnp.mpc.fixed_point import FixedPoint
from torchnp.mpc.shares import SharedSum

OPS: dict[str, Callable[..., Any]] = {}


class PublicArray:
    """A payload that all parties know: an array with the tensor's own dtype."""

    __slots__ = ("array",)

    def __init__(self, array: np.ndarray) -> None:
        self.array = array


def op(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register ``function(p, call, *args, **kwargs)`` for overloads of aten; at least one argument is secret."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            OPS[f"aten::{name}"] = function
        return function

    return add


def bits_of(p: FixedPoint, dtype: torch.dtype) -> int:
    """Return the number of fractional bits of a dtype; 0 for integers and bools."""
    return p.bits if dtype.is_floating_point else 0


def result_bits(p: FixedPoint, call: Call, i: int = 0) -> int:
    """Return the number of fractional bits of a call's result."""
    spec = call.results[i]
    assert spec is not None
    return bits_of(p, spec.dtype)


def public(x: Any) -> Any:
    """Return a public argument as an array or a number."""
    return x.array if isinstance(x, PublicArray) else x


def secret(x: Any) -> bool:
    """Return whether an argument is secret."""
    return isinstance(x, SharedSum)


def shared(p: FixedPoint, x: Any, bits: int) -> SharedSum:
    """Return an argument, even a public one, as shares with the given number of fractional bits."""
    if secret(x):
        return p.at(x, bits)
    return p.constant(p.encode(public(x), bits), bits)


def refuse(what: str, instead: str) -> TypeError:
    """Return the error for a secret value where the protocols need a public one."""
    return TypeError(f"{what} of a secret-shared tensor is secret itself, which has no protocol here: {instead}")
