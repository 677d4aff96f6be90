"""End-to-end demo: one classifier is trained by torch, by the table in process, and by a remote server.

The data are the 1,797 handwritten digits that scikit-learn ships. All three runs use the same seed, batches and dropout
masks, so their losses can be compared step by step.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn import functional as F

import torchnp
from torchnp import rpc
from torchnp.core.registry import FAILURES
from torchnp.interop import NumpyMode
from torchnp.rpc.server.config.tokens import new_token

ACCURACY = 0.95  # torch alone reaches 0.98 to 0.99 in 8 epochs
ENOUGH_EPOCHS = 8
FIRST_STEPS = 20
# Relative difference; rounding differences grow with every step, so only the first steps are judged.
LOSS_DIFFERENCE = 1e-4


@dataclass
class DemoData:
    """Images of shape (N, 1, 8, 8), float32 in [0, 1]; int64 labels; the order of the training images in each epoch."""

    x: torch.Tensor
    y: torch.Tensor
    test_x: torch.Tensor
    test_y: torch.Tensor
    orders: list[torch.Tensor]


@dataclass
class TrainingRun:
    """The results of one training run."""

    name: str
    accuracy: float = 0.0
    losses: list[float] = field(default_factory=list)
    seconds: float = 0.0
    overloads: Counter[str] = field(default_factory=Counter)
    fallbacks: Counter[str] = field(default_factory=Counter)
    ops_per_step: float | None = None
    bytes_per_op: float | None = None
    trips_per_step: float | None = None

    def statuses(self) -> dict[str, int]:
        """Return the number of distinct aten overloads that ran, by status, without the optimizers' profiler calls."""
        names = [name for name in self.overloads if name.startswith("aten::")]
        return dict(Counter(map(torchnp.table.status, names)))


def load(epochs: int, seed: int) -> DemoData:
    """Load the digits, split off a quarter for the test, and draw the order of the images in every epoch."""
    digits = load_digits()
    x = torch.tensor(digits.images, dtype=torch.float32).div_(16).unsqueeze(1)
    y = torch.tensor(digits.target, dtype=torch.int64)
    train, test = train_test_split(torch.arange(len(y)).numpy(), test_size=0.25, random_state=seed, stratify=y.numpy())
    generator = torch.Generator().manual_seed(seed)
    orders = [torch.randperm(len(train), generator=generator) for _ in range(epochs)]
    return DemoData(x[train], y[train], x[test], y[test], orders)


def build(seed: int) -> nn.Module:
    """Build two convolutions with batch norm and two linear layers with dropout, which reach 98 % test accuracy.

    The convolutions have no bias. Batch norm would cancel it, so its gradient would be rounding noise around zero, and
    Adam would turn this noise into full steps.
    """
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.25), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip


def optimizer_of(name: str, model: nn.Module) -> torch.optim.Optimizer:
    if name == "adam":
        return torch.optim.Adam(model.parameters(), lr=2e-3)
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def train(
    model: nn.Module, optimizer: torch.optim.Optimizer, data: DemoData, batch_size: int, on_step: Callable[[], None]
) -> Iterator[list[torch.Tensor]]:
    """Train, and yield the losses of each epoch as tensors; all three runs use this code."""
    model.train()
    for order in data.orders:
        losses = []
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            # Remote tensors draw torch's own mask only directly after seeding, so seed at each step.
            torch.manual_seed(torch.initial_seed() + 1)
            loss = F.cross_entropy(model(data.x[chosen]), data.y[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
            on_step()
        yield losses


@torch.no_grad()
def test(model: nn.Module, data: DemoData) -> torch.Tensor:
    """Return the test accuracy as a 0-d tensor."""
    model.eval()
    return (model(data.test_x).argmax(1) == data.test_y).float().mean()


# ---------------------------------------------------------------- the three runs


def run_torch(
    data: DemoData, model: nn.Module, optimizer: str, batch_size: int, on_step: Callable[[], None]
) -> TrainingRun:
    run = TrainingRun("torch")
    start = time.perf_counter()
    for losses in train(model, optimizer_of(optimizer, model), data, batch_size, on_step):
        run.losses += torch.stack(losses).tolist()
    run.seconds = time.perf_counter() - start
    run.accuracy = test(model, data).item()
    return run


def run_in_process(
    data: DemoData, model: nn.Module, optimizer: str, batch_size: int, on_step: Callable[[], None]
) -> TrainingRun:
    run = TrainingRun("torchnp in process")
    with NumpyMode() as mode:
        start = time.perf_counter()
        for losses in train(model, optimizer_of(optimizer, model), data, batch_size, on_step):
            run.losses += torch.stack(losses).tolist()
        run.seconds = time.perf_counter() - start
        run.ops_per_step = sum(mode.calls.values()) / len(run.losses)
        run.accuracy = test(model, data).item()
    run.overloads, run.fallbacks = Counter(mode.calls), Counter(mode.fallbacks)
    return run


def run_remote(
    data: DemoData, model: nn.Module, optimizer: str, batch_size: int, on_step: Callable[[], None]
) -> TrainingRun:
    run = TrainingRun("torchnp remote")
    with server() as (address, token), rpc.connect(address, token=token) as session:
        there = DemoData(
            session.send(data.x),
            session.send(data.y),
            session.send(data.test_x),
            session.send(data.test_y),
            [session.send(order) for order in data.orders],
        )
        remote = session.module(model)
        before = session.stats
        start = time.perf_counter()
        for losses in train(remote, optimizer_of(optimizer, remote), there, batch_size, on_step):
            run.losses += publish(torch.stack(losses)).tolist()
        run.seconds = time.perf_counter() - start
        after = session.stats
        steps, count = len(run.losses), after.ops - before.ops
        run.ops_per_step = count / steps
        run.bytes_per_op = (after.bytes_sent + after.bytes_received - before.bytes_sent - before.bytes_received) / count
        run.trips_per_step = (after.round_trips - before.round_trips) / steps
        run.accuracy = publish(test(remote, there)).item()
        run.overloads = Counter(session.overloads)
    return run


def publish(handle: Any) -> torch.Tensor:
    """Return the value of a handle; only this call waits for the server."""
    return handle.publish()


@contextmanager
def server(*options: str) -> Iterator[tuple[str, str]]:
    """Run a server in its own process, on a free loopback port; yield its address and token."""
    token = new_token()
    command = [sys.executable, "-m", "torchnp", "serve", "--port", "0", "--token", token, "--log-level", "WARNING"]
    process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline().split()
        if line[:2] != ["listening", "on"]:
            raise RuntimeError(f"the server did not start (exit status {process.poll()}): see its messages above")
        yield f"tcp://{line[2].rstrip(';')}", token
    finally:
        process.terminate()
        process.wait(timeout=10)


# ---------------------------------------------------------------- output


def run(epochs: int = 8, batch_size: int = 64, seed: int = 0, optimizer: str = "adam") -> int:
    """Run all three trainings and print a table; return the exit status, 1 if a run fails or misses a bound."""
    console = Console()
    data = load(epochs, seed)
    steps = epochs * -(-len(data.y) // batch_size)
    console.print(
        f"{len(data.y) + len(data.test_y)} handwritten digits, {len(data.test_y)} of them for the test; "
        f"{steps} steps of {batch_size} images, {optimizer}, seed {seed}"
    )
    jobs: list[tuple[str, Callable[..., TrainingRun]]] = [
        ("torch", run_torch),
        ("torchnp in process", run_in_process),
        ("torchnp remote", run_remote),
    ]
    runs: list[TrainingRun] = []
    columns = (TextColumn("{task.description:<20}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        for name, job in jobs:
            task = progress.add_task(name, total=steps)
            model = build(seed)
            torch.manual_seed(seed)  # seeds the dropout masks
            try:
                found = job(data, model, optimizer, batch_size, lambda: progress.advance(task))
            except (*FAILURES, AssertionError, OSError, rpc.RPCError) as error:
                progress.stop()
                console.print(f"[red]{name} failed[/red]: {type(error).__name__}: {error}", highlight=False)
                return 1
            runs.append(found)
    console.print(table_of(runs))
    problems = misses(runs, epochs >= ENOUGH_EPOCHS)
    for problem in problems:
        console.print(f"[red]missed[/red]: {problem}", highlight=False)
    if not problems:
        console.print("[green]all bounds held[/green]: " + bounds(epochs >= ENOUGH_EPOCHS), highlight=False)
    return 1 if problems else 0


def bounds(trained: bool) -> str:
    accuracy = f"accuracy at least {ACCURACY:.0%}, " if trained else ""
    return (
        f"{accuracy}losses of the first {FIRST_STEPS} steps within {LOSS_DIFFERENCE:g} of "
        "torch's, no op fell back to torch"
    )


def difference(run: TrainingRun, reference: TrainingRun, steps: int | None = None) -> float:
    """Return the largest relative difference between the losses of two runs, step by step."""
    pairs = zip(run.losses[:steps], reference.losses[:steps], strict=True)
    return max(abs(a - b) / abs(b) for a, b in pairs)


def misses(runs: list[TrainingRun], trained: bool = True) -> list[str]:
    """Describe the bounds that were missed. Accuracy is judged only if ``trained``, that is, after enough epochs."""
    found = []
    for run in runs:
        if trained and run.accuracy < ACCURACY:
            found.append(f"{run.name}: test accuracy {run.accuracy:.1%} is below {ACCURACY:.0%}")
        if not difference(run, runs[0], FIRST_STEPS) <= LOSS_DIFFERENCE:
            found.append(
                f"{run.name}: a loss of the first {FIRST_STEPS} steps is {difference(run, runs[0], FIRST_STEPS):.1e} "
                f"from torch's, above {LOSS_DIFFERENCE:g}"
            )
        if run.fallbacks:
            found.append(f"{run.name}: fell back to torch for {', '.join(run.fallbacks)}")
    return found


def table_of(runs: list[TrainingRun]) -> Table:
    """Return a table with a column for each run."""
    grid = Table(box=None, header_style="bold")
    grid.add_column("", overflow="fold")
    for run in runs:
        grid.add_column(run.name, justify="right", overflow="fold")

    def row(label: str, value: Callable[[TrainingRun], str]) -> None:
        grid.add_row(label, *map(value, runs))

    def optional(x: float | None, form: str) -> str:
        return "" if x is None else format(x, form)

    row("test accuracy", lambda r: f"{r.accuracy:.1%}")
    row(f"loss difference, first {FIRST_STEPS} steps", lambda r: f"{difference(r, runs[0], FIRST_STEPS):.1e}")
    row("loss difference, all steps", lambda r: f"{difference(r, runs[0]):.1e}")
    row("time per step", lambda r: f"{1e3 * r.seconds / len(r.losses):.1f} ms")
    row("time over torch's", lambda r: f"{r.seconds / runs[0].seconds:.2f}")
    for status in ("kernel", "derived", "composite"):
        row(f"distinct overloads: {status}", lambda r: str(r.statuses().get(status, 0)) if r.overloads else "")
    row("fell back to torch", lambda r: str(len(r.fallbacks)) if r.overloads else "")
    row("ops per step", lambda r: optional(r.ops_per_step, ".0f"))
    row("bytes per op", lambda r: optional(r.bytes_per_op, ".0f"))
    row("round trips per step", lambda r: optional(r.trips_per_step, ".2f"))
    return grid
