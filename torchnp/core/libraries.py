"""Rows for other libraries' operators: `torchnp.kernel` declares a row and adds it to the table.

A package lists the module that declares its rows in the entry point group ``torchnp.kernels``, with its operators'
namespace as the entry point's name. The module is imported when that namespace is first used. Nothing here imports
torch. If torch is already loaded, this module reads the schemas that the library has registered there.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from torchnp import shipped
from torchnp.core.registry import FAILURES, REGISTERED
from torchnp.core.registry import kernel as declare
from torchnp.core.schema import RESERVED, Schema, is_type
from torchnp.derived.rules import check_write_pattern

GROUP = "torchnp.kernels"
OWN = ("aten", "prims")  # namespaces whose rows belong to torchnp itself
PREFIXES = tuple(f"{space}::" for space in OWN)

Body = TypeVar("Body", bound=Callable[..., Any])

SCHEMAS: dict[str, Schema] = {}
"""Schemas of the known overloads of other libraries: those with a row, and their derived forms."""

_watchers: list[Callable[[], None]] = []
_lock = threading.RLock()
_met: set[str] = set()


def kernel(
    *names: str, schema: str | Sequence[str] = (), like: Any = None, tags: Iterable[str] = ()
) -> Callable[[Body], Body]:
    """Declare, as a decorator, the NumPy function that computes another library's operator.

    The function becomes a row of `torchnp.table`, and every way to run a program uses it: calls by name, `NumpyMode`,
    the device, `torch.compile`, and programs that `torchnp.load` reads. It takes arrays for tensors, with the schema's
    names, order and defaults. It returns new arrays and never writes to its arguments. In-place and ``out=`` overloads
    are derived from it by rule, as for torch's own operators.

    Parameters
    ----------
    *names : str
        Full names of the overloads that the function computes (``"mylib::scale"``, ``"mylib::scale.Tensor"``).
    schema : str or sequence of str, optional
        Schemas of these overloads and of the forms to derive from them, in torch's notation, one per line or item:
        ``"scale(Tensor self, Scalar factor) -> Tensor"``. Without it, the library must have registered them with
        ``torch.library``. With it, torch is not needed; if the library has registered schemas too, they must agree.
    like : callable, optional
        The NumPy or SciPy function that a reader would expect to do the same.
    tags : iterable of str, optional
        torch's tags for the given schemas, such as ``"nondeterministic_seeded"`` for an operator that draws random
        numbers.

    Returns
    -------
    decorator
        Returns the function unchanged.

    Raises
    ------
    ValueError
        A name has no namespace, has the namespace ``aten`` or ``prims``, is declared twice, or has no schema; a schema
        is malformed or differs from torch's; or the function's parameters do not match the schema.

    Examples
    --------
    >>> @torchnp.kernel("mylib::scale", schema="scale(Tensor self, Scalar factor=2) -> Tensor")
    ... def scale(self, factor=2):
    ...     return self * np.asarray(factor, self.dtype)
    >>> torchnp.mylib.scale(np.ones(2, np.float32))
    array([2., 2.], dtype=float32)
    """
    found = _schemas_of(names, schema, frozenset(tags))

    def take(body: Body) -> Body:
        for name in names:
            if words := misfit(body, found[name]):
                raise ValueError(f"{name}: {words}. Schema: {found[name]}")
        with _lock:
            if conflict := next((s for s in found.values() if SCHEMAS.get(s.name, s).text != s.text), None):
                raise ValueError(f"{conflict.name} has two schemas: {SCHEMAS[conflict.name]}, and {conflict}")
            declare(*names, like=like)(body)
            SCHEMAS.update((name, s) for name, s in found.items() if name not in SCHEMAS)
            for watcher in _watchers:
                watcher()
        return body

    return take


def watch(watcher: Callable[[], None]) -> None:
    """Call a function now and whenever `SCHEMAS` changes."""
    with _lock:
        _watchers.append(watcher)
        watcher()


# ---------------------------------------------------------------- schemas

_NAME = re.compile(r"[A-Za-z_]\w*::[A-Za-z_]\w*(\.[A-Za-z_]\w*)?")
_SCHEMA = re.compile(r"(?:(\w+)::)?(\w+(?:\.\w+)?)(\(.*\) -> \S.*)")


def _schemas_of(names: tuple[str, ...], schema: str | Sequence[str], tags: frozenset[str]) -> dict[str, Schema]:
    """Return a declaration's schemas, by name: those that it gives, and those registered in torch."""
    if not names or not all(isinstance(n, str) for n in names):
        raise TypeError('torchnp.kernel takes the names of overloads: @torchnp.kernel("mylib::op")')
    for name in names:
        _check_name(name)
    space = names[0].partition("::")[0]
    if apart := [n for n in names if n.partition("::")[0] != space]:
        raise ValueError(f"{names[0]} and {apart[0]} are of two namespaces: declare them apart")
    given = [schema] if isinstance(schema, str) else list(schema)
    texts = [line.strip() for text in given for line in text.splitlines() if line.strip()]
    found = _given_schemas(texts, space, tags)
    registered = _torchs_schemas(space)
    _check_agreement(found, registered)
    found = registered | found
    if unknown := [n for n in names if n not in found]:
        raise ValueError(_without_schema(unknown[0], texts, registered))
    return found


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} is no full name of an overload: write 'mylib::op', or 'mylib::op.overload' for one of several"
        )
    if name.partition("::")[0] in OWN:
        raise ValueError(
            f"{name}: torchnp has the rows of {' and '.join(OWN)} itself; NumpyMode(table=...) takes others"
        )
    if name.endswith(".default"):
        raise ValueError(f"{name}: the default overload is {name.removesuffix('.default')!r}")


def _given_schemas(texts: list[str], space: str, tags: frozenset[str]) -> dict[str, Schema]:
    """Parse schemas from torch's notation; the namespace is optional."""
    found: dict[str, Schema] = {}
    for text in texts:
        parts = _SCHEMA.fullmatch(re.sub(r"\s+", " ", text))
        if parts is None:
            raise ValueError(f"{text!r} is no schema: write 'op(Tensor self, int n=1) -> Tensor'")
        if (parts[1] or space) != space:
            raise ValueError(f"the schema {text!r} is of another namespace than {space!r}")
        schema = Schema(f"{space}::{parts[2]}{parts[3]}", " ".join(sorted(tags)))
        try:
            types = [a.type for a in schema.args] + [r.type for r in schema.returns]
        except (ValueError, SyntaxError, IndexError) as error:
            raise ValueError(f"the schema {text!r} cannot be read: {error}") from error
        if strange := [t for t in types if not is_type(t)]:
            raise ValueError(f"the schema {text!r} has the type {strange[0]!r}, which torch's schemas do not have")
        if schema.name in found:
            raise ValueError(f"{schema.name} is given two schemas")
        check_write_pattern(schema)
        found[schema.name] = schema
    return found


def _torchs_schemas(space: str) -> dict[str, Schema]:
    """Return the schemas that a library has registered in torch; an empty dict if torch is not loaded."""
    if sys.modules.get("torch") is None:  # None also marks a module whose import was blocked
        return {}
    from torchnp.interop._private import registered_schemas

    return {name: Schema(text, tags) for name, text, tags in registered_schemas(space)}


def _check_agreement(given: dict[str, Schema], registered: dict[str, Schema]) -> None:
    for name, schema in given.items():
        theirs = registered.get(name)
        if theirs is not None and not same_call(schema, theirs):
            raise ValueError(f"the schema given is not what torch has for {name}: {schema}, and torch's {theirs}")


def check_registered(name: str, text: str) -> None:
    """Raise RuntimeError if a row's schema differs from the one that its library has since registered in torch."""
    ours, theirs = SCHEMAS.get(name), Schema(text)
    if ours is not None and not same_call(ours, theirs):
        raise RuntimeError(f"{name}: its row is of another version of the library: {ours}, and torch has {theirs}")


def same_call(a: Schema, b: Schema) -> bool:
    """Return whether two schemas take and write the same arguments and return the same types."""
    mine, theirs = (
        [(x.name, _plain(x.type), x.kwonly, x.is_write, repr(x.default)) for x in s.args]
        + [(_plain(r.type), r.is_write, bool(r.alias)) for r in s.returns]
        for s in (a, b)
    )
    return mine == theirs


def _plain(type_: str) -> str:
    return type_.replace("SymInt", "int")


def _without_schema(name: str, texts: list[str], registered: dict[str, Schema]) -> str:
    if texts:
        return f"none of the schemas given is of {name}"
    if registered:
        return f"torch has no operator {name}; of that namespace it has {', '.join(sorted(registered))}"
    return (
        f"{name} has no schema: give it, as in schema='{name.partition('::')[2]}(Tensor self) -> Tensor', or import torch "
        "and the library that registers the operator before"
    )


# ---------------------------------------------------------------- signatures


def misfit(body: Callable[..., Any], schema: Schema) -> str:
    """Return how a function's parameters differ from its schema; "" if they match."""
    parameters = [*inspect.signature(body).parameters.values()]
    have, want = [p.name for p in parameters], [RESERVED.get(a.name, a.name) for a in schema.args]
    if have != want:
        return f"its function takes ({', '.join(have)}), and the schema ({', '.join(want)})"
    for p, a in zip(parameters, schema.args):
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            return f"its function takes any number of {p.name}"
        if (p.kind is p.KEYWORD_ONLY) != a.kwonly:
            return f"{p.name} is {'' if a.kwonly else 'not '}given by keyword alone in the schema"
        if (p.default is p.empty) == a.has_default:
            return f"{p.name} has {'the default ' + repr(a.default) if a.has_default else 'no default'} in the schema"
        if a.has_default and not _same_default(p.default, a.default):
            return f"{p.name} has the default {p.default!r}, and {a.default!r} in the schema"
    return ""


def _same_default(given: Any, expected: Any) -> bool:
    if isinstance(expected, list):  # one number fills a whole int[2]
        given = [given] * len(expected) if isinstance(given, int) else list(given)
    return bool(given == expected)


# ---------------------------------------------------------------- entry points


@functools.cache
def _entries() -> dict[str, list[EntryPoint]]:
    found: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=GROUP):
        found.setdefault(entry.name, []).append(entry)
    for space, module in shipped.MODULES.items():
        found.setdefault(space, [EntryPoint(space, module, GROUP)])
    return found


def offered() -> list[str]:
    """Return the namespaces for which torchnp or an installed package has rows."""
    return sorted(_entries())


def import_rows(space: str) -> bool:
    """Import the packages that declare rows for a namespace, once; return whether any of its overloads is known.

    Raises
    ------
    ImportError
        A package's module cannot be imported or declares no row in the namespace. None of its rows is kept then.
    """
    if space in OWN:
        return True
    if space in _entries() and space not in _met:
        with _lock:
            for entry in _entries()[space] if space not in _met else ():
                _load(entry)
            _met.add(space)  # set last, so that other threads wait until the rows are declared
    return any(name.startswith(f"{space}::") for name in SCHEMAS)


def _load(entry: EntryPoint) -> None:
    before = {*SCHEMAS}
    package = entry.dist.name if entry.dist else "torchnp"
    where = f"the rows of {entry.name} that {package} has (entry point {entry.value!r} of {GROUP})"
    try:
        found = entry.load()
        if callable(found):
            found()
    except (*FAILURES, ImportError, OSError, SyntaxError) as error:
        _forget({*SCHEMAS} - before)
        sys.modules.pop(entry.module, None)
        raise ImportError(f"{where} cannot be loaded: {error}") from error
    if not any(name.startswith(f"{entry.name}::") for name in SCHEMAS):
        raise ImportError(f"{where}: the module has declared none by @torchnp.kernel")


def _forget(names: set[str]) -> None:
    """Remove the rows of a package whose import failed half-way, because the next import declares them again."""
    for name in names:
        SCHEMAS.pop(name, None)
        REGISTERED.pop(name, None)
    for watcher in _watchers:
        watcher()


__all__ = ["GROUP", "SCHEMAS", "check_registered", "import_rows", "kernel", "misfit", "offered", "same_call", "watch"]
