"""Programs: sequences of operators that a server stores once and that clients run again by their hash.

A program numbers its objects itself: first the inputs of a call, from 0 on, then the results of its operators in order.
The ``key`` of a random operator is an index into the keys that the call passes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

import msgspec

from torchnp.rpc.exceptions import ProtocolError
from torchnp.rpc.wire import LAST, MAX_ITEMS, Bytes, Handle, Items, Op, UInt, _Frame

MAX_MADE = 1 << 18  # maximum number of results of one program
BETWEEN = 64  # results that are no longer needed are dropped after each group of this many operators, as after a batch

Number = Annotated[int, msgspec.Meta(ge=0, le=MAX_ITEMS)]


class Drop(_Frame, tag=1):
    """Drop results that no later operator needs and that the call does not return."""

    ids: Annotated[list[UInt], msgspec.Meta(min_length=1, max_length=MAX_MADE)]  # an empty one would only take memory


class Body(_Frame):
    """A program on the wire: how many inputs, keys and results it has, and its operators."""

    inputs: Number
    keys: Number
    made: Annotated[int, msgspec.Meta(ge=0, le=MAX_MADE)]
    steps: Annotated[list[Op | Drop], msgspec.Meta(max_length=MAX_MADE)]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Body).decode


def hash_of(raw: Bytes) -> str:
    """Return the name of a program, which is a hash of its bytes."""
    return hashlib.sha256(raw).hexdigest()[:32]


def body_of(raw: Bytes) -> Body:
    """Decode a program; raise ProtocolError if the bytes are malformed."""
    try:
        return _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError) as error:
        raise ProtocolError(f"malformed program: {error}") from None


# ---------------------------------------------------------------- client side


class Written(NamedTuple):
    """An encoded program.

    Attributes
    ----------
    raw : bytes
    inputs : list of int
        Ids of the objects that a call passes; the arguments come first.
    keys : list of int
        The random keys of the operators.
    made : int
        Number of results.
    kept : list of int
        Indices of the results that a call returns.
    """

    raw: bytes
    inputs: list[int]
    keys: list[int]
    made: int
    kept: list[int]


def written(ops: list[Op], arguments: list[int], kept: list[int]) -> Written:
    """Encode operators that have already been sent as a program.

    Parameters
    ----------
    arguments : list of int
        Ids of the objects that may be replaced by others in the next call.
    kept : list of int
        Ids of the results that a call returns; all other results are dropped.
    """
    made = [i for op in ops for i in range(op.first, op.first + op.count)]
    new, inputs = set(made), dict.fromkeys(arguments)
    for op in ops:
        inputs.update((h.id, None) for h in handles_of(op) if h.id not in new)
    numbers = {id_: n for n, id_ in enumerate([*inputs, *made])}
    keys: dict[int, int] = {}
    for op in ops:
        if op.key is not None:
            keys.setdefault(op.key, len(keys))
    objects = {id_: Handle(n) for id_, n in numbers.items()}
    steps: list[Op | Drop] = []
    number, gone = len(inputs), _gone(ops, new - set(kept))
    for i, op in enumerate(ops):
        key = None if op.key is None else keys[op.key]
        args, kwargs = [_of(a, objects) for a in op.args], {k: _of(a, objects) for k, a in op.kwargs.items()}
        steps.append(Op(op.index, number, op.count, args, kwargs, op.expected, key))
        number += op.count
        if i in gone:
            steps.append(Drop(sorted(numbers[id_] for id_ in gone[i])))
    raw = _encode(Body(len(inputs), len(keys), len(made), steps))
    return Written(raw, list(inputs), list(keys), len(made), [numbers[i] - len(inputs) for i in kept])


def _gone(ops: list[Op], dropped: set[int]) -> dict[int, list[int]]:
    """Map indices of operators to the results that are dropped after them.

    They are dropped at the end of the `BETWEEN` group that contains their last use.
    """
    last: dict[int, int] = {}
    for i, op in enumerate(ops):
        last.update((id_, i) for id_ in range(op.first, op.first + op.count) if id_ in dropped)
        last.update((h.id, i) for h in handles_of(op) if h.id in dropped)
    gone: dict[int, list[int]] = {}
    for id_, i in last.items():
        gone.setdefault(min(i // BETWEEN * BETWEEN + BETWEEN, len(ops)) - 1, []).append(id_)
    return gone


def handles_of(op: Op) -> Iterator[Handle]:
    """Yield the handles among an operator's arguments."""
    for a in (*op.args, *op.kwargs.values()):
        if type(a) is Handle:
            yield a
        elif type(a) is Items:
            yield from (x for x in a.items if type(x) is Handle)


def _of(arg: Any, objects: Any) -> Any:
    """Replace the handles in an argument."""
    if type(arg) is Handle:
        return objects[arg.id]
    if type(arg) is Items:
        return Items([objects[x.id] if type(x) is Handle else x for x in arg.items])
    return arg


# ---------------------------------------------------------------- server side


class _Part(NamedTuple):
    """Consecutive operators with the positions of their handle arguments, and the ids of the results to drop then.

    The positions are None if handles may also be in lists or in keyword arguments.
    """

    ops: list[tuple[Op, list[int] | None]]
    dropped: list[int]


class StoredProgram:
    """A program as the server stores it.

    Parameters
    ----------
    raw : bytes

    Raises
    ------
    ProtocolError
        The bytes are not a program, or the program is inconsistent: for example, it uses an object that does not exist.

    Attributes
    ----------
    count : int
        Number of operators.
    """

    def __init__(self, raw: Bytes) -> None:
        body = body_of(raw)
        self.inputs, self.keys, self.made = body.inputs, body.keys, body.made
        self.count = sum(type(step) is Op for step in body.steps)
        self._parts: list[_Part] = []
        there, number = set(range(body.inputs)), body.inputs
        ops: list[tuple[Op, list[int] | None]] = []
        for step in body.steps:
            if type(step) is Drop:
                if any(id_ < body.inputs for id_ in step.ids) or not there.issuperset(step.ids):
                    raise ProtocolError("a program drops what it has not made")
                there.difference_update(step.ids)
                self._parts.append(_Part(ops, step.ids))
                ops = []
                continue
            assert type(step) is Op
            if not there.issuperset(h.id for h in handles_of(step)):
                raise ProtocolError("an operator of a program is given what is not there")
            if step.first != number or number + step.count > body.inputs + body.made:
                raise ProtocolError("the results of a program are numbered in their order")
            if step.key is not None and step.key >= body.keys:
                raise ProtocolError("an operator of a program has a key that no call gives")
            there.update(range(number, number + step.count))
            number += step.count
            ops.append((step, _direct(step)))
        if number != body.inputs + body.made:
            raise ProtocolError("a program has as many results as it says")
        self._parts.append(_Part(ops, []))

    def bound(self, call: Any) -> Iterator[tuple[list[Op], list[int]]]:
        """Yield a call's operators part by part, with the ids of the results that are dropped after each part."""
        if len(call.inputs) != self.inputs or len(call.keys) != self.keys:
            raise ProtocolError(
                f"a program of {self.inputs} objects and {self.keys} keys was called with {len(call.inputs)} and {len(call.keys)}"
            )
        if call.first + self.made > LAST:
            raise ProtocolError("a call of a program has an id that is none")
        shift = call.first - self.inputs
        objects = [Handle(i) for i in call.inputs]
        objects += [Handle(i) for i in range(call.first, call.first + self.made)]
        for part in self._parts:
            yield (
                [_bound(op, direct, objects, shift, call.keys) for op, direct in part.ops],
                [i + shift for i in part.dropped],
            )


def _direct(op: Op) -> list[int] | None:
    """Return the positions of an operator's handles. If some may be in lists or keyword arguments, return None."""
    if op.kwargs and any(type(a) in (Handle, Items) for a in op.kwargs.values()):
        return None
    if any(type(a) is Items for a in op.args):
        return None
    return [i for i, a in enumerate(op.args) if type(a) is Handle]


def _bound(op: Op, direct: list[int] | None, objects: list[Handle], shift: int, keys: list[int]) -> Op:
    key = None if op.key is None else keys[op.key]
    kwargs: dict[str, Any] = op.kwargs
    if direct is None:
        args = [_of(a, objects) for a in op.args]
        kwargs = {name: _of(a, objects) for name, a in op.kwargs.items()}
    else:
        args = op.args.copy()
        for i in direct:
            args[i] = objects[args[i].id]  # type: ignore[union-attr]
    return Op(op.index, op.first + shift, op.count, args, kwargs, op.expected, key)
