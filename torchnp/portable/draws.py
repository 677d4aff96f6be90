"""Random operators: torch's random numbers are drawn on the host before a trace, and used inside it.

The operators listed here draw numbers that depend only on the shapes and dtypes of their arguments. So the table's
kernel is called with arrays of ones, and its result is used in the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import torchnp
from torchnp.portable.library import ArrayLibrary
from torchnp.runtime.graph import Graph, Node, Ref, result_names
from torchnp.runtime.run import NUMBERS
from torchnp.runtime.symbols import Expression, evaluate, symbols

ndarray = np.ndarray
PREFIX = "draws/"
Sizes = dict[str, Any]

_DRAWN = frozenset({
    "aten::rand", "aten::rand_like", "aten::randn", "aten::randn_like", "aten::randint", "aten::randint.low",
    "aten::randint_like", "aten::randint_like.low_dtype", "aten::randperm", "aten::normal.float_float",
    "aten::normal_functional", "aten::uniform", "aten::bernoulli.p", "aten::exponential", "aten::log_normal",
    "aten::cauchy", "aten::geometric", "aten::random", "aten::random.from", "aten::random.to",
})  # fmt: skip
"""Operators whose result is the random numbers themselves."""

_MASKS: dict[str, Callable[..., bool]] = {
    "aten::dropout": lambda input, p, train: bool(train and p),
    "aten::feature_dropout": lambda input, p, train: bool(train and p),
    "aten::native_dropout": lambda input, p, train: bool(train is not False and p),
}
"""Operators that multiply their first argument by a mask, and for which arguments they draw it."""


def is_drawn(node: Node) -> bool:
    """Return whether a node's random numbers can be drawn before its arguments have values."""
    mask = _MASKS.get(node.target)
    return node.target in _DRAWN or (mask is not None and mask(*node.args))


def is_random(node: Node) -> bool:
    """Return whether a node may advance the generator."""
    if node.target in _MASKS:
        return is_drawn(node)
    schema = torchnp.table.schemas.get(node.target)
    if schema is None or "nondeterministic_seeded" not in schema.tags:
        return False
    given = {a.name: a.default for a in schema.args} | dict(zip((a.name for a in schema.args), node.args)) | node.kwargs
    trains = given.get("train", given.get("training", True))
    return trains is not False and all(given.get(name, 1) != 0 for name in ("dropout", "dropout_p"))


def key_of(node: Node) -> str:
    """Return the key in a program's state under which a node's random numbers are stored."""
    return PREFIX + next(result_names(node.results))


def draw(node: Node, read: Callable[[Any], Any]) -> list[ndarray]:
    """Draw a node's random numbers from `torchnp.default_generator`; ``read`` returns arguments, arrays as ndarrays."""
    args, kwargs = [read(x) for x in node.args], {k: read(v) for k, v in node.kwargs.items()}
    args = [np.ones(x.shape, x.dtype) if isinstance(x, ndarray) else x for x in args]
    found = torchnp.table[node.target](*args, **kwargs)
    return list(found) if isinstance(found, (tuple, list)) else [found]


def computed(lib: ArrayLibrary, node: Node, first: Any, drawn: Sequence[Any]) -> Any:
    """Compute a node's results from its first argument and its random numbers."""
    if node.target in _DRAWN:
        return drawn[0]
    product = lib.call("aten::mul.Tensor", first, drawn[0])
    return product if len(drawn) == 1 else (product, drawn[1])


def draw_all(graph: Graph, sizes: Sizes, numbers: dict[str, Any]) -> dict[str, list[ndarray]]:
    """Draw the random numbers of all nodes of a graph, in order; only the sizes of its arguments are needed."""
    known = dict(numbers)

    def read(x: Any) -> Any:
        if isinstance(x, list):
            return [read(v) for v in x]
        if not isinstance(x, Ref):
            return x
        meta = graph.tensors.get(x.name)
        if meta is None:
            return known[x.name]
        return np.broadcast_to(np.ones((), meta.dtype), _shape(meta.shape, sizes))

    found = {}
    for node in graph.nodes:
        if is_drawn(node):
            found[key_of(node)] = draw(node, read)
        elif node.target == "aten::sym_size.int":
            array, dim = node.args
            length = graph.tensors[array.name].shape[dim]
            if symbols(length) <= set(sizes):
                known[node.results[0][1]] = evaluate(length, sizes)
        elif node.target in NUMBERS and all(not isinstance(x, Ref) or x.name in known for x in node.args):
            known[node.results[0][1]] = NUMBERS[node.target](*map(read, node.args))
    return found


def _shape(shape: tuple[Expression, ...], sizes: Sizes) -> tuple[int, ...]:
    return tuple(evaluate(n, sizes) for n in shape)
