"""The report as one self-contained HTML page: overloads by dtype, with filters, messages and repro scripts."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from importlib.resources import files
from pathlib import Path
from typing import Any

from ..case import DTYPES
from .report import GOOD, REFUSED, every_row

FAILURES = 5  # number of failures shown for each overload, dtype and outcome
PASSING = 2  # number of case hashes shown for each overload and dtype
LARGEST_SCRIPT = 30_000  # characters
_KEPT = ("id", "dtype", "outcome", "message", "call", "diagnosis", "shrunk", "sample", "sample_dtype", "repro")


def read_all(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]], dict[str, Any]]:
    """Return a report's header, rows and footer."""
    head: dict[str, Any] = {}
    foot: dict[str, Any] = {}
    rows = []
    for row in every_row(path):
        if "op" in row:
            rows.append(row)
        elif "header" in row:
            head = row
        elif "footer" in row:
            foot = row
    return head, rows, foot


def page_data(head: dict[str, Any], rows: list[dict[str, Any]], foot: dict[str, Any]) -> dict[str, Any]:
    """Return the page's data: the rows grouped by overload and dtype."""
    cells: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    passing: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    fails: dict[str, list[dict[str, Any]]] = defaultdict(list)
    ulp: dict[str, dict[str, float]] = defaultdict(dict)
    about: dict[str, dict[str, Any]] = {}
    refused: Counter[str] = Counter()
    for row in rows:
        op, dtype, outcome = row["op"], row["dtype"], row["outcome"]
        if outcome == REFUSED:
            refused[row["reason"]] += 1
            continue
        cells[op][dtype][outcome] += 1
        if op not in about:
            about[op] = {"name": op, "status": row.get("status", ""), "from": row.get("derived_from")} | more_about(op)
        if outcome == "pass":
            if len(passing[op][dtype]) < PASSING:
                passing[op][dtype].append(row["id"].rpartition("/")[2])
            if row.get("max_ulp"):
                ulp[op][dtype] = max(ulp[op].get(dtype, 0.0), row["max_ulp"])
        else:
            fails[op].append(row)
    dtypes = {d for found in cells.values() for d in found}
    order = [*DTYPES, "none"]
    ops = [
        about[op] | {"cells": cells[op], "fails": shortest(fails[op]), "passing": passing[op], "ulp": ulp[op]}
        for op in sorted(cells)
    ]  # fmt: skip
    return {
        "head": head, "ops": ops, "absent": foot.get("absent", []), "errors": foot.get("errors", []),
        "refused": refused.most_common(),
        "dtypes": sorted(dtypes, key=lambda d: (order.index(d) if d in order else len(order), d)),
    }  # fmt: skip


def more_about(op: str) -> dict[str, Any]:
    """Return the table's facts about an overload: its schema, family and differences."""
    import torchnp

    table = torchnp.table
    if op not in table.schemas:
        return {}
    found: dict[str, Any] = {"schema": str(table.schemas[op])}
    if op in table:
        found |= {"family": table[op].family, "differences": [d.id for d in table[op].differences]}
    return found


def shortest(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows to show for each dtype and outcome: rows with a script first, then the shortest calls."""
    taken: Counter[tuple[str, str]] = Counter()
    shown = []
    for row in sorted(rows, key=lambda r: (r["outcome"] in GOOD, "repro" not in r, len(r.get("call", "")))):
        key = row["dtype"], row["outcome"]
        taken[key] += 1
        if taken[key] <= FAILURES:
            kept = {k: row[k] for k in _KEPT if row.get(k)}
            if len(kept.get("repro", "")) > LARGEST_SCRIPT:
                del kept["repro"]
            shown.append(kept)
    return shown


def page(head: dict[str, Any], rows: list[dict[str, Any]], foot: dict[str, Any]) -> str:
    """Return the page as text."""
    data = json.dumps(page_data(head, rows, foot), separators=(",", ":"), ensure_ascii=False)
    # Escape ``<``: a report may contain any text, and `</script>` would end the data.
    data = data.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    template = (files(__package__) / "page.html").read_text(encoding="utf-8")
    return template.replace("/*DATA*/", data)


def write_page(report: Path, path: Path) -> None:
    """Write the HTML page of a report."""
    path.write_text(page(*read_all(report)), encoding="utf-8")
