"""Programs on the wire: the server restores the recorded program, and refuses invalid ones. No torch."""

from __future__ import annotations

import itertools
import logging
import random

import numpy as np
import pytest

from torchnp.rpc import wire
from torchnp.rpc.exceptions import ProtocolError
from torchnp.rpc.server.config.limits import Limits
from torchnp.rpc.server.session.server_state import ServerState
from torchnp.rpc.wire.programs import BETWEEN, Body, Drop, StoredProgram, body_of, handles_of, hash_of, written
from torchnp.tests.rpc.test_wire import Client

H, NUMBERS = (
    wire.Handle,
    (None, True, 1, 1.0, -0.0, "mean", wire.Dtype("float32"), wire.Complex(0.0, -1.0), wire.Ints([1, 2])),
)


@pytest.fixture(scope="module")
def state():
    return ServerState(limits=Limits(max_bytes=10_000, max_objects=50))


@pytest.fixture
def client(state):
    return Client(state)


def operators(draw, inputs, count):
    """Return random operators on inputs and on each other's results."""
    ops, first = [], 1000
    known = list(inputs)
    for _ in range(count):
        value = lambda: H(draw.choice(known)) if draw.random() < 0.5 else draw.choice(NUMBERS)
        args = [wire.Items([plain(value()) for _ in range(3)]) if draw.random() < 0.2 else value() for _ in range(3)]
        args = [wire.Items([H(known[-1]), None]) if type(a) is wire.Ints and draw.random() < 0.3 else a for a in args]
        kwargs = {n: value() for n in draw.sample(["alpha", "dim", "out"], draw.choice((0, 0, 1, 2)))}
        key = draw.choice((7, 8, 9)) if draw.random() < 0.2 else None
        n = draw.choice((0, 1, 1, 2))
        ops.append(wire.Op(draw.randrange(9), first, n, args, kwargs, [[1]] if draw.random() < 0.1 else [], key))
        known += range(first, first + n)
        first += n + draw.choice((0, 0, 3))  # ids that another thread uses
    return ops


def plain(arg):
    """Return an argument as it may occur in a list."""
    return None if type(arg) is wire.Ints else arg


def moved(arg, where):
    """Return an argument with other ids."""
    if type(arg) is H:
        return H(where[arg.id])
    if type(arg) is wire.Items:
        return wire.Items([moved(a, where) for a in arg.items])
    return arg


@pytest.mark.parametrize("seed", range(40))
def test_what_is_bound_is_what_was_recorded(seed):
    draw = random.Random(seed)
    ops = operators(draw, range(20, 30), draw.choice((0, 1, 5, 200)))
    made = [i for op in ops for i in range(op.first, op.first + op.count)]
    kept = draw.sample(made, min(len(made), 4))
    found = written(ops, [25, 28], kept)
    assert found.inputs[:2] == [25, 28] and len(found.inputs) == len(set(found.inputs))
    program = StoredProgram(found.raw)
    assert program.count == len(ops)
    given, keys, first = [i + 500 for i in found.inputs], [100 + k for k in found.keys], 5000
    where = dict(zip(found.inputs, given)) | dict(zip(made, itertools.count(first)))
    new = dict(zip(found.keys, keys))
    got, alive = [], {*given}
    for part, dropped in program.bound(wire.CallProgram(0, "", first, given, keys)):
        for op in part:
            assert {h.id for h in handles_of(op)} <= alive
            alive |= {*range(op.first, op.first + op.count)}
            got.append(op)
        assert alive.issuperset(dropped)
        alive -= {*dropped}
    want = [
        wire.Op(
            op.index, where[op.first] if op.count else None, op.count, [moved(a, where) for a in op.args],
            {n: moved(a, where) for n, a in op.kwargs.items()}, op.expected, new.get(op.key),
        )
        for op in ops
    ]  # fmt: skip
    assert [repr(op) for op in want] == [
        repr(wire.Op(o.index, o.first if o.count else None, *list_of(o)[2:])) for o in got
    ]
    assert [first + k for k in found.kept] == [where[i] for i in kept]
    assert alive == {*given, *(where[i] for i in kept)}  # and nothing else
    again = written(ops, [25, 28], kept)
    assert again.raw == found.raw and hash_of(again.raw) == hash_of(found.raw)


def list_of(op):
    return [op.index, op.first, op.count, op.args, op.kwargs, op.expected, op.key]


def test_results_live_no_longer_than_a_batch_beyond_their_use():
    ops = [wire.Op(1, i, 1, [H(i - 1)], {}) for i in range(1, 1001)]
    program, alive, most = StoredProgram(written(ops, [], [1000]).raw), 0, 0
    for part, dropped in program.bound(wire.CallProgram(0, "", 2000, [7], [])):
        alive += len(part)
        most, alive = max(most, alive), alive - len(dropped)
    assert most <= BETWEEN + 2 and alive == 1


def op(first=1, count=1, args=(H(0),), key=None, **kwargs):
    return wire.Op(0, first, count, list(args), kwargs, [], key)


BAD = {
    "noise": (b"\xc1", "malformed program"),
    "more": (wire.encode(Body(1, 0, 1, [op()])) + b"\x00", "malformed program"),
    "a step of another kind": (wire.encode([1, 0, 1, [[7, [0]]]]), "malformed program"),
    "very many results": (wire.encode([1, 0, 1 << 40, []]), "malformed program"),
    "fewer results": (wire.encode(Body(1, 0, 2, [op()])), "as many results as it says"),
    "more results": (wire.encode(Body(1, 0, 1, [op(), op(2)])), "numbered in their order"),
    "gaps": (wire.encode(Body(1, 0, 3, [op(), op(3)])), "numbered in their order"),
    "from 0": (wire.encode(Body(1, 0, 1, [op(0)])), "numbered in their order"),
    "later results": (wire.encode(Body(1, 0, 2, [op(args=[H(2)]), op(2)])), "given what is not there"),
    "its own result": (wire.encode(Body(1, 0, 1, [op(args=[H(1)])])), "given what is not there"),
    "by name": (wire.encode(Body(1, 0, 1, [op(out=H(5))])), "given what is not there"),
    "in a list": (wire.encode(Body(1, 0, 1, [op(args=[wire.Items([H(0), H(9)])])])), "given what is not there"),
    "what was dropped": (wire.encode(Body(1, 0, 2, [op(), Drop([1]), op(2, args=[H(1)])])), "given what is not there"),
    "nothing is dropped": (wire.encode(Body(1, 0, 1, [op(), Drop([])])), "malformed program"),
    "dropped twice": (wire.encode(Body(1, 0, 1, [op(), Drop([1]), Drop([1])])), "drops what it has not made"),
    "an input is dropped": (wire.encode(Body(1, 0, 1, [op(), Drop([0])])), "drops what it has not made"),
    "what is not there is dropped": (wire.encode(Body(1, 0, 1, [Drop([1]), op()])), "drops what it has not made"),
    "a key too many": (wire.encode(Body(1, 1, 1, [op(key=1)])), "a key that no call gives"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_is_no_program(client, what):
    raw, words = BAD[what]
    with pytest.raises(ProtocolError, match=words):
        StoredProgram(raw)
    (err,) = client.send(wire.Define(0, hash_of(raw), len(raw), 0, raw))
    assert err.fatal and words in err.text and client.connection.closed


ADD = written([wire.Op(0, 50, 1, [H(1), H(1)], {})], [1], [50])


def define(client, raw, /, **changes):
    fields = {"seq": client.seq, "program": hash_of(raw), "size": len(raw), "offset": 0, "raw": raw} | changes
    return client.send(wire.Define(**fields))


def named(client, name):
    """Return the program of one operator on two objects."""
    index = client.connection.state.agreement.index[name]
    return written([wire.Op(index, 50, 1, [H(1), H(2)], {})], [1, 2], [50]).raw


def test_a_program_is_called(client):
    raw = named(client, "aten::add.Tensor")
    client.data(1, np.arange(3.0))
    client.data(2, np.ones(3))
    assert define(client, raw) == []
    for first in (5, 6):
        (ack,) = client.send(wire.CallProgram(client.next(), hash_of(raw), first, [first - 4 if first == 5 else 5, 2]))
        assert type(ack) is wire.Ack and ack.seq == client.seq
    assert client.publish(6).tolist() == [2.0, 3.0, 4.0]
    assert client.send(wire.Undefine(client.seq, hash_of(raw))) == []
    (err,) = client.send(wire.CallProgram(client.next(), hash_of(raw), 7, [1, 2]))
    assert err.fatal and "there is no program" in err.text


def test_a_program_comes_in_chunks(client):
    raw, name = ADD.raw, hash_of(ADD.raw)
    for at in range(len(raw)):
        assert not client.connection.programs._known
        assert define(client, raw[at : at + 1], program=name, size=len(raw), offset=at) == []
    assert list(client.connection.programs._known) == [name]
    assert define(client, raw) == []  # a second definition changes nothing
    assert client.connection.programs._nbytes == len(raw)


NAME = hash_of(ADD.raw)
CHUNKS = {
    "of another program": (
        [{"raw": ADD.raw[:4]}, {"program": "x", "offset": 4}],
        "do not fit together",
    ),
    "of another size": ([{"raw": ADD.raw[:4]}, {"size": 5, "offset": 4}], "do not fit together"),
    "that leave a gap": ([{"raw": ADD.raw[:4], "size": 99}, {"offset": 5, "size": 99}], "do not fit"),
    "that are too long": ([{"size": len(ADD.raw) - 1}], "do not fit together"),
    "of nothing": ([{"raw": b""}], "do not fit together"),
    "from the middle": ([{"offset": 3}], "without its beginning"),
    "of another hash": ([{"program": "0" * 32}], "another hash than its name"),
    "of very many bytes": ([{"size": wire.MAX_PROGRAMS + 1}], "malformed frame"),
}


@pytest.mark.parametrize("what", CHUNKS)
def test_chunks(client, what):
    frames, words = CHUNKS[what]
    for changes in frames:
        replies = define(client, ADD.raw, **{"program": NAME} | changes)
    (err,) = replies
    assert err.fatal and words in err.text and not client.connection.programs.open


def test_nothing_comes_between_chunks(client):
    assert define(client, ADD.raw[:4], size=len(ADD.raw)) == []
    (err,) = client.send(wire.Sync(1, client.seq))
    assert err.fatal and "a program was not sent to its end" in err.text


def test_a_session_has_room_for_so_many_bytes(client, monkeypatch):
    monkeypatch.setattr(wire, "MAX_PROGRAMS", 3 * len(ADD.raw))
    raws = [written([wire.Op(i, 50, 1, [H(1), H(1)], {})], [1], [50]).raw for i in range(1, 5)]
    for raw in raws[:3]:
        assert define(client, raw) == []
    client.send(wire.Undefine(client.seq, hash_of(raws[1])))
    assert define(client, raws[3]) == []
    (err,) = define(client, raws[1])
    assert err.fatal and "the programs of a session have more than" in err.text


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ({"inputs": []}, "a program of 2 objects and 0 keys was called with 0 and 0"),
        ({"inputs": [1, 2, 2]}, "was called with 3 and 0"),
        ({"keys": [1]}, "was called with 2 and 1"),
        ({"inputs": [1, 9]}, "there is no object 9 in this session"),
        ({"first": 2}, "object id 2 was used before"),
        ({"first": 2**63 - 1}, "an id that is none"),
        ({"program": "nosuch"}, "there is no program nosuch"),
        ({"seq": 99}, "sequence number 99 came"),
    ],
)
def test_calls_that_do_not_fit(client, call, words):
    raw = named(client, "aten::add.Tensor")
    client.data(1, np.arange(3.0))
    client.data(2, np.ones(3))
    define(client, raw)
    fields = {"seq": client.seq, "program": hash_of(raw), "first": 5, "inputs": [1, 2], "keys": []} | call
    (err,) = client.send(wire.CallProgram(**fields))
    assert err.fatal and words in err.text


def test_a_kernel_may_change_a_list_that_it_is_given(client):
    """A list belongs to the program, so its next call has it unchanged."""
    index = client.connection.state.agreement.index["aten::flip"]
    raw = written([wire.Op(index, 50, 1, [H(1), wire.Ints([0])], {})], [1], [50]).raw
    client.data(1, np.arange(3.0))
    define(client, raw)
    for first, id_ in ((5, 1), (6, 5)):
        client.send(wire.CallProgram(client.next(), hash_of(raw), first, [id_]))
    assert client.publish(5).tolist() == [2, 1, 0]
    assert client.publish(6).tolist() == [0, 1, 2]


def test_many_failures_of_one_call_are_told_in_part(client, monkeypatch, caplog):
    from torchnp.rpc.server.session import protocol

    caplog.set_level(logging.INFO, "torchnp.rpc")
    now = 0.0
    monkeypatch.setattr(protocol.time, "monotonic", lambda: now)
    monkeypatch.setattr(protocol, "MOST_LOGGED", 7)
    monkeypatch.setattr(protocol, "MOST_FAILURES", 100)
    index = client.connection.state.agreement.index["aten::add.Tensor"]
    raw = written([wire.Op(index, 50 + i, 1, [H(1), H(2)], {}) for i in range(300)], [1, 2], []).raw
    client.data(1, np.arange(3.0))
    client.data(2, np.arange(4.0))
    define(client, raw)
    *errors, ack = client.send(wire.CallProgram(client.seq, hash_of(raw), 5, [1, 2]))
    assert len(errors) == 100
    assert ack.seq == client.seq + 300
    assert {type(e) for e in errors} == {wire.Err} and len(client.connection.store) == 2

    def told():
        return [m for m in caplog.messages if "operator failed" in m]

    assert len(told()) == 7 and "unlogged" not in told()[-1]
    now = 1.0
    client.send(wire.CallProgram(client.seq + 300, hash_of(raw), 1000, [1, 2]))
    assert len(told()) == 14 and told()[7].endswith("unlogged=293") and "unlogged" not in told()[8]


def test_a_program_runs_what_its_client_may(state):
    """Rights, quotas and gates apply to each operator."""
    limited = ServerState(limits=Limits(max_bytes=100, max_objects=50), allow=["aten::add.Tensor"])
    client = Client(limited)
    client.data(1, np.arange(3.0))
    client.data(2, np.ones(3))
    for name, words in (("aten::mul.Tensor", "does not run"), ("aten::add.Tensor", "")):
        raw = named(client, name)
        define(client, raw)
        replies = client.send(wire.CallProgram(client.next(), hash_of(raw), 5 if words else 6, [1, 2]))
        assert (type(replies[0]) is wire.Err) == bool(words)
    many = [
        wire.Op(client.connection.state.agreement.index["aten::add.Tensor"], 50 + i, 1, [H(1), H(2)], {})
        for i in range(9)
    ]
    raw = written(many, [1, 2], [50 + i for i in range(9)]).raw
    define(client, raw)
    replies = client.send(wire.CallProgram(client.seq, hash_of(raw), 10, [1, 2]))
    assert [r.kind for r in replies[:-1]] == ["quota"] * len(replies[:-1]) and len(replies) > 5


def test_the_bytes_say_what_there_is():
    body = body_of(ADD.raw)
    assert (body.inputs, body.keys, body.made) == (1, 0, 1) and body.steps == [op(args=[H(0), H(0)])]
