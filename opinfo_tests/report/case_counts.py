"""The recorded number of cases of each overload and dtype, which shows whether a run collected enough."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from .report import Tally

DATA = Path(__file__).parents[1] / "data" / "counts.tsv"
LEAST = 0.95  # share of the recorded cases that a full run must collect
# The same share for (overload, dtype) pairs in the quick tier. It is lower, because some pairs occur only in samples
# that the quick tier skips.
LEAST_PAIRS = 0.5

Pairs = dict[tuple[str, str], int]


@cache
def recorded() -> Pairs:
    """Return the recorded number of cases of each overload and dtype."""
    found: Pairs = {}
    if DATA.exists():
        for line in DATA.read_text(encoding="utf-8").splitlines():
            op, *dtypes = line.split("\t")
            found |= {(op, name): int(n) for name, n in (d.split("=") for d in dtypes)}
    return found


def write(tally: Tally) -> None:
    """Save a run's case counts as the recorded ones."""
    lines: dict[str, list[str]] = {}
    for (op, dtype, _), n in sorted(tally.counts.items()):
        lines.setdefault(op, []).append(f"{dtype}={n}")
    DATA.write_text("".join("\t".join([op, *found]) + "\n" for op, found in lines.items()), encoding="utf-8")


def too_few(tally: Tally, ops: Iterable[str], quick: bool) -> str:
    """Return a message if a run collected too few of the recorded cases, else an empty string.

    The quick tier runs only some calls of each overload and dtype, so pairs of overload and dtype are counted instead.
    """
    claimed = set(ops)
    counted = {pair: n for pair, n in recorded().items() if pair[0] in claimed}
    if quick:
        found = {(op, dtype) for op, dtype, _ in tally.counts} & counted.keys()
        what, got, expected, least = "pairs of overload and dtype", len(found), len(counted), LEAST_PAIRS
    else:
        got, expected = tally.total - tally.drawn.total() - tally.broken.total(), sum(counted.values())
        what, least = "cases", LEAST
    if got < least * expected:
        return f"collected {got:,} {what} of about {expected:,}: the samples did not all run"
    return ""
