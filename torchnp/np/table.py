"""The table of NumPy's functions on tensors. A row has a function, and the differences from torch that it undoes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from torchnp.lookup.on_tensors import refused

__all__ = ["TABLE", "NumpyRow", "add_row", "in_numpy", "refused", "row"]


@dataclass(frozen=True)
class NumpyRow:
    """A function of NumPy on tensors.

    Attributes
    ----------
    name : str
        The name below ``numpy``: ``"var"``, ``"linalg.norm"``.
    function : callable
        Takes tensors, handles, arrays and numbers, and returns tensors.
    undoes : tuple of str
        The ids of the differences between NumPy and torch that the function undoes.
    """

    name: str
    function: Callable
    undoes: tuple[str, ...] = ()


TABLE: dict[str, NumpyRow] = {}


def add_row(names: str, function: Callable, undoes: str = "") -> Callable:
    """Add a function under one or more of NumPy's names (``"abs absolute"``); ``undoes`` lists ids."""
    for name in names.split():
        if name in TABLE:
            raise ValueError(f"np.{name} has two rows")
        if in_numpy(name) is not None:  # a name may be newer than the installed NumPy
            TABLE[name] = NumpyRow(name, function, tuple(undoes.split()))
    return function


def row(names: str, undoes: str = "") -> Callable[[Callable], Callable]:
    """Decorate a replacement of NumPy's function; ``undoes`` lists the ids of the differences that it undoes."""
    return functools.partial(_named, names, undoes)


def _named(names: str, undoes: str, function: Callable) -> Callable:
    return add_row(names, function, undoes)


def in_numpy(name: str) -> Any:
    """Return NumPy's object with a name such as ``"linalg.norm"``, or None if there is none."""
    found: Any = np
    for part in name.split("."):
        found = getattr(found, part, None)
    return found
