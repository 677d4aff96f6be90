"""The commands ``torchnp ops``, ``torchnp explain`` and ``torchnp differences``."""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import pydoc
import re
import sys
from collections.abc import Callable

from torchnp.lookup import json_export, op_index, render
from torchnp.lookup.resolve import Meaning, meaning_of, meanings_of
from torchnp.lookup.search import asked, near

STATUSES = ("kernel", "derived", "composite", "excluded", "absent")


class NotFound(Exception):
    """Raised when nothing has the name, or an option's value does not exist."""


# ---------------------------------------------------------------- explain


def explain(args: argparse.Namespace) -> int:
    """Print what is known about a name, as JSON or as text; on a terminal, text has bold words and a pager."""
    name = " ".join(args.name)
    told = [render.told(meaning) for meaning in _meant(name)]
    if args.json:
        print(json.dumps(told if len(told) > 1 else told[0], indent=1, ensure_ascii=False))
    elif sys.stdout.isatty():
        marks = (_sgr(1), _sgr(2)) if "NO_COLOR" not in os.environ else ()
        # No pager if the text fits on the screen, raw control characters, and keep the text on exit.
        os.environ.setdefault("LESS", "FRX")
        pydoc.pager(BETWEEN.join(render.as_text(row, *marks) for row in told))
    else:
        print(BETWEEN.join(map(render.as_text, told)))
    return 0


BETWEEN = f"\n\n{'-' * 72}\n\n"  # separates the answers about several names


def _meant(name: str) -> list[Meaning]:
    """Return the meanings of one name or several.

    If a name is unknown, try again without the filler words of a question.
    """
    try:
        found, unknown = meanings_of(name)
        if unknown:
            shorter = asked(name)
            found, unknown = meanings_of(shorter) if shorter else ([], [name])
    except ImportError as error:  # from a package that declares rows in the namespace
        raise NotFound(str(error)) from error
    if not unknown:
        return found
    if re.search(r"[*?]|\[[^\]]*\]\w|^\[", name) and not found:
        raise NotFound(f"no name {name!r} is known; torchnp ops {name!r} lists what a pattern matches")
    missing = name if not found else ", ".join(unknown)
    raise NotFound(f"no name {missing!r} is known{_nearest(missing)}")


def _sgr(code: int) -> Callable[[str], str]:
    return lambda text: f"\033[{code}m{text}\033[0m"


def _nearest(name: str) -> str:
    names = near(name.strip("*"))
    return f"; nearest: {', '.join(names)}" if names else ""


# ---------------------------------------------------------------- differences


def differences(args: argparse.Namespace) -> int:
    """Print a line for each difference, or JSON."""
    rows = [row for i, row in json_export.differences().items() if fnmatch.fnmatchcase(i, args.pattern)]
    if not rows:
        raise NotFound(f"no id matches {args.pattern!r}; torchnp explain {args.pattern!r} looks a name up")
    if args.json:
        print(json_export.listed(rows))
        return 0
    width = max(len(row["id"]) for row in rows)
    for category in dict.fromkeys(row["category"] for row in rows):
        print(f"{category}")
        for row in rows:
            if row["category"] == category:
                print(f"  {row['id']:{width}}  {row['title']}")
    print(f"\n{len(rows)} differences; torchnp explain ID shows one, with what both libraries give")
    return 0


# ---------------------------------------------------------------- ops


def ops(args: argparse.Namespace) -> int:
    """Print a table of overloads, bare names, or JSON."""
    named = _named(args.pattern)
    _check(args)
    names = [
        n
        for n in named
        if (args.status is None or op_index.status(n) == args.status)
        and (args.tag is None or args.tag in op_index.schemas()[n].tags)
        and (args.family is None or _family(n) == args.family)
    ]
    if args.json:
        print(json_export.listed(json_export.ops()[n] for n in names))
    elif args.names:
        print("\n".join(names), end="\n" if names else "")
    elif not names:
        asked = [f"{o} {v}" for o, v in (("status", args.status), ("family", args.family), ("tag", args.tag)) if v]
        print(f"{_overloads(len(named))} of the name {args.pattern!r}, none with {' and '.join(asked)}")
    else:
        _print_table(names)
    return 0


def _named(pattern: str) -> list[str]:
    full = pattern if "::" in pattern else f"*::{pattern}"
    for space in op_index.libraries_like(full.partition("::")[0], shipped="::" in pattern):
        try:
            op_index.import_rows(space)
        except ImportError as error:
            print(f"torchnp ops: {error}", file=sys.stderr)
    named = [
        n for n in op_index.schemas() if fnmatch.fnmatchcase(n, full) or fnmatch.fnmatchcase(n.partition(".")[0], full)
    ]
    found = None if named else meaning_of(pattern)
    named = named or [n for op in (found.ops if found else ()) for n in op_index.overloads().get(op, [op])]
    if not named:
        raise NotFound(f"nothing matches {pattern!r}{_nearest(pattern)}")
    return named


def _check(args: argparse.Namespace) -> None:
    for option, value, known in (
        ("status", args.status, STATUSES),
        ("family", args.family, {f.family for f in op_index.rows().values() if f.family}),
        ("tag", args.tag, {tag for schema in op_index.schemas().values() for tag in schema.tags}),
    ):
        if value is not None and value not in known:
            raise NotFound(f"no {option} {value!r}; there are {', '.join(sorted(known))}")


def _family(name: str) -> str:
    body = op_index.body_of(name)
    return body.family if body else ""


def _print_table(names: list[str]) -> None:
    rows = [("overload", "status", "family", "from, or why not")]
    for n in names:
        fact = op_index.rows().get(n)
        rows.append((n, op_index.status(n), _family(n), fact.source if fact else op_index.why_excluded(n) or ""))
    widths = [max(map(len, column)) for column in zip(*rows)]
    for cells in rows:
        print("  ".join(map(str.ljust, cells, widths)).rstrip())
    shown = {s: sum(row[1] == s for row in rows[1:]) for s in STATUSES}
    print(f"\n{_overloads(len(names))}: " + ", ".join(f"{k} {s}" for s, k in shown.items() if k))


def _overloads(n: int) -> str:
    return f"{n} overload" if n == 1 else f"{n} overloads"
