"""Calls on an owner's rows: the labels of the results, then the results, by kernels that cannot read values.

Both steps run the same kernel. The labels come from a run on zeros of the same shapes and dtypes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from torchnp.core.registry import FAILURES

# The second and the fourth fill KERNELS.
from torchnp.rpc.server.privacy import row_kernels, row_losses, row_moves, row_reductions
from torchnp.rpc.server.privacy.row_array import RowArray, Unlabelled, canonical, to, values_of
from torchnp.rpc.server.privacy.row_kernels import KERNELS, STORED, Results
from torchnp.rpc.server.privacy.row_labels import Label, Mixed, Rows, common

LISTS = (row_kernels, row_losses, row_moves, row_reductions)
RAISED = (*FAILURES, AssertionError, AttributeError)


class Shaped(NamedTuple):
    """Shape and dtype of a result, which are known before it is computed."""

    shape: tuple[int, ...]
    dtype: np.dtype


def functional(schema: Any) -> str:
    """Return the name of the functional overload in `KERNELS` that computes what a schema does, or ``""``.

    An in-place operator that writes only its first argument corresponds to the overload without the underscore.
    """
    written = [a for a in schema.args if a.is_write]
    name = schema.name
    if written:
        alone = len(written) == 1 and written[0] is schema.args[0] and written[0].type == "Tensor"
        if not alone or schema.is_out or not schema.base.endswith("_") or len(schema.returns) != 1:
            return ""
        name = f"{schema.namespace}::{schema.base[:-1]}" + (f".{schema.overload}" if schema.overload else "")
    kernel = KERNELS.get(name)
    if kernel is None or "nondeterministic_seeded" in schema.tags:
        return ""
    return name if {a.name for a in schema.args} - STORED <= kernel.takes else ""


def rule(schema: Any) -> str:
    """Return the rule, in words, by which an overload keeps a row label; ``""`` if it never does."""
    found = []
    if moving := row_moves.moved(schema):
        found.append(f"{row_moves.MOVE} ({', '.join(moving)})")
    if name := functional(schema):
        found.append(KERNELS[name].rule)
    return "; or ".join(found)


def labels(call: Any, results: Sequence[Shaped]) -> list[Label]:
    """Return the labels of an operator's results, or of an in-place operator's target. No private value is used."""
    given = given_labels(call)
    mixed: list[Label] = [Mixed(_mixed_by(given, call.row.name))] * len(results)
    rows = common(given)
    if rows is None or not results:
        return mixed
    try:
        if _moves(call, given):
            return row_moves.labels(call, given, rows, results)
        found = _computed(call, given, [np.zeros(e.array.shape, e.array.dtype) for e in call.entries], results)
    except MemoryError:
        raise
    except RAISED:  # the kernel does not support the call; no private value can have caused this
        return mixed
    return [Rows(rows.dataset, f.axis, rows.order) if f is not None else m for f, m in zip(found, mixed)]


def values(call: Any, results: Sequence[Shaped], made: Sequence[Label]) -> list[np.ndarray | None]:
    """Compute the results; None where a result's label is not the one found before."""
    given = given_labels(call)
    with np.errstate(all="ignore"):
        if _moves(call, given):
            return [*row_moves.values(call, given, [r.dtype for r in results])]
        found = _computed(call, given, [e.array for e in call.entries], results)
    return [
        values_of(f) if f is not None and isinstance(label, Rows) and f.axis == label.dim else None
        for f, label in zip(found, made, strict=True)
    ]


def given_labels(call: Any) -> list[Label]:
    """Return the labels of a call's objects. An empty `Mixed` tensor has no values, so it counts as public."""
    labels = [e.label for e in call.entries]
    return [None if isinstance(x, Mixed) and not e.array.size else x for x, e in zip(labels, call.entries)]


def _mixed_by(given: Sequence[Label], name: str) -> str:
    return next((label.by for label in given if isinstance(label, Mixed)), name)


def _moves(call: Any, given: Sequence[Label]) -> bool:
    """Return whether the call moves rows.

    If it does not (for example, if the rows are the indices), it computes with them.
    """
    moving = call.row.moved
    return bool(moving) and not any(
        isinstance(label, Rows) and name not in moving for name, label in zip(call.names, given)
    )


def _computed(
    call: Any, given: Sequence[Label], arrays: Sequence[np.ndarray], results: Sequence[Shaped]
) -> list[RowArray | None]:
    """Run the kernel in `KERNELS` with arrays instead of the call's objects."""
    row = call.row
    if not row.by_rows:
        raise Unlabelled(f"{row.name} is not on the list")
    kernel = KERNELS[row.by_rows]
    operands = [RowArray(a, label.dim) if isinstance(label, Rows) else a for a, label in zip(arrays, given)]
    arguments = {a.name: a.default for a in row.schema.args if a.has_default}
    arguments |= call.named(operands)
    arguments = {name: value for name, value in arguments.items() if name in kernel.takes or name not in STORED}
    with np.errstate(all="ignore"):
        out = kernel.function(Results([r.dtype for r in results]), **arguments)
        made = [out] if call.targets else call.picked(out)
        return [_finished(x, r) for x, r in zip(made, results, strict=True)]


def _finished(x: Any, result: Shaped) -> RowArray | None:
    if type(x) is not RowArray or x.shape != tuple(result.shape):
        return None
    return canonical(to(x, result.dtype))
