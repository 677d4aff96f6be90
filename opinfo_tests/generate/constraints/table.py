"""The constraint table: the rules of all modules, merged for each operator."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache

from ... import namespaces
from . import (
    conv_pool,
    elementwise,
    gradients,
    layers,
    losses,
    matrices,
    models,
    prims,
    quantized,
    samplers,
    shapes,
    signals,
)
from .constraint import Constraint, ConstraintRule

# The order matters: later rules override earlier ones.
RULES: tuple[ConstraintRule, ...] = (
    *elementwise.ROWS,
    *shapes.ROWS,
    *gradients.ROWS,
    *matrices.ROWS,
    *layers.ROWS,
    *conv_pool.ROWS,
    *losses.ROWS,
    *models.ROWS,
    *signals.ROWS,
    *samplers.ROWS,
    *quantized.ROWS,
    *prims.ROWS,
)


@cache
def constraint_of(op: str) -> Constraint:
    """Return the merged constraints of an operator."""
    full = op.partition("::")[2]
    base = full.partition(".")[0]
    names = {op, full, base, base.removesuffix("_copy"), base.removeprefix("_foreach_"), base.removeprefix("special_")}
    found = Constraint()
    for patterns, given in namespaces.of(op).rules if namespaces.is_other(op) else RULES:
        if f"family:{family(op)}" in patterns or any(fnmatchcase(n, p) for p in patterns for n in names):
            args, sizes = {**found.args, **given.get("args", {})}, {**found.sizes, **given.get("sizes", {})}
            found = replace(found, **{**given, "args": args, "sizes": sizes})
    return found


def family(op: str) -> str:
    import torchnp

    return torchnp.table[op].family if op in torchnp.table else ""
