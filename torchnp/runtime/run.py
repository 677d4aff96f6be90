"""Run a graph node by node with the table's kernels."""

from __future__ import annotations

import math
import operator
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import torchnp
from torchnp.runtime.graph import Graph, Node, Operator, Ref, Unread, refs, result_names
from torchnp.runtime.higher_order import HIGHER
from torchnp.runtime.json_fields import ProgramError

Report = Callable[[Node, float], None]  # called with a node that has run and its seconds
Reader = Callable[[list[Any]], Any]  # reads one or more arguments from the list of all values
# A kernel, readers of its arguments and keywords, the writer of its results, the indices of values that are dead after
# it, and its node.
Step = tuple[Callable[..., Any], Reader, Reader | None, Callable[[list[Any], Any], None], list[int], Node]


def _sym_sqrt(x: float) -> float:
    return math.sqrt(x)


# Functions of sizes in programs: Python's, and torch's equivalents.
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
    """Return a power of a size. The exponent is bounded, because a malformed program could otherwise exhaust memory."""
    if isinstance(exponent, int) and exponent > 64 and isinstance(base, int) and abs(base) > 1:
        raise OverflowError(f"a size is to the power of {exponent}")
    return base**exponent


def missing(graph: Graph) -> dict[str, str]:
    """Return the targets that cannot run, and why they cannot."""
    table = torchnp.table
    found: dict[str, str] = {}
    for _, node in graph.walk():
        name = node.target
        if name in found or name in NUMBERS or name in HIGHER or name in table:
            continue
        if name in table.schemas and name.startswith(("aten::", "prims::")):
            found[name] = table.why_not(name)
        elif ".higher_order." in name:
            found[name] = "a higher-order operator, which torchnp does not run"
        elif name.startswith("torch._functorch."):
            found[name] = "a transform that was not applied: save what run_decompositions() makes of the program"
        elif "::" in name and name.partition("::")[0] not in ("aten", "prims"):
            found[name] = "another library's operator, for which there is no kernel: torchnp.kernel declares one"
        else:
            found[name] = f"torch {torchnp.target()} registers no such operator"
        if name.endswith("wrap_with_autocast"):
            found[name] += ": save what run_decompositions() makes of the program"
    return found


def check_calls(graph: Graph) -> None:
    """Refuse calls whose arguments or results do not match the schema."""
    for _, node in graph.walk():
        if unread := [x.kind for x in (*node.args, *node.kwargs.values()) if isinstance(x, Unread)]:
            raise ProgramError(f"{node.where} has an argument of the kind {unread[0]!r}, which it does not take")
        if any(isinstance(x, Operator) for x in (*node.args, *node.kwargs.values())):
            raise ProgramError(f"{node.where} takes no operator")
        if node.target in NUMBERS:
            if node.kwargs or len(node.results) != 1:
                raise ProgramError(f"{node.where}: a function of numbers has one result and no keywords")
            continue
        if node.target in HIGHER:
            HIGHER[node.target].check(node)
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


class ExecutionPlan:
    """A graph that is ready to run: each node's kernel, and the indices of its arguments in a list of all values.

    Parameters
    ----------
    graph : Graph
        A graph that has passed `missing` and `check_calls`.
    """

    def __init__(self, graph: Graph) -> None:
        self._names: dict[str, int] = {}
        self._values: list[Any] = []  # the initial values: constants at their indices
        self._inputs = [self._place(x.name) if isinstance(x, Ref) else None for x in graph.inputs]
        self._steps = [self._step(node) for node in graph.nodes]
        self._outputs = [self._reader(x) for x in graph.outputs]

    def __call__(self, inputs: list[Any], report: Report | None = None) -> list[Any]:
        """Run the graph on its inputs; return its outputs, in order.

        Parameters
        ----------
        inputs : list
            Arrays of any shape and dtype, and numbers. The list is emptied, so that values can be freed after their
            last use.
        report : callable, optional
            Called with each node that has run and the seconds that it took.

        Returns
        -------
        list
            Arrays, numbers, None, and lists of them.
        """
        values = self._values.copy()
        for place, x in zip(self._inputs, inputs):
            if place is not None:
                values[place] = x
        x = None
        inputs.clear()
        with np.errstate(all="ignore"):  # no floating point warnings, as in the table's kernels
            return self._run(values) if report is None else self._reported(values, report)

    def _run(self, values: list[Any]) -> list[Any]:
        for function, args, kwargs, keep, dead, _ in self._steps:
            if kwargs is None:
                keep(values, function(*args(values)))
            else:
                keep(values, function(*args(values), **kwargs(values)))
            for place in dead:
                values[place] = None
        return [read(values) for read in self._outputs]

    def _reported(self, values: list[Any], report: Report) -> list[Any]:
        for function, args, kwargs, keep, dead, node in self._steps:
            given, named = args(values), kwargs(values) if kwargs else {}
            start = time.perf_counter()
            found = function(*given, **named)
            report(node, time.perf_counter() - start)
            keep(values, found)
            del given, named, found
            for place in dead:
                values[place] = None
        return [read(values) for read in self._outputs]

    def _place(self, name: str) -> int:
        if name not in self._names:
            self._names[name] = self._constant(None)
        return self._names[name]

    def _constant(self, value: Any) -> int:
        self._values.append(value)
        return len(self._values) - 1

    def _step(self, node: Node) -> Step:
        higher = HIGHER.get(node.target)
        function = higher.run if higher else node.function or NUMBERS.get(node.target) or torchnp.table[node.target]
        parts = [self._at(x) for x in node.args]
        places = [part for part in parts if isinstance(part, int)]
        args: Reader
        if len(places) < len(parts):
            readers = [_getter(part) if isinstance(part, int) else part for part in parts]
            args = lambda values: [read(values) for read in readers]
        elif len(parts) > 1:
            args = operator.itemgetter(*places)
        else:
            args = operator.itemgetter(slice(places[0], places[0] + 1) if places else slice(0))
        named = {name: self._reader(x) for name, x in node.kwargs.items()}
        kwargs: Reader | None = (lambda values: {name: read(values) for name, read in named.items()}) if named else None
        keep = self._result_writer(node, higher is not None)
        return function, args, kwargs, keep, [self._place(name) for name in node.dead], node

    def _at(self, x: Any) -> int | Reader:
        """Return an argument's index among the values, or a reader that builds it from them."""
        if isinstance(x, Ref):
            return self._place(x.name)
        if isinstance(x, Graph):
            inner = ExecutionPlan(x)
            return self._constant(lambda *given: inner([*given]))
        if isinstance(x, list) and any(True for _ in refs(x)):
            readers = [self._reader(v) for v in x]
            return lambda values: [read(values) for read in readers]
        return self._constant(x)

    def _reader(self, x: Any) -> Reader:
        at = self._at(x)
        return _getter(at) if isinstance(at, int) else at

    def _result_writer(self, node: Node, several: bool) -> Callable[[list[Any], Any], None]:
        """Return the function that stores a node's results among the values."""
        if not any(True for _ in result_names(node.results)):
            return lambda values, found: None
        one = node.results[0]
        if len(node.results) == 1 and not several and isinstance(one, tuple) and one[0] == "tensor":
            return _store_at(self._place(one[1]))
        several = several or len(node.results) > 1
        for name in result_names(node.results):
            self._place(name)
        return lambda values, found: _bind(node, node.results, found if several else [found], values, self._names)


def run(graph: Graph, inputs: Sequence[Any], report: Report | None = None) -> list[Any]:
    """Run a graph once; return its outputs in order. To run it again, keep an `ExecutionPlan`."""
    return ExecutionPlan(graph)([*inputs], report)


def _getter(place: int) -> Reader:
    return operator.itemgetter(place)


def _store_at(place: int) -> Callable[[list[Any], Any], None]:
    def keep(values: list[Any], found: Any) -> None:
        values[place] = found

    return keep


_NUMBER = {"int": int, "float": float, "bool": bool}


def _bind(node: Node, results: list[Any], found: Any, values: list[Any], places: dict[str, int]) -> None:
    """Store results under their names, converting numbers to their kinds."""
    if not isinstance(found, (list, tuple)) or len(found) != len(results):
        given = len(found) if isinstance(found, (list, tuple)) else 1
        raise ProgramError(f"{node.where} has given {given} results, and the program names {len(results)}")
    for result, x in zip(results, found):
        if isinstance(result, list):
            _bind(node, result, x, values, places)
        elif result is not None:
            kind, name = result
            if kind != "tensor":
                x = _NUMBER[kind](x.item() if isinstance(x, (np.ndarray, np.generic)) else x)
            values[places[name]] = x
