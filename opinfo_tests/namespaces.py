"""Other libraries' operators: what there is to judge beside aten and prims, once a namespace is asked for by its name.

A package names a module in the entry point group ``torchnp.samples``, under the namespace of its operators. Importing it
imports the library, so that torch has the operators. What else it has is optional:

- ``samples(op, dtype)``: an iterable of ``(args, kwargs)`` of an overload's full name and a dtype's, as torch spells them;
  arrays or tensors, numbers and lists. It gives none of what it does not know, and for the dtype ``"errors"`` what the
  library refuses.
- ``RULES``: rows of `opinfo_tests.generate.constraints.constraint.rule`, for the calls that are drawn from schemas. Without a row a
  call is made of the schema's types and names alone.
- ``UNDRAWN``: overloads of which no calls are drawn, nor samples with other values made, with the reason: of those that
  trust what they are given and read memory beyond it.
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
# The calls that the rows which torchnp ships are judged by.
OF_SHIPPED = {space: f"opinfo_tests.generate.{space}_calls" for space in shipped.MODULES}


@dataclass(frozen=True)
class Library:
    """What a package's module says of its operators."""

    samples: Callable[[str, str], Iterable[tuple[tuple, dict[str, Any]]]] | None = None
    rules: tuple = ()
    undrawn: dict[str, str] | None = None


LIBRARIES: dict[str, Library] = {}
"""The namespaces that have been asked for."""


def is_other(op: str) -> bool:
    """Return whether an overload is of another library."""
    return not op.startswith(libraries.PREFIXES)


def of(op: str) -> Library:
    """Return what is known of an overload's library."""
    return LIBRARIES.get(op.partition("::")[0], Library())


def offered(pattern: str) -> list[str]:
    """Return the other namespaces that a pattern means: those of installed packages, or the one that it names."""
    if not set(pattern) & set("*?["):
        return [] if pattern in libraries.OWN else [pattern]
    found = {e.name for e in entry_points(group=GROUP)} | {*libraries.offered(), *LIBRARIES}
    return sorted(n for n in found if fnmatchcase(n, pattern))


def import_rows(space: str) -> None:
    """Import a library, its rows and its samples; what torch has of it is registered from then on."""
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
    """Do so in a process that works for another."""
    for space in spaces:
        import_rows(space)


def met() -> tuple[str, ...]:
    """Return the namespaces that have been met, for another process."""
    return tuple(sorted(LIBRARIES))


def why_undrawn(op: str) -> str:
    """Return why no calls of an overload are drawn, by its library's own word, or nothing."""
    undrawn = of(op).undrawn or {}
    return undrawn.get(op, "") or next((undrawn[n] for n in siblings().get(op, ()) if n in undrawn), "")
