"""A GradScaler over handles behaves like torch's, skipped steps included, and nothing leaves the server."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from torchnp import rpc

OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1),
    "SGD-momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "SGD-fused": lambda p: torch.optim.SGD(p, lr=0.1, fused=True),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.1),
    "Adam-amsgrad": lambda p: torch.optim.Adam(p, lr=0.1, amsgrad=True, weight_decay=0.1, foreach=True),
    "Adam-fused": lambda p: torch.optim.Adam(p, lr=0.1, fused=True),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.1),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.1, momentum=0.5, centered=True),
    "Adadelta": lambda p: torch.optim.Adadelta(p, lr=0.1),
    "Rprop": lambda p: torch.optim.Rprop(p, lr=0.1),
    "Muon": lambda p: torch.optim.Muon([q for q in p if q.dim() == 2], lr=0.1),
}
INFINITE = (0, 3)  # steps whose loss overflows


@pytest.fixture
def session():
    with rpc.local() as s:
        yield s


def trained(model, make, x, explicit):
    """Return the optimizer and the scaler after some steps, the first of which is skipped."""
    optimizer = make(list(model.parameters()))
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=3)
    for i in range(6):
        model.zero_grad()
        loss = model(x).square().mean() * (float("inf") if i in INFINITE else 1.0)
        scaler.scale(loss).backward()
        if explicit:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    return optimizer, scaler


@pytest.mark.parametrize("explicit", [False, True], ids=["step", "unscale"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_with_a_scaler(session, name, explicit):
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)), torch.randn(5, 3)
    moved, h = session.module(model), session.send(x)
    wanted, scaler = trained(copy.deepcopy(model), OPTIMIZERS[name], x, explicit)
    trips = session.stats.round_trips
    got, remote = trained(moved, OPTIMIZERS[name], h, explicit)
    assert session.stats.round_trips == trips
    assert remote._scale.publish() == scaler._scale == 2.0
    assert remote._growth_tracker.publish() == scaler._growth_tracker
    mine, theirs = session.publish(got.state_dict()), wanted.state_dict()
    assert mine["param_groups"] == theirs["param_groups"]
    torch.testing.assert_close(mine["state"], theirs["state"], rtol=1e-4, atol=1e-6)
    for group, other in zip(got.param_groups, wanted.param_groups, strict=True):
        for p, q in zip(group["params"], other["params"], strict=True):
            torch.testing.assert_close(p.detach().publish(), q.detach(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("make", [torch.optim.NAdam, lambda p: torch.optim.SGD(p, momentum=0.9, dampening=0.5)])
def test_optimizers_that_cannot_be_selected_say_which_can(session, make):
    model = session.module(nn.Linear(3, 1))
    optimizer, scaler = make(model.parameters()), torch.amp.GradScaler("cpu")
    scaler.scale(model(session.send(torch.ones(2, 3))).mean()).backward()
    with pytest.raises(rpc.HandleError, match=r"Adadelta, Adam, .* autocast to bfloat16"):
        scaler.step(optimizer)


def test_what_reads_the_scale_says_how_to_see_it(session):
    model = session.module(nn.Linear(3, 1))
    optimizer, scaler = torch.optim.SGD(model.parameters()), torch.amp.GradScaler("cpu")
    assert scaler.get_scale() == 65536.0
    scaler.scale(model(session.send(torch.ones(2, 3))).mean()).backward()
    scaler.step(optimizer)
    scaler.update()
    with pytest.raises(rpc.ValueAccessError, match=r"publish scaler\._scale"):
        scaler.get_scale()
    scaler.update(4.0)
    assert scaler._scale.publish() == 4.0


def test_plain_models_are_scaled_as_ever(session):
    model = nn.Linear(3, 1)
    optimizer, scaler = trained(model, torch.optim.NAdam, torch.ones(2, 3), True)
    assert scaler.get_scale() == 2.0
    assert all(state["step"] == 4 for state in optimizer.state.values())
