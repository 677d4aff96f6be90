"""torch's own tools run on the example engine of 46 functional NumPy operators in another process, without special
code."""

from __future__ import annotations

import copy
import pickle
import sys
from concurrent.futures import Future
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

import torchnp
from torchnp.engine import ValueAccessError

ENGINES = Path(torchnp.__file__).parent.parent / "examples" / "engines"

pytestmark = pytest.mark.skipif(not ENGINES.exists(), reason="the examples are beside the package in its sources alone")


class Here:
    """Replaces the pool of processes: the same requests, pickled, run in this process, which is faster."""

    def submit(self, function, *args):
        result = Future()
        result.set_result(function(*pickle.loads(pickle.dumps(args))))
        return result


@pytest.fixture(scope="module")
def example():
    sys.path.insert(0, str(ENGINES))
    import numpy_process

    yield numpy_process.NumpyProcess
    sys.path.remove(str(ENGINES))


@pytest.fixture(scope="module")
def engine(example):
    made = example()
    made.pool.shutdown()
    made.pool = Here()
    return made


def test_in_another_process(example):
    engine = example()
    w = engine.send(torch.eye(3), requires_grad=True)
    (w @ torch.ones(3, 2)).tanh().sum().backward()
    plain = torch.eye(3, requires_grad=True)
    (plain @ torch.ones(3, 2)).tanh().sum().backward()
    torch.testing.assert_close(w.grad.publish(), plain.grad)
    engine.pool.shutdown()


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(5, 8), torch.nn.LayerNorm(8), torch.nn.GELU(), torch.nn.Dropout(0.0), torch.nn.Linear(8, 3)
    )


def data():
    torch.manual_seed(1)
    return torch.randn(7, 5), torch.randint(0, 3, (7,))


def test_it_is_short_and_has_46_operators(engine):
    lines = (ENGINES / "numpy_process.py").read_text().splitlines()
    assert len(lines) <= 60 and len(engine.ops) == 46
    schemas = [torchnp.table.schemas[name] for name in engine.ops]
    assert not any(s.mutates or s.is_view for s in schemas) and not engine.views and not engine.inplace


OPTIMIZERS = {
    "SGD": {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01, "nesterov": True},
    "Adam": {"lr": 0.01, "amsgrad": True},
    "AdamW": {"lr": 0.01},
    "NAdam": {"lr": 0.01},
    "Adamax": {"lr": 0.01},
    "RMSprop": {"lr": 0.01, "centered": True},
    "Adagrad": {"lr": 0.01},
    "Adadelta": {"lr": 0.5},
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(engine, name):
    (x, y), plain = data(), network()
    moved = engine.module(copy.deepcopy(plain))
    for model, a, b in ((plain, x, y), (moved, engine.send(x), engine.send(y))):
        optimizer = getattr(torch.optim, name)(model.parameters(), **OPTIMIZERS[name])
        for _ in range(3):
            optimizer.zero_grad()
            F.cross_entropy(model(a), b).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)
            optimizer.step()
    for p, q in zip(moved.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(p.publish(), q.detach(), rtol=1e-4, atol=1e-5)


def test_anomaly_mode_names_the_forward_call(engine):
    x = engine.send(torch.tensor([1.0, 4.0]), requires_grad=True)
    with torch.autograd.detect_anomaly(check_nan=False):
        x.sqrt().sum().backward()
    assert x.grad.publish().tolist() == [0.5, 0.25]
    with pytest.raises(ValueAccessError, match="check_nan=False"), torch.autograd.detect_anomaly():
        x.sqrt().sum().backward()

    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            raise RuntimeError("it fails")

    with (
        pytest.warns(UserWarning, match="Traceback of forward call"),
        pytest.raises(RuntimeError, match="it fails"),
        torch.autograd.detect_anomaly(check_nan=False),
    ):
        Fails.apply(x).sum().backward()


FUNCTIONS = {
    "grad": lambda f, x: torch.func.grad(lambda x: f(x).sum())(x),
    "vjp": lambda f, x: torch.func.vjp(f, x)[1](torch.ones_like(x))[0],
    "jvp": lambda f, x: torch.func.jvp(f, (x,), (torch.ones_like(x),))[1],
    "vmap": lambda f, x: torch.func.vmap(f)(x),
    "jacrev": lambda f, x: torch.func.jacrev(f)(x[0]),
    "hessian": lambda f, x: torch.func.hessian(lambda x: f(x).sum())(x[0]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_torch_func(engine, name):
    x = torch.linspace(-1, 1, 6).reshape(2, 3)
    f = lambda x: x.sin() * x.exp() + x.tanh()
    torch.testing.assert_close(FUNCTIONS[name](f, engine.send(x)).publish(), FUNCTIONS[name](f, x))


def test_checkpoint(engine):
    (x, y), plain = data(), network()
    moved = engine.module(copy.deepcopy(plain))
    for reentrant in (False, True):
        for model, a, b in ((plain, x, y), (moved, engine.send(x), engine.send(y))):
            model.zero_grad()
            hidden = torch.utils.checkpoint.checkpoint(model, a.clone().requires_grad_(), use_reentrant=reentrant)
            F.cross_entropy(hidden, b).backward()
        for p, q in zip(moved.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(p.grad.publish(), q.grad)


def test_deepcopy_is_another_tensor(engine):
    moved = engine.module(network())
    again = copy.deepcopy(moved)
    with torch.no_grad():
        for p in again.parameters():
            p.zero_()
    assert all(not p.publish().any() for p in again.parameters()) and moved[0].weight.publish().all()
    assert engine.publish(moved.state_dict()).keys() == network().state_dict().keys()


def test_autocast_and_a_grad_scaler(engine):
    (x, y), plain = data(), network()
    moved = engine.module(copy.deepcopy(plain))
    losses = []
    for model, a, b in ((plain, x, y), (moved, engine.send(x), engine.send(y))):
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(2):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                out = model(a)
                assert out.dtype == torch.bfloat16
                loss = F.cross_entropy(out.float(), b)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        losses.append(loss)
    torch.testing.assert_close(losses[1].publish(), losses[0].detach(), rtol=1.6e-2, atol=1e-3)


def test_double_backward_and_hooks(engine):
    x = engine.send(torch.tensor([0.5, -1.0]), requires_grad=True)
    seen = []
    x.register_hook(lambda grad: seen.append(grad.shape))
    (first,) = torch.autograd.grad((x.tanh() * x).sum(), x, create_graph=True)
    first.sum().backward()
    plain = torch.tensor([0.5, -1.0], requires_grad=True)
    (wanted,) = torch.autograd.grad((plain.tanh() * plain).sum(), plain, create_graph=True)
    wanted.sum().backward()
    torch.testing.assert_close(x.grad.publish(), plain.grad)
    assert len(seen) == 2
