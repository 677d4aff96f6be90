"""Sends the same random frames to two servers whose private data differ; the replies must be equal.

``python -m torchnp.tests.rpc.interference --ops 100000 --seed 0`` runs that many operators. No torch.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import tempfile
import time
import warnings
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from torchnp import dtypes
from torchnp.rpc import wire
from torchnp.rpc.server.config.limits import Limits
from torchnp.rpc.server.privacy import disclosure, timing
from torchnp.rpc.server.privacy.ledger import Ledger
from torchnp.rpc.server.privacy.timing import Late, Pace
from torchnp.rpc.server.session import executor, protocol
from torchnp.rpc.server.session.invocation import Invocation
from torchnp.rpc.server.session.protocol import Connection
from torchnp.rpc.server.session.server_state import ServerState
from torchnp.rpc.wire.programs import hash_of, written

SHAPES = ((), (1,), (3,), (4,), (2, 3), (3, 3), (4, 4), (3, 1), (2, 3, 4), (1, 2, 5, 5), (2, 2, 4, 4, 3), (0, 3))
DTYPES = tuple(map(np.dtype, ("f4", "f8", "i8", "i4", "u1", "?", "c8", "f2"))) + (dtypes.bfloat16,)
LIMITS = Limits(max_bytes=1 << 24, max_objects=4000)
BUCKET = 0.005  # seconds
ROUND = 100  # operators after which both servers restart


def values(shape: tuple[int, ...], dtype: np.dtype, seed: int) -> np.ndarray:
    """Return numbers that are hard for kernels: not finite, denormal, zero, out of range, huge."""
    rng = np.random.default_rng(seed)
    kind = "f" if dtype == dtypes.bfloat16 else dtype.kind
    n = int(np.prod(shape))
    style = seed % 4
    if kind == "?" or kind == "b":
        made = rng.integers(0, 2, n) if style else np.zeros(n)
    elif kind in "iu":
        pools = ([0, 1, 2], [0], [0, 1, -1, 100, 127], [-(2**31), 2**31 - 1, 0, 3, 5])
        made = rng.choice(np.array(pools[style]), n)
    else:
        pools_ = (
            [0.5, 1.0, -2.0, 3.25], [0.0, -0.0], [np.nan, np.inf, -np.inf, 1.0, 0.0],
            [1e-42, -1e-40, 3e38, 1e-310, 0.1, 7.0],
        )  # fmt: skip
        made = rng.choice(np.array(pools_[style]), n)
    with np.errstate(all="ignore"):
        made = np.asarray(made).astype(dtype).reshape(shape)
        if kind == "c":
            made.imag = rng.permutation(made.real.reshape(-1)).reshape(shape)
        return made


NAMES = [(f"{dtype}{shape}", shape, dtype) for dtype in DTYPES for shape in SHAPES]


def services(bucket: float = 0.0, ledgers: Sequence[Path | None] = (None, None)) -> tuple[ServerState, ServerState]:
    """Return two servers with datasets of the same names, shapes and dtypes, and with different values."""
    made = []
    for side in (0, 1):
        data = {name: values(shape, dtype, 97 * i + (i % 3 + 1) * side) for i, (name, shape, dtype) in enumerate(NAMES)}
        made.append(ServerState(datasets=data, limits=LIMITS, bucket=bucket, ledger=ledgers[side]))
    return made[0], made[1]


@contextlib.contextmanager
def stale(byte: int) -> Iterator[None]:
    """Fill new memory with a byte that differs between the two sides, as if it had belonged to another process."""
    empty, empty_like = np.empty, np.empty_like

    def filled(*args, **kwargs):
        made = empty(*args, **kwargs)
        made.view(np.ndarray).reshape(-1, order="A").view(np.uint8)[...] = byte if made.dtype != bool else byte & 1
        return made

    def filled_like(*args, **kwargs):
        made = empty_like(*args, **kwargs)
        if made.dtype.kind != "O":
            made.T.reshape(-1, order="A").view(np.uint8)[...] = byte if made.dtype != bool else byte & 1
        return made

    np.empty, np.empty_like = filled, filled_like
    try:
        yield
    finally:
        np.empty, np.empty_like = empty, empty_like


class Player:
    """Makes random frames, many of which are valid operators, and sends them over two connections."""

    extremes: tuple[int, ...] = (-(2**63), 2**63 - 1)  # integer arguments, used at the rate below
    rate = 0.01

    def __init__(
        self, seed: int, share_public: float = 0.4, made: tuple[ServerState, ...] | None = None, start: int = 36
    ) -> None:
        self.random, self.share_public = random.Random(seed), share_public
        self.services = made or services()
        self.agreed = self.services[0].agreement
        # Polynomials take as many steps as a tensor's value says, also for public tensors; the server refuses private
        # ones.
        named = [(i, n) for i, n in enumerate(self.agreed.names) if "_polynomial_" not in n]
        self.rows = [(i, self.agreed.schemas[name]) for i, name in named]
        self.counts: Counter[str] = Counter()
        self.differences: list[str] = []
        self.public_only = False
        self.start = start  # number of datasets at the start of a round; the client's own arrays are two thirds as many
        self._begin()

    def _begin(self) -> None:
        self.sides = self._connected()
        self.seq = self.next = 0
        self.pool: list[tuple[int, tuple, np.dtype, bool]] = []
        ours = self.agreed
        self._play(wire.Hello(wire.VERSION, ours.digest, len(ours.names), "fuzzer", ""), "hello")
        for name, shape, dtype in self.random.sample(NAMES, self.start):
            self._play(wire.Open(self.seq, self.next, name), "open")
            self._add(shape, dtype, True)
        for _, shape, dtype in self.random.sample(NAMES, self.start * 2 // 3):
            array = values(shape, dtype, self.random.randrange(4))
            raw = memoryview(array.tobytes())
            order = list(range(len(shape)))
            self._play(wire.Data(self.seq, self.next, str(dtype), list(shape), order, 0, raw), "data")
            self._add(shape, dtype, False)

    def _connected(self) -> list[Connection]:
        return [Connection(s) for s in self.services]

    def _add(self, shape: tuple, dtype: np.dtype, private: bool) -> None:
        self.pool.append((self.next, shape, dtype, private))
        self.next += 1
        self.seq += 1

    def _play(self, frame, what: str) -> list:
        raw = wire.encode(frame)
        replies = []
        for side, byte in zip(self.sides, (0x11, 0xEE)):
            with stale(byte):
                replies.append(self._handled(side, raw))
        told = [[self._told(r, frame) for r in side] for side in replies]
        if told[0] != told[-1]:
            shown = [[str(wire.decode_reply(r))[:300] for r in side] for side in replies]
            self.differences.append(f"{what}: {shown[0]} != {shown[1]}")
        return [wire.decode_reply(r) for r in replies[0]]

    def _handled(self, side: Connection, raw: bytes) -> list[bytes]:
        return [bytes(r) for r in side.handle(raw)]

    def _told(self, reply: bytes, frame) -> object:
        """Return the part of a reply that must not differ."""
        return reply

    def _released(self, id_: int, what: str) -> None:
        """Return the release that is requested for a private result."""

    # ------------------------------------------------------------ arguments

    def _handle(self, shape: tuple | None, kind: str | None) -> wire.Handle:
        entries = self.sides[0].store.entries
        live = lambda p: p[0] in entries and entries[p[0]].poison is None
        public = lambda p: live(p) and entries[p[0]].buffer.public
        pool = [p for p in self.pool if public(p)] if self.public_only else self.pool
        some = self.random.sample(pool, min(len(pool), 24))
        some = [p for p in some if live(p)] or self.pool
        if shape is not None:
            some = [p for p in some if p[1] == shape] or some
        if kind is not None:
            some = [p for p in some if p[2].kind == kind] or some
        return wire.Handle(self.random.choice(some)[0])

    def _value(self, type_: str, name: str, shape: tuple | None, kind: str | None):
        r = self.random
        if type_.endswith("?"):
            return None if r.random() < 0.4 else self._value(type_[:-1], name, shape, kind)
        base, bracket, length = type_.rstrip("]").partition("[")
        if bracket:
            n = int(length) if length.isdigit() else r.randint(1, 3)
            if base.startswith("SymInt") and name in ("size", "shape") and shape is not None and r.random() < 0.6:
                return wire.Items(list(shape))
            return wire.Items([self._value(base, name, shape, kind) for _ in range(n)])
        if base == "Tensor":
            index = any(word in name for word in ("index", "indices", "target", "offsets", "lengths"))
            return self._handle(None if r.random() < 0.2 else shape, "i" if index else kind)
        if base in ("int", "SymInt"):
            extreme = r.random() < self.rate
            return r.choice(self.extremes) if extreme else r.choice((0, 0, 1, 1, 2, 3, -1))
        if base in ("float", "Scalar"):
            plain = (0.0, 0.5, 1.0, 2.0, -1.0, 1e-5, float("nan"), float("inf"))
            return r.choice(plain if base == "float" or r.random() < 0.5 else (0, 1, 2, -1))
        choices = {
            "bool": (False, True), "str": ("", "none", "mean", "sum", "linear", "ij", "floor"),
            "ScalarType": tuple(wire.Dtype(str(d)) for d in DTYPES), "Layout": ("strided",), "Device": ("cpu",),
            "MemoryFormat": ("contiguous_format", "preserve_format", "channels_last"),
        }  # fmt: skip
        return r.choice(choices[base])

    def _op(self) -> tuple[wire.Op, str]:
        r = self.random
        index, schema = r.choice(self.rows)
        self.public_only = r.random() < self.share_public
        shape = r.choice(SHAPES) if r.random() < 0.85 else None
        kind = r.choice("ffffic")
        args, kwargs, lists = [], {}, 2
        for a in schema.args:
            if a.type.startswith("Generator"):
                continue
            if a.has_default and r.random() < 0.6:
                if not a.kwonly and not kwargs:
                    kwargs[""] = None  # the following arguments are passed by name
                continue
            value = self._value(a.type, a.name, shape, kind)
            if isinstance(value, wire.Items) and a.type.startswith("Tensor"):
                lists = len(value.items)
            if a.kwonly or kwargs:
                kwargs[a.name] = value
            else:
                args.append(value)
        kwargs.pop("", None)
        count = sum((lists if x.type == "Tensor[]" else 1) for x in schema.returns if not x.is_write)
        key = self.random.randrange(99) if self.services[0].row(index).random else None
        return wire.Op(index, self.next, count, args, kwargs, key=key), schema.name

    def _written(self, op: wire.Op) -> Iterator[int]:
        """Return the objects that an operator writes."""
        for i, a in enumerate(self.agreed.schemas[self.agreed.names[op.index]].args):
            value = op.kwargs.get(a.name) if a.name in op.kwargs or i >= len(op.args) else op.args[i]
            if a.is_write:
                for x in value.items if isinstance(value, wire.Items) else [value]:
                    if isinstance(x, wire.Handle):
                        yield x.id

    # ------------------------------------------------------------ rounds

    def play(self, ops: int) -> None:
        """Run that many operators, and publish or release their results."""
        done = 0
        while done < ops and len(self.differences) < 20:
            if self.seq > ROUND + 60 or self.sides[0].closed or self.sides[1].closed:
                self._begin()
            op, name = self._op()
            what = f"{name} {op.args} {op.kwargs}"
            if self.random.random() < 0.05:
                made = written([op], [], list(range(op.first, op.first + op.count)))
                program = hash_of(made.raw)
                self._play(wire.Define(self.seq, program, len(made.raw), 0, made.raw), f"the program of {what}")
                replies = self._play(
                    wire.CallProgram(self.seq, program, op.first, made.inputs, made.keys), f"the call of {what}"
                )
            else:
                replies = self._play(wire.Ops(self.seq, [op]), what)
            self.seq += 1
            done += 1
            failed = type(replies[0]) is wire.Err
            entries = self.sides[0].store.entries
            self.counts["failed" if failed else "worked"] += 1
            for id_ in range(op.first, op.first + op.count):
                entry = entries.get(id_)
                if entry is None or entry.array is None or entry.buffer is None:
                    continue
                private = not entry.buffer.public
                self.counts["private results" if private else "public results"] += 1
                if entry.array.size < 5000:
                    self.pool.append((id_, entry.array.shape, entry.array.dtype, private))
                if private:
                    self._released(id_, f"{name} {op.args} {op.kwargs}")
                else:
                    self._play(wire.Publish(1, self.seq, id_), f"publish of {name} {op.args} {op.kwargs}")
            self.next += op.count
            for id_ in self._written(op):
                if id_ in entries and entries[id_].poison is None and entries[id_].buffer.public:
                    self._play(wire.Publish(1, self.seq, id_), f"publish of what {name} {op.args} {op.kwargs} wrote")
            if not self.sides[0].closed:
                self._play(wire.Sync(2, self.seq), f"sync after {name} {op.args} {op.kwargs}")


class Clock:
    """A clock that only kernels and sleep advance. The time of a kernel depends on all bits of its arguments.

    It is between one and two times the least time of an operator with these shapes: the worst case for hiding the bits.
    """

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    monotonic = perf_counter

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def cost(self, call: Invocation) -> float:
        arrays = [a for a in call.values.values() for a in (a if isinstance(a, list) else [a])]
        arrays = [a for a in arrays if isinstance(a, np.ndarray)]
        bits = zlib.crc32(b"".join(a.tobytes() for a in arrays)) / 2**32
        return 1e-4 * (1 + call.op.index % 50) * (1 + sum(a.size for a in arrays)) ** 0.5 * (1 + 0.98 * bits)

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Make the server use this clock only."""
        modules, run, by_rows = (executor, timing, disclosure, protocol), Invocation.run, Invocation.by_rows

        def timed(call: Invocation, generator):
            if not call.row.views:  # views do not read values
                self.now += self.cost(call)
            return run(call, generator)

        def timed_by_rows(call: Invocation, *rest):
            self.now += self.cost(call)
            return by_rows(call, *rest)

        Invocation.run, Invocation.by_rows = timed, timed_by_rows
        for module in modules:
            module.time = self
        try:
            yield
        finally:
            Invocation.run, Invocation.by_rows = run, by_rows
            for module in modules:
                module.time = time


class Releasing(Player):
    """Also compares the times of replies, requests noised sums and means of rows, and asks for their costs.

    Everything about a release must agree except its numbers, which contain noise. A late reply reveals something (see
    `torchnp.rpc.server.privacy.timing`): the server counts it, and both sides restart with their schedules.
    """

    def __init__(self, seed: int, folder: Path, share_public: float = 0.4, epsilon: float = 10.0) -> None:
        self.clock, self.ledgers = Clock(), []
        for side in (0, 1):
            self.ledgers.append(Ledger(folder / f"{side}.db", create=True))
            for name, shape, _ in NAMES:
                if shape:
                    for client in ((), ("client",)):
                        self.ledgers[-1].set_budget(name, epsilon, 1e-6, *client)
            self.ledgers[-1].close()
        made = services(bucket=BUCKET, ledgers=[ledger.path for ledger in self.ledgers])
        super().__init__(seed, share_public, made)

    def _handled(self, side: Connection, raw: bytes) -> list[bytes]:
        start = self.clock.now
        with self.clock.installed():
            replies = super()._handled(side, raw)
        # Each reply is recorded with its time, in buckets if the server delayed it. The server itself counts late
        # replies.
        self.times.append(round((self.clock.now - start) / BUCKET, 6))
        return replies

    def _play(self, frame, what: str) -> list:
        self.times: list[float] = []
        before = [side.count.late for side in self.sides]
        replies = super()._play(frame, what)
        late = [side.count.late - n for side, n in zip(self.sides, before)]
        if any(late):
            self.counts["late"] += 1
            for side in self.sides:
                side.state.late = Late()
                side.executor.pace = Pace(BUCKET, side.state.late)
        else:
            self.counts["at their time"] += self.times[0] >= 1
            if self.times[0] != self.times[1]:
                self.differences.append(f"{what}: after {self.times[0]} and {self.times[1]} buckets")
        return replies

    def _connected(self) -> list[Connection]:
        made = super()._connected()
        for side in made:
            side.count = Counted(side.count)
        return made

    def _told(self, reply: bytes, frame) -> object:
        if type(frame) is wire.Publish and frame.terms is not None:
            result = wire.decode_reply(reply)
            if type(result) is wire.Result:
                return result.request, result.dtype, result.shape, result.offset, len(result.raw)
        return reply

    def _released(self, id_: int, what: str) -> None:
        r = self.random
        if r.random() > 0.9:
            return
        noise = {"eps": r.choice((0.01, 0.5, 3.0))} if r.random() < 0.5 else {"sigma": r.choice((1e-3, 1.0, 50.0))}
        terms = wire.Terms(r.choice(("sum", "mean")), r.choice((1e-3, 1.0, 1e6)), **noise)
        for frame in (
            wire.QuoteRequest(3, self.seq, id_, terms),
            wire.Publish(4, self.seq, id_, f"{len(self.counts)}-{r.random()}", terms),
        ):
            replies = self._play(frame, f"{type(frame).__name__} of {terms} of {what}")
            told = type(replies[0]).__name__ if type(replies[0]) is not wire.Err else replies[0].kind
            self.counts[f"{type(frame).__name__}: {told}"] += 1

    def play(self, ops: int) -> None:
        super().play(ops)
        spent = [[(e.kind, e.units, e.body) for e in x.entries() if e.kind != "result"] for x in self.ledgers]
        if spent[0] != spent[1]:
            self.differences.append("the ledgers differ")


class Counted:
    """Return the server's counters; late replies can be requested."""

    def __init__(self, count) -> None:
        self._count, self.late = count, 0

    def __call__(self, name: str, n: int = 1) -> None:
        self.late += n * (name == "late")
        self._count(name, n)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ops", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        player = Releasing(options.seed, Path(folder))
        player.play(options.ops)
    print(dict(player.counts))
    print("\n".join(player.differences))
    return bool(player.differences)


if __name__ == "__main__":
    sys.exit(main())
