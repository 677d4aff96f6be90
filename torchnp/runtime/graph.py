"""A program's graph: JSON is parsed into nodes, whose arguments are constants and names of values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from dataclasses import field as attribute
from typing import Any

import numpy as np

from torchnp.core.target import RANGE
from torchnp.dtypes import as_dtype
from torchnp.runtime.json_fields import ProgramError, as_kind, field, items, union
from torchnp.runtime.symbols import Expression, parse_size

# The archive's numbers for dtypes, layouts and memory formats.
_DTYPES = {
    1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32", 8: "float64",
    9: "complex32", 10: "complex64", 11: "complex128", 12: "bool", 13: "bfloat16", 28: "uint16", 29: "float8_e4m3fn",
    30: "float8_e5m2", 31: "float8_e4m3fnuz", 32: "float8_e5m2fnuz", 33: "float8_e8m0fnu", 34: "uint32", 35: "uint64",
}  # fmt: skip
_STRIDED = 7
_MEMORY_FORMATS = {1: "contiguous_format", 2: "channels_last", 3: "channels_last_3d", 4: "preserve_format"}
MAX_DIMS = 64  # NumPy's limit
MAX_GRAPHS = 20  # nesting depth of graphs; each level lengthens the location of a node in error messages


@dataclass(frozen=True)
class Ref:
    """A reference to a value that is known when the program runs."""

    name: str


@dataclass(frozen=True)
class Operator:
    """An operator passed as an argument, for another operator to call."""

    name: str


@dataclass(frozen=True)
class Unread:
    """Placeholder for an argument of a kind that only operators unsupported by torchnp take."""

    kind: str


@dataclass(frozen=True)
class Meta:
    """A tensor's metadata in the archive: ``shape`` and ``strides`` contain symbols for dynamic sizes."""

    dtype: np.dtype
    shape: tuple[Expression, ...]
    strides: tuple[Expression, ...]
    offset: Expression


@dataclass
class Node:
    """One call: its target, its arguments, and the names of its results.

    Attributes
    ----------
    target : str
        An overload's full name (``aten::add.Tensor``), or a function's as torch spells it (``_operator.mul``).
    args : list
        Positional arguments: constants, `Ref` for values, lists of both, `Graph` for the bodies of higher-order ops.
    kwargs : dict
        Keyword arguments by name.
    results : list
        Items are None, a pair of a kind (``tensor``, ``int``, ``float``, ``bool``) and a name, or a list of these.
    where : str
        The node's location in the archive, for error messages.
    dead : list of str
        Values that nothing reads after this node.
    function : callable, optional
        Called for this node instead of the table's kernel.
    label : str
        The node's name in a profile, if it is not the target.
    relu : bool
        Whether ``function`` ends with a ReLU.
    source : str
        The line of the model's source from which the node comes, as torch recorded it.
    """

    target: str
    args: list[Any]
    kwargs: dict[str, Any]
    results: list[Any]
    where: str
    dead: list[str] = attribute(default_factory=list)
    function: Callable[..., Any] | None = None
    label: str = ""
    relu: bool = False
    source: str = ""


@dataclass
class Graph:
    """Nodes in execution order, with inputs and outputs.

    Attributes
    ----------
    inputs : list
        A `Ref` for each input, or a constant.
    outputs : list
        Arguments of the same form as a node's.
    nodes : list of Node
        The nodes in execution order.
    tensors : dict of str to Meta
        Each tensor's dtype, sizes and strides.
    sizes : dict of str to int, str or tuple
        The expression of each integer input.
    """

    inputs: list[Any]
    outputs: list[Any]
    nodes: list[Node]
    tensors: dict[str, Meta]
    sizes: dict[str, Expression]

    def walk(self) -> Iterator[tuple[Graph, Node]]:
        """Yield all nodes, including those of nested graphs, each with its graph."""
        for node in self.nodes:
            yield self, node
            for arg in node.args:
                if isinstance(arg, Graph):
                    yield from arg.walk()


# ---------------------------------------------------------------- parts


def parse_dtype(number: Any, where: str) -> np.dtype:
    """Return the dtype for a number of the archive."""
    name = _DTYPES.get(as_kind(number, int, where))
    if name is None:
        raise ProgramError(f"{where} has the dtype {number}, which torch {RANGE} do not have")
    return as_dtype(name)


def _parse_layout(number: Any, where: str) -> str:
    if as_kind(number, int, where) != _STRIDED:
        raise ProgramError(f"{where} has a layout that is not strided ({number}): torchnp's tensors are dense arrays")
    return "strided"


def _parse_memory_format(number: Any, where: str) -> str:
    if as_kind(number, int, where) not in _MEMORY_FORMATS:
        raise ProgramError(f"{where} has the memory format {number}, which torch does not have")
    return _MEMORY_FORMATS[number]


def _parse_device(record: Any, where: str) -> str:
    kind = field(record, "type", str, where)
    if kind != "cpu":
        raise ProgramError(f"{where} is on the device {kind[:40]!r}: move the program to the CPU before it is exported")
    return kind


def parse_meta(record: Any, where: str) -> Meta:
    """Parse one tensor's metadata."""
    _parse_device(field(record, "device", dict, where), f"{where}.device")
    _parse_layout(field(record, "layout", int, where), f"{where}.layout")
    dtype = parse_dtype(field(record, "dtype", int, where), f"{where}.dtype")
    sizes, strides = field(record, "sizes", list, where), field(record, "strides", list, where)
    if len(sizes) != len(strides) or len(sizes) > MAX_DIMS:
        raise ProgramError(f"{where} has {len(sizes)} sizes and {len(strides)} strides")
    return Meta(
        dtype,
        tuple(parse_size(x, f"{where}.sizes[{i}]") for i, x in enumerate(sizes)),
        tuple(parse_size(x, f"{where}.strides[{i}]") for i, x in enumerate(strides)),
        parse_size(field(record, "storage_offset", dict, where), f"{where}.storage_offset"),
    )


# ---------------------------------------------------------------- arguments


def _name(record: Any, where: str) -> Ref:
    return Ref(field(record, "name", str, where))


def _number(kind: type) -> Callable[[Any, str], Any]:
    """Return a parser of symbolic numbers, which are given by a name or a constant."""

    def parse(record: Any, where: str) -> Any:
        found, value = union(record, where)
        return Ref(as_kind(value, str, where)) if found == "as_name" else as_kind(value, kind, where)

    return parse


def _plain(kind: type) -> Callable[[Any, str], Any]:
    return lambda value, where: as_kind(value, kind, where)


def _optional_tensor(record: Any, where: str) -> Any:
    found, value = union(record, where)
    return None if found == "as_none" else _name(value, where)


def _none(value: Any, where: str) -> None:
    as_kind(value, bool, where)


def _complex(record: Any, where: str) -> complex:
    return complex(field(record, "real", float, where), field(record, "imag", float, where))


def _operator(value: Any, where: str) -> Operator:
    return Operator(overload_name(as_kind(value, str, where)))


def _graph(record: Any, where: str) -> Graph:
    if where.count(".graph") >= MAX_GRAPHS:
        raise ProgramError(f"{where[:200]}... has graphs inside each other, more than {MAX_GRAPHS}")
    return parse_graph(field(record, "graph", dict, where), f"{where}.graph")


def _each(parse: Callable[[Any, str], Any]) -> Callable[[Any, str], list]:
    return lambda found, where: [parse(x, f"{where}[{i}]") for i, x in enumerate(as_kind(found, list, where))]


_ONE: dict[str, Callable[[Any, str], Any]] = {
    "as_none": _none,
    "as_tensor": _name,
    "as_int": _plain(int),
    "as_float": _plain(float),
    "as_string": _plain(str),
    "as_bool": _plain(bool),
    "as_sym_int": _number(int),
    "as_sym_float": _number(float),
    "as_sym_bool": _number(bool),
    "as_optional_tensor": _optional_tensor,
    "as_scalar_type": parse_dtype,
    "as_memory_format": _parse_memory_format,
    "as_layout": _parse_layout,
    "as_device": _parse_device,
    "as_complex": _complex,
    "as_graph": _graph,
    "as_operator": _operator,
}
_UNREAD = ("as_custom_obj", "as_string_to_argument")
_MANY = ("tensor", "int", "float", "string", "bool", "sym_int", "sym_float", "sym_bool", "optional_tensor")
_ARGUMENTS = _ONE | {f"as_{kind}s": _each(_ONE[f"as_{kind}"]) for kind in _MANY}
_ARGUMENTS |= {
    "as_nested_tensors": _each(_each(_name)),
    "as_int_lists": _each(_each(_plain(int))),
    "as_float_lists": _each(_each(_plain(float))),
}


def parse_argument(record: Any, where: str) -> Any:
    """Parse one argument: a constant, a `Ref`, a `Graph`, an `Operator`, a list, or `Unread`."""
    kind, value = union(record, where)
    if kind in _UNREAD:
        return Unread(kind)
    parse = _ARGUMENTS.get(kind)
    if parse is None:
        raise ProgramError(f"{where} is of the kind {kind[:40]!r}, which torchnp does not run")
    return parse(value, where)


_RESULTS = {"as_tensor": "tensor", "as_sym_int": "int", "as_sym_float": "float", "as_sym_bool": "bool"}


def _result(record: Any, where: str) -> Any:
    """Parse one result of a node: None, a kind and a name, or a list of these."""
    kind, _ = union(record, where)
    if kind == "as_none":
        return None
    if kind in ("as_tensors", "as_optional_tensors"):
        return [("tensor", x.name) if x else None for x in parse_argument(record, where)]
    if kind not in _RESULTS:
        raise ProgramError(f"{where} is of the kind {kind[:40]!r}, which is no result")
    found = parse_argument(record, where)
    if not isinstance(found, Ref):
        raise ProgramError(f"{where} is a constant: a result has a name")
    return _RESULTS[kind], found.name


def result_names(results: list[Any]) -> Iterator[str]:
    """Yield the names in a node's results."""
    for found in results:
        if isinstance(found, list):
            yield from result_names(found)
        elif found is not None:
            yield found[1]


def refs(value: Any) -> Iterator[str]:
    """Yield the names in an argument."""
    if isinstance(value, Ref):
        yield value.name
    elif isinstance(value, list):
        for x in value:
            yield from refs(x)


# ---------------------------------------------------------------- the graph

_OPS = "torch.ops."


def overload_name(target: str) -> str:
    """Return the table's name for ``torch.ops.aten.add.Tensor``; other functions unchanged."""
    space, _, rest = target.removeprefix(_OPS).partition(".")
    if not target.startswith(_OPS) or not rest or space == "higher_order":
        return target
    return f"{space}::{rest.removesuffix('.default')}"


def _parse_node(record: Any, where: str) -> Node:
    target = field(record, "target", str, where)
    if not target.isprintable():  # a terminal would follow its escape sequences
        raise ProgramError(f"{where} has the target {target[:80]!r}, which is no name of an operator")
    where = f"{where} ({target[:80]})"
    args, kwargs = [], {}
    for i, named in enumerate(items(record, "inputs", dict, where)):
        at = f"{where}.inputs[{i}]"
        value = parse_argument(field(named, "arg", dict, at), at)
        kind, name = named.get("kind"), field(named, "name", str, at)
        if kind == 2:
            if name in kwargs:
                raise ProgramError(f"{at} gives {name!r} again")
            kwargs[name] = value
        elif kind in (None, 0, 1) and type(kind) is not bool:
            args.append(value)
        else:
            raise ProgramError(f"{at} is neither positional nor a keyword")
    results = [_result(x, f"{where}.outputs[{i}]") for i, x in enumerate(items(record, "outputs", dict, where))]
    return Node(overload_name(target), args, kwargs, results, where, source=_source(record))


def _source(record: dict[str, Any]) -> str:
    """Return the innermost line of a node's recorded stack trace, for messages."""
    about = record.get("metadata")
    trace = about.get("stack_trace") if type(about) is dict else None
    if type(trace) is not str:
        return ""
    return " ".join(line.strip() for line in trace[-500:].strip().splitlines()[-2:])[-300:]


def parse_graph(record: Any, where: str) -> Graph:
    """Parse and check a graph: each value must be defined once, before it is read.

    Raises
    ------
    ProgramError
        A field is missing or has the wrong type, or a value is defined twice or not before it is read.
    """
    inputs = [parse_argument(x, f"{where}.inputs[{i}]") for i, x in enumerate(items(record, "inputs", dict, where))]
    nodes = [_parse_node(x, f"{where}.nodes[{i}]") for i, x in enumerate(items(record, "nodes", dict, where))]
    outputs = [parse_argument(x, f"{where}.outputs[{i}]") for i, x in enumerate(items(record, "outputs", dict, where))]
    tensors = field(record, "tensor_values", dict, where)
    sizes = field(record, "sym_int_values", dict, where)
    graph = Graph(
        inputs,
        outputs,
        nodes,
        {name: parse_meta(x, f"{where}.tensor_values[{name!r}]") for name, x in tensors.items()},
        {
            x.name: parse_size(sizes[x.name], f"{where}.sym_int_values[{x.name!r}]")
            for x in inputs
            if isinstance(x, Ref) and x.name in sizes
        },
    )
    order_effects(graph)
    check_names(graph, where)
    return graph


_WITH_EFFECTS = "torch.ops.higher_order.with_effects"


def order_effects(graph: Graph) -> None:
    """Replace each ``with_effects`` node by the call that it makes.

    The effect tokens order calls that print or raise. Nodes are ordered already, so each output token is replaced by
    its input token.
    """
    tokens: dict[str, Any] = {}
    for i, node in enumerate(graph.nodes):
        if node.target != _WITH_EFFECTS:
            continue
        token, *rest = node.args or [None]
        given, *results = node.results or [None]
        if not isinstance(token, Ref) or not rest or not isinstance(rest[0], Operator) or not isinstance(given, tuple):
            raise ProgramError(f"{node.where} has no token and operator")
        tokens[given[1]] = tokens.get(token.name, token)
        results = [] if results == [None] else results
        graph.nodes[i] = Node(rest[0].name, rest[1:], node.kwargs, results, node.where)
    graph.outputs = [tokens.get(x.name, x) if isinstance(x, Ref) else x for x in graph.outputs]


def check_names(graph: Graph, where: str) -> None:
    """Refuse values that are read before they are defined, or defined twice; set each node's ``dead`` values."""
    known: set[str] = set()

    def define(names: Iterator[str], at: str) -> None:
        for name in names:
            if name in known:
                raise ProgramError(f"{at} defines {name!r} again")
            known.add(name)

    def read(names: Iterator[str], at: str) -> None:
        for name in names:
            if name not in known:
                raise ProgramError(f"{at} reads {name!r}, which nothing before it defines")

    define(refs(graph.inputs), f"{where}.inputs")
    for node in graph.nodes:
        read(refs([*node.args, *node.kwargs.values()]), node.where)
        define(result_names(node.results), node.where)
    read(refs(graph.outputs), f"{where}.outputs")
    alive = {*refs(graph.outputs)}
    for node in reversed(graph.nodes):
        touched = {*refs([*node.args, *node.kwargs.values()]), *result_names(node.results)}
        node.dead = sorted(touched - alive)
        alive |= touched
