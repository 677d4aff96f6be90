"""Training over handles gives torch's results: random numbers, models, optimizers, and the objects left on the
server."""

from __future__ import annotations

import contextlib
import gc
import os
import sys

import pytest
import torch
import torch.utils.checkpoint
from torch import nn
from torch.nn import functional as F

from torchnp import rpc
from torchnp.engine.tensor import shape_inference
from torchnp.tests.interop import models
from torchnp.tests.rpc import server_pool
from torchnp.tests.rpc.keyed_random import Keyed

# ---------------------------------------------------------------- random numbers


def draws(x):
    """Return some random operators over x, one after the other."""
    yield F.dropout(x, 0.3)
    yield torch.rand_like(x)
    yield x.clone().uniform_(-1, 1)
    yield torch.bernoulli(x * 0.5)
    yield torch.randn_like(x)
    yield F.rrelu(-x, training=True)
    yield torch.nn.functional.gumbel_softmax(x)
    yield torch.distributions.Normal(x, 2.0, validate_args=False).sample()
    yield torch.distributions.Gamma(x, x, validate_args=False).rsample()
    yield torch.distributions.Categorical(x, validate_args=False).sample()


def test_random_numbers_are_those_of_keys_from_torchs_generator(session):
    torch.manual_seed(3)
    with Keyed():
        want = list(draws(torch.ones(4, 5)))
    local = torch.rand(3)
    h = session.send(torch.ones(4, 5))
    for seed in (torch.manual_seed, session.manual_seed):
        seed(3)
        for a, b in zip(draws(h), want, strict=True):
            torch.testing.assert_close(a.publish(), b, rtol=1e-6, atol=3e-7)
        assert torch.equal(torch.rand(3), local)  # the local generator continues from the same point


@pytest.mark.parametrize("n", range(5))
@pytest.mark.parametrize("seed", [3, -1, 2**40 + 7])
def test_the_first_numbers_after_a_seed_are_torchs(session, n, seed):
    x = torch.ones(4, 5)
    h = session.send(x)
    ops = [
        F.dropout,
        torch.rand_like,
        lambda t: t.clone().uniform_(),
        lambda t: torch.bernoulli(t / 2),
        torch.randn_like,
    ]
    torch.manual_seed(seed)
    want = ops[n](x)
    torch.manual_seed(seed)
    got = ops[n](h)
    torch.testing.assert_close(got.publish(), want, rtol=0, atol=3e-7)


def test_a_generator_gives_the_numbers_and_moves_alone(session):
    h = session.send(torch.ones(50) / 2)
    g = torch.Generator().manual_seed(4)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first, second = (torch.bernoulli(h, generator=g).publish() for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first, torch.bernoulli(torch.ones(50) / 2, generator=torch.Generator().manual_seed(4)))
    assert not torch.equal(first, second)
    state = g.get_state()
    third = h.clone().normal_(generator=g).publish()
    assert torch.equal(h.clone().normal_(generator=g.set_state(state)).publish(), third)
    noise = torch.ops.aten.rrelu_with_noise(-h, torch.ones_like(h), 0.1, 0.3, True, g)
    assert (noise.publish() < 0).all()


def test_to_find_a_shape_draws_nothing(session, monkeypatch):
    """Neither the first call of an operator nor later ones draw, although the CPU runs those that the meta device
    lacks."""
    monkeypatch.setattr(shape_inference, "OUTCOMES", {})
    alpha = session.send(torch.tensor([1.0, 2.0, 3.0]))
    for sample in (
        torch._sample_dirichlet,
        lambda x: torch.distributions.Beta(x, x, validate_args=False).sample(),
        torch._standard_gamma,
        lambda x: torch.multinomial(x, 2),
        lambda x: torch.binomial(x, x / 4),
    ):
        first, again = (sample(seeded(alpha)).publish() for _ in range(2))
        assert torch.equal(first, again), sample


def seeded(x):
    torch.manual_seed(3)
    return x


def test_a_checkpoint_draws_the_same_mask_again(session):
    w = torch.randn(30, 30)
    grads = []
    for kept in (lambda f, *a: f(*a), torch.utils.checkpoint.checkpoint):
        for reentrant in (True, False):
            p = session.send(w, requires_grad=True)
            options = {} if not grads or kept is not torch.utils.checkpoint.checkpoint else {"use_reentrant": reentrant}
            torch.manual_seed(8)
            y = kept(lambda p: F.dropout(F.dropout(p, 0.5) @ p, 0.5).square(), p, **options)
            (y.sum() + F.dropout(p, 0.5).sum()).backward()
            grads.append(p.grad.publish())
    for grad in grads[1:]:
        torch.testing.assert_close(grad, grads[0])


def test_sessions_do_not_disturb_each_other(session):
    """A session's random numbers do not depend on what another session does on its server meanwhile."""
    with server_pool.session("local") as other:
        a, b = session.send(torch.zeros(50)), other.send(torch.zeros(50))
        g = torch.Generator().manual_seed(1)
        alone = [a.clone().uniform_(generator=g).publish() for _ in range(3)]
        g.manual_seed(1)
        for x in alone:
            torch.rand_like(b)
            assert torch.equal(a.clone().uniform_(generator=g).publish(), x)
            other.sync()


def test_fork_rng_and_split_streams(session):
    h = session.send(torch.zeros(9))
    torch.manual_seed(2)
    want = torch.rand_like(h).publish()
    torch.manual_seed(2)
    with torch.random.fork_rng(devices=[]):
        inside = torch.rand_like(h).publish()
    assert torch.equal(inside, want)
    assert torch.equal(torch.rand_like(h).publish(), want)
    assert not torch.equal(torch.rand_like(h).publish(), want)


# ---------------------------------------------------------------- models and optimizers


@pytest.mark.parametrize("name", models.CASES)
@pytest.mark.parametrize("train", [True, False], ids=["train", "eval"])
def test_models(session, name, train):
    mine, batch = models.build(name, torch.float32, train=train)
    want = models.step(name, mine, batch)
    torch.manual_seed(7)
    model, batch = models.build(name, torch.float32, train=train)
    remote = session.module(model)
    loss = models.CASES[name].loss(remote(session.send(batch)), session.send(models.LABELS))
    if train:
        loss.backward()
    torch.testing.assert_close(loss.publish(), want.detach())
    theirs = dict(remote.named_parameters())
    for key, p in mine.named_parameters() if train else ():
        torch.testing.assert_close(theirs[key].grad.publish(), p.grad, rtol=1e-4, atol=2e-5)
    there = dict(remote.named_buffers())
    for key, b in mine.named_buffers():
        torch.testing.assert_close(there[key].publish(), b)


def test_fused_transformer_routes_are_not_taken(session):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.TransformerEncoder(layer, 2).eval()
    x = torch.randn(3, 5, 8)
    padding = torch.tensor([[False] * 5, [False] * 4 + [True], [False] * 3 + [True] * 2])
    remote = session.module(model)
    with torch.no_grad():
        got = remote(session.send(x), src_key_padding_mask=session.send(padding)).publish()
        torch.backends.mha.set_fastpath_enabled(False)
        want = model(x, src_key_padding_mask=padding)
        torch.backends.mha.set_fastpath_enabled(True)
        q = session.send(x)
        attention = F.scaled_dot_product_attention(q, q, q, is_causal=True).publish()
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(attention, F.scaled_dot_product_attention(x, x, x, is_causal=True))
    # Handles do not use this backend.
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
        torch.testing.assert_close(F.scaled_dot_product_attention(q, q, q, is_causal=True).publish(), attention)
    assert torch._C._get_flash_sdp_enabled()
    assert torch._C._get_mkldnn_enabled()
    # plain tensors and other wrappers are not affected
    lstm = nn.LSTM(4, 3)
    out, _ = lstm(torch.randn(2, 1, 4))
    assert "Mkldnn" in type(out.grad_fn).__name__
    with torch._subclasses.FakeTensorMode():
        assert nn.LSTM(4, 3)(torch.randn(2, 1, 4))[0].shape == (2, 1, 3)


@pytest.mark.parametrize("foreach", [None, True, False], ids=["default", "foreach", "single"])
@pytest.mark.parametrize("name", models.OPTIMIZERS)
def test_training_with_every_optimizer(session, name, foreach):
    torch.manual_seed(0)
    x, y = torch.randn(4, 8, 12), torch.randint(0, 5, (4, 8))
    model = models.MLP(0.25)
    remote = session.module(model)
    hx, hy = session.send(x), session.send(y)
    losses = {}
    before = session.stats
    for key, m, a, b, mode in (
        ("there", remote, hx, hy, contextlib.nullcontext()),
        ("here", model, x, y, Keyed()),
    ):
        optimizer = models.OPTIMIZERS[name](m.parameters(), foreach=foreach)
        losses[key] = []
        torch.manual_seed(5)
        with mode:
            for i in range(4):
                optimizer.zero_grad()
                loss = F.cross_entropy(m(a[i]), b[i])
                loss.backward()
                optimizer.step()
                losses[key].append(loss.detach())
    assert session.stats.round_trips == before.round_trips
    got = torch.stack(losses["there"]).publish()
    assert session.stats.round_trips == before.round_trips + 1
    torch.testing.assert_close(got, torch.stack(losses["here"]), rtol=1e-5, atol=1e-6)
    for p, q in zip(remote.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(p.publish(), q.detach(), rtol=1e-4, atol=1e-5)


OTHERS = ["RMSprop", "Adagrad", "Adamax", "NAdam", "RAdam", "Rprop", "Adadelta", "ASGD"]


@pytest.mark.parametrize("name", OTHERS)
def test_the_other_optimizers_run_on_the_server_too(session, name):
    x, w = torch.randn(6, 4), torch.randn(4, 3)
    found = []
    for data, p in ((session.send(x), session.send(w, requires_grad=True)), (x, w.clone().requires_grad_())):
        optimizer = getattr(torch.optim, name)([p])
        for _ in range(3):
            optimizer.zero_grad()
            (data @ p).square().sum().backward()
            optimizer.step()
        found.append(p)
    torch.testing.assert_close(found[0].publish(), found[1].detach())
    assert session.stats.round_trips == 1


def test_what_training_code_does_around_a_step(session):
    """Clipping, schedulers, state checkpoints, conversions, autocast, activation checkpointing."""
    torch.manual_seed(0)
    x = torch.randn(6, 4)
    results = []
    model = nn.Linear(4, 3)
    for m, data in ((session.module(model), session.send(x)), (model, x)):
        optimizer = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 3)
        m(data).square().mean().backward()
        norm = nn.utils.clip_grad_norm_(m.parameters(), 0.01)
        optimizer.step()
        scheduler.step()
        again = torch.optim.SGD(m.parameters(), lr=1.0, momentum=0.9)
        again.load_state_dict(optimizer.state_dict())
        again.step()
        m.load_state_dict(m.state_dict())
        with torch.autocast("cpu", dtype=torch.bfloat16):
            low = m(data)
        kept = torch.utils.checkpoint.checkpoint(m, data, use_reentrant=False).sum()
        kept.backward()
        results.append((norm, m.weight, m.weight.grad, low, m.double()(data.double())))
    for got, want in zip(*results, strict=True):
        assert got.dtype == want.dtype
        torch.testing.assert_close(got.publish(), want.detach(), rtol=1e-5, atol=1e-6)


def test_functional_transforms(session):
    x, w, y = torch.randn(6, 4), torch.randn(4, 3), torch.tensor([0, 1, 2, 0, 1, 2])

    def loss(w, a, b):
        return F.cross_entropy((a @ w)[None], b[None])

    per_sample = torch.func.vmap(torch.func.grad(loss), (None, 0, 0))
    got = per_sample(session.send(w), session.send(x), session.send(y))
    torch.testing.assert_close(got.publish(), per_sample(w, x, y))


def test_local_parameters_learn_from_published_gradients(session):
    torch.manual_seed(0)
    model, reference = nn.Linear(4, 2), nn.Linear(4, 2)
    reference.load_state_dict(model.state_dict())
    x = torch.randn(6, 4)
    h = session.send(x)
    for m, data in ((model, h), (reference, x)):
        optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
        m(data).square().mean().backward()
        for p in m.parameters():
            p.grad = p.grad.publish() if m is model else p.grad
        optimizer.step()
    torch.testing.assert_close(model.weight, reference.weight)


def test_modules_keep_ties_flags_and_buffers(session):
    model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 5, bias=False), nn.BatchNorm1d(5))
    model[1].weight = model[0].weight
    model[2].weight.requires_grad_(False)
    remote = session.module(model)
    assert remote[1].weight is remote[0].weight
    assert isinstance(remote[1].weight, nn.Parameter)
    assert not remote[2].weight.requires_grad
    assert type(model[0].weight) is nn.Parameter
    assert [n for n, _ in remote.named_buffers()] == [n for n, _ in model.named_buffers()]
    out = remote(session.send(torch.tensor([0, 1, 2])))
    out.sum().backward()
    assert remote[2].num_batches_tracked.publish().item() == 1
    assert remote.state_dict().keys() == model.state_dict().keys()


def train(model, optimizer, x, y, steps):
    """After this many steps, only the model and the optimizer's state remain."""
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    gc.collect()


def test_the_server_holds_nothing_that_the_client_dropped(session):
    torch.manual_seed(0)
    model, x, y = session.module(models.MLP(0.1)), session.send(torch.randn(8, 12)), session.send(torch.arange(8) % 5)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def steps(n):
        train(model, optimizer, x, y, n)
        return session.sync()

    first = steps(2)
    later = steps(10)
    assert later.objects == first.objects
    assert later.object_bytes == first.object_bytes
    # x, y, and three tensors for each parameter: itself and two moments; views of them cost nothing
    parameters = sum(p.numel() for p in model.parameters())
    assert later.object_bytes == 12 * parameters + x.numel() * 4 + y.numel() * 8


def test_results_that_autograd_saves_are_dropped_without_a_backward(session):
    h = session.send(torch.rand(4, 5)).requires_grad_()
    before = session.sync().objects
    gc.collect()
    gc.disable()
    try:
        for function in (torch.exp, F.relu, torch.sigmoid, torch.tanh, torch.sqrt, F.silu, lambda x: x.softmax(1)):
            function(h)
        assert session.sync().objects == before
    finally:
        gc.enable()


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_two_hundred_steps_leave_objects_and_memory_as_they_were():
    torch.manual_seed(0)
    with server_pool.process() as (where, process), rpc.connect(where) as session:
        model, x = session.module(models.MLP(0.1)), session.send(torch.randn(64, 12))
        y = session.send(torch.arange(64) % 5)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

        def after(steps):
            train(model, optimizer, x, y, steps)
            stats = session.sync()
            pids = [os.getpid(), process.pid, *server_pool.descendants(process.pid)]
            return stats.objects, stats.object_bytes, [server_pool.resident(pid) for pid in pids]

        objects, nbytes, settled = after(50)
        *left, grown = after(200)
        assert left == [objects, nbytes]
        assert len(settled) == len(grown) == 4  # this process, the server, its fork server, the session's worker
        assert all(b - a < 8 << 20 for a, b in zip(settled, grown, strict=True)), (settled, grown)
