"""A client that sends raw bytes, damaged frames, and well-formed frames with false contents.

``python -m torchnp.tests.rpc.hostile_client --frames 200000`` sends that many, half of them in process and half over
TCP. No torch.

In process, two servers get the same frames. Their datasets, other sessions and freed memory differ, so a foreign byte
shows as a difference between replies. There, this file checks the arguments of every kernel against the schema before
it runs. Over TCP sizes are unbounded, because workers have their own deadlines and limits.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import re
import signal
import socket
import sys
import time
import warnings
import zlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from torchnp.random import Generator
from torchnp.rpc import wire
from torchnp.rpc.exceptions import ProtocolError
from torchnp.rpc.server.config.limits import Limits
from torchnp.rpc.server.session.object_store import OVERRUN
from torchnp.rpc.server.session.program_store import Programs
from torchnp.rpc.server.session.protocol import Connection
from torchnp.rpc.server.session.server_state import ServerState
from torchnp.rpc.server.transports.server import Server
from torchnp.rpc.wire.programs import Drop, body_of, hash_of, written
from torchnp.tests.rpc.interference import LIMITS, NAMES, Player, services
from torchnp.tests.rpc.server_pool import resident

FRAME_SECONDS = 60
GROWTH = 64 << 20
MARK = 2**62  # the number of the SYNC that ends an exchange
REPLIES = (wire.Ack, wire.Err, wire.Status, wire.Result, wire.Quoted)
HUGE = (-(2**63), 2**63 - 1, 2**64 - 1)
LARGE = (2**20, 2**31, 2**40, 2**62)
KINDS = ("auth", "protocol", "private", "budget", "ledger", "quota", "version", "op")


class Hung(BaseException):
    """A frame took longer than the time limit."""


# ---------------------------------------------------------------- what kernels are called with

_NUMBER = (bool, int, float, complex)
_HELD: dict[str, Callable[[Any], bool]] = {
    "Tensor": lambda v: isinstance(v, np.ndarray),
    "int": lambda v: type(v) in (bool, int) and -(2**63) <= v < 2**63,
    "float": lambda v: type(v) in (bool, int, float),
    "bool": lambda v: type(v) in (bool, int),
    "Scalar": lambda v: type(v) in _NUMBER,
    "str": lambda v: type(v) is str,
    "ScalarType": lambda v: isinstance(v, np.dtype),
    "Layout": lambda v: type(v) in (str, int),
    "Device": lambda v: type(v) is str,
    "MemoryFormat": lambda v: type(v) in (str, int),
    "Generator": lambda v: isinstance(v, Generator),
}


def holds(type_: str, value: Any) -> bool:
    """Return whether a kernel's argument has the type of its schema, without exceptions."""
    if type_.endswith("?"):
        return value is None or holds(type_[:-1], value)
    if found := re.fullmatch(r"(.*)\[(\d*)\]", type_):
        if isinstance(value, list):
            return all(holds(found[1], v) for v in value)
        return bool(found[2]) and holds(found[1], value)
    return _HELD[type_.replace("SymInt", "int")](value)


def watched(state: ServerState, faults: list[str], allowed: frozenset[int] | None = None) -> None:
    """Check the arguments of each kernel of a server before it runs."""
    row_of, seen = state.row, set()

    def row(index: int) -> Any:
        found = row_of(index)
        if index not in seen:
            seen.add(index)
            found.run = checked(found, allowed is None or index in allowed, faults)
        return found

    state.row = row  # type: ignore[method-assign]


def checked(row: Any, allowed: bool, faults: list[str]) -> Callable:
    run, schema = row.run, row.schema
    named = {a.name: a for a in schema.args}
    positional = [a for a in schema.args if not a.kwonly]

    def kernel(*args: Any, **kwargs: Any) -> Any:
        for a, value in [*zip(positional, args), *((named[k], v) for k, v in kwargs.items())]:
            number = schema.takes_numbers and a.type.rstrip("?") == "Tensor" and type(value) in _NUMBER
            if not (holds(a.type, value) or number):
                faults.append(f"{schema.name} ran with {a.name} = {value!r:.60}, which is no {a.type}")
        if len(args) > len(positional) or not allowed:
            faults.append(f"{schema.name} ran with {len(args)} arguments, allowed: {allowed}")
        return run(*args, **kwargs)

    return kernel


# ---------------------------------------------------------------- the client


class Hostile(Player):
    """Sends frames of all kinds, and collects faults.

    Attributes
    ----------
    faults : list of str
        What should not have happened.
    told : Counter
        The errors that came back, their numbers and names blanked.
    """

    sizes: tuple[int, ...] = HUGE  # these sizes must give an error

    def __init__(self, seed: int, allow: list[str] | None = None) -> None:
        self.faults: list[str] = []
        self.told: Counter[str] = Counter()
        made = services()
        if allow is not None:
            made = tuple(ServerState(datasets=s.datasets, limits=LIMITS, allow=allow) for s in made)
        for state in made:
            watched(state, self.faults, state.clients["client"].allowed)
        self.victims = [Connection(s) for s in made]
        super().__init__(seed, 0.5, made, 12)
        for i, victim in enumerate(self.victims):
            self._of_victim(victim, self._hello())
            data = np.full(64, 1e6 * (i + 1)).tobytes()
            self._of_victim(victim, wire.Data(0, 0, "float64", [64], [0], 0, memoryview(data)))

    def _begin(self) -> None:
        self.programs = Programs()  # the programs that the server keeps
        self.inputs: dict[str, list[int]] = {}  # the arguments with which each was defined
        super()._begin()

    def _hello(self) -> wire.Hello:
        return wire.Hello(wire.VERSION, self.agreed.digest, len(self.agreed.names), "hostile", "")

    def _of_victim(self, victim: Connection, frame: Any) -> list:
        return [wire.decode_reply(bytes(r)) for r in victim.handle(wire.encode(frame))]

    # ------------------------------------------------------------ frames

    def junk(self, deep: bool = True) -> Any:
        """Return a value that may be right or wrong at any place."""
        r = self.random
        few = (
            None, True, -1, 0, 7, *self.sizes, *self.sizes, 1e308, float("nan"), float("-inf"), "", "x" * 256, "\x00",
            wire.Handle(r.randrange(self.next + 3)), wire.Handle(2**63 - 1), wire.Dtype("float32"), wire.Dtype("nosuch"),
            wire.Complex(1.0, float("nan")),
        )  # fmt: skip
        if deep and r.random() < 0.25:
            kind = r.choice((wire.Items, wire.Items, wire.Ints))
            return kind([self.junk(False) for _ in range(r.choice((0, 1, 2, 3, 70)))])
        return r.choice(few)

    def spoiled(self, op: wire.Op) -> wire.Op:
        """Return an operator, mostly with one fault."""
        r = self.random
        what = r.choice(
            ("arg", "arg", "arg", "fewer", "more", "named", "twice", "count", "expected", "key", "first", "index")
        )
        if what == "arg" and op.args:
            op.args[r.randrange(len(op.args))] = self.junk()
        elif what == "fewer" and op.args:
            op.args.pop()
        elif what == "more":
            op.args.append(self.junk())
        elif what == "named":
            op.kwargs[r.choice(("alpha", "dim", "out", "nosuch", "generator", ""))] = self.junk()
        elif what == "twice":
            op.kwargs[self.agreed.schemas[self.agreed.names[op.index]].args[0].name] = self.junk()
        elif what == "count":
            op.count = r.choice((0, 1, 2, 5, 1000))
        elif what == "expected":
            op.expected = [r.choice((None, 0, [], [1], [0, 0], [2**62], [1, 2, 3])) for _ in range(r.randrange(3))]
        elif what == "key":
            op.key = None if op.key is not None else r.choice((0, 2**63 - 1))
        elif what == "first":
            op.first = r.choice((0, self.next + 50, 2**63 - 1 - 70_000))
        elif what == "index":
            op.index = r.choice((len(self.agreed.names), 2**63 - 1, r.randrange(len(self.agreed.names))))
        return op

    def program(self) -> Any:
        """Return a program's definition, call or end, mostly with one fault."""
        r, known = self.random, [name for name in self.programs._known if name in self.inputs]
        seq = self.seq if r.random() < 0.97 else r.choice((0, self.seq + 1, 2**63 - 1))
        if known and r.random() < 0.75:
            return self._call(seq, r.choice(known))
        if known and r.random() < 0.1:
            return wire.Undefine(seq, r.choice((r.choice(known), "nosuch", "")))
        return self._definition(seq)

    def _call(self, seq: int, name: str) -> wire.CallProgram:
        r = self.random
        call = wire.CallProgram(seq, name, self.next, self.inputs[name].copy(), [5] * self.programs.get(name).keys)
        what = r.choice(("nothing",) * 8 + ("input", "inputs", "first", "keys", "name"))
        if what == "input" and call.inputs:
            call.inputs[r.randrange(len(call.inputs))] = r.choice((0, r.randrange(self.next + 2), 2**63 - 1))
        elif what == "inputs":
            call.inputs = r.choice(([], [0] * 3, call.inputs * 2, [*call.inputs, 0], call.inputs[:-1], [0] * 70_000))
        elif what == "first":
            call.first = r.choice((0, self.next + 50, 2**63 - 1, 2**63 - 2, max(self.next - 1, 0)))
        elif what == "keys":
            call.keys = r.choice(([], [2**63 - 1] * 2, [*call.keys, 1], call.keys[:-1]))
        elif what == "name":
            call.program = r.choice(("", "x" * 256, name[:-1], hash_of(b"")))
        self.counts[f"calls with {what} wrong"] += 1
        return call

    def _chain(self) -> list[wire.Op]:
        """Return operators, some of which take others' results."""
        r, ops, number = self.random, list[wire.Op](), self.next
        for _ in range(r.randint(1, 4)):
            op = self._op()[0]
            op.first, places = number, [i for i, a in enumerate(op.args) if type(a) is wire.Handle]
            if number > self.next and places and r.random() < 0.5:
                op.args[r.choice(places)] = wire.Handle(r.randrange(self.next, number))
            number += op.count
            ops.append(op)
        return ops

    def _definition(self, seq: int) -> wire.Define:
        r, ops = self.random, self._chain()
        what = r.choice(("nothing",) * 12 + ("op", "body", "hash", "size", "offset", "bytes", "cut"))
        if what == "op":
            self.spoiled(r.choice(ops))
        made = written(ops, [], [ops[-1].first] if ops[-1].count else [])
        raw = made.raw
        if what == "body":
            raw = self._spoiled_body(raw)
        elif what == "bytes":
            raw = self.damaged(raw) or b"x"
        name, size, offset, sent = hash_of(raw), len(raw), 0, raw
        self.inputs[name] = made.inputs
        if what == "hash":
            name = r.choice((name[:-1], "", hash_of(b"")))
        elif what == "size":
            size = r.choice((size + 1, max(size - 1, 1), wire.MAX_PROGRAMS, wire.MAX_PROGRAMS + 1, 2**63 - 1))
        elif what == "offset":
            offset = r.choice((1, size, 2**63 - 1))
        elif what == "cut":
            sent = raw[: r.randrange(len(raw))]
        self.counts[f"programs with {what} wrong"] += 1
        return wire.Define(seq, name, size, offset, sent)

    def _spoiled_body(self, raw: bytes) -> bytes:
        r, body = self.random, body_of(raw)
        what = r.choice(("inputs", "keys", "made", "drop", "drop", "order", "twice", "handle", "many"))
        if what in ("inputs", "keys", "made"):
            setattr(body, what, r.choice((0, getattr(body, what) + 1, 1 << 16, 1 << 18, 2**63 - 1)))
        elif what == "drop":
            ids = r.choice(([0], [body.inputs], [body.inputs] * 2, [2**63 - 1], list(range(body.inputs + body.made))))
            body.steps.insert(r.randrange(len(body.steps) + 1), Drop(ids))
        elif what == "order":
            r.shuffle(body.steps)
        elif what == "twice":
            body.steps += body.steps
        elif what == "handle":
            op = body.steps[0]
            op.args.insert(0, wire.Handle(r.choice((body.inputs + body.made, 2**63 - 1, body.inputs))))  # type: ignore[union-attr]
        else:
            body.steps = [s for s in body.steps if type(s) is wire.Op and not s.count] * 1000 or body.steps
        return wire.encode(body)

    def operators(self, raw: bytes) -> list[wire.Op]:
        """Return the operators of a frame, as the server restores them."""
        try:
            request = wire.decode_request(raw)
            if type(request) is wire.Define:
                self.programs.take(request)
            elif type(request) is wire.Undefine:
                self.programs.forget(request.program)
            elif type(request) is wire.CallProgram:
                return [op for ops, _ in self.programs.get(request.program).bound(request) for op in ops]
            return request.ops if type(request) is wire.Ops else []
        except ProtocolError:
            return []

    def other(self) -> Any:
        """Return a frame that is no operator."""
        r, id_ = self.random, self.random.randrange(self.next + 2)
        seq = self.seq if r.random() < 0.97 else r.choice((0, self.seq + 1, 2**63 - 1))
        kind = r.choice(("data", "data", "del", "open", "sync", "publish", "release", "quote", "hello", "reply"))
        if kind == "data":
            shape = r.choice(([], [3], [2, 2], [0], [1] * 64, [2**62, 2**62], [2**31, 2**31], [0, 2**62, 2]))
            order = list(range(len(shape))) if r.random() < 0.8 else r.choice(([], [0, 0], [1], [5]))
            dtype = r.choice(("float32", "bool", "bfloat16", "complex64", "uint8", "nosuch", "object"))
            size = int(np.prod(shape)) * 4 if len(shape) < 3 and max(shape, default=0) < 9 else 100
            raw = r.randbytes(r.choice((0, size, size, size // 2, size + 1)))
            chosen = seq, r.choice((self.next, self.next, id_)), dtype, shape, order, r.choice((0, 0, 0, 8))
            if r.random() < 0.7:
                return wire.Data(*chosen, raw)
            packed = r.choice((zlib.compress(raw), zlib.compress(bytes(1 << 22)), raw))
            return wire.Packed(*chosen, r.choice((max(len(raw), 1), 1, wire.CHUNK)), packed)
        if kind == "del":
            return wire.Del(
                seq, [r.choice(((id_, 0), (id_, 3), (0, 2**63 - 1), (2**62, 2**63 - 1)))] * r.choice((1, 2))
            )
        if kind == "open":
            name = r.choice((r.choice(NAMES)[0], "nosuch", "", "x" * 256, "../x"))
            return wire.Open(seq, r.choice((self.next, self.next, id_)), name)
        if kind == "sync":
            if r.random() < 0.3:
                return wire.Wait(1, seq, [r.randrange(self.next + 2) for _ in range(r.choice((0, 1, 9)))])
            return wire.Sync(r.choice((0, 1, 2**63 - 1)), seq)
        if kind == "hello":
            return self._hello() if r.random() < 0.1 else wire.Sync(1, seq)
        if kind == "reply":
            return wire.Ack(3) if r.random() < 0.1 else wire.Sync(1, seq)
        number = lambda: r.choice((1.0, 0.0, -1.0, 1e308, 1e-308, float("nan"), float("inf"), None))
        terms = wire.Terms(r.choice(("sum", "mean", "max", "")), number() or 1.0, number(), number())
        if kind == "publish":
            return wire.Publish(1, seq, id_)
        if kind == "release":
            return wire.Publish(1, seq, id_, r.choice(("", "key", "x" * 256)), terms)
        return wire.QuoteRequest(1, seq, id_, terms)

    def damaged(self, raw: bytes) -> bytes:
        """Return a frame with bytes changed, cut, repeated or made up."""
        r, made = self.random, bytearray(raw)
        at = r.randrange(len(made)) if made else 0
        how = r.choice(("flip", "flip", "cut", "double", "noise", "tail", "deep", "length"))
        if how == "flip" and made:
            made[at] = r.randrange(256)
        elif how == "cut":
            del made[at : at + r.randrange(1, 9)]
        elif how == "double":
            made[at:at] = made[at : at + 8]
        elif how == "noise":
            made[at:] = r.randbytes(r.randrange(40))
        elif how == "tail":
            made += r.randbytes(3)
        elif how == "deep":
            made = bytearray(r.choice((b"\x91", b"\x81\x00", b"\xdc\x00\x01")) * r.choice((10, 1000, 20_000)))
        else:
            made[at:] = b"\xdd\xff\xff\xff\xff" if r.random() < 0.5 else b"\xc6\xff\xff\xff\xff"
        return bytes(made)

    def frame(self) -> tuple[bytes, str]:
        """Return the next frame, and its kind."""
        p = self.random.random()
        if 0.02 <= p < 0.12:
            made = self.program()
            raw = wire.encode(made)
            return (raw if p > 0.025 else self.damaged(raw)), f"{made!r:.300}"
        if p < 0.75:
            op, name = self._op()
            if p > 0.45:
                op = self.spoiled(op)
            if p < 0.02:
                raw = wire.encode(wire.Ops(self.seq, [op] * self.random.choice((2, 1024))))
            else:
                raw = wire.encode(wire.Ops(self.seq, [op]))
            return raw, f"{name} {op!r:.300}"
        made = self.other()
        raw = wire.encode(made)
        if p < 0.95:
            return raw, f"{made!r:.300}"
        if p < 0.98:
            return self.damaged(raw), f"damaged {made!r:.200}"
        tag = self.random.choice((0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 16, 99, -1, "1", None))
        loose = [
            self.random.choice((0, -1, "", b"", [], {}, None, 1.5, 2**64 - 1, [[]]))
            for _ in range(self.random.randrange(9))
        ]
        return msgspec.msgpack.encode([tag, *loose]), f"loose {tag} {loose}"

    # ------------------------------------------------------------ one frame, and what is looked at

    def attack(self, frames: int) -> None:
        """Send that many frames."""
        signal.signal(signal.SIGALRM, _hung)
        settled = 0
        for number in range(frames):
            if len(self.faults) + len(self.differences) >= 20:
                break
            if self._over() or self.seq > 400:
                self._begin()
            raw, what = self.frame()
            self._strike(raw, what)
            if number == frames // 4:
                settled = resident(os.getpid())
        if settled and (grown := resident(os.getpid()) - settled) > GROWTH:
            self.faults.append(f"the process grew by {grown:,} bytes")
        self._look_after_victims()

    def _over(self) -> bool:
        return self.sides[0].closed

    def _strike(self, raw: bytes, what: str) -> None:
        self.operators(raw)
        signal.setitimer(signal.ITIMER_REAL, FRAME_SECONDS)
        try:
            replies = self._play(msgspec.Raw(raw), what)
        except Hung:
            self.faults.append(f"took longer than {FRAME_SECONDS} s: {what}")
            replies = []
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        self._note(replies, what)
        for side in self.sides:
            store = side.store
            if store.nbytes > LIMITS.max_bytes or len(store) > LIMITS.max_objects + OVERRUN:
                self.faults.append(f"{store.nbytes} bytes, {len(store)} objects after {what}")
        if not self.sides[0].closed:
            self.seq, self.next = self.sides[0].seq, max(self.next, self.sides[0].store.last_id + 1)
            self._take_up()

    def _take_up(self) -> None:
        """Make the last result an argument of later operators."""
        entry = self.sides[0].store.entries.get(self.next - 1)
        if entry is not None and entry.array is not None and entry.buffer is not None and entry.array.size < 5000:
            self.pool.append((self.next - 1, entry.array.shape, entry.array.dtype, not entry.buffer.public))
        if len(self.pool) > 200:
            del self.pool[12:100]

    def _note(self, replies: list, what: str) -> None:
        self.counts["frames"] += 1
        for reply in replies:
            if type(reply) not in REPLIES:
                self.faults.append(f"{type(reply).__name__} answered {what}")
            if type(reply) is wire.Err:
                self.counts["fatal" if reply.fatal else f"refused as {reply.kind}"] += 1
                if not reply.text or reply.kind not in KINDS or "internal error of the server" in reply.text:
                    self.faults.append(f"{reply.kind}: {reply.text!r} answered {what}")
                if reply.fatal:
                    self.told[re.sub(r"'[^']*'|`[^`]*`|\[.*\]|\$\S*|-?\b\d[\w.,]*", "_", reply.text)[:60]] += 1

    def _look_after_victims(self) -> None:
        for i, victim in enumerate(self.victims):
            (result,) = self._of_victim(victim, wire.Publish(1, 1, 0))
            if np.frombuffer(bytes(result.raw)).tolist() != [1e6 * (i + 1)] * 64:
                self.faults.append("another session's tensor has other values")


def _hung(*_: object) -> None:
    raise Hung


# ---------------------------------------------------------------- over TCP


class Wired(Hostile):
    """The same over TCP, with sizes that keep a kernel busy without end: each session is a process with limits."""

    sizes = HUGE + LARGE
    extremes, rate = (*Player.extremes, *LARGE), 0.05
    lies = 0.02  # share of messages that no client sends

    def __init__(self, seed: int, server: Server) -> None:
        self.server, self._socket, self.ended = server, None, False
        self._made: list[wire.Op] = []  # the operators of the current frame
        self.faults, self.told, self.victims = [], Counter(), []
        Player.__init__(self, seed, 0.5, (server.state,), 9)

    def _connected(self) -> list[Connection]:
        if self._socket is not None:
            self._socket.close()
        self._socket = socket.create_connection(("127.0.0.1", self.server.port), 10)
        self._socket.settimeout(FRAME_SECONDS)
        self._stream, self.ended = self._socket.makefile("rb"), False
        self._greeted = False
        self._number = self._due = 1  # number of the next frame in each direction
        return []

    def _over(self) -> bool:
        return self.ended

    def _handle(self, shape: tuple | None, kind: str | None) -> wire.Handle:
        some = [p for p in self.pool if p[1] == shape or shape is None] or self.pool
        some = [p for p in some if p[2].kind == kind or kind is None] or some
        return wire.Handle(self.random.choice(some)[0])

    def _play(self, frame: Any, what: str) -> list:
        """Send a frame and a SYNC after it, and return the replies up to the SYNC's answer; frames that begin a round
        get none."""
        raw = frame if isinstance(frame, bytes) else wire.encode(frame)
        gain = 0
        with contextlib.suppress(ProtocolError):
            request = wire.decode_request(raw)
            gain = (
                len(self._made)
                if type(request) in (wire.Ops, wire.CallProgram)
                else int(type(request) in (wire.Data, wire.Open))
            )
        self._gain = gain
        first, begins = what == "hello", what in ("open", "data")
        numbered = [wire.numbered(self._number, raw)]
        if first:
            messages = [raw]
        elif begins:
            messages = numbered
            self._number += 1
        else:
            sync = wire.encode(wire.Sync(MARK, min(self.seq + gain, 2**63 - 1)))
            messages = [wire.numbered(0, wire.encode(wire.Credit(self._due))), *numbered]
            messages.append(wire.numbered(self._number + 1, sync))
            self._number += 2
            if self.random.random() < self.lies:
                messages.insert(self.random.randrange(3), self._lie())
        with contextlib.suppress(ConnectionError):  # a server that has closed the connection has given its reason
            self._socket.sendall(b"".join(map(wire.lengthened, messages)))
        replies: list[Any] = []
        while not self.ended and not begins:
            reply = self._reply(what)
            if reply is None or (type(reply) is wire.Status and reply.request == MARK):
                break
            replies.append(reply)
            if first:
                break
        return replies

    def _lie(self) -> bytes:
        """Send a message between frames that no client sends; the server must not apply an old message again."""
        sync = wire.encode(wire.Sync(1, self.seq))
        due = self.random.choice((0, self._due + 1000, 2**63 - 1))
        return self.random.choice(
            (
                wire.numbered(1, sync), wire.numbered(self._number + 7, sync), wire.numbered(2**64 - 1, sync),
                wire.numbered(0, wire.encode(wire.Credit(due))), wire.numbered(0, b"junk"), wire.numbered(0, sync),
                wire.numbered(0, wire.encode(wire.Ticket("x", 1))), b"", b"123", wire.numbered(self._number, b""),
                bytes(wire.MAX_MESSAGE + 1),
            )
        )  # fmt: skip

    def _message(self) -> Any:
        """Return the server's next frame, except frames about the connection; None at the end."""
        while head := self._stream.read(4):
            message = self._stream.read(int.from_bytes(head, "big"))
            if not self._greeted:
                self._greeted = True
                return wire.decode_reply(message)
            number, frame = wire.split(message)
            if number:
                self._due += 1
                return wire.decode_reply(frame)
            control = wire.decode_control(frame)
            if type(control) is wire.Err:
                return control
        return None

    def _reply(self, what: str) -> Any:
        try:
            reply = self._message()
        except TimeoutError:
            self.faults.append(f"no answer for {FRAME_SECONDS} s: {what}")
            reply = None
        except ConnectionError:
            reply = None
        if reply is None:
            self.faults.append(f"closed without a reason: {what}")
        self.ended = reply is None or (type(reply) is wire.Err and reply.fatal)
        if type(reply) is wire.Err and (found := re.search(r"ended the session's process \((-?\d+)\)", reply.text)):
            self.counts[f"process ended with {found[1]}"] += 1
            if int(found[1]) != -signal.SIGKILL:
                self.faults.append(f"{reply.text}: {what}")
        return reply

    def _strike(self, raw: bytes, what: str) -> None:
        self._made = self.operators(raw)
        self._note(self._play(raw, what), what)
        if not self.ended:
            self.seq += self._gain
            for op in self._made:
                self.next = max(self.next, op.first + op.count)
            with contextlib.suppress(ProtocolError):
                request = wire.decode_request(raw)
                if type(request) in (wire.Data, wire.Open):
                    self.next = max(self.next, request.id + 1)


def over_tcp(seed: int, frames: int) -> Wired:
    """Attack a server whose sessions are separate processes; another session must keep working meanwhile."""
    limits = Limits(LIMITS.max_bytes, LIMITS.max_objects, op_seconds=0.5, lease_seconds=0.2)
    with Server(ServerState(datasets=services()[0].datasets, limits=limits), max_memory=2 << 30) as server:
        other = Wired(seed + 1, server)
        other.lies = 0.0
        held = wire.Data(other.seq, other.next, "float64", [64], [0], 0, memoryview(np.arange(64.0).tobytes()))
        assert wire.Err not in map(type, other._play(held, "held"))
        other.seq += 1
        hostile = Wired(seed, server)
        hostile.attack(frames)
        (result,) = other._play(wire.Publish(1, other.seq, other.next), "publish")
        if np.frombuffer(bytes(result.raw)).tolist() != list(range(64)):
            hostile.faults.append("another session's tensor has other values")
        hostile.faults += other.faults
    return hostile


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=200_000)
    parser.add_argument("--tcp", type=float, default=0.5, help="the share that goes over TCP")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    wired = int(options.frames * options.tcp)
    found = 0
    for what, run in (
        ("in process", lambda: _in_process(options.seed, options.frames - wired)),
        ("over TCP", lambda: over_tcp(options.seed, wired)),
    ):
        start = time.monotonic()
        hostile = run()
        print(f"{what}: {time.monotonic() - start:.0f} s, {dict(hostile.counts)}")
        print("\n".join(f"  {n:6} {text}" for text, n in hostile.told.most_common()))
        print("\n".join(hostile.faults + hostile.differences))
        found += len(hostile.faults) + len(hostile.differences)
    return bool(found)


def _in_process(seed: int, frames: int) -> Hostile:
    hostile = Hostile(seed)
    hostile.attack(frames)
    return hostile


if __name__ == "__main__":
    sys.exit(main())
