"""What accounts for a disagreement: differences that the operator lists, each of which amends NumPy's call.

An amendment is what the catalogue says of a difference, done to the natural call: ``ddof=1``, operands in the promoted
dtype, a refusal. Where the amended call gives what torch gave, the differences **foretold** it. Where a difference cannot
be computed, it says which kind of disagreement it makes and of which calls: **by condition**. What has neither explains by
the kind alone that its own example in the catalogue shows.

Amendments know torch's rule from the catalogue's words, never from the kernels that are to be proved.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from torchnp.differences import Difference

from ..backends.backend import Backend, Seen
from ..case import Case
from ..judge.tolerances import rule_of
from .natural_call import NaturalCall, parsed
from .pairs import Disagreement, answer_of, compare

Amendment = Callable[[NaturalCall], Any]  # changes the call; False where it does not concern it


@dataclass(frozen=True)
class Expectation:
    """What cannot be computed: the kinds of disagreement, and of which calls."""

    kinds: tuple[str, ...]
    when: Callable[[NaturalCall], Any]


AMENDMENTS: dict[str, list[tuple[int, Amendment]]] = {}
EXPECTATIONS: dict[str, list[Expectation]] = {}


def amends(*ids: str, stage: int = 1) -> Callable[[Amendment], Amendment]:
    """Register an amendment of one or more differences; those of a lower ``stage`` are made first."""

    def register(amendment: Amendment) -> Amendment:
        for i in ids:
            AMENDMENTS.setdefault(i, []).append((stage, amendment))
        return amendment

    return register


def left_out(id: str, name: str, stage: int = 1, **said: Any) -> None:
    """Register what NumPy's counterpart has to be told where torch's argument ``name`` is left out."""

    @amends(id, stage=stage)
    def tell(call: NaturalCall) -> Any:
        call.kwargs |= {} if name in call.given else said
        return name not in call.given


def expects(id: str, *kinds: str) -> Callable[[Callable[[NaturalCall], Any]], Callable[[NaturalCall], Any]]:
    """Register of which calls a difference that cannot be computed makes which kinds of disagreement."""

    def register(when: Callable[[NaturalCall], Any]) -> Callable[[NaturalCall], Any]:
        EXPECTATIONS.setdefault(id, []).append(Expectation(kinds, when))
        return when

    return register


class RefusedError(Exception):
    """torch's refusal, foretold."""


def refuse(call: NaturalCall) -> None:
    """Have the call refused, as torch does."""

    def refused(*args: Any, **kwargs: Any) -> Any:
        raise RefusedError

    call.f = refused
    if call.template.whole:  # it may call another function than f
        call.template = parsed("f()")


@dataclass(frozen=True)
class Explanation:
    """Which differences account for a disagreement, and how: foretold, by condition, by kind alone; or not."""

    how: str
    ids: tuple[str, ...] = ()


UNEXPLAINED = Explanation("unexplained")


def explain(
    case: Case,
    want: Seen,
    found: Disagreement,
    listed: Iterable[Difference],
    make: Callable[[], NaturalCall],
    oracle: Backend | None = None,
    exact: bool = False,
) -> Explanation:
    """Return what accounts for a disagreement, of the differences that an operator lists."""
    ids = [d.id for d in listed]
    foretold = foretelling(case, want, ids, make, oracle, exact)
    if foretold:
        return Explanation("foretold", foretold)
    call = make()
    steps = [(stage, i, a) for i in ids for stage, a in AMENDMENTS.get(i, ()) if concerns(a, make())]
    left = remaining(case, want, steps, make, oracle, exact) if steps else found
    if left is None:  # torch itself gives what they foretell, of the same values in other memory
        return Explanation("foretold", tuple(dict.fromkeys(i for _, i, _ in steps)))
    for i in ids:
        if any(left.kind in e.kinds and holds(e.when, call) for e in EXPECTATIONS.get(i, ())):
            same = lambda chosen: (remaining(case, want, chosen, make, oracle, exact) or found).kind == left.kind
            made = needed(steps, same) if left.kind != found.kind else []
            return Explanation("by condition", tuple(dict.fromkeys((*(id for _, id, _ in made), i))))
        if any(found.kind in e.kinds and holds(e.when, call) for e in EXPECTATIONS.get(i, ())):
            return Explanation("by condition", (i,))
    alone = [d.id for d in listed if d.id not in AMENDMENTS and d.id not in EXPECTATIONS and kind_of(d) == found.kind]
    return Explanation("by kind alone", tuple(alone[:1])) if alone else UNEXPLAINED


def foretelling(
    case: Case, want: Seen, ids: list[str], make: Callable[[], NaturalCall], oracle: Backend | None, exact: bool = False
) -> tuple[str, ...]:
    """Return the fewest of some differences whose amendments together give torch's answer; none if none do."""
    steps = [(stage, i, a) for i in ids for stage, a in AMENDMENTS.get(i, ())]
    steps = [s for s in sorted(steps, key=lambda s: s[0]) if concerns(s[2], make())]

    settling = oracle if rule_of(case).kind == "ties" else None  # which of equal elements is first is not promised

    def right(chosen: Iterable[tuple[int, str, Amendment]]) -> bool:
        call = make()
        try:
            for _, _, amendment in chosen:
                amendment(call)
        except Exception:
            return False
        return compare(case, want, answer_of(call), settling, exact) is None

    for chosen in selections(steps):
        if right(chosen):
            return tuple(dict.fromkeys(i for _, i, _ in needed(chosen, right)))
    return ()


def needed(steps: Iterable[Any], do: Callable[[list[Any]], bool]) -> list[Any]:
    """Return those of some amendments without which they no longer do."""
    kept = list(steps)
    for step in steps:
        fewer = [s for s in kept if s is not step]
        if fewer and do(fewer):
            kept = fewer
    return kept


def remaining(
    case: Case,
    want: Seen,
    steps: list[tuple[int, str, Amendment]],
    make: Callable[[], NaturalCall],
    oracle: Backend | None,
    exact: bool,
) -> Disagreement | None:
    """Return what is left of a disagreement after all amendments."""
    call = make()
    try:
        for _, _, amendment in sorted(steps, key=lambda s: s[0]):
            amendment(call)
    except Exception:
        return Disagreement("", "an amendment fails")
    return compare(case, want, answer_of(call), oracle, exact)


def selections(steps: list[Any]) -> Iterator[tuple[Any, ...]]:
    """Yield one amendment alone, all of them, all but one, and every two."""
    n = len(steps)
    yield from ((s,) for s in steps)
    if n > 1:
        yield tuple(steps)
    if n > 2:
        yield from combinations(steps, n - 1)
    if n > 3:
        yield from combinations(steps, 2)


def concerns(amendment: Amendment, call: NaturalCall) -> bool:
    """Return whether an amendment changes a call."""
    try:
        return amendment(call) is not False
    except Exception:
        return False


def holds(when: Callable[[NaturalCall], Any], call: NaturalCall) -> bool:
    try:
        return bool(when(call))
    except Exception:
        return False


_VALUE = re.compile(r"^(\w+)\[([\d, ]*)\] ", re.DOTALL)


def kind_of(difference: Difference) -> str:
    """Return the kind of disagreement that a difference's own example shows."""
    raises = [
        re.match(r"^\w*(Error|Exception)\b", v) is not None for v in (difference.torch_value, difference.numpy_value)
    ]
    if raises[0] != raises[1]:
        return "torch refuses" if raises[0] else "numpy refuses"
    t, n = _VALUE.match(difference.torch_value), _VALUE.match(difference.numpy_value)
    if not t or not n:
        return (
            "results" if difference.torch_value.startswith("(") != difference.numpy_value.startswith("(") else "value"
        )
    return "dtype" if t[1] != n[1] else "shape" if t[2] != n[2] else "value"
