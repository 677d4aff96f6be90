"""The conformance harness: is an operator what torch says it is?

Every aten call under torch's OpInfo samples, forward and backward, is recorded below autograd and replayed alone on a
backend: ours first, anybody's by the same code. ``python -m opinfo_tests --ops 'aten::var*'``.
"""

from __future__ import annotations

from .backend import Backend, Seen, Table, table
from .case import Array, Case, Named, Seeded

__all__ = ["Array", "Backend", "Case", "Named", "Seeded", "Seen", "Table", "device", "table"]


def __getattr__(name: str):
    if name == "device":
        from .torch_backend import device

        return device
    raise AttributeError(f"module 'opinfo_tests' has no attribute {name!r}")
