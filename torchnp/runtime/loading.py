"""Load a program from an archive: weights, constants, the graph and its signature."""

from __future__ import annotations

import math
import os
from typing import IO, Any

import numpy as np

from torchnp.core.target import RANGE
from torchnp.runtime.archive import Archive
from torchnp.runtime.graph import Graph, Meta, Ref, parse_argument, parse_graph, parse_meta
from torchnp.runtime.guards import Guard
from torchnp.runtime.json_fields import ProgramError, as_kind, field, items, union
from torchnp.runtime.program import Constant, EffectToken, GraphSignature, Input, Program, Stored, UserInput
from torchnp.runtime.pytree_spec import TreeSpec, parse_spec
from torchnp.runtime.run import check_calls, missing
from torchnp.runtime.symbols import parse_ranges

ndarray = np.ndarray
MAX_GUARDS = 1 << 20  # limit on the total characters of guards, because each one is compiled
MAJOR = 8  # major version of the JSON schema in torch 2.12 to 2.15


def load(file: str | os.PathLike | IO[bytes], model: str | None = None, *, exact: bool = False) -> Program:
    """Read a program that ``torch.export.save`` of torch 2.12 to 2.15 wrote; torch is not needed.

    Parameters
    ----------
    file : str, path or binary file
        The archive (``model.pt2``). A path's weights are memory-mapped: do not change the file while the program lives.
    model : str, optional
        The name of one program, if the archive holds several.
    exact : bool, optional
        Run the table's kernels node by node, for bitwise equal results. Otherwise constants and batch norms are folded,
        and some operators run faster implementations whose results stay within the operators' tolerances.

    Returns
    -------
    Program
        A function of NumPy arrays (and numbers) in the structure of the exported module's arguments.

    Raises
    ------
    ProgramError
        The file is damaged or not such an archive, or the program has operators that torchnp does not provide;
        the message names all of them.
    OSError
        The file cannot be opened.
    """
    with Archive(file) as archive:
        name = _which(archive, model)
        where = f"models/{name}.json"
        record = _record(archive, where)
        module = field(record, "graph_module", dict, where)
        graph = _graph(module, where)
        link(graph)
        signature = _signature(module, graph, where)
        signature.guards += _guards(record, module, signature.takes, f"{where}: guards_code")
        signature.ranges.update(parse_ranges(field(record, "range_constraints", dict, where), f"{where}: ranges"))
        state = _payloads(archive, name, "weights") | _payloads(archive, name, "constants")
    return Program(graph, signature, _state(graph, signature, state), exact)


def read_graph(file: str | os.PathLike | IO[bytes], model: str | None = None) -> Graph:
    """Return the graph of a program, even if it cannot run; ``torchnp requires`` uses it."""
    with Archive(file) as archive:
        where = f"models/{_which(archive, model)}.json"
        return _graph(field(_record(archive, where), "graph_module", dict, where), where)


def _record(archive: Archive, where: str) -> dict[str, Any]:
    """Return the program's JSON; refuse other schema versions than `MAJOR`."""
    record = archive.json(where)
    version = field(record, "schema_version", dict, where)
    if (major := field(version, "major", int, where)) != MAJOR:
        raise ProgramError(
            f"{where} has version {major} of torch's schema; torchnp reads {MAJOR}: export it with torch {RANGE}"
        )
    return record


def _graph(module: dict[str, Any], where: str) -> Graph:
    return parse_graph(field(module, "graph", dict, where), f"{where}: graph")


def link(graph: Graph) -> None:
    """Check that every call can run. `ProgramError` names all missing operators."""
    if lacking := missing(graph):
        lines = "".join(f"\n  {name}: {why}" for name, why in sorted(lacking.items()))
        raise ProgramError(f"the program has {len(lacking)} operators that torchnp does not run:{lines}")
    check_calls(graph)


def _which(archive: Archive, model: str | None) -> str:
    found = [n[7:-5] for n in archive.members if n.startswith("models/") and n.endswith(".json")]
    if not found:
        compiled = any(n.startswith("data/aotinductor/") for n in archive.members)
        why = "it holds machine code of AOTInductor" if compiled else "it has no member models/*.json"
        raise ProgramError(f"{archive.label} holds no exported program: {why}")
    if model is None and len(found) > 1:
        raise ProgramError(f"{archive.label} holds the programs {', '.join(sorted(found))}: say which with model=")
    if model is not None and model not in found:
        raise ProgramError(f"{archive.label} holds no program {model!r}; there are {', '.join(sorted(found))}")
    return model or found[0]


# ---------------------------------------------------------------- weights and constants


def _payloads(archive: Archive, model: str, kind: str) -> dict[str, ndarray]:
    """Return the arrays of a directory by their names in the module.

    Arrays that share memory in torch share it here.
    """
    home = f"data/{kind}"
    if f"{home}/{model}.pt" in archive.members:
        raise ProgramError(
            f"{home}/{model}.pt is a pickle of an older torch: save the program again with torch {RANGE}"
        )
    where = f"{home}/{model}_{kind}_config.json"
    config = field(archive.json(where), "config", dict, where)
    stored: dict[str, ndarray] = {}
    found = {}
    for name, record in config.items():
        at = f"{where}: {name!r}"
        path = field(record, "path_name", str, at)
        if field(record, "use_pickle", bool, at):
            raise ProgramError(
                f"{at}: {home}/{path} is a pickle (an object or a tensor subclass); nothing is unpickled"
            )
        if record.get("tensor_meta") is None:
            raise ProgramError(f"{at}: {home}/{path} is an object of a custom class, which torchnp does not read")
        meta = parse_meta(record["tensor_meta"], at)
        if path not in stored:
            stored[path] = archive.mapped(f"{home}/{path}")
        found[name] = _view(stored[path], meta, f"{at} ({home}/{path})")
    return found


def _view(raw: ndarray, meta: Meta, where: str) -> ndarray:
    """Return a tensor as a view of the bytes of its storage."""
    numbers = [n for n in (*meta.shape, *meta.strides, meta.offset) if isinstance(n, int) and 0 <= n < 2**62]
    rank = len(meta.shape)
    if len(numbers) != 2 * rank + 1:
        raise ProgramError(f"{where} has sizes {meta.shape}, strides {meta.strides} and offset {meta.offset}")
    sizes, strides, offset = numbers[:rank], numbers[rank : 2 * rank], numbers[-1]
    itemsize, elements = meta.dtype.itemsize, math.prod(n or 1 for n in sizes)
    if elements >= 2**62:
        raise ProgramError(f"{where} has sizes {sizes}, more elements than memory has")
    if 0 in sizes:
        return np.empty(sizes, meta.dtype)
    last = offset + sum((n - 1) * step for n, step in zip(sizes, strides))
    if raw.size % itemsize or (last + 1) * itemsize > raw.size:
        raise ProgramError(
            f"{where} has {raw.size} bytes; sizes {sizes}, strides {strides} and offset {offset} of {meta.dtype} "
            f"need {(last + 1) * itemsize}"
        )
    return ndarray(sizes, meta.dtype, raw, offset * itemsize, [step * itemsize for step in strides])


def _state(graph: Graph, signature: GraphSignature, found: dict[str, ndarray]) -> dict[str, ndarray]:
    """Return the arrays that the program needs, checked against the graph's shapes and dtypes."""
    state = {}
    for spec in signature.inputs:
        if not isinstance(spec, Stored):
            continue
        if spec.target not in found:
            raise ProgramError(f"the archive has no array for the {spec.kind} {spec.target!r}")
        array, meta = found[spec.target], graph.tensors.get(spec.name)
        if meta is None or meta.dtype != array.dtype or meta.shape != array.shape:
            expected = f"{meta.dtype} of shape {list(meta.shape)}" if meta else "nothing"
            raise ProgramError(
                f"the {spec.kind} {spec.target!r} is {array.dtype} of shape {list(array.shape)}, "
                f"and the graph has {expected} for it"
            )
        state[spec.target] = array
    return state


# ---------------------------------------------------------------- the signature

_STORED = {"parameter": "parameter_name", "buffer": "buffer_name", "tensor_constant": "tensor_constant_name"}
_WRITTEN = {"buffer_mutation": "buffer_name", "parameter_mutation": "parameter_name"}


def _signature(module: dict[str, Any], graph: Graph, where: str) -> GraphSignature:
    """Parse the signature: which inputs are weights or the caller's, and which outputs are written back."""
    record, where = field(module, "signature", dict, where), f"{where}: signature"
    inputs = [
        _input(x, graph, f"{where}.input_specs[{i}]") for i, x in enumerate(items(record, "input_specs", dict, where))
    ]
    names = [spec.name for spec in inputs if spec.name is not None]
    outputs = [
        _output(x, f"{where}.output_specs[{i}]") for i, x in enumerate(items(record, "output_specs", dict, where))
    ]
    expected = [x.name for x in graph.inputs if isinstance(x, Ref)]
    known = {*expected}
    if [n for n in names if n in known] != expected or len(outputs) != len(graph.outputs):
        raise ProgramError(f"{where} does not fit the graph's inputs and outputs")
    if any(isinstance(spec, (Stored, UserInput, EffectToken)) and spec.name not in known for spec in inputs):
        raise ProgramError(f"{where} has an input that the graph does not have")
    owners = {spec.target if isinstance(spec, Stored) else spec.name for spec in inputs}
    for (kind, written, arg), value in zip(outputs, graph.outputs):
        if kind != "token" and arg != value:
            raise ProgramError(f"{where} has the output {arg}, and the graph {value}")
        if written is not None and (written not in owners or not isinstance(arg, Ref)):
            raise ProgramError(f"{where} writes to {written!r}, which is no input")
    calls = field(module, "module_call_graph", list, where)
    call = next((c for c in calls if type(c) is dict and c.get("fqn") == ""), None)
    call = field(call, "signature", dict, f"{where}: module_call_graph")
    named = as_kind(module.get("treespec_namedtuple_fields") or {}, dict, where)
    takes = parse_spec(field(call, "in_spec", str, where), named, f"{where}: in_spec")
    gives = parse_spec(field(call, "out_spec", str, where), named, f"{where}: out_spec")
    _check_structure(takes, gives, inputs, outputs, where)
    return GraphSignature(inputs, [(kind, written) for kind, written, _ in outputs], takes, gives, {}, [])


def _guards(record: dict[str, Any], module: dict[str, Any], takes: TreeSpec, where: str) -> list[Guard]:
    """Parse the guards. They name arguments as the module's ``forward`` does."""
    call = next(c["signature"] for c in module["module_call_graph"] if c.get("fqn") == "")
    positional, named = takes.children
    names = items(call, "forward_arg_names", str, where) if call.get("forward_arg_names") else []
    paths = [path for name, spec in zip(names, positional.children) for path in spec.paths(f"[{name!r}]")]
    if len(paths) != positional.leaves:  # a guard cannot refer to arguments without names
        paths = [""] * positional.leaves
    places = {path: i for i, path in enumerate([*paths, *named.paths()])}
    texts = items(record, "guards_code", str, where) if record.get("guards_code") else []
    if (total := sum(map(len, texts))) > MAX_GUARDS:
        raise ProgramError(f"{where} has {total} characters, more than {MAX_GUARDS}")
    return [Guard(text, places, where) for text in texts]


def _check_structure(takes: TreeSpec, gives: TreeSpec, inputs: list, outputs: list, where: str) -> None:
    users = sum(isinstance(spec, (UserInput, Constant)) for spec in inputs)
    if len(takes.children) != 2 or takes.children[0].keys is not None or takes.children[1].keys is None:
        raise ProgramError(f"{where}: in_spec is no pair of a tuple and a dict of arguments")
    if takes.leaves != users:
        raise ProgramError(f"{where}: in_spec has {takes.leaves} values, and the signature {users}")
    given = sum(kind == "user" for kind, *_ in outputs)
    if gives.leaves != given:
        raise ProgramError(f"{where}: out_spec has {gives.leaves} values, and the signature {given}")


def _input(record: Any, graph: Graph, where: str) -> Input:
    kind, spec = union(record, where)
    if kind in _STORED:
        name = field(field(spec, "arg", dict, where), "name", str, where)
        return Stored(name, kind, field(spec, _STORED[kind], str, where))
    if kind == "token":
        return EffectToken(field(field(spec, "arg", dict, where), "name", str, where))
    if kind == "constant_input":
        _, value = union(field(spec, "value", dict, where), where)
        value = parse_argument(field(spec, "value", dict, where), where)
        return Constant(field(spec, "name", str, where), value)
    if kind != "user_input":
        raise ProgramError(f"{where} is of the kind {kind[:40]!r}, which torchnp does not run")
    arg = parse_argument(field(spec, "arg", dict, where), where)
    if not isinstance(arg, Ref):
        return Constant(None, arg)
    meta = graph.tensors.get(arg.name)
    if meta is None and arg.name not in graph.sizes:
        raise ProgramError(f"{where}: the graph says nothing of {arg.name!r}")
    return UserInput(arg.name, meta, graph.sizes.get(arg.name))


def _output(record: Any, where: str) -> tuple[str, str | None, Any]:
    """Parse an output; return its role, the name of the array it is written to (or None), and its value."""
    kind, spec = union(record, where)
    if kind == "user_output":
        return "user", None, parse_argument(field(spec, "arg", dict, where), where)
    if kind in _WRITTEN:
        return "state", field(spec, _WRITTEN[kind], str, where), Ref(field(spec["arg"], "name", str, where))
    if kind == "user_input_mutation":
        return "input", field(spec, "user_input_name", str, where), Ref(field(spec["arg"], "name", str, where))
    if kind == "token":
        return "token", None, None
    raise ProgramError(f"{where} is of the kind {kind[:40]!r}, which torchnp does not run")
