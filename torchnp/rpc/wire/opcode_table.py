"""The table of opcodes on which client and server agree: both give each overload the same number."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import torchnp
from torchnp.core.libraries import OWN, PREFIXES, import_rows, offered

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

    Attributes
    ----------
    libraries : dict
        For each other library whose operators are included too: their number, and the digest of their schemas. Their
        numbers come after torchnp's own, library by library.
    """

    libraries: dict[str, tuple[int, str]]

    def __init__(self, table: Mapping[str, Any] | None = None) -> None:
        self.table: Mapping[str, Any] = torchnp.table if table is None else table
        # torchnp's table builds rows lazily, and its `schemas` need no rows.
        self.schemas = getattr(self.table, "schemas", None) or {name: row.schema for name, row in self.table.items()}
        offered = (name for name in self.table if table is not None or name.startswith(PREFIXES))
        self.names = tuple(sorted(name for name in offered if can_travel(self.schemas[name])))
        self.index = {name: i for i, name in enumerate(self.names)}
        self.digest = _digest(self.schemas[name] for name in self.names)
        self.libraries = {}

    def with_libraries(self, libraries: Iterable[str]) -> Agreement:
        """Return an agreement, for a server, that includes other libraries' operators.

        Raises
        ------
        ValueError
            Neither torchnp nor an installed package has rows for a library, or none of its operators can travel.
        """
        larger = copy.copy(self)
        larger.libraries = {}
        for library in dict.fromkeys(libraries):
            if not isinstance(library, str) or library in OWN or not import_rows(library):
                known = ", ".join(offered()) or "none"
                raise ValueError(f"{library!r} is no library with rows in torchnp.table; those with rows are {known}")
            names, digest = operators_of(library)
            if not names:
                raise ValueError(f"no operator of {library!r} can be sent to a server: see torchnp.rpc.wire.can_travel")
            larger.names += names
            larger.libraries[library] = len(names), digest
        larger.index = {name: i for i, name in enumerate(larger.names)}
        larger.schemas = torchnp.table.schemas
        return larger

    def with_server_libraries(self, libraries: Iterable[tuple[str, int, str]]) -> tuple[Agreement, set[str]]:
        """Return an agreement, for a client, that includes a server's libraries, and the names of those that differ here.

        A library differs if this process has no rows for it, or rows with other schemas. Its operators take up numbers,
        but cannot be called.

        Parameters
        ----------
        libraries : iterable of (str, int, str)
            Name, number of operators, and digest of each library, in the server's order.
        """
        larger, differing = copy.copy(self), set()
        larger.index, larger.libraries = dict(self.index), {}
        for library, count, digest in libraries:
            names, own_digest = _operators_here(library)
            if (len(names), own_digest) == (count, digest):
                larger.index |= {name: len(larger.names) + i for i, name in enumerate(names)}
                larger.libraries[library] = count, digest
            else:
                differing.add(library)
                names = (f"{library}::?",) * count
            larger.names += names
        return larger, differing


def _operators_here(library: str) -> tuple[tuple[str, ...], str]:
    """Return `operators_of` a library that a server names; no names if there are no rows for it, or they fail to load."""
    try:
        known = library not in OWN and import_rows(library)
    except ImportError:
        known = False
    return operators_of(library) if known else ((), "")


def operators_of(library: str) -> tuple[tuple[str, ...], str]:
    """Return the overloads of another library that a server can run, and the digest of their schemas.

    The library's rows must have been imported. In-place and ``out=`` forms are left out, because the client derives them
    from the functional overloads.
    """
    schemas = {n: s for n, s in torchnp.table.schemas.items() if n.startswith(f"{library}::") and n in torchnp.table}
    names = tuple(sorted(name for name, schema in schemas.items() if not schema.mutates and can_travel(schema)))
    return names, _digest(schemas[name] for name in names)


def _digest(schemas: Iterable[Any]) -> str:
    return hashlib.sha256("\n".join(map(str, schemas)).encode()).hexdigest()[:32]


_default: list[Agreement] = []


def agreement() -> Agreement:
    """Return the `Agreement` for torchnp's own operators; it is built on first use."""
    if not _default:
        _default.append(Agreement())
    return _default[0]
