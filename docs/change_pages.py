"""Write the page about the changes between versions of torch, and the part of it on each operator's page."""

from __future__ import annotations

import json
from itertools import pairwise

from torchnp.core.target import KNOWN, spell
from torchnp.lookup.changes_command import as_dict
from torchnp.version_changes import CATEGORIES, Change, all_changes, changes, registry_changes

PAIRS = [(spell(a), spell(b)) for a, b in pairwise(KNOWN)]


def page() -> str:
    """Return the page: the changes by category, the newest version first."""
    versions = ", ".join(map(spell, KNOWN))
    lines = [
        "# Changes between torch versions",
        "",
        f"How each operator differs from the previous version of torch, for {versions}. The tests run every example "
        "under the installed torch. `python -m opinfo_tests --against 2.13` compares the table of one version with another "
        "version of torch, and every failure must be one of these changes. `torchnp changes 2.13 2.14 'sub*'` prints the "
        'changes of an operator, and <a href="changes.json"><code>changes.json</code></a> has all of them as data.',
        "",
    ]
    for old, new in reversed(PAIRS):
        found = changes(old, new)
        lines += [f"## From {old} to {new}", ""]
        for category, title in CATEGORIES.items():
            rows = [c for c in found if c.category == category]
            if rows:
                lines += [f"### {title} ({new})", "", *(line for c in rows for line in change_lines(c))]
        lines += registry_lines(old, new)
    return "\n".join(lines) + "\n"


def change_lines(change: Change) -> list[str]:
    """Return the lines about a change, with its example and both values."""
    lines = [f"({change.id})=", "", f"**{_markdown(change.title)}**", ""]
    lines += ["```text", change.code, "```", "", "| torch | value |", "|---|---|"]
    lines += [
        f"| before {change.since} | {_cell(change.before)} |",
        f"| since {change.since} | {_cell(change.after)} |",
        "",
    ]
    if change.advice:
        lines += [_markdown(change.advice), ""]
    return lines


def registry_lines(old: str, new: str) -> list[str]:
    """Return the lines about new and removed overloads, and about changed arguments."""
    lines = []
    for kind, title in (("new", "New overloads"), ("gone", "Overloads that are gone"), ("schema", "Other arguments")):
        rows = [c for c in registry_changes(old, new) if c.kind == kind]
        if rows:
            lines += [f"### {title} ({new})", "", "```text"]
            lines += [line for c in rows for line in filter(None, (c.before, c.after))]
            lines += ["```", ""]
    return lines


def of_operator(names: list[str]) -> list[str]:
    """Return the lines about changes on an operator's page."""
    rows = [c for c in all_changes() if "*" not in c.ops and any(map(c.touches, names))]
    lines = [f"- since {c.since}: [{_markdown(c.title)}](../version_changes.md#{c.id})" for c in rows]
    return ["## Changes between torch versions", "", *lines, ""] if lines else []


def data() -> str:
    """Return all changes as JSON."""
    first, last = spell(KNOWN[0]), spell(KNOWN[-1])
    return json.dumps(as_dict(changes(first, last), registry_changes(first, last)), indent=1, ensure_ascii=False) + "\n"


def _markdown(text: str) -> str:
    return text.replace("*", "\\*").replace("_", "\\_")


def _cell(text: str) -> str:
    fence = "``" if "`" in text else "`"
    return f"{fence} {text.replace('|', chr(92) + '|')} {fence}"
