"""Typed access to fields of JSON records; error messages name the location in the file."""

from __future__ import annotations

from typing import Any

_KINDS = {
    dict: "an object",
    list: "a list",
    str: "a string",
    int: "an integer",
    bool: "true or false",
    float: "a number",
}


class ProgramError(ValueError):
    """Raised when a file is not a program that `torchnp.load` can run; the message says why, and in which member."""


def as_kind(value: Any, kind: type, where: str) -> Any:
    """Check a value's JSON type and return it.

    An integer also counts as a number; true does not count as an integer.
    """
    if kind is float and type(value) is str and value in ("Infinity", "-Infinity", "NaN"):
        return float(value)
    if kind is float and type(value) is int and abs(value) < 2**1000:
        return float(value)
    if type(value) is not kind:
        raise ProgramError(f"{where} is {_shown(value)}, not {_KINDS[kind]}")
    if type(value) is int and not -(2**63) <= value < 2**64:
        raise ProgramError(f"{where} is an integer of more than 64 bits")
    return value


def field(record: Any, name: str, kind: type, where: str) -> Any:
    """Return a required field of a record, checked to have a JSON type."""
    record = as_kind(record, dict, where)
    if name not in record:
        raise ProgramError(f"{where} has no {name!r}")
    return as_kind(record[name], kind, f"{where}.{name}")


def optional(record: dict[str, Any], name: str, kind: type, where: str) -> Any:
    """Return a field that may be null or absent, and is None then."""
    return None if record.get(name) is None else as_kind(record[name], kind, f"{where}.{name}")


def items(record: Any, name: str, kind: type, where: str) -> list:
    """Return a field that is a list of values of one JSON type."""
    found = field(record, name, list, where)
    return [as_kind(x, kind, f"{where}.{name}[{i}]") for i, x in enumerate(found)]


def union(record: Any, where: str) -> tuple[str, Any]:
    """Return the name and value of a record's only field; the name is the kind."""
    if len(as_kind(record, dict, where)) != 1:
        raise ProgramError(f"{where} must have one field, and has {sorted(record)[:5]}")
    return next(iter(record.items()))


def _shown(value: Any) -> str:
    text = repr(value) if not isinstance(value, (dict, list)) else _KINDS[type(value)]
    return text if len(text) < 60 else f"{text[:57]}..."
