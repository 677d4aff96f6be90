"""Owner datasets: clients compute with them, but get no value of them or of anything computed from them."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from torchnp import rpc
from torchnp.core.schema import load
from torchnp.rpc import wire
from torchnp.rpc.exceptions import ProtocolError
from torchnp.rpc.server.session.match_client_strides import laid_out
from torchnp.rpc.server.session.protocol import Connection, ServerState
from torchnp.tests.rpc.interference import stale
from torchnp.tests.rpc.test_wire import Client


@pytest.fixture
def session():
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    with rpc.local(datasets={"rows": rows, "labels": np.array([0, 2, 1, 0])}) as s:
        s.rows = rows
        yield s


def refused(handle):
    with pytest.raises(rpc.PrivacyError, match="exact values of owner data are not released"):
        handle.publish()


def test_datasets_have_a_shape_and_no_values(session):
    assert session.datasets == {"rows": (torch.Size([4, 3]), torch.float32), "labels": (torch.Size([4]), torch.int64)}
    x = session.dataset("rows")
    assert x.shape == (4, 3)
    refused(x)
    with pytest.raises(ValueError, match="has no dataset 'row'; it has rows, labels"):
        session.dataset("row")
    assert session.sync().object_bytes == 0


def test_everything_made_from_private_values_is_private(session):
    x = session.dataset("rows")
    mine = session.send(torch.ones(4, 3))
    made = {
        "unary": x.exp(),
        "binary": mine + x,
        "view": x[1:, :2],
        "view-of-result": (x * 2).T[0],
        "copy": x.clone(),
        "shape-only": torch.zeros_like(x),
        "reduced": x.sum(),
        "compared": mine > x,
        "chosen": torch.where(x > 3, mine, 0),
        "indexed": mine[session.dataset("labels")],
        "joined": torch.cat([mine, x]),
        "several": torch.max(x, 0)[1],
        "list": x.split(2)[1],
        "foreach": torch._foreach_add([mine], [x])[0],
        "out": torch.add(x, 1, out=torch.empty_like(mine)),
        "random": torch.bernoulli(x.clamp(0, 1)),
        "cast": x.to(torch.float64),
        "detached": x.detach(),
        "loss": F.cross_entropy(mine, session.dataset("labels")),
    }
    session.sync()
    for handle in made.values():
        refused(handle)
        refused(handle + 1)
    assert torch.equal((mine * 2).publish(), torch.full((4, 3), 2.0))


# A value for each type of argument that is no tensor.
_PLAIN = {
    "int": 0, "SymInt": 0, "float": 0.0, "bool": False, "Scalar": 0, "str": "", "ScalarType": wire.Dtype("float32"),
    "Layout": "strided", "Device": "cpu", "MemoryFormat": "contiguous_format",
}  # fmt: skip


# The shapes or the places of their results depend on values of one argument.
REVEALING = {
    "aten::where", "aten::narrow.Tensor", "aten::tensor_split.tensor_indices_or_sections", "aten::_pack_padded_sequence",
    "aten::_pad_packed_sequence", "aten::repeat_interleave.self_Tensor",
}  # fmt: skip


def _fakes():
    """A table of every overload that can be sent; its bodies return new arrays and write nothing."""

    def fake(schema):
        def run(*args, **kwargs):
            made = tuple([np.zeros(2), np.zeros(2)] if r.type == "Tensor[]" else np.zeros(2) for r in schema.returns)
            return made[0] if len(made) == 1 else made

        run.schema = schema
        return run

    return {name: fake(schema) for name, schema in load().items() if wire.can_travel(schema)}


def test_every_operator_carries_privacy_from_every_argument():
    """For all overloads, each tensor argument is private in turn: results and written arguments become private, nothing
    else."""
    state = ServerState(_fakes(), {"secret": np.zeros(2)})
    agreed = state.agreement
    count = 0
    for index, name in enumerate(agreed.names):
        schema = agreed.schemas[name]
        tensors = [a for a in schema.args if a.type.startswith("Tensor")]
        for private in (None, *tensors):
            connection = Connection(state)
            connection.known = True
            store = connection.store
            ids = {}
            for i, a in enumerate(tensors):
                ids[a.name] = i
                store.claim(i, 1)
                # A copy, because the dataset itself is read-only.
                store.put(i, np.zeros(2), public=a is not private)
            args, kwargs = [], {}
            for a in schema.args:
                handle = wire.Handle(ids[a.name]) if a.name in ids else None
                value = handle or _PLAIN.get(a.type.partition("[")[0].rstrip("?"))
                if "[" in a.type:
                    value = wire.Items([value])
                elif a.type.endswith("?") and not handle:
                    value = None
                if not a.kwonly:
                    args.append(value)
                elif handle or not (a.has_default or a.type.startswith("Generator")):
                    kwargs[a.name] = value
            results = sum((2 if r.type == "Tensor[]" else 1) for r in schema.returns if not r.is_write)
            first = len(tensors)
            key = 0 if state.row(index).random else None
            failures: list = []
            connection.executor.run_all([wire.Op(index, first, results, args, kwargs, key=key)], 0, failures.append)
            failure = failures[0] if failures else None
            if private is not None and failure is not None and (name in REVEALING or "_polynomial_" in name):
                assert "depend on the values" in failure.text
                continue
            assert failure is None, (name, failure)
            for id_ in range(first, first + results):
                assert store.entries[id_].buffer.public == (private is None), name
            for a in tensors:
                public = store.entries[ids[a.name]].buffer.public
                written = a.name in state.row(index).written
                assert written >= a.is_write
                assert public == (a is not private and not (written and private is not None)), (name, a.name)
            count += 1
    assert count > 5000


def test_gradients_of_private_data_are_private(session):
    w = session.send(torch.ones(3, 2), requires_grad=True)
    (session.dataset("rows") @ w).square().sum().backward()
    refused(w.grad)
    torch.optim.SGD([w], lr=0.1).step()
    refused(w)


@pytest.mark.parametrize(
    "write",
    [
        lambda t, x: t.add_(x),
        lambda t, x: t.copy_(x),
        lambda t, x: t[1:].mul_(x[1:]),
        lambda t, x: t.view(12)[:3].copy_(x[0]),
        lambda t, x: torch.add(x, 1, out=t),
        lambda t, x: torch._foreach_add_([t], [x]),
        lambda t, x: t.masked_fill_(x > 3, 1.0),
        lambda t, x: t.index_put_((torch.tensor([0]),), x[0]),
    ],
    ids=["add_", "copy_", "slice", "view", "out", "foreach", "mask", "index"],
)
def test_writing_private_values_taints_all_views(session, write):
    x = session.dataset("rows")
    target = session.send(torch.zeros(4, 3))
    before, derived = target[0], target * 1
    write(target, x)
    session.sync()
    refused(target)
    refused(before)
    refused(target.view(12)[5])
    assert torch.equal(derived.publish(), torch.zeros(4, 3))
    target.zero_()
    refused(target)


def test_whether_an_operator_works_on_private_values_stays_on_the_server(session):
    target = session.send(torch.zeros(4, 3))
    target.index_put_((session.dataset("labels") + 9,), session.dataset("rows"))  # an index out of range
    solved = torch.linalg.inv(session.dataset("rows")[:3])  # a singular matrix
    divided = session.dataset("labels") // session.dataset("labels")  # a division by zero
    session.sync()
    for made in (target, solved, divided, solved + 1):
        refused(made)


def test_an_error_that_shapes_and_dtypes_tell_is_told():
    connection = _connection(datasets={"x": np.arange(6.0).reshape(2, 3)})
    _open(connection, 0, "x")
    for name, words, args in (
        ("aten::linalg_inv", "must be batches of square matrices", ()),
        ("aten::bitwise_not", "not implemented for 'Double'", ()),
        ("aten::mm", "shapes cannot be multiplied", (wire.Handle(0),)),
        ("aten::sum.dim_IntList", "Dimension out of range", (wire.Items([5]),)),
    ):
        error, ack = _answers(connection, name, connection.seq + 5, 1, wire.Handle(0), *args)
        assert words in error.text and isinstance(ack, wire.Ack)


def test_datasets_are_read_only_and_stay_so(session):
    x = session.dataset("rows")
    for write in (lambda: x.add_(1), lambda: x[1:].zero_(), lambda: torch.add(x, 1, out=x), lambda: x.T.fill_(0)):
        write()
        with pytest.raises(RuntimeError, match="read-only: clone"):
            session.sync()
    assert np.array_equal(session.rows, np.arange(12, dtype=np.float32).reshape(4, 3))
    total = x.sum()  # the dataset itself is not marked as failed
    session.sync()
    refused(total)
    x.clone().add_(1)
    session.sync()


def test_windows_stay_inside_a_dataset():
    secret = np.arange(100.0)
    with rpc.local(datasets={"part": secret[10:20]}) as session:
        x = session.dataset("part")
        x.as_strided((2, 5), (5, 1), 0).sum()
        session.sync()
        for bad in (
            lambda: x.as_strided((20,), (1,), 0),
            lambda: x.as_strided((2,), (90,), 0),
            lambda: session.send(torch.zeros(4)).as_strided((1000,), (1,), 0),
            lambda: session.send(torch.zeros(4))[1:].as_strided((4,), (1,), 1),
        ):
            bad()
            with pytest.raises(RuntimeError):
                session.sync()


def test_fresh_memory_holds_nothing_of_others():
    with rpc.local(datasets={"secret": np.full(100_000, 7.0)}) as session:
        for _ in range(5):
            made = session.dataset("secret") * 1.0
            session.sync()
            del made
            gc.collect()
            session.sync()
            mine = session.send(torch.zeros(100_000, dtype=torch.float64))
            for fresh in (torch.empty_like(mine), mine.new_empty(100_000), mine.new_empty_strided((100_000,), (1,))):
                assert not (fresh.publish() == 7).any()
            with stale(7):
                # Includes the memory between elements.
                gapped = mine.new_empty_strided((2,), (99,)).as_strided((100,), (1,))
                assert not gapped.publish().view(torch.uint8).any()


def test_a_result_reaches_no_memory_beside_its_own():
    """A kernel's result that is part of a larger array, or has gaps, leaves no other memory that a window could
    show."""
    made = np.full(12, 7.0)
    for part, strides in ((made[:6], [1]), (made[::2], [2]), (made[:6].reshape(2, 3).T, [1, 3]), (made[:4:3], [3])):
        for wanted in (strides, None):
            kept = laid_out(part, wanted)
            assert np.array_equal(kept, part)
            memory = kept.base if kept.base is not None else kept
            assert np.count_nonzero(memory) == part.size


@pytest.mark.parametrize(
    "strides", [[0, 1], [1, 1], [1, 3], [2, 1], [0, 0], [3, 0]], ids=lambda strides: ",".join(map(str, strides))
)
def test_results_are_not_laid_out_in_one_place(strides):
    """Rows that share memory would be charged as one row, and reveal another."""
    data = np.arange(12.0).reshape(4, 3)
    with pytest.raises(ProtocolError, match="put several elements of shape"):
        laid_out(data, strides)
    connection = Connection(ServerState(datasets={"rows": data}))
    agreed = connection.state.agreement
    clone = wire.Op(agreed.index["aten::mul.Scalar"], 1, 1, [wire.Handle(0), 1.0], {}, [strides])
    hello = wire.Hello(wire.VERSION, agreed.digest, len(agreed.names), "test", "")
    for frame in (hello, wire.Open(0, 0, "rows"), wire.Ops(1, [clone])):
        replies = [wire.decode_reply(bytes(r)) for r in connection.handle(wire.encode(frame))]
    assert connection.closed and replies[-1].fatal and "in one place" in replies[-1].text
    assert 1 not in connection.store.entries


def test_draws_do_not_move_each_other(session):
    """An operator on private values may consume any number of random words; the next operator's numbers stay the
    same."""
    mine = session.send(torch.zeros(5))
    got = []
    for rate in (0.1, 50.0):
        torch.manual_seed(0)
        torch.poisson(session.dataset("rows") * 0 + rate)
        got.append(torch.rand_like(mine).publish())
    assert torch.equal(*got)


def test_infinities_do_not_keep_lapack_busy_for_ever():
    with rpc.local(datasets={"x": np.array([[np.inf, 1, 0], [0, -np.inf, 2], [1, 1, np.inf]], np.float32)}) as session:
        x = session.dataset("x")
        refused(torch.linalg.svdvals(x))
        refused(torch.linalg.svd(x)[0])
        refused(torch.pinverse(x))
        with pytest.raises(RuntimeError, match="infinities"):
            torch.linalg.svdvals(session.send(torch.full((3, 3), torch.inf))).publish()


# ---------------------------------------------------------------- what a hostile client sends


def _connection(datasets=None, **limits):
    connection = Connection(ServerState(datasets=datasets, limits=rpc.Limits(**limits)))
    ours = connection.state.agreement
    list(connection.handle(wire.encode(wire.Hello(wire.VERSION, ours.digest, len(ours.names), "test", ""))))
    return connection


def _upload(connection, array):
    raw = memoryview(array.tobytes())
    list(connection.handle(wire.encode(wire.Data(connection.seq, 0, str(array.dtype), list(array.shape), [0], 0, raw))))


def _open(connection, id_, name):
    list(connection.handle(wire.encode(wire.Open(connection.seq, id_, name))))


def _answers(connection, name, first, count, *args, **kwargs):
    index = connection.state.agreement.index[name]
    frame = wire.Ops(connection.seq, [wire.Op(index, first, count, list(args), kwargs)])
    return [wire.decode_reply(r) for r in connection.handle(wire.encode(frame))]


# Integer arithmetic of arrays wraps, so bounds checked with it do not hold.
@pytest.mark.parametrize(
    ("name", "args", "words"),
    [
        ("aten::as_strided", ([4], [1], "h"), "Expected a value of type 'Optional[int]' for argument 'storage_offset'"),
        ("aten::as_strided", (["h"], [1], 0), "Expected a value of type 'List[int]' for argument 'size'"),
        ("aten::as_strided", ([4], ["h"]), "Expected a value of type 'List[int]' for argument 'stride'"),
        ("aten::as_strided", ([4.0], [1]), "Expected a value of type 'List[int]' for argument 'size'"),
        ("aten::select.int", ("h", 0), "Expected a value of type 'int' for argument 'dim'"),
        ("aten::slice.Tensor", (0, "h", 2), "Expected a value of type 'Optional[int]' for argument 'start'"),
        ("aten::narrow", (0, 0.0, 1), "Expected a value of type 'int' for argument 'start'"),
        ("aten::unfold", (0, True, None), "Expected a value of type 'int' for argument 'step'"),
        ("aten::clamp", ("h",), "Expected a value of type 'Optional[number]' for argument 'min'"),
    ],
)
def test_a_handle_stands_only_where_the_schema_has_a_tensor(name, args, words):
    connection = _connection()
    _upload(connection, np.array([2**62]))
    put = lambda a: wire.Handle(0) if a == "h" else wire.Items([put(x) for x in a]) if isinstance(a, list) else a
    error, ack = _answers(connection, name, 1, 1, wire.Handle(0), *map(put, args))
    assert words in error.text and isinstance(ack, wire.Ack)
    assert not connection.closed


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "words"),
    [
        ("aten::select.int", ("h", 0, 2**63), {}, "but instead found type 'int beyond 64 bits'"),
        ("aten::as_strided", ("h", [2**64 - 1], [1]), {}, "Expected a value of type 'List[int]' for argument 'size'"),
        ("aten::as_strided", (5, [1], [1]), {}, "Expected a value of type 'Tensor' for argument 'self'"),
        ("aten::as_strided", ("h", [1]), {}, "missing value for argument 'stride'"),
        ("aten::as_strided", ("h", [1], [1]), {"size": [1]}, "multiple values for argument 'size'"),
        ("aten::as_strided", ("h", [2**62, 2**62], [2**62, 2**62]), {}, "out of bounds"),
        ("aten::as_strided", ("h", [2], [2**63 - 1]), {}, "out of bounds"),
        ("aten::as_strided", ("h", [1], [1], 2**63 - 1), {}, "out of bounds"),
        ("aten::as_strided", ("h", [1], [1], -1), {}, "invalid storage offset"),
        ("aten::as_strided", ("h", [-1], [1]), {}, "sizes=[-1]"),
        ("aten::as_strided", ("h", [2], [-1]), {}, "Negative strides"),
        ("aten::as_strided_copy", ("h", [2], [2**63 - 1]), {}, "out of bounds"),
        ("aten::as_strided_scatter", ("h", "h", [2], [2**62], 2**62), {}, "out of bounds"),
        ("aten::as_strided_", ("h", [2], [2**62], 2**62), {}, ""),
        ("aten::unfold", ("h", 0, 2**62, 1), {}, ""),
        ("aten::unfold", ("h", 0, -1, 1), {}, ""),
        ("aten::slice.Tensor", ("h", 0, 0, 2**63 - 1, -(2**63)), {}, ""),
        ("aten::new_empty_strided", ("h", [2**40], [2**40]), {}, ""),
        ("aten::new_empty_strided", ("h", [2], [2**62]), {}, ""),
        ("aten::new_empty", ("h", [-1]), {}, ""),
        ("aten::sum.dim_IntList", ("h", [float("nan")]), {}, "Expected a value of type"),
        ("aten::cat", (["h", 1.5],), {}, "Expected a value of type 'List[Tensor]' for argument 'tensors'"),
        ("aten::index.Tensor", ("h", [None, 3]), {}, "Expected a value of type"),
        ("aten::tensor_split.sections", ("h", 2**60), {}, "are too many"),
    ],
)
def test_numbers_and_lists_are_what_the_schema_says(name, args, kwargs, words):
    connection = _connection()
    _upload(connection, np.array([2**62]))
    put = lambda a: wire.Handle(0) if a == "h" else wire.Items([put(x) for x in a]) if isinstance(a, list) else a
    kwargs = {k: put(v) for k, v in kwargs.items()}
    count = 0 if name.endswith("_") else 1
    error, ack = _answers(connection, name, 1, count, *map(put, args), **kwargs)
    assert isinstance(error, wire.Err) and words in error.text and isinstance(ack, wire.Ack)
    assert not connection.closed


@pytest.mark.parametrize(
    ("name", "count", "args"),
    [
        ("native_batch_norm", 3, ("x", None, None, "mine", "mine", True, 0.1, 1e-5)),
        ("batch_norm", 1, ("x", None, None, "mine", "mine", True, 0.1, 1e-5, False)),
        ("_copy_from_and_resize", 1, ("row", "mine")),
    ],
)
def test_what_a_kernel_writes_unmarked_is_private(name, count, args):
    """Running statistics of a private batch: torch's schema does not mark them as written."""
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    connection = _connection(datasets={"x": x, "row": x[0]})
    _upload(connection, np.ones(3, np.float32))
    _open(connection, 1, "x")
    _open(connection, 2, "row")
    ids = {"mine": 0, "x": 1, "row": 2}
    put = lambda a: wire.Handle(ids[a]) if isinstance(a, str) else a
    replies = _answers(connection, f"aten::{name}", 3, count, *map(put, args))
    assert [type(r) for r in replies] == [wire.Ack]
    (answer,) = connection.handle(wire.encode(wire.Publish(1, connection.seq, 0)))
    assert wire.decode_reply(answer).kind == "private"


def test_no_kernel_writes_a_public_argument_of_a_private_operator():
    """Even if the schema does not say so: a kernel of this table writes to its second argument."""

    def minimum(self, other):
        other[...] = self
        return self * 1

    minimum.schema = load()["aten::minimum"]
    connection = Connection(ServerState({"aten::minimum": minimum}, {"x": np.arange(3.0)}))
    ours = connection.state.agreement
    list(connection.handle(wire.encode(wire.Hello(wire.VERSION, ours.digest, len(ours.names), "test", ""))))
    _upload(connection, np.ones(3))
    _open(connection, 1, "x")
    error, _ = _answers(connection, "aten::minimum", 2, 1, wire.Handle(1), wire.Handle(0))
    assert "read-only" in error.text
    assert connection.store.entries[0].array.tolist() == [1, 1, 1]


def test_a_dataset_is_no_out_whatever_the_window_on_it():
    data = np.arange(6.0)
    connection = _connection(datasets={"x": data})
    _open(connection, 0, "x")
    _answers(connection, "aten::as_strided", 1, 1, wire.Handle(0), wire.Items([3]), wire.Items([2]), 1)
    _answers(connection, "aten::unfold", 2, 1, wire.Handle(1), 0, 2, 1)
    for id_ in (0, 1, 2):
        for name, args in (("aten::zero_", ()), ("aten::as_strided_", (wire.Items([2]), wire.Items([1])))):
            error, _ = _answers(connection, name, 10 + connection.seq, 0, wire.Handle(id_), *args)
            assert "read-only" in error.text
        error, _ = _answers(connection, "aten::exp.out", 10 + connection.seq, 0, wire.Handle(0), out=wire.Handle(id_))
        assert "read-only" in error.text
        assert not connection.store.entries[id_].array.flags.writeable
    assert np.array_equal(data, np.arange(6.0))


def test_every_row_refuses_a_handle_where_it_takes_none():
    from torchnp.rpc.server.session.check_arguments import checker

    looked_at = 0
    for schema in load().values():
        problem, _ = checker(schema)
        for a in schema.args:
            if not a.is_tensor:
                assert problem([], {a.name: wire.Handle(0)}), f"{schema.name}: {a.name}"
                assert problem([], {a.name: wire.Items([0, wire.Handle(0)])}), f"{schema.name}: {a.name}"
                looked_at += 1
    assert looked_at > 5000


@pytest.mark.parametrize(
    "of", [lambda *dim: ([wire.Handle(0), *dim], {}), lambda dim: ([wire.Handle(0)], {"dim": dim})]
)
def test_integers_beyond_64_bits_are_refused_where_others_were_taken(of):
    from torchnp.rpc.server.session.check_arguments import checker

    problem, _ = checker(load()["aten::unsqueeze"])
    assert problem(*of(1)) is None
    assert "'int beyond 64 bits'" in problem(*of(2**63))
    assert "'float'" in problem(*of(1.0))
    assert problem(*of(2**63 - 1)) is None


@pytest.mark.parametrize("name", [n for n in ServerState().agreement.index if "empty" in n.partition(".")[0]])
def test_nothing_of_freed_memory_comes_back(name):
    connection = _connection()
    size, like = wire.Items([64]), wire.Handle(0)
    _upload(connection, np.full(64, 7))
    arguments = {
        "self": like, "size": size, "stride": wire.Items([1]), "physical_layout": wire.Items([0]), "out": like,
    }  # fmt: skip
    schema = load()[name]
    kwargs = {a.name: arguments[a.name] for a in schema.args if a.kwonly and not a.has_default}
    args = [arguments[a.name] for a in schema.args if not a.kwonly]
    (ack,) = _answers(connection, name, 1, 0 if schema.is_out else 1, *args, **kwargs)
    assert isinstance(ack, wire.Ack)
    (result,) = [
        wire.decode_reply(r)
        for r in connection.handle(wire.encode(wire.Publish(1, connection.seq, 0 if schema.is_out else 1)))
    ]
    assert not any(result.raw)


@pytest.mark.parametrize("index", [0, 9])
def test_what_is_written_beside_private_data_keeps_its_shape(index):
    """An out= that is resized before the kernel fails on a value would have another shape than if it did not fail."""
    datasets = {"rows": np.ones((3, 1), np.float32), "places": np.full((3, 1), index)}
    state = ServerState(datasets=datasets)
    client = Client(state)
    for id_, name in enumerate(datasets):
        client.send(wire.Open(client.next(), id_, name))
    replies = []
    for first, shape in ((3, (3,)), (5, (3, 1))):
        client.data(first, np.zeros(shape, np.float32))
        args = [wire.Handle(0), -1, wire.Handle(1), 0.0]
        op = wire.Op(state.agreement.index["aten::scatter.value_out"], first + 1, 0, args, {"out": wire.Handle(first)})
        replies.append(client.send(wire.Ops(client.next(), [op])))
        assert client.connection.store.get(first).array.shape == shape
    (error, _), (ack,) = replies
    assert error.text == "what is written beside private data is not resized: out= has another shape"
    assert type(ack) is wire.Ack
