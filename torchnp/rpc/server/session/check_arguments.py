"""Check a frame's arguments against the operator's schema before any kernel gets them.

Kernels trust their arguments: if an array were passed for an int of the schema, the kernel would compute in int64,
which wraps around. So the kinds of all values are first compared with the schema. Accepted combinations of kinds are
cached.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from torchnp.core.schema import Schema, spoken
from torchnp.rpc.server.session.bounded_cache import Room, size_of
from torchnp.rpc.wire import Complex, Dtype, Handle, Ints, Items

Kind = type | frozenset[type]
MOST = 2**63 - 1
_INTS = frozenset({int})
END = "end"
# Cache size in bytes for all operators together; once it is full, new combinations are checked in each call.
REMEMBERED = 16 << 20


class Huge:
    """The kind of an integer beyond int64."""


_NUMBERS = frozenset({bool, int, float, Complex, Huge})
_TAKES: dict[str, frozenset[type]] = {
    "Tensor": frozenset({Handle}),
    "int": frozenset({int, bool}),
    "SymInt": frozenset({int, bool}),
    "float": frozenset({float, int, bool, Huge}),
    "bool": frozenset({bool, int}),
    "Scalar": _NUMBERS,
    "str": frozenset({str}),
    "ScalarType": frozenset({Dtype}),
    "Layout": frozenset({str, int}),
    "Device": frozenset({str}),
    "MemoryFormat": frozenset({str, int}),
}  # values of other types (generators, storages, streams) cannot be sent
_LIST = re.compile(r"(.*)\[(\d*)\]$")
_SPOKEN: dict[type, str] = {Handle: "Tensor", Complex: "complex", Dtype: "dtype", Huge: "int beyond 64 bits"}


def kind_of(value: Any) -> Kind:
    """Return the kind of a value in a frame: its type, or for a list the set of the kinds of its items."""
    kind = type(value)
    if kind is int:
        return Huge if value > MOST else kind  # a frame cannot hold integers below -2**63
    if kind is Ints:
        return _INTS
    if kind is Items:
        return frozenset(map(kind_of, value.items))  # type: ignore[arg-type]  # the items are not lists
    return kind


def takes(type_: str, kind: Kind) -> bool:
    """Return whether a parameter of a schema type accepts a value of a kind."""
    if type_[-1] == "?":
        return kind is type(None) or takes(type_[:-1], kind)
    if found := _LIST.match(type_):
        if isinstance(kind, frozenset):
            return all(takes(found[1], k) for k in kind)
        return bool(found[2]) and takes(found[1], kind)  # one int stands for int[2]
    return not isinstance(kind, frozenset) and kind in _TAKES.get(type_, ())


Good = dict[Any, Any]


def checker(schema: Schema, room: Room | None = None) -> tuple[Callable[[list, dict[str, Any]], str | None], Good]:
    """Return an argument checker for a schema, and its cache of accepted types, which grows while there is room.

    Returns
    -------
    problem : callable
        Takes positional and keyword arguments; returns torch's error text, or None if the arguments are right.
    good : dict
        Trie over argument types, with ``END`` where a purely positional call with these types was accepted. Calls with
        an `Items` list or an integer beyond int64 are not entered, because their Python types do not determine their
        kinds.
    """
    wrong, room = _comparison(schema), room or Room(REMEMBERED)
    good: set[tuple] = set()
    paths: Good = {}

    def problem(args: list, kwargs: dict[str, Any]) -> str | None:
        given = [*args, *kwargs.values()] if kwargs else args
        kinds = (*map(kind_of, given), *kwargs)
        if kinds in good:
            return None
        words = wrong([*map(kind_of, args)], {name: kind_of(x) for name, x in kwargs.items()})
        if words is None and room.take(size_of(kinds) + 256 * len(kinds)):  # for each, a level of the trie
            good.add(kinds)
            types = [*map(type, args)]
            if not kwargs and Items not in types and Huge not in kinds:
                at = paths
                for type_ in types:
                    at = at.setdefault(type_, {})
                at[END] = True
        return words

    return problem, paths


def _comparison(schema: Schema) -> Callable[[list[Kind], dict[str, Kind]], str | None]:
    """Return the check without a cache; it takes the kinds of positional and keyword arguments."""
    by_name = {a.name: a for a in schema.args}
    positional = [a for a in schema.args if not a.kwonly]
    required = [
        (i, a.name) for i, a in enumerate(schema.args) if not a.has_default and not a.type.startswith("Generator")
    ]
    numbers = schema.takes_numbers

    def wrong(kinds: list[Kind], named: dict[str, Kind]) -> str | None:
        if len(kinds) > len(positional):
            return f"{schema.packet}() takes {len(positional)} positional argument(s) but {len(kinds)} was/were given."
        for name in named:
            if name not in by_name:
                return f"Unknown keyword argument '{name}' for operator '{schema.packet}'."
            if any(a.name == name for a in positional[: len(kinds)]):
                return f"{schema.packet}() got multiple values for argument '{name}'."
        for place, name in required:
            if name not in named and place >= len(kinds):
                return f"{schema.packet}() is missing value for argument '{name}'."
        for a, kind in [*zip(positional, kinds), *((by_name[n], k) for n, k in named.items())]:
            if not takes(a.type, kind) and not (numbers and a.type.rstrip("?") == "Tensor" and kind in _NUMBERS):
                found = "list" if isinstance(kind, frozenset) else _SPOKEN.get(kind, kind.__name__)
                return (
                    f"{schema.packet}() Expected a value of type '{spoken(a.type)}' for argument '{a.name}' "
                    f"but instead found type '{found}'."
                )
        return None

    return wrong
