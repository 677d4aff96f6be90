"""The proof tier: ``python -m opinfo_tests --proof`` explains every disagreement between torch and NumPy."""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import torchnp

from ..generate.samples.extra.unreached import UNREACHED
from .excused_faults import plant as plant_faults
from .prove import HOW, Account, never_seen, packets, provable, prove

DATA = Path(__file__).parents[1] / "data" / "proof.tsv"  # scripts/make_lookup.py reads it for ops.json
HEAD = (
    "# by python -m opinfo_tests --proof --accept: overload, calls, those on which the plain NumPy counterpart is right"
)
# Families whose counterparts cannot be compared with torch, and the reasons; all other families are compared.
WITHOUT = {
    "vendor_aliases": "torch makes _to_dense of sparse tensors alone, which NumPy does not have",
}
DRAWS = 20  # random calls of each overload, as in the quick tier


def show_proof(
    console: Any,
    ops: frozenset[str] | None,
    draws: int = DRAWS,
    messages: int = 4,
    plant: bool = False,
    keep: bool = False,
) -> int:
    """Compare overloads (by default those of `proved`) with their NumPy counterparts; return the exit status.

    Print how many disagreements are explained in each way, and show those that are not explained. ``keep`` writes the
    results to `DATA` if the run has all overloads and the default number of random calls.
    """
    chosen = proved() if ops is None else ops & provable()
    if not chosen:
        console.print("none of the chosen overloads has a NumPy counterpart of its own", markup=False)
        return 2
    with warnings.catch_warnings():  # NumPy warns about calls that differ on purpose
        warnings.simplefilter("ignore")
        if plant:
            return show_planted(chosen, draws)
        accounts = prove(chosen, draws)
    for a in accounts.values():
        for kind, message, call in a.unexplained[:messages]:
            console.print(f"{a.op}: {kind}: {message}", style="red", markup=False)
            console.print(f"    {call}", style="dim", markup=False)
        if len(a.unexplained) > messages:
            console.print(f"    and {len(a.unexplained) - messages} more", style="dim", markup=False)
    never = never_seen(accounts)
    for packet, ids in never.items():
        console.print(f"{packet}: listed and never seen: {', '.join(ids)}", style="red", markup=False)
    for line in summary(accounts):
        print(line)
    if keep and ops is None and draws == DRAWS:
        DATA.write_text("\n".join(lines(accounts)) + "\n", encoding="utf-8")
    # With fewer random calls, all calls of an overload may have dtypes that NumPy lacks.
    silent = draws == DRAWS and "" in unpaired(accounts)
    return 1 if never or silent or any(a.unexplained for a in accounts.values()) else 0


def proved() -> frozenset[str]:
    """Return the overloads of all families except those in `WITHOUT`."""
    return frozenset(op for op in provable() if torchnp.table[op].family not in WITHOUT)


def show_planted(ops: frozenset[str], draws: int) -> int:
    """Insert faults and print the share that is excused, for each kind and in total."""
    found = plant_faults(ops, draws)
    for name, (planted, excused) in sorted(found.items()):
        print(f"{name}: {excused:,} of {planted:,} excused ({excused / planted:.1%})")
    planted, excused = (sum(n[i] for n in found.values()) for i in (0, 1))
    print(f"all: {excused:,} of {planted:,} planted faults excused ({excused / max(planted, 1):.1%})")
    return 0


def summary(accounts: dict[str, Account]) -> list[str]:
    """Return the totals of all overloads as lines of text."""
    pairs = sum(a.pairs for a in accounts.values())
    agree = sum(a.agree for a in accounts.values())
    how: Counter[str] = sum((a.how for a in accounts.values()), Counter())
    none: Counter[str] = sum((a.none for a in accounts.values()), Counter())
    alone: Counter[str] = sum((a.alone for a in accounts.values()), Counter())
    groups = packets(accounts)
    never = sum(map(len, never_seen(accounts).values()))
    listed = sum(len({i for a in group for i in (*a.sightings, *a.apart)}) for group in groups.values()) + never
    apart = sum(
        len({i for a in group for i in a.apart} - {i for a in group for i in a.sightings}) for group in groups.values()
    )
    found = [
        f"{len(accounts)} overloads with a counterpart, {sum(not a.pairs for a in accounts.values())} of them without a pair",
        f"{pairs:,} pairs: {agree:,} agree ({agree / max(pairs, 1):.1%}); " + ", ".join(f"{how[h]:,} {h}" for h in HOW),
        f"no natural call: {none.total():,} of {sum(bool(a.none.total()) for a in accounts.values())} overloads; "
        f"dtypes that NumPy lacks: {sum(a.foreign for a in accounts.values()):,} calls",
        f"{listed} differences at operators: {listed - apart - never} seen, {apart} in calls of examples alone, {never} never",
    ]
    for why, ops in unpaired(accounts).items():
        found.append(f"without a pair: {', '.join(ops)}: {why or 'no reason'}")
    if accounts.keys() >= proved():
        families = {torchnp.table[op].family for op in provable()}
        found.append(
            f"{len(families)} families have counterparts: {len(families - WITHOUT.keys())} proved, {len(WITHOUT)} not"
        )
        found += [f"{family} cannot be: {why}" for family, why in WITHOUT.items()]
    if alone:
        found.append("by kind alone: " + ", ".join(f"{i} ({n})" for i, n in alone.most_common()))
    return found


def unpaired(accounts: dict[str, Account]) -> dict[str, list[str]]:
    """Return, by reason, the overloads of which no call was compared; a missing reason is ``""``."""
    found: dict[str, list[str]] = {}
    for a in accounts.values():
        if not a.pairs:
            found.setdefault(UNREACHED.get(a.op, ""), []).append(a.op)
    return found


def read() -> dict[str, tuple[int, int]]:
    """Return by overload, from ``proof.tsv``, how many calls were compared and on how many NumPy is right."""
    cells = (line.split("\t") for line in DATA.read_text(encoding="utf-8").splitlines()[1:])
    return {op: (int(pairs), int(right)) for op, pairs, right in cells}


def lines(accounts: dict[str, Account]) -> list[str]:
    """Return the lines of ``proof.tsv``."""
    return [HEAD, *(f"{a.op}\t{a.pairs}\t{a.agree}" for a in accounts.values() if a.pairs)]
