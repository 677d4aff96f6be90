"""Both sides of each size at which a loaded program switches to another path: the threshold is set above and below a
model's sizes."""

import io

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import torchnp
from torchnp.thresholds import thresholds

KEYS = [key for key in thresholds() if key[0].startswith("torchnp.runtime.")]
ABOVE, BELOW = 1 << 40, 1


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 40, 5, padding=2), nn.Conv2d(40, 48, 3, padding=1)
        self.third, self.points = nn.Conv2d(48, 48, 3, padding=1), nn.Conv2d(48, 7, 1)

    def forward(self, x):
        x = F.max_pool2d(self.first(x).relu(), 2)
        return self.points(self.third(self.second(x).relu()).sigmoid() * 2 - 1)


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out, self.rnn = nn.Linear(32, 96), nn.Linear(32, 32), nn.LSTM(32, 32, batch_first=True)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (4, 8)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        return self.rnn(F.gelu(self.out(y), approximate="tanh") + x)[0]


def saved(module, x):
    file = io.BytesIO()
    torch.export.save(torch.export.export(module, (x,)), file)
    return file.getvalue()


@pytest.fixture(scope="module")
def models():
    torch.manual_seed(0)
    found = []
    for module, x in ((Images(), torch.randn(2, 3, 30, 34)), (Words(), torch.randn(3, 70, 32))):
        with torch.no_grad():
            wanted = module.eval()(x).numpy()
            truth = module.double()(x.double()).numpy()
            found.append((saved(module.float(), x), x.numpy(), truth, np.abs(wanted - truth).max()))
    return found


@pytest.mark.parametrize("limit", [BELOW, ABOVE], ids=["above it", "below it"])
@pytest.mark.parametrize("key", KEYS, ids=lambda key: f"{key[0].rpartition('.')[2]}{key[1]}")
def test_both_sides(key, limit, models, monkeypatch):
    monkeypatch.setattr(f"{key[0]}.{key[1]}", limit)
    for data, x, truth, torchs in models:
        found = torchnp.load(io.BytesIO(data))(x)
        assert found.dtype == np.float32 and np.abs(found - truth).max() <= max(8 * torchs, 3e-6)


def test_the_sizes_matter(models, monkeypatch):
    """The paths differ, and so do some bits."""
    data, x, _, _ = models[0]
    before = torchnp.load(io.BytesIO(data))(x)
    monkeypatch.setattr("torchnp.runtime.fast_conv_pooling._TAPS", ABOVE)
    assert torchnp.load(io.BytesIO(data))(x).tobytes() != before.tobytes()
