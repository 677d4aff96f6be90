"""Calls with two arguments changed.

Two faults with different errors show in which order an operator checks its arguments. Two valid changes combine options
that have no effect alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations, product
from random import Random
from typing import Any

from ...case import Array, Case, map_tree, rebuilt
from ..constraints.table import constraint_of

FAULTS = 6  # number of faults of each argument, each with another error message
CROSSED = 120  # number of calls of an overload
COMBINED = 8  # number of calls for each pair of arguments, with changes that torch accepts
# Parts of an error message that depend on values, and not on the check that failed.
WHICH = re.compile(
    r"[-+\d.]+|'\w+'|c10::\w+|\b(Bool|Byte|Char|Short|Int|Long|Half|BFloat16|Float|Double|Complex\w+|UInt\d+)\b"
)


def crossed(once: dict[int | str, list[Case]], random: Random, execute: Callable[[Case], Any]) -> Iterator[Case]:
    """Yield some calls in which two arguments each have a fault.

    Parameters
    ----------
    once : dict of int or str to list of Case
        By position or name of an argument: the valid call with this argument changed.
    random : Random
        Chooses among the calls if there are too many.
    execute : callable
        Runs a call on torch.
    """
    faults = {place: refused(calls, execute) for place, calls in once.items()}
    found = [
        joined(faults[one][a], faults[two][b], two)
        for one, two in combinations(faults, 2)
        for a, b in product(faults[one], faults[two])
        if a != b
    ]
    found = [case for case in found if not constraint_of(case.op).dies(case)]
    yield from random.sample(found, min(CROSSED, len(found)))


def combined(once: dict[int | str, list[Case]], random: Random, execute: Callable[[Case], Any]) -> Iterator[Case]:
    """Yield some calls with two changes that torch accepts separately; `crossed` describes the parameters."""
    taken = {place: [case for case in calls if not execute(case).error] for place, calls in once.items()}
    found = []
    for one, two in combinations(taken, 2):
        pairs = [*product(taken[one], taken[two])]
        found += [joined(a, b, two) for a, b in random.sample(pairs, min(COMBINED, len(pairs)))]
    found = [case for case in found if not constraint_of(case.op).dies(case)]
    yield from random.sample(found, min(CROSSED, len(found)))


def refused(calls: list[Case], execute: Callable[[Case], Any]) -> dict[tuple[str, str], Case]:
    """Return the first call for each different error of torch, up to `FAULTS` calls."""
    found: dict[tuple[str, str], Case] = {}
    for case in calls:
        if len(found) == FAULTS:
            break
        if error := execute(case).error:
            found.setdefault((error[0], WHICH.sub("", error[1])), case)
    return found


def joined(one: Case, two: Case, place: int | str) -> Case:
    """Return call ``one`` with the argument that call ``two`` has at ``place``."""
    given = two.args[place] if isinstance(place, int) else two.kwargs[place]
    value = map_tree(lambda x: replace(x, buffer=x.buffer + len(one.buffers)) if isinstance(x, Array) else x, given)
    args = tuple(value if i == place else v for i, v in enumerate(one.args))
    kwargs = one.kwargs if isinstance(place, int) else {**one.kwargs, place: value}
    return replace(rebuilt(one, args, kwargs, [*one.buffers, *two.buffers]), digest="")
