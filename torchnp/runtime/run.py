"""Running a graph node by node on the table's kernels."""

from __future__ import annotations

import math
import operator
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import torchnp
from torchnp.runtime.fields import ProgramError
from torchnp.runtime.graph import Graph, Node, Unread, fill

Report = Callable[[Node, float], None]  # a node that has run, and its seconds


def _sym_sqrt(x: float) -> float:
    return math.sqrt(x)


# What programs compute of sizes: Python's own functions, and torch's of the same kind.
NUMBERS: dict[str, Callable[..., Any]] = {
    f"_operator.{name}": getattr(operator, name)
    for name in (
        "eq", "ne", "le", "ge", "lt", "gt", "neg", "pos", "mul", "add", "sub", "floordiv", "mod", "truediv", "and_",
        "or_", "not_", "rshift",
    )
}  # fmt: skip
NUMBERS |= {
    "_operator.pow": lambda a, b: _small_power(a, b),
    "_operator.lshift": lambda a, b: a * _small_power(2, b),
    "math.trunc": math.trunc,
    "math.ceil": math.ceil,
    "math.floor": math.floor,
    "torch.sym_not": operator.not_,
    "torch.sym_int": int,
    "torch.sym_float": float,
    "torch.sym_ite": lambda condition, a, b: a if condition else b,
    "torch.sym_max": max,
    "torch.sym_min": min,
    "torch.sym_sum": sum,
    "torch._sym_sqrt": _sym_sqrt,
    "torch.sym_sqrt": _sym_sqrt,
}


def _small_power(base: Any, exponent: Any) -> Any:
    """A power of a size: no size needs more than 64 bits, and a wrong program could ask for more than memory."""
    if isinstance(exponent, int) and exponent > 64 and isinstance(base, int) and abs(base) > 1:
        raise OverflowError(f"a size is to the power of {exponent}")
    return base**exponent


def _grad_mode(enabled: bool, graph: Graph, *operands: Any) -> tuple:
    """Gradients are not recorded here, so what ran without them runs as it is."""
    return tuple(run(graph, [*operands]))


# Higher-order ops: functions of graphs.
GRAPHS: dict[str, Callable[..., Any]] = {"torch.ops.higher_order.wrap_with_set_grad_enabled": _grad_mode}


def missing(graph: Graph) -> dict[str, str]:
    """The targets that cannot run, and why not."""
    table = torchnp.table
    found: dict[str, str] = {}
    for _, node in graph.walk():
        name = node.target
        if name in found or name in NUMBERS or name in GRAPHS or name in table:
            continue
        if name in table.schemas:
            found[name] = table.why_not(name)
        elif ".higher_order." in name:
            found[name] = "a higher-order operator, which torchnp does not run yet"
        elif "::" in name and name.partition("::")[0] not in ("aten", "prims"):
            found[name] = "a custom operator, for which there is no kernel"
        else:
            found[name] = "torch 2.13 registers no such operator"
    return found


def check_calls(graph: Graph) -> None:
    """Refuse calls whose arguments or results the schema does not have."""
    for _, node in graph.walk():
        if unread := [x.kind for x in (*node.args, *node.kwargs.values()) if isinstance(x, Unread)]:
            raise ProgramError(f"{node.where} has an argument of the kind {unread[0]!r}, which it does not take")
        if node.target in NUMBERS:
            if node.kwargs or len(node.results) != 1:
                raise ProgramError(f"{node.where}: a function of numbers has one result and no keywords")
            continue
        if node.target in GRAPHS:
            if len(node.args) < 2 or not isinstance(node.args[1], Graph) or node.kwargs:
                raise ProgramError(f"{node.where}: its second argument must be a graph")
            if len(node.args) - 2 != len(node.args[1].inputs):
                raise ProgramError(f"{node.where}: {len(node.args) - 2} values for {len(node.args[1].inputs)} inputs")
            continue
        if any(isinstance(x, Graph) for x in (*node.args, *node.kwargs.values())):
            raise ProgramError(f"{node.where} takes no graph")
        schema = torchnp.table.schemas[node.target]
        positional = [a.name for a in schema.args if not a.kwonly]
        given = {*positional[: len(node.args)], *node.kwargs}
        if len(node.args) > len(positional) or len(given) != len(node.args) + len(node.kwargs):
            raise ProgramError(f"{node.where} has more arguments than {schema}")
        if unknown := given - {a.name for a in schema.args}:
            raise ProgramError(f"{node.where} has the argument {min(unknown)!r}, which is not in {schema}")
        if lacking := [a.name for a in schema.args if not a.has_default and a.name not in given]:
            raise ProgramError(f"{node.where} lacks the argument {lacking[0]!r} of {schema}")
        if len(node.results) != len(schema.returns):
            raise ProgramError(f"{node.where} has {len(node.results)} results; {schema} has {len(schema.returns)}")


def run(graph: Graph, inputs: Sequence[Any], report: Report | None = None) -> list[Any]:
    """The outputs of a graph for its inputs, in order.

    Parameters
    ----------
    graph : Graph
        One that `missing` and `check_calls` have passed.
    inputs : sequence
        Arrays of any shape and dtype, and numbers.
    report : callable, optional
        Called with each node that has run, and the seconds it took.

    Returns
    -------
    list
        Arrays, numbers, None, and lists of them.
    """
    values = {ref.name: x for ref, x in zip(graph.inputs, inputs) if hasattr(ref, "name")}
    table = torchnp.table
    for node in graph.nodes:
        function = NUMBERS.get(node.target) or GRAPHS.get(node.target) or table[node.target]
        args = [fill(x, values) for x in node.args]
        kwargs = {name: fill(x, values) for name, x in node.kwargs.items()}
        start = time.perf_counter() if report else 0.0
        found = function(*args, **kwargs)
        if report:
            report(node, time.perf_counter() - start)
        _keep(node, found, values)
        for name in node.dead:
            del values[name]
    return [fill(x, values) for x in graph.outputs]


_NUMBER = {"int": int, "float": float, "bool": bool}


def _keep(node: Node, found: Any, values: dict[str, Any]) -> None:
    """Write a node's results under their names."""
    if not node.results:
        return
    several = len(node.results) > 1 or node.target in GRAPHS
    _bind(node, node.results, found if several else [found], values)


def _bind(node: Node, results: list[Any], found: Any, values: dict[str, Any]) -> None:
    if not isinstance(found, (list, tuple)) or len(found) != len(results):
        given = len(found) if isinstance(found, (list, tuple)) else 1
        raise ProgramError(f"{node.where} has given {given} results, and the program names {len(results)}")
    for result, x in zip(results, found):
        if isinstance(result, list):
            _bind(node, result, x, values)
        elif result is not None:
            kind, name = result
            if kind == "tensor":
                values[name] = x
            else:
                values[name] = _NUMBER[kind](x.item() if isinstance(x, (np.ndarray, np.generic)) else x)
