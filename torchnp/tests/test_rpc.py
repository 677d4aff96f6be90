"""The remote tensor computes what torch computes: one suite over both transports."""

from __future__ import annotations

import contextlib
import gc
import time

import pytest
import torch
import torch.utils.checkpoint
from torch import nn
from torch.nn import functional as F

from torchnp import rpc
from torchnp.tests import models, rpc_server
from torchnp.tests.keyed import Keyed

DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64,
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex32, torch.complex64, torch.complex128,
    torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz,
]  # fmt: skip


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return torch.equal(a.contiguous().reshape(-1).view(torch.uint8), b.contiguous().reshape(-1).view(torch.uint8))


# ---------------------------------------------------------------- there and back


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_comes_back_bit_for_bit(session, dtype):
    raw = torch.randint(0, 2 if dtype == torch.bool else 256, (3 * 4 * dtype.itemsize,), dtype=torch.uint8)
    for x in (raw.view(dtype).reshape(3, 4), raw.view(dtype)[5], raw.view(dtype)[:0]):
        back = session.send(x).publish()
        assert type(back) is torch.Tensor
        assert same_bits(back, x)


def test_layouts_come_back_with_their_values_and_stay_on_the_server(session):
    x = torch.arange(24.0).reshape(2, 3, 4)
    for t in (x.transpose(0, 2), x[:, 1:], x[::2, :, ::3], x.expand(5, 2, 3, 4), x.permute(1, 2, 0)[1]):
        h = session.send(t)
        assert h.stride() == t.clone().stride()
        assert torch.equal(h.publish(), t)
    for size, stride in (((1,), (0,)), ((1, 1), (0, 0)), ((3, 1), (1, 0)), ((1, 3), (0, 1)), ((1, 2), (7, 0))):
        t = torch.full(size, 3.0).as_strided(size, stride)
        assert torch.equal((session.send(t) + t).publish(), t + t)
    y = x.permute(2, 0, 1)
    h = session.send(y)
    assert torch.equal(torch.as_strided(h, (6, 4), (4, 1)).publish(), torch.as_strided(y, (6, 4), (4, 1)))
    channels_last = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    h = session.send(channels_last)
    assert h.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal((h * 2).publish(), channels_last * 2)
    assert (h * 2).stride() == (channels_last * 2).stride()


def test_tensors_larger_than_a_frame(session):
    x = torch.randn(700_001)
    before = session.stats
    h = session.send(x)
    assert torch.equal((h + 1).publish(), x + 1)
    after = session.stats
    assert after.bytes_sent - before.bytes_sent >= x.nbytes
    assert after.bytes_received - before.bytes_received >= x.nbytes


def test_metadata_never_leaves_the_client(session):
    session.sync()
    h = session.send(torch.zeros(3, 4), requires_grad=True)
    before = session.stats.round_trips
    assert h.shape == (3, 4)
    assert h.stride() == (4, 1)
    assert h.dim() == 2
    assert h.dtype == torch.float32
    assert len(h) == 3
    assert h.device.type == "cpu"
    assert h.numel() == 12
    assert h.is_leaf
    assert h.requires_grad
    assert "RPCTensor(shape=(3, 4), dtype=float32" in repr(h)
    assert "requires_grad=True" in str(h)
    assert "grad_fn=<MulBackward0>" in f"{h * 2}"
    assert session.stats.round_trips == before


def test_numbers_stay_numbers_and_small_tensors_travel(session):
    x = torch.randn(3, 4)
    h = session.send(x)
    i = torch.arange(3)
    hi = session.send(i)
    for f in (
        lambda x, i: x * 2,
        lambda x, i: i * 2.5,
        lambda x, i: torch.where(i > 0, i, 0.0),
        lambda x, i: torch.where(i > 0, i, torch.tensor(0.0, dtype=torch.float64)),
        lambda x, i: x * torch.tensor(2.0),
        lambda x, i: torch.tensor([1.0, 2, 3, 4]) + x,
        lambda x, i: x + torch.ones(4, dtype=torch.float64),
        lambda x, i: x + torch.ones(()).expand(4),
        lambda x, i: torch.cat([x, torch.zeros(1, 4)]),
        lambda x, i: i + True,
        lambda x, i: x[torch.tensor([2, 0])],
        lambda x, i: x[torch.tensor([True, False, True])],
        lambda x, i: x * (1 + 2j),
    ):
        want, got = f(x, i), f(h, hi)
        assert got.shape == want.shape
        torch.testing.assert_close(got.publish(), want, rtol=0, atol=0)


def test_large_plain_tensors_are_sent_on_purpose_only(session):
    session.auto_send_bytes = 1000
    h = session.send(torch.zeros(1000))
    with pytest.raises(RuntimeError, match=r"4,000 bytes.*session\.send"):
        h + torch.zeros(1000)


# ---------------------------------------------------------------- views, in-place, autograd


def through_slices(w):
    x = w * 2
    x[1:].mul_(3)
    return x.sum()


def through_views_of_views(w):
    x = w * 2
    y = x.view(5, 1).squeeze(1)
    y[0].add_(w[2])
    x[1:].mul_(3)
    p, q = x.split([2, 3])
    return (x * x).sum() + (y**3).sum() + (q * x[:3]).sum() + (p * w[:2]).sum()


def with_detach(w):
    x = w * 2
    d = x.detach()
    d.add_(1)
    return (x * w).sum()


def copied_into_a_part(w):
    x = torch.zeros_like(w)
    x[1:4].copy_(w[:3] ** 2)
    x[0] = w[4]
    return (x * w).sum()


def with_out(w):
    out = torch.empty_like(w)
    with torch.no_grad():
        torch.add(w, w, out=out)
        torch.mul(w[1:], 5, out=out[1:])
    return (out * w).sum()


def strided_again(w):
    x = (w * 2).as_strided((2, 2), (2, 1), 1)
    return (x**2).sum()


def changed_strides(w):
    x = (w * 2).unsqueeze(0).clone()
    x.t_()
    x.squeeze_(1)
    x.unsqueeze_(0)
    return (x * w).sum()


def lists(w):
    a, b = w * 2, w * 3
    c, d = torch._foreach_add([a, b], [w, w], alpha=2)
    return (c * d).sum()


@pytest.mark.parametrize(
    "function",
    [
        through_slices,
        through_views_of_views,
        with_detach,
        copied_into_a_part,
        with_out,
        strided_again,
        changed_strides,
        lists,
    ],
    ids=lambda f: f.__name__,
)
def test_gradients_through_views_and_writes(session, function):
    w = torch.randn(5, dtype=torch.float64)
    mine = w.clone().requires_grad_()
    value = function(mine)
    value.backward()
    theirs = session.send(w, requires_grad=True)
    remote = function(theirs)
    remote.backward()
    torch.testing.assert_close(remote.publish(), value.detach())
    torch.testing.assert_close(theirs.grad.publish(), mine.grad)


def test_in_place_gives_the_same_handle_and_views_share(session):
    x = session.send(torch.zeros(3, 4))
    assert x.add_(1) is x
    assert x.mul_(2.0).sub_(1) is x
    y = x[1:]
    assert y._base is x
    y.fill_(7)
    assert y._version == x._version == 4
    want = torch.ones(3, 4)
    want[1:] = 7
    assert torch.equal(x.publish(), want)
    torch._foreach_add_([x, torch.ones_like(x)], 1)
    assert torch.equal(x.publish(), want.add_(1))
    out = torch.empty_like(x)
    assert torch.add(x, 1, out=out) is out
    assert torch.equal(out.publish(), want + 1)


def test_a_stale_version_is_noticed(session):
    w = session.send(torch.ones(3), requires_grad=True)
    x = w * 2
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def _set(x, value):
    x[0] = value


CONJUGATES = {
    "setitem": lambda z: _set(z.conj(), 5 + 2j),
    "setitem of a view": lambda z: _set(z.conj()[1:], 5 + 2j),
    "setitem of a tensor": lambda z: _set(z.conj(), torch.tensor(1 + 2j, dtype=torch.complex128)),
    "mul_": lambda z: z.mH.mul_(2 + 1j),
    "mul_ by itself": lambda z: z.conj().mul_(z.conj()),
    "add_": lambda z: z.conj().add_(1j),
    "imag": lambda z: z.imag.add_(1),
    "real": lambda z: z.real.fill_(7),
    "imag of conj": lambda z: z.conj().imag.add_(3),
    "imag of conj filled": lambda z: _set(z.conj().imag, 3),
    "real of conj": lambda z: z.conj().real.mul_(3),
    "negative": lambda z: torch._neg_view(z).add_(4),
    "both": lambda z: torch._neg_view(z.conj()).copy_(z.clone() * 2j),
    "copy_": lambda z: z.conj().copy_(torch.arange(3)),
    "copy_ from": lambda z: z.copy_(z.clone().conj()),
    "conj_physical_": lambda z: z.conj().conj_physical_(),
    "chunks": lambda z: z.conj().chunk(3)[1].mul_(1j),
    "t_": lambda z: z.conj().t_().add_(1j),
    "diagonal": lambda z: z.mH.diagonal().mul_(1j),
    "matmul": lambda z: z.add_(z.mH @ z),
    "twice": lambda z: z.conj().conj().add_(1j),
    "vdot": lambda z: z.add_(torch.vdot(z[0].conj(), z[1])),
    "detached": lambda z: z.conj().detach().mul_(1j),
}


@pytest.mark.parametrize("name", CONJUGATES)
def test_what_is_written_through_lazy_conjugates_arrives(session, name):
    z = torch.randn(3, 3, dtype=torch.complex128)
    h = session.send(z)
    CONJUGATES[name](h)
    CONJUGATES[name](z)
    torch.testing.assert_close(h.publish(), z)
    torch.testing.assert_close(h.mH.publish(), z.mH.resolve_conj())
    assert h.mH.is_conj() and h.imag.is_neg() == z.imag.is_neg()


@pytest.mark.parametrize("name", CONJUGATES)
def test_gradients_through_lazy_conjugates(session, name):
    z = torch.randn(3, 3, dtype=torch.complex128)
    grads = []
    for leaf in (z.clone().requires_grad_(), session.send(z, requires_grad=True)):
        y = leaf * (1 + 2j)
        try:
            CONJUGATES[name](y)
            (y.conj() * y * y.imag).sum().abs().backward()
            grad = leaf.grad.resolve_conj()
            grads.append(grad if grads == [] else grad.publish())
        except RuntimeError as error:
            grads.append(str(error).partition(":")[0])
    if isinstance(grads[0], str):
        assert grads[1] == grads[0]
    else:
        torch.testing.assert_close(grads[1], grads[0])


def test_lazy_conjugates_follow_what_they_are_views_of_and_refuse_the_rest(session):
    z = torch.randn(3, dtype=torch.complex128)
    h = session.send(z)
    c = h.conj()
    h.mul_(2)
    torch.testing.assert_close((c + 1).publish(), (z * 2).conj() + 1)
    with pytest.raises(RuntimeError, match="view_as_real doesn't work on unresolved conjugated tensors"):
        torch.view_as_real(c)
    with pytest.raises(rpc.HandleError, match="lazy conjugate"):
        torch.mm(h[:, None], h[None], out=session.send(torch.zeros(3, 3, dtype=z.dtype)).conj())
    other = session.send(z)
    other.data = h.conj()
    torch.testing.assert_close(other.publish(), (z * 2).conj().resolve_conj())


def test_second_derivatives_hooks_and_functions(session):
    w = torch.randn(4, dtype=torch.float64)
    seen = []

    def run(x):
        y = (x**3).sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        g.register_hook(lambda v: seen.append(type(v).__name__))
        (g * x).sum().backward()
        return x.grad

    want = run(w.clone().requires_grad_())
    got = run(session.send(w, requires_grad=True))
    torch.testing.assert_close(got.publish(), want)
    assert seen == ["Tensor", "RPCTensor"]


def test_inference_mode(session):
    x, w = torch.randn(2, 3), torch.randn(4, 3)
    with torch.inference_mode():
        h, hw = session.send(x), session.send(w)
        got = F.linear(h, hw).reshape(8).to(torch.float64).contiguous()
        want = F.linear(x, w).reshape(8).to(torch.float64)
        torch.testing.assert_close(got.publish(), want, rtol=1e-4, atol=1e-6)  # of float32


# ---------------------------------------------------------------- random numbers


def draws(x):
    """Some random operators over x, in turn."""
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
        assert torch.equal(torch.rand(3), local)  # which goes on from the same point


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
    """What one session draws does not depend on what another does on its server in between."""
    with rpc_server.session("local") as other:
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
    assert torch._C._get_flash_sdp_enabled()
    assert torch._C._get_mkldnn_enabled()
    # plain tensors and other wrappers go their own ways
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
    """Clipping, schedulers, checkpoints of states, conversions, autocast, activation checkpointing."""
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


def test_the_server_holds_nothing_that_the_client_dropped(session):
    torch.manual_seed(0)
    model, x, y = session.module(models.MLP(0.1)), session.send(torch.randn(8, 12)), session.send(torch.arange(8) % 5)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def steps(n):
        for _ in range(n):
            optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        gc.collect()
        return session.sync()

    first = steps(2)
    later = steps(10)
    assert later.objects == first.objects
    assert later.object_bytes == first.object_bytes
    # x, y, and three tensors per parameter: itself and two moments; views of them cost nothing
    parameters = sum(p.numel() for p in model.parameters())
    assert later.object_bytes == 12 * parameters + x.numel() * 4 + y.numel() * 8


def test_what_waits_is_sent_when_nothing_follows(session):
    h = session.send(torch.zeros(3))
    session.sync()
    sent = session.stats.bytes_sent
    h.add_(1)
    deadline = time.monotonic() + 5
    while session.stats.bytes_sent == sent and time.monotonic() < deadline:
        time.sleep(0.005)
    assert session.stats.bytes_sent > sent
    assert session.stats.round_trips == 1


def test_operators_are_counted_by_overload(session):
    h = session.send(torch.zeros(3))
    (h + 1) * (h + 2)
    assert session.overloads == {"aten::add.Tensor": 2, "aten::mul.Tensor": 1}
    assert session.stats.ops == 3
