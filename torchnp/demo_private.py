"""Private training on data that never leaves the owner's server, which clips, sums and noises per-sample gradients.

The owner's process holds the training digits and a ledger with a privacy budget. The client has the model and the test
digits. In each step, it sends the weights, the server computes every image's gradient, and the client gets their noised
mean.
"""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F

from torchnp import rpc
from torchnp.core.registry import FAILURES
from torchnp.demo import DemoData, load, server
from torchnp.rpc.server.privacy import accountant
from torchnp.rpc.server.privacy.ledger import EVERYBODY, Ledger

CLIENT = "client"  # name of the client; the server's only token belongs to it
DATASET = "digits"
CLIP = 1.0
RATE, MOMENTUM = 2.0, 0.5
OPEN_RATE = 0.4  # learning rate for unclipped gradients, which are several times as long
EVERY = 5  # steps from one line of the table to the next
ACCURACY = 0.85  # runs at epsilon 3 reach 0.91 to 0.93
ENOUGH_EPSILON = 3.0


@dataclass
class Curve:
    """Results of one run: steps, epsilon spent and test accuracy, from before the first step to after the last."""

    steps: list[int] = field(default_factory=list)
    epsilons: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)
    stopped: str = ""


def build(seed: int) -> nn.Module:
    """Build the model, which maps images to ten scores and has 2,410 parameters."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))


class Descent:
    """Gradient descent with momentum; the weights are ordinary tensors, and the gradient is one flat vector."""

    def __init__(self, model: nn.Module, rate: float) -> None:
        self.model, self.rate = model, rate
        self.weights = list(model.parameters())
        self.velocity = [torch.zeros_like(w) for w in self.weights]

    @torch.no_grad()
    def step(self, flat: torch.Tensor) -> None:
        parts = flat.split([w.numel() for w in self.weights])
        for w, v, part in zip(self.weights, self.velocity, parts):
            v.mul_(MOMENTUM).add_(part.view_as(w))
            w.sub_(v, alpha=self.rate)

    @torch.no_grad()
    def accuracy(self, data: DemoData) -> float:
        return (self.model(data.test_x).argmax(1) == data.test_y).float().mean().item()


def per_sample_gradients(model: nn.Module, weights: dict, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return each image's gradient as a row, shape (images, parameters); accepts handles and tensors."""

    def loss(weights: dict, image: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(functional_call(model, weights, (image[None],)), label[None])

    gradients = vmap(grad(loss), (None, 0, 0))(weights, x, y)
    return torch.cat([g.flatten(1) for g in gradients.values()], 1)


def train_openly(data: DemoData, seed: int, steps: int) -> Curve:
    """Train on the images directly, without clipping or noise."""
    model, curve = build(seed), Curve()
    descent = Descent(model, OPEN_RATE)
    for step in range(steps + 1):
        if step % EVERY == 0 or step == steps:
            curve.steps.append(step)
            curve.accuracies.append(descent.accuracy(data))
        if step < steps:
            weights = {k: w.detach() for k, w in model.named_parameters()}
            descent.step(per_sample_gradients(model, weights, data.x, data.y).mean(0))
    return curve


def train_privately(session: rpc.Session, data: DemoData, seed: int, sigma: float) -> Curve:
    """Train until the budget does not cover another step."""
    model, curve = build(seed), Curve()
    descent = Descent(model, RATE)
    x, y = session.dataset(f"{DATASET}.x"), session.dataset(f"{DATASET}.y")
    terms: dict[str, Any] = {"reduce": "mean", "clip": CLIP, "sigma": sigma}
    spent, step = 0.0, 0
    while True:
        weights = {k: session.send(w.detach()) for k, w in model.named_parameters()}
        gradients: rpc.RPCTensor = per_sample_gradients(model, weights, x, y)  # type: ignore[assignment]
        if step % EVERY == 0:
            spent = gradients.quote(**terms).spent
            _note(curve, step, spent, descent.accuracy(data))
        try:
            mean = gradients.publish(**terms)
        except rpc.BudgetError as error:
            curve.stopped = str(error)
            if curve.steps[-1] != step:
                _note(curve, step, gradients.quote(**terms).spent, descent.accuracy(data))
            return curve
        descent.step(mean)
        step += 1


def _note(curve: Curve, step: int, epsilon: float, accuracy: float) -> None:
    curve.steps.append(step)
    curve.epsilons.append(epsilon)
    curve.accuracies.append(accuracy)


def noise_for(steps: int, images: int, epsilon: float, delta: float) -> float:
    """Return the noise of the mean gradient with which a budget lasts for the given number of steps."""
    return accountant.sigma_of(accountant.rho_of(epsilon, delta) / steps, 2 * CLIP) / images


def run(epsilon: float, delta: float, steps: int, seed: int) -> int:
    """Train both ways and print the table; return the exit status, 1 on an error or a missed bound."""
    console = Console()
    data = load(0, seed)
    images = len(data.y)
    sigma = noise_for(steps, images, epsilon, delta)
    console.print(
        f"{images} digits on the owner's server, {len(data.test_y)} public ones for the test; budget epsilon {epsilon:g} at "
        f"delta {delta:g}, gradients clipped to {CLIP:g}, noise of {sigma * images / CLIP:.1f} times that on their sum"
    )
    try:
        with tempfile.TemporaryDirectory() as directory:
            ledger, options = _owner(Path(directory), data, epsilon, delta)
            with server(*options) as (address, token), rpc.connect(address, token=token) as session:
                private = train_privately(session, data, seed, sigma)
            head = ledger.verify()
            releases = sum(e.kind == "debit" for e in ledger.entries())
            spent = ledger.account(CLIENT, DATASET).epsilon_spent()
            ledger.close()
    except (*FAILURES, AssertionError, OSError, rpc.RPCError) as error:
        console.print(f"[red]failed[/red]: {type(error).__name__}: {error}", highlight=False)
        return 1
    openly = train_openly(data, seed, private.steps[-1])
    console.print(table_of(private, openly))
    console.print(f"stopped: {private.stopped}", highlight=False)
    console.print(
        f"ledger: {releases} releases, epsilon {spent:.4g} spent, verified, last hash {head[:16]}", highlight=False
    )
    problems = misses(private, epsilon, spent)
    for problem in problems:
        console.print(f"[red]missed[/red]: {problem}", highlight=False)
    return 1 if problems else 0


def _owner(directory: Path, data: DemoData, epsilon: float, delta: float) -> tuple[Ledger, list[str]]:
    """Prepare the owner's data files and budgets; return the ledger and the options of ``torchnp serve``."""
    options = []
    for name, tensor in ((f"{DATASET}.x", data.x), (f"{DATASET}.y", data.y)):
        np.save(directory / f"{name}.npy", tensor.numpy())
        options += ["--dataset", f"{name}={directory / name}.npy"]
    ledger = Ledger(directory / "ledger.db", create=True)
    for client in (EVERYBODY, CLIENT):
        ledger.set_budget(DATASET, epsilon, delta, client)
    return ledger, [*options, "--ledger", str(ledger.path)]


def table_of(private: Curve, openly: Curve) -> Table:
    """Return a table of epsilon and accuracy by step."""
    grid = Table(box=None, header_style="bold")
    for name in ("step", "epsilon spent", "accuracy", "without privacy"):
        grid.add_column(name, justify="right")
    for step, epsilon, ours, theirs in zip(private.steps, private.epsilons, private.accuracies, openly.accuracies):
        grid.add_row(str(step), f"{epsilon:.3f}", f"{ours:.1%}", f"{theirs:.1%}")
    return grid


def misses(private: Curve, epsilon: float, spent: float) -> list[str]:
    """Describe the bounds that were missed."""
    found = []
    if not spent <= epsilon or math.isclose(spent, 0):
        found.append(f"epsilon {spent:g} was spent of {epsilon:g}")
    if epsilon >= ENOUGH_EPSILON and private.accuracies[-1] < ACCURACY:
        found.append(f"test accuracy {private.accuracies[-1]:.1%} is below {ACCURACY:.0%}")
    return found
