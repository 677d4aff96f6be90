"""Loads backends by name: ours, torch devices, compilers, ``torchnp.backends`` entry points, ``package.module:object``.

torch and cloudpickle are imported only where they are used: ``torchnp requires --backend`` runs without either.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from typing import Any

from .backend import Backend, Table, name_of, table

GROUP = "torchnp.backends"
# default names; a backend with such a name is reported under the name that it was loaded by
UNNAMED = ("table", Backend.name)


def own_table() -> Table:
    """Return torchnp's own table as a backend."""
    import torchnp

    found = Table(torchnp.table, "torchnp", strides=True)
    found.loaded_by = "table"
    return found


def np_device() -> Backend:
    """Return the backend of the torch device ``np``, whose kernels are torchnp's."""
    import torchnp.device

    from .torch_backend import device

    return device(torchnp.device.NAME)


def load_backend(name: str) -> Backend:
    """Return a backend by its command-line name; for an unknown name, exit with a list of the known names."""
    if name == "table":
        return own_table()
    backend = found_backend(name)
    backend.loaded_by = name
    if backend.name in UNNAMED:
        backend.name = name
    return backend


def found_backend(name: str) -> Backend:
    found = {e.name: e for e in entry_points(group=GROUP)}
    try:
        if name in found:
            return as_backend(found[name].load(), name)
        if name.startswith("torch-"):
            from .torch_backend import device

            return device(name.removeprefix("torch-"))
        if name == "numpy-mode":
            from .mode_backend import Mode

            return Mode()
        if name.startswith("compile-"):
            from .compile_backend import compile

            return compile(name.removeprefix("compile-"))
        if name.startswith("remote-"):
            from .remote_backend import remote

            return remote(name.removeprefix("remote-"))
        if name.startswith("engine:"):
            from .engine_backend import engine

            return engine(imported(name.removeprefix("engine:")))
        if name.startswith("array-api-"):
            from .array_api_backend import array_api

            return array_api(name.removeprefix("array-api-"))
        if ":" in name:
            return as_backend(imported(name), name)
    except (ImportError, AttributeError, ValueError) as e:
        raise SystemExit(f"opinfo_tests: backend {name!r}: {e}") from e
    known = [
        "table",
        "numpy-mode",
        "torch-DEVICE (torch-cpu)",
        "compile-NAME (compile-inductor)",
        "array-api-NAME (array-api-strict)",
        "remote-TRANSPORT (remote-local, remote-tcp, remote-tls, remote-grpc, remote-grpcs)",
        "engine:package.module:factory",
        *sorted(found),
        "package.module:object",
    ]
    raise SystemExit(f"opinfo_tests: no backend {name!r}; there are {', '.join(known)}")


def packed(backend: Backend) -> str | bytes:
    """Return the data from which a worker process rebuilds the backend: its name, or the pickled object."""
    if backend.loaded_by:
        return backend.loaded_by
    import cloudpickle

    try:
        return cloudpickle.dumps(backend)
    except Exception as e:
        raise TypeError(
            f"{backend.name}: cannot be sent to worker processes ({e}); load it by name (package.module:object), "
            "or judge in this process with jobs=0"
        ) from e


def unpacked(sent: str | bytes) -> Backend:
    """Return the backend that ``packed`` serialized."""
    if isinstance(sent, str):
        return load_backend(sent)
    import cloudpickle

    return cloudpickle.loads(sent)


def imported(name: str) -> Any:
    """Return the object that ``package.module:object`` names; modules in the working directory are found, too."""
    module, _, attribute = name.partition(":")
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    value: Any = importlib.import_module(module)
    for part in attribute.split("."):
        value = getattr(value, part)
    return value


def as_backend(value: Any, name: str) -> Backend:
    """Return the backend for an object: a Backend, its class, a function that returns one, or a dict of functions."""
    if isinstance(value, type) and issubclass(value, Backend):
        return as_backend(value(), name)
    if isinstance(value, Backend):
        ops: Any = value.ops
        if isinstance(ops, Iterable) and any(not isinstance(op, str) for op in ops):
            value.ops = frozenset(map(name_of, ops))
        return value
    if isinstance(value, Mapping):
        return table(value, name)
    if callable(value):
        return as_backend(value(), name)
    raise SystemExit(f"opinfo_tests: {name} is neither a Backend nor a mapping of functions")
