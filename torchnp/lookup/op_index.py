"""Facts about the table's rows, read from files so that no kernel is imported; other libraries' rows ask the table."""

from __future__ import annotations

import fnmatch
import functools
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchnp.core.schema import Schema, load
from torchnp.core.target import KNOWN, spell
from torchnp.lookup import array_api_standard

if TYPE_CHECKING:
    from torchnp.core.registry import Kernel

DATA = Path(__file__).parent.parent / "data"


@dataclass(frozen=True)
class Fact:
    """A row of the table: a body's declaration, or the row and the rule that it is derived by."""

    name: str
    family: str = ""
    like: str = ""
    differs: tuple[str, ...] = ()
    doc: str = ""
    rule: str = ""
    source: str = ""

    @property
    def packet(self) -> str:
        return self.name.partition(".")[0]


@dataclass(frozen=True)
class Example:
    """What torch and NumPy give where one operator differs."""

    torch: str
    torch_value: str
    numpy: str
    numpy_value: str
    kernel: str
    in_numpy: str
    in_torch: str


@functools.cache
def schemas() -> dict[str, Schema]:
    """Every known overload: those that torch registers, and those that `import_rows` has added."""
    return dict(load())


def import_rows(space: str) -> bool:
    """Add the rows of another library, declared or from an installed package; return whether there are any.

    Raises
    ------
    ImportError
        The package's module cannot be imported.
    """
    from torchnp.core import libraries

    if space in libraries.OWN or not libraries.import_rows(space):
        return False
    from torchnp import table

    new = {name: s for name, s in table.schemas.items() if s.namespace == space and name not in schemas()}
    schemas().update(new)
    ops().update((name, declared(name)) for name in new)
    rows.cache_clear()
    overloads.cache_clear()
    return True


def declared(name: str, tried: tuple[int, int] | tuple[()] = ()) -> dict[str, Any]:
    """An overload's entry in `ops`, built from the table itself; ``tried`` is what the harness counted."""
    from torchnp.lookup.public_name import public_name

    table = _table_with(name)
    schema, row = table.schemas[name], table.get(name)
    numpy = public_name(row.like) if row else ""
    return {
        "name": name,
        "schema": str(schema),
        "status": table.status(name),
        "family": row.family if row else "",
        "derived_from": row.derived_from or "" if row else "",
        "rule": row.rule or "" if row else "",
        "does": (row.row.body.__doc__ or "").strip().partition("\n")[0] if row else "",
        "numpy": numpy,
        "array_api": array_api_standard.counterpart(_source(table, row).name.partition(".")[0], numpy) if row else None,
        "differences": list(row.row.differs) if row else [],
        "tried": dict(zip(("calls", "right"), tried)),
        "tags": sorted(schema.tags),
        "reason": table.reason(name) or "",
    }


def _table_with(name: str) -> Any:
    """The table, or of overloads that its version of torch lacks the newest that has them."""
    from torchnp import table, table_for

    if name in table.schemas:
        return table
    return next(found for version in reversed(KNOWN) if name in (found := table_for(spell(version))).schemas)


def _source(table: Any, row: Kernel) -> Kernel:
    """The row that is implemented: this one, or the one that it derives from."""
    return _source(table, table[row.derived_from]) if row.derived_from else row


def libraries_like(pattern: str, shipped: bool = True) -> list[str]:
    """The other namespaces with rows, declared or offered by packages, whose names match a pattern.

    ``shipped`` is whether to include those whose rows torchnp itself ships.
    """
    from torchnp.core import libraries

    offered = {*libraries.offered()} - ({*libraries.shipped.MODULES} if not shipped else set())
    found = {*offered, *(s.namespace for s in libraries.SCHEMAS.values())}
    return sorted(fnmatch.filter(found, pattern))


def is_own(name: str) -> bool:
    """Whether an op or an overload is torch's own (aten or prims), whose rows are in this package."""
    return name.startswith(("aten::", "prims::"))


@functools.cache
def ops() -> dict[str, dict[str, Any]]:
    """Every overload of the version that the table describes, by name, in the form of ``ops.json`` and `json_export`.

    The file has the overloads of all versions, each with its newest schema.
    """
    found = {row["name"]: row for row in json.loads((DATA / "ops.json").read_text(encoding="utf-8"))}
    return {name: (found.get(name) or declared(name)) | {"schema": str(schema)} for name, schema in load().items()}


@functools.cache
def rows() -> dict[str, Fact]:
    """Every row of the table, by name."""
    return {name: _fact(row) for name, row in ops().items() if row["family"]}


def _fact(row: dict[str, Any]) -> Fact:
    if row["derived_from"]:
        return Fact(row["name"], rule=row["rule"], source=row["derived_from"])
    return Fact(row["name"], row["family"], row["numpy"], tuple(row["differences"]), row["does"])


@functools.cache
def examples() -> dict[tuple[str, str], Example]:
    """The examples by operator (``"aten::var"``) and difference."""
    found = {}
    for line in _lines("examples.tsv"):
        op, i, *cells = line.split("\t")
        found[op, i] = Example(*cells)
    return found


def tried(names: Iterable[str]) -> dict[str, int]:
    """How many calls tried NumPy's counterpart unchanged, over the proved overloads, and how many were right."""
    found = [ops()[name]["tried"] for name in names if ops()[name]["tried"]]
    return {key: sum(share[key] for share in found) for key in ("calls", "right")} if found else {}


@functools.cache
def callers() -> dict[str, str]:
    """How Python code calls an op: ``{"aten::var": "torch.var"}``, ``F.relu6``, ``Tensor.view``."""
    return dict(line.split("\t") for line in _lines("callers.tsv"))


@functools.cache
def torch_names() -> frozenset[str]:
    """Every public name of torch's main modules and of Tensor: ``torch.var``, ``Tensor.add_``, ``F.relu``."""
    spaces = (line.split("\t") for line in _lines("torch_names.txt"))
    return frozenset(f"{space}.{name}" for space, names in spaces for name in names.split())


def _lines(name: str) -> list[str]:
    return (DATA / name).read_text(encoding="utf-8").splitlines()[1:]


@functools.cache
def overloads() -> dict[str, list[str]]:
    """The overloads of every registered op, first the one that the bare name means."""
    found: dict[str, list[str]] = {}
    for name in schemas():
        found.setdefault(name.partition(".")[0], []).append(name)
    return {op: sorted(names, key=functools.partial(_place, names)) for op, names in found.items()}


def _place(names: list[str], name: str) -> tuple:
    """Sort key: core overloads before others, then those along dimensions before full ones; ``out=`` last."""
    schema = schemas()[name]
    arguments = {a.name for a in schema.args}
    return (
        schema.is_out,
        "Dimname" in schema.text or "Generator" in schema.text or name not in rows(),
        "core" not in schema.tags,
        not arguments & {"dim", "dims"},
        "." in name,
        names.index(name),
    )


def body_of(name: str) -> Fact | None:
    """The declaration behind an overload, its own or that of the row it derives from; None if not provided."""
    fact = rows().get(name)
    while fact is not None and fact.source:
        fact = rows().get(fact.source)
    return fact


def status(name: str) -> str:
    """The `torchnp.table.status` of a registered overload."""
    return ops()[name]["status"]


def why_excluded(name: str) -> str | None:
    """The reason why an overload is not provided, or None if it is."""
    return ops()[name]["reason"] or None


def bodies(op: str) -> list[Fact]:
    """The declarations behind an op's overloads, in the order of the overloads."""
    found = {id(f): f for n in overloads().get(op, ()) if (f := body_of(n)) is not None}
    return list(found.values())


@functools.cache
def ops_like() -> dict[str, list[str]]:
    """The ops by their counterpart in NumPy or SciPy: ``{"numpy.var": ["aten::var"]}``."""
    found: dict[str, dict[str, None]] = {}
    for fact in rows().values():
        if fact.like and is_own(fact.name):
            found.setdefault(fact.like, {})[fact.packet] = None
    return {like: sorted(ops, key=functools.partial(_nearness, like)) for like, ops in found.items()}


def _nearness(like: str, op: str) -> tuple:
    space, _, base = op.partition("::")
    module, _, mine = like.rpartition(".")
    own = f"{module.removeprefix('numpy.')}_{mine}"  # linalg_norm before norm
    return (space == "prims", base.startswith("_"), base != own, base != mine, not is_core(op), "backward" in base)


def is_core(op: str) -> bool:
    """Whether torch tags one of an op's overloads as core."""
    return any("core" in schemas()[n].tags for n in overloads().get(op, ()))
