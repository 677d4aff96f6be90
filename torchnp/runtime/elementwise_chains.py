"""Chains of elementwise operators that are computed tile by tile, so that intermediate results stay in cache.

Each operator is the table's kernel. If the inputs cannot be cut, each operator computes whole arrays. Small tiles run
on one thread, because several threads would wait for the GIL after each operator. Arrays too large for any cache are
cut into larger parts, for all threads.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

import torchnp
from torchnp.core.registry import FAILURES
from torchnp.runtime.graph import Graph, Meta, Node, Ref, check_names, refs
from torchnp.runtime.run import ExecutionPlan
from torchnp.threads import blocks, piece, share
from torchnp.thresholds import Threshold

ndarray = np.ndarray
LARGE: Threshold = 1 << 18  # elements of an array from which tiles are worth their cost
_TILE: Threshold = 1 << 15  # elements of a tile
# Elements per step of torch's loops; a tile has a multiple of them, so that remainders occur only at the end.
_VECTORS = 1 << 7
_HUGE: Threshold = 1 << 23  # elements from which threads are worth their cost


class _Cut(NamedTuple):
    """Inputs prepared for tiling."""

    shape: tuple[int, ...]  # shape of the results
    lead: int  # number of leading dimensions that are merged into rows and cut
    inputs: list[Any]  # arrays of rows, and inputs that every tile reads whole
    has_rows: list[bool]  # which inputs are cut


class Chain:
    """Several elementwise nodes as one function of their inputs.

    Parameters
    ----------
    nodes : sequence of Node
        Elementwise nodes, in order.
    inputs : sequence of str
        Names of the values that the nodes read from other nodes, in argument order.
    outputs : sequence of str
        Names of the values that other nodes read from these nodes.
    """

    def __init__(self, nodes: Sequence[Node], inputs: Sequence[str], outputs: Sequence[str]) -> None:
        graph = Graph([Ref(n) for n in inputs], [Ref(n) for n in outputs], [*nodes], {}, {})
        check_names(graph, "a chain of operators")
        self._plan = ExecutionPlan(graph)
        self._one = len(outputs) == 1

    def __call__(self, *inputs: Any) -> Any:
        found = None
        if (cut := _cut(inputs)) is not None:
            with contextlib.suppress(*FAILURES):  # the run without tiles raises the error for whole arrays
                found = self._tiled(cut)
        if found is None:
            found = self._plan([*inputs])
        return found[0] if self._one else found

    def _tiled(self, cut: _Cut) -> list[ndarray] | None:
        """Return the results for whole arrays, row-major; None if a tile's result has another layout or shape."""
        n, inner = math.prod(cut.shape[: cut.lead]), cut.shape[cut.lead :]
        total, size = math.prod(cut.shape), math.prod(inner)
        whole = _VECTORS // math.gcd(size, _VECTORS)  # rows per whole number of vectors
        first, *parts = blocks(n, max(1, (piece(total) if total >= _HUGE else _TILE) // size // whole) * whole)

        def results(part: slice) -> list[ndarray]:
            return self._plan([x[part] if rows else x for x, rows in zip(cut.inputs, cut.has_rows)])

        made = results(first)
        for x in made:  # give up if a result has another shape or layout, or shares an argument's memory
            if x.shape != (first.stop, *inner) or not x.flags.c_contiguous:
                return None
            if any(np.may_share_memory(x, y) for y in cut.inputs if type(y) is ndarray):
                return None
        outs = [np.empty((n, *inner), x.dtype) for x in made]

        def keep(part: slice, found: list[ndarray]) -> None:
            for out, x in zip(outs, found):
                out[part] = x

        keep(first, made)
        if total >= _HUGE:
            share(lambda part: keep(part, results(part)), parts)
        else:
            for part in parts:
                keep(part, results(part))
        return [x.reshape(cut.shape) for x in outs]


def _cut(inputs: Sequence[Any]) -> _Cut | None:
    """Return how to tile the inputs; None if tiles are not worth their cost, or an input is not row-major."""
    largest = max((x for x in inputs if type(x) is ndarray), key=lambda x: x.size, default=None)
    if largest is None or largest.size < LARGE:
        return None
    shape = largest.shape
    lead = next(k for k in range(1, len(shape) + 1) if math.prod(shape[k:]) <= _TILE)
    taken, has_rows = [], []
    for x in inputs:
        cut = False
        if type(x) is ndarray and x.ndim > len(shape) - lead:  # some of its dimensions are row dimensions
            own = (1,) * (len(shape) - x.ndim) + x.shape
            cut = own[:lead] == shape[:lead]
            if not (x.flags.c_contiguous if cut else math.prod(own[:lead]) == 1):
                return None
            x = x.reshape(-1 if cut else 1, *own[lead:])
        taken.append(x)
        has_rows.append(cut)
    return _Cut(shape, lead, taken, has_rows)


def chained(nodes: Sequence[Node], outputs: Sequence[Any], tensors: Mapping[str, Meta]) -> list[Node]:
    """Fuse adjacent elementwise nodes of one shape into single nodes.

    Parameters
    ----------
    nodes : sequence of Node
        The nodes in execution order.
    outputs : sequence
        The graph's outputs.
    tensors : mapping of str to Meta
        The metadata of the nodes' results.
    """
    found: list[Node] = []
    group: list[Node] = []
    shape: Any = None
    readers = {name: i for i, node in enumerate(nodes) for name in refs([*node.args, *node.kwargs.values()])}
    readers |= dict.fromkeys(refs(outputs), len(nodes))  # the last reader of each value
    for i, node in enumerate((*nodes, None)):
        own = tensors.get(node.results[0][1]) if node is not None and _is_elementwise(node) else None
        if own is None or own.shape != shape:
            found += [_joined(group, i, readers)] if len(group) > 1 else group
            group, shape = [], own and own.shape
        if own is not None:
            group.append(node)  # type: ignore[arg-type]
        elif node is not None:
            found.append(node)
    return found


def _is_elementwise(node: Node) -> bool:
    """Return whether a node has one result that is computed element by element, with the operands' layout."""
    schema = torchnp.table.schemas.get(node.target)
    if schema is None or "pointwise" not in schema.tags or node.function is not None:
        return False
    if schema.mutates or any(r.alias for r in schema.returns) or "nondeterministic_seeded" in schema.tags:
        return False
    if node.kwargs.get("memory_format") is not None:
        return False
    return len(node.results) == 1 and isinstance(node.results[0], tuple) and node.results[0][0] == "tensor"


def _joined(group: list[Node], end: int, readers: Mapping[str, int]) -> Node:
    """Return one node that replaces a group of nodes, the last of which is before index ``end``."""
    constants: list[ndarray] = []  # passed as inputs, so that they are cut into tiles too

    def lifted(x: Any) -> Any:
        if not isinstance(x, ndarray) or not x.ndim:
            return [lifted(v) for v in x] if isinstance(x, list) else x
        constants.append(x)
        return Ref(f"constant {len(constants)}")  # torch's names have no spaces

    group = [
        replace(node, args=[*map(lifted, node.args)], kwargs={k: lifted(x) for k, x in node.kwargs.items()})
        for node in group
    ]
    made = [node.results[0][1] for node in group]
    read = dict.fromkeys(n for node in group for n in refs([*node.args, *node.kwargs.values()]))
    named = [f"constant {i + 1}" for i in range(len(constants))]
    inputs = [n for n in read if n not in made and n not in named]
    outputs = [n for n in made if readers.get(n, -1) >= end]
    results: list[Any] = [("tensor", n) for n in outputs]
    label = ", ".join(node.label or node.target for node in group)
    chain = Chain(group, [*inputs, *named], outputs)
    given = [*(Ref(n) for n in inputs), *constants]
    return Node(group[-1].target, given, {}, results, group[0].where, function=chain, label=label)
