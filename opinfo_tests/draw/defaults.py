"""Calls under another default dtype, by rule: those whose results it changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ..case import Case
from .relaid import retyped

DEFAULTS = ("float64", "float16")
OF_DTYPES = ("int64", "bool", "float32")


def by_default(case: Case, execute: Callable[[Case], Any]) -> Iterator[Case]:
    """Yield the call, and the call of integers, under other default dtypes, where torch then gives other dtypes or refuses.

    Parameters
    ----------
    case : Case
        A call that torch takes.
    execute : callable
        What torch makes of a call.
    """
    for one in (case, *filter(None, (retyped(case, name) for name in OF_DTYPES))):
        usual = execute(one)
        for name in DEFAULTS:
            other = replace(one, default_dtype=name, digest="")
            if _kinds(execute(other)) != _kinds(usual):
                yield other


def _kinds(seen: Any) -> Any:
    return seen.error or [getattr(x, "dtype", type(x)) for x in (*seen.results, *seen.after)]
