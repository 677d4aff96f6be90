"""Backends by name: ours, a torch device or compiler, an entry point in the group ``torchnp.backends``, or ``package.module:object``."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any

from .backend import Backend, Table, table
from .torch_backend import device

GROUP = "torchnp.backends"


def own_table() -> Table:
    """Return torchnp's own table as a backend."""
    import torchnp

    return Table(torchnp.table, "torchnp")


def load_backend(name: str) -> Backend:
    """Return a backend by its name on the command line; an unknown name is an error that lists the known ones."""
    if name == "table":
        return own_table()
    found = {e.name: e for e in entry_points(group=GROUP)}
    try:
        if name in found:
            return as_backend(found[name].load(), name)
        if name.startswith("torch-"):
            return device(name.removeprefix("torch-"))
        if name.startswith("compile-"):
            from .compile_backend import compile

            return compile(name.removeprefix("compile-"))
        if ":" in name:
            return as_backend(imported(name), name)
    except (ImportError, AttributeError, ValueError) as e:
        raise SystemExit(f"opinfo_tests: backend {name!r}: {e}") from e
    known = [
        "table",
        "torch-DEVICE (torch-cpu)",
        "compile-NAME (compile-inductor)",
        *sorted(found),
        "package.module:object",
    ]
    raise SystemExit(f"opinfo_tests: no backend {name!r}; there are {', '.join(known)}")


def imported(name: str) -> Any:
    """Return the object that ``package.module:object`` names; modules of the working directory count."""
    module, _, attribute = name.partition(":")
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    value: Any = importlib.import_module(module)
    for part in attribute.split("."):
        value = getattr(value, part)
    return value


def as_backend(value: Any, name: str) -> Backend:
    """Return the backend that an object is, makes, or holds: a Backend, its class, or a dict of functions."""
    if isinstance(value, type) and issubclass(value, Backend):
        return value()
    if isinstance(value, Backend):
        return value
    if isinstance(value, Mapping):
        return table(value, name)
    if callable(value):
        return as_backend(value(), name)
    raise SystemExit(f"opinfo_tests: {name} is neither a Backend nor a mapping of functions")
