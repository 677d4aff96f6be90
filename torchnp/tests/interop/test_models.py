"""Models in torch.nn, with forward, backward and optimizer steps, computed by our kernels and compared with torch."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from torchnp.core.target import parse  # noqa: E402
from torchnp.interop import NumpyMode  # noqa: E402
from torchnp.tests.interop.models import CASES, OPTIMIZERS, build, step  # noqa: E402

DTYPES = [torch.float32, torch.float64]


def outcome(name, dtype, p, train, mode=None):
    """Return the loss, gradients and buffers of one step; all start from one seed."""
    model, batch = build(name, dtype, p, train=train)
    if mode is None:
        loss = step(name, model, batch)
    else:
        with mode:
            loss = step(name, model, batch)
    gradients = {k: q.grad for k, q in model.named_parameters()}
    return loss, gradients, dict(model.named_buffers()), torch.get_rng_state()


def check_all_by_kernels(mode):
    assert not mode.fallbacks
    assert set(mode.summary()) <= {"kernel", "derived", "composite", "bookkeeping"}
    assert "kernel" in mode.summary()


@pytest.mark.parametrize("train", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_forward_and_gradients(name, dtype, train):
    mode = NumpyMode()
    torch.testing.assert_close(outcome(name, dtype, 0.0, train, mode), outcome(name, dtype, 0.0, train))
    check_all_by_kernels(mode)


@pytest.mark.parametrize("name", CASES)
def test_dropout_draws_what_torch_draws(name):
    mode = NumpyMode()
    torch.testing.assert_close(outcome(name, torch.float32, 0.3, True, mode), outcome(name, torch.float32, 0.3, True))
    check_all_by_kernels(mode)


@pytest.mark.parametrize("name", CASES)
def test_every_op_agrees_with_torch(name):
    mode = NumpyMode(crosscheck=True)
    outcome(name, torch.float32, 0.3, True, mode)
    check_all_by_kernels(mode)


@pytest.mark.xfail(
    parse(torch.__version__) < (2, 13),
    raises=RuntimeError,
    reason="torch 2.12 fails an internal assertion if torchnp.rpc is imported",
)
@pytest.mark.parametrize("name", CASES)
def test_inference_mode(name):
    model, batch = build(name, torch.float32, train=False)
    with torch.inference_mode():
        expected = step(name, model, batch)
        with NumpyMode() as mode:
            got = step(name, model, batch)
    torch.testing.assert_close(got, expected)
    assert not mode.fallbacks


@pytest.mark.parametrize("name", CASES)
def test_built_and_initialized_from_the_same_seed(name):
    expected, expected_batch = build(name, torch.float32)
    with NumpyMode() as mode:
        model, batch = build(name, torch.float32)
    torch.testing.assert_close(dict(model.state_dict()), dict(expected.state_dict()))
    torch.testing.assert_close(batch, expected_batch)
    check_all_by_kernels(mode)


def trained(name, dtype, optimizer, foreach, steps, mode=None):
    model, batch = build(name, dtype, 0.2)
    optim = OPTIMIZERS[optimizer](model.parameters(), foreach=foreach)

    def run():
        losses = []
        for _ in range(steps):
            optim.zero_grad()
            losses.append(step(name, model, batch).detach())
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optim.step()
        return losses

    if mode is None:
        losses = run()
    else:
        with mode:
            losses = run()
    return losses, dict(model.state_dict()), optim.state_dict()["state"]


@pytest.mark.parametrize("foreach", [False, True], ids=["single", "foreach"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training(optimizer, foreach):
    mode = NumpyMode()
    expected = trained("mlp", torch.float64, optimizer, foreach, 4)
    torch.testing.assert_close(trained("mlp", torch.float64, optimizer, foreach, 4, mode), expected)
    check_all_by_kernels(mode)


# In float32, a gradient that is zero apart from rounding (a bias before a batch norm) decides the direction of Adam's
# step. So Adam is compared in float64, where its epsilon is far larger than the rounding.
@pytest.mark.parametrize(("dtype", "optimizer"), [(torch.float32, "sgd-momentum"), (torch.float64, "adamw")], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_every_model_trains(name, dtype, optimizer):
    mode = NumpyMode()
    expected = trained(name, dtype, optimizer, True, 3)
    torch.testing.assert_close(trained(name, dtype, optimizer, True, 3, mode), expected)
    check_all_by_kernels(mode)


def test_summary_counts_every_call():
    model, batch = build("mlp", torch.float32)
    with NumpyMode() as mode:
        step("mlp", model, batch)
    assert sum(entry["calls"] for entry in mode.summary().values()) == sum(mode.calls.values())
    assert mode.calls["aten::addmm"] == 3
