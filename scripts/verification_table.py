"""Write a report's figures into docs/verification.md: ``python scripts/verification_table.py report.jsonl``.

The report's totals are written to opinfo_tests/data/results.json, and the pass rate of each overload and dtype to
passed.tsv in the same folder, from which the documentation makes the operators' pages. The page's table is made from
results.json only, so that ``--check`` can compare the two without a run; it exits with 1 if they differ.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from datetime import date
from pathlib import Path
from typing import Any

from opinfo_tests.case import DTYPES
from opinfo_tests.generate.samples.opinfo import ERRORS
from opinfo_tests.report import pass_rates
from opinfo_tests.run.outputs import DRAWS

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "verification.md"
BEGIN, END = "<!-- harness -->\n", "<!-- /harness -->"
HEAD = (
    "backend",
    "torch",
    "numpy",
    "ml_dtypes",
    "python",
    "machine",
    "cpu",
    "tier",
    "seed",
    "order",
    "draws",
    "dtypes",
)
WHOLE = {"ops": None, "families": None, "max": 0}  # the fields in the header of a run that left nothing out


Counts = Counter[tuple[str, str, str]]


def totals(report: Path) -> tuple[dict[str, Any], Counts]:
    """Return a report's totals (all calls, by dtype, of rejected calls, of prims), and its counts of outcomes."""
    pairs: Counts = Counter()
    calls: dict[tuple[str, str], dict[str, int]] = defaultdict(lambda: {"passed": 0, "unspecified": 0, "attempted": 0})
    overloads: dict[tuple[str, str], set[str]] = defaultdict(set)
    head: dict[str, Any] = {}
    foot: dict[str, Any] = {}
    with report.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if "op" in row:
                pairs[row["op"], row["dtype"], row["outcome"]] += 1
                keys = [("dtypes", row["dtype"]), ("all", "calls")]
                keys += [("all", "prims")] * row["op"].startswith("prims::")
                keys += [("all", "errors")] * (row["sample_dtype"] == ERRORS or "torch_raises" in row)
                for key in keys:
                    calls[key]["passed"] += row["outcome"] == "pass"
                    calls[key]["unspecified"] += row["outcome"] == "unspecified"
                    calls[key]["attempted"] += 1
                    overloads[key].add(row["op"])
            elif "header" in row:
                head = row
            elif "footer" in row:
                foot = row
    if not foot or any(head.get(k) != v for k, v in WHOLE.items()):
        raise SystemExit(f"{report} is of a run that was broken off or of chosen operators")
    found = {key: {**calls[key], "overloads": len(overloads[key])} for key in calls}
    made = {
        "header": {k: head[k] for k in HEAD if k in head} | {"date": f"{date.fromtimestamp(report.stat().st_mtime)}"},
        **{name: found.get(("all", name)) for name in ("calls", "errors", "prims")},
        "dtypes": {
            d: found["dtypes", d]
            for d in sorted((d for kind, d in found if kind == "dtypes"), key=pass_rates.ORDER.index)
        },
        "usage": foot.get("usage"),
    }
    return made, pairs


def table(results: dict[str, Any]) -> str:
    """Return the figures as Markdown."""
    head = results["header"]
    options = [] if head["tier"] == "full" else [f"--tier {head['tier']}"]
    options += [] if head.get("draws", DRAWS["full"]) == DRAWS[head["tier"]] else [f"--draws {head['draws']}"]
    options += [] if set(DTYPES) <= set(head["dtypes"]) else [f"--dtypes {','.join(head['dtypes'])}"]
    lines = [
        f"`{' '.join(['python -m opinfo_tests', *options])}`, seed {head['seed']}, torch {head['torch'].partition('+')[0]}, "
        f"NumPy {head['numpy']}, Python {head['python']}, {head['machine']} ({head['cpu']}):",
        "",
        "| | passed | unspecified | attempted | overloads |",
        "|---|---:|---:|---:|---:|",
    ]
    rows = [
        ("all calls", results["calls"]),
        ("calls that torch refuses", results["errors"]),
        ("calls of prims", results["prims"]),
        *((f"`{d}`" if d in DTYPES else "no array", found) for d, found in results["dtypes"].items()),
    ]
    for name, found in rows:
        if found:
            cells = (f"{found[k]:,}" for k in ("passed", "unspecified", "attempted", "overloads"))
            lines.append(f"| {name} | {' | '.join(cells)} |")
    if usage := results["usage"]:
        peak = usage["peak_mib"]
        lines += [
            "",
            f"That took {usage['wall_s'] / 60:.0f} minutes ({usage['cpu_s'] / 60:.0f} of processor time) in "
            f"{len(peak['workers'])} worker processes and {(peak['parent'] + sum(peak['workers'])) / 1024:.1f} GiB at most.",
        ]
    return "\n".join(lines) + "\n"


def updated(text: str) -> str:
    """Return the page's text with the table of the current results."""
    head, rest = text.split(BEGIN)
    return head + BEGIN + table(json.loads(pass_rates.RESULTS.read_text(encoding="utf-8"))) + END + rest.split(END)[1]


def main(arguments: list[str]) -> int:
    """Write the figures or, with ``--check``, compare them; return the exit status."""
    if arguments == ["--check"]:
        old = PAGE.read_text(encoding="utf-8")
        stale = updated(old) != old
        print(
            "docs/verification.md's figures are "
            + ("not those of opinfo_tests/data/results.json" if stale else "up to date")
        )
        return int(stale)
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    results, pairs = totals(Path(arguments[0]))
    pass_rates.RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    pass_rates.write(pairs)
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
