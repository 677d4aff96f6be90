"""Pass rates of each overload and dtype in the last recorded run, for the tables on the operators' pages."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from typing import Any

from ..case import DTYPES
from .report import GOOD

DATA = Path(__file__).parents[1] / "data" / "passed.tsv"
RESULTS = DATA.with_name("results.json")  # header and totals of the same run
ORDER = (*DTYPES, "none")  # order of the columns; "none" is for calls without an array
HEAD = (
    "# by scripts/verification_table.py: overload, and for each dtype the calls that pass, /attempted where some do not"
)


def write(counts: Counter[tuple[str, str, str]]) -> None:
    """Save a run's pass rates; calls are counted by overload, dtype and outcome as in a `Tally`."""
    found: dict[str, dict[str, tuple[int, int]]] = defaultdict(dict)
    for (op, dtype, outcome), n in sorted(counts.items()):
        good, all_ = found[op].get(dtype, (0, 0))
        found[op][dtype] = good + n * (outcome in GOOD), all_ + n
    columns = [d for d in ORDER if any(d in row for row in found.values())]
    lines = [HEAD, "\t".join(["overload", *columns])]
    lines += ["\t".join([op, *(_cell(*row.get(d, (0, 0))) for d in columns)]) for op, row in found.items()]
    DATA.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _cell(good: int, attempted: int) -> str:
    return f"{good or ''}" if good == attempted else f"{good}/{attempted}"


@cache
def read() -> dict[str, dict[str, tuple[int, int]]]:
    """Return the numbers of passed and attempted calls of each overload and dtype."""
    _, head, *lines = DATA.read_text(encoding="utf-8").splitlines()
    columns = head.split("\t")[1:]
    found = {}
    for line in lines:
        op, *cells = line.split("\t")
        pairs = {dtype: cell.partition("/") for dtype, cell in zip(columns, cells) if cell}
        found[op] = {dtype: (int(good), int(attempted or good)) for dtype, (good, _, attempted) in pairs.items()}
    return found


def header() -> dict[str, Any]:
    """Return the recorded run's header: tier, date and versions."""
    return json.loads(RESULTS.read_text(encoding="utf-8"))["header"]
