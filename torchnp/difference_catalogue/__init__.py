"""The differences between NumPy and torch, each listed once, with the values that torch 2.13 and NumPy 2.4 returned.

`CATALOGUE` maps ids to rows (`torchnp.differences.Difference`), chapter by chapter. Each chapter is a module of this
package.
"""

from torchnp.difference_catalogue import (
    fourier,
    indexing_and_sorting,
    linalg,
    memory,
    nn,
    promotion,
    ranges_and_random,
    reductions,
    refused,
    shapes,
    special_functions,
    values,
)
from torchnp.differences import Difference

CHAPTERS = (
    promotion,
    refused,
    values,
    special_functions,
    reductions,
    shapes,
    indexing_and_sorting,
    linalg,
    fourier,
    nn,
    memory,
    ranges_and_random,
)
CATALOGUE: dict[str, Difference] = {}

for _chapter in CHAPTERS:
    for _row in _chapter.ROWS:
        if _row.id in CATALOGUE:
            raise ValueError(f"difference {_row.id!r} is listed twice, the second time in {_chapter.__name__}")
        CATALOGUE[_row.id] = _row
