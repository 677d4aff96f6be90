"""torch programs on shares: training, modules, indices, and refusals."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from torchnp import mpc

# Results of a few operators, in units of 2**-18: the roundings of each operator add up.
CLOSE = {"rtol": 2.0**-12, "atol": 2.0**-12}


@pytest.fixture(scope="module")
def engine():
    return mpc.local()


def trained(model, optimizer, x, y, loss, steps=5):
    optimizer = optimizer(model.parameters())
    for _ in range(steps):
        optimizer.zero_grad()
        value = loss(model(x), y)
        value.backward()
        optimizer.step()
    return value.detach()


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.02, momentum=0.9, nesterov=True, weight_decay=0.01)


def adam(parameters):
    return torch.optim.Adam(parameters, lr=0.01, eps=0.01)


@pytest.mark.parametrize("parties", [2, 3])
def test_a_linear_regression(parties):
    torch.manual_seed(0)
    x = torch.randn(40, 3)
    y = x @ torch.tensor([[1.0], [-2.0], [0.5]]) + 0.3
    model, engine = nn.Linear(3, 1), mpc.local(parties=parties)
    there = engine.module(model, owner=parties - 1)
    loss = trained(there, sgd, engine.send(x), engine.send(y, owner=1), F.mse_loss, 20)
    right = trained(model, sgd, x, y, F.mse_loss, 20)
    assert engine.traffic.published == 0
    torch.testing.assert_close(loss.publish(), right, **CLOSE)
    torch.testing.assert_close(there.weight.publish(), model.weight.detach(), **CLOSE)


@pytest.mark.parametrize("optimizer", [sgd, adam])
def test_a_convolutional_network_of_secret_classes(engine, optimizer):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1, bias=False), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(18, 4),
    )  # fmt: skip
    x, y = torch.randn(8, 1, 6, 6), torch.randint(4, (8,))
    there, plain = engine.module(model), copy.deepcopy(model)
    summed = lambda scores, classes: F.cross_entropy(
        scores, classes, reduction="sum"
    )  # the squares of a mean's gradients vanish
    loss = trained(there, optimizer, engine.send(x), engine.send(y, owner=1), summed, 2)
    right = trained(plain, optimizer, x, y, summed, 2)
    # After one step. In the gradient of a weight, the rounded mean of a batch norm is added over 288 positions, so the
    # error is 288 units. Adam's second moment of a gradient of 0.1 is three units.
    torch.testing.assert_close(loss.publish(), right, rtol=0.02, atol=0)


def test_batch_norm_in_evaluation(engine):
    torch.manual_seed(0)
    model, x = nn.BatchNorm2d(3), torch.randn(4, 3, 2, 2)
    model.weight.data.uniform_(), model.bias.data.uniform_()
    model(x * 2 + 1)
    model.eval()
    with torch.no_grad():
        torch.testing.assert_close(engine.module(model)(engine.send(x)).publish(), model(x), **CLOSE)


def test_embedding_of_secret_indices(engine):
    torch.manual_seed(0)
    table, index = nn.Embedding(11, 3, padding_idx=2), torch.tensor([[1, 2, 10], [1, 0, 7]])
    there = engine.module(table)
    there(engine.send(index)).square().sum().backward()
    table(index).square().sum().backward()
    torch.testing.assert_close(there.weight.grad.publish(), table.weight.grad, **CLOSE)


def test_secret_indices_are_read_and_written(engine):
    torch.manual_seed(0)
    x, index = torch.randn(4, 5), torch.tensor([[0, 4, 2], [1, 1, 3]])
    there, secret = engine.send(x), engine.send(index)
    for f in (
        lambda x, i: x.gather(1, i), lambda x, i: x.scatter_add(1, i, x), lambda x, i: x.index_select(1, i[0]),
        lambda x, i: x.index_add(1, i[0], x[:, :3], alpha=0.5), lambda x, i: x.scatter(1, i[:1], x),
        lambda x, i: F.one_hot(i, 5).float() @ x.T, lambda x, i: x.argmax(1), lambda x, i: x.max(0).indices,
    ):  # fmt: skip
        torch.testing.assert_close(f(there, secret).publish(), f(x, index), **CLOSE)


def test_dropout_and_views(engine):
    x = torch.randn(6, 4)
    there = engine.send(x)
    torch.manual_seed(1)
    wanted = F.dropout(x, 0.5)
    torch.manual_seed(1)
    torch.testing.assert_close(F.dropout(there, 0.5).publish(), wanted, **CLOSE)
    for t in (x, there):
        t[1:3].mul_(2)
        t.T[0] = 5
    torch.testing.assert_close(there.publish(), x, **CLOSE)


def test_conversions_and_logic(engine):
    x = torch.tensor([-1.5, -1.0, 0.0, 0.25, 2.75])
    there = engine.send(x)
    for f in (
        lambda x: x.long(), lambda x: x.bool(), lambda x: x.floor(), lambda x: x.trunc(), lambda x: (x > 0) | (x < -1),
        lambda x: ~(x == 0) & (x != 2.75), lambda x: x.long().float() * 0.5, lambda x: torch.where(x > 0, x, -x),
        lambda x: (x > 0).any(), lambda x: (x > 0).sum(),
    ):  # fmt: skip
        assert torch.equal(f(there).publish(), f(x))


def test_what_is_refused(engine):
    with pytest.raises(OverflowError, match="below 2"):
        engine.send(torch.tensor([float("nan")]))
    with pytest.raises(OverflowError):
        engine.send(torch.tensor([2.0**45]))
    with pytest.raises(ValueError, match="owner is a party, 0 to 1, not 2"):
        engine.send(torch.ones(2), owner=2)
    with pytest.raises(ValueError, match="at least 2 parties"):
        mpc.local(parties=1)
    with pytest.raises(ValueError, match="bits must be between"):
        mpc.local(bits=30)
    x = engine.send(torch.randn(3, 4))
    with pytest.raises(ValueError, match="sorting compares each pair of elements"):
        torch.sort(engine.send(torch.zeros(10_000)))
    with pytest.raises(ValueError, match="split the index"):
        torch.zeros(10_000)[engine.send(torch.zeros(10_000, dtype=torch.int64))]
    with pytest.raises(NotImplementedError, match="secret shares has no such operator"):
        torch.linalg.svd(x)


@pytest.mark.parametrize("mask", [[True, False, True], [False, True, False], [True, True, True]])
def test_some_gradients_of_a_convolution(engine, mask):
    torch.manual_seed(0)
    tensors = torch.randn(2, 6, 3, 2), torch.randn(2, 4, 5, 1), torch.randn(4, 3, 2, 1)
    backward = lambda *given: torch.ops.aten.convolution_backward(
        *given, [6], [1, 3], [2, 0], [2, 1], True, [0, 1], 2, mask
    )
    for asked, got, want in zip(mask, backward(*map(engine.send, tensors)), backward(*tensors), strict=True):
        if asked:
            torch.testing.assert_close(got.publish(), want, **CLOSE)
        else:
            assert got is None or not got.publish().any()
