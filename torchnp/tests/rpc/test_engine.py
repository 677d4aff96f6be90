"""A second engine based on handles, from ``examples/engines``: torch programs, and refusals."""

from __future__ import annotations

import copy
import sys
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

import torchnp
from torchnp import rpc

HERE = Path(torchnp.__file__).parent.parent / "examples" / "engines"

pytestmark = pytest.mark.skipif(not HERE.exists(), reason="the examples are beside the package in its sources alone")


@pytest.fixture
def engine(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))
    from doubled import Doubled

    yield Doubled()
    sys.modules.pop("doubled")


def trained(model, x, y):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(10):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    return loss


def test_a_program_in_float32_is_computed_in_float64(engine):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.LayerNorm(16), torch.nn.GELU(), torch.nn.Linear(16, 3))
    x, y = torch.randn(20, 6), torch.randint(0, 3, (20,))
    loss = trained(engine.module(model), engine.send(x), engine.send(y))
    right = trained(copy.deepcopy(model).double(), x.double(), y)
    rounded = trained(copy.deepcopy(model), x, y)
    assert loss.dtype == torch.float32 and loss.exact().dtype == torch.float64
    assert abs(loss.exact() - right) < 1e-10 < abs(rounded - right)


def test_views_randomness_lists_and_plain_tensors(engine):
    x = engine.send(torch.arange(12.0).reshape(3, 4))
    x.t()[1].mul_(2)
    x[:, 2:].add_(torch.ones(2))
    plain = torch.arange(12.0).reshape(3, 4)
    plain.t()[1].mul_(2)
    plain[:, 2:].add_(torch.ones(2))
    assert torch.equal(x.exact(), plain.double())
    a, b = torch.stack([x, x.exp()]).split([1, 1])
    assert torch.equal(a.exact()[0], plain.double()) and torch.allclose(b.exact()[0], plain.double().exp())
    torch.manual_seed(3)
    first = F.dropout(x).exact()
    torch.manual_seed(3)
    assert torch.equal(F.dropout(x).exact(), first)
    assert torch.equal(torch.func.vmap(torch.sin)(x).exact(), plain.double().sin())


def test_it_refuses_in_its_own_name(engine):
    x = engine.send(torch.ones(3))
    assert repr(x) == "DoubledTensor(shape=(3,), dtype=float32, on='float64')"
    with pytest.raises(rpc.ValueAccessError, match=r"of shape \(\) is in float64"):
        float(x[0])
    with pytest.raises(rpc.HandleError, match="what is in float64"):
        torch.ones(3).add_(x)
    with pytest.raises(rpc.HandleError, match="no lazy conjugates"):
        engine.send(torch.ones(3, dtype=torch.complex64)).conj()
    with rpc.local() as session:
        for both in (lambda: x + session.send(torch.ones(3)), lambda: session.send(torch.ones(3)) + x):
            with pytest.raises(rpc.HandleError, match="cannot meet"):
                both()
        with pytest.raises(rpc.HandleError, match="is a handle already"):
            session.send(x)
        with pytest.raises(rpc.HandleError, match="of float64"):
            session.module(torch.nn.ParameterList([torch.nn.Parameter(x)]))


def test_an_engine_that_says_nothing():
    class Nothing(rpc.Engine):
        name, index, kind = "nothing", torchnp.table, rpc.BaseHandleTensor

    with pytest.raises(TypeError, match="Nothing does not say how a tensor gets there"):
        Nothing().send(torch.ones(3))
