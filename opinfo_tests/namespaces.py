"""Operators of other libraries: besides aten and prims, the harness judges namespaces that are requested by name.

A package declares a module in the entry point group ``torchnp.samples``; the entry point's name is the namespace of its
operators. Importing the module must import the library, which registers its operators with torch. The module may also
define:

- ``samples(op, dtype)``: an iterable of ``(args, kwargs)``, ordered and named as in torch's schema, for an overload's
full name and a dtype's name. Arguments are arrays or tensors, numbers and lists. For an unknown overload or dtype it is
empty. For the dtype ``"errors"`` it holds calls for which the library raises an error.
- ``RULES``: constraints made with `opinfo_tests.generate.constraints.constraint.rule`, for random calls from schemas.
Without a rule, the calls follow only the types and names of the schema.
- ``UNDRAWN``: a dict from overloads to reasons. For these overloads the harness generates no random calls and does not
change the values of samples, because they do not check their arguments and would read out of bounds.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any

from torchnp import shipped
from torchnp.core import libraries

from .case import schemas
from .schema_facts import siblings

GROUP = "torchnp.samples"
# Modules with sample calls, for the other libraries whose operators torchnp ships kernels for.
OF_SHIPPED = {space: f"opinfo_tests.generate.samples.{space}_ops" for space in shipped.MODULES}


@dataclass(frozen=True)
class OperatorLibrary:
    """What a package's module declares about its operators."""

    samples: Callable[[str, str], Iterable[tuple[tuple, dict[str, Any]]]] | None = None
    rules: tuple = ()
    undrawn: dict[str, str] | None = None


LIBRARIES: dict[str, OperatorLibrary] = {}
"""The declarations of the imported libraries, by namespace."""


def is_other(op: str) -> bool:
    """Return whether an overload belongs to another library."""
    return not op.startswith(libraries.PREFIXES)


def of(op: str) -> OperatorLibrary:
    """Return the declarations of an overload's library."""
    return LIBRARIES.get(op.partition("::")[0], OperatorLibrary())


def offered(pattern: str) -> list[str]:
    """Return the other libraries' namespaces that match a pattern; a pattern without wildcards is taken as a name."""
    if not set(pattern) & set("*?["):
        return [] if pattern in libraries.OWN else [pattern]
    found = {e.name for e in entry_points(group=GROUP)} | {*libraries.offered(), *LIBRARIES}
    return sorted(n for n in found if fnmatchcase(n, pattern))


def import_rows(space: str) -> None:
    """Import a library, torchnp's kernels for it and its samples, and add its registered schemas to `schemas()`."""
    if space in LIBRARIES:
        return
    from torchnp.core.schema import Schema
    from torchnp.interop._private import registered_schemas

    try:
        modules = [entry.load() for entry in entry_points(group=GROUP, name=space)]
        if not modules and space in OF_SHIPPED:
            modules = [importlib.import_module(OF_SHIPPED[space])]
        if no_module := [m for m in modules if not isinstance(m, ModuleType)]:
            raise ImportError(f"an entry point of {GROUP} names a module, not {no_module[0]!r}")
        libraries.import_rows(space)
    except ImportError as error:
        raise SystemExit(f"opinfo_tests: {space}: {error}") from error
    found = {name: Schema(text, tags) for name, text, tags in registered_schemas(space)}
    if not found:
        raise SystemExit(
            f"opinfo_tests: torch has no operator of {space}: a package names a module that imports the library in the entry "
            f"point group {GROUP}"
        )
    first = modules[0] if modules else None
    undrawn = dict(getattr(first, "UNDRAWN", {}))
    LIBRARIES[space] = OperatorLibrary(getattr(first, "samples", None), tuple(getattr(first, "RULES", ())), undrawn)
    schemas().update(found)
    siblings.cache_clear()


def meet_all(spaces: Iterable[str]) -> None:
    """Import namespaces in a worker process."""
    for space in spaces:
        import_rows(space)


def met() -> tuple[str, ...]:
    """Return the namespaces imported so far, to pass to `meet_all` in another process."""
    return tuple(sorted(LIBRARIES))


def why_undrawn(op: str) -> str:
    """Return why the library allows no random calls of an overload, or an empty string."""
    undrawn = of(op).undrawn or {}
    return undrawn.get(op, "") or next((undrawn[n] for n in siblings().get(op, ()) if n in undrawn), "")
