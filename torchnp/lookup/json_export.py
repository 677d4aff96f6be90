"""Data of the reference for editors, documentation tools and language models: ``ops.json`` and ``differences.json``.

``scripts/make_lookup.py`` writes both files to ``torchnp/data``. Each is a list of objects, and a JSON schema in the
same folder describes their fields. ``torchnp ops --json`` and ``torchnp differences --json`` print the objects, and the
site serves the files.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from torchnp.lookup import op_index

NAMES = ("ops", "differences")


def ops() -> dict[str, dict[str, Any]]:
    """Return every overload that torch registers, and those of other libraries imported so far, by name."""
    return op_index.ops()


@functools.cache
def differences() -> dict[str, dict[str, Any]]:
    """Return every difference by its id, in the order of the catalogue."""
    return {row["id"]: row for row in json.loads(text("differences.json"))}


def listed(rows: Iterable[dict[str, Any]]) -> str:
    """Return a JSON list with one object a line, as in the files and in the commands' output."""
    made = [json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows]
    return "[\n" + ",\n".join(made) + "\n]" if made else "[]"


def text(name: str) -> str:
    """Return the text of a file, such as ``ops.json`` or ``ops.schema.json``."""
    return (op_index.DATA / name).read_text(encoding="utf-8")


def files() -> list[Path]:
    """Return the paths of the files and of their JSON schemas."""
    return [op_index.DATA / f"{name}.{kind}" for name in NAMES for kind in ("json", "schema.json")]
