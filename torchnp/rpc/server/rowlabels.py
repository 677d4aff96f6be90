"""Which dimension of a private tensor indexes an owner's rows, and what operators do to it.

A tensor is labelled ``Rows(dataset, dim)`` if what stands at place i along ``dim`` depends on public values and on one row
of the dataset, and no two places depend on the same row. Then one row of the dataset changes one row of the tensor, and
a noised sum of clipped rows can be published. All other private tensors are `Mixed`.

Labels follow from the operators, the shapes and the public values, and so are public themselves. An operator keeps a label by one of
five rules; the schema says which may apply, and everything else mixes:

- *each*: elementwise with broadcasting; the row dimension is aligned from the right and never broadcast.
- *along*: works along other dimensions than the rows' (reductions, softmax, sort, layer norm).
- *contract*: sums of products, by index letters; the letter of the rows is not summed over.
- *lookup*: takes values at private places; each row at its own.
- *move*: moves values and computes nothing. The kernel itself tells where rows go: it is run on their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from torchnp.dtypes import is_floating
from torchnp.registry import FAILURES

RAISED = (*FAILURES, AssertionError, MemoryError)


@dataclass(frozen=True, slots=True)
class Rows:
    """The label of a tensor whose dimension ``dim`` indexes rows of a dataset.

    Attributes
    ----------
    dataset : str
        Whose budget pays.
    dim : int
        From 0 on.
    order : bytes
        The row that each place depends on, as int64, -1 for none; empty if place i depends on row i.
    """

    dataset: str
    dim: int
    order: bytes = b""


@dataclass(frozen=True, slots=True)
class Mixed:
    """The label of a tensor whose values may depend on all rows; ``by`` is the operator that brought it about."""

    by: str


Label = Rows | Mixed | None  # None is public


def dataset_of(name: str) -> str:
    """Whose rows an owner's array has, and whose budget pays: ``digits`` for ``digits.x`` and ``digits.y``."""
    return name.partition(".")[0]


def of_dataset(name: str, array: np.ndarray) -> Label:
    """The label of an owner's array: its first dimension indexes rows."""
    return Rows(dataset_of(name), 0) if array.ndim else Mixed("open")


class _Operand(NamedTuple):
    array: np.ndarray
    rows: Rows | None
    name: str


# ---------------------------------------------------------------- which rule an operator is under

# Elementwise, though torch does not tag them so: they look at shapes alone, convert, or reduce only if asked to.
_EACH = frozenset([
    "zeros_like", "ones_like", "full_like", "empty_like", "to", "_to_copy", "_autocast_to_full_precision",
    "_autocast_to_reduced_precision", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "mse_loss_backward", "smooth_l1_loss_backward", "huber_loss_backward",
    "binary_cross_entropy_backward", "soft_margin_loss", "soft_margin_loss_backward", "kl_div", "poisson_nll_loss",
    "where.self", "masked_fill.Tensor", "masked_fill.Scalar", "log_sigmoid_forward", "log_sigmoid_backward",
])  # fmt: skip
_ALONG = frozenset([
    "sum", "mean", "nansum", "nanmean", "prod", "amax", "amin", "aminmax", "max", "min", "argmax", "argmin", "all",
    "any", "count_nonzero", "logsumexp", "special_logsumexp", "var", "std", "var_mean", "std_mean", "norm",
    "linalg_vector_norm", "_softmax", "_log_softmax", "softmax", "log_softmax", "special_softmax",
    "special_log_softmax", "_safe_softmax", "_softmax_backward_data", "_log_softmax_backward_data", "cumsum",
    "cumprod", "logcumsumexp", "_logcumsumexp", "cummax", "cummin", "sort", "argsort", "topk", "kthvalue", "median",
    "nanmedian", "mode", "glu", "glu_backward", "linalg_vecdot", "cosine_similarity", "diff",
])  # fmt: skip
_NORMS = frozenset(["native_layer_norm", "native_layer_norm_backward"])
_LETTERS = {
    "mm": "ij,jk->ik", "bmm": "bij,bjk->bik", "mv": "ij,j->i", "outer": "i,j->ij", "ger": "i,j->ij",
    "addmm": "+ij,jk->ik", "baddbmm": "+bij,bjk->bik", "addmv": "+ij,j->i", "addr": "+i,j->ij",
}  # fmt: skip
_LOOKUPS = frozenset(["gather", "scatter", "scatter_add", "embedding", "index_select", "index"])
_MOVES = frozenset([
    "clone", "_unsafe_view", "reshape", "repeat", "tile", "cat", "concat", "concatenate", "stack", "hstack",
    "vstack", "dstack", "column_stack", "flip", "fliplr", "flipud", "roll", "rot90", "constant_pad_nd", "tril",
    "triu", "select_backward", "slice_backward", "slice_scatter", "select_scatter", "diagonal_backward",
    "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes", "repeat_interleave", "block_diag",
    "broadcast_in_dim", "collapse_view", "split_dim", "_reshape_copy", "_stack",
])  # fmt: skip
# Places in memory say nothing of rows: the numbers of the rows lie in a memory of their own.
_LOOKS_AT_BYTES = frozenset([
    "as_strided", "as_strided_copy", "_reshape_alias", "_reshape_alias_copy", "slice_inverse", "view.dtype",
    "view_copy.dtype", "view_of_dtype",
])  # fmt: skip
_INDICES = frozenset(["index", "indices"])


def rule_of(schema: Any) -> str:
    """The rule that an overload is under, or ""."""
    base, name = schema.base, schema.name.partition("::")[2]
    if "nondeterministic_seeded" in schema.tags or name in _LOOKS_AT_BYTES:
        return ""
    if any(a.type.startswith("Generator") for a in schema.args):
        return ""
    if any(a.is_write for a in schema.args):
        alone = schema.args[0].is_write and schema.args[0].type == "Tensor" and len(schema.returns) == 1
        each = "pointwise" in schema.tags or base in ("fill_", "zero_")
        return "in place" if alone and not schema.is_out and each else ""
    if base in _LETTERS:
        return "contract"
    if base in _NORMS:
        return "norm"
    if base in _EACH or name in _EACH or base in ("real", "imag") or "pointwise" in schema.tags:
        return "each"
    if base in _LOOKUPS and "reduce" not in schema.overload:
        return "lookup"
    if base in _MOVES or schema.is_view or "view_copy" in schema.tags:
        return "move"
    if base in _ALONG and any(a.name == "dim" for a in schema.args):
        return "along"
    return ""


# ---------------------------------------------------------------- labels of results


def labels(
    served: Any,
    args: list,
    kwargs: dict[str, Any],
    given: Sequence[Label],
    shapes: Sequence[tuple[int, ...]],
    call: Callable[[list, dict[str, Any]], Sequence[np.ndarray]],
) -> list[Label]:
    """The labels of an operator's results.

    Parameters
    ----------
    served : Served
        The operator.
    args, kwargs : list, dict
        Its arguments; no private value among them is looked at.
    given : sequence of Label
        Of the arrays among the arguments, in their order.
    shapes : sequence of tuple
        Of the results.
    call : callable
        Runs the kernel on other arguments; only where it moves values.
    """
    mixed: list[Label] = [Mixed(served.name)] * len(shapes)
    if not shapes:
        return []
    for label in given:
        if isinstance(label, Mixed):
            return [label] * len(shapes)
    if served.rule not in _RULES or len({label.dataset for label in given if isinstance(label, Rows)}) != 1:
        return mixed
    bound = _bound(served.schema, args, kwargs, given)
    operands = _operands(bound)
    try:
        return _RULES[served.rule](served, bound, operands, shapes, call) or mixed
    except RAISED:  # what does not fit the rule; the kernel has told of what is wrong
        return mixed


def stays(served: Any, args: list, kwargs: dict[str, Any], given: Sequence[Label]) -> bool:
    """Whether the target of an operator in place still has its label afterwards, and so have all its views.

    Where each of its places depended on the one row that its label says, it does so after an elementwise operator whose
    result would have the same label. Kernels on floating point numbers do not fail for their values.
    """
    if served.rule != "in place" or any(isinstance(label, Mixed) for label in given) or not isinstance(given[0], Rows):
        return False
    operands = _operands(_bound(served.schema, args, kwargs, given))
    shape = operands[0].array.shape
    if not all(is_floating(x.array.dtype) for x in operands):
        return False
    try:
        return _each(served, {}, operands, [shape], None) == [given[0]]
    except RAISED:
        return False


def _bound(schema: Any, args: list, kwargs: dict[str, Any], given: Sequence[Label]) -> dict[str, Any]:
    """The arguments by name, defaults among them, and each array with its label."""
    left = iter(given)
    bound: dict[str, Any] = {a.name: a.default for a in schema.args if a.has_default}
    for name, value in [*zip((a.name for a in schema.args if not a.kwonly), args), *kwargs.items()]:
        bound[name] = _marked(name, value, left)
    return bound


def _operands(bound: dict[str, Any]) -> list[_Operand]:
    found = [x for value in bound.values() for x in (value if isinstance(value, list) else [value])]
    return [x for x in found if isinstance(x, _Operand)]


def _marked(name: str, value: Any, left: Iterator[Label]) -> Any:
    if isinstance(value, np.ndarray):
        label = next(left)
        return _Operand(value, label if isinstance(label, Rows) else None, name)
    return [_marked(name, x, left) for x in value] if isinstance(value, list) else value


def _aligned(operands: Sequence[_Operand]) -> tuple[int, int, Rows] | None:
    """(place of the rows from the right, their number, a label) that all labelled operands have in common."""
    facts = {
        (x.rows.dim - x.array.ndim, x.array.shape[x.rows.dim], x.rows.order, x.rows.dataset)
        for x in operands
        if x.rows is not None
    }
    if len(facts) != 1:
        return None
    ((place, n, order, dataset),) = facts
    return place, n, Rows(dataset, 0, order)


def _at(rows: Rows, dim: int, n: int, shape: tuple[int, ...], by: str) -> Label:
    return Rows(rows.dataset, dim, rows.order) if 0 <= dim < len(shape) and shape[dim] == n else Mixed(by)


def _each(served: Any, bound: dict, operands: list, shapes: Sequence, call: Any) -> list[Label] | None:
    common = _aligned(operands)
    if common is None or bound.get("reduction", 0) != 0:
        return None
    place, n, rows = common
    together = np.broadcast_shapes(*(x.array.shape for x in operands))
    if any(shape != together for shape in shapes if shape != (0,)):
        return None
    return [_at(rows, len(shape) + place, n, shape, served.name) for shape in shapes]


def _along(served: Any, bound: dict, operands: list, shapes: Sequence, call: Any) -> list[Label] | None:
    common = _aligned(operands)
    ndim = max(x.array.ndim for x in operands)
    dims = bound.get("dim")
    if common is None or dims is None or dims == [] or any(x.array.ndim != ndim for x in operands):
        return None
    place, n, rows = common
    along = {d % ndim for d in (dims if isinstance(dims, list) else [dims])}
    if ndim + place in along or any(x.array.shape[place] != n for x in operands):
        return None
    fewer = ndim + place - sum(d < ndim + place for d in along)
    return [
        _at(rows, ndim + place if len(shape) == ndim else fewer, n, shape, served.name)
        if len(shape) in (ndim, ndim - len(along))
        else Mixed(served.name)
        for shape in shapes
    ]


def _norm(served: Any, bound: dict, operands: list, shapes: Sequence, call: Any) -> list[Label] | None:
    x = bound["input"]
    labelled = [o for o in operands if o.rows is not None]
    leading = x.array.ndim - len(bound["normalized_shape"])
    if any(o.array.ndim != x.array.ndim for o in labelled) or (common := _aligned(operands)) is None:
        return None
    place, n, rows = common
    if not 0 <= (dim := x.array.ndim + place) < leading:
        return None
    # The gradients of weight and bias, which are sums over the rows, have the shape of the normalized dimensions.
    return [
        _at(rows, dim, n, shape, served.name) if len(shape) == x.array.ndim else Mixed(served.name) for shape in shapes
    ]


def _contract(served: Any, bound: dict, operands: list, shapes: Sequence, call: Any) -> list[Label] | None:
    pattern = _LETTERS[served.schema.base]
    inputs, _, output = pattern.lstrip("+").partition("->")
    letters = inputs.split(",")
    found = set()
    for x, word in zip(operands, [output, *letters] if pattern[0] == "+" else letters, strict=True):
        if x.rows is not None:
            letter = word[x.rows.dim - x.array.ndim]
            n = x.array.shape[x.rows.dim]
            if letter not in output or n != shapes[0][output.index(letter)]:
                return None
            found.add((letter, n, x.rows.order, x.rows.dataset))
    if len(found) != 1:
        return None
    ((letter, n, order, dataset),) = found
    return [Rows(dataset, output.index(letter), order)]


def _lookup(served: Any, bound: dict, operands: list, shapes: Sequence, call: Any) -> list[Label] | None:
    base = served.schema.base
    places = [x for x in operands if x.name in _INDICES]
    takes = base in ("index_select", "index", "embedding") or (
        base == "gather"
        and operands[0].rows is not None
        and bound["dim"] % operands[0].array.ndim == operands[0].rows.dim
    )
    if takes and all(x.rows is None for x in places):
        return _move(served, bound, operands, shapes, call)
    table = bound["weight"] if base == "embedding" else bound["self"]
    if base in ("gather", "scatter", "scatter_add"):
        common = _aligned(operands)
        ndim = table.array.ndim
        if common is None or any(x.array.ndim != ndim for x in operands if x.name != "value"):
            return None
        place, n, rows = common
        free = base == "gather" and table.rows is None  # of a public table, from wherever
        if not free and bound["dim"] % ndim == ndim + place:
            return None
        if any(x.array.shape[place] != n for x in operands if x.name != "value" and not (free and x is table)):
            return None
        return [_at(rows, ndim + place, n, shape, served.name) for shape in shapes]
    if table.rows is not None or len(places) != 1:
        return None
    (at,) = places
    before = {"embedding": 0, "index_select": bound.get("dim", 0) % max(table.array.ndim, 1)}.get(base)
    if before is None:  # index: one tensor, at its place among None
        before = next(i for i, x in enumerate(bound["indices"]) if isinstance(x, _Operand))
    return [_at(at.rows, before + at.rows.dim, at.array.shape[at.rows.dim], shape, served.name) for shape in shapes]


def _move(served: Any, bound: dict, operands: list, shapes: Sequence, call: Any) -> list[Label] | None:
    """Run the kernel on the numbers of the rows, from 1 on; 0 is what depends on none."""
    dataset = next(x.rows.dataset for x in operands if x.rows is not None)

    def stand_in(value: Any) -> Any:
        if isinstance(value, list):
            return [stand_in(x) for x in value]
        if not isinstance(value, _Operand):
            return value
        array, rows = value.array, value.rows
        if value.name in _INDICES:
            if rows is not None:
                raise ValueError("a private index")
            return array
        if rows is None:
            return np.broadcast_to(np.int64(0), array.shape)
        n = array.shape[rows.dim]
        numbers = np.frombuffer(rows.order, np.int64) if rows.order else np.arange(n)
        shape = [1] * array.ndim
        shape[rows.dim] = n
        return np.broadcast_to((numbers + 1).reshape(shape), array.shape)

    positional = [a.name for a in served.schema.args if not a.kwonly]
    named = {a.name for a in served.schema.args if a.kwonly}
    found = call(
        [0 if n == "value" else stand_in(bound[n]) for n in positional if n in bound],  # a fill is no row's
        {n: stand_in(v) for n, v in bound.items() if n in named and v is not None and n != "dtype"},
    )
    if [f.shape for f in found] != list(shapes):
        return None
    first = next(x.rows.dim for x in operands if x.rows is not None)
    return [_followed(dataset, f, first) or Mixed(served.name) for f in found]


def _followed(dataset: str, numbers: np.ndarray, first: int) -> Rows | None:
    """The label of a tensor in whose places there are the numbers of the rows that they depend on."""
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


_RULES: dict[str, Callable[..., list[Label] | None]] = {
    "each": _each, "along": _along, "norm": _norm, "contract": _contract, "lookup": _lookup, "move": _move,
}  # fmt: skip


# ---------------------------------------------------------------- kernels that fail on some rows


def apart(given: Sequence[Label], made: Sequence[Label]) -> bool:
    """Whether each row of the results is of the same row of the arguments, so that it can be computed alone."""
    return len({x.order for x in (*given, *made) if isinstance(x, Rows)}) == 1 and any(
        isinstance(x, Rows) for x in made
    )


def by_parts(
    args: list,
    kwargs: dict[str, Any],
    given: Sequence[Label],
    made: Sequence[Label],
    zeros: Sequence[np.ndarray],
    call: Callable[[list, dict[str, Any]], Sequence[np.ndarray]],
) -> None:
    """Fill the results of a kernel that failed for some row (an index out of range, an integer divided by zero).

    That it failed must not reach the other rows: what fails is computed in halves, and rows that fail alone stay zeros.
    """
    label = next(x for x in made if isinstance(x, Rows))
    parts = _halves(0, zeros[list(made).index(label)].shape[label.dim])
    while parts:
        rows = parts.pop()
        left = iter(given)
        some = [_part(a, left, rows) for a in args], {k: _part(a, left, rows) for k, a in kwargs.items()}
        try:
            found = call(*some)
        except RAISED:
            parts += _halves(rows.start, rows.stop)
            continue
        for zero, part, target in zip(zeros, found, made, strict=True):
            if isinstance(target, Rows):
                place = (slice(None),) * target.dim + (rows,)
                if zero[place].shape == part.shape:
                    zero[place] = part


def _halves(start: int, stop: int) -> list[slice]:
    """Two parts of some rows; none of a single row."""
    middle = (start + stop) // 2
    return [slice(middle, stop), slice(start, middle)] if start < middle else []


def _part(value: Any, left: Iterator[Label], rows: slice) -> Any:
    if isinstance(value, np.ndarray):
        label = next(left)
        return value[(slice(None),) * label.dim + (rows,)] if isinstance(label, Rows) else value
    return [_part(x, left, rows) for x in value] if isinstance(value, list) else value
