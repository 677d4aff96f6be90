"""Explains a disagreement between torch and NumPy by the differences that the catalogue lists for the operator.

An amendment applies a difference, as the catalogue describes it, to the equivalent NumPy call: it adds ``ddof=1``,
converts operands to the promoted dtype, or makes the call raise an error. If the amended call gives torch's result, the
differences **foretold** it. For a difference that cannot be computed, the kinds of disagreement that it causes are
registered, with a condition that the call must meet: it explains **by condition**. A difference with neither an
amendment nor a condition explains, **by kind alone**, the kind of disagreement that its example in the catalogue shows.

Amendments implement torch's rule from the catalogue's text. They do not use the kernels, which are to be tested.
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

Amendment = Callable[[NaturalCall], Any]  # changes the call; returns False if it does not apply to the call


@dataclass(frozen=True)
class Expectation:
    """The kinds of disagreement that a difference without an amendment causes, and the condition that a call must meet."""

    kinds: tuple[str, ...]
    when: Callable[[NaturalCall], Any]


AMENDMENTS: dict[str, list[tuple[int, Amendment]]] = {}
EXPECTATIONS: dict[str, list[Expectation]] = {}


def amends(*ids: str, stage: int = 1) -> Callable[[Amendment], Amendment]:
    """Register an amendment for one or more differences; amendments with a lower ``stage`` run first."""

    def register(amendment: Amendment) -> Amendment:
        for i in ids:
            AMENDMENTS.setdefault(i, []).append((stage, amendment))
        return amendment

    return register


def adds_if_omitted(id: str, name: str, stage: int = 1, **said: Any) -> None:
    """Register an amendment that adds keywords to NumPy's call if torch's argument ``name`` is omitted."""

    @amends(id, stage=stage)
    def tell(call: NaturalCall) -> Any:
        call.kwargs |= {} if name in call.given else said
        return name not in call.given


def expects(id: str, *kinds: str) -> Callable[[Callable[[NaturalCall], Any]], Callable[[NaturalCall], Any]]:
    """Register kinds of disagreement that a difference causes; the decorated function selects the calls."""

    def register(when: Callable[[NaturalCall], Any]) -> Callable[[NaturalCall], Any]:
        EXPECTATIONS.setdefault(id, []).append(Expectation(kinds, when))
        return when

    return register


class RefusedError(Exception):
    """Raised by an amended call for which torch raises an error."""


def refuse(call: NaturalCall) -> None:
    """Make the call raise an error, because torch does."""

    def refused(*args: Any, **kwargs: Any) -> Any:
        raise RefusedError

    call.f = refused
    if call.template.whole:  # the template may call another function than f
        call.template = parsed("f()")


@dataclass(frozen=True)
class Explanation:
    """The differences that explain a disagreement, and how: foretold, by condition, by kind alone, or unexplained."""

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
    """Return which of an operator's listed differences explain a disagreement, and how."""
    ids = [d.id for d in listed]
    foretold = foretelling(case, want, ids, make, oracle, exact)
    if foretold:
        return Explanation("foretold", foretold)
    call = make()
    steps = [(stage, i, a) for i in ids for stage, a in AMENDMENTS.get(i, ()) if concerns(a, make())]
    left = remaining(case, want, steps, make, oracle, exact) if steps else found
    if left is None:  # torch itself gives the amended call's result if the same values are in other memory
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
    """Return a minimal set of differences whose amendments together give torch's result, or an empty tuple."""
    steps = [(stage, i, a) for i in ids for stage, a in AMENDMENTS.get(i, ())]
    steps = [s for s in sorted(steps, key=lambda s: s[0]) if concerns(s[2], make())]

    settling = oracle if rule_of(case).kind == "ties" else None  # torch does not promise the order of equal elements

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
    """Return a minimal subset of the steps for which ``do`` is still true."""
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
    """Return the disagreement that remains after all amendments, or None."""
    call = make()
    try:
        for _, _, amendment in sorted(steps, key=lambda s: s[0]):
            amendment(call)
    except Exception:
        return Disagreement("", "an amendment fails")
    return compare(case, want, answer_of(call), oracle, exact)


def selections(steps: list[Any]) -> Iterator[tuple[Any, ...]]:
    """Yield each single amendment, all together, all but one, and every pair."""
    n = len(steps)
    yield from ((s,) for s in steps)
    if n > 1:
        yield tuple(steps)
    if n > 2:
        yield from combinations(steps, n - 1)
    if n > 3:
        yield from combinations(steps, 2)


def concerns(amendment: Amendment, call: NaturalCall) -> bool:
    """Return whether an amendment applies to a call."""
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
    """Return the kind of disagreement that a difference's example in the catalogue shows."""
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
