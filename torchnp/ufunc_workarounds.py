"""Workarounds for NumPy ufuncs that write some strided outputs wrongly; ``scripts/check_ufuncs.py`` finds them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

ndarray = np.ndarray

# NumPy 2.4 writes wrongly to some strided outputs: np.negative if the input's elements are 4 or 8 apart, the float
# predicates always.
_WRONG_APART = frozenset({np.negative, np.isfinite, np.isinf, np.isnan, np.signbit})


def trusted(ufunc: np.ufunc) -> Callable[..., Any]:
    """Return the ufunc, or a wrapper if it writes some strided outputs wrongly.

    The wrapper computes into contiguous memory and copies the result.
    """
    return functools.partial(_by_way, ufunc) if ufunc in _WRONG_APART else ufunc


def _by_way(ufunc: np.ufunc, x: Any, out: ndarray | None = None, **kwargs: Any) -> ndarray:
    if out is None or out.flags.forc:
        return ufunc(x, out, **kwargs)
    out[...] = ufunc(x, **kwargs)
    return out
