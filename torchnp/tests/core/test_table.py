"""The table against torch's registry: schemas, statuses, signatures, derived rows, and errors of calls."""

import inspect
import pickle
import subprocess
import sys
import timeit
import tomllib
from fnmatch import fnmatch

import numpy as np
import pytest
import torch

import torchnp
from torchnp.core.excluded import EXCLUDED, reason_of
from torchnp.core.registry import REGISTERED
from torchnp.core.schema import RESERVED, Schema, of_any_version
from torchnp.core.table import STATUSES, MissingOp
from torchnp.core.target import KNOWN, spell
from torchnp.derived import rules
from torchnp.difference_catalogue import CATALOGUE

TABLE = torchnp.table
# Other tests may have loaded the namespaces of other libraries.
SCHEMAS = {name: schema for name, schema in TABLE.schemas.items() if name.startswith(("aten::", "prims::"))}


def torch_op(name):
    namespace, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), base), overload or "default")


# ---------------------------------------------------------------- schemas


def test_schemas_are_the_registry():
    # In a separate process, because torch's compiler registers prims of its own if another test has loaded it.
    told = subprocess.check_output(
        [sys.executable, "-c", "import torch; print(*torch._C._dispatch_get_all_op_names())"]
    )
    assert set(SCHEMAS) == {n for n in told.decode().split() if n.startswith(("aten::", "prims::"))}
    for name, schema in SCHEMAS.items():
        assert str(schema) == str(torch_op(name)._schema)


def test_schemas_parse_as_torch_does():
    for name, schema in SCHEMAS.items():
        expected = torch_op(name)._schema
        assert [a.name for a in schema.args] == [a.name for a in expected.arguments], name
        for mine, theirs in zip(schema.args, expected.arguments, strict=True):
            assert mine.kwonly == theirs.kwarg_only, name
            assert mine.has_default == theirs.has_default_value(), name
            assert not mine.has_default or mine.default == theirs.default_value, name
            assert mine.is_write == (theirs.alias_info is not None and theirs.alias_info.is_write), name
        for mine, theirs in zip(schema.returns, expected.returns, strict=True):
            assert (mine.alias is None) == (theirs.alias_info is None), name


def test_packets_resolve_in_torch_order():
    packets = {}
    for name in SCHEMAS:
        packets.setdefault(name.partition(".")[0], []).append(name.partition(".")[2] or "default")
    for packet, overloads in packets.items():
        namespace, _, base = packet.partition("::")
        theirs = getattr(getattr(torch.ops, namespace), base).overloads()
        assert [o for o in theirs if o in overloads] == overloads, packet


# ---------------------------------------------------------------- rows


def test_statuses_add_up():
    counts = TABLE.counts()
    assert tuple(counts) == STATUSES
    assert sum(counts.values()) == len(TABLE.schemas)
    assert len(TABLE) == counts["kernel"] + counts["derived"] + counts["composite"]


def test_exclusions_have_reasons_that_fit():
    groups = tomllib.loads(EXCLUDED.read_text())["excluded"]
    for group in groups:
        for pattern in group["ops"]:
            named = [
                n for n, s in of_any_version().items() for x in (s.base, n.partition("::")[2]) if fnmatch(x, pattern)
            ]
            assert named, f"{pattern} names nothing"
            tables = [TABLE, *(torchnp.table_for(spell(v)) for v in KNOWN)]
            assert [n for n in named for t in tables if n in t] == [], f"{pattern} excludes what the table has"
            assert {reason_of(n) for n in named} == {group["reason"]}, f"{pattern} has two reasons"
    assert TABLE.status("aten::_cudnn_rnn") == "excluded"
    assert TABLE.reason("aten::add.Tensor") is TABLE.reason("aten::_aminmax") is None


@pytest.mark.parametrize("base", ["values", "coalesce", "_indices", "int_repr", "q_scale", "is_coalesced"])
def test_torch_refuses_dense_tensors_where_an_op_is_excluded(base):
    assert TABLE.status(f"aten::{base}") == "excluded"
    with pytest.raises((RuntimeError, NotImplementedError)):
        getattr(torch.ops.aten, base).default(torch.ones(3, 3))


def test_messages_name_the_reason():
    with pytest.raises(MissingOp, match="it works on sparse tensors"):
        TABLE["aten::coalesce"]
    with pytest.raises(AttributeError, match="cuDNN"):
        torchnp.aten._cudnn_rnn  # noqa: B018
    for name in [n for n in TABLE.schemas if TABLE.status(n) == "absent"][:1]:
        with pytest.raises(MissingOp, match=r"does not provide it yet \(status absent\)"):
            TABLE[name]


def test_core_overloads_are_there():
    core = [name for name, schema in TABLE.schemas.items() if "core" in schema.tags]
    assert len(core) == 193
    assert [name for name in core if name not in TABLE] == []


@pytest.mark.parametrize("name", sorted(REGISTERED))
def test_signature_is_the_schemas(name):
    schema = of_any_version()[name]
    parameters = inspect.signature(REGISTERED[name].body).parameters.values()
    assert [p.name for p in parameters] == [RESERVED.get(a.name, a.name) for a in schema.args]
    for parameter, argument in zip(parameters, schema.args, strict=True):
        assert (parameter.kind is parameter.KEYWORD_ONLY) == argument.kwonly, argument.name
        default = None if parameter.default is parameter.empty else parameter.default
        if argument.has_default:
            assert parameter.default is not parameter.empty, argument.name
            if isinstance(argument.default, list):  # for int[2], one number stands for both
                default = [default] * len(argument.default) if isinstance(default, int) else list(default)
            assert default == argument.default, argument.name
        else:
            assert parameter.default is parameter.empty, argument.name


def test_rows_are_complete():
    for name, row in TABLE.items():
        assert row.name == name
        assert row.schema is TABLE.schemas[name]
        assert row.status == TABLE.status(name)
        assert (row.status == "derived") == (row.derived_from is not None)
        assert row.__doc__, name
        assert row.derived_from is None or row.derived_from in TABLE


def test_declared_differences_are_in_the_catalogue():
    listed = {i for row in REGISTERED.values() for i in row.differs}
    assert sorted(listed - set(CATALOGUE)) == []


def test_unknown_write_pattern_raises():
    with pytest.raises(TypeError, match="no rule of torchnp.derived covers it"):
        rules.check_write_pattern(Schema("aten::strange(Tensor self, int(a!) count) -> Tensor"))
    with pytest.raises(TypeError, match="no rule of torchnp.derived covers it"):
        rules.check_write_pattern(Schema("aten::strange(Tensor self) -> Tensor(a!)"))


def test_missing_ops_say_what_is_near():
    with pytest.raises(MissingOp, match=r"torch [\d.]+ registers no such overload. Nearest rows: .*aten::mul.Tensor"):
        TABLE["aten::mull"]
    with pytest.raises(AttributeError, match="has no overload name 'Tensr'"):
        _ = torchnp.aten.add.Tensr
    with pytest.raises(AttributeError, match="nearest: "):
        _ = torchnp.aten.reluu
    with pytest.raises(AttributeError, match="nearest: var, "):
        _ = torchnp.aten.vra


# ---------------------------------------------------------------- calls with wrong arguments


@pytest.mark.parametrize(
    ("value", "way"),
    [
        (torch.ones(2), r"pass torchnp\.interop\.to_numpy\(x\), or run torch's code in NumpyMode"),
        ([1.0, 2.0], r"pass np\.array\(\.\.\.\)"),
        ((1, 2), r"pass np\.array\(\.\.\.\)"),
    ],
)
def test_what_is_no_array_is_refused_with_the_way(value, way):
    kind = type(value).__name__
    words = f"Expected a value of type 'Tensor' for argument 'self' but instead found type '{kind}'"
    with pytest.raises(RuntimeError, match=rf"(?s){words}.*\ntorchnp computes on NumPy arrays: {way}"):
        torchnp.aten.sin(value)
    with pytest.raises(RuntimeError, match=r"Value: \[tensor.*\n.*\n.*to_numpy"):
        torchnp.aten.cat([torch.ones(2)])


x = np.ones((2, 3), np.float32)
BAD_CALLS = [
    ("aten::add.Tensor", (x,), {}),
    ("aten::add.Tensor", (x, x, x), {}),
    ("aten::add.Tensor", (x, x), {"beta": 1}),
    ("aten::add.Tensor", (x, "a"), {}),
    ("aten::add.Tensor", (x, x), {"alpha": "a"}),
    ("aten::add.Tensor", ([1], x), {}),
    ("aten::add.Tensor", (x, np.ones(4, np.float32)), {}),
    ("aten::add_.Tensor", (x,), {}),
    ("aten::add_.Tensor", (np.ones(3, np.float32), x), {}),
    ("aten::add.out", (x, x), {"out": np.ones((2, 3), np.int64)}),
    ("aten::sin", (), {}),
    ("aten::sin", (2,), {}),
    ("aten::relu", (x, 1), {}),
    ("aten::sum.dim_IntList", (x, [1.5]), {}),
    ("aten::sum.dim_IntList", (x, [2]), {}),
    ("aten::sum.dim_IntList", (x, [0, 0]), {}),
    ("aten::cat", (x,), {}),
    ("aten::cat", ([x, np.ones((3, 2), np.float32)],), {}),
    ("aten::select.int", (x, 0, 1.5), {}),
    ("aten::select.int", (x, 0, 2), {}),
    ("aten::select.int", (x, 3, 0), {}),
    ("aten::gelu", (x,), {"approximate": 3}),
    ("aten::gelu", (x,), {"approximate": "tan"}),
    ("aten::mm", (x, x), {}),
    ("aten::mm", (x, np.ones((3, 2))), {}),
    ("aten::addmm", (x, x, 2), {}),
    ("aten::view", (x, [4]), {}),
    ("aten::expand", (x, [4, 2, 3, 1]), {}),
    ("aten::permute", (x, [0]), {}),
    ("aten::index_select", (x, 0, np.array([5])), {}),
    ("aten::index_select", (x, 0, np.array([0.5])), {}),
    ("aten::gather", (x, 0, np.array([[7]])), {}),
    ("aten::bitwise_and.Tensor", (x, x), {}),
    ("aten::_softmax", (x, 5, False), {}),
    ("aten::embedding", (x, np.array([9])), {}),
    ("aten::convolution", (x, x, None, [1], [0], [1], False, [0], 1), {}),
]


@pytest.mark.parametrize(("name", "args", "kwargs"), BAD_CALLS, ids=lambda v: v if isinstance(v, str) else "")
def test_bad_calls_get_torchs_error(name, args, kwargs):
    def tensors(v):
        if isinstance(v, np.ndarray):
            return torch.from_numpy(v.copy())
        return [tensors(i) for i in v] if isinstance(v, list) else v

    with pytest.raises(Exception) as expected:
        torch_op(name)(*map(tensors, args), **{k: tensors(v) for k, v in kwargs.items()})
    with pytest.raises(Exception) as got:
        TABLE[name](*args, **kwargs)
    assert type(got.value) is expected.type
    words = 6
    assert str(got.value).split()[:words] == str(expected.value).split()[:words]


def test_packet_without_match_lists_torchs_reasons():
    with pytest.raises(RuntimeError, match="Overloaded torch operator invoked from Python failed to match any schema"):
        torchnp.aten.add(x, "a")


# ---------------------------------------------------------------- importing


def run_python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_import_brings_no_torch_and_no_scipy():
    code = "import sys, torchnp; {}; print([m for m in ('torch', 'scipy', 'array_api_compat') if m in sys.modules])"
    assert run_python(code.format("pass")) == "[]"
    assert run_python(code.format("torchnp.table; torchnp.aten.add")) == "[]"


def test_floating_point_flags_are_not_warnings():
    with np.errstate(all="raise"):
        torchnp.aten.div(np.ones(2, np.float32), 0)
        torchnp.aten.add_(np.ones(2, np.float16), np.full(2, 1e30, np.float32))


def test_rows_are_pickled_by_name():
    """Only the name of a row is pickled, because the table is the same on every machine."""
    for name in torchnp.table:
        row = torchnp.table[name]
        assert pickle.loads(pickle.dumps(row)) is row, name
    for whole in (torchnp.table, torchnp.aten, torchnp.prims, torchnp.aten.add):
        assert pickle.loads(pickle.dumps(whole)) is whole


# ---------------------------------------------------------------- torch's own objects


def test_torchs_own_overloads_are_names():
    assert TABLE[torch.ops.aten.add.Tensor] is TABLE["aten::add.Tensor"]
    assert TABLE[torch.ops.aten.relu.default] is TABLE["aten::relu"]
    assert torch.ops.prims.sin.default in TABLE
    with pytest.raises(KeyError, match="aten.add is an op with several overloads.*aten::add.Tensor, aten::add.Scalar"):
        TABLE[torch.ops.aten.add]
    with pytest.raises(KeyError, match="3 is neither an overload's full name"):
        TABLE[3]


def test_a_miss_costs_no_search():
    fuzzy = min(timeit.repeat(lambda: str(TABLE._missing("aten::varr")), number=1, repeat=3))
    miss = min(timeit.repeat(lambda: TABLE.get("aten::varr"), number=20, repeat=5)) / 20
    assert miss < fuzzy / 20
    assert "Nearest rows: aten::var" in str(pickle.loads(pickle.dumps(TABLE._missing("aten::varr"))))


_OWN = {
    "ScalarType": (torch.float64, "float64"),
    "Layout": (torch.strided, "strided"),
    "Device": (torch.device("cpu"), "cpu"),
    "MemoryFormat": (torch.contiguous_format, "contiguous_format"),
}


@pytest.mark.parametrize("name", [
    n for n, s in TABLE.schemas.items()
    if n in TABLE and not s.mutates and any(a.type.rstrip("?") in _OWN for a in s.args)
])  # fmt: skip
def test_torchs_own_dtypes_layouts_devices_and_formats_do_as_their_names(name):
    """Return calls that give each optional argument in turn, if the row accepts the simplest values for its other
    arguments."""
    schema, x = TABLE.schemas[name], np.ones((1, 2, 2, 2))
    plain = {"Tensor": x, "int": 0, "SymInt": 0, "Scalar": 1, "float": 1.0, "bool": False, "str": "", "int[]": [2, 2],
             "SymInt[]": [2, 2], "int[1]": [0], "Tensor[]": [x], **{t: spelled for t, (_, spelled) in _OWN.items()}}  # fmt: skip
    needed = {a.name: plain.get(a.type) for a in schema.args if not a.has_default}

    def answer(given):
        torchnp.manual_seed(0)
        try:
            out = TABLE[name](**{RESERVED.get(k, k): v for k, v in {**needed, **given}.items()})
        except Exception as error:
            return type(error), str(error).replace("torch.", "")
        return [(np.shape(r), getattr(r, "dtype", type(r))) for r in (out if isinstance(out, (list, tuple)) else [out])]

    for a in schema.args:
        own = _OWN.get(a.type.rstrip("?"))
        if own:
            by_object, by_name = (answer({a.name: spelled}) for spelled in own)
            assert by_object == by_name, a.name


def test_what_completion_shows_is_what_users_use():
    shown = [name for name in dir(torchnp) if not name.startswith("_")]
    assert {*torchnp.__all__} <= {*shown} and not {"Any", "importlib", "annotations", "float_to_integer"} & {*shown}
    assert dir(torchnp.aten.var) == ["correction", "correction_out", "default", "dim", "out", "overloads"]
    assert all(getattr(torchnp.aten.var, name) for name in dir(torchnp.aten.var))


def test_missing_kernels_are_one_family_of_errors():
    from torchnp.engine.tensor.overload_info import MissingOperator
    from torchnp.interop import MissingKernelError

    assert MissingKernelError is torchnp.MissingKernelError
    assert issubclass(MissingOp, MissingKernelError) and issubclass(MissingOperator, MissingKernelError)
