"""torch's dtype promotion, implemented for the amendments from the catalogue's text, not with the kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

KINDS = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}
# float16 would become complex32, which NumPy lacks
PARTNER = {"e": np.complex64, "f": np.complex64, "d": np.complex128}


def category(x: Any) -> int:
    """Return the category of a number or array: 0 for bool, 1 for integer, 2 for float, 3 for complex."""
    if isinstance(x, (np.ndarray, np.generic)):
        return KINDS[x.dtype.kind]
    return 0 if isinstance(x, bool) else 1 if isinstance(x, int) else 2 if isinstance(x, float) else 3


def wider(a: np.dtype, b: np.dtype) -> np.dtype:
    """Return the promoted dtype of two tensors: the one with the higher category, or NumPy's if they are equal."""
    ca, cb = KINDS[a.kind], KINDS[b.kind]
    if ca == cb:
        return np.promote_types(a, b)
    low, high = (a, b) if ca < cb else (b, a)
    if KINDS[high.kind] == 3 and KINDS[low.kind] == 2:
        return np.promote_types(high, low)
    return high


DEFAULT = {0: np.dtype(bool), 1: np.dtype(np.int64), 2: np.dtype(np.float32), 3: np.dtype(np.complex64)}


def promoted(operands: list[Any]) -> np.dtype:
    """Return the dtype of an operation's result. The tiers are tensors with dimensions, 0-d tensors, and numbers.

    A lower tier changes the dtype only if its category is higher.
    """
    found: np.dtype | None = None
    tiers = (
        [x.dtype for x in operands if isinstance(x, np.ndarray) and x.ndim],
        [x.dtype for x in operands if isinstance(x, np.ndarray) and not x.ndim],
        [DEFAULT[category(x)] for x in operands if not isinstance(x, np.ndarray)],
    )
    for tier in tiers:
        for i, dtype in enumerate(tier):
            tier[0] = dtype if i == 0 else wider(tier[0], dtype)
        if not tier:
            continue
        if found is None:
            found = tier[0]
        elif KINDS[tier[0].kind] > KINDS[found.kind]:
            higher = tier[0]
            if KINDS[higher.kind] == 3 and found.kind == "f":
                higher = np.dtype(PARTNER[found.char])
            found = higher
    return found or DEFAULT[2]


def cast(x: Any, dtype: np.dtype) -> np.ndarray:
    """Return an operand converted to a dtype; integers out of range wrap."""
    if isinstance(x, int) and dtype.kind in "iu":
        return (
            np.asarray(x).astype(np.int64).astype(dtype)
            if -(2**63) <= x < 2**63
            else np.asarray(x, object).astype(dtype)
        )
    x = np.asarray(x)
    with np.errstate(all="ignore"):
        return (x.real if x.dtype.kind == "c" and dtype.kind != "c" else x).astype(dtype)
