"""Write the status table of README.md (``--check`` only compares, and exits with 1 if it is outdated)."""

from __future__ import annotations

import sys
from pathlib import Path

import torchnp

README = Path(__file__).resolve().parent.parent / "README.md"
BEGIN, END = "<!-- status -->\n", "<!-- /status -->"


def status_table() -> str:
    """Return a Markdown table of the number of overloads by status, and of those with torch's tag core."""
    table = torchnp.table
    names = {space: [n for n in table.schemas if n.startswith(f"{space}::")] for space in ("aten", "prims")}
    core = [n for n, schema in table.schemas.items() if "core" in schema.tags]
    lines = ["| | aten | prims |", "|---|---|---|"]
    for status in table.counts():
        lines.append(
            f"| {status} | " + " | ".join(str(sum(table.status(n) == status for n in v)) for v in names.values()) + " |"
        )
    lines.append("| all | " + " | ".join(str(len(v)) for v in names.values()) + " |")
    lines.append(f"| core overloads (torch's tag `core`) provided | {sum(n in table for n in core)} of {len(core)} | |")
    return "\n".join(lines) + "\n"


def updated(text: str) -> str:
    """Return the text of the README with the current table."""
    head, rest = text.split(BEGIN)
    return head + BEGIN + status_table() + END + rest.split(END)[1]


def main() -> int:
    old = README.read_text()
    new = updated(old)
    if "--check" in sys.argv:
        print("README.md's status table is " + ("up to date" if new == old else "stale: run scripts/readme_status.py"))
        return int(new != old)
    README.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
