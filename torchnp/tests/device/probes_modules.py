"""Modules moved to the device ``np`` and back, as to CUDA: probes like those of probes.py."""

from __future__ import annotations

import copy
import gc
import weakref

import torch
import torch.nn.functional as F
from torch import nn

from torchnp.tests.device.probes import D, raises, run, same


class Tied(nn.Module):
    """A small language model whose head and embedding share one parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 6)
        self.norm = nn.BatchNorm1d(6)
        self.head = nn.Linear(6, 11, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        return self.head(self.norm(self.embedding(tokens)))


def _step(model, device):
    tokens = torch.tensor([0, 3, 5, 3, 10, 2], device=device)
    loss = F.cross_entropy(model(tokens), tokens.roll(1))
    loss.backward()
    return loss


# ---------------------------------------------------------------- the same objects


def the_parameters_are_the_same_objects():
    model = Tied()
    before = dict(model.named_parameters())
    for move in (
        lambda m: m.to(D),
        lambda m: m.half(),
        lambda m: m.to("cpu"),
        lambda m: m.np(),
        lambda m: m.to(D, torch.float64),
        lambda m: m.cpu(),
        lambda m: m.to(torch.empty(0, device=D)),
        lambda m: m.to(device=D, dtype=torch.float32),
    ):
        move(model)
        assert all(p is before[name] for name, p in model.named_parameters())
        assert model.head.weight is model.embedding.weight
        assert all(p.is_leaf and p.requires_grad and type(p) is nn.Parameter for p in model.parameters())
    assert {t.device.type for t in model.state_dict().values()} == {D}


def tied_weights_train_as_on_the_cpu():
    torch.manual_seed(0)
    here = Tied()
    there = copy.deepcopy(here).to(D)
    for model, device in ((here, "cpu"), (there, D)):
        optimizer = torch.optim.SGD(model.parameters(), 0.5)
        for _ in range(3):
            optimizer.zero_grad()
            _step(model, device)
            optimizer.step()
    assert torch.equal(there.head.weight, there.embedding.weight)
    same(there.head.weight.cpu(), here.head.weight)


def an_optimizer_from_before_trains():
    for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW):
        torch.manual_seed(0)
        here, there = nn.Linear(3, 2), nn.Linear(3, 2)
        there.load_state_dict(here.state_dict())
        x = torch.randn(5, 3)
        ends = []
        for model, device in ((here, "cpu"), (there, D)):
            optimizer = kind(model.parameters(), 0.1)
            model.to(device)
            for _ in range(3):
                optimizer.zero_grad()
                model(x.to(device)).square().sum().backward()
                optimizer.step()
            ends.append(model.weight.detach().cpu())
        same(ends[1], ends[0])


def lazy_modules_before_their_first_input():
    for module, shape in (
        (nn.LazyLinear(4), (2, 3)),
        (nn.LazyConv2d(2, 3), (1, 3, 5, 5)),
        (nn.LazyBatchNorm1d(), (4, 3)),
    ):
        weight = module.weight
        optimizer = torch.optim.SGD(module.parameters(), 0.1)
        module.to(D)
        assert module.weight is weight and weight.device.type == D
        module(torch.ones(shape, device=D)).sum().backward()
        assert module.weight is weight and weight.grad.device.type == D
        optimizer.step()
    twice = nn.LazyLinear(4)
    twice.to(D).cpu()
    assert twice(torch.ones(2, 3)).device.type == "cpu"


def gradients_and_buffers_move():
    model = Tied()
    _step(model, "cpu")
    grads = {name: p.grad for name, p in model.named_parameters()}
    want = {name: g.clone() for name, g in grads.items()}
    model.to(D)
    for name, p in model.named_parameters():
        assert p.grad is grads[name] and p.grad.device.type == D
        same(p.grad.cpu(), want[name])
    assert {b.device.type for b in model.buffers()} == {D} and model.norm.num_batches_tracked.dtype == torch.int64
    _step(model, D)
    model.cpu()
    assert all(p.grad is grads[name] and p.grad.device.type == "cpu" for name, p in model.named_parameters())
    _step(model, "cpu")


def hooks_stay():
    model = nn.Linear(3, 2)
    seen = []
    model.weight.register_hook(lambda g: g * 10)
    model.weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.device.type))
    model.register_forward_hook(lambda module, args, result: seen.append(result.device.type))
    for device in ("cpu", D, "cpu"):
        model.to(device)
        model.weight.grad = None
        model(torch.ones(1, 3, device=device)).sum().backward()
        same(model.weight.grad.cpu(), torch.full((2, 3), 10.0))
    assert seen == ["cpu", "cpu", D, D, "cpu", "cpu"]


def a_weak_reference_and_a_live_graph_do_not_stop_a_move():
    model = nn.Linear(3, 2)
    there = weakref.ref(model.weight)
    y = model(torch.ones(1, 3, requires_grad=True)).exp()  # saves the weight for the gradient
    model.to(D)
    assert there() is model.weight and y.device.type == "cpu"
    model(torch.ones(1, 3, device=D)).sum().backward()
    assert model.weight.grad.device.type == D


def memory_of_the_old_place_is_freed():
    model = nn.Linear(30, 20)
    old = weakref.ref(model.weight.untyped_storage())
    model.to(D)
    gc.collect()
    assert old() is None
    old = weakref.ref(model.weight.untyped_storage().array)
    model.cpu()
    gc.collect()
    assert old() is None


# ---------------------------------------------------------------- ``.data``


def data_is_set_between_devices():
    for start, end in (("cpu", D), (D, "cpu"), (D, D)):
        p = nn.Parameter(torch.ones(3, device=start))
        version = p._version
        p.data = torch.full((2, 2), 2.0, device=end)
        assert p.device.type == end and p._version == version and p.is_leaf and p.requires_grad
        p.square().sum().backward()
        same(p.grad.cpu(), torch.full((2, 2), 4.0))
    with torch.inference_mode():
        x = torch.ones(3)
        x.data = torch.zeros(3, device=D)
        assert x.device.type == D
    raises(RuntimeError, "incompatible tensor type", lambda: setattr(p, "data", torch.empty(3, device="meta")))


def results_are_freed_without_a_backward():
    w = torch.rand(4, 5, device=D, requires_grad=True)
    gc.collect()
    gc.disable()
    try:
        for name in (
            "exp",
            "relu",
            "sigmoid",
            "tanh",
            "sqrt",
            "softmax",
            "cumprod",
            "logsumexp",
            "amax",
            "prod",
            "silu",
        ):
            function = F.silu if name == "silu" else getattr(torch, name)
            result = function(w, 1) if name in ("softmax", "cumprod", "logsumexp") else function(w)
            storage = weakref.ref(result.untyped_storage())
            del result
            assert storage() is None, name
    finally:
        gc.enable()


# ---------------------------------------------------------------- torch.__future__, state dicts


def overwriting_and_swapping():
    for option in ("overwrite", "swap"):
        setting = getattr(torch.__future__, f"set_{option}_module_params_on_conversion")
        setting(True)
        try:
            model = Tied()
            weight = model.norm.weight
            model.to(D)
            assert model.norm.weight.device.type == D
            assert (model.norm.weight is weight) == (option == "swap")
            assert weight.device.type == (D if option == "swap" else "cpu")
        finally:
            setting(False)


def state_dicts_are_loaded():
    here, there = Tied(), Tied().to(D)
    weight = there.norm.weight
    there.load_state_dict(here.state_dict())
    assert there.norm.weight is weight and weight.device.type == D
    same(there.head.weight.cpu(), here.head.weight)
    there.load_state_dict(here.state_dict(), assign=True)
    assert there.norm.weight is not weight and there.norm.weight.device.type == "cpu"
    with torch.device("meta"):
        empty = Tied()
    empty.to_empty(device=D).load_state_dict(here.state_dict())
    same(empty.head.weight.cpu(), here.head.weight)
    optimizer = torch.optim.Adam(there.parameters())
    _step(there, "cpu")
    optimizer.step()
    there.to(D)
    optimizer.load_state_dict(optimizer.state_dict())
    assert optimizer.state[there.norm.weight]["exp_avg"].device.type == D


def shared_storages_of_parts():
    """As on CUDA, views of one storage are separate tensors after a move, but a parameter used in two places stays
    one."""
    flat = nn.Parameter(torch.arange(6.0))
    model = nn.ParameterList([flat, flat])
    model.to(D)
    assert model[0] is flat and model[1] is flat
    lstm = nn.LSTM(2, 3)
    weights = list(lstm._flat_weights)
    lstm.to(D)
    assert all(a is b for a, b in zip(lstm._flat_weights, weights, strict=True)) and weights[0] is lstm.weight_ih_l0
    same(lstm(torch.ones(4, 1, 2, device=D))[0].cpu(), copy.deepcopy(lstm).cpu()(torch.ones(4, 1, 2))[0])


def parametrized_and_normed():
    torch.manual_seed(0)
    for wrap in (nn.utils.parametrizations.weight_norm, nn.utils.parametrizations.spectral_norm):
        model = wrap(nn.Linear(3, 2))
        parameters = list(model.parameters())
        model.to(D)
        assert all(a is b for a, b in zip(model.parameters(), parameters, strict=True))
        model(torch.ones(1, 3, device=D)).sum().backward()
        assert all(p.grad.device.type == D for p in parameters if p.grad is not None)


# ---------------------------------------------------------------- transformers in eval


def encoders_of_padded_sequences():
    torch.manual_seed(0)
    x = torch.randn(2, 5, 16)
    left = torch.tensor([[False, False, False, True, True], [False, False, False, False, True]])
    gaps = torch.tensor([[False, True, False, True, True], [False, False, False, False, True]])
    padding = left, torch.zeros(2, 5).masked_fill(left, float("-inf")), gaps, torch.zeros(2, 5, dtype=torch.bool), None
    for options in ({}, {"mask_check": False}, {"enable_nested_tensor": False}, {"norm": nn.LayerNorm(16)}):
        layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, activation="gelu")
        here = nn.TransformerEncoder(layer, 2, **options).eval()
        there = copy.deepcopy(here).to(D)
        for grad in (torch.no_grad, torch.inference_mode, torch.enable_grad):
            for mask in padding:
                with grad():
                    want = here(x, src_key_padding_mask=mask)
                    got = there(x.to(D), src_key_padding_mask=None if mask is None else mask.to(D))
                same(got.cpu(), want, rtol=1e-5, atol=1e-5)
        assert there.use_nested_tensor == here.use_nested_tensor and (there.norm is None) == (here.norm is None)


def nested_tensors_are_refused():
    x, mask = torch.ones(2, 3, 4, device=D), torch.ones(2, 3, dtype=torch.bool, device=D)
    raises(RuntimeError, "the device np has no nested tensors", lambda: torch._nested_tensor_from_mask(x, mask))


if __name__ == "__main__":
    run(globals())
