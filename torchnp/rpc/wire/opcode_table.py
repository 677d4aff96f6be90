"""The table of opcodes on which client and server agree: both give each overload the same number."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import torchnp
from torchnp.core.libraries import PREFIXES

# Schema argument types that a frame can carry.
_CARRIED = frozenset(
    [
        "Tensor",
        "int",
        "SymInt",
        "float",
        "bool",
        "Scalar",
        "str",
        "ScalarType",
        "Layout",
        "Device",
        "MemoryFormat",
        "Generator",
    ],
)
# Overloads that replace or resize storage while views of it exist, or that need something a server does not have.
_NEVER = frozenset(["resize_", "resize_as_", "resize_output_", "set_", "set_data", "_resize_output_", "record_stream"])

# Overloads that return views although their schemas declare new results. Writes through these views must reach the
# base, and their layout is that of a view.
UNSAFE_VIEWS = frozenset(["_unsafe_view", "unsafe_split", "unsafe_split_with_sizes"])


# Overloads whose number of results depends on the number of distinct values. torch tags them as dynamic, but not their
# out= forms.
DYNAMIC = frozenset(["_unique", "_unique2", "unique_dim", "unique_consecutive", "unique_dim_consecutive", "bincount"])


def can_travel(schema: Any) -> bool:
    """Return whether a server can run an overload: all results are tensors whose shapes do not depend on values."""
    if schema.base in _NEVER or schema.base in DYNAMIC or "data_dependent_output" in schema.tags:
        return False
    # Shapes are known for `index` without masks, and for `_ctc_loss` if the lengths are given as numbers.
    if "dynamic_output_shape" in schema.tags and schema.base != "index" and schema.name != "aten::_ctc_loss":
        return False
    if not all(r.type in ("Tensor", "Tensor[]") for r in schema.returns):
        return False
    if not any(a.type.startswith("Tensor") for a in schema.args):
        return False
    return all(a.type.rstrip("?").partition("[")[0].rstrip("?") in _CARRIED for a in schema.args)


class Agreement:
    """The overloads that have the same numbers on both sides, and a digest that changes with any name or schema.

    Parameters
    ----------
    table : mapping
        Maps full overload names to kernels with a ``schema``. The default is torchnp's table without other libraries'
        rows, so that an operator declared only in one process does not make it incompatible with a server.
    """

    def __init__(self, table: Mapping[str, Any] | None = None) -> None:
        self.table: Mapping[str, Any] = torchnp.table if table is None else table
        # torchnp's table builds rows lazily, and its `schemas` need no rows.
        self.schemas = getattr(self.table, "schemas", None) or {name: row.schema for name, row in self.table.items()}
        offered = (name for name in self.table if table is not None or name.startswith(PREFIXES))
        self.names = tuple(sorted(name for name in offered if can_travel(self.schemas[name])))
        self.index = {name: i for i, name in enumerate(self.names)}
        text = "\n".join(str(self.schemas[name]) for name in self.names)
        self.digest = hashlib.sha256(text.encode()).hexdigest()[:32]


_default: list[Agreement] = []


def agreement() -> Agreement:
    """Return the `Agreement` for torchnp's own operators; it is built on first use."""
    if not _default:
        _default.append(Agreement())
    return _default[0]
