"""Backends by name: ours, a torch device, an entry point in the group ``torchnp.backends``, or ``package.module:object``."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any

from .backend import Backend, Table
from .torch_backend import TorchDevice

GROUP = "torchnp.backends"


def load_backend(name: str) -> Backend:
    """Return a backend by its name on the command line; an unknown name is an error that lists the known ones."""
    if name == "table":
        import torchnp

        return Table(torchnp.table, "torchnp")
    if name.startswith("torch-"):
        return TorchDevice(name.removeprefix("torch-"))
    found = {e.name: e for e in entry_points(group=GROUP)}
    if name in found:
        return as_backend(found[name].load(), name)
    if ":" in name:
        module, _, attribute = name.partition(":")
        value: Any = importlib.import_module(module)
        for part in attribute.split("."):
            value = getattr(value, part)
        return as_backend(value, name)
    known = ", ".join(["table", "torch-DEVICE", *found, "package.module:object"])
    raise SystemExit(f"opinfo_tests: no backend {name!r}: {known}")


def as_backend(value: Any, name: str) -> Backend:
    """Return the backend that an object is, makes, or holds: a Backend, its class, or a dict of functions."""
    if isinstance(value, type) and issubclass(value, Backend):
        return value()
    if isinstance(value, Backend):
        return value
    if isinstance(value, Mapping):
        return Table(value, name, scalars=True)
    if callable(value):
        return as_backend(value(), name)
    raise SystemExit(f"opinfo_tests: {name} is neither a Backend nor a mapping of functions")
