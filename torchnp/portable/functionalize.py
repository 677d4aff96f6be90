"""Replace writes in a program: each write makes a new value of the written array and of all arrays that share memory.

Each view is recorded with the call that made it. After a write to a view, the inverse of that call (``slice_scatter``
for a slice) computes the new value of the viewed array, and other views of it are computed again when they are next
read. torch's own functionalization does the same; this one works on the archive's graph.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import torchnp
from torchnp.core.schema import Schema
from torchnp.runtime.graph import Graph, Meta, Node, Ref, check_names, result_names
from torchnp.runtime.json_fields import ProgramError
from torchnp.runtime.program import GraphSignature, Stored, UserInput
from torchnp.runtime.symbols import evaluate, symbols

_NORMS = {"aten::batch_norm": 1, "aten::native_batch_norm": 3, "aten::_native_batch_norm_legit": 3}
"""Batch norms that write their running statistics, with the number of their results."""
_NORM = "aten::_native_batch_norm_legit_functional"
_ADVICE = "save what run_decompositions() makes of the program"

_RESHAPES = frozenset({
    "aten::view", "aten::reshape", "aten::_unsafe_view", "aten::flatten.using_ints", "aten::unflatten.int",
    "aten::ravel", "aten::view_as", "aten::reshape_as", "aten::squeeze", "aten::squeeze.dim", "aten::squeeze.dims",
    "aten::unsqueeze",
})  # fmt: skip
_SAME = frozenset({
    "aten::alias", "aten::detach", "aten::contiguous", "aten::to.dtype", "aten::to.device", "aten::to.dtype_layout",
    "aten::to.other", "aten::type_as", "aten::positive", "aten::lift_fresh",
})  # fmt: skip
_OWN_INVERSE = frozenset(
    {"aten::t", "aten::transpose.int", "aten::swapaxes", "aten::swapdims", "aten::mT", "aten::numpy_T"}
)
_PERHAPS_COPIES = frozenset({
    "aten::reshape", "aten::flatten.using_ints", "aten::ravel", "aten::reshape_as", "aten::contiguous", "aten::to.dtype",
    "aten::to.device", "aten::to.dtype_layout", "aten::to.other", "aten::type_as",
})  # fmt: skip
"""Operators that return a view or a copy, depending on strides."""


@dataclass(frozen=True)
class View:
    """How a value was made from the array whose memory it shares; ``place`` is its position in a list of results."""

    parent: str
    node: Node | None
    place: int = 0


def writes_of(node: Node) -> list[str]:
    """Return the names of the arrays that a node writes."""
    if node.target in _NORMS:
        training = len(node.args) > 5 and node.args[5] is True
        return [x.name for x in node.args[3:5] if isinstance(x, Ref)] if training else []
    schema = torchnp.table.schemas.get(node.target)
    if schema is None or not schema.mutates:
        return []
    bound = _arguments(schema, node)
    return [bound[a.name].name for a in schema.written if isinstance(bound.get(a.name), Ref)]


def _arguments(schema: Schema, node: Node) -> dict[str, Any]:
    """Return a node's arguments by name, without defaults."""
    return dict(zip((a.name for a in schema.args), node.args)) | node.kwargs


def functionalize(graph: Graph, signature: GraphSignature) -> tuple[Graph, GraphSignature]:
    """Return a graph without writes. It has more outputs: the new values of stored and of the caller's arrays.

    Raises
    ------
    ProgramError
        A node writes in a way for which there is no functional form here.
    """
    for home, node in graph.walk():
        if home is not graph and writes_of(node):
            raise ProgramError(f"{node.where} writes to an array in a nested graph: {_ADVICE}")
    mutating = {n for n, s in torchnp.table.schemas.items() if s.mutates}
    if not any(node.target in mutating or writes_of(node) for node in graph.nodes):
        return graph, signature
    return _Rewriter(graph, signature).result()


class _Rewriter:
    def __init__(self, graph: Graph, signature: GraphSignature) -> None:
        self.graph, self.signature = graph, signature
        self.tensors = dict(graph.tensors)
        self.nodes: list[Node] = []
        self.views: dict[str, View] = {}
        self.now: dict[str, str] = {}  # the name that now holds a value
        self.version: dict[str, int] = {}  # the number of writes to each array that is not a view
        self.seen: dict[str, int] = {}  # for each view, the version of its base from which it was last made
        self.count = 0
        self.at = ""

    def result(self) -> tuple[Graph, GraphSignature]:
        for node in self.graph.nodes:
            self.at = node.where
            self._rewrite(node)
        outputs, roles = [self._read(x) for x in self.graph.outputs], list(self.signature.outputs)
        for spec in self.signature.inputs:
            name = getattr(spec, "name", None)
            if isinstance(spec, (Stored, UserInput)) and self.version.get(name or "", 0):
                outputs.append(Ref(self._current(spec.name)))
                roles.append(("state", spec.target) if isinstance(spec, Stored) else ("input", spec.name))
        graph = replace(self.graph, nodes=self.nodes, outputs=outputs, tensors=self.tensors)
        check_names(graph, "the functional graph")
        return graph, replace(self.signature, outputs=roles)

    # ------------------------------------------------------------ reading

    def _read(self, x: Any) -> Any:
        if isinstance(x, Ref):
            return Ref(self._current(x.name))
        return [self._read(v) for v in x] if isinstance(x, list) else x

    def _root(self, name: str) -> str:
        while name in self.views:
            name = self.views[name].parent
        return name

    def _current(self, name: str) -> str:
        """Return the name that holds a value after the writes so far."""
        if name not in self.views:
            return self.now.get(name, name)
        root = self._root(name)
        if self.seen[name] != self.version.get(root, 0):
            self.now[name] = self._made_again(name)
            self.seen[name] = self.version.get(root, 0)
        return self.now.get(name, name)

    def _made_again(self, name: str) -> str:
        view = self.views[name]
        parent = self._current(view.parent)
        if view.node is None:
            return parent
        args = [Ref(parent), *view.node.args[1:]]
        if isinstance(view.node.results[0], list):
            results = [None] * len(view.node.results[0])
            results[view.place] = ("tensor", self._fresh(name))  # type: ignore[call-overload]
            self._add(view.node.target, args, view.node.kwargs, [results])
            return results[view.place][1]  # type: ignore[index]
        return self._call(view.node.target, args, name, view.node.kwargs)

    # ------------------------------------------------------------ nodes

    def _fresh(self, like: str) -> str:
        self.count += 1
        name = f"{like}.{self.count}"
        if like in self.tensors:
            self.tensors[name] = self.tensors[like]
        return name

    def _add(self, target: str, args: list[Any], kwargs: dict[str, Any], results: list[Any]) -> None:
        self.nodes.append(Node(target, args, kwargs, results, self.at))

    def _call(self, target: str, args: list[Any], like: str, kwargs: dict[str, Any] | None = None) -> str:
        """Add a node whose result has the shape and dtype of another value; return its name."""
        name = self._fresh(like)
        self._add(target, args, kwargs or {}, [("tensor", name)])
        return name

    def _rewrite(self, node: Node) -> None:
        schema = torchnp.table.schemas.get(node.target)
        written = writes_of(node)
        if node.target in _NORMS and written:
            self._norm(node, written)
        elif schema is not None and schema.mutates and "inplace_view" not in schema.tags:
            self._write_node(node, schema, written)
        else:
            inplace_view = schema is not None and schema.mutates
            target = functional_name(schema) if schema is not None and inplace_view else node.target
            new = replace(
                node,
                target=target,
                args=[self._read(x) for x in node.args],
                kwargs={k: self._read(v) for k, v in node.kwargs.items()},
            )
            self.nodes.append(new)
            self._note_views(replace(node, target=target))

    def _note_views(self, node: Node) -> None:
        schema = torchnp.table.schemas.get(node.target)
        if schema is None or not schema.is_view or not node.args or not isinstance(node.args[0], Ref):
            return
        parent = node.args[0].name
        if node.target in _PERHAPS_COPIES and not self._shares(node):
            return
        for place, name in enumerate(result_names(node.results)):
            self.views[name] = View(parent, node, place)
            self.seen[name] = self.version.get(self._root(parent), 0)

    def _shares(self, node: Node) -> bool:
        """Return whether the kernel returns a view, given an array with the strides that the archive records."""

        def stand_in(x: Any) -> Any:
            if isinstance(x, list):
                return [stand_in(v) for v in x]
            return _array_of(self.tensors[x.name]) if isinstance(x, Ref) and x.name in self.tensors else x

        args = [stand_in(x) for x in node.args]
        if any(isinstance(v, Ref) for x in args for v in (x if isinstance(x, list) else [x])):
            return node.target not in ("aten::to.dtype", "aten::to.other")  # a size that is a value of the graph
        found = torchnp.table[node.target](*args, **{k: stand_in(v) for k, v in node.kwargs.items()})
        return np.shares_memory(found, args[0])

    # ------------------------------------------------------------ writing

    def _norm(self, node: Node, written: list[str]) -> None:
        """Replace a batch norm in training by its functional form, which also returns the new running statistics."""
        args = [self._read(x) for x in node.args]
        args = args[:8]
        names = list(result_names(node.results)) if len(node.results) == 1 else [r and r[1] for r in node.results]
        results: list[Any] = [("tensor", x) if x else None for x in names]
        results += [None] * (3 - len(results))
        fresh = [self._fresh(name) for name in written]
        self._add(_NORM, args, {}, [*results, *(("tensor", name) for name in fresh)])
        for name, new in zip(written, fresh):
            self._write(name, new)

    def _write_node(self, node: Node, schema: Schema, written: list[str]) -> None:
        if len(written) != 1 or len(schema.written) != 1:
            raise ProgramError(f"{node.where} writes to several arrays at once: {_ADVICE}")
        (target,) = written
        kwargs = {k: self._read(v) for k, v in node.kwargs.items() if k != schema.written[0].name}
        name = functional_name(schema)
        args = [self._read(x) for x in node.args]
        value = self._call(name, args, target, kwargs)
        if name not in ("aten::copy", "aten::fill.Scalar", "aten::fill.Tensor", "aten::zero"):
            value = self._call("aten::copy", [Ref(self._current(target)), Ref(value)], target)
        self._write(target, value)
        for result in result_names(node.results):  # the written array itself
            self.views[result] = View(target, None)
            self.seen[result] = -1

    def _write(self, name: str, value: str) -> None:
        """Set the new value of an array, and update the arrays whose memory it shares."""
        chain = []
        while name in self.views:
            view = self.views[name]
            chain.append((name, value))
            value = self._inverse(view, value)
            name = view.parent
        self.now[name] = value
        self.version[name] = self.version.get(name, 0) + 1
        for view_name, new in chain:
            self.now[view_name], self.seen[view_name] = new, self.version[name]

    def _inverse(self, view: View, value: str) -> str:
        """Return the viewed array with the view's new value inserted."""
        node, parent, new = view.node, self._current(view.parent), Ref(value)
        if node is None or node.target in _SAME:
            return value
        name, rest = node.target, node.args[1:]
        if name in _RESHAPES:
            return self._call("aten::reshape_as", [new, Ref(parent)], view.parent)
        if name in _OWN_INVERSE:
            return self._call(name, [new, *rest], view.parent)
        if name == "aten::permute":
            dims = [d % len(rest[0]) for d in rest[0]]
            return self._call("aten::permute", [new, [dims.index(d) for d in range(len(dims))]], view.parent)
        scatters = {
            "aten::slice.Tensor": "aten::slice_scatter",
            "aten::select.int": "aten::select_scatter",
            "aten::diagonal": "aten::diagonal_scatter",
        }
        if name in scatters:
            return self._call(scatters[name], [Ref(parent), new, *rest], view.parent, node.kwargs)
        placed = self._place_of(view, node)
        if placed is None:
            raise ProgramError(f"{self.at} writes to a view that {name} made, which has no inverse here: {_ADVICE}")
        target, where = placed
        return self._call(target, [Ref(parent), new, *where], view.parent)

    def _place_of(self, view: View, node: Node) -> tuple[str, list[int]] | None:
        """Return the scatter that inserts one of several parts, and its arguments; None if there is no such scatter."""
        bound = _arguments(torchnp.table.schemas[node.target], node)
        dim = bound.get("dim", 0)
        if node.target == "aten::unbind.int":
            return "aten::select_scatter", [dim, view.place]
        if node.target == "aten::narrow" and isinstance(bound["start"], int) and isinstance(bound["length"], int):
            return "aten::slice_scatter", [dim, bound["start"], bound["start"] + bound["length"]]
        if node.target not in ("aten::split.Tensor", "aten::chunk", "aten::split_with_sizes"):
            return None
        sizes = [self.tensors[x[1]].shape[dim] if x else None for x in node.results[0]]
        before = sizes[: view.place + 1]
        if not all(isinstance(n, int) for n in before):
            return None
        end = sum(before)  # type: ignore[arg-type]
        return "aten::slice_scatter", [dim, end - before[-1], end]  # type: ignore[operator]


def functional_name(schema: Schema) -> str:
    """Return the operator that returns the value that a writing operator writes."""
    dot = f".{schema.overload}" if schema.overload else ""
    base = schema.base.removesuffix("_")
    if not schema.is_out:
        for name in (f"{schema.namespace}::{base}{dot}", f"{schema.namespace}::{base}_functional"):
            found = torchnp.table.schemas.get(name)
            if found is not None and not found.mutates:
                return name
    derived = torchnp.table[schema.name].derived_from
    if derived is None or torchnp.table.schemas[derived].mutates:
        raise ProgramError(f"{schema.name} has no functional form here: {_ADVICE}")
    return derived


def _array_of(meta: Meta) -> np.ndarray:
    """Return an array with the recorded shape and strides, in which each symbol has a different value."""
    names = sorted(set().union(*(symbols(n) for n in (*meta.shape, *meta.strides)), set()))
    values = {name: 5 + 2 * i for i, name in enumerate(names)}
    shape = [evaluate(n, values) for n in meta.shape]
    strides = [evaluate(n, values) for n in meta.strides]
    size = 1 + sum((n - 1) * s for n, s in zip(shape, strides)) if math.prod(shape) else 0
    memory = np.zeros(max(size, 0), meta.dtype)
    return np.lib.stride_tricks.as_strided(memory, shape, [s * meta.dtype.itemsize for s in strides])
