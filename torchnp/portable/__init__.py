"""Exported programs on any array library: a second table, whose rows are written with the array API standard.

Each row is a function of an `ArrayLibrary` and the operator's arguments. A library may override a row with its own.
"""

from __future__ import annotations

from torchnp.portable.library import ArrayLibrary, ValueNeeded
from torchnp.portable.load import load
from torchnp.portable.rows import portable

__all__ = ["ArrayLibrary", "ValueNeeded", "load", "portable"]
