"""The constraints of each operator: the rows of all chapters in one table, merged where several speak of an operator."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache

from .. import namespaces
from . import (
    constraint_elementwise,
    constraint_gradients,
    constraint_layers,
    constraint_losses,
    constraint_matrices,
    constraint_models,
    constraint_prims,
    constraint_quantized,
    constraint_shapes,
    constraint_signals,
    constraint_slow,
)
from .constraints import Constraint, Rule

# In this order: what a later row says of an operator holds over the earlier ones.
RULES: tuple[Rule, ...] = (
    *constraint_elementwise.ROWS,
    *constraint_shapes.ROWS,
    *constraint_gradients.ROWS,
    *constraint_matrices.ROWS,
    *constraint_layers.ROWS,
    *constraint_slow.ROWS,
    *constraint_losses.ROWS,
    *constraint_models.ROWS,
    *constraint_signals.ROWS,
    *constraint_quantized.ROWS,
    *constraint_prims.ROWS,
)


@cache
def constraint_of(op: str) -> Constraint:
    """Return what the rows say of an operator, merged."""
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
