"""Operators that only move elements. Running them on numbers shows where each row ends up.

The table's kernel runs on numbers instead of the elements, never on values. `labels` runs it on row numbers (0 for
public elements and fills), so each element of the result tells the row from which it comes. `values` runs it on element
numbers (0 for the fill), and then takes the elements with these numbers. Tensors that say where elements go (`index`,
`repeats`) are passed unchanged and must be public.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from torchnp.rpc.server.privacy.row_array import DTYPES, RowArray, Unlabelled, canonical, to, values_of
from torchnp.rpc.server.privacy.row_labels import Label, Mixed, Rows

MOVE = "moves elements: each row as a whole, and once"
# The parameters whose elements move; all other tensors are passed unchanged.
_SELF, _TENSORS, _GRADIENT, _INTO = ("self",), ("tensors",), ("grad_output",), ("self", "src")
_MOVED: dict[str, tuple[str, ...]] = {
    "_unsafe_view": _SELF, "reshape": _SELF, "_reshape_copy": _SELF, "repeat": _SELF, "tile": _SELF, "flip": _SELF,
    "fliplr": _SELF, "flipud": _SELF, "roll": _SELF, "rot90": _SELF, "constant_pad_nd": _SELF, "tril": _SELF,
    "triu": _SELF, "unsafe_chunk": _SELF, "unsafe_split": _SELF, "unsafe_split_with_sizes": _SELF,
    "cat": _TENSORS, "concat": _TENSORS, "concatenate": _TENSORS, "stack": _TENSORS, "_stack": _TENSORS,
    "hstack": _TENSORS, "vstack": _TENSORS, "dstack": _TENSORS, "column_stack": _TENSORS, "block_diag": _TENSORS,
    "select_backward": _GRADIENT, "slice_backward": _GRADIENT, "diagonal_backward": _GRADIENT,
    "slice_scatter": _INTO, "select_scatter": _INTO, "diagonal_scatter": _INTO,
    "gather": _SELF, "index_select": _SELF, "embedding": ("weight",),
}  # fmt: skip
_OVERLOADS: dict[str, tuple[str, ...]] = {
    "repeat_interleave.self_int": _SELF, "index.Tensor": _SELF,
}  # fmt: skip
_FILL = "value"
# Views that only move elements; with the suffix "_copy", also their copying variants. Other views (sparse and nested
# tensors, conjugates) give the label `Mixed`.
_VIEWS = frozenset([
    "alias", "broadcast_to", "chunk", "contiguous", "detach", "diagonal", "dsplit", "expand", "expand_as", "flatten",
    "hsplit", "imag", "lift_fresh", "linalg_diagonal", "mT", "moveaxis", "movedim", "narrow", "numpy_T", "permute",
    "ravel", "real", "reshape_as", "resolve_conj", "resolve_neg", "select", "slice", "split", "split_with_sizes",
    "squeeze", "swapaxes", "swapdims", "t", "tensor_split", "transpose", "unbind", "unflatten", "unfold", "unsqueeze",
    "view", "view_as", "view_as_real", "vsplit",
])  # fmt: skip
# These depend on the bytes in memory, and the array of row numbers has another memory layout than the tensor.
_LOOKS_AT_BYTES = frozenset(["view.dtype", "view_copy.dtype"])
# Views of the real or imaginary part; they leave the order of dimensions unchanged.
_OF_PARTS = frozenset(["real", "imag", "view_as_real"])


def moved(schema: Any) -> tuple[str, ...]:
    """Return the parameters of an overload whose elements move.

    For an overload that does more than move elements, there are none.
    """
    name = schema.name.partition("::")[2]
    if schema.namespace != "aten" or name in _LOOKS_AT_BYTES or "nondeterministic_seeded" in schema.tags:
        return ()
    if any(a.is_write for a in schema.args):
        return ()
    if found := _OVERLOADS.get(name) or _MOVED.get(schema.base):
        return found if all(any(a.name == n and a.is_tensor for a in schema.args) for n in found) else ()
    if schema.base in _VIEWS and schema.is_view:
        return tuple(a.name for a in schema.args if a.alias is not None)
    copies = schema.base.endswith("_copy") and schema.base.removesuffix("_copy") in _VIEWS - _OF_PARTS
    return _SELF if copies and "view_copy" in schema.tags else ()


def labels(call: Any, given: Sequence[Label], rows: Rows, results: Sequence[Any]) -> list[Label]:
    """Compute the labels of the results.

    Parameters
    ----------
    call : Invocation
    given : sequence of Label
        The labels of the call's objects.
    rows : Rows
        The dataset and the row order that the labels share.
    results : sequence
        The shape and dtype of each result.
    """
    shapes = [tuple(r.shape) for r in results]
    mixed: list[Label] = [Mixed(call.row.name)] * len(shapes)
    dtypes = {r.dtype for r in results} | {e.array.dtype for e in call.entries}
    if not call.row.views and not dtypes <= DTYPES:
        return mixed
    first = next(label.dim for label in given if isinstance(label, Rows))
    if call.row.schema.base in _OF_PARTS:
        return [Rows(rows.dataset, first, rows.order)] * len(shapes)
    numbers = [_rows_of(e.array, label) for e, label in zip(call.entries, given)]
    found = _moved(call, given, numbers)
    if [f.shape for f in found] != shapes:
        return mixed
    return [_followed(rows.dataset, f, first) or m for f, m in zip(found, mixed)]


def values(call: Any, given: Sequence[Label], dtypes: Sequence[np.dtype]) -> list[np.ndarray | None]:
    """Compute the results; None for a 0-d result, because it has no rows."""
    numbers, parts, start = [], [], 1
    for name, entry, label in zip(call.names, call.entries, given):
        if name not in call.row.moved:
            numbers.append(entry.array)
            continue
        array = _compact(entry.array)
        own = np.arange(start, start + array.size, dtype=np.int64).reshape(array.shape)
        numbers.append(np.broadcast_to(own, entry.array.shape))
        parts.append(RowArray(array, label.dim) if isinstance(label, Rows) else array)
        start += array.size
    out: list[np.ndarray | None] = []
    for places, dtype in zip(_moved(call, given, numbers), dtypes, strict=True):
        fill = to(call.given.get(_FILL, 0), dtype).reshape(1)
        pool = np.concatenate([fill, *(values_of(to(x, dtype)).ravel() for x in parts)])
        out.append(values_of(canonical(RowArray(np.take(pool, places), 0))) if places.ndim else None)
    return out


def _moved(call: Any, given: Sequence[Label], numbers: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Run the kernel with numbers instead of the elements that move."""
    row = call.row
    arrays = []
    for name, entry, label, own in zip(call.names, call.entries, given, numbers):
        if name not in row.moved and label is not None:
            raise Unlabelled(f"{name} says where rows go")
        arrays.append(own if name in row.moved else entry.array)
    return call.plainly(arrays, {_FILL: 0})  # a fill belongs to no row


def _compact(array: np.ndarray) -> np.ndarray:
    """Return the array with its expanded dimensions (stride 0) reduced to size 1."""
    return array[tuple(slice(1) if s == 0 and n > 1 else slice(None) for n, s in zip(array.shape, array.strides))]


def _rows_of(array: np.ndarray, label: Label) -> np.ndarray:
    """Return the row number of each element, counted from 1; 0 for a public tensor."""
    if not isinstance(label, Rows):
        return np.broadcast_to(np.int64(0), array.shape)
    n = array.shape[label.dim]
    numbers = np.frombuffer(label.order, np.int64) if label.order else np.arange(n)
    shape = [1] * array.ndim
    shape[label.dim] = n
    return np.broadcast_to((numbers + 1).reshape(shape), array.shape)


def _followed(dataset: str, numbers: np.ndarray, first: int) -> Rows | None:
    """Return the label of a tensor, given the row number of each element; None if no dimension indexes rows."""
    if not numbers.size:
        return None
    for dim in sorted(range(numbers.ndim), key=lambda d: d != first):
        line = numbers.max(axis=tuple(d for d in range(numbers.ndim) if d != dim), keepdims=True)
        rows = line.ravel()
        used = rows[rows > 0]
        if used.size and len(np.unique(used)) == len(used) and ((numbers == line) | (numbers == 0)).all():
            same = np.array_equal(rows, np.arange(1, len(rows) + 1))
            return Rows(dataset, dim, b"" if same else (rows - 1).astype(np.int64).tobytes())
    return None
