"""Overloads of one body as rows: the same op for one, two and three dimensions, or with a setting of its own."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any

from torchnp.registry import Row, kernel
from torchnp.schema import REQUIRED, RESERVED, Schema, load

Body = Callable[..., Any]


def rows(
    names: str,
    run: Body,
    doc: str,
    /,
    *,
    like: Any = None,
    differs: Sequence[str] = (),
    make: Callable[[Row, Schema], Body] | None = None,
    quick: Body | None = None,
    **given: Any,
) -> tuple[Body, ...]:
    """Declare overloads that one function computes, and give their bodies, in the order of the names.

    Parameters
    ----------
    names : str
        The overloads, separated by spaces.
    run : callable
        Called with all arguments of the schema by place, defaults filled in, and with what is ``given`` by keyword.
        If it has a parameter ``op``, it is told the op's name.
    doc : str
        What the rows do, in a line.
    like, differs, make, quick
        As of `torchnp.registry.kernel`.
    **given
        What tells these rows from others of the same function.
    """
    bodies = []
    family = sys._getframe(1).f_globals["__name__"]  # where the names stand, not where the function does
    told = "op" in inspect.signature(run).parameters
    for name in names.split():
        schema = load()[name if "::" in name else f"aten::{name}"]
        body = _bound(run, schema, {**given, "op": schema.base} if told else given)
        body.__name__ = body.__qualname__ = name.replace(".", "_")
        body.__module__, body.__doc__ = family, doc
        bodies.append(kernel(name, like=like, differs=differs, make=make, quick=quick)(body))
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
