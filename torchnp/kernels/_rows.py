"""Overloads of one body as rows: the same op for one, two and three dimensions, or with a setting of its own."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

from torchnp.registry import kernel
from torchnp.schema import REQUIRED, RESERVED, Schema, load

Body = Callable[..., Any]


_OF_KERNEL = frozenset(inspect.signature(kernel).parameters)


def rows(names: str, run: Body, doc: str, /, **given: Any) -> tuple[Body, ...]:
    """Declare overloads that one function computes, and give their bodies, in the order of the names.

    Parameters
    ----------
    names : str
        The overloads, separated by spaces.
    run : callable
        Called with all arguments of the schema by place, defaults filled in, and with what is ``given`` by keyword.
        Keyword-only parameters ``op`` and ``n`` are told the op's name, and the number in it ("conv2d").
    doc : str
        What the rows do, in a line.
    **given
        What tells these rows from others of the same function; ``like=``, ``differs=`` and what else
        `torchnp.registry.kernel` takes goes there.
    """
    bodies = []
    family = sys._getframe(1).f_globals["__name__"]  # where the names stand, not where the function does
    asked = {p.name for p in inspect.signature(run).parameters.values() if p.kind is p.KEYWORD_ONLY}
    declared = {k: v for k, v in given.items() if k in _OF_KERNEL}
    settings = {k: v for k, v in given.items() if k not in _OF_KERNEL}
    for name in names.split():
        schema = load()[name if "::" in name else f"aten::{name}"]
        known = {"op": schema.base, "n": next((int(c) for c in schema.base if c.isdigit()), None)}
        body = _bound(run, schema, {**{k: v for k, v in known.items() if k in asked}, **settings})
        body.__name__ = body.__qualname__ = name.replace(".", "_")
        body.__module__, body.__doc__ = family, doc
        bodies.append(kernel(name, **declared)(body))
    return tuple(bodies)


def _bound(run: Body, schema: Schema, given: dict[str, Any]) -> Body:
    """A body with the signature of a schema, which calls ``run``."""
    parameters = [
        inspect.Parameter(
            RESERVED.get(a.name, a.name),
            inspect.Parameter.KEYWORD_ONLY if a.kwonly else inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=_default(a.default),
        )
        for a in schema.args
    ]
    pairs = [(p.name, p.default) for p in parameters]
    defaults = tuple(default for _, default in pairs)
    needed = max((i + 1 for i, default in enumerate(defaults) if default is inspect.Parameter.empty), default=0)
    most = sum(not a.kwonly for a in schema.args)

    def body(*args: Any, **named: Any) -> Any:
        n = len(args)
        if not named and needed <= n <= most:
            return run(*args, *defaults[n:], **given)
        rest = [named.pop(name, default) for name, default in pairs[n:]]
        if named or n > most or any(x is inspect.Parameter.empty for x in rest):
            raise TypeError(f"{schema.name} was called with arguments that do not fit its schema")
        return run(*args, *rest, **given)

    vars(body)["__signature__"] = inspect.Signature(parameters)
    return body


def _default(value: Any) -> Any:
    if value is REQUIRED:
        return inspect.Parameter.empty
    return tuple(value) if isinstance(value, list) else value
