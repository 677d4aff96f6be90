"""Workarounds for NumPy ufuncs that write some strided outputs wrongly; ``scripts/check_ufuncs.py`` finds them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

ndarray = np.ndarray

# NumPy 2.4 steps wrongly through some strided outputs: negative if the inputs' elements are 4 or 8 apart, the float
# predicates always.
_WRONG_APART = frozenset({np.negative, np.isfinite, np.isinf, np.isnan, np.signbit})


def trusted(ufunc: np.ufunc) -> Callable[..., Any]:
    """The ufunc, or, if it may write strided outputs wrongly, a wrapper that writes them through contiguous memory."""
    return functools.partial(_by_way, ufunc) if ufunc in _WRONG_APART else ufunc


def _by_way(ufunc: np.ufunc, x: Any, out: ndarray | None = None, **kwargs: Any) -> ndarray:
    if out is None or out.flags.forc:
        return ufunc(x, out, **kwargs)
    out[...] = ufunc(x, **kwargs)
    return out
