"""``torchnp changes``: what changed between two versions of torch."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from torchnp.core.target import KNOWN, spell
from torchnp.lookup.explain_command import NotFound
from torchnp.version_changes import CATEGORIES, Change, RegistryChange, as_json, changes, registry_changes

_KINDS = {"new": "New overloads", "gone": "Overloads that are gone", "schema": "Other arguments"}


def show_changes(args: argparse.Namespace) -> int:
    """Print the changes between two versions, of all operators or of those that match a pattern."""
    first, last, pattern = _asked(args.words)
    try:
        found, registry = changes(first, last, pattern), registry_changes(first, last, pattern)
    except ValueError as error:
        raise NotFound(str(error)) from None
    if args.json:
        print(json.dumps(as_dict(found, registry), indent=1, ensure_ascii=False))
        return 0
    if not found and not registry:
        print(f"nothing that torchnp knows changed between torch {first} and {last} for {pattern}")
        return 0
    print("\n\n".join(_sections(found, registry, details=pattern != "*")))
    print(f"\n{len(found)} changes of behaviour, {len(registry)} of the registry from torch {first} to {last}", end="")
    print("" if pattern != "*" else "; name an operator to see values: torchnp changes 2.13 2.14 'sub*'")
    return 0


def _asked(words: list[str]) -> tuple[str, str, str]:
    """Return the two versions and the pattern.

    With one version, the other is the newest; with none, they are the two newest.
    """
    versions = [w for w in words if w[:1].isdigit()]
    patterns = [w for w in words if w not in versions]
    if len(versions) > 2 or len(patterns) > 1:
        raise NotFound("give at most two versions and one pattern: torchnp changes 2.13 2.14 'sub*'")
    newest = spell(KNOWN[-1])
    first, last = (*versions, newest)[:2] if versions else (spell(KNOWN[-2]), newest)
    return first, last, patterns[0] if patterns else "*"


def as_dict(found: Iterable[Change], registry: Iterable[RegistryChange]) -> dict[str, Any]:
    """Return what `show_changes` prints, for JSON."""
    return {"changes": [as_json(c) for c in found], "registry": [{"kind": c.kind, **asdict(c)} for c in registry]}


def _sections(found: list[Change], registry: list[RegistryChange], details: bool) -> list[str]:
    sections = []
    for category, title in CATEGORIES.items():
        rows = [c for c in found if c.category == category]
        if rows:
            sections.append("\n".join([title, *(text_of(c) if details else f"  {_short(c)}" for c in rows)]))
    for kind, title in _KINDS.items():
        lines = [line for c in registry if c.kind == kind for line in _lines(c)]
        if lines:
            sections.append("\n".join([title, *lines]))
    return sections


def _short(change: Change) -> str:
    return f"{change.title} ({change.since}, {change.id})"


def text_of(change: Change) -> str:
    """Return a few lines of text about a change, with its values."""
    lines = [
        f"  {change.title}",
        f"    {change.code}",
        f"      before {change.since}: {change.before}",
        f"      since {change.since}:  {change.after}",
        f"    operators: {' '.join(change.ops)}",
    ]
    return "\n".join([*lines, f"    {change.advice}"] if change.advice else lines)


def _lines(change: RegistryChange) -> list[str]:
    if change.kind == "schema":
        return [f"  before: {change.before}", f"  now:    {change.after}"]
    return [f"  {change.after or change.before}"]
