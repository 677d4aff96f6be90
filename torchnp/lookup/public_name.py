"""The public names of NumPy's and SciPy's functions."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

_ERF = "torchnp.kernels.numerics.erf"  # the module that wraps SciPy's functions, which it looks up at the call


def public_name(like: Any) -> str:
    """Return a counterpart's public name: ``numpy.ndarray.item``, ``numpy.maximum.accumulate``; "" if it has none."""
    if like is None or isinstance(like, str):
        return like or ""
    name = getattr(like, "__name__", "")
    owner = getattr(like, "__objclass__", None) or getattr(like, "__self__", None)
    module = getattr(like, "__module__", None) or ""
    if isinstance(owner, np.ufunc):
        return f"numpy.{owner.__name__}.{name}"
    if owner is np.ndarray:
        return f"numpy.ndarray.{name}"
    if module.startswith("torchnp."):
        return f"scipy.special.{name}" if module == _ERF else ""
    if module in ("builtins", "functools") or not name.isidentifier():
        return ""
    return f"{re.sub(r'^numpy[.]_core.*|^$', 'numpy', module).removesuffix('.mtrand')}.{name}"
