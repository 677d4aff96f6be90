"""The reference as data, for editors, documentation tools and models: ``ops.json`` and ``differences.json``.

Both are files of ``torchnp/data``, written by ``scripts/make_lookup.py``: lists of objects, whose fields a
JSON schema beside each describes. ``torchnp ops --json`` and ``torchnp differences --json`` print their objects, and the site has
the files beside its pages.
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
    """Every overload that torch registers, and those of other libraries that have been asked for, by name."""
    return op_index.ops()


@functools.cache
def differences() -> dict[str, dict[str, Any]]:
    """Every difference, by its id, in the order of the catalogue."""
    return {row["id"]: row for row in json.loads(text("differences.json"))}


def listed(rows: Iterable[dict[str, Any]]) -> str:
    """A JSON list with an object a line, as the files are and the commands print."""
    made = [json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows]
    return "[\n" + ",\n".join(made) + "\n]" if made else "[]"


def text(name: str) -> str:
    """One of the files, ``ops.json`` or ``ops.schema.json``."""
    return (op_index.DATA / name).read_text(encoding="utf-8")


def files() -> list[Path]:
    """The files, the schemas too."""
    return [op_index.DATA / f"{name}.{kind}" for name in NAMES for kind in ("json", "schema.json")]
