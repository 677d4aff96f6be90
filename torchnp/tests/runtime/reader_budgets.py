"""Files for `torchnp.load` that grow at one place; a reader's time and memory may grow only in proportion to the
bytes."""

import copy
import json

from torchnp.tests.runtime import test_hostile_archives as hostile

MODEL, WEIGHTS, LEAF = hostile.MODEL, hostile.WEIGHTS, hostile.LEAF
RECORDS = {name: json.loads(hostile.MEMBERS[name]) for name in (MODEL, WEIGHTS, hostile.CONSTANTS)}
NODE = {"target": "torch.ops.aten.relu.default", "outputs": [{"as_tensor": {"name": "linear"}}], "metadata": {}}
NODE |= {"inputs": [{"name": "self", "arg": {"as_tensor": {"name": "input"}}, "kind": 1}]}


def grown(member, change):
    """Return a function of n that makes an archive with one member changed by ``change(record, n)``."""

    def make(n):
        record = copy.deepcopy(RECORDS[member])
        change(record, n)
        return hostile.pack(hostile.MEMBERS | {member: json.dumps(record).encode()})

    return make


def at(*path):
    """Return the container at a path of the model's JSON, and the last key of the path."""

    def find(record):
        for key in path:
            record = record[key]
        return record

    return find


graph, module = at("graph_module", "graph"), at("graph_module")
call, signature = at("graph_module", "module_call_graph", 0, "signature"), at("graph_module", "signature")


def raw(member, text):
    """Return a function that makes archives with a text as the content of one member."""
    return lambda n: hostile.pack(hostile.MEMBERS | {member: text(n).encode()})


def chain(record, n, target="torch.ops.aten.relu.default", **more):
    """Insert nodes in front of the others, each of which reads the result of the one before."""
    made = []
    for i in range(n):
        node = copy.deepcopy(NODE) | {"target": target.format(i)} | more
        node["inputs"][0]["arg"]["as_tensor"]["name"] = f"v{i - 1}" if i else "input"
        node["outputs"] = [{"as_tensor": {"name": f"v{i}"}}]
        made.append(node)
    graph(record)["nodes"][:0] = made


def specs(record, n):
    """Add ``n`` user inputs, named ``z0``, ``z1``, ..."""
    args = [{"as_tensor": {"name": f"z{i}"}} for i in range(n)]
    signature(record)["input_specs"] += [{"user_input": {"arg": arg}} for arg in args]
    graph(record)["inputs"] += args
    meta = graph(record)["tensor_values"]["input"]
    graph(record)["tensor_values"] |= {f"z{i}": meta for i in range(n)}


def outputs(record, n):
    one = signature(record)["output_specs"][0]
    signature(record)["output_specs"] += [one] * n
    graph(record)["outputs"] += [graph(record)["outputs"][0]] * n


def mutations(record, n):
    """Outputs that are written to the program's own arrays."""
    target = next(iter(RECORDS[WEIGHTS]["config"]))
    arg = graph(record)["outputs"][0]["as_tensor"]
    made = [{"parameter_mutation": {"arg": arg, "parameter_name": target}}] * n
    signature(record)["output_specs"][:0] = made
    graph(record)["outputs"][:0] = [graph(record)["outputs"][0]] * n


def wide_spec(n, kind="builtins.list", context="null"):
    children = ", ".join([LEAF] * n)
    return f'[1, {{"type": {json.dumps(kind)}, "context": {json.dumps(context)}, "children_spec": [{children}]}}]'


def long_keys(record, n):
    """A long key above many leaves, all of which have it in their paths."""
    inner = f'{{"type": "builtins.list", "context": "null", "children_spec": [{", ".join([LEAF] * n)}]}}'
    context = json.dumps(json.dumps(["k" * 50 * n]))
    given = f'{{"type": "builtins.dict", "context": {context}, "children_spec": [{inner}]}}'
    call(record)["in_spec"] = (
        f'[1, {{"type": "builtins.tuple", "context": "null", "children_spec": ['
        f'{{"type": "builtins.tuple", "context": "null", "children_spec": [{given}]}}, '
        f'{{"type": "builtins.dict", "context": "[]", "children_spec": []}}]}}]'
    )
    one = signature(record)["input_specs"]
    one[:] = [s for s in one if "user_input" not in s] + [{"user_input": {"arg": {"as_int": 1}}}] * n
    graph(record)["inputs"] = [x for x in graph(record)["inputs"] if x["as_tensor"]["name"] != "input"]
    graph(record)["nodes"] = []
    graph(record)["outputs"] = [graph(record)["inputs"][0]]
    signature(record)["output_specs"] = [{"user_output": {"arg": graph(record)["inputs"][0]}}]


def named_tuples(record, n):
    named = {f"m.P{i}": {"field_names": ["a", "b"]} for i in range(n)}
    module(record)["treespec_namedtuple_fields"] = named
    leaf = [
        f'{{"type": "collections.namedtuple", "context": "m.P{i}", "children_spec": [{LEAF}, {LEAF}]}}'
        for i in range(n)
    ]
    call(record)["out_spec"] = (
        f'[1, {{"type": "builtins.list", "context": "null", "children_spec": [{", ".join(leaf)}]}}]'
    )


def inner_graphs(record, n):
    """Graphs inside graphs, with many nodes in the innermost."""
    bare = {"inputs": [], "outputs": [], "nodes": [], "tensor_values": {}, "sym_int_values": {}}
    bare["nodes"] = [{"target": "a", "inputs": [], "outputs": []}] * n
    for _ in range(100):
        arg = {"name": "g", "arg": {"as_graph": {"graph": bare, "name": "g"}}, "kind": 1}
        bare = bare | {"nodes": [{"target": "t" * 80, "inputs": [arg], "outputs": []}]}
    graph(record)["nodes"][:0] = bare["nodes"]


def effects(record, n):
    token = {"as_tensor": {"name": "input"}}
    made = []
    for i in range(n):
        arguments = [
            {"name": "t", "arg": {"as_tensor": {"name": f"t{i - 1}"}} if i else token, "kind": 1},
            {"name": "o", "arg": {"as_operator": "torch.ops.aten.relu.default"}, "kind": 1},
            {"name": "self", "arg": token, "kind": 1},
        ]
        results = [{"as_tensor": {"name": f"t{i}"}}, {"as_tensor": {"name": f"e{i}"}}]
        made.append({"target": "torch.ops.higher_order.with_effects", "inputs": arguments, "outputs": results})
    graph(record)["nodes"][:0] = made


def weights(record, n):
    first = next(iter(record["config"].values()))
    record["config"] |= {f"w{i}": first for i in range(n)}


def stored(n):
    """Many small weights, each in its own member."""
    config = copy.deepcopy(RECORDS[WEIGHTS])
    for i in range(n):
        entry = copy.deepcopy(next(iter(config["config"].values())))
        entry["path_name"] = f"w{i}"
        entry["tensor_meta"] |= {"sizes": [{"as_int": 1}], "strides": [{"as_int": 1}]}
        config["config"][f"w{i}"] = entry
    more = {f"data/weights/w{i}": bytes(4) for i in range(n)}
    return hostile.pack(hostile.MEMBERS | more | {WEIGHTS: json.dumps(config).encode()})


def text_of_sizes(deep):
    def change(record, n):
        symbol = "Symbol('s{}')"
        pieces = max(1, n // 8)
        one = (
            "Add(" * 8 * deep + symbol.format(1) + ")" * 8 * deep
            if deep > 1
            else f"Add({', '.join(symbol.format(i) for i in range(8))})"
        )
        meta = graph(record)["tensor_values"]["input"]
        size = {"as_expr": {"expr_str": one}}
        graph(record)["tensor_values"] |= {
            f"q{i}": meta | {"sizes": [size], "strides": [{"as_int": 1}]} for i in range(pieces)
        }

    return change


GROWN = {
    "members": lambda n: hostile.pack(hostile.MEMBERS | {f"extra/{i}": b"" for i in range(n)}),
    "models": lambda n: hostile.pack(hostile.MEMBERS | {f"models/{i}.json": b"{}" for i in range(n)}),
    "member of a long name": lambda n: hostile.pack(hostile.MEMBERS | {"a/" * min(n,
          30000) + "b": b"1"} | {f"x{i}/{'y/' * 200}z": b""
      for i in range(n // 200)}),
    "weights in members": stored,
    "weights in one member": grown(WEIGHTS, weights),
    "keys, one twice at the end": raw(MODEL, lambda n: "{" + "".join(f'"k{i}": 0, ' for i in range(n)) + f'"k{n - 1}": 0}}'),
    "keys, all twice": raw(MODEL, lambda n: "{" + ", ".join(f'"k{i // 2}": 0' for i in range(n)) + "}"),
    "one key many times": raw(MODEL, lambda n: "{" + ", ".join(['"k": 0'] * n) + "}"),
    "empty lists": raw(MODEL, lambda n: "[" + ", ".join(["[]"] * n) + "]"),
    "small objects": raw(MODEL, lambda n: "[" + ", ".join(['{"": 0}'] * n) + "]"),
    "many digits": raw(MODEL, lambda n: "[" + ", ".join(["9" * 4000] * (n // 500 + 1)) + "]"),
    "inputs": grown(MODEL, specs),
    "outputs": grown(MODEL, outputs),
    "outputs written to weights": grown(MODEL, mutations),
    "nodes": grown(MODEL, chain),
    "nodes of unknown operators": grown(MODEL, lambda r, n: chain(r, n, "torch.ops.aten.nothing{}.default")),
    "nodes of unknown libraries": grown(MODEL, lambda r, n: chain(r, n, "torch.ops.lib{}.op.default")),
    "nodes of unknown functions": grown(MODEL, lambda r, n: chain(r, n, "function{}")),
    "nodes of one argument missing": grown(MODEL, lambda r, n: chain(r, n, "torch.ops.aten.add.Tensor")),
    "arguments of a node": grown(MODEL, lambda r, n: graph(r)["nodes"][0]["inputs"].extend([NODE["inputs"][0]] * n)),
    "results of a node": grown(MODEL, lambda r,
          n: graph(r)["nodes"][0]["outputs"].extend({"as_tensor": {"name": f"r{i}"}}
      for i in range(n))),
    "numbers of an argument": grown(MODEL, lambda r, n: graph(r)["nodes"][0]["inputs"][0].update(arg={"as_ints": [1] * n})),
    "tensors of an argument": grown(MODEL, lambda r,
      n: graph(r)["nodes"][0]["inputs"][0].update(arg={"as_tensors": [{"name": "input"}] * n})),
    "graphs in graphs": grown(MODEL, inner_graphs),
    "effects": grown(MODEL, effects),
    "tensors": grown(MODEL, lambda r, n: graph(r)["tensor_values"].update((f"q{i}", graph(r)["tensor_values"]["input"]) for i in range(n))),
    "sizes of sums": grown(MODEL, text_of_sizes(1)),
    "sizes of deep sums": grown(MODEL, text_of_sizes(20)),
    "guards": grown(MODEL, lambda r, n: r.update(guards_code=["L['input'].size()[0] < 1000000"] * n)),
    "guards of many comparisons": grown(MODEL, lambda r, n: r.update(guards_code=["<".join(["1"] * 4000)] * (n // 4000 + 1))),
    "ranges": grown(MODEL, lambda r, n: r["range_constraints"].update((f"s{i}", {"min_val": 2, "max_val": None})
      for i in range(1000, 1000 + n))),
    "calls": grown(MODEL, lambda r, n: module(r)["module_call_graph"].extend([{"fqn": "x"}] * n)),
    "structure of many values": grown(MODEL, lambda r, n: call(r).update(out_spec=wide_spec(n))),
    "structure of many keys": grown(MODEL, lambda r, n: call(r).update(out_spec=wide_spec(n, "builtins.dict",
          json.dumps([f"k{i}"
      for i in range(n)])))),
    "structure of keys that come twice": grown(MODEL, lambda r,
          n: call(r).update(out_spec=wide_spec(n, "builtins.dict", json.dumps([f"k{i // 2}"
      for i in range(n)])))),
    "structure of long keys": grown(MODEL, long_keys),
    "structure of named tuples": grown(MODEL, named_tuples),
    "names of arguments": grown(MODEL, lambda r, n: call(r).update(forward_arg_names=[f"a{i}" for i in range(n)])),
}  # fmt: skip
