"""Other libraries' operators: namespaces that can be judged beside aten and prims, when asked for by name.

A package names a module in the entry point group ``torchnp.samples``, under the namespace of its operators. Importing
the module imports the library, which registers its operators with torch. The module may also define:

- ``samples(op, dtype)``: an iterable of ``(args, kwargs)`` for an overload's full name and a dtype's name, as torch
  spells them; arguments are arrays or tensors, numbers and lists. It is empty for an unknown overload or dtype. For the
  dtype ``"errors"`` it holds calls that the library refuses.
- ``RULES``: rows of `opinfo_tests.generate.constraints.constraint.rule`, for the calls that are drawn from schemas.
  Without a row, calls follow only the schema's types and names.
- ``UNDRAWN``: overloads, each with the reason, for which the harness draws no calls and changes no sample's values:
  they trust their arguments and would read out of bounds.
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
from .schemas import siblings

GROUP = "torchnp.samples"
# Modules with the sample calls for the other libraries' rows that torchnp ships.
OF_SHIPPED = {space: f"opinfo_tests.generate.samples.{space}_ops" for space in shipped.MODULES}


@dataclass(frozen=True)
class Library:
    """What a package's module declares about its operators."""

    samples: Callable[[str, str], Iterable[tuple[tuple, dict[str, Any]]]] | None = None
    rules: tuple = ()
    undrawn: dict[str, str] | None = None


LIBRARIES: dict[str, Library] = {}
"""What the imported libraries declare, by namespace."""


def is_other(op: str) -> bool:
    """Return whether an overload belongs to another library."""
    return not op.startswith(libraries.PREFIXES)


def of(op: str) -> Library:
    """Return the declarations of an overload's library."""
    return LIBRARIES.get(op.partition("::")[0], Library())


def offered(pattern: str) -> list[str]:
    """Return the other namespaces that a pattern matches among installed packages, or the one that it names."""
    if not set(pattern) & set("*?["):
        return [] if pattern in libraries.OWN else [pattern]
    found = {e.name for e in entry_points(group=GROUP)} | {*libraries.offered(), *LIBRARIES}
    return sorted(n for n in found if fnmatchcase(n, pattern))


def import_rows(space: str) -> None:
    """Import a library, its rows and its samples, and add its registered schemas to ours."""
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
    LIBRARIES[space] = Library(getattr(first, "samples", None), tuple(getattr(first, "RULES", ())), undrawn)
    schemas().update(found)
    siblings.cache_clear()


def meet_all(spaces: Iterable[str]) -> None:
    """Import namespaces in a worker process."""
    for space in spaces:
        import_rows(space)


def met() -> tuple[str, ...]:
    """Return the namespaces imported so far, for `meet_all` in another process."""
    return tuple(sorted(LIBRARIES))


def why_undrawn(op: str) -> str:
    """Return the library's reason that no calls of an overload are drawn, or nothing."""
    undrawn = of(op).undrawn or {}
    return undrawn.get(op, "") or next((undrawn[n] for n in siblings().get(op, ()) if n in undrawn), "")
