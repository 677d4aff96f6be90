"""``torchnp owner ops``: list the operators that keep a row label, and the rule for each."""

from __future__ import annotations

import json

from torchnp.core.schema import load
from torchnp.rpc import wire
from torchnp.rpc.server.privacy.row_calls import rule


def listed() -> dict[str, str]:
    """Return the rule, in words, of each overload that keeps a row label."""
    found = {name: rule(schema) for name, schema in load().items() if wire.can_travel(schema)}
    return {name: words for name, words in sorted(found.items()) if words}


def shown(as_json: bool) -> str:
    """Return the list as text, one overload per line, or as JSON."""
    rules = listed()
    if as_json:
        return json.dumps(rules, indent=1)
    width = max(map(len, rules))
    return "\n".join(f"{name:<{width}}  {words}" for name, words in rules.items())


def table() -> str:
    """Return the list as a Markdown table with one row per rule.

    An asterisk marks operators whose in-place variant keeps the label too.
    """
    rules = listed()
    by_rule: dict[str, list[str]] = {}
    for name, words in rules.items():
        base, dot, overload = name.removeprefix("aten::").partition(".")
        if not (base.endswith("_") and f"aten::{base[:-1]}{dot}{overload}" in rules):
            star = "*" if f"aten::{base}_{dot}{overload}" in rules else ""
            by_rule.setdefault(words, []).append(f"`{base}{dot}{overload}`{star}")
    lines = ["| Rows stay, if the operator is | Operators |", "| --- | --- |"]
    lines += [f"| {words} | {', '.join(names)} |" for words, names in sorted(by_rule.items())]
    return "\n".join(lines)
