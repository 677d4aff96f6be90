"""Measure eight figures of the remote tensor, each with a reference: ``python scripts/bench_remote.py [--rounds N]``.

The two sides of a ratio are measured alternately, and the best of several rounds counts. Small operators are measured
in processor time, which other work on the machine changes little. Rates and training steps are measured in wall time,
and also by the processor time of the busiest process of client and server, as if each process had its own core (Linux
only).
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import gc
import os
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import bench_wire
import numpy as np
import torch
from bench_handles import OPERATORS, mlp
from torch.nn import functional as F

from torchnp import rpc
from torchnp.interop import NumpyMode
from torchnp.rpc import wire
from torchnp.rpc.client.transports.reconnect import ReconnectingTransport
from torchnp.rpc.client.transports.transport import Tcp, tls_context
from torchnp.rpc.server.session.protocol import Connection
from torchnp.rpc.server.session.server_state import ServerState

H = wire.Handle
# Arguments on the server: objects 0 and 1 are square matrices, object 2 is a vector.
ROWS: dict[str, list[Any]] = {
    "aten::add.Tensor": [H(0), H(1)],
    "aten::mul.Scalar": [H(0), 2.0],
    "aten::mm": [H(0), H(1)],
    "aten::addmm": [H(2), H(0), H(1)],
    "aten::sum.dim_IntList": [H(0), wire.Ints([1])],
    "aten::relu": [H(0)],
    "aten::exp": [H(0)],
    "aten::_softmax": [H(0), 1, False],
    "aten::slice.Tensor": [H(0), 0, 1, 8],
    "aten::threshold_backward": [H(0), H(1), 0],
    "aten::mul_.Scalar": [H(0), 1.0],
}


def cost(run: Callable[[], object], n: int, clock: Callable[[], float] = time.process_time) -> float:
    """Return the microseconds per run."""
    start = clock()
    for _ in range(n):
        run()
    return (clock() - start) / n * 1e6


class Local:
    """A server in this process that gets the frames of a session."""

    def __init__(self, table: Any = None, side: int = 8) -> None:
        self.state = ServerState(table)
        self.connection = Connection(self.state)
        self.connection.known = True
        self.seq = self.id = 0
        for shape in ([side, side], [side, side], [side]):
            raw = memoryview(np.ones(shape, np.float32).tobytes())
            self.take([wire.Data(self.seq, self.id, "float32", shape, list(range(len(shape))), 0, raw)], 1)
            self.id += 1

    def take(self, frames: list[Any], count: int) -> float:
        """Return the seconds that the server takes for frames with ``count`` operators."""
        encoded = [wire.encode(frame) for frame in frames]
        start = time.process_time()
        for frame in encoded:
            for reply in self.connection.handle(frame):
                assert type(wire.decode_reply(reply)) is wire.Ack
        self.seq += count
        return time.process_time() - start

    def cost(self, name: str, args: list[Any], batches: int) -> float:
        """Return the microseconds per call of an operator."""
        index = self.state.agreement.index[name]
        count, seconds = 0 if "_." in name else 1, 0.0
        for _ in range(batches):
            seconds += self.take(bench_wire.batch_of(self.seq, self.id, index, args, count), bench_wire.OPS)
            self.connection.store.delete(self.id, self.id + count * bench_wire.OPS)
            self.id += count * bench_wire.OPS
        return seconds / batches / bench_wire.OPS * 1e6

    def kernel(self, name: str, args: list[Any]) -> Callable[[], object]:
        """Return a function that calls the kernel alone, with its arguments."""
        entries = self.connection.store.entries
        given = [entries[a.id].array if type(a) is H else a.items if type(a) is wire.Ints else a for a in args]
        return partial(self.state.row(self.state.agreement.index[name]).run, *given)


# ---------------------------------------------------------------- processor time of all processes


def used() -> dict[int, float]:
    """Return the processor seconds of this process and of each process that it has started, by process id."""
    own, found = os.getpid(), {}
    waiting = [own]
    while waiting:
        process = waiting.pop()
        threads = list(Path(f"/proc/{process}/task").iterdir())
        waiting += [int(child) for thread in threads for child in (thread / "children").read_text().split()]
        found[process] = sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9
    return found


def most(before: dict[int, float]) -> float:
    """Return the processor seconds that the busiest process has used since ``before``."""
    return max(seconds - before[process] for process, seconds in used().items() if process in before)


# ---------------------------------------------------------------- the figures, as lines of text


def line(what: str, found: float, beside: str, other: float, goal: str, digits: int = 0) -> str:
    return f"{what:<47} {found:9,.{digits}f}  {beside:<34} {other:9,.{digits}f} {found / other:6.2f}  {goal}"


def least(rounds: int, *measures: Callable[[], float]) -> list[float]:
    """Return the shortest time of each function in several rounds."""
    found = [[measure() for measure in measures] for _ in range(rounds)]
    return [min(column) for column in zip(*found)]


def on_the_wire(dial: Callable[[int], Tcp], ports: tuple[int, int], rounds: int, seconds: float) -> list[str]:
    """Return the lines about operators and tensors per second over TLS."""
    session = bench_wire.Full(ReconnectingTransport(lambda _: dial(ports[0]), 30.0))
    bare = bench_wire.Bare(dial(ports[1]))
    local = Local({bench_wire.NAME: bench_wire.nothing})
    raw = memoryview(bytes(wire.CHUNK))

    def sent(step: Callable[[], None]) -> tuple[float, float]:
        """Return the seconds per step."""
        before, busy = session.seq, used()
        wall = 1 / session.rate(step, seconds)
        return wall, most(busy) / (session.seq - before) * (bench_wire.OPS if step == session.ops else 1)

    ops, tensors, here, stream = [], [], [], []
    for _ in range(rounds):
        ops.append(sent(session.ops))
        here.append(local.cost(bench_wire.NAME, [H(0), bench_wire.PADDING], 500) / 1e6)
        tensors.append(sent(lambda: session.tensor(raw)))
        stream.append(1 / bare.rate(bytes(raw), seconds))
    session.link.interrupt()
    session.link.close()
    bare.stream.leave(b"over")
    bare.stream.close()
    goals = ("operators/s in batches over TLS", "150,000"), ("MB/s of 1 MiB tensors over TLS", "600")
    beside = ("without a wire", 1 / min(here)), ("stream of asyncio with ssl", wire.CHUNK / 1e6 / min(stream))
    return [
        line(f"{what}{how}", amount / min(found), *other, f"{goal} at least")
        for (what, goal), other, amount, both in zip(goals, beside, (bench_wire.OPS, wire.CHUNK / 1e6), (ops, tensors))
        for how, found in zip(("", ", by the busiest"), zip(*both))
    ]


def on_the_client(session: rpc.Session, rounds: int) -> str:
    """Return the line about the client's processor time per operator, in all its threads."""
    a, b = torch.randn(8, 8), torch.randn(8, 8)
    there = session.send(a), session.send(b), session.send(a, requires_grad=True)
    here = a, b, a.clone().requires_grad_()
    costs = []

    def sent(call: Callable[..., object]) -> float:
        session.sync()
        before, start = session.stats.ops, time.process_time()
        for _ in range(500):
            call(*there)
        session.sync()
        return (time.process_time() - start) / (session.stats.ops - before) * 1e6

    for call in OPERATORS.values():
        found, other = least(rounds, lambda call=call: sent(call), lambda call=call: cost(lambda: call(*here), 500))
        costs.append((found, other))
    return line("client, us per operator on 8x8", *_beside(costs, "torch"), "15 us", digits=2)


def on_the_server(rounds: int, side: int = 8, batches: int = 10, goal: str = "3 times") -> str:
    """Return the line about the server's processor time per operator, from receiving the frame to its end.

    Results are kept until their batch is over.
    """
    gc.collect()
    # A session's process does the same. Also, the garbage collector then ignores torch's objects, which a server does
    # not have.
    gc.freeze()
    local, costs = Local(side=side), []

    def alone(run: Callable[[], object]) -> float:
        found = [cost(lambda: kept.append(run()), bench_wire.OPS) for kept in ([] for _ in range(batches))]
        return sum(found) / batches

    for name, args in ROWS.items():
        run = local.kernel(name, args)
        found, other = least(
            rounds, lambda name=name, args=args: local.cost(name, args, batches), lambda run=run: alone(run)
        )
        costs.append((found, other))
    return line(f"server, us per operator on {side}x{side}", *_beside(costs, "kernel alone"), goal, digits=2)


def _beside(costs: list[tuple[float, float]], what: str) -> tuple[float, str, float]:
    """Return the medians of both sides, with a text between them that has the range of the ratios."""
    ratios = [a / b for a, b in costs]
    found, other = map(statistics.median, zip(*costs))
    return found, f"{what} ({min(ratios):.1f} to {max(ratios):.1f})", other


def training(session: rpc.Session, rounds: int, steps: int = 20) -> list[str]:
    """Return the lines about training an MLP with Adam, one step at a time and as a program that the server keeps."""
    model, x, y = mlp()

    def step_of(model: Any, x: Any, y: Any, fused: bool = False) -> Callable[[], None]:
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=fused)
        if fused and isinstance(x, rpc.RPCTensor):
            session.optimizer(optimizer)

        def step() -> None:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()

        return step

    a, b = session.send(x), session.send(y)
    there = step_of(session.module(model), a, b)
    program = session.program(step_of(session.module(model), a, b, fused=True))
    here, fused = step_of(copy.deepcopy(model), x, y), step_of(copy.deepcopy(model), x, y, fused=True)
    for _ in range(4):
        program()

    def steps_of(step: Callable[[], None], context: Any, end: Callable[[], object]) -> tuple[float, float]:
        """Return the milliseconds per step, by wall time and by the busiest process."""
        with context:
            step(), end()
            busy, start = used(), time.perf_counter()
            for _ in range(steps):
                step()
            end()
            return (time.perf_counter() - start) / steps * 1e3, most(busy) / steps * 1e3

    bare = contextlib.nullcontext()
    lines = []
    for what, one, two in (("step", there, here), ("program of fused Adam", program, fused)):
        pairs = [(steps_of(one, bare, session.sync), steps_of(two, NumpyMode(), int)) for _ in range(rounds)]
        found, other = (list(map(min, zip(*column))) for column in zip(*pairs))
        lines += [
            line(
                f"ms per {what} of an MLP over TLS{how}", found[i], "with NumpyMode():", other[i], "1.5 times", digits=2
            )
            for i, how in enumerate(("", ", by the busiest"))
        ]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each measurement of a rate")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(f"{'':<47} {'found':>9}  {'beside (all operators)':<34} {'':>9}  ratio  goal")
    with bench_wire.certificates() as (cert, key, ca):
        with bench_wire.server("tls", cert, key) as port, bench_wire.server("bare-tls", cert, key) as bare:
            context = tls_context(ca, None, None)
            rates = on_the_wire(
                lambda p: Tcp("127.0.0.1", p, 30.0, context), (port, bare), options.rounds, options.seconds
            )
            print("\n".join(rates), flush=True)
        with (
            bench_wire.server("all-tls", cert, key) as port,
            rpc.connect(f"tls://127.0.0.1:{port}", ca=ca) as session,
        ):
            print(on_the_client(session, 2 * options.rounds), flush=True)
            print(on_the_server(2 * options.rounds), flush=True)
            print(on_the_server(options.rounds, 256, 2, "1.3 times"), flush=True)
            print("\n".join(training(session, 2 * options.rounds)), flush=True)


if __name__ == "__main__":
    main()
