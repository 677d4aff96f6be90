"""Run a graph on an array library: each node by its row, or by the NumPy kernel on the host."""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import numpy as np

import torchnp
from torchnp.portable import draws
from torchnp.portable.library import ArrayLibrary, ValueNeeded
from torchnp.portable.rows import HOSTED, Array
from torchnp.runtime.graph import Graph, Node, Ref, result_names
from torchnp.runtime.run import NUMBERS
from torchnp.runtime.symbols import evaluate, symbols

_FIXED = {
    "aten::nonzero": "keep the mask, and choose by torch.where(mask, x, fill)",
    "aten::index.Tensor": "choose by torch.where(mask, x, fill) instead of indexing by a mask",
    "aten::masked_select": "choose by torch.where(mask, x, fill)",
    "aten::masked_scatter": "choose by torch.where(mask, x, fill)",
    "aten::_unique2": "sort, and compare neighbours",
    "aten::unique_dim": "sort, and compare neighbours",
    "aten::repeat_interleave.Tensor": "repeat by one number, or gather by an index of a fixed size",
    "aten::_local_scalar_dense": "keep the value as a tensor instead of calling .item()",
    "aten::item": "keep the value as a tensor instead of calling .item()",
}


class Interpreter:
    """Runs the nodes of a program, and records which operators ran on the host.

    Parameters
    ----------
    lib : ArrayLibrary
        The library.
    fallback : bool
        Whether operators without a row run on the host.
    sizes : dict
        The value of each symbol in the graph's shapes; symbols of data-dependent sizes are added during the run.
    drawn : dict
        The random numbers of random operators, by `draws.key_of`.
    traced : bool
        Whether the arguments have no values.
    """

    def __init__(
        self, lib: ArrayLibrary, fallback: bool, sizes: dict[str, Any], drawn: dict[str, list[Array]], traced: bool
    ) -> None:
        self.lib, self.fallback, self.sizes, self.drawn, self.traced = lib, fallback, sizes, drawn, traced
        self.declined: set[str] = set()

    def run(self, graph: Graph, inputs: Sequence[Any]) -> list[Any]:
        """Run a graph; return its outputs, in order."""
        values = {ref.name: x for ref, x in zip(graph.inputs, inputs) if isinstance(ref, Ref)}

        def read(x: Any) -> Any:
            if isinstance(x, Ref):
                return values[x.name]
            if isinstance(x, list):
                return [read(v) for v in x]
            return (lambda *given: self.run(x, given)) if isinstance(x, Graph) else x

        for node in graph.nodes:
            args, kwargs = [read(x) for x in node.args], {k: read(v) for k, v in node.kwargs.items()}
            with _At(node):
                self._bind(node.results, self._results(graph, node, args, kwargs), values)
            for name in node.dead:
                values.pop(name, None)
        return [read(x) for x in graph.outputs]

    def _results(self, graph: Graph, node: Node, args: list[Any], kwargs: dict[str, Any]) -> list[Any]:
        """Run a node; return its results, one for each result in its schema."""
        name = node.target
        if name in NUMBERS:
            return [NUMBERS[name](*args)]
        if draws.is_drawn(node):
            found: Any = draws.computed(self.lib, node, args[0] if args else None, self._draw(node, args, kwargs))
        else:
            args, kwargs = _in_order(name, args, kwargs)
            found = self._called(node, args, kwargs)
        if found is NotImplemented:
            self.declined.add(name)
            found = self._on_host(graph, node, args, kwargs)
        if ".higher_order." in name:
            return list(found)
        if len(node.results) == 1:
            return [found]
        return list(found) if node.results else []

    def _called(self, node: Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
        try:
            return self.lib.run(node.target, args, kwargs)
        except ValueNeeded:
            raise ValueNeeded(self._refusal(node, "needs the value of an array")) from None

    def _draw(self, node: Node, args: list[Any], kwargs: dict[str, Any]) -> list[Array]:
        key = draws.key_of(node)
        if key not in self.drawn:
            if self.traced:
                raise ValueNeeded(
                    f"{node.target} draws random numbers, which a trace would keep: draw them before the call, "
                    f"p.pure(p.state | p.draw(*args), *args){_place(node)}"
                )
            shaped = lambda x: np.ones(tuple(x.shape), self.lib.dtype_of(x)) if self.lib.is_array(x) else x
            given = iter([shaped(x) for x in (*args, *kwargs.values())])
            self.drawn[key] = [self.lib.from_numpy(x) for x in draws.draw(node, lambda _: next(given))]
        return self.drawn[key]

    # ------------------------------------------------------------ the host

    def _on_host(self, graph: Graph, node: Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Run the NumPy kernel; its results have the shapes and dtypes that the archive records."""
        if not self.fallback:
            raise NotImplementedError(
                f"{node.target} has no row on {self.lib.name} for these arguments, and fallback=False{_place(node)}"
            )
        if ".higher_order." in node.target:
            raise NotImplementedError(f"{node.target} does not run on {self.lib.name}{_place(node)}")
        listed = len(node.results) == 1 and isinstance(node.results[0], list)
        names = [x and x[1] for x in (node.results[0] if listed else node.results)]
        metas = [graph.tensors.get(x) if x else None for x in names]
        wanted = [i for i, meta in enumerate(metas) if meta is not None]
        kernel = torchnp.table[node.target]
        if any(not symbols(n) <= set(self.sizes) for i in wanted for n in metas[i].shape):  # type: ignore[union-attr]
            return self._data_dependent(node, args, kwargs, [metas[i] for i in wanted])
        if self.traced and draws.is_random(node):
            raise ValueNeeded(self._refusal(node, "draws random numbers that depend on values"))
        shapes = [tuple(evaluate(n, self.sizes) for n in metas[i].shape) for i in wanted]  # type: ignore[union-attr]
        if not wanted:  # the result is a number, or the node checks values: a trace has no values
            if self.lib.is_traced(*args):
                raise ValueNeeded(self._refusal(node, "needs the value of an array"))
            return self.lib.on_host(kernel, args, kwargs, None)[0] if node.results else None

        def chosen(*given: Any, **named: Any) -> list[Any]:
            found = kernel(*given, **named)
            found = list(found) if isinstance(found, (list, tuple)) else [found]
            return [found[i] for i in wanted]

        dtypes = [metas[i].dtype for i in wanted]  # type: ignore[union-attr]
        results: list[Any] = [None] * len(names)
        for i, x in zip(wanted, self.lib.on_host(chosen, args, kwargs, list(zip(shapes, dtypes)))):
            results[i] = x
        return results if listed or len(results) != 1 else results[0]

    def _data_dependent(self, node: Node, args: list[Any], kwargs: dict[str, Any], metas: list[Any]) -> Any:
        """Run a node whose result sizes depend on values, and store the sizes as values of their symbols."""
        if self.lib.is_traced(*args, *(x for a in args if isinstance(a, list) for x in a)):
            raise ValueNeeded(self._refusal(node, "gives a size that depends on values"))
        found = self.lib.on_host(torchnp.table[node.target], args, kwargs, None)
        for meta, x in zip(metas, found):
            self.sizes.update({n: size for n, size in zip(meta.shape, x.shape) if isinstance(n, str)})
        return found if len(found) != 1 or isinstance(node.results[0], list) else found[0]

    def _refusal(self, node: Node, why: str) -> str:
        where = "inside a trace" if self.lib.kind == "jax" else f"on {self.lib.name}, which computes later"
        advice = f": {_FIXED[node.target]}" if node.target in _FIXED else ""
        return f"{node.target} {why}, and arrays have no values {where}{advice}{_place(node)}"

    def _bind(self, results: list[Any], found: Sequence[Any], values: dict[str, Any]) -> None:
        for result, x in zip(results, found, strict=True):
            if isinstance(result, list):
                self._bind(result, x, values)
            elif result is not None:
                kind, name = result
                if kind != "tensor" and self.lib.is_array(x):
                    x = {"int": int, "float": float, "bool": bool}[kind](self.lib.item(x))
                values[name] = x


def _in_order(name: str, args: list[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Move keyword arguments to their positions, except those that are keyword-only in the schema."""
    schema = torchnp.table.schemas.get(name) if kwargs else None
    listed = [a for a in schema.args if not a.kwonly] if schema is not None else []
    given = [i for i, a in enumerate(listed) if a.name in kwargs]
    if not given:
        return args, kwargs
    more = [kwargs.get(a.name, a.default) for a in listed[len(args) : given[-1] + 1]]
    return [*args, *more], {k: v for k, v in kwargs.items() if k not in {listed[i].name for i in given}}


def _place(node: Node) -> str:
    """Return a node's location for messages: in the archive, and in the model's source."""
    return f"\n  at {node.where}" + (f"\n  of {node.source}" if node.source else "")


class _At:
    """Context manager that adds a node's location to errors."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, Exception) and not re.search(r"\n  at ", str(error)) and not hasattr(error, "__notes__"):
            error.add_note(_place(self.node).lstrip())


def tier(lib: ArrayLibrary, graph: Graph, node: Node, backed: set[str]) -> str:
    """Return how a node runs: ``number``, ``drawn``, ``own``, ``standard``, ``host``, or ``eager``.

    ``eager`` nodes have results whose sizes depend on values.
    """
    name = node.target
    if name in NUMBERS:
        return "number"
    if draws.is_drawn(node):
        return "drawn"
    metas = [graph.tensors[x] for x in result_names(node.results) if x in graph.tensors]
    unknown = any(not symbols(n) <= backed for meta in metas for n in meta.shape)
    if name in lib.own and not unknown:
        return "own"
    if name in lib.standard and not unknown and name not in HOSTED:
        return "standard"
    return "eager" if unknown else "host"
