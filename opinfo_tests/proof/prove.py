"""Compares torch and NumPy on every call of the chosen operators; explains each disagreement by listed differences."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import numpy as np

import torchnp
from torchnp.differences import Difference
from torchnp.lookup.public_name import public_name

from ..backends.backend import Backend, Seen
from ..backends.torch_backend import TorchDevice
from ..case import DTYPES, Case
from ..generate.samples.opinfo import dtypes_of
from ..generate.samples.opinfo_reach import plan
from ..generate.strategies import plan as plan_draws
from ..generate.task import DRAWN, Task
from ..run import oracle_cache
from . import all_amendments as _amendments  # noqa: F401  registers the amendments
from .explain_disagreements import Explanation, explain
from .natural_call import FOREIGN, NaturalCall, NoNaturalCallError, build, source_of
from .numpy_templates import SPELLINGS
from .pairs import answer_of, compare, is_contract
from .targeted_calls import example_calls, packet_of

NAMES = {dtype: name for name, dtype in DTYPES.items()}
HOW = ("foretold", "by condition", "by kind alone", "unexplained")


@dataclass
class Account:
    """The results for the calls of one overload."""

    op: str
    pairs: int = 0
    agree: int = 0
    foreign: int = 0  # calls with dtypes that NumPy lacks
    none: Counter[str] = field(default_factory=Counter)  # calls that NumPy cannot express, by reason
    how: Counter[str] = field(default_factory=Counter)
    sightings: Counter[str] = field(default_factory=Counter)  # differences that random and recorded calls show
    # those of the differences above that explain only the kind of disagreement
    alone: Counter[str] = field(default_factory=Counter)
    apart: Counter[str] = field(default_factory=Counter)  # differences that example calls show
    unexplained: list[tuple[str, str, str]] = field(default_factory=list)  # kind, message, call

    @property
    def right(self) -> float:
        """The share of calls for which the unamended NumPy call gives torch's result."""
        return self.agree / self.pairs if self.pairs else 0.0


def counterpart(op: str) -> tuple[Callable, str] | None:
    """Return an overload's own NumPy counterpart and its public name, or None."""
    row = torchnp.table.get(op)
    name = public_name(row.like) if row is not None and row.derived_from is None else ""
    return (row.like, name) if row is not None and name else None


def provable() -> frozenset[str]:
    """Return the overloads with a counterpart of their own; derived forms are left out, because they share it."""
    return frozenset(op for op in torchnp.table if counterpart(op))


@cache
def oracle() -> Backend:
    return TorchDevice("cpu")


def recorded(ops: frozenset[str], draws: int) -> Iterator[tuple[Case, Seen]]:
    """Yield each distinct call of the quick tier of some overloads, with torch's result."""
    store = oracle_cache.opened()
    tasks: list[Task] = plan(ops, dtypes_of("all"), True)
    if draws:
        tasks += [t for t in plan_draws(ops, draws, by_rule=False) if t.source.startswith(DRAWN)]
    seen: set[str] = set()
    for task in tasks:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            held = store.held(task, ops.__contains__, oracle())
        for case, want in held:
            if case.digest not in seen:
                seen.add(case.digest)
                yield case, want


@dataclass(frozen=True)
class Paired:
    """One call in torch and in NumPy."""

    case: Case
    want: Seen
    make: Callable[[], NaturalCall]
    found: Any  # a Disagreement or None


def pair(
    case: Case, want: Seen, f: Callable, name: str, own: bool = False, spelling: str = "", exact: bool = False
) -> Paired:
    """Run a call in NumPy and compare the results with torch's; raise `NoNaturalCallError` if NumPy cannot."""
    if not own and (lacking := FOREIGN & {NAMES.get(r.dtype, "") for r in want.results if isinstance(r, np.ndarray)}):
        raise NoNaturalCallError(f"NumPy has no {min(lacking)}", foreign=True)
    make = partial(build, case, f, name, own, spelling)
    return Paired(case, want, make, compare(case, want, answer_of(make()), None if own else oracle(), exact))


def take(
    account: Account,
    case: Case,
    want: Seen,
    listed: Iterable[Difference],
    f: Callable,
    name: str,
    own: bool = False,
    spelling: str = "",
    exact: bool = False,
) -> Explanation | None:
    """Add one call to an overload's `Account`.

    Differences that calls of examples (``own``) show are counted separately.
    """
    if not (own or is_contract(want)):
        return None
    try:
        p = pair(case, want, f, name, own, spelling, exact)
    except NoNaturalCallError as e:
        if not own:
            account.none[str(e)] += not e.foreign
            account.foreign += e.foreign
        return None
    explained = explain(case, want, p.found, listed, p.make, oracle(), exact) if p.found else None
    if own:
        account.apart.update(explained.ids if explained else ())
        return explained
    account.pairs += 1
    account.agree += explained is None
    if explained:
        account.how[explained.how] += 1
        account.sightings.update(explained.ids)
        if explained.how == "by kind alone":
            account.alone.update(explained.ids)
        if not explained.ids:
            account.unexplained.append((p.found.kind, p.found.message, case.describe()))
    return explained


def listed_of(op: str) -> tuple[Difference, ...]:
    """Return the differences that the catalogue lists for an overload's operator."""
    return torchnp.table[op].differences


def prove(ops: frozenset[str], draws: int) -> dict[str, Account]:
    """Return the `Account` of each overload.

    For listed differences that no call shows, calls from examples are tried.
    """
    accounts = {op: Account(op) for op in sorted(ops)}
    sides = {op: counterpart(op) for op in ops}
    for case, want in recorded(ops, draws):
        side = sides[case.op]
        if side:
            take(accounts[case.op], case, want, listed_of(case.op), *side)
    for packet, group in packets(accounts).items():
        for id in unseen(group):
            feed(packet, group, id)
    return accounts


def packets(accounts: dict[str, Account]) -> dict[str, list[Account]]:
    """Group overloads by operator: the overloads of an operator (packet) have the same list of differences."""
    found: dict[str, list[Account]] = {}
    for op, account in accounts.items():
        found.setdefault(packet_of(op), []).append(account)
    return found


def never_seen(accounts: dict[str, Account]) -> dict[str, list[str]]:
    """Return by operator the listed differences that no call shows, for operators whose overloads were all compared."""
    every: Counter[str] = Counter(map(packet_of, provable()))
    groups = packets(accounts).items()
    return {packet: ids for packet, group in groups if len(group) == every[packet] and (ids := unseen(group))}


def unseen(group: list[Account]) -> list[str]:
    """Return the differences that an operator lists but none of its calls shows."""
    if not any(a.pairs for a in group):  # torch has the operator only on other devices, or no sample calls it
        return []
    listed = dict.fromkeys(d.id for a in group for d in listed_of(a.op))
    return [i for i in listed if not any(a.sightings[i] or a.apart[i] for a in group)]


def feed(packet: str, group: list[Account], id: str) -> None:
    """Run calls from examples until one shows a difference."""
    by_op = {a.op: a for a in group if any(d.id == id for d in listed_of(a.op))}
    for exact in (False, True):
        for case in example_calls(list(by_op), id):
            op = source_of(case.op)
            side = counterpart(op)
            if side and op in by_op:
                only = [d for d in listed_of(op) if d.id == id]
                for listed in (only, listed_of(op)):
                    want, spelling = oracle().execute(case), SPELLINGS.get(id, "")
                    take(by_op[op], case, want, listed, *side, own=True, spelling=spelling, exact=exact)
                    if by_op[op].apart[id]:
                        return
