"""A loaded program: a function of arrays whose arguments and results have the exported module's structure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import torchnp
from torchnp.core.errors import shape_text
from torchnp.runtime.graph import Graph, Meta, Node, Ref, refs, result_names
from torchnp.runtime.guards import Guard
from torchnp.runtime.higher_order import HIGHER
from torchnp.runtime.optimize import optimize
from torchnp.runtime.pytree_spec import Mismatch, TreeSpec, describe
from torchnp.runtime.run import NUMBERS, ExecutionPlan, Report
from torchnp.runtime.symbols import Expression, evaluate, solve, spell, symbols
from torchnp.runtime.updates_in_place import update_in_place

ndarray = np.ndarray


@dataclass(frozen=True)
class Stored:
    """An input whose array is in the archive: ``kind`` is parameter, buffer or tensor_constant."""

    name: str
    kind: str
    target: str


@dataclass(frozen=True)
class UserInput:
    """An input from the caller: a tensor that matches ``meta``, or an integer that matches the expression ``size``."""

    name: str
    meta: Meta | None
    size: Expression | None


@dataclass(frozen=True)
class Constant:
    """An argument whose value was fixed when the program was exported."""

    name: str | None
    value: Any


@dataclass(frozen=True)
class EffectToken:
    """An input that has no value and only orders calls."""

    name: str


Input = Stored | UserInput | Constant | EffectToken


@dataclass
class GraphSignature:
    """The roles of a graph's inputs and outputs.

    Attributes
    ----------
    inputs : list of Stored, UserInput, Constant or EffectToken
        The inputs in the graph's order.
    outputs : list of tuple
        A role and a name for each output: ``("user", None)``, ``("token", None)``, or ``"state"`` or ``"input"`` with
        the name of the array to write.
    takes, gives : TreeSpec
        The structure of the arguments (a pair of positional ones and keywords) and of the result.
    ranges : dict
        Minimum and maximum of each symbol.
    guards : list of Guard
        Conditions on the arguments that were recorded when the module was traced.
    """

    inputs: list[Input]
    outputs: list[tuple[str, str | None]]
    takes: TreeSpec
    gives: TreeSpec
    ranges: dict[str, tuple[int | None, int | None]]
    guards: list[Guard]


@dataclass(frozen=True)
class Requirement:
    """An operator that a program calls.

    Attributes
    ----------
    name : str
        The overload's name, or the function's name as torch spells it.
    count : int
        How many nodes call it.
    dtypes : tuple of str
        The dtypes of its input tensors, or of its results if it has none.
    status : str
        As in the table; ``number`` for functions of sizes, ``graph`` for higher-order operators that run here, and
        ``unknown`` for anything else.
    differences : tuple of str
        Catalogue ids of the differences between the operator and its NumPy counterpart.
    """

    name: str
    count: int
    dtypes: tuple[str, ...]
    status: str
    differences: tuple[str, ...]


class Program:
    """A program that `torchnp.load` has read; call it like the exported module.

    It takes NumPy arrays where the module took tensors, and returns arrays in the structure of the module's result.
    Tuples, lists, dicts and named tuples stay the same; an object of another class becomes a dict of its fields. Values
    equal those of the table's kernels within the operators' tolerances, or bit for bit with ``exact``. As in torch,
    buffers keep the values that a call writes to them, arguments to which the module writes are written in place, and
    results may alias arguments. If a call raises, it may already have written to some buffers.

    Attributes
    ----------
    graph : Graph
        The graph that runs.
    signature : GraphSignature
        The roles of inputs and outputs.
    state : dict of str to ndarray
        Parameters, buffers and constants by their names in the module. To change the program, write to an array or
        replace it. The first call makes the arrays read-only that it folds into its execution plan; these can only be
        replaced.
    exact : bool
        Whether results match the table's kernels bit for bit.
    """

    def __init__(self, graph: Graph, signature: GraphSignature, state: dict[str, ndarray], exact: bool = False) -> None:
        self.graph, self.signature, self.state, self.exact = graph, signature, state, exact
        self._plan: ExecutionPlan | None = None
        self._used: dict[str, ndarray] = {}
        self._updated: dict[str, ndarray] = {}
        positional, named = signature.takes.children
        self._paths = [f"*args{path}" for path in positional.paths()]
        for key, spec in zip(named.keys or (), named.children):
            self._paths += [f"{key}{path}" if isinstance(key, str) else f"[{key!r}]{path}" for path in spec.paths()]

    def __repr__(self) -> str:
        arrays = sum(isinstance(spec, Stored) for spec in self.signature.inputs)
        return f"<torchnp.runtime.Program: {', '.join(self.inputs)}; {len(self.graph.nodes)} nodes, {arrays} arrays>"

    @property
    def inputs(self) -> dict[str, str]:
        """The arrays and integers that a call takes, by their names in the graph, each with its dtype and shape."""
        users = [spec for spec in self.signature.inputs if isinstance(spec, UserInput)]
        return {spec.name: _shown(spec) for spec in users}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.run(args, kwargs)

    def run(self, args: tuple, kwargs: dict[str, Any], report: Report | None = None) -> Any:
        """Call the program, and report each node after it has run.

        Parameters
        ----------
        args, kwargs : tuple, dict
            The arguments of the call.
        report : callable, optional
            Called with each `Node` that has run and the seconds that it took.

        Returns
        -------
        result
            The result, in the structure of the module's result.

        Raises
        ------
        ValueError
            The arguments have another structure; the message is torch's.
        RuntimeError
            An array has the wrong shape or dtype, or a size is out of range; the message is torch's if torch has one.
        AssertionError
            A condition that was recorded when the module was traced does not hold; the message is torch's.
        """
        given = self.flatten(args, kwargs)
        values = self._values(given)
        plan = self._planned()
        self._separate(values)
        results = plan([values[id(spec)] for spec in self._graph_inputs()], report)
        self._write(results, {s.name: values[id(s)] for s in self.signature.inputs if isinstance(s, UserInput)})
        leaves = [x for x, (kind, _) in zip(results, self.signature.outputs) if kind == "user"]
        return self.signature.gives.build(iter(leaves))

    def _planned(self) -> ExecutionPlan:
        """Return the execution plan; build it again if an array that was folded into it has been replaced."""
        held = (*self._used.items(), *self._updated.items())
        if self._plan is None or any(self.state.get(target) is not x for target, x in held):
            if self.exact:
                self._plan = ExecutionPlan(self.graph)
                return self._plan
            written = {written for kind, written in self.signature.outputs if kind == "state"}
            stored = {
                s.name: s.target for s in self.signature.inputs if isinstance(s, Stored) and s.target not in written
            }
            graph, used = optimize(self.graph, {name: self.state[target] for name, target in stored.items()})
            self._used = {stored[name]: self.state[stored[name]] for name in used}
            for array in self._used.values():
                array.flags.writeable = False
            self._plan = ExecutionPlan(update_in_place(graph, self._updates()))
        return self._plan

    def _updates(self) -> list[tuple[str, str]]:
        """Return the buffers that no other array shares memory with, and the names of their new values."""
        inputs = {s.target: s.name for s in self.signature.inputs if isinstance(s, Stored)}
        found = []
        self._updated = {}
        for value, (kind, written) in zip(self.graph.outputs, self.signature.outputs):
            if kind == "state" and written in inputs and isinstance(value, Ref):
                own = self.state[written]
                if own.flags.writeable and not any(
                    x is not own and np.may_share_memory(x, own) for x in self.state.values()
                ):
                    found.append((inputs[written], value.name))
                    self._updated[written] = own
        return found

    def _separate(self, values: dict[int, Any]) -> None:
        """Copy arguments that share memory with buffers, which may be updated before an argument is read."""
        written = {written for kind, written in self.signature.outputs if kind == "input"}
        for spec in self.signature.inputs if self._updated else ():
            x = values[id(spec)]
            if isinstance(spec, UserInput) and isinstance(x, ndarray) and spec.name not in written:
                shared = any(np.may_share_memory(x, buffer) for buffer in self._updated.values())
                values[id(spec)] = x.copy() if shared else x

    # ------------------------------------------------------------ arguments

    def flatten(self, args: tuple, kwargs: dict[str, Any]) -> list[Any]:
        """Return a call's values in the graph's order. If their structure differs, raise torch's ValueError."""
        takes = self.signature.takes
        names = list(takes.children[1].keys or ())
        if set(kwargs) != set(names):
            raise ValueError(
                f"Ran into a kwarg keyword mismatch: Got the following keywords {list(kwargs)} but expected {names}"
            )
        kwargs = {name: kwargs[name] for name in names}
        try:
            return takes.flatten((tuple(args), kwargs))
        except Mismatch:
            raise ValueError(
                f"Trying to flatten user inputs with exported input tree spec: \n{takes}\n"
                f"but actually got inputs with tree spec of: \n{describe((tuple(args), kwargs))}.\n"
                "Please check that the inputs have the same number and type of "
                "args and kwargs as the ones you used when tracing."
            ) from None

    def arrange(self, named: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        """Build a call's arguments from values, given by the names of `inputs`; constants come from the program.

        Raises
        ------
        ValueError
            A name is missing or unknown.
        """
        users = [spec for spec in self.signature.inputs if isinstance(spec, (UserInput, Constant))]
        wanted = self.inputs
        if unknown := [n for n in named if n not in wanted]:
            raise ValueError(f"the program has no input {unknown[0]!r}; it takes {_listed(wanted)}")
        if lacking := [n for n in wanted if n not in named]:
            raise ValueError(f"no value for the input {lacking[0]!r}; the program takes {_listed(wanted)}")
        leaves = [s.value if isinstance(s, Constant) else named[s.name] for s in users]
        args, kwargs = self.signature.takes.build(iter(leaves))
        return args, kwargs

    def _graph_inputs(self) -> list[Input]:
        return [spec for spec in self.signature.inputs if spec.name is not None]

    def check_arguments(self, *args: Any, **kwargs: Any) -> dict[str, int]:
        """Check the arguments of a call, as `run` does; return the value of each symbol in their shapes."""
        sizes: dict[str, int] = {}
        self._values(self.flatten(args, kwargs), sizes)
        return sizes

    def _values(self, given: list[Any], sizes: dict[str, int] | None = None) -> dict[int, Any]:
        """Return the value of each input, checked in torch's order; put those of symbols into ``sizes``."""
        values: dict[int, Any] = {}
        sizes = {} if sizes is None else sizes
        rest = iter(zip(given, self._paths))
        for spec in self.signature.inputs:
            if isinstance(spec, Stored):
                values[id(spec)] = self.state[spec.target]
                continue
            if isinstance(spec, EffectToken):
                values[id(spec)] = None
                continue
            value, path = next(rest)
            if isinstance(spec, Constant):
                check_constant(spec.value, value, path)
            elif spec.meta is not None:
                value = _as_tensor(value, spec.meta, path)
                for i, (size, expected) in enumerate(zip(value.shape, spec.meta.shape)):
                    self._check_size(expected, size, sizes, f"{path}.shape[{i}]")
            else:
                if type(value) is not int:
                    raise RuntimeError(f"Expected input at {path} to be an integer, but got {type(value)}")
                self._check_size(spec.size, value, sizes, path)
            values[id(spec)] = value
        for guard in self.signature.guards:
            guard.check(given)
        return values

    def _check_size(self, expected: Any, size: int, known: dict[str, int], path: str) -> None:
        """Bind a symbol to a size, or compare the size with the value that bound symbols imply."""
        names = symbols(expected)
        if not names:
            if size != evaluate(expected, {}):
                raise RuntimeError(
                    f"Expected input at {path} to be equal to {spell(expected)}, but got {size}. "
                    "If you meant for this dimension to be dynamic, please re-export and specify dynamic_shapes "
                    "(e.g. with Dim.DYNAMIC)"
                )
            return
        if len(names) > 1:  # torch checks these sizes by assertions in the graph
            return
        (name,) = names
        if name in known:
            if size != (wanted := evaluate(expected, known)):
                raise RuntimeError(f"Expected input at {path} to be equal to {wanted}, but got {size}")
        else:
            found = solve(expected, name, size)
            if found is None:
                words = f"to be of the form {spell(expected)}, where {name} is an integer"
                raise RuntimeError(f"Expected input {path} = {size} {words}")
            known[name] = found
        low, high = self.signature.ranges.get(spell(expected), (None, None))
        if low is not None and low > 2 and size < low:  # torch accepts sizes of 0 and 1
            raise RuntimeError(f"Expected input at {path} to be >= {low}, but got {size}")
        if high is not None and size > high:
            raise RuntimeError(f"Expected input at {path} to be <= {high}, but got {size}")

    # ------------------------------------------------------------ results

    def _write(self, results: list[Any], users: dict[str, Any]) -> None:
        """Write the new values that the program computed for buffers and the caller's arguments into these arrays."""
        for value, (kind, written) in zip(results, self.signature.outputs):
            if written is None:
                continue
            target = self.state[written] if kind == "state" else users[written]
            if value is not target:  # else it has been updated in place
                torchnp.table["aten::copy_"](target, value)

    def as_numpy(self, x: Any) -> Any:
        """Return a result as an ndarray; numbers are unchanged."""
        return x

    def requires(self) -> list[Requirement]:
        """Return every operator that the program calls, by name, with its dtypes and its status in the table."""
        return requirements(self.graph)


def requirements(graph: Graph) -> list[Requirement]:
    """Return every operator in a graph and its nested graphs, by name."""
    counts: Counter[str] = Counter()
    dtypes: dict[str, dict[str, None]] = {}
    for home, node in graph.walk():
        counts[node.target] += 1
        dtypes.setdefault(node.target, {}).update(dict.fromkeys(_dtypes(home, node)))
    return [
        Requirement(name, counts[name], tuple(dtypes[name]), _status(name), _differences(name))
        for name in sorted(counts)
    ]


def _listed(wanted: dict[str, str]) -> str:
    return ", ".join(f"{name} ({text})" for name, text in wanted.items()) or "none"


def _shown(spec: UserInput) -> str:
    if spec.meta is None:
        return "int"
    return f"{spec.meta.dtype}[{', '.join(map(spell, spec.meta.shape))}]"


def check_constant(expected: Any, value: Any, path: str) -> None:
    """Refuse a value other than the one at export; if that one was None, accept anything, as torch does."""
    if expected is None:
        return
    both_nan = isinstance(expected, float) and isinstance(value, float) and math.isnan(expected) and math.isnan(value)
    if type(value) is not type(expected) or not (value == expected or both_nan):
        raise RuntimeError(f"Expected input at {path} to be equal to {expected}, but got {value}")


def _as_tensor(value: Any, meta: Meta, path: str) -> ndarray:
    if isinstance(value, np.generic):
        value = np.asarray(value)
    if not isinstance(value, ndarray):
        raise RuntimeError(f"Expected input at {path} to be a tensor, but got {type(value)}")
    if value.ndim != len(meta.shape):
        wanted = f"torch.Size([{', '.join(map(spell, meta.shape))}])"
        got = f"torch.Size({shape_text(value.shape)})"
        raise RuntimeError(f"Unexpected number of dimensions in input at {path}.shape (expected {wanted}, got {got})")
    if value.dtype.newbyteorder("=") != meta.dtype:
        raise RuntimeError(f"Expected input at {path} to be of dtype {meta.dtype}, but got {value.dtype}")
    return value if value.dtype.isnative else value.astype(meta.dtype)


def _dtypes(graph: Graph, node: Node) -> Iterator[str]:
    given = [n for n in refs([*node.args, *node.kwargs.values()]) if n in graph.tensors]
    made = [n for n in result_names(node.results) if n in graph.tensors]
    yield from (str(graph.tensors[n].dtype) for n in given or made)


def _status(name: str) -> str:
    table = torchnp.table
    if name in NUMBERS:
        return "number"
    if name in HIGHER:
        return "graph"
    return table.status(name) if table.knows(name) else "unknown"


def _differences(name: str) -> tuple[str, ...]:
    table: Any = torchnp.table
    return tuple(d.id for d in table[name].differences) if name in table else ()
