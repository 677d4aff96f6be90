"""The table: every overload that torch registers, with a NumPy kernel for each provided one."""

from __future__ import annotations

import difflib
import functools
import importlib
import pkgutil
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any, cast

import numpy as np

from torchnp import kernels
from torchnp.core import libraries, target
from torchnp.core.errors import MissingKernelError
from torchnp.core.excluded import reason_of
from torchnp.core.registry import REGISTERED, Kernel
from torchnp.core.schema import Schema, load, of_any_version
from torchnp.derived import rules
from torchnp.layout import apply

STATUSES = ("kernel", "derived", "composite", "excluded", "absent")


class MissingOp(MissingKernelError, KeyError):
    """Raised when the table has no kernel for a name; the message lists close names.

    The message also says whether torch knows the name. It is built only when it is read: finding close names takes
    milliseconds, and ``table.get`` discards the error.
    """

    def __init__(self, name: object, message: Callable[[], str] | str) -> None:
        super().__init__(name)
        self._message = message

    def __str__(self) -> str:
        return self._message if isinstance(self._message, str) else self._message()

    def __reduce__(self) -> tuple:
        return MissingOp, (self.args[0], str(self))


class OpTable(Mapping[str, Kernel]):
    """Read-only mapping from full overload names (``"aten::add.Tensor"``) to kernels.

    It holds the provided overloads. `schemas` holds all overloads that torch registers, plus those of other libraries
    that `torchnp.kernel` declared, in this process's code or in a package that is imported when its namespace is first
    used. `status` classifies each overload: ``kernel`` (a NumPy function), ``derived`` (made by rule from another row),
    ``composite`` (torch defines it through other ops; here it is a function that calls other kernels), ``excluded``
    (not provided, for a `reason`) or ``absent`` (not provided yet).
    """

    def __init__(self, version: target.Version | None = None, families: ModuleType = kernels) -> None:
        for module in pkgutil.walk_packages(families.__path__, f"{families.__name__}."):
            importlib.import_module(module.name)
        self._fixed = version is not None  # whether kernels keep this version when the process's target version changes
        self.version = version or target.current()
        self.schemas: dict[str, Schema] = dict(load(self.version))
        self.namespaces = {space: Namespace(self, space) for space in libraries.OWN}
        self._sources: dict[str, tuple[str, str] | None] = {}
        self._built: dict[str, Kernel] = {}
        libraries.watch(self._take_libraries)
        unknown = [name for name in REGISTERED if name not in self.schemas and name not in of_any_version()]
        if unknown:
            raise ValueError(f"declared, but not in torch's registry: {', '.join(sorted(unknown))}")
        for schema in self.schemas.values():
            rules.check_write_pattern(schema)

    def retarget(self, version: target.Version) -> None:
        """Switch the table to another version of torch.

        `Kernel` objects that were taken from it before stay as they are.
        """
        self.version = version
        self.schemas.clear()
        self.schemas.update(load(version))
        self._sources.clear()
        self._built.clear()
        rules.forget_packets()
        for space in libraries.OWN:
            self.namespaces[space].read(self)
        self._take_libraries()

    def _take_libraries(self) -> None:
        """Replace the known overloads of other libraries with those that are declared now."""
        for name in [n for n in self.schemas if _space(n) not in libraries.OWN]:
            del self.schemas[name]
            self._sources.pop(name, None)
            if name not in libraries.SCHEMAS:
                self._built.pop(name, None)
        self.schemas |= libraries.SCHEMAS
        rules.forget_packets()
        self.__dict__.pop("_names", None)
        for space in {*map(_space, libraries.SCHEMAS), *self.namespaces} - {*libraries.OWN}:
            self.namespaces[space] = Namespace(self, space)

    def __reduce__(self) -> Any:
        # The process's table is pickled by its name in this module, like a function.
        return (table_for, (target.spell(self.version),)) if self._fixed else "table"

    # ------------------------------------------------------------ Mapping

    def __getitem__(self, name: str) -> Kernel:
        """Return the kernel of an overload, by its full name or by torch's object (``torch.ops.aten.add.Tensor``)."""
        found = self._built.get(name)
        if found is None:
            full = _full_name(name)
            found = self._built[name] = self._build(full) if full is name else self[full]
        return found

    def find(self, name: str) -> list[str]:
        """Find the registered overloads for a name: ``var``, ``aten::var``, ``torch.var``, ``aten.var.correction``,
        ``F.relu``, ``Tensor.add``, ``torch.linalg.det``.

        For an overload's name the list holds that overload, for an op's name all of its overloads; for other names it
        is empty.
        """
        spelled = _PYTHON.sub("", name)
        if submodule := _SUBMODULE.match(spelled):
            spelled = f"{submodule[1]}_{submodule[2]}"
        if "::" not in spelled:
            space, _, rest = spelled.partition(".")
            spelled = f"{space}::{rest}" if rest and libraries.import_rows(space) else f"aten::{spelled}"
        self.knows(spelled)
        if spelled.endswith(".default"):
            return [n for n in (spelled.removesuffix(".default"),) if n in self.schemas]
        if "." in spelled:
            return [n for n in (spelled,) if n in self.schemas]
        return [n for n in self.schemas if n.partition(".")[0] == spelled]

    @functools.cached_property
    def _names(self) -> list[str]:
        return [name for name in self.schemas if name in self]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        name = _full_name(name)
        return self.knows(name) and (name in REGISTERED or self._source(name) is not None)

    def knows(self, name: Any) -> bool:
        """Return whether an overload is known; first import the package that has rows for its namespace."""
        if name in self.schemas:
            return True
        space = _space(name) if isinstance(name, str) else ""
        return bool(space) and space not in libraries.OWN and libraries.import_rows(space) and name in self.schemas

    def _source(self, name: Any) -> tuple[str, str] | None:
        """Return the rule and the source row of a derived row.

        They are searched for on demand, because the search takes time.
        """
        if name not in self._sources and self.knows(name):
            self._sources[name] = rules.derivation(self.schemas[name], self.schemas, REGISTERED)
        return self._sources.get(name)

    def __repr__(self) -> str:
        return f"<torchnp.table: {len(self)} of {len(self.schemas)} overloads>"

    # ------------------------------------------------------------ queries

    def status(self, name: str) -> str:
        """Return the status, one of `STATUSES`, of an overload that torch registers or another library declares."""
        if self.knows(name) and name in REGISTERED:
            return "composite" if self.schemas[name].implementation == "implicit" else "kernel"
        if name in self:
            return "derived"
        if name in self.schemas:
            return "absent" if self.reason(name) is None else "excluded"
        raise self._missing(name)

    def reason(self, name: str) -> str | None:
        """Return why an overload is ``excluded``; None for any other overload."""
        if name in self or name not in self.schemas or _space(name) not in libraries.OWN:
            return None
        return reason_of(name)

    def counts(self) -> dict[str, int]:
        """Return the number of overloads by status.

        The total is the size of `schemas`, which includes other libraries' rows.
        """
        found = Counter(map(self.status, self.schemas))
        return {status: found[status] for status in STATUSES}

    def close_names(self, name: str, n: int = 5) -> list[str]:
        """Return provided overloads of the op with that name and of the ops with the closest names, best first."""
        packets: dict[str, list[str]] = {}
        for other in self._names:
            packets.setdefault(other.partition(".")[0], []).append(other)
        return [other for p in _near_packets(name, packets, n) for other in packets[p]][:n]

    def why_not(self, *names: str) -> str:
        """Return, for messages, why a registered overload, or all overloads of an op, are not provided."""
        why = next(filter(None, map(self.reason, names)), None)
        if any(_space(n) not in libraries.OWN for n in names):
            return "no kernel is declared for it"
        return f"torchnp does not provide it: it {why}" if why else "torchnp does not provide it yet (status absent)"

    # ------------------------------------------------------------ building rows

    def _missing(self, name: Any) -> MissingOp:
        return MissingOp(name, functools.partial(self._what_is_missing, name))

    def _what_is_missing(self, name: Any) -> str:
        if not isinstance(name, str):
            if hasattr(name, "overloads"):
                spelled = str(name).replace(".", "::", 1)
                meant = [n if "." in n else f"{n} (its default overload)" for n in self.find(spelled)]
                return f"{name} is an op with several overloads; the table has a row for each: {', '.join(meant)}"
            return f"{name!r} is neither an overload's full name, like 'aten::add.Tensor', nor torch's own object"
        near = self.close_names(name)
        hint = f" Nearest rows: {', '.join(near)}" if near else ""
        if name in self.schemas:
            return f"{name}: {self.why_not(name)}.{hint}"
        if meant := self.find(name):
            return f"{name}: the table's names are spelt {', '.join(meant[:5])}"
        space = _space(name)
        if space in libraries.OWN or not space:
            return f"{name}: torch {target.spell(self.version)} registers no such overload{_elsewhere(name)}.{hint}"
        if space in self.namespaces:
            return f"{name}: no such overload is declared.{hint}"
        spaces = ", ".join(sorted({*self.namespaces, *libraries.offered()}))
        return (
            f"{name}: there are no rows of the namespace {space!r}; there are those of {spaces}. A package declares them by "
            f"torchnp.kernel, in a module that it names in the entry point group {libraries.GROUP}"
        )

    def _build(self, name: str) -> Kernel:
        row = REGISTERED.get(name) if self.knows(name) else None
        if row is not None:
            schema = self.schemas[name]
            return self._attach_metadata(row.build(schema, apply.settler(schema)), name, row, None, row.body)
        found = self._source(name)
        if found is None:
            raise self._missing(name)
        rule, source_name = found
        source = self[source_name]
        made = rules.derive(rule, self.schemas[name], source)
        if rule != "foreach":  # foreach calls the source for each tensor, so the results already have torch's strides
            made = apply.settled(made, self.schemas[name])
        return self._attach_metadata(made, name, source.row, source_name, None, rule)

    def _attach_metadata(
        self, made: Callable[..., Any], name: str, row: Any, source: str | None, body: Any, rule: str | None = None
    ) -> Kernel:
        """Set a row's metadata as attributes of its function."""
        schema = self.schemas[name]
        if hasattr(made, "schema"):  # the rule returned the source itself, but the row needs its own function
            made = _forward(made)
        if self._fixed:
            made = target.fixed(made, self.version)
        # Pickle finds the function by this path: torchnp.aten.add.Tensor.
        made.__name__, made.__module__ = schema.base, "torchnp"
        made.__qualname__ = f"{schema.namespace}.{schema.base}.{schema.overload or 'default'}"
        made.__doc__ = f"``{source}``, {_RULE_DOC[rule]}" if rule else body.__doc__
        vars(made).update(
            name=name,
            schema=schema,
            status=self.status(name),
            derived_from=source,
            rule=rule,
            like=row.like,
            differences=_differences(row.differs),
            family=row.family,
            row=row,
        )
        if body is not None:
            vars(made)["__wrapped__"] = body
        return cast("Kernel", made)


def _elsewhere(name: str) -> str:
    """Return the end of an error message, which names the versions of torch that have the overload; "" if none has."""
    having = [target.spell(v) for v in target.KNOWN if name in load(v)]
    return (
        f"; {' and '.join(having)} {'does' if len(having) == 1 else 'do'}: torchnp.table_for('{having[-1]}')"
        if having
        else ""
    )


def _space(name: str) -> str:
    """Return the namespace of a full name; "" for any other name."""
    space, colons, _ = name.partition("::")
    return space if colons else ""


def _full_name(name: Any) -> Any:
    """Return the full name of torch's own overload object; anything else unchanged."""
    own = None if isinstance(name, str) else getattr(name, "name", None)
    return own() if callable(own) else name


# Prefixes of an op's name in Python code.
_PYTHON = re.compile(r"^(torch\.)?(ops\.|nn\.functional\.|F\.|Tensor\.)?")
_SUBMODULE = re.compile(r"(linalg|special|fft)\.(\w+)$")


def _near_packets(name: str, packets: Iterable[str], n: int) -> list[str]:
    """Return the ops with the most similar names, best first.

    Names are compared with their namespace: the common prefix "aten::" lifts short names above the similarity cutoff.
    """
    packet = (name if "::" in name else f"aten::{name}").partition(".")[0]
    known = list(packets)
    near = [packet] if packet in known else []
    return list(dict.fromkeys(near + difflib.get_close_matches(packet, known, n=n, cutoff=0.7)))


_RULE_DOC = {
    "in-place": "written into its first argument.",
    "out": "written into out=, which is resized when its shape is wrong.",
    "copy": "with a copy as its result in place of a view.",
    "foreach": "for each tensor of a list.",
    "functional": "with the written arguments returned in place of written.",
    "mutating": "with the new values written into the arguments.",
}


def _forward(source: Callable[..., Any]) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        return source(*args, **kwargs)

    return kernel


def _differences(ids: tuple[str, ...]) -> tuple:
    from torchnp.difference_catalogue import CATALOGUE

    return tuple(CATALOGUE[i] for i in ids if i in CATALOGUE)


# ---------------------------------------------------------------- torchnp.aten, torchnp.prims


class Namespace:
    """A namespace such as ``torchnp.aten``: its attributes are the packets, as in ``torch.ops.aten``."""

    def __init__(self, table: OpTable, namespace: str) -> None:
        self._namespace = namespace
        self.read(table)

    def read(self, table: OpTable) -> None:
        """Read the ops of a table and forget those that were read before."""
        namespace = self._namespace
        self.__dict__.clear()
        self._table, self._namespace = table, namespace
        self._overloads: dict[str, list[str]] = {}  # all overloads of each packet, provided or not
        for name in table.schemas:
            space, _, rest = name.partition("::")
            if space == namespace:
                self._overloads.setdefault(rest.partition(".")[0], []).append(name)

    @functools.cached_property
    def _packets(self) -> list[str]:
        return [base for base, names in self._overloads.items() if any(name in self._table for name in names)]

    def __getattr__(self, base: str) -> Packet:
        if base.startswith(("_table", "_overloads")):
            raise AttributeError(base)
        names = [name for name in self._overloads.get(base, ()) if name in self._table]
        if not names:
            spelled = [f"{self._namespace}::{packet}" for packet in self._packets]
            near = _near_packets(f"{self._namespace}::{base}", spelled, 5)
            hint = f"; nearest: {', '.join(p.partition('::')[2] for p in near)}" if near else ""
            if all_ := self._overloads.get(base):
                raise AttributeError(f"{self._namespace}::{base}: {self._table.why_not(*all_)}{hint}")
            raise AttributeError(f"torchnp.{self._namespace} has no op {base!r}{hint}")
        packet = self.__dict__[base] = Packet(self._table, f"{self._namespace}::{base}", names)
        return packet

    def __reduce__(self) -> tuple:
        return namespace, (self._namespace,)

    def __dir__(self) -> list[str]:
        return sorted(self._packets)

    def __repr__(self) -> str:
        return f"<torchnp.{self._namespace}: {len(self._packets)} ops>"


# For these types the schema match does not depend on the value, so the chosen overload can be cached.
_PLAIN = frozenset({int, float, bool, complex, type(None)}) | {np.ndarray}


class Packet:
    """All overloads of an op; a call picks the overload by its schema, like ``torch.ops.aten.add``."""

    def __init__(self, table: OpTable, name: str, names: list[str]) -> None:
        self._table, self._name, self._names = table, name, names
        self._chosen: dict[tuple, Kernel] = {}
        self.__name__ = name.partition("::")[2]

    def __reduce__(self) -> tuple:
        space, _, base = self._name.partition("::")
        return getattr, (namespace(space), base)

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        """The overloads' schemas and descriptions."""
        rows = [self._table[n] for n in self._names if not self._table.schemas[n].is_out]
        return "\n\n".join(f"{row.schema}\n    {row.__doc__}" for row in rows)

    def overloads(self) -> list[str]:
        """Return the overload names; the default overload is ``"default"``."""
        return [n.partition(".")[2] or "default" for n in self._names]

    def __getattr__(self, overload: str) -> Kernel:
        if overload.startswith("__"):
            raise AttributeError(overload)
        full = self._name if overload == "default" else f"{self._name}.{overload}"
        if full not in self._table:
            spelled = self._name.replace("::", ".")
            raise AttributeError(
                f"The underlying op of '{spelled}' has no overload name '{overload}'; "
                f"torchnp has {', '.join(self.overloads())}"
            )
        kernel = self.__dict__[overload] = self._table[full]
        return kernel

    def resolve(self, args: tuple, kwargs: dict[str, Any]) -> Kernel:
        """Return the first overload, in torch's order, whose schema accepts the arguments.

        Raises
        ------
        RuntimeError
            No schema accepts the arguments; the message lists the reasons, in torch's words.
        """
        problems = []
        for name in self._names:
            problem = self._table.schemas[name].mismatch(args, kwargs)
            if problem is None:
                return self._table[name]
            problems.append(str(problem))
        if len(problems) == 1:
            raise RuntimeError(problems[0])
        raise RuntimeError(
            "Overloaded torch operator invoked from Python failed to match any schema:\n" + "\n\n".join(problems)
        )

    def __dir__(self) -> list[str]:
        return sorted([*self.overloads(), "overloads"])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs:
            return self.resolve(args, kwargs)(*args, **kwargs)
        key = tuple(map(type, args))
        kernel = self._chosen.get(key)
        if kernel is None:
            kernel = self.resolve(args, kwargs)
            if _PLAIN.issuperset(key):
                self._chosen[key] = kernel
        return kernel(*args)

    def __repr__(self) -> str:
        return f"<torchnp packet {self._name}: {', '.join(self.overloads())}>"


table = OpTable()
aten, prims = table.namespaces["aten"], table.namespaces["prims"]


@functools.cache
def _fixed_table(version: target.Version) -> OpTable:
    return OpTable(version)


def table_for(version: str) -> OpTable:
    """Return a table for one version of torch, independent of the process's own table.

    Parameters
    ----------
    version : str
        A minor version, such as ``"2.13"``.

    Returns
    -------
    OpTable
        Its kernels always behave as in that version, whatever the process's target version is.

    Raises
    ------
    ValueError
        torchnp does not know that version.

    Examples
    --------
    >>> "aten::qr" in torchnp.table_for("2.13"), "aten::qr" in torchnp.table_for("2.14")
    (True, False)
    """
    return _fixed_table(target.known(version))


def namespace(space: str) -> Namespace:
    """Return the ops of a namespace as attributes: ``torchnp.aten``, or another library's.

    Raises
    ------
    AttributeError
        The namespace has no rows.
    """
    if not libraries.import_rows(space) or space not in table.namespaces:
        raise AttributeError(f"there are no rows of the namespace {space!r}: {', '.join(sorted(table.namespaces))}")
    return table.namespaces[space]
