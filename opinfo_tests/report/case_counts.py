"""How many cases there are: the recorded denominator, and from it the quick tier's share of each overload and dtype."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from .report import Tally

DATA = Path(__file__).parents[1] / "data" / "counts.tsv"
LEAST = 0.95  # of the recorded cases must be collected, or the run is invalid
LEAST_PAIRS = 0.5  # of the pairs: some are met by entries alone that are no home of theirs

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


def too_few(tally: Tally, ops: Iterable[str], quick: bool) -> str:
    """Return a message if fewer cases were collected than the record says there are, else nothing.

    The quick tier has some calls of each overload and dtype that are recorded.
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
