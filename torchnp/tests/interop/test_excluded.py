"""Ops that the table excludes but plain dense programs use still work under `NumpyMode`."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from torchnp.interop import NumpyMode

MASK = torch.tensor([[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]]).bool()


def on_both(run, **options):
    torch.manual_seed(0)
    expected = run()
    torch.manual_seed(0)
    with NumpyMode(**options) as mode:
        return expected, run(), mode


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("crosscheck", [False, True])
def test_encoder_takes_a_padding_mask_in_eval(crosscheck):
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model, x = nn.TransformerEncoder(layer, 2).eval(), torch.randn(2, 5, 8)
    with torch.no_grad():
        expected, got, _ = on_both(lambda: model(x, src_key_padding_mask=MASK), crosscheck=crosscheck)
    torch.testing.assert_close(got[~MASK], expected[~MASK])
    assert torch.backends.mha.get_fastpath_enabled()


@pytest.mark.parametrize(("optimizer", "options"), [("SparseAdam", {"lr": 0.1}), ("SGD", {"lr": 0.1}), ("Adagrad", {})])
def test_sparse_gradients_of_embeddings_train(optimizer, options):
    def train():
        table = nn.Embedding(10, 3, sparse=True)
        step = getattr(torch.optim, optimizer)(table.parameters(), **options)
        for _ in range(3):
            step.zero_grad()
            table(torch.tensor([1, 2, 1, 5])).pow(2).sum().backward()
            step.step()
        return table.weight.detach()

    expected, got, mode = on_both(train)
    torch.testing.assert_close(got, expected)
    summary = mode.summary()
    assert summary["sparse"]["calls"] > 0
    assert mode.calls["aten::embedding"] == 3
    assert mode._sparse["aten::embedding"] == 0  # the kernel computes the values, and torch only the gradients


def test_bags_have_sparse_gradients():
    bag = nn.EmbeddingBag(10, 3, sparse=True, mode="sum")

    def gradient():
        bag.weight.grad = None
        bag(torch.tensor([1, 2, 1, 5]), torch.tensor([0, 2])).pow(2).sum().backward()
        return bag.weight.grad

    expected, got, _ = on_both(gradient)
    assert got.layout is torch.sparse_coo
    torch.testing.assert_close(got.to_dense(), expected.to_dense())


def test_pinned_memory_is_the_memory():
    with NumpyMode():
        x = torch.randn(3)
        y = x.pin_memory()
    assert y.data_ptr() == x.data_ptr()


def test_set_shares_memory_and_follows_it():
    with NumpyMode():
        x, y = torch.randn(3), torch.zeros(2, 3)
        x.set_(y, 1, (2, 2), (3, 1))
        x.add_(1)
        torch.randn(2).set_()
    assert y.tolist() == [[0, 1, 1], [0, 1, 1]]


@pytest.mark.parametrize("kind", ["default_fused_per_channel_wt_fake_quant", "default_fused_act_fake_quant"])
def test_observers_that_have_not_begun_grow(kind):
    import torch.ao.quantization as quantization

    def train():
        fake = getattr(quantization, kind)()
        x = torch.linspace(-3, 3, 24).reshape(4, 6).requires_grad_()
        y = fake(x)
        y.pow(2).sum().backward()
        return y.detach(), x.grad, fake.scale, fake.activation_post_process.min_val

    expected, got, _ = on_both(train, crosscheck=True)
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a, b)
