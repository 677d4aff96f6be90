"""Facts about the table's rows.

They are read from files, so that no kernel is imported; only facts about other libraries' rows come from the table.
"""

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
    """A row of the table: either the declaration of its function, or the row and the rule from which it derives."""

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
    """An example of one difference for one operator: what torch and NumPy return."""

    torch: str
    torch_value: str
    numpy: str
    numpy_value: str
    kernel: str
    in_numpy: str
    in_torch: str


@functools.cache
def schemas() -> dict[str, Schema]:
    """Return every known overload: those that torch registers, and those that `import_rows` has added."""
    return dict(load())


def import_rows(space: str) -> bool:
    """Add the rows of another library, declared or in an installed package; return whether there are any.

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
    """Return an overload's entry in `ops`, built from the table itself; ``tried`` has the harness's counts of calls."""
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
    """Return the table, or, for an overload that its version lacks, the table of the newest version that has it."""
    from torchnp import table, table_for

    if name in table.schemas:
        return table
    return next(found for version in reversed(KNOWN) if name in (found := table_for(spell(version))).schemas)


def _source(table: Any, row: Kernel) -> Kernel:
    """Return the row that has the body: this one, or the one from which it derives."""
    return _source(table, table[row.derived_from]) if row.derived_from else row


def libraries_like(pattern: str, shipped: bool = True) -> list[str]:
    """Return the other libraries' namespaces with rows, declared or in packages, whose names match a pattern.

    ``shipped`` says whether to include namespaces whose rows torchnp itself contains.
    """
    from torchnp.core import libraries

    offered = {*libraries.offered()} - ({*libraries.shipped.MODULES} if not shipped else set())
    found = {*offered, *(s.namespace for s in libraries.SCHEMAS.values())}
    return sorted(fnmatch.filter(found, pattern))


def is_own(name: str) -> bool:
    """Return whether an op or overload is torch's own (aten or prims), so that its rows belong to this package."""
    return name.startswith(("aten::", "prims::"))


@functools.cache
def ops() -> dict[str, dict[str, Any]]:
    """Return every overload of the target version of torch, by name, in the form of ``ops.json``.

    The file has the overloads of all versions, each with its newest schema.
    """
    found = {row["name"]: row for row in json.loads((DATA / "ops.json").read_text(encoding="utf-8"))}
    return {name: (found.get(name) or declared(name)) | {"schema": str(schema)} for name, schema in load().items()}


@functools.cache
def rows() -> dict[str, Fact]:
    """Return every row of the table, by name."""
    return {name: _fact(row) for name, row in ops().items() if row["family"]}


def _fact(row: dict[str, Any]) -> Fact:
    if row["derived_from"]:
        return Fact(row["name"], rule=row["rule"], source=row["derived_from"])
    return Fact(row["name"], row["family"], row["numpy"], tuple(row["differences"]), row["does"])


@functools.cache
def examples() -> dict[tuple[str, str], Example]:
    """Return the examples by operator (``"aten::var"``) and difference."""
    found = {}
    for line in _lines("examples.tsv"):
        op, i, *cells = line.split("\t")
        found[op, i] = Example(*cells)
    return found


def tried(names: Iterable[str]) -> dict[str, int]:
    """Return how many calls tried NumPy's counterpart unchanged, and how many of them were right.

    Overloads that were not tried do not count.
    """
    found = [ops()[name]["tried"] for name in names if ops()[name]["tried"]]
    return {key: sum(share[key] for share in found) for key in ("calls", "right")} if found else {}


@functools.cache
def callers() -> dict[str, str]:
    """Return how Python code calls each op: ``{"aten::var": "torch.var"}``, ``F.relu6``, ``Tensor.view``."""
    return dict(line.split("\t") for line in _lines("callers.tsv"))


@functools.cache
def torch_names() -> frozenset[str]:
    """Return every public name of torch's main modules and of Tensor: ``torch.var``, ``Tensor.add_``, ``F.relu``."""
    spaces = (line.split("\t") for line in _lines("torch_names.txt"))
    return frozenset(f"{space}.{name}" for space, names in spaces for name in names.split())


def _lines(name: str) -> list[str]:
    return (DATA / name).read_text(encoding="utf-8").splitlines()[1:]


@functools.cache
def overloads() -> dict[str, list[str]]:
    """Return the overloads of every registered op; the first one is the one that the bare name means."""
    found: dict[str, list[str]] = {}
    for name in schemas():
        found.setdefault(name.partition(".")[0], []).append(name)
    return {op: sorted(names, key=functools.partial(_place, names)) for op, names in found.items()}


def _place(names: list[str], name: str) -> tuple:
    """Return a sort key: core overloads first, then reductions along dimensions before full ones; ``out=`` last."""
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
    """Return the declaration of an overload's body, its own or that of its source row; None if it is not provided."""
    fact = rows().get(name)
    while fact is not None and fact.source:
        fact = rows().get(fact.source)
    return fact


def status(name: str) -> str:
    """Return the status of a registered overload, as `torchnp.table.status` does."""
    return ops()[name]["status"]


def why_excluded(name: str) -> str | None:
    """Return why an overload is not provided; None if it is provided."""
    return ops()[name]["reason"] or None


def bodies(op: str) -> list[Fact]:
    """Return the declarations of the bodies of an op's overloads, in the order of the overloads."""
    found = {id(f): f for n in overloads().get(op, ()) if (f := body_of(n)) is not None}
    return list(found.values())


@functools.cache
def ops_like() -> dict[str, list[str]]:
    """Return the ops by their counterpart in NumPy or SciPy: ``{"numpy.var": ["aten::var"]}``."""
    found: dict[str, dict[str, None]] = {}
    for fact in rows().values():
        if fact.like and is_own(fact.name):
            found.setdefault(fact.like, {})[fact.packet] = None
    return {like: sorted(ops, key=functools.partial(_nearness, like)) for like, ops in found.items()}


def _nearness(like: str, op: str) -> tuple:
    space, _, base = op.partition("::")
    module, _, mine = like.rpartition(".")
    own = f"{module.removeprefix('numpy.')}_{mine}"  # puts linalg_norm before norm
    return (space == "prims", base.startswith("_"), base != own, base != mine, not is_core(op), "backward" in base)


def is_core(op: str) -> bool:
    """Return whether torch tags one of an op's overloads as core."""
    return any("core" in schemas()[n].tags for n in overloads().get(op, ()))
