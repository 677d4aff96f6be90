"""How many cases there are: the recorded denominator, and from it the quick tier's share of each overload and dtype."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from math import sqrt
from pathlib import Path

from .report import Tally

DATA = Path(__file__).parents[1] / "data" / "counts.tsv"
QUICK_CALLS = 5  # of each overload and dtype, about: which ones is chosen by hash
LEAST = 0.95  # of the recorded cases must be collected, or the run is invalid

Pairs = dict[tuple[str, str], int]


@cache
def recorded() -> Pairs:
    """Return how many cases each overload has in each dtype, as the control run recorded them."""
    found: Pairs = {}
    if DATA.exists():
        for line in DATA.read_text(encoding="utf-8").splitlines():
            op, *dtypes = line.split("\t")
            found |= {(op, name): int(n) for name, n in (d.split("=") for d in dtypes)}
    return found


def write(tally: Tally) -> None:
    """Record the denominator."""
    lines: dict[str, list[str]] = {}
    for (op, dtype, _), n in sorted(tally.counts.items()):
        lines.setdefault(op, []).append(f"{dtype}={n}")
    DATA.write_text("".join("\t".join([op, *found]) + "\n" for op, found in lines.items()), encoding="utf-8")


def quick_rates(calls: int = QUICK_CALLS) -> dict[tuple[str, str], float]:
    """Return the share of each overload and dtype's cases that the quick tier runs."""
    return {pair: min(1.0, calls / n) for pair, n in recorded().items()}


def too_few(tally: Tally, ops: Iterable[str], rates: dict[tuple[str, str], float] | None) -> str:
    """Return a message if fewer cases were collected than the record says there are, else nothing."""
    claimed, share = set(ops), rates or {}
    counted = [(n, share.get(pair, 1.0)) for pair, n in recorded().items() if pair[0] in claimed]
    expected = sum(n * p for n, p in counted)
    chance = 4 * sqrt(sum(n * p * (1 - p) for n, p in counted))  # what a choice by hash may leave out
    if tally.total < LEAST * expected - chance:
        return f"collected {tally.total:,} cases of about {expected:,.0f}: the samples did not all run"
    return ""
