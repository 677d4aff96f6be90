"""Workarounds for NumPy ufuncs that write some strided outputs wrongly; ``scripts/check_ufuncs.py`` finds them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

ndarray = np.ndarray

# NumPy 2.4 writes wrong values to strided outputs: np.negative if the input's stride is 4 elements of float32 or 8 of
# float64, the other ufuncs for any input stride.
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
