"""Code that moves tensors to other tensors' devices runs over handles: a move to the same device does nothing, others
are refused."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from torchnp import rpc


@pytest.fixture(scope="module")
def session():
    with rpc.local() as made:
        yield made


X = torch.arange(-2.0, 4.0).reshape(2, 3)
LABELS = torch.tensor([1, 2])
PLAIN = torch.ones(2, dtype=torch.float64)

# Calls on a handle with the values of X that return the handle itself.
ITSELF = {
    "device": lambda h: h.to(h.device),
    "string": lambda h: h.to("cpu"),
    "keyword": lambda h: h.to(device=h.device),
    "device and dtype": lambda h: h.to(h.device, h.dtype),
    "non_blocking": lambda h: h.to(h.device, non_blocking=True),
    "all": lambda h: h.to(device="cpu", dtype=h.dtype, non_blocking=True, copy=False),
    "positions": lambda h: h.to("cpu", h.dtype, True, False),
    "another": lambda h: h.to(h),
    "a plain one": lambda h: h.to(torch.ones(1)),
    "by its name": lambda h: h.to(tensor=torch.ones(1)),
    "memory format": lambda h: h.to(h.device, memory_format=torch.preserve_format),
    "type": lambda h: h.type(h.dtype),
    "name of the type": lambda h: h.type(h.type()),
    "class of the type": lambda h: h.type(torch.FloatTensor),
    "type_as": lambda h: h.type_as(torch.ones(1)),
    "as_tensor": lambda h: torch.as_tensor(h, device=h.device),
    "asarray": lambda h: torch.asarray(h, device=h.device),
}


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("name", ITSELF)
def test_to_where_it_is(session, name, inference):
    with torch.inference_mode(inference):
        x, h = X.clone(), session.send(X)
        before = session.stats.round_trips
        assert ITSELF[name](x) is x
        assert ITSELF[name](h) is h
        assert session.stats.round_trips == before


# Casts, copies, and tensors made on a handle's device.
MADE = {
    "dtype": lambda h: h.to(dtype=torch.float64),
    "device, dtype": lambda h: h.to(h.device, torch.float16),
    "device=, dtype=": lambda h: h.to(device=h.device, dtype=torch.int64),
    "dtype of a plain tensor": lambda h: h.to(PLAIN),
    "dtype of its kind": lambda h: h.to(h.new_zeros(1, dtype=torch.bfloat16)),
    "copy": lambda h: h.to(h.device, copy=True),
    "copy and dtype": lambda h: h.to("cpu", torch.float64, True, True),
    "what is copied is apart": lambda h: (h.to(h.device, copy=True).add_(1), h)[1],
    "what is not is the same": lambda h: (h.to(h.device).add_(1), h)[1],
    "type": lambda h: h.type(torch.int32),
    "type by name": lambda h: h.type("torch.DoubleTensor"),
    "type by class": lambda h: h.type(torch.LongTensor),
    "type_as": lambda h: h.type_as(LABELS),
    "spoken": lambda h: h.half().double().int().long().bool().bfloat16().float(),
    "layout stays": lambda h: h.t().to(h.device, torch.float64),
    "new_zeros": lambda h: h.new_zeros(2, 2, device=h.device),
    "new_full": lambda h: h.new_full((2,), 3, dtype=torch.int64, device=h.device),
    "new_tensor": lambda h: h.new_tensor([1.0, 2.0], device=h.device),
    "zeros_like": lambda h: torch.zeros_like(h, device=h.device),
    "empty_like": lambda h: torch.empty_like(h, device=h.device, dtype=torch.float64).fill_(2),
    "zeros": lambda h: h + torch.zeros(2, 3, device=h.device),
    "arange": lambda h: h * torch.arange(3, device=h.device).to(h.dtype),
    "eye": lambda h: h @ torch.eye(3, device=h.device, dtype=h.dtype),
    "cat": lambda h: torch.cat([h, torch.zeros(1, 3, device=h.device, dtype=h.dtype)]),
    "where": lambda h: torch.where(h > 2, h, torch.tensor(0.0, device=h.device)),
    "causal mask": lambda h: h.masked_fill(torch.triu(torch.ones(2, 3, dtype=torch.bool), 1).to(h.device), -math.inf),
    "additive mask": lambda h: (1.0 - (h > 2).to(h.dtype)) * torch.finfo(h.dtype).min,
    "positions": lambda h: h.gather(1, torch.arange(2, device=h.device).unsqueeze(0).expand(1, 2).to(h.device)),
    "labels": lambda h: F.cross_entropy(h, LABELS.to(h.device)),
    "labels there": lambda h: F.cross_entropy(h, (h[:, 0] * 0 + 1).long().to(h.device)),
    "devices agree": lambda h: h if h.device == torch.zeros(1, device=h.device).device and not h.is_cuda else None,
}  # fmt: skip


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("name", MADE)
def test_casts_copies_and_what_is_made_beside(session, name, inference):
    with torch.inference_mode(inference):
        want, found = MADE[name](X.clone()), MADE[name](session.send(X))
        assert isinstance(found, rpc.RPCTensor)
        torch.testing.assert_close(found.publish(), want, rtol=0, atol=1e-6)
        assert found.stride() == want.stride()


@pytest.mark.parametrize("inference", [False, True])
def test_a_plain_tensor_goes_where_a_handle_is(session, inference):
    with torch.inference_mode(inference):
        h = session.send(X)
        assert LABELS.to(h.device) is LABELS
        for made in (LABELS.to(h), LABELS.type_as(h), LABELS.to(h.device, h.dtype)):
            assert type(made) is torch.Tensor and torch.equal(made, LABELS.float())


def test_gradients_pass(session):
    h = session.send(X).requires_grad_()
    assert h.to(h.device) is h
    (h.to(h.device, torch.float64, copy=True) * 2).to(device=h.device, dtype=torch.float32).sum().backward()
    assert torch.equal(h.grad.publish(), torch.full((2, 3), 2.0))


ELSEWHERE = {
    "cuda": lambda h: h.to("cuda"),
    "cuda=": lambda h: h.to(device="cuda:1", dtype=torch.float16),
    "meta": lambda h: h.to(torch.device("meta")),
    "like": lambda h: h.to(torch.empty(1, device="meta")),
    "like=": lambda h: h.to(tensor=torch.empty(1, device="meta")),
    "copy": lambda h: h.to("meta", copy=True),
    "cpu()": lambda h: h.cpu(),
    "cuda()": lambda h: h.cuda(),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_elsewhere_is_refused(session, name):
    with pytest.raises(rpc.ValueAccessError, match=r"call \.publish\(\)"):
        ELSEWHERE[name](session.send(X))


def test_a_device_that_does_not_exist_is_torchs_error(session):
    with pytest.raises(RuntimeError, match="Expected one of cpu, cuda"):
        session.send(X).to("nonsense")


class Attention(nn.Module):
    """Self-attention as in public models, with masks and positions made on the input's device."""

    def __init__(self, size: int = 8, longest: int = 6) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(11, size), nn.Embedding(longest, size)
        self.qkv, self.head = nn.Linear(size, 3 * size), nn.Linear(size, 11)
        self.register_buffer("causal", torch.tril(torch.ones(longest, longest)).bool())
        self.register_buffer("scale", torch.tensor(size**-0.5).to(torch.float32), persistent=False)

    def forward(self, ids, attention_mask=None, labels=None):
        device, n = ids.device, ids.shape[1]
        if attention_mask is None:
            attention_mask = torch.ones(ids.shape, device=device)
        positions = torch.arange(n, dtype=torch.long, device=device).unsqueeze(0)
        x = self.embed(ids.to(self.embed.weight.device)) + self.place(positions)
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = (q @ k.mT) * self.scale.to(q.dtype)
        extra = (1.0 - attention_mask[:, None, :].to(dtype=scores.dtype, device=scores.device)) * -1e4
        scores = scores.masked_fill(~self.causal[:n, :n].to(scores.device), torch.finfo(scores.dtype).min) + extra
        out = torch.zeros_like(x, device=x.device) + scores.softmax(-1, dtype=torch.float32).to(q.dtype) @ v
        logits = self.head(out.type_as(self.head.weight))
        if labels is None:
            return logits
        labels = labels.to(logits.device)
        return F.cross_entropy(logits[:, :-1].reshape(-1, 11).float(), labels[:, 1:].reshape(-1).to(torch.long))


def gradients(model):
    return {name: p.grad for name, p in model.named_parameters()}


@pytest.mark.parametrize("where", ["all there", "ids here", "moved again", "double"])
def test_a_model_as_people_write_them(session, where):
    torch.manual_seed(0)
    model = Attention()
    ids = torch.randint(11, (2, 5))
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    if where == "double":
        model.double()
    model(ids, mask, ids).backward()
    want = gradients(model)
    model.zero_grad()
    remote = session.module(model)
    parameters = dict(remote.named_parameters())
    if where in ("moved again", "double"):
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        assert remote.to(device) is remote
        assert remote.to(device=device, dtype=torch.float64 if where == "double" else torch.float32) is remote
        assert remote.to("cpu", non_blocking=True) is remote
        assert all(p is parameters[name] for name, p in remote.named_parameters())
    given = [ids, mask, ids] if where == "ids here" else session.send([ids, mask, ids])
    device = next(remote.parameters()).device
    remote(*[t.to(device) for t in given]).backward()
    for name, grad in gradients(remote).items():
        torch.testing.assert_close(grad.publish(), want[name])


def test_modules_are_cast_and_not_moved_away(session):
    module = session.module(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    assert module.to(torch.device("cpu"), torch.float64) is module
    assert {t.dtype for t in module.state_dict().values()} == {torch.float64, torch.int64}
    assert all(isinstance(p, rpc.RPCTensor) for p in module.parameters())
    module(session.send(torch.ones(3, 2, dtype=torch.float64)).to(module[0].weight)).sum().backward()
    before = [p.detach().clone() for p in module.parameters()]
    optimizer.step()  # the optimizer was made before the cast, and has the same parameters
    assert not torch.equal(before[-1].publish(), module[1].bias.publish())
    for away in (lambda: module.to("meta"), lambda: module.cuda(), lambda: module.cpu()):
        with pytest.raises(rpc.ValueAccessError, match="publish"):
            away()
