"""Calls with another default dtype, if it changes the results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ...case import Case, schemas
from ..drawable import takes_any_shape
from .layout_variants import retyped

DEFAULTS = ("float64", "float16")
OF_DTYPES = ("int64", "bool", "float32")


def by_default(case: Case, execute: Callable[[Case], Any]) -> Iterator[Case]:
    """Yield the call, also in `OF_DTYPES`, with other default dtypes for which torch gives other dtypes or errors.

    Parameters
    ----------
    case : Case
        A call that torch accepts.
    execute : callable
        Runs a call on torch.
    """
    others = [retyped(case, name) for name in OF_DTYPES]
    others += [magnified(x) for x in others[:1] if x is not None and takes_any_shape(case.op)]
    for one in (case, *filter(None, others)):
        usual = execute(one)
        for name in DEFAULTS:
            other = replace(one, default_dtype=name, digest="")
            if _kinds(execute(other)) != _kinds(usual):
                yield other


def magnified(case: Case) -> Case | None:
    """Return the call with integers that are too large to be exact in half precision, or None."""
    if any(a.dtype != "int64" for a in case.arrays()) or schemas()[case.op].is_out:
        return None
    return replace(case, buffers=[(b.view(np.int64) * 4099).view(np.uint8) for b in case.buffers], digest="")


def _kinds(seen: Any) -> Any:
    return seen.error or [getattr(x, "dtype", type(x)) for x in (*seen.results, *seen.after)]
