"""Calls on an owner's rows: find the labels of the results, then compute the results.

Both steps run the operator's portable kernel (its row in `torchnp.portable`) on the library ``rows``, where it cannot
read values. The labels come from a run on zeros of the same shapes and dtypes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.registry import FAILURES
from torchnp.rpc.server.privacy.row_array import DTYPES, RowArray, Unlabelled, packed, rows_of, values_of
from torchnp.rpc.server.privacy.row_labels import Label, Mixed, Rows, common

if TYPE_CHECKING:
    from torchnp.rpc.server.privacy.row_library import RowLibrary

# Tags of operators that draw random numbers, or change the shape of a tensor instead of its elements.
_NOT_BY_ROWS = frozenset(["nondeterministic_seeded", "inplace_view"])
# Views that do more than move elements: they depend on the bytes in memory, or compute.
_NO_MOVES = frozenset(["aten::view.dtype", "aten::_conj", "aten::conj"])
RAISED = (*FAILURES, AssertionError, AttributeError)
WORDS = {
    "move": "moves elements: each row as a whole, and once",
    "each": "elementwise: all rows at the same place from the right",
    "lookup": "each row looks up its own places, along another dimension or in a public tensor",
    "along": "along other dimensions than the rows'",
    "contract": "a product that does not sum over the rows",
}
"""What an operator does to rows that it keeps, in words, the least first."""

LIST = Path(__file__).with_name("row_operators.json")
KEPT: dict[str, list[str]] = json.loads(LIST.read_text())
"""The overloads that keep a row label, and what they do to rows. ``row_bits --write`` writes it from what runs."""


class Shaped(NamedTuple):
    """Shape and dtype of a result, which are known before it is computed."""

    shape: tuple[int, ...]
    dtype: np.dtype


@cache
def library() -> RowLibrary:
    """Return the library ``rows``, imported by the first call on private data."""
    from torchnp.rpc.server.privacy import row_overrides  # noqa: F401  (declares rows)
    from torchnp.rpc.server.privacy.row_library import RowLibrary

    return RowLibrary()


def functional(schema: Any) -> str:
    """Return the name of the functional overload that computes the same as a schema; ``""`` if that has no row.

    An in-place operator that writes only its first argument corresponds to the overload without the underscore.
    """
    written = [a for a in schema.args if a.is_write]
    name = schema.name
    if written:
        alone = len(written) == 1 and written[0] is schema.args[0] and written[0].type == "Tensor"
        if not alone or schema.is_out or not schema.base.endswith("_") or len(schema.returns) != 1:
            return ""
        name = f"{schema.namespace}::{schema.base[:-1]}" + (f".{schema.overload}" if schema.overload else "")
    if schema.namespace != "aten" or not schema.tags.isdisjoint(_NOT_BY_ROWS) or name in _NO_MOVES:
        return ""
    return name if library().row(name) is not None else ""


def kept(schema: Any) -> str:
    """Return the overload whose portable kernel computes a schema on rows; ``""`` if the schema is not in `KEPT`."""
    return functional(schema) if schema.name in KEPT else ""


def rule(schema: Any) -> str:
    """Describe the effect on rows of an overload that keeps a row label; return ``""`` if it never keeps one."""
    return "; or ".join(WORDS[kind] for kind in KEPT.get(schema.name, ()))


def labels(call: Any, results: Sequence[Shaped]) -> list[Label]:
    """Return the labels of an operator's results, or of an in-place operator's target, without using private values."""
    given = given_labels(call)
    mixed: list[Label] = [Mixed(_mixed_by(given, call.row.name))] * len(results)
    rows = common(given)
    if rows is None or not results:
        return mixed
    zeros = [np.zeros(e.array.shape, e.array.dtype) if x is not None else e.array for e, x in zip(call.entries, given)]
    if call.row.views:  # views move elements of any dtype
        zeros = [z if z.dtype in DTYPES or x is None else z.astype(dt.uint8) for z, x in zip(zeros, given)]
        results = [Shaped(r.shape, r.dtype if r.dtype in DTYPES else dt.uint8) for r in results]
    try:
        found = _computed(call, given, zeros, results)
    except MemoryError:
        raise
    except RAISED:  # the row does not support the call; no private value can have caused this
        return mixed
    return [m if f is None else _label(f, rows) for f, m in zip(found, mixed)]


def values(call: Any, results: Sequence[Shaped], made: Sequence[Label]) -> list[np.ndarray | None]:
    """Compute the results. A result whose label differs from the one in ``made``, which was found before, is None."""
    given = given_labels(call)
    rows = common(given)
    assert rows is not None
    found = _computed(call, given, [e.array for e in call.entries], results)
    return [
        values_of(f) if f is not None and _label(f, rows) == label else None
        for f, label in zip(found, made, strict=True)
    ]


def depends_on_values(call: Any) -> bool:
    """Return whether labels may depend on public values: on indices, or on a view's arguments other than its base.

    `values` compares the labels of other results with those that were found before.
    """
    public = [e.array.dtype for e, label in zip(call.entries, given_labels(call)) if label is None]
    return any(call.row.views or d.kind in "biu" for d in public)


def given_labels(call: Any) -> list[Label]:
    """Return the labels of a call's objects. An empty `Mixed` tensor has no values, so it counts as public."""
    labels = [e.label for e in call.entries]
    return [None if isinstance(x, Mixed) and not e.array.size else x for x, e in zip(labels, call.entries)]


def _mixed_by(given: Sequence[Label], name: str) -> str:
    return next((label.by for label in given if isinstance(label, Mixed)), name)


def _label(x: RowArray, rows: Rows) -> Rows:
    """Return a result's label, in which the row numbers of the operands are replaced by those of the dataset."""
    if not rows.order:
        return Rows(rows.dataset, x.axis, x.order)
    own, numbers = rows_of(x), np.frombuffer(rows.order, np.int64)
    return Rows(rows.dataset, x.axis, packed(np.where(own < 0, -1, numbers[own])))


def _computed(
    call: Any, given: Sequence[Label], arrays: Sequence[np.ndarray], results: Sequence[Shaped]
) -> list[RowArray | None]:
    """Run the portable kernel with arrays instead of the call's objects."""
    from torchnp.rpc.server.privacy.row_library import finished

    row, lib = call.row, library()
    if not row.by_rows:
        raise Unlabelled(f"{row.name} mixes rows")
    operands = [RowArray(a, label.dim) if isinstance(label, Rows) else a for a, label in zip(arrays, given)]
    args, kwargs = row.arguments(call.named(operands))
    with np.errstate(all="ignore"):
        out = lib.call(row.by_rows, *args, **kwargs)
        if out is NotImplemented:
            raise Unlabelled(f"{row.name} has no row for these arguments")
        made = [out] if call.targets else call.picked(out)
        first = next(x for x in operands if type(x) is RowArray)
        return [finished(x, tuple(r.shape), r.dtype, first) for x, r in zip(made, results, strict=True)]
