"""Probes of the device ``np``: each function is one.

``python -m torchnp.tests.device.probes`` prints their results as JSON. A process can register only one such device, so
the tests run this module in its own process.
"""

from __future__ import annotations

import copy
import inspect
import io
import json
import pickle
import sys
import threading
import traceback
import warnings

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import torchnp.device  # registers the device
from torchnp.interop.convert import TORCH_DTYPE
from torchnp.tests.interop import models

D = "np"
same = torch.testing.assert_close


def raises(kind: type[Exception], words: str, call) -> None:
    try:
        call()
    except kind as error:
        assert words in str(error), str(error)
    else:
        raise AssertionError(f"no {kind.__name__}")


# ---------------------------------------------------------------- tensors


def default_dtypes_are_torchs():
    calls = [
        lambda device: torch.ones(2, device=device),
        lambda device: torch.arange(3, device=device).sin(),
        lambda device: torch.arange(3, device=device) / 2,
        lambda device: torch.arange(3, device=device) * 1.5,
        lambda device: torch.full((2,), 1.5, device=device),
        lambda device: torch.linspace(0, 1, 3, device=device),
        lambda device: torch.arange(3, device=device).float() * 1.5,
    ]
    for dtype in (torch.float64, torch.float16, torch.bfloat16):
        torch.set_default_dtype(dtype)
        try:
            for call in calls:
                here, there = call("cpu"), call(D)
                assert there.dtype == here.dtype
                same(there.cpu(), here)
        finally:
            torch.set_default_dtype(torch.float32)
    assert torchnp.get_default_dtype() == "float32"


def histc_counts_integers():
    x = torch.tensor([0, 3, 3, 1, 7], dtype=torch.int32, device=D)
    found = torch.histc(x, bins=4, min=0, max=3)
    assert found.dtype == torch.int32 and found.cpu().tolist() == [1, 1, 0, 2]
    y = torch.randn(20)
    same(torch.histc(y.to(D), 5).cpu(), torch.histc(y, 5))
    raises(NotImplementedError, "not implemented for 'Bool'", lambda: torch.histc(x > 1, bins=4, min=0, max=3))


def a_number_and_a_scaled_tensor():
    x = torch.randn(3)
    scale = torch.tensor(2.0, dtype=torch.float64)
    same(torch.add(scale.to(D), x.to(D), alpha=0.5).cpu(), torch.add(scale, x, alpha=0.5))


def every_dtype():
    for dtype in TORCH_DTYPE.values():
        x = torch.tensor([[0, 1], [2, 3]]).to(dtype)
        y = x.to(D)
        assert y.device == torch.device("np", 0) and y.dtype == dtype
        assert torch.equal(y.cpu().view(torch.uint8), x.view(torch.uint8))


def factories():
    for make in (torch.zeros, torch.ones, torch.empty, torch.rand, torch.randn):
        assert make(2, 3, device=D).device.type == D
    same(torch.arange(5, device=D).cpu(), torch.arange(5))
    same(torch.full((2, 2), 7.5, device=D).cpu(), torch.full((2, 2), 7.5))
    same(torch.eye(3, device=D).cpu(), torch.eye(3))
    same(torch.tensor([[1, 2], [3, 4]], device=D).cpu(), torch.tensor([[1, 2], [3, 4]]))
    same(torch.linspace(0, 1, 5, device=D).cpu(), torch.linspace(0, 1, 5))


def to_and_back():
    x = torch.randn(3, 4, 5).transpose(0, 2)
    y = x.to(D)
    assert y.stride() == x.stride()
    same(y.cpu(), x)
    same(y.to("cpu", torch.float64), x.double())
    same(y.double().cpu(), x.double())
    assert y.np() is y and x.np().is_np and not x.is_np
    same(torch.zeros(5, 4, 3).copy_(y), x.contiguous())
    same(torch.zeros(5, 4, 3, device=D).copy_(x).cpu(), x.contiguous())


def values_can_be_read():
    x = torch.tensor([1.5, -2.0], device=D)
    assert x[0].item() == 1.5 and x.tolist() == [1.5, -2.0] and bool(x[0] > 1) and float(x[1]) == -2.0
    assert "device='np:0'" in repr(x) and "1.5000" in repr(x)
    raises(TypeError, "can't convert np:0 device type tensor to numpy", lambda: x.numpy())


def views_share_memory():
    x = torch.zeros(4, 6, device=D)
    views = [
        x[1],
        x[:, 2:4],
        x.t(),
        x.view(24),
        x.reshape(6, 4),
        x.unflatten(1, (2, 3)),
        x.diagonal(),
        x.unfold(1, 2, 2),
    ]
    for view in (
        *views,
        x.unsqueeze(0),
        x.expand(2, 4, 6),
        x.split(2)[1],
        x.chunk(3, 1)[0],
        x.select(0, 0),
        x.flatten(),
    ):
        assert view.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() and view._base is x
    views[0].add_(1)
    assert x.sum().item() == 6
    z = torch.zeros(3, dtype=torch.complex64, device=D)
    torch.view_as_real(z)[:, 1] = 2
    z.real.add_(1)
    same(z.cpu(), torch.full((3,), 1 + 2j, dtype=torch.complex64))
    z.conj().mul_(2)
    same(z.cpu(), torch.full((3,), 2 + 4j, dtype=torch.complex64))


def writes_are_counted():
    x = torch.randn(3, device=D, requires_grad=True)
    y = x.exp()
    y.mul_(2)
    raises(RuntimeError, "modified by an inplace operation", lambda: y.sum().backward())


def indexing():
    x = torch.arange(24.0, device=D).view(4, 6)
    c = x.cpu()
    i = torch.tensor([0, 3, 1])
    for index in (i, (slice(None), i), (i, i), c > 5, (..., 0), (None, slice(0, 3, 2)), (i[:, None], i)):
        same(x[index].cpu(), c[index])
    same(x[i.to(D)].cpu(), c[i])
    x[x > 5] = 0
    x[i, i] = 7.0
    c[c > 5] = 0
    c[i, i] = 7.0
    same(x.cpu(), c)


def out_is_resized():
    out = torch.empty(0, device=D)
    assert torch.add(torch.ones(3, device=D), 1, out=out) is out
    same(out.cpu(), torch.full((3,), 2.0))


def sizes_of_others_are_taken():
    x = torch.arange(6.0, device=D).view(2, 3).t()
    assert x.resize_(3, 2).stride() == (1, 3)  # the number of elements stays the same
    same(x.resize_as_(torch.zeros(2, 2, device=D)).cpu(), torch.arange(4.0).view(2, 2))
    assert x.resize_as_(
        torch.zeros(1, 2, 2, 2, device=D).to(memory_format=torch.channels_last), memory_format=torch.preserve_format
    ).stride() == (8, 1, 4, 2)
    y = torch.ones(3, device=D, dtype=torch.int64)
    assert (y.set_().shape, y.stride(), y.device.type, y.dtype) == ((0,), (1,), D, torch.int64)


def results_are_asked_for_elsewhere():
    x = torch.ones(2, 3, device=D, dtype=torch.float64)
    for made in (
        torch.zeros_like,
        torch.rand_like,
        torch.empty_like,
        lambda x, device: x.new_full((2, 3), 2, device=device),
    ):
        for device in ("cpu", "meta", D):
            y = made(x, device=device)
            assert (y.device.type, y.shape, y.dtype) == (device, (2, 3), torch.float64)
    same(torch.full_like(x, 5, device="cpu"), torch.full((2, 3), 5.0, dtype=torch.float64))
    torch.manual_seed(0)
    drawn = torch.rand_like(x, device="cpu")
    torch.manual_seed(0)
    same(drawn, torch.rand(2, 3, dtype=torch.float64))


def storages_grow():
    x = torch.arange(4.0, device=D)
    first = x[:2]
    x.resize_(9)
    first += 5
    same(x[:4].cpu(), torch.tensor([5.0, 6, 2, 3]))
    raises(RuntimeError, "out of bounds", lambda: first.as_strided_((300,), (1,)))
    part, same_part = (t[3:].as_strided((3, 4), (9, 2), 5) for t in (torch.arange(40.0, device=D), torch.arange(40.0)))
    same(torch.as_strided_copy(part, (2, 3), (3, 1), 1).cpu(), torch.as_strided_copy(same_part, (2, 3), (3, 1), 1))
    nothing = first.as_strided((0, 3), (1, 2), 100)  # an empty tensor may begin beyond the memory
    assert (nothing + 1).cpu().shape == (0, 3) and (nothing.stride(), nothing.storage_offset()) == ((1, 2), 100)
    y = torch.zeros(2, device=D)
    y.set_(x.untyped_storage(), 1, (2,), (2,))
    same(y.cpu(), torch.tensor([6.0, 3]))


def devices_do_not_mix():
    x = torch.ones(3, device=D)
    raises(RuntimeError, "Expected all tensors to be on the same device", lambda: x + torch.ones(3))
    same((x + torch.tensor(2.0)).cpu(), torch.full((3,), 3.0))


def errors_are_torchs():
    x = torch.ones(3, 4, device=D)
    raises(RuntimeError, "must match the size of tensor b", lambda: x + torch.ones(5, device=D))
    raises(RuntimeError, "mat1 and mat2 shapes cannot be multiplied", lambda: x @ x)
    raises(IndexError, "Dimension out of range", lambda: x.sum(7))
    raises(torch.linalg.LinAlgError, "singular", lambda: torch.linalg.inv(torch.zeros(2, 2, device=D)))


def empty_and_scalar():
    for shape in ((), (0,), (2, 0, 3), (1, 1)):
        x, c = torch.ones(shape, device=D), torch.ones(shape)
        for f in (
            torch.sum,
            torch.exp,
            lambda t: t + 1,
            lambda t: t.reshape(-1),
            lambda t: t.clone(),
            torch.cumsum if 0 else torch.neg,
        ):
            same(f(x).cpu(), f(c))


def random_numbers_are_the_cpus():
    for draw in (
        lambda d: torch.rand(5, device=d),
        lambda d: torch.randn(37, device=d),
        lambda d: torch.randperm(9, device=d),
        lambda d: torch.randint(0, 9, (4,), device=d),
        lambda d: torch.empty(6, device=d).exponential_(),
        lambda d: torch.bernoulli(torch.full((8,), 0.5, device=d)),
        lambda d: F.dropout(torch.ones(50, device=d)),
        lambda d: torch.multinomial(torch.ones(5, device=d), 3),
        lambda d: torch.normal(torch.zeros(3, device=d), 2.0),
    ):
        torch.manual_seed(5)
        ours = draw(D).cpu()
        torch.manual_seed(5)
        same(ours, draw("cpu"), rtol=0, atol=0)


def fork_rng():
    torch.manual_seed(1)
    with torch.random.fork_rng(devices=[0], device_type=D):
        a = torch.rand(2, device=D)
    same(torch.rand(2, device=D).cpu(), a.cpu())


# ---------------------------------------------------------------- saving


def copies_and_pickles():
    x = torch.randn(3, device=D)
    for y in (copy.deepcopy(x), copy.copy(x), pickle.loads(pickle.dumps(x)), x.clone()):
        assert y.device == x.device
        same(y.cpu(), x.cpu())
    m = nn.Linear(2, 2).to(D)
    n = copy.deepcopy(m)
    n.weight.data.zero_()
    assert m.weight.abs().sum().item() > 0


def save_and_load():
    x = torch.arange(6.0, device=D)
    stream = io.BytesIO()
    torch.save({"a": x, "b": x[2:4], "c": nn.Linear(2, 3).to(D).state_dict()}, stream)
    stream.seek(0)
    found = torch.load(stream)
    assert found["a"].device.type == D
    found["b"].fill_(9)
    same(found["a"].cpu(), torch.tensor([0.0, 1, 9, 9, 4, 5]))
    stream.seek(0)
    assert torch.load(stream, map_location="cpu")["a"].device.type == "cpu"
    stream = io.BytesIO()
    torch.save(torch.ones(3), stream)
    stream.seek(0)
    assert torch.load(stream, map_location=D).device.type == D


# ---------------------------------------------------------------- autograd


def gradients():
    torch.manual_seed(0)
    for f in (
        torch.sin,
        torch.logsumexp,
        torch.linalg.norm,
        torch.prod,
        F.softmax,
        torch.var,
        torch.linalg.det,
        torch.cumprod,
    ):
        x = torch.rand(3, 3, dtype=torch.float64) + 0.5
        y = x.to(D).requires_grad_()
        x.requires_grad_()
        rest = (1,) if f in (torch.logsumexp, F.softmax, torch.cumprod) else ()
        f(x, *rest).sum().backward()
        f(y, *rest).sum().backward()
        same(y.grad.cpu(), x.grad)


def gradchecks():
    x = torch.rand(3, dtype=torch.float64, device=D, requires_grad=True)
    y = torch.rand(3, dtype=torch.float64, device=D, requires_grad=True)
    assert torch.autograd.gradcheck(lambda a, b: (a * b.sin()).exp(), (x, y))
    assert torch.autograd.gradgradcheck(lambda a, b: (a * b.sin()).exp(), (x, y))


def forward_derivatives():
    import torch.autograd.forward_ad as fwad

    with fwad.dual_level():
        x = fwad.make_dual(torch.ones(3, device=D), torch.full((3,), 2.0, device=D))
        same(fwad.unpack_dual(x.square()).tangent.cpu(), torch.full((3,), 4.0))


def transforms():
    w = torch.randn(4, 3, device=D)
    x = torch.randn(5, 3, device=D)
    same(torch.func.vmap(lambda row: w @ row)(x).cpu(), (x.cpu() @ w.cpu().t()))
    grads = torch.func.vmap(torch.func.grad(lambda row: (w @ row).square().sum()))(x)
    same(grads.cpu(), 2 * (x.cpu() @ w.cpu().t() @ w.cpu()))
    same(torch.func.hessian(lambda v: v.pow(3).sum())(x[0]).cpu(), torch.diag(6 * x[0].cpu()))
    same(torch.func.jacrev(torch.sin)(x[0]).cpu(), torch.diag(x[0].cpu().cos()))
    same(torch.func.jvp(torch.sin, (x,), (x,))[1].cpu(), (x.cos() * x).cpu())


def checkpointing():
    m = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 4)).to(D)
    x = torch.randn(6, 4, device=D, requires_grad=True)
    torch.manual_seed(3)
    m(x).sum().backward()
    want, x.grad = x.grad.cpu(), None
    torch.manual_seed(3)
    checkpoint(m, x, use_reentrant=False).sum().backward()
    same(x.grad.cpu(), want)


def hooks_and_functions():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2 + ctx.saved_tensors[0]

    x = torch.ones(3, device=D, requires_grad=True)
    x.register_hook(lambda g: g * 10)
    Double.apply(x).sum().backward()
    same(x.grad.cpu(), torch.full((3,), 30.0))


def threads():
    found = []

    def work():
        x = torch.randn(20, 20, device=D, requires_grad=True)
        (x @ x).sum().backward()
        found.append(x.grad.shape)

    ts = [threading.Thread(target=work) for _ in range(4)]
    [t.start() for t in ts]
    [t.join() for t in ts]
    assert len(found) == 4


# ---------------------------------------------------------------- modules and optimizers


def _train(model, batch, loss_of, make, steps=20):
    optimizer = make(model.parameters())
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def training_follows_the_cpu():
    for case in models.CASES if hasattr(models, "CASES") else ():
        del case
    torch.manual_seed(0)
    m = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 64, 10))
    n = copy.deepcopy(m).to(D)
    x, y = torch.randn(8, 1, 8, 8), torch.randint(0, 10, (8,))
    loss = lambda model, b: F.cross_entropy(model(b[0]), b[1])
    for make in (lambda p: torch.optim.Adam(p, 1e-3),):
        want = _train(m, (x, y), loss, make)
        got = _train(n, (x.to(D), y.to(D)), loss, make)
        same(torch.tensor(got), torch.tensor(want), rtol=1e-5, atol=1e-6)


def every_optimizer():
    for kind in (
        "SGD", "Adam", "AdamW", "Adamax", "Adadelta", "Adagrad", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop", "Adafactor", "LBFGS", "Muon",
    ):  # fmt: skip
        far = 1e-4
        for foreach in (False, True) if kind not in ("Adafactor", "LBFGS", "Muon") else (None,):
            torch.manual_seed(0)
            m = nn.Sequential(nn.Linear(4, 6, bias=False), nn.Tanh(), nn.Linear(6, 1, bias=False))
            n = copy.deepcopy(m).to(D)
            x = torch.randn(9, 4)
            if kind == "LBFGS":  # rounding decides its line search, and differs between processors
                m, n, x = m.double(), n.double(), x.double()
            ends = []
            for model, data in ((m, x), (n, x.to(D))):
                options = {} if foreach is None else {"foreach": foreach}
                optimizer = getattr(torch.optim, kind)(model.parameters(), **options)

                def closure(optimizer=optimizer, model=model, data=data):
                    optimizer.zero_grad()
                    loss = model(data).square().mean()
                    loss.backward()
                    return loss

                for _ in range(4):
                    optimizer.step(closure)
                ends.append(model[0].weight.detach().cpu())
            same(ends[1], ends[0], rtol=far, atol=far / 10)


def fused_optimizers():
    for kind in ("SGD", "Adam", "AdamW", "Adagrad"):
        torch.manual_seed(0)
        w = torch.randn(5)
        ends = []
        for device in ("cpu", D):
            p = w.clone().to(device).requires_grad_()
            optimizer = getattr(torch.optim, kind)([p], fused=True)
            for _ in range(3):
                optimizer.zero_grad()
                p.square().sum().backward()
                optimizer.step()
            ends.append(p.detach().cpu())
        same(ends[1], ends[0])


def recurrent_layers():
    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        torch.manual_seed(0)
        m = kind(3, 5, num_layers=2, bidirectional=True, batch_first=True)
        n = copy.deepcopy(m).to(D)
        x = torch.randn(2, 4, 3)
        y = x.to(D).requires_grad_()
        want, got = m(x.requires_grad_())[0], n(y)[0]
        same(got.cpu(), want)
        want.sum().backward()
        got.sum().backward()
        same(y.grad.cpu(), x.grad)
    packed = nn.utils.rnn.pack_padded_sequence(torch.randn(3, 4, 2).to(D), [4, 2, 1], batch_first=True)
    assert nn.LSTM(2, 3, batch_first=True).to(D)(packed)[0].data.device.type == D


def attention():
    torch.manual_seed(0)
    m = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, dropout=0.0)
    x = torch.randn(2, 5, 16)
    for train in (True, False):
        m.train(train)
        same(copy.deepcopy(m).to(D)(x.to(D)).cpu(), m(x), rtol=1e-5, atol=1e-5)
    q = torch.randn(2, 4, 5, 8)
    same(
        F.scaled_dot_product_attention(*[q.to(D)] * 3, is_causal=True).cpu(),
        F.scaled_dot_product_attention(q, q, q, is_causal=True),
    )


def losses():
    torch.manual_seed(0)
    x, y = torch.randn(4, 7), torch.randint(0, 7, (4,))
    same(F.cross_entropy(x.to(D), y.to(D), label_smoothing=0.1).cpu(), F.cross_entropy(x, y, label_smoothing=0.1))
    same(
        F.binary_cross_entropy_with_logits(x.to(D), x.to(D).sigmoid()).cpu(),
        F.binary_cross_entropy_with_logits(x, x.sigmoid()),
    )
    logits = torch.randn(6, 2, 5).log_softmax(2)
    rest = torch.randint(1, 5, (2, 3)), torch.tensor([6, 5]), torch.tensor([3, 2])
    same(F.ctc_loss(logits.to(D), *[t.to(D) for t in rest]).cpu(), F.ctc_loss(logits, *rest))


def autocast():
    m = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4)).to(D)
    x = torch.randn(2, 4, device=D)
    with torch.autocast(D, dtype=torch.bfloat16):
        assert (x @ x.t()).dtype == torch.bfloat16
        assert F.softmax(x.bfloat16(), 1).dtype == torch.float32
        m(x).sum().backward()
    assert m[0].weight.grad.dtype == torch.float32


def grad_scaler():
    p = torch.ones(3, device=D, requires_grad=True)
    optimizer = torch.optim.SGD([p], 0.1)
    scaler = torch.amp.GradScaler(D, init_scale=8.0)
    scaler.scale(p.sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    same(p.detach().cpu(), torch.full((3,), 0.9))


def data_loader():
    data = torch.utils.data.TensorDataset(torch.arange(6.0))
    for pin in (False, True):
        loaded = [b[0].to(D) for b in torch.utils.data.DataLoader(data, batch_size=2, pin_memory=pin)]
        same(torch.cat(loaded).cpu(), torch.arange(6.0))


def embedding_and_padding():
    torch.manual_seed(0)
    m = nn.Sequential(
        nn.Embedding(9, 4, padding_idx=0),
        nn.ReflectionPad1d(1),
        nn.Conv1d(3, 2, 3),
        nn.MaxPool1d(2),
        nn.Upsample(scale_factor=2),
    )
    i = torch.tensor([[0, 1, 2], [3, 8, 0]])
    same(copy.deepcopy(m).to(D)(i.to(D)).cpu(), m(i))


def linear_algebra():
    torch.manual_seed(0)
    a = torch.randn(3, 3, dtype=torch.float64)
    a = a @ a.T + torch.eye(3, dtype=torch.float64)
    b = a.to(D)
    same(torch.linalg.solve(b, b).cpu(), torch.eye(3, dtype=torch.float64))
    same(torch.linalg.eigvalsh(b).cpu(), torch.linalg.eigvalsh(a))
    u, s, v = torch.linalg.svd(b)
    same((u @ torch.diag(s) @ v).cpu(), a)
    same(torch.fft.fft(b).cpu(), torch.fft.fft(a))
    same(torch.einsum("ij,jk->ik", b, b).cpu(), a @ a)


# ---------------------------------------------------------------- tracing


def traced():
    from torch.fx.experimental.proxy_tensor import make_fx

    f = lambda x: (x.sin() + 1).sum()
    graph = make_fx(f)(torch.ones(3, device=D))
    same(graph(torch.ones(3, device=D)).cpu(), f(torch.ones(3)))


def fake_tensors():
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        x = torch.empty(4, 5, device=D)
        assert (x @ x.t()).shape == (4, 4) and (x @ x.t()).device.type == D


def exported():
    m = nn.Linear(3, 2).to(D)
    x = torch.randn(4, 3, device=D)
    program = torch.export.export(m, (x,))
    same(program.module()(x).cpu(), m(x).cpu())


def compiled():
    m = nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 1)).to(D)
    x = torch.randn(5, 3, device=D)
    for backend in ("eager", "aot_eager"):
        n = torch.compile(m, backend=backend)
        same(n(x).cpu(), m(x).cpu())
        n(x).sum().backward()


def default_device():
    torch.set_default_device(D)
    try:
        assert torch.ones(2).device.type == D and nn.Linear(2, 2).weight.device.type == D
    finally:
        torch.set_default_device(None)


def fallbacks():
    library = torch.library.Library("probe", "DEF")
    library.define("twice(Tensor x, Tensor[] more) -> (Tensor, Tensor[])")
    library.define("add_one_(Tensor(a!) x) -> Tensor(a!)")
    library.impl("twice", lambda x, more: (x * 2, [m + x for m in more]), "CPU")
    library.impl("add_one_", lambda x: x.add_(1), "CPU")
    x = torch.ones(2, device=D)
    raises(RuntimeError, "torch.np.fallback(True)", lambda: torch.ops.probe.twice(x, [x]))
    assert not torch.np.fallbacks
    torch.np.fallback(True)
    try:
        two, (more,) = torch.ops.probe.twice(x, [x])
        assert two.device == more.device == x.device
        assert torch.ops.probe.add_one_(x) is x
        same(x.cpu(), torch.full((2,), 2.0))
        assert torch.np.fallbacks == {"probe::twice": 1, "probe::add_one_": 1}
    finally:
        torch.np.fallback(False)


def run(names: dict) -> None:
    """Run the probes among a module's names, or those named on the command line, and print their results."""
    own, probes = names["__name__"], {}
    for name, function in names.items():
        if (
            inspect.isfunction(function)
            and function.__module__ == own
            and name[0] != "_"
            and name not in ("raises", "run")
        ):
            probes[name] = function
    found = {}
    warnings.simplefilter("ignore")
    for name in sys.argv[1:] or probes:
        try:
            probes[name]()
            found[name] = ""
        except Exception:
            found[name] = traceback.format_exc()
    print(json.dumps(found))


if __name__ == "__main__":
    run(globals())
