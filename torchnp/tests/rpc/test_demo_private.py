"""`torchnp demo --private`: an owner's server, a budget, and what happens when it is spent."""

from __future__ import annotations

import re

import pytest
import torch

from torchnp import cli, demo_private


def test_it_trains_until_the_budget_is_gone(capsys):
    assert cli.main(["demo", "--private", "--steps", "6", "--epsilon", "2"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    steps = re.findall(r"(\d+) (\d\.\d+) (\d+\.\d)% (\d+\.\d)%", said)
    assert [int(s[0]) for s in steps] == [0, 5, 6]
    assert [float(s[1]) for s in steps] == sorted(float(s[1]) for s in steps) and 1.99 < float(steps[-1][1]) <= 2
    assert float(steps[-1][2]) > float(steps[0][2]) + 20  # the model learns
    assert "6 releases, epsilon 2 spent, verified" in said
    assert "stopped: the budget of 'digits' for the client 'client' is not enough" in said


def test_training_openly_reaches_what_such_a_model_can():
    data = demo_private.load(0, 0)
    curve = demo_private.train_openly(data, 0, 40)
    assert curve.accuracies[-1] > 0.92 and curve.steps[-1] == 40


def test_gradients_are_those_of_each_image_alone():
    data, model = demo_private.load(0, 0), demo_private.build(0)
    rows = demo_private.per_sample_gradients(model, dict(model.named_parameters()), data.x[:5], data.y[:5])
    torch.nn.functional.cross_entropy(model(data.x[3:4]), data.y[3:4]).backward()
    alone = torch.cat([p.grad.flatten() for p in model.parameters()])
    assert torch.allclose(rows[3], alone, atol=1e-6)


@pytest.mark.parametrize("wrong", [("--epsilon", "0"), ("--epsilon", "nan"), ("--delta", "1"), ("--steps", "0")])
def test_wrong_options_are_said(wrong, capsys):
    assert cli.main(["demo", "--private", *wrong]) == 2
    assert "--epsilon is above 0" in capsys.readouterr().err
