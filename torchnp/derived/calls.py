"""Functions with which a derived kernel binds its arguments and calls its source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torchnp.core.inplace_out_spec import Bound
from torchnp.core.registry import enter_quiet, leave_quiet
from torchnp.core.schema import RESERVED, Schema
from torchnp.core.versioned_error_classes import of_version

_SPELLED = {v: k for k, v in RESERVED.items()}


def bind(schema: Schema, args: tuple, kwargs: dict[str, Any]) -> Bound:
    """Bind a call's arguments to the schema's argument names."""
    return schema.bind(args, {_SPELLED.get(k, k): v for k, v in kwargs.items()} if kwargs else kwargs)


def call(source: Callable[..., Any], source_schema: Schema, bound: Mapping[str, Any]) -> Any:
    """Call a kernel with arguments by name; those that are positional in its schema are passed by position."""
    args, kwargs = [], {}
    first = source_schema.args[0].name if source_schema.args else ""
    if first and first not in bound:  # only the first name may differ between a form and its source
        bound = {first: next(iter(bound.values())), **bound}
    for a in source_schema.args:
        if a.kwonly:
            kwargs[RESERVED.get(a.name, a.name)] = bound[a.name]
        else:
            args.append(bound[a.name])
    return source(*args, **kwargs)


def guarded(schema: Schema, run: Callable[[Bound], Any]) -> Callable[..., Any]:
    """Make a kernel of a function that takes its arguments by name; the kernel gives no floating point warnings."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        token = enter_quiet()
        try:
            return run(bind(schema, args, kwargs))
        except RuntimeError as error:
            of_class = of_version(error)
            if of_class is not None:
                raise of_class from None
            raise
        finally:
            leave_quiet(token)

    return kernel


def by_name(schema: Schema, source: Callable[..., Any], source_schema: Schema) -> Callable[..., Any]:
    """Adapt a source whose arguments are in another order (``polygamma(n, self)``) or whose first one is renamed."""

    def reordered(*args: Any, **kwargs: Any) -> Any:
        return call(source, source_schema, bind(schema, args, kwargs))

    return reordered
