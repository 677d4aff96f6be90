"""Two servers whose datasets differ in one row run the same random programs; no bit of any other row may differ.

``python -m torchnp.tests.rpc.neighbouring_datasets --ops 100000 --seed 0`` runs that many operators, also in place and
on views, half of them with arguments by name. After each operator, labelled results are compared in all other rows, and
public results as a whole. No torch.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.rpc import wire
from torchnp.rpc.server.privacy import row_calls
from torchnp.rpc.server.privacy.row_labels import Rows
from torchnp.rpc.server.session.protocol import Connection
from torchnp.rpc.server.session.server_state import ServerState
from torchnp.tests.rpc.interference import LIMITS, ROUND, Player
from torchnp.tests.rpc.row_bits import odd, plain

ROWS, CHANGED = 4, 2
SHAPES = ((4,), (4, 1), (4, 3), (4, 4), (4, 2, 3), (4, 4, 4))
DTYPES = (dt.float32, dt.float64, dt.int64, dt.bool_, dt.float16, dt.complex64, dt.int32)
PUBLIC = ((), (3,), (4,), (1,), (3, 4), (4, 4), (4, 3), (1, 4), (2, 3))


def _datasets(seed: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    one = {f"d.{dtype}{shape}": plain(rng, shape, dtype) for dtype in DTYPES for shape in SHAPES}
    other = {name: x.copy() for name, x in one.items()}
    for x in other.values():
        x[CHANGED] = odd(rng, x.shape[1:], x.dtype)
    return one, other


class Neighbours(Player):
    """Runs programs, and compares what each operator returned and wrote."""

    strided = 0.01  # share of operators that request random strides; most are refused and end the session

    def __init__(self, seed: int) -> None:
        made = tuple(ServerState(datasets=data, limits=LIMITS) for data in _datasets(seed))
        schemas = made[0].agreement.schemas
        self.listed = [(i, schemas[n]) for i, n in enumerate(made[0].agreement.names) if row_calls.rule(schemas[n])]
        self.writing = [(i, s) for i, s in self.listed if s.args[0].is_write]
        self.numbers = np.random.default_rng(seed)
        super().__init__(seed, 0.1, made)
        self.everything = self.rows

    def _begin(self) -> None:
        self.sides = [Connection(s) for s in self.services]
        self.seq = self.next = 0
        self.pool = []
        self._send(wire.Hello(wire.VERSION, self.agreed.digest, len(self.agreed.names), "fuzzer", ""))
        names = [(f"d.{dtype}{shape}", shape, dtype) for dtype in DTYPES for shape in SHAPES]
        for name, shape, dtype in self.random.sample(names, 14):
            self._send(wire.Open(self.seq, self.next, name))
            self._add(shape, dtype, True)
        for _ in range(10):
            shape, dtype = self.random.choice(PUBLIC), self.random.choice(DTYPES[:4])
            array = plain(self.numbers, shape, dtype)
            raw, order = memoryview(array.tobytes()), list(range(array.ndim))
            self._send(wire.Data(self.seq, self.next, dt.dtype_name(dtype), list(shape), order, 0, raw))
            self._add(shape, dtype, False)

        for id_, shape, dtype, private in self.pool[:14]:
            op = wire.Op(self.agreed.index["aten::clone"], self.next, 1, [wire.Handle(id_)], {})
            self._send(wire.Ops(self.seq, [op]))
            self._add(shape, dtype, private)

    def _writable(self, handle: Any) -> Any:
        """Return an object with a dataset's shape that can be written, if there is one, instead of the dataset."""
        entries = self.sides[0].store.entries
        free = lambda i: i in entries and entries[i].buffer is not None and not entries[i].buffer.readonly
        if type(handle) is not wire.Handle or free(handle.id):
            return handle
        shape = entries[handle.id].array.shape if entries[handle.id].array is not None else ()
        some = [p[0] for p in self.pool if p[1] == shape and free(p[0])] or [p[0] for p in self.pool if free(p[0])]
        return wire.Handle(self.random.choice(some))

    def _send(self, frame: Any) -> list:
        raw = wire.encode(frame)
        one, _ = [[wire.decode_reply(bytes(r)) for r in side.handle(raw)] for side in self.sides]
        return one

    def play(self, ops: int) -> None:
        for _ in range(ops):
            if self.seq > ROUND + 30 or any(side.closed for side in self.sides):
                self._begin()
            self.rows = self.random.choice((self.listed, self.listed, self.writing, self.everything))
            op, name = self._op()
            schema = self.agreed.schemas[name]
            if op.args and schema.args[0].is_write:
                op.args[0] = self._writable(op.args[0])
            if self.random.random() < 0.5:
                named = [*zip([a.name for a in schema.args if not a.kwonly], op.args), *op.kwargs.items()]
                self.random.shuffle(named)
                op = wire.Op(op.index, op.first, op.count, [], dict(named), op.expected, op.key)
            if self.strided and self.random.random() < self.strided:
                strides = [
                    [self.random.choice((0, 1, 1, 2, 3, 4, 12, 16)) for _ in shape] for _, shape, *_ in self.pool[-2:]
                ]
                op.expected = [self.random.choice(strides) for _ in range(op.count)]
            replies = self._send(wire.Ops(self.seq, [op]))
            self.seq += 1
            self.counts["failed" if type(replies[0]) is wire.Err else "worked"] += 1
            self._compare(f"{name} {op.args} {op.kwargs}", any(a.is_write for a in schema.args), op)
            self.next += op.count

    def _compare(self, what: str, writes: bool, op: wire.Op) -> None:
        one, other = (side.store.entries for side in self.sides)
        made = range(op.first, op.first + op.count)
        for id_ in list(one) if writes else made:
            x, y = one.get(id_), other.get(id_)
            if (x is None) != (y is None) or (x is not None and str(x.poison) != str(y.poison)):
                self.differences.append(f"{what}: there is an object on one side")
                continue
            if x is None or x.array is None or x.poison is not None:
                continue
            if x.label != y.label or x.array.shape != y.array.shape:
                self.differences.append(f"{what}: {id_} is {x.label} and {y.label}")
            elif x.label is None or isinstance(x.label, Rows):
                a, b = x.array, y.array
                if isinstance(x.label, Rows):
                    n = a.shape[x.label.dim]
                    rows = np.frombuffer(x.label.order, np.int64) if x.label.order else np.arange(n)
                    keep = np.flatnonzero(rows != CHANGED)
                    a, b = a.take(keep, x.label.dim), b.take(keep, x.label.dim)
                    self.counts["rows compared"] += 1
                if a.tobytes() != b.tobytes():
                    self.differences.append(f"{what}: {id_}, {x.label}, differs in {a.dtype} {a.shape}")
            if id_ in made and x.array.size < 3000:
                self.pool.append((id_, x.array.shape, x.array.dtype, x.label is not None))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ops", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    player = Neighbours(options.seed)
    with np.errstate(all="ignore"):
        player.play(options.ops)
    print(dict(player.counts))
    print("\n".join(player.differences[:50]) or "no bit of another row differed")
    return bool(player.differences)


if __name__ == "__main__":
    sys.exit(main())
