"""Frames, the decoder with bad input, and a connection's reaction to frames that should not come. No torch."""

from __future__ import annotations

import contextlib

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import torchnp
from torchnp.core.schema import Schema, load
from torchnp.rpc import wire
from torchnp.rpc.exceptions import ProtocolError
from torchnp.rpc.server.config.limits import Limits
from torchnp.rpc.server.config.tokens import Token, hash_of
from torchnp.rpc.server.session.object_store import root_of
from torchnp.rpc.server.session.protocol import Connection, ServerState

TABLE = {}
for name, function in {
    "aten::add.Tensor": lambda self, other, *, alpha=1: self + other * alpha,
    "aten::add_.Tensor": lambda self, other, *, alpha=1: np.add(self, other * alpha, out=self),
    "aten::neg": lambda self: -self,
    "aten::select.int": lambda self, dim, index: np.moveaxis(self, dim, 0)[index, ...],
    "aten::new_zeros": lambda self, size, **kwargs: np.zeros(size, self.dtype),
    "aten::repeat": lambda self, repeats: np.tile(self, repeats),
    "aten::flip": lambda self, dims: (np.flip(self, dims), dims.clear())[0],
    "aten::bernoulli": lambda self, *, generator=None: self,
}.items():
    function.schema = load()[name]
    TABLE[name] = function
INDEX = wire.Agreement(TABLE).index
H = wire.Handle
# A loaded machine may take longer.
CALM = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])


class Client:
    """Sends frames to a connection, one by one."""

    def __init__(self, state: ServerState, hello: bool = True) -> None:
        self.connection, self.seq = Connection(state), 0
        if hello:
            (welcome,) = self.send(greeting(state))
            assert type(welcome) is wire.Welcome

    def send(self, frame):
        raw = frame if isinstance(frame, bytes) else wire.encode(frame)
        return [wire.decode_reply(reply) for reply in self.connection.handle(raw)]

    def data(self, id_, array, seq=None):
        array = np.asarray(array, order="C")
        shape = list(array.shape)
        raw = array.tobytes()
        frame = wire.Data(
            self.next() if seq is None else seq,
            id_,
            array.dtype.name,
            shape,
            list(range(array.ndim)),
            0,
            memoryview(raw),
        )
        return self.send(frame)

    def op(self, name, first, count, *args, expected=(), key=None, **kwargs):
        return self.send(
            wire.Ops(self.next(), [wire.Op(INDEX[name], first, count, list(args), kwargs, list(expected), key)])
        )

    def next(self):
        self.seq += 1
        return self.seq - 1

    def publish(self, id_):
        replies = self.send(wire.Publish(9, self.seq, id_))
        assert all(type(r) is wire.Result for r in replies), replies
        raw = b"".join(bytes(r.raw) for r in replies)
        return np.frombuffer(raw, replies[0].dtype).reshape(replies[0].shape)

    def status(self):
        (status,) = self.send(wire.Sync(5, self.seq))
        return status


def greeting(state, **changes):
    agreed = state.agreement
    fields = {"version": wire.VERSION, "digest": agreed.digest, "ops": len(agreed.names), "package": "x", "token": ""}
    return wire.Hello(**fields | changes)


@pytest.fixture(scope="module")
def state():
    return ServerState(TABLE, limits=Limits(max_bytes=10_000, max_objects=50))


@pytest.fixture
def client(state):
    return Client(state)


def closed_with(client, replies, words):
    (err,) = replies
    assert type(err) is wire.Err
    assert err.fatal
    assert words.lower() in err.text.lower()
    assert client.connection.closed
    assert not len(client.connection.store)
    return err


# ---------------------------------------------------------------- frames

uint = st.integers(0, 2**63 - 1)
number = st.integers(-(2**63), 2**63 - 1)
text = st.text(max_size=20)
item = st.one_of(
    st.none(),
    st.booleans(),
    number,
    st.floats(allow_nan=False),
    text,
    st.builds(wire.Handle, uint),
    st.builds(wire.Dtype, text),
    st.builds(wire.Complex, st.floats(allow_nan=False), st.floats(allow_nan=False)),
)
arg = item | st.builds(wire.Items, st.lists(item, max_size=5)) | st.builds(wire.Ints, st.lists(number, max_size=5))
shape = st.lists(uint, max_size=5)
op = st.builds(
    wire.Op,
    uint,
    uint,
    st.integers(0, 9),
    st.lists(arg, max_size=5),
    st.dictionaries(text, arg, max_size=3),
    st.just([]),
    st.none() | uint,
)
request = st.one_of(
    st.builds(wire.Hello, uint, text, uint, text, text),
    st.builds(wire.Ops, uint, st.lists(op, max_size=4)),
    st.builds(wire.Data, uint, uint, text, shape, shape, uint, st.binary(max_size=50)),
    st.builds(wire.Del, uint, st.lists(st.tuples(uint, uint), max_size=4)),
    st.builds(wire.Open, uint, uint, text),
    st.builds(wire.Sync, uint, uint),
    st.builds(wire.Publish, uint, uint, uint),
    st.builds(wire.Wait, uint, uint, st.lists(uint, max_size=4)),
    st.builds(wire.Packed, uint, uint, text, shape, shape, uint, st.integers(1, wire.CHUNK), st.binary(max_size=50)),
)


@given(request)
@settings(CALM)
def test_every_request_survives_the_wire(frame):
    assert wire.decode_request(wire.encode(frame)) == frame


def test_numbers_keep_their_types_and_bits():
    args = [True, 1, 1.0, -0.0, float("inf"), 2**63, 2**64 - 1, -(2**63), None, "x"]
    frame = wire.Ops(0, [wire.Op(0, 0, 0, args, {})])
    back = wire.decode_request(wire.encode(frame)).ops[0].args
    assert [(type(a), repr(a)) for a in back] == [(type(a), repr(a)) for a in args]


BAD = {
    "empty": (b"", "truncated"),
    "nothing": (b"\xc0", "Expected `array`, got `None`"),
    "a number": (b"\x07", "Expected `array`, got `int`"),
    "a map": (b"\x80", "Expected `array`, got `object`"),
    "no tag": (b"\x90", "Expected `array` of at least length 1, got 0"),
    "unknown tag": (msgspec.msgpack.encode([99, 1]), "Invalid value 99 - at `$[0]`"),
    "a reply": (wire.encode(wire.Ack(3)), "Invalid value 17 - at `$[0]`"),
    "too few fields": (msgspec.msgpack.encode([1, 0]), "Expected `array` of at least length 3, got 2"),
    "too many fields": (msgspec.msgpack.encode([6, 1, 2, 3]), "Expected `array` of at most length 2, got 3"),
    "negative id": (msgspec.msgpack.encode([7, 1, 0, -1]), "Expected `int` >= 0 - at `$[3]`"),
    "string for number": (msgspec.msgpack.encode([6, "1", 0]), "Expected `int`, got `str` - at `$[1]`"),
    "trailing bytes": (wire.encode(wire.Sync(1, 0)) + b"\x00", "trailing characters (byte 4)"),
    "cut short": (wire.encode(wire.Sync(1, 0))[:-1], "truncated"),
    "deep": (b"\x91" * 100_000, "Expected `int`, got `array` - at `$[0]`"),
    "deep arguments": (
        msgspec.msgpack.encode([1, 0, [[0, 0, 0, 0, [[3, [[3, [[3, [1]]]]]]], {}, []]]]),
        "Invalid value 3 - at `$[2][0][4][0][1][0][0]`",
    ),
    "list of 4 billion": (b"\x93\x01\x00\xdd\xff\xff\xff\xff", "Expected `array` of length <= 1024 - at `$[2]`"),
    "bytes of 4 GB": (b"\x98\x02\x00\x00\xa1f\x90\x90\x00\xc6\xff\xff\xff\xff", "truncated"),
    "too many ops": (
        msgspec.msgpack.encode([1, 0, [[0, 0, 0, 0, [], {}, []]] * (wire.MAX_OPS + 1)]),
        "Expected `array` of length <= 1024 - at `$[2]`",
    ),
    "too many dimensions": (
        msgspec.msgpack.encode([2, 0, 0, "f", [1] * 65, [], 0, b""]),
        "Expected `array` of length <= 64 - at `$[4]`",
    ),
    "long name": (msgspec.msgpack.encode([5, 0, 0, "x" * 300]), "Expected `str` of length <= 256 - at `$[3]`"),
    "bad utf-8": (b"\x94\x05\x00\x00\xa1\xff", "utf-8"),  # before msgspec 0.23 Python's message, then msgspec's own
    "extension": (b"\x93\x06\xd4\x01\x00\x00", "Expected `int`, got `ext` - at `$[1]`"),
    "too long": (
        wire.encode(wire.Data(0, 0, "uint8", [wire.MAX_FRAME], [0], 0, bytes(wire.MAX_FRAME))),
        "longer than the 1114112 that the protocol allows",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_malformed_frames_are_refused_and_close_the_connection(client, name):
    frame, words = BAD[name]
    with pytest.raises(ProtocolError):
        wire.decode_request(frame)
    err = closed_with(client, client.send(frame), words)
    assert err.kind == "protocol"
    assert client.send(wire.Sync(1, 0)) == []


@given(st.binary(max_size=200))
@settings(CALM, max_examples=500)
def test_random_bytes_never_raise_anything_else(raw):
    for decode in (wire.decode_request, wire.decode_reply):
        with contextlib.suppress(ProtocolError):
            decode(raw)


@given(request, st.data())
@settings(CALM, max_examples=500)
def test_damaged_frames_never_raise_anything_else(frame, data):
    raw = bytearray(wire.encode(frame))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ProtocolError):
        wire.decode_request(bytes(raw))


@given(st.lists(request | st.binary(max_size=30), max_size=6))
@settings(CALM, max_examples=300)
def test_a_connection_survives_any_frames(state, frames):
    client = Client(state)
    for frame in frames:
        for reply in client.send(frame):
            assert type(reply) in (wire.Ack, wire.Err, wire.Status, wire.Result)
    Client(state).data(0, np.ones(3, np.float32))


indices = st.integers(0, len(TABLE))
small = st.integers(-2, 6)
small_arg = st.one_of(st.none(), st.booleans(), small, st.floats(), text, st.builds(wire.Handle, st.integers(0, 6)))


@given(
    st.lists(
        st.tuples(
            indices, st.integers(0, 3), st.lists(small_arg | st.builds(wire.Items, st.lists(small_arg))), st.booleans()
        ),
        max_size=8,
    )
)
@settings(CALM, max_examples=300)
def test_any_arguments_leave_the_server_alive_and_its_books_right(state, calls):
    client = Client(state)
    for i in range(4):
        client.data(i, np.ones((2, 3), np.float32))
    following = 4
    for index, count, args, delete in calls:
        client.send(wire.Ops(client.next(), [wire.Op(index, following, count, args, {})]))
        following += count
        if delete:
            client.send(wire.Del(client.seq, [(0, following // 2)]))
    store = client.connection.store
    roots = {id(e.buffer.root): e.buffer for e in store.entries.values() if e.buffer}
    assert store.nbytes == sum(b.nbytes for b in roots.values())
    assert all(b.users == sum(e.buffer is b for e in store.entries.values()) for b in roots.values())


# ---------------------------------------------------------------- greeting


def test_the_first_frame_is_a_hello(state):
    client = Client(state, hello=False)
    closed_with(client, client.send(wire.Sync(1, 0)), "HELLO")
    client = Client(state, hello=False)
    closed_with(client, client.send(b"\x00" * 5000), "HELLO")
    client = Client(state)
    closed_with(client, client.send(greeting(state)), "once")


def test_a_mismatch_says_what_to_do(state):
    for changes in ({"digest": "0" * 32}, {"version": 0}, {"package": "9.9", "digest": "1" * 32}):
        client = Client(state, hello=False)
        err = closed_with(
            client, client.send(greeting(state, **changes)), "Install the same version of torchnp on both sides"
        )
        assert err.kind == "version"
        assert torchnp.__version__ in err.text


def test_the_digest_follows_names_and_schemas():
    digest = wire.Agreement(TABLE).digest
    assert wire.Agreement(dict(reversed(TABLE.items()))).digest == digest
    assert wire.Agreement({k: v for k, v in TABLE.items() if k != "aten::neg"}).digest != digest

    def neg(self):
        return -self

    neg.schema = Schema("aten::neg(Tensor self, int extra=1) -> Tensor")
    assert wire.Agreement(TABLE | {"aten::neg": neg}).digest != digest


def test_tokens():
    state = ServerState(TABLE, token="sesame")
    for wrong in ("", "Sesame", "sesame ", "x" * 1000):
        client = Client(state, hello=False)
        err = closed_with(client, client.send(greeting(state, token=wrong)), "token")
        assert err.kind == "auth"
        assert "sesame" not in err.text
    client = Client(state, hello=False)
    assert type(client.send(greeting(state, token="sesame"))[0]) is wire.Welcome


def test_what_can_travel():
    schemas = load()
    names = {n for n, s in schemas.items() if wire.can_travel(s)}
    assert {
        "aten::add.Tensor",
        "aten::add_.Tensor",
        "aten::_foreach_add_.List",
        "aten::index.Tensor",
        "aten::split.Tensor",
    } <= names
    for name in ("nonzero", "_local_scalar_dense", "equal", "masked_select", "_unique2", "resize_", "set_", "zeros"):
        assert f"aten::{name}" not in names


# ---------------------------------------------------------------- order and identity


def test_random_operators_come_with_a_key_and_no_others_do(state):
    client = Client(state)
    client.data(0, np.ones(2))
    for name, key in (("aten::bernoulli", None), ("aten::neg", 1)):
        err, _ = client.op(name, client.seq, 1, H(0), key=key)
        assert "comes with a key" in err.text
    (ack,) = client.op("aten::bernoulli", client.seq, 1, H(0), key=1)
    assert type(ack) is wire.Ack


def test_sequence_numbers_are_applied_once_and_in_order(state):
    for seq in (1, 7):
        client = Client(state)
        closed_with(client, client.send(wire.Ops(seq, [])), f"sequence number {seq} came where 0 was due")
    client = Client(state)
    client.data(0, np.ones(2))
    closed_with(client, client.data(1, np.ones(2), seq=0), "sequence number 0 came where 1 was due")


def test_ids_are_never_used_again(client):
    client.data(5, np.ones(2))
    client.op("aten::neg", 6, 1, H(5))
    client.send(wire.Del(client.seq, [(5, 1)]))
    assert client.status().objects == 0
    closed_with(client, client.data(6, np.ones(2)), "id 6 was used before")


@pytest.mark.parametrize(
    "frame", [lambda c: wire.Publish(1, c.seq, 3), lambda c: wire.Ops(c.seq, [wire.Op(0, 5, 1, [H(3)], {})])]
)
def test_unknown_objects_are_a_protocol_error(client, frame):
    client.data(0, np.ones(2))
    closed_with(client, client.send(frame(client)), "no object 3")


def test_an_operator_outside_the_table_is_a_protocol_error(client):
    closed_with(client, client.send(wire.Ops(0, [wire.Op(len(TABLE), 0, 1, [], {})])), "not in the agreed table of 8")


# ---------------------------------------------------------------- data


def chunk(seq=0, id_=0, dtype="float32", shape=(4,), order=(0,), offset=0, raw=bytes(16)):
    return wire.Data(seq, id_, dtype, list(shape), list(order), offset, raw)


def test_data_in_chunks(client):
    values = np.arange(6, dtype=np.float32)
    raw = values.tobytes()
    assert client.send(chunk(shape=(6,), raw=raw[:7])) == []
    (ack,) = client.send(chunk(shape=(6,), raw=raw[7:], offset=7))
    assert ack == wire.Ack(1)
    client.seq = 1
    assert np.array_equal(client.publish(0), values)
    client.send(chunk(seq=1, id_=1, shape=(2, 3), order=(1, 0), raw=raw))
    client.seq = 2
    assert np.array_equal(client.publish(1), values.reshape(3, 2).T)
    client.send(chunk(seq=2, id_=2, shape=(0, 3), order=(0, 1), raw=b""))
    client.seq = 3
    assert client.publish(2).shape == (0, 3)
    client.send(chunk(seq=3, id_=3, shape=(), order=(), raw=raw[4:8]))
    client.seq = 4
    assert client.publish(3) == 1


def test_bools_are_bools(client):
    client.send(chunk(dtype="bool", shape=(4,), raw=b"\x00\x01\x02\xff"))
    client.seq = 1
    assert client.publish(0).view(np.uint8).tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize(
    ("frames", "words"),
    [
        ([chunk(dtype="object")], "unknown dtype"),
        ([chunk(dtype="U4")], "unknown dtype"),
        ([chunk(order=(1,))], "no order"),
        ([chunk(order=())], "no order"),
        ([chunk(offset=4)], "without its beginning"),
        ([chunk(raw=bytes(17))], "do not fit"),
        ([chunk(raw=bytes(8)), chunk(raw=bytes(8), offset=9)], "do not fit"),
        ([chunk(raw=bytes(8)), chunk(raw=bytes(9), offset=8)], "do not fit"),
        ([chunk(raw=bytes(8)), chunk(raw=b"", offset=8)], "do not fit"),
        ([chunk(raw=bytes(8)), chunk(id_=1, raw=bytes(8), offset=8)], "do not fit"),
        ([chunk(raw=bytes(8)), wire.Sync(1, 0)], "not sent to its end"),
    ],
)
def test_data_that_does_not_fit_together(client, frames, words):
    *before, last = frames
    for frame in before:
        assert client.send(frame) == []
    closed_with(client, client.send(last), words)


# ---------------------------------------------------------------- bytes, objects, quotas


def test_bytes_are_counted_once_per_buffer(client):
    client.data(0, np.ones((10, 10), np.float32))
    for i in range(1, 6):
        client.op("aten::select.int", i, 1, H(0), 0, i)
    assert (client.status().objects, client.status().bytes) == (6, 400)
    client.send(wire.Del(client.seq, [(0, 3)]))
    assert (client.status().objects, client.status().bytes) == (2, 400)
    client.send(wire.Del(client.seq, [(4, 1)]))
    assert (client.status().objects, client.status().bytes) == (0, 0)
    client.send(wire.Del(client.seq, [(0, 2**62)]))


def test_all_ids_there_are_can_be_deleted(client):
    client.data(2**63 - 1, np.ones(3, np.float32))
    assert [type(r) for r in client.send(wire.Del(client.seq, [(0, 2**63 - 1)]))] == []
    assert (client.status().objects, client.status().bytes) == (0, 0)


def failed(replies, kind, words):
    err, ack = replies
    assert type(ack) is wire.Ack
    assert (err.kind, err.fatal) == (kind, False)
    assert words.lower() in err.text.lower()
    return err


def test_a_quota_on_bytes_is_checked_before_anything_is_allocated(client):
    assert client.send(chunk(shape=(2**60,), raw=bytes(16))) == []
    assert client.connection.uploads._target is None
    assert not len(client.connection.store)


def test_quotas_fail_the_object_and_not_the_session(client):
    client.data(0, np.ones(2000, np.float32))
    failed(client.data(1, np.ones(1000, np.float32)), "quota", "the server allows 10,000: 4,000 more are too many")
    failed(client.op("aten::neg", 2, 1, H(0)), "quota", "8,000 more are too many")
    failed(client.op("aten::new_zeros", 3, 1, H(0), wire.Items([2**40, 2**40])), "quota", "too many")
    failed(client.op("aten::repeat", 4, 1, H(0), wire.Items([10**9])), "quota", "too many")
    (err,) = client.send(wire.Publish(3, client.seq, 2))
    assert (err.kind, err.request, err.seq) == ("quota", 3, 2)
    client.send(wire.Del(client.seq, [(0, 4)]))
    assert client.status().bytes == 0
    client.data(5, np.ones(2000, np.float32))
    assert client.publish(5).sum() == 2000


def test_a_quota_on_objects(client):
    client.data(0, np.ones(1))
    for i in range(1, 50):
        client.op("aten::select.int", i, 1, H(0), 0, 0)
    failed(client.op("aten::select.int", 50, 1, H(0), 0, 0), "quota", "50 objects, as many as the server allows")
    client.send(wire.Del(client.seq, [(10, 40)]))
    client.op("aten::neg", 51, 1, H(0))
    assert client.publish(51) == -1


# ---------------------------------------------------------------- operators


def test_poison_names_the_earliest_failure(client):
    client.data(0, np.ones((2, 3)))
    bad = failed(client.op("aten::select.int", 1, 1, H(0), 0, 9), "op", "out of bounds")
    assert (bad.seq, bad.cls, bad.op) == (1, "IndexError", "aten::select.int")
    assert client.op("aten::neg", 2, 1, H(1)) == [wire.Ack(3)]
    failed(client.op("aten::select.int", 3, 1, H(0), 0, 8), "op", "out of bounds")
    client.op("aten::add.Tensor", 4, 1, H(3), H(2))
    (err,) = client.send(wire.Publish(1, client.seq, 4))
    assert (err.seq, err.request) == (1, 1)


def test_results_have_the_strides_that_the_client_counts_with(client):
    client.data(0, np.arange(6.0).reshape(2, 3))
    client.op("aten::neg", 1, 1, H(0), expected=[[1, 2]])
    client.op("aten::neg", 2, 1, H(1))
    entries = client.connection.store.entries
    assert entries[1].array.strides == (8, 16)
    assert entries[2].array.flags.c_contiguous
    assert np.array_equal(client.publish(1), -client.publish(2))
    closed_with(client, client.op("aten::neg", 3, 1, H(0), expected=[[10**9, 1]]), "waste memory")


def test_a_count_that_differs_fails_the_operator(client):
    client.data(0, np.ones(2))
    failed(client.op("aten::neg", 1, 3, H(0)), "op", "1 results came where the client expects 3")
    failed(client.op("aten::neg", 4, 1, H(0), expected=[None, None]), "op", "1 results came where the client expects 2")
    failed(client.op("aten::neg", 5, 0), "op", "")


def test_in_place_writes_are_in_all_views_and_fail_for_all(client):
    client.data(0, np.zeros((2, 3)))
    client.op("aten::select.int", 1, 1, H(0), 0, 1)
    client.op("aten::add_.Tensor", 2, 0, H(1), 5.0)
    assert client.publish(0).tolist() == [[0, 0, 0], [5, 5, 5]]
    client.data(2, np.zeros((7,)))
    failed(client.op("aten::add_.Tensor", 3, 0, H(1), H(2)), "op", "")
    for id_ in (0, 1):
        (err,) = client.send(wire.Publish(1, client.seq, id_))
        assert type(err) is wire.Err
    assert client.publish(2).shape == (7,)


def test_what_was_good_once_is_not_taken_for_good():
    """Operators whose arguments have been checked take a shorter path, which must check everything else."""
    few = Token("few", allow=["aten::neg"], hash=hash_of("few"))
    state = ServerState(TABLE, {"x": np.ones(3)}, "secret", Limits(max_bytes=10_000), tokens=[few])
    client = Client(state, hello=False)
    client.send(greeting(state, token="secret"))
    client.data(0, np.arange(3.0))
    for first, (name, *args) in enumerate(
        [("add.Tensor", H(0), H(0)), ("neg", H(0)), ("select.int", H(0), 0, 1)], start=1
    ):
        assert client.op(f"aten::{name}", first, 1, *args) == [wire.Ack(client.seq)]
    client.op("aten::add_.Tensor", 4, 0, H(0), H(0))
    assert client.publish(0).tolist() == [0, 2, 4]
    client.data(4, np.zeros(2))
    failed(client.op("aten::add_.Tensor", 5, 0, H(1), H(4)), "op", "")
    assert client.op("aten::add.Tensor", 5, 1, H(0), H(1)) == [wire.Ack(client.seq)]
    assert client.send(wire.Publish(1, client.seq, 5))[0].seq == client.seq - 2

    failed(client.op("aten::select.int", 6, 1, H(0), 0, 2**63), "op", "'int beyond 64 bits'")
    assert client.op("aten::add.Tensor", 7, 1, H(0), H(6)) == [wire.Ack(client.seq)]
    assert client.send(wire.Publish(1, client.seq, 7))[0].seq == client.seq - 2
    failed(client.op("aten::add.Tensor", 8, 1, H(0)), "op", "missing value for argument 'other'")
    failed(client.op("aten::neg", 9, 1, H(0), H(0)), "op", "takes 1 positional argument")
    failed(client.op("aten::neg", 10, 1, H(0), key=3), "op", "key")
    failed(client.op("aten::neg", 11, 0, H(0)), "op", "1 results came where the client expects 0")
    failed(client.op("aten::add_.Tensor", 11, 1, H(2), H(2)), "op", "0 results came where the client expects 1")
    client.op("aten::add.Tensor", 12, 1, H(0), H(0), alpha=2)
    client.op("aten::neg", 13, 1, H(12), expected=[[3]])
    assert client.publish(13).tolist() == [0, -6, -12]
    assert client.connection.store.entries[13].array.strides == (24,)
    client.send(wire.Open(client.next(), 14, "x"))
    client.op("aten::neg", 15, 1, H(14))
    client.op("aten::add_.Tensor", 16, 0, H(13), H(15))
    for id_ in (15, 13):
        assert client.send(wire.Publish(1, client.seq, id_))[0].kind == "private"
    failed(client.op("aten::add_.Tensor", 16, 0, H(14), H(14)), "op", "read-only")
    closed_with(client, client.op("aten::neg", 16, 1, H(99)), "there is no object 99")

    client = Client(state, hello=False)
    client.send(greeting(state, token="few"))
    client.data(0, np.arange(3.0))
    assert client.op("aten::neg", 1, 1, H(0)) == [wire.Ack(2)]
    failed(client.op("aten::add.Tensor", 2, 1, H(0), H(0)), "op", "aten::add.Tensor is refused")


def test_an_empty_tensor_that_no_array_can_be_has_failed_alone(client):
    data = wire.Data(client.next(), 0, "float32", [0, 2**62, 4], [0, 1, 2], 0, b"")
    failed(client.send(data), "quota", "larger than an array can be")
    client.data(1, np.arange(3.0))
    assert client.publish(1).tolist() == [0, 1, 2]


def test_every_kind_of_window_has_the_memory_of_what_it_looks_at():
    from torchnp.kernels._memory import _span

    whole = np.zeros((4, 6))[:, :3]
    owner = root_of(whole)[0]
    for window in (whole[1:], _span(whole), _span(whole)[8:], whole.T.view(np.int64)):
        assert root_of(window)[0] is owner


def test_a_kernel_cannot_resize_what_others_view(client):
    client.data(0, np.zeros(4))
    with pytest.raises(ValueError):
        client.connection.store.entries[0].array.resize(100, refcheck=False)


def test_a_list_of_integers_holds_nothing_else():
    for bad in (True, 1.0, None, "1", H(1), 2**63):
        frame = wire.encode(wire.Ops(0, [wire.Op(1, 100, 1, [H(1), wire.Ints([0, bad])], {})]))
        with pytest.raises(ProtocolError, match="malformed frame"):
            wire.decode_request(frame)
    assert type(wire.listed([0, -(2**63), 2**63 - 1])) is wire.Ints
    for other in ([], [True], [0, True], [1.0], [None], [2**63], [H(1)]):
        assert type(wire.listed(other)) is wire.Items
