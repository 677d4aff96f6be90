"""Quick twins: the short way that a kernel takes for its commonest cases, and what each promises.

A twin takes the arguments of its body. By a look at them it knows its case and computes, or gives None, and the body
computes. Its look takes care of all that could fail: nothing here is caught but that the quiet context is in use. It
leaves its arguments alone, returns arrays, and is *exact* (the very result of the body: bits, strides, signs, nan) or
declares how far it may be from it. `opinfo_tests` runs every twin against its body.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from torchnp.dtypes import float32, float64

ndarray = np.ndarray
Function = Callable[..., Any]


@dataclass(frozen=True)
class Quick:
    """A twin and its promise."""

    function: Function
    ulp: float = 0.0  # units in the last place of the scale; 0 is the very result of the body
    scale: Function | None = None  # magnitudes that the rounding is of, from the arguments; else the result's own
    why: str = ""  # the result is as good as the body's
    placed: bool = False  # takes only tensors that `settle.is_plain`, and gives such: nothing moves them


def exact(function: Function, placed: bool = False) -> Quick:
    """A twin that gives the very result of its body."""
    return Quick(function, placed=placed)


def within(ulp: float, function: Function, why: str, scale: Function | None = None) -> Quick:
    """A twin that rounds otherwise than its body.

    Parameters
    ----------
    ulp : float
        How far its results may be from the body's, in units in the last place of the scale.
    function : callable
        The twin.
    why : str
        The reason why both answers are torch's.
    scale : callable, optional
        From the same arguments the magnitudes that the rounding is of, where they are not those of the result.
    """
    return Quick(function, ulp, scale, why)


# ---------------------------------------------------------------- looks that several twins have


def is_float(x: Any) -> bool:
    """Whether an argument is a tensor of float32 or float64."""
    return type(x) is ndarray and (x.dtype is float32 or x.dtype is float64)


def is_axis(dim: Any, ndim: int) -> bool:
    """Whether an argument is an int that names a dimension of a tensor that has dimensions."""
    return type(dim) is int and -ndim <= dim < ndim


def axes(dim: Any, ndim: int) -> tuple[int, ...] | None:
    """A list of different dimensions as NumPy takes it, all of them where none is listed; None for anything else."""
    if type(dim) is not list and type(dim) is not tuple:
        return None
    if len(dim) == 1:
        d = dim[0]
        return (d,) if type(d) is int and -ndim <= d < ndim else None
    if not dim:
        return tuple(range(ndim))
    for d in dim:
        if type(d) is not int or not -ndim <= d < ndim:
            return None
    return tuple(dim) if len({d % ndim for d in dim}) == len(dim) else None


# ---------------------------------------------------------------- which calls a twin can be asked at all


@dataclass(frozen=True)
class CallSignature:
    """How many arguments a function takes by position, and which by name."""

    positional: int
    required: int
    places: dict[str, int]  # by name, the number of arguments by position from which on it is given already
    keywords: frozenset[str]  # required by name
    taken: set[tuple] = field(default_factory=set, compare=False)  # calls that bind, by their number and their names

    def takes(self, given: int, named: dict[str, Any]) -> bool:
        """Whether a call of ``given`` arguments by position and these by name binds."""
        call = (given, *named)
        if call in self.taken:
            return True
        if binds := self._binds(given, named):
            self.taken.add(call)
        return binds

    def _binds(self, given: int, named: dict[str, Any]) -> bool:
        if given > self.positional or any(given > self.places.get(name, -1) for name in named):
            return False
        return given + sum(self.places[name] < self.required for name in named) >= self.required and (
            self.keywords <= named.keys()
        )


def signature_of(function: Function) -> CallSignature:
    """The `Signature` of a twin."""
    kinds = inspect.Parameter
    given = inspect.signature(function).parameters.values()
    positional = [p for p in given if p.kind is kinds.POSITIONAL_OR_KEYWORD]
    named = [p for p in given if p.kind is kinds.KEYWORD_ONLY]
    places = {p.name: i for i, p in enumerate(positional)} | {p.name: len(positional) for p in named}
    required = sum(p.default is kinds.empty for p in positional)
    return CallSignature(
        len(positional), required, places, frozenset(p.name for p in named if p.default is kinds.empty)
    )
