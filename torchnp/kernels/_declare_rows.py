"""Declare several overloads that share one function: an op for 1, 2 and 3 dimensions, or with different settings."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

from torchnp.core.registry import kernel
from torchnp.core.schema import REQUIRED, RESERVED, Schema, of_any_version

Body = Callable[..., Any]
_OF_KERNEL = frozenset(inspect.signature(kernel).parameters)


def rows(
    names: str, run: Body, doc: str, /, *, part: Any = ..., by_name: Any = False, **given: Any
) -> tuple[Body, ...]:
    """Declare overloads that one function computes, and return their kernels in the order of the names.

    Parameters
    ----------
    names : str
        The overloads, separated by spaces.
    run : callable
        Called with all arguments of the schema, defaults filled in, and with the settings in ``given``. An argument is
        passed by name if it is a keyword-only parameter of ``run`` (so overloads may lack it), or if it is
        keyword-only in the schema and ``run`` takes ``**kwargs``; the others are positional.
        Keyword-only parameters ``op`` and ``n`` receive the op's name, and the number in it ("conv2d").
    doc : str
        One-line description of the overloads: their docstring.
    part : int or slice
        Index or slice of the results of ``run`` that the overloads return; by default they return all.
    by_name : bool
        Pass each argument to the parameter of the same name, ``self`` to ``input`` or else to the first parameter,
        and drop arguments without a parameter.
    **given
        Further arguments of ``run``, the same in all calls. Parameters of `torchnp.core.registry.kernel` (``like=``,
        ``differs=`` and others) are passed to that instead.
    """
    bodies = []
    family = sys._getframe(1).f_globals["__name__"]  # the module that declares the overloads, not that of ``run``
    asked = {p.name for p in inspect.signature(run).parameters.values() if p.kind is p.KEYWORD_ONLY}
    declared = {k: v for k, v in given.items() if k in _OF_KERNEL}
    settings = {k: v for k, v in given.items() if k not in _OF_KERNEL}
    for name in names.split():
        schema = of_any_version()[name if "::" in name else f"aten::{name}"]
        known = {"op": schema.base, "n": next((int(c) for c in schema.base if c.isdigit()), None)}
        told = {**{k: v for k, v in known.items() if k in asked}, **settings}
        body = _bound(run, schema, told, part, by_name)
        body.__name__ = body.__qualname__ = name.replace(".", "_")
        body.__module__, body.__doc__ = family, doc
        bodies.append(kernel(name, **declared)(body))
    return tuple(bodies)


def _bound(run: Body, schema: Schema, given: dict[str, Any], part: Any, by_name: bool) -> Body:
    """Make a function with the schema's signature that calls ``run``; with ``*args`` it would take twice as long."""
    known: dict[str, Any] = {"_0": run, "_1": part} | {f"_{key}": value for key, value in given.items()}
    found = inspect.signature(run).parameters
    parameters, kinds = [*found], {p.name: p.kind for p in found.values()}
    takes_any = inspect.Parameter.VAR_KEYWORD in kinds.values()
    taken, passed, named = [], [], []
    for a in schema.args:
        name = RESERVED.get(a.name, a.name)
        if by_name:
            if name in parameters:
                named.append(f"{name}={name}")
            elif name == "self":
                named.append(f"{'input' if 'input' in parameters else parameters[0]}=self")
        elif kinds.get(name) is inspect.Parameter.KEYWORD_ONLY or (a.kwonly and takes_any):
            named.append(f"{name}={name}")
        else:
            passed.append(name)
        if a.kwonly and "*" not in taken:
            taken.append("*")
        if a.default is not REQUIRED:
            known[f"_default_{name}"] = tuple(a.default) if isinstance(a.default, list) else a.default
            name = f"{name}=_default_{name}"
        taken.append(name)
    passed += named + [f"{key}=_{key}" for key in given]
    call = f"_0({', '.join(passed)}){'' if part is ... else '[_1]'}"
    return eval(f"lambda {', '.join(taken)}: {call}", known)
