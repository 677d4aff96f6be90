"""The agreed table: the overloads that both sides number alike."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import torchnp
from torchnp.core.libraries import PREFIXES

# Types of schema arguments that a frame can carry.
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
# They swap or resize storage under live views, or need what a server does not have.
_NEVER = frozenset(["resize_", "resize_as_", "resize_output_", "set_", "set_data", "_resize_output_", "record_stream"])

# Views that their schemas call fresh: what torch writes through them has to arrive, and they lie where views do.
UNSAFE_VIEWS = frozenset(["_unsafe_view", "unsafe_split", "unsafe_split_with_sizes"])


# As many results as there are different values: torch tags these so, and not the forms that write into an out=.
DYNAMIC = frozenset(["_unique", "_unique2", "unique_dim", "unique_consecutive", "unique_dim_consecutive", "bincount"])


def can_travel(schema: Any) -> bool:
    """Whether an overload can be run by a server: tensors come out, and their shapes do not depend on values."""
    if schema.base in _NEVER or schema.base in DYNAMIC or "data_dependent_output" in schema.tags:
        return False
    # An index without masks has a known shape, and `_ctc_loss` with its lengths as numbers.
    if "dynamic_output_shape" in schema.tags and schema.base != "index" and schema.name != "aten::_ctc_loss":
        return False
    if not all(r.type in ("Tensor", "Tensor[]") for r in schema.returns):
        return False
    if not any(a.type.startswith("Tensor") for a in schema.args):
        return False
    return all(a.type.rstrip("?").partition("[")[0].rstrip("?") in _CARRIED for a in schema.args)


class Agreement:
    """The overloads that both sides number alike, and a digest that changes with any name or schema.

    Parameters
    ----------
    table : mapping
        Full overload name to a kernel with a ``schema``, all of it; by default torchnp's own rows. Those of other libraries
        are left out there: what one process has declared must not keep it from a server that has not.
    """

    def __init__(self, table: Mapping[str, Any] | None = None) -> None:
        self.table: Mapping[str, Any] = torchnp.table if table is None else table
        # The real table builds a row when it is asked for, and knows all schemas without.
        self.schemas = getattr(self.table, "schemas", None) or {name: row.schema for name, row in self.table.items()}
        offered = (name for name in self.table if table is not None or name.startswith(PREFIXES))
        self.names = tuple(sorted(name for name in offered if can_travel(self.schemas[name])))
        self.index = {name: i for i, name in enumerate(self.names)}
        text = "\n".join(str(self.schemas[name]) for name in self.names)
        self.digest = hashlib.sha256(text.encode()).hexdigest()[:32]


_default: list[Agreement] = []


def agreement() -> Agreement:
    """The agreement over torchnp's own rows, built once."""
    if not _default:
        _default.append(Agreement())
    return _default[0]
