"""Measure what an operator on a handle costs compared with local torch: ``python scripts/bench_handles.py [--steps
N]``.

The client's cost is the processor time of the calling thread until the call returns, the shortest of several rounds, so
that other work on the machine does not count. The session's own thread packs and sends. ops/s are per second of wall
time, until everything has been computed. Local torch is measured in alternation.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn import functional as F

from torchnp import rpc


@contextmanager
def server():
    """Start a server process on a free port; yield its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "torchnp.rpc.server", "--log-level", "error"], stdout=subprocess.PIPE, text=True
    )
    try:
        yield f"tcp://{process.stdout.readline().split()[2].rstrip(';')}"
    finally:
        process.terminate()
        process.wait(20)


def per_call(run: Callable[[], object], n: int) -> float:
    start = time.thread_time()
    for _ in range(n):
        run()
    return (time.thread_time() - start) / n


# Functions of two tensors, and of a third tensor for which autograd records.
OPERATORS: dict[str, Callable[..., object]] = {
    "add": lambda x, y, w: x + y,
    "add number": lambda x, y, w: x + 2.0,
    "add_": lambda x, y, w: x.add_(y),
    "mm": lambda x, y, w: x @ y,
    "sum(1)": lambda x, y, w: x.sum(1),
    "x[1:]": lambda x, y, w: x[1:],
    "add, recorded": lambda x, y, w: w + y,
    "linear": lambda x, y, w: F.linear(x, y),
}


def mlp() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """Return a model, a batch and its labels."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    return model, torch.randn(64, 64), torch.randint(0, 10, (64,))


def ops(session: rpc.Session, name: str, n: int, rounds: int) -> list[str]:
    """Return a line for each operator: the client's time, torch's time, their ratio, ops/s and bytes per operator."""
    torch.manual_seed(0)
    a, b = torch.randn(8, 8), torch.randn(8, 8)
    ha, hb = session.send(a), session.send(b)
    w, hw = a.clone().requires_grad_(), session.send(a, requires_grad=True)
    rows = []
    for label, f in OPERATORS.items():
        client, local, total, sent = [], [], [], []
        f(ha, hb, hw), f(a, b, w), session.sync()
        for _ in range(rounds):
            before = session.stats
            start = time.perf_counter()
            cost = per_call(lambda: f(ha, hb, hw), n)
            session.sync()
            total.append((time.perf_counter() - start) / n)
            after = session.stats
            client.append(cost)
            sent.append((after.bytes_sent - before.bytes_sent) / (after.ops - before.ops))
            local.append(per_call(lambda: f(a, b, w), n))
        c, t = min(client), min(local)
        rows.append(
            f"{name:<6} {label:<14} {c * 1e6:8.1f} {t * 1e6:8.1f} {c / t:7.1f} {1 / min(total):10,.0f} "
            f"{statistics.median(sent):8.1f}"
        )
    return rows


def training(session: rpc.Session, name: str, steps: int) -> str:
    """Return a line about training an MLP with Adam: times per step of both, operators and round trips per step."""
    model, x, y = mlp()
    runs = {}
    for key, m, a, b in (("there", session.module(model), session.send(x), session.send(y)), ("here", model, x, y)):
        optimizer = torch.optim.Adam(m.parameters(), lr=1e-3)

        def step(m=m, a=a, b=b, optimizer=optimizer):
            optimizer.zero_grad()
            loss = F.cross_entropy(m(a), b)
            loss.backward()
            optimizer.step()
            return loss

        for _ in range(5):
            step()
        session.sync()
        before, start = session.stats, time.perf_counter()
        for _ in range(steps):
            step()
        client = (time.perf_counter() - start) / steps
        if key == "there":
            loss = step().detach().publish()
            after = session.stats
            per_step = (after.ops - before.ops) / (steps + 1)
            trips, held = after.round_trips - before.round_trips, session.sync().objects
        runs[key] = ((time.perf_counter() - start) / steps, client)
    assert loss.isfinite()
    return (
        f"{name:<6} {runs['there'][0] * 1e3:8.2f} ms {runs['there'][1] * 1e3:8.2f} ms {runs['here'][0] * 1e3:8.2f} ms "
        f"{runs['there'][0] / runs['here'][0]:6.1f} {per_step:8.0f} {trips:6d} {held:8d}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=500, help="calls of each operator per round")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--steps", type=int, default=50)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with server() as address, rpc.connect(address) as remote, rpc.local() as local:
        print("8x8 float32   operator       client us torch us   ratio      ops/s bytes/op")
        for name, session in (("tcp", remote), ("local", local)):
            print("\n".join(ops(session, name, options.calls, options.rounds)), flush=True)
        start = time.perf_counter()
        for _ in range(500):
            remote.sync()
        print(f"round trip (sync) over tcp: {(time.perf_counter() - start) * 2e3:.0f} us")
        print("\nMLP, Adam    per step, of it the client     torch  ratio  ops/step  trips  objects")
        for name, session in (("tcp", remote), ("local", local)):
            print(training(session, name, options.steps), flush=True)


if __name__ == "__main__":
    main()
