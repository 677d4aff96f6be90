"""Lower torch's compiler graphs to runtime graphs: the same nodes, with NumPy dtypes and device strings."""

from __future__ import annotations

import operator
from typing import Any

import torch

import torchnp
from torchnp.compiler._private import HigherOrderOperator, OpOverload
from torchnp.interop.convert import NUMPY_DTYPE
from torchnp.runtime import ProgramError
from torchnp.runtime.graph import Graph, Meta, Node, Operator, Ref, check_names, order_effects
from torchnp.runtime.symbols import Expression

FxNode = torch.fx.Node
_NUMBERS = {
    torch.SymInt: "int",
    torch.SymFloat: "float",
    torch.SymBool: "bool",
    int: "int",
    float: "float",
    bool: "bool",
}


def lower(module: torch.fx.GraphModule) -> Graph:
    """Lower a module that calls only overloads, functions of sizes and higher-order operators.

    Raises
    ------
    ProgramError
        A tensor is not on the CPU or has no array form, or the module calls anything else.
    """
    return _Lowering(module).graph


def kept_inputs(module: torch.fx.GraphModule) -> dict[str, Any]:
    """Return the tensors and modules that the graph reads as attributes, by the name of the node that reads them."""
    nodes = [n for n in module.graph.nodes if n.op == "get_attr"]
    return {n.name: operator.attrgetter(n.target)(module) for n in nodes}


class _Lowering:
    """State of lowering one graph."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        # The values of nodes that are lists or graphs, not a `Ref` to the node's name.
        self._values: dict[str, Any] = {}
        self._kept = kept_inputs(module)
        self._inputs: list[Any] = []
        self._lifted: list[Any] = []
        self._nodes: list[Node] = []
        self._tensors: dict[str, Meta] = {}
        self._sizes: dict[str, Expression] = {}
        outputs: list[Any] = []
        for node in module.graph.nodes:
            if node.op == "placeholder":
                self._inputs.append(Ref(node.name))
                self._note(node.name, node.meta.get("val"), self._sizes)
            elif node.op == "get_attr":
                self._keep(node)
            elif node.op == "output":
                found = self._argument(node.args[0])
                outputs = found if isinstance(found, list) else [found]
            else:
                self._call(node)
        self.graph = Graph(self._inputs + self._lifted, outputs, self._nodes, self._tensors, self._sizes)
        order_effects(self.graph)
        check_names(self.graph, "the compiled graph")

    def _keep(self, node: FxNode) -> None:
        """Lower an attribute: a subgraph, or a tensor, which becomes an extra input after the other inputs."""
        found = self._kept[node.name]
        if isinstance(found, torch.fx.GraphModule):
            self._values[node.name] = lower(found)
        elif isinstance(found, torch.Tensor):
            self._lifted.append(Ref(node.name))
            self._note(node.name, found, self._sizes)
        else:
            raise ProgramError(f"{node.name} is a {type(found).__name__}, which torchnp does not run")

    def _call(self, node: FxNode) -> None:
        if node.op != "call_function":
            raise ProgramError(f"{node.name} is a {node.op} in torch's graph, which has overloads alone")
        args = [self._argument(x) for x in node.args]
        if _target(node.target) == "prims::fma":  # made by the compiler; torch computes it without fusing too
            self._fma(node, *args)
            return
        if node.target is operator.getitem and isinstance(args[0], list):
            self._values[node.name] = args[0][args[1]]
            return
        target = _target(node.target)
        kwargs = {name: self._argument(x) for name, x in node.kwargs.items()}
        value = node.meta.get("val")
        schema = torchnp.table.schemas[target] if torchnp.table.knows(target) else None
        results: list[Any]
        if schema is not None and not schema.returns:
            results = []
        elif isinstance(value, (list, tuple)):
            names, made = self._several(node.name, value)
            self._values[node.name] = names
            results = [made] if schema is not None and len(schema.returns) == 1 else made
        else:
            results = [self._result(node.name, value)]
        self._nodes.append(Node(target, args, kwargs, results, f"the node {node.name} ({target})"))

    def _fma(self, node: FxNode, a: Any, b: Any, c: Any) -> None:
        """Lower ``a * b + c`` to a product and a sum."""
        where, product = f"the node {node.name} (prims::fma)", f"{node.name}[product]"
        self._nodes.append(Node("aten::mul.Tensor", [a, b], {}, [("tensor", product)], where))
        sum_ = self._result(node.name, node.meta.get("val"))
        self._nodes.append(Node("aten::add.Tensor", [Ref(product), c], {}, [sum_], where))

    def _several(self, name: str, value: list | tuple) -> tuple[list[Any], list[Any]]:
        """Return the references to a node's results, and the node's entries in ``results``."""
        names: list[Any] = []
        made: list[Any] = []
        for i, x in enumerate(value):
            at = f"{name}[{i}]"
            if isinstance(x, (list, tuple)):
                inner, parts = self._several(at, x)
                names.append(inner)
                made.append(parts)
            else:
                result = self._result(at, x)
                names.append(result and Ref(at))
                made.append(result)
        return names, made

    def _result(self, name: str, value: Any) -> tuple[str, str] | None:
        if value is None:
            return None
        self._note(name, value, {})
        return _NUMBERS.get(type(value), "tensor"), name

    def _note(self, name: str, value: Any, sizes: dict[str, Expression]) -> None:
        """Record a value's metadata: dtype, shape and strides of a tensor, or a size."""
        if isinstance(value, torch.Tensor):
            if value.layout != torch.strided:
                raise ProgramError(f"{name} has the layout {value.layout}: torchnp's tensors are dense arrays")
            _device(value.device)
            self._tensors[name] = Meta(
                _dtype(value.dtype), tuple(map(_size, value.shape)), tuple(map(_size, value.stride())),
                _size(value.storage_offset()),
            )  # fmt: skip
        elif isinstance(value, (int, torch.SymInt)):
            sizes[name] = _size(value)

    def _argument(self, x: Any) -> Any:
        if isinstance(x, FxNode):
            return self._values.get(x.name, Ref(x.name))
        if isinstance(x, (list, tuple)):
            return [self._argument(v) for v in x]
        if isinstance(x, torch.dtype):
            return _dtype(x)
        if isinstance(x, torch.device):
            return _device(x)
        if isinstance(x, (torch.layout, torch.memory_format)):
            return str(x).removeprefix("torch.")
        if isinstance(x, (OpOverload, HigherOrderOperator)):
            return Operator(_target(x))
        if x is None or isinstance(x, (bool, int, float, complex, str)):
            return x
        raise ProgramError(f"an argument is a {type(x).__name__}, which torchnp does not take")


def _target(target: Any) -> str:
    """Return the runtime's name for a call's target."""
    if isinstance(target, OpOverload):
        return target.name()
    if isinstance(target, HigherOrderOperator):
        return f"torch.ops.higher_order.{target.name()}"
    return f"{target.__module__}.{target.__name__}"


def _dtype(dtype: torch.dtype) -> Any:
    found = NUMPY_DTYPE.get(dtype)
    if found is None:
        raise ProgramError(f"there is no NumPy or ml_dtypes type for {dtype}")
    return found


def _device(device: torch.device) -> str:
    if device.type != "cpu":
        raise ProgramError(f"a tensor is on the device {device}: torchnp computes on the CPU")
    return "cpu"


def _size(size: Any) -> Expression:
    """Return a size as an int, or as the text of its symbolic expression."""
    return int(size) if isinstance(size, int) else str(size)


def homes(module: torch.fx.GraphModule) -> list[tuple[str, int] | None]:
    """Return the storage of each output.

    It is that of an input (with its number), one that is shared with other outputs or in which the output does not
    begin at offset 0, or the output's own (None).
    """
    nodes = list(module.graph.nodes)
    inputs = {
        key: i for i, n in enumerate(n for n in nodes if n.op == "placeholder") if (key := _storage(n)) is not None
    }
    keys = [_storage(n) for n in nodes[-1].args[0]]
    found: list[tuple[str, int] | None] = []
    for node, key in zip(nodes[-1].args[0], keys):
        if key in inputs:
            found.append(("input", inputs[key]))
        elif key is not None and (keys.count(key) > 1 or _offset(node)):
            found.append(("storage", keys.index(key)))
        else:
            found.append(None)
    return found


def _storage(node: Any) -> Any:
    value = node.meta.get("val") if isinstance(node, FxNode) else None
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        return None
    return torch.multiprocessing.reductions.StorageWeakRef(value.untyped_storage()).cdata


def _offset(node: FxNode) -> bool:
    offset = node.meta["val"].storage_offset()
    return not isinstance(offset, int) or offset != 0
