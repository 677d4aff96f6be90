"""Damaged and hostile files: each is refused at once, with a reason, and without using much memory."""

import copy
import io
import json
import pickle
import struct
import time
import tracemalloc
import zipfile
from pathlib import Path

import pytest

import torchnp
from torchnp.runtime import ProgramError
from torchnp.runtime.archive import Archive
from torchnp.runtime.pytree_spec import parse_spec
from torchnp.runtime.symbols import evaluate, parse, solve, spell

GOOD = (Path(__file__).parents[1] / "data" / "convnet.pt2").read_bytes()
ROOT = zipfile.ZipFile(io.BytesIO(GOOD)).namelist()[0].partition("/")[0]
MEMBERS = {
    n.partition("/")[2]: zipfile.ZipFile(io.BytesIO(GOOD)).read(n) for n in zipfile.ZipFile(io.BytesIO(GOOD)).namelist()
}
MODEL, WEIGHTS = "models/model.json", "data/weights/model_weights_config.json"
CONSTANTS = "data/constants/model_constants_config.json"
SECONDS, BYTES = 1.0, 20_000_000


def pack(members, root=ROOT, method=zipfile.ZIP_STORED):
    """Return an archive of members in the folder ``root``; a name that starts with ``=`` is used without the folder."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as made:
        for name, data in members.items() if isinstance(members, dict) else members:
            made.writestr(zipfile.ZipInfo(name[1:] if name[:1] == "=" else f"{root}/{name}"), data, method)
    return file.getvalue()


def with_json(member, change):
    """Return the valid archive with one JSON member changed in place."""
    record = json.loads(MEMBERS[member])
    change(record)
    return pack(MEMBERS | {member: json.dumps(record).encode()})


def graph(record):
    return record["graph_module"]["graph"]


def setter(value, *path):
    """Return a change that sets the field at a path to a value, or removes it."""

    def change(record):
        for key in path[:-1]:
            record = record[key]
        if value is DELETE:
            del record[path[-1]]
        else:
            record[path[-1]] = copy.deepcopy(value)

    return change


DELETE = object()
G, S, N0 = ("graph_module", "graph"), ("graph_module", "signature"), ("graph_module", "graph", "nodes", 0)
CALL = ("graph_module", "module_call_graph", 0, "signature")
FIRST = next(iter(json.loads(MEMBERS[WEIGHTS])["config"]))
W = ("config", FIRST)
META = (*W, "tensor_meta")
NESTED = "[" * 5000 + "]" * 5000
LEAF = '{"type": null, "context": null, "children_spec": []}'


def spec_of(depth):
    text = LEAF
    for _ in range(depth):
        text = f'{{"type": "builtins.tuple", "context": "null", "children_spec": [{text}]}}'
    return f"[1, {text}]"


def cycle(record):
    """Make the first node read the last one's result."""
    nodes = graph(record)["nodes"]
    nodes[0]["inputs"][0]["arg"] = copy.deepcopy(nodes[-1]["outputs"][0])


def twice(record):
    nodes = graph(record)["nodes"]
    nodes.append(copy.deepcopy(nodes[-1]))


JSON_CHANGES = {
    "no graph": (MODEL, setter(DELETE, *G)),
    "graph is a list": (MODEL, setter([], *G)),
    "nodes are an object": (MODEL, setter({}, *G, "nodes")),
    "a node is a string": (MODEL, setter("relu", *N0)),
    "no target": (MODEL, setter(DELETE, *N0, "target")),
    "target is a number": (MODEL, setter(3, *N0, "target")),
    "target unknown": (MODEL, setter("torch.ops.aten.reluu.default", *N0, "target")),
    "target of the system": (MODEL, setter("os.system", *N0, "target")),
    "target with dots": (MODEL, setter("_operator.__class__", *N0, "target")),
    "operator that reads": (MODEL, setter("_operator.attrgetter", *N0, "target")),
    "target of a terminal": (MODEL, setter("torch.ops.aten.\x1b]0;title\x07.default", *N0, "target")),
    "target of two lines": (MODEL, setter("torch.ops.aten.relu\nok", *N0, "target")),
    "torch function": (MODEL, setter("torch.load", *N0, "target")),
    "cycle": (MODEL, cycle),
    "node twice": (MODEL, twice),
    "undefined value": (MODEL, setter({"as_tensor": {"name": "nothing"}}, *N0, "inputs", 0, "arg")),
    "union of two": (MODEL, setter({"as_int": 1, "as_bool": True}, *N0, "inputs", 0, "arg")),
    "union of none": (MODEL, setter({}, *N0, "inputs", 0, "arg")),
    "kind unknown": (MODEL, setter({"as_pickle": "gASV"}, *N0, "inputs", 0, "arg")),
    "custom object": (MODEL, setter({"as_custom_obj": {"name": "o", "class_fqn": "c"}}, *N0, "inputs", 0, "arg")),
    "int is text": (MODEL, setter({"as_int": "3"}, *N0, "inputs", 0, "arg")),
    "int is true": (MODEL, setter({"as_int": True}, *N0, "inputs", 0, "arg")),
    "int is huge": (MODEL, setter({"as_int": 10**4000}, *N0, "inputs", 0, "arg")),
    "ints are mixed": (MODEL, setter({"as_ints": [1, None]}, *N0, "inputs", 0, "arg")),
    "dtype unknown": (MODEL, setter({"as_scalar_type": 99}, *N0, "inputs", 0, "arg")),
    "dtype is a list": (MODEL, setter({"as_scalar_type": []}, *N0, "inputs", 0, "arg")),
    "layout sparse": (MODEL, setter({"as_layout": 1}, *N0, "inputs", 0, "arg")),
    "memory format": (MODEL, setter({"as_memory_format": -1}, *N0, "inputs", 0, "arg")),
    "another device": (MODEL, setter({"as_device": {"type": "cuda", "index": 0}}, *N0, "inputs", 0, "arg")),
    "argument unknown": (MODEL, setter({"name": "q", "arg": {"as_int": 1}, "kind": 2}, *N0, "inputs", 1)),
    "argument kind": (MODEL, setter(7, *N0, "inputs", 1, "kind")),
    "argument missing": (MODEL, setter([], *N0, "inputs")),
    "too many arguments": (
        MODEL,
        setter([{"name": "x", "arg": {"as_int": 1}, "kind": 1}] * 40, *N0, "inputs"),
    ),
    "too few results": (MODEL, setter([], *N0, "outputs")),
    "result is a constant": (MODEL, setter([{"as_sym_int": {"as_int": 3}}], *N0, "outputs")),
    "outputs missing": (MODEL, setter([], *G, "outputs")),
    "inputs missing": (MODEL, setter([], *G, "inputs")),
    "no signature": (MODEL, setter(None, *S)),
    "signature shorter": (MODEL, setter([], *S, "input_specs")),
    "signature of pickles": (MODEL, setter({"custom_obj": {}}, *S, "input_specs", 0)),
    "buffer that is not there": (MODEL, setter("other", *S, "input_specs", 0, "parameter", "parameter_name")),
    "output is no user's": (MODEL, setter({"gradient_to_parameter": {}}, *S, "output_specs", 0)),
    "writes elsewhere": (
        MODEL,
        setter({"buffer_mutation": {"arg": {"name": "linear"}, "buffer_name": "x"}}, *S, "output_specs", 0),
    ),
    "no call": (MODEL, setter([], "graph_module", "module_call_graph")),
    "structure is no JSON": (MODEL, setter("[1, {", *CALL, "in_spec")),
    "structure of version 9": (MODEL, setter(f"[9, {LEAF}]", *CALL, "in_spec")),
    "structure with no pair": (MODEL, setter(f"[1, {LEAF}]", *CALL, "in_spec")),
    "structure too deep": (MODEL, setter(spec_of(300), *CALL, "out_spec")),
    "structure without end": (MODEL, setter(f"[1, {NESTED}]", *CALL, "out_spec")),
    "structure with more leaves": (
        MODEL,
        setter(f'[1, {{"type": "builtins.list", "context": "null", "children_spec": [{LEAF}, {LEAF}]}}]', *CALL, "out_spec"),
    ),
    "version": (MODEL, setter({"major": 9, "minor": 0}, "schema_version")),
    "version is text": (MODEL, setter("8.20", "schema_version")),
    "ranges are a list": (MODEL, setter([], "range_constraints")),
    "size is code": (
        MODEL,
        setter({"as_expr": {"expr_str": "__import__('os').getcwd()"}}, *G, "tensor_values", "input", "sizes", 0),
    ),
    "size is a tower": (
        MODEL,
        setter(
            {"as_expr": {"expr_str": "Pow(Integer(9), Pow(Integer(9), Integer(99)))"}},
            *G, "tensor_values", "input", "sizes", 0,
        ),
    ),
    "size is deep": (
        MODEL,
        setter({"as_expr": {"expr_str": "Add(" * 900 + ")" * 900}}, *G, "tensor_values", "input", "sizes", 0),
    ),
    **{
        f"guard {text[:30]}": (MODEL, setter([text], "guards_code"))
        for text in (
            "__import__('os')", "L['x'].__class__", "L['nothing'].size()[0] == 1", "(lambda: 1)()", "[x for x in ()]",
            "L", "1 +", "-" * 3000 + "1", "(" * 200 + "1", "f(1)", "open('x')", "L['input'].size", "x" * 20_000,
        )
    },
    "guards are text": (MODEL, setter("True", "guards_code")),
    "weights are pickles": (WEIGHTS, setter(True, *W, "use_pickle")),
    "weights without a shape": (WEIGHTS, setter(None, *META)),
    "weights elsewhere": (WEIGHTS, setter("../../../etc/passwd", *W, "path_name")),
    "weights of another name": (WEIGHTS, setter("weight_99", *W, "path_name")),
    "weights of another dtype": (WEIGHTS, setter(8, *META, "dtype")),
    "weights of no dtype": (WEIGHTS, setter(0, *META, "dtype")),
    "weights of a huge size": (WEIGHTS, setter({"as_int": 2**40}, *META, "sizes", 0)),
    "weights of a size that wraps": (WEIGHTS, setter({"as_int": 2**61}, *META, "sizes", 0)),
    "weights spread over one number": (
        WEIGHTS,
        lambda r: r["config"][FIRST]["tensor_meta"].update(
            sizes=[{"as_int": 2**31}] * 4, strides=[{"as_int": 0}] * 4
        ),
    ),
    "weights of a negative size": (WEIGHTS, setter({"as_int": -1}, *META, "sizes", 0)),
    "weights of a negative stride": (WEIGHTS, setter({"as_int": -9}, *META, "strides", 0)),
    "weights behind the end": (WEIGHTS, setter({"as_int": 10**6}, *META, "storage_offset")),
    "weights of a symbolic size": (WEIGHTS, setter({"as_expr": {"expr_str": "Symbol('s0')"}}, *META, "sizes", 0)),
    "weights of an empty huge shape": (
        WEIGHTS,
        lambda r: r["config"][FIRST]["tensor_meta"].update(
            sizes=[{"as_int": 2**40}, {"as_int": 0}, {"as_int": 2**40}, {"as_int": 2}]
        ),
    ),
    "weights of many dimensions": (
        WEIGHTS,
        lambda r: r["config"][FIRST]["tensor_meta"].update(
            sizes=[{"as_int": 1}] * 99, strides=[{"as_int": 1}] * 99
        ),
    ),
    "no weights": (WEIGHTS, setter({}, "config")),
    "constants are a list": (CONSTANTS, setter([], "config")),
}  # fmt: skip


def bomb():
    return pack(MEMBERS | {"data/weights/weight_0": bytes(50_000_000)}, method=zipfile.ZIP_DEFLATED)


def claim(size, field):
    """Change a size of the first member in the central directory (field 20: compressed, 24: uncompressed)."""
    data = bytearray(GOOD)
    at = zipfile.ZipFile(io.BytesIO(GOOD)).start_dir
    for f in field:
        data[at + f : at + f + 4] = struct.pack("<I", size)
    return bytes(data)


def overlapping():
    """A hundred names for the bytes of one member."""
    data = bytearray(pack({"archive_format": b"pt2", "big": bytes(100_000)}))
    start = data.index(b"PK\x01\x02")
    record = data[data.index(b"PK\x01\x02", start + 4) : data.index(b"PK\x05\x06")]
    more = b"".join(bytes(record).replace(b"/big", b"/%03d" % i) for i in range(100))
    end = data.index(b"PK\x05\x06")
    tail = bytearray(data[end:])
    n = 2 + 100
    tail[8:12] = struct.pack("<HH", n, n)
    tail[12:16] = struct.pack("<I", end - start + len(more))
    return bytes(data[:end] + more + tail)


def swap(name, data):
    return pack(MEMBERS | {name: data})


def flipped(at):
    data = bytearray(GOOD)
    data[at] ^= 0xFF
    return bytes(data)


_FIRST_DATA = GOOD.index(MEMBERS["data/weights/weight_0"])
_JSON_AT = GOOD.index(MEMBERS[MODEL])

FILES = {
    "empty": lambda: b"",
    "text": lambda: b"a program, they said",
    "a pickle": lambda: pickle.dumps({"state": [1, 2]}),
    "no members": lambda: pack({}),
    "saved by torch.save": lambda: pack({"data.pkl": pickle.dumps(1), "version": b"3"}),
    "an older export": lambda: pack({"=serialized_exported_program.json": b"{}", "=version": b"5"}),
    "of AOTInductor": lambda: pack({"archive_format": b"pt2", "data/aotinductor/model/x.so": b""}),
    "another format": lambda: swap("archive_format", b"zip"),
    "another version": lambda: swap("archive_version", b"7"),
    "big-endian": lambda: swap("byteorder", b"big"),
    "two roots": lambda: pack(MEMBERS | {"=other/thing": b""}),
    "name with ..": lambda: pack(MEMBERS | {"../../up": b""}),
    "absolute name": lambda: pack(MEMBERS | {"=/etc/passwd": b""}),
    "name of a drive": lambda: pack(MEMBERS | {"=C:/x": b""}),
    "name with a backslash": lambda: pack(MEMBERS | {"a\\..\\b": b""}),
    "name of a terminal": lambda: pack(MEMBERS | {"models/\x1b[31m.json": b"{}"}),
    "name of nothing": lambda: pack(MEMBERS | {"a//b": b""}),
    "directory": lambda: pack(MEMBERS | {"a/": b""}),
    "compressed": lambda: pack(MEMBERS, method=zipfile.ZIP_DEFLATED),
    "bomb": bomb,
    "overlapping": overlapping,
    "claims to be larger": lambda: claim(2**31, (20, 24)),
    "claims 4 GB": lambda: claim(2**32 - 2, (20, 24)),
    "claims to grow": lambda: claim(2**31, (24,)),
    "claims to be smaller": lambda: claim(3, (20, 24)),
    "weight of another byte": lambda: flipped(_FIRST_DATA + 5),
    "JSON of another byte": lambda: flipped(_JSON_AT + 300),
    "pickle for a weight": lambda: swap("data/weights/weight_0", pickle.dumps([1.5] * 9)),
    "short weight": lambda: swap("data/weights/weight_0", MEMBERS["data/weights/weight_0"][:-1]),
    "empty weight": lambda: swap("data/weights/weight_0", b""),
    "pickled weights of old": lambda: pack(MEMBERS | {"data/weights/model.pt": pickle.dumps({})}),
    "no model": lambda: pack({n: d for n, d in MEMBERS.items() if n != MODEL}),
    "no config of weights": lambda: pack({n: d for n, d in MEMBERS.items() if n != WEIGHTS}),
    "model is a pickle": lambda: swap(MODEL, pickle.dumps({"graph_module": {}})),
    "model is null": lambda: swap(MODEL, b"null"),
    "model is nested": lambda: swap(MODEL, NESTED.encode() * 20),
    "model of two graphs": lambda: swap(MODEL, MEMBERS[MODEL][:-1] + b', "graph_module": {}}'),
    "model of long numbers": lambda: swap(MODEL, b"[" + b"9" * 1_000_000 + b"]"),
    **{f"JSON cut at {i}/12": (lambda i=i: swap(MODEL, MEMBERS[MODEL][: len(MEMBERS[MODEL]) * i // 12])) for i in range(12)},
    **{f"file cut at {i}/24": (lambda i=i: GOOD[: len(GOOD) * i // 24]) for i in range(1, 24)},
    **{f"file cut {n} bytes early": (lambda n=n: GOOD[:-n]) for n in (1, 5, 21, 22, 23, 60, 200)},
    **{f"file without its first {n} bytes": (lambda n=n: GOOD[n:]) for n in (1, 30, 64, 1000)},
    **{what: (lambda m=m, c=c: with_json(m, c)) for what, (m, c) in JSON_CHANGES.items()},
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def table():
    """Load the table first, so that its time and memory do not count for a file."""
    return torchnp.load(io.BytesIO(GOOD))


@pytest.mark.parametrize("opened", [True, False], ids=["opened", "by its path"])
@pytest.mark.parametrize("what", FILES)
def test_it_is_refused_at_once(what, opened, tmp_path):
    """A file that the caller has opened is read, and a file given by name is mapped."""
    data = io.BytesIO(FILES[what]())
    if not opened:
        path = tmp_path / "model.pt2"
        path.write_bytes(data.getvalue())
        data = path
    tracemalloc.start()
    try:
        with pytest.raises(ProgramError) as said:
            torchnp.load(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(str(said.value)) > 20
    assert str(said.value).replace("\n", "").isprintable()
    assert peak < BYTES, f"{peak} bytes were taken"
    assert (seconds := min(refused_in(data) for _ in range(3))) < SECONDS, f"it took {seconds:.2f} s"


def refused_in(data):
    """Return the seconds of this thread until a file is refused; other work of the machine and the process does not
    count."""
    if isinstance(data, io.BytesIO):
        data.seek(0)
    start = time.thread_time()
    with pytest.raises(ProgramError):
        torchnp.load(data)
    return time.thread_time() - start


def test_two_members_of_one_name(recwarn):
    data = pack([*MEMBERS.items(), (MODEL, b"{}")])
    with pytest.raises(ProgramError, match="two members of the name"):
        torchnp.load(io.BytesIO(data))


def test_the_good_file_is_read():
    """The valid members, packed by the same function, can be loaded."""
    assert torchnp.load(io.BytesIO(pack(MEMBERS))).inputs == {"input": "float32[s31, 1, 6, 6]"}
    assert torchnp.load(io.BytesIO(with_json(MODEL, lambda record: None)))


def test_a_weight_that_ends_behind_the_file(tmp_path):
    """A member whose header gives a later offset for its bytes than the true one."""
    data, path = bytearray(GOOD), tmp_path / "model.pt2"
    at = zipfile.ZipFile(io.BytesIO(GOOD)).getinfo(f"{ROOT}/data/weights/weight_0").header_offset
    for longer in (64, 65520):
        data[at + 28 : at + 30] = struct.pack("<H", struct.unpack("<H", GOOD[at + 28 : at + 30])[0] % 64 + longer)
        path.write_bytes(data)
        with pytest.raises(ProgramError, match="member 'data/weights/weight_0' is damaged"):
            torchnp.load(path)


def test_messages_name_the_member():
    with pytest.raises(ProgramError, match="model_weights_config.json.*weight_0.* is a pickle .*nothing is unpickled"):
        torchnp.load(io.BytesIO(FILES["weights are pickles"]()))
    with pytest.raises(ProgramError, match="member 'data/weights/weight_0' is damaged: Bad CRC-32"):
        torchnp.load(io.BytesIO(FILES["weight of another byte"]()))
    with pytest.raises(ProgramError, match=r"models/model.json: graph.nodes\[0\] \(torch.ops.aten.conv2d.default\)"):
        torchnp.load(io.BytesIO(FILES["int is text"]()))


def test_files_that_are_not_there_are_the_systems_errors(tmp_path):
    with pytest.raises(FileNotFoundError):
        torchnp.load(tmp_path / "no.pt2")
    (tmp_path / "bad.pt2").write_bytes(b"no")
    with pytest.raises(ProgramError, match="bad.pt2 is no zip"):
        Archive(tmp_path / "bad.pt2")


def test_sizes():
    s = parse("Add(Mul(Integer(2), Symbol('s1', positive=True, integer=True)), Integer(-3))", "here")
    assert evaluate(s, {"s1": 5}) == 7 and solve(s, "s1", 7) == 5 and solve(s, "s1", 8) is None
    assert spell(s) == "2*s1 + -3"
    with pytest.raises(ProgramError, match="divides by zero"):
        parse("FloorDiv(Integer(3), Integer(0))", "here")
    for text in ("s1", "Symbol(3)", "Integer('a')", "FloorDiv(Integer(3))", "Add()", "f(Integer(1))", "1 +", "[].x()"):
        with pytest.raises(ProgramError, match="here"):
            parse(text, "here")


def test_a_named_tuple_has_names_of_fields():
    spec = f'[1, {{"type": "collections.namedtuple", "context": "m.P", "children_spec": [{LEAF}, {LEAF}]}}]'
    made = parse_spec(spec, {"m.P": {"field_names": ["a", "b"]}}, "here").build(iter((1, 2)))
    assert made == (1, 2) and made._fields == ("a", "b")
    for names in (["a", "__class__"], ["a", "b c"], ["class", "b"], ["a", "a"], ["a"], [["a"], "b"]):
        with pytest.raises(ProgramError, match="here"):
            parse_spec(spec, {"m.P": {"field_names": names}}, "here")
