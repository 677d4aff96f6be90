"""Nested tensors, copies, and parts of torch around a model: what they need from a session."""

from __future__ import annotations

import copy
import dataclasses
import io
import tracemalloc
from collections import OrderedDict
from typing import NamedTuple

import numpy as np
import pytest
import torch
import torch.utils.checkpoint
from torch import nn
from torch.nn import functional as F

from torchnp import rpc
from torchnp.rpc import wire

# ---------------------------------------------------------------- nests of tensors, copies


@dataclasses.dataclass(frozen=True)
class Batch:
    images: torch.Tensor
    names: tuple[str, ...] = ("a", "b")


class Pair(NamedTuple):
    first: torch.Tensor
    second: float


def test_nests_go_there_and_back(session):
    t = torch.randn(2, 3, requires_grad=True)
    nest = {
        "state": OrderedDict(a=t, b=np.arange(3)),
        "list": [t, [t, 1], "word", None],
        "pair": Pair(t, 2.5),
        "batch": Batch(torch.arange(2)),
        "group": {"lr": 0.1, "betas": (0.9, 0.999), "step": torch.tensor(3.0)},
    }
    there = session.send(nest)
    assert type(there["state"]) is OrderedDict
    assert isinstance(there["state"]["b"], rpc.RPCTensor)
    assert there["list"][0].requires_grad
    assert there["list"][1][1:] + there["list"][2:] == [1, "word", None]
    assert isinstance(there["pair"], Pair)
    assert isinstance(there["batch"].images, rpc.RPCTensor)
    assert there["batch"].names == ("a", "b")
    assert there["group"]["betas"] == (0.9, 0.999)
    assert type(there["group"]["step"]) is torch.Tensor  # optimizers read this tensor
    back = session.publish(there)
    assert torch.equal(back["list"][1][0], t)
    assert back["state"]["b"].tolist() == [0, 1, 2]
    assert back["pair"].second == 2.5
    assert isinstance(nest["state"]["b"], np.ndarray)  # the argument is unchanged
    assert session.send([[1, 2], [3, 4]]).shape == (2, 2)
    assert session.publish(session.send(t)).shape == (2, 3)


@pytest.mark.parametrize("name", ["Adam", "SGD", "NAdam", "ASGD"])
def test_training_is_saved_and_resumed(session, name):
    torch.manual_seed(0)
    x, y = session.send([torch.randn(8, 3), torch.randn(8, 1)])
    plain = torch.nn.Linear(3, 1)

    def begin(model):
        options = {"momentum": 0.9} if name == "SGD" else {}
        return model, getattr(torch.optim, name)(model.parameters(), lr=0.05, **options)

    def train(model, optimizer, n):
        for _ in range(n):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
        return session.publish(model.state_dict())

    want = train(*begin(session.module(plain)), 6)
    model, optimizer = begin(session.module(plain))
    train(model, optimizer, 3)
    file = io.BytesIO()
    torch.save(session.publish({"model": model.state_dict(), "optimizer": optimizer.state_dict()}), file)
    file.seek(0)
    saved = session.send(torch.load(file))
    model, optimizer = begin(session.module(torch.nn.Linear(3, 1)))
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    got = train(model, optimizer, 3)
    for key, value in want.items():
        torch.testing.assert_close(got[key], value)


def test_copies_are_made_there(session):
    model = session.module(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)))
    before = session.stats.round_trips
    twin, again = copy.deepcopy(model), session.module(model)
    assert session.stats.round_trips == before
    for other in (twin, again):
        for (name, p), q in zip(model.state_dict(keep_vars=True).items(), other.state_dict(keep_vars=True).values()):
            assert p is not q, name
            assert type(p) is type(q)
            assert p.requires_grad == q.requires_grad
            assert isinstance(p, torch.nn.Parameter) == isinstance(q, torch.nn.Parameter)
            assert torch.equal(p.publish(), q.publish())
    with torch.no_grad():
        model[0].weight.add_(1)
    assert not torch.equal(model[0].weight.publish(), twin[0].weight.publish())
    tied = [w := session.send(torch.ones(2), requires_grad=True), w]
    w.grad = w.detach() * 3
    first, second = copy.deepcopy(tied)
    assert first is second
    assert first.grad.publish().tolist() == [3, 3]
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(w * 2)
    with rpc.local() as elsewhere, pytest.raises(rpc.HandleError, match="publish its state_dict"):
        elsewhere.module(model)


def test_averaged_models_and_target_networks(session):
    torch.manual_seed(0)
    plain = torch.nn.Linear(3, 2)
    models = {"here": plain, "there": session.module(plain)}
    averaged = {
        key: torch.optim.swa_utils.AveragedModel(m, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
        for key, m in models.items()
    }
    for key, m in models.items():
        for i in range(3):
            with torch.no_grad():
                for p in m.parameters():
                    p.mul_(1.5 + i)
            averaged[key].update_parameters(m)
    got = session.publish(averaged["there"].state_dict())
    for name, value in averaged["here"].state_dict().items():
        torch.testing.assert_close(got[name], value)


# ---------------------------------------------------------------- around a model


def test_batch_norm_without_momentum(session):
    x = torch.randn(5, 4, 3)
    plain = nn.BatchNorm1d(4, momentum=None)
    there = session.module(plain)
    for _ in range(3):
        torch.testing.assert_close(there(session.send(x)).publish(), plain(x))
    for name, value in session.publish(there.state_dict()).items():
        torch.testing.assert_close(value, plain.state_dict()[name])


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize(
    ("dtype", "own"),
    [(torch.float32, torch.float32), (torch.bfloat16, torch.float32), (torch.bfloat16, torch.bfloat16)],
    ids=["float32", "mixed", "bfloat16"],
)
def test_saved_statistics_of_a_batch_norm_are_the_cpus(session, dtype, own, train):
    x, mean, var = torch.randn(3, 2, 4, dtype=dtype), torch.zeros(2, dtype=own), torch.ones(2, dtype=own)
    got = torch.native_batch_norm(*session.send([x]), None, None, *session.send([mean, var]), train, 0.1, 1e-5)
    want = torch.native_batch_norm(x, None, None, mean, var, train, 0.1, 1e-5)
    for a, b in zip(got, want, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        torch.testing.assert_close(a.publish(), b, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("lengths", [torch.tensor, list], ids=["tensors", "lists"])
def test_ctc_loss(session, lengths):
    scores, targets = torch.randn(10, 2, 5), torch.tensor([[1, 2, 3], [2, 3, 4]])
    grads = []
    for p, t in ((scores.clone().requires_grad_(), targets), (session.send(scores, True), session.send(targets))):
        loss = F.ctc_loss(p.log_softmax(-1), t, lengths([10, 9]), lengths([3, 2]))
        loss.backward()
        grads.append((loss.detach(), p.grad))
    for a, b in zip(*grads, strict=True):
        torch.testing.assert_close(b.publish(), a)
    with pytest.raises(rpc.ValueAccessError, match="lengths that are plain tensors or lists"):
        F.ctc_loss(p.log_softmax(-1), t, session.send(torch.tensor([10, 9])), torch.tensor([3, 2]))


def test_transforms_of_torch_func(session):
    x, w = torch.randn(6, 3), torch.randn(3, 2)
    model = nn.Linear(3, 2)
    there = session.module(model)

    def loss(w, x):
        return (x @ w).tanh().square().sum()

    per_sample = torch.func.vmap(torch.func.grad(loss), (None, 0))
    got = per_sample(*session.send([w, x]))
    torch.testing.assert_close(got.publish(), per_sample(w, x))
    jacobian = torch.func.jacrev(lambda w: (x @ w).sum(0))(w)
    hx = session.send(x)
    torch.testing.assert_close(torch.func.jacfwd(lambda w: (hx @ w).sum(0))(session.send(w)).publish(), jacobian)
    called = torch.func.functional_call(there, dict(there.named_parameters()), (hx,))
    torch.testing.assert_close(called.publish(), model(x).detach())


def test_batches_of_a_data_loader(session):
    data = torch.utils.data.TensorDataset(torch.arange(12.0).reshape(6, 2), torch.arange(6))
    loader = torch.utils.data.DataLoader(data, batch_size=2, num_workers=1)
    seen = [session.publish(session.send(batch)) for batch in loader]
    assert torch.equal(torch.cat([x for x, _ in seen]), data.tensors[0])
    assert torch.cat([y for _, y in seen]).tolist() == list(range(6))


def test_what_reads_values_says_what_to_do_instead(session):
    x = session.send(torch.randn(6, 4))
    model = session.module(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    off = torch.amp.GradScaler("cpu", enabled=False)
    off.scale(model(x).mean()).backward()
    off.step(optimizer)
    with pytest.raises(rpc.ValueAccessError, match=r"give its step\(\) what .publish\(\) gives"):
        torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer).step(model(x).mean())
    with pytest.raises(rpc.ValueAccessError, match="indices of tensor_split"):
        torch.tensor_split(x, session.send(torch.tensor([2, 4])))
    with pytest.raises(rpc.ValueAccessError, match="looks at values to know the shapes"):
        nn.utils.rnn.pack_padded_sequence(x[..., None], session.send(torch.tensor([6, 5, 4, 3])))
    with pytest.raises(rpc.ValueAccessError, match=r"0\.5 \* \(var"):
        F.gaussian_nll_loss(x, x, x.square())
    with pytest.raises(rpc.ValueAccessError, match="initialise the module before"):
        nn.init.trunc_normal_(model.weight)
    with pytest.raises(rpc.ValueAccessError, match="change a module before"):
        nn.utils.parametrizations.orthogonal(session.module(nn.Linear(3, 3)))
    with pytest.raises(rpc.ValueAccessError, match="computes with its counter"):
        norm = session.module(nn.BatchNorm1d(4))
        norm.momentum = None
        norm(x)
    with pytest.raises(rpc.ValueAccessError, match="tgt_is_causal="):
        mask = session.send(nn.Transformer.generate_square_subsequent_mask(6))
        session.module(nn.Transformer(4, 2, 1, 1, 8))(x, x, tgt_mask=mask)
    with pytest.raises(rpc.HandleError, match=r"layout torch\.sparse_coo: .*sparse=False"):
        table = session.module(nn.Embedding(4, 2, sparse=True))
        table(session.send(torch.tensor([1]))).sum().backward()
    with pytest.raises(rpc.HandleError, match=r"load_state_dict\(session\.send\(state\)\)"):
        plain = nn.Linear(4, 1)
        here, there = (torch.optim.Adam(m.parameters()) for m in (plain, model))
        plain(torch.ones(1, 4)).sum().backward()
        here.step()
        there.load_state_dict(here.state_dict())
        there.step()
    with pytest.raises(rpc.ValueAccessError, match="the window of istft"):
        torch.istft(torch.ones(3, 5, dtype=torch.complex64), 4, window=session.send(torch.ones(4)))
    with pytest.raises(rpc.HandleError, match="0.weight of the module has no shape yet: call the module once"):
        session.module(nn.Sequential(nn.LazyLinear(2)))
    counts, edges = torch.histogram(x.flatten(), 3)  # the meta device does not support this operator
    assert (counts.shape, edges.shape) == ((3,), (4,))
    assert counts.publish().sum() == 24
    labels = session.send(torch.tensor([0, 1, 2, 3, 0, 1]))
    want = F.multi_margin_loss(x.publish(), labels.publish())
    torch.testing.assert_close(F.multi_margin_loss(x, labels).publish(), want)
    with pytest.raises(RuntimeError, match=r"Expected target size \[6\]"):
        F.multi_margin_loss(x, labels[:3])


def test_packed_sequences(session):
    """If lengths are plain tensors, the client knows them, and so the shapes that they make."""
    torch.manual_seed(1)
    model, x = nn.LSTM(3, 4, bidirectional=True), torch.randn(5, 3, 3)

    def run(model, x):
        packed = nn.utils.rnn.pack_padded_sequence(x, [2, 5, 1], enforce_sorted=False)
        out, (h, _) = model(packed)
        padded, lengths = nn.utils.rnn.pad_packed_sequence(out, padding_value=0.5)
        (padded.square().sum() + h.sum()).backward()
        return padded, h, lengths, [p.grad for p in model.parameters()]

    want = run(model, x)
    model.zero_grad()
    torch.testing.assert_close(session.publish(run(session.module(model), session.send(x))), want)


def test_smoothed_labels_with_plain_weights(session):
    x, target, weight = torch.randn(5, 3), torch.tensor([0, 1, 2, -100, 0]), torch.tensor([1.0, 2.0, 3.0])
    for reduction in ("mean", "none"):
        options = {"weight": weight, "label_smoothing": 0.1, "reduction": reduction}
        got = F.cross_entropy(session.send(x), session.send(target), **options)
        torch.testing.assert_close(got.publish(), F.cross_entropy(x, target, **options))


def test_parametrizations(session):
    torch.manual_seed(2)
    model, x = nn.Linear(4, 3), torch.randn(2, 4)

    def run(model, x):
        nn.utils.parametrizations.weight_norm(model)
        with torch.no_grad():
            model.parametrizations.weight.original0.mul_(2)
        seen = model(x)
        nn.utils.parametrize.remove_parametrizations(model, "weight")
        return seen, model(x), model.weight

    torch.testing.assert_close(session.publish(run(session.module(model), session.send(x))), run(model, x))


def test_publishing_holds_a_tensor_once(session):
    x = session.send(torch.ones(20 << 18))
    session.sync()
    tracemalloc.start()
    values = x.publish()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < values.nbytes + 2 * wire.WINDOW  # one copy, and the data in transit, as messages and as frames
