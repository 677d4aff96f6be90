"""Failures by cause: calls with the same outcome and, apart from names and numbers, the same message are shown once."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from .report import some

# Order of display: crashes and wrong results, then wrong errors, then wrong messages.
ORDER = (
    "crash", "timeout", "wrong-value", "wrong-dtype", "wrong-shape", "wrong-alias", "spurious-error", "no-error",
    "wrong-strides", "wrong-error",
)  # fmt: skip
NAMED = 6  # number of overloads named for each cause
# Parts of a message that differ between calls with the same cause: numbers, lists of numbers, dtypes and quoted words.
OWN = re.compile(
    r"\[[^\]]*\]|\([^)]*\)|'[^']*'|\"[^\"]*\"|np\.\w+|[-+]?\b\d[\d.,e+-]*\b|\b(nan|inf|True|False)\b"
    r"|\b(bool|u?int\d+|b?float\d+\w*|complex\d+|Bool|Byte|Char|Short|Int|Long|Half|BFloat16|Float|Double|Complex\w+|UInt\d+)\b"
)
ERRORS = re.compile(r"^(\w+): .*\| torch: (\w+): ", re.DOTALL)


@dataclass
class Cause:
    """Failing calls with one outcome and one cause.

    Attributes
    ----------
    outcome : str
        One of `judge.verdict.OUTCOMES`.
    text : str
        The diagnosis, or an empty string if there is none.
    rows : list of dict
        The failing rows of the report.
    """

    outcome: str
    text: str
    rows: list[dict[str, Any]] = field(default_factory=list)

    @property
    def ops(self) -> Counter[str]:
        return Counter(row["op"] for row in self.rows)

    @property
    def simplest(self) -> dict[str, Any]:
        return min(self.rows, key=lambda row: (len(row["call"]), row["id"]))


def key_of(row: dict[str, Any]) -> str:
    """Return the key of a failure's cause: the classes of the errors, the diagnosis, or the message without numbers."""
    message = row["message"]
    if row["outcome"] == "wrong-error":
        classes = ERRORS.match(message)
        return f"{classes[1]} for {classes[2]}" if classes else "other words"
    if "diagnosis" in row:
        return OWN.sub("", row["diagnosis"])
    if row["outcome"] in ("no-error", "spurious-error"):
        return " ".join(OWN.sub("", message).split()[:8])
    if row["outcome"] == "wrong-value":
        return "other values"
    return OWN.sub("", message).partition(";")[0]


def causes(rows: Iterable[dict[str, Any]]) -> list[Cause]:
    """Return the causes of failing rows, ordered by outcome, then by number of calls."""
    found: dict[tuple[str, str], Cause] = {}
    for row in rows:
        key = row["outcome"], key_of(row)
        found.setdefault(key, Cause(row["outcome"], row.get("diagnosis", ""))).rows.append(row)
    rank = {outcome: i for i, outcome in enumerate(ORDER)}
    return sorted(found.values(), key=lambda c: (rank.get(c.outcome, len(rank)), -len(c.rows)))


def shown(rows: Iterable[dict[str, Any]], most: int) -> Iterator[tuple[str, str]]:
    """Yield lines that explain failures, each with its print style: each cause once, with its simplest call.

    Parameters
    ----------
    rows : iterable of dict
        Failing rows of a report.
    most : int
        Number of causes to show for each overload and outcome.
    """
    told: dict[str, int] = defaultdict(int)  # number of causes already shown for each overload and outcome
    left: Counter[str] = Counter()
    said: set[str] = set()
    for cause in causes(rows):
        ops = cause.ops
        keys = [f"{op} {cause.outcome}" for op in ops]
        if min(told[k] for k in keys) >= most:
            left[cause.outcome] += 1
            continue
        for k in keys:
            told[k] += 1
        yield f"{cause.outcome}: {some(len(cause.rows), 'call')} of {names(ops)}", "bold red"
        row = cause.simplest
        for text in dict.fromkeys((cause.text, row["message"])):
            if text and text not in said:
                said.add(text)
                yield f"    {text}", "red"
        yield f"    {row['call']}", ""
        if "shrunk" in row:
            yield f"    shrunk: {row['shrunk']}", ""
        yield f"    {row['id']}  ({row['sample']} {row['sample_dtype']})", "dim"
    for outcome, n in left.items():
        yield f"{outcome}: {some(n, 'more cause')}; --messages {2 * most or 4} shows more, --report all", "dim"


def names(ops: Counter[str]) -> str:
    """Return the names of the overloads with the most calls, and the number of other overloads."""
    first = [f"{op}" for op, _ in ops.most_common(NAMED)]
    more = f" and {len(ops) - NAMED:,} others" if len(ops) > NAMED else ""
    return ", ".join(first) + more


def outcomes_of(outcomes: Counter[str], good: Iterable[str]) -> str:
    """Return the counts of an overload's failing outcomes as text, wrong values first."""
    return ", ".join(
        f"{o} {outcomes[o]:,}"
        for o in sorted(outcomes, key=lambda o: ORDER.index(o) if o in ORDER else 99)
        if o not in good
    )
