"""Fast paths for a kernel's commonest cases, each with a declared accuracy.

A fast path takes the same arguments as the full kernel. It checks whether it supports this call. If so, it computes the
result; else it returns None and the full kernel runs. The check must rule out every failure, because the caller catches
only the error that `run_quiet` raises while its context is in use. A fast path does not modify its arguments and
returns arrays. It either is *exact* (it returns the full kernel's bits, strides, signs and nan) or declares its largest
deviation. `opinfo_tests` compares every fast path with its full kernel.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from torchnp.core.schema import RESERVED, Schema
from torchnp.dtypes import float32, float64
from torchnp.thresholds import Threshold

ndarray = np.ndarray
Function = Callable[..., Any]


@dataclass(frozen=True)
class Quick:
    """A fast path and its declared accuracy."""

    function: Function
    ulp: float = 0.0  # largest deviation, in units in the last place of ``scale``; 0: exact
    # Computes the magnitudes that ``ulp`` refers to from the arguments; by default they are those of the result.
    scale: Function | None = None
    why: str = ""  # why the fast path's result is as good as the full kernel's
    placed: bool = False  # takes and returns only tensors for which `apply.is_plain` holds, so no layout step is needed


def exact(function: Function, placed: bool = False) -> Quick:
    """Declare a fast path whose results equal the full kernel's bit for bit."""
    return Quick(function, placed=placed)


def within(ulp: float, function: Function, why: str, scale: Function | None = None) -> Quick:
    """Declare a fast path that rounds differently from the full kernel.

    Parameters
    ----------
    ulp : float
        Largest deviation from the full kernel's results, in units in the last place of ``scale``.
    function : callable
        The fast path.
    why : str
        Why both results are acceptable as torch's.
    scale : callable, optional
        Computes the magnitudes that ``ulp`` refers to from the same arguments; by default they are those of the result.
    """
    return Quick(function, ulp, scale, why)


# ---------------------------------------------------------------- checks that several fast paths share


FEW_INDICES: Threshold = 64  # fast paths check up to this many indices as Python numbers


def is_float(x: Any) -> bool:
    """Return whether an argument is a tensor of float32 or float64."""
    return type(x) is ndarray and (x.dtype is float32 or x.dtype is float64)


def is_axis(dim: Any, ndim: int) -> bool:
    """Return whether an argument is an int and a valid dimension of a tensor that is not 0-d."""
    return type(dim) is int and -ndim <= dim < ndim


def axes(dim: Any, ndim: int) -> tuple[int, ...] | None:
    """Return a list of distinct dimensions as NumPy's ``axis``; None for anything else.

    An empty list means all dimensions.
    """
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


# ---------------------------------------------------------------- calls that bind to a fast path


@dataclass(frozen=True)
class CallSignature:
    """A function's positional and keyword arguments."""

    positional: int
    required: int
    places: dict[str, int]  # each name's position; a call with more positional arguments passes it by position
    keywords: frozenset[str]  # required keyword-only arguments
    # Cache of the calls that match: the number of positional arguments, and the keywords.
    taken: set[tuple] = field(default_factory=set, compare=False)

    def takes(self, given: int, named: dict[str, Any]) -> bool:
        """Return whether a call with ``given`` positional arguments and these keywords matches the signature."""
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


def signature_of(function: Function, schema: Schema) -> CallSignature:
    """Return the `CallSignature` of a fast path for an overload.

    An overload may lack some of the fast path's arguments: ``max`` has no ``dim``.
    """
    kinds = inspect.Parameter
    names = {RESERVED.get(a.name, a.name) for a in schema.args}
    given = [p for p in inspect.signature(function).parameters.values() if p.name in names]
    positional = [p for p in given if p.kind is kinds.POSITIONAL_OR_KEYWORD]
    named = [p for p in given if p.kind is kinds.KEYWORD_ONLY]
    places = {p.name: i for i, p in enumerate(positional)} | {p.name: len(positional) for p in named}
    required = sum(p.default is kinds.empty for p in positional)
    return CallSignature(
        len(positional), required, places, frozenset(p.name for p in named if p.default is kinds.empty)
    )
