"""Arguments mean the same by position and by name: labels, which results become private, and refusals."""

from __future__ import annotations

import random
import socket

import numpy as np
import pytest
import torch

from torchnp import rpc
from torchnp.rpc import wire
from torchnp.rpc.server.config.tokens import Token, hash_of, new_token
from torchnp.rpc.server.privacy.row_labels import Mixed, Rows
from torchnp.rpc.server.session.server_state import ServerState
from torchnp.rpc.server.transports.server import Server
from torchnp.tests.rpc.interference import LIMITS, Player, services
from torchnp.tests.rpc.test_wire import Client

X = np.arange(1, 13, dtype=np.float32).reshape(4, 3)


class Wire:
    """A socket that sends and receives numbered frames, and does nothing else."""

    def __init__(self, port: int, token: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), 20)
        self.stream, self.seq, self.number = self.socket.makefile("rb"), 0, 0
        self.agreement = ServerState().agreement
        self.send(wire.Hello(wire.VERSION, self.agreement.digest, len(self.agreement.names), "raw", token))

    def send(self, frame):
        """Send a frame, and return the next frame that arrives."""
        raw = wire.encode(frame)
        self.socket.sendall(wire.lengthened(wire.numbered(self.number, raw) if self.number else raw))
        self.number += 1
        while True:
            message = self.stream.read(int.from_bytes(self.stream.read(4), "big"))
            if self.number == 1:
                return wire.decode_reply(message)
            number, reply = wire.split(message)
            if number:
                return wire.decode_reply(reply)

    def op(self, name, first, count, kwargs):
        self.seq += 1
        return self.send(wire.Ops(self.seq - 1, [wire.Op(self.agreement.index[name], first, count, [], kwargs)]))

    def data(self, id_, array):
        self.seq += 1
        raw, order = memoryview(array.tobytes()), list(range(array.ndim))
        return self.send(wire.Data(self.seq - 1, id_, array.dtype.name, list(array.shape), order, 0, raw))

    def open(self, id_, name):
        self.seq += 1
        return self.send(wire.Open(self.seq - 1, id_, name))

    def publish(self, id_):
        return self.send(wire.Publish(9, self.seq, id_))


@pytest.mark.parametrize("names", [("other", "self"), ("self", "other")])
def test_a_target_by_name_is_written_over_tcp_too(names):
    """Before the fix, an owner's array was added to zeros passed by name, and these stayed public."""
    secret = new_token()
    token = Token("eve", hash_of(secret), allow=["aten::add_.Tensor"], release=False)
    with Server(ServerState(datasets={"x": X}, tokens=[token])) as server:
        eve = Wire(server.port, secret)
        eve.open(0, "x")
        eve.data(1, np.zeros_like(X))
        given = {"other": wire.Handle(0), "self": wire.Handle(1)}
        assert type(eve.op("aten::add_.Tensor", 2, 0, {n: given[n] for n in names})) is wire.Ack
        refused = eve.publish(1)
        assert type(refused) is wire.Err and refused.kind == "private"
        eve.socket.close()


class Caller(Client):
    """A client that calls any operator of the table."""

    def op(this, name, first, count, /, *args, **kwargs):
        index = this.connection.state.agreement.index[name]
        return this.send(wire.Ops(this.next(), [wire.Op(index, first, count, list(args), kwargs)]))


def _client(**datasets):
    client = Caller(ServerState(datasets=datasets))
    for id_, name in enumerate(datasets):
        client.send(wire.Open(client.next(), id_, name))
    return client


def _label(client, id_):
    return client.connection.store.get(id_).label


SUMMED = [
    ("aten::mm", {"mat2": "x", "self": (2, 4)}, None),
    ("aten::mm", {"mat2": (3, 5), "self": "x"}, 0),
    ("aten::mm", {"mat2": "xt", "self": (5, 3)}, 1),
    ("aten::addmm", {"mat2": "x", "mat1": (2, 4), "self": (3,)}, None),
    ("aten::addmm", {"mat2": (3, 5), "self": (5,), "mat1": "x"}, 0),
    ("aten::mv", {"vec": "x0", "self": (5, 4)}, None),
    ("aten::mv", {"vec": (3,), "self": "x"}, 0),
    ("aten::addmv", {"vec": "x0", "mat": (5, 4), "self": (5,)}, None),
    ("aten::outer", {"vec2": "x0", "self": (2,)}, 1),
    ("aten::outer", {"vec2": (2,), "self": "x0"}, 0),
    ("aten::bmm", {"mat2": "b", "self": (4, 2, 3)}, 0),
    ("aten::bmm", {"mat2": "bt", "self": (2, 5, 4)}, None),
    ("aten::baddbmm", {"batch2": "bt", "batch1": (2, 5, 4), "self": (5, 3)}, None),
    ("aten::baddbmm", {"batch2": "b", "self": (2, 2), "batch1": (4, 2, 3)}, 0),
]  # fmt: skip


@pytest.mark.parametrize(("name", "given", "dim"), SUMMED)
def test_products_by_name_have_the_letters_of_their_parameters(name, given, dim):
    b = np.ones((4, 3, 2), np.float32)
    client = _client(x=X, b=b)
    client.op("aten::t", 2, 1, wire.Handle(0))
    client.op("aten::select.int", 3, 1, wire.Handle(0), 1, 0)
    client.op("aten::permute", 4, 1, wire.Handle(1), wire.Items([2, 0, 1]))
    ids = {"x": 0, "b": 1, "xt": 2, "x0": 3, "bt": 4}
    kwargs = {}
    for id_, (key, value) in enumerate(given.items(), 5):
        if isinstance(value, tuple):
            client.data(id_, np.ones(value, np.float32))
            value = id_
        else:
            value = ids[value]
        kwargs[key] = wire.Handle(value)
    (ack,) = client.op(name, 20, 1, **kwargs)
    assert type(ack) is wire.Ack, ack
    assert _label(client, 20) == (
        Mixed(name) if dim is None else Rows("b" if dim == 0 and "b" in given.values() else "x", dim)
    )


@pytest.mark.parametrize("name", ["aten::_linalg_svd", "aten::linalg_svdvals", "aten::pinverse", "aten::svd"])
def test_lapack_meets_no_infinity_by_name(name):
    """LAPACK may not terminate for infinities; whether it does would reveal a bit of an owner's data."""
    bad = np.full((3, 3), np.inf, np.float32)
    client = _client()
    client.data(0, bad)
    state = client.connection.state
    schema = state.agreement.schemas[name]
    count = len(schema.returns)
    (error, _) = client.op(name, 1, count, **{schema.args[0].name: wire.Handle(0)})
    assert "infinities" in error.text


def test_sizes_and_masks_and_revealing_arguments_are_seen_by_name():
    client = _client(mask=np.array([True, False, True]), at=np.array(1), x=X)
    client.data(3, np.ones((3, 3), np.float32))
    h = wire.Handle
    for name, kwargs, words in (
        ("aten::repeat", {"repeats": wire.Items([2**20, 2**20]), "self": h(3)}, "more are too many"),
        ("aten::new_zeros", {"size": wire.Items([2**40]), "self": h(3)}, "more are too many"),
        ("aten::index.Tensor", {"indices": wire.Items([h(0)]), "self": h(3)}, "a mask as an index"),
        ("aten::index.Tensor", {"indices": wire.Items([h(0)]), "self": h(2)}, "a mask as an index"),
        ("aten::_unsafe_index.Tensor", {"indices": wire.Items([h(0)]), "self": h(3)}, "a mask as an index"),
        ("aten::where", {"condition": h(0)}, "depend on the values of condition"),
        ("aten::narrow.Tensor", {"start": h(1), "self": h(3), "length": 1, "dim": 0}, "depend on the values of start"),
    ):  # fmt: skip
        error, _ = client.op(name, 10 + client.seq, 1, **kwargs)
        assert words in error.text, (name, error)


@pytest.mark.parametrize("start", [0, 1, 2])
def test_what_says_where_rows_go_is_passed_as_it_is(start):
    """Before the fix, the start of a part was replaced by zero, and the part got the label of the first rows."""
    client = _client(x=X)
    client.data(1, np.array(start))
    client.op("aten::narrow.Tensor", 2, 1, wire.Handle(0), 0, wire.Handle(1), 2)
    order = b"" if start == 0 else np.arange(start, start + 2).tobytes()
    assert _label(client, 2) == Rows("x", 0, order)
    client.data(3, np.array([start]))
    client.op("aten::tensor_split.tensor_indices_or_sections", 4, 2, wire.Handle(0), wire.Handle(3), 0)
    assert _label(client, 5) == Rows("x", 0, order if start == 0 else np.arange(start, 4).tobytes())
    client.op("aten::index_select", 6, 1, index=wire.Handle(3), self=wire.Handle(0), dim=0)
    assert _label(client, 6) == Rows("x", 0, b"" if start == 0 else np.array([start]).tobytes())


def test_where_rows_go_is_not_said_by_rows():
    client = _client(**{"d.x": X, "d.i": np.array([0, 1, 2, 3])})
    client.op("aten::index_select", 2, 1, wire.Handle(0), 0, wire.Handle(1))
    assert _label(client, 2) == Mixed("aten::index_select")
    failure, *_ = client.op("aten::repeat_interleave.self_Tensor", 3, 1, wire.Handle(0), wire.Handle(1), 0)
    assert "depend on the values of repeats" in failure.text


@pytest.mark.parametrize("repeats", [[1, 2, 0, 3], [2, 2, 2, 2], [0, 0, 0, 0]])
def test_public_numbers_that_say_how_much_is_made_are_seen_as_they_are(repeats):
    """Before the fix, these numbers were zero during shape inference, so the result was empty."""
    client = _client(x=X)
    client.data(1, np.array(repeats))
    client.op("aten::repeat_interleave.self_Tensor", 2, 1, wire.Handle(0), wire.Handle(1), 0)
    array = client.connection.store.get(2).array
    assert np.array_equal(array, np.repeat(X, repeats, 0))


def test_public_arrays_in_other_strides_stay_as_they_are_beside_private_ones():
    """Before the fix, a strided condition was copied for shape inference, and treated as a target that the kernel had
    resized."""
    client = _client(x=X)
    client.data(1, np.arange(X.size).reshape(X.T.shape) % 2 == 0)
    client.data(2, np.array([1, 9, 2, 9, 0, 9, 3, 9]))
    client.op("aten::t", 3, 1, wire.Handle(1))
    client.op("aten::slice.Tensor", 4, 1, wire.Handle(2), 0, 0, 8, 2)
    client.op("aten::where.ScalarOther", 5, 1, wire.Handle(3), wire.Handle(0), -1.0)
    client.op("aten::repeat_interleave.self_Tensor", 6, 1, wire.Handle(0), wire.Handle(4), 0)
    held = client.connection.store.get
    assert np.array_equal(held(5).array, np.where(held(3).array, X, -1.0)) and not held(3).array.flags.c_contiguous
    assert np.array_equal(held(6).array, np.repeat(X, [1, 2, 0, 3], 0))


def test_repeats_are_counted_before_anything_is_made():
    client = _client(x=X)
    client.data(1, np.array([2**40, 1, 1, 1]))
    failure, *_ = client.op("aten::repeat_interleave.self_Tensor", 2, 1, wire.Handle(0), wire.Handle(1), 0)
    assert "more are too many" in failure.text


class Twice(Player):
    """Sends each operator by position to one side, and by name in random order to the other."""

    def __init__(self, seed: int) -> None:
        state = ServerState(datasets=services()[0].datasets, limits=LIMITS)
        super().__init__(seed, 0.3, (state, state))

    def both(self, index: int) -> bool:
        """Run one call of an operator, and return whether it worked."""
        schema = self.agreed.schemas[self.agreed.names[index]]
        self.rows = [(index, schema)]
        op, name = self._op()
        positional = [a.name for a in schema.args if not a.kwonly]
        named = [*zip(positional, op.args), *op.kwargs.items()]
        self.random.shuffle(named)
        by_name = wire.Op(index, op.first, op.count, [], dict(named), op.expected, op.key)
        replies = []
        for side, sent in zip(self.sides, (op, by_name)):
            replies.append([bytes(r) for r in side.handle(wire.encode(wire.Ops(self.seq, [sent])))])
        self.seq += 1
        states = [self._state(side, op) for side in self.sides]
        what = f"{name} {op.args} {op.kwargs}"
        assert replies[0] == replies[1], what
        assert states[0] == states[1], what
        worked = type(wire.decode_reply(replies[0][0])) is not wire.Err
        entries = self.sides[0].store.entries
        for id_ in range(op.first, op.first + op.count):
            entry = entries.get(id_)
            if worked and entry is not None and entry.array is not None and entry.array.size < 5000:
                self.pool.append((id_, entry.array.shape, entry.array.dtype, not entry.buffer.public))
        self.next += op.count
        return worked

    def _state(self, side, op):
        """Compare which results are public, the labels, the failures and the bits, for results and all objects of the
        call."""
        handles = [x for a in (*op.args, *op.kwargs.values()) for x in (a.items if type(a) is wire.Items else [a])]
        ids = [h.id for h in handles if type(h) is wire.Handle] + list(range(op.first, op.first + op.count))
        found = []
        for id_ in ids:
            e = side.store.entries.get(id_)
            if e is None or e.array is None:
                found.append(e and e.failure and (e.failure.cls, e.failure.text))
            else:
                found.append((e.buffer.public, str(e.label), e.array.shape, e.array.tobytes(), str(e.poison)))
        return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(4))
def test_every_operator_does_the_same_by_position_and_by_name(part):
    player, worked = Twice(part), set()
    names = [i for i, n in enumerate(player.agreed.names) if "_polynomial_" not in n]
    random.Random(part).shuffle(names)
    with np.errstate(all="ignore"):
        for number, index in enumerate(names[part::4] * 2, 1):
            if player.both(index):
                worked.add(index)
            if number % 100 == 0 or any(side.closed for side in player.sides):
                player._begin()
    assert len(worked) > 180


def test_a_session_by_name_publishes_nothing_of_an_owner():
    with rpc.local(datasets={"x": X}) as session:
        x = session.dataset("x")
        zeros = session.send(torch.zeros(4, 3))
        torch.ops.aten.add_.Tensor(other=x, self=zeros)
        with pytest.raises(rpc.PrivacyError):
            zeros.publish()
