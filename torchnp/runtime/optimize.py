"""Graph optimization before execution: constant folding and fusion of adjacent nodes.

With ``exact=True`` a program skips it. A replaced node has its own `function`, whose results must stay within the
operator's tolerance. All other nodes keep the table's kernels.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

import torchnp
from torchnp.core.registry import FAILURES
from torchnp.runtime import fast_conv_pooling, fast_linear_sdpa, fast_ops_common, recurrent
from torchnp.runtime.elementwise_chains import chained
from torchnp.runtime.graph import Graph, Node, Ref, check_names, refs, result_names
from torchnp.runtime.run import NUMBERS, ExecutionPlan

ndarray = np.ndarray
_SMALL = 1 << 20  # bytes up to which a constant is always folded
_TURNED = 48 << 20  # budget in bytes for transposed copies of linear weights


def optimize(graph: Graph, constants: Mapping[str, ndarray]) -> tuple[Graph, set[str]]:
    """Optimize a graph; return it with the names of the constants that are now part of it.

    Parameters
    ----------
    graph : Graph
        A graph that has passed `missing` and `check_calls`.
    constants : mapping of str to ndarray
        The inputs whose values never change, by name.
    """
    work = GraphOptimizer(graph, constants)
    work.fold()
    work.merge()
    found = replace(graph, nodes=chained(work.nodes, graph.outputs, graph.tensors))
    check_names(found, "the improved graph")
    return found, work.used


def _inner(x: Any) -> Any:
    return optimize(x, {})[0] if isinstance(x, Graph) else x


class GraphOptimizer:
    """The optimization of one graph."""

    def __init__(self, graph: Graph, constants: Mapping[str, ndarray]) -> None:
        self.graph = graph
        self.nodes = [replace(node, args=[_inner(x) for x in node.args]) for node in graph.nodes]
        fixed = _changing(graph)
        self.known: dict[str, Any] = {n: x for n, x in constants.items() if n not in fixed}
        self._given = set(self.known)
        self._fixed = fixed
        self.used: set[str] = set()
        self._room = _TURNED

    # ------------------------------------------------------------ constants

    def fold(self) -> None:
        """Fold nodes that depend only on constants.

        Nodes whose results are written to, or are outputs, are not folded.
        """
        left = []
        for node in self.nodes:
            if not self._folded(node):
                left.append(node)
        self.nodes = left
        for node in self.nodes:
            node.args = [self._filled(x) for x in node.args]
            node.kwargs = {name: self._filled(x) for name, x in node.kwargs.items()}

    def _folded(self, node: Node) -> bool:
        names = [*result_names(node.results)]
        if not names or not _is_pure(node) or any(n in self._fixed for n in names):
            return False
        read = {*refs([*node.args, *node.kwargs.values()])}
        if not all(n in self.known for n in read) or not self._is_small(names, read):
            return False
        filled = replace(
            node, args=[*map(self._value, node.args)], kwargs={k: self._value(x) for k, x in node.kwargs.items()}
        )
        try:
            found = ExecutionPlan(Graph([], [Ref(n) for n in names], [filled], {}, {}))([])
        except FAILURES:  # the error is raised when the program runs
            return False
        self.known.update(zip(names, found))
        self.used |= read & self._given
        return True

    def _is_small(self, names: list[str], read: set[str]) -> bool:
        """Return whether results are not much larger than their inputs.

        Otherwise the text of an archive alone could make folding allocate huge arrays.
        """
        limit = max(_SMALL, 4 * sum(x.nbytes for n in read if isinstance(x := self.known[n], ndarray)))
        for meta in filter(None, map(self.graph.tensors.get, names)):
            sizes = [n for n in meta.shape if isinstance(n, int)]
            if len(sizes) < len(meta.shape) or math.prod(sizes) * meta.dtype.itemsize > limit:
                return False
        return True

    def _value(self, x: Any) -> Any:
        if isinstance(x, Ref):
            return self.known[x.name]
        return [self._value(v) for v in x] if isinstance(x, list) else x

    def _filled(self, x: Any) -> Any:
        """Replace the names of folded values by the values; keep the names of the graph's inputs."""
        if isinstance(x, Ref):
            return self.known[x.name] if x.name in self.known and x.name not in self._given else x
        return [self._filled(v) for v in x] if isinstance(x, list) else x

    def _constant(self, x: Any) -> Any:
        """Return the known float32 array of an argument, or None."""
        found = self.known.get(x.name) if isinstance(x, Ref) else x
        return found if isinstance(found, ndarray) and found.dtype == fast_ops_common.FLOAT else None

    def _use(self, *arguments: Any) -> None:
        self.used.update(x.name for x in arguments if isinstance(x, Ref) and x.name in self._given)

    # ------------------------------------------------------------ neighbours

    def merge(self) -> None:
        """Fuse nodes with the nodes after them, and decide which images may be channels-last."""
        self._reads = Counter(n for node in self.nodes for n in refs([*node.args, *node.kwargs.values()]))
        self._reads.update(refs(self.graph.outputs))
        self._convolutions: dict[str, tuple[Node, dict[str, Any]]] = {}
        # Results of convolutions and of sums in their memory, which nothing else uses.
        self._fresh: dict[str, Node] = {}
        left: list[Node] = []
        for node in self.nodes:
            step = _MERGES.get(node.target)
            if step is None or not step(self, node):
                left.append(node)
        self.nodes = left
        for node in left:
            if self._convolutions and isinstance(node.function, fast_linear_sdpa.Linear):
                node.function.alone = True
        for node, _ in self._convolutions.values():
            made: Any = node.function
            name = node.results[0][1]
            strides = self.graph.tensors[name].strides if name in self.graph.tensors else ()
            made.channels_last = strides[1:2] == (1,) or self._anywhere(name, set())

    def _convolve(self, node: Node) -> bool:
        given = bound(node)
        weight, bias, x = self._constant(given["weight"]), self._constant(given["bias"]), given["input"]
        plain = (
            not given.get("transposed")
            and given["groups"] == 1
            and fast_conv_pooling.pair(given["dilation"]) == (1, 1)
            and all(isinstance(n, int) for key in ("stride", "padding") for n in fast_conv_pooling.pair(given[key]))
        )
        if weight is None or weight.ndim != 4 or not weight.size or not _fits(bias, given["bias"], len(weight)):
            return False
        if not plain or not self._is_image(x) or min(fast_conv_pooling.pair(given["stride"])) < 1:
            return False
        self._use(given["weight"], given["bias"])
        given |= {"weight": weight, "bias": bias}
        self._set_convolution(node, given)
        node.args, node.kwargs = [x], {}
        return False

    def _set_convolution(self, node: Node, given: dict[str, Any]) -> None:
        (_, name) = node.results[0]
        meta = self.graph.tensors.get(name)
        sizes = [k for k in meta.shape if isinstance(k, int)] if meta else []
        points = math.prod(sizes) // sizes[1] if len(sizes) == 4 and sizes[1] else None
        node.function = fast_conv_pooling.Convolution(
            given["weight"],
            given["bias"],
            fast_conv_pooling.pair(given["stride"]),
            fast_conv_pooling.pair(given["padding"]),
            points,
        )
        self._convolutions[name] = node, given
        self._fresh[name] = node

    def _is_image(self, x: Any) -> bool:
        meta = self.graph.tensors.get(x.name) if isinstance(x, Ref) else None
        return meta is not None and meta.dtype == fast_ops_common.FLOAT and len(meta.shape) == 4

    def _normalize(self, node: Node) -> bool:
        """Fold a batch norm with constant parameters into the preceding convolution; return whether it was possible."""
        given = bound(node)
        x = given["input"]
        found = self._convolutions.get(x.name) if isinstance(x, Ref) and self._reads[x.name] == 1 else None
        names = ("weight", "bias", "running_mean", "running_var")
        parts = [self._constant(given[n]) for n in names]
        channels = len(found[1]["weight"]) if found else 0
        unknown = (
            not all(_fits(p, given[n], channels) for p, n in zip(parts, names)) or parts[2] is None or parts[3] is None
        )
        rest = [n for n in result_names(node.results[1:]) if self._reads[n]]
        if found is None or given.get("training") or unknown or rest or found[0].relu:
            return False
        if not isinstance(given["eps"], float):
            return False
        numbers = (1.0, 0.0, 0.0, 1.0)  # defaults for absent parameters
        scale, shift, mean, var = (n if p is None else p.astype(np.float64) for n, p in zip(numbers, parts))
        factor = np.asarray(scale / np.sqrt(var + given["eps"]))
        convolution, of = found
        before = -mean if of["bias"] is None else of["bias"] - mean
        self._use(*(given[n] for n in names))
        self._take_up(convolution, node, "batch_norm")
        of["weight"] = (of["weight"] * factor[:, None, None, None]).astype(np.float32)
        of["bias"] = (before * factor + shift).astype(np.float32)
        self._set_convolution(convolution, of)
        return True

    def _take_up(self, node: Node, follower: Node, what: str) -> None:
        """Make a node produce the result of the node after it, which is fused into it."""
        name = node.results[0][1]
        self._convolutions.pop(name, None)
        self._fresh.pop(name, None)
        node.results, node.label = follower.results[:1], f"{node.label or node.target} {what}"
        self._fresh[node.results[0][1]] = node

    def _rectify(self, node: Node) -> bool:
        x = bound(node)["self"]
        before = self._fresh.get(x.name) if isinstance(x, Ref) and self._reads[x.name] == 1 else None
        if before is None or before.relu:
            return False
        found = self._convolutions.get(x.name)
        self._take_up(before, node, "relu")
        before.relu = True
        if found:
            before.function.relu = True  # type: ignore[union-attr]
            self._convolutions[before.results[0][1]] = found
        else:
            before.args[2] = True
        return True

    def _add(self, node: Node) -> bool:
        """Compute a sum with a new result, such as a convolution's, in the memory of that result."""
        given = bound(node)
        pair = [given["self"], given["other"]]
        metas = [self.graph.tensors.get(x.name) if isinstance(x, Ref) else None for x in pair]
        if given["alpha"] != 1 or None in metas or metas[0].shape != metas[1].shape or pair[0] == pair[1]:  # type: ignore[union-attr]
            return False
        own = [x for x in pair if x.name in self._fresh and self._reads[x.name] == 1]
        if node.target.startswith("aten::add_"):
            own = own[:1] if own and own[0] == pair[0] else []
        dtypes = {meta.dtype for meta in metas}  # type: ignore[union-attr]
        if not own or dtypes != {fast_ops_common.FLOAT}:
            return False
        target = own[-1]
        result = self.graph.tensors.get(node.results[0][1])
        # torch gives the sum another layout.
        if result is None or result.strides != self.graph.tensors[target.name].strides:
            return False
        node.function = fast_conv_pooling.add_into
        node.args, node.kwargs = [target, pair[0] if pair[1] == target else pair[1], False], {}
        self._fresh[node.results[0][1]] = node
        return False

    def _pool(self, node: Node) -> bool:
        given = bound(node)
        known = all(not isinstance(x, Ref) for k in given if k != "self" for x in _flat(given[k]))
        if known and self._is_image(given["self"]) and self._is_alone(node):
            node.args, node.kwargs, node.function = [*given.values()], {}, fast_conv_pooling.max_pool2d
        return False

    def _recur(self, node: Node) -> bool:
        made = recurrent.LSTM() if node.target == recurrent.LSTM.name else recurrent.GRU()
        params = node.args[2] if len(node.args) > 2 else node.kwargs.get("params")
        made.keep = isinstance(params, list) and all(self._constant(p) is not None for p in params)
        if made.keep:
            self._use(*params)  # type: ignore[misc]
        node.function = made
        return False

    def _multiply(self, node: Node) -> bool:
        given = bound(node)
        weight, bias = self._constant(given["weight"]), self._constant(given["bias"])
        meta = self.graph.tensors.get(given["input"].name) if isinstance(given["input"], Ref) else None
        fits = meta is not None and meta.dtype == fast_ops_common.FLOAT and len(meta.shape) > 1 and weight is not None
        if not fits or weight.ndim != 2 or not _fits(bias, given["bias"], len(weight)) or weight.nbytes > self._room:
            return False
        self._room -= weight.nbytes
        self._use(given["weight"], given["bias"])
        node.function, node.args, node.kwargs = fast_linear_sdpa.Linear(weight, bias), [given["input"]], {}
        return False

    def _is_alone(self, node: Node) -> bool:
        """Return whether only a node's first result is read; if so, drop the others."""
        if any(self._reads[n] for n in result_names(node.results[1:])):
            return False
        node.results = node.results[:1]
        return True

    def _attend(self, node: Node) -> bool:
        if self._is_alone(node):
            flash = node.target == "aten::_scaled_dot_product_flash_attention_for_cpu"
            node.function = fast_linear_sdpa.flash_attention if flash else fast_linear_sdpa.attention
        return False

    # ------------------------------------------------------------ layout

    def _anywhere(self, name: str, seen: set[str]) -> bool:
        """Return whether no value computed from an image depends on the image's memory format."""
        if name in seen:
            return True
        seen.add(name)
        if any(name == n for n in refs(self.graph.outputs)):
            return False
        for node in self.nodes:
            if name not in refs([*node.args, *node.kwargs.values()]):
                continue
            if isinstance(node.function, fast_conv_pooling.Convolution) or (
                node.target in _ENDS and self._is_point(node)
            ):
                continue
            if (
                node.function not in (fast_conv_pooling.add_into, fast_conv_pooling.max_pool2d)
                and node.target not in _POINTWISE
            ):
                return False
            if not self._anywhere(node.results[0][1], seen):
                return False
        return True

    def _is_point(self, node: Node) -> bool:
        """Return whether a pooled image has one point, so that its memory format does not matter."""
        meta = self.graph.tensors.get(node.results[0][1])
        return meta is not None and (len(meta.shape) == 2 or meta.shape[-2:] == (1, 1))


_MERGES: dict[str, Callable[[GraphOptimizer, Node], bool]] = {
    "aten::conv2d": GraphOptimizer._convolve,
    "aten::convolution": GraphOptimizer._convolve,
    "aten::batch_norm": GraphOptimizer._normalize,
    "aten::_native_batch_norm_legit_no_training": GraphOptimizer._normalize,
    "aten::relu": GraphOptimizer._rectify,
    "aten::relu_": GraphOptimizer._rectify,
    "aten::add.Tensor": GraphOptimizer._add,
    "aten::add_.Tensor": GraphOptimizer._add,
    "aten::max_pool2d": GraphOptimizer._pool,
    "aten::max_pool2d_with_indices": GraphOptimizer._pool,
    "aten::linear": GraphOptimizer._multiply,
    recurrent.LSTM.name: GraphOptimizer._recur,
    recurrent.GRU.name: GraphOptimizer._recur,
    "aten::scaled_dot_product_attention": GraphOptimizer._attend,
    "aten::_scaled_dot_product_flash_attention_for_cpu": GraphOptimizer._attend,
}
_POINTWISE = {
    f"aten::{n}"
    for n in (
        "relu",
        "relu_",
        "add.Tensor",
        "add_.Tensor",
        "mul.Tensor",
        "sigmoid",
        "silu",
        "silu_",
        "hardtanh",
        "hardtanh_",
    )
}
_ENDS = {"aten::adaptive_avg_pool2d", "aten::_adaptive_avg_pool2d", "aten::mean.dim"}


def bound(node: Node) -> dict[str, Any]:
    """Return a node's arguments by their names in the schema, with defaults."""
    schema = torchnp.table.schemas[node.target]
    given = dict(zip((a.name for a in schema.args if not a.kwonly), node.args)) | node.kwargs
    return {a.name: given.get(a.name, a.default) for a in schema.args}


def _fits(array: ndarray | None, given: Any, n: int) -> bool:
    """Return whether ``array`` is a vector of length n, or no argument is given."""
    return given is None if array is None else array.shape == (n,)


def _flat(x: Any) -> Iterator[Any]:
    if isinstance(x, (list, tuple)):
        for v in x:
            yield from _flat(v)
    else:
        yield x


def _is_pure(node: Node) -> bool:
    """Return whether a call is deterministic and has no side effects."""
    if node.target in NUMBERS:
        return True
    schema = torchnp.table.schemas.get(node.target)
    if schema is None or schema.mutates or "nondeterministic_seeded" in schema.tags:
        return False
    return not schema.base.startswith(("empty", "new_empty", "_assert"))


def sharing(graph: Graph) -> Callable[[str], str]:
    """Return a function that gives values the same name if they may share memory."""
    home: dict[str, str] = {}

    def root(name: str) -> str:
        while home.get(name, name) != name:
            name = home[name]
        return name

    for node in graph.nodes:
        if node.target not in NUMBERS and _may_share(node.target):
            given = [*refs([*node.args, *node.kwargs.values()])]
            for name in (*given, *result_names(node.results)):
                home[root(name)] = root((given or [name])[0])
    return root


def _changing(graph: Graph) -> set[str]:
    """Return the names of values that may share memory with a written value or an output."""
    root = sharing(graph)
    written = {*refs(graph.outputs)}
    for node in graph.nodes:
        schema = torchnp.table.schemas.get(node.target)
        if schema is not None and schema.mutates:
            arguments = zip((a for a in schema.args if not a.kwonly), node.args)
            named = ((a, node.kwargs[a.name]) for a in schema.args if a.name in node.kwargs)
            for argument, x in (*arguments, *named):
                if argument.is_write:
                    written |= {*refs(x)}
        if schema is not None and {"running_mean", "running_var"} <= {a.name for a in schema.args}:
            told = bound(node)  # training writes the running statistics, although the schema does not say so
            if told.get("training", told.get("train", told.get("use_input_stats"))) is not False:
                written |= {*refs([told["running_mean"], told["running_var"]])}
    roots = {root(name) for name in written}
    everything = {*refs(graph.inputs), *(n for node in graph.nodes for n in result_names(node.results)), *written}
    return {name for name in everything if root(name) in roots}


# Composite operators may return an argument itself (``reshape``, ``to``, ``dropout``); these never do.
_FRESH = {
    f"aten::{name}"
    for name in (
        "linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input",
        "batch_norm", "layer_norm", "group_norm", "rms_norm", "lstm.input", "gru.input", "rnn_tanh.input", "rnn_relu.input",
        "matmul", "scaled_dot_product_attention", "max_pool1d", "max_pool2d", "max_pool3d", "cross_entropy_loss",
    )
}  # fmt: skip


def _may_share(target: str) -> bool:
    """Return whether results may share arguments' memory: those of views, unknown operators and most composites may."""
    schema = torchnp.table.schemas.get(target)
    if schema is None or schema.is_view or any(r.alias for r in schema.returns):
        return True
    return torchnp.table.status(target) == "composite" and target not in _FRESH
