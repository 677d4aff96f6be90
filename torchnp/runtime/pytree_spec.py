"""Nested arguments and results: parse an archive's JSON tree specifications; flatten and rebuild values by them."""

from __future__ import annotations

import functools
import itertools
import keyword
from collections import OrderedDict, deque, namedtuple
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torchnp.runtime.archive import parse_json
from torchnp.runtime.json_fields import ProgramError, as_kind, field

MAX_DEPTH = 100
MAX_PATHS = 1 << 22  # limit on the total characters of all paths
_SEQUENCES: dict[str, Callable[[list], Any]] = {
    "builtins.tuple": tuple,
    "builtins.list": list,
    "torch.Size": tuple,
    "collections.deque": deque,
    "torch.fx.immutable_collections.immutable_list": list,
}
_MAPPINGS = {
    "builtins.dict",
    "collections.OrderedDict",
    "collections.defaultdict",
    "torch.fx.immutable_collections.immutable_dict",
}
_SHORT = {"builtins.tuple": "tuple", "builtins.list": "list", "builtins.dict": "dict"}


@dataclass(frozen=True)
class TreeSpec:
    """One level of a structure.

    Attributes
    ----------
    kind : str
        torch's name of the type; empty for a leaf.
    children : tuple of TreeSpec
        The specifications of the items.
    keys : tuple of str, int, float or bool, or None
        The names of the children, if they have any.
    make : callable
        Builds the value from the list of its children.
    """

    kind: str
    children: tuple[TreeSpec, ...]
    keys: tuple | None
    make: Callable[[list], Any]

    def __str__(self) -> str:
        return self.spell(0)

    def spell(self, indent: int) -> str:
        """Return the specification as torch's messages print it."""
        if not self.kind:
            return "*"
        context = list(self.keys) if self.keys is not None else None
        inner = f",\n{' ' * (indent + 2)}".join(child.spell(indent + 2) for child in self.children)
        return f"TreeSpec({_SHORT.get(self.kind, self.kind.rpartition('.')[2])}, {context}, [{inner}])"

    @property
    def leaves(self) -> int:
        """The number of leaves."""
        return sum(child.leaves for child in self.children) if self.kind else 1

    def build(self, leaves: Iterator[Any]) -> Any:
        """Build the structure from leaf values, in order."""
        return self.make([child.build(leaves) for child in self.children]) if self.kind else next(leaves)

    def paths(self, prefix: str = "") -> Iterator[str]:
        """Yield the path of each leaf in Python notation: ``[0]['a']``."""
        if not self.kind:
            yield prefix
            return
        for i, child in enumerate(self.children):
            key = self.keys[i] if self.keys is not None else i
            yield from child.paths(f"{prefix}[{key!r}]")

    def path_sizes(self) -> tuple[int, int]:
        """Return the number of leaves and the approximate total length of `paths`, without building the paths."""
        if not self.kind:
            return 1, 0
        values = total = 0
        for key, child in zip(self.keys or itertools.repeat(0), self.children):
            inner, length = child.path_sizes()
            values, total = values + inner, total + length + inner * (len(str(key)) + 4)
        return values, total

    def flatten(self, value: Any) -> list[Any]:
        """Return the leaf values of a structure; raise `Mismatch` if it differs from the specification."""
        if not self.kind:
            if _container(value):
                raise Mismatch
            return [value]
        return [leaf for child, x in zip(self.children, self._inner(value)) for leaf in child.flatten(x)]

    def _inner(self, value: Any) -> list[Any]:
        if self.keys is None or isinstance(value, tuple):
            expected = {"builtins.tuple": tuple, "builtins.list": list}.get(self.kind, (list, tuple, deque))
            if not isinstance(value, expected) or len(value) != len(self.children):
                raise Mismatch
            return list(value)
        if not isinstance(value, Mapping) and self.kind not in _MAPPINGS and not _container(value):
            value = getattr(value, "__dict__", None)  # an object of a class that is not known here: use its fields
        if not isinstance(value, Mapping) or set(value) != set(self.keys):
            raise Mismatch
        return [value[key] for key in self.keys]


class Mismatch(Exception):
    """Raised when a value does not have the structure of a specification."""


LEAF = TreeSpec("", (), None, tuple)


def _container(value: Any) -> bool:
    return isinstance(value, (list, tuple, dict, deque))


def describe(value: Any) -> TreeSpec:
    """Return the specification of a caller's value."""
    if isinstance(value, dict):
        return TreeSpec("builtins.dict", tuple(map(describe, value.values())), tuple(value), dict)
    if _container(value):
        kind = "list" if isinstance(value, list) else "tuple" if isinstance(value, tuple) else "deque"
        return TreeSpec(f"builtins.{kind}", tuple(map(describe, value)), None, list)
    return LEAF


def parse_spec(text: str, named: Mapping[str, Any], where: str) -> TreeSpec:
    """Parse the JSON text that ``torch.utils._pytree.treespec_dumps`` writes."""
    record = parse_json(text, where)
    if type(record) is not list or len(record) != 2 or record[0] != 1:
        raise ProgramError(f"{where} is no tree specification of version 1")
    found = _parse(record[1], named, where, 0)
    if (total := found.path_sizes()[1]) > MAX_PATHS:
        raise ProgramError(f"{where} has long keys above many values: the paths of these have {total} characters")
    return found


def _parse(record: Any, named: Mapping[str, Any], where: str, depth: int) -> TreeSpec:
    if depth > MAX_DEPTH:
        raise ProgramError(f"{where} is nested more than {MAX_DEPTH} deep")
    children = tuple(_parse(x, named, where, depth + 1) for x in field(record, "children_spec", list, where))
    kind = record.get("type")
    if kind is None:
        if children:
            raise ProgramError(f"{where} has a leaf with children")
        return LEAF
    as_kind(kind, str, where)
    context = record.get("context")
    context = parse_json(context, where) if type(context) is str and kind != "collections.namedtuple" else context
    if kind in _SEQUENCES:
        return TreeSpec(kind, children, None, _SEQUENCES[kind])
    keys = _keys(kind, context, record, named, where)
    if keys is None:  # a class without named fields: put its children in a list
        return TreeSpec(kind, children, None, list)
    if len(keys) != len(children) or len(set(keys)) != len(keys):
        raise ProgramError(f"{where} has {len(children)} values for the names {list(keys)[:8]}")
    if kind == "collections.namedtuple":
        return TreeSpec(kind, children, keys, _namedtuple(str(record["context"]), keys, where))
    ordered: Callable[[Any], Any] = OrderedDict if kind == "collections.OrderedDict" else dict
    return TreeSpec(kind, children, keys, lambda values: ordered(zip(keys, values)))


def _keys(kind: str, context: Any, record: Any, named: Mapping[str, Any], where: str) -> tuple | None:
    """Return the names of the children of a dict, a namedtuple, a dataclass or another class with fields; else None."""
    if kind == "collections.namedtuple":
        name = str(context).strip('"')
        names = field(named.get(name), "field_names", list, f"{where}: the fields of {name!r}")
    elif kind == "collections.defaultdict":
        names = field(context, "dict_context", list, where)
    elif kind in _MAPPINGS:
        names = as_kind(context, list, where)
    elif type(context) is list and len(context) == 2 and all(type(x) is list for x in context):
        names = context[0]  # a dataclass: a list of its fields, then a list of the fields that are None
    elif type(context) is list:
        names = context
    else:
        return None
    if not all(isinstance(n, (str, int, float, bool)) for n in names):
        if kind in _MAPPINGS or kind == "collections.namedtuple":
            raise ProgramError(f"{where} has keys that are no strings or numbers")
        return None
    return tuple(names)


def _namedtuple(name: str, keys: tuple, where: str) -> Callable[[list], Any]:
    title = name.strip('"').rpartition(".")[2]
    good = all(type(k) is str and k.isidentifier() and not k.startswith("_") and not keyword.iskeyword(k) for k in keys)
    if not good:
        raise ProgramError(f"{where} has a named tuple of the fields {list(keys)[:8]}")
    title = title if title.isidentifier() and not keyword.iskeyword(title) else "Output"
    return lambda values: _class_of(title, keys)(*values)


@functools.lru_cache(256)
def _class_of(title: str, keys: tuple) -> Callable[..., Any]:
    return namedtuple(title, keys)
