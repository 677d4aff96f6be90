"""The reference as data, for editors, documentation tools and models: ``ops.json`` and ``differences.json``.

Both are lists of objects, whose fields `SCHEMAS` describes in the words of JSON Schema. ``torchnp ops --json`` and ``torchnp
differences --json`` print them, the site has them beside its pages, and nothing here imports torch or a kernel.
"""

from __future__ import annotations

import functools
import json
from typing import Any

from torchnp.catalogue import CATALOGUE, CHAPTERS
from torchnp.lookup import facts

FILES = ("ops", "differences")
SCHEMAS: dict[str, dict[str, Any]] = {
    name: json.loads((facts.DATA / f"{name}.schema.json").read_text(encoding="utf-8")) for name in FILES
}


def op(name: str) -> dict[str, Any]:
    """What is known of an overload."""
    fact, body, schema = facts.rows().get(name), facts.body_of(name), facts.schemas()[name]
    return {
        "name": name,
        "schema": str(schema),
        "status": facts.status(name),
        "family": body.family if body else "",
        "derived_from": fact.source if fact else "",
        "rule": fact.rule if fact else "",
        "does": body.doc if body else "",
        "numpy": body.like if body else "",
        "differences": list(body.differs) if body else [],
        "tried": dict(zip(("calls", "right"), facts.shares().get(name, ()))),
        "tags": sorted(schema.tags),
        "reason": facts.why_excluded(name) or "",
    }


def ops() -> list[dict[str, Any]]:
    """Every overload that torch registers."""
    return [op(name) for name in facts.schemas()]


@functools.cache
def _chapters() -> dict[str, str]:
    return {d.id: chapter.__name__.rpartition(".")[2] for chapter in CHAPTERS for d in chapter.ROWS}


@functools.cache
def _having() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for packet in facts.overloads():
        for i in dict.fromkeys(i for body in facts.bodies(packet) for i in body.differs):
            found.setdefault(i, []).append(packet)
    return found


def difference(i: str) -> dict[str, Any]:
    """What is known of a difference, by its id."""
    d = CATALOGUE[i]
    return {
        "id": i,
        "title": d.title,
        "category": _chapters()[i],
        "torch": d.torch,
        "torch_value": d.torch_value,
        "numpy": d.numpy,
        "numpy_value": d.numpy_value,
        "advice": d.why,
        "in_numpy": d.in_numpy,
        "in_torch": d.in_torch,
        "array_api": d.array_api,
        "versions": d.where,
        "ops": sorted(_having().get(i, [])),
    }


def differences() -> list[dict[str, Any]]:
    """Every difference, in the order of the catalogue."""
    return [difference(i) for i in CATALOGUE]


def files() -> dict[str, str]:
    """The text of each file by its name, the schemas too."""
    made = {"ops": ops(), "differences": differences()}
    data = {f"{name}.json": json.dumps(rows, indent=1, ensure_ascii=False) for name, rows in made.items()}
    return data | {f"{name}.schema.json": json.dumps(schema, indent=1) for name, schema in SCHEMAS.items()}
