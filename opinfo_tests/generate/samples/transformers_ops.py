"""Samples for the operators of transformers: `python -m opinfo_tests --ops 'transformers::*'`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

with contextlib.suppress(ImportError):  # not needed if only the calls are used
    import transformers.integrations.moe  # noqa: F401  registers its operators

DTYPES = ("float32", "float64", "float16")
# End offsets of five groups: all groups have rows; some are empty; some rows have no group; one has all; no rows at
# all.
ENDS = ((1, 3, 4, 8, 9), (0, 3, 3, 9, 9), (2, 2, 4, 4, 6), (9, 9, 9, 9, 9), (0, 0, 0, 0, 0))
WHY = "it writes the products of some rows into memory for others where the ends of groups do not grow"
UNDRAWN = {f"transformers::grouped_mm_fallback{form}": WHY for form in ("", "_backward")}


def samples(op: str, dtype: str) -> Iterator[tuple[tuple, dict[str, Any]]]:
    """Yield calls of an operator in a dtype, always the same ones."""
    if dtype not in DTYPES:
        return
    for turn, ends in enumerate(ENDS):
        rng = np.random.default_rng([turn, DTYPES.index(dtype)])
        rows = 0 if not any(ends) else 9
        made = [rng.standard_normal(shape).astype(dtype) for shape in ((rows, 4), (5, 4, 3), (rows, 3))]
        offs = np.array(ends, (np.int32, np.int64)[turn % 2])
        yield ((made[0], made[1], offs, *made[2:][: op.endswith("_backward")]), {})
