"""Calls whose arrays contain the values of their number arguments, and values close to them.

They show whether a limit itself counts as below or above, and in which dtype a number is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ...case import DTYPES, Case, is_inexact, schemas
from ..constraints.table import constraint_of
from .layout_variants import enlarged, retyped
from .promotion_cases import with_number
from .special_values import named_arrays, takes_any

# Relative changes of a number that disappear when it is rounded to the arrays' dtype.
NUDGES = {"float32": 2.0**-26, "float64": 0.0, "float16": 2.0**-13, "bfloat16": 2.0**-13}
MET = 9  # number of elements along one dimension, enough for each of the values
HALF = 0.5  # value at which most operators with a weight, a share or a limit change their behaviour


def levelled(case: Case) -> Iterator[Case]:
    """Yield the call with array elements equal to each number argument, to one half, and to numbers close to these."""
    if not takes_any(case.op):
        return
    case = enlarged(case, MET) or case
    for place, value in numbers(case):
        for name, nudge in NUDGES.items():
            other = retyped(case, name)
            if other is None:
                return
            for v in dict.fromkeys((value, HALF)):
                for moved in dict.fromkeys((v, v * (1 - nudge), v * (1 + nudge))):
                    made = at(with_number(other, place, moved), v)
                    if made is not None and not constraint_of(made.op).dies(made):
                        yield made


def numbers(case: Case) -> list[tuple[int | str, float]]:
    """Return a call's finite float and Scalar arguments, given or default, by position or name."""
    schema = schemas()[case.op]
    left_out = {a.name: a.default for a in schema.args[len(case.args) :] if a.has_default} | case.kwargs
    types = {a.name: a.type.removesuffix("?") for a in schema.args}
    found: list[tuple[int | str, Any]] = [*enumerate(case.args), *left_out.items()]
    return [
        (place, float(v))
        for place, v in found
        if types[place if isinstance(place, str) else schema.args[place].name] in ("float", "Scalar")
        and type(v) in (int, float)
        and math.isfinite(v)
    ]


def at(case: Case, value: float) -> Case | None:
    """Return the call with float arrays of ``value``, its neighbours, its negative, and quotients by other numbers."""
    free = takes_any(case.op)
    near = [value, -value, *(value / n for _, n in numbers(case) if n not in (0, 1, value)), 1 - value]
    buffers, turn = list(case.buffers), 0
    for name, a in named_arrays(case):
        if name not in free or not is_inexact(DTYPES[a.dtype]) or a.dtype[:6] == "float8" or 0 in a.shape:
            continue
        buffers[a.buffer] = buffers[a.buffer].copy()
        view = a.on(buffers)
        kind = view.dtype.type
        with np.errstate(all="ignore"):
            exact = np.array(near).astype(view.dtype)
            beside = [np.nextafter(exact[0], kind(end)) for end in (-np.inf, np.inf)]
        values = [*exact, *beside]
        for i in range(view.size):
            view.flat[i] = values[(i + turn) % len(values)]
        turn += 1
    return replace(case, buffers=buffers, digest="") if turn else None
