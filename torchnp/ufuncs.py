"""NumPy's ufuncs, kept from memory that they write wrongly; ``scripts/check_ufuncs.py`` finds what has to be here."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

ndarray = np.ndarray

# NumPy 2.4 steps wrongly through some outputs whose elements are apart: negative where the inputs' are 4 or 8 apart,
# the predicates of floats always.
_WRONG_APART = frozenset({np.negative, np.isfinite, np.isinf, np.isnan, np.signbit})


def trusted(ufunc: np.ufunc) -> Callable[..., Any]:
    """The ufunc, by way of contiguous memory where it cannot be trusted to write an output of any strides."""
    return functools.partial(_by_way, ufunc) if ufunc in _WRONG_APART else ufunc


def _by_way(ufunc: np.ufunc, x: Any, out: ndarray | None = None, **kwargs: Any) -> ndarray:
    if out is None or out.flags.forc:
        return ufunc(x, out, **kwargs)
    out[...] = ufunc(x, **kwargs)
    return out
