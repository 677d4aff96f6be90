"""Rows derived from other rows: in-place, ``out=``, ``_copy``, ``_foreach_`` and functional forms.

`derivation` finds a schema's rule and source row; `derive` builds the kernel. `check_write_pattern` raises, when the
table is built, for a schema that writes an argument in a way that no rule covers.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

from torchnp.core.registry import FOREACH, Kernel
from torchnp.core.schema import Schema
from torchnp.derived.forms import MAKERS, pair_arguments, plain_returns
from torchnp.derived.outs import is_factory_of

Schemas = Mapping[str, Schema]

# ---------------------------------------------------------------- finding the source row


def derivation(
    schema: Schema, schemas: Schemas, bases: Mapping[str, Any], above: tuple[str, ...] = ()
) -> tuple[str, str] | None:
    """Return the rule and the source row of a schema, or None if no rule covers it.

    Parameters
    ----------
    bases : mapping
        The declared rows, by name: a source must be one of them or derivable from one.
    above : tuple of str
        The schemas whose search led here. They break cycles, because a functional form and its mutating op are each
        other's candidates.
    """
    path = (*above, schema.name)
    for rule, candidates in _RULES:
        for source in candidates(schema, schemas):
            if source in bases or (source not in path and derivation(schemas[source], schemas, bases, path)):
                return rule, source
    return None


def _same_arguments(a: Schema, b: Schema) -> bool:
    """Return whether the arguments of two schemas match in name and type.

    ``out=`` arguments are ignored, and so is whether an argument is keyword-only, since ``out=`` overloads may change
    this. The first argument's name is not compared: ``dropout(input)`` is ``dropout_(self)`` in place.
    """
    mine, theirs = ([(x.name, x.type) for x in s.args if not x.is_out] for s in (a, b))
    return mine[1:] == theirs[1:] and [t for _, t in mine[:1]] == [t for _, t in theirs[:1]]


def _overloads(packet: str, schemas: Schemas) -> list[Schema]:
    return [schemas[name] for name in _packets(schemas).get(packet, ())]


def _packets(schemas: Schemas) -> dict[str, list[str]]:
    return _packet_index(_Same(schemas))


class _Same:
    """A wrapper that makes a registry hashable by identity."""

    def __init__(self, schemas: Schemas) -> None:
        self.schemas = schemas

    def __hash__(self) -> int:
        return id(self.schemas)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.schemas is self.schemas


def forget_packets() -> None:
    """Clear the packet index, because a registry has changed."""
    _packet_index.cache_clear()


@functools.lru_cache(maxsize=4)
def _packet_index(registry: _Same) -> dict[str, list[str]]:
    index: dict[str, list[str]] = {}
    for name, schema in registry.schemas.items():
        index.setdefault(schema.packet, []).append(name)
    return index


def _out_sources(schema: Schema, schemas: Schemas) -> list[str]:
    if not schema.is_out:
        return []
    # Running statistics are written together with out=; generated forms do not write them, whatever their schema says.
    also = {a.name for a in schema.written if not a.is_out and "generated" not in schema.tags}
    packets = (schema.packet, f"{schema.packet}_functional")
    found = [s for p in packets for s in _overloads(p, schemas) if not s.is_out and {a.name for a in s.written} == also]
    return [s.name for s in found if _same_arguments(s, schema) or is_factory_of(s, schema)]


def _same_named(a: Schema, b: Schema) -> bool:
    """Return whether two schemas have the same arguments, in any order."""
    mine, theirs = ({(x.name, x.type) for x in s.args} for s in (a, b))
    return mine == theirs


def _inplace_sources(schema: Schema, schemas: Schemas) -> list[str]:
    if not schema.is_inplace or len(schema.returns) > 1:
        return []
    if schema.base.startswith("__i"):
        bases = [f"__{schema.base[3:]}"]
    else:
        bases = [schema.base[:-1]] if schema.base.endswith("_") else []
    found = [s for base in bases for s in _overloads(f"{schema.namespace}::{base}", schemas)]
    return [s.name for s in found if not s.mutates and (_same_arguments(s, schema) or _same_named(s, schema))]


def _copy_sources(schema: Schema, schemas: Schemas) -> list[str]:
    if schema.mutates or not schema.base.endswith("_copy"):
        return []
    found = _overloads(f"{schema.namespace}::{schema.base[:-5]}", schemas)
    return [s.name for s in found if s.is_view and _same_arguments(s, schema)]


def _foreach_sources(schema: Schema, schemas: Schemas) -> list[str]:
    if schema.mutates or not schema.base.startswith("_foreach_"):
        return []
    base = schema.base.removeprefix("_foreach_")
    overloads = _FOREACH_OVERLOADS.get(schema.overload, (schema.overload,))
    packet = f"{schema.namespace}::{base}"
    packet = FOREACH.get(base, packet) if schema.namespace == "aten" else packet
    names = [f"{packet}.{o}" if o else packet for o in overloads]
    return [n for n in names if n in schemas and not schemas[n].is_out and _foreach_fits(schema, schemas[n])]


def _foreach_fits(schema: Schema, source: Schema) -> bool:
    """Return whether each argument of a foreach op has a counterpart of its kind in the source.

    The counterpart of a tensor or a tensor list is a tensor, and that of a number is a number.
    """
    pairs = pair_arguments(schema, source)
    kinds = {a.name: a.is_tensor for a in source.args}
    return len(pairs) == len(schema.args) and all(
        kinds[pairs[a.name]] == (a.is_tensor and a.name != "scalars") for a in schema.args
    )


# The overload name of a foreach op tells the kind of its second operand. The single-tensor op's overload for that kind
# has another name.
_FOREACH_OVERLOADS = {
    "": ("",),
    "List": ("Tensor", "", "Tensor_Tensor"),
    "Tensor": ("Tensor", ""),
    "Scalar": ("Scalar", "Tensor_Scalar", ""),
    "ScalarList": ("Scalar", "Tensor_Scalar", ""),
    "ScalarAndTensor": ("Scalar",),
}


def _functional_sources(schema: Schema, schemas: Schemas) -> list[str]:
    """Return mutating sources of an op: `resize` derives from `resize_`, `_fused_adam` from `_fused_adam_`."""
    if schema.mutates or schema.namespace == "prims":
        return []
    packets = [f"{schema.packet}_"]
    if schema.base.endswith("_functional"):
        packets.append(schema.packet.removesuffix("_functional"))
    found = [s for packet in packets for s in _overloads(packet, schemas)]
    return [s.name for s in found if s.mutates and not s.is_out and _same_arguments(s, schema)]


def _mutating_sources(schema: Schema, schemas: Schemas) -> list[str]:
    """Return the functional sources of an op that writes running statistics; they return the new statistics instead."""
    if not schema.mutates or schema.is_out:
        return []
    packets = (f"{schema.packet}_functional", schema.packet.removesuffix("_"))
    found = [s for packet in packets for s in _overloads(packet, schemas)]
    return [
        s.name
        for s in found
        if not s.mutates
        and _same_arguments(s, schema)
        and len(s.returns) == plain_returns(schema) + len(schema.written)
    ]


_RULES: tuple[tuple[str, Callable[[Schema, Schemas], list[str]]], ...] = (
    ("out", _out_sources),
    ("in-place", _inplace_sources),
    ("copy", _copy_sources),
    ("foreach", _foreach_sources),
    ("mutating", _mutating_sources),
    ("functional", _functional_sources),
)


_WRITTEN = re.compile(r"(\w*)\((\w+)!\)")  # the type and alias set of a written argument or result


def check_write_pattern(schema: Schema) -> None:
    """Raise an error if a schema writes its arguments in a way that no rule covers; only its text is checked."""
    if "!" not in schema.text:
        return
    arguments, _, returns = schema.text.rpartition(" -> ")
    written = _WRITTEN.findall(arguments)
    for type_, _ in written:
        if type_ != "Tensor":
            raise TypeError(
                f"{schema.name}: writes {type_!r}, which is no tensor: no rule of torchnp.derived covers it"
            )
    if not {mark for _, mark in _WRITTEN.findall(returns)} <= {mark for _, mark in written}:
        raise TypeError(f"{schema.name}: returns written memory of no argument: no rule of torchnp.derived covers it")


def derive(rule: str, schema: Schema, source: Kernel) -> Callable[..., Any]:
    """Build the kernel that a rule derives from a source row."""
    return MAKERS[rule](schema, source, source.schema, source.row.writes)
