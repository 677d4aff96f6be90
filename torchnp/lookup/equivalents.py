"""Equivalent calls in NumPy and torch: for torch operators, and for NumPy functions that torch does not have.

The calls are listed in ``torchnp/data/equivalents.toml`` and ``numpy_only.toml``. The tests run both calls on the
arrays of `EXAMPLE` and compare the results; for random numbers they compare only shapes.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import NamedTuple

DATA = Path(__file__).parent.parent / "data"


class Equivalent(NamedTuple):
    """A call in NumPy and the equivalent call in torch."""

    name: str
    numpy: str
    torch: str
    say: str = ""


# The arrays on which NumPy's calls run; torch's calls get the same values as tensors.
EXAMPLE = {
    "x": "np.array([[3.0, 1, 2, 7], [0, 5, 4, 6], [8, 11, 10, 9]])",
    "y": "np.array([[1.0, 2, 2, 4], [5, 3, 0, 1], [2, 2, 7, 6]])",
    "a": "np.array([[4.0, 1, 0], [1, 3, 1], [0, 1, 2]])",
    "v": "np.array([1.5, -2, 3, 0.5, 4])",
    "w": "np.array([0.1, 0.2, 0.3, 0.2, 0.2])",
    "s": "np.array([0.0, 1, 2, 4, 7])",
    "gaps": "np.array([1.0, np.nan, 3, np.nan, 2])",
    "n": "np.array([7, -7, 3, -2, 0])",
    "k": "np.array([2, 2, -2, 3, 1])",
    "i": "np.array([2, 0, 2, 1])",
    "mask": "np.array([True, False, True, True, False])",
    "z": "np.array([1 + 2j, 3 - 1j, 0j])",
}


def _read(file: str) -> tuple[Equivalent, ...]:
    tables = tomllib.loads((DATA / file).read_text(encoding="utf-8"))
    return tuple(Equivalent(name, **calls) for name, calls in tables.items())


EQUIVALENTS = _read("equivalents.toml")
NUMPY_ONLY = _read("numpy_only.toml")
