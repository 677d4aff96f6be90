"""Chains of elementwise operators as one call: large tensors pass through all of them part by part, in the cache.

The kernels are the table's, so that the results are too; what is between two of them is never a whole tensor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import torchnp
from torchnp.kernels.numerics.parts import by_parts
from torchnp.runtime.graph import Graph, Node, Ref, refs
from torchnp.threads import LARGE

ndarray = np.ndarray


@dataclass
class Place:
    """Where a step finds an argument: among what the chain is given, then the results of its steps."""

    number: int


@dataclass
class Chain:
    """Elementwise kernels one after the other.

    Attributes
    ----------
    steps : list of (kernel, arguments, arguments by name)
        Arguments are constants and `Place`.
    given : int
        How many values the chain takes.
    """

    given: int
    steps: Sequence[tuple[Callable[..., Any], list[Any], dict[str, Any]]]

    def __call__(self, *given: Any) -> ndarray:
        arrays = [x for x in given if isinstance(x, ndarray)]
        size = max((x.size for x in arrays), default=0)
        # An array that is repeated along others takes part in the order of the result only where it is row-major.
        plain = all(x.size == size or x.flags.c_contiguous for x in arrays)
        return by_parts(self.run, *given) if size >= LARGE and plain else self.run(*given)

    def run(self, *given: Any) -> ndarray:
        """All steps on whole arrays."""
        values = [*given]
        for kernel, args, kwargs in self.steps:
            found = [values[x.number] if type(x) is Place else x for x in args]
            if kwargs:
                named = {k: values[x.number] if type(x) is Place else x for k, x in kwargs.items()}
                values.append(kernel(*found, **named))
            else:
                values.append(kernel(*found))
        return values[-1]


def chained(graph: Graph, pure: Callable[[Node], bool]) -> list[Node]:
    """The nodes of a graph, with elementwise ones whose result is read once, by another such one, in one node with it.

    Parameters
    ----------
    graph : Graph
        In order.
    pure : callable
        Whether a node gives the same for the same, and writes nothing.
    """
    reads = Counter(n for node in graph.nodes for n in {*refs([*node.args, *node.kwargs.values()])})
    reads.update(refs(graph.outputs))
    chains: dict[str, list[Node]] = {}  # by the name of the result
    whole: set[str] = set()  # those that no later node takes up
    for node in graph.nodes:
        if not pure(node):
            whole |= chains.keys()  # what it writes may be read by what would come after it
        elif _is_elementwise(graph, node):
            name = node.results[0][1]
            read = dict.fromkeys(refs([*node.args, *node.kwargs.values()]))
            open_ = [n for n in read if n in chains and n not in whole and reads[n] == 1 and _alike(graph, n, name)]
            chains[name] = [part for n in open_ for part in chains.pop(n)] + [node]
    joined = {id(nodes[-1]): _joined(nodes) for nodes in chains.values() if len(nodes) > 1}
    inner = {id(node) for nodes in chains.values() for node in nodes[:-1]}
    return [joined.get(id(node), node) for node in graph.nodes if id(node) not in inner]


def _joined(nodes: list[Node]) -> Node:
    inner = {node.results[0][1]: i for i, node in enumerate(nodes)}
    outer = dict.fromkeys(n for node in nodes for n in refs([*node.args, *node.kwargs.values()]) if n not in inner)
    places = {name: Place(i) for i, name in enumerate(outer)}
    places |= {name: Place(len(outer) + i) for name, i in inner.items()}

    def placed(x: Any) -> Any:
        return places[x.name] if isinstance(x, Ref) else x

    steps = [
        (torchnp.table[n.target], [placed(x) for x in n.args], {k: placed(x) for k, x in n.kwargs.items()})
        for n in nodes
    ]
    last = nodes[-1]
    label = ", ".join(_counted(node.target.partition("::")[2] for node in nodes))
    return replace(last, args=[Ref(n) for n in outer], kwargs={}, function=Chain(len(outer), steps), label=label)


def _counted(names: Iterable[str]) -> Iterable[str]:
    return (name if n == 1 else f"{n} {name}" for name, n in Counter(names).items())


def _is_elementwise(graph: Graph, node: Node) -> bool:
    """Whether each element of a node's one result is made of those in its place, in memory of its own."""
    schema = torchnp.table.schemas.get(node.target)
    if (
        schema is None
        or node.function is not None
        or "pointwise" not in schema.tags
        or schema.mutates
        or schema.is_view
    ):
        return False
    one = len(node.results) == 1 and isinstance(node.results[0], tuple) and node.results[0][0] == "tensor"
    lists = any(isinstance(x, list) for x in (*node.args, *node.kwargs.values()))
    # A layout may be asked for, and an argument handed on, by what is of no use in a chain.
    return (
        one
        and not lists
        and node.results[0][1] in graph.tensors
        and not any(a.name == "memory_format" for a in schema.args)
    )


def _alike(graph: Graph, name: str, other: str) -> bool:
    """Whether two tensors have the same sizes, and some."""
    shape = graph.tensors[name].shape
    return len(shape) > 0 and shape == graph.tensors[other].shape
