"""Encrypted training: two owners train a convolutional network on digits that neither may show to the other.

Alice has the left half of every image; Bob has the right half and the labels. The parties hold shares of images,
labels, weights, gradients and the optimizer's state. Only the loss and the test accuracy are published, at the end.
"""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from torch import nn
from torch.nn import functional as F

from torchnp import mpc
from torchnp.demo import DemoData, load

ALICE, BOB = 0, 1
BITS = 20  # fractional bits: Adam keeps squares of gradients
ACCURACY_DIFFERENCE = 0.01  # from the test accuracy on plain data
MIDDLE = 4  # columns of Alice's half


@dataclass
class EncryptedRun:
    """The results of one optimizer, on plain data and on shares."""

    optimizer: str
    loss: float
    accuracy: float
    encrypted_loss: float
    encrypted_accuracy: float
    steps: int
    seconds: float
    traffic: mpc.Traffic
    published: int


@dataclass
class OwnedDigits:
    """The two owners' images and labels, as tensors or as handles."""

    left: Any
    right: Any
    labels: Any
    test_left: Any
    test_right: Any
    test_labels: Any


def build(seed: int) -> nn.Module:
    """Build a convolution and two linear layers, with 4,538 parameters."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(128, 32), nn.ReLU(),
        nn.Linear(32, 10),
    )  # fmt: skip


def optimizer_of(name: str, model: nn.Module) -> torch.optim.Optimizer:
    """Return SGD or Adam. Adam's ``eps`` is large enough not to become 0 as a fixed-point number."""
    if name == "adam":
        return torch.optim.Adam(model.parameters(), lr=1e-2, eps=1e-2)
    return torch.optim.SGD(model.parameters(), lr=2e-3, momentum=0.9)


def owned(data: DemoData) -> OwnedDigits:
    """Split every image into the two owners' halves."""
    halves = [part for x in (data.x, data.test_x) for part in x.split([MIDDLE, x.shape[3] - MIDDLE], dim=3)]
    return OwnedDigits(halves[0], halves[1], data.y, halves[2], halves[3], data.test_y)


def shared(engine: mpc.SharedEngine, digits: OwnedDigits) -> OwnedDigits:
    """Split each owner's data into shares for the parties."""
    alice = lambda x: engine.send(x, owner=ALICE)
    bob = lambda x: engine.send(x, owner=BOB)
    return OwnedDigits(
        alice(digits.left), bob(digits.right), bob(digits.labels),
        alice(digits.test_left), bob(digits.test_right), bob(digits.test_labels),
    )  # fmt: skip


def train(model: nn.Module, optimizer: torch.optim.Optimizer, digits: OwnedDigits, batches: list, on_step: Any) -> Any:
    """Train, and return the mean loss of the last batch; the same code runs on plain data and on shares."""
    loss: Any = None
    for chosen in batches:
        images = torch.cat([digits.left[chosen], digits.right[chosen]], dim=3)
        loss = F.cross_entropy(model(images), digits.labels[chosen], reduction="sum")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        on_step()
    return loss.detach() / len(batches[-1])


@torch.no_grad()
def test(model: nn.Module, digits: OwnedDigits) -> Any:
    """Return the test accuracy as a 0-d tensor."""
    images = torch.cat([digits.test_left, digits.test_right], dim=3)
    return (model(images).argmax(1) == digits.test_labels).float().mean()


def compare(name: str, data: DemoData, batch_size: int, seed: int, on_step: Any) -> EncryptedRun:
    """Train with one optimizer, on plain data and on shares."""
    digits, model = owned(data), build(seed)
    batches = [
        order[i : i + batch_size] for order in data.orders for i in range(0, len(order) - batch_size + 1, batch_size)
    ]
    plain = copy.deepcopy(model)
    loss = train(plain, optimizer_of(name, plain), digits, batches, lambda: None).item()
    accuracy = test(plain, digits).item()

    engine = mpc.local(parties=2, bits=BITS)
    there, remote = shared(engine, digits), engine.module(model, owner=ALICE)
    before, start = engine.traffic, time.perf_counter()
    result = train(remote, optimizer_of(name, remote), there, batches, on_step)
    seconds, traffic = time.perf_counter() - start, engine.traffic - before
    right = test(remote, there)
    encrypted = result.publish().item(), right.publish().item()
    return EncryptedRun(name, loss, accuracy, *encrypted, len(batches), seconds, traffic, engine.traffic.published)


# ---------------------------------------------------------------- output


def run(epochs: int = 3, batch_size: int = 32, seed: int = 0, optimizers: tuple[str, ...] = ("sgd", "adam")) -> int:
    """Run each optimizer and print the table; the exit status is 1 if a bound is missed."""
    console = Console()
    data = load(epochs, seed)
    steps = epochs * (len(data.y) // batch_size)
    console.print(
        f"{len(data.y)} digits, {steps} steps of {batch_size}. Alice has the left halves, Bob the right halves and the "
        f"labels; two parties and a dealer, here in one process; {BITS} fractional bits, seed {seed}"
    )
    columns = (TextColumn("{task.description:<10}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    runs = []
    with Progress(*columns, console=console) as progress:
        for name in optimizers:
            task = progress.add_task(name, total=steps)
            runs.append(compare(name, data, batch_size, seed, lambda: progress.advance(task)))
    console.print(table_of(runs))
    problems = misses(runs)
    for problem in problems:
        console.print(f"[red]missed[/red]: {problem}", highlight=False)
    if not problems:
        text = f"test accuracy within {ACCURACY_DIFFERENCE:.0%} of that in the clear, and two numbers published"
        console.print(f"[green]all bounds held[/green]: {text}", highlight=False)
    return 1 if problems else 0


def misses(runs: list[EncryptedRun]) -> list[str]:
    """Describe the missed bounds."""
    found = []
    for run in runs:
        if not abs(run.accuracy - run.encrypted_accuracy) <= ACCURACY_DIFFERENCE:
            found.append(
                f"{run.optimizer}: test accuracy {run.encrypted_accuracy:.1%}, and {run.accuracy:.1%} in the clear"
            )
        if run.published != 2:
            found.append(
                f"{run.optimizer}: {run.published} numbers were published, not the loss and the accuracy alone"
            )
    return found


def table_of(runs: list[EncryptedRun]) -> Table:
    """Return a table with a column for each run."""
    grid = Table(box=None, header_style="bold")
    grid.add_column("", overflow="fold")
    for run in runs:
        grid.add_column(run.optimizer, justify="right")

    def row(label: str, value: Any) -> None:
        grid.add_row(label, *map(value, runs))

    row("test accuracy, encrypted", lambda r: f"{r.encrypted_accuracy:.1%}")
    row("test accuracy in the clear", lambda r: f"{r.accuracy:.1%}")
    row("last loss, encrypted", lambda r: f"{r.encrypted_loss:.4f}")
    row("last loss in the clear", lambda r: f"{r.loss:.4f}")
    row("time per step", lambda r: f"{r.seconds / r.steps:.2f} s")
    row("rounds per step", lambda r: f"{r.traffic.rounds / r.steps:.0f}")
    row("MB per step, each party", lambda r: f"{r.traffic.bytes_sent / r.steps / 1e6:.2f}")
    row("MB per step, from the dealer", lambda r: f"{r.traffic.bytes_dealt / r.steps / 1e6:.2f}")
    row("numbers published", lambda r: str(r.published))
    return grid
