"""Update buffers in place if a program changes only some of their elements, as with a cache of keys and values.

A program saved after ``run_decompositions()`` makes a new array for each update, and overwrites the buffer at the end.
If nothing else reads the old values, the update itself can write to the buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torchnp
from torchnp.runtime.graph import Graph, Node, Ref, refs, result_names
from torchnp.runtime.optimize import sharing

_UPDATES = {
    "aten::index_put": "aten::index_put_", "aten::index_copy": "aten::index_copy_", "aten::index_add": "aten::index_add_",
    "aten::index_fill.int_Scalar": "aten::index_fill_.int_Scalar", "aten::scatter.src": "aten::scatter_.src",
    "aten::scatter.value": "aten::scatter_.value", "aten::scatter_add": "aten::scatter_add_",
}  # fmt: skip


def _slice_scatter(self: Any, src: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    torchnp.table["aten::copy_"](torchnp.table["aten::slice.Tensor"](self, dim, start, end, step), src)
    return self


def _select_scatter(self: Any, src: Any, dim: int, index: int) -> Any:
    torchnp.table["aten::copy_"](torchnp.table["aten::select.int"](self, dim, index), src)
    return self


_OWN = {"aten::slice_scatter": _slice_scatter, "aten::select_scatter": _select_scatter}


def update_in_place(graph: Graph, written: Sequence[tuple[str, str]]) -> Graph:
    """Return a graph that writes buffers in place if this does not change the program's results.

    Parameters
    ----------
    graph : Graph
        The graph, optimized or not.
    written : sequence of (str, str)
        A buffer's name among the inputs, and the name of the output that is written to it after the run. The buffers
        share no memory with other inputs.
    """
    nodes, root = list(graph.nodes), sharing(graph)
    made = {name: i for i, node in enumerate(nodes) for name in result_names(node.results)}
    reads = [{*refs([*node.args, *node.kwargs.values()])} for node in nodes]
    outputs = [*refs(graph.outputs)]
    for buffer, value in written:
        chain = _chain(nodes, made, buffer, value)
        kept = [name for name in outputs if root(name) == root(value)]
        if chain and kept == [value] and all(_is_last(i, nodes, reads, outputs, root) for i in chain):
            for i in chain:
                nodes[i] = _in_place(nodes[i])
    return replace(graph, nodes=nodes)


def _chain(nodes: list[Node], made: dict[str, int], buffer: str, value: str) -> list[int]:
    """Return the chain of updates from a buffer to the value that is written to it; empty if there is no such chain."""
    chain = []
    while value != buffer:
        i = made.get(value)
        if i is None or nodes[i].function is not None or nodes[i].target not in (*_UPDATES, *_OWN):
            return []
        first = nodes[i].args[:1]
        if not first or not isinstance(first[0], Ref):
            return []
        chain.append(i)
        value = first[0].name
    return chain


def _is_last(i: int, nodes: list[Node], reads: list[set[str]], outputs: list[str], root: Any) -> bool:
    """Return whether nothing reads the memory of an update's first argument at the update or after it."""
    home = root(nodes[i].args[0].name)
    rest = [*refs([*nodes[i].args[1:], *nodes[i].kwargs.values()]), *outputs]
    for names in reads[i + 1 :]:
        rest += names
    return not any(root(name) == home for name in rest)


def _in_place(node: Node) -> Node:
    name = _UPDATES.get(node.target)
    function: Any = _OWN[node.target] if name is None else torchnp.table[name]
    return replace(node, function=function, label=f"{node.target} in place")
