"""Operators sent as references to earlier ones: what the server makes of them is what the client meant. No torch."""

from __future__ import annotations

import random
import tracemalloc
from typing import Any

import msgspec
import pytest

from torchnp.rpc import wire
from torchnp.rpc.exceptions import ProtocolError
from torchnp.rpc.wire import again
from torchnp.rpc.wire.again import Restorer, Shortener

H = wire.Handle
VALUES = (None, True, False, 1, 1.0, 0, 0.0, -0.0, float("nan"), float("inf"), "mean", wire.Dtype("float32"), 2**40,
          wire.Complex(0.0, -0.0), wire.Complex(0.0, 0.0))  # fmt: skip


def through(shortener: Shortener, restorer: Restorer, ops: list[wire.Op]) -> tuple[list[wire.Op], int]:
    """What arrives, and how many bytes were on their way."""
    frame = wire.encode(wire.Ops(0, shortener.shortened(ops)))
    shortener.sent(len(frame))
    return restorer.restored(wire.decode_request(frame).ops, frame), len(frame)


def text(ops: list[wire.Op]) -> list[str]:
    return [repr(op) for op in ops]  # tells 0.0 from -0.0, True from 1, and one nan is another


def step(draw: random.Random, first: int, kept: list[int], change: float) -> list[wire.Op]:
    """Operators on kept objects and on each other's results; a part of the values is drawn anew."""
    shape = random.Random(5)  # the same step each time
    made: list[int] = []
    ops = []
    for _ in range(60):
        count = shape.choice([0, 1, 1, 2])

        def value(a: int = 0) -> Any:
            old = shape.choice(
                [
                    H(shape.choice(kept)),
                    shape.choice(VALUES),
                    H(made[-1 - shape.randrange(min(9, len(made)))]) if made else None,
                ]
            )
            if draw.random() < change:
                return draw.choice([*VALUES, H(draw.randrange(first))])
            return old

        args = [wire.Items([value() for _ in range(3)]) if shape.random() < 0.2 else value() for _ in range(3)]
        kwargs = {name: value() for name in shape.sample(["alpha", "dim", "out"], shape.randrange(3))}
        key = draw.randrange(2**62) if shape.random() < 0.1 else None
        expected = [[1, shape.randrange(3)]] if count == 1 and shape.random() < 0.2 else []
        ops.append(wire.Op(shape.randrange(5), first, count, args, kwargs, expected, key))
        made += range(first, first + count)
        first += count + (draw.random() < change)  # an upload takes an id, too
    return ops


@pytest.mark.parametrize("change", [0.0, 0.02, 0.3])
@pytest.mark.parametrize("past", [again.MAX_PAST, 500, 6000])
def test_what_arrives_is_what_was_meant(monkeypatch, change, past):
    monkeypatch.setattr(again, "MAX_PAST", past)
    monkeypatch.setattr(again, "NEAR", 300)
    draw = random.Random(f"{change} {past}")
    shortener, restorer = Shortener(), Restorer()
    first, sent, plain = 50, [], []
    for _ in range(30):
        ops = step(draw, first, list(range(40)), change)
        first = ops[-1].first + ops[-1].count + draw.randrange(3)
        size = bare = 0
        while ops:  # frames end anywhere
            n = draw.randrange(1, 80)
            found, length = through(shortener, restorer, ops[:n])
            assert text(found) == text(ops[:n])
            size, bare = size + length, bare + len(wire.encode(wire.Ops(0, ops[:n])))
            ops = ops[n:]
        sent.append(size)
        plain.append(bare)
    if change == 0.0 and past != 500:  # 500 is less than one step
        assert 10 * sum(sent[5:]) < sum(plain[5:])
    if change == 0.02 and past != 500:
        assert 2 * sum(sent[5:]) < sum(plain[5:])


def test_a_run_may_repeat_itself():
    ops = [wire.Op(3, 100 + i, 1, [H(99 + i), 2.0], {}) for i in range(64)]
    shortener, restorer = Shortener(), Restorer()
    found, _ = through(shortener, restorer, ops[:3])
    rest, size = through(shortener, restorer, ops[3:])
    assert text(found + rest) == text(ops) and size < 20


def test_operators_with_very_many_values_are_not_kept():
    heavy = [wire.Op(1, 10_000 + i, 1, [wire.Items([H(1)] * (again.HEAVY + 1))], {}) for i in range(3)]
    shortener, restorer = Shortener(), Restorer()
    found, size = through(shortener, restorer, heavy)
    assert text(found) == text(heavy) and size > 3 * again.HEAVY


@pytest.mark.parametrize("values", [1, 60, 200])
@pytest.mark.parametrize("repeats", [False, True])
def test_what_is_forgotten_takes_no_memory(monkeypatch, values, repeats):
    monkeypatch.setattr(again, "MAX_PAST", 4000)
    monkeypatch.setattr(again, "HEAVY", 100)
    restorer, shortener, held = Restorer(), Shortener(), []
    tracemalloc.start()
    for turn in range(1500):
        new = 0 if repeats else turn
        ops = [wire.Op(1, 9 * turn + i, 1, [wire.Items([0.5 + new] * values)], {}) for i in range(3)]
        assert text(through(shortener, restorer, ops)[0]) == text(ops)
        if turn % 50 == 49:
            held.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert max(held[20:]) < max(held[:20]) + 10_000


def test_frames_of_whole_operators_are_kept_as_they_came(monkeypatch):
    """One that is met again is decoded once more; what was forgotten of it in between stays forgotten."""
    monkeypatch.setattr(again, "MAX_PAST", 300)
    shortener, restorer = Shortener(), Restorer()
    ops = [wire.Op(1, i, 1, [2.0 * i, "mean"], {"dim": i}) for i in range(1, 9)]
    sizes = []
    for turn in range(6):
        later = [wire.Op(o.index, o.first + 8 * turn, 1, o.args, o.kwargs) for o in ops]
        found, nbytes = through(shortener, restorer, later)
        assert text(found) == text(later)
        sizes.append(nbytes)
    assert restorer._past.begin > 8 and 2 * min(sizes) < sizes[0]
    memory = bytearray(wire.encode(wire.Ops(0, ops)))  # which the next frame is read into
    other = Restorer()
    other.restored(ops, memory)
    memory[:] = bytes(len(memory))
    assert text([kept.op for kept, _ in (other._past[i] for i in range(8))]) == text(ops)


def restorer_after(*ops: wire.Op) -> Restorer:
    restorer = Restorer()
    restorer.restored(list(ops), wire.encode(wire.Ops(0, list(ops))))
    return restorer


FIRST = wire.Op(1, 100, 1, [H(99), 2.0], {})
LAST = 2**63 - 1


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (wire.Again(2, 1, 101), "the operator of 2 operators ago is not kept"),
        (wire.Again(1, 1, 101, [wire.Change(1.0, [1, 0])]), "a change of an operator that is not repeated"),
        (wire.Again(1, 1, 101, [wire.Change(1.0, [0, 3])]), "a change of a value that an operator does not have"),
        (wire.Again(1, 1, 101, [wire.Change(1.0, [0])]), "the places of a change come in pairs"),
        (wire.Again(1, 1, 101, [wire.Change(1.0, [0, 2])]), "a key is a number from 0 on"),
        (wire.Again(1, 1, 101, [wire.Change(-1, [0, 2])]), "a key is a number from 0 on"),
        (wire.Again(1, 1, 0), "an id that is none"),
        (wire.Again(1, 2, LAST), "an id that is none"),
    ],
)
def test_what_cannot_be_meant_is_refused(part, words):
    with pytest.raises(ProtocolError, match=words):
        restorer_after(FIRST).restored([part], b"")


def test_a_frame_has_a_bounded_number_of_operators():
    with pytest.raises(ProtocolError, match="more than 1024 operators"):
        restorer_after(FIRST).restored([wire.Again(1, wire.MAX_OPS, 101), wire.Again(1, 1, 5000)], b"")


@pytest.mark.parametrize("value", [1.5, None, "x", H(5), 2**63])
def test_a_list_of_integers_is_looked_at_again_when_a_value_has_changed(value):
    from torchnp.rpc.server.arguments import checker
    from torchnp.schema import load

    restorer = restorer_after(wire.Op(1, 100, 1, [H(99), wire.Ints([0, 1])], {}))
    problem, _ = checker(load()["aten::sum.dim_IntList"])
    for changes, words in (([], None), ([wire.Change(value, [0, 2])], "type 'Optional[List[int]]' for argument 'dim'")):
        frame = wire.encode(wire.Ops(1, [wire.Again(1, 1, 101, changes)]))
        (op,) = restorer.restored(wire.decode_request(frame).ops, frame)
        found = problem(op.args, op.kwargs)
        assert found is None if words is None else words in found


def test_a_list_of_integers_holds_nothing_else():
    for bad in (True, 1.0, None, "1", H(1), 2**63):
        frame = wire.encode(wire.Ops(0, [wire.Op(1, 100, 1, [wire.Ints([0, bad])], {})]))
        with pytest.raises(ProtocolError, match="malformed frame"):
            wire.decode_request(frame)
    assert type(wire.listed([0, -(2**63), 2**63 - 1])) is wire.Ints
    for other in ([], [True], [0, True], [1.0], [None], [2**63], [H(1)]):
        assert type(wire.listed(other)) is wire.Items


def test_bounds_are_in_the_types():
    for bad in (wire.Again(0, 1, 1), wire.Again(1, 0, 1), wire.Again(1, wire.MAX_OPS + 1, 1), wire.Again(1, 1, -1)):
        frame = msgspec.msgpack.encode(wire.Ops(0, [bad]))
        with pytest.raises(ProtocolError, match="malformed frame"):
            wire.decode_request(frame)
