"""What changed between versions of torch, for each operator.

The rows are in ``torchnp/data/version_changes.toml``. Each has an expression and its value in both versions, which the
tests evaluate under the installed torch. The field ``seen`` tells which failures a row explains when the harness
compares one version of torch with the table of another (``python -m opinfo_tests --against 2.13``). New, removed and
renamed overloads need no row: `registry_changes` finds them in the schemas.
"""

from __future__ import annotations

import functools
import re
import tomllib
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from torchnp.core.schema import load
from torchnp.core.target import Version, known, parse

DATA = Path(__file__).parent / "data" / "version_changes.toml"

CATEGORIES = {
    "values": "Other values",
    "dtypes": "Other dtypes",
    "shapes": "Other shapes",
    "strides": "Other strides",
    "accepted": "Accepted, and refused before",
    "refused": "Refused, and accepted before",
    "errors": "Other errors",
}


@dataclass(frozen=True)
class FailurePattern:
    """Pattern of the failures by which the harness detects a change, if the table reproduces the older version.

    ``outcome`` is the harness's word for the failure. ``op`` and ``dtype`` are globs, ``message`` is a regular
    expression for the start of the failure's message, and ``call`` one that may match anywhere in the call.
    """

    outcome: str
    op: str = ""
    dtype: str = "*"
    message: str = ""
    call: str = ""


@dataclass(frozen=True)
class Change:
    """One way in which an operator of torch changed.

    Attributes
    ----------
    id : str
        Kebab-case name.
    since : str
        The first version with the new behaviour: ``"2.14"``.
    category : str
        A key of `CATEGORIES`.
    title : str
        What torch does now, and what it did before, in a sentence or two.
    ops : tuple of str
        Overload names or globs; ``aten::`` is implied.
    code : str
        An expression that shows the change.
    before, after : str
        The expression's values, as `torchnp.differences.show` prints them.
    advice : str
        What to do in code that must run on both versions.
    seen : tuple of FailurePattern
        The harness's failures that the change explains.
    """

    id: str
    since: str
    category: str
    title: str
    ops: tuple[str, ...]
    code: str
    before: str
    after: str
    advice: str = ""
    seen: tuple[FailurePattern, ...] = ()

    def touches(self, name: str) -> bool:
        """Return whether the change concerns an overload, given by its full name."""
        rest = name.removeprefix("aten::")
        return any(fnmatchcase(name if "::" in op else rest, op) for op in self.ops)


@functools.cache
def all_changes() -> tuple[Change, ...]:
    """Return every row, in the order of the file."""
    rows = tomllib.loads(DATA.read_text(encoding="utf-8"))["change"]
    return tuple(
        Change(**{**row, "ops": tuple(row["ops"]), "seen": tuple(FailurePattern(**s) for s in row.get("seen", ()))})
        for row in rows
    )


def span(first: str, last: str) -> tuple[Version, Version]:
    """Return two known versions, the older one first.

    Raises
    ------
    ValueError
        torchnp does not know one of the versions.
    """
    low, high = sorted(map(known, (first, last)))
    return low, high


def changes(first: str, last: str, pattern: str = "*") -> list[Change]:
    """Return the changes after one version, up to and including another, of operators that a name or glob matches.

    Parameters
    ----------
    first, last : str
        Minor versions of torch, in any order.
    pattern : str
        An overload, an operator or a glob: ``"sub.Tensor"``, ``"sub"``, ``"var*"``.

    Returns
    -------
    list of Change
        The changes, in the order of the file.

    Raises
    ------
    ValueError
        torchnp does not know one of the versions.
    """
    low, high = span(first, last)
    names = [name for name in {**load(low), **load(high)} if matches(name, pattern)]
    return [c for c in all_changes() if low < parse(c.since) <= high and any(map(c.touches, names))]


def matches(name: str, pattern: str) -> bool:
    """Return whether a name or glob matches an overload's full name or operator, with or without ``aten::``."""
    full = pattern if "::" in pattern else f"aten::{pattern}"
    return fnmatchcase(name, full) or fnmatchcase(name.partition(".")[0], full) or (pattern == "*")


@dataclass(frozen=True)
class RegistryChange:
    """An overload that is new, removed, or has another schema; ``before`` and ``after`` are schemas, or ``""``."""

    name: str
    before: str
    after: str

    @property
    def kind(self) -> str:
        return "new" if not self.before else "gone" if not self.after else "schema"


def registry_changes(first: str, last: str, pattern: str = "*") -> list[RegistryChange]:
    """Compare the registries of two versions of torch.

    Overloads whose only change is their position in the packet are left out.

    Parameters
    ----------
    first, last, pattern : str
        As in `changes`.

    Returns
    -------
    list of RegistryChange
        The changes, in the order of the names.

    Raises
    ------
    ValueError
        torchnp does not know one of the versions.
    """
    low, high = span(first, last)
    old, new = load(low), load(high)
    text = lambda schemas, name: str(schemas[name]) if name in schemas else ""
    found = [RegistryChange(name, text(old, name), text(new, name)) for name in {**old, **new}]
    return sorted((c for c in found if c.before != c.after and matches(c.name, pattern)), key=lambda c: c.name)


def as_json(change: Change) -> dict[str, Any]:
    """Return a change for JSON, without the harness's patterns."""
    row = asdict(change)
    del row["seen"]
    return row | {"ops": list(change.ops)}


ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
