"""The conformance harness: is an operator what torch says it is?

Every aten call under torch's OpInfo samples, forward and backward, is recorded below autograd and replayed alone on a
backend: ours first, anybody's by the same code. ``python -m opinfo_tests --ops 'aten::var*'``,
``torchnp conform --backend mylib``, ``pytest --pyargs opinfo_tests --backend package.module:object``.

A backend is one line for a torch device (``device("mydev")``), for a dict of functions on ndarrays (``table(mine)``),
for a ``torch.compile`` backend (``compile("inductor")``) and for an array API library (``array_api("array_api_strict")``);
anything else is a subclass of ``Backend``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .array_api_backend import array_api
    from .backend import Backend, Seen, Table, table
    from .case import Array, Case, Named, Seeded
    from .compile_backend import compile
    from .torch_backend import device

# Looked up on first use: the pytest plugin must not import NumPy, nor a dict of functions torch.
_PLACES = {
    "Array": "case", "Backend": "backend", "Case": "case", "Named": "case", "Seeded": "case", "Seen": "backend",
    "Table": "backend", "array_api": "array_api_backend", "compile": "compile_backend", "device": "torch_backend", "table": "backend",
}  # fmt: skip

__all__ = ["Array", "Backend", "Case", "Named", "Seeded", "Seen", "Table", "array_api", "compile", "device", "table"]


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(importlib.import_module(f".{_PLACES[name]}", __name__), name)
    raise AttributeError(f"module 'opinfo_tests' has no attribute {name!r}")
