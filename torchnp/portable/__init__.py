"""Exported programs on any array library: a second table, of rows in the array API standard.

Each row is a function of a `ArrayLibrary` and the operator's arguments. A library may override a row in its own words.
"""

from __future__ import annotations

from torchnp.portable.library import ArrayLibrary, ValueNeeded
from torchnp.portable.load import load
from torchnp.portable.rows import portable

__all__ = ["ArrayLibrary", "ValueNeeded", "load", "portable"]
