"""Operator schemas: parse torch's own text, classify it, and match it against the arguments of a call."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path
from typing import Any

import numpy as np

from torchnp.core.python_scalars import too_wide
from torchnp.core.target import Version, current, parse
from torchnp.dtypes import category

ndarray = np.ndarray
REQUIRED: Any = type("Required", (), {"__repr__": lambda self: "<required>", "__slots__": ()})()

# Reserved words of Python that torch uses as argument names; the NumPy functions append an underscore.
RESERVED = {"from": "from_", "lambda": "lambda_", "in": "in_"}


class Argument:
    """One argument of a schema: its name, type without alias marks, default and alias set."""

    __slots__ = ("alias", "default", "is_write", "kwonly", "name", "type")

    def __init__(self, text: str, kwonly: bool) -> None:
        typed, _, default = text.partition("=")
        spelled, _, self.name = typed.rpartition(" ")
        self.kwonly = kwonly
        self.type, self.alias, self.is_write = _strip_alias(spelled)
        self.default = _parse_default(default, self.type) if default else REQUIRED

    @property
    def has_default(self) -> bool:
        return self.default is not REQUIRED

    @property
    def is_out(self) -> bool:
        return self.kwonly and self.is_write

    @property
    def is_tensor(self) -> bool:
        return self.type.startswith("Tensor")

    def __repr__(self) -> str:
        return f"{self.type} {self.name}"


_argument = functools.cache(Argument)  # four in five recur verbatim in another schema


class Return:
    """One result of a schema: its type and, if it aliases an argument, the alias set."""

    __slots__ = ("alias", "is_write", "name", "type")

    def __init__(self, text: str) -> None:
        spelled, _, name = text.partition(" ") if not text.startswith("Tensor(") else _split_after_type(text)
        self.name = name
        self.type, self.alias, self.is_write = _strip_alias(spelled)

    def __repr__(self) -> str:
        return self.type


_ALIAS = re.compile(r"\(([^()]*)\)")


def _strip_alias(spelled: str) -> tuple[str, str | None, bool]:
    found = _ALIAS.search(spelled)
    if not found:
        return spelled, None, False
    mark = found[1]
    return spelled[: found.start()] + spelled[found.end() :], mark.rstrip("!").split(" ")[0].rstrip("!"), "!" in mark


def _split_after_type(text: str) -> tuple[str, str, str]:
    end = text.index(")") + 1
    while end < len(text) and text[end] in "[]?":
        end += 1
    return text[:end], "", text[end:].strip()


# torch prints enum defaults as numbers or names, and string defaults in quotes.
@functools.cache
def _parse_default(text: str, type_: str) -> Any:
    if text in ("contiguous_format", "preserve_format", "channels_last", "Mean"):
        return 1 if text == "Mean" else text
    if type_.rstrip("?") == "str":
        return None if text == "None" else ast.literal_eval(text)
    value = ast.literal_eval(text)
    fixed = re.search(r"\[(\d+)\]", type_)
    if fixed and isinstance(value, (int, float)) and not isinstance(value, bool):
        return [value] * int(fixed[1])
    return float(value) if type_ == "float" and value is not None else value


_GROUPED = re.compile(r"""[\["]|Dict\(""")


def _split(text: str) -> list[str]:
    """Split at commas outside brackets and quotes."""
    if not _GROUPED.search(text):
        return text.split(", ") if text else []
    return _PART.findall(text)


_PART = re.compile(r"""(?:[^,"\[(]|\[[^]]*\]|\([^)]*\)|"(?:[^"\\]|\\.)*")+?(?=, |$)""")


class Schema:
    """A parsed operator schema; ``str(schema)`` is torch's own text.

    Attributes
    ----------
    name : str
        Full overload name, ``"aten::add.Tensor"``; the default overload has no suffix.
    namespace, base, overload : str
        Parts of the name; ``overload`` is ``""`` for the default one.
    args, returns : tuple
        Lists of `Argument` and of `Return` objects.
    tags : frozenset of str
        torch's tags (``"core"``, ``"pointwise"``, ``"view_copy"``, ...), and ``"numbers_as_tensors"``.
    implementation : str
        ``"implicit"`` (torch defines it through other ops), ``"explicit"`` or ``"direct"``.
    """

    def __init__(self, text: str, tags: str = "", implementation: str = "direct") -> None:
        self.text, self.implementation = text, implementation
        self.tags = frozenset(tags.split())
        head, _, returns = text.rpartition(") -> ")
        self.name, _, arguments = head.partition("(")
        self.namespace, _, rest = self.name.partition("::")
        self.base, _, self.overload = rest.partition(".")
        self._arguments, self._returns = arguments, returns

    @functools.cached_property
    def args(self) -> tuple[Argument, ...]:
        kwonly, found = False, []
        for part in map(str.strip, _split(self._arguments)):
            if part == "*":
                kwonly = True
            else:
                found.append(_argument(part, kwonly))
        return tuple(found)

    @functools.cached_property
    def returns(self) -> tuple[Return, ...]:
        text = self._returns
        if text.startswith("(") and text.endswith(")"):
            text = text[1:-1]
        return tuple(Return(part) for part in map(str.strip, _split(text)))

    @property
    def packet(self) -> str:
        return f"{self.namespace}::{self.base}"

    @property
    def takes_numbers(self) -> bool:
        """Whether torch accepts Python numbers for the op's Tensor arguments when it is called by overload."""
        return "numbers_as_tensors" in self.tags or self.name.startswith("prims::")

    @functools.cached_property
    def written(self) -> tuple[Argument, ...]:
        """The arguments that the op writes."""
        return tuple(a for a in self.args if a.is_write)

    @property
    def mutates(self) -> bool:
        return "!" in self._arguments and bool(self.written)

    @functools.cached_property
    def is_view(self) -> bool:
        """Whether a result shares memory with an argument, and the op writes no argument."""
        return not self.mutates and any(r.alias for r in self.returns)

    @functools.cached_property
    def is_out(self) -> bool:
        return any(a.is_out for a in self.args)

    @functools.cached_property
    def is_inplace(self) -> bool:
        """Whether the op writes its first argument and no other: ``add_``, ``__iadd__``, ``_foreach_add_``."""
        return self.mutates and not self.is_out and self.args[0].is_write and len(self.written) == 1

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Schema({self.text!r})"

    # ------------------------------------------------------------ calls

    def bind(self, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Map argument names to values, in schema order, with defaults filled in.

        Raises
        ------
        RuntimeError
            Too many or too few arguments, an unknown keyword, or a value of the wrong type, in torch's words.
        """
        problem = self.mismatch(args, kwargs)
        if problem is not None:
            raise problem
        bound = dict(zip((a.name for a in self.args), args, strict=False))
        for a in self.args[len(args) :]:
            bound[a.name] = kwargs.get(a.name, a.default)
        for a in self.args:
            number = _NUMBERS.get(a.type)
            if number is not None and type(bound[a.name]) is ndarray:
                bound[a.name] = number(bound[a.name].reshape(-1)[0])
        return bound

    def mismatch(self, args: tuple, kwargs: dict[str, Any]) -> Exception | None:
        """Return the error that torch raises if a call's arguments do not match the schema, or None."""
        declared = self.args
        positional = sum(not a.kwonly for a in declared)
        if len(args) + len(kwargs) > len(declared):
            return RuntimeError(
                f"{self.packet}() expected at most {len(declared)} argument(s) "
                f"but received {len(args) + len(kwargs)} argument(s). Declaration: {self.text}"
            )
        if len(args) > positional:
            return RuntimeError(
                f"{self.packet}() takes {positional} positional argument(s) but {len(args)} was/were given.  "
                f"Declaration: {self.text}"
            )
        used = 0
        for position, a in enumerate(declared):
            if position < len(args):
                value = args[position]
            elif a.name in kwargs:
                value = kwargs[a.name]
                used += 1
            elif a.has_default:
                continue
            else:
                return RuntimeError(
                    f"{self.packet}() is missing value for argument '{a.name}'. Declaration: {self.text}"
                )
            if not fits(value, a.type, self.takes_numbers):
                problem = too_wide(value) if a.type.startswith(("Scalar", "Tensor")) else None
                if problem is not None:
                    return problem
                kind = next((name for t, name in _TYPES.items() if isinstance(value, t)), type(value).__name__)
                return RuntimeError(
                    f"{self.packet}() Expected a value of type '{spoken(a.type)}' for argument '{a.name}' "
                    f"but instead found type '{kind}'.\nPosition: {position}\nValue: {value!r}\n"
                    f"Declaration: {self.text}{_hint(value, a.type)}"
                )
        if used < len(kwargs):
            names = {a.name for a in declared[len(args) :]}
            unknown = next((k for k in kwargs if k not in names), None)
            if unknown is not None:
                return RuntimeError(
                    f"Unknown keyword argument '{unknown}' for operator '{self.packet}'. Schema: {self.text}"
                )
        return None


# ---------------------------------------------------------------- values and types


def _is_real(x: Any) -> bool:
    """Return whether a value is a tensor of one real number, which torch accepts as a number."""
    return type(x) is ndarray and x.size == 1 and category(x.dtype) < 3


def _is_int(x: Any) -> bool:
    return (isinstance(x, (int, np.integer)) and bool(-(2**63) <= x < 2**63)) or _is_real(x)


def _is_float(x: Any) -> bool:
    if isinstance(x, int):
        return -_DOUBLE_LIMIT < x < _DOUBLE_LIMIT
    return isinstance(x, (float, np.floating, np.integer)) or _is_real(x)


_DOUBLE_LIMIT = 2**1024 - 2**970  # integers of at least this size overflow a double


def _is_dtype(x: Any) -> bool:
    return isinstance(x, (str, int, np.dtype, type)) or is_torchs(x, "dtype")


def is_torchs(x: Any, *kinds: str) -> bool:
    """Return whether a value is torch's own object of one of these types; torch is not imported."""
    return type(x).__module__ == "torch" and type(x).__name__ in kinds


_TYPES = {ndarray: "Tensor", np.dtype: "dtype"}  # types that torch names differently
_FITS = {
    "int": _is_int,
    "SymInt": _is_int,
    "float": _is_float,
    "bool": lambda x: isinstance(x, (bool, int, np.bool_)) or (type(x) is ndarray and x.size == 1),
    "Scalar": lambda x: isinstance(x, (bool, int, float, complex, np.generic)) and not too_wide(x),
    "str": lambda x: isinstance(x, str),
    "ScalarType": _is_dtype,
    "Layout": lambda x: isinstance(x, (str, int)) or is_torchs(x, "layout"),
    "Device": lambda x: isinstance(x, (str, int)) or is_torchs(x, "device"),
    "MemoryFormat": lambda x: isinstance(x, (str, int)) or is_torchs(x, "memory_format"),
    "Generator": lambda x: type(x).__name__ == "Generator" and hasattr(x, "random32"),
}
_NUMBERS = {f"{name}{mark}": kind for name, kind in (("int", int), ("SymInt", int), ("float", float), ("bool", bool))
            for mark in ("", "?")}  # fmt: skip
_LIST = re.compile(r"(.*)\[(\d*)\]$")


def is_type(text: str) -> bool:
    """Return whether a schema may have this type: a known type, a class that a library registers, or an opaque one."""
    base = text.rstrip("?")
    found = _LIST.match(base)
    base = found[1].rstrip("?") if found else base
    return base in _FITS or base in ("Tensor", "Any", "Storage", "()") or base.startswith("__torch__.")


def fits(value: Any, type_: str, numbers: bool = False) -> bool:
    """Return whether torch accepts ``value`` for an argument of schema type ``type_``."""
    if type_[-1] == "?":
        return value is None or fits(value, type_[:-1], numbers)
    if type_ == "Tensor":
        return (
            type(value) is ndarray
            or isinstance(value, (ndarray, np.generic))
            or (numbers and isinstance(value, (int, float, complex)) and not too_wide(value))
        )
    test = _FITS.get(type_)
    if test is not None:
        return test(value)
    found = _LIST.match(type_)
    if found:
        if isinstance(value, (list, tuple)):
            return all(fits(x, found[1]) for x in value)
        return bool(found[2]) and found[1] != "Tensor" and fits(value, found[1])
    return True  # Storage, Stream and other opaque types cannot be checked


def _hint(value: Any, type_: str) -> str:
    """Return a hint on what to pass for a tensor if the value is one that users often pass by mistake; else ""."""
    if not type_.startswith("Tensor"):
        return ""
    values = value if isinstance(value, (list, tuple)) else (value,)
    if any(type(x).__module__.partition(".")[0] == "torch" for x in values):
        return "\ntorchnp computes on NumPy arrays: pass torchnp.interop.to_numpy(x), or run torch's code in NumpyMode"
    if isinstance(value, (list, tuple, int, float, complex)) and "[" not in type_:
        return "\ntorchnp computes on NumPy arrays: pass np.array(...)"
    return ""


_SPOKEN = {"Scalar": "number", "SymInt": "int", "ScalarType": "int", "Layout": "int", "MemoryFormat": "int"}


def spoken(type_: str) -> str:
    """Return a schema type as torch's error messages name it: ``int[1]?`` is ``Optional[List[int]]``."""
    if type_[-1] == "?":
        return f"Optional[{spoken(type_[:-1])}]"
    found = _LIST.match(type_)
    if found:
        return f"List[{spoken(found[1])}]"
    return _SPOKEN.get(type_, type_)


# ---------------------------------------------------------------- the registry

DATA = Path(__file__).parent.parent / "data" / "schemas.tsv"


def load(version: Version | None = None) -> dict[str, Schema]:
    """Return every overload that a version of torch registers in ``aten`` and ``prims``, in torch's resolution order.

    ``version`` defaults to the target version, see `torchnp.target`.
    """
    return _of_version(version or current())


@functools.cache
def _of_version(version: Version) -> dict[str, Schema]:
    return {schema.name: schema for first, last, schema in _lines() if first <= version <= last}


@functools.cache
def of_any_version() -> dict[str, Schema]:
    """Return every overload of all known versions, with its schema in the newest version that registers it."""
    newest: dict[str, tuple[Version, Schema]] = {}
    for _, last, schema in _lines():
        if schema.name not in newest or last >= newest[schema.name][0]:
            newest[schema.name] = last, schema
    return {name: schema for name, (_, schema) in newest.items()}  # keep the order of the file


_EVER: tuple[Version, Version] = ((0, 0), (9999, 0))


@functools.cache
def _lines() -> list[tuple[Version, Version, Schema]]:
    """Return the lines of the file: the first and the last version that register a schema, and the schema."""
    found = []
    with open(DATA, encoding="utf-8") as lines:
        for line in lines:
            if line[0] != "#":
                fields = line.rstrip("\n").split("\t")
                first, last = _EVER if len(fields) == 3 else map(_version_or_ever, fields[3:], _EVER)
                found.append((first, last, Schema(*fields[:3])))
    return found


def _version_or_ever(text: str, ever: Version) -> Version:
    return parse(text) if text else ever
